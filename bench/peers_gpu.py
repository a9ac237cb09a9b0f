#!/usr/bin/env python3
"""Peers on an NVIDIA GPU: PyTorch, torch.compile, Triton, CuPy (CUB) and the bare driver.

Serves one of them over the protocol of bench/README.md.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable

import rows
from launch_overhead import DriverPeer, bursts
from server import Absent, Peer, main

# Written before every timed run: it evicts L2, and the GPU is busy with it while the host enqueues
# the timed work, so that the time between the two events holds no host time.
FLUSH_BYTES = 256 << 20
WARM_UP = 5


class CudaPeer(Peer):
    """What the peers that use PyTorch's tensors share: data, events and the check of results."""

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise Absent("PyTorch finds no CUDA device")
        self.torch = torch
        self.flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    @property
    def version(self) -> str:
        return self.torch.__version__

    @property
    def device(self) -> str:
        return self.torch.cuda.get_device_name()

    def rows(self) -> list[str]:
        return list(rows.GPU_ROWS)

    def normal(self, *shape: int):
        return self.torch.randn(shape, device="cuda")

    def timed(self, run: Callable[[], object], read: bool = False) -> Callable[[int], list[float]]:
        """Time of single calls of `run` on the GPU, between two events. With `read` L2 is clean
        before each call."""
        cuda = self.torch.cuda
        for _ in range(WARM_UP):
            run()
        cuda.synchronize()

        def measure(rounds: int) -> list[float]:
            pairs = []
            for _ in range(rounds):
                begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
                self.flush.zero_()
                if read:
                    self.flush.view(self.torch.float32).sum()
                begin.record()
                run()
                end.record()
                pairs.append((begin, end))
            cuda.synchronize()
            return [begin.elapsed_time(end) * 1e3 for begin, end in pairs]

        return measure

    def vectors(self):
        return self.normal(rows.GPU_N), self.normal(rows.GPU_N)

    def layer_norm_arguments(self):
        bf16 = self.torch.bfloat16
        columns = rows.GPU_MATRIX[1]
        return (self.normal(*rows.GPU_MATRIX).to(bf16), self.normal(columns).to(bf16), self.normal(columns).to(bf16))


