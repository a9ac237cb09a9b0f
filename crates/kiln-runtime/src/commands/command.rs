//! A recorded launch, copy or fill, whose memory and numbers are given at each run.

use crate::loaded::LoadedKernel;
use kiln_backend::{BufferBinding, DevicePtr, GraphWork};
use smallvec::SmallVec;
use std::sync::Arc;

/// A command with the memory and numbers of the last run.
pub(super) struct Command {
    pub(super) work: Work,
    /// The slot of each piece of memory: the views of a launch in order; of a copy where it goes
    /// and where it comes from.
    pub(super) slots: SmallVec<[usize; 8]>,
    /// Which of a launch's numbers are which of the list's.
    pub(super) numbers: SmallVec<[(usize, usize); 2]>,
}

pub(super) enum Work {
    Launch {
        kernel: Arc<LoadedKernel>,
        grid: [u32; 3],
        views: Box<[BufferBinding]>,
        numbers: Box<[u64]>,
    },
    Copy {
        to: DevicePtr,
        from: DevicePtr,
        /// Where both are in their slots.
        offsets: [u64; 2],
        bytes: usize,
    },
    Fill {
        to: DevicePtr,
        offset: u64,
        byte: u8,
        bytes: usize,
    },
}

impl Command {
    /// Gives the command the memory of its slots, and the list's numbers.
    pub(super) fn bind(&mut self, addresses: &[u64], given: &[u64]) {
        let at = |slot: usize, offset: u64| DevicePtr(addresses[self.slots[slot]] + offset);
        match &mut self.work {
            Work::Launch { views, numbers, .. } => {
                for (view, &slot) in views.iter_mut().zip(&self.slots) {
                    view.buffer = DevicePtr(addresses[slot]);
                }
                for &(number, of) in &self.numbers {
                    numbers[number] = given[of];
                }
            }
            Work::Copy { to, from, offsets, .. } => (*to, *from) = (at(0, offsets[0]), at(1, offsets[1])),
            Work::Fill { to, offset, .. } => *to = at(0, *offset),
        }
    }

    /// The same as a backend takes it.
    pub(super) fn for_backend(&self) -> GraphWork<'_> {
        match &self.work {
            Work::Launch { kernel, grid, views, numbers } => {
                GraphWork::Launch { program: &*kernel.program, grid: *grid, buffers: views, numbers }
            }
            Work::Copy { to, from, bytes, .. } => GraphWork::Copy { to: *to, from: *from, bytes: *bytes },
            Work::Fill { to, byte, bytes, .. } => GraphWork::Fill { to: *to, byte: *byte, bytes: *bytes },
        }
    }

    /// Which of its pieces of memory it writes.
    pub(super) fn writes(&self, piece: usize) -> bool {
        match &self.work {
            Work::Launch { views, .. } => views[piece].written,
            Work::Copy { .. } | Work::Fill { .. } => piece == 0,
        }
    }

    /// Whether another recording has the same command, but for the values of its numbers.
    pub(super) fn is_like(&self, other: &Command) -> bool {
        let is_same = match (&self.work, &other.work) {
            (
                Work::Launch { kernel, grid, views, numbers },
                Work::Launch { kernel: k, grid: g, views: v, numbers: n },
            ) => {
                let places = |views: &[BufferBinding]| -> SmallVec<[(u64, bool); 8]> {
                    views.iter().map(|view| (view.byte_offset, view.written)).collect()
                };
                Arc::ptr_eq(kernel, k) && grid == g && places(views) == places(v) && numbers.len() == n.len()
            }
            (Work::Copy { offsets, bytes, .. }, Work::Copy { offsets: o, bytes: b, .. }) => {
                offsets == o && bytes == b
            }
            (Work::Fill { offset, byte, bytes, .. }, Work::Fill { offset: o, byte: v, bytes: b, .. }) => {
                (offset, byte, bytes) == (o, v, b)
            }
            (Work::Launch { .. } | Work::Copy { .. } | Work::Fill { .. }, _) => false,
        };
        is_same && self.slots == other.slots
    }
}
