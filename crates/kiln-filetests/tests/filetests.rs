//! Runs every file under `files/`.

use kiln_filetests::commands;
use kiln_filetests::file::{TestFile, bless};
use std::path::{Path, PathBuf};

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for path in entries.map(|e| e.unwrap().path()) {
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|e| e == "kir") {
            found.push(path);
        }
    }
}

/// Where the first difference is.
fn difference(expected: &str, found: &str) -> String {
    let (mut e, mut f) = (expected.lines(), found.lines());
    for number in 1.. {
        match (e.next(), f.next()) {
            (None, None) => break,
            (e, f) if e == f => {}
            (e, f) => return format!("output line {number}: expected {e:?}, found {f:?}"),
        }
    }
    "the texts differ in their last line break".into()
}

#[test]
fn files_give_what_they_expect() {
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("files"), &mut found);
    found.sort();
    assert!(!found.is_empty());
    let mut failures = Vec::new();
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        let outcome = TestFile::new(&text).and_then(|file| Ok((commands::run(&file)?, file)));
        let (outputs, file) = match outcome {
            Ok(pair) => pair,
            Err(message) => {
                failures.push(format!("{}: {message}", path.display()));
                continue;
            }
        };
        if std::env::var_os("KILN_BLESS").is_some() {
            let blessed = bless(&file, &outputs);
            if blessed != text {
                std::fs::write(&path, blessed).unwrap();
            }
            continue;
        }
        for (case, output) in
            file.cases.iter().zip(&outputs).filter(|(case, output)| case.expected != **output)
        {
            let difference = difference(&case.expected, output);
            failures.push(format!("{}:{}: {difference}", path.display(), case.line));
        }
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}
