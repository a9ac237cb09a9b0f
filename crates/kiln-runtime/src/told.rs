//! The faults that waits have told: for those who share a device and were not told themselves.

use crate::error::{Error, Result};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many faults waits have told, and the last one.
#[derive(Default)]
pub(crate) struct Told(Mutex<Option<(u64, Error)>>);

impl Told {
    pub(crate) fn last(&self) -> Option<(u64, Error)> {
        self.lock().clone()
    }

    /// What a wait gave. If that is a fault, it is remembered.
    pub(crate) fn noted<T>(&self, outcome: kiln_backend::Result<T>) -> Result<T> {
        outcome.map_err(|error| {
            let error = Error::from(error);
            if error.fault().is_some() {
                let mut told = self.lock();
                let before = told.as_ref().map_or(0, |(count, _)| *count);
                *told = Some((before + 1, error.clone()));
            }
            error
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<(u64, Error)>> {
        // Replaced as a whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
