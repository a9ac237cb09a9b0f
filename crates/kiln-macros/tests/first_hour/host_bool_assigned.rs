use kiln::prelude::*;

#[kernel]
fn first_zero(x: &Tensor<f32, 1>, y: &mut Tensor<i64, 1>) {
    let mut found = false;
    let mut at = val(0i64);
    while !found {
        found = x.get(at) == 0.0;
        at += 1;
    }
    y.set(thread_index(), at);
}

fn main() {}
