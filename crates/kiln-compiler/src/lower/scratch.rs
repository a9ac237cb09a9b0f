//! Where in the block's scratch memory exchanges between threads take place.
//!
//! Small exchanges (partial results of reductions) take turns in a window, so that one need not
//! wait for the last to be read. Large ones (tiles under conversion, operands of products) share
//! one part: they would cost occupancy otherwise.

use super::barriers::{AccessTarget, Same, SharedRegion};
use crate::error::CompileError;
use crate::target::Target;
use kiln_ir::{Kernel, Loc, Op, OpKind};

/// Exchanges up to this size take turns in the window, in bytes.
const SMALL: u32 = 512;

/// The size of the window, in bytes.
const WINDOW: u32 = 2048;

/// What parts begin at multiples of, in bytes, unless warpgroups read them.
pub(crate) const ALIGN: u32 = 16;

/// The part of the window, that of large exchanges, that of those within a pipelined loop, and that
/// of factors that loops of products read, as [`SharedRegion::Scratch`] names them.
const PARTS: [u32; 4] = [0, 1, 2, 3];

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
    fn memory(self) -> SharedRegion {
        SharedRegion::Scratch { part: self.part, from: self.offset, to: self.offset + self.size }
    }

    /// What a read of the area is to the barrier pass.
    pub fn read(self) -> Option<AccessTarget> {
        Some(AccessTarget { memory: self.memory(), same: None })
    }

    /// What a write of the area is to the barrier pass. One exchange writes every element once.
    pub fn written(self) -> Option<AccessTarget> {
        Some(AccessTarget { memory: self.memory(), same: Some(Same::Exchange(self.serial)) })
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
    /// The size of the largest within a pipelined loop: these lie behind the stages, which others
    /// may overlap.
    within: u32,
    /// How many pipelined loops are being lowered.
    depth: u32,
    /// The size of the stages of pipelined loops.
    stages: u32,
    /// Shared memory of the user's own.
    user: u32,
    /// `Scratch` operations of large exchanges and of stages, whose parts begin after the window.
    shifted: Vec<Op>,
    /// Those of large exchanges within pipelined loops, after the stages.
    behind: Vec<Op>,
    /// The size of the factors that loops read.
    kept: u32,
    /// `Scratch` operations of these, after all others.
    last: Vec<Op>,
    /// The largest consumer of shared memory.
    most: (u32, Loc),
    /// What all parts but the window begin at multiples of, in bytes.
    align: u32,
}

impl ScratchMemory {
    /// Scratch memory whose parts, but for the window, begin at multiples of so many bytes.
    pub fn aligned(align: u32) -> ScratchMemory {
        ScratchMemory { align, ..ScratchMemory::default() }
    }

    /// A place of so many bytes, aligned to 16.
    pub fn area(&mut self, size: u32, loc: Loc) -> Area {
        let size = size.next_multiple_of(16);
        self.blame(size, loc);
        self.count += 1;
        let serial = self.count;
        if size > SMALL {
            return self.large(size, serial);
        }
        if self.next + size > WINDOW {
            self.next = 0;
        }
        let area = Area { part: PARTS[0], offset: self.next, size, serial };
        self.next += size;
        self.window = self.window.max(self.next);
        area
    }

    /// A place of so many bytes that begins at a multiple of what parts do.
    pub fn aligned_area(&mut self, size: u32, loc: Loc) -> Area {
        self.blame(size, loc);
        self.count += 1;
        self.large(size, self.count)
    }

    /// A place in the part of large exchanges, of which only one takes place at a time.
    fn large(&mut self, size: u32, serial: u32) -> Area {
        if self.depth > 0 {
            self.within = self.within.max(size);
            return Area { part: PARTS[2], offset: 0, size, serial };
        }
        self.large = self.large.max(size);
        Area { part: PARTS[1], offset: 0, size, serial }
    }

    /// The place of a factor that loops read, which it has for itself.
    pub fn kept(&mut self, offset: u32, size: u32) -> Area {
        self.kept = self.kept.max(offset + size);
        self.count += 1;
        Area { part: PARTS[3], offset, size, serial: self.count }
    }

    /// How many exchanges there have been.
    pub fn exchanges(&self) -> u32 {
        self.count
    }

    /// Records shared memory that the kernel allocates itself.
    pub fn reserve(&mut self, size: u32, loc: Loc) {
        self.user += size.next_multiple_of(16);
        self.blame(size, loc);
    }

    /// Records the operation that gives an area's address.
    pub fn addressed(&mut self, area: Area, op: Op) {
        match area.part {
            part if part == PARTS[1] => self.shifted.push(op),
            part if part == PARTS[2] => self.behind.push(op),
            part if part == PARTS[3] => self.last.push(op),
            _ => {}
        }
    }

    /// Begins a pipelined loop with stages of so many bytes in all, whose address an operation
    /// gives.
    pub fn begin_stages(&mut self, size: u32, address: Op, loc: Loc) {
        self.depth += 1;
        self.stages = self.stages.max(size);
        self.shifted.push(address);
        self.blame(size, loc);
    }

    /// Ends a pipelined loop.
    pub fn end_stages(&mut self) {
        self.depth -= 1;
    }

    fn blame(&mut self, size: u32, loc: Loc) {
        if size > self.most.0 {
            self.most = (size, loc);
        }
    }

    /// Lays the parts out one after the other.
    pub fn finish(self, kernel: &mut Kernel, target: &Target) -> Result<(), CompileError> {
        let window = self.window.next_multiple_of(self.align);
        let within = window + self.stages.next_multiple_of(self.align);
        for op in self.shifted {
            if let OpKind::Scratch { offset } = &mut kernel.op_mut(op).kind {
                *offset += window;
            }
        }
        for op in self.behind {
            if let OpKind::Scratch { offset } = &mut kernel.op_mut(op).kind {
                *offset += within;
            }
        }
        let shared = (window + self.large).max(within + self.within);
        let shared = if self.kept > 0 { shared.next_multiple_of(self.align) } else { shared };
        for op in self.last {
            if let OpKind::Scratch { offset } = &mut kernel.op_mut(op).kind {
                *offset += shared;
            }
        }
        kernel.scratch_bytes = shared + self.kept;
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
