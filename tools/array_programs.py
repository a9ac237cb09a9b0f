#!/usr/bin/env python3
"""Writes random programs over arrays, with what NumPy computes, for a test of kiln-array.

    tools/array_programs.py [--count N] [--seed N] > crates/kiln-array/tests/numpy/programs.txt

Needs NumPy (PyPI package `numpy`). A program is a line of steps between `;`. A step is an
operation, the numbers of its operands among the values before it, and numbers of its own; `in` is
an input. After `|` are the numbers of the results, each with its elements. The other operations of
a program are part of what fuses, so that a result depends on how views, sums, casts and indices
combine.
"""

import argparse
import sys

import numpy as np

from array_cases import text

DTYPES = ["f64", "f64", "f64", "i32", "i64", "bool"]
NUMPY = {"f64": np.float64, "i32": np.int32, "i64": np.int64, "bool": np.bool_}
SHAPES = [(), (1,), (4,), (3, 4), (1, 4), (3, 1), (2, 3, 4), (2, 1, 4), (5, 3), (4, 3), (17,), (0,), (2, 0)]
MOST_ELEMENTS = 600
MOST = 1e5


class Unfit(Exception):
    """A step that does not fit its operands."""


def steady(*values):
    """Refuses numbers that a rounding error may have moved, for steps that jump."""
    for x in values:
        if x.dtype.kind == "f" and not (x * 2**20 == np.floor(x * 2**20)).all():
            raise Unfit


class Program:
    """Steps, and the value of each."""

    def __init__(self, rng):
        self.rng, self.steps, self.values = rng, [], []

    def below(self, most):
        return int(self.rng.integers(most))

    def pick(self, *choices):
        return choices[self.below(len(choices))]

    def add(self, step, value):
        value = np.asarray(value)
        if value.size > MOST_ELEMENTS or value.ndim > 4 or value.dtype.name not in ("float64", "int32", "int64", "bool"):
            raise Unfit
        if value.dtype.kind == "f" and (not np.isfinite(value).all() or (np.abs(value) > MOST).any()):
            raise Unfit
        if value.dtype.kind == "i" and (np.abs(value) > MOST).any():
            raise Unfit
        self.steps.append(step)
        self.values.append(value)

    def input(self):
        dtype, shape = self.pick(*DTYPES), self.pick(*SHAPES)
        if dtype == "f64":
            x = self.rng.integers(-24, 25, shape) / 8
        elif dtype == "bool":
            x = self.rng.integers(0, 2, shape)
        else:
            x = self.rng.integers(-6, 7, shape)
        x = np.asarray(x, NUMPY[dtype])
        self.add(f"in {text(x)}", x)

    def operand(self):
        # Late values more often, so that chains become long.
        count = len(self.values)
        at = max(self.below(count), self.below(count))
        return at, self.values[at]

    def axis(self, x):
        if x.ndim == 0:
            raise Unfit
        return self.below(x.ndim)

    def step(self):
        name = self.pick(*STEPS)
        STEPS[name](self, name, *self.operand())

    def grow(self, length, tries):
        """Adds so many steps, or those that fit after so many tries."""
        end = len(self.steps) + length
        for _ in range(tries):
            if len(self.steps) == end:
                break
            try:
                self.step()
            except (Unfit, ValueError, TypeError, ZeroDivisionError, IndexError, np.exceptions.AxisError):
                continue


def unary(function, jumps=False):
    def step(program, name, at, x):
        if x.dtype != np.float64:
            raise Unfit
        if jumps:
            steady(x)
        program.add(f"{name} {at}", function(x))

    return step


def binary(function, jumps=False):
    def step(program, name, at, x):
        other, y = program.operand()
        if jumps:
            steady(x, y)
        program.add(f"{name} {at} {other}", function(x, y))

    return step


def reduced(function, empty=True, jumps=False):
    def step(program, name, at, x):
        axis = program.axis(x)
        if jumps:
            steady(x)
        keep = bool(program.below(2))
        if x.shape[axis] == 0 and not empty:
            raise Unfit
        program.add(f"{name} {at} {axis} {int(keep)}", function(x, axis=axis, keepdims=keep))

    return step


def along(function, floats=False):
    def step(program, name, at, x):
        axis = program.axis(x)
        if x.shape[axis] == 0 or (floats and x.dtype != np.float64) or x.dtype == np.bool_:
            raise Unfit
        program.add(f"{name} {at} {axis}", function(x, axis))

    return step


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def divided(program, name, at, x):
    other, y = program.operand()
    steady(x, y)
    if bool in (x.dtype, y.dtype):
        raise Unfit
    program.add(f"{name} {at} {other}", np.floor_divide(x, np.where(y == 0, np.ones_like(y), y)))


def cast(program, name, at, x):
    to = program.pick("f64", "i32", "i64", "bool")
    steady(x)
    program.add(f"{name} {at} {to}", x.astype(NUMPY[to]))


