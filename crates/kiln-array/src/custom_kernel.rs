//! Kernels of a program's own as operations of arrays.

use crate::array::create::{checked_size, checked_type};
use crate::error::{Error, Site};
use crate::node::{Array, Made};
use crate::op::Op;
use crate::program_kernel::{ProgramKernel, known};
use crate::shape::Extents;
use kiln_ir::Scalar;
use kiln_runtime::{DynTensor, Result};
use std::hash::Hash;
use std::panic::Location;
use std::sync::Arc;

/// An operation by a kernel of your own: an array of this element type and shape that `launch`
/// computes of the inputs.
///
/// It is recorded as any other operation, and launched with the plan that it is part of: what it
/// reads and what reads it are not computed before, its memory is shared with other arrays, and
/// later evaluations replay it. So `launch` does nothing but launch kernels on the tensors that it
/// is given, and what else these need is allocated by it:
///
/// - Inputs may have any strides, and are not to be written.
/// - The result has no elements yet: the kernels store all of them.
/// - It captures nothing. What decides about its launches beside shapes and element types is in
///   `settings`, which a plan is remembered by; `()` if there is nothing. A number that differs in
///   every step is better an input without axes.
///
/// A gradient has to have a rule, which [`custom_vjp`](crate::custom_vjp) or
/// [`custom_jvp`](crate::custom_jvp) gives. [`vmap`](crate::vmap) launches it once for each array.
///
/// ```
/// use kiln_array::{Array, Scalar, custom_kernel, custom_vjp, grad};
/// use kiln_lang::prelude::*;
/// use kiln_runtime::{Device, Tensor};
///
/// #[kernel(crate = kiln_runtime)]
/// fn powers(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, power: usize) {
///     let block = program_id(0) * 64;
///     let x = x.tile(block, 64).load(0.0);
///     let mut product = x;
///     for _ in 1..power {
///         product = product * x;
///     }
///     y.tile(block, 64).store(product);
/// }
///
/// fn power(x: &Array, power: usize) -> Array {
///     let by_kernel = |x: &[Array]| {
///         custom_kernel(&[&x[0]], (Scalar::F32, x[0].shape()), power, |&power, inputs, y| {
///             let device = y.device().clone();
///             powers(inputs[0].downcast_ref()?, y.downcast_mut()?, power).launch(&device)
///         })
///     };
///     let slope = move |x: &[Array], y: &Array, g: &Array| vec![g * y / &x[0] * power as f64];
///     custom_vjp(&[x], by_kernel, slope)
/// }
///
/// let x = Array::new(&Device::open("interp")?, &[1.0f32, 2.0, 3.0], &[3]);
/// assert_eq!((power(&(&x + 1.0), 2) * 0.5).to_vec::<f32>()?, [2.0, 4.5, 8.0]);
/// assert_eq!(grad(|x| power(x, 3).sum(), &x).to_vec::<f32>()?, [3.0, 12.0, 27.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// The result has an error if there is no input, whose device it is on, if arrays do not compute in
/// its element type, or if it is too large. An error of `launch` is that of whoever computes the
/// array. A function that captures something does not compile:
///
/// ```compile_fail
/// # use kiln_array::{Array, Scalar, custom_kernel};
/// # let x = Array::arange(&kiln_runtime::Device::open("interp").unwrap(), 3);
/// let captured = vec![1];
/// custom_kernel(&[&x], (Scalar::I64, &[3]), (), move |_, _, _| {
///     assert!(captured[0] > 0);
///     Ok(())
/// });
/// ```
#[track_caller]
pub fn custom_kernel<S, F>(
    inputs: &[&Array],
    (dtype, shape): (Scalar, &[usize]),
    settings: S,
    launch: F,
) -> Array
where
    S: Clone + Eq + Hash + Send + Sync + 'static,
    F: Fn(&S, &[DynTensor], &mut DynTensor) -> Result<()> + Send + Sync + 'static,
{
    const {
        assert!(
            size_of::<F>() == 0,
            "the function that launches a kernel captures nothing: what it needs beside the tensors is in the settings"
        );
    }
    recorded(inputs, (dtype, shape), known(settings, false, launch), Location::caller())
}

/// [`custom_kernel`] of parts, which the first axis of all inputs and of the result counts.
pub(crate) fn kernel_of_parts<S, F>(
    inputs: &[&Array],
    (dtype, shape): (Scalar, &[usize]),
    settings: S,
    site: Site,
    launch: F,
) -> Array
where
    S: Clone + Eq + Hash + Send + Sync + 'static,
    F: Fn(&S, &[DynTensor], &mut DynTensor) -> Result<()> + Send + Sync + 'static,
{
    const { assert!(size_of::<F>() == 0) };
    recorded(inputs, (dtype, shape), known(settings, true, launch), site)
}

/// [`custom_kernel`] at a line that was recorded before.
pub(crate) fn kernel_at<S, F>(
    inputs: &[&Array],
    (dtype, shape): (Scalar, &[usize]),
    settings: S,
    site: Site,
    launch: F,
) -> Array
where
    S: Clone + Eq + Hash + Send + Sync + 'static,
    F: Fn(&S, &[DynTensor], &mut DynTensor) -> Result<()> + Send + Sync + 'static,
{
    const { assert!(size_of::<F>() == 0) };
    recorded(inputs, (dtype, shape), known(settings, false, launch), site)
}

fn recorded(
    inputs: &[&Array],
    (dtype, shape): (Scalar, &[usize]),
    kernel: Arc<ProgramKernel>,
    site: Site,
) -> Array {
    let op = "custom_kernel";
    Array::record(inputs, site, || {
        if inputs.is_empty() {
            let problem = "there is no input, whose device the result is on".to_owned();
            return Err(Error::Shape { op, problem, location: site });
        }
        checked_type(op, dtype, site)?;
        checked_size(op, shape, dtype, site)?;
        Ok(Made { op: Op::Kernel(kernel), dtype, shape: Extents::from_slice(shape) })
    })
}
