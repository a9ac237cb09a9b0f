//! Where a panic of a kernel's happened.
//!
//! Catching a panic gives its message but not its line, which only the panic hook sees. The hook
//! here notes the line if the thread is tracing, and then does what the hook before it does.

use super::recorder::with;
use std::cell::RefCell;
use std::panic::{set_hook, take_hook};
use std::sync::Once;

/// File, line and column.
type Line = (String, u32, u32);

thread_local! {
    static LAST: RefCell<Option<Line>> = const { RefCell::new(None) };
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
            if with(|_| ()).is_some()
                && let Some(at) = info.location()
            {
                let line = (at.file().to_owned(), at.line(), at.column());
                // The thread may be ending, and its locals gone.
                let _ = LAST.try_with(|last| last.try_borrow_mut().map(|mut last| *last = Some(line)));
            }
            before(info);
        }));
    });
    take();
}

/// The line of the last panic on this thread while it traced.
pub(super) fn take() -> Option<Line> {
    LAST.with(|last| last.take())
}
