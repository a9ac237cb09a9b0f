//! Reductions, scans and the matrix product.

use crate::harness::*;
use bytemuck::Pod;
use half::{bf16, f16};
use kiln_ir::*;

/// Applies `f` to a tile of this shape; the result has the shape `to`.
fn apply<T: Pod, R: Pod>(
    (elem, data, from): (Scalar, &[T], &[u32]),
    (out, to): (Scalar, &[u32]),
    f: impl FnOnce(&mut Builder, Value) -> Value,
) -> Vec<R> {
    let kernel = tiles(&[P::View(elem, from.len() as u32), P::View(out, to.len() as u32)], |b, p| {
        let zero = b.index(0);
        let padding = b.constant(Literal::zero(elem));
        let x = b.load(p[0], &vec![zero; from.len()], padding, Shape::new(from), Reuse::Normal);
        let y = f(b, x);
        b.store(p[1], &vec![zero; to.len()], y, Reuse::Normal, true);
    });
    let dims = |s: &[u32]| s.iter().map(|&e| e as usize).collect::<Vec<_>>();
    let host = Host::new();
    let input = host.buffer(data, &dims(from));
    let output = host.uninit(dims(to).iter().product::<usize>() * size_of::<R>(), &dims(to));
    host.run(&kernel, [1; 3], &args(&[&input, &output])).unwrap();
    host.read(&output)
}

fn reduce_i32(op: ReduceOp, axis: u32, data: &[i32], from: &[u32], to: &[u32]) -> Vec<i32> {
    apply((Scalar::I32, data, from), (Scalar::I32, to), |b, x| b.reduce(op, axis, x))
}

#[test]
fn integer_reductions_along_each_axis() {
    // -5 2 -2 | 5 1 -3 | 4 0 -4 | 3 -1 -5
    let data: Vec<i32> = (0..12).map(|i| i * 7 % 11 - 5).collect();
    assert_eq!(reduce_i32(ReduceOp::Sum, 1, &data, &[4, 3], &[4]), [-5, 3, 0, -3]);
    assert_eq!(reduce_i32(ReduceOp::Sum, 0, &data, &[4, 3], &[3]), [7, 2, -14]);
    assert_eq!(reduce_i32(ReduceOp::Min, 0, &data, &[4, 3], &[3]), [-5, -1, -5]);
    assert_eq!(reduce_i32(ReduceOp::Max, 1, &data, &[4, 3], &[4]), [2, 5, 4, 3]);
    assert_eq!(reduce_i32(ReduceOp::Prod, 1, &data, &[4, 3], &[4]), [20, -15, 0, 15]);
    assert_eq!(reduce_i32(ReduceOp::Sum, 1, &data, &[2, 2, 3], &[2, 3]), [0, 3, -5, 7, -1, -9]);
    assert_eq!(reduce_i32(ReduceOp::And, 0, &[0b1110, 0b0111, 0b1100], &[3, 1], &[1]), [0b0100]);
    assert_eq!(reduce_i32(ReduceOp::Or, 0, &[0b1000, 0b0001, 0], &[3, 1], &[1]), [0b1001]);
    assert_eq!(reduce_i32(ReduceOp::Xor, 0, &[0b1100, 0b0110, 1], &[3, 1], &[1]), [0b1011]);
    assert_eq!(reduce_i32(ReduceOp::Sum, 0, &[i32::MAX, 1], &[2, 1], &[1]), [i32::MIN]);
}

#[test]
fn first_of_equals_and_nan_in_arg_reductions() {
    let nan = f32::NAN;
    let data = [nan, 3.0, 1.0, 3.0, 1.0, nan, nan, nan, nan, nan];
    let arg = |op| -> Vec<i64> {
        apply((Scalar::F32, &data, &[2, 5]), (Scalar::I64, &[2]), |b, x| b.reduce(op, 1, x))
    };
    assert_eq!(arg(ReduceOp::ArgMax), [1, 0]);
    assert_eq!(arg(ReduceOp::ArgMin), [2, 0]);
    let extreme = |op| apply((Scalar::F32, &data, &[2, 5]), (Scalar::F32, &[2]), |b, x| b.reduce(op, 1, x));
    let max: Vec<f32> = extreme(ReduceOp::Max);
    assert!(max[0] == 3.0 && max[1].is_nan());
    let min: Vec<f32> = extreme(ReduceOp::Min);
    assert!(min[0] == 1.0 && min[1].is_nan());
}

#[test]
fn bool_reductions() {
    let data = [1u8, 1, 0, 1];
    let all = |op| -> Vec<u8> {
        apply((Scalar::Bool, &data, &[2, 2]), (Scalar::Bool, &[2]), |b, x| b.reduce(op, 1, x))
    };
    assert_eq!(all(ReduceOp::And), [1, 0]);
    assert_eq!(all(ReduceOp::Or), [1, 1]);
    assert_eq!(all(ReduceOp::Xor), [0, 1]);
}

#[test]
fn sixteen_bit_sums_accumulate_in_f32() {
    // In f16 the sum would stick at 2048, in bf16 at 256.
    let ones = vec![f16::ONE; 4001];
    let sum: Vec<f16> =
        apply((Scalar::F16, &ones, &[4001, 1]), (Scalar::F16, &[1]), |b, x| b.reduce(ReduceOp::Sum, 0, x));
    assert_eq!(sum[0].to_f32(), 4000.0); // 4001 lies between 4000 and 4002, even
    let ones = vec![bf16::ONE; 513];
    let sum: Vec<bf16> =
        apply((Scalar::BF16, &ones, &[513, 1]), (Scalar::BF16, &[1]), |b, x| b.reduce(ReduceOp::Sum, 0, x));
    assert_eq!(sum[0].to_f32(), 512.0);
    let scan: Vec<f16> =
        apply((Scalar::F16, &vec![f16::ONE; 2051], &[2051]), (Scalar::F16, &[2051]), |b, x| {
            b.scan(ReduceOp::Sum, 0, false, false, x)
        });
    assert_eq!((scan[2047].to_f32(), scan[2049].to_f32(), scan[2050].to_f32()), (2048.0, 2050.0, 2052.0));
}

