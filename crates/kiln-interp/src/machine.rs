//! The state of a launch while it runs, and the walk over the operations of a block.

use crate::debug::Debugging;
use crate::explicit::Seat;
use crate::mask::Mask;
use crate::order::Order;
use crate::program::Loaded;
use crate::schedule::Schedule;
use crate::spaces::Spaces;
use crate::stopped::{ActiveRegion, Left};
use crate::threads::thread_index;
use crate::time::Time;
use crate::trap::Trap;
use crate::value::{Data, View};
use kiln_backend::{Error, Fault, FaultKind, Prints};
use kiln_ir::{Block, ClusterOp, Kernel, Loc, Op, OpData, OpKind, Shape, Value};

/// Runs the blocks of one launch, one after the other, in increasing order (x fastest) or in
/// another. All threads of a block execute an operation before any executes the next one, unless
/// there is a schedule; a mask says which of them take part.
///
/// Operations without side effects are evaluated in inactive threads too: their results are never
/// used, because control flow moves values out of its regions under the mask.
pub struct Machine<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Its layout.
    pub loaded: &'a Loaded,
    /// Blocks on x, y and z.
    pub grid: [u32; 3],
    /// The block that runs.
    pub block: [u32; 3],
    /// By value index; empty for views.
    pub registers: Vec<Data>,
    /// By value index, for views only.
    pub views: Vec<Option<View>>,
    /// Memory.
    pub spaces: Spaces<'a>,
    /// The fault regions around the operation that runs, outer ones first.
    pub active_regions: Vec<ActiveRegion>,
    /// The threads that have left the block, if any has.
    pub left: Option<Left>,
    /// Where prints go.
    pub prints: &'a Prints,
    /// The order of the blocks, where they do not run side by side.
    pub order: Order,
    /// The order of the threads of a block, where they do not run in lockstep.
    pub schedule: Option<Schedule>,
    /// Its place among those that run side by side, in a kernel of the explicit level.
    pub seat: Option<Seat<'a>>,
    /// How long it may run.
    pub time: Time,
    /// The debugger's session, if there is one.
    pub debug: Option<Debugging<'a>>,
}

impl Machine<'_> {
    /// Runs the operations of a block under a mask, which is not empty.
    pub fn run_block(&mut self, block: Block, mask: &Mask) -> Result<(), Error> {
        self.run_ops(&self.kernel.block(block).ops, mask)
    }

    /// Runs operations in lockstep.
    pub fn run_ops(&mut self, ops: &[Op], mask: &Mask) -> Result<(), Error> {
        let kernel = self.kernel;
        for &op in ops {
            let data = kernel.op(op);
            if self.debug.is_some() {
                self.run_debugged(op, data, mask)?;
                continue;
            }
            self.run_op(op, data, mask)?;
        }
        Ok(())
    }

    /// Runs an operation where a session may stop before it, and where it fails.
    #[cold]
    fn run_debugged(&mut self, op: Op, data: &OpData, mask: &Mask) -> Result<(), Error> {
        self.debug_before(op, data, mask);
        self.run_op(op, data, mask).inspect_err(|error| self.debug_fault(error, op, data, mask))
    }

    #[inline(always)]
    fn run_op(&mut self, op: Op, data: &OpData, mask: &Mask) -> Result<(), Error> {
        self.spaces.global.steps += 1;
        self.spaces.op = Some(op);
        if data.kind == OpKind::GridBarrier {
            return self.grid_barrier(data, mask);
        }
        if !self.active_regions.is_empty() || self.left.is_some() {
            return self.run_in_fault_region(op, data, mask);
        }
        if let OpKind::Explicit(op) = &data.kind {
            return self.explicit(data, op);
        }
        if data.kind == OpKind::Cluster(ClusterOp::Barrier) {
            return self.cluster_barrier(data, mask);
        }
        if self.run_regions(op, data, mask)? {
            return Ok(());
        }
        match self.step(op, data, mask) {
            Ok(()) => Ok(()),
            Err(trap) => self.trapped(trap, data, mask),
        }
    }

    /// A trap with its place added.
    pub fn error(&self, trap: Trap, loc: Loc) -> Error {
        let location = self.kernel.describe(loc);
        match trap {
            Trap::Memory(found) => {
                let (report, place) = *found;
                let (finding, detail) = self.explain(&report, place);
                let kind = FaultKind::Sanitizer { finding, detail };
                self.error(Trap::Fault { kind, lane: place.lane }, loc)
            }
            Trap::Fault { kind, lane } => Error::Fault(Box::new(Fault {
                kernel: self.kernel.name.clone(),
                kind,
                location,
                block: self.block,
                thread: lane
                    .filter(|_| self.loaded.threaded)
                    .map(|lane| thread_index(lane, self.loaded.block)),
            })),
            Trap::Bug(what) => Error::Internal {
                place: "kiln-interp",
                message: format!("{what} in `{}` at {location}", self.kernel.name),
            },
        }
    }

    /// The register of a value.
    pub fn data(&self, value: Value) -> &Data {
        &self.registers[value.index()]
    }

    /// The view of a value.
    pub fn view(&self, value: Value) -> Result<&View, Trap> {
        let view = self.views[value.index()].as_ref();
        view.ok_or_else(|| Trap::Bug(format!("{value} is no view")))
    }

    /// The shape of a value.
    pub fn shape(&self, value: Value) -> Shape {
        self.kernel.shape(value)
    }

    /// Whether a value is a tile of rank 1 or more.
    pub fn is_tile(&self, value: Value) -> bool {
        self.kernel.ty(value).as_tile().is_some_and(|t| t.shape.rank() > 0)
    }
}