class TorchPeer(CudaPeer):
    """PyTorch as it is called by default, op by op."""

    name = "PyTorch"

    def rows(self) -> list[str]:
        return super().rows() + list(rows.GPU_PRODUCT_ROWS) + list(rows.GPU_SORT_ROWS)

    def product(self, row: str) -> Callable[[int], list[float]]:
        """A matrix product, which is cuBLAS's."""
        torch = self.torch
        if row == rows.STACK_ROW:
            products, n = rows.GPU_STACK
            a, b = (self.normal(products, n, n).to(torch.bfloat16) for _ in range(2))
            out = torch.empty_like(a)
            return self.timed(lambda: torch.bmm(a, b, out=out), read=True)
        for elements, (_, _, n) in rows.GPU_NARROW.items():
            if row == rows.product_name(elements, (n, n, n)):
                return self.timed(self.narrow(elements, n), read=True)
        products = {rows.product_name(*product): product for product in (*rows.GPU_PRODUCTS, *rows.GPU_LAYERS)}
        products[rows.TILE_ROW] = ("bf16", (rows.GPU_TILE,) * 3)
        elements, (m, n, k) = products[row]
        kind = {"bf16": torch.bfloat16, "f16": torch.float16}[elements]
        a = self.normal(m, k).to(kind)
        b = self.normal(n, k).to(kind).t() if products[row] in rows.GPU_LAYERS else self.normal(k, n).to(kind)
        out = torch.empty(m, n, dtype=kind, device="cuda")
        return self.timed(lambda: torch.matmul(a, b, out=out), read=True)

    def narrow(self, elements: str, n: int) -> Callable[[], object]:
        """A product of elements that are not of 16 bits; the second factor lies by columns."""
        torch = self.torch
        a, b = self.normal(n, n), self.normal(n, n).t()
        if elements in ("tf32", "tf32x3", "f32", "f64"):
            if elements == "f64":
                a, b = a.double(), b.double()
            out = torch.empty(n, n, dtype=a.dtype, device="cuda")

            def multiply() -> object:
                torch.backends.cuda.matmul.allow_tf32 = elements == "tf32"
                return torch.matmul(a, b, out=out)

            return multiply
        if elements == "i8":
            a, b = ((32 * x).to(torch.int8) for x in (a, b))
            return lambda: torch._int_mm(a, b)
        a, b = (x.to(torch.float8_e4m3fn) for x in (a, b))
        of_a, of_b = (torch.tensor(x, device="cuda") for x in (0.5, 2.0))
        fast = elements == "fp8_fast"
        return lambda: torch._scaled_mm(a, b, of_a, of_b, out_dtype=torch.bfloat16, use_fast_accum=fast)

    def prepare(self, row: str) -> Callable[[int], list[float]]:
        torch = self.torch
        work = row.split("_")[0]
        if work == "matmul":
            return self.product(row)
        if work == "argsort":
            x = self.normal(*rows.GPU_SORTS[row])
            return self.timed(lambda: torch.argsort(x, dim=-1, stable=True))
        if work == "softmax":
            x = self.normal(*rows.GPU_MATRIX)
            return self.timed(lambda: torch.softmax(x, dim=-1))
        if work == "layernorm":
            x, weight, bias = self.layer_norm_arguments()
            return self.timed(
                lambda: torch.nn.functional.layer_norm(x, weight.shape, weight, bias, rows.LAYER_NORM_EPS)
            )
        x, y = self.vectors()
        out = torch.empty_like(x)
        return self.timed(
            {
                "copy": lambda: out.copy_(x),
                "add": lambda: torch.add(x, y, out=out),
                "chain": lambda: torch.relu(x * y + x) * 0.5 + torch.tanh(y),
                "sum": lambda: x.sum(),
            }[work]
        )


class TorchCompilePeer(CudaPeer):
    """The same functions through torch.compile, which generates Triton kernels."""

    name = "torch.compile"

    def rows(self) -> list[str]:
        return [row for row in super().rows() if not row.startswith("copy")]

    def prepare(self, row: str) -> Callable[[int], list[float]]:
        torch = self.torch
        work = row.split("_")[0]
        eager = {
            "add": lambda x, y: x + y,
            "chain": lambda x, y: torch.relu(x * y + x) * 0.5 + torch.tanh(y),
            "sum": lambda x: x.sum(),
            "softmax": lambda x: torch.softmax(x, dim=-1),
            "layernorm": lambda x, w, b: torch.nn.functional.layer_norm(x, w.shape, w, b, rows.LAYER_NORM_EPS),
        }[work]
        if work == "softmax":
            arguments = (self.normal(*rows.GPU_MATRIX),)
        elif work == "layernorm":
            arguments = self.layer_norm_arguments()
        elif work == "sum":
            arguments = (self.normal(rows.GPU_N),)
        else:
            arguments = self.vectors()
        compiled = torch.compile(eager)
        return self.timed(lambda: compiled(*arguments))


