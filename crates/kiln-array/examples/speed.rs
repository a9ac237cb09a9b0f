//! Times programs over arrays against the kernel library's kernels, and the host's side of both.
//!
//! `cargo run --release -p kiln-array --example speed [DEVICE [PART]]`; parts are `rows`, `chains`,
//! `layers` and `steps`. Each figure is the least of ten.

use kiln_array::{Array, Result, Scalar, eval, explain, value_and_grad};
use kiln_runtime::{Device, Tensor};
use std::time::{Duration, Instant};

/// The least time of ten runs, with the device's work.
fn least(device: &Device, mut f: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..10 {
        device.synchronize()?;
        let started = Instant::now();
        f()?;
        device.synchronize()?;
        least = least.min(started.elapsed());
    }
    Ok(least)
}

fn main() -> Result<()> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "cpu".into());
    let device = Device::open(&name)?;
    let only = std::env::args().nth(2);
    let is_asked = |part: &str| only.as_deref().is_none_or(|only| only == part);
    if is_asked("rows") {
        rows(&device)?;
    }
    if is_asked("chains") {
        chains(&device)?;
    }
    if is_asked("layers") {
        layers(&device)?;
    }
    if is_asked("steps") {
        steps(&device)?;
        bindings(&device)?;
    }
    Ok(())
}

/// Softmax and layer norm, written with arrays and by hand.
fn rows(device: &Device) -> Result<()> {
    for (rows, columns) in [(4096, 1000), (4096, 4096)] {
        let numbers: Vec<f32> = (0..rows * columns).map(|i| (i % 977) as f32 / 500.0).collect();
        let x = Array::new(device, &numbers, &[rows, columns]);
        let (w, b) =
            (Array::ones(device, Scalar::F32, &[columns]), Array::zeros(device, Scalar::F32, &[columns]));
        eval(&[&w, &b])?;
        let tensor: Tensor<f32, 2> = x.tensor()?.downcast()?;
        let [weight, bias] = [&w, &b].map(|v| v.tensor().and_then(|v| Ok(v.downcast::<f32, 1>()?)));
        let (weight, bias) = (weight?, bias?);
        let mut y = device.uninit::<f32, 2>([rows, columns])?;
        let arrays = least(device, || x.softmax(-1).eval())?;
        let kernel = least(device, || Ok(kiln_kernels::softmax(&tensor, &mut y)?))?;
        println!("softmax {rows} x {columns}: arrays {arrays:?}, kernel {kernel:?}");
        let arrays = least(device, || x.layer_norm(&w, &b, 1e-5).eval())?;
        let kernel = least(device, || Ok(kiln_kernels::layer_norm(&tensor, &weight, &bias, &mut y, 1e-5)?))?;
        println!("layer norm {rows} x {columns}: arrays {arrays:?}, kernel {kernel:?}");
    }
    Ok(())
}

/// Element-wise chains, sums, and orders of axes.
fn chains(device: &Device) -> Result<()> {
    let x = Array::new(device, &vec![0.5f32; 1 << 24], &[4096, 4096]);
    let bias = Array::new(device, &[0.5f32; 4096], &[4096]);
    let rate = |n: f64, time: Duration| n * 4.0 * f64::from(1u32 << 24) / time.as_secs_f64() / 1e9;
    let report = |what: &str, n: f64, f: &dyn Fn() -> Array| -> Result<()> {
        let time = least(device, || f().eval())?;
        println!("{what}: {time:?}, {:.0} GB/s", rate(n, time));
        Ok(())
    };
    report("copy of 64 MiB, as a chain", 2.0, &|| &x + 1.0)?;
    report("chain with a broadcast", 2.0, &|| ((&x + &bias) * 2.0).gelu())?;
    report("sum", 1.0, &|| x.sum())?;
    report("sums of rows", 1.0, &|| x.sum_axes(&[1]))?;
    report("sums of columns", 1.0, &|| x.sum_axes(&[0]))?;
    report("transposed", 2.0, &|| x.transpose() + 1.0)?;
    report("flipped", 2.0, &|| x.flip(&[1]) + 1.0)?;
    Ok(())
}

