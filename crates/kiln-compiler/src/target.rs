//! What the lowering must know of a device.

/// The compute capability with products of warpgroups.
const WARPGROUPS: (u32, u32) = (9, 0);

/// A family of devices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TargetKind {
    /// NVIDIA GPUs, of a compute capability such as (9, 0).
    Cuda {
        /// The major and minor version.
        capability: (u32, u32),
    },
}

/// The device that threads are lowered for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// The family.
    pub kind: TargetKind,
    /// Threads that move together; the lowering supports 32.
    pub warp: u32,
    /// The most threads of a block.
    pub max_threads: u32,
    /// The most shared memory of a block, in bytes.
    pub shared_memory: u32,
    /// Whether products of tiles may be products of warpgroups, which compute capability 9.0 alone
    /// has.
    pub warpgroups: bool,
    /// Whether the assembler knows products of fragments of 8-bit floats and those of warpgroups of
    /// signed by unsigned integers.
    pub mixed_products: bool,
    /// Whether loops of products may get a task that copies, which needs bulk tensor copies:
    /// compute capability 9.0 too.
    pub tasks: bool,
}

impl Target {
    /// An NVIDIA GPU of a compute capability with so much shared memory for a block, in bytes.
    pub fn cuda(capability: (u32, u32), shared_memory: u32) -> Target {
        let warpgroups = capability == WARPGROUPS;
        Target {
            kind: TargetKind::Cuda { capability },
            warp: 32,
            max_threads: 1024,
            shared_memory,
            warpgroups,
            mixed_products: true,
            tasks: warpgroups,
        }
    }
}
