//! What wgpu reports asynchronously: errors, the loss of the device, submissions that are done.

use kiln_backend::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Filled by wgpu's callbacks, and asked at every call.
#[derive(Default)]
pub(crate) struct Status {
    /// Whether there is a loss or an error, so that calls need not lock where there is none.
    troubled: AtomicBool,
    /// Why the device was lost.
    lost: Mutex<Option<String>>,
    /// The first error that no scope caught and no call has reported.
    error: Mutex<Option<Error>>,
    /// The greatest number of a submission that is done.
    done: AtomicU64,
}

impl Status {
    /// Says that the device was lost. The first reason stays.
    pub(crate) fn lose(&self, reason: String) {
        lock(&self.lost).get_or_insert(reason);
        self.troubled.store(true, Ordering::Release);
    }

    /// Keeps an error until [`check`](Self::check) gives it, unless an earlier one waits.
    pub(crate) fn keep(&self, error: Error) {
        lock(&self.error).get_or_insert(error);
        self.troubled.store(true, Ordering::Release);
    }

    /// An error where the device was lost, or where an earlier call failed later on.
    pub(crate) fn check(&self, device: &str) -> Result<()> {
        if !self.troubled.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some(reason) = lock(&self.lost).clone() {
            return Err(Error::Lost { device: device.to_owned(), reason });
        }
        match lock(&self.error).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Says that a submission is done, and with it all before it.
    pub(crate) fn finish(&self, submission: u64) {
        self.done.fetch_max(submission, Ordering::Release);
    }

    /// The greatest number of a submission that is done.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }
}

fn lock<T>(mutex: &Mutex<Option<T>>) -> MutexGuard<'_, Option<T>> {
    // One assignment while it is locked: a panic elsewhere leaves nothing half-done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Error {
        Error::Driver { call: "submit".into(), code: "validation".into(), message: "too long".into() }
    }

    #[test]
    fn an_error_is_told_once_and_a_loss_always() {
        let status = Status::default();
        assert!(status.check("wgpu:0").is_ok());
        status.keep(refused());
        assert!(matches!(status.check("wgpu:0"), Err(Error::Driver { .. })));
        assert!(status.check("wgpu:0").is_ok());
        status.lose("unplugged".into());
        status.lose("again".into());
        for _ in 0..2 {
            let error = status.check("wgpu:0").unwrap_err();
            assert_eq!(error.to_string(), "wgpu:0 was lost: unplugged");
        }
    }

    #[test]
    fn submissions_are_done_in_order() {
        let status = Status::default();
        [3, 1, 2].into_iter().for_each(|submission| status.finish(submission));
        assert_eq!(status.done(), 3);
    }
}
