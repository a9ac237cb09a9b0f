//! Kernels of the library, at sizes that no tile divides.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, close, ensure, holds_near, list};
use half::{bf16, f16};
use kiln_kernels::matmul::Factor;
use kiln_reference::{Host, Sample, by_rows, product};
use kiln_runtime::{Error, Tensor};

pub fn cases() -> Vec<Case> {
    cases!["library":
        matmul for i32 f16 bf16 f32 f64;
        matmul_of_halves for f16 bf16;
        wrong_shapes;
    ]
}

fn matmul<T: Sample + Factor<Sum: Sample>>(trial: &mut Trial<'_>) -> Verdict {
    for [m, k, n] in [[1, 1, 1], [5, 0, 3], [0, 4, 3], [131, 70, 37], [3, 37, 150]] {
        let (a, xs) = trial.input::<T, 2>([m, k])?;
        // A transposed factor is a view.
        let (b, ys) = trial.input::<T, 2>([n, k])?;
        let mut c = trial.output::<T::Sum, 2>([m, n])?;
        kiln_kernels::matmul(&a, &b.transpose(), &mut c)?;
        let zero = T::small(0).host();
        let expected = product(&by_rows(&xs, [m, k], false), &by_rows(&ys, [k, n], true), [m, n, k], zero);
        holds_near(&format!("a bᵀ, {m} × {k} × {n}"), &c, &expected, 8.0, 128.0)?;
    }
    Ok(())
}

/// Results of the factors' own type, with every way that the tensor cores have to take factors and
/// to store: by rows and by columns, rows that bulk copies cannot move, few rows, few columns, one,
/// and parts of larger matrices.
fn matmul_of_halves<T: Sample + Factor>(trial: &mut Trial<'_>) -> Verdict {
    let shapes = [
        [200, 136, 264],
        [72, 333, 96],
        [131, 71, 37],
        [16, 72, 200],
        [70, 5, 64],
        [1, 300, 72],
        [90, 1, 40],
    ];
    for [m, n, k] in shapes {
        for columns in [[false, false], [false, true], [true, false], [true, true]] {
            let stored = |rows, across, transposed| if transposed { [across, rows] } else { [rows, across] };
            let (a, xs) = trial.input::<T, 2>(stored(m, k, columns[0]))?;
            let (b, ys) = trial.input::<T, 2>(stored(k, n, columns[1]))?;
            let mut c = trial.output::<T, 2>([m, n])?;
            let transposed = |x: &Tensor<T, 2>, turn: bool| match turn {
                true => Ok(x.transpose()),
                false => x.slice(0, 0..x.shape()[0]),
            };
            kiln_kernels::matmul(&transposed(&a, columns[0])?, &transposed(&b, columns[1])?, &mut c)?;
            let (x, y) = (by_rows(&xs, [m, k], columns[0]), by_rows(&ys, [k, n], columns[1]));
            let expected = product(&x, &y, [m, n, k], Host::Float(0.0));
            close(
                &format!("a b, {m} × {k} × {n}, by columns {columns:?}"),
                &c.to_vec()?,
                &expected,
                4.0,
                16.0,
            )?;
        }
    }
    part_of_matrices::<T>(trial)
}

/// Parts of a, b and c that begin at odd places: copies cannot move them as they lie.
fn part_of_matrices<T: Sample + Factor>(trial: &mut Trial<'_>) -> Verdict {
    let [m, n, k] = [67, 75, 49];
    let (a, xs) = trial.input::<T, 2>([m + 1, k + 3])?;
    let (b, ys) = trial.input::<T, 2>([k + 2, n + 5])?;
    let c = trial.output::<T, 2>([m + 2, n + 1])?;
    let part = |x: &Tensor<T, 2>, from: [usize; 2], extents: [usize; 2]| {
        x.slice(0, from[0]..from[0] + extents[0])?.slice(1, from[1]..from[1] + extents[1])
    };
    kiln_kernels::matmul(
        &part(&a, [1, 3], [m, k])?,
        &part(&b, [2, 1], [k, n])?,
        &mut part(&c, [1, 1], [m, n])?,
    )?;
    let element = |i: usize, j: usize| {
        (0..k).fold(Host::Float(0.0), |t, p| {
            t.add(xs[(i + 1) * (k + 3) + p + 3].host().mul(ys[(p + 2) * (n + 5) + j + 1].host()))
        })
    };
    let expected: Vec<Host> = list(0..m * n, |i| element(i / n, i % n));
    close("parts of matrices", &part(&c, [1, 1], [m, n])?.to_vec()?, &expected, 4.0, 16.0)
}

fn wrong_shapes(trial: &mut Trial<'_>) -> Verdict {
    let (a, _) = trial.input::<f32, 2>([3, 4])?;
    let (b, _) = trial.input::<f32, 2>([5, 2])?;
    let mut c = trial.output::<f32, 2>([3, 2])?;
    let refused = kiln_kernels::matmul(&a, &b, &mut c);
    ensure(matches!(refused, Err(Error::Shape { .. })), || {
        format!("a product of 3 × 4 and 5 × 2: {refused:?}")
    })
}
