//! Small kernels for the tests.

use kiln_lang::prelude::*;
use kiln_runtime::{Device, Residency, Tensor};

/// y = x + by, eight elements a program.
#[kernel(crate = kiln_runtime)]
pub fn add(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, by: Val<f32>) {
    let at = program_id(0) * 8;
    y.tile(at, 8).store(x.tile(at, 8).load(0.0) + by);
}

/// y = 2 y, in place.
#[kernel(crate = kiln_runtime)]
pub fn double(y: &mut Tensor<f32, 1>) {
    let at = program_id(0) * 8;
    y.tile(at, 8).store(y.tile(at, 8).load(0.0) * 2.0);
}

/// y = x + 1, a thread an element.
#[kernel(crate = kiln_runtime)]
pub fn add_one_by_threads(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let i = thread_index();
    y.set_or_skip(i, x.get_or(i, 0.0) + 1.0);
}

/// y = x + 1 for matrices.
#[kernel(crate = kiln_runtime)]
pub fn add_one_2d(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>) {
    let (at, shape) = ((program_id(0) * 4, program_id(1) * 8), (4, 8));
    y.tile(at, shape).store(x.tile(at, shape).load(0.0) + 1.0);
}

/// Launches on the device still work and give right values.
#[track_caller]
pub fn assert_works(device: &Device) {
    let x: Vec<f32> = (0..21).map(|i| i as f32).collect();
    let source = device.tensor(&x, [21]).unwrap();
    let mut y = device.tensor(&[f32::NAN; 21], [21]).unwrap();
    add(&source, &mut y, 0.5).launch(device).unwrap();
    assert_eq!(y.to_vec().unwrap(), x.iter().map(|v| v + 0.5).collect::<Vec<_>>());
}

/// What must not change when a launch is refused.
pub fn state<const R: usize>(t: &Tensor<f32, R>) -> (Residency, Option<Vec<f32>>) {
    (t.residency(), t.to_vec().ok())
}
