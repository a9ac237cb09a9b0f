use kiln::prelude::*;

#[kernel]
fn first(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    let s;
    if x.get(i) > 0.0 {
        s = 1.0;
    } else {
        s = 2.0;
    }
    y.set(i, s);
}

fn main() {}
