use kiln::prelude::*;

#[kernel]
fn k(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, a: Val<f32>) {
    let i = thread_index();
    y.set(i, x.get(i) * a);
}

fn main() -> kiln::Result<()> {
    let device = Device::open("interp")?;
    let x = device.tensor(&[1.0; 256], [256])?;
    let mut y = device.zeros([256])?;
    k(&x, &mut y, 2).block([256]).grid([1]).launch(&device)?;
    println!("{:?}", &y.to_vec()?[..4]);
    Ok(())
}
