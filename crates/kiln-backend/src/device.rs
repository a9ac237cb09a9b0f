//! What a device is and can do.

use crate::{Capabilities, CostModel};

/// A device and its limits. Sizes are in bytes.
#[derive(Debug, Clone)]
pub struct Properties {
    /// The name a user selects it by: `interp`, `cpu`, `cuda:0`.
    pub id: String,
    /// The product name.
    pub name: String,
    /// Identifies a GPU among all of the machine, in whatever order they are numbered.
    pub uuid: Option<[u8; 16]>,
    /// Multiprocessors or cores.
    pub units: u32,
    /// Threads that move together.
    pub warp: u32,
    /// The most threads in a block.
    pub max_threads: u32,
    /// The most blocks on each axis of a grid.
    pub max_grid: [u32; 3],
    /// Shared memory a block can have.
    pub shared_memory: u32,
    /// Device memory.
    pub memory: u64,
    /// Last-level cache.
    pub cache: u64,
    /// CUDA compute capability, such as (9, 0).
    pub compute_capability: Option<(u32, u32)>,
    /// The driver's version, or the SIMD level of a processor.
    pub driver: String,
    /// The highest PTX ISA version the driver accepts.
    pub ptx: Option<(u32, u32)>,
    /// Whether device memory is host memory: tensors are shared without copies.
    pub unified: bool,
    /// How resident launches run.
    pub residency: Residency,
    /// What it can do beyond the core.
    pub capabilities: Capabilities,
}

impl Properties {
    /// What work costs on the device: the model of its compute capability, with its own number of
    /// multiprocessors and shared memory.
    pub fn cost_model(&self) -> CostModel {
        CostModel {
            units: self.units as usize,
            shared_memory: self.shared_memory as usize,
            ..CostModel::of_capability(self.compute_capability)
        }
    }
}

/// How a device runs a [resident launch](crate::Residents::launch_resident).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Residency {
    /// Beside the host and beside other launches, all blocks at once. The kernel may run until it
    /// is commanded to leave.
    Beside,
    /// Within the call, one block after another. The kernel must leave by itself, for instance
    /// after a number of polls, and is launched again.
    Within,
    /// In dispatches that the host begins and that end by themselves: beside the host, and one
    /// after another. A dispatch finds [mapped memory](crate::MappedMemory) as the host left it
    /// before the call that began it. What it stores there the host finds when
    /// [`resident_done`](crate::Residents::resident_done) or
    /// [`resident_wait`](crate::Residents::resident_wait) has said that it is over. Between blocks
    /// of one dispatch nothing is ordered, and no kernel reads a clock.
    Dispatched,
}

/// A place in device memory: a byte of an allocation.
///
/// It is opaque above the backends, which alone know what the number is: a pointer on the CPU, an
/// address on an NVIDIA GPU, and on a device without addresses the number of an allocation above an
/// offset. What always holds: adding to it moves on by as many bytes, within the allocation; an
/// allocation begins at a multiple of 256; and 0 is a place in no allocation, to which a view
/// without elements may point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DevicePtr(pub u64);

/// A queue of work on a device, in order. 0 is the device's default stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StreamId(pub u64);

/// A point in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventId(pub u64);