class TritonPeer(CudaPeer):
    """Hand-written Triton kernels, each the fastest of a few configurations."""

    name = "Triton"

    def __init__(self) -> None:
        super().__init__()
        import triton

        import triton_kernels

        self.triton = triton
        self.kernels = triton_kernels

    @property
    def version(self) -> str:
        return self.triton.__version__

    def rows(self) -> list[str]:
        return [row for row in super().rows() if not row.startswith(("copy", "sum"))] + ["launch_empty"]

    def prepare(self, row: str) -> Callable[[int], list[float]]:
        torch, kernels = self.torch, self.kernels
        if row == "launch_empty":
            data = torch.zeros(1024, device="cuda")
            return bursts(lambda: kernels.empty[(1,)](data, 1024), torch.cuda.synchronize)
        work = row.split("_")[0]
        if work == "softmax":
            x = self.normal(*rows.GPU_MATRIX)
            out = torch.empty_like(x)
            run = lambda: kernels.softmax(x, out)
            expected = torch.softmax(x, dim=-1)
        elif work == "layernorm":
            x, weight, bias = self.layer_norm_arguments()
            out = torch.empty_like(x)
            run = lambda: kernels.layer_norm(x, weight, bias, out, rows.LAYER_NORM_EPS)
            expected = torch.nn.functional.layer_norm(x, weight.shape, weight, bias, rows.LAYER_NORM_EPS)
        else:
            x, y = self.vectors()
            out = torch.empty_like(x)
            run = lambda: getattr(kernels, work)(x, y, out)
            expected = x + y if work == "add" else torch.relu(x * y + x) * 0.5 + torch.tanh(y)
        out.fill_(float("nan"))
        run()
        torch.testing.assert_close(out, expected)
        return self.timed(run)


