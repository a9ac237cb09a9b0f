use kiln::prelude::*;

#[kernel]
fn first(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    let mut s = [0.0; 4];
    for k in 0..4 {
        s[k] += x.get(k);
    }
    y.set(i, s[0]);
}

fn main() {}
