//! Where in the block's scratch memory exchanges between threads take place.
//!
//! Small exchanges (partial results of reductions) take turns in a window, so that one need not wait for the last to be read. Large ones
//! (tiles under conversion, operands of products) share one part: they would cost occupancy otherwise.

use super::barriers::{Memory, Place, Same};
use crate::error::CompileError;
use crate::target::Target;
use kiln_ir::{Kernel, Loc, Op, OpKind};

/// Exchanges up to this size take turns in the window, in bytes.
const SMALL: u32 = 512;

/// The size of the window, in bytes.
const WINDOW: u32 = 2048;

/// The part of the window and the part of large exchanges, as [`Memory::Scratch`] names them.
const PARTS: [u32; 2] = [0, 1];

/// A place for one exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    part: u32,
    /// Where it begins in its part, in bytes.
    pub offset: u32,
    size: u32,
    /// Which exchange this is.
    serial: u32,
}

impl Area {
    fn memory(self) -> Memory {
        Memory::Scratch { part: self.part, from: self.offset, to: self.offset + self.size }
    }

    /// What a read of the area is to the barrier pass.
    pub fn read(self) -> Option<Place> {
        Some(Place { memory: self.memory(), same: None })
    }

    /// What a write of the area is to the barrier pass. One exchange writes every element once.
    pub fn written(self) -> Option<Place> {
        Some(Place { memory: self.memory(), same: Some(Same::Exchange(self.serial)) })
    }

    /// The first `size` bytes, a multiple of 16, and the rest.
    pub fn split(self, size: u32) -> (Area, Area) {
        let rest = Area { offset: self.offset + size, size: self.size - size, ..self };
        (Area { size, ..self }, rest)
    }
}

/// Scratch memory while a kernel is lowered.
#[derive(Default)]
pub(crate) struct ScratchMemory {
    /// Where the next small exchange begins.
    next: u32,
    /// How many exchanges there have been.
    count: u32,
    /// The size of the window as far as it is used.
    window: u32,
    /// The size of the largest large exchange.
    large: u32,
    /// Shared memory of the user's own.
    user: u32,
    /// `Scratch` operations of large exchanges, whose part begins after the window.
    shifted: Vec<Op>,
    /// The largest consumer of shared memory.
    most: (u32, Loc),
}

impl ScratchMemory {
    /// A place of so many bytes, aligned to 16.
    pub fn area(&mut self, size: u32, loc: Loc) -> Area {
        let size = size.next_multiple_of(16);
        self.blame(size, loc);
        self.count += 1;
        let serial = self.count;
        if size > SMALL {
            self.large = self.large.max(size);
            return Area { part: PARTS[1], offset: 0, size, serial };
        }
        if self.next + size > WINDOW {
            self.next = 0;
        }
        let area = Area { part: PARTS[0], offset: self.next, size, serial };
        self.next += size;
        self.window = self.window.max(self.next);
        area
    }

    /// How many exchanges there have been.
    pub fn exchanges(&self) -> u32 {
        self.count
    }

    /// Notes shared memory that the kernel allocates itself.
    pub fn reserve(&mut self, size: u32, loc: Loc) {
        self.user += size.next_multiple_of(16);
        self.blame(size, loc);
    }

    /// Notes the operation that gives an area's address.
    pub fn addressed(&mut self, area: Area, op: Op) {
        if area.part == PARTS[1] {
            self.shifted.push(op);
        }
    }

    fn blame(&mut self, size: u32, loc: Loc) {
        if size > self.most.0 {
            self.most = (size, loc);
        }
    }

    /// Lays the parts out one after the other.
    pub fn finish(self, kernel: &mut Kernel, target: &Target) -> Result<(), CompileError> {
        for op in self.shifted {
            if let OpKind::Scratch { offset } = &mut kernel.op_mut(op).kind {
                *offset += self.window;
            }
        }
        kernel.scratch_bytes = self.window + self.large;
        let needed = kernel.scratch_bytes + self.user;
        if needed > target.shared_memory {
            return Err(CompileError::SharedMemory {
                location: kernel.describe(self.most.1),
                kernel: kernel.name.clone(),
                needed,
                own: self.most.0,
                limit: target.shared_memory,
            });
        }
        Ok(())
    }
}
