//! Operations among the blocks of a cluster: those run at once, and reach each other's shared
//! memory.
//!
//! A kernel over threads whose [`cluster`](crate::Kernel::cluster) is greater than 1 has them. A
//! block's *rank* is its number in the cluster: that of the program along x, modulo the number of
//! blocks.
//!
//! A block's memory is there from its allocation to the block's end. So a
//! [`Barrier`](ClusterOp::Barrier) comes before everybody's first access of other blocks' memory,
//! and one after the last.

/// An operation among the blocks of a cluster.
///
/// ```
/// use kiln_ir::ClusterOp;
/// assert_eq!(ClusterOp::ALL.map(|op| op.name()), ["cluster_barrier", "cluster_store_quad", "ptr_cluster_store_quad"]);
/// assert_eq!(ClusterOp::from_name("cluster_barrier"), Some(ClusterOp::Barrier));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClusterOp {
    /// `()`: all threads of all blocks of the cluster arrive before any leaves; what they stored
    /// before, in global memory and in shared memory of whichever block, is visible after. Threads
    /// that have ended count as arrived. Uniform control flow.
    Barrier,
    /// `(shared view of u32 of rank 1, i64 scalar index, i64 scalar rank, u32 × 4)`: stores a quad,
    /// which arrives whole, at the same place of the same allocation of the block with that rank.
    /// Relaxed. The place is a whole quad of the view at a multiple of 16 bytes, and the rank one
    /// of the cluster.
    StoreQuad,
    /// `(u64 shared address, i64 scalar rank, u32 × 4)`: the same by address, which the lowering to
    /// threads makes of it.
    PtrStoreQuad,
}

impl ClusterOp {
    /// All of them.
    pub const ALL: [ClusterOp; 3] = [ClusterOp::Barrier, ClusterOp::StoreQuad, ClusterOp::PtrStoreQuad];

    /// The operation with this word in the text format.
    pub fn from_name(name: &str) -> Option<ClusterOp> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }
}
