use kiln::prelude::*;

#[kernel]
fn first(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let mut s: Val<f32> = 0.0;
    for v in x {
        s += v;
    }
    y.set(thread_index(), s);
}

fn main() {}
