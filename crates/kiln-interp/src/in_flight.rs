//! What a block has begun and not yet waited for: copies into shared memory, and products that read
//! it.

use crate::memory_access::MemoryAccess;
use std::collections::VecDeque;

/// The most bytes of a copy.
pub const WIDEST: usize = 16;

/// A copy that has not arrived.
#[derive(Debug, Clone, Copy)]
pub struct InFlightCopy {
    /// Where it goes.
    pub to: MemoryAccess,
    /// What will be there.
    pub bytes: [u8; WIDEST],
    /// How many of the bytes.
    pub len: usize,
}

/// Copies of a block that have not arrived, by thread.
#[derive(Debug, Default)]
pub struct InFlight(Vec<Copies>);

/// Copies of a thread that have not arrived.
#[derive(Debug, Default, Clone)]
pub struct Copies {
    /// Those of no group yet.
    pub begun: Vec<InFlightCopy>,
    /// Groups, the oldest first.
    pub groups: VecDeque<Vec<InFlightCopy>>,
}

impl InFlight {
    /// Whether a copy that has not arrived will write a byte of shared memory.
    pub fn covers(&self, address: u64) -> bool {
        let copies = self.0.iter().flat_map(|of| of.groups.iter().flatten().chain(&of.begun));
        copies.into_iter().any(|copy| (copy.to.address..copy.to.address + copy.len as u64).contains(&address))
    }

    /// Those of a thread.
    pub fn of(&mut self, lane: usize) -> &mut Copies {
        if self.0.len() <= lane {
            self.0.resize(lane + 1, Copies::default());
        }
        &mut self.0[lane]
    }
}

/// Pairs of bytes of a chunk of 16, which lie side by side.
pub const CHUNK: usize = 8;

/// The chunks that a product reads, with what was there when it began.
pub type Chunks = Vec<(MemoryAccess, [u16; CHUNK])>;

/// Products of a block that were not waited for yet, the oldest first.
pub type Begun = VecDeque<Chunks>;
