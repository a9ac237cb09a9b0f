//! The passes of the optimizer, in the order in which they run. Fault regions are lowered before
//! any other pass sees the kernel (`fault_region`).

use crate::error::CompileError;
use crate::fault_region;
use crate::opt::{cse, dce, if_convert, invariant, licm, range, simplify};
use kiln_ir::{Kernel, verify};

/// A pass: changes the kernel, and says whether it did.
type Run = fn(&mut Kernel) -> bool;

/// The passes in the order in which they run.
pub const PASSES: [(&str, Run); 8] = [
    ("fault_region", fault_region::run),
    ("simplify", simplify::run),
    ("invariant", invariant::run),
    ("if-convert", if_convert::run),
    ("cse", cse::run),
    ("licm", licm::run),
    ("range", range::run),
    ("dce", dce::run),
];

/// How often the passes run at most. Kernels settle after two or three rounds; this bounds compile
/// time.
const ROUNDS: usize = 6;

/// Runs all passes until nothing changes.
///
/// ```
/// let text = "kernel @k(%y: mut view<i64, 1, global>) tile {\n  \
///             %0 = const 2 : i64\n  %1 = const 3 : i64\n  \
///             %2 = add %0, %1 : i64\n  %3 = broadcast %2 : i64[4]\n  store %y[%2] = %3\n}\n";
/// let mut kernel = kiln_ir::parse(text)?;
/// kiln_compiler::optimize(&mut kernel)?;
/// assert!(kernel.to_string().contains("%1 = const 5 : i64[4]\n  store %y[%0] = %1\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A pass broke the kernel, which is a bug in the compiler and found only in debug builds.
pub fn optimize(kernel: &mut Kernel) -> Result<(), CompileError> {
    // Each pass has run on the kernel as it is when as many in a row have changed nothing. Fault
    // regions are gone after the first pass, and no pass makes any.
    let mut unchanged = 0;
    for (name, run) in PASSES.iter().cycle().take(ROUNDS * PASSES.len()) {
        if run(kernel) {
            unchanged = 0;
            verify_after(name, kernel)?;
        } else {
            unchanged += 1;
        }
        if unchanged == PASSES.len() {
            break;
        }
    }
    Ok(())
}

/// Runs one pass by its name in [`PASSES`]; whether it changed anything.
///
/// # Errors
/// There is no such pass, or it broke the kernel.
pub fn run_pass(kernel: &mut Kernel, name: &str) -> Result<bool, CompileError> {
    let internal = |location: String, message: String| CompileError::Internal { location, message };
    let Some((_, run)) = PASSES.iter().find(|(n, _)| *n == name) else {
        return Err(internal("the list of passes".into(), format!("there is no pass `{name}`")));
    };
    // The other passes know no fault regions.
    let lowered = fault_region::run(kernel);
    let changed = run(kernel) || lowered;
    verify_after(name, kernel)?;
    Ok(changed)
}

/// Runs the verifier in debug builds, where it takes a good part of the time of all tests: it is
/// called where something changed.
///
/// # Errors
/// The pass of this name broke the kernel.
pub(crate) fn verify_after(name: &str, kernel: &Kernel) -> Result<(), CompileError> {
    if cfg!(debug_assertions)
        && let Err(errors) = verify(kernel)
    {
        let message = format!("pass `{name}` broke the kernel: {}\n{kernel}", errors[0]);
        return Err(CompileError::Internal { location: errors[0].location.clone(), message });
    }
    Ok(())
}
