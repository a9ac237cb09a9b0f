//! Which device's calls this thread records into a graph, or compiles for, instead of making them.
//!
//! This alone is asked by all that cannot be recorded; what is recorded is in `recording.rs`.

use std::cell::Cell;

/// What becomes of calls instead.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They become the nodes of a graph.
    Record,
    /// The kernels of launches are compiled; nothing else becomes of them.
    Precompile,
    /// They become the commands of a list, whose tensors have no memory.
    Commands,
}

thread_local! {
    /// The identity of the device, or none.
    static CAPTURING: Cell<Option<(usize, Mode)>> = const { Cell::new(None) };
}

#[inline]
fn now() -> Option<(usize, Mode)> {
    CAPTURING.try_with(Cell::get).ok().flatten()
}

/// Whether this thread captures a graph, of whatever device.
#[inline]
pub(crate) fn is_on() -> bool {
    now().is_some()
}

/// Whether this thread captures a graph of the device of this identity, or compiles for it.
#[inline]
pub(crate) fn is_on_device(identity: usize) -> bool {
    mode(identity).is_some()
}

/// What becomes of this thread's calls of the device of this identity, if they are not made.
#[inline]
pub(crate) fn mode(identity: usize) -> Option<Mode> {
    now().filter(|(of, _)| *of == identity).map(|(_, mode)| mode)
}

/// Whether this thread compiles what it would launch, for whatever device.
#[inline]
pub(crate) fn is_precompiling() -> bool {
    now().is_some_and(|(_, mode)| mode == Mode::Precompile)
}

/// Whether tensors that this thread makes on the device of this identity have no memory.
#[inline]
pub(crate) fn is_hollow(identity: usize) -> bool {
    matches!(mode(identity), Some(Mode::Precompile | Mode::Commands))
}

/// As long as this is there, this thread captures.
pub(crate) struct Capturing(());

impl Capturing {
    /// Begins, unless this thread captures already.
    pub(crate) fn begin(identity: usize, mode: Mode) -> Option<Capturing> {
        if is_on() {
            return None;
        }
        CAPTURING.try_with(|capturing| capturing.set(Some((identity, mode)))).ok()?;
        Some(Capturing(()))
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        let _ = CAPTURING.try_with(|capturing| capturing.set(None));
    }
}
