//! Running a kernel once, to record it.

use super::error::{TraceError, TraceErrors};
use super::panics;
use super::promote::promote;
use super::recorder::{Recorder, install, records, with};
use super::site::SourceLocation;
use kiln_ir::{Kernel, Level};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Ends a trace whose errors leave no value to go on with. Unwinds without a panic message.
pub(crate) fn abort() -> ! {
    resume_unwind(Box::new(Aborted))
}

struct Aborted;

/// Calls `f`; whether it ended by itself, and not the trace.
pub(crate) fn unless_aborted(f: &mut dyn FnMut()) -> bool {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(()) => true,
        Err(payload) if payload.is::<Aborted>() => false,
        Err(payload) => resume_unwind(payload),
    }
}

/// The message and the help where a function that never returns ends more than its own path.
pub(crate) const NEVER_RETURNS: (&str, &str) = (
    "a function that never returns is called under a device condition",
    "let it return a value after its loop, or write the loop where the function is called",
);

/// The name of the kernel that this thread traces at the moment.
///
/// ```
/// use kiln_lang::{Level, trace, traced_now};
/// assert_eq!(traced_now(), None);
/// trace("k", Level::Tile { warps: None }, |_| assert_eq!(traced_now().as_deref(), Some("k")))?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[inline]
pub fn traced_now() -> Option<String> {
    if records() { name() } else { None }
}

fn name() -> Option<String> {
    with(|r| r.name.clone())
}

/// Records what `body` does, a function that stands at `caller`. Calls `body` once. Not generic,
/// because every kernel of a program would have a copy.
pub(crate) fn trace_at(
    name: &str,
    caller: SourceLocation,
    level: Level,
    body: &mut dyn FnMut(),
) -> Result<Kernel, TraceErrors> {
    panics::watch();
    let outer = install(Some(Recorder::new(name, caller, level)));
    let ended = catch_unwind(AssertUnwindSafe(body));
    let recorder = install(outer);
    let Some(mut recorder) = recorder else {
        return Err(TraceErrors::new(name.to_owned(), vec![internal(caller, "the trace was lost")]));
    };
    let aborted = ended.as_ref().is_err_and(|payload| payload.is::<Aborted>());
    if let Err(payload) = ended
        && !payload.is::<Aborted>()
    {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("of unknown cause");
        let place = panics::take();
        let conditional = place.as_ref().is_some_and(|at| at.conditional);
        recorder.panicked(place.map(|at| (at.file, at.line, at.column)), conditional, text);
    }
    if recorder.errors.is_empty() && aborted && !recorder.is_dead() {
        recorder.error_at(caller, NEVER_RETURNS.0, NEVER_RETURNS.1);
    }
    if recorder.errors.is_empty() && recorder.regions.len() != 1 {
        recorder.errors.push(internal(caller, "a region was left open"));
    }
    for warning in recorder.warnings() {
        eprintln!("warning: {warning}");
    }
    if recorder.errors.is_empty() {
        return Ok(promote(recorder));
    }
    Err(TraceErrors::new(recorder.name, recorder.errors))
}

fn internal(caller: SourceLocation, what: &str) -> TraceError {
    TraceError {
        file: caller.file.to_owned(),
        line: caller.line,
        column: caller.column,
        message: format!("internal error: {what}"),
        help: "please report it".to_owned(),
    }
}
