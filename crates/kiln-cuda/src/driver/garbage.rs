//! What cannot be freed while a kernel is resident on the GPU, kept until the last one has ended;
//! see [`Context::begin_resident`](super::Context::begin_resident).

use super::bar::Mapping;
use super::ffi::{Address, Api, ModuleHandle};
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError, RwLock};

/// Something whose freeing waits for the GPU.
pub(super) enum Garbage {
    /// A module.
    Module(ModuleHandle),
    /// Device memory of no pool.
    Memory(Address),
    /// Pinned host memory.
    Pinned(*mut c_void),
    /// Host memory of another owner that was pinned.
    Registered(*mut c_void),
    /// GPU memory that the host writes.
    Bar(Mapping),
}

// SAFETY: names that only the driver dereferences; each is freed once, by the thread that takes it
// out of the list.
unsafe impl Send for Garbage {}

impl Garbage {
    /// # Safety
    /// The right context is current, and nothing uses it any more.
    pub(super) unsafe fn free(self, api: &Api) {
        // A failure cannot be reported.
        // SAFETY: as the caller promises.
        let _ = unsafe {
            match self {
                Garbage::Module(handle) => api.cuModuleUnload(handle),
                Garbage::Memory(address) => api.cuMemFree_v2(address),
                Garbage::Pinned(address) => api.cuMemFreeHost(address),
                Garbage::Registered(address) => api.cuMemHostUnregister(address),
                Garbage::Bar(mapping) => {
                    mapping.free(api);
                    Ok(())
                }
            }
        };
    }
}

/// The resident kernels of a context, and what is kept for their sake.
#[derive(Default)]
pub(super) struct ResidentKernels {
    /// How many. A thread that frees holds it for reading, so that no resident kernel begins
    /// meanwhile.
    pub(super) count: RwLock<usize>,
    pub(super) kept: Mutex<Vec<Garbage>>,
}

impl ResidentKernels {
    /// Frees what is kept. There are no kernels.
    ///
    /// # Safety
    /// The right context is current.
    pub(super) unsafe fn clear(&mut self, api: &Api) {
        let kept = self.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
        for garbage in kept.drain(..) {
            // SAFETY: the caller's promise; its owner gave it up.
            unsafe { garbage.free(api) };
        }
    }

    /// Takes out what is kept.
    pub(super) fn take_kept(&self) -> Vec<Garbage> {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
