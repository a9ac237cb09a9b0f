//! The state of a launch while it runs, and the loop over its blocks.

use crate::eval;
use crate::explicit::{self, Seat};
use crate::fragment::InFlight;
use crate::guard::Guarded;
use crate::leave::Left;
use crate::mask::Mask;
use crate::memory::{BlockMemory, Memory};
use crate::order::Order;
use crate::program::Loaded;
use crate::schedule::Schedule;
use crate::spaces::Spaces;
use crate::threads::{thread_id, thread_index};
use crate::time::Time;
use crate::value::{Data, Trap, View};
use crate::warpgroup::Begun;
use kiln_backend::{Error, Fault, FaultKind, Prints};
use kiln_ir::{Block, ClusterOp, Kernel, Loc, Op, OpKind, Shape, Value};

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
    /// The guards around the operation that runs, outer ones first.
    pub guarded: Vec<Guarded>,
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
}

/// Runs a launch to its end or its first fault.
pub fn run(
    loaded: &Loaded,
    grid: [u32; 3],
    order: Order,
    words: &[u64],
    memory: &mut Memory,
    prints: &Prints,
    time: Time,
) -> Result<(), Error> {
    let (sanitize, room) = (memory.sanitizes(), (memory.free_bytes(), memory.limit()));
    let block_memory = |size: usize, parts: usize| {
        let requested = (size as u64).saturating_mul(parts as u64);
        let fits = requested <= room.1;
        fits.then(|| BlockMemory::new(size, parts, sanitize)).flatten().ok_or(Error::OutOfMemory {
            device: "interp".into(),
            requested,
            free: room.0,
            total: room.1,
        })
    };
    memory.begin_launch();
    let blocks = loaded.kernel.cluster as usize;
    let spaces = Spaces {
        shared: block_memory(loaded.shared_bytes, blocks)?,
        local: block_memory(loaded.local_bytes, blocks * loaded.lanes())?,
        global: memory,
        in_flight: InFlight::default(),
        begun: Begun::default(),
        block: 0,
        rank: 0,
        lanes: loaded.lanes(),
        epoch: 0,
        threaded: loaded.threaded,
        fenced: loaded.fenced,
        acquires: loaded.acquires,
        op: None,
    };
    let schedule = order.threads.filter(|_| loaded.threaded).map(|seed| Schedule::new(loaded, seed));
    let mut machine = Machine {
        kernel: &loaded.kernel,
        loaded,
        grid,
        block: [0; 3],
        registers: loaded.registers(),
        views: vec![None; loaded.kernel.counts().0],
        spaces,
        guarded: Vec::new(),
        left: None,
        prints,
        order,
        schedule,
        seat: None,
        time,
    };
    machine.bind(words)?;
    machine.set_constants()?;
    if explicit::takes_turns(&loaded.kernel) { explicit::run_grid(machine) } else { machine.run_grid() }
}

impl Machine<'_> {
    /// Gives the parameters their values.
    fn bind(&mut self, words: &[u64]) -> Result<(), Error> {
        let args = &self.kernel.block(self.kernel.body).args;
        let wanted: usize = self.kernel.params.iter().map(|p| p.words()).sum();
        if words.len() != wanted {
            return Err(Error::Internal {
                place: "kiln-interp",
                message: format!("`{}` takes {wanted} words, {} were given", self.kernel.name, words.len()),
            });
        }
        let mut rest = words;
        for (param, &arg) in self.kernel.params.iter().zip(args) {
            let (mine, others) = rest.split_at(param.words());
            rest = others;
            match param.ty.as_view() {
                Some(view) => {
                    let (extents, strides) = mine[1..].split_at(view.rank as usize);
                    self.views[arg.index()] = Some(View {
                        space: view.space,
                        base: mine[0],
                        elem_bytes: view.elem.bytes().into(),
                        extents: extents.iter().map(|&w| w as i64).collect(),
                        strides: strides.iter().map(|&w| w as i64).collect(),
                    });
                }
                None => self.registers[arg.index()].fill(mine[0]),
            }
        }
        Ok(())
    }

    /// Sets the registers that are the same in every block, once.
    fn set_constants(&mut self) -> Result<(), Error> {
        let kernel = self.kernel;
        let mut result = Ok(());
        kernel.walk(|_, data| {
            let Some(out) = data.results.first() else { return };
            let out = &mut self.registers[out.index()];
            let set = match &data.kind {
                OpKind::Const(literal) => {
                    out.fill(literal.bits());
                    Ok(())
                }
                OpKind::Iota => eval::iota(out),
                OpKind::ThreadId(axis) => thread_id(out, *axis, self.loaded.block),
                OpKind::BlockDim(axis) => {
                    out.fill(self.loaded.block[*axis as usize].into());
                    Ok(())
                }
                OpKind::NumPrograms(axis) => {
                    out.fill(self.grid[*axis as usize].into());
                    Ok(())
                }
                _ => Ok(()),
            };
            if let (Err(trap), Ok(())) = (set, &result) {
                result = Err(self.error(trap, data.loc));
            }
        });
        result
    }

    fn run_grid(&mut self) -> Result<(), Error> {
        let everyone = Mask::full(self.loaded.lanes());
        let [x, y, z] = self.grid.map(u64::from);
        for earlier in 0..x * y * z {
            let block = self.order.block(earlier);
            self.block = [block % x, block / x % y, block / (x * y)].map(|index| index as u32);
            self.spaces.begin_block(block as u32);
            self.run_body(block as u32, &everyone)?;
            if let Some(left) = self.left.take() {
                return Err(left.fault);
            }
        }
        Ok(())
    }

    /// Runs the operations of a block under a mask, which is not empty.
    pub fn run_block(&mut self, block: Block, mask: &Mask) -> Result<(), Error> {
        self.run_ops(&self.kernel.block(block).ops, mask)
    }

    /// Runs operations in lockstep.
    pub fn run_ops(&mut self, ops: &[Op], mask: &Mask) -> Result<(), Error> {
        let kernel = self.kernel;
        for &op in ops {
            let data = kernel.op(op);
            self.spaces.global.steps += 1;
            self.spaces.op = Some(op);
            if !self.guarded.is_empty() || self.left.is_some() {
                self.run_in_guard(op, data, mask)?;
                continue;
            }
            match &data.kind {
                OpKind::Explicit(op) => self.explicit(data, op)?,
                OpKind::Cluster(ClusterOp::Barrier) => self.cluster_barrier(data, mask)?,
                OpKind::If => self.run_if(data, mask)?,
                OpKind::For => self.run_for(op, data, mask)?,
                OpKind::While => self.run_while(op, data, mask)?,
                OpKind::Guard => self.run_guard(op, data, mask)?,
                _ => match self.step(op, data, mask) {
                    Ok(()) => {}
                    Err(trap) => self.trapped(trap, data, mask)?,
                },
            }
        }
        Ok(())
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
