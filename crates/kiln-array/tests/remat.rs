//! Gradients that compute again rather than remember, and whole matrices of derivatives.

use kiln_array::{Array, Scalar, eval, grad, hessian, hvp, jacobian, jvp, remat, value_and_grad, vjp, vmap};
use kiln_runtime::{Activity, Device};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

/// The CPU, or the device that the environment variable `KILN_DEVICE` names.
fn device() -> Device {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    Device::open(&name).unwrap()
}

fn array(shape: &[usize], seed: usize) -> Array {
    let number = |i: usize| ((i * 37 + 11 + seed * 13) % 101) as f64 / 100.0 - 0.5;
    let numbers: Vec<f64> = (0..shape.iter().product()).map(number).collect();
    Array::new(&device(), &numbers, shape)
}

fn elements(x: &Array) -> Vec<f64> {
    x.to_vec::<f64>().unwrap_or_else(|error| panic!("{error}"))
}

fn close(got: &Array, expected: &Array, most: f64) {
    assert_eq!(got.shape(), expected.shape(), "{:?}", got.error());
    for (got, expected) in elements(got).iter().zip(elements(expected)) {
        assert!((got - expected).abs() <= most * expected.abs().max(1.0), "{got}, expected {expected}");
    }
}

fn layer((w, x): &(Array, Array)) -> Array {
    let inner = x.matmul(w).tanh();
    let gate = inner.matmul(&w.transpose()).sigmoid();
    x + inner.matmul(w) * gate
}

fn network(x: &Array, weights: &[Array], again: bool) -> Array {
    let next = |x: Array, w: &Array| match again {
        true => remat(layer, &(w.clone(), x)),
        false => layer(&(w.clone(), x)),
    };
    weights.iter().fold(x.clone(), next).square().mean()
}

#[test]
fn derivatives_are_the_same() {
    let x = array(&[4, 5], 0);
    let weights: Vec<Array> = (1..4).map(|seed| array(&[5, 5], seed)).collect();
    let (kept, of_kept) = value_and_grad(|w: &Vec<Array>| network(&x, w, false), &weights);
    let (again, of_again) = value_and_grad(|w: &Vec<Array>| network(&x, w, true), &weights);
    close(&again, &kept, 1e-14);
    for (again, kept) in of_again.iter().zip(&of_kept) {
        close(again, kept, 1e-13);
    }
    let [w, v] = [&weights[0], &weights[1]];
    let number = |again: bool| move |w: &Array| network(&array(&[4, 5], 0), &[w.clone(), w.exp()], again);
    close(&jvp(number(true), w, v).1, &jvp(number(false), w, v).1, 1e-13);
    close(&hvp(number(true), w, v), &hvp(number(false), w, v), 1e-12);
    close(
        &grad(|w| grad(number(true), w).sin().sum(), w),
        &grad(|w| grad(number(false), w).sin().sum(), w),
        1e-12,
    );
    let many = kiln_array::stack(&[w, v], 0);
    let gradients = |again| vmap(|w: &Array| grad(number(again), w), &many);
    close(&gradients(true), &gradients(false), 1e-13);
    // Integers among the parameters.
    let rows = Array::new(&device(), &[1, 0, 1], &[3]);
    let taken = |(x, rows): &(Array, Array)| x.take(rows, 0).sin();
    let got = grad(|x| remat(taken, &(x.clone(), rows.clone())).sum(), &x);
    close(&got, &grad(|x| taken(&(x.clone(), rows.clone())).sum(), &x), 1e-14);
}

/// Gradients flow through what the function captures, whatever that has to do with its parameters.
#[test]
fn captured_arrays_have_gradients() {
    let double = |again: bool| {
        move |x: &Array| {
            let y = x * 2.0;
            let times = move |z: &Array| (z * &y).sum();
            if again { remat(times, x) } else { times(x) }
        }
    };
    let itself = |again: bool| {
        move |x: &Array| {
            let y = x.clone();
            let times = move |z: &Array| (z * &y).sum();
            if again { remat(times, x) } else { times(x) }
        }
    };
    let skip = |again: bool| {
        move |x: &Array| {
            let h = x.exp();
            let s = h.clone();
            let layer = move |z: &Array| (z.sin() + &s).sum();
            if again { remat(layer, &h) } else { layer(&h) }
        }
    };
    // What is captured has no parameter among what it is made of, or is captured by two functions.
    let nested = |again: bool| {
        move |x: &Array| {
            let (w, positive) = (x.cos(), x.greater(0.2));
            let outer = move |z: &Array| {
                let (w, positive) = (w.clone(), positive.clone());
                let y = z.exp();
                let inner = move |z: &Array| (z * &w * y.sin()).where_(&positive, z) * &w;
                if again { remat(inner, z) } else { inner(z) }
            };
            let z = Array::full(&device(), 0.7f64, &[3]);
            if again { remat(outer, &z).sin().sum() } else { outer(&z).sin().sum() }
        }
    };
    let two = Array::new(&device(), &[1.0f64, 2.0], &[2]);
    assert_eq!(elements(&grad(double(true), &two)), [4.0, 8.0]);
    assert_eq!(elements(&grad(itself(true), &two)), [2.0, 4.0]);
    assert_eq!(elements(&jvp(double(true), &two, &Array::ones(&device(), Scalar::F64, &[2])).1), [12.0]);
    derivatives_agree(double(true), double(false));
    derivatives_agree(itself(true), itself(false));
    derivatives_agree(skip(true), skip(false));
    derivatives_agree(nested(true), nested(false));
}

