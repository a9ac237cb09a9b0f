"""Tests of the benchmark programs against a server that replies with known times.

Needs the standard library only.

Run with `python3 -m unittest discover -s bench`.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import accuracy  # noqa: E402
import adapter  # noqa: E402
import before  # noqa: E402
import compare  # noqa: E402
import render  # noqa: E402
import turns  # noqa: E402
import where  # noqa: E402

COPY, ADD, SUM = "copy_f32_2^25", "add_f32_2^25", "sum_f32_2^25"

# A peer whose rounds take 3000 us, then 1000, then 2000, and so on; it cannot do the sum.
FAKE_PEER = textwrap.dedent("""
    import itertools, sys
    sys.path.insert(0, {here!r})
    from server import Absent, Peer, main

    class Fake(Peer):
        name, version, device = "Fake", "7", "a device"
        def rows(self):
            return ["copy_f32_2^25", "add_f32_2^25", "sum_f32_2^25"]
        def prepare(self, row):
            if row.startswith("sum"):
                raise ValueError("no sums today")
            turns = itertools.cycle([3000.0, 1000.0, 2000.0])
            return lambda rounds: [next(turns) for _ in range(rounds)]

    class Noisy(Fake):
        def prepare(self, row):
            print("a library's chatter")
            return super().prepare(row)

    class Missing(Peer):
        def __new__(cls):
            raise Absent("not installed")

    main({{"fake": Fake, "noisy": Noisy, "missing": Missing}})
    """)


class FakePeers(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.program = self.folder / "fake.py"
        self.program.write_text(FAKE_PEER.format(here=str(HERE)))

    def command(self, peer: str) -> list[str]:
        return [sys.executable, str(self.program), peer]

    def contender(self) -> compare.Contender:
        contender = compare.Contender(self.command("fake"))
        self.addCleanup(contender.stop)
        return contender


class Protocol(FakePeers):
    def exchange(self, requests: str, peer: str = "fake") -> list[dict]:
        done = subprocess.run(self.command(peer), input=requests, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(reply) for reply in done.stdout.splitlines()]

    def test_the_first_line_introduces_the_peer(self):
        hello = {"ready": "Fake", "version": "7", "device": "a device", "rows": [COPY, ADD, SUM]}
        self.assertEqual(self.exchange("quit\n"), [hello])

    def test_state_is_kept_between_requests_for_a_row_and_renewed_for_another(self):
        replies = self.exchange(f"bench {ADD} 2\nbench {ADD} 2\nbench {COPY} 1\nbench {ADD} 1\n")[1:]
        self.assertEqual([reply["times_us"] for reply in replies], [[3000, 1000], [2000, 3000], [3000], [3000]])

    def test_what_a_library_prints_does_not_reach_the_replies(self):
        self.assertEqual(self.exchange(f"bench {ADD} 1\n", "noisy")[1:], [{"name": ADD, "times_us": [3000]}])

    def test_bad_requests_are_answered_and_the_next_one_is_served(self):
        replies = self.exchange(f"hello\nbench {ADD} -1\nbench nothing 1\nbench {SUM} 1\nbench {ADD} 1\nquit\n")[1:]
        self.assertIn("expected `bench NAME ROUNDS`", replies[0]["error"])
        self.assertIn("expected `bench NAME ROUNDS`", replies[1]["error"])
        self.assertEqual(replies[2], {"name": "nothing", "error": "Fake has no row of this name"})
        self.assertEqual(replies[3], {"name": SUM, "error": "ValueError: no sums today"})
        self.assertEqual(replies[4]["times_us"], [3000])


class Comparison(FakePeers):
    def test_an_absent_peer_fails_with_its_reason(self):
        with self.assertRaisesRegex(compare.Failed, "not installed"):
            compare.Contender(self.command("missing"))

    def test_a_program_that_ends_or_babbles_fails_by_name(self):
        with self.assertRaisesRegex(compare.Failed, "cannot start"):
            compare.Contender([str(self.folder / "nothing-here")])
        with self.assertRaisesRegex(compare.Failed, "ended with code 9"):
            compare.Contender([sys.executable, "-c", "raise SystemExit(9)"])
        with self.assertRaisesRegex(compare.Failed, "not a line of JSON"):
            compare.Contender([sys.executable, "-c", "print('hello')"])

    def test_turns_alternate_and_a_failure_leaves_the_others(self):
        order = []

        class Noted:
            def __init__(self, label):
                self.label = label

            def bench(self, row, rounds):
                order.append(self.label)
                if self.label == "c":
                    raise compare.Failed("broke")
                return [1.0] * rounds

        field = [compare.Entry(label, Noted(label), ADD) for label in "abc"]
        times, failed = compare.measure(field, passes=3, rounds=2)
        self.assertEqual("".join(order), "abcbaab")
        self.assertEqual(times, {"a": [1.0] * 6, "b": [1.0] * 6})
        self.assertEqual(failed, {"c": "broke"})

    def test_a_timeout_ends_the_process(self):
        hello = json.dumps({"ready": "Slow", "version": "1", "device": "d", "rows": [ADD]})
        slow = compare.Contender([sys.executable, "-c", f"import time; print({hello!r}, flush=True); time.sleep(600)"])
        self.addCleanup(slow.stop)
        with mock.patch.object(compare, "REPLY_TIMEOUT_S", 0.2), self.assertRaisesRegex(compare.Failed, "no reply in"):
            slow.bench(ADD, 1)

    def test_medians_and_the_fraction_of_the_ceiling(self):
        times = {"Kiln": [4000.0, 1000.0, 2000.0], "Fake": self.contender().bench(ADD, 3)}
        row = compare.record(ADD, "a device", "abc", times, ceiling=12 * (1 << 25) / 1600.0)
        self.assertEqual(row["median_us"], 2000)
        self.assertEqual(row["peers"], {"Fake": 2000})
        self.assertEqual(row["bytes"], 12 * (1 << 25))
        self.assertAlmostEqual(row["ceiling_fraction"], 0.8)

    def test_a_whole_run_with_kiln_and_a_peer(self):
        out = self.folder / "results.json"
        kiln = self.folder / "kiln"
        kiln.write_text(f"#!/bin/sh\nexec {sys.executable} {self.program} fake\n")
        kiln.chmod(0o755)
        argv = [
            "compare.py",
            "--kiln",
            str(kiln),
            "--out",
            str(out),
            "--commit",
            "abc",
            "--passes",
            "3",
            "--rounds",
            "1",
        ]
        peer = compare.Contender(self.command("fake"))
        quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
        with mock.patch("sys.argv", argv), quiet[0], quiet[1] as problems:
            with mock.patch.object(compare, "start_peers", return_value=([peer], {"other": "not installed"})):
                code = compare.main()
        self.assertEqual(code, 1, "Kiln failed in one row")
        self.assertIn(f"{SUM}: Kiln: ValueError: no sums today", problems.getvalue())
        self.assertIn("softmax_f32_4096x4096: Kiln has no such row", problems.getvalue())
        results = json.loads(out.read_text())
        self.assertEqual([row["name"] for row in results["rows"]], [COPY, ADD])
        self.assertEqual(results["rows"][0]["ceiling_fraction"], 1.0)
        self.assertEqual(results["rows"][1]["ceiling_fraction"], 1.5)
        self.assertEqual((results["peers"], results["absent"]), ({"Fake": "7"}, {"other": "not installed"}))


# A Kiln whose rounds take as long as its argument says, and whose second row does not work where
# that is 9.
FAKE_KILN = textwrap.dedent("""\
    #!/bin/sh
    [ "$2" = ring ] && {{ shift 4; echo '{{"rows": [
      {{"name": "ring.trip", "transport": "bar", "p50_us": {time}, "msgs_per_s": null}},
      {{"name": "ring.rate", "transport": "bar", "p50_us": null, "msgs_per_s": {time}}},
      {{"name": "ring.{time}", "transport": "bar", "p50_us": 1.0, "msgs_per_s": null}}]}}' >"$2"; exit 0; }}
    echo '{{"ready": "Kiln", "version": "1", "device": "a device", "rows": ["copy_f32_2^25", "add_f32_2^25"]}}'
    while read -r word row rounds; do
      [ "$word" = bench ] || exit 0
      case "{time} $row" in
      "9.0 add"*) echo '{{"name": "'$row'", "error": "broken"}}' ;;
      *) echo '{{"name": "'$row'", "times_us": [{time}, {time}]}}' ;;
      esac
    done
    """)


class TwoBuilds(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out.json"

    def kiln(self, time: float) -> str:
        path = self.folder / f"kiln-{time}"
        path.write_text(FAKE_KILN.format(time=time))
        path.chmod(0o755)
        return str(path)

    def run_compare(self, old: float, new: float, *more: str) -> tuple[int, str, str]:
        argv = ["compare.py", "--before", self.kiln(old), "--kiln", self.kiln(new), "--out", str(self.out)]
        argv += ["--before-commit", "aaa", "--commit", "bbb", "--passes", "1", "--rounds", "2", "--rows", "f32_2^25", *more]
        said, problems = io.StringIO(), io.StringIO()
        with mock.patch("sys.argv", argv), contextlib.redirect_stdout(said), contextlib.redirect_stderr(problems):
            return compare.main(), said.getvalue(), problems.getvalue()

    def results(self) -> dict:
        return json.loads(self.out.read_text())

    def test_ratios_are_recorded_with_both_commits(self) -> None:
        with mock.patch.object(compare, "rows_for", return_value={COPY: compare.ROWS[COPY], ADD: compare.ROWS[ADD]}):
            code, said, problems = self.run_compare(4.0, 2.0)
        self.assertEqual((code, problems), (0, ""))
        results = self.results()
        self.assertEqual([results[key] for key in ("before", "after", "device", "floor")], ["aaa", "bbb", "a device", 0.98])
        self.assertEqual([(row["name"], row["ratio"]) for row in results["rows"]], [(COPY, 2.0), (ADD, 2.0)])
        self.assertEqual((results["rows"][0]["before_us"], results["rows"][0]["after_us"]), (4.0, 2.0))
        self.assertNotIn("below", said)

    def test_a_slower_build_fails_after_it_was_measured_again(self) -> None:
        with mock.patch.object(compare, "rows_for", return_value={ADD: compare.ROWS[ADD]}):
            code, said, _ = self.run_compare(2.0, 2.1, "--again", "3")
            self.assertEqual(code, 1)
            self.assertIn("0.952  below 0.98", said)
            self.assertEqual(self.results()["rows"][0]["values"], [8, 8])
            self.assertEqual(self.run_compare(2.0, 2.1, "--floor", "0.95")[0], 0)
            self.assertEqual(self.results()["rows"][0]["values"], [2, 2])

    def test_failures_and_missing_rows_are_named(self) -> None:
        rows = {name: compare.ROWS[name] for name in (COPY, ADD, SUM)}
        with mock.patch.object(compare, "rows_for", return_value=rows):
            code, _, problems = self.run_compare(9.0, 9.0)
        self.assertEqual(code, 1)
        self.assertIn(f"{ADD}: before: broken", problems)
        self.assertIn(f"{SUM}: the build before and the build after has no such row", problems)
        self.assertEqual([row["name"] for row in self.results()["rows"]], [COPY])

    def test_rows_of_rings_take_turns_too(self) -> None:
        with mock.patch.object(compare, "rows_for", return_value={COPY: compare.ROWS[COPY]}):
            code, said, problems = self.run_compare(4.0, 2.0, "--ring", "2", "--floor", "0.1")
        self.assertEqual((code, problems), (0, ""), said)
        ratios = {row["name"]: row["ratio"] for row in self.results()["rows"]}
        self.assertEqual(ratios, {"ring.rate (bar)": 0.5, COPY: 2.0, "ring.trip (bar)": 2.0})

    def test_rows_of_rings_below_the_floor_are_measured_again(self) -> None:
        with mock.patch.object(compare, "rows_for", return_value={COPY: compare.ROWS[COPY]}):
            code, said, problems = self.run_compare(4.0, 2.0, "--ring", "2", "--again", "3")
        self.assertEqual((code, problems), (1, ""), said)
        values = {row["name"]: row["values"] for row in self.results()["rows"]}
        self.assertEqual(values, {"ring.rate (bar)": [8, 8], COPY: [2, 2], "ring.trip (bar)": [2, 2]})

    def test_a_process_that_does_not_end_is_ended_and_its_last_row_named(self) -> None:
        kiln = self.folder / "kiln-endless"
        kiln.write_text("#!/bin/sh\necho ' ring.trip  bar  2 us'\nexec sleep 60\n")
        kiln.chmod(0o755)
        ring = before.Ring({"before": str(kiln), "after": self.kiln(2.0)}, "a device")
        with mock.patch.object(before, "RING_TIMEOUT_S", 3):
            ring.run("", 1)
        [problem] = ring.problems
        first, *threads = problem.splitlines()
        self.assertEqual(first, "ring: before: did not end in 3 s, after 'ring.trip  bar  2 us'")
        self.assertRegex("\n".join(threads), r"^(\S+ \d+: |where its threads are )")
        self.assertEqual(ring.pairs(), [])

    def test_two_processes_take_turns(self) -> None:
        log = self.folder / "log"
        for name, slices in [("a", 3), ("b", 2), ("c", 0)]:
            kiln = self.folder / name
            work = f'echo {name} >>"{log}"'
            slice_by_slice = f"i=0; while [ $i -lt {slices} ]; do echo turn; read -r go; {work}; i=$((i+1)); done"
            kiln.write_text(f"#!/bin/sh\n{work}\n{slice_by_slice}\n")
            kiln.chmod(0o755)
        commands = {name: [str(self.folder / name)] for name in ("a", "c", "b")}
        self.assertEqual(turns.take(commands, 10), {})
        # Each from its start to its first turn, then a slice each while they have some.
        self.assertEqual(log.read_text().split(), ["a", "c", "b", "a", "b", "a", "b", "a"])
        commands = {"fails": ["sh", "-c", "echo why >&2; exit 3"], "is missing": ["/no/such"], **commands}
        problems = turns.take(commands, 10)
        self.assertEqual(problems["fails"], "ended with code 3: why")
        self.assertEqual(set(problems), {"fails", "is missing"})

    def test_addresses_are_those_of_files(self) -> None:
        maps = """\
