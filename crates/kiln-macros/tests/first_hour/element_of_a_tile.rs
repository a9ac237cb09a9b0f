use kiln::prelude::*;

#[kernel]
fn first(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let v = x.load(64, 0.0);
    y.tile(0, 1).store(v[0]);
}

fn main() {}