#[test]
fn long_sums_stay_accurate() {
    let data: Vec<f32> = (0..100_000).map(|i| 1.0 + (i % 7) as f32 * 0.1).collect();
    let exact: f64 = data.iter().map(|&v| f64::from(v)).sum();
    let sum: Vec<f32> =
        apply((Scalar::F32, &data, &[100_000, 1]), (Scalar::F32, &[1]), |b, x| b.reduce(ReduceOp::Sum, 0, x));
    assert!((f64::from(sum[0]) - exact).abs() / exact < 5e-7);
}

#[test]
fn scans_in_both_directions() {
    let data = [3, 1, 4, 1, 5, 9];
    let scan = |op, axis, reverse, exclusive, shape: &[u32]| -> Vec<i32> {
        apply((Scalar::I32, &data, shape), (Scalar::I32, shape), |b, x| {
            b.scan(op, axis, reverse, exclusive, x)
        })
    };
    assert_eq!(scan(ReduceOp::Sum, 0, false, false, &[6]), [3, 4, 8, 9, 14, 23]);
    assert_eq!(scan(ReduceOp::Sum, 0, true, false, &[6]), [23, 20, 19, 15, 14, 9]);
    assert_eq!(scan(ReduceOp::Sum, 0, false, true, &[6]), [0, 3, 4, 8, 9, 14]);
    assert_eq!(scan(ReduceOp::Sum, 0, true, true, &[6]), [20, 19, 15, 14, 9, 0]);
    assert_eq!(scan(ReduceOp::Prod, 1, false, true, &[2, 3]), [1, 3, 3, 1, 1, 5]);
    assert_eq!(scan(ReduceOp::Max, 0, false, false, &[2, 3]), [3, 1, 4, 3, 5, 9]);
    assert_eq!(scan(ReduceOp::Max, 1, false, true, &[2, 3]), [i32::MIN, 3, 3, i32::MIN, 1, 5]);
    assert_eq!(scan(ReduceOp::Min, 1, true, true, &[2, 3]), [1, 4, i32::MAX, 5, 9, i32::MAX]);
    assert_eq!(scan(ReduceOp::And, 0, false, true, &[6])[0], -1);
    assert_eq!(scan(ReduceOp::Xor, 0, false, false, &[6]), [3, 2, 6, 7, 2, 11]);
}

#[test]
fn dot_accumulates_in_f32() {
    let (m, k, n) = (3, 5, 2);
    let a: Vec<f32> = (0..m * k).map(|i| i as f32 - 6.0).collect();
    let b: Vec<f32> = (0..k * n).map(|i| 0.5 * i as f32 - 2.0).collect();
    let mut want = vec![10.0f32; m * n];
    for i in 0..m {
        for j in 0..n {
            want[i * n + j] += (0..k).map(|x| a[i * k + x] * b[x * n + j]).sum::<f32>();
        }
    }
    for elem in [Scalar::F16, Scalar::BF16, Scalar::F32] {
        let kernel = tiles(&[P::View(elem, 2), P::View(elem, 2), P::View(Scalar::F32, 2)], |build, p| {
            let zero = build.index(0);
            let pad = build.constant(Literal::zero(elem));
            let a = build.load(p[0], &[zero, zero], pad, Shape::new(&[3, 5]), Reuse::Normal);
            let b = build.load(p[1], &[zero, zero], pad, Shape::new(&[5, 2]), Reuse::Normal);
            let acc = build.splat(Literal::f32(10.0), Shape::new(&[3, 2]));
            let c = build.dot(a, b, acc);
            build.store(p[2], &[zero, zero], c, Reuse::Normal, true);
        });
        let host = Host::new();
        let bits =
            |v: &[f32]| v.iter().map(|&v| Literal::from_f64(elem, v.into()).bits()).collect::<Vec<_>>();
        let (a, b) = (encode(elem, &bits(&a)), encode(elem, &bits(&b)));
        let a = Buffer { shape: vec![m, k], ..host.vector(&a) };
        let b = Buffer { shape: vec![k, n], ..host.vector(&b) };
        let c = host.uninit(m * n * 4, &[m, n]);
        host.run(&kernel, [1; 3], &args(&[&a, &b, &c])).unwrap();
        assert_eq!(host.read::<f32>(&c), want, "{elem}");
    }
}

#[test]
fn dot_of_integers_wraps() {
    let kernel = tiles(&[P::View(Scalar::I32, 2)], |b, p| {
        let zero = b.index(0);
        let x = b.splat(Literal::wrapping(Scalar::I32, 1 << 30), Shape::new(&[1, 4]));
        let y = b.splat(Literal::wrapping(Scalar::I32, 3), Shape::new(&[4, 1]));
        let acc = b.splat(Literal::wrapping(Scalar::I32, 5), Shape::new(&[1, 1]));
        let c = b.dot(x, y, acc);
        b.store(p[0], &[zero, zero], c, Reuse::Normal, true);
    });
    let host = Host::new();
    let out = host.buffer(&[0i32], &[1, 1]);
    host.run(&kernel, [1; 3], &args(&[&out])).unwrap();
    assert_eq!(host.read::<i32>(&out), [5]); // 12 * 2^30 is a multiple of 2^32
}
