#!/usr/bin/env python3
"""Writes the tables of README.md, bench/RESULTS.md and the book from bench/results/*.json.

A table stands between `<!-- bench:NAME -->` and `<!-- /bench -->`, where NAME.json is a results
file. With `<!-- bench:NAME rows=A,B -->` it has these rows alone, in this order; `A@TRANSPORT`
picks one of a row that was measured through several transports. Between
`<!-- bench:NAME:latency -->` and `<!-- /bench -->` stands the time of a message, and that of the
launch that it replaces. Between `<!-- accuracy:TYPE -->` and `<!-- /accuracy -->` stand the errors
of functions in a type, as accuracy.py says. With --check nothing is written; the exit code is 1 if
a table is stale, has no results file or names a row that the file does not have.
"""

import argparse
import difflib
import json
import re
import sys
import textwrap
from collections import Counter
from pathlib import Path

import accuracy
import adapter
from rows import ROWS

HERE = Path(__file__).resolve().parent
TABLE = re.compile(
    r"(<!-- bench:(?P<name>[\w.-]+)(?P<latency>:latency)?(?: rows=(?P<rows>\S+))? -->\n)(?P<body>.*?)(<!-- /bench -->)",
    re.DOTALL,
)


def figure(row: dict, median_us: float | None) -> str:
    """Operations per second if arithmetic bounds it, bandwidth if bytes are counted, else time."""
    if median_us is None:
        return "not measured"
    if ROWS[row["name"]].arithmetic:
        rate = row["flops"] / median_us / 1e3
        if rate >= 1e4:
            return f"{rate / 1e3:,.0f} TFLOP/s"
        return f"{rate:,.0f} GFLOP/s" if rate >= 100 else f"{rate:.1f} GFLOP/s"
    if row["bytes"] == 0:
        return duration(median_us)
    bandwidth = row["bytes"] / median_us / 1e3
    return f"{bandwidth:,.0f} GB/s" if bandwidth >= 100 else f"{bandwidth:.1f} GB/s"


def line(row: dict) -> str:
    """One line of a table."""
    own, peers = row["median_us"], sorted(row["peers"].items(), key=lambda peer: peer[1])
    shown = [f"{label} {figure(row, median)}" for label, median in peers]
    ratio = f"{peers[0][1] / own:.2f}x" if own and peers else ""
    fraction = f"{row['ceiling_fraction']:.0%}" if row["ceiling_fraction"] else ""
    cells = [
        ROWS[row["name"]].title,
        figure(row, own),
        fraction,
        shown[0] if shown else "",
        ratio,
        ", ".join(shown[1:]),
    ]
    return "| " + " | ".join(cells) + " |"


def ring_line(row: dict, commit: str) -> str:
    """One line of a table of messages. Names the commit if it is not that of most rows."""
    times = [duration(row[key]) for key in ("p50_us", "p99_us", "p999_us")]
    name = f"`{row['name']}`" + (f" at {row['commit']}" if row["commit"] != commit else "")
    return "| " + " | ".join([name, row["transport"], *times, ring_rate(row["msgs_per_s"]), ring_cost(row)]) + " |"


def duration(time_us: float | None) -> str:
    """A time in the unit that suits it."""
    if time_us is None:
        return ""
    if time_us < 1e3:
        return f"{time_us:.2f} us"
    return f"{time_us / 1e3:.1f} ms" if time_us < 1e6 else f"{time_us / 1e6:.2f} s"


def latency(rows: list[dict]) -> str:
    """The quickest round trip of a message, and the launch that it replaces, as one line."""
    trip = min((row for row in rows if row["name"] == "ring.round_trip_48B"), key=lambda row: row["p50_us"])
    launch = next(row for row in rows if row["name"] == "ring.baseline_launch_48B")
    return wrapped(
        f"**{duration(trip['p50_us'])}** from a message of 48 bytes to the verified answer of an actor that stays on the device "
        f"(p99 {duration(trip['p99_us'])}; {trip['device']}), **{duration(launch['p50_us'])}** by the launch with copies that it replaces "
        f"(p99 {duration(launch['p99_us'])})."
    )


def wrapped(text: str) -> str:
    """A paragraph in lines of at most 100 columns."""
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False) + "\n"


def ring_rate(rate: float | None) -> str:
    """Messages a second."""
    if rate is None:
        return ""
    return f"{rate / 1e6:.1f} M" if rate >= 1e6 else f"{rate:,.0f}"


def ring_cost(row: dict) -> str:
    """The cost of an idle grid (share of a processor, watts above a context without a grid), or
    the messages that a soak lost."""
    parts = []
    if row.get("processor_share") is not None:
        parts.append(f"{row['processor_share']:.0%} of a core")
    if row.get("watts") is not None and row.get("watts_without_grid") is not None:
        parts.append(f"{row['watts'] - row['watts_without_grid']:+.0f} W")
    if row.get("lost") is not None:
        parts.append(f"{row['sent']:,} sent, {row['lost']} lost")
    return ", ".join(parts)


