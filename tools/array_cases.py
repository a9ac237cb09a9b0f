#!/usr/bin/env python3
"""Writes what NumPy computes for the tests of kiln-array.

    tools/array_cases.py > crates/kiln-array/tests/numpy/cases.txt

Needs NumPy (PyPI package `numpy`). A line is a case: the operation with its arguments, the inputs
and the result, separated by `|`. An array is its element type, its shape and its elements in
row-major order. The cases follow from the seed, so that another run writes the same file.
"""

import sys

import numpy as np

SEED = 20261124
rng = np.random.default_rng(SEED)

TYPES = {
    "bool": np.bool_,
    "i32": np.int32,
    "u32": np.uint32,
    "i64": np.int64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}
# Integers of 8 and 16 bits, whose cases come last, so that the others stay as they are.
NARROW = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16}
NAMES = {np.dtype(dtype): name for name, dtype in (TYPES | NARROW).items()}
SHAPES = [(), (1,), (7,), (2, 3), (3, 1, 4), (0,), (2, 0, 3), (5, 33)]


def array(dtype, shape, low=-4, high=5, special=True):
    dtype = np.dtype((TYPES | NARROW)[dtype])
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "u":
        return rng.integers(0, high, shape).astype(dtype)
    if dtype.kind == "i":
        return rng.integers(low, high, shape).astype(dtype)
    x = np.asarray(rng.integers(low * 8, high * 8, shape) / 8, dtype)
    if special and x.size > 3:
        at = rng.integers(0, x.size, 2)
        x.flat[at[0]] = np.nan
        x.flat[at[1]] = [np.inf, -np.inf][rng.integers(2)]
    return x


def element(x):
    if isinstance(x, (bool, np.bool_)):
        return "1" if x else "0"
    if isinstance(x, np.integer):
        return str(int(x))
    return repr(float(x))


def text(x):
    x = np.asarray(x)
    shape = ",".join(map(str, x.shape))
    return f"{NAMES[x.dtype]} [{shape}] {' '.join(element(e) for e in x.ravel())}".rstrip()


def case(op, inputs, result):
    print("|".join([op] + [text(x) for x in inputs] + [text(result)]))


def elementwise():
    functions = {
        "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "log1p": np.log1p, "sin": np.sin,
        "cos": np.cos, "tanh": np.tanh, "sqrt": np.sqrt, "abs": np.abs, "floor": np.floor, "ceil": np.ceil,
        "round": np.round, "trunc": np.trunc, "neg": np.negative, "sign": np.sign, "is_nan": np.isnan,
        "square": np.square,
    }
    for name, function in functions.items():
        for dtype in ["f32", "f64", "f16", "i32"]:
            x = array(dtype, SHAPES[rng.integers(len(SHAPES))] if dtype == "f16" else (2, 9))
            y = function(x)
            if np.dtype(y.dtype) in NAMES:
                case(name, [x], y)
    mask = array("bool", (5,))
    case("not", [mask], ~mask)
    binary = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "maximum": np.maximum,
        "minimum": np.minimum, "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
        "greater_equal": np.greater_equal, "equal": np.equal, "not_equal": np.not_equal,
        "floor_divide": np.floor_divide, "rem": np.remainder,
    }
    pairs = [((2, 3), (3,)), ((4, 1), (1, 5)), ((), (6,)), ((0,), (1,)), ((2, 1, 3), (4, 1)), ((3,), (3,))]
    types = list(TYPES)
    for name, function in binary.items():
        for a in types:
            for b in types:
                left, right = pairs[rng.integers(len(pairs))]
                x, y = array(a, left), array(b, right)
                if name == "sub" and a == b == "bool":
                    continue
                if name in ("floor_divide", "rem") and "f16" in (a, b):
                    continue
                if name in ("floor_divide", "rem") and {a, b} <= {"bool"}:
                    continue
                result = function(x, y)
                if result.dtype in NAMES:
                    case(name, [x, y], result)
    for a, b in [("f32", "f32"), ("f64", "f64"), ("f32", "f64")]:
        x, y = np.abs(array(a, (3, 4), special=False)) + 0.5, array(b, (4,), special=False)
        case("pow", [x.astype(x.dtype), y], np.power(x, y))
        p, q = array(a, (9,), special=False), array(b, (9,), special=False)
        case("atan2", [p, q], np.arctan2(p, q))
    for name, function in {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}.items():
        for a, b in [("i32", "i32"), ("bool", "bool"), ("u32", "i64")]:
            x, y = array(a, (2, 3)), array(b, (3,))
            case(name, [x, y], function(x, y))
    for a, b in [("f32", "f32"), ("i32", "f16"), ("bool", "i64")]:
        c, x, y = array("bool", (3, 1)), array(a, (4,)), array(b, (3, 4))
        case("where", [c, x, y], np.where(c, x, y))


