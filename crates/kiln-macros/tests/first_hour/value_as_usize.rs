use kiln::prelude::*;

#[kernel]
fn first(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    let k = x.get(i) as usize;
    y.set(i, x.get(k));
}

fn main() {}
