//! What `break`, `continue` and `return` may leave.

use super::item::{Id, Var};

/// What an exit may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScopeKind {
    /// A loop that is unrolled.
    HostLoop,
    /// A loop of the IR.
    DeviceLoop,
    /// A `while` or `loop` that has not shown yet where it runs.
    UndecidedLoop,
    /// A function body or a labeled block.
    Block,
}

/// A loop, labeled block or function body around the step that is being traced.
pub(crate) struct Scope {
    pub uid: u32,
    pub kind: ScopeKind,
    /// The position of the region around the scope.
    pub home: usize,
    /// The number of open regions directly inside the scope.
    pub base: usize,
    pub left: Option<Var>,
    pub skipped: Option<Var>,
    /// Some exit aimed at this scope, not beyond it.
    pub own: bool,
    /// The condition of the region that this iteration of an unrolled loop stands in, if an earlier
    /// one may have left the loop.
    pub iteration: Option<Id>,
}
