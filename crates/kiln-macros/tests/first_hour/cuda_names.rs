use kiln::prelude::*;

#[kernel]
fn first(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = blockIdx.x * blockDim.x + threadIdx.x;
    y.set(thread_index(), x.get(i));
}

fn main() {}
