//! Elements by masks: what is refused, and derivatives. Values are compared with NumPy's in
//! `numpy.rs`.

use kiln_array::{Array, Scalar, grad, jvp, vmap};
use kiln_runtime::{Activity, Device};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The CPU, or the device that the environment variable `KILN_DEVICE` names.
fn device() -> Device {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    Device::open(&name).unwrap()
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = device();
    let refused = |y: Array, problem: &str| {
        let error = y.eval().unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("tests/masks.rs"), "{error}");
    };
    let x = Array::arange(&device, 6).reshape(&[2, 3]);
    let [two, three] = [2, 3].map(|len| Array::ones(&device, Scalar::Bool, &[len]));
    refused(x.mask_select(&three), "`mask_select`: a mask of shape [3] for shape [2, 3]");
    refused(two.mask_select(&x.greater(0)), "a mask of shape [2, 3] for shape [2]");
    refused(x.mask_select(&x), "`mask_select` of i64: a mask is an array of bool");
    refused(x.compress(&three, 0), "`compress`: the condition is true at 2, and axis 0 of shape [2, 3]");
    refused(x.compress(&x.greater(0), 0), "a condition of shape [2, 3] instead of one axis");
    refused(x.compress(&x.sum().greater(0), 0), "a condition of shape [] instead of one axis");
    refused(x.compress(&two, 2), "`compress`");
    refused(x.compress(&Array::arange(&device, 2), 0), "`compress` of i64");
    let none = x.sum().nonzero();
    assert_eq!(none.len(), 1);
    refused(none[0].clone(), "`nonzero`: an array without axes");
    // Errors of what they are made of.
    let wrong = x.reshape(&[5]);
    refused(wrong.mask_select(&two), "`reshape`");
    refused(x.mask_select(&wrong), "`reshape`");
    refused(x.compress(&wrong, 0), "`reshape`");
    refused(wrong.nonzero()[0].clone(), "`reshape`");
}

#[test]
fn gradients_go_to_what_was_selected() {
    let device = device();
    let numbers: Vec<f64> = (0..12).map(|i| f64::from(i * 5 % 12) - 5.5).collect();
    let x = Array::new(&device, &numbers, &[4, 3]);
    let positive = |x: &Array| x.mask_select(&x.greater(0.0)).square().sum();
    let expected: Vec<f64> = numbers.iter().map(|x| 2.0 * x.max(0.0)).collect();
    assert_eq!(grad(positive, &x).to_vec::<f64>().unwrap(), expected);
    let rows = Array::new(&device, &[false, true, false, true], &[4]);
    let of_rows = grad(|x| (x.mask_select(&rows) * 3.0).sum(), &x).to_vec::<f64>().unwrap();
    let expected: Vec<f64> = (0..12).map(|i| if i / 3 % 2 == 1 { 3.0 } else { 0.0 }).collect();
    assert_eq!(of_rows, expected);
    let (_, tangent) = jvp(|x| x.compress(&rows, 0), &x, &x);
    assert_eq!(tangent.to_vec::<f64>().unwrap(), [&numbers[3..6], &numbers[9..]].concat());
    // The same mask for all arrays of a `vmap`; one that depends on their elements is refused.
    let columns = Array::new(&device, &[true, false, true], &[3]);
    let all = vmap(|row: &Array| row.mask_select(&columns), &x);
    assert_eq!(all.to_vec::<f64>().unwrap(), x.compress(&columns, 1).to_vec::<f64>().unwrap());
    let error = vmap(|row: &Array| row.mask_select(&row.greater(0.0)), &x).eval().unwrap_err().to_string();
    assert!(error.contains("`vmap`") && error.contains("tests/masks.rs"), "{error}");
}

/// What the documentation says of the call: it computes the mask alone.
#[test]
fn a_call_computes_the_mask_and_not_the_elements() {
    let device = Device::open_apart("cpu").unwrap();
    let x = Array::new(&device, &[1.0f32, -2.0, 3.0, -4.0], &[4]);
    let (launched, kept) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let count = launched.clone();
    let _observation = device.observe(move |activity: &Activity| {
        if let Activity::Launch(_) = activity {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    // Elements that are two kernels, and a mask that is one.
    let y = (&x / x.sum()).cumsum(0);
    let launches = |f: &mut dyn FnMut()| {
        let before = launched.load(Ordering::SeqCst);
        f();
        launched.load(Ordering::SeqCst) - before
    };
    let mut selected = Vec::new();
    assert_eq!(launches(&mut || selected.push(y.mask_select(&x.greater(0.0)))), 1);
    assert_eq!(launches(&mut || selected.push(y.compress(&x.less(0.0), 0))), 1);
    assert_eq!(launches(&mut || kept.store(x.nonzero()[0].len(), Ordering::SeqCst)), 1);
    assert_eq!((selected[0].shape(), selected[1].shape()), (&[2][..], &[2][..]));
    assert_eq!(kept.load(Ordering::SeqCst), 4);
    assert!(launches(&mut || drop(selected[0].eval())) >= 2);
}

/// `x[mask] = values`, with one value and with one for each.
#[test]
fn assignment_by_a_mask() {
    let device = device();
    let x = Array::new(&device, &[1i32, -2, 3, -4, 5, -6], &[3, 2]);
    let zero = Array::scalar(&device, 0i32);
    let y = zero.where_(&x.less(0), &x);
    assert_eq!(y.to_vec::<i32>().unwrap(), [1, 0, 3, 0, 5, 0]);
    let rows = Array::new(&device, &[true, false, true], &[3]);
    let y = zero.where_(&rows.unsqueeze(1), &x);
    assert_eq!(y.to_vec::<i32>().unwrap(), [0, 0, 3, -4, 0, 0]);
    let values = Array::new(&device, &[70i32, 80, 90], &[3]);
    let y = x.flatten().scatter(&x.less(0).flatten().nonzero()[0], &values, 0);
    assert_eq!(y.to_vec::<i32>().unwrap(), [1, 70, 3, 80, 5, 90]);
}
