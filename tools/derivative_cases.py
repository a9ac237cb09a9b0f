#!/usr/bin/env python3
"""Writes the derivatives that JAX computes for the tests of kiln-array, in f64.

    tools/derivative_cases.py > crates/kiln-array/tests/jax/cases.txt

Needs JAX (PyPI package `jax`). A line is a function of `tests/catalog/mod.rs`, by its name there,
with four lists of numbers between `|`: its value, its gradient for given gradients of its results,
its tangent, and the matrix of second derivatives of the sum of the results' sines, weighted, times
a vector. What it is computed of follows from formulas that both sides have.
"""

import sys

import jax
import jax.numpy as np
from jax import lax, nn
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import erf

jax.config.update("jax_enable_x64", True)


def numbers(shape, positive, seed):
    """As `numbers` in the catalog."""
    i = np.arange(int(np.prod(np.array(shape, int))) if shape else 1)
    x = 0.3 + ((i * 37 + 11 + seed * 29) % 101) / 41.0 + i * 1e-3
    return np.where(positive | ((i + seed) % 3 != 1), x, -x).reshape(shape)


def beside(*shape):
    return numbers(shape, True, 5)


def gelu(x):
    return nn.gelu(x, approximate=False)


def norm(x):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)


def grouped(x, groups):
    apart = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
    mean = apart.mean((1, 3), keepdims=True)
    return ((apart - mean) / np.sqrt(((apart - mean) ** 2).mean((1, 3), keepdims=True) + 1e-5)).reshape(x.shape)


def rotary(x, places, base, neighbors):
    """By multiplication of complex numbers."""
    half = x.shape[-1] // 2
    angles = places[..., None, None] * base ** (-np.arange(half) / half)
    pairs = (x[..., 0::2], x[..., 1::2]) if neighbors else (x[..., :half], x[..., half:])
    turned = (pairs[0] + 1j * pairs[1]) * np.exp(1j * angles)
    if neighbors:
        return np.stack([turned.real, turned.imag], -1).reshape(x.shape)
    return np.concatenate([turned.real, turned.imag], -1)


def convolution(x, w, step, padding, dilation=(1, 1), groups=1):
    dims = ("NCHW", "OIHW", "NCHW")
    return lax.conv_general_dilated(x, w, step, [(p, p) for p in padding], rhs_dilation=dilation,
                                    dimension_numbers=dims, feature_group_count=groups)


def transposed(x, w, step, padding):
    """What a convolution's gradient does."""
    shape = (x.shape[0], w.shape[1]) + tuple(
        (x.shape[2 + a] - 1) * step[a] + w.shape[2 + a] - 2 * padding[a] for a in range(2))
    _, pull = jax.vjp(lambda y: convolution(y, w, step, padding), np.zeros(shape))
    return pull(x)[0]


def pooled(x, window, step, reduce):
    places = [[slice(r, x.shape[2 + a] - window[a] + r + 1, step[a]) for r in range(window[a])] for a in range(2)]
    parts = [x[:, :, rows, columns] for rows in places[0] for columns in places[1]]
    return reduce(np.stack(parts), 0)


def windows(x, axis, width, step):
    starts = range(0, x.shape[axis] - width + 1, step)
    return np.stack([lax.slice_in_dim(x, s, s + width, axis=axis) for s in starts], axis)


def best(x, k):
    order = np.argsort(-x, -1, stable=True)[..., :k]
    return np.take_along_axis(x, order, -1)


def scanned(x):
    def step(c, x):
        c = c * 0.5 + np.sin(x)
        return c, c * x
    return lax.scan(step, x[0], x)[1]


def cross_entropy(x, targets):
    return -np.take_along_axis(nn.log_softmax(x, -1), targets[:, None], 1).mean()


I = np.array
at2 = I([[2, 0], [-1, 2]])
eye = np.eye

