//! Kernels that stay, and what must not be freed beside them.
//!
//! Some of the driver's calls wait until the GPU is idle: unloading a module, unpinning host
//! memory, freeing memory that is not of a pool. Beside a kernel that stays they would wait for its
//! end, and they are mostly made by a drop. So while such a kernel is there
//! ([`Context::begin_stay`]), what they would free is kept, and freed when the last one has ended.
//! (`examples/resident_check` shows which calls wait.)

use super::context::Context;
use super::garbage::Garbage;
use std::sync::PoisonError;

/// A kernel of this context stays on the GPU for as long as this lives.
pub struct Stay(Context);

impl Context {
    /// Announces a kernel that stays: to be called before its launch. What the driver would free
    /// only after its end is kept until the last [`Stay`] drops.
    pub fn begin_stay(&self) -> Stay {
        // A number and a list whose changes are whole or not at all, here and below: a panic
        // elsewhere leaves them usable.
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
