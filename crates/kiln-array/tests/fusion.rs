//! How many kernels programs take, by counting launches.

use kiln_array::{Array, eval};
use kiln_runtime::{Activity, Device};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The launches of a device while a closure runs.
fn launches(device: &Device, f: impl FnOnce()) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let observation = device.observe(move |activity: &Activity| {
        if matches!(activity, Activity::Launch(_)) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    f();
    drop(observation);
    count.load(Ordering::Relaxed)
}

fn numbers(len: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 37 + 11) % 101) as f32 / 25.0 - 2.0).collect()
}

/// A device that no other test launches on.
fn device(seed: u32) -> Device {
    Device::open(&format!("interp:{seed}")).unwrap()
}

#[test]
fn softmax_is_one_kernel() {
    for columns in [1, 5, 64, 1000] {
        let device = device(columns as u32);
        let x = numbers(3 * columns);
        let a = Array::new(&device, &x, &[3, columns]);
        let e = (&a - a.max_keep(&[-1])).exp();
        let y = &e / e.sum_keep(&[-1]);
        let launched = launches(&device, || y.eval().unwrap());
        assert!(launched <= 1, "{launched} launches of {columns} columns");
        for (row, got) in x.chunks(columns).zip(y.to_vec::<f32>().unwrap().chunks(columns)) {
            let max = row.iter().fold(f64::MIN, |m, &v| m.max(v.into()));
            let sum: f64 = row.iter().map(|&v| (f64::from(v) - max).exp()).sum();
            for (&v, &g) in row.iter().zip(got) {
                let expected = (f64::from(v) - max).exp() / sum;
                assert!((f64::from(g) - expected).abs() < 1e-6, "{g} {expected}");
            }
        }
    }
}

#[test]
fn a_chain_with_a_broadcast_is_one_kernel() {
    let device = device(7001);
    let (x, bias) = (numbers(6 * 5), numbers(5));
    let a = Array::new(&device, &x, &[6, 5]);
    let b = Array::new(&device, &bias, &[5]);
    let y = ((&a + &b) * 2.0).maximum(0.0).transpose();
    assert_eq!(launches(&device, || y.eval().unwrap()), 1);
    let y = y.to_vec::<f32>().unwrap();
    for i in 0..6 {
        for j in 0..5 {
            assert_eq!(y[j * 6 + i], ((x[i * 5 + j] + bias[j]) * 2.0).max(0.0));
        }
    }
}

#[test]
fn several_results_of_one_chain_are_one_kernel() {
    let device = device(7002);
    let a = Array::new(&device, &numbers(30), &[6, 5]);
    let (b, c) = (&a + 1.0, a.exp());
    let d = &b * &c;
    assert_eq!(launches(&device, || eval(&[&b, &c, &d]).unwrap()), 1);
    let (b, c, d) = (b.to_vec::<f32>().unwrap(), c.to_vec::<f32>().unwrap(), d.to_vec::<f32>().unwrap());
    assert!((0..30).all(|i| d[i] == b[i] * c[i]));
}
