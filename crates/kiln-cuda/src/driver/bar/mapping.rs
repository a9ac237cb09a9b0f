//! GPU memory that Vulkan has mapped, taken in by CUDA.

use super::memory::Shared;
use crate::driver::error::{CudaError, Result};
use crate::driver::ffi::{self, Api, ExternalMemoryHandle};
use kiln_backend::DevicePtr;

/// GPU memory as Vulkan has mapped and as CUDA has taken it in.
pub(in super::super) struct Mapping {
    handle: ExternalMemoryHandle,
    pub(super) address: DevicePtr,
    pub(super) shared: Shared,
}

impl Mapping {
    /// Takes mapped memory in.
    ///
    /// # Safety
    /// The right context is current.
    pub(super) unsafe fn new(api: &Api, shared: Shared) -> Result<Mapping> {
        let fd = shared.export().map_err(|obstacle| CudaError::Unmappable(Box::new(obstacle)))?;
        let bytes = shared.bytes() as u64;
        let description = ffi::ExternalMemoryDescription {
            kind: ffi::EXTERNAL_OPAQUE_FD,
            handle: ffi::ExternalFd { fd: fd.number(), rest: [0; 3] },
            bytes,
            flags: 0,
            reserved: [0; 16],
        };
        let mut handle = ExternalMemoryHandle::NULL;
        // SAFETY: `handle` is writable, the description is complete.
        unsafe { api.cuImportExternalMemory(&mut handle, &description) }?;
        fd.was_taken();
        let mut mapping = Mapping { handle, address: DevicePtr(0), shared };
        let buffer = ffi::ExternalBufferDescription { offset: 0, bytes, flags: 0, reserved: [0; 16] };
        // SAFETY: the address is writable, the handle live, the description complete and within the
        // memory.
        match unsafe { api.cuExternalMemoryGetMappedBuffer(&mut mapping.address.0, handle, &buffer) } {
            Ok(()) => Ok(mapping),
            Err(error) => {
                // SAFETY: nothing has seen it.
                unsafe { mapping.free(api) };
                Err(error)
            }
        }
    }

    /// Gives it back: CUDA's address, then CUDA's hold, then the memory.
    ///
    /// # Safety
    /// The right context is current, and nothing uses the memory any more.
    pub(in super::super) unsafe fn free(self, api: &Api) {
        // A failure cannot be reported.
        // SAFETY: made in `new`; as the caller promises.
        unsafe {
            if self.address.0 != 0 {
                let _ = api.cuMemFree_v2(self.address.0);
            }
            let _ = api.cuDestroyExternalMemory(self.handle);
        }
        drop(self.shared);
    }
}