def number(program, name, at, x):
    n = program.pick(2, -3, 1)
    if x.dtype == np.bool_:
        raise Unfit
    program.add(f"{name} {at} {n}", x * n + 1)


def magnitude(program, name, at, x):
    if x.dtype == np.bool_:
        raise Unfit
    program.add(f"{name} {at}", np.abs(x))


def where(program, name, at, x):
    (mask, m), (other, y) = program.operand(), program.operand()
    if m.dtype != np.bool_ or x.dtype != y.dtype:
        raise Unfit
    program.add(f"{name} {at} {mask} {other}", np.where(m, x, y))


def cut(program, name, at, x):
    axis = program.axis(x)
    begin, end = sorted(program.below(x.shape[axis] + 1) for _ in range(2))
    by = program.pick(1, 1, 2, 3)
    window = [slice(None)] * x.ndim
    window[axis] = slice(begin, end, by)
    program.add(f"{name} {at} {axis} {begin} {end} {by}", x[tuple(window)])


def select(program, name, at, x):
    axis = program.axis(x)
    if x.shape[axis] == 0:
        raise Unfit
    index = program.below(x.shape[axis])
    program.add(f"{name} {at} {axis} {index}", np.take(x, index, axis))


def transpose(program, name, at, x):
    order = program.rng.permutation(x.ndim)
    program.add(" ".join([name, str(at), *map(str, order)]), x.transpose(order))


def reshape(program, name, at, x):
    if x.size == 0:
        raise Unfit
    fits = [shape for shape in [(-1,), (1, -1), (-1, 1), (2, -1), (-1, 3), (2, -1, 2)] if x.size % abs(int(np.prod(shape))) == 0]
    shape = program.pick(*fits)
    program.add(" ".join([name, str(at), *map(str, shape)]), x.reshape(shape))


def unsqueeze(program, name, at, x):
    axis = program.below(x.ndim + 1)
    program.add(f"{name} {at} {axis}", np.expand_dims(x, axis))


def flip(program, name, at, x):
    axis = program.axis(x)
    program.add(f"{name} {at} {axis}", np.flip(x, axis))


def roll(program, name, at, x):
    axis, by = program.axis(x), program.below(7) - 3
    program.add(f"{name} {at} {by} {axis}", np.roll(x, by, axis))


def pad(program, name, at, x):
    axis, before, after = program.axis(x), program.below(3), program.below(3)
    widths = [(before, after) if a == axis else (0, 0) for a in range(x.ndim)]
    program.add(f"{name} {at} {axis} {before} {after}", np.pad(x, widths))


def joined(function):
    def step(program, name, at, x):
        other, y = program.operand()
        axis = program.axis(x)
        if x.dtype != y.dtype:
            raise Unfit
        program.add(f"{name} {at} {other} {axis}", function([x, y], axis=axis))

    return step


def repeat(program, name, at, x):
    axis, times = program.axis(x), program.below(3)
    program.add(f"{name} {at} {times} {axis}", np.repeat(x, times, axis))


def take(program, name, at, x):
    axis = program.axis(x)
    if x.shape[axis] == 0:
        raise Unfit
    index = program.rng.integers(-x.shape[axis], x.shape[axis], program.pick(1, 3, 5))
    program.add(" ".join([name, str(at), str(axis), *map(str, index)]), np.take(x, index, axis))


def taken_by(program, name, at, x):
    """Rows by indices that the program computes."""
    other, y = program.operand()
    axis = program.axis(x)
    if x.shape[axis] == 0 or y.dtype.kind != "i":
        raise Unfit
    program.add(f"{name} {at} {other} {axis}", np.take(x, y % x.shape[axis], axis))


def matmul(program, name, at, x):
    other, y = program.operand()
    if x.dtype != np.float64 or y.dtype != np.float64 or 0 in x.shape + y.shape:
        raise Unfit
    program.add(f"{name} {at} {other}", x @ y)


def ordered(program, name, at, x):
    axis = program.axis(x)
    if x.dtype == np.bool_:
        raise Unfit
    program.add(f"{name} {at} {axis}", np.sort(x, axis))


def extreme_at(function):
    def step(program, name, at, x):
        axis = program.axis(x)
        steady(x)
        if x.shape[axis] == 0:
            raise Unfit
        program.add(f"{name} {at} {axis}", function(x, axis))

    return step


def scatter_add(program, name, at, x):
    axis = program.axis(x)
    if x.dtype != np.float64 or x.shape[axis] == 0:
        raise Unfit
    index = program.rng.integers(0, x.shape[axis], 4)
    result = x.copy()
    values = np.take(x, index, axis) * 0.5
    window = [slice(None)] * axis + [index]
    np.add.at(result, tuple(window), values)
    program.add(" ".join([name, str(at), str(axis), *map(str, index)]), result)


def windows(program, name, at, x):
    axis = program.axis(x)
    length, by = 1 + program.below(3), 1 + program.below(2)
    if x.shape[axis] < length:
        raise Unfit
    seen = np.lib.stride_tricks.sliding_window_view(x, length, axis)
    seen = np.moveaxis(seen[(slice(None),) * axis + (slice(None, None, by),)], -1, axis + 1)
    program.add(f"{name} {at} {axis} {length} {by}", seen)