def casts():
    for a in TYPES:
        for b in TYPES:
            x = array(a, (6,), low=0 if "u32" in (a, b) else -4, special=False)
            case(f"cast {b}", [x], x.astype(TYPES[b]))


def reductions():
    sums = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "var": np.var, "max": np.max, "min": np.min,
            "any": np.any, "all": np.all}
    axes_of = {0: [()], 1: [(), (0,), (-1,)], 2: [(), (0,), (1,), (-1,), (0, 1)],
               3: [(), (0,), (1,), (2,), (0, 2), (-1, 0), (1, 2)]}
    for name, function in sums.items():
        for dtype in ["f32", "f64", "i32", "bool", "f16", "i64"]:
            for shape in [(), (7,), (2, 3), (3, 4, 5), (33, 2), (2, 0, 3)]:
                choices = axes_of[len(shape)]
                for axes in [choices[rng.integers(len(choices))], choices[0]]:
                    x = array(dtype, shape, special=name in ("max", "min", "sum", "any") and rng.integers(2) == 0)
                    axis = axes if axes else None
                    reduced = [shape[a] for a in axes] if axes else list(shape)
                    if name in ("max", "min", "mean", "var") and 0 in reduced:
                        continue
                    if dtype == "f16" and name == "var":
                        continue
                    for keep in [False, True]:
                        result = np.asarray(function(x, axis=axis, keepdims=keep))
                        if dtype == "f16" and name in ("sum", "prod", "mean"):
                            result = np.asarray(function(x.astype(np.float32), axis=axis, keepdims=keep), np.float16)
                        if dtype == "bool" and name in ("max", "min"):
                            result = result.astype(np.bool_)
                        word = f"{name} {'keep' if keep else 'drop'} {' '.join(map(str, axes))}".strip()
                        case(word, [x], result)
                        if not axes and not keep:
                            break
    for name, function in {"argmax": np.argmax, "argmin": np.argmin}.items():
        for dtype in ["f32", "i32", "f64"]:
            for shape, axis in [((7,), 0), ((3, 4), 0), ((3, 4), -1), ((2, 3, 5), 1)]:
                x = array(dtype, shape, special=rng.integers(2) == 0)
                case(f"{name} {axis}", [x], function(x, axis=axis).astype(np.int64))
    for dtype in ["f32", "f64", "i32", "bool"]:
        for shape, axis in [((9,), 0), ((3, 4), 0), ((2, 3, 4), 1), ((3, 0), 1)]:
            x = array(dtype, shape, special=False)
            case(f"cumsum {axis}", [x], np.cumsum(x, axis=axis))


def views():
    x = array("f32", (2, 3, 4), special=False)
    case("transpose", [x], x.T)
    case("permute 2 0 1", [x], x.transpose(2, 0, 1))
    case("reshape 4 -1", [x], x.reshape(4, -1))
    case("permute 1 0 2;reshape 6 4", [x], x.transpose(1, 0, 2).reshape(6, 4))
    case("permute 2 1 0;reshape 3 8;reshape 24", [x], x.transpose(2, 1, 0).reshape(24))
    case("slice 2 1 4 1", [x], x[:, :, 1:4])
    case("slice 2 0 4 -1", [x], x[:, :, ::-1])
    case("slice 1 0 3 -2;slice 2 1 4 2", [x], x[:, ::-2, :][:, :, 1:4:2])
    case("flip 0 2;exp;sum drop 1", [x], np.exp(x[::-1, :, ::-1]).sum(1))
    case("flip 1;reshape 8 3;transpose", [x], x[:, ::-1].reshape(8, 3).T)
    case("pad 1 2 0 0 0 1", [x], np.pad(x, [(1, 2), (0, 0), (0, 1)]))
    case("exp;pad 0 0 2 0 1 1;reshape 10 6", [x], np.pad(np.exp(x), [(0, 0), (2, 0), (1, 1)]).reshape(10, 6))
    case("pad 0 1 1 0 0 0;permute 2 0 1;sum keep -1", [x], np.pad(x, [(0, 1), (1, 0), (0, 0)]).transpose(2, 0, 1).sum(-1, keepdims=True))
    case("select 1 -1", [x], x[:, -1])
    case("unsqueeze 1", [x], x[:, None])
    case("swap_axes 0 -1;flatten", [x], x.swapaxes(0, -1).flatten())
    y = array("i32", (6,))
    case("reshape 2 3;transpose;reshape 2 3", [y], y.reshape(2, 3).T.reshape(2, 3))
    for shape, to in [((3,), (2, 3)), ((2, 1), (2, 4)), ((), (3,)), ((1,), (0,))]:
        z = array("f64", shape, special=False)
        case("broadcast_to " + " ".join(map(str, to)), [z], np.broadcast_to(z, to))
    for parts, axis in [([(2, 3), (1, 3)], 0), ([(2, 1), (2, 4), (2, 0)], 1), ([(3,)] * 3, 0)]:
        many = [array("f32", shape) for shape in parts]
        case(f"concatenate {axis}", many, np.concatenate(many, axis))
    pair = [array("i32", (2, 3)), array("f64", (2, 3))]
    case("stack 1", pair, np.stack(pair, 1))
    table, at = array("f32", (5, 3)), np.array([[4, 0], [-1, 2]], np.int32)
    case("take 0", [table, at], np.take(table, at, 0))
    case("take 1", [table, np.array([2, -3, 1, 1], np.int64)], np.take(table, [2, -3, 1, 1], 1))
    order = rng.integers(-5, 5, (2, 3)).astype(np.int64)
    case("take_along 0", [table, order], np.take_along_axis(table, order, 0))


