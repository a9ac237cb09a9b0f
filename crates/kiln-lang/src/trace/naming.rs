//! Names of the user's for values, recorded for a debugger.
//!
//! `flow/naming.rs` finds them.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether names are recorded.
static RECORDED: AtomicBool = AtomicBool::new(false);

/// Sets whether kernels that are traced from now on have the names that the user gave to values
/// ([`Kernel::names`](kiln_ir::Kernel::names)), as a debugger needs. Variables then live until the
/// end of their scope, so that the IR is another one. A process does not by itself.
///
/// ```
/// use kiln_lang::{Level, record_names, trace};
/// record_names(true);
/// let kernel = trace("k", Level::Tile { warps: None }, |_| {})?;
/// assert!(kernel.names.is_empty());
/// record_names(false);
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
pub fn record_names(on: bool) {
    RECORDED.store(on, Ordering::Relaxed);
}

/// Whether names are recorded.
pub(crate) fn records_names() -> bool {
    RECORDED.load(Ordering::Relaxed)
}
