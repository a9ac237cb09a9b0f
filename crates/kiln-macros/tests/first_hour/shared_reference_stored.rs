use kiln::prelude::*;

#[kernel]
fn k(x: &Tensor<f32, 1>, y: &Tensor<f32, 1>) {
    let i = thread_index();
    y.set(i, x.get(i));
}

fn main() {}
