use kiln::prelude::*;

#[kernel]
fn softmax(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, block: usize) {
    let row = program_id(0);
    let v = x.row(row).load(block, f32::NEG_INFINITY);
    let e = (v - v.reduce_max()).exp();
    let total = e.sum();
    y.row(row).store(e / total);
}
