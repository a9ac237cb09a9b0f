use kiln::prelude::*;

#[kernel]
fn double(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    y.set(i, x.get(i) * 2.0);
}

#[kernel]
fn k(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    double(x, y);
}

fn main() {}
