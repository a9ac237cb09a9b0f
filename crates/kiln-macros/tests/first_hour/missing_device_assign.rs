use kiln::prelude::*;

fn clipped(v: Val<f32>) -> Val<f32> {
    let mut c: Val<f32> = v;
    c = 0.5;
    c
}

#[kernel]
fn k(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    y.set(i, clipped(x.get(i)));
}

fn main() {}