def ring_table(rows: list[dict]) -> str:
    """The table of a file that `kiln bench ring` wrote."""
    head = ["| Row | through | p50 | p99 | p99.9 | messages a second | takes |", "|---|---|---|---|---|---|---|"]
    (device, commit, date), _ = Counter((row["device"], row["commit"], row["date"]) for row in rows).most_common(1)[0]
    lines = [ring_line(row, commit) for row in rows]
    other = "" if all(row["commit"] == commit for row in rows) else ", but for rows that name another"
    caption = f"*{device}, commit {commit}, {date}{other}. By `kiln bench ring`.*"
    return "\n".join([*head, *lines, "", wrapped(caption)])


def model_line(row: dict) -> str:
    """One line of what `models.py` measured."""
    rate = lambda value: f"{value:,.0f} {row['unit']}"
    more = f", {row['weights_gb_s']:,.0f} GB/s of weights" if "weights_gb_s" in row else ""
    peer = f"{row['peer']} {rate(row['peer_rate'])}"
    return f"| {row['title']} | {rate(row['kiln'])}{more} | {peer} | {row['ratio']:.2f}x |"


def model_table(results: dict) -> str:
    """The table of training, decoding and gradients."""
    rows = results["rows"]
    runs = sorted({(row["commit"], row["date"]) for row in rows})
    measured = "; ".join(f"commit {commit}, {date}" for commit, date in runs)
    versions = ", ".join(f"{peer} {version}" for peer, version in results["peers"].items())
    caption = f"*{results['device']}, {measured}. Peers: {versions}. Medians, by turns in one run by `bench/models.py`.*"
    head = ["| Work | Kiln | peer | Kiln is |", "|---|---|---|---|"]
    return "\n".join([*head, *map(model_line, rows), "", wrapped(caption)])


def table(results: dict) -> str:
    """The table of one results file, with a caption that says where its figures come from."""
    rows = results["rows"]
    if rows and "peer_rate" in rows[0]:
        return model_table(results)
    if rows and "transport" in rows[0]:
        return ring_table(rows)
    runs = sorted({(row["device"], row["commit"], row["date"]) for row in rows})
    measured = "; ".join(f"{device}, commit {commit}, {date}" for device, commit, date in runs)
    peers = {peer for row in rows for peer in row["peers"]}
    versions = ", ".join(f"{peer} {version}" for peer, version in results["peers"].items() if peer in peers)
    head = ["| Work | Kiln | of copy | fastest peer | Kiln is | other peers |", "|---|---|---|---|---|---|"]
    caption = f"*{measured}. Peers: {versions or 'none'}. Medians, taken by turns in one run by `bench/compare.py`.*"
    return "\n".join([*head, *map(line, rows), "", wrapped(caption)])


def picked(rows: list[dict], names: str | None, missing: list[str]) -> list[dict]:
    """The rows that a table asks for by name, in its order; all of them if it names none."""
    if names is None:
        return rows
    chosen = []
    for name in names.split(","):
        row_name, _, transport = name.partition("@")
        found = [row for row in rows if row["name"] == row_name and transport in ("", row.get("transport"))]
        chosen += found
        if not found:
            missing.append(f"row {name}")
    return chosen


def render(text: str, results: Path) -> tuple[str, list[str]]:
    """The text with all its tables renewed, and the results files and rows that are missing."""
    missing = []

    def renew(match: re.Match) -> str:
        path = results / f"{match['name']}.json"
        if not path.exists():
            missing.append(f"results file {path}")
            return match[0]
        results_file = json.loads(path.read_text())
        results_file["rows"] = picked(results_file["rows"], match["rows"], missing)
        if not results_file["rows"]:
            return match[0]
        body = latency(results_file["rows"]) if match["latency"] else table(results_file)
        return match[1] + body + "<!-- /bench -->"

    text, absent = adapter.renew(accuracy.renew(TABLE.sub(renew, text), results), results)
    return text, missing + absent


def renew_file(path: Path, options: argparse.Namespace) -> bool:
    """Renews or checks the tables of one file; whether all is well."""
    old = path.read_text()
    new, missing = render(old, options.results)
    for what in missing:
        print(f"{path}: no {what}", file=sys.stderr)
    if options.check:
        sys.stderr.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), path.name, "renewed"))
        if old != new:
            print(f"the tables of {path} are stale: run bench/render.py", file=sys.stderr)
    elif old != new:
        path.write_text(new)
    return not missing and not (options.check and old != new)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if the tables are stale; write nothing")
    pages = [HERE.parent / "README.md", HERE / "RESULTS.md", HERE.parent / "book/src/accuracy.md", HERE.parent / "book/src/devices.md"]
    parser.add_argument("--files", type=Path, nargs="+", default=pages)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    options = parser.parse_args()
    return 0 if all([renew_file(path, options) for path in options.files]) else 1


if __name__ == "__main__":
    sys.exit(main())
