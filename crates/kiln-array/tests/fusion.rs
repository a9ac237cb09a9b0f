//! How many kernels programs take, by counting launches.

use kiln_array::nn::Key;
use kiln_array::optimizer::AdamW;
use kiln_array::{Array, eval, explain, peak_memory};
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

/// A row-wise function of f64 numbers.
type OfRow = fn(&[f64]) -> Vec<f64>;

fn close(name: &str, x: &[f32], got: &[f32], columns: usize, f: OfRow) {
    for (row, got) in x.chunks(columns).zip(got.chunks(columns)) {
        let row: Vec<f64> = row.iter().map(|&v| v.into()).collect();
        for (e, &g) in f(&row).into_iter().zip(got) {
            assert!(
                (e - f64::from(g)).abs() < 2e-5 * e.abs().max(1.0),
                "{name} of {columns} columns: {g}, expected {e}"
            );
        }
    }
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let max = row.iter().copied().fold(f64::MIN, f64::max);
    let sum: f64 = row.iter().map(|v| (v - max).exp()).sum();
    row.iter().map(|v| (v - max).exp() / sum).collect()
}

fn layer_norm(row: &[f64]) -> Vec<f64> {
    let n = row.len() as f64;
    let mean = row.iter().sum::<f64>() / n;
    let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    row.iter().enumerate().map(|(i, v)| (v - mean) / (variance + 1e-5).sqrt() * weight(i) + bias(i)).collect()
}

fn rms_norm(row: &[f64]) -> Vec<f64> {
    let square = row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64;
    row.iter().enumerate().map(|(i, v)| v / (square + 1e-5).sqrt() * weight(i)).collect()
}

fn weight(i: usize) -> f64 {
    1.0 + (i % 5) as f64 / 8.0
}

fn bias(i: usize) -> f64 {
    (i % 3) as f64 / 4.0 - 0.25
}

/// Rows that a tile holds, and rows that no tile holds, of which there are enough for a program
/// each.
#[test]
fn norms_are_one_kernel_each() {
    let device = Device::open("interp:fast:8000").unwrap();
    for (rows, columns) in [(5, 3), (5, 64), (5, 1000), (64, 16_500)] {
        let x = numbers(rows * columns);
        let vector = |f: fn(usize) -> f64| -> Vec<f32> { (0..columns).map(|i| f(i) as f32).collect() };
        let a = Array::new(&device, &x, &[rows, columns]);
        let (w, b) = (vector(weight), vector(bias));
        let (w, b) = (Array::new(&device, &w, &[columns]), Array::new(&device, &b, &[columns]));
        let all: [(&str, Array, OfRow); 3] = [
            ("softmax", a.softmax(-1), softmax),
            ("layer_norm", a.layer_norm(&w, &b, 1e-5), layer_norm),
            ("rms_norm", a.rms_norm(&w, 1e-5), rms_norm),
        ];
        for (name, y, f) in all {
            let launched = launches(&device, || y.eval().unwrap());
            assert_eq!(launched, 1, "{name} of {columns} columns");
            close(name, &x, &y.to_vec::<f32>().unwrap(), columns, f);
        }
    }
}

/// A NaN makes its row NaN and no other one, whether a tile has a row or several, holds it or not.
#[test]
fn a_nan_stays_in_its_row() {
    let device = Device::open("interp:fast:8001").unwrap();
    for (rows, columns) in [(4, 3), (3, 300), (64, 16_500)] {
        let mut x = numbers(rows * columns);
        x[columns + 2] = f32::NAN;
        x[2 * columns..3 * columns].fill(f32::NAN);
        let a = Array::new(&device, &x, &[rows, columns]);
        for y in [a.softmax(-1), a.log_softmax(-1)] {
            for (row, y) in y.to_vec::<f32>().unwrap().chunks(columns).enumerate() {
                assert!(y.iter().all(|y| y.is_nan() == (row == 1 || row == 2)), "{row} of {columns}");
            }
        }
    }
}

/// A sum that grows over layers, as the vectors of a transformer do, is stored: what reads it would
/// read all of its terms otherwise.
#[test]
fn terms_of_a_sum_over_layers_are_read_once() {
    let device = device(7005);
    let (rows, width, layers) = (8, 16, 6);
    let w = numbers(width * width).iter().map(|w| w / 8.0).collect::<Vec<f32>>();
    let start = numbers(rows * width);
    let (matrix, x) = (Array::new(&device, &w, &[width, width]), Array::new(&device, &start, &[rows, width]));
    let ones = Array::full(&device, 1.0f32, &[width]);
    let y = (0..layers).fold(x, |x, _| &x + x.rms_norm(&ones, 1e-5).matmul(&matrix));
    let y = y.rms_norm(&ones, 1e-5);
    let text = explain(&[&y]).unwrap();
    let most = text.lines().map(|line| line.matches(&format!("f32 [{rows}, {width}]")).count()).max();
    assert!(most.is_some_and(|most| most <= 2), "{text}");
    let norm = |row: &[f64]| -> Vec<f64> {
        let square: f64 = row.iter().map(|x| x * x).sum::<f64>() / width as f64;
        row.iter().map(|x| x / (square + 1e-5).sqrt()).collect()
    };
    for (row, got) in start.chunks(width).zip(y.to_vec::<f32>().unwrap().chunks(width)) {
        let mut sums: Vec<f64> = row.iter().map(|&x| x.into()).collect();
        for _ in 0..layers {
            let of = norm(&sums);
            for (column, sum) in sums.iter_mut().enumerate() {
                *sum += (0..width).map(|k| of[k] * f64::from(w[k * width + column])).sum::<f64>();
            }
        }
        for (expected, &got) in norm(&sums).iter().zip(got) {
            assert!((expected - f64::from(got)).abs() < 1e-4, "{got}, expected {expected}");
        }
    }
}

