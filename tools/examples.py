#!/usr/bin/env python3
"""Finds public items without an example, in what `cargo doc` wrote.

    tools/examples.py [--most N] FOLDER CRATE...

The folder is `target/doc`. A function, method, type, trait or macro has an example if there is code
in its own documentation, or code on the page of its type or trait, of its module or of the crate
that names it. Fields, variants, constants and what is implemented of traits need none.

Each item without one is printed as `crate::module::Type::method`, with the file and line of its
source. The exit code is 1 if there are more than N, which is 0 without the option.
"""

import argparse
import html
import re
import sys
from pathlib import Path

KINDS = {"fn", "struct", "enum", "union", "trait", "macro", "attr", "derive", "type"}
# Rustdoc's pages say where an item stands in the source; what is of another's crate is not ours.
SOURCE = re.compile(r'class="src(?: rightside)?" href="(?:\.\./)+src/(kiln\w*)/([^"]+)\.html#(\d+)')
CODE = re.compile(r'<div class="example-wrap[^"]*"><pre[^>]*>(.*?)</pre>', re.DOTALL)
METHOD = re.compile(r'<section id="(?:ty)?method\.([^"]+)" class="method">')
# What comes after these is implemented of traits, or belongs to other types.
ENDS = re.compile(
    r'<h2 id="(?:trait-implementations|synthetic-implementations|blanket-implementations|deref-methods[^"]*'
    r'|foreign-impls|implementors|synthetic-implementors)"'
)
ITEMS = re.compile(r'<section id="(?:impl|ty|method|associated|structfield|variant)[^"]*"')


def words(code: str) -> set[str]:
    """The names in code as a page shows it."""
    return set(re.findall(r"\w+", html.unescape(re.sub(r"<[^>]*>", "", code))))


def named_in(text: str) -> set[str]:
    """The names in all code of a text."""
    return {word for code in CODE.findall(text) for word in words(code)}


def own_part(page: str) -> str:
    """A page without what comes from traits and other types."""
    end = ENDS.search(page)
    return page[: end.start()] if end else page


def place(text: str) -> str | None:
    """Where the first item of a text stands in the source, if it is one of ours."""
    found = SOURCE.search(text)
    return f"{found[1]}/{found[2]}:{found[3]}" if found else None


def without(path: Path, crate: Path, around: set[str]) -> list[tuple[str, str]]:
    """The items of a page without an example, and their places."""
    kind, name = path.name.split(".")[:2]
    page = own_part(path.read_text(encoding="utf-8"))
    at = place(page)
    if at is None:
        return []
    module = "::".join(path.parent.relative_to(crate.parent).parts)
    here = named_in(page)
    first = ITEMS.search(page)
    top = page[: first.start()] if first else page
    found = []
    if not CODE.search(top) and name not in here | around:
        found.append((f"{module}::{name}", at))
    if kind == "type":
        return found
    starts = list(METHOD.finditer(page))
    for start in starts:
        after = ITEMS.search(page, start.end())
        text = page[start.start() : after.start() if after else len(page)]
        if not CODE.search(text) and start[1] not in here | around:
            found.append((f"{module}::{name}::{start[1]}", place(text) or at))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("folder", type=Path)
    parser.add_argument("crates", nargs="+")
    options = parser.parse_args()
    found: set[tuple[str, str]] = set()
    for crate in (options.folder / name.replace("-", "_") for name in options.crates):
        if not (crate / "index.html").is_file():
            print(f"{crate} has no documentation: run cargo doc first")
            return 1
        of_crate = named_in((crate / "index.html").read_text(encoding="utf-8"))
        for path in sorted(crate.rglob("*.html")):
            if path.name.split(".")[0] not in KINDS or path.name.count(".") != 2:
                continue
            index = path.parent / "index.html"
            around = of_crate | (named_in(index.read_text(encoding="utf-8")) if index.is_file() else set())
            found |= set(without(path, crate, around))
    for name, at in sorted(found):
        print(f"{name}  {at}")
    print(f"{len(found)} public items without an example")
    return 1 if len(found) > options.most else 0


if __name__ == "__main__":
    sys.exit(main())
