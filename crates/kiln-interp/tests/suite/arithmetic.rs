//! Element-wise operations: against values by hand, against Rust's own arithmetic, and bit for bit
//! against constant folding.

use crate::harness::*;
use half::{bf16, f16};
use kiln_ir::*;

const INTS: [Scalar; 4] = [Scalar::I32, Scalar::U32, Scalar::I64, Scalar::U64];
const FLOATS: [Scalar; 4] = [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64];

fn f32s(values: &[f32]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits().into()).collect()
}

fn unary_f32(op: UnaryOp, x: &[f32]) -> Vec<f32> {
    let bits = map_tile(&[(Scalar::F32, &f32s(x))], Scalar::F32, |b, v| b.unary(op, v[0])).unwrap();
    bits.iter().map(|&b| f32::from_bits(b as u32)).collect()
}

fn binary_f32(op: BinaryOp, x: &[f32], y: &[f32]) -> Vec<f32> {
    let inputs = [(Scalar::F32, &f32s(x)[..]), (Scalar::F32, &f32s(y)[..])];
    let bits = map_tile(&inputs, Scalar::F32, |b, v| b.binary(op, v[0], v[1])).unwrap();
    bits.iter().map(|&b| f32::from_bits(b as u32)).collect()
}

fn binary_i32(op: BinaryOp, x: &[i32], y: &[i32]) -> Vec<i32> {
    let bits = |v: &[i32]| -> Vec<u64> { v.iter().map(|&v| v as u32 as u64).collect() };
    let (x, y) = (bits(x), bits(y));
    let out = map_tile(&[(Scalar::I32, &x), (Scalar::I32, &y)], Scalar::I32, |b, v| b.binary(op, v[0], v[1]));
    out.unwrap().iter().map(|&b| b as i32).collect()
}

#[test]
fn functions_of_floats_by_hand() {
    let cases: [(UnaryOp, f32, f32); 24] = [
        (UnaryOp::Neg, 1.5, -1.5),
        (UnaryOp::Abs, -2.5, 2.5),
        (UnaryOp::Math(MathFn::Exp), 1.0, std::f32::consts::E),
        (UnaryOp::Math(MathFn::Exp), f32::NEG_INFINITY, 0.0),
        (UnaryOp::Exp2, -3.0, 0.125),
        (UnaryOp::Math(MathFn::Log), std::f32::consts::E, 1.0),
        (UnaryOp::Math(MathFn::Log), 0.0, f32::NEG_INFINITY),
        (UnaryOp::Math(MathFn::Log2), 1024.0, 10.0),
        (UnaryOp::Math(MathFn::Log1p), 1.0, std::f32::consts::LN_2),
        (UnaryOp::Math(MathFn::Log1p), 1e-30, 1e-30),
        (UnaryOp::Sqrt, 2.0, std::f32::consts::SQRT_2),
        (UnaryOp::Rsqrt, 4.0, 0.5),
        (UnaryOp::Recip, 8.0, 0.125),
        (UnaryOp::Math(MathFn::Sin), std::f32::consts::FRAC_PI_6, 0.5),
        (UnaryOp::Math(MathFn::Cos), std::f32::consts::FRAC_PI_3, 0.499_999_97),
        (UnaryOp::Math(MathFn::Tanh), 0.5, 0.462_117_16),
        (UnaryOp::Math(MathFn::Erf), 0.5, 0.520_499_9),
        (UnaryOp::Math(MathFn::Sigmoid), 0.0, 0.5),
        (UnaryOp::Math(MathFn::Sigmoid), -200.0, 0.0),
        (UnaryOp::Floor, -1.5, -2.0),
        (UnaryOp::Ceil, -1.5, -1.0),
        (UnaryOp::Round, 2.5, 2.0),
        (UnaryOp::Round, -3.5, -4.0),
        (UnaryOp::Trunc, -1.9, -1.0),
    ];
    for (op, x, want) in cases {
        let got = unary_f32(op, &[x])[0];
        assert!((got - want).abs() <= 1e-7 || got == want, "{op:?} {x}: {got}, expected {want}");
    }
    assert!(unary_f32(UnaryOp::Sqrt, &[-1.0])[0].is_nan());
}

