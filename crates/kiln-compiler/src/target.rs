//! What the lowering must know of a device.

use kiln_backend::CostModel;

pub use kiln_ir::WARP;

/// The compute capability with products of warpgroups.
const WARPGROUPS: (u32, u32) = (9, 0);

/// The least compute capability with copies in flight.
const ASYNC_COPIES: (u32, u32) = (8, 0);

/// A family of devices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TargetKind {
    /// NVIDIA GPUs, of a compute capability such as (9, 0).
    Cuda {
        /// The major and minor version.
        capability: (u32, u32),
    },
    /// GPUs of which nothing is known but what [`Target`] says.
    Portable,
    /// The host's processors, whose code is generated from tiles.
    Cpu,
}

/// How wide the integers are in which a device computes indices.
///
/// ```
/// use kiln_compiler::{IndexWidth, Target};
/// assert_eq!(Target::cuda((9, 0), 227 << 10).index, IndexWidth::Bits32);
/// assert_eq!(Target::cpu(1024, 48 << 10).index, IndexWidth::Bits64);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IndexWidth {
    /// 32 bits where all values of an index are known to fit, as an operation in 64 takes a GPU
    /// several instructions.
    Bits32,
    /// 64 bits, as in the kernel.
    Bits64,
}

/// The device that threads are lowered for.
///
/// Kernels over threads count warps of [`WARP`] threads on every target, and those of NVIDIA's GPUs
/// are no others. Fragments of matrix units and the explicit level are of such warps, so they are
/// refused on targets with others. Everything else is dealt to warps of [`Target::warp`] threads.
/// Indices of views are i64 in kernels on all targets. The lowering narrows them to
/// [`Target::index`], and a target without 64-bit integers has to do without those that do not fit.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// The family.
    pub kind: TargetKind,
    /// Threads of a warp, as layouts count them: a power of two, [`WARP`] on NVIDIA's GPUs.
    pub warp: u32,
    /// How many threads can shuffle among themselves, a power of two. Where they are fewer than a
    /// warp, what lanes further apart exchange goes through scratch memory; 1 has no shuffles.
    pub subgroup: u32,
    /// The integers that indices are computed in.
    pub index: IndexWidth,
    /// Whether memory has addresses. Elsewhere it is reached at linear indices of views
    /// ([`LinearOp`](kiln_ir::LinearOp)), and what needs addresses is refused.
    pub addresses: bool,
    /// The most threads of a block.
    pub max_threads: u32,
    /// The most shared memory of a block, in bytes.
    pub shared_memory: u32,
    /// Whether threads have copies from global to shared memory in flight (`cp.async`): compute
    /// capability 8.0 and later.
    pub async_copies: bool,
    /// Whether products of tiles may be products of warpgroups, which compute capability 9.0 alone
    /// has.
    pub warpgroups: bool,
    /// Whether the assembler has products of fragments of 8-bit floats and those of warpgroups of
    /// signed by unsigned integers.
    pub mixed_products: bool,
    /// Whether a multiply-add that rounds once is one instruction. Where it has to be computed from
    /// parts, sums of products round each product, as the interpreter does.
    pub multiply_adds: bool,
    /// Whether loops of products may get a task that copies, which needs bulk tensor copies:
    /// compute capability 9.0 too.
    pub tasks: bool,
    /// What work costs, by which layouts and tasks are chosen.
    pub cost: CostModel,
}

impl Target {
    /// An NVIDIA GPU of a compute capability with so much shared memory for a block, in bytes.
    pub fn cuda(capability: (u32, u32), shared_memory: u32) -> Target {
        let warpgroups = capability == WARPGROUPS;
        Target {
            kind: TargetKind::Cuda { capability },
            warp: WARP,
            subgroup: WARP,
            index: IndexWidth::Bits32,
            addresses: true,
            max_threads: 1024,
            shared_memory,
            async_copies: capability >= ASYNC_COPIES,
            warpgroups,
            mixed_products: true,
            multiply_adds: true,
            tasks: warpgroups,
            cost: CostModel::of_capability(Some(capability)),
        }
    }

    /// The host's processors, whose blocks can have so many threads and bytes of shared memory.
    pub fn cpu(max_threads: u32, shared_memory: u32) -> Target {
        Target {
            kind: TargetKind::Cpu,
            warp: WARP,
            subgroup: WARP,
            index: IndexWidth::Bits64,
            addresses: true,
            max_threads,
            shared_memory,
            async_copies: false,
            warpgroups: false,
            mixed_products: false,
            multiply_adds: true,
            tasks: false,
            cost: CostModel::of_capability(None),
        }
    }

    /// A GPU without addresses and matrix units, with subgroups of so many threads and so much
    /// shared memory for a block, in bytes. Its blocks have up to 256 threads, as WebGPU promises
    /// (`maxComputeInvocationsPerWorkgroup`).
    ///
    /// ```
    /// let target = kiln_compiler::Target::portable(8, 16 << 10);
    /// assert!(!target.addresses && target.subgroup == 8);
    /// ```
    pub fn portable(subgroup: u32, shared_memory: u32) -> Target {
        Target {
            kind: TargetKind::Portable,
            warp: WARP,
            subgroup,
            index: IndexWidth::Bits32,
            addresses: false,
            max_threads: 256,
            shared_memory,
            async_copies: false,
            warpgroups: false,
            mixed_products: false,
            multiply_adds: true,
            tasks: false,
            cost: CostModel::of_capability(None),
        }
    }
}
