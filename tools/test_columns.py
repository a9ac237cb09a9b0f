"""Tests of columns.py: python3 -m unittest discover -s tools"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parent / "columns.py"
WIDE = "word " * 20 + "end"


def run(name: str, text: str) -> tuple[int, list[str]]:
    """The exit code, and what is printed of a file of this name: the lines without its path."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_text(text)
        command = [sys.executable, str(TOOL), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = done.stdout.replace(f"{path}:", "").splitlines()
        return done.returncode, lines


class Columns(unittest.TestCase):
    def finds(self, name: str, text: str, *wide: str) -> None:
        expected = [*wide, f"{len(wide)} wide lines"]
        self.assertEqual(run(name, text), (1 if wide else 0, expected))

    def test_a_comment_may_end_in_column_100(self) -> None:
        self.finds("a.rs", "// " + "x" * 97 + "\n")
        self.finds("a.rs", "// " + "x" * 98 + "\n", "1: 101 columns")

    def test_comments_of_rust_are_found_and_code_is_not(self) -> None:
        self.finds("a.rs", f"//! {WIDE}\nfn f() {{\n    g(); // {WIDE}\n}}\n", "1: 107 columns", "3: 115 columns")
        self.finds("a.rs", f'fn f() -> &str {{\n    "// {WIDE}"\n}}\n')
        self.finds("a.rs", f'const A: char = \'"\'; // short\nconst B: &str = r#"" // {WIDE}"#;\n')
        self.finds("a.rs", f"/*\n{WIDE}{WIDE}\n*/\nfn f() {{}}\n", "2: 206 columns")

    def test_a_lifetime_does_not_begin_a_literal(self) -> None:
        self.finds("a.rs", f"fn f<'a>(x: &'a str) {{}} // {WIDE}\n", "1: 130 columns")

    def test_tables_in_doc_comments_are_comments_and_code_blocks_are_code(self) -> None:
        self.finds("a.rs", f"//! | {WIDE} |\n", "1: 111 columns")
        self.finds("a.rs", f"/// ```text\n/// {WIDE}\n/// ```\n/// {WIDE}\nstruct S;\n", "4: 107 columns")

    def test_prose_of_markdown_is_found_and_tables_and_code_are_not(self) -> None:
        self.finds("a.md", f"- {WIDE}\n\n| {WIDE} |\n\n```text\n{WIDE}\n```\n", "1: 105 columns")

    def test_addresses_and_markers_have_no_place_to_break(self) -> None:
        self.finds("a.md", f"[a]: https://{'x' * 100}\n<!-- bench:a rows={'x' * 100} -->\n")

    def test_comments_and_docstrings_of_python_are_found(self) -> None:
        text = f'"""{WIDE}"""\n\nX = "# {WIDE}"\n\n\ndef f():\n    """Short.\n\n    {WIDE}\n    """\n    return 1  # {WIDE}\n'
        self.finds("a.py", text, "1: 109 columns", "9: 107 columns", "11: 119 columns")

    def test_comments_of_shell_and_toml_are_found(self) -> None:
        self.finds("a.sh", f'echo "# {WIDE}" ${{#a}}\n# {WIDE}\n', "2: 105 columns")
        self.finds("a.toml", f'a = "# {WIDE}"\n  # {WIDE}\n', "2: 107 columns")

    def test_files_without_a_suffix_are_scripts_if_they_say_so(self) -> None:
        self.finds("run", f"#!/bin/sh\n# {WIDE}\n", "2: 105 columns")
        self.finds("LICENSE", f"# {WIDE}\n")

    def test_expectations_in_tests_as_text_are_data(self) -> None:
        self.finds("a.kir", f"; {WIDE}\n;> {WIDE}\n; @arg {WIDE}\n", "1: 105 columns")


if __name__ == "__main__":
    unittest.main()