#[test]
fn another_batch_size_compiles_nothing() {
    let device = device(7003);
    let compiled = Arc::new(AtomicUsize::new(0));
    let counted = compiled.clone();
    let _observation = device.observe(move |activity: &Activity| {
        if matches!(activity, Activity::Compile(_)) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let step = |batch: usize| {
        let x = Array::new(&device, &numbers(batch * 48), &[batch, 48]);
        ((x * 3.0).softmax(-1) + 1.0).to_vec::<f32>().unwrap();
        compiled.load(Ordering::Relaxed)
    };
    let first = step(32);
    assert!(first > 0);
    assert_eq!(step(48), first);
    assert_eq!(step(160), first);
}

#[test]
fn long_reductions_to_few_numbers_are_two_kernels() {
    let device = device(7004);
    let len = 1 << 17;
    let x = Array::new(&device, &vec![0.5f32; len], &[len]);
    let sum = (&x + &x).sum();
    assert_eq!(launches(&device, || sum.eval().unwrap()), 2);
    assert_eq!(sum.item::<f32>().unwrap(), len as f32);
    // An odd length leaves a rest, which one kernel more adds up.
    let odd = Array::arange(&device, 70_001);
    assert_eq!(odd.sum().item::<i64>().unwrap(), 70_000 * 70_001 / 2);
    assert_eq!(odd.max().item::<i64>().unwrap(), 70_000);
    assert_eq!(odd.reshape(&[1, -1, 1]).min_axes(&[1]).to_vec::<i64>().unwrap(), [0]);
}

#[test]
fn a_plan_is_explained() {
    let device = device(7005);
    let x = Array::new(&device, &numbers(12), &[3, 4]);
    let y = (&x * 2.0).softmax(-1).matmul(&x.transpose());
    let plan = explain(&[&y]).unwrap();
    let expected = "2 kernels, 144 bytes read, 84 bytes written, at most 84 held at once
1. array_div: max, sum; 6 operations, rows of 4 in a tile
   reads f32 [3, 4]
   writes f32 [3, 4] for kernel 2: matmul reads it from memory
2. matmul: by the kernel library
   reads f32 [3, 4], f32 [3, 4]
   writes f32 [1, 3, 3]
";
    assert_eq!(plan, expected, "{plan}");
}

#[test]
fn the_peak_of_memory_is_known_before_a_run() {
    let device = device(7008);
    let of = |rows: usize, columns: usize| Array::new(&device, &numbers(rows * columns), &[rows, columns]);
    let first = of(4, 8).matmul(&of(8, 16)); // 256 bytes
    let second = first.matmul(&of(16, 2)); // 32 bytes
    let last = second.matmul(&of(2, 8)); // 128 bytes
    assert_eq!(peak_memory(&[&last]).unwrap(), 256 + 32);
    // What is asked for stays, also in another shape.
    assert_eq!(peak_memory(&[&first.flatten(), &last]).unwrap(), 256 + 32 + 128);
    assert_eq!(peak_memory(&[&second, &last]).unwrap(), 256 + 32);
    second.eval().unwrap();
    assert_eq!(peak_memory(&[&last]).unwrap(), 128);
    assert!(peak_memory(&[&first.matmul(&of(3, 3))]).is_err());
}

#[test]
fn random_numbers_are_one_kernel() {
    let device = device(7006);
    let x = Key::new(1).normal(&device, &[3, 5]);
    let plan = explain(&[&x]).unwrap();
    assert!(
        plan.starts_with("1 kernel, 0 bytes read, 60 bytes written, at most 60 held at once\n"),
        "{plan}"
    );
}

#[test]
fn memory_is_used_again() {
    // The interpreter allocates each array, to see what is read before it is written.
    let device = Device::open("cpu").unwrap();
    let x = Array::new(&device, &numbers(121), &[11, 11]);
    let y = (0..12).fold(x.clone(), |y, _| (y.matmul(&x) * 0.125).tanh().softmax(-1));
    let (count, products) = (Arc::new(AtomicUsize::new(0)), y.clone());
    let counted = count.clone();
    let observation = device.observe(move |activity: &Activity| {
        // Other tests have the device too, and no arrays of this size.
        if matches!(activity, Activity::Allocate(one) if one.bytes == 11 * 11 * 4) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    products.eval().unwrap();
    drop(observation);
    let allocated = count.load(Ordering::Relaxed);
    assert!(allocated <= 4, "{allocated} allocations for 24 kernels");
    let each = (0..12).fold(x.clone(), |y, _| {
        let y = (y.matmul(&x) * 0.125).tanh();
        y.eval().unwrap();
        y.softmax(-1)
    });
    assert_eq!(y.to_vec::<f32>().unwrap(), each.to_vec::<f32>().unwrap());
}

/// Kernels over as many elements that have nothing else in common are one where they are small.
#[test]
fn small_kernels_are_launched_together() {
    let device = device(7050);
    let at =
        |k: usize, n: usize| -> Vec<f32> { (0..n).map(|i| ((i * 7 + k * 13) % 29) as f32 - 9.0).collect() };
    let arrays = |n: usize, count: usize| -> Vec<[Array; 2]> {
        (0..count).map(|k| [2 * k, 2 * k + 1].map(|k| Array::new(&device, &at(k, n), &[n]))).collect()
    };
    for (n, count, expected) in [(1, 3, 1), (37, 10, 1), (37, 23, 3), (70_000, 2, 2)] {
        let inputs = arrays(n, count);
        let updated: Vec<Array> =
            inputs.iter().enumerate().map(|(k, [x, y])| x * (k as f64 + 0.25) + y.square()).collect();
        let launched = launches(&device, || eval(&updated.iter().collect::<Vec<_>>()).unwrap());
        assert_eq!(launched, expected, "{count} of {n}");
        for (k, array) in updated.iter().enumerate() {
            let (x, y) = (at(2 * k, n), at(2 * k + 1, n));
            let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x * (k as f32 + 0.25) + y * y).collect();
            assert_eq!(array.to_vec::<f32>().unwrap(), expected, "{k} of {n}");
        }
    }
}

/// A kernel that reads what was made after one of as many elements is not made one with it.
#[test]
fn small_kernels_stay_in_order() {
    let device = device(7051);
    let [x, y, z] = [1usize, 2, 3]
        .map(|k| Array::new(&device, &(0..41).map(|i| ((i * k) % 11) as f32).collect::<Vec<_>>(), &[41]));
    let a = &x + 1.0;
    let b = &y * a.square().sum();
    let c = &z - b.max();
    let d = &z * 2.0;
    eval(&[&a, &b, &c, &d]).unwrap();
    let of = |array: &Array| array.to_vec::<f32>().unwrap();
    let (x, y, z) = (of(&x), of(&y), of(&z));
    let sum: f32 = x.iter().map(|x| (x + 1.0) * (x + 1.0)).sum();
    let most = y.iter().map(|y| y * sum).fold(f32::MIN, f32::max);
    assert_eq!(of(&b), y.iter().map(|y| y * sum).collect::<Vec<_>>());
    assert_eq!(of(&c), z.iter().map(|z| z - most).collect::<Vec<_>>());
    assert_eq!(of(&d), z.iter().map(|z| z * 2.0).collect::<Vec<_>>());
}

/// Four parameters a launch, where their gradients are there.
#[test]
fn a_step_of_an_optimizer_is_a_few_launches() {
    let device = device(7052);
    let net = |from: usize| -> Vec<Array> {
        (0..8).map(|k| Array::new(&device, &numbers(37 + from + k)[from + k..], &[37])).collect()
    };
    let (mut together, slopes) = (net(0), net(5));
    let launched = launches(&device, || {
        AdamW::new(0.1).step(&mut together, slopes.clone()).unwrap();
    });
    assert_eq!(launched, 2);
    for ((new, old), slope) in together.iter().zip(net(0)).zip(slopes) {
        let mut alone = old;
        AdamW::new(0.1).step(&mut alone, slope).unwrap();
        assert_eq!(new.to_vec::<f32>().unwrap(), alone.to_vec::<f32>().unwrap());
    }
}

/// What became stored after a kernel was made, for a view that shares its memory, is no input of
/// that kernel.
#[test]
fn what_shares_memory_with_a_later_result_is_read_after_it_is_made() {
    let softmax = |x: &Array| x.softmax(1);
    let scaled = |x: &Array| x + x.mean_keep(&[1]);
    let stretched: [fn(&Array) -> Array; 2] = [|x| x.repeat(2, 2), |x| x.tile(&[2])];
    let views: [fn(&Array) -> Array; 3] = [Array::flatten, Array::diagonal, |x| x.diagonal() + 1.0];
    for name in ["cpu", "interp:7040"] {
        let device = Device::open(name).unwrap();
        let a = || Array::new(&device, &numbers(8), &[2, 2, 2]).exp();
        for (stretch, view) in stretched.iter().flat_map(|s| views.iter().map(move |v| (s, v))) {
            for combine in [&softmax as &dyn Fn(&Array) -> Array, &scaled] {
                let of = a();
                let (combined, seen) = (combine(&stretch(&of)), view(&of));
                eval(&[&combined, &seen]).unwrap();
                let alone = combine(&stretch(&a()));
                assert_eq!(combined.to_vec::<f32>().unwrap(), alone.to_vec::<f32>().unwrap());
                assert_eq!(seen.to_vec::<f32>().unwrap(), view(&a()).to_vec::<f32>().unwrap());
            }
        }
    }
}
