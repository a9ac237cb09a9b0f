use kiln::prelude::*;

#[kernel]
fn first(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = program_id(0) * block_dim(0) + thread_id(0);
    y.set(i, x.get(i));
}

fn main() {}
