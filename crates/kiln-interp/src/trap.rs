//! Why an operation did not complete.

use crate::memory_access::MemoryAccess;
use crate::shadow::Report;
use kiln_backend::{FaultKind, Finding};
use kiln_ir::Scalar;

/// Why an operation did not complete. The executor adds the source location, the block and the
/// thread's index.
#[derive(Debug)]
pub enum Trap {
    /// The kernel is at fault, in a thread if it is one thread's doing.
    Fault {
        /// What happened.
        kind: FaultKind,
        /// The linear index of the thread in its block.
        lane: Option<usize>,
    },
    /// An access of memory breaks a rule, which the machine reports in the user's words.
    Memory(Box<(Report, MemoryAccess)>),
    /// The kernel is not well formed, which the verifier should have seen, or the interpreter is
    /// wrong.
    Bug(String),
}

impl Trap {
    /// A register of another element type than the operation says.
    pub fn wrong_type(want: Scalar, got: Scalar) -> Trap {
        Trap::Bug(format!("expected a value of type {want}, found {got}"))
    }

    /// An operation that its operands' type does not have.
    pub fn no_operation(elem: Scalar) -> Trap {
        Trap::Bug(format!("no such operation on {elem}"))
    }

    /// A broken rule that only this backend sees.
    pub fn finding(finding: Finding, detail: String) -> Trap {
        Trap::Fault { kind: FaultKind::Sanitizer { finding, detail }, lane: None }
    }

    /// The trap as one thread's.
    pub fn in_lane(self, at: usize) -> Trap {
        match self {
            Trap::Fault { kind, lane } => Trap::Fault { kind, lane: lane.or(Some(at)) },
            Trap::Memory(mut found) => {
                found.1.lane = found.1.lane.or(Some(at));
                Trap::Memory(found)
            }
            Trap::Bug(what) => Trap::Bug(what),
        }
    }
}
