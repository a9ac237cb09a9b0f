//! What `{}` prints of tensors.

use kiln_lang::{E4M3, bf16};
use kiln_runtime::{Device, Tensor};

fn device() -> Device {
    Device::open("interp").unwrap()
}

/// The layouts that NumPy prints for arrays of these shapes.
#[test]
fn axes_are_nested_as_numpy_nests_them() {
    let device = device();
    let numbers: Vec<i32> = (0..12).collect();
    let of = |text: String, expected: &str| assert_eq!(text, expected);
    of(device.tensor(&[7i64], []).unwrap().to_string(), "7");
    of(device.tensor(&numbers[..3], [3]).unwrap().to_string(), "[0, 1, 2]");
    let cube = device.tensor(&numbers, [2, 3, 2]).unwrap();
    of(cube.to_string(), "[[[ 0,  1],\n  [ 2,  3],\n  [ 4,  5]],\n\n [[ 6,  7],\n  [ 8,  9],\n  [10, 11]]]");
    of(cube.select::<2>(2, 1).unwrap().transpose().to_string(), "[[ 1,  7],\n [ 3,  9],\n [ 5, 11]]");
    of(device.zeros::<f32, 1>([0]).unwrap().to_string(), "[]");
    of(device.zeros::<f32, 2>([2, 0]).unwrap().to_string(), "[[],\n []]");
}

#[test]
fn every_kind_of_element_is_a_number() {
    let device = device();
    assert_eq!(device.tensor(&[true, false], [2]).unwrap().to_string(), "[ true, false]");
    assert_eq!(
        device.tensor(&[f64::NAN, -0.0, 1e-300], [3]).unwrap().to_string(),
        "[   NaN,   -0.0, 1e-300]"
    );
    assert_eq!(
        format!("{:.2}", device.tensor(&[bf16::from_f32(0.125), bf16::ONE], [2]).unwrap()),
        "[0.12, 1.00]"
    );
    assert_eq!(device.tensor(&[E4M3::from_f32(1.5)], [1]).unwrap().to_string(), "[1.5]");
    assert_eq!(device.tensor(&[-128i8, 127], [2]).unwrap().into_dyn().to_string(), "[-128,  127]");
    assert_eq!(format!("{:.3}", device.tensor(&[1u8], [1]).unwrap()), "[1]");
}

#[test]
fn of_large_tensors_the_ends_are_printed() {
    let device = device();
    let numbers: Vec<u32> = (0..4000).collect();
    let x = device.tensor(&numbers, [2, 2000]).unwrap();
    assert_eq!(
        x.to_string(),
        "[[   0,    1,    2, ..., 1997, 1998, 1999],\n [2000, 2001, 2002, ..., 3997, 3998, 3999]]"
    );
    let x = device.tensor(&numbers, [2000, 2]).unwrap();
    let rows = "[[   0,    1],\n [   2,    3],\n [   4,    5],\n ...,\n [3994, 3995],\n [3996, 3997],\n [3998, 3999]]";
    assert_eq!(x.to_string(), rows);
    assert_eq!(device.tensor(&numbers[..1000], [1000]).unwrap().to_string().matches(',').count(), 999);
}

#[test]
fn a_tensor_that_cannot_be_read_says_why() {
    let x: Tensor<f32, 2> = device().uninit([2, 3]).unwrap();
    let text = x.to_string();
    assert!(text.starts_with("a tensor of f32 and shape [2, 3] on interp that cannot be read: "), "{text}");
}
