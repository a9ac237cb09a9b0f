//! Why a kernel cannot be compiled.

use kiln_ir::Shape;

/// Why a kernel cannot be compiled for a target. Locations are `file:line:column` of the user's
/// source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A tile has extents that are sums of many powers of two.
    #[error(
        "{location}: a tile of shape {shape} splits into {parts} parts whose extents are powers of two, the limit is {limit}; \
         use {fewer}, whose extents are sums of fewer powers of two: loads give the padding outside the view and stores drop what lies there"
    )]
    TooManyParts {
        /// Where the tile is made or used.
        location: String,
        /// The tile's shape, or the extents `[m, n, k]` of a product of matrices.
        shape: Shape,
        /// The parts it splits into.
        parts: usize,
        /// The most there may be.
        limit: usize,
        /// A shape around it with fewer parts.
        fewer: Shape,
    },
    /// Tile operations stand in a kernel over threads whose block cannot hold tiles.
    #[error(
        "{location}: tiles need a block of a power of two of at least {warp} threads, this kernel's has {threads}; \
         change the block's extents"
    )]
    TilesNeedWarps {
        /// Where the first tile is made.
        location: String,
        /// Threads of the block.
        threads: u32,
        /// Threads of a warp.
        warp: u32,
    },
    /// A block is larger than the target's largest.
    #[error(
        "`{kernel}` has blocks of {threads} threads, the limit is {limit}; use smaller extents or fewer warps"
    )]
    TooManyThreads {
        /// The kernel.
        kernel: String,
        /// Threads of the block.
        threads: u32,
        /// The target's limit.
        limit: u32,
    },
    /// The kernel needs more shared memory than a block can have.
    #[error(
        "{location}: `{kernel}` needs {needed} bytes of shared memory, of which this operation {own}; a block has {limit}; \
         use smaller tiles"
    )]
    SharedMemory {
        /// The operation that needs most.
        location: String,
        /// The kernel.
        kernel: String,
        /// Bytes needed in all.
        needed: u32,
        /// Bytes that the operation at the location needs.
        own: u32,
        /// The target's limit in bytes.
        limit: u32,
    },
    /// The lowering does not know this combination.
    #[error("{location}: {what} is not supported; {hint}")]
    Unsupported {
        /// Where it stands.
        location: String,
        /// What it is.
        what: String,
        /// What to do instead.
        hint: String,
    },
    /// The kernel is as good without a task that copies.
    #[error("{location}: it gets no task that copies: {reason}")]
    NotSpecialized {
        /// What stands in the way.
        location: String,
        /// Why.
        reason: String,
    },
    /// A bug in the compiler.
    #[error("internal error in the compiler at {location}: {message}; please report it")]
    Internal {
        /// Where the operation that could not be lowered stands.
        location: String,
        /// What does not hold.
        message: String,
    },
}
