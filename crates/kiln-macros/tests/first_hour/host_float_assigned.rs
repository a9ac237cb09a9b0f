use kiln::prelude::*;

#[kernel]
fn first(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    let mut s = 0.0;
    s = x.get(i) * 2.0;
    y.set(i, s);
}

fn main() {}