def triangle(function):
    def step(program, name, at, x):
        if x.ndim < 2:
            raise Unfit
        by = program.below(5) - 2
        program.add(f"{name} {at} {by}", function(x, by))

    return step


def tile(program, name, at, x):
    times = [1 + program.below(2) for _ in range(x.ndim)]
    program.add(" ".join([name, str(at), *map(str, times)]), np.tile(x, times))


def diagonal(program, name, at, x):
    if x.ndim < 2:
        raise Unfit
    program.add(f"{name} {at}", np.diagonal(x, axis1=-2, axis2=-1))


def argsort(program, name, at, x):
    axis = program.axis(x)
    steady(x)
    if x.dtype == np.bool_:
        raise Unfit
    program.add(f"{name} {at} {axis}", np.argsort(x, axis, kind="stable"))


def take_along(program, name, at, x):
    other, y = program.operand()
    axis = program.axis(x)
    if y.dtype.kind != "i" or y.ndim != x.ndim or x.shape[axis] == 0:
        raise Unfit
    if x.shape[:axis] + x.shape[axis + 1 :] != y.shape[:axis] + y.shape[axis + 1 :]:
        raise Unfit
    program.add(f"{name} {at} {other} {axis}", np.take_along_axis(x, y % x.shape[axis], axis))


def scatter(program, name, at, x):
    axis = program.axis(x)
    if x.shape[axis] == 0:
        raise Unfit
    index = program.rng.integers(0, x.shape[axis], 3)
    result, values = x.copy(), np.take(x, index[::-1], axis)
    for place, value in zip(index, np.moveaxis(values, axis, 0)):
        np.moveaxis(result, axis, 0)[place] = value
    program.add(" ".join([name, str(at), str(axis), *map(str, index)]), result)


def clip(program, name, at, x):
    if x.dtype == np.bool_:
        raise Unfit
    program.add(f"{name} {at} -2 3", np.clip(x, -2, 3))


def logsumexp(x, axis):
    most = x.max(axis, keepdims=True)
    return np.log(np.exp(x - most).sum(axis)) + most.squeeze(axis)


STEPS = {
    "sin": unary(np.sin), "tanh": unary(np.tanh), "floor": unary(np.floor, jumps=True), "square": unary(np.square),
    "neg": unary(np.negative), "abs": magnitude, "sqrt_abs": unary(lambda x: np.sqrt(np.abs(x))),
    "add": binary(np.add), "sub": binary(np.subtract), "mul": binary(np.multiply), "maximum": binary(np.maximum),
    "minimum": binary(np.minimum), "less": binary(np.less, True), "equal": binary(np.equal, True), "number": number,
    "floor_divide": divided,
    "sum": reduced(np.sum), "mean": reduced(np.mean, False), "max": reduced(np.max, False), "min": reduced(np.min, False),
    "var": reduced(np.var, False), "any": reduced(np.any, jumps=True), "all": reduced(np.all, jumps=True),
    "cumsum": along(np.cumsum), "softmax": along(softmax, True), "sort": ordered,
    "argmax": extreme_at(np.argmax), "argmin": extreme_at(np.argmin),
    "cast": cast, "where": where, "slice": cut, "select": select, "permute": transpose, "reshape": reshape,
    "unsqueeze": unsqueeze, "flip": flip, "roll": roll, "pad": pad, "concatenate": joined(np.concatenate),
    "stack": joined(np.stack), "repeat": repeat, "take": take, "taken_by": taken_by, "matmul": matmul,
    "scatter_add": scatter_add, "windows": windows, "tril": triangle(np.tril), "triu": triangle(np.triu), "tile": tile,
    "diagonal": diagonal, "argsort": argsort, "take_along": take_along, "scatter": scatter, "clip": clip,
    "diff": along(lambda x, axis: np.diff(x, axis=axis)), "logsumexp": along(logsumexp, True),
    "std": reduced(np.std, False), "norm": reduced(lambda x, **how: np.sqrt((x.astype(np.float64) ** 2).sum(**how))),
}


def program(rng):
    made = Program(rng)
    for _ in range(3 + made.below(3)):
        made.input()
    inputs = len(made.steps)
    made.grow(6 + made.below(12), tries=400)
    count = len(made.steps)
    results = sorted({count - 1, *(inputs + made.below(count - inputs) for _ in range(2))})
    return ";".join(made.steps) + "".join(f"|{at} {text(made.values[at])}" for at in results)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=150, help="how many programs (default: 150)")
    options.add_argument("--seed", type=int, default=20261129, help="of the first program (default: 20261129)")
    options = options.parse_args()
    with np.errstate(all="ignore"):
        for number in range(options.count):
            print(program(np.random.default_rng(options.seed + number)))


if __name__ == "__main__":
    sys.exit(main())
