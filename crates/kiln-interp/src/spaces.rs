//! The three address spaces as one running block sees them.

use crate::in_flight::{Begun, InFlight};
use crate::mask::Mask;
use crate::memory::{BlockMemory, GlobalMemory};
use crate::memory_access::MemoryAccess;
use crate::shadow::{Actor, Report};
use crate::thread_order::ThreadOrder;
use crate::trap::Trap;
use kiln_backend::Finding;
use kiln_ir::numeric::Element;
use kiln_ir::{Op, Space};

/// What is a block's own, of those of a cluster that take turns.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Its linear index.
    pub block: u32,
    /// Its number in the cluster.
    pub rank: usize,
    /// What barriers have ordered among its threads.
    pub order: ThreadOrder,
}

/// Global memory, and the memory of the block that runs, or of the blocks of its cluster.
pub struct Spaces<'a> {
    /// Global memory.
    pub global: &'a mut GlobalMemory,
    /// Memory of the block, a part for each of a cluster.
    pub shared: BlockMemory,
    /// Memory of each thread of those blocks.
    pub local: BlockMemory,
    /// Copies into shared memory that have not arrived.
    pub in_flight: InFlight,
    /// Products that read shared memory until they are waited for.
    pub begun: Begun,
    /// The linear index of the block.
    pub block: u32,
    /// Which part of the memory of a cluster's blocks is the block's: its rank there.
    pub rank: usize,
    /// How many threads a block has.
    pub lanes: usize,
    /// What barriers have ordered among the threads of the block.
    pub order: ThreadOrder,
    /// Whether the block has threads that are visible to the user.
    pub threaded: bool,
    /// Whether the kernel has fences or loads that acquire, by which its blocks may order
    /// themselves.
    pub fenced: bool,
    /// Whether it has loads that acquire, by which the threads of a block may order themselves.
    pub acquires: bool,
    /// The operation that runs.
    pub op: Option<Op>,
}

impl Spaces<'_> {
    /// Fresh block memory, for the block with this linear index.
    pub fn begin_block(&mut self, block: u32) {
        self.shared.reset();
        self.local.reset();
        self.in_flight = InFlight::default();
        self.begun = Begun::default();
        self.block = block;
        self.rank = 0;
        self.order.begin();
    }

    /// As another block of the cluster goes on: what is its own.
    pub fn turn_to(&mut self, turn: Turn) {
        (self.block, self.rank, self.order) = (turn.block, turn.rank, turn.order);
    }

    /// Notes that an allocation of the block, or of some of its threads, begins anew.
    pub fn forget(&mut self, space: Space, address: u64, len: usize, threads: &Mask) {
        match space {
            Space::Shared => self.forget_shared(address, len),
            Space::Local => {
                let first = self.rank * self.lanes;
                threads.lanes().for_each(|lane| self.local.forget(first + lane, address, len));
            }
            Space::Global => {}
        }
    }

    /// Lets the sanitizer take bytes of the block's shared memory as written by nobody.
    pub fn forget_shared(&mut self, address: u64, len: usize) {
        self.shared.forget(self.rank, address, len);
    }

    /// Reads adjacent elements.
    pub fn read<T: Element>(&mut self, place: MemoryAccess, out: &mut [T]) -> Result<(), Trap> {
        aligned::<T>(place)?;
        let mut actor = self.actor(place);
        actor.seen = self.order.seen(actor.lane);
        let part = self.rank * self.lanes + place.lane.unwrap_or(0);
        let result = match place.space {
            Space::Global => self.global.read(place.address, out, actor),
            Space::Shared => self.shared.read(self.rank, place.address, out, actor),
            Space::Local => self.local.read(part, place.address, out, actor),
        };
        result.map_err(|report| trap(report, place))
    }

    /// Writes adjacent elements.
    pub fn write<T: Element>(&mut self, place: MemoryAccess, from: &[T]) -> Result<(), Trap> {
        aligned::<T>(place)?;
        let mut actor = self.actor(place);
        actor.seen = self.order.seen(actor.lane);
        let part = self.rank * self.lanes + place.lane.unwrap_or(0);
        let result = match place.space {
            Space::Global => self.global.write(place.address, from, actor),
            Space::Shared => self.shared.write(self.rank, place.address, from, actor),
            Space::Local => self.local.write(part, place.address, from, actor),
        };
        result.map_err(|report| trap(report, place))
    }

    /// Writes words to the shared memory of a block of the cluster.
    pub fn write_to(&mut self, rank: usize, place: MemoryAccess, words: &[u32]) -> Result<(), Trap> {
        let mut actor = self.actor(place);
        actor.seen = self.order.seen(actor.lane);
        let result = self.shared.write(rank, place.address, words, actor);
        result.map_err(|report| trap(report, place))
    }

    /// Copies bytes for a debugger, which the sanitizer does not see; false where there are none.
    pub fn peek(&mut self, space: Space, lane: usize, address: u64, out: &mut [u8]) -> bool {
        let read = match space {
            Space::Global => self.global.download(out, address),
            Space::Shared => self.shared.peek(self.rank, address, out),
            Space::Local => self.local.peek(self.rank * self.lanes + lane, address, out),
        };
        read.is_ok()
    }

    /// Who makes an access, but for what it knows of its warp.
    fn actor(&self, place: MemoryAccess) -> Actor<'static> {
        Actor {
            block: self.block,
            lane: place.lane.filter(|_| self.threaded),
            now: self.order.now(),
            since: self.order.since(),
            seen: None,
            atomic: place.atomic,
            fenced: self.fenced,
            acquires: self.acquires,
            op: self.op,
        }
    }
}

fn aligned<T: Element>(place: MemoryAccess) -> Result<(), Trap> {
    check_aligned(place, T::SCALAR.bytes().into())
}

/// An error unless the address is a multiple of `size` bytes.
pub fn check_aligned(place: MemoryAccess, size: u64) -> Result<(), Trap> {
    if place.address.is_multiple_of(size) {
        return Ok(());
    }
    let detail = format!("address {:#x} is not a multiple of {size}", place.address);
    Err(trap(Report::Access(Finding::Misaligned, detail), place))
}

fn trap(report: Report, place: MemoryAccess) -> Trap {
    Trap::Memory(Box::new((report, place)))
}
