//! Softmax of rows: a kernel over tiles.

use kiln::prelude::*;

/// Each row of `y` becomes the softmax of the row of `x`. `block` covers a row.
#[kernel]
pub fn softmax(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, block: usize) {
    let row = program_id(0);
    let v = x.row(row).load(block, f32::NEG_INFINITY);
    let e = (v - v.reduce_max()).exp();
    y.row(row).store(e / e.sum());
}
