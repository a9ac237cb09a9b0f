//! What is known of an access of memory besides its elements.

use kiln_ir::Space;

/// Where an access goes, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryAccess {
    /// The space of the address.
    pub space: Space,
    /// The address.
    pub address: u64,
    /// The thread, by linear index; `None` for a tile operation of the block.
    pub lane: Option<usize>,
    /// Whether the access is part of an atomic operation.
    pub atomic: bool,
}
