"""The peers' side of the line protocol that bench/README.md defines.

Answers `bench NAME ROUNDS` until `quit`.
"""

import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable


class Absent(Exception):
    """This peer cannot run here; the message says what is missing."""


class Peer(ABC):
    """A library or compiler that can run some of the rows."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name under which results are recorded."""

    @property
    @abstractmethod
    def version(self) -> str:
        """The version that is measured."""

    @property
    @abstractmethod
    def device(self) -> str:
        """The hardware that it runs on, in words."""

    @abstractmethod
    def rows(self) -> list[str]:
        """The names of the rows that it can run."""

    @abstractmethod
    def prepare(self, row: str) -> Callable[[int], list[float]]:
        """Makes the data of `row`, compiles, warms up and checks the result; returns a function
        from a number of rounds to as many times in microseconds."""


def serve(peer: Peer) -> None:
    """Serves requests from standard input until `quit` or the end of the input.

    Replies go to the real standard output. Whatever libraries print goes to standard error instead.
    """
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def reply(message: dict) -> None:
        replies.write(json.dumps(message) + "\n")

    reply({"ready": peer.name, "version": peer.version, "device": peer.device, "rows": peer.rows()})
    prepared, measure = None, None
    for line in sys.stdin:
        words = line.split()
        if words == ["quit"]:
            return
        if len(words) != 3 or words[0] != "bench" or not words[2].isdigit():
            reply({"error": f"expected `bench NAME ROUNDS` or `quit`, found {line.strip()!r}"})
            continue
        name, rounds = words[1], int(words[2])
        if name not in peer.rows():
            reply({"name": name, "error": f"{peer.name} has no row of this name"})
            continue
        try:
            if name != prepared:
                # The data of the row before is released first: two rows need not fit the device at
                # once.
                prepared, measure = None, None
                measure = peer.prepare(name)
                prepared = name
            reply({"name": name, "times_us": measure(rounds)})
        # Whatever a peer raises is its result for this row, not the end of the run.
        except Exception as error:
            reply({"name": name, "error": f"{type(error).__name__}: {error}"})


def main(peers: dict[str, Callable[[], Peer]]) -> None:
    """`PROGRAM PEER` serves that peer. If it cannot run here, prints why and exits 3."""
    if len(sys.argv) != 2 or sys.argv[1] not in peers:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(peers)}")
    try:
        peer = peers[sys.argv[1]]()
    except (Absent, ImportError, OSError) as reason:
        print(json.dumps({"absent": sys.argv[1], "reason": f"{reason}"}), flush=True)
        sys.exit(3)
    serve(peer)
