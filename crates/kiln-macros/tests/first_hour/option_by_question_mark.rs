use kiln::prelude::*;

#[kernel]
fn k(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    let v = x.get(i)?;
    y.set(i, v);
}

fn main() {}
