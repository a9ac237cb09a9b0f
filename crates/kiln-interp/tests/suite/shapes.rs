//! Operations that move elements.

use crate::harness::*;
use kiln_ir::*;

/// Loads a tile of shape `from` that counts 0, 1, 2, … and stores what `f` makes of it.
fn moved(from: &[u32], to: &[u32], f: impl FnOnce(&mut Builder, Value) -> Value) -> Vec<i32> {
    let count = |s: &[u32]| s.iter().map(|&e| e as usize).product::<usize>();
    let kernel =
        tiles(&[P::View(Scalar::I32, from.len() as u32), P::View(Scalar::I32, to.len() as u32)], |b, p| {
            let zero = b.index(0);
            let padding = b.i32(-1);
            let x = b.load(p[0], &vec![zero; from.len()], padding, Shape::new(from), Reuse::Normal);
            let y = f(b, x);
            b.store(p[1], &vec![zero; to.len()], y, Reuse::Normal, true);
        });
    let host = Host::new();
    let dims = |s: &[u32]| s.iter().map(|&e| e as usize).collect::<Vec<_>>();
    let input = host.buffer(&(0..count(from) as i32).collect::<Vec<_>>(), &dims(from));
    let output = host.uninit(count(to) * 4, &dims(to));
    host.run(&kernel, [1; 3], &args(&[&input, &output])).unwrap();
    host.read(&output)
}

#[test]
fn broadcast_stretches_axes_of_one() {
    assert_eq!(moved(&[2, 1], &[2, 3], |b, x| b.broadcast(x, Shape::new(&[2, 3]))), [0, 0, 0, 1, 1, 1]);
    assert_eq!(moved(&[1, 3], &[2, 3], |b, x| b.broadcast(x, Shape::new(&[2, 3]))), [0, 1, 2, 0, 1, 2]);
    let got = moved(&[1, 2, 1], &[3, 2, 2], |b, x| b.broadcast(x, Shape::new(&[3, 2, 2])));
    assert_eq!(got, [0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1]);
}

#[test]
fn a_scalar_goes_to_any_shape() {
    let got = moved(&[1], &[2, 2], |b, _| {
        let c = b.i32(7);
        b.broadcast(c, Shape::new(&[2, 2]))
    });
    assert_eq!(got, [7; 4]);
    let got = moved(&[5], &[5], |b, x| {
        let sum = b.reduce(ReduceOp::Sum, 0, x);
        b.broadcast(sum, Shape::new(&[5]))
    });
    assert_eq!(got, [10; 5]);
}

#[test]
fn reshape_keeps_row_major_order() {
    assert_eq!(moved(&[2, 3], &[3, 2], |b, x| b.reshape(x, Shape::new(&[3, 2]))), [0, 1, 2, 3, 4, 5]);
    let got = moved(&[1], &[1, 1], |b, x| {
        let scalar = b.reshape(x, Shape::scalar());
        let nine = b.i32(9);
        let sum = b.binary(BinaryOp::Add, scalar, nine);
        b.reshape(sum, Shape::new(&[1, 1]))
    });
    assert_eq!(got, [9]);
}

#[test]
fn transpose_permutes_axes() {
    assert_eq!(moved(&[2, 3], &[3, 2], |b, x| b.transpose(x, &[1, 0])), [0, 3, 1, 4, 2, 5]);
    // Result [i, j, k] is operand [j, k, i].
    let got = moved(&[2, 2, 3], &[3, 2, 2], |b, x| b.transpose(x, &[2, 0, 1]));
    assert_eq!(got, [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]);
}

#[test]
fn iota_and_splat() {
    let got = moved(&[1], &[5], |b, _| {
        let iota = b.iota(Scalar::I32, 5);
        let two = b.splat(Literal::wrapping(Scalar::I32, 2), Shape::new(&[5]));
        b.binary(BinaryOp::Mul, iota, two)
    });
    assert_eq!(got, [0, 2, 4, 6, 8]);
    for elem in [Scalar::U32, Scalar::I64, Scalar::U64] {
        let got = moved(&[1], &[3], |b, _| {
            let iota = b.iota(elem, 3);
            b.cast(iota, Scalar::I32)
        });
        assert_eq!(got, [0, 1, 2]);
    }
}
