#!/usr/bin/env python3
"""Serves a peer on the CPU (NumPy, or JAX through XLA) over the protocol of bench/README.md."""

import os
import platform
import time
from collections.abc import Callable

import rows
from server import Peer, main


def cpu_name() -> str:
    """The processor's name and the number of cores that this process may use."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as info:
            model = next(line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores"


def timed(run: Callable[[], object], warm_up: int = 2) -> Callable[[int], list[float]]:
    """Wall time of single calls of `run`, which returns once its work is done."""
    for _ in range(warm_up):
        run()

    def measure(rounds: int) -> list[float]:
        times = []
        for _ in range(rounds):
            start = time.perf_counter_ns()
            run()
            times.append((time.perf_counter_ns() - start) / 1e3)
        return times

    return measure


class CpuPeer(Peer):
    """What the peers on the CPU share: rows, and random normal data."""

    def __init__(self) -> None:
        import numpy

        self.np = numpy
        self.rng = numpy.random.default_rng()

    @property
    def device(self) -> str:
        return cpu_name()

    def rows(self) -> list[str]:
        return list(rows.CPU_ROWS)

    def normal(self, *shape: int):
        return self.rng.standard_normal(shape, dtype=self.np.float32)


class NumPyPeer(CpuPeer):
    name = "NumPy"

    def rows(self) -> list[str]:
        return [row for row in rows.CPU_ROWS if not row.startswith("attention")]

    @property
    def version(self) -> str:
        return self.np.__version__

    def prepare(self, row: str) -> Callable[[int], list[float]]:
        np = self.np
        if row.startswith("softmax"):
            x = self.normal(*rows.CPU_MATRIX)

            def softmax():
                e = np.exp(x - x.max(axis=1, keepdims=True))
                return e / e.sum(axis=1, keepdims=True)

            return timed(softmax)
        if row.startswith("matmul"):
            n = int(row.rsplit("_", 1)[1])
            a, b = self.normal(n, n), self.normal(n, n)
            c = np.zeros_like(a)
            return timed(lambda: np.matmul(a, b, out=c))
        x, y = self.normal(rows.CPU_N), self.normal(rows.CPU_N)
        out = np.zeros_like(x)
        work = {
            "copy": lambda: np.copyto(out, x),
            "add": lambda: np.add(x, y, out=out),
            "chain": lambda: np.maximum(x * y + x, 0) * 0.5 + np.tanh(y),
            "sum": lambda: x.sum(),
        }
        return timed(work[row.split("_")[0]])


class JaxPeer(CpuPeer):
    name = "JAX (XLA)"

    def __init__(self) -> None:
        super().__init__()
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax

        self.jax = jax

    @property
    def version(self) -> str:
        return self.jax.__version__

    def prepare(self, row: str) -> Callable[[int], list[float]]:
        jax, jnp = self.jax, self.jax.numpy
        if row.startswith("softmax"):
            arguments = [jnp.asarray(self.normal(*rows.CPU_MATRIX))]
        elif row.startswith("matmul"):
            n = int(row.rsplit("_", 1)[1])
            arguments = [jnp.asarray(self.normal(n, n)) for _ in range(2)]
        elif row.startswith("attention"):
            heads, length, width = rows.CPU_ATTENTION
            # JAX wants batch, length, heads, width.
            arguments = [jnp.asarray(self.normal(1, length, heads, width)) for _ in range(3)]
        else:
            arguments = [jnp.asarray(self.normal(rows.CPU_N)) for _ in range(2)]
        work = jax.jit(
            {
                "copy": lambda x, y: jnp.copy(x),
                "add": lambda x, y: x + y,
                "chain": lambda x, y: jnp.maximum(x * y + x, 0) * 0.5 + jnp.tanh(y),
                "sum": lambda x, y: jnp.sum(x),
                "softmax": lambda x: jax.nn.softmax(x, axis=-1),
                "matmul": lambda a, b: a @ b,
                "attention": lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
            }[row.split("_")[0]]
        )
        return timed(lambda: work(*arguments).block_until_ready())


PEERS = {"numpy": NumPyPeer, "jax": JaxPeer}

if __name__ == "__main__":
    main(PEERS)
