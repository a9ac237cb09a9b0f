//! Reductions and scans: every operation, type and instruction set, over shapes around the widths
//! that the loops treat apart.

use super::{PrimitiveFn, Random, Tile, primitive, reference, values};
use kiln_cpu_primitives::{Isa, PrimitiveKey, lookup_at};
use kiln_ir::{ReduceOp, Scalar};

const OPS: [ReduceOp; 9] = {
    use ReduceOp::*;
    [Sum, Prod, Min, Max, And, Or, Xor, ArgMin, ArgMax]
};

fn is_arg(op: ReduceOp) -> bool {
    matches!(op, ReduceOp::ArgMin | ReduceOp::ArgMax)
}

fn defined(op: ReduceOp, scalar: Scalar) -> bool {
    use ReduceOp::*;
    match op {
        Sum | Prod => scalar != Scalar::Bool,
        And | Or | Xor => !scalar.is_float(),
        _ => true,
    }
}

fn shapes() -> Vec<(usize, usize, usize)> {
    let mut shapes: Vec<_> = (0..70).map(|len| (2, len, 1)).collect();
    shapes.extend((1..70).map(|inner| (2, 3, inner)));
    shapes.extend([(0, 4, 3), (3, 4, 0), (1, 1000, 1), (3, 129, 65), (2, 40, 130), (5, 1, 1), (1, 300, 2)]);
    shapes
}

/// Values whose sums and products say something: the 16-bit floats would soon overflow.
fn inputs(op: ReduceOp, scalar: Scalar, n: usize, seed: u64) -> Tile {
    if !scalar.is_float() || !matches!(op, ReduceOp::Sum | ReduceOp::Prod) {
        // A few distinct values, so that extremes stand in several places.
        let mut tile = values(scalar, n, seed);
        let mut random = Random(seed);
        for i in 0..n {
            if random.below(2) == 0 {
                tile[i] = tile[random.below(i + 1)];
            }
        }
        return Tile::new(scalar, &tile);
    }
    let mut random = Random(seed);
    let mut value = || match op {
        ReduceOp::Sum => random.below(2001) as f64 / 1000.0 - 1.0,
        _ => 1.0 + (random.below(2001) as f64 - 1000.0) / 20000.0,
    };
    Tile::of(scalar, &(0..n).map(|_| value()).collect::<Vec<_>>())
}

/// One line along the axis.
fn line(a: &[u64], (_, len, inner): (usize, usize, usize), outer: usize, column: usize) -> Vec<u64> {
    (0..len).map(|l| a[(outer * len + l) * inner + column]).collect()
}

/// A line's running combinations: bits of the result type, and by how much a float may be missed.
fn combine(op: ReduceOp, scalar: Scalar, line: &[u64]) -> (u64, f64) {
    if is_arg(op) {
        return (arg(op, scalar, line), 0.0);
    }
    if scalar.is_float() {
        let numbers = line.iter().map(|&b| reference::to_float(scalar, b));
        let accumulator = if scalar == Scalar::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
        let size = line.len() as f64 * accumulator;
        let (result, error) = match op {
            ReduceOp::Sum => (numbers.clone().sum::<f64>(), size * numbers.map(f64::abs).sum::<f64>()),
            ReduceOp::Prod => {
                let product = numbers.product::<f64>();
                (product, size * product.abs())
            }
            ReduceOp::Min => (numbers.fold(f64::NAN, f64::min), 0.0),
            _ => (numbers.fold(f64::NAN, f64::max), 0.0),
        };
        return (reference::from_float(scalar, result), error);
    }
    let ones = if scalar == Scalar::Bool { 1 } else { reference::truncate(scalar, u64::MAX) };
    let ints = line.iter().map(|&b| reference::to_int(scalar, b));
    let result = match op {
        ReduceOp::Sum => ints.sum::<i128>(),
        ReduceOp::Prod => {
            ints.fold(1i128, |a, b| reference::truncate(scalar, a.wrapping_mul(b) as u64) as i128)
        }
        ReduceOp::Min => ints.min().unwrap_or(extreme(scalar, true)),
        ReduceOp::Max => ints.max().unwrap_or(extreme(scalar, false)),
        ReduceOp::And => ints.fold(ones as i128, |a, b| a & b),
        ReduceOp::Or => ints.fold(0, |a, b| a | b),
        _ => ints.fold(0, |a, b| a ^ b),
    };
    (reference::truncate(scalar, result as u64), 0.0)
}

fn extreme(scalar: Scalar, greatest: bool) -> i128 {
    match (scalar, greatest) {
        (Scalar::I32, true) => i32::MAX as i128,
        (Scalar::I32, false) => i32::MIN as i128,
        (Scalar::I64, true) => i64::MAX as i128,
        (Scalar::I64, false) => i64::MIN as i128,
        (Scalar::Bool, true) => 1,
        (_, true) => reference::truncate(scalar, u64::MAX) as i128,
        (_, false) => 0,
    }
}

fn arg(op: ReduceOp, scalar: Scalar, line: &[u64]) -> u64 {
    let better = |a: u64, b: u64| {
        let (a, b) = if op == ReduceOp::ArgMin { (a, b) } else { (b, a) };
        reference::compare(kiln_ir::CompareOp::Lt, scalar, a, b) == 1
    };
    let is_nan = |bits: u64| scalar.is_float() && reference::to_float(scalar, bits).is_nan();
    let mut best = 0;
    for i in 1..line.len() {
        if better(line[i], line[best]) || (is_nan(line[best]) && !is_nan(line[i])) {
            best = i;
        }
    }
    best as u64
}

