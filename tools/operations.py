#!/usr/bin/env python3
"""Finds code that a new operation would pass by in silence.

    tools/operations.py [--count] [CRATE...]

Two things are refused in the sources of a crate, tests aside:

- a `match` over operations with an arm for all the others (`_ =>`, or a name alone): a new
  operation must not compile until every stage has said what it does with it. An arm with a guard
  (`_ if ..`) decides by a property and is allowed;
- outside of kiln-ir, an operand by its position (`operands[1]`): operands have names
  (`kiln-ir/src/operands.rs`).

A match is over operations if one of its patterns names a variant of an enum of operations, by a
path or, in a file that imports them all, alone. The exit code is 1 if anything is found.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The enums of operations, which all stand in kiln-ir.
ENUMS = (
    "OpKind UnaryOp MathFn BinaryOp CompareOp ExplicitOp FragmentOp ClusterOp LinearOp ReduceOp AtomicOp".split()
)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
STRING = re.compile(r'r(#*)".*?"\1|"(?:\\.|[^"\\])*"|\'(?:\\.[^\']*|[^\'\\])\'', re.DOTALL)
UNIT_TESTS = re.compile(r"^#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod\s+\w+\s*\{.*", re.MULTILINE | re.DOTALL)
TEST_MOD = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod\s+(\w+)\s*;")
MATCH = re.compile(r"\bmatch\b")
PATH = re.compile(r"\b(?:" + "|".join(ENUMS) + r")::\w+")
POSITION = re.compile(r"\boperands\s*\[")
OPEN, CLOSE = "([{", ")]}"


def blank(found: re.Match) -> str:
    """As many lines, and nothing else."""
    return '""' + "\n" * found.group().count("\n")


def source(path: Path) -> str:
    text = COMMENT.sub(blank, STRING.sub(blank, path.read_text()))
    return UNIT_TESTS.sub("", text)


def variants() -> dict[str, set[str]]:
    """The variants of each enum of operations."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "crates/kiln-ir/src").rglob("*.rs")):
        text = source(path)
        for start in re.finditer(r"\bpub enum (\w+) \{", text):
            if start.group(1) in ENUMS:
                body = text[start.end() : closing(text, start.end() - 1)]
                depth, flat = 0, ""
                for char in body:
                    depth -= char in CLOSE
                    flat += char if depth == 0 else ""
                    depth += char in OPEN
                found[start.group(1)] = set(re.findall(r"\b([A-Z]\w*)\b", re.sub(r"#\[\]", "", flat)))
    missing = set(ENUMS) - set(found)
    if missing:
        sys.exit(f"kiln-ir has no enums {', '.join(sorted(missing))}")
    return found


def closing(text: str, start: int) -> int:
    """Where the bracket that opens at `start` closes."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in OPEN) - (text[at] in CLOSE)
        if depth == 0:
            return at
    return len(text)


def body_of(text: str, start: int) -> int | None:
    """Where the arms of a match begin whose keyword ends at `start`."""
    at = start
    while at < len(text):
        if text[at] == "{":
            return at
        if text[at] in "([":
            at = closing(text, at)
        elif text[at] in ";}":
            return None
        at += 1
    return None


def arms(text: str, begin: int, end: int) -> list[tuple[int, str]]:
    """The patterns of a match, guards among them, with where each begins."""
    found, at = [], begin + 1
    while at < end:
        start = at
        while at < end and text[at : at + 2] != "=>":
            at = closing(text, at) + 1 if text[at] in OPEN else at + 1
        if at >= end:
            break
        lead = len(text[start:at]) - len(text[start:at].lstrip())
        found.append((start + lead, text[start:at].strip()))
        at += 2
        while at < end and text[at].isspace():
            at += 1
        if at < end and text[at] == "{":
            at = closing(text, at) + 1
            while at < end and (text[at].isspace() or text[at] == ","):
                at += 1
            continue
        while at < end and text[at] != ",":
            at = closing(text, at) + 1 if text[at] in OPEN else at + 1
        at += 1
    return found


def is_open(pattern: str) -> bool:
    """Whether a pattern without a guard holds for anything."""
    if re.search(r"\bif\b", pattern):
        return False
    pattern = re.sub(r"^\|", "", pattern).strip()
    return re.fullmatch(r"_|&?(?:ref |mut )?[a-z]\w*", pattern) is not None


def findings(path: Path, known: dict[str, set[str]], positions: bool) -> list[tuple[int, str]]:
    text = source(path)
    line = lambda at: text.count("\n", 0, at) + 1
    imported: set[str] = set()
    for name in ENUMS:
        if re.search(rf"\buse (?:[\w:]*::)?{name}::\*", text):
            imported |= known[name]
    found = []
    for keyword in MATCH.finditer(text):
        begin = body_of(text, keyword.end())
        if begin is None:
            continue
        patterns = arms(text, begin, closing(text, begin))
        names = lambda pattern: PATH.search(pattern) or imported & set(re.findall(r"(?<!::)\b[A-Z]\w*\b(?!::)", pattern))
        if any(names(pattern) for _, pattern in patterns):
            found += [(line(at), f"an arm for all other operations: `{pattern} =>`") for at, pattern in patterns if is_open(pattern)]
    if positions:
        found += [(line(use.start()), "an operand by its position") for use in POSITION.finditer(text)]
    return sorted(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("crates", nargs="*", help="names of crates; all without")
    parser.add_argument("--count", action="store_true", help="print how many there are in each file")
    options = parser.parse_args()
    known, total = variants(), 0
    for crate in sorted(path.parent for path in (ROOT / "crates").glob("*/src")):
        if options.crates and crate.name not in options.crates:
            continue
        tests = {name for path in (crate / "src").rglob("*.rs") for name in TEST_MOD.findall(path.read_text())}
        for path in sorted((crate / "src").rglob("*.rs")):
            if path.stem in tests:
                continue
            found = findings(path, known, crate.name != "kiln-ir")
            total += len(found)
            if options.count and found:
                print(f"{len(found):4} {path.relative_to(ROOT)}")
            elif not options.count:
                for line, what in found:
                    print(f"{path.relative_to(ROOT)}:{line}: {what}")
    print(f"{total} places where a new operation would be passed by")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
