//! Where device prints go, and what a sink may do there.

use crate::{Error, Result};
use std::any::Any;
use std::cell::Cell;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Where the output of device prints goes, a line at a time.
///
/// A sink is called by any thread in the middle of a call of the device: while a kernel runs, or
/// while a synchronization collects what was printed. It hands the line over, to a channel or a
/// file, and does not use devices: that is [`Error::InsidePrintSink`]. Where it panics, the kernel
/// goes on, and the next synchronization is [`Error::PrintSink`].
pub type PrintSink = Arc<dyn Fn(&str) + Send + Sync>;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside a print sink, so that calls of devices might wait for themselves.
///
/// ```
/// use kiln_backend::{Prints, is_printing};
///
/// let prints = Prints::default();
/// prints.set(std::sync::Arc::new(|_| assert!(is_printing())));
/// prints.line("a line");
/// assert!(prints.outcome("cpu").is_ok() && !is_printing());
/// ```
#[inline]
pub fn is_printing() -> bool {
    INSIDE.get()
}

/// The print sink of a device; standard output at first, where a closed pipe is ignored.
///
/// ```
/// use kiln_backend::{Error, Prints};
/// use std::sync::{Arc, Mutex};
///
/// let (prints, lines) = (Prints::default(), Arc::new(Mutex::new(Vec::new())));
/// let kept = lines.clone();
/// prints.set(Arc::new(move |line| kept.lock().unwrap().push(line.to_owned())));
/// prints.line("row 0");
/// assert_eq!(*lines.lock().unwrap(), ["row 0"]);
///
/// prints.set(Arc::new(|line| panic!("no room for `{line}`")));
/// prints.line("row 1");
/// let error = prints.outcome("cpu").unwrap_err();
/// assert!(matches!(error, Error::PrintSink { message, .. } if message == "no room for `row 1`"));
/// assert!(prints.outcome("cpu").is_ok(), "it is reported once");
/// ```
pub struct Prints {
    sink: RwLock<PrintSink>,
    /// The message of the first panic that was not reported yet.
    panicked: Mutex<Option<String>>,
}

impl Default for Prints {
    fn default() -> Prints {
        Prints { sink: RwLock::new(Arc::new(to_standard_output)), panicked: Mutex::default() }
    }
}

impl Prints {
    /// Sends lines to another sink from now on.
    pub fn set(&self, sink: PrintSink) {
        // One assignment, here and below, so that a panic elsewhere leaves nothing half-done. The
        // old sink drops outside the lock.
        let old = std::mem::replace(&mut *self.sink.write().unwrap_or_else(PoisonError::into_inner), sink);
        drop(old);
    }

    /// Hands a line to the sink. Never unwinds: the caller may be generated code.
    pub fn line(&self, line: &str) {
        let sink = self.sink.read().unwrap_or_else(PoisonError::into_inner).clone();
        let before = INSIDE.replace(true);
        // The sink is moved in: where this was the last handle to it, it drops there.
        let outcome = catch_unwind(AssertUnwindSafe(move || sink(line)));
        INSIDE.set(before);
        if let Err(payload) = outcome {
            let message = words(payload);
            self.panicked.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(message);
        }
    }

    /// Reports once that the sink panicked.
    ///
    /// # Errors
    /// [`Error::PrintSink`] with the message of the first panic since the last report; `device` is
    /// the name that it gives.
    pub fn outcome(&self, device: &str) -> Result<()> {
        match self.panicked.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(message) => Err(Error::PrintSink { device: device.to_owned(), message }),
            None => Ok(()),
        }
    }
}

/// Prints a line. Where the reader has gone (`prog | head -1`), the line is dropped without an
/// error.
fn to_standard_output(line: &str) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// The message of a panic.
fn words(payload: Box<dyn Any + Send>) -> String {
    let payload = match payload.downcast::<String>() {
        Ok(text) => return *text,
        Err(payload) => payload,
    };
    match payload.downcast::<&str>() {
        Ok(text) => (*text).to_owned(),
        Err(payload) => {
            // A value of the user's, whose drop may panic again.
            std::mem::forget(payload);
            "a panic without a message".to_owned()
        }
    }
}
