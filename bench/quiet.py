"""Finds processors of this machine that nobody else keeps busy.

The processors of a rented machine are hardware threads, whose other halves may belong to somebody
else: what the host does takes half as long again there, for seconds or for minutes. Two builds
whose host times are compared therefore run on the same processors, by turns, and on the quietest.
"""

import os
import time

# What is tried of a machine with many processors, to be quick.
MOST = 16
TRIES = 3


def loop_us() -> float:
    """The time of a loop of arithmetic, in microseconds."""
    start = time.perf_counter()
    total = 0
    for number in range(10_000):
        total += number * number
    return (time.perf_counter() - start) * 1e6


def quietest(count: int = 1) -> list[int] | None:
    """The processors on which the loop is quickest, the quickest first.

    None where a process cannot be bound to some.
    """
    if not hasattr(os, "sched_setaffinity"):
        return None
    allowed = os.sched_getaffinity(0)

    def least(processor: int) -> float:
        os.sched_setaffinity(0, {processor})
        return min(loop_us() for _ in range(TRIES))

    try:
        return sorted(sorted(allowed)[:MOST], key=least)[:count]
    except OSError:
        return None
    finally:
        os.sched_setaffinity(0, allowed)


def bind(process: int, processors: set[int] | None) -> None:
    """Has the first thread of a process, and what it starts from now on, run on some processors."""
    if processors is not None:
        try:
            os.sched_setaffinity(process, processors)
        except OSError:
            pass  # It has ended, which its next reply will say.
