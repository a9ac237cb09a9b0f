"""Tests of circles.py: python3 -m unittest discover -s tools"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parent / "circles.py"


def run(files: dict[str, str], *options: str) -> tuple[int, str]:
    """The exit code and the output for a workspace with one crate of these files."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = Path(root, "crates", "made-up", "src", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        command = [sys.executable, str(TOOL), "--root", root, *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


CIRCLE = {
    "lib.rs": "mod a;\nmod b;\n",
    "a.rs": "use crate::b::B;\npub struct A(B);\n",
    "b.rs": "use crate::a::A;\npub struct B;\nimpl B { fn of(_: &A) {} }\n",
}
LINE = {**CIRCLE, "b.rs": "pub struct B;\n"}


class Circles(unittest.TestCase):
    def test_two_files_that_import_each_other_are_found(self) -> None:
        code, text = run(CIRCLE, "--edges")
        self.assertEqual(code, 1)
        self.assertIn("made-up: 2 of 3 files: a.rs b.rs\n", text)
        self.assertIn("    b.rs -> a.rs: A\n", text)

    def test_files_that_import_one_way_are_no_circle(self) -> None:
        self.assertEqual(run(LINE), (0, "0 circles\n"))

    def test_a_module_and_its_own_children_are_no_circle(self) -> None:
        files = {
            "lib.rs": "mod a;\n",
            "a/mod.rs": "mod child;\npub use child::Child;\npub struct Shared;\n",
            "a/child.rs": "use super::Shared;\npub struct Child(Shared);\n",
        }
        self.assertEqual(run(files), (0, "0 circles\n"))

    def test_a_circle_through_a_reexport_is_found(self) -> None:
        files = {
            "lib.rs": "mod a;\nmod b;\n",
            "a/mod.rs": "mod child;\npub use child::Child;\n",
            "a/child.rs": "use crate::b::B;\npub struct Child(B);\n",
            "b.rs": "use crate::a::Child;\npub struct B(Option<Box<Child>>);\n",
        }
        code, text = run(files)
        self.assertEqual(code, 1)
        self.assertIn("2 of 4 files: a/child.rs b.rs\n", text)


if __name__ == "__main__":
    unittest.main()
