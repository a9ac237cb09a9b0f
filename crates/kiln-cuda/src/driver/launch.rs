//! Launching a kernel.
//!
//! Parameters are one run of 64-bit words, which the driver copies as it is. A kernel therefore
//! declares `.u64` parameters (or one `.b8` array), and their number must be that of the words.
//! Nothing is allocated on the way; what went wrong is looked into only after a launch has failed.
//!
//! Tensor maps come before the words, and each parameter is passed by its address then: the
//! compiler aligns them in its constant bank, whose beginning is not aligned, so that the driver
//! alone determines where they are.

use super::error::{CudaError, Result};
use super::ffi::{self, Status};
use super::function::Function;
use super::shape::LaunchShape;
use super::stream::Stream;
use super::tensor_map::TensorMap;
use smallvec::SmallVec;
use std::ffi::c_void;
use std::ptr::{null_mut, without_provenance_mut};

impl Function {
    /// Enqueues a launch. A grid with a zero extent does nothing.
    ///
    /// # Errors
    /// [`CudaError::LaunchLimit`] where a limit explains the failure; those of the calls, and of
    /// earlier work in the context.
    ///
    /// # Safety
    /// The words are as many as the kernel's 64-bit parameters and mean what it takes them for;
    /// memory they point to lives until the kernel is done, and is not used in a conflicting way
    /// meanwhile.
    #[inline]
    pub unsafe fn launch(&self, stream: &Stream, shape: &LaunchShape, words: &[u64]) -> Result<()> {
        if shape.grid.contains(&0) {
            return Ok(());
        }
        let mut bytes = size_of_val(words);
        let mut extra: [*mut c_void; 5] = [
            without_provenance_mut(ffi::LAUNCH_PARAM_BUFFER),
            words.as_ptr().cast_mut().cast(),
            without_provenance_mut(ffi::LAUNCH_PARAM_SIZE),
            (&raw mut bytes).cast(),
            null_mut(),
        ];
        // Without parameters there is no buffer to name.
        let extra = if words.is_empty() { null_mut() } else { extra.as_mut_ptr() };
        // SAFETY: the buffer and its size live during the call; the rest is the caller's promise.
        unsafe { self.enqueue(stream, shape, null_mut(), extra) }
    }

    /// Enqueues a launch of a kernel whose parameters are tensor maps and then words.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    ///
    /// # Safety
    /// As [`launch`](Self::launch), also for the maps.
    pub unsafe fn launch_with_maps(
        &self,
        stream: &Stream,
        shape: &LaunchShape,
        maps: &[TensorMap],
        words: &[u64],
    ) -> Result<()> {
        if shape.grid.contains(&0) {
            return Ok(());
        }
        let maps = maps.iter().map(|map| std::ptr::from_ref(map).cast_mut().cast::<c_void>());
        let words = words.iter().map(|word| std::ptr::from_ref(word).cast_mut().cast::<c_void>());
        let mut parameters: SmallVec<[*mut c_void; 64]> = maps.chain(words).collect();
        // SAFETY: every pointer is to a parameter that lives during the call; the driver only reads
        // them. The rest is the caller's promise.
        unsafe { self.enqueue(stream, shape, parameters.as_mut_ptr(), null_mut()) }
    }