5500-5600 r--p 0 08:01 7 /opt/a tool
5600-5800 r-xp 100 08:01 7 /opt/a tool
7000-7100 rw-p 0 00:00 0
7100-7200 r-xp 0 00:00 0 [vdso]
"""
        code = where.code_of(maps)
        self.assertEqual(code, [where.Code(0x5600, 0x5800, 0x5500, "a tool"), where.Code(0x7100, 0x7200, 0x7100, "[vdso]")])
        found = [where.named(address, code) for address in (0x5600, 0x57FF, 0x5800, 0x5510, 0x7104)]
        self.assertEqual(found, ["a tool+0x100", "a tool+0x2ff", None, None, "[vdso]+0x4"])

    def test_processes_on_a_processor_that_others_use_do_not_count(self) -> None:
        def value(rate: float, loop_us: float, undisturbed: int = 12) -> before.RingValue:
            row = {"name": "r", "transport": "t", "msgs_per_s": rate, "arithmetic_us": loop_us, "undisturbed": undisturbed}
            return before.ring_rows({"rows": [row]})["r (t)"]

        old = [value(50, 600), value(51, 610), value(31, 640), value(52, 635), value(30, 600, 5), value(53, 630)]
        new = [value(49, 620), value(53, 600), value(33, 605), value(48, 605), value(33, 600), value(35, 700)]
        pairs = list(zip(old, new, strict=True))
        self.assertEqual(before._undisturbed(pairs), [pairs[0], pairs[1], pairs[3]])
        self.assertEqual(before._undisturbed(pairs[1:]), pairs[1:])
        groups = before.ring_rows({"rows": [{"name": "g", "transport": "t", "p50_us": 2.5, "mean": 2.3}]})
        self.assertEqual(groups["g (t)"].value, 2.3)
        hops = before.ring_rows({"rows": [{"name": "h", "transport": "t", "p50_us": 2.5}]})
        self.assertEqual(hops, {"h (t)": before.RingValue(2.5, False, 0.0)})

    def test_builds_work_on_one_processor_in_a_pass(self) -> None:
        class Bound:
            def __init__(self) -> None:
                self.processors: list[list[int] | None] = []

            def bind(self, processors: list[int] | None) -> None:
                self.processors.append(processors)

            def bench(self, row: str, rounds: int) -> list[float]:
                return [float(len(self.processors))] * rounds

        builds = [Bound(), Bound()]
        field = [compare.Entry(label, build, ADD) for label, build in zip(("before", "after"), builds)]
        with mock.patch.object(compare.quiet, "quietest", side_effect=[[3], [1]]):
            times, _ = compare.measure(field, passes=2, rounds=1, together=True)
        self.assertEqual([build.processors for build in builds], [[[3], [1]], [[3], [1]]])
        self.assertEqual(times, {"before": [1.0, 2.0], "after": [1.0, 2.0]})

    @unittest.skipUnless(hasattr(os, "sched_getaffinity"), "processes cannot be bound here")
    def test_a_process_is_bound_and_this_one_is_not(self) -> None:
        allowed = os.sched_getaffinity(0)
        self.assertEqual(sorted(compare.quiet.quietest(len(allowed))), sorted(allowed)[: compare.quiet.MOST])
        self.assertIn(compare.quiet.quietest()[0], allowed)
        process = subprocess.Popen(["sleep", "10"])
        try:
            compare.quiet.bind(process.pid, {min(allowed)})
            self.assertEqual(os.sched_getaffinity(process.pid), {min(allowed)})
        finally:
            process.kill()
            process.wait()
        compare.quiet.bind(process.pid, {min(allowed)})
        self.assertEqual(os.sched_getaffinity(0), allowed)

    def test_the_worst_row_comes_first(self) -> None:
        pairs = [before.Pair("a", [2.0], [1.0]), before.Pair("b", [1.0], [2.0]), before.Pair("c", [1.0], [2.0], rate=True)]
        lines = before.table(pairs, 0.98).splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["row", "b", "a", "c"])
        self.assertEqual(["below" in line for line in lines], [False, True, False, False])

    def test_a_pair_is_compared_with_itself(self) -> None:
        # Pairs fall into two groups, and of one build one more into the upper one.
        old, new = [45.0, 45.5, 46.0, 62.0, 63.0], [45.1, 45.6, 46.1, 62.1, 63.1]
        self.assertAlmostEqual(before.Pair("r", old, new, rate=True, paired=True).ratio, 46.1 / 46.0)
        old[2] = 61.0
        self.assertAlmostEqual(before.Pair("r", old, new, rate=True, paired=True).ratio, 62.1 / 62.0)
        self.assertLess(before.Pair("r", old, new, rate=True).ratio, 0.76)
        self.assertAlmostEqual(before.Pair("t", [3.0, 1.0], [1.0, 2.0], paired=True).ratio, 1.75)

    def test_rows_of_other_commits_go(self) -> None:
        commits = {"before": "a", "after": "b"}
        before.write(self.out, [before.Pair("x", [1.0], [1.0])], "d", commits, 0.98)
        before.write(self.out, [before.Pair("y", [1.0], [2.0])], "d", commits, 0.98)
        self.assertEqual([row["name"] for row in self.results()["rows"]], ["y", "x"])
        before.write(self.out, [before.Pair("z", [1.0], [1.0])], "d", {**commits, "after": "c"}, 0.98)
        self.assertEqual([row["name"] for row in self.results()["rows"]], ["z"])

    def test_one_build_alone_is_refused(self) -> None:
        with mock.patch("sys.argv", ["compare.py", "--before", "x"]), contextlib.redirect_stderr(io.StringIO()):
            with self.assertRaises(SystemExit):
                compare.main()


class Results(FakePeers):
    def row(self, name: str, median: float, **more) -> dict:
        return {**compare.record(name, "a device", "abc", {"Kiln": [median], "Fake": [median * 2]}, None), **more}

    def test_rows_that_were_not_run_again_stay(self):
        path = self.folder / "a.json"
        compare.write(path, [self.row(ADD, 1.0), self.row(SUM, 2.0)], {"Fake": "7"}, {})
        compare.write(path, [self.row(SUM, 3.0)], {"Other": "1"}, {})
        results = json.loads(path.read_text())
        self.assertEqual([(row["name"], row["median_us"]) for row in results["rows"]], [(ADD, 1.0), (SUM, 3.0)])
        self.assertEqual(results["peers"], {"Fake": "7", "Other": "1"})

    def readme(self) -> Path:
        path = self.folder / "README.md"
        path.write_text("before\n<!-- bench:a -->\nold\n<!-- /bench -->\nafter\n")
        return path

    def run_render(self, *options: str) -> int:
        argv = ["render.py", "--files", str(self.folder / "README.md"), "--results", str(self.folder), *options]
        with mock.patch("sys.argv", argv), contextlib.redirect_stderr(io.StringIO()):
            return render.main()

    def test_tables_are_rendered_and_then_up_to_date(self):
        readme = self.readme()
        add = self.row(ADD, 402.653184, ceiling_fraction=0.9)
        compare.write(self.folder / "a.json", [add, self.row("launch_empty", 3.0)], {"Fake": "7"}, {})
        self.assertEqual(self.run_render("--check"), 1)
        self.assertEqual(self.run_render(), 0)
        self.assertEqual(self.run_render("--check"), 0)
        text = readme.read_text()
        self.assertIn("| x + y, f32, 2^25 | 1,000 GB/s | 90% | Fake 500 GB/s | 2.00x |  |", text)
        self.assertIn("host time | 3.00 us |  | Fake 6.00 us | 2.00x |  |", text)
        self.assertTrue(text.startswith("before\n<!-- bench:a -->\n|") and text.endswith("<!-- /bench -->\nafter\n"))

    def test_a_table_has_the_rows_that_it_names(self):
        readme = self.folder / "README.md"
        readme.write_text("<!-- bench:a rows=launch_empty -->\n<!-- /bench -->\n")
        compare.write(self.folder / "a.json", [self.row(ADD, 2.0), self.row("launch_empty", 3.0e3)], {"Fake": "7"}, {})
        self.assertEqual(self.run_render(), 0)
        self.assertIn("host time | 3.0 ms |  | Fake 6.0 ms |", readme.read_text())
        self.assertNotIn("x + y", readme.read_text())
        readme.write_text("<!-- bench:a rows=launch_empty,gone -->\n<!-- /bench -->\n")
        self.assertEqual(self.run_render(), 1)

    def test_a_row_is_picked_by_its_transport(self):
        rows = [{"name": "a", "transport": "bar"}, {"name": "a", "transport": "pinned"}, {"name": "b", "transport": "bar"}]
        missing: list[str] = []
        self.assertEqual(render.picked(rows, "b,a@pinned", missing), [rows[2], rows[1]])
        self.assertEqual(missing, [])
        self.assertEqual(render.picked(rows, "a@copies", missing), [])
        self.assertEqual(missing, ["row a@copies"])

    def test_the_quickest_message_stands_beside_the_launch_that_it_replaces(self) -> None:
        row = {"device": "D", "commit": "c", "date": "2026-01-01", "p999_us": None, "msgs_per_s": None}
        launch = {**row, "name": "ring.baseline_launch_48B", "transport": "copies", "p50_us": 20.5, "p99_us": 1500.0}
        slow = {**row, "name": "ring.round_trip_48B", "transport": "pinned", "p50_us": 2.5, "p99_us": 3.0}
        quick = {**slow, "transport": "bar", "p50_us": 1.75, "p99_us": 2.25}
        (self.folder / "ring.json").write_text(json.dumps({"rows": [launch, slow, quick]}))
        readme = self.folder / "README.md"
        readme.write_text("<!-- bench:ring:latency -->\n<!-- /bench -->\n")
        self.assertEqual(self.run_render(), 0)
        self.assertIn("**1.75 us** from a message", readme.read_text())
        self.assertIn("(p99 2.25 us; D), **20.50 us** by the launch", readme.read_text())
        self.assertIn("(p99 1.5 ms)", readme.read_text())

    def test_a_missing_results_file_is_an_error(self):
        self.readme()
        self.assertEqual(self.run_render("--check"), 1)


class RingTable(unittest.TestCase):
    def test_messages_have_a_table_of_their_own(self) -> None:
        row = {"name": "ring.a", "device": "D", "commit": "c", "date": "2026-01-01", "transport": "bar"}
        trip = {**row, "p50_us": 1.5, "p99_us": 2.0, "p999_us": 9.0, "msgs_per_s": None}
        rate = {**row, "name": "ring.b", "p50_us": None, "p99_us": None, "p999_us": None, "msgs_per_s": 2.5e6}
        text = render.table({"rows": [trip, rate]})
        self.assertIn("| `ring.a` | bar | 1.50 us | 2.00 us | 9.00 us |  |", text)
        self.assertIn("| `ring.b` | bar |  |  |  | 2.5 M |", text)
        self.assertIn("*D, commit c, 2026-01-01.", text)

    def test_rows_of_another_commit_name_it(self) -> None:
        row = {"device": "D", "commit": "c", "date": "2026-01-01", "transport": "bar", "msgs_per_s": 2e6}
        times = {"p50_us": None, "p99_us": None, "p999_us": None}
        rows = [{**row, **times, "name": f"ring.{name}"} for name in "abc"]
        text = render.table({"rows": [*rows[:2], {**rows[2], "commit": "d"}]})
        self.assertIn("| `ring.b` | bar |", text)
        self.assertIn("| `ring.c` at d | bar |", text)
        self.assertIn("*D, commit c, 2026-01-01, but for rows that name another.", text)


class AdapterTest(unittest.TestCase):
    """The tables of an adapter's speed."""

    ROWS = [
        {"name": "launch", "us": 1.5, "peer": "wgpu", "peer_us": 0.75, "figure": 2.0, "goal": "<= 1.5x", "holds": False},
        {"name": "first", "us": 2e5, "peer": "wgpu", "peer_us": 1e5, "figure": 2e5, "goal": "<= 300 ms", "holds": True},
    ]

    def test_rows_say_what_was_asked(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            document = {"adapter": "A", "driver": "D 1", "commit": "c0ffee", "date": "2026-01-31", "rows": self.ROWS}
            (Path(folder) / "wgpu-a.json").write_text(json.dumps(document))
            text, missing = adapter.renew("<!-- adapter:wgpu-a -->\nold\n<!-- /adapter -->\n", Path(folder))
            self.assertEqual(missing, [])
            self.assertIn("| `launch` | 1.50 us | 0.75 us, wgpu | 2.00 | at most 1.5 | no |\n", text)
            self.assertIn("| `first` | 200 ms | 100 ms, wgpu |  | at most 300 ms | yes |\n\n*A, D 1, commit", text)
            self.assertNotIn("\nold\n", text)
            _, missing = adapter.renew("<!-- adapter:b -->\n<!-- /adapter -->\n", Path(folder))
            self.assertEqual(len(missing), 1)


class AccuracyTest(unittest.TestCase):
    """The tables of the book's page on accuracy."""

    ROW = {"function": "exp", "type": "f32", "results": 1000, "rounded": 949, "undecided": 1,
           "worst": {"ulp": 0.9301}, "subnormal": None, "wrong": 0}

    def renewed(self, rows: list[dict], of_type: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            for name, id in (("host", "cpu"), ("gpu", "cuda:0")):
                document = {"id": id, "device": name, "f32": 7000, "commit": "c0ffee", "date": "2026-01-31", "rows": rows}
                (Path(folder) / f"accuracy-{name}.json").write_text(json.dumps(document))
            return accuracy.renew(f"a\n<!-- accuracy:{of_type} -->\nold\n<!-- /accuracy -->\nz", Path(folder))

    def test_cells_round_up_and_show_what_is_worse(self) -> None:
        subnormal = {**self.ROW, "subnormal": {"ulp": 2.0}}
        absent = {"function": "log", "type": "f32", "lacks": "f32"}
        text = self.renewed([subnormal, absent, {**self.ROW, "type": "f64"}], "f32")
        cells = "0.94 / 2.00 (95.0%)"
        self.assertIn(f"| `exp` | {cells} | {cells} |\n| `log` | not there | not there |\n<!-- /accuracy -->\nz", text)
        self.assertNotIn("old", text)

    def test_devices_are_named_in_order(self) -> None:
        text = self.renewed([self.ROW], "devices")
        self.assertIn("| `cpu` | host | 7,000 | c0ffee | 2026-01-31 |\n| `cuda` | gpu |", text)


if __name__ == "__main__":
    unittest.main()
