"""The tables of an adapter's speed in the book, from files of `kiln bench wgpu --json FILE`.

The ratio of a row of host time is Kiln's time to wgpu's own, that of another row the time of the
other device to the adapter's.
"""

import json
import re
from pathlib import Path

TABLE = re.compile(r"(<!-- adapter:(?P<name>[\w-]+) -->\n)(?P<body>.*?)(<!-- /adapter -->)", re.DOTALL)


def time(microseconds: float) -> str:
    """A time in units that are read easily."""
    if microseconds >= 10_000:
        return f"{microseconds / 1000:,.0f} ms"
    return f"{microseconds:,.1f} us" if microseconds >= 10 else f"{microseconds:.2f} us"


def cells(row: dict) -> list[str]:
    """A row of the table."""
    goal = row["goal"].replace("<=", "at most").replace(">=", "at least")
    is_ratio = row["goal"].endswith("x")
    ratio = f"{row['figure']:.2f}" if is_ratio else ""
    held = "yes" if row["holds"] else "no"
    return [f"`{row['name']}`", time(row["us"]), f"{time(row['peer_us'])}, {row['peer']}", ratio, goal.rstrip("x"), held]


def table(results: dict) -> str:
    """The rows, and what was measured where."""
    lines = ["| Row | through wgpu | beside it | ratio | asked | holds |", "|---|---|---|---|---|---|"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in results["rows"]]
    source = f"*{results['adapter']}, {results['driver']}, commit {results['commit']}, {results['date']}.*"
    return "\n".join(lines) + f"\n\n{source}\n"


def renew(text: str, folder: Path) -> tuple[str, list[str]]:
    """The text with its tables renewed, and the files that are missing."""
    missing = []

    def body(match: re.Match) -> str:
        path = folder / f"{match['name']}.json"
        if not path.exists():
            missing.append(f"results file {path}")
            return match[0]
        return match[1] + table(json.loads(path.read_text())) + match[4]

    return TABLE.sub(body, text), missing
