use kiln::prelude::*;

fn total(x: View<f32, 1>, n: Val<i64>) -> Val<f32> {
    let mut s = val(0.0);
    for k in 0..n {
        s += x.get(k);
    }
    s
}

#[kernel]
fn k(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    y.set(thread_index(), total(x, x.extent(0)));
}

fn main() {}
