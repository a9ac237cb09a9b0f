use kiln::prelude::*;

fn relu(v: Val<f32>) -> Val<f32> {
    if v > 0.0 { v } else { val(0.0) }
}

#[kernel]
fn k(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    y.set(i, relu(x.get(i)));
}

fn main() {}
