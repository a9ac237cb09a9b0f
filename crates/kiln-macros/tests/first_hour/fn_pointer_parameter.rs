use kiln::prelude::*;

#[kernel]
fn k(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, f: fn(Val<f32>) -> Val<f32>) {
    let i = thread_index();
    y.set(i, f(x.get(i)));
}

fn main() {}
