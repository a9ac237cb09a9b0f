//! Products with epilogues: how many kernels they take, and their values.

use kiln_array::nn::{Key, Linear};
use kiln_array::{Array, Scalar, eval, explain};
use kiln_runtime::{Activity, Device};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The interpreter, or the device that the environment variable `KILN_DEVICE` names.
fn device() -> Device {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "interp".into());
    Device::open(&name).unwrap()
}

fn is_interpreted(device: &Device) -> bool {
    device.id().starts_with("interp")
}

/// Extents that tiles do not divide, and on other devices than the interpreter large ones.
fn shapes(device: &Device) -> Vec<(usize, usize, usize)> {
    let mut shapes = vec![(2, 3, 5), (33, 17, 20), (16, 1, 64)];
    if !is_interpreted(device) {
        shapes.extend([(256, 128, 384), (128, 520, 64), (1000, 64, 264)]);
    }
    shapes
}

/// Counts the launches of this thread, of which the interpreter has one a kernel: elsewhere a
/// product may be divided.
#[track_caller]
fn assert_launches(device: &Device, expected: usize, f: impl FnOnce()) {
    let count = Arc::new(AtomicUsize::new(0));
    let (counted, thread) = (count.clone(), std::thread::current().id());
    let observation = device.observe(move |activity: &Activity| {
        if matches!(activity, Activity::Launch(_)) && std::thread::current().id() == thread {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    f();
    drop(observation);
    if is_interpreted(device) {
        assert_eq!(count.load(Ordering::Relaxed), expected);
    }
}

fn numbers(len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 37 + 11) % 101) as f32 / 25.0 - 2.0).collect()
}

/// Values through epilogues against the same in f64.
#[test]
fn what_follows_a_product_is_its_epilogue() {
    let device = device();
    for (m, k, n) in shapes(&device) {
        let (x, w, b, r) = (numbers(m * k), numbers(k * n), numbers(n), numbers(m * n));
        let array = |of: &[f32], shape: &[usize]| Array::new(&device, of, shape);
        let (ax, aw) = (array(&x, &[m, k]), array(&w, &[n, k]).swap_axes(0, 1));
        let (ab, ar) = (array(&b, &[n]), array(&r, &[m, n]));
        let product = || ax.matmul(&aw) + &ab;
        let sum = |at: usize| -> f64 {
            let (i, j) = (at / n, at % n);
            let products = (0..k).map(|p| f64::from(x[i * k + p]) * f64::from(w[j * k + p]));
            products.sum::<f64>() + f64::from(b[j])
        };
        let sums: Vec<f64> = (0..m * n).map(sum).collect();
        let sum = |i: usize, j: usize| sums[i * n + j];
        type Chain<'a> = (&'a str, Array, Box<dyn Fn(usize, usize) -> f64 + 'a>);
        let chains: Vec<Chain<'_>> = vec![
            ("bias", product(), Box::new(sum)),
            ("relu", product().relu(), Box::new(|i, j| sum(i, j).max(0.0))),
            ("silu", product().silu(), Box::new(|i, j| sum(i, j) / (1.0 + (-sum(i, j)).exp()))),
            ("tanh", product().tanh(), Box::new(|i, j| sum(i, j).tanh())),
            (
                "residual, scale, cast",
                ((product() * 0.3).cast(Scalar::F32) + &ar).reshape(&[1, m as isize, -1, 1]),
                Box::new(|i, j| sum(i, j) * 0.3 + f64::from(r[i * n + j])),
            ),
            (
                "a residual in another order, and rows",
                product() + ar.reshape(&[n as isize, -1]).transpose() * 2.0 + ar.slice(1, 0..1),
                Box::new(|i, j| sum(i, j) + 2.0 * f64::from(r[j * m + i]) + f64::from(r[i * n])),
            ),
            (
                "indices",
                product().where_(&Array::arange(&device, m * n).reshape(&[m as isize, -1]).less(7), 0.5),
                Box::new(|i, j| if i * n + j < 7 { sum(i, j) } else { 0.5 }),
            ),
        ];
        for (name, y, expected) in chains {
            assert_launches(&device, 1, || y.eval().unwrap());
            for (at, got) in y.to_vec::<f32>().unwrap().into_iter().enumerate() {
                let expected = expected(at / n, at % n);
                let error = (f64::from(got) - expected).abs();
                assert!(
                    error < 1e-6 * (10.0 + k as f64) * (1.0 + expected.abs()),
                    "{name}, {at}: {got} {expected}"
                );
            }
        }
    }
}

/// A layer with its activation, in the types that are summed in f32, against the same where the
/// product is stored first.
#[test]
fn a_linear_layer_with_an_activation_is_one_kernel() {
    let device = device();
    // Rounding to 16 bits may differ where sums are added in another order.
    for (dtype, most) in [(Scalar::F32, 1e-5), (Scalar::F16, 4e-3), (Scalar::BF16, 2e-2)] {
        let x = Array::new(&device, &numbers(3 * 6 * 8), &[3, 6, 8]).cast(dtype);
        let layer = Linear::new(&device, Key::new(3), 8, 10);
        let (w, bias) = (layer.weight.cast(dtype), Array::new(&device, &numbers(10), &[10]).cast(dtype));
        let layer = Linear { weight: w, bias: Some(bias) };
        eval(&[&x, &layer.weight, layer.bias.as_ref().unwrap()]).unwrap();
        let y = layer.forward(&x).gelu();
        assert_launches(&device, 1, || y.eval().unwrap());
        let product = x.matmul(&layer.weight.transpose());
        product.eval().unwrap();
        let expected = (product + layer.bias.as_ref().unwrap()).gelu();
        let [y, expected] = [y, expected].map(|y| y.cast(Scalar::F32).to_vec::<f32>().unwrap());
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= most * (1.0 + b.abs());
        assert!(y.iter().zip(&expected).all(near), "{dtype}: {y:?}, expected {expected:?}");
    }
}

/// Of two products with one reader the last one takes the other as an operand; what is read twice
/// is stored.
#[test]
fn products_are_stored_where_more_than_their_epilogue_reads_them() {
    let device = device();
    let array = |shape: &[usize; 2]| Array::new(&device, &numbers(shape[0] * shape[1]), shape);
    let (x, gate, up) = (array(&[4, 6]), array(&[6, 5]), array(&[6, 5]) * 0.5);
    up.eval().unwrap();
    let (a, b) = (x.matmul(&gate), x.matmul(&up));
    let y = a.silu() * &b;
    assert_launches(&device, 2, || y.eval().unwrap());
    eval(&[&a, &b]).unwrap();
    let expected = (a.silu() * &b).to_vec::<f32>().unwrap();
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * (1.0 + b.abs());
    assert!(y.to_vec::<f32>().unwrap().iter().zip(&expected).all(near));
    let z = x.matmul(&gate);
    let (one, sum) = (&z + 1.0, z.sum_axes(&[0]));
    assert_launches(&device, 3, || eval(&[&one, &sum]).unwrap());
    let text = explain(&[&(x.matmul(&gate) + 1.0)]).unwrap();
    assert!(text.contains("matmul: by the kernel library; 1 operation up to add is its epilogue"), "{text}");
}
