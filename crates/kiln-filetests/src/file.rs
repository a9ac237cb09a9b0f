//! The format of test files: a command, then cases of a kernel and what the command says about it.
//!
//! ```text
//! ; test COMMAND ARGUMENTS
//! ; any comment
//!
//! ; @grid 2 1 1
//! kernel @a() tile {
//! }
//! ;> the expected output, line by line
//! ```
//!
//! A case begins behind the expected output of the one before, and holds directives (`; @…`),
//! comments and one kernel.

use std::fmt::Write;

const OUTPUT: &str = ";>";

/// A test file, taken apart.
#[derive(Clone, Debug)]
pub struct TestFile {
    /// The words behind `; test`.
    pub command: Vec<String>,
    /// The cases, in order.
    pub cases: Vec<TestCase>,
}

/// One case of a test file.
#[derive(Clone, Debug)]
pub struct TestCase {
    /// All text before the expected output: comments, directives, the kernel.
    pub text: String,
    /// The line of the file on which the text begins, from 1.
    pub line: usize,
    /// The directives: the words behind each `; @`.
    pub directives: Vec<String>,
    /// The expected output.
    pub expected: String,
}

impl TestFile {
    /// Takes a file apart.
    ///
    /// # Errors
    /// A sentence on what is missing.
    pub fn new(text: &str) -> Result<TestFile, String> {
        let command = text.lines().next().and_then(|l| l.strip_prefix("; test "));
        let command = command.ok_or("the first line is not `; test COMMAND`")?;
        let mut cases: Vec<TestCase> = Vec::new();
        let mut in_output = true;
        for (number, line) in text.lines().enumerate() {
            if let Some(output) = line.strip_prefix(OUTPUT) {
                let case = cases.last_mut().ok_or("output stands before any kernel")?;
                case.expected += output.strip_prefix(' ').unwrap_or(output);
                case.expected += "\n";
                in_output = true;
                continue;
            }
            if std::mem::take(&mut in_output) {
                cases.push(TestCase {
                    text: String::new(),
                    line: number + 1,
                    directives: Vec::new(),
                    expected: String::new(),
                });
            }
            if let Some(case) = cases.last_mut() {
                case.text += line;
                case.text += "\n";
                case.directives.extend(line.strip_prefix("; @").map(str::to_owned));
            }
        }
        // Blank lines at the end are not a case, nor is what stands before the first.
        cases.retain(|case| case.text.lines().any(|l| !l.is_empty() && !l.starts_with(';')));
        Ok(TestFile { command: command.split_whitespace().map(str::to_owned).collect(), cases })
    }
}

/// The file with outputs in the place of the expected ones.
pub fn bless(file: &TestFile, outputs: &[String]) -> String {
    let mut text = String::new();
    for (case, output) in file.cases.iter().zip(outputs) {
        text += &case.text;
        for line in output.lines() {
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "{}", format!("{OUTPUT} {line}").trim_end());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "; test verify all\n; about\n\nkernel @a() tile {\n}\n;> ok\n\n; @grid 2\nkernel @b() tile {\n}\n;> one\n;>\n;> two\n";

    #[test]
    fn a_file_comes_apart_and_together() {
        let file = TestFile::new(TEXT).unwrap();
        assert_eq!(file.command, ["verify", "all"]);
        assert_eq!(file.cases.len(), 2);
        assert_eq!(file.cases[1].directives, ["grid 2"]);
        assert_eq!(file.cases[1].expected, "one\n\ntwo\n");
        assert_eq!(file.cases[1].line, 7);
        let outputs: Vec<String> = file.cases.iter().map(|c| c.expected.clone()).collect();
        assert_eq!(bless(&file, &outputs), TEXT);
    }
}
