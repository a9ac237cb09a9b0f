use kiln::prelude::*;

#[kernel]
fn first(y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    y.set(i, i.get() as f32);
}

fn main() {}
