//! The tree that a traced kernel leaves.

use super::site::Site;
use kiln_ir::{Literal, MAX_VIEW_RANK, OpKind, Task};
use smallvec::SmallVec;

/// A recorded value: a parameter or the result of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Id(pub(super) u32);

/// A variable: a place that is read and written. Before its first write it holds zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Var(pub(super) u32);

/// What a handle stands for, without its element type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Raw {
    /// A host number, not yet an operation: it becomes a constant of the shape that its use needs.
    Const(Literal),
    /// A value.
    Value(Id),
    /// A variable: every use reads it anew.
    Var(Var),
    /// The result of something that was refused. Everything computed from it is poison too, without
    /// a second error.
    Poison,
}

/// A view that the kernel made: extents, strides and the place of its first element are values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MadeView {
    /// The view of rank 1 whose elements it has: its value, its axes and those that are fixed, and
    /// the number of it where the kernel made it too.
    pub view: Raw,
    pub rank: usize,
    pub fixed: [Option<Raw>; MAX_VIEW_RANK],
    pub made: Option<MadeId>,
    /// The index of the first element.
    pub offset: Raw,
    /// Those beyond the rank mean nothing.
    pub extents: [Raw; MAX_VIEW_RANK],
    pub strides: [Raw; MAX_VIEW_RANK],
}

/// The number of a view among those that the kernel made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MadeId(pub(super) u32);

impl Raw {
    /// The handle of a value, or poison where there is none.
    pub(crate) fn of(id: Option<Id>) -> Raw {
        id.map_or(Raw::Poison, Raw::Value)
    }
}

/// One step of a trace.
#[derive(Debug)]
pub(crate) enum Item {
    /// An IR operation without regions.
    Op { kind: OpKind, operands: SmallVec<[Id; 4]>, results: SmallVec<[Id; 1]>, site: Site },
    /// Reads a variable.
    Get { var: Var, result: Id },
    /// Writes a variable.
    Set { var: Var, value: Id },
    /// A name of the user's for a value or a variable, for a debugger.
    Name(Box<NameItem>),
    /// Runs one of two regions.
    If { cond: Id, then: Region, otherwise: Region, site: Site, live: Live },
    /// Runs a region that a fault may end. Then its writes are undone, `fault` is the fault's site,
    /// and `record` has its values; else `fault` is 0.
    FaultRegion { budget: Id, record: Option<Id>, fault: Id, body: Region, site: Site, live: Live },
    /// Runs regions side by side.
    Tasks { tasks: Vec<(Task, Region)>, site: Site },
    /// A loop.
    Loop { head: Loop, body: Region, site: Site, live: Live },
}

/// A name, with the last line of its scope.
#[derive(Debug)]
pub(crate) struct NameItem {
    pub name: String,
    pub what: NamedAs,
    pub site: Site,
    pub last: u32,
}

/// What a name is bound to.
#[derive(Clone, Debug)]
pub(crate) enum NamedAs {
    /// A value or a variable of the device.
    Device(Raw),
    /// A constant of the host.
    Host(String),
}

/// What decides how often a loop runs.
#[derive(Debug)]
pub(crate) enum Loop {
    /// From `lo` to before `hi` by `step`, unrolled by a factor.
    For { lo: Id, hi: Id, step: Id, index: Id, unroll: u32 },
    /// While the value that a region computes holds.
    While { test: Region, cond: Id },
}

/// The body of a loop that is unrolled, and the step of the user's.
pub(super) struct UnrolledBody<'a> {
    pub index: Id,
    pub rounds: u32,
    pub step: i128,
    pub region: &'a Region,
    pub live: &'a [Var],
    pub site: Site,
}

/// The variables that an `if`, a fault region or a loop must hand on, filled in by the liveness
/// pass.
pub(crate) type Live = Vec<Var>;

/// Steps that run in order, and the variables that exist only while they do.
#[derive(Debug, Default)]
pub(crate) struct Region {
    pub items: Vec<Item>,
    pub owned: Vec<Var>,
}

impl Region {
    /// Whether the steps neither touch memory nor can fail, so that they may run speculatively.
    pub fn is_pure(&self) -> bool {
        self.items.iter().all(|item| match item {
            Item::Op { kind, .. } => kind.is_pure(),
            Item::Get { .. } | Item::Name(_) => true,
            Item::Set { .. }
            | Item::If { .. }
            | Item::FaultRegion { .. }
            | Item::Loop { .. }
            | Item::Tasks { .. } => false,
        })
    }
}
