//! Kernels of a program's own as operations: in plans that are replayed, with rules for
//! derivatives, for many arrays at once.

use kiln_array::{Array, Scalar, custom_kernel, custom_vjp, eval, explain, grad, jvp, scan, vmap};
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Tensor};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The CPU, or the device that the environment variable `KILN_DEVICE` names.
fn device() -> Device {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    Device::open(&name).unwrap()
}

/// y = x^power + shift.
#[kernel(crate = kiln_runtime)]
fn powers(x: &Tensor<f32, 1>, shift: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, power: usize) {
    let block = program_id(0) * 32;
    let x = x.tile(block, 32).load(0.0);
    let mut product = x;
    for _ in 1..power {
        product = product * x;
    }
    y.tile(block, 32).store(product + shift.get(0));
}

/// x^power + shift, where shift is a number without axes.
fn by_kernel(x: &Array, shift: &Array, power: usize) -> Array {
    custom_kernel(&[x, shift], (Scalar::F32, x.shape()), power, |&power, inputs, y| {
        let (device, shift) = (y.device().clone(), inputs[1].reshape(&[1])?);
        powers(inputs[0].downcast_ref()?, shift.downcast_ref()?, y.downcast_mut()?, power).launch(&device)
    })
}

/// The same with a rule.
fn power(x: &Array, shift: &Array, power: usize) -> Array {
    custom_vjp(
        &[x, shift],
        move |of| by_kernel(&of[0], &of[1], power),
        move |of, _, g| {
            let slope = (1..power).fold(&of[0] * 0.0 + 1.0, |product, _| product * &of[0]);
            vec![g * slope * power as f64, g.sum()]
        },
    )
}

fn numbers(device: &Device, len: usize) -> Array {
    Array::linspace(device, -1.5, 2.0, len.max(2)).cast(Scalar::F32).slice(0, ..len)
}

fn close(got: &Array, expected: &Array) {
    assert_eq!(got.shape(), expected.shape());
    let (got, expected) = (got.to_vec::<f32>().unwrap(), expected.to_vec::<f32>().unwrap());
    assert!(
        got.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs().max(1.0)),
        "{got:?} {expected:?}"
    );
}

/// The same, which counts how often its function is called.
fn counted(x: &Array, shift: &Array) -> Array {
    custom_kernel(&[x, shift], (Scalar::F32, x.shape()), (), |(), inputs, y| {
        CALLS.fetch_add(1, Relaxed);
        let (device, shift) = (y.device().clone(), inputs[1].reshape(&[1])?);
        powers(inputs[0].downcast_ref()?, shift.downcast_ref()?, y.downcast_mut()?, 3).launch(&device)
    })
}

static CALLS: AtomicUsize = AtomicUsize::new(0);

/// It is part of a plan: of what it reads nothing is computed before, and from the third evaluation
/// on its function is not called any more, where launches are a list.
#[test]
fn a_plan_is_recorded_once_and_replayed() {
    for name in ["cpu", "interp"] {
        let device = Device::open(name).unwrap();
        for len in [1, 31, 32, 100] {
            let x = numbers(&device, len);
            let program = |shift: f32| {
                let y = counted(&(&x * 2.0 + 1.0), &Array::scalar(&device, shift));
                (y.square() + 1.0).sum_keep(&[0])
            };
            let expected = |shift: f32| {
                let y = &x * 2.0 + 1.0;
                ((&y * &y * &y + f64::from(shift)).square() + 1.0).sum_keep(&[0])
            };
            let text = explain(&[&program(0.5)]).unwrap();
            assert!(text.contains("custom_kernel: by a function of the program"), "{text}");
            let mut calls = Vec::new();
            for step in 0..6 {
                let before = CALLS.load(Relaxed);
                let shift = 0.3 + 0.07 * step as f32;
                close(&program(shift), &expected(shift));
                calls.push(CALLS.load(Relaxed) - before);
            }
            assert!(calls[0] > 0, "{calls:?}");
            // The interpreter sees each launch with its own memory.
            assert_eq!(calls[3..], if name == "cpu" { [0; 3] } else { [1; 3] }, "{calls:?}");
        }
        // No elements: nothing is launched.
        let none = by_kernel(&numbers(&device, 0), &Array::scalar(&device, 1.0f32), 2);
        assert!(none.to_vec::<f32>().unwrap().is_empty());
    }
}