fn derivatives_agree(again: impl Fn(&Array) -> Array, kept: impl Fn(&Array) -> Array) {
    let (x, v, many) = (array(&[3], 0), array(&[3], 1), array(&[2, 3], 2));
    close(&grad(&again, &x), &grad(&kept, &x), 1e-13);
    close(&jvp(&again, &x, &v).1, &jvp(&kept, &x, &v).1, 1e-13);
    close(&hvp(&again, &x, &v), &hvp(&kept, &x, &v), 1e-12);
    close(&vmap(|x: &Array| grad(&again, x), &many), &vmap(|x: &Array| grad(&kept, x), &many), 1e-13);
    let sum_of_all = |f: &dyn Fn(&Array) -> Array| grad(|many| vmap(f, many).sin().sum(), &many);
    close(&sum_of_all(&again), &sum_of_all(&kept), 1e-13);
    close(&hessian(&again, &x), &hessian(&kept, &x), 1e-12);
}

#[test]
fn captured_constants_and_errors() {
    let (x, w) = (array(&[2, 3], 0), array(&[3, 3], 1));
    let captured = w.clone();
    let y = grad(|x| remat(move |x: &Array| x.matmul(&captured), x).sum(), &x);
    close(&y, &w.sum_axes(&[1]).broadcast_to(&[2, 3]), 1e-14);
    let y = grad(
        |w| {
            let captured = w.clone();
            remat(move |x: &Array| x.matmul(&captured), &x).sum()
        },
        &w,
    );
    close(&y, &x.sum_axes(&[0]).unsqueeze(1).broadcast_to(&[3, 3]), 1e-14);
    let error = remat(|x: &Array| x.reshape(&[5]), &x).eval().unwrap_err().to_string();
    assert!(error.contains("`reshape`"), "{error}");
}

/// The most bytes of arrays of one size that are there at once while a step runs.
fn peak(device: &Device, bytes: usize, f: impl FnOnce()) -> isize {
    let (now, most) = (Arc::new(AtomicIsize::new(0)), Arc::new(AtomicIsize::new(0)));
    let counted = most.clone();
    let observation = device.observe(move |activity: &Activity| {
        if matches!(activity, Activity::Allocate(one) if one.bytes == bytes) {
            counted.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    });
    f();
    drop(observation);
    most.load(Ordering::Relaxed)
}

/// Sixteen layers: all that they compute is kept, or the inputs of each. Casts of weights, as in
/// mixed precision, are no inputs of layers.
#[test]
fn less_memory_is_used() {
    // The interpreter allocates each array, to see what is read before it is written.
    let device = Device::open("cpu").unwrap();
    let step = |rows: usize, again: bool| {
        let on_cpu = |x: Array| x.to_device(&device).cast(Scalar::F32);
        let x = on_cpu(array(&[rows, 8], 0));
        let weights: Vec<Array> = (1..17).map(|seed| on_cpu(array(&[8, 8], seed))).collect();
        eval(&weights.iter().chain([&x]).collect::<Vec<_>>()).unwrap();
        peak(&device, rows * 8 * 4, || {
            let (loss, gradients) = value_and_grad(
                |w: &Vec<Array>| {
                    let w: Vec<Array> = w.iter().map(|w| w.cast(Scalar::F64).cast(Scalar::F32)).collect();
                    network(&x, &w, again)
                },
                &weights,
            );
            eval(&gradients.iter().chain([&loss]).collect::<Vec<_>>()).unwrap();
        })
    };
    // Sizes that no other arrays have.
    let (kept, again) = (step(1031, false), step(1033, true));
    assert!(again * 3 <= kept, "{again} arrays instead of {kept}");
}

#[test]
fn matrices_of_derivatives() {
    let (x, w) = (array(&[3], 0), array(&[3, 4], 1));
    let wide = |x: &Array| x.matmul(&w).tanh();
    let narrow = |x: &Array| x.matmul(&w).tanh().slice(0, ..2).unsqueeze(0);
    let slopes: Array = (1.0 - wide(&x).square()) * &w;
    close(&jacobian(wide, &x), &slopes.transpose(), 1e-14);
    close(&jacobian(narrow, &x), &slopes.transpose().slice(0, ..2).unsqueeze(0), 1e-14);
    let number = |x: &Array| x.matmul(&w).tanh().square().sum();
    let matrix = hessian(number, &x);
    close(&matrix, &matrix.transpose(), 1e-13);
    close(&matrix.matmul(&x), &hvp(number, &x, &x), 1e-12);
    assert_eq!(jacobian(|x| x.slice(0, ..0), &x).shape(), [0, 3]);
    // Several results and parameters, and the same array twice among the results.
    let at = (x.clone(), w.clone());
    let (values, pull_back) = vjp(|(x, w): &(Array, Array)| vec![x.matmul(w), x.clone(), x.clone()], &at);
    let (of_x, of_w) = pull_back(&vec![values[0].clone(), x.clone(), x.clone()]);
    close(&of_x, &(w.matmul(&values[0]) + &x * 2.0), 1e-13);
    close(&of_w, &(x.unsqueeze(1) * &values[0]), 1e-13);
    let error = pull_back(&vec![values[0].clone()]).0.eval().unwrap_err().to_string();
    assert!(
        error.contains("for results [f64 [4], f64 [3], f64 [3]] of `vjp`")
            && error.contains("tests/remat.rs"),
        "{error}"
    );
    let error = jacobian(|x| x.reshape(&[2]), &x).eval().unwrap_err().to_string();
    assert!(error.contains("`reshape`"), "{error}");
}
