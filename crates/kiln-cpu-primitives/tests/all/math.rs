//! The accuracy of elementary functions, in units in the last place, over the whole range of f32
//! and f64.
//!
//! Those of f32 are compared with functions of f64 that Kiln did not write, those of f64 with a
//! table from arithmetic of 4000 bits: the functions of f64 call the same libraries that a test
//! would compare them with.

use super::{Random, primitive};
use kiln_cpu_primitives::{Form, Isa, Operand, PrimitiveKey};
use kiln_ir::{BinaryOp, MathFn, Scalar, UnaryOp};

/// By how many units in the last place `got` misses the real number that `expected` is close to.
fn error(got: f32, expected: f64) -> f64 {
    let rounded = expected as f32;
    if rounded.is_nan() || rounded.is_infinite() || got.is_infinite() {
        // Where the result overflows, the largest number is as near as infinity.
        let fits = (rounded.is_nan() && got.is_nan())
            || got == rounded
            || got == rounded.next_down()
            || got.next_down() == rounded;
        return if fits { 0.0 } else { f64::INFINITY };
    }
    let magnitude = rounded.abs().max(f32::MIN_POSITIVE);
    let unit = (magnitude as f64).log2().floor().exp2() * f32::EPSILON as f64;
    (got as f64 - expected).abs() / unit
}

fn units(isa: Isa, op: UnaryOp, inputs: &[f32], function: fn(f64) -> f64) -> (f64, f32) {
    let f = primitive!(isa, Unary, PrimitiveKey::Unary(op, Scalar::F32));
    let mut out = vec![f32::NAN; inputs.len()];
    // SAFETY: both have as many elements.
    unsafe { f(out.as_mut_ptr().cast(), inputs.as_ptr().cast(), inputs.len()) };
    let worst = |worst: (f64, f32), (&x, &y): (&f32, &f32)| {
        let units = error(y, function(x as f64));
        if units > worst.0 || units.is_nan() { (units, x) } else { worst }
    };
    inputs.iter().zip(&out).fold((0.0, 0.0), worst)
}

/// Floats of every sign, exponent and kind.
fn sweep() -> Vec<f32> {
    (0..=u32::MAX).step_by(9973).map(f32::from_bits).collect()
}

/// Floats between two, evenly spaced.
fn range(low: f32, high: f32, n: usize) -> impl Iterator<Item = f32> {
    (0..n).map(move |i| low + (high - low) * (i as f32 / n as f32))
}

#[track_caller]
fn within(op: UnaryOp, limit: f64, inputs: &[f32], function: fn(f64) -> f64) {
    for isa in Isa::available() {
        let (units, x) = units(isa, op, inputs, function);
        assert!(units <= limit, "{isa:?} {op:?}: {units:.2} units at {x:e} ({:#x})", x.to_bits());
    }
}

#[test]
fn exponentials() {
    let mut inputs = sweep();
    inputs.extend(range(-105.0, 90.0, 200_000));
    within(UnaryOp::Math(MathFn::Exp), 2.0, &inputs, f64::exp);
    inputs.extend(range(-151.0, 129.0, 200_000));
    within(UnaryOp::Exp2, 2.0, &inputs, f64::exp2);
    within(UnaryOp::Math(MathFn::Sigmoid), 2.0, &inputs, |x| {
        if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
    });
    inputs.extend(range(-10.0, 10.0, 400_000));
    within(UnaryOp::Math(MathFn::Tanh), 2.0, &inputs, f64::tanh);
    within(UnaryOp::Math(MathFn::Erf), 2.0, &inputs, libm::erf);
}

#[test]
fn logarithms() {
    let mut inputs = sweep();
    inputs.extend(range(0.3, 3.0, 400_000));
    within(UnaryOp::Math(MathFn::Log), 2.0, &inputs, f64::ln);
    within(UnaryOp::Math(MathFn::Log1p), 4.0, &inputs, f64::ln_1p);
    within(UnaryOp::Math(MathFn::Log2), 2.0, &inputs, f64::log2);
    within(UnaryOp::Rsqrt, 2.0, &inputs, |x| 1.0 / x.sqrt());
}

#[test]
fn trigonometric_functions() {
    let mut inputs = sweep();
    inputs.extend(range(-20.0, 20.0, 200_000));
    inputs.extend(range(-1.1e6, 1.1e6, 200_000));
    // Where the result is nearly zero the argument must be reduced to many more bits than it has.
    for n in 0..200_000 {
        let near = (n as f64 * std::f64::consts::FRAC_PI_2) as f32;
        inputs.extend([near, near.next_up(), near.next_down()]);
    }
    within(UnaryOp::Math(MathFn::Sin), 2.0, &inputs, f64::sin);
    within(UnaryOp::Math(MathFn::Cos), 2.0, &inputs, f64::cos);
}

