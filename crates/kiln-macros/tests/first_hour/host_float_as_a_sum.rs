use kiln::prelude::*;

#[kernel]
fn first(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, n: Val<i64>) {
    let i = thread_index();
    let mut s = 0.0;
    for k in 0..n {
        s += x.get(k);
    }
    y.set(i, s);
}

fn main() {}