#[test]
fn binary_operations_by_hand() {
    let nan = f32::NAN;
    assert_eq!(binary_f32(BinaryOp::Add, &[1.0, 1e30, 0.1], &[2.0, 1.0, 0.2]), [3.0, 1e30, 0.1 + 0.2]);
    assert_eq!(binary_f32(BinaryOp::Sub, &[1.0], &[2.5]), [-1.5]);
    assert_eq!(binary_f32(BinaryOp::Mul, &[3.0], &[-0.5]), [-1.5]);
    assert_eq!(binary_f32(BinaryOp::Div, &[1.0, -1.0], &[4.0, 0.0]), [0.25, f32::NEG_INFINITY]);
    assert_eq!(binary_f32(BinaryOp::Rem, &[5.5, -5.5], &[2.0, 2.0]), [1.5, -1.5]);
    assert_eq!(binary_f32(BinaryOp::Min, &[nan, 3.0, 1.0], &[1.0, nan, 2.0]), [1.0, 3.0, 1.0]);
    assert_eq!(binary_f32(BinaryOp::Max, &[nan, 3.0, 1.0], &[1.0, nan, 2.0]), [1.0, 3.0, 2.0]);
    assert_eq!(binary_f32(BinaryOp::Pow, &[2.0, 9.0], &[10.0, 0.5]), [1024.0, 3.0]);
    let angle = binary_f32(BinaryOp::Atan2, &[1.0], &[-1.0])[0];
    assert!((angle - 3.0 * std::f32::consts::FRAC_PI_4).abs() < 1e-6);

    let (min, max) = (i32::MIN, i32::MAX);
    assert_eq!(binary_i32(BinaryOp::Add, &[max, 3], &[1, -5]), [min, -2]);
    assert_eq!(binary_i32(BinaryOp::Mul, &[1 << 20, -3], &[1 << 12, 7]), [0, -21]);
    assert_eq!(binary_i32(BinaryOp::Div, &[-7, min], &[2, -1]), [-3, min]);
    assert_eq!(binary_i32(BinaryOp::Rem, &[-7, min, 7], &[2, -1, -4]), [-1, 0, 3]);
    assert_eq!(binary_i32(BinaryOp::Shl, &[1, 1, 3], &[4, 33, -1]), [16, 2, min]);
    assert_eq!(binary_i32(BinaryOp::Shr, &[-16, -1], &[2, 63]), [-4, -1]);
    assert_eq!(binary_i32(BinaryOp::And, &[0b1100], &[0b1010]), [0b1000]);
    assert_eq!(binary_i32(BinaryOp::Or, &[0b1100], &[0b1010]), [0b1110]);
    assert_eq!(binary_i32(BinaryOp::Xor, &[0b1100], &[0b1010]), [0b0110]);
    let shifted = map_tile(&[(Scalar::U32, &[0x8000_0000]), (Scalar::U32, &[31])], Scalar::U32, |b, v| {
        b.binary(BinaryOp::Shr, v[0], v[1])
    });
    assert_eq!(shifted.unwrap(), [1]);
}

#[test]
fn sixteen_bit_floats_round_each_operation() {
    // 1 + 2^-11 is a tie in f16, 2^-9 a quarter of bf16's last place at 1.
    let sum = |elem, x: u16, y: u16| {
        map_tile(&[(elem, &[x.into()]), (elem, &[y.into()])], elem, |b, v| {
            b.binary(BinaryOp::Add, v[0], v[1])
        })
        .unwrap()[0] as u16
    };
    let h = |x: f64| f16::from_f64(x).to_bits();
    let g = |x: f64| bf16::from_f64(x).to_bits();
    assert_eq!(sum(Scalar::F16, h(1.0), h(2f64.powi(-11))), h(1.0));
    assert_eq!(sum(Scalar::F16, h(1.0), h(2f64.powi(-10))), h(1.0009765625));
    assert_eq!(sum(Scalar::F16, h(60000.0), h(60000.0)), f16::INFINITY.to_bits());
    assert_eq!(sum(Scalar::BF16, g(1.0), g(2f64.powi(-9))), g(1.0));
    assert_eq!(sum(Scalar::BF16, g(256.0), g(3.0)), g(260.0));
}

#[test]
fn fma_rounds_once() {
    let near = 1.0 + f32::EPSILON;
    let inputs = [f32s(&[near]), f32s(&[near]), f32s(&[-(1.0 + 2.0 * f32::EPSILON)])];
    let inputs: Vec<_> = inputs.iter().map(|v| (Scalar::F32, &v[..])).collect();
    let out = map_tile(&inputs, Scalar::F32, |b, v| b.fma(v[0], v[1], v[2])).unwrap();
    assert_eq!(f32::from_bits(out[0] as u32), f32::EPSILON * f32::EPSILON);
    let ints = [(Scalar::U32, &[u32::MAX as u64][..]), (Scalar::U32, &[2]), (Scalar::U32, &[5])];
    assert_eq!(map_tile(&ints, Scalar::U32, |b, v| b.fma(v[0], v[1], v[2])).unwrap(), [3]);
}