#[track_caller]
fn check(what: &str, scalar: Scalar, got: u64, (expected, error): (u64, f64)) {
    if !scalar.is_float() {
        assert_eq!(got, expected, "{what}");
        return;
    }
    let (x, y) = (reference::to_float(scalar, got), reference::to_float(scalar, expected));
    // Rounding to 16 bits may tip either way.
    let tipped = error > 0.0 && reference::distance(scalar, got, expected) <= 1;
    assert!(
        x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= error || tipped,
        "{what}: {x} instead of {y} ± {error}"
    );
}

#[test]
fn reductions() {
    for isa in Isa::available() {
        for (op, scalar) in OPS.iter().flat_map(|&op| Scalar::COMPUTED.map(|s| (op, s))) {
            let key = PrimitiveKey::Reduce(op, scalar);
            assert_eq!(lookup_at(isa, key).is_some(), defined(op, scalar), "{key:?}");
            let Some(PrimitiveFn::Axis(f)) = lookup_at(isa, key) else { continue };
            for shape @ (outer, len, inner) in shapes() {
                let a = inputs(op, scalar, outer * len * inner, (len * 100 + inner) as u64);
                let result = if is_arg(op) { Scalar::I64 } else { scalar };
                let mut out = Tile::poisoned(result, outer * inner);
                // SAFETY: the tiles have the shape's elements.
                unsafe { f(out.mut_ptr(), a.ptr(), outer, len, inner) };
                let (a, out) = (a.elements(), out.elements());
                for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
                    let expected = combine(op, scalar, &line(&a, shape, o, i));
                    check(
                        &format!("{isa:?} {key:?} {shape:?} at {o}, {i}"),
                        result,
                        out[o * inner + i],
                        expected,
                    );
                }
            }
        }
    }
}

#[test]
fn scans() {
    let isa = Isa::best();
    for (op, scalar) in OPS.iter().flat_map(|&op| Scalar::COMPUTED.map(|s| (op, s))) {
        for (reverse, exclusive) in [(false, false), (false, true), (true, false), (true, true)] {
            let key = PrimitiveKey::Scan { op, scalar, reverse, exclusive };
            assert_eq!(lookup_at(isa, key).is_some(), defined(op, scalar) && !is_arg(op), "{key:?}");
            let Some(PrimitiveFn::Axis(f)) = lookup_at(isa, key) else { continue };
            for shape @ (outer, len, inner) in shapes() {
                let mut a = inputs(op, scalar, outer * len * inner, (len * 100 + inner) as u64);
                let mut out = Tile::poisoned(scalar, a.len);
                // SAFETY: the tiles have the shape's elements.
                unsafe { f(out.mut_ptr(), a.ptr(), outer, len, inner) };
                let (before, after) = (a.elements(), out.elements());
                for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
                    check_scan(key, &line(&before, shape, o, i), &line(&after, shape, o, i));
                }
                let p = a.mut_ptr();
                // SAFETY: as above, in place.
                unsafe { f(p, p, outer, len, inner) };
                assert_eq!(a.elements(), after, "{key:?} {shape:?} in place");
            }
        }
    }
}

fn check_scan(key: PrimitiveKey, line: &[u64], out: &[u64]) {
    let PrimitiveKey::Scan { op, scalar, reverse, exclusive } = key else {
        unreachable!("only scans come here")
    };
    let n = line.len();
    // A sample of places: the reference is quadratic.
    for i in (0..n).filter(|i| i % 7 == 0 || n < 40) {
        let before: Vec<u64> = match (reverse, exclusive) {
            (false, false) => line[..=i].to_vec(),
            (false, true) => line[..i].to_vec(),
            (true, false) => line[i..].to_vec(),
            (true, true) => line[i + 1..].to_vec(),
        };
        let mut expected = combine(op, scalar, &before);
        if before.is_empty() && matches!(op, ReduceOp::Min | ReduceOp::Max) && scalar.is_float() {
            // The identity.
            let infinity = if op == ReduceOp::Min { f64::INFINITY } else { f64::NEG_INFINITY };
            expected = (reference::from_float(scalar, infinity), 0.0);
        }
        check(&format!("{key:?} at {i} of {n}"), scalar, out[i], expected);
    }
}

#[test]
fn sums_are_the_same_on_every_isa() {
    for scalar in [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64] {
        for (outer, len, inner) in [(3, 1001, 1), (2, 77, 67)] {
            let a = inputs(ReduceOp::Sum, scalar, outer * len * inner, 5);
            let sums = |isa| {
                let f = primitive!(isa, Axis, PrimitiveKey::Reduce(ReduceOp::Sum, scalar));
                let mut out = Tile::poisoned(scalar, outer * inner);
                // SAFETY: the tiles have the shape's elements.
                unsafe { f(out.mut_ptr(), a.ptr(), outer, len, inner) };
                out.elements()
            };
            let first = sums(Isa::Portable);
            Isa::available().into_iter().for_each(|isa| assert_eq!(sums(isa), first, "{isa:?} {scalar}"));
        }
    }
}
