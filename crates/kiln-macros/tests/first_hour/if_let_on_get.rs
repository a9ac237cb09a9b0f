use kiln::prelude::*;

#[kernel]
fn first(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    if let Some(v) = x.get(i) {
        y.set(i, v);
    }
}

fn main() {}
