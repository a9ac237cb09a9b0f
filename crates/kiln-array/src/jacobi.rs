//! Kernels of one-sided Jacobi rotations, and of Householder's reflections of rows.
//!
//! Both work on rows: those of a matrix's transpose, each followed by the row of what the same
//! operations are applied to. A launch reads from one buffer and writes to another, a program for
//! each pair of rows or each row, so that no program waits for another one. Those of a matrix are
//! neighbors, but where there are more matrices than the other axes of a grid may have programs.

use kiln_lang::prelude::*;
use kiln_runtime::{DynTensor, Result, Tensor};

mod kernels {
    use super::*;

    /// One step of a sweep: rotates pairs of rows, a program each, so that their first `height`
    /// elements are orthogonal (Hestenes, "Inversion of matrices by biorthogonalization", 1958;
    /// Golub and Van Loan, "Matrix Computations", 4th edition, 8.6.3).
    ///
    /// The pairs of a step are those of a round of a tournament (8.5.5 there): the first row stays
    /// in its place, and all others go on by one, so that after as many rounds as there are others
    /// each has met each. With `odd` the first row is none.
    #[kernel(crate = kiln_runtime)]
    pub fn rotate<T: Float>(
        from: &Tensor<T, 3>,
        to: &mut Tensor<T, 4>,
        height: Val<i64>,
        odd: bool,
        many: bool,
        block: usize,
    ) {
        let ids = [program_id(0), program_id(1)];
        let (pair, matrix, pairs) = (ids[usize::from(many)], ids[usize::from(!many)], to.extent(1));
        let before = select(pair.eq(1), 1, pair * 2 - 2);
        let last = select(pairs.eq(1), 1, pairs * 2 - 2);
        let places = [select(pair.eq(0), 0, before), select(pair.eq(pairs - 1), last, pair * 2 + 3)];
        let [p, q] = places.map(|place| from.row(matrix).row(place).load(block, 0));
        let inside = iota::<i64>(block).lt(height);
        let [own_p, own_q] = [p, q].map(|row| select(inside, row, 0));
        let (of_p, of_q) = ((own_p * own_p).sum(), (own_q * own_q).sum());
        let both = (own_p * own_q).sum();
        // The tangent of the lesser angle.
        let ratio = (of_q - of_p) / (both * 2);
        let size = ratio.abs() + (ratio * ratio + 1).sqrt();
        let tangent = select(ratio.lt(0), size.recip() * -1, size.recip());
        let mut rotates = both.ne(0);
        if odd {
            rotates = rotates & pair.ne(0);
        }
        let tangent = select(rotates, tangent, 0);
        let cosine = (tangent * tangent + 1).sqrt().recip();
        let sine = cosine * tangent;
        // Of a small angle the error is small too (Rutishauser, "The Jacobi method for real
        // symmetric matrices", 1966): rows of a unit matrix would not stay of length 1 otherwise.
        let half = sine / (cosine + 1);
        let to = to.row(matrix).row(pair);
        to.row(0).tile(0, block).store(p - (q + p * half) * sine);
        to.row(1).tile(0, block).store(q + (p - q * half) * sine);
    }

    /// Reflects rows, a program each, so that the row at `step` has zeros behind the element there
    /// (Golub and Van Loan, 5.1.2). A row that has them leaves all as they are.
    #[kernel(crate = kiln_runtime)]
    pub fn reflect<T: Float>(
        from: &Tensor<T, 3>,
        to: &mut Tensor<T, 3>,
        step: Val<i64>,
        many: bool,
        block: usize,
    ) {
        let ids = [program_id(0), program_id(1)];
        let (row, matrix) = (ids[usize::from(many)], ids[usize::from(!many)]);
        let [by, own] = [step, row].map(|row| from.row(matrix).row(row).load(block, 0));
        let at = iota::<i64>(block);
        let behind = select(at.gt(step), by, 0);
        let rest = (behind * behind).sum();
        let first = select(at.eq(step), by, 0).sum();
        let norm = (first * first + rest).sqrt();
        let sum = select(first.lt(0), first - norm, first + norm);
        let v = select(at.eq(step), sum, behind);
        let is_done = rest.eq(0);
        let square = select(is_done, 1, sum * sum + rest);
        let factor = select(is_done, 0, (own * v).sum() * 2 / square);
        to.row(matrix).row(row).tile(0, block).store(own - v * factor);
    }
}

/// Whether the first axis of a grid alone has room for so many matrices: the others have 65,535
/// programs at most (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability";
/// WebGPU, "Limits").
fn many(matrices: usize) -> bool {
    matrices > 65_535
}

