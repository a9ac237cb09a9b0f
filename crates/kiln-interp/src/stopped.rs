//! Threads that take no part any more: in the rest of a fault region, or in the rest of their
//! block.

use crate::mask::Mask;
use kiln_backend::Error;
use kiln_ir::Value;

/// A fault region that is being executed.
pub struct ActiveRegion {
    /// The site of each thread's fault; 0 as long as it had none.
    pub sites: Vec<u32>,
    /// The steps that each thread has left; less than 0 once it has taken too many.
    pub left: Vec<i64>,
    /// Where the threads' faults are recorded.
    pub record: Option<Value>,
}

impl ActiveRegion {
    pub fn fault(&mut self, threads: &Mask, site: u32) {
        threads.lanes().for_each(|lane| self.sites[lane] = site);
    }

    /// Takes steps from each thread, and gives those that had too few.
    pub fn take(&mut self, threads: &Mask, steps: impl Fn(usize) -> i64) -> Mask {
        threads.lanes().for_each(|lane| self.left[lane] -= steps(lane));
        threads.filter(|lane| self.left[lane] < 0)
    }
}

/// What happened in the block that runs, once a thread has left it.
pub struct Left {
    /// The threads that are still there.
    pub here: Mask,
    /// The first fault.
    pub fault: Error,
}