def products():
    shapes = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
              ((5, 1, 2, 3), (4, 3, 2)), ((2, 0), (0, 3)), ((0, 3), (3, 2)), ((33, 17), (17, 20))]
    for a, b in shapes:
        for dtype in ["f32", "f64", "i32"]:
            x, y = array(dtype, a, special=False), array(dtype, b, special=False)
            case("matmul", [x, y], np.matmul(x, y))
    x, y = array("f32", (4, 3), special=False), array("f32", (4, 5), special=False)
    case("matmul_transposed", [x, y], x.T @ y)


def orders():
    for dtype in ["f32", "i32", "f64", "u32", "bool"]:
        for shape, axis in [((9,), 0), ((3, 5), 1), ((4, 3), 0), ((1, 33), -1), ((3, 0), 0)]:
            x = array(dtype, shape)
            case(f"sort {axis}", [x], np.sort(x, axis))
            case(f"argsort {axis}", [x], np.argsort(x, axis, kind="stable"))
    sums = {
        "ij,jk->ik": [(2, 3), (3, 4)], "ij,jk->ki": [(2, 3), (3, 4)], "ij->ji": [(2, 3)], "ij->": [(2, 3)],
        "bhqd,bhkd->bhqk": [(2, 2, 3, 4), (2, 2, 5, 4)], "i,j->ij": [(3,), (4,)], "i,i->": [(5,), (5,)],
        "ij,ij->i": [(3, 4), (3, 4)], "ijk,ij,kl->il": [(2, 3, 4), (2, 3), (4, 5)], "ab,cb,b->ac": [(2, 3), (4, 3), (3,)],
        "ij,jk->ik ": [(2, 0), (0, 3)],
    }
    for text, shapes in sums.items():
        for dtype in ["f32", "f64", "i64"]:
            many = [array(dtype, shape, special=False) for shape in shapes]
            case(f"einsum {text.strip()}", many, np.einsum(text.strip(), *many))


def scattered():
    for dtype in ["f32", "f64", "i32", "i64"]:
        for shape, axis, count in [((7,), 0, 9), ((3, 4), 1, 3), ((4, 2, 3), 0, 6), ((2, 5), -1, 0), ((3, 0), 0, 4)]:
            x = array(dtype, shape, special=False)
            at = rng.integers(-shape[axis], shape[axis], (count,)).astype(np.int64)
            where = tuple([slice(None)] * (axis % len(shape)) + [at])
            values = array(dtype, x[where].shape, special=False)
            added = x.copy()
            np.add.at(added, where, values)
            case(f"scatter_add {axis}", [x, at, values], added)
            put = x.copy()
            put[where] = values
            case(f"scatter {axis}", [x, at, values], put)
            if x.size:
                order = np.argsort(rng.random(shape), axis).astype(np.int64)
                values = array(dtype, shape, special=False)
                put = x.copy()
                np.put_along_axis(put, order, values, axis)
                case(f"put_along {axis}", [x, order, values], put)