# The shape, whether numbers are positive, the function.
CASES = {
    "exp": ((7,), 0, np.exp), "exp2": ((7,), 0, np.exp2), "log": ((7,), 1, np.log), "log2": ((7,), 1, np.log2),
    "log1p": ((7,), 1, np.log1p), "sin": ((7,), 0, np.sin), "cos": ((2, 3), 0, np.cos), "tanh": ((7,), 0, np.tanh),
    "erf": ((7,), 0, erf), "sigmoid": ((7,), 0, nn.sigmoid), "sqrt": ((7,), 1, np.sqrt),
    "rsqrt": ((7,), 1, lax.rsqrt), "recip": ((7,), 0, lambda x: 1 / x), "abs": ((7,), 0, np.abs),
    "neg": ((7,), 0, lambda x: -x), "square": ((7,), 0, np.square), "relu": ((7,), 0, nn.relu),
    "silu": ((7,), 0, nn.silu), "gelu": ((7,), 0, gelu), "sign": ((7,), 0, lambda x: np.sign(x) * x),
    "floor": ((7,), 0, lambda x: np.floor(x) + x), "ceil": ((7,), 0, lambda x: np.ceil(x) * x),
    "round": ((7,), 0, lambda x: np.round(x) + x), "trunc": ((7,), 0, lambda x: np.trunc(x) * x),
    "number": ((), 0, lambda x: np.exp(x) * 2), "pow whole": ((7,), 0, lambda x: x ** 3),
    "pow": ((7,), 1, lambda x: x ** 2.5), "pow by": ((2, 4), 1, lambda x: beside(4) ** x),
    "pow of": ((2, 4), 1, lambda x: x ** beside(4)), "add": ((3, 4), 0, lambda x: x + beside(4)),
    "sub": ((3, 1), 0, lambda x: beside(4) - x), "mul": ((3, 4), 0, lambda x: x * beside(3, 1)),
    "div": ((4,), 0, lambda x: beside(3, 4) / x), "divided": ((4,), 0, lambda x: x / beside(3, 4)),
    "rem": ((4,), 0, lambda x: np.remainder(x, beside(4))),
    "floor_divide": ((4,), 0, lambda x: np.floor(x / beside(4)) + x),
    "maximum": ((4,), 0, lambda x: np.maximum(x, beside(4) * 0.5)),
    "minimum": ((3, 4), 0, lambda x: np.minimum(x, beside(4) * 0.5)),
    "atan2": ((4,), 0, lambda x: np.arctan2(x, beside(4)) + np.arctan2(beside(4), x)),
    "clip": ((3, 4), 0, lambda x: np.clip(x, -0.4, 1.1)), "where": ((3, 4), 0, lambda x: np.where(x > 0.2, x, x * 3)),
    "where else": ((4,), 0, lambda x: np.where(x < 0.2, beside(3, 4), np.exp(x))),
    "cast": ((5,), 0, lambda x: x * x), "expm1": ((7,), 0, np.expm1), "log10": ((7,), 1, np.log10),
    "tan": ((7,), 0, lambda x: np.tan(x * 0.4)), "asin": ((7,), 0, lambda x: np.arcsin(x * 0.3)),
    "acos": ((7,), 0, lambda x: np.arccos(x * 0.3)), "atan": ((7,), 0, np.arctan), "sinh": ((7,), 0, np.sinh),
    "cosh": ((7,), 0, np.cosh),
    "cond": ((7,), 0, lambda x: np.where(x > 0, np.sqrt(np.where(x > 0, x, 1)), np.exp(x))),
    "stop_gradient": ((5,), 0, lambda x: x * np.floor(lax.stop_gradient(x))),
    "custom_vjp": ((5,), 0, lambda x: np.sin(x) * np.exp(x)),

    "broadcast_to": ((3, 1), 0, lambda x: np.broadcast_to(x, (2, 3, 4))), "reshape": ((4, 3), 0, lambda x: x.reshape(2, -1)),
    "flatten": ((4, 3), 0, lambda x: np.exp(x).T.flatten()), "transpose": ((4, 3), 0, lambda x: x.T * 2),
    "permute": ((2, 3, 4), 0, lambda x: x.transpose(1, 2, 0)), "swap_axes": ((2, 3, 4), 0, lambda x: x.swapaxes(0, -1)),
    "slice": ((5, 4), 0, lambda x: x[1:3, 2:]), "slice of none": ((5, 4), 0, lambda x: x[1] * 1.0),
    "slice_step": ((7, 3), 0, lambda x: x[1:6:2]), "slice back": ((7, 3), 0, lambda x: x[::-3]),
    "select": ((3, 4), 0, lambda x: x[:, -2]), "flip": ((3, 4), 0, lambda x: x[:, ::-1]),
    "pad": ((2, 3), 0, lambda x: np.pad(np.exp(x), [(1, 0), (2, 1)])), "squeeze": ((3, 1), 0, lambda x: x[:, 0][None]),
    "concatenate": ((2, 3), 0, lambda x: np.concatenate([np.exp(x), x, x * x], 1)),
    "stack": ((2, 3), 0, lambda x: np.stack([np.exp(x), x], 1)), "split": ((5, 2), 0, lambda x: x[2:]),
    "roll": ((3, 4), 0, lambda x: np.roll(np.roll(np.exp(x), -1, 1), 2, 0)),
    "repeat": ((3, 2), 0, lambda x: np.repeat(np.repeat(x, 3, 0), 2, -1)), "tile": ((3, 2), 0, lambda x: np.tile(x, (2, 1, 2))),
    "tril": ((3, 4), 0, lambda x: np.tril(np.exp(x), 1)), "triu": ((2, 4, 3), 0, lambda x: np.triu(x, -1) * x),
    "diagonal": ((2, 4, 3), 0, lambda x: np.diagonal(np.exp(x), axis1=-2, axis2=-1)),
    "trace": ((3, 4), 0, lambda x: np.trace(x) * x), "move_axis": ((2, 3, 4), 0, lambda x: np.moveaxis(x, 0, 1)),
    "diff": ((5, 2), 0, lambda x: np.diff(x ** 2, axis=0)), "windows": ((2, 7), 0, lambda x: windows(x, 1, 3, 2)),
    "windows apart": ((7,), 0, lambda x: windows(np.exp(x), 0, 2, 2)),

    "sum": ((2, 3, 4), 0, np.sum), "sum_axes": ((2, 3, 4), 0, lambda x: x.sum((0, 2))), "mean": ((2, 3, 4), 0, lambda x: x.mean(0)),
    "norm": ((2, 3, 4), 0, lambda x: np.sqrt((x * x).sum((0, 2))) * np.linalg.norm(x)),
    "norm_keep": ((2, 3, 4), 0, lambda x: x / np.linalg.norm(x, axis=2, keepdims=True)),
    "std": ((2, 3, 4), 0, lambda x: x.std(1)), "scan": ((3, 4), 0, scanned),
    "rfft": ((2, 6), 0, lambda x: np.fft.rfft(x, axis=1).imag),
    "irfft": ((4,), 0, lambda x: np.fft.irfft(x + 1j * np.exp(x), 6)),
    "var": ((2, 3, 4), 0, lambda x: x.var(-1, keepdims=True)), "max": ((2, 3, 4), 0, lambda x: x.max(1)),
    "min": ((2, 3, 4), 0, lambda x: x.min((0, 2))), "prod": ((2, 3, 4), 0, lambda x: x.prod(2)),
    "prod_keep": ((2, 3, 2), 0, lambda x: x.prod((0, 1), keepdims=True)), "cumsum": ((2, 3, 4), 0, lambda x: x.cumsum(1)),
    "cumsum last": ((9,), 0, lambda x: x.cumsum() * x), "softmax": ((2, 3, 4), 0, lambda x: nn.softmax(x, -1)),
    "log_softmax": ((2, 3, 4), 0, lambda x: nn.log_softmax(x, 1)), "logsumexp": ((2, 3, 4), 0, lambda x: nn.logsumexp(x, -1)),
    "layer_norm": ((2, 3, 4), 0, lambda x: norm(x) * x.sum((0, 1)) + x.mean((0, 1))),
    "group_norm": ((2, 3, 4), 0, lambda x: grouped(x, 2) * x.sum((0, 1)) + x.mean((0, 1))),
    "rotary halves": ((3, 2, 4), 0, lambda x: rotary(np.exp(x), beside(3), 100.0, False)),
    "rotary neighbors": ((2, 2, 1, 4), 0, lambda x: rotary(x, beside(2, 2), 10000.0, True) * x),
    "rms_norm": ((2, 3, 4), 0, lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * x.sum((0, 1))),

    "matmul left": ((2, 3), 0, lambda x: x @ beside(3, 4)), "matmul right": ((4, 2), 0, lambda x: np.tanh(beside(3, 4) @ x)),
    "matmul both": ((3, 3), 0, lambda x: x @ np.exp(x)), "matmul transposed": ((4, 3), 0, lambda x: x.T @ beside(4, 2)),
    "matmul gram": ((3, 2), 0, lambda x: x @ x.T), "matmul stack": ((5, 2, 3), 0, lambda x: x @ beside(3, 4)),
    "matmul stacks": ((5, 2, 3), 0, lambda x: x @ beside(5, 3, 4)),
    "matmul shared left": ((2, 3), 0, lambda x: x @ beside(5, 3, 4)),
    "matmul shared right": ((3, 4), 0, lambda x: beside(5, 2, 3) @ x),
    "matmul of stack": ((5, 3, 2), 0, lambda x: beside(4, 3) @ x),
    "matmul stack itself": ((3, 2, 2), 0, lambda x: x @ x[:1]), "matmul row": ((3,), 0, lambda x: x @ beside(3, 4)),
    "matmul column": ((3,), 0, lambda x: beside(4, 3) @ x), "dot": ((3,), 0, lambda x: x @ np.exp(x)),
    "einsum": ((2, 3, 4), 0, lambda x: np.einsum("bij,bkj->ik", x, np.exp(x))),
    "conv2d": ((2, 2, 4, 5), 0, lambda x: convolution(x, beside(3, 2, 2, 3), (2, 1), (1, 0))),
    "conv2d weight": ((3, 2, 2, 2), 0, lambda x: convolution(beside(1, 2, 4, 3), x, (1, 2), (0, 1))),
    "conv1d": ((2, 2, 5), 0, lambda x: convolution(x[:, :, None], beside(3, 2, 2)[:, :, None], (1, 2), (0, 1))[:, :, 0]),
    "convolve2d": ((1, 4, 5, 6), 0, lambda x: convolution(x, beside(6, 2, 2, 2), (1, 2), (1, 0), (2, 3), 2)),
    "depthwise": ((1, 3, 4, 4), 0, lambda x: convolution(x, beside(3, 1, 2, 3), (1, 1), (1, 1), (1, 1), 3)),
    "depthwise weight": ((3, 1, 2, 2), 0, lambda x: convolution(beside(2, 3, 4, 3), x, (1, 1), (0, 0), (2, 1), 3)),
    "conv_transpose2d": ((1, 2, 2, 3), 0, lambda x: transposed(x, beside(2, 2, 3, 2), (2, 1), (1, 0))),
    "cholesky": ((3, 3), 0, lambda x: np.linalg.cholesky(x @ x.T + eye(3))),
    "solve": ((2, 2), 0, lambda x: np.linalg.solve(x + eye(2) * 9, x)), "qr": ((3, 2), 0, lambda x: np.linalg.qr(x * x)[1]),
    "determinant": ((2, 3, 3), 0, lambda x: np.linalg.det(x + eye(3) * 2)),
    "einsum diagonal": ((3, 2, 3), 0, lambda x: np.einsum("iji,kjl->jk", x, np.exp(x))),
    "cumprod": ((2, 5), 0, lambda x: np.cumprod(x, 1)), "cummax": ((7, 2), 0, lambda x: lax.cummax(x) * x),
    "max_pool2d": ((1, 2, 4, 4), 0, lambda x: pooled(x, (2, 2), (2, 1), np.max)),
    "avg_pool2d": ((1, 2, 4, 4), 0, lambda x: pooled(x, (2, 3), (1, 1), np.mean)),

    "asinh": ((7,), 0, np.arcsinh), "acosh": ((7,), 1, lambda x: np.arccosh(x + 1)), "cbrt": ((7,), 0, np.cbrt),
    "atanh": ((7,), 0, lambda x: np.arctanh(x * 0.3)), "hypot": ((4,), 0, lambda x: np.hypot(x, beside(3, 4)) * x),
    "hypot of": ((3, 1), 0, lambda x: np.hypot(beside(4), np.exp(x))),
    "meshgrid": ((4,), 0, lambda x: np.prod(np.stack(np.meshgrid(x, np.exp(x), indexing="ij")), 0)),
    "median": ((2, 5), 0, lambda x: np.median(x, 1)), "median of two": ((4, 2), 0, lambda x: np.median(x, 0) * x),
    "quantiles": ((2, 5), 0, lambda x: np.quantile(x, np.array([0.1, 0.7, 1.0]), -1)),
    "bincount_weighted": ((6,), 0, lambda x: np.bincount(I([2, 0, 2, 1, 2, 0]), np.exp(x), length=4)),

    "take": ((3, 2), 0, lambda x: np.exp(x)[at2]), "take one": ((3, 2), 0, lambda x: x[:, I([1])]),
    "take by itself": ((3, 4), 0, lambda x: x[:, np.argmax(x, 1)]),
    "take_along": ((2, 4), 0, lambda x: np.take_along_axis(x, at2 % 4, 1)),
    "take_along shared": ((2, 4), 0, lambda x: x[:, I([2, 0, -1])]), "sort": ((3, 4), 0, lambda x: np.sort(x, 1)),
    "sort rows": ((5,), 0, lambda x: np.sort(x) * x), "top_k": ((2, 5), 0, lambda x: best(x, 2)),
    "scatter": ((5, 2), 0, lambda x: x.at[I([-1, 1])].set(x[1:3] * 2)),
    "scatter number": ((3, 4), 0, lambda x: x.at[:, I([1, -1])].set(0.5)),
    "scatter_add": ((5, 2), 0, lambda x: x.at[I([[1, -1], [1, 0]])].add(np.exp(x)[:4].reshape(2, 2, 2))),
    "scatter_add one": ((3, 4), 0, lambda x: x.at[:, I([2])].add(np.exp(x[:, :1]))),
    "scatter_add values": ((2, 3), 0, lambda x: beside(2, 4).at[:, I([1, 0, 1])].add(np.exp(x))),
    "scatter_add by itself": ((3, 4), 0, lambda x: x.at[:, np.argmax(x, 1)].add(np.exp(x)[:, :3])),
    "put_along": ((2, 4), 0, lambda x: x.at[I([[0], [1]]), at2].set(np.exp(x[:, 1:3]))),
    "add_along": ((3, 4), 0, lambda x: x.at[I([[0], [1], [2]]), I([[2, 0], [2, 2], [1, 0]])].add(np.exp(x[:, 1:3]))),
    "add_along rows": ((3, 4), 0, lambda x: x.at[np.argmax(x, 0), np.arange(4)].add(x[1])),
    "embedding": ((4, 2), 0, lambda x: x[I([3, 3, 0])] ** 2),
    "cross_entropy": ((3, 4), 0, lambda x: cross_entropy(x, I([1, 0, 3]))),
}


def main():
    for name, (shape, positive, f) in CASES.items():
        x, v = numbers(shape, bool(positive), 0), numbers(shape, False, 4) * 0.5
        y, pull = jax.vjp(f, x)
        w = numbers(y.shape, True, 2)
        number = lambda x: (np.sin(f(x)) * numbers(y.shape, True, 2)).sum()
        _, tangent = jax.jvp(f, (x,), (v,))
        _, second = jax.jvp(jax.grad(number), (x,), (v,))
        lists = [y, pull(w)[0], tangent, second]
        print("|".join([name] + [" ".join(repr(float(e)) for e in of.ravel()) for of in lists]))


sys.exit(main())
