#!/usr/bin/env python3
"""Writes random programs over arrays, with gradients that JAX computes, for a test of kiln-array.

    tools/derivative_programs.py [--count N] [--seed N] > crates/kiln-array/tests/jax/programs.txt

Needs JAX and NumPy (PyPI packages `jax` and `numpy`). Programs are those of `array_programs.py`, of
numbers that are no ties, where the libraries choose differently. The last value that is of floats
is the result; after each `|` is the gradient of the sum of its sines for an input of floats, in
order.
"""

import argparse
import sys

import jax
import jax.numpy as jnp
import numpy as np

import array_programs
from array_programs import Program, Unfit
from array_cases import text

jax.config.update("jax_enable_x64", True)

DTYPES = {"f64": jnp.float64, "i32": jnp.int32, "i64": jnp.int64, "bool": jnp.bool_}


class Smooth(Program):
    """A program whose numbers are not equal, so that extremes have one place."""

    def input(self):
        super().input()
        x = self.values[-1]
        if x.dtype == np.float64:
            x = self.rng.normal(size=x.shape)
            self.values[-1] = x
            self.steps[-1] = f"in {text(x)}"

    def add(self, step, value):
        value = np.asarray(value)
        name, floats = step.split(" ")[0], [v for v in self.operands(step) if v.dtype == np.float64]
        if name in ("abs", "sqrt_abs") and any((np.abs(x) < 1e-2).any() for x in floats):
            raise Unfit
        if name in ("maximum", "minimum") and (len(floats) < 2 or (np.abs(floats[0] - floats[1]) < 1e-6).any()):
            raise Unfit
        if name in ("sort", "max", "min") and any(len(np.unique(np.round(x, 6))) < x.size for x in floats):
            raise Unfit
        if name in ("std", "norm") and (np.abs(value) < 1e-6).any():
            raise Unfit
        super().add(step, value)

    def operands(self, step):
        words = step.split(" ")
        counts = {"in": 0, "where": 3} | dict.fromkeys(["maximum", "minimum"], 2)
        return [self.values[int(word)] for word in words[1 : 1 + counts.get(words[0], 1)]]


def along(function):
    return lambda v, n: function(v[n[0]], n[1])


def reduced(function):
    return lambda v, n: function(v[n[0]], axis=n[1], keepdims=bool(n[2]))


def unary(function):
    return lambda v, n: function(v[n[0]])


def binary(function):
    return lambda v, n: function(v[n[0]], v[n[1]])


def cut(v, n):
    window = [slice(None)] * v[n[0]].ndim
    window[n[1]] = slice(n[2], n[3], n[4])
    return v[n[0]][tuple(window)]


def pad(v, n):
    return jnp.pad(v[n[0]], [(n[2], n[3]) if axis == n[1] else (0, 0) for axis in range(v[n[0]].ndim)])


def scatter_add(v, n):
    x, index = v[n[0]], jnp.array(n[2:])
    values = jnp.take(x, index, n[1]) * 0.5
    return x.at[tuple([slice(None)] * n[1] + [index])].add(values)


def windows(v, n):
    x, axis, length, by = v[n[0]], *n[1:]
    at = jnp.arange(0, x.shape[axis] - length + 1, by)[:, None] + jnp.arange(length)
    return jnp.take(x, at, axis)


def take_along(v, n):
    return jnp.take_along_axis(v[n[0]], v[n[1]] % v[n[0]].shape[n[2]], n[2])


def scatter(v, n):
    x, index = v[n[0]], n[2:]
    values = jnp.take(x, jnp.array(index[::-1]), n[1])
    for number, place in enumerate(index):
        x = x.at[(slice(None),) * n[1] + (place,)].set(jnp.take(values, number, n[1]))
    return x


