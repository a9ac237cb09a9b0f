use kiln::prelude::*;

#[kernel]
fn first(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    let s = shared::<f32, 1>([256]);
    s[thread_id(0)] = x.get(i);
    barrier();
    y.set(i, s[0]);
}

fn main() {}
