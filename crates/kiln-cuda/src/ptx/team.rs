//! The warps that an operation of the explicit level is written for.

use super::register::Reg;
use std::fmt;

/// The warps that an operation is written for.
#[derive(Clone, Copy)]
pub(super) struct Team {
    /// Which named barrier it has; 0 is the block's.
    pub(super) barrier: u32,
    /// What to add to that.
    pub(super) copy: Option<Reg>,
    pub(super) threads: u32,
    /// What its first thread does.
    pub(super) first: Predicate,
    /// What the first thread of each of its warpgroups does.
    pub(super) leads: Predicate,
    /// The number of its warpgroup in the team.
    pub(super) warpgroup: Reg,
}

/// Before an instruction: the predicate of the threads that execute it, or nothing where no others
/// come.
#[derive(Clone, Copy)]
pub(super) struct Predicate(pub(super) Option<Reg>);

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |predicate| write!(f, "@{predicate} "))
    }
}