STEPS = {
    "windows": windows, "take_along": take_along, "scatter": scatter,
    "tril": lambda v, n: jnp.tril(v[n[0]], n[1]), "triu": lambda v, n: jnp.triu(v[n[0]], n[1]),
    "tile": lambda v, n: jnp.tile(v[n[0]], n[1:]), "diagonal": unary(lambda x: jnp.diagonal(x, axis1=-2, axis2=-1)),
    "clip": unary(lambda x: jnp.clip(x, -2, 3)), "diff": along(lambda x, axis: jnp.diff(x, axis=axis)),
    "logsumexp": along(jax.nn.logsumexp), "std": reduced(jnp.std),
    "norm": reduced(lambda x, **how: jnp.sqrt((x.astype(jnp.float64) ** 2).sum(**how))),
    "sin": unary(jnp.sin), "tanh": unary(jnp.tanh), "square": unary(jnp.square), "neg": unary(jnp.negative),
    "abs": unary(jnp.abs), "sqrt_abs": unary(lambda x: jnp.sqrt(jnp.abs(x))), "add": binary(jnp.add),
    "sub": binary(jnp.subtract), "mul": binary(jnp.multiply), "maximum": binary(jnp.maximum),
    "minimum": binary(jnp.minimum), "less": binary(jnp.less), "equal": binary(jnp.equal),
    "number": lambda v, n: v[n[0]] * n[1] + 1, "sum": reduced(jnp.sum), "mean": reduced(jnp.mean),
    "max": reduced(jnp.max), "min": reduced(jnp.min), "var": reduced(jnp.var), "cumsum": along(jnp.cumsum),
    "softmax": along(jax.nn.softmax), "sort": along(jnp.sort),
    "where": lambda v, n: jnp.where(v[n[1]], v[n[0]], v[n[2]]), "slice": cut,
    "select": lambda v, n: jnp.take(v[n[0]], n[2], n[1]), "permute": lambda v, n: v[n[0]].transpose(n[1:]),
    "reshape": lambda v, n: v[n[0]].reshape(n[1:]), "unsqueeze": along(jnp.expand_dims), "flip": along(jnp.flip),
    "roll": lambda v, n: jnp.roll(v[n[0]], n[1], n[2]), "pad": pad,
    "concatenate": lambda v, n: jnp.concatenate([v[n[0]], v[n[1]]], n[2]),
    "stack": lambda v, n: jnp.stack([v[n[0]], v[n[1]]], n[2]),
    "take": lambda v, n: jnp.take(v[n[0]], jnp.array(n[2:]), n[1]),
    "taken_by": lambda v, n: jnp.take(v[n[0]], v[n[1]] % v[n[0]].shape[n[2]], n[2]), "matmul": binary(jnp.matmul),
    "scatter_add": scatter_add,
}


def value(steps, inputs, floats):
    """The sum of the sines of the last value of floats."""
    values, given = [], dict(zip(floats, inputs))
    for at, step in enumerate(steps):
        name, *words = step.split(" ")
        if name == "in":
            values.append(given[at] if at in given else CONSTANTS[at])
        elif name == "cast":
            values.append(values[int(words[0])].astype(DTYPES[words[1]]))
        else:
            values.append(STEPS[name](values, [int(word) for word in words]))
    # JAX has other types than NumPy for some means and sums.
    last = [x for x in values[len(CONSTANTS) :] if x.dtype == jnp.float64]
    if [x.dtype for x in values] != DTYPES_OF_NUMPY or not last:
        raise Unfit
    return jnp.sin(last[-1]).sum()


CONSTANTS = []
DTYPES_OF_NUMPY = []


def program(rng):
    made = Smooth(rng)
    for _ in range(3 + made.below(3)):
        made.input()
    inputs = len(made.steps)
    made.grow(6 + made.below(10), tries=600)
    floats = [at for at in range(inputs) if made.values[at].dtype == np.float64]
    if not floats or not any(x.dtype == np.float64 for x in made.values[inputs:]):
        return None
    CONSTANTS[:] = [jnp.asarray(x) for x in made.values[:inputs]]
    DTYPES_OF_NUMPY[:] = [x.dtype for x in made.values]
    try:
        gradients = jax.grad(lambda given: value(made.steps, given, floats))([CONSTANTS[at] for at in floats])
    except Unfit:
        return None
    if not all(np.isfinite(g).all() and (np.abs(np.asarray(g)) < 1e6).all() for g in gradients):
        return None
    return ";".join(made.steps) + "".join(f"|{text(np.asarray(g))}" for g in gradients)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=80, help="how many programs (default: 80)")
    options.add_argument("--seed", type=int, default=20261129, help="of the first program (default: 20261129)")
    options = options.parse_args()
    # Those that have no slope are left out.
    for name in set(array_programs.STEPS) - set(STEPS) - {"cast"}:
        array_programs.STEPS.pop(name)
    number, written = options.seed, 0
    with np.errstate(all="ignore"):
        while written < options.count:
            line = program(np.random.default_rng(number))
            number += 1
            if line:
                print(line, flush=True)
                written += 1


if __name__ == "__main__":
    sys.exit(main())
