//! Pinned host memory: the device copies from it without staging, and kernels can access it.

use super::context::Context;
use super::error::{CudaError, Result};
use super::ffi;
use super::garbage::Garbage;
use super::range::check_range;
use kiln_backend::DevicePtr;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};

/// Pinned, zeroed host memory that is mapped into the device's address space. It is unpinned on
/// drop, which waits for copies in flight; beside a resident kernel ([`Context::begin_resident`]),
/// when that has ended.
///
/// A copy or a kernel that uses it without waiting is started by an unsafe call, whose contract
/// keeps the host away until it is done.
pub struct PinnedBuffer {
    context: Context,
    host: NonNull<u8>,
    device: DevicePtr,
    bytes: usize,
    /// Whether the memory is its own.
    owned: bool,
}

// SAFETY: the buffer owns its memory; what the host does with it follows Rust's rules for `&` and
// `&mut`, as for a `Box<[u8]>`.
unsafe impl Send for PinnedBuffer {}
// SAFETY: as above.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    /// Allocates `bytes` zero bytes.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`] where the system cannot pin that much.
    pub fn new(context: &Context, bytes: usize) -> Result<PinnedBuffer> {
        context.bind()?;
        let api = context.api();
        let mut host = null_mut::<c_void>();
        // The driver refuses an empty allocation.
        let room = bytes.max(1);
        // SAFETY: `host` is writable.
        unsafe { api.cuMemHostAlloc(&mut host, room, ffi::HOST_PORTABLE | ffi::HOST_MAPPED) }
            .map_err(|error| context.explain_allocation("pinned host memory", bytes, error))?;
        let host = NonNull::new(host.cast::<u8>()).ok_or(CudaError::Call {
            call: "cuMemHostAlloc",
            code: 0,
            name: "CUDA_SUCCESS",
            description: "success without memory",
        })?;
        let mut buffer =
            PinnedBuffer { context: context.clone(), host, device: DevicePtr(0), bytes, owned: true };
        // SAFETY: `host` is what was allocated, `room` bytes long.
        unsafe {
            host.write_bytes(0, room);
            api.cuMemHostGetDevicePointer_v2(&mut buffer.device.0, host.as_ptr().cast(), 0)?;
        }
        Ok(buffer)
    }

    /// Pins memory of another owner.
    ///
    /// # Errors
    /// Those of the calls.
    ///
    /// # Safety
    /// `host` points to that many bytes of whole pages, initialized, which live until the buffer is
    /// dropped, or, where a kernel is resident then, until it has ended. There is no reference to
    /// them.
    pub unsafe fn register(context: &Context, host: NonNull<u8>, bytes: usize) -> Result<PinnedBuffer> {
        context.bind()?;
        let (api, address) = (context.api(), host.as_ptr().cast());
        // SAFETY: as the caller promises.
        unsafe { api.cuMemHostRegister_v2(address, bytes, ffi::HOST_PORTABLE | ffi::HOST_MAPPED) }?;
        let mut buffer =
            PinnedBuffer { context: context.clone(), host, device: DevicePtr(0), bytes, owned: false };
        // SAFETY: just registered.
        unsafe { api.cuMemHostGetDevicePointer_v2(&mut buffer.device.0, address, 0)? };
        Ok(buffer)
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The address under which kernels see it.
    pub fn device_pointer(&self) -> DevicePtr {
        self.device
    }

    /// The address under which the host sees it.
    pub fn host_pointer(&self) -> NonNull<u8> {
        self.host
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: allocated, initialized, and not written by the device while the host may look:
        // see the type.
        unsafe { std::slice::from_raw_parts(self.host.as_ptr(), self.bytes) }
    }

    /// The bytes, to write.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and neither read nor written by the device.
        unsafe { std::slice::from_raw_parts_mut(self.host.as_ptr(), self.bytes) }
    }

    /// The host address of a part that is inside the buffer.
    pub(super) fn part(&self, part: &Range<usize>) -> Result<*mut u8> {
        check_range(part.start, part.len(), self.bytes)?;
        // SAFETY: checked to be inside the allocation.
        Ok(unsafe { self.host.as_ptr().add(part.start) })
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        let address = self.host.as_ptr().cast();
        let garbage = if self.owned { Garbage::Pinned(address) } else { Garbage::Registered(address) };
        // SAFETY: made by `new` or `register`, given up here alone.
        unsafe { self.context.release(garbage) };
    }
}
