use kiln::prelude::*;

#[kernel]
fn first(m: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    y.set(i, m[(0, i)]);
}

fn main() {}