    /// # Safety
    /// That of [`launch`](Self::launch): one of `parameters` and `extra` describes what the kernel
    /// takes, the other is null.
    #[inline]
    unsafe fn enqueue(
        &self,
        stream: &Stream,
        shape: &LaunchShape,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Result<()> {
        self.module().context().bind()?;
        let api = self.module().context().api();
        let launched = if shape.is_plain() {
            let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
            // SAFETY: function and stream are live; the driver copies the words during the call.
            // The rest is the caller's promise.
            unsafe {
                api.cuLaunchKernel(
                    self.handle(),
                    gx,
                    gy,
                    gz,
                    bx,
                    by,
                    bz,
                    shape.shared_bytes,
                    stream.handle(),
                    parameters,
                    extra,
                )
            }
        } else {
            shape.describe(stream.handle(), |description| {
                // SAFETY: as above; the description is complete for the duration of the call.
                unsafe { api.cuLaunchKernelEx(description, self.handle(), parameters, extra) }
            })
        };
        launched.map_err(|error| self.explain(shape, error))
    }

    /// The limit that a failed launch was over, if there is one.
    #[cold]
    fn explain(&self, shape: &LaunchShape, error: CudaError) -> CudaError {
        let explicable =
            [Status::INVALID_VALUE, Status::LAUNCH_OUT_OF_RESOURCES, Status::COOPERATIVE_LAUNCH_TOO_LARGE];
        if !error.status().is_some_and(|status| explicable.contains(&status)) {
            return error;
        }
        let over = self.limits(shape).into_iter().find(|(_, given, limit)| given > limit);
        over.map_or(error, |(what, given, limit)| CudaError::LaunchLimit {
            kernel: self.name().to_owned(),
            what,
            given,
            limit,
        })
    }

    /// Every quantity of a launch with its limit.
    fn limits(&self, shape: &LaunchShape) -> [(&'static str, u64, u64); 9] {
        let device = self.module().context().properties();
        let product = |extents: [u32; 3]| {
            extents.iter().fold(1u64, |product, extent| product.saturating_mul((*extent).into()))
        };
        let threads = product(shape.block);
        let threads_limit = device.max_threads_per_block.min(self.attributes().max_threads);
        let shared_limit = self.allowed_shared().unwrap_or(device.shared_per_block_opt_in);
        let axis = |what, given: u32, limit: u32| (what, u64::from(given), u64::from(limit));
        let cooperative = if shape.cooperative {
            let threads = u32::try_from(threads).unwrap_or(u32::MAX);
            let each = self.blocks_per_multiprocessor(threads, shape.shared_bytes).unwrap_or(u32::MAX);
            (
                "blocks of a cooperative grid",
                product(shape.grid),
                u64::from(each) * u64::from(device.multiprocessors),
            )
        } else {
            ("blocks of a cooperative grid", 0, 0)
        };
        [
            axis("grid extent x", shape.grid[0], device.max_grid[0]),
            axis("grid extent y", shape.grid[1], device.max_grid[1]),
            axis("grid extent z", shape.grid[2], device.max_grid[2]),
            ("threads per block", threads, u64::from(threads_limit)),
            axis("block extent x", shape.block[0], device.max_block[0]),
            axis("block extent y", shape.block[1], device.max_block[1]),
            axis("block extent z", shape.block[2], device.max_block[2]),
            axis("dynamic shared memory", shape.shared_bytes, shared_limit),
            cooperative,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::ffi::StreamHandle;

    fn described(shape: LaunchShape) -> Vec<(u32, [u32; 3])> {
        shape.describe(StreamHandle::NULL, |description| {
            assert_eq!((description.grid, description.block), (shape.grid, shape.block));
            assert_eq!(description.shared_bytes, shape.shared_bytes);
            // SAFETY: the attributes live for the duration of the call.
            let attributes = unsafe {
                std::slice::from_raw_parts(description.attributes, description.attribute_count as usize)
            };
            attributes
                .iter()
                .map(|attribute| (attribute.id, [0, 1, 2].map(|at| attribute.value[at])))
                .collect()
        })
    }

    #[test]
    fn attributes_of_a_launch() {
        let plain = LaunchShape::new([7, 5, 3], [33, 2, 1]);
        assert!(plain.is_plain());
        assert_eq!(described(plain), []);
        let clustered = LaunchShape { cluster: Some([2, 1, 1]), shared_bytes: 99, ..plain };
        assert!(!clustered.is_plain());
        assert_eq!(described(clustered), [(4, [2, 1, 1])]);
        let both = LaunchShape { cooperative: true, ..clustered };
        assert_eq!(described(both), [(4, [2, 1, 1]), (2, [1, 0, 0])]);
    }
}
