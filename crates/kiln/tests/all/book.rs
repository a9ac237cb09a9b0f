//! The book as a whole: its list of pages, its links, and the pages that list what sources have.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// More than any page should have: one idea each.
const MOST_LINES: usize = 275;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names of the pages, without `SUMMARY.md`.
fn pages() -> BTreeSet<String> {
    let folder = fs::read_dir(root().join("book/src")).expect("the book is there");
    let names = folder.map(|entry| entry.expect("it can be listed").file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    names.filter(|name| name.ends_with(".md") && name != "SUMMARY.md").collect()
}

/// The targets of a text's links, `page.md#anchor`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The anchors of a page's headings, as mdBook makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut code = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        code ^= line.starts_with("```");
        let title = line.trim_start_matches('#');
        if code || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        found.insert(kept.collect::<String>().to_lowercase().replace(' ', "-"));
    }
    found
}

/// The files of a folder with this ending, but for what is built.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            if !path.ends_with("target") && !path.ends_with(".git") {
                files(&path, ending, found);
            }
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
}

/// The strings of a source that are a name beginning with `KILN_`.
fn variables(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("\"KILN_") {
        let word = text[at + 1..].split('"').next().unwrap_or_default();
        if word.len() > 5 && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_') {
            found.insert(word.to_owned());
        }
    }
    found
}

#[test]
fn the_summary_lists_every_page() {
    let summary = read("book/src/SUMMARY.md");
    let listed: BTreeSet<String> = links(&summary).map(str::to_owned).collect();
    assert_eq!(listed, pages());
}

#[test]
fn the_programs_of_every_page_are_tests() {
    let list = include_str!("../../src/lib.rs");
    for page in pages() {
        let has_programs = read(format!("book/src/{page}")).contains("```rust");
        let is_tested = list.contains(&format!("\"book/src/{page}\""));
        assert!(!has_programs || is_tested, "crates/kiln/src/lib.rs does not include {page}");
    }
}

#[test]
fn links_lead_somewhere() {
    for page in pages().into_iter().chain(["SUMMARY.md".to_owned()]) {
        let text = read(format!("book/src/{page}"));
        for link in links(&text).filter(|link| link.contains(".md") || link.starts_with('#')) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { &page } else { file };
            assert!(root().join("book/src").join(target).exists(), "{page}: no page {link}");
            let is_there = anchor.is_empty() || anchors(&read(format!("book/src/{target}"))).contains(anchor);
            assert!(is_there, "{page}: no heading {link}");
        }
    }
}

#[test]
fn pages_are_short() {
    for page in pages() {
        let lines = read(format!("book/src/{page}")).lines().count();
        assert!(lines <= MOST_LINES, "{page} has {lines} lines: divide it");
    }
}

#[test]
fn every_variable_is_on_its_page() {
    let page = read("book/src/environment.md");
    let mut sources = Vec::new();
    for folder in ["crates", "examples"] {
        files(&root().join(folder), "rs", &mut sources);
    }
    let mut found = BTreeSet::new();
    for path in sources {
        found.extend(variables(&fs::read_to_string(&path).expect("a source")));
    }
    assert!(found.contains("KILN_DEVICE") && found.len() > 15, "{found:?}");
    let missing: Vec<&String> = found.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert_eq!(missing, [""; 0], "book/src/environment.md does not list them");
    let gone: Vec<&str> = page.split('`').filter(|word| word.starts_with("KILN_")).collect();
    let gone: Vec<&str> =
        gone.into_iter().filter(|word| !word.contains('=') && !found.contains(*word)).collect();
    assert_eq!(gone, [""; 0], "no source reads them, and book/src/environment.md lists them");
}

/// What a row says is missing has its reason, or what to do instead.
#[test]
fn porting_tables_have_an_answer_in_each_row() {
    for page in ["from-cuda.md", "from-triton.md", "from-tokio.md", "limits.md"] {
        let text = read(format!("book/src/{page}"));
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
        assert!(rows.len() > 20, "{page} has {} rows", rows.len());
        for row in rows {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            assert!(cells.len() == 2 && cells.iter().all(|cell| !cell.is_empty()), "{page}: {row}");
            let is_bare = cells[1].starts_with("not there") && !cells[1].starts_with("not there: ");
            assert!(!is_bare, "{page} gives no reason: {row}");
        }
    }
}

#[test]
fn every_command_is_on_its_page() {
    let (page, main) = (read("book/src/command-line.md"), read("crates/kiln-cli/src/main.rs"));
    let list = main.split("enum Command {").nth(1).and_then(|rest| rest.split('}').next());
    let commands: Vec<String> = list
        .expect("the commands are an enum")
        .lines()
        .filter_map(|line| line.trim().split_once('(').map(|(name, _)| name.to_lowercase()))
        .collect();
    assert!(commands.len() >= 9, "{commands:?}");
    for command in commands {
        assert!(page.contains(&format!("`kiln {command}")), "command-line.md does not list `kiln {command}`");
    }
}
