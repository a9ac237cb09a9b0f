"""Processes of `kiln bench ring --turns` that take turns, a slice each.

One is at work at a time: from its start, or from when it is given its turn, until it asks for the
next one or ends.
"""

import queue
import subprocess
import tempfile
import threading
import time
from typing import NamedTuple

import quiet
import where

# The line by which a process asks for its turn.
TURN = "turn"
# How long a process that was given its turn is bound to one processor: until its first thread works
# there, and before it starts others.
SETTLES_S = 0.0003


class Ended(NamedTuple):
    """How a process ended."""

    problem: str | None


class Waiting:
    """A process that works when it is given its turn."""

    def __init__(self, command: list[str], processors: list[int] | None) -> None:
        """Starts it: its first thread on the first of some processors, others on any of them.

        Raises OSError if that is not possible.
        """
        self._processors = processors
        self._errors = tempfile.TemporaryFile(mode="w+")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
        self._process = subprocess.Popen(command, text=True, **pipes)
        self._bind(processors)
        self._said: queue.Queue[str | None] = queue.Queue()
        self._last = "nothing"
        threading.Thread(target=self._listen, daemon=True).start()

    def give(self) -> None:
        """Gives it its turn."""
        self._bind(self._processors and self._processors[:1])
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except OSError:
            pass  # It has ended, which the wait for it says.
        time.sleep(SETTLES_S)
        self._bind(self._processors)

    def wait(self, most_s: float) -> Ended | None:
        """Waits until it asks for its turn or has ended; one that does neither is ended."""
        while True:
            try:
                line = self._said.get(timeout=most_s)
            except queue.Empty:
                found = where.threads(self._process.pid)
                self._process.kill()
                self._end()
                return Ended(f"did not end in {most_s} s, after {self._last!r}\n{found}")
            if line is None:
                code, errors = self._end()
                return Ended(f"ended with code {code}: {errors.strip()[-300:]}" if code else None)
            if line == TURN:
                return None
            self._last = line

    def _bind(self, processors: list[int] | None) -> None:
        quiet.bind(self._process.pid, processors and set(processors))

    def _listen(self) -> None:
        for line in self._process.stdout:
            self._said.put(line.strip())
        self._said.put(None)

    def _end(self) -> tuple[int, str]:
        code = self._process.wait()
        with self._errors, self._process.stdin, self._process.stdout:
            self._errors.seek(0)
            return code, self._errors.read()


def take(commands: dict[str, list[str]], most_s: float) -> dict[str, str]:
    """Runs commands of which each works in its turns; what went wrong with each that failed.

    What measures is on one processor in all of them, the quietest, and other threads on a second.
    """
    problems: dict[str, str] = {}
    running: dict[str, Waiting] = {}
    processors = quiet.quietest(2)

    def goes_on(label: str, process: Waiting) -> bool:
        ended = process.wait(most_s)
        if ended and ended.problem:
            problems[label] = ended.problem
        return not ended

    for label, command in commands.items():
        try:
            process = Waiting(command, processors)
        except OSError as error:
            problems[label] = str(error)
            continue
        if goes_on(label, process):
            running[label] = process
    while running:
        for label, process in list(running.items()):
            process.give()
            if not goes_on(label, process):
                del running[label]
    return problems
