"""Tests of examples.py: python3 -m unittest discover -s tools"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parent / "examples.py"


def code(text: str) -> str:
    return f'<div class="example-wrap"><pre class="rust rust-example-rendered"><code>{text}</code></pre></div>'


def source(line: int) -> str:
    return f'<a class="src rightside" href="../src/kiln_a/b.rs.html#{line}">Source</a>'


def method(name: str, line: int, docs: str = "", kind: str = "method") -> str:
    return f'<section id="{kind}.{name}" class="method">{source(line)}</section><div>{docs}</div>'


def run(pages: dict[str, str], *options: str) -> tuple[int, list[str]]:
    """The exit code, and what is printed, for the pages of a crate."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {"index.html": "", **pages}.items():
            path = Path(folder, "kiln_a", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        command = [sys.executable, str(TOOL), *options, folder, "kiln-a"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()


class Examples(unittest.TestCase):
    def finds(self, pages: dict[str, str], *missing: str) -> None:
        expected = [*missing, f"{len(missing)} public items without an example"]
        self.assertEqual(run(pages), (1 if missing else 0, expected))

    def test_code_in_its_own_documentation_is_an_example(self) -> None:
        self.finds({"fn.one.html": source(3) + code("two();")})
        self.finds({"fn.one.html": source(3) + "<p>one()</p>"}, "kiln_a::one  kiln_a/b.rs:3")

    def test_code_of_the_module_or_the_crate_names_it(self) -> None:
        page = {"c/fn.one.html": source(3)}
        self.finds(page | {"c/index.html": code("<span>one</span>();")})
        self.finds(page | {"index.html": code("one();")})
        self.finds(page | {"index.html": code("someone();")}, "kiln_a::c::one  kiln_a/b.rs:3")

    def test_methods_are_named_by_code_of_their_type(self) -> None:
        methods = '<section id="impl-T" class="impl"></section>' + method("f", 5) + method("g", 7)
        self.finds({"struct.T.html": source(1) + code("T.f();") + methods}, "kiln_a::T::g  kiln_a/b.rs:7")
        shown = source(1) + code("T") + method("f", 5, code("x")) + method("g", 7, kind="tymethod")
        self.finds({"trait.T.html": shown}, "kiln_a::T::g  kiln_a/b.rs:7")

    def test_what_is_implemented_of_traits_needs_none(self) -> None:
        rest = '<h2 id="trait-implementations">' + method("clone", 9)
        self.finds({"struct.T.html": source(1) + code("T") + rest})

    def test_constants_and_items_of_other_crates_need_none(self) -> None:
        foreign = '<a class="src" href="../src/half/lib.rs.html#1">'
        self.finds({"constant.C.html": source(1), "struct.f16.html": foreign})

    def test_as_many_as_are_allowed(self) -> None:
        code, _ = run({"fn.one.html": source(3)}, "--most", "1")
        self.assertEqual(code, 0)

    def test_a_crate_without_documentation_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(TOOL), folder, "kiln-a"]
            self.assertEqual(subprocess.run(command, capture_output=True, check=False).returncode, 1)


if __name__ == "__main__":
    unittest.main()
