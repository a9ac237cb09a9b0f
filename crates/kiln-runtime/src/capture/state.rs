//! Which device's calls this thread records into a graph, instead of making them.
//!
//! This alone is asked by all that cannot be recorded; what is recorded is in `recording.rs`.

use std::cell::Cell;

thread_local! {
    /// The identity of the device, or none.
    static CAPTURING: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Whether this thread captures a graph, of whatever device.
#[inline]
pub(crate) fn is_on() -> bool {
    CAPTURING.try_with(Cell::get).ok().flatten().is_some()
}

/// Whether this thread captures a graph of the device of this identity.
#[inline]
pub(crate) fn is_on_device(identity: usize) -> bool {
    CAPTURING.try_with(Cell::get).ok().flatten() == Some(identity)
}

/// As long as this is there, this thread captures.
pub(crate) struct Capturing(());

impl Capturing {
    /// Begins, unless this thread captures already.
    pub(crate) fn begin(identity: usize) -> Option<Capturing> {
        if is_on() {
            return None;
        }
        CAPTURING.try_with(|capturing| capturing.set(Some(identity))).ok()?;
        Some(Capturing(()))
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        let _ = CAPTURING.try_with(|capturing| capturing.set(None));
    }
}