def matrices():
    for dtype in ["f32", "f64"]:
        for stack in [(), (2,), (0,)]:
            for n in [1, 2, 3, 5, 9]:
                x = array(dtype, stack + (n, n), special=False)
                regular = (x + 8 * n * np.eye(n)).astype(TYPES[dtype])
                definite = (x @ np.swapaxes(x, -1, -2) + np.eye(n)).astype(TYPES[dtype])
                b = array(dtype, stack + (n, 2), special=False)
                case("solve", [regular, b], np.linalg.solve(regular, b))
                case("inverse", [regular], np.linalg.inv(regular))
                case("cholesky", [(definite / n).astype(TYPES[dtype])], np.linalg.cholesky((definite / n).astype(TYPES[dtype])))
                tall = (array(dtype, stack + (n + 1, n), special=False) + 3 * np.eye(n + 1, n)).astype(TYPES[dtype])
                q, r = np.linalg.qr(tall)
                case("qr q", [tall], q)
                case("qr r", [tall], r)
                _, r = np.linalg.qr(np.swapaxes(tall, -1, -2))
                case("qr r", [np.swapaxes(tall, -1, -2)], r)
        a, b = array(dtype, (4, 3, 3), special=False), array(dtype, (3,), special=False)
        a = (a + 20 * np.eye(3)).astype(TYPES[dtype])
        case("solve", [a, b], np.linalg.solve(a, b))


def spectra():
    for dtype in ["f32", "f64"]:
        for shape, axis in [((1,), 0), ((6,), 0), ((7,), 0), ((2, 12), 1), ((5, 3), 0), ((0, 4), 1), ((67,), 0)]:
            x, y = array(dtype, shape, special=False), array(dtype, shape, special=False)
            # In f64, and then in the type: NumPy's own f32 is no better than ours.
            z = np.fft.fft(x.astype(np.complex128) + 1j * y, axis=axis)
            case(f"fft re {axis}", [x, y], z.real.astype(TYPES[dtype]))
            case(f"fft im {axis}", [x, y], z.imag.astype(TYPES[dtype]))
            z = np.fft.ifft(x.astype(np.complex128) + 1j * y, axis=axis)
            case(f"ifft im {axis}", [x, y], z.imag.astype(TYPES[dtype]))
            half = np.fft.rfft(x.astype(np.float64), axis=axis)
            case(f"rfft im {axis}", [x], half.imag.astype(TYPES[dtype]))
            case(f"irfft {shape[axis]} {axis}", [half.real.astype(TYPES[dtype]), half.imag.astype(TYPES[dtype])], x)


