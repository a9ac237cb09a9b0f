//! Where a panic of a kernel's happened.
//!
//! Catching a panic gives its message but not its line, which only the panic hook sees. The hook
//! here notes the line if the thread is tracing, and then does what the hook before it does.

use super::recorder::with;
use std::cell::RefCell;
use std::panic::{set_hook, take_hook};
use std::sync::Once;

/// Where a panic happened.
pub(super) struct PanicPlace {
    pub file: String,
    pub line: u32,
    pub column: u32,
    /// Whether it stood under a condition of the device.
    pub conditional: bool,
}

thread_local! {
    static LAST: RefCell<Option<PanicPlace>> = const { RefCell::new(None) };
}

/// Sees to it that panics on threads that trace leave their line behind. A hook that the program
/// sets later replaces this one; then the line is that of the kernel's function.
pub(super) fn watch() {
    static INSTALLED: Once = Once::new();
    // The hook cannot be changed by a thread that unwinds; the next trace will do it.
    if std::thread::panicking() {
        return;
    }
    INSTALLED.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if let Some(conditional) = with(|r| r.in_device_flow())
                && let Some(at) = info.location()
            {
                let (file, line, column) = (at.file().to_owned(), at.line(), at.column());
                let place = PanicPlace { file, line, column, conditional };
                // The thread may be ending, and its locals gone.
                let _ = LAST.try_with(|last| last.try_borrow_mut().map(|mut last| *last = Some(place)));
            }
            before(info);
        }));
    });
    take();
}

/// The line of the last panic on this thread while it traced.
pub(super) fn take() -> Option<PanicPlace> {
    LAST.with(|last| last.take())
}
