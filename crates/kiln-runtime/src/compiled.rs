//! A kernel that was compiled without a launch.

use crate::device::Device;
use crate::error::Result;
use crate::loaded::LoadedKernel;
use kiln_backend::{Occupancy, Report};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A kernel that is compiled for a device: what `compile` of a [`Launch`](crate::Launch) gives. It
/// dereferences to the compiler's [`Report`].
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_runtime::{CompiledKernel, Device, Tensor};
///
/// #[kernel(crate = kiln_runtime)]
/// fn increment(y: &mut Tensor<f32, 1>) {
///     let i = thread_index();
///     y.set_or_skip(i, y.get_or(i, 0.0) + 1.0);
/// }
///
/// let device = Device::open("cpu")?;
/// let mut y = device.zeros([500])?;
/// let compiled: CompiledKernel = increment(&mut y).block([256]).compile(&device)?;
/// assert_eq!(compiled.threads, 256);
/// match compiled.occupancy() {
///     Ok(found) => println!("{} blocks, limited by {}", found.blocks, found.limit), // on "cuda:0"
///     Err(error) => assert!(error.to_string().contains("occupancy of cpu"), "{error}"),
/// }
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub struct CompiledKernel {
    kernel: Arc<LoadedKernel>,
    device: Device,
    report: Report,
}

impl CompiledKernel {
    pub(crate) fn new(kernel: Arc<LoadedKernel>, device: &Device) -> CompiledKernel {
        CompiledKernel { report: kernel.program.report(), kernel, device: device.clone() }
    }

    /// How many blocks of the kernel, with the threads and the shared memory that it was compiled
    /// for, a multiprocessor of the device runs at once, and what allows no more. The driver counts
    /// the blocks.
    ///
    /// # Errors
    /// [`Error::Unavailable`](kiln_backend::Error::Unavailable) on devices on which blocks do not
    /// share a multiprocessor, or that do not say how: all but `cuda`.
    pub fn occupancy(&self) -> Result<Occupancy> {
        let backend = self.device.backend();
        Ok(backend.need_multiprocessors()?.occupancy(&*self.kernel.program)?)
    }
}

impl Deref for CompiledKernel {
    type Target = Report;

    fn deref(&self) -> &Report {
        &self.report
    }
}

impl fmt::Debug for CompiledKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(&self.kernel.name).field(&self.report).finish()
    }
}