#[test]
fn casts_by_hand() {
    let cast = |from: Scalar, bits: u64, to: Scalar| {
        map_tile(&[(from, &[bits])], to, |b, v| b.cast(v[0], to)).unwrap()[0]
    };
    let f = |x: f32| u64::from(x.to_bits());
    assert_eq!(cast(Scalar::F32, f(1e20), Scalar::I32) as i32, i32::MAX);
    assert_eq!(cast(Scalar::F32, f(-1.5), Scalar::U64), 0);
    assert_eq!(cast(Scalar::F32, f(f32::NAN), Scalar::I64), 0);
    assert_eq!(cast(Scalar::F32, f(-1.9), Scalar::I64) as i64, -1);
    assert_eq!(cast(Scalar::F32, f(f32::NAN), Scalar::Bool), 1);
    assert_eq!(cast(Scalar::F32, f(-0.0), Scalar::Bool), 0);
    assert_eq!(cast(Scalar::I64, -1i64 as u64, Scalar::U32), 0xffff_ffff);
    assert_eq!(cast(Scalar::I32, 0xffff_ffff, Scalar::I64), u64::MAX);
    assert_eq!(cast(Scalar::U32, 0xffff_ffff, Scalar::I64), 0xffff_ffff);
    assert_eq!(cast(Scalar::U64, u64::MAX, Scalar::F64), 18446744073709551616f64.to_bits());
    assert_eq!(cast(Scalar::I64, 1 << 40, Scalar::Bool), 1);
    assert_eq!(cast(Scalar::Bool, 1, Scalar::F16), f16::ONE.to_bits().into());
    assert_eq!(cast(Scalar::F64, 65519.99f64.to_bits(), Scalar::F16), f16::MAX.to_bits().into());
    assert_eq!(cast(Scalar::F64, 65520f64.to_bits(), Scalar::F16), f16::INFINITY.to_bits().into());
    // Just above a tie: through f32 this would round down.
    let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    assert_eq!(cast(Scalar::F64, above.to_bits(), Scalar::F16), 0x3c01);
    assert_eq!(cast(Scalar::I64, (1 << 62) + (1 << 54) + 1, Scalar::BF16), 0x5e81);
}

#[test]
fn bits_stay_in_a_bitcast() {
    let out =
        map_tile(&[(Scalar::F32, &f32s(&[1.0, -0.0]))], Scalar::U32, |b, v| b.bitcast(v[0], Scalar::U32));
    assert_eq!(out.unwrap(), [0x3f80_0000, 0x8000_0000]);
    let out = map_tile(&[(Scalar::I64, &[0x7ff8_0000_0000_1234])], Scalar::F64, |b, v| {
        b.bitcast(v[0], Scalar::F64)
    });
    assert_eq!(out.unwrap(), [0x7ff8_0000_0000_1234]);
}

#[test]
fn select_takes_sides() {
    let inputs = [(Scalar::Bool, &[1, 0, 1][..]), (Scalar::U64, &[1, 2, 3]), (Scalar::U64, &[7, 8, 9])];
    assert_eq!(map_tile(&inputs, Scalar::U64, |b, v| b.select(v[0], v[1], v[2])).unwrap(), [1, 8, 3]);
}

/// Special values and pseudo-random ones.
fn samples(elem: Scalar) -> Vec<u64> {
    if elem == Scalar::Bool {
        return vec![0, 1];
    }
    let width = 8 * elem.bytes();
    let top = 1u64 << (width - 1);
    let mut bits = vec![0, 1, 2, 3, top, top | 1, top - 1, u64::MAX >> (64 - width), 31, 33];
    let values =
        [1.0, -1.0, 0.5, 2.5, -3.5, 7.25, 100.0, 0.1, 1e-3, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    if elem.is_float() {
        bits.extend(values.map(|v| Literal::from_f64(elem, v).bits()));
    }
    let mut state = 0x1234_5678_9abc_def1u64;
    for _ in 0..40 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        bits.push(state.rotate_left(17) >> (64 - width));
    }
    bits
}

fn pairs(elem: Scalar) -> (Vec<u64>, Vec<u64>) {
    let all = samples(elem);
    all.iter().flat_map(|&a| all.iter().map(move |&b| (a, b))).unzip()
}

/// The same bits, or both NaN.
fn same(a: Literal, b: Literal) -> bool {
    a == b || (a.elem().is_float() && a.as_f64().is_nan() && b.as_f64().is_nan())
}

#[test]
fn unary_agrees_with_folding() {
    for elem in Scalar::COMPUTED {
        for &op in UnaryOp::ALL {
            let x = samples(elem);
            let out = if op == UnaryOp::IsNan { Scalar::Bool } else { elem };
            let Ok(got) = map_tile(&[(elem, &x)], out, |b, v| b.unary(op, v[0])) else { continue };
            for (&x, &got) in x.iter().zip(&got) {
                let (x, got) = (Literal::from_bits(elem, x), Literal::from_bits(out, got));
                let want = eval::unary(op, x).unwrap();
                assert!(same(got, want), "{op:?} {elem} {x}: {got}, folding gives {want}");
            }
        }
    }
}

