#!/usr/bin/env python3
"""Prints the circles among the files of each crate: sets of files that import each other.

    tools/circles.py [--edges] [CRATE...]

An edge goes from a file to the file that defines what it names, in a `use` or in a path that begins
with `crate`, `super` or `self`; re-exports are followed. A `mod.rs` (or `lib.rs`) may name its own
children and they it: such pairs are no circle, so an edge to an ancestor counts only where the
ancestor itself defines the item. Tests (`#[cfg(test)]` modules in files of their own) are left out.
The exit code is 1 if there is a circle.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
STRING = re.compile(r'r#*".*?"#*|"(?:\\.|[^"\\])*"', re.DOTALL)
ITEM = re.compile(
    r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:unsafe\s+|const\s+|async\s+|extern\s+)*"
    r"(?:fn|struct|enum|trait|type|union|const|static|mod|macro_rules!)\s+(?:mut\s+)?(\w+)",
    re.MULTILINE,
)
MOD = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;", re.MULTILINE)
TEST_MOD = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod\s+(\w+)\s*;")
# Unit tests stand at the end of a file. Their `super` is the file itself.
UNIT_TESTS = re.compile(r"^#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod\s+\w+\s*\{.*", re.MULTILINE | re.DOTALL)
USE = re.compile(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.DOTALL)
PATH = re.compile(r"\b((?:crate|super|self)(?:::\w+)+)")


def leaves(tree: str) -> list[tuple[list[str], str]]:
    """The paths of a `use` tree, each with the name that it gets."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        path, _, alias = tree.partition(" as ")
        parts = [part.strip() for part in path.split("::") if part.strip()]
        return [(parts, alias.strip() or (parts[-1] if parts else ""))]
    head = [part.strip() for part in tree[:brace].split("::") if part.strip()]
    inner, depth, start, found = tree[brace + 1 : tree.rindex("}")], 0, 0, []
    for at, char in enumerate(inner + ","):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            if inner[start:at].strip():
                found += [(head + parts, name) for parts, name in leaves(inner[start:at])]
            start = at + 1
    return found


class Crate:
    """The modules of one crate."""

    def __init__(self, source: Path) -> None:
        self.files: dict[tuple[str, ...], Path] = {}
        self.items: dict[tuple[str, ...], set[str]] = {}
        self.exports: dict[tuple[str, ...], list[tuple[list[str], str]]] = {}
        self.text: dict[tuple[str, ...], str] = {}
        self.read((), source / "lib.rs")

    def read(self, module: tuple[str, ...], path: Path) -> None:
        text = UNIT_TESTS.sub("", STRING.sub('""', COMMENT.sub("", path.read_text())))
        self.files[module], self.text[module] = path, text
        self.items[module] = set(ITEM.findall(text)) - set(MOD.findall(text))
        uses = [(bool(public), parts, name) for public, tree in USE.findall(text) for parts, name in leaves(tree)]
        self.exports[module] = [(parts, name) for _, parts, name in uses]
        folder = path.parent if path.name in ("lib.rs", "mod.rs") else path.parent / path.stem
        tests = set(TEST_MOD.findall(text))
        for child in MOD.findall(text):
            if child in tests:
                continue
            for candidate in (folder / f"{child}.rs", folder / child / "mod.rs"):
                if candidate.exists():
                    self.read((*module, child), candidate)

    def absolute(self, module: tuple[str, ...], parts: list[str]) -> list[str] | None:
        """A path from the root of the crate, if it is one into the crate."""
        at = list(module)
        if parts[0] == "crate":
            return parts[1:]
        if parts[0] not in ("self", "super"):
            return [*at, *parts] if (*at, parts[0]) in self.files else None
        while parts and parts[0] in ("self", "super"):
            if parts[0] == "super":
                at = at[:-1]
            parts = parts[1:]
        return [*at, *parts]

    def define(self, path: list[str], seen: frozenset = frozenset()) -> tuple[str, ...] | None:
        """The module whose file defines what a path names."""
        module: tuple[str, ...] = ()
        rest = list(path)
        while rest and (*module, rest[0]) in self.files:
            module, rest = (*module, rest[0]), rest[1:]
        if not rest or rest[0] in self.items[module] or rest[0] == "*":
            return module
        if (module, rest[0]) in seen:
            return module
        seen = seen | {(module, rest[0])}
        for parts, name in self.exports[module]:
            if name == rest[0] and (whole := self.absolute(module, parts)) is not None:
                return self.define([*whole, *rest[1:]], seen)
        for parts, name in self.exports[module]:
            if name == "*" and (whole := self.absolute(module, parts[:-1])) is not None:
                found = self.define(whole, seen)
                if found is not None and rest[0] in self.items[found]:
                    return found
        return module

    def edges(self) -> dict[tuple[str, ...], dict[tuple[str, ...], set[str]]]:
        """From each module to those that define what it names, with the names."""
        edges: dict = {module: {} for module in self.files}
        for module, text in self.text.items():
            named = [parts for parts, _ in self.exports[module]]
            named += [path.split("::") for path in PATH.findall(text)]
            for parts in named:
                if not parts or (whole := self.absolute(module, parts)) is None:
                    continue
                target = self.define(whole)
                if target is not None and target != module:
                    edges[module].setdefault(target, set()).add(parts[-1])
        for module, targets in edges.items():
            # A module's own children are parts of it.
            for child in [t for t in targets if t[: len(module)] == module]:
                if self.files[module].name in ("lib.rs", "mod.rs"):
                    del targets[child]
        return edges


def circles(edges: dict) -> list[list]:
    """The strongly connected components of two files or more (Tarjan 1972)."""
    index, low, stack, on, found = {}, {}, [], set(), []

    def visit(node) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        on.add(node)
        for target in edges[node]:
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in on:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            component = []
            while True:
                member = stack.pop()
                on.discard(member)
                component.append(member)
                if member == node:
                    break
            if len(component) > 1:
                found.append(sorted(component))

    for node in edges:
        if node not in index:
            visit(node)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("crates", nargs="*", help="names of crates; all without")
    parser.add_argument("--edges", action="store_true", help="print the imports within each circle")
    parser.add_argument("--root", type=Path, default=ROOT, help="the workspace")
    options = parser.parse_args()
    sys.setrecursionlimit(10_000)
    total = 0
    for source in sorted((options.root / "crates").glob("*/src/lib.rs")):
        name = source.parent.parent.name
        if options.crates and name not in options.crates:
            continue
        crate = Crate(source.parent)
        edges = crate.edges()
        for circle in circles(edges):
            total += 1
            shown = [str(crate.files[module].relative_to(source.parent)) for module in circle]
            print(f"{name}: {len(circle)} of {len(crate.files)} files: {' '.join(shown)}")
            if options.edges:
                for module in circle:
                    for target in sorted(set(edges[module]) & set(circle)):
                        print(f"    {crate.files[module].relative_to(source.parent)} -> {crate.files[target].relative_to(source.parent)}: {' '.join(sorted(edges[module][target]))}")
    print(f"{total} circles")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