/// How rows are made orthogonal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Sweeps {
    /// How often every pair is rotated.
    pub(crate) count: usize,
    /// The elements of a row that become orthogonal, from the first on.
    pub(crate) height: usize,
    /// Whether the first row is none: the number of rows is even.
    pub(crate) odd: bool,
}

/// `[matrices, rows, width]`, of rows whose first elements become orthogonal.
pub(crate) fn rotate(sweeps: Sweeps, from: &DynTensor, to: &mut DynTensor) -> Result<()> {
    match from.dtype() {
        kiln_ir::Scalar::F64 => rotated::<f64>(sweeps, from.downcast_ref()?, to.downcast_ref()?),
        _ => rotated::<f32>(sweeps, from.downcast_ref()?, to.downcast_ref()?),
    }
}

fn rotated<T: Float>(sweeps: Sweeps, x: &Tensor<T, 3>, result: &Tensor<T, 3>) -> Result<()> {
    let Sweeps { count, height, odd } = sweeps;
    let ([matrices, rows, width], device) = (x.shape(), x.device().clone());
    let scratch = device.uninit([matrices, rows, width])?;
    let rounds = count * rows.saturating_sub(1);
    in_turns(rounds, x, result, &scratch, |_, from, to| {
        let mut pairs = to.reshape([matrices, rows / 2, 2, width])?;
        let block = width.next_power_of_two();
        kernels::rotate(from, &mut pairs, height as i64, odd, many(matrices), block).launch(&device)
    })
}

/// `[matrices, rows, width]`, after a reflection for each of the first `steps` rows.
pub(crate) fn reflect(steps: usize, from: &DynTensor, to: &mut DynTensor) -> Result<()> {
    match from.dtype() {
        kiln_ir::Scalar::F64 => reflected::<f64>(steps, from.downcast_ref()?, to.downcast_ref()?),
        _ => reflected::<f32>(steps, from.downcast_ref()?, to.downcast_ref()?),
    }
}

fn reflected<T: Float>(steps: usize, x: &Tensor<T, 3>, result: &Tensor<T, 3>) -> Result<()> {
    let device = x.device().clone();
    let scratch = device.uninit(x.shape())?;
    let block = x.shape()[2].next_power_of_two();
    in_turns(steps, x, result, &scratch, |step, from, to| {
        kernels::reflect(from, &mut to.alias(), step as i64, many(x.shape()[0]), block).launch(&device)
    })
}

/// Steps that each read what the one before has written, of which the last writes the result.
fn in_turns<T: Float>(
    steps: usize,
    x: &Tensor<T, 3>,
    result: &Tensor<T, 3>,
    scratch: &Tensor<T, 3>,
    mut launch: impl FnMut(usize, &Tensor<T, 3>, &Tensor<T, 3>) -> Result<()>,
) -> Result<()> {
    let mut from = x;
    for step in 0..steps {
        let to = if (steps - step) % 2 == 1 { result } else { scratch };
        launch(step, from, to)?;
        from = to;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_runtime::Device;

    /// More matrices than a GPU's grid has programs along its second axis. The interpreter has
    /// the same limits.
    #[test]
    fn more_matrices_than_the_second_axis_has_programs() -> Result<()> {
        let (device, count) = (Device::open("interp:fast")?, 65_600);
        let rows: Vec<f32> = (1..=count).flat_map(|i| [3.0 * i as f32, 4.0 * i as f32, 1.0, 0.0]).collect();
        let x = device.tensor(&rows, [count, 2, 2])?;
        let result = device.uninit([count, 2, 2])?;
        reflected(1, &x, &result)?;
        for (i, rows) in (1..=count).zip(result.to_vec()?.chunks(4)) {
            let size = 5.0 * i as f32;
            assert!((rows[0] + size).abs().max(rows[1].abs()) < 1e-6 * size, "{i}: {rows:?}");
            assert!((rows[2] + 0.6).abs().max((rows[3] + 0.8).abs()) < 1e-6, "{i}: {rows:?}");
        }
        rotated(Sweeps { count: 1, height: 2, odd: false }, &x, &result)?;
        for (i, rows) in (1..=count).zip(result.to_vec()?.chunks(4)) {
            let along = rows[0] * rows[2] + rows[1] * rows[3];
            let whole: f32 = rows.iter().map(|x| x * x).sum();
            let expected = 25.0 * (i as f32).powi(2) + 1.0;
            assert!(along.abs() < 1e-5 * i as f32, "{i}: {rows:?}");
            assert!((whole - expected).abs() < 1e-6 * expected, "{i}: {rows:?}");
        }
        Ok(())
    }
}
