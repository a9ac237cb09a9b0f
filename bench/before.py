"""Compares two builds of Kiln by turns: ratios of medians as a table and as a file.

`compare.py --before` uses this. A ratio is the time of the build before by that of the build after
(for rates, the other way round), so that below 1 the newer build is slower.
"""

import datetime
import json
import math
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

BEFORE, AFTER = "before", "after"
# A run of all ring rows takes about two minutes on a GPU.
RING_TIMEOUT_S = 900


class Pair(NamedTuple):
    """What both builds came to in one row."""

    name: str
    before: list[float]
    after: list[float]
    rate: bool = False
    """Whether the values are rates, of which more is better, and not times."""

    @property
    def ratio(self) -> float:
        """Speed after divided by speed before; infinite where the build after took no time."""
        old, new = statistics.median(self.before), statistics.median(self.after)
        top, bottom = (new, old) if self.rate else (old, new)
        return top / bottom if bottom else math.inf

    def record(self) -> dict:
        """The row of the results file."""
        unit = "per_s" if self.rate else "us"
        return {
            "name": self.name,
            f"{BEFORE}_{unit}": statistics.median(self.before),
            f"{AFTER}_{unit}": statistics.median(self.after),
            "quartiles": {label: _quartiles(values) for label, values in [(BEFORE, self.before), (AFTER, self.after)]},
            "values": [len(self.before), len(self.after)],
            "ratio": self.ratio,
        }


def _quartiles(values: list[float]) -> list[float] | None:
    if len(values) < 2:
        return None
    lower, _, upper = statistics.quantiles(values, n=4)
    return [lower, upper]


def table(pairs: list[Pair], floor: float) -> str:
    """The rows as text, the worst first; those below the floor are marked."""
    lines = [f"{'row':44} {'before':>14} {'after':>14} {'ratio':>7}"]
    for pair in sorted(pairs, key=lambda pair: pair.ratio):
        old, new = statistics.median(pair.before), statistics.median(pair.after)
        unit = "/s" if pair.rate else "us"
        mark = f"  below {floor}" if pair.ratio < floor else ""
        lines.append(f"{pair.name:44} {old:11.2f} {unit} {new:11.2f} {unit} {pair.ratio:7.3f}{mark}")
    return "\n".join(lines)


def write(path: Path, pairs: list[Pair], device: str, commits: dict[str, str], floor: float) -> None:
    """Writes the results. Keeps other rows that the file has for the same commits and device."""
    head = {"device": device, **commits, "floor": floor}
    old = json.loads(path.read_text()) if path.exists() else {}
    kept = old.get("rows", []) if {key: old.get(key) for key in head} == head else []
    merged = {row["name"]: row for row in [*kept, *(pair.record() for pair in pairs)]}
    rows = sorted(merged.values(), key=lambda row: row["ratio"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**head, "date": datetime.date.today().isoformat(), "rows": rows}, indent=1) + "\n")


def ring_rows(result: dict) -> dict[str, tuple[float, bool]]:
    """Row and transport to the time or the rate of a results file of `kiln bench ring`."""
    found = {}
    for row in result["rows"]:
        rate = row.get("msgs_per_s") is not None
        value = row["msgs_per_s"] if rate else row.get("p50_us")
        if value is not None:
            found[f"{row['name']} ({row['transport']})"] = (value, rate)
    return found


def ring(binaries: dict[str, str], device: str, only: str, rounds: int) -> tuple[list[Pair], list[str]]:
    """Runs `kiln bench ring` of both builds by turns: the rows that both have, and what failed."""
    values: dict[str, dict[str, list[float]]] = {BEFORE: {}, AFTER: {}}
    rates: dict[str, bool] = {}
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            for label in (BEFORE, AFTER) if turn % 2 == 0 else (AFTER, BEFORE):
                path = Path(folder) / f"{label}-{turn}.json"
                command = [binaries[label], "bench", "ring", "--device", device, "--json", str(path)]
                command += ["--only", only] if only else []
                try:
                    done = subprocess.run(command, capture_output=True, text=True, timeout=RING_TIMEOUT_S)
                except (OSError, subprocess.TimeoutExpired) as error:
                    problems.append(f"ring: {label}: {error}")
                    continue
                if done.returncode != 0:
                    problems.append(f"ring: {label}: ended with code {done.returncode}: {done.stderr.strip()[-300:]}")
                if not path.exists():
                    continue
                for name, (value, rate) in ring_rows(json.loads(path.read_text())).items():
                    values[label].setdefault(name, []).append(value)
                    rates[name] = rate
    both = [name for name in rates if name in values[BEFORE] and name in values[AFTER]]
    return [Pair(name, values[BEFORE][name], values[AFTER][name], rates[name]) for name in both], problems


def ring_again(
    pairs: list[Pair], binaries: dict[str, str], device: str, rounds: int, floor: float, again: int
) -> tuple[list[Pair], list[str]]:
    """Measures ring rows below the floor up to `again` times more; all values count.

    Medians of a few turns of a row of many actors are 20 % apart with one and the same build.
    """
    rows = {pair.name: pair for pair in pairs}
    problems = []
    for _ in range(again):
        slow = [pair for pair in rows.values() if pair.ratio < floor]
        for only in sorted({pair.name.split()[0].removeprefix("ring.") for pair in slow}):
            more, failed = ring(binaries, device, only, rounds)
            problems += failed
            for name, before, after, rate in more:
                if old := next((pair for pair in slow if pair.name == name), None):
                    rows[name] = Pair(name, old.before + before, old.after + after, rate)
    return list(rows.values()), problems