def arrangements():
    functions = {"expm1": np.expm1, "log10": np.log10, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
                 "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "is_finite": np.isfinite, "is_inf": np.isinf}
    for name, function in functions.items():
        for dtype in ["f32", "f64"]:
            x = array(dtype, (2, 9), low=-1 if name in ("asin", "acos") else -4, high=2 if name in ("asin", "acos") else 5)
            case(name, [x], function(x))
    small = np.array([1e-7, -3e-6, 1e-3, 0.0], np.float32)
    case("expm1", [small], np.expm1(small))
    case("sinh", [small], np.sinh(small))
    for dtype in ["f32", "i32", "bool"]:
        for shape in [(3, 4), (2, 5, 3), (4, 0), (0, 3)]:
            x = array(dtype, shape, special=False)
            case("roll 2 -1", [x], np.roll(x, 2, -1))
            case("roll -7 0", [x], np.roll(x, -7, 0))
            case("repeat 3 0", [x], np.repeat(x, 3, 0))
            case("repeat 0 1", [x], np.repeat(x, 0, 1))
            case("tile 2 1 2", [x], np.tile(x, (2, 1, 2)))
            case("tile 3", [x], np.tile(x, 3))
            case("tril 0", [x], np.tril(x))
            case("tril -1", [x], np.tril(x, -1))
            case("triu 1", [x], np.triu(x, 1))
            case("diagonal", [x], np.diagonal(x, axis1=-2, axis2=-1))
            case("move_axis 0 -1", [x], np.moveaxis(x, 0, -1))
            if dtype != "bool":
                case("diff 0", [x], np.diff(x, axis=0) if shape[0] else x)
                case("trace", [x], np.asarray(np.trace(x, axis1=-2, axis2=-1), np.int64 if dtype == "i32" else np.float32))
    for dtype in ["f32", "f64", "i32"]:
        x = array(dtype, (3, 4, 5), special=False)
        case("std drop 0 2", [x], np.std(x, axis=(0, 2)))
        case("std keep 1", [x], np.std(x, axis=1, keepdims=True))


def functions_of_integers():
    functions = {"expm1": np.expm1, "log10": np.log10, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
                 "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh}
    for name, function in functions.items():
        # The least integers have no negative, and those of u32 none at all.
        for dtype in ["u32", "i32", "i64", "bool", "f16"]:
            x = array(dtype, (9,), low=-1, high=2, special=False)
            if np.dtype(TYPES[dtype]).kind in "iu" and name not in ("asin", "acos", "tan"):
                x[:2] = np.iinfo(TYPES[dtype]).min, np.iinfo(TYPES[dtype]).max
            result = function(x.astype(np.float32)).astype(np.float16) if dtype in ("f16", "bool") else function(x)
            case(name, [x], result)


def running():
    for dtype in ["f32", "f64", "i32"]:
        for shape, axis in [((9,), 0), ((3, 4), 0), ((2, 3, 5), 1), ((1, 33), 1), ((3, 0), 1), ((0, 3), 1)]:
            x = array(dtype, shape, low=-2, high=3, special=False)
            case(f"cumprod {axis}", [x], np.cumprod(x, axis=axis))
            y = array(dtype, shape)
            case(f"cummax {axis}", [y], np.maximum.accumulate(y, axis))
            case(f"cummin {axis}", [y], np.minimum.accumulate(y, axis))
    for text, shapes in {"ii->i": [(3, 3)], "ii->": [(4, 4)], "iji->j": [(3, 2, 3)], "ii,ij->j": [(3, 3), (3, 2)], "iii->i": [(2, 2, 2)]}.items():
        many = [array("f32", shape, special=False) for shape in shapes]
        case(f"einsum {text}", many, np.einsum(text, *many))
    for dtype in ["f32", "f64"]:
        for stack in [(), (2, 3), (0,)]:
            for n in [0, 1, 2, 3, 5]:
                x = array(dtype, stack + (n, n), low=-1, high=2, special=False)
                case("determinant", [x], np.linalg.det(x))
        case("determinant", [np.eye(4, dtype=TYPES[dtype])[[2, 0, 1, 3]]], np.asarray(1, TYPES[dtype]))
        case("determinant", [np.eye(4, dtype=TYPES[dtype])[[1, 0, 2, 3]]], np.asarray(-1, TYPES[dtype]))


def masked():
    for dtype in TYPES:
        for shape in SHAPES:
            x = array(dtype, shape)
            for axes in range(len(shape) + 1):
                mask = array("bool", shape[:axes])
                case("mask_select", [x, mask], x[mask])
            for value in [False, True]:
                mask = np.full(shape, value)
                case("mask_select", [x, mask], x[mask])
            for axis in range(len(shape)):
                if dtype in ["bool", "f32", "i64"]:
                    case(f"nonzero {axis}", [x], np.nonzero(x)[axis])
                    for count in {0, shape[axis] // 2, shape[axis]}:
                        condition = array("bool", (count,))
                        case(f"compress {axis - len(shape)}", [x, condition], np.compress(condition, x, axis))
    x = array("f32", (3, 2), special=False)
    longer = np.asarray([True, False, True, False, False])
    case("compress 0", [x, longer], np.compress(longer, x, 0))


def spectral():
    norms = {"frobenius": "fro", "nuclear": "nuc", "spectral": 2, "one": 1, "infinity": np.inf}
    for dtype in ["f32", "f64"]:
        narrow = TYPES[dtype]
        for stack in [(), (2,), (0,)]:
            for m, n in [(1, 1), (2, 2), (3, 3), (5, 5), (4, 2), (2, 5), (0, 3), (3, 0)]:
                x = array(dtype, stack + (m, n), low=-1, high=2, special=False)
                if m == 5:
                    x[..., 1] = x[..., 0]
                wide = x.astype(np.float64)
                case("svdvals", [x], np.linalg.svd(wide, compute_uv=False).astype(narrow))
                cutoff = max(m, n) * np.finfo(narrow).eps
                inverse = np.linalg.pinv(wide, rtol=cutoff) if x.size else np.zeros(stack + (n, m))
                case("pinv", [x], inverse.astype(narrow))
                b = array(dtype, stack + (m, 2), special=False)
                case("lstsq", [x, b], (inverse @ b).astype(narrow))
                if stack == () and x.size:
                    b = array(dtype, (m,), special=False)
                    case("lstsq", [x, b], np.linalg.lstsq(wide, b, rcond=cutoff)[0].astype(narrow))
                if m and n:
                    for name, order in norms.items():
                        norm = np.linalg.norm(wide, order, axis=(-2, -1))
                        case(f"matrix_norm {name}", [x], np.asarray(norm, narrow))
                if m == n:
                    symmetric = x + np.swapaxes(x, -1, -2)
                    case("eigvalsh", [symmetric], np.linalg.eigvalsh(symmetric.astype(np.float64)).astype(narrow))
                if m == n and m != 5:
                    sign, logarithm = np.linalg.slogdet(wide)
                    case("slogdet sign", [x], np.asarray(sign, narrow))
                    case("slogdet log", [x], np.asarray(logarithm, narrow))
        for x in [np.eye(4), np.zeros((3, 3)), np.ones((4, 4)), np.eye(6)[::-1], np.diag([2.0, -1, 2, -1])]:
            x = x.astype(narrow)
            case("eigvalsh", [x], np.linalg.eigvalsh(x.astype(np.float64)).astype(narrow))
            case("svdvals", [x], np.linalg.svd(x.astype(np.float64), compute_uv=False).astype(narrow))
            case("pinv", [x], np.linalg.pinv(x.astype(np.float64), rtol=1e-6).astype(narrow))
        x = np.asarray([[0, 0], [0, 3]], narrow)
        case("slogdet sign", [x], np.asarray(0, narrow))
        case("slogdet log", [x], np.asarray(-np.inf, narrow))


def sizes(dtype):
    """Numbers of all sizes, and those that are none."""
    info = np.finfo(TYPES[dtype])
    low, high = np.log10([info.smallest_subnormal, info.max]).astype(int)
    x = np.concatenate([10.0 ** np.linspace(low + 1, high - 1, 24), [1, 0.999, 1.001, 2.0 ** 27, 2.0 ** 28, 2.0 ** 29]])
    x = np.concatenate([x, [info.max, info.smallest_subnormal, info.tiny, 0, np.inf, np.nan]])
    return np.concatenate([x, -x]).astype(TYPES[dtype])


def inverses():
    functions = {"asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "cbrt": np.cbrt}
    for name, function in functions.items():
        for dtype in ["f32", "f64"]:
            near = 1 - 2.0 ** -np.arange(1, 24 if dtype == "f32" else 53, 5)
            for x in [sizes(dtype), array(dtype, (3, 9)), np.concatenate([near, -near, 2 - near]).astype(TYPES[dtype])]:
                # In f64, and then in the type: NumPy's own f32 is no better than ours.
                case(name, [x], function(x.astype(np.float64)).astype(TYPES[dtype]))
        for dtype in ["u32", "i32", "i64", "bool", "f16"]:
            x = array(dtype, (9,), special=False)
            if np.dtype(TYPES[dtype]).kind in "iu":
                x[:2] = np.iinfo(TYPES[dtype]).min, np.iinfo(TYPES[dtype]).max
            result = function(x.astype(np.float32)).astype(np.float16) if dtype in ("f16", "bool") else function(x)
            case(name, [x], result)
        for shape in [(), (0,), (2, 0, 3)]:
            x = array("f32", shape, special=False)
            case(name, [x], function(x))
    for dtype in ["f32", "f64"]:
        x = sizes(dtype)
        for y in [rng.permutation(x), rng.permutation(x), x[::-1].copy(), x, np.asarray(1, TYPES[dtype])]:
            case("hypot", [x, y], np.hypot(x.astype(np.float64), y).astype(TYPES[dtype]))
    for a, b in [("i32", "f32"), ("f16", "f16"), ("f32", "f64"), ("i64", "i32"), ("bool", "f32")]:
        for left, right in [((2, 3), (3,)), ((4, 1), (1, 5)), ((), (6,)), ((0,), (1,))]:
            x, y = array(a, left), array(b, right)
            case("hypot", [x, y], np.hypot(x.astype(np.float64), y).astype(np.hypot(x, y).dtype))


def quantiles():
    for dtype in ["f32", "f64", "f16", "i32", "i64", "u32", "bool"]:
        for shape, axis in [((1,), 0), ((2,), 0), ((3, 4), -1), ((2, 9, 3), 1), ((5, 33), 1), ((0, 3), 1), ((3, 0), 1)]:
            x = array(dtype, shape, special=False)
            if x.size > 3 and np.dtype(TYPES[dtype]).kind == "f" and rng.integers(2):
                x.flat[rng.integers(x.size)] = np.nan
            wide = x.astype({"f16": np.float32, "bool": np.float64}.get(dtype, TYPES[dtype]))
            result = lambda y: np.asarray(y, TYPES[dtype] if dtype[0] == "f" else np.float64)
            nothing = result(np.full(np.delete(shape, axis), np.nan))
            case(f"median {axis}", [x], result(np.median(wide, axis)) if shape[axis] else nothing)
            for q in [0, 0.1, 0.7, 1]:
                case(f"quantile {axis} {q}", [x], result(np.quantile(wide, q, axis)) if shape[axis] else nothing)
            case(f"quantiles {axis} 0.75 0.2", [x], result(np.quantile(wide, [0.75, 0.2], axis)) if shape[axis] else np.stack([nothing] * 2))


def nearness():
    for a, b in [("f32", "f32"), ("f64", "f64"), ("f16", "f32"), ("i32", "f64"), ("i32", "i64"), ("bool", "bool"), ("u32", "bool")]:
        for left, right in [((2, 3), (3,)), ((7,), (7,)), ((0,), (1,)), ((), ())]:
            for rtol, atol in [(1e-5, 1e-8), (0.25, 0.5), (0, 0)]:
                x, y = array(a, left, low=0, high=3), array(b, right, low=0, high=3)
                case(f"is_close {rtol} {atol}", [x, y], np.isclose(x, y, rtol, atol))
                case(f"all_close {rtol} {atol}", [x, y], np.asarray(np.allclose(x, y, rtol, atol)))
            case("array_equal", [x, y], np.asarray(np.array_equal(x, y)))
        x = array(a, (3, 2), special=False)
        case("all_close 1e-5 1e-8", [x, x], np.asarray(True))
        case("array_equal", [x, x], np.asarray(True))
        case("array_equal", [x, x.T], np.asarray(False))


def bins():
    for a, b in [("f32", "f32"), ("f64", "f32"), ("i32", "i32"), ("i32", "f64"), ("u32", "i64"), ("bool", "bool"), ("f16", "f16")]:
        for count in [0, 1, 2, 8, 33]:
            x = np.sort(array(a, (count,)))
            for shape in [(), (4, 3), (2, 0)]:
                y = array(b, shape)
                for side in ["left", "right"]:
                    case(f"searchsorted {side}", [x, y], np.asarray(np.searchsorted(x, y, side), np.int64))
    for dtype in ["i32", "u32", "i64"]:
        for shape in [(1,), (0,), (20,), (700,)]:
            x = array(dtype, shape, low=0, high=9)
            for length in [9, 12]:
                case(f"bincount {length}", [x], np.bincount(x, minlength=length).astype(np.int64))
                for of in ["f32", "f64", "i32", "bool"]:
                    w = array(of, shape, special=False)
                    sums = np.bincount(x, w.astype(np.float64), length)
                    case(f"bincount_weighted {length}", [x, w], sums.astype(TYPES[of] if of[0] == "f" else np.int64))
    x = array("i32", (2, 3), low=0, high=3)
    w = array("f32", (3,), special=False)
    case("bincount 3", [x], np.bincount(x.ravel(), minlength=3).astype(np.int64))
    case("bincount_weighted 3", [x, w], np.bincount(x.ravel(), np.tile(w, 2), 3).astype(np.float32))
    for shapes in [[(3,)], [(3,), (2,)], [(2,), (), (4,)], [(2,), (0,)], [()]]:
        many = [array(dtype, shape) for dtype, shape in zip(["f32", "i32", "f64"], shapes)]
        for at, grid in enumerate(np.meshgrid(*many, indexing="ij")):
            # A number is an axis of one coordinate.
            case(f"meshgrid {at}", many, grid)


def whole(dtype, shape):
    """Integers of the whole range of a type."""
    info = np.iinfo(NARROW[dtype])
    return rng.integers(info.min, info.max + 1, shape).astype(NARROW[dtype])


def narrow_elements(a):
    every = TYPES | NARROW
    binary = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "maximum": np.maximum,
        "minimum": np.minimum, "less": np.less, "equal": np.equal, "floor_divide": np.floor_divide,
        "rem": np.remainder, "and": np.bitwise_and, "xor": np.bitwise_xor,
    }
    for name, function in binary.items():
        for b in every:
            if "f" in b and name in ("floor_divide", "rem", "and", "xor"):
                continue
            for x, y in [(array(a, (2, 3)), array(b, (3,))), (array(b, (4, 1)), array(a, (1, 5)))]:
                result = function(x, y)
                if result.dtype in NAMES:
                    case(name, [x, y], result)
        case(name, [x := whole(a, (9,)), y := whole(a, (9,)) | 1], function(x, y))
    for b in every:
        x = array(a, (6,), low=0, special=False)
        case(f"cast {b}", [x], x.astype(every[b]))
        y = array(b, (6,), low=0, special=False)
        case(f"cast {a}", [y], y.astype(NARROW[a]))
    x = whole(a, (9,))
    case(f"cast i32;add;cast {a}", [x, np.asarray(300, np.int32)], (x.astype(np.int32) + 300).astype(NARROW[a]))
    for name, function in {"exp": np.exp, "sqrt": np.sqrt, "tanh": np.tanh, "log1p": np.log1p}.items():
        x = array(a, (9,), low=0)
        case(name, [x], function(x.astype(np.float64)).astype(function(x).dtype))
    for name, function in {"abs": np.abs, "neg": np.negative, "sign": np.sign, "square": np.square}.items():
        x = whole(a, (9,))
        case(name, [x], function(x))


def narrow_axes(a):
    for shape, axis in [((7,), 0), ((3, 4), 1), ((2, 0, 3), 1), ((33, 2), 0)]:
        x = whole(a, shape)
        case(f"sum drop {axis}", [x], np.sum(x, axis=axis, dtype=np.int64))
        case(f"cumsum {axis}", [x], np.cumsum(x, axis=axis, dtype=np.int64))
        if 0 not in shape:
            case(f"mean drop {axis}", [x], np.mean(x, axis=axis))
            case(f"max keep {axis}", [x], np.max(x, axis=axis, keepdims=True))
            case(f"min drop {axis}", [x], np.min(x, axis=axis))
            case(f"argmax {axis}", [x], np.argmax(x, axis=axis).astype(np.int64))
            case(f"argsort {axis}", [x], np.argsort(x, axis=axis, kind="stable"))
            case(f"sort {axis}", [x], np.sort(x, axis=axis))
    for left, right in [((3, 4), (4, 2)), ((2, 3, 4), (4, 5)), ((4,), (4, 2)), ((40, 70), (70, 33))]:
        x, y = whole(a, left), whole(a, right)
        case("matmul", [x, y], x @ y)
    x, mask = whole(a, (5, 3)), array("bool", (5,))
    case("mask_select", [x, mask], x[mask])
    case("pad 1 2 0 1;transpose", [x], np.pad(x, [(1, 2), (0, 1)]).T)
    case("take 0", [x, np.array([[4, 0], [-1, 2]], np.int32)], np.take(x, [[4, 0], [-1, 2]], 0))
    case("take 0", [np.arange(7.0), np.array([1, 3, 0], NARROW[a])], np.array([1.0, 3.0, 0.0]))
    x = array(a, (3, 3))
    case("fft re 0", [x, np.zeros((3, 3), NARROW[a])], np.fft.fft(x, axis=0).real)
    case("determinant", [x], np.asarray(np.linalg.det(x)))
    regular = (np.eye(3) * 100 + array(a, (3, 3))).astype(NARROW[a])
    case("solve", [regular, y := array(a, (3, 2))], np.linalg.solve(regular, y))
    for count in [4, 1100]:
        x, at, values = whole(a, (6, 2)), rng.integers(0, 6, count), whole(a, (count, 2))
        added = x.copy()
        np.add.at(added, at, values)
        case("scatter_add 0", [x, at, values], added)


def paddings():
    modes = {"edge": "edge", "reflect": "reflect", "symmetric": "symmetric", "wrap": "wrap"}
    for dtype in ["f32", "i32", "bool", "f16", "i64", "u8"]:
        for shape, widths in [((5,), [(2, 3)]), ((5,), [(11, 13)]), ((2, 3), [(1, 0), (0, 4)]), ((1,), [(2, 2)]),
                              ((2, 1, 4), [(3, 3), (1, 0), (0, 0)]), ((0, 2), [(0, 0), (1, 2)])]:
            x = array(dtype, shape, special=False)
            numbers = " ".join(str(n) for pair in widths for n in pair)
            for name, mode in modes.items():
                case(f"pad_with {name} {numbers}", [x], np.pad(x, widths, mode=mode))
            case(f"pad_with 1 {numbers}", [x], np.pad(x, widths, constant_values=1))
    x = array("f32", (3, 4), special=False)
    case("exp;pad_with -inf 1 1 0 2;max drop 1", [x], np.pad(np.exp(x), [(1, 1), (0, 2)], constant_values=-np.inf).max(1))
    case("pad_with reflect 2 1 3 3;sum drop 0", [x], np.pad(x, [(2, 1), (3, 3)], mode="reflect").sum(0))


def norms():
    for dtype in ["f32", "f64", "f16", "i32", "u32", "bool", "i8"]:
        for shape in [(), (7,), (2, 3, 4), (0,), (3, 0), (5, 33)]:
            x = array(dtype, shape, special=dtype in ("f32", "f64"))
            kind = {"f32": np.float32, "f16": np.float16}.get(dtype, np.float64)
            wide = x.astype(np.float64)

            def root(**along):
                return np.sqrt((wide * wide).sum(**along)).astype(kind)

            case("norm drop", [x], root())
            case("zeros_like", [x], np.zeros_like(x))
            case("ones_like", [x], np.ones_like(x))
            if x.ndim:
                case("norm drop 0", [x], root(axis=0))
                case("norm keep -1", [x], root(axis=-1, keepdims=True))
            if x.ndim == 3:
                case("norm drop 0 2", [x], np.linalg.norm(wide, axis=(0, 2)).astype(kind))


def main():
    with np.errstate(all="ignore"):
        elementwise()
        casts()
        reductions()
        views()
        products()
        orders()
        scattered()
        matrices()
        spectra()
        arrangements()
        running()
        functions_of_integers()
        masked()
        spectral()
        inverses()
        quantiles()
        nearness()
        bins()
        for dtype in NARROW:
            narrow_elements(dtype)
            narrow_axes(dtype)
        paddings()
        norms()


if __name__ == "__main__":
    sys.exit(main())
