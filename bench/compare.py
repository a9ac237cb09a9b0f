#!/usr/bin/env python3
"""Times Kiln and its peers by turns on this machine, and records the medians under bench/results/.

With `--before` the peer is another build of Kiln, and the ratios of the two are recorded.

Every contender is a process that stays alive and answers over the line protocol of bench/README.md.
In each pass over a row every contender runs a few rounds; the order changes from pass to pass.
Drift of clocks and temperature thus falls on all.
"""

import argparse
import datetime
import json
import re
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import before as two_builds
import quiet
from before import AFTER, BEFORE
from rows import ROWS, Row, rows_for

HERE = Path(__file__).resolve().parent
# The first request for a row compiles, tunes and warms up.
REPLY_TIMEOUT_S = 300
# Between two turns on a CPU. Threads of OpenBLAS's go on spinning for tens of milliseconds after a
# product, and whoever comes next on as many cores would have half of them.
SETTLING_S = 0.1
KILN = "Kiln"
# Kiln's kernels by hand, where programs over arrays stand for Kiln.
KERNEL = "kernel by hand"
ABSENT_EXIT_CODE = 3


class Failed(Exception):
    """A contender gave no times; the message says why."""


class Contender:
    """One side of the comparison: a server process that speaks the line protocol."""

    def __init__(self, command: list[str]) -> None:
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=HERE
            )
        except OSError as error:
            raise Failed(f"cannot start {command[0]}: {error}") from error
        try:
            hello = self._read()
            if "absent" in hello:
                raise Failed(hello["reason"])
        except Failed:
            self.stop()
            raise
        self.name: str = hello["ready"]
        self.version: str = hello["version"]
        self.device: str = hello["device"]
        self.rows: list[str] = hello["rows"]

    def bench(self, row: str, rounds: int) -> list[float]:
        """Times of `rounds` rounds of a row, in microseconds."""
        try:
            self._process.stdin.write(f"bench {row} {rounds}\n")
            self._process.stdin.flush()
        except OSError as error:
            raise Failed(f"the process is gone: {error}") from error
        reply = self._read()
        if "error" in reply:
            raise Failed(reply["error"])
        if reply.get("name") != row or len(reply.get("times_us", [])) != rounds:
            raise Failed(f"expected {rounds} times of {row}, found {str(reply)[:200]}")
        return reply["times_us"]

    def bind(self, processors: list[int] | None) -> None:
        """Has the process work on some processors from now on."""
        quiet.bind(self._process.pid, processors and set(processors))

    def stop(self) -> None:
        """Ends the process."""
        try:
            self._process.communicate("quit\n", timeout=10)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()

    def _read(self) -> dict:
        timed_out = False

        def expire() -> None:
            nonlocal timed_out
            timed_out = True
            self._process.kill()

        timer = threading.Timer(REPLY_TIMEOUT_S, expire)
        timer.start()
        line = self._process.stdout.readline()
        timer.cancel()
        if not line:
            code = self._process.wait()
            raise Failed(f"no reply in {REPLY_TIMEOUT_S} s" if timed_out else f"the process ended with code {code}")
        try:
            return json.loads(line)
        except json.JSONDecodeError as error:
            raise Failed(f"not a line of JSON: {line[:200]!r}") from error


class Entry(NamedTuple):
    """A contender for one row: the name it is recorded under, and what to ask it."""

    label: str
    contender: Contender
    request: str


def entries(name: str, row: Row, kiln: Contender | None, peers: list[Contender]) -> list[Entry]:
    """Who takes part in a row."""
    found = [Entry(KILN, kiln, name)] if kiln and name in kiln.rows else []
    if kiln and row.raw and row.raw[0] in kiln.rows:
        found.append(Entry(row.raw[1], kiln, row.raw[0]))
    return found + [Entry(peer.name, peer, name) for peer in peers if name in peer.rows]