/// Settings tell plans from each other, and strides of inputs are what the reader has.
#[test]
fn settings_and_views() {
    let device = device();
    let (x, shift) = (numbers(&device, 60), Array::scalar(&device, 0.0f32));
    let table = x.reshape(&[20, 3]);
    for _ in 0..3 {
        let [a, b, c] = [1, 2, 3].map(|power| by_kernel(&table.select(1, 1), &shift, power));
        eval(&[&a, &b, &c]).unwrap();
        let column = table.select(1, 1);
        close(&a, &column);
        close(&b, &column.square());
        close(&c, &(column.square() * &column));
    }
}

#[test]
fn derivatives_have_a_rule() {
    let device = device();
    let (x, shift) = (numbers(&device, 40), Array::scalar(&device, 0.25f32));
    let written = |x: &Array, shift: &Array| x * x * x + shift;
    let at = (x.clone(), shift.clone());
    let loss = |of: fn(&Array, &Array) -> Array| move |(x, s): &(Array, Array)| of(&(x * 0.5), s).sin().sum();
    let by_rule = grad(loss(|x, s| power(x, s, 3)), &at);
    let expected = grad(loss(|x, s| x * x * x + s), &at);
    close(&by_rule.0, &expected.0);
    close(&by_rule.1, &expected.1);
    close(&jvp(|x| power(x, &shift, 3), &x, &x).1, &jvp(|x| written(x, &shift), &x, &x).1);
    // Without a rule it is refused by name, at its line.
    for error in [
        grad(|x| by_kernel(x, &shift, 2).sum(), &x).eval().unwrap_err(),
        jvp(|x| by_kernel(x, &shift, 2), &x, &x).1.eval().unwrap_err(),
    ] {
        let error = error.to_string();
        assert!(
            error.contains("custom_kernels.rs")
                && error.contains("`custom_kernel` has no derivative of itself"),
            "{error}"
        );
    }
}

#[test]
fn many_at_once_and_loops() {
    let device = device();
    let (x, shift) = (numbers(&device, 44).reshape(&[4, 11]), Array::scalar(&device, 0.5f32));
    let by_rule = vmap(|row: &Array| power(row, &shift, 2), &x);
    close(&by_rule, &(x.square() + 0.5));
    let of_each = vmap(|row: &Array| grad(|row| power(row, &shift, 2).sum(), row), &x);
    close(&of_each, &(&x * 2.0));
    let none = vmap(|row: &Array| by_kernel(row, &shift, 2), &x.slice(0, ..0));
    assert_eq!((none.shape(), none.to_vec::<f32>().unwrap()), (&[0, 11][..], vec![]));
    let (last, _) = scan(
        |carry: &Array, row: &Array| (by_kernel(&(carry + row), &shift, 1), carry.sum()),
        Array::zeros(&device, Scalar::F32, &[11]),
        &x,
    );
    close(&last, &(x.sum_axes(&[0]) + 2.0));
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = device();
    let refused = |y: Array, problem: &str| {
        let error = y.eval().unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("tests/custom_kernels.rs"), "{error}");
    };
    let x = numbers(&device, 5);
    let make = |inputs: &[&Array], dtype: Scalar, shape: &[usize]| {
        custom_kernel(inputs, (dtype, shape), (), |(), inputs, y| y.copy_from(&inputs[0]))
    };
    close(&make(&[&(&x * 2.0)], Scalar::F32, &[5]), &(&x * 2.0));
    refused(make(&[], Scalar::F32, &[5]), "`custom_kernel`: there is no input");
    refused(make(&[&x], Scalar::U64, &[5]), "`custom_kernel` of u64");
    refused(make(&[&x], Scalar::F32, &[usize::MAX, 2]), "more bytes than can be addressed");
    refused(make(&[&x.reshape(&[4])], Scalar::F32, &[5]), "`reshape`");
    // What the function reports: there are other shapes.
    refused(make(&[&x], Scalar::F32, &[6]), "");
    refused(by_kernel(&x.cast(Scalar::F64), &x.sum(), 1), "f64");
}
