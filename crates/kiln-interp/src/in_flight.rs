//! What a block has begun and not yet waited for: copies into shared memory, and products that read
//! it.

use crate::memory_access::MemoryAccess;
use std::collections::VecDeque;

/// Words of 4 bytes of a copy.
pub const WORDS: usize = 4;

/// Copies of a block that have not arrived, by thread.
#[derive(Debug, Default)]
pub struct InFlight(Vec<Copies>);

/// Copies of a thread that have not arrived.
#[derive(Debug, Default, Clone)]
pub struct Copies {
    /// Those of no group yet.
    pub begun: Vec<(MemoryAccess, [u32; WORDS])>,
    /// Groups, the oldest first.
    pub groups: VecDeque<Vec<(MemoryAccess, [u32; WORDS])>>,
}

impl InFlight {
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