def measure(
    field: list[Entry], passes: int, rounds: int, together: bool = False, pause_s: float = 0.0
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """All times of every entry, taken by turns, and the reasons of those that failed.

    With `together` all work on one processor in a pass, the quietest. Before each turn is a pause.
    """
    times: dict[str, list[float]] = {entry.label: [] for entry in field}
    failed: dict[str, str] = {}
    for turn in range(passes):
        if together:
            processors = quiet.quietest()
            for entry in field:
                entry.contender.bind(processors)
        for place in range(len(field)):
            label, contender, request = field[(turn + place) % len(field)]
            if label in failed:
                continue
            time.sleep(pause_s)
            try:
                times[label] += contender.bench(request, rounds)
            except Failed as reason:
                failed[label] = str(reason)
                del times[label]
    return times, failed


def record(name: str, device: str, commit: str, times: dict[str, list[float]], ceiling: float | None) -> dict:
    """One row of the results file. `ceiling` is in bytes a microsecond."""
    row = ROWS[name]
    own = times.get(KILN)
    median = statistics.median(own) if own else None
    quartiles = statistics.quantiles(own, n=4) if own and len(own) > 1 else None
    return {
        "name": name,
        "device": device,
        "commit": commit,
        "date": datetime.date.today().isoformat(),
        "median_us": median,
        "quartiles_us": [quartiles[0], quartiles[2]] if quartiles else None,
        "bytes": row.bytes,
        "flops": row.flops,
        "ceiling_fraction": row.bytes / median / ceiling if median and ceiling else None,
        "peers": {label: statistics.median(t) for label, t in times.items() if label != KILN},
    }


def write(path: Path, rows: list[dict], peers: dict[str, str], absent: dict[str, str]) -> None:
    """Writes the results; rows of other names that the file already has stay."""
    old = json.loads(path.read_text()) if path.exists() else {"rows": [], "peers": {}}
    merged = {row["name"]: row for row in old["rows"] + rows}
    result = {
        "rows": [merged[name] for name in ROWS if name in merged],
        "peers": {**old["peers"], **peers},
        "absent": absent,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")


def commit_of_this_tree() -> str:
    """The short commit, with `-dirty` where tracked files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    try:
        return subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kiln", help="the kiln binary; without it only the peers are timed")
    parser.add_argument("--device", default="cpu", help="Kiln's name of the device: cuda:0, cpu (default: cpu)")
    parser.add_argument(
        "--arrays",
        metavar="PROGRAM",
        help="time the example `rows` of kiln-array in place of --kiln, which becomes one of its peers",
    )
    parser.add_argument(
        "--rows",
        default="",
        help="only rows whose name contains this, or one of several texts with commas between; copy rows always run",
    )
    parser.add_argument("--peers", help="comma-separated, instead of all")
    parser.add_argument("--passes", type=int, default=5, help="turns of each contender in a row (default: 5)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds in a turn (default: 20)")
    parser.add_argument("--commit", default=commit_of_this_tree(), help="recorded with the results (default: git's)")
    builds = parser.add_argument_group("two builds of Kiln, without peers")
    builds.add_argument("--before", metavar="KILN", help="the binary of another build, which takes turns with --kiln")
    builds.add_argument("--before-commit", default="unknown", help="the commit of that build, recorded with the results")
    builds.add_argument("--floor", type=float, default=0.98, help="the least ratio without exit code 1 (default: 0.98)")
    builds.add_argument(
        "--again", type=int, default=2, help="how often a row below the floor is measured again, all times counting (default: 2)"
    )
    builds.add_argument("--ring", type=int, default=0, metavar="TURNS", help="turns of `kiln bench ring` (default: 0)")
    builds.add_argument("--ring-only", default="", help="only ring rows whose name contains this")
    parser.add_argument("--out", type=Path, help="results file (default: bench/results/DEVICE.json if Kiln is timed)")
    options = parser.parse_args()
    if options.before and not options.kiln:
        parser.error("--before needs --kiln, the build that it is compared with")
    if options.arrays and not options.kiln:
        parser.error("--arrays needs --kiln, whose kernels it is compared with")
    return options


def is_asked(name: str, rows: str) -> bool:
    """Whether a row's name contains one of the texts."""
    return any(text in name for text in rows.split(","))


def start_peers(device: str, wanted: str | None) -> tuple[list[Contender], dict[str, str]]:
    """The peers that run here, and why the others do not."""
    if device.startswith("cuda"):
        from peers_gpu import PEERS
    else:
        from peers_cpu import PEERS
    program = HERE / ("peers_gpu.py" if device.startswith("cuda") else "peers_cpu.py")
    started, absent = [], {}
    for name in wanted.split(",") if wanted is not None else PEERS:
        try:
            started.append(Contender([sys.executable, str(program), name]))
        except Failed as reason:
            absent[name] = str(reason)
            print(f"absent: {name}: {reason}", file=sys.stderr)
    return started, absent


def print_row(name: str, times: dict[str, list[float]]) -> None:
    for label, own in times.items():
        median = statistics.median(own)
        row = ROWS[name]
        rate = f"{row.bytes / median / 1e3:9.1f} GB/s" if row.bytes else ""
        if row.arithmetic:
            rate = f"{row.flops / median / 1e3:9.1f} GFLOP/s"
        print(f"{name:30} {label:18} {median:12.2f} us {rate}", flush=True)


def pairs_of(options: argparse.Namespace, builds: dict[str, Contender]) -> tuple[list[two_builds.Pair], list[str]]:
    """Times every row by both builds; rows below the floor are measured again."""
    pairs, problems = [], []
    # What the host does for another device is done by one thread.
    together = not options.device.startswith("cpu")
    for name, row in rows_for(options.device).items():
        if not is_asked(name, options.rows):
            continue
        if lacking := [label for label, kiln in builds.items() if name not in kiln.rows]:
            problems.append(f"{name}: the build {' and the build '.join(lacking)} has no such row")
            continue
        field = [Entry(label, kiln, name) for label, kiln in builds.items()]
        pair = two_builds.Pair(name, [], [])
        for _ in range(1 + options.again):
            times, failed = measure(field, options.passes, row.rounds or options.rounds, together)
            problems += [f"{name}: {label}: {reason}" for label, reason in failed.items()]
            if failed:
                break
            pair = two_builds.Pair(name, pair.before + times[BEFORE], pair.after + times[AFTER])
            if pair.ratio >= options.floor:
                break
        if pair.before:
            pairs.append(pair)
            print(f"{name:44} {pair.ratio:7.3f}", flush=True)
    return pairs, problems


def compare_builds(options: argparse.Namespace) -> int:
    """Two builds of Kiln by turns; 1 if one is slower than the floor allows, or failed."""
    binaries = {BEFORE: str(Path(options.before).resolve()), AFTER: str(Path(options.kiln).resolve())}
    builds: dict[str, Contender] = {}
    try:
        for label, binary in binaries.items():
            builds[label] = Contender([binary, "bench", "--serve", "--device", options.device])
        device = builds[AFTER].device
        pairs, problems = pairs_of(options, builds)
    except Failed as reason:
        print(f"Kiln: {reason}", file=sys.stderr)
        return 1
    finally:
        for contender in builds.values():
            contender.stop()
    if options.ring:
        ring = two_builds.Ring(binaries, options.device)
        ring.run(options.ring_only, options.ring)
        ring.run_again(options.ring, options.floor, options.again)
        pairs, problems = pairs + ring.pairs(), problems + ring.problems
    print(two_builds.table(pairs, options.floor))
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    out = options.out or HERE / "results" / f"before-after-{slug}.json"
    commits = {BEFORE: options.before_commit, AFTER: options.commit}
    two_builds.write(out, pairs, device, commits, options.floor)
    print(f"wrote {out}")
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    slower = [pair.name for pair in pairs if pair.ratio < options.floor]
    return 1 if slower or problems or not pairs else 0


def main() -> int:
    options = arguments()
    if options.before:
        return compare_builds(options)
    kiln, kiln_failed, problems = None, False, []
    peers, absent = start_peers(options.device, options.peers)
    try:
        if options.kiln:
            binary = str(Path(options.kiln).resolve())
            kiln = Contender([binary, "bench", "--serve", "--device", options.device])
        if options.arrays:
            kiln.name = KERNEL
            peers.append(kiln)
            kiln = Contender([str(Path(options.arrays).resolve()), options.device])
        device = kiln.device if kiln else peers[0].device if peers else "unknown"
        results, ceilings = [], {}
        for name, row in rows_for(options.device).items():
            if name != row.ceiling and not is_asked(name, options.rows):
                continue
            if options.arrays and name not in kiln.rows:
                continue
            if kiln and name not in kiln.rows:
                problems.append(f"{name}: Kiln has no such row")
            field = entries(name, row, kiln, peers)
            pause_s = SETTLING_S if options.device == "cpu" else 0.0
            times, failed = measure(field, options.passes, row.rounds or options.rounds, pause_s=pause_s)
            problems += [f"{name}: {label}: {reason}" for label, reason in failed.items()]
            kiln_failed |= KILN in failed
            if not times:
                continue
            if name == row.ceiling:
                ceilings[name] = max(row.bytes / statistics.median(t) for t in times.values())
            print_row(name, times)
            if KILN in times or not kiln:
                results.append(record(name, device, options.commit, times, ceilings.get(row.ceiling)))
    except Failed as reason:
        print(f"Kiln: {reason}", file=sys.stderr)
        return 1
    finally:
        for contender in [*peers, *([kiln] if kiln else [])]:
            contender.stop()
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    prefix = "arrays-" if options.arrays else ""
    out = options.out or (HERE / "results" / f"{prefix}{slug}.json" if kiln else None)
    if out:
        write(out, results, {peer.name: peer.version for peer in peers}, absent)
        print(f"wrote {out}")
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    return 1 if kiln_failed else 0


if __name__ == "__main__":
    sys.exit(main())