class AttentionPeer(CudaPeer):
    """PyTorch's attention by one of its backends, checked against float64 on a small case."""

    backend: str

    def rows(self) -> list[str]:
        decoding = [name for name in rows.GPU_DECODING_ROWS if not name.endswith("_paged")]
        return [shape.name for shape in rows.GPU_ATTENTION if self.knows(shape)] + decoding

    def knows(self, shape: rows.GpuAttention) -> bool:
        """Whether the backend does this."""
        return not (shape.window or shape.packed)

    def attend(self, q, k, v, shape: rows.GpuAttention):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel(getattr(SDPBackend, self.backend)):
            return self.torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=shape.causal)

    def check(self, shape: rows.GpuAttention) -> None:
        """Compares a small case with float64."""
        torch = self.torch
        small = [self.normal(1, 2, 256, shape.width).to(torch.bfloat16) for _ in range(3)]
        lengths, window = (100, 156) if shape.packed else (256,), shape.window and 100
        place = torch.arange(256, device="cuda")
        distance = place[:, None] - place[None, :]
        seen = (place[:, None] < lengths[0]) == (place[None, :] < lengths[0])
        if shape.causal:
            seen &= (distance >= 0) & (distance < (window or 256))
        exact = torch.nn.functional.scaled_dot_product_attention(*(x.double() for x in small), attn_mask=seen)
        result = self.attend(*small, shape._replace(lengths=lengths, window=window))
        torch.testing.assert_close(result.double(), exact, rtol=2e-2, atol=2e-2)

    def decode(self, row: str) -> Callable[[int], list[float]]:
        """A query of each sequence to many keys, whose heads several of queries share."""
        from torch.nn.attention import SDPBackend, sdpa_kernel

        bf16, attend = self.torch.bfloat16, self.torch.nn.functional.scaled_dot_product_attention
        sequences, heads, key_heads, width = rows.GPU_DECODING_SHAPE
        keys = int(row.split("_")[2])
        q = self.normal(sequences, heads, 1, width).to(bf16)
        # As a cache lies in memory that grows by tokens: sequences x keys x heads x width.
        k, v = (self.normal(sequences, keys, key_heads, width).to(bf16).transpose(1, 2) for _ in range(2))

        def run():
            with sdpa_kernel(getattr(SDPBackend, self.backend)):
                return attend(q, k, v, enable_gqa=True)

        return self.timed(run)

    def prepare(self, row: str) -> Callable[[int], list[float]]:
        if row in rows.GPU_DECODING_ROWS:
            return self.decode(row)
        shape = next(s for s in rows.GPU_ATTENTION if s.name == row)
        self.check(shape)
        length = rows.GPU_POSITIONS if shape.packed else shape.lengths[0]
        heads, bf16 = rows.GPU_MODEL // shape.width, self.torch.bfloat16
        size = (rows.GPU_POSITIONS // length, heads, length, shape.width)
        q, k, v = (self.normal(*size).to(bf16) for _ in range(3))
        return self.timed(lambda: self.attend(q, k, v, shape))


class CudnnPeer(AttentionPeer):
    """cuDNN's fused attention."""

    name = "cuDNN"
    backend = "CUDNN_ATTENTION"

    @property
    def version(self) -> str:
        number = self.torch.backends.cudnn.version()
        return f"{number // 10000}.{number // 100 % 100}.{number % 100} in PyTorch {self.torch.__version__}"


class FlashAttentionPeer(AttentionPeer):
    """FlashAttention-2, as PyTorch has it."""

    name = "FlashAttention-2"
    backend = "FLASH_ATTENTION"

    @property
    def version(self) -> str:
        return f"in PyTorch {self.torch.__version__}"

    def knows(self, shape: rows.GpuAttention) -> bool:
        return True

    def prepare(self, row: str) -> Callable[[int], list[float]]:
        # Packed tensors begin where these say.
        self.starts = {lengths: self.starts_of(lengths) for lengths in ((100, 156), rows.GPU_PACKED)}
        return super().prepare(row)

    def starts_of(self, lengths: tuple[int, ...]):
        """Where sequences that follow each other begin, and the end."""
        ends = itertools.accumulate(lengths, initial=0)
        return self.torch.tensor(list(ends), dtype=self.torch.int32, device="cuda")

    def attend(self, q, k, v, shape: rows.GpuAttention):
        if not (shape.window or shape.packed):
            return super().attend(q, k, v, shape)
        # Windows and packed sequences are not in the public function. Batch x length x heads x
        # width, or tokens x heads x width.
        tensors = [x.transpose(1, 2) for x in (q, k, v)]
        starts, longest = None, q.shape[2]
        if shape.packed:
            tensors = [x[0] for x in tensors]
            starts, longest = self.starts[shape.lengths], max(shape.lengths)
        result = self.torch.ops.aten._flash_attention_forward(
            *tensors,
            starts,
            starts,
            longest,
            longest,
            0.0,
            shape.causal,
            False,
            window_size_left=shape.window - 1 if shape.window else None,
            window_size_right=0 if shape.window else None,
        )[0]
        return (result[None] if shape.packed else result).transpose(1, 2)


class CuPyPeer(Peer):
    """CuPy, whose reductions are CUB's."""

    name = "CuPy (CUB)"

    def __init__(self) -> None:
        os.environ["CUPY_ACCELERATORS"] = "cub"
        import cupy

        if cupy.cuda.runtime.getDeviceCount() == 0:
            raise Absent("CuPy finds no CUDA device")
        self.cupy = cupy
        self.flush = cupy.empty(FLUSH_BYTES, dtype=cupy.uint8)

    @property
    def version(self) -> str:
        return self.cupy.__version__

    @property
    def device(self) -> str:
        return self.cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()

    def rows(self) -> list[str]:
        return ["sum_f32_2^28"]

    def prepare(self, row: str) -> Callable[[int], list[float]]:
        cupy = self.cupy
        x = cupy.random.standard_normal(rows.GPU_N, dtype=cupy.float32)
        for _ in range(WARM_UP):
            x.sum()
        cupy.cuda.Device().synchronize()

        def measure(rounds: int) -> list[float]:
            pairs = []
            for _ in range(rounds):
                begin, end = cupy.cuda.Event(), cupy.cuda.Event()
                self.flush.fill(0)
                begin.record()
                x.sum()
                end.record()
                pairs.append((begin, end))
            cupy.cuda.Device().synchronize()
            return [cupy.cuda.get_elapsed_time(begin, end) * 1e3 for begin, end in pairs]

        return measure


PEERS = {
    "torch": TorchPeer,
    "torch.compile": TorchCompilePeer,
    "triton": TritonPeer,
    "cudnn": CudnnPeer,
    "flash": FlashAttentionPeer,
    "cupy": CuPyPeer,
    "driver": DriverPeer,
}

if __name__ == "__main__":
    main(PEERS)
