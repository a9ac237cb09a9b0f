//! Choices that were measured: which of several ways to do something was the fastest on a device,
//! kept for the process and on disk.
//!
//! A choice belongs to a question, which is a text: what is done, of which types, in which class of
//! shapes. On disk it also belongs to the device's name and size, to its driver and compiler, and
//! to Kiln's version: a file of anything else, and a damaged one, count as absent.

use super::disk::DiskCache;
use kiln_backend::{Artifacts, Backend, Properties};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The choices that are known for one device.
#[derive(Default)]
pub(crate) struct Choices {
    /// By question; `None` for one that the disk was asked in vain.
    known: Mutex<HashMap<String, Option<String>>>,
    /// How many were kept by this process.
    kept: AtomicU64,
    /// Candidates that a [`Tune`](crate::Tune) settled on in this process, by all that identifies
    /// the call but for its kernels.
    settled: Mutex<HashMap<String, usize>>,
    measuring: Mutex<()>,
}

thread_local! {
    /// Whether this thread measures, on whatever device.
    static MEASURES: Cell<bool> = const { Cell::new(false) };
}

/// Held while something is measured on a device.
///
/// ```
/// use kiln_runtime::{Device, Measuring};
/// let device = Device::open("interp")?;
/// let first: Option<Measuring<'_>> = device.measuring();
/// assert!(first.is_some() && device.measuring().is_none());
/// drop(first);
/// assert!(device.measuring().is_some());
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub struct Measuring<'a> {
    _alone: MutexGuard<'a, ()>,
}

impl Drop for Measuring<'_> {
    fn drop(&mut self) {
        let _ = MEASURES.try_with(|measures| measures.set(false));
    }
}

impl Choices {
    /// The choice that was kept for a question, by this process or, on disk, by another.
    pub(crate) fn get(&self, backend: &dyn Backend, disk: &DiskCache, question: &str) -> Option<String> {
        if let Some(known) = self.known().get(question) {
            return known.clone();
        }
        let header = header(backend, question);
        let found = disk.load_choice(&DiskCache::key(&[header.as_bytes()]));
        let found = found.and_then(|text| text.strip_prefix(&header).map(str::to_owned));
        self.known().entry(question.to_owned()).or_insert(found).clone()
    }

    /// Keeps a choice, in place of one there may be.
    pub(crate) fn keep(&self, backend: &dyn Backend, disk: &DiskCache, question: &str, choice: &str) {
        let header = header(backend, question);
        disk.store_choice(&DiskCache::key(&[header.as_bytes()]), &format!("{header}{choice}"));
        self.known().insert(question.to_owned(), Some(choice.to_owned()));
        // After the insertion: who sees the new number finds the new choice.
        self.kept.fetch_add(1, Ordering::Release);
    }

    /// A number that differs after a choice was kept.
    pub(crate) fn revision(&self) -> u64 {
        self.kept.load(Ordering::Acquire)
    }

    /// Waits for other threads' measurements. `None` if this thread measures already, in whose
    /// middle nothing else can be measured.
    pub(crate) fn measuring(&self) -> Option<Measuring<'_>> {
        if MEASURES.get() {
            return None;
        }
        // It protects nothing that could be left half-done.
        let alone = self.measuring.lock().unwrap_or_else(PoisonError::into_inner);
        MEASURES.set(true);
        Some(Measuring { _alone: alone })
    }

    /// The candidate that this process has settled on.
    pub(crate) fn settled(&self, call: &str) -> Option<usize> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).get(call).copied()
    }

    /// Settles on a candidate.
    pub(crate) fn settle(&self, call: String, candidate: usize) {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).insert(call, candidate);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Option<String>>> {
        // Changed by insertions only.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a file begins with: everything that a choice belongs to.
fn header(backend: &dyn Backend, question: &str) -> String {
    let Properties { name, units, driver, .. } = backend.properties();
    let compiler = backend.artifacts().map_or_else(String::new, Artifacts::artifact_key);
    let [name, driver, compiler, question] =
        [name, driver, &compiler, question].map(|text| text.replace('\n', " "));
    let version = env!("CARGO_PKG_VERSION");
    format!("Kiln {version}\n{name}, {units} units\n{driver}\n{compiler}\n{question}\n")
}
