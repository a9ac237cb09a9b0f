//! How plans run: what is compiled, when, and what observers see.

use kiln_array::{Array, Result, Scalar, eval};
use kiln_runtime::{Activity, Device};
use std::sync::{Arc, Mutex};

/// A device that no other test uses.
fn apart(name: &str) -> Device {
    Device::open_apart(name).unwrap()
}

fn ramp(device: &Device, shape: &[usize]) -> Array {
    let numbers: Vec<f32> = (0..shape.iter().product()).map(|i: usize| (i % 13) as f32 / 7.0 - 0.5).collect();
    Array::new(device, &numbers, shape)
}

/// Several kernels: sums along one axis and then the other, a product, and what follows it.
fn program(x: &Array, w: &Array) -> Array {
    let x = x * x.sum_keep(&[1]);
    let x = &x / (x.square().sum_keep(&[0]) + 1.0);
    let y = (x.matmul(w) + 0.25).tanh();
    &y - y.max_keep(&[1])
}

/// What an observer sees of `f`: kernels that are compiled, and launches with whether their program
/// was there.
fn seen(device: &Device, f: impl FnOnce() -> Result<()>) -> (Vec<String>, Vec<(String, bool)>) {
    let all = Arc::new(Mutex::new((Vec::new(), Vec::new())));
    let kept = all.clone();
    let observation = device.observe(move |activity: &Activity| {
        let mut kept = kept.lock().unwrap();
        match activity {
            Activity::Compile(a) => kept.0.push(a.kernel.to_string()),
            Activity::Launch(a) => kept.1.push((a.kernel.to_string(), a.cached)),
            _ => {}
        }
    });
    f().unwrap();
    drop(observation);
    let all = all.lock().unwrap();
    all.clone()
}

#[test]
fn all_kernels_of_a_plan_are_compiled_before_the_first_launch() {
    for name in ["cpu", "interp"] {
        let device = apart(name);
        let (x, w) = (ramp(&device, &[33, 17]), ramp(&device, &[17, 9]));
        let (compiled, launched) = seen(&device, || program(&x, &w).eval());
        assert!(launched.len() >= 4 && compiled.len() >= 4, "{name}: {compiled:?} {launched:?}");
        assert!(launched.iter().all(|(_, cached)| *cached), "{name}: {launched:?}");
        let products = |names: &[String]| names.iter().filter(|name| !name.starts_with("array_")).count();
        assert!(products(&compiled) >= 1, "{name}: the library's kernels too: {compiled:?}");
        // Again, and on arrays of the same kinds: nothing.
        let (y, v) = (ramp(&device, &[33, 17]) + 1.0, ramp(&device, &[17, 9]));
        y.eval().unwrap();
        let (compiled, again) = seen(&device, || program(&y, &v).eval());
        assert_eq!(compiled, [] as [&str; 0], "{name}");
        assert_eq!(again.len(), launched.len(), "{name}");
    }
}

/// The device of a name may be another one than at the first run of a plan.
#[test]
fn a_new_device_compiles_ahead_again() {
    for _ in 0..2 {
        let device = apart("cpu");
        let (x, w) = (ramp(&device, &[31, 18]), ramp(&device, &[18, 9]));
        let (compiled, launched) = seen(&device, || program(&x, &w).eval());
        assert!(compiled.len() >= 4, "{compiled:?}");
        assert!(launched.iter().all(|(_, cached)| *cached), "{launched:?}");
    }
}

/// What fails is told by the line that recorded it, and the others are computed.
#[test]
fn a_plan_that_fails_names_the_line() {
    let device = apart("interp");
    let x = ramp(&device, &[8, 4]);
    let index = Array::new(&device, &[1i64, 9], &[2]);
    let sums = x.sum_keep(&[1]) * 2.0;
    let line = line!() + 1;
    let wrong = x.take(&index, 0);
    let error = eval(&[&sums, &wrong]).and_then(|()| wrong.to_vec::<f32>().map(drop)).unwrap_err();
    assert!(error.to_string().contains("launches.rs"), "{line}: {error}");
    assert_eq!(sums.to_vec::<f32>().unwrap().len(), 8);
    assert_eq!(sums.dtype(), Scalar::F32);
}
