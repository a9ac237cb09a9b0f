use kiln::prelude::*;

#[kernel]
fn first(y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    __syncthreads();
    y.set(i, 1.0);
}

fn main() {}
