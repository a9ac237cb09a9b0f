use kiln::prelude::*;

#[kernel]
fn first(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let mut s: Val<f32> = 0.0;
    for v in x.load(64, 0.0) {
        s += v;
    }
    y.tile(0, 1).store(s);
}

fn main() {}
