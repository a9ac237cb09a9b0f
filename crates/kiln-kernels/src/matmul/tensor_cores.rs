//! Whether and how a product goes to the tensor cores of a Hopper GPU: factors as bulk copies can move them, a plan, a launch.

use super::hopper;
use super::plan::{Choice, Gpu, Request, choose};
use super::rows;
use kiln_lang::prelude::*;
use kiln_runtime::{BackendKind, Result, Tensor};

/// Bytes that addresses and rows of what bulk copies move are multiples of.
const ALIGNMENT: usize = 16;
/// Bytes that the rows of a shared tile have at least.
const ROW: usize = 128;

/// c = a b for matrices whose shapes fit; `false`, and nothing done, if the device is no Hopper GPU or there is nothing to multiply.
pub(super) fn multiply<T: Float + Accumulate, O: Float>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    c: &mut Tensor<O, 2>,
) -> Result<bool> {
    let device = a.device().clone();
    let properties = device.properties();
    let hopper = properties.kind == BackendKind::Cuda && properties.compute_capability == Some((9, 0));
    let ([m, k], [_, n]) = (a.shape(), b.shape());
    if !hopper || m * n * k == 0 {
        return Ok(false);
    }
    if by_vector(a, b, c)? {
        return Ok(true);
    }
    let request = Request { m, n, k, result_bytes: size_of::<O>() };
    let gpu = Gpu { units: properties.units as usize, shared_memory: properties.shared_memory as usize };
    let chosen = choose(&request, &gpu);
    if !chosen.plan.bulk || movable(c) {
        launch(a, b, c, chosen)?;
    } else if movable(&c.transpose()) {
        // cᵀ = bᵀ aᵀ, in any case by another plan.
        let turned = choose(&Request { m: n, n: m, ..request }, &gpu);
        launch(&b.transpose(), &a.transpose(), &mut c.transpose(), turned)?;
    } else {
        let mut whole = device.uninit([m, longer::<O>(n)])?.slice(1, 0..n)?;
        launch(a, b, &mut whole, chosen)?;
        arrange(&whole, c, 16, 128).launch(&device)?;
    }
    Ok(true)
}

/// Launches the kernel.
fn launch<T: Float, O: Float>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    c: &mut Tensor<O, 2>,
    chosen: Choice,
) -> Result<()> {
    let device = c.device().clone();
    let mut plan = chosen.plan;
    // cᵀ = bᵀ aᵀ.
    let mut turned = chosen.swapped.then(|| (b.transpose(), a.transpose(), c.transpose()));
    let (a, b, c) = match &mut turned {
        Some((a, b, c)) => (&*a, &*b, c),
        None => (a, b, c),
    };
    let (left, a_transposed) = factor(a)?;
    // Rows of a few columns are too short for a copy.
    let narrow = plan.columns * size_of::<T>() < ROW;
    let (right, b_transposed) = if narrow { (transposed(b)?, true) } else { factor(b)? };
    (plan.a_transposed, plan.b_transposed) = (a_transposed, b_transposed);
    hopper::matmul(&left, &right, c, plan).grid(chosen.grid).launch(&device)
}

/// The columns of a matrix with rows in multiples of 16 bytes.
fn longer<T>(columns: usize) -> usize {
    columns.next_multiple_of(ALIGNMENT / size_of::<T>())
}

/// Multiplies a matrix whose rows are adjacent elements and one vector, if that is what the factors are.
fn by_vector<T: Float + Accumulate, O: Float>(
    a: &Tensor<T, 2>,
    b: &Tensor<T, 2>,
    c: &mut Tensor<O, 2>,
) -> Result<bool> {
    let ([m, k], [_, n]) = (a.shape(), b.shape());
    // A view that is not dense is none of these.
    let (matrix, vector, result) = match (m, n) {
        (1, _) if b.strides()[0] == 1 => (b.transpose(), a.reshape([k]), c.reshape([n])),
        (_, 1) if a.strides()[1] == 1 => (a.slice(0, 0..m)?, b.reshape([k]), c.reshape([m])),
        _ => return Ok(false),
    };
    let (Ok(vector), Ok(mut result)) = (vector, result) else { return Ok(false) };
    rows::multiply(&matrix, &vector, &mut result, a.device())?;
    Ok(true)
}

/// Whether bulk copies can move boxes of a matrix: its elements are adjacent on the last axis, and its rows and its beginning at multiples of 16 bytes.
fn movable<T: Elem>(x: &Tensor<T, 2>) -> bool {
    let ([rows, columns], [apart, adjacent]) = (x.shape(), x.strides());
    let whole = |elements: usize| (elements * size_of::<T>()).is_multiple_of(ALIGNMENT);
    (adjacent == 1 || columns == 1) && (rows == 1 || whole(apart)) && whole(x.offset())
}

/// A factor as bulk copies can move it, and whether it is the transpose: a view if there is one, else a copy with longer rows.
fn factor<T: Num>(x: &Tensor<T, 2>) -> Result<(Tensor<T, 2>, bool)> {
    let (rows, transpose) = (x.shape()[0], x.transpose());
    if movable(x) {
        return Ok((x.slice(0, 0..rows)?, false));
    }
    if movable(&transpose) {
        return Ok((transpose, true));
    }
    Ok((arranged(x)?, false))
}

/// The transpose as bulk copies can move it.
fn transposed<T: Num>(x: &Tensor<T, 2>) -> Result<Tensor<T, 2>> {
    let transpose = x.transpose();
    if movable(&transpose) { Ok(transpose) } else { arranged(&transpose) }
}

/// A copy with rows in multiples of 16 bytes.
fn arranged<T: Num>(x: &Tensor<T, 2>) -> Result<Tensor<T, 2>> {
    let ([rows, columns], device) = (x.shape(), x.device());
    let mut copy = device.uninit([rows, longer::<T>(columns)])?;
    arrange(x, &mut copy, 16, 128).launch(device)?;
    copy.slice(1, 0..columns)
}

/// Copies x to the beginning of the rows of y, with zeros after, a tile a program.
#[kernel(crate = kiln_runtime)]
fn arrange<T: Num>(x: &Tensor<T, 2>, y: &mut Tensor<T, 2>, rows: usize, columns: usize) {
    let (shape, at) = ((rows, columns), (program_id(0) * rows, program_id(1) * columns));
    y.tile(at, shape).store(x.tile(at, shape).load(0));
}
