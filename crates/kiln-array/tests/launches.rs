//! How plans run: what is compiled, when, and what observers see.

use kiln_array::optimizer::AdamW;
use kiln_array::{Array, Result, Scalar, eval, value_and_grad};
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
    assert!(error.to_string().contains(&format!("launches.rs:{line}:")), "{line}: {error}");
    assert_eq!(sums.to_vec::<f32>().unwrap().len(), 8);
    assert_eq!(sums.dtype(), Scalar::F32);
}

fn bits(array: &Array) -> Vec<u32> {
    array.to_vec::<f32>().unwrap().iter().map(|x| x.to_bits()).collect()
}

/// From its third evaluation on a structure runs as a list of commands. What it gives is the same,
/// bit by bit, as on a device that has not met it.
#[test]
fn later_evaluations_give_what_the_first_gives() {
    let device = apart("cpu");
    for round in 0..8 {
        let results = |device: &Device| {
            let x = ramp(device, &[29, 17]) + (round as f32 * 0.37 + 0.1);
            x.eval().unwrap();
            // A number that changes, views that share memory, one without elements.
            let w = ramp(device, &[17, 9]) * (1.3 + round as f32);
            let y = program(&x, &w);
            let (flat, rows) = (y.reshape(&[29 * 9]), x.reshape(&[17, 29]));
            let empty = y.slice(0, 0..0);
            eval(&[&flat, &y, &rows, &empty]).unwrap();
            assert!(empty.to_vec::<f32>().unwrap().is_empty());
            [bits(&flat), bits(&y), bits(&rows)]
        };
        assert_eq!(results(&device), results(&apart("cpu")), "round {round}");
    }
}

/// The parameters that a step makes are the next one's.
#[test]
fn training_is_the_same_step_by_step() {
    let train = |devices: &mut dyn FnMut() -> Device| {
        let mut kept: Vec<Vec<f32>> = Vec::new();
        let mut device = devices();
        let mut net = vec![ramp(&device, &[17, 5]), ramp(&device, &[5])];
        let mut optimizer = AdamW::new(0.05);
        for step in 0..6 {
            let x = ramp(&device, &[16, 17]) * (1.0 + step as f32);
            let (loss, slopes) = value_and_grad(
                |net: &Vec<Array>| ((x.matmul(&net[0]) + &net[1]).tanh() - 0.5).square().mean(),
                &net,
            );
            optimizer.step(&mut net, slopes).unwrap();
            kept.push(vec![loss.item().unwrap()]);
            let moved = devices();
            if moved != device {
                // All that there is, on a device that has not met the structure.
                let there = |array: &Array| array.to_device(&moved);
                use kiln_array::optimizer::Optimizer;
                let state = optimizer.state().iter().map(|part| part.iter().map(there).collect()).collect();
                net = net.iter().map(there).collect();
                optimizer.restore(step + 1, state);
                device = moved;
            }
        }
        kept.extend(net.iter().map(|array| array.to_vec::<f32>().unwrap()));
        kept
    };
    let one = apart("cpu");
    assert_eq!(train(&mut || one.clone()), train(&mut || apart("cpu")));
}

#[test]
fn observers_see_the_launches_of_every_evaluation() {
    let device = apart("cpu");
    let (x, w) = (ramp(&device, &[27, 17]), ramp(&device, &[17, 9]));
    let run = || seen(&device, || program(&x, &w).eval()).1;
    let first = run();
    for _ in 0..5 {
        program(&x, &w).eval().unwrap();
    }
    assert_eq!(run(), first);
}

/// What runs again and again keeps no array alive.
#[test]
fn lists_keep_no_memory() {
    let device = apart("cpu");
    let (x, w) = (ramp(&device, &[25, 17]), ramp(&device, &[17, 9]));
    for _ in 0..6 {
        let y = program(&x, &w);
        let mut made = y.tensor().unwrap();
        drop(y);
        assert!(made.is_sole());
    }
    let mut read = x.tensor().unwrap();
    drop(x);
    assert!(read.is_sole());
}

#[test]
fn threads_that_evaluate_a_structure_at_once() {
    let device = apart("cpu");
    let expected = bits(&program(&ramp(&device, &[23, 17]), &ramp(&device, &[17, 9])));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (x, w) = (ramp(&device, &[23, 17]), ramp(&device, &[17, 9]));
                for _ in 0..20 {
                    assert_eq!(bits(&program(&x, &w)), expected);
                }
            });
        }
    });
}
