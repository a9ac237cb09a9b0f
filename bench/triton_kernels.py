"""The Triton peer's kernels, plainly written, with a small search over block sizes and warps."""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

_FLAT = [triton.Config({"BLOCK": block}, num_warps=warps) for block in (1024, 2048, 4096) for warps in (4, 8)]
_ROW = [triton.Config({}, num_warps=warps) for warps in (4, 8, 16)]


@triton.autotune(_FLAT, key=["n"])
@triton.jit
def _add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@triton.autotune(_FLAT, key=["n"])
@triton.jit
def _chain(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(x + at, inside)
    b = tl.load(y + at, inside)
    tl.store(out + at, tl.maximum(a * b + a, 0.0) * 0.5 + libdevice.tanh(b), inside)


@triton.autotune(_ROW, key=["columns"])
@triton.jit
def _softmax(x, out, columns, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    inside = at < columns
    v = tl.load(x + first + at, inside, other=float("-inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + first + at, e / tl.sum(e, axis=0), inside)


@triton.autotune(_ROW, key=["columns"])
@triton.jit
def _layer_norm(x, weight, bias, out, columns, eps, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    inside = at < columns
    v = tl.load(x + first + at, inside, other=0.0).to(tl.float32)
    mean = tl.sum(v, axis=0) / columns
    centered = tl.where(inside, v - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centered * centered, axis=0) / columns + eps)
    w = tl.load(weight + at, inside).to(tl.float32)
    b = tl.load(bias + at, inside).to(tl.float32)
    tl.store(out + first + at, (centered * scale * w + b).to(out.dtype.element_ty), inside)


def add(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    """out = x + y, vectors of one length."""
    _add[lambda config: (triton.cdiv(x.numel(), config["BLOCK"]),)](x, y, out, x.numel())


def chain(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    """out = relu(x*y + x)*0.5 + tanh(y), vectors of one length."""
    _chain[lambda config: (triton.cdiv(x.numel(), config["BLOCK"]),)](x, y, out, x.numel())


def softmax(x: torch.Tensor, out: torch.Tensor) -> None:
    """Softmax over the rows of a contiguous matrix."""
    rows, columns = x.shape
    _softmax[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, eps: float) -> None:
    """Layer norm over the rows of a contiguous matrix."""
    rows, columns = x.shape
    _layer_norm[(rows,)](x, weight, bias, out, columns, eps, BLOCK=triton.next_power_of_2(columns))


@triton.jit
def empty(data, count):
    """Does nothing: what it costs is the launch."""
    pass
