//! What a kernel with barriers of the grid keeps in registers.

use super::register::Reg;

/// What a kernel with barriers of the grid keeps in registers from its beginning on.
#[derive(Clone, Copy)]
pub(super) struct GridState {
    /// The address of `Control::arrived`.
    pub arrived: Reg,
    /// Blocks of the launch.
    pub blocks: Reg,
    /// What `arrived` is when all blocks have come to the last barrier that this one came to.
    pub target: Reg,
    /// Whether this is the block's first thread.
    pub leads: Reg,
    /// Threads of a block.
    pub threads: u32,
    /// Whether threads can end by a fault.
    pub faults: bool,
}
