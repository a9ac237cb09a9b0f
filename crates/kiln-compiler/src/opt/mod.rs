//! The optimizer: passes that make a kernel smaller and leave its meaning alone.
//!
//! | file | pass |
//! |---|---|
//! | [`guard`](crate::guard) | guards in terms of `if` and loops; comes first whatever is asked for |
//! | `simplify/` | folding, identities, one form for equal operations, control flow whose course is known |
//! | `invariant.rs` | what flows through loops and branches unchanged |
//! | `if_convert.rs` | small branches into selections |
//! | `range.rs` | comparisons, bounds and divisions that intervals of integers decide |
//! | `cse.rs` | common subexpressions |
//! | `licm.rs` | loop-invariant code |
//! | `dce.rs` | dead code, dead results and carried values |
//! | `rewrite.rs` | how passes walk and change a kernel |
//!
//! Every pass keeps a well-formed kernel well-formed, the results of every element-wise operation
//! to the bit, and the faults; debug builds verify after each. A new pass is a function
//! `run(&mut Kernel) -> bool` in a file of its own, a line in [`PASSES`] and a file test.

mod cse;
mod dce;
mod if_convert;
mod invariant;
mod licm;
mod range;
mod rewrite;
mod simplify;

pub(crate) use range::{prove_bounds, trusted};
pub(crate) use rewrite::Renames;

use crate::error::CompileError;
use crate::guard;
use kiln_ir::{Kernel, verify};

/// A pass: changes the kernel, and says whether it did.
type Run = fn(&mut Kernel) -> bool;

/// The passes in the order in which they run.
pub const PASSES: [(&str, Run); 8] = [
    ("guard", guard::run),
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
/// let text = "kernel @k(%y: mut view<i64, 1, global>) tile {\n  %0 = const 2 : i64\n  %1 = const 3 : i64\n  \
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
    for _ in 0..ROUNDS {
        let mut changed = false;
        for (name, _) in PASSES {
            changed |= run_pass(kernel, name)?;
        }
        if !changed {
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
    // The other passes know no guards.
    let lowered = guard::run(kernel);
    let changed = run(kernel) || lowered;
    if cfg!(debug_assertions)
        && let Err(errors) = verify(kernel)
    {
        let message = format!("pass `{name}` broke the kernel: {}\n{kernel}", errors[0]);
        return Err(internal(errors[0].location.clone(), message));
    }
    Ok(changed)
}
