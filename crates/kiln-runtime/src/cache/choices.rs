//! Choices that were measured: which of several ways to do something was the fastest on a device,
//! kept for the process and on disk.
//!
//! A choice belongs to a question, which is a text: what is done, of which types, in which class of
//! shapes. On disk it also belongs to the device's name and size, to its driver and compiler, and
//! to Kiln's version: a file of anything else, and a damaged one, count as absent.

use super::disk::DiskCache;
use crate::device::Device;
use kiln_backend::{Artifacts, Properties};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The choices that are known for one device.
#[derive(Default)]
pub(crate) struct Choices {
    /// By question; `None` for one that the disk was asked in vain.
    known: Mutex<HashMap<String, Option<String>>>,
    measuring: Mutex<()>,
}

impl Choices {
    fn known(&self) -> MutexGuard<'_, HashMap<String, Option<String>>> {
        // Changed by insertions only.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device {
    /// The choice that was kept for a question, by this process or, in the disk cache, by another.
    ///
    /// ```
    /// use kiln_runtime::{Device, DiskCache};
    ///
    /// let folder = std::env::temp_dir().join(format!("kiln-doc-choices-{}", std::process::id()));
    /// let open = || Device::with_backend(Box::new(kiln_cpu::CpuBackend::new()), DiskCache::at(&folder));
    /// let first = open();
    /// assert_eq!(first.choice("how to add"), None);
    /// first.keep_choice("how to add", "by fours");
    /// // As in another process.
    /// assert_eq!(open().choice("how to add").as_deref(), Some("by fours"));
    /// # std::fs::remove_dir_all(folder).ok();
    /// ```
    pub fn choice(&self, question: &str) -> Option<String> {
        if let Some(known) = self.choices().known().get(question) {
            return known.clone();
        }
        let header = header(self, question);
        let found = self.disk_cache().load_choice(&DiskCache::key(&[header.as_bytes()]));
        let found = found.and_then(|text| text.strip_prefix(&header).map(str::to_owned));
        self.choices().known().entry(question.to_owned()).or_insert(found).clone()
    }

    /// Keeps a choice, in place of one there may be. Where the disk does not take it, it is kept in
    /// this process alone.
    pub fn keep_choice(&self, question: &str, choice: &str) {
        let header = header(self, question);
        self.disk_cache().store_choice(&DiskCache::key(&[header.as_bytes()]), &format!("{header}{choice}"));
        self.choices().known().insert(question.to_owned(), Some(choice.to_owned()));
    }

    /// Held while something is measured on the device: two measurements would disturb each other.
    pub fn measuring(&self) -> MutexGuard<'_, ()> {
        // It guards nothing that could be left half-done.
        self.choices().measuring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a file begins with: everything that a choice belongs to.
fn header(device: &Device, question: &str) -> String {
    let Properties { name, units, driver, .. } = device.properties();
    let compiler = device.backend().artifacts().map_or_else(String::new, Artifacts::artifact_key);
    let [name, driver, compiler, question] =
        [name, driver, &compiler, question].map(|text| text.replace('\n', " "));
    let version = env!("CARGO_PKG_VERSION");
    format!("Kiln {version}\n{name}, {units} units\n{driver}\n{compiler}\n{question}\n")
}