#[test]
fn binary_agrees_with_folding() {
    for elem in Scalar::COMPUTED {
        for &op in BinaryOp::ALL {
            let (mut x, mut y) = pairs(elem);
            if elem.is_int() && matches!(op, BinaryOp::Div | BinaryOp::Rem) {
                (x, y) = x.iter().zip(&y).filter(|&(_, &y)| y != 0).unzip();
            }
            let Ok(got) = map_tile(&[(elem, &x), (elem, &y)], elem, |b, v| b.binary(op, v[0], v[1])) else {
                continue;
            };
            for ((&x, &y), &got) in x.iter().zip(&y).zip(&got) {
                let [x, y, got] = [x, y, got].map(|v| Literal::from_bits(elem, v));
                let want = eval::binary(op, x, y).unwrap();
                assert!(same(got, want), "{op:?} {elem} {x} {y}: {got}, folding gives {want}");
            }
        }
    }
}

#[test]
fn compare_and_fma_agree_with_folding() {
    for elem in Scalar::COMPUTED {
        let (x, y) = pairs(elem);
        for &op in CompareOp::ALL {
            let Ok(got) = map_tile(&[(elem, &x), (elem, &y)], Scalar::Bool, |b, v| b.compare(op, v[0], v[1]))
            else {
                continue;
            };
            for ((&x, &y), &got) in x.iter().zip(&y).zip(&got) {
                let [x, y] = [x, y].map(|v| Literal::from_bits(elem, v));
                assert_eq!(got, eval::compare(op, x, y).bits(), "{op:?} {elem} {x} {y}");
            }
        }
        let z: Vec<u64> = x.iter().rev().copied().collect();
        let Ok(got) = map_tile(&[(elem, &x), (elem, &y), (elem, &z)], elem, |b, v| b.fma(v[0], v[1], v[2]))
        else {
            continue;
        };
        for (i, &got) in got.iter().enumerate() {
            let [x, y, z, got] = [x[i], y[i], z[i], got].map(|v| Literal::from_bits(elem, v));
            let want = eval::fma(x, y, z).unwrap();
            assert!(same(got, want), "fma {elem} {x} {y} {z}: {got}, folding gives {want}");
        }
    }
}

#[test]
fn casts_agree_with_folding() {
    for from in Scalar::COMPUTED {
        for to in Scalar::COMPUTED.into_iter().filter(|&to| to != from) {
            let x = samples(from);
            let got = map_tile(&[(from, &x)], to, |b, v| b.cast(v[0], to)).unwrap();
            for (&x, &got) in x.iter().zip(&got) {
                let (x, got) = (Literal::from_bits(from, x), Literal::from_bits(to, got));
                let want = eval::cast(x, to);
                assert!(same(got, want), "{x} from {from} to {to}: {got}, folding gives {want}");
            }
        }
    }
}

/// The comparisons above skip what the verifier refuses; this says how much must be left.
#[test]
fn every_operation_is_there_for_its_types() {
    let runs = |elem, op| {
        let out = if op == UnaryOp::IsNan { Scalar::Bool } else { elem };
        map_tile(&[(elem, &samples(elem))], out, |b, v| b.unary(op, v[0])).is_ok()
    };
    for &op in UnaryOp::ALL {
        for elem in FLOATS {
            let want = !matches!(op, UnaryOp::Not | UnaryOp::Popcount | UnaryOp::Clz | UnaryOp::BitReverse);
            assert_eq!(runs(elem, op), want, "{op:?} {elem}");
        }
        for elem in INTS {
            let ints = [UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Not, UnaryOp::Popcount, UnaryOp::Clz];
            let want = ints.contains(&op) || op == UnaryOp::BitReverse;
            assert_eq!(runs(elem, op), want, "{op:?} {elem}");
        }
        assert_eq!(runs(Scalar::Bool, op), op == UnaryOp::Not, "{op:?}");
    }
    let runs =
        |elem, op| map_tile(&[(elem, &[1]), (elem, &[1])], elem, |b, v| b.binary(op, v[0], v[1])).is_ok();
    for &op in BinaryOp::ALL {
        let of_floats = matches!(op, BinaryOp::FastDiv | BinaryOp::Pow | BinaryOp::Atan2);
        let of_bits = matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor);
        let of_ints = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
        for elem in FLOATS {
            assert_eq!(runs(elem, op), !of_bits && !of_ints, "{op:?} {elem}");
        }
        for elem in INTS {
            assert_eq!(runs(elem, op), !of_floats, "{op:?} {elem}");
        }
        assert_eq!(runs(Scalar::Bool, op), of_bits, "{op:?}");
    }
}
