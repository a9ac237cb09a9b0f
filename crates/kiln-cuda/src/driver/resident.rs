//! Resident kernels, and what must not be freed beside them.
//!
//! Some of the driver's calls wait until the GPU is idle: unloading a module, unpinning host
//! memory, freeing memory that is not of a pool. Beside a resident kernel they would wait for its
//! end, and they are mostly made by a drop. So while there is one ([`Context::begin_resident`]),
//! what they would free is kept, and freed when the last one has ended. (`examples/resident_check`
//! shows which calls wait.)

use super::context::Context;
use super::garbage::Garbage;
use std::sync::PoisonError;

/// Says that a kernel of this context is resident on the GPU for as long as this lives.
pub struct ResidentGuard(Context);

impl Context {
    /// Announces a resident kernel: to be called before its launch. What the driver would free
    /// only after its end is kept until the last [`ResidentGuard`] drops.
    pub fn begin_resident(&self) -> ResidentGuard {
        // A number and a list whose changes are whole or not at all, here and below: a panic
        // elsewhere leaves them usable.
        *self.residents().count.write().unwrap_or_else(PoisonError::into_inner) += 1;
        ResidentGuard(self.clone())
    }

    /// Whether a kernel is resident.
    pub fn has_resident(&self) -> bool {
        *self.residents().count.read().unwrap_or_else(PoisonError::into_inner) > 0
    }

    /// Frees now, or after the last resident kernel.
    ///
    /// # Safety
    /// Nothing uses it any more.
    pub(super) unsafe fn release(&self, garbage: Garbage) {
        let residents = self.residents();
        let count = residents.count.read().unwrap_or_else(PoisonError::into_inner);
        if *count > 0 {
            residents.kept.lock().unwrap_or_else(PoisonError::into_inner).push(garbage);
        } else if self.bind().is_ok() {
            // SAFETY: the context is current; the rest is the caller's promise.
            unsafe { garbage.free(self.api()) };
        }
    }
}

impl Drop for ResidentGuard {
    fn drop(&mut self) {
        let residents = self.0.residents();
        let kept = {
            let mut count = residents.count.write().unwrap_or_else(PoisonError::into_inner);
            *count -= 1;
            if *count == 0 { residents.take_kept() } else { Vec::new() }
        };
        for garbage in kept {
            // SAFETY: its owner gave it up.
            unsafe { self.0.release(garbage) };
        }
    }
}