#[test]
fn signs_of_zero_and_symmetry() {
    for isa in Isa::available() {
        for op in [
            UnaryOp::Math(MathFn::Sin),
            UnaryOp::Math(MathFn::Tanh),
            UnaryOp::Math(MathFn::Erf),
            UnaryOp::Round,
            UnaryOp::Sqrt,
            UnaryOp::Recip,
        ] {
            let f = primitive!(isa, Unary, PrimitiveKey::Unary(op, Scalar::F32));
            let (x, mut y) = ([-0.0f32, 0.0], [7.0f32; 2]);
            // SAFETY: both have two elements.
            unsafe { f(y.as_mut_ptr().cast(), x.as_ptr().cast(), 2) };
            assert!(y[0].is_sign_negative() && y[1].is_sign_positive(), "{isa:?} {op:?}: {y:?}");
        }
    }
}

fn binary_units(op: BinaryOp, pairs: &[(f32, f32)], function: fn(f64, f64) -> f64) {
    let (a, b): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
    for isa in Isa::available() {
        let f = primitive!(isa, Binary, PrimitiveKey::Binary(op, Form::Arrays, Scalar::F32));
        let mut out = vec![f32::NAN; a.len()];
        let operand = |x: &[f32]| Operand { array: x.as_ptr().cast() };
        // SAFETY: all three have as many elements.
        unsafe { f(out.as_mut_ptr().cast(), operand(&a), operand(&b), a.len()) };
        for (&(a, b), y) in pairs.iter().zip(out) {
            let expected = function(a as f64, b as f64);
            let units = error(y, expected);
            assert!(
                units <= 2.0,
                "{isa:?} {op:?} of {a:e} and {b:e}: {y:e}, {units:.2} units from {expected:e}"
            );
            let zero = y == 0.0 && expected as f32 == 0.0;
            assert!(
                !zero || y.is_sign_negative() == expected.is_sign_negative(),
                "{isa:?} {op:?} of {a:e} and {b:e}: {y:e}"
            );
        }
    }
}

#[test]
fn powers_and_angles() {
    let mut random = Random(3);
    let special = [
        0.0,
        1.0,
        2.0,
        3.0,
        0.5,
        1.5,
        f32::INFINITY,
        f32::NAN,
        1e-45,
        1e-39,
        f32::MAX,
        16777216.0,
        16777215.0,
        8388607.5,
    ];
    let special: Vec<f32> = special.iter().flat_map(|&x| [x, -x]).collect();
    let mut pairs: Vec<(f32, f32)> =
        special.iter().flat_map(|&a| special.iter().map(move |&b| (a, b))).collect();
    for _ in 0..200_000 {
        let mut float = || f32::from_bits(random.next() as u32);
        pairs.push((float(), float()));
        let mut near = || (random.next() % 100_000) as f32 / 5000.0 - 10.0;
        let (a, b) = (near(), near());
        pairs.extend([(a, b), (a.abs(), b), (1.0 + a * 1e-4, b * 1e4)]);
    }
    binary_units(BinaryOp::Pow, &pairs, f64::powf);
    binary_units(BinaryOp::Atan2, &pairs, f64::atan2);
}

/// By how many units in the last place an f64 misses the number nearest to the result.
fn error_f64(got: f64, expected: f64) -> f64 {
    match (got, expected) {
        _ if got.is_nan() || expected.is_nan() => {
            if got.is_nan() && expected.is_nan() {
                0.0
            } else {
                f64::INFINITY
            }
        }
        // Zeros are equal, but not their signs.
        _ if got.is_sign_negative() != expected.is_sign_negative() => f64::INFINITY,
        _ => (got.to_bits() as i64).abs_diff(expected.to_bits() as i64) as f64,
    }
}

#[test]
fn functions_of_f64() {
    let table = include_str!("math_f64.txt").lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for line in table {
        let (name, bits) = line.split_once(' ').unwrap();
        let numbers: Vec<f64> =
            bits.split(' ').map(|b| f64::from_bits(u64::from_str_radix(b, 16).unwrap())).collect();
        for isa in Isa::available() {
            let mut out = [f64::NAN];
            let to = out.as_mut_ptr().cast();
            match numbers[..] {
                [x, _] => {
                    let op = *UnaryOp::ALL.iter().find(|op| op.name() == name).unwrap();
                    let f = primitive!(isa, Unary, PrimitiveKey::Unary(op, Scalar::F64));
                    // SAFETY: both have an element.
                    unsafe { f(to, (&raw const x).cast(), 1) };
                }
                [x, y, _] => {
                    let op = if name == "pow" { BinaryOp::Pow } else { BinaryOp::Atan2 };
                    let f = primitive!(isa, Binary, PrimitiveKey::Binary(op, Form::Arrays, Scalar::F64));
                    let operand = |x: &f64| Operand { array: (&raw const *x).cast() };
                    // SAFETY: all three have an element.
                    unsafe { f(to, operand(&x), operand(&y), 1) };
                }
                _ => panic!("{line}"),
            }
            let (arguments, expected) = (&numbers[..numbers.len() - 1], numbers[numbers.len() - 1]);
            let units = error_f64(out[0], expected);
            assert!(
                units <= 2.0,
                "{isa:?} {name} of {arguments:?}: {:e}, {units} units from {expected:e}",
                out[0]
            );
        }
        count += 1;
    }
    assert!(count > 1000, "{count} lines");
}
