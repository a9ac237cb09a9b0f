//! Kernels that stay, and what must not be freed beside them.
//!
//! Some of the driver's calls wait until the GPU is idle: unloading a module, unpinning host memory, freeing memory that is not of a pool. Beside a kernel
//! that stays they would wait for its end, and they are mostly made by a drop. So while such a kernel is there ([`Context::begin_stay`]), what they would
//! free is kept, and freed when the last one has ended. (`examples/resident_check` shows which calls wait.)

use super::bar::Mapping;
use super::context::Context;
use super::ffi::{Address, Api, ModuleHandle};
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError, RwLock};

/// A kernel of this context stays on the GPU for as long as this lives.
pub struct Stay(Context);

/// Something whose freeing waits for the GPU.
pub(super) enum Garbage {
    /// A module.
    Module(ModuleHandle),
    /// Device memory of no pool.
    Memory(Address),
    /// Pinned host memory.
    Pinned(*mut c_void),
    /// Host memory of somebody else that was pinned.
    Registered(*mut c_void),
    /// GPU memory that the host writes.
    Bar(Mapping),
}

// SAFETY: names that only the driver dereferences; each is freed once, by whoever takes it out of the list.
unsafe impl Send for Garbage {}

impl Garbage {
    /// # Safety
    /// The right context is current, and nothing uses it any more.
    unsafe fn free(self, api: &Api) {
        // A failure has nobody to report to.
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

/// The kernels that stay in a context, and what is kept for their sake.
#[derive(Default)]
pub(super) struct Stays {
    /// How many. Whoever frees holds it for reading, so that no kernel comes to stay meanwhile.
    count: RwLock<usize>,
    kept: Mutex<Vec<Garbage>>,
}

impl Stays {
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

    fn take_kept(&self) -> Vec<Garbage> {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Context {
    /// Announces a kernel that stays: to be called before its launch. What the driver would free only after its end is kept until the last [`Stay`] drops.
    pub fn begin_stay(&self) -> Stay {
        // A number and a list whose changes are whole or not at all, here and below: a panic elsewhere leaves them usable.
        *self.stays().count.write().unwrap_or_else(PoisonError::into_inner) += 1;
        Stay(self.clone())
    }

    /// Whether a kernel stays.
    pub fn has_stays(&self) -> bool {
        *self.stays().count.read().unwrap_or_else(PoisonError::into_inner) > 0
    }

    /// Frees now, or after the last kernel that stays.
    ///
    /// # Safety
    /// Nothing uses it any more.
    pub(super) unsafe fn release(&self, garbage: Garbage) {
        let stays = self.stays();
        let count = stays.count.read().unwrap_or_else(PoisonError::into_inner);
        if *count > 0 {
            stays.kept.lock().unwrap_or_else(PoisonError::into_inner).push(garbage);
        } else if self.bind().is_ok() {
            // SAFETY: the context is current; the rest is the caller's promise.
            unsafe { garbage.free(self.api()) };
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        let stays = self.0.stays();
        let kept = {
            let mut count = stays.count.write().unwrap_or_else(PoisonError::into_inner);
            *count -= 1;
            if *count == 0 { stays.take_kept() } else { Vec::new() }
        };
        for garbage in kept {
            // SAFETY: its owner gave it up.
            unsafe { self.0.release(garbage) };
        }
    }
}
