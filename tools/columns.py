#!/usr/bin/env python3
"""Finds comments and prose that are too wide.

    tools/columns.py [FILE...]

Without files it reads all that git tracks. Comments of Rust, Python (docstrings too), shell, TOML,
IR text and PTX end by column 100, rows of tables in doc comments included. So does Markdown, but
for rows of tables, which begin with `|`. Fenced code blocks of doc comments and Markdown are code.
A line that is wide because of its code alone is left to the formatter.

Each wide line is printed as `path:line: N columns`. The exit code is 1 if there is one.
"""

import argparse
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 100
# Literals that may hold what looks like a comment come first.
SLASHES = re.compile(
    r"""\bb?r(?P<hashes>\#*)".*?"(?P=hashes)"""
    r"""|"(?:\\.|[^"\\])*"|'(?:\\.[^'\n]*|[^'\\\n])'"""
    r"""|(?P<comment>//[^\n]*|/\*.*?\*/)""",
    re.DOTALL,
)
HASHES = re.compile(r"""'[^'\n]*'|"(?:\\.|[^"\\\n])*"|\\.|(?:^|(?<=\s))(?P<comment>\#[^\n]*)""", re.MULTILINE)
# In tests as IR text `;>` begins what is expected, and `; @` arguments: data, not prose.
SEMICOLONS = re.compile(r"^\s*(?P<comment>;(?!>| @)[^\n]*)", re.MULTILINE)
DOC_COMMENT = re.compile(r"^\s*//[/!] ?")
FENCE = re.compile(r"^\s*(?:```|~~~)")
# An address cannot be broken, nor can a marker in HTML, which programs read.
UNBREAKABLE = re.compile(r"^\s*(?:(?://[/!]?|#|[-*])\s*)?(?:(?:\[[^\]]*\]:\s*)?<?https?://\S+|<!--.*-->)$")


def spanned(text: str, start: int, end: int) -> range:
    """The lines, from 0, that a part of a text stands on."""
    first = text.count("\n", 0, start)
    return range(first, first + text.count("\n", start, end) + 1)


def matched(comments: re.Pattern, text: str) -> set[int]:
    """The lines with a comment, in a language whose comments a pattern finds."""
    spans = [found.span() for found in comments.finditer(text) if found["comment"] is not None]
    return {line for span in spans for line in spanned(text, *span)}


def python(text: str) -> set[int]:
    """The lines with a comment or a docstring."""
    found: set[int] = set()
    begins = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            found.add(token.start[0] - 1)
        elif token.type == tokenize.STRING and begins:
            found |= set(range(token.start[0] - 1, token.end[0]))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return found


def unfenced(lines: list[str], prefix: re.Pattern | None) -> set[int]:
    """The lines outside of fenced code. With a prefix, fences stand in lines that begin with it."""
    found, fenced = set(), False
    for number, line in enumerate(lines):
        start = prefix.match(line) if prefix else None
        if prefix and not start:
            fenced = False
        elif FENCE.match(line[start.end() :] if start else line):
            fenced = not fenced
        if not fenced:
            found.add(number)
    return found


def prose(path: Path, text: str) -> set[int]:
    """The lines of a file, from 0, that hold prose."""
    lines = text.split("\n")
    match path.suffix:
        case ".md":
            return {line for line in unfenced(lines, None) if not lines[line].startswith("|")}
        case ".rs":
            return matched(SLASHES, text) & unfenced(lines, DOC_COMMENT)
        case ".ptx":
            return matched(SLASHES, text)
        case ".kir":
            return matched(SEMICOLONS, text)
        case ".py":
            return python(text)
        case ".sh" | ".toml":
            return matched(HASHES, text)
        case "":
            return matched(HASHES, text) if text.startswith("#!") else set()
        case _:
            return set()


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="all that git tracks without")
    options = parser.parse_args()
    known = {".md", ".rs", ".ptx", ".kir", ".py", ".sh", ".toml", ""}
    total = 0
    for path in options.files or tracked():
        if path.suffix not in known or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.split("\n")
        for line in sorted(prose(path, text)):
            if len(lines[line]) > COLUMNS and not UNBREAKABLE.match(lines[line]):
                total += 1
                shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
                print(f"{shown}:{line + 1}: {len(lines[line])} columns")
    print(f"{total} wide lines")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
