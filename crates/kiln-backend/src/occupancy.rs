//! How many blocks of a kernel a multiprocessor runs at once.

use crate::{Program, Result};

/// Devices whose multiprocessors hold several blocks of a kernel at once:
/// [`Backend::multiprocessors`](crate::Backend::multiprocessors).
pub trait Multiprocessors {
    /// How many blocks of a program of this device a multiprocessor runs at once.
    ///
    /// # Errors
    /// Those of the driver.
    fn occupancy(&self, program: &dyn Program) -> Result<Occupancy>;
}

/// How many blocks of a kernel a multiprocessor runs at once, and what allows no more.
///
/// ```
/// use kiln_backend::{Occupancy, OccupancyLimit};
/// // 256 threads of 64 registers each, on a multiprocessor of 2,048 threads and 65,536 registers.
/// let limit = OccupancyLimit::Registers;
/// let occupancy = Occupancy { blocks: 4, warps: 32, max_warps: 64, limit };
/// assert_eq!(occupancy.fraction(), 0.5);
/// assert_eq!(format!("limited by {limit}"), "limited by registers");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// Blocks of this kernel on a multiprocessor, which runs nothing else. A cluster may have room
    /// for fewer: its blocks run on several multiprocessors at the same time.
    pub blocks: u32,
    /// Warps of these blocks.
    pub warps: u32,
    /// The most warps of a multiprocessor, whatever they need.
    pub max_warps: u32,
    /// What allows no more blocks; of several the first in the order of [`OccupancyLimit`].
    pub limit: OccupancyLimit,
}

impl Occupancy {
    /// The warps as a part of the most that a multiprocessor has, from 0 to 1.
    pub fn fraction(&self) -> f64 {
        f64::from(self.warps) / f64::from(self.max_warps.max(1))
    }
}

/// What allows no more blocks of a kernel on a multiprocessor.
///
/// ```
/// assert_eq!(kiln_backend::OccupancyLimit::SharedMemory.to_string(), "shared memory");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OccupancyLimit {
    /// The threads of a multiprocessor.
    Threads,
    /// The blocks of a multiprocessor, however small they are.
    Blocks,
    /// Its shared memory, of which each block has what it asks for and what the system keeps.
    SharedMemory,
    /// Its registers, which warps get in units.
    Registers,
    /// Something that Kiln does not know: fewer blocks fit than all of the above allow.
    Other,
}

impl std::fmt::Display for OccupancyLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            OccupancyLimit::Threads => "threads",
            OccupancyLimit::Blocks => "blocks",
            OccupancyLimit::SharedMemory => "shared memory",
            OccupancyLimit::Registers => "registers",
            OccupancyLimit::Other => "the device",
        })
    }
}
