//! Element-wise kernels over whole tensors.

use crate::sizes::{elements_per_program, same_shape};
use kiln_lang::prelude::*;
use kiln_runtime::{Result, Tensor};

/// Kernels, for launches of one's own.
///
/// ```
/// use kiln_kernels::elementwise::kernels::{add, copy};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = device.tensor(&[1, 2, 3], [3])?;
/// let (mut y, mut z) = (device.uninit([3])?, device.uninit([3])?);
/// copy(&x, &mut y, 2).launch(&device)?;
/// add(&x, &y, &mut z, 2).launch(&device)?;
/// assert_eq!(z.to_vec()?, [2, 4, 6]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub mod kernels {
    use super::*;

    /// z = x + y, `block` elements a program.
    #[kernel(crate = kiln_runtime)]
    pub fn add<T: Num>(x: &Tensor<T, 1>, y: &Tensor<T, 1>, z: &mut Tensor<T, 1>, block: usize) {
        let at = program_id(0) * block;
        let sum = x.tile(at, block).streaming().load(0) + y.tile(at, block).streaming().load(0);
        z.tile(at, block).streaming().store(sum);
    }

    /// y = x, `block` elements a program.
    #[kernel(crate = kiln_runtime)]
    pub fn copy<T: Num>(x: &Tensor<T, 1>, y: &mut Tensor<T, 1>, block: usize) {
        let at = program_id(0) * block;
        y.tile(at, block).streaming().store(x.tile(at, block).streaming().load(0));
    }
}

/// z = x + y.
///
/// # Errors
/// [`kiln_runtime::Error::Shape`] if the lengths differ.
///
/// ```
/// let device = kiln_runtime::Device::open("interp")?;
/// let (x, y) = (device.tensor(&[1.0f32, 2.0, 3.0], [3])?, device.tensor(&[10.0, 20.0, 30.0], [3])?);
/// let mut z = device.uninit([3])?;
/// kiln_kernels::add(&x, &y, &mut z)?;
/// assert_eq!(z.to_vec()?, [11.0, 22.0, 33.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub fn add<T: Num>(x: &Tensor<T, 1>, y: &Tensor<T, 1>, z: &mut Tensor<T, 1>) -> Result<()> {
    same_shape("add, y", x, y)?;
    same_shape("add, z", x, z)?;
    let device = x.device().clone();
    kernels::add(x, y, z, elements_per_program(&device, size_of::<T>())).launch(&device)
}

/// y = x.
///
/// # Errors
/// [`kiln_runtime::Error::Shape`] if the lengths differ.
///
/// ```
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = device.tensor(&[1i32, 2, 3], [3])?;
/// let mut y = device.uninit([3])?;
/// kiln_kernels::copy(&x, &mut y)?;
/// assert_eq!(y.to_vec()?, [1, 2, 3]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub fn copy<T: Num>(x: &Tensor<T, 1>, y: &mut Tensor<T, 1>) -> Result<()> {
    same_shape("copy", x, y)?;
    let device = x.device().clone();
    kernels::copy(x, y, elements_per_program(&device, size_of::<T>())).launch(&device)
}