/// A product, the same with a bias and an activation in its epilogue, and with these in a kernel of
/// their own.
fn layers(device: &Device) -> Result<()> {
    for (dtype, extent) in [(Scalar::F32, 1024), (Scalar::BF16, 2048)] {
        let numbers: Vec<f32> = (0..extent * extent).map(|i| (i % 977) as f32 / 5000.0).collect();
        let x = Array::new(device, &numbers, &[extent, extent]).cast(dtype);
        let w = (&x * 0.5).transpose();
        let b = Array::new(device, &numbers[..extent], &[extent]).cast(dtype);
        eval(&[&x, &w, &b])?;
        let product = least(device, || x.matmul(&w).eval())?;
        let fused = least(device, || (x.matmul(&w) + &b).gelu().eval())?;
        let apart = least(device, || {
            let product = x.matmul(&w);
            product.eval()?;
            (product + &b).gelu().eval()
        })?;
        println!("layer of {dtype}, {extent}: product {product:?}, fused {fused:?}, apart {apart:?}");
    }
    Ok(())
}

/// A step of a small perceptron, and what the host does for it: recording, finding the plan and
/// binding buffers, launching.
fn steps(device: &Device) -> Result<()> {
    let x = Array::new(device, &vec![0.5f32; 64 * 40], &[64, 40]);
    let labels = Array::new(device, &[1i32; 64], &[64, 1]);
    let full = |shape: &[usize]| Array::full(device, 0.1f32, shape);
    let mut at = vec![full(&[40, 32]), full(&[32]), full(&[32, 10])];
    let mut times = [Duration::MAX; 3];
    let mut kernels = String::new();
    for _ in 0..300 {
        let started = Instant::now();
        let (loss, gradients) = value_and_grad(
            |p: &Vec<Array>| {
                let y = (x.matmul(&p[0]) + &p[1]).relu().matmul(&p[2]);
                -y.log_softmax(-1).take_along(&labels, 1).mean()
            },
            &at,
        );
        at = at.iter().zip(&gradients).map(|(w, g)| w - g * 0.1).collect();
        let recorded = started.elapsed();
        let mut all: Vec<&Array> = at.iter().collect();
        all.push(&loss);
        let started = Instant::now();
        let text = explain(&all)?;
        let planned = started.elapsed();
        text.lines().next().unwrap_or("").clone_into(&mut kernels);
        let started = Instant::now();
        eval(&all)?;
        let now = [recorded, planned, started.elapsed()];
        device.synchronize()?;
        times = [0, 1, 2].map(|i| times[i].min(now[i]));
    }
    let [recorded, planned, enqueued] = times;
    println!(
        "step: recorded in {recorded:?}, planned anew in {planned:?}, enqueued in {enqueued:?}: {kernels}"
    );
    Ok(())
}

/// What the host does for each of many small kernels, and for as many launches of one of the
/// library.
fn bindings(device: &Device) -> Result<()> {
    let x = Array::new(device, &[0.5f32; 16], &[4, 4]);
    let tensor: Tensor<f32, 2> = x.tensor()?.downcast()?;
    let mut y = device.uninit::<f32, 2>([4, 4])?;
    // Sums along the other axis than before do not share a kernel.
    let chain = || (0..100).fold(x.clone(), |x, round| &x * x.sum_keep(&[round % 2]));
    let text = explain(&[&chain()])?;
    let kernels: u32 = text.split(' ').next().and_then(|count| count.parse().ok()).unwrap_or(1);
    let mut times = [Duration::MAX; 3];
    for _ in 0..100 {
        let started = Instant::now();
        let chain = chain();
        let recorded = started.elapsed();
        let started = Instant::now();
        chain.eval()?;
        let enqueued = started.elapsed();
        device.synchronize()?;
        let started = Instant::now();
        for _ in 0..kernels {
            kiln_kernels::softmax(&tensor, &mut y)?;
        }
        let now = [recorded, enqueued, started.elapsed()];
        device.synchronize()?;
        times = [0, 1, 2].map(|i| times[i].min(now[i]));
    }
    let [recorded, enqueued, launched] = times.map(|time| time / kernels);
    println!(
        "a chain of {kernels} kernels, for each: recorded in {recorded:?}, enqueued in {enqueued:?}; a \
         launch of the library {launched:?}"
    );
    Ok(())
}
