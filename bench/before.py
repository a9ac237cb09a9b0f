"""Compares two builds of Kiln by turns: ratios of medians as a table and as a file.

`compare.py --before` uses this. A ratio is the time of the build before by that of the build after
(for rates, the other way round), so that below 1 the newer build is slower.
"""

import datetime
import json
import math
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

import turns as in_turns

BEFORE, AFTER = "before", "after"
# All ring rows that are measured at once take less than a minute on a GPU. What does not end must
# not take the time of the others, and is a defect to be found: the last row that it printed says
# where it is.
RING_TIMEOUT_S = 100
# The slices of a ring row in each process.
SLICES = 12
# How much longer than the quickest a loop of arithmetic may take on a processor that is quiet.
TOLERANCE = 0.06
# Of the slices that count in a process, in how many its processor was quiet, at least.
FEWEST_SLICES = 6
# The values that a median is made of, at least, where some do not count.
FEWEST = 3


class Pair(NamedTuple):
    """What both builds came to in one row."""

    name: str
    before: list[float]
    after: list[float]
    rate: bool = False
    """Whether the values are rates, of which more is better, and not times."""
    paired: bool = False
    """Whether values at the same place are of processes that took turns."""

    @property
    def ratio(self) -> float:
        """Speed after divided by speed before; infinite where the build after took no time.

        Of pairs that took turns the median of their ratios: what disturbed one of a pair disturbed
        the other, while the median of values that fall into two groups is chance.
        """
        if self.paired:
            return statistics.median(self._speed(*values) for values in zip(self.before, self.after, strict=True))
        return self._speed(statistics.median(self.before), statistics.median(self.after))

    def _speed(self, old: float, new: float) -> float:
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


class RingValue(NamedTuple):
    """What one process measured in a row of `kiln bench ring`."""

    value: float
    rate: bool
    loop_us: float
    """The least time of its loop of arithmetic: 0 in rows without one, infinite if most of what
    counts was disturbed."""


def ring_rows(result: dict) -> dict[str, RingValue]:
    """The times and rates of a results file of `kiln bench ring`, by row and transport.

    Of rows in slices the mean of the slices' medians: by the place of its memory a slice belongs
    to one of two groups, and so does the median of a process, by chance.
    """
    found = {}
    for row in result["rows"]:
        rate = row.get("msgs_per_s") is not None
        value = row["msgs_per_s"] if rate else row.get("p50_us")
        if value is not None:
            value = row.get("mean", value)
            loop_us = row.get("arithmetic_us") or 0.0
            if loop_us and row.get("undisturbed", 0) < FEWEST_SLICES:
                loop_us = math.inf
            found[f"{row['name']} ({row['transport']})"] = RingValue(value, rate, loop_us)
    return found


class Ring:
    """Rows of `kiln bench ring` of two builds, a process of each at a time.

    The two take turns in each row, a slice each. A process whose loop of arithmetic took longer
    than that of others had a processor that somebody else used too: its rates are two thirds of
    theirs, whichever build it is. It does not count.
    """

    def __init__(self, binaries: dict[str, str], device: str) -> None:
        self._binaries, self._device = binaries, device
        self._values: dict[str, list[tuple[RingValue, RingValue]]] = {}
        self.problems: list[str] = []

    def run(self, only: str, pairs: int, wanted: set[str] | None = None) -> None:
        """Runs both builds so many times; keeps the rows that are wanted, or all."""
        with tempfile.TemporaryDirectory() as folder:
            for pair in range(pairs):
                labels = (BEFORE, AFTER) if pair % 2 == 0 else (AFTER, BEFORE)
                files = {label: Path(folder) / f"{label}-{pair}.json" for label in labels}
                commands = {label: self._command(label, only, path) for label, path in files.items()}
                problems = in_turns.take(commands, RING_TIMEOUT_S)
                self.problems += [f"ring: {label}: {problem}" for label, problem in problems.items()]
                old, new = (
                    ring_rows(json.loads(files[label].read_text())) if files[label].exists() else {}
                    for label in (BEFORE, AFTER)
                )
                for name in old.keys() & new.keys():
                    if wanted is None or name in wanted:
                        self._values.setdefault(name, []).append((old[name], new[name]))

    def run_again(self, pairs: int, floor: float, again: int) -> None:
        """Measures rows below the floor up to `again` times more; all of their values count."""
        for _ in range(again):
            slow = {pair.name for pair in self.pairs() if pair.ratio < floor}
            for only in sorted({name.split()[0].removeprefix("ring.") for name in slow}):
                self.run(only, pairs, slow)

    def pairs(self) -> list[Pair]:
        """The rows that both builds have."""
        found = []
        for name, values in self._values.items():
            quiet = _undisturbed(values)
            old, new = ([pair[at].value for pair in quiet] for at in range(2))
            found.append(Pair(name, old, new, values[0][0].rate, paired=True))
        return found

    def _command(self, label: str, only: str, path: Path) -> list[str]:
        command = [self._binaries[label], "bench", "ring", "--device", self._device, "--json", str(path)]
        return command + ["--turns", str(SLICES)] + (["--only", only] if only else [])


def _undisturbed(pairs: list[tuple[RingValue, RingValue]]) -> list[tuple[RingValue, RingValue]]:
    """The pairs of which both were measured on a quiet processor, or all if these are too few."""
    limit_us = min(value.loop_us for pair in pairs for value in pair) * (1 + TOLERANCE)
    quiet = [pair for pair in pairs if all(value.loop_us <= limit_us for value in pair)]
    return pairs if len(quiet) < FEWEST else quiet
