//! Uniformity: which values are the same in every thread of a block, and which operations all
//! threads reach together.

use crate::fault::{self, Followed};
use crate::kernel::{Block, Def, Kernel, Level, Op, OpData, Value, WARP};
use crate::op::{ControlFlow, LinearOp, OpKind};
use crate::types::Space;
use rustc_hash::FxHashSet;

/// What varies between the threads of a block.
///
/// A value varies if it is computed from a thread's index, another lane, an atomic, a clock or
/// local memory, if it is loaded from a place that varies, or if it leaves an `if` or a loop whose
/// control varies. Values of rank above 0 never do: threads share them. A load from a uniform place
/// of memory that threads share is taken as uniform, since a kernel in which it is not has a data
/// race. In kernels over tiles nothing varies.
///
/// In a fault region, what follows a fault that only some threads may have is divergent, unless the
/// fault concerns the whole block ([`OpKind::FaultRegion`] says when).
///
/// ```
/// use kiln_ir::*;
/// let mut kernel = Kernel::new("k", Level::Thread { block: [64, 1, 1] });
/// let mut b = Builder::new(&mut kernel);
/// let tid = b.thread_id(Axis::X);
/// let pid = b.program_id(Axis::X);
/// let sum = b.binary(BinaryOp::Add, tid, pid);
/// let uniformity = Uniformity::of(&kernel);
/// assert!(uniformity.varies(sum) && !uniformity.varies(pid));
/// ```
#[derive(Clone, Debug)]
pub struct Uniformity {
    /// By value.
    varying: Vec<bool>,
    /// By operation: whether only some threads may reach it.
    divergent: Vec<bool>,
    /// Whether votes, and loads of memory that the kernel may write, count as varying.
    in_plain_sight: bool,
    /// Whether what counts is the lanes of a warp: those that read equal values from each other
    /// have equal values, and those that vote get one answer.
    of_warps: bool,
    fault_regions: InFaultRegions,
}

/// Where the walk stands with regard to fault regions.
#[derive(Clone, Debug, Default)]
struct InFaultRegions {
    followed: Followed,
    depth: u32,
    /// Whether some threads of the block may have had a fault, and only they.
    split: bool,
    /// Loops whose later rounds begin where threads may be missing.
    rounds: FxHashSet<Op>,
    /// Whether threads may have taken different numbers of steps.
    steps_vary: bool,
}

impl Uniformity {
    /// Analyzes a kernel that is well-formed in every other respect.
    pub fn of(kernel: &Kernel) -> Uniformity {
        Uniformity::analyzed(kernel, false, false)
    }

    /// Analyzes a kernel as an assembler does, which asks what the lanes of each warp have alike
    /// and looks through shuffles and votes: lanes that read a value from each other which is the
    /// same in all of them have that value, and lanes that vote together have one answer, whatever
    /// other warps get. Elsewhere a shuffle counts as different in each lane, since that is how
    /// code computes it, and a vote as different in each warp of a block. Lanes that meet at a
    /// barrier in a branch or loop have all taken it, whatever the condition is computed from.
    ///
    /// ```
    /// use kiln_ir::*;
    /// let kernel = parse(
    ///     "kernel @k() thread [64, 1, 1] {
    ///       %p = program_id x : i64
    ///       %1 = const 1 : i64
    ///       %s = shuffle.xor %p, %1 : i64
    ///     }",
    /// )?;
    /// let shuffle = kernel.block(kernel.body).ops[2];
    /// let value = kernel.op(shuffle).results[0];
    /// assert!(Uniformity::of(&kernel).varies(value));
    /// assert!(!Uniformity::of_warps(&kernel).varies(value));
    /// # Ok::<(), kiln_ir::ParseError>(())
    /// ```
    pub fn of_warps(kernel: &Kernel) -> Uniformity {
        Uniformity::analyzed(kernel, false, true)
    }

    /// Analyzes a kernel as a compiler does that takes nothing for granted: of a vote, and of
    /// memory that the kernel may write, it does not know that all threads of a block see the same.
    ///
    /// ```
    /// use kiln_ir::*;
    /// let kernel = parse(
    ///     "kernel @k(%x: mut view<f32, 1, global>) thread [64, 1, 1] {
    ///       %0 = const 0 : i64
    ///       %1 = view_load.x1 %x[%0] : f32
    ///     }",
    /// )?;
    /// let load = kernel.block(kernel.body).ops[1];
    /// let value = kernel.op(load).results[0];
    /// assert!(!Uniformity::of(&kernel).varies(value) && Uniformity::in_plain_sight(&kernel).varies(value));
    /// # Ok::<(), kiln_ir::ParseError>(())
    /// ```
    pub fn in_plain_sight(kernel: &Kernel) -> Uniformity {
        Uniformity::analyzed(kernel, true, false)
    }

    fn analyzed(kernel: &Kernel, in_plain_sight: bool, of_warps: bool) -> Uniformity {
        let (values, ops, _) = kernel.counts();
        let mut uniformity = Uniformity {
            varying: vec![false; values],
            divergent: vec![false; ops],
            in_plain_sight,
            of_warps,
            fault_regions: InFaultRegions::default(),
        };
        if let Level::Thread { block } = kernel.level {
            uniformity.fault_regions.followed = Followed::of(kernel);
            // Facts only ever turn from uniform to varying, so this ends.
            while uniformity.block(kernel, block, kernel.body, false) {}
        }
        uniformity
    }

    /// Whether threads of a block may see different values.
    pub fn varies(&self, value: Value) -> bool {
        self.varying[value.index()]
    }

    /// Whether some threads of a block may reach an operation while others do not.
    ///
    /// ```
    /// use kiln_ir::{Uniformity, parse};
    /// let kernel = parse(
    ///     "kernel @k() thread [64, 1, 1] {
    ///       %0 = thread_id x : i64
    ///       %1 = const 7 : i64
    ///       %2 = lt %0, %1 : bool
    ///       if %2 {
    ///         barrier
    ///         yield
    ///       } else {
    ///         yield
    ///       }
    ///     }",
    /// )?;
    /// let uniformity = Uniformity::of(&kernel);
    /// let choice = kernel.block(kernel.body).ops[3];
    /// let barrier = kernel.block(kernel.op(choice).regions[0]).ops[0];
    /// assert!(uniformity.diverges(barrier) && !uniformity.diverges(choice));
    /// assert!(uniformity.check(&kernel, barrier).unwrap_err().starts_with("a barrier that only some threads"));
    /// # Ok::<(), kiln_ir::ParseError>(())
    /// ```
    pub fn diverges(&self, op: Op) -> bool {
        self.divergent[op.index()]
    }

    /// Whether an operation over tiles, or a barrier, is reached by all threads together and with
    /// the same scalars.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self, kernel: &Kernel, op: Op) -> Result<(), String> {
        let data = kernel.op(op);
        if let Some(what) = fault::meeting(&data.kind) {
            return match self.diverges(op) {
                true => Err(format!("{what} that only some threads of the block may reach")),
                false => Ok(()),
            };
        }
        if !fault::is_collective(kernel, data) {
            return Ok(());
        }
        if self.diverges(op) {
            return Err("a tile operation that only some threads of the block may reach".into());
        }
        // What regions carry may vary; what decides about them may not.
        let control = if data.regions.is_empty() { &data.operands[..] } else { data.control() };
        if let Some(at) = control.iter().position(|&v| self.varies(v)) {
            return Err(format!("operand {at} of a tile operation varies between threads"));
        }
        if data.kind == OpKind::While && self.loop_diverges(kernel, data) {
            return Err("a loop over tiles whose condition varies between threads".into());
        }
        Ok(())
    }

    /// One pass over a block; whether anything changed.
    fn block(&mut self, kernel: &Kernel, extents: [u32; 3], block: Block, divergent: bool) -> bool {
        let mut changed = false;
        for &op in &kernel.block(block).ops {
            let divergent = divergent || self.fault_regions.split;
            changed |= divergent && !std::mem::replace(&mut self.divergent[op.index()], true);
            let data = kernel.op(op);
            changed |= match data.kind.control_flow() {
                Some(ControlFlow::If) => self.branch(kernel, extents, data, divergent),
                Some(ControlFlow::For | ControlFlow::While) => self.repeat(kernel, extents, op, divergent),
                Some(ControlFlow::FaultRegion) => self.fault_region(kernel, extents, op, divergent),
                Some(ControlFlow::Tasks) | None => {
                    let varies = self.computes_varying(kernel, extents, data, divergent);
                    varies && self.mark(kernel, &data.results)
                }
            };
            if self.fault_regions.depth > 0 {
                self.fault(kernel, op, divergent);
            }
        }
        changed
    }

    /// The body of a fault region, and what it gives.
    fn fault_region(&mut self, kernel: &Kernel, extents: [u32; 3], op: Op, divergent: bool) -> bool {
        let data = kernel.op(op);
        let region = data.regions[0];
        if self.fault_regions.depth == 0 {
            self.fault_regions.steps_vary = self.varies(data.budget()) || self.steps_vary(kernel, region);
        }
        let outer = std::mem::replace(&mut self.fault_regions.split, false);
        self.fault_regions.depth += 1;
        let mut changed = self.block(kernel, extents, region, divergent);
        self.fault_regions.depth -= 1;
        changed |= self.fault_regions.split && self.mark(kernel, &data.results);
        self.fault_regions.split = outer;
        changed |= self.flow(kernel, kernel.fault_fallbacks(data), &data.results[1..]);
        changed | self.flow(kernel, yields(kernel, region), &data.results[1..])
    }

    /// Whether threads may take different numbers of steps in a region.
    pub(crate) fn steps_vary(&self, kernel: &Kernel, region: Block) -> bool {
        kernel.block(region).ops.iter().any(|&op| {
            let data = kernel.op(op);
            let here = match data.kind.control_flow() {
                Some(ControlFlow::For | ControlFlow::While) => {
                    self.diverges(op) || self.loop_diverges(kernel, data)
                }
                // Threads that have a fault in an inner fault region leave its loops and go on
                // behind it.
                Some(ControlFlow::FaultRegion) => {
                    self.varies(data.budget()) || self.leaves_loops(kernel, data.regions[0], false)
                }
                Some(ControlFlow::If | ControlFlow::Tasks) | None => false,
            };
            here || data.regions.iter().any(|&r| self.steps_vary(kernel, r))
        })
    }

    /// Whether a fault that only some threads have may end loops of a fault region before their
    /// end: the fault is in a loop, or a loop comes after it. `within` says that the region is in a
    /// loop of the fault region.
    fn leaves_loops(&self, kernel: &Kernel, region: Block, within: bool) -> bool {
        let mut missing = false;
        kernel.block(region).ops.iter().any(|&op| {
            let data = kernel.op(op);
            let ends_loop = match data.kind.control_flow() {
                // What faults in there ends that fault region alone.
                Some(ControlFlow::FaultRegion) => false,
                Some(ControlFlow::For | ControlFlow::While) => {
                    data.regions.iter().any(|&r| self.leaves_loops(kernel, r, true))
                }
                Some(ControlFlow::If | ControlFlow::Tasks) | None => {
                    data.regions.iter().any(|&r| self.leaves_loops(kernel, r, within))
                }
            };
            let early = ends_loop || (missing && fault::takes_steps(kernel, op));
            missing |= self.may_part(kernel, op);
            early || (within && missing)
        })
    }

    /// Whether an operation is or holds one that may fault in some threads and not in others.
    fn may_part(&self, kernel: &Kernel, op: Op) -> bool {
        let data = kernel.op(op);
        if data.kind == OpKind::FaultRegion {
            return false;
        }
        let own = kernel.fault_of(op).is_some()
            && (self.diverges(op) || data.operands.iter().any(|&v| self.varies(v)));
        let inside = |&r: &Block| kernel.block(r).ops.iter().any(|&op| self.may_part(kernel, op));
        own || data.regions.iter().any(inside)
    }

    /// Notes that an operation in a fault region may have been the end of it for some threads.
    fn fault(&mut self, kernel: &Kernel, op: Op, divergent: bool) {
        let data = kernel.op(op);
        let agreed = self.fault_regions.followed.by_collective(op) && !divergent;
        if agreed {
            // Wherever in the operation it was.
            self.fault_regions.split = false;
            return;
        }
        let own =
            kernel.fault_of(op).is_some() && (divergent || data.operands.iter().any(|&v| self.varies(v)));
        let steps = self.fault_regions.steps_vary && fault::takes_steps(kernel, op);
        self.fault_regions.split |= own || steps;
    }

    /// Whether control that varies, as far as is known, parts threads. An assembler takes an
    /// aligned barrier as proof that whole warps come to it.
    fn splits(&self, kernel: &Kernel, data: &OpData, varies: bool) -> bool {
        varies && !(self.of_warps && data.regions.iter().any(|&region| meets(kernel, region)))
    }

    fn branch(&mut self, kernel: &Kernel, extents: [u32; 3], data: &OpData, divergent: bool) -> bool {
        let splits = self.splits(kernel, data, self.varies(data.condition()));
        let (before, mut after) = (self.fault_regions.split, false);
        let mut changed = false;
        for &region in &data.regions {
            self.fault_regions.split = before;
            changed |= self.block(kernel, extents, region, divergent || splits);
            changed |= self.flow(kernel, yields(kernel, region), &data.results);
            after |= self.fault_regions.split;
        }
        self.fault_regions.split = after;
        changed | (splits && self.mark(kernel, &data.results))
    }

    fn repeat(&mut self, kernel: &Kernel, extents: [u32; 3], op: Op, divergent: bool) -> bool {
        let data = kernel.op(op);
        // `for` has the loop variable before what it carries.
        let first_arg = usize::from(data.kind == OpKind::For);
        let splits = self.splits(kernel, data, self.loop_diverges(kernel, data));
        let inits = data.inits();
        let mut changed = splits && self.mark(kernel, &data.results);
        let together = !self.fault_regions.split;
        let divergent = divergent || self.fault_regions.rounds.contains(&op);
        for &region in &data.regions {
            let args = &kernel.block(region).args;
            changed |= splits && self.mark(kernel, args);
            changed |= self.flow(kernel, inits, &args[first_arg..]);
            changed |= self.block(kernel, extents, region, divergent || splits);
        }
        if together && self.fault_regions.split {
            changed |= self.fault_regions.rounds.insert(op);
        }
        let last = data.regions[data.regions.len() - 1];
        let next = yields(kernel, last);
        changed |= self.flow(kernel, inits, &data.results) | self.flow(kernel, next, &data.results);
        for &region in &data.regions {
            changed |= self.flow(kernel, next, &kernel.block(region).args[first_arg..]);
        }
        changed
    }

    /// Whether threads may run a loop a different number of times.
    pub(crate) fn loop_diverges(&self, kernel: &Kernel, data: &OpData) -> bool {
        if data.kind == OpKind::For {
            data.for_bounds().iter().any(|&v| self.varies(v))
        } else {
            data.kind == OpKind::While && yields(kernel, data.regions[0]).iter().any(|&v| self.varies(v))
        }
    }

    fn computes_varying(&self, kernel: &Kernel, extents: [u32; 3], data: &OpData, divergent: bool) -> bool {
        // Of a block of one thread, too, its index is not a constant.
        let many = extents != [1, 1, 1] || self.in_plain_sight;
        let warps = extents.iter().product::<u32>().div_ceil(WARP);
        let own = loads_own(kernel, data) || (self.in_plain_sight && loads_written(kernel, data));
        match &data.kind {
            OpKind::ThreadId(axis) => extents[*axis as usize] > 1 || self.in_plain_sight,
            OpKind::BlockUniform => false,
            // All threads of a warp that vote together get one answer.
            OpKind::Vote(_) => (warps > 1 && !self.of_warps) || (many && (divergent || self.in_plain_sight)),
            OpKind::Shuffle(_) if self.of_warps => {
                many && (divergent || data.operands.iter().any(|&v| self.varies(v)))
            }
            // Lane by lane, or one thread after another.
            OpKind::Shuffle(_)
            | OpKind::Atomic { .. }
            | OpKind::AtomicCas { .. }
            | OpKind::PtrAtomic { .. }
            | OpKind::PtrAtomicCas { .. }
            | OpKind::OrderedLoad { .. }
            | OpKind::LoadQuad(_)
            | OpKind::Atomic128 { .. }
            | OpKind::PtrAtomic128 { .. }
            | OpKind::Clock(_)
            | OpKind::InlinePtx(_)
            | OpKind::Fragment(_)
            | OpKind::Linear {
                op: LinearOp::Atomic { .. } | LinearOp::AtomicCas { .. } | LinearOp::OrderedLoad { .. },
                ..
            }
            | OpKind::PtrOrderedLoad { .. } => many,
            OpKind::Const(_)
            | OpKind::Iota
            | OpKind::ProgramId(_)
            | OpKind::NumPrograms(_)
            | OpKind::BlockDim(_)
            | OpKind::Unary(_)
            | OpKind::Binary(_)
            | OpKind::Compare(_)
            | OpKind::Select
            | OpKind::Fma
            | OpKind::Cast
            | OpKind::Bitcast
            | OpKind::Broadcast
            | OpKind::Reshape
            | OpKind::Transpose(_)
            | OpKind::Reduce { .. }
            | OpKind::Scan { .. }
            | OpKind::Dot(_)
            | OpKind::Extent(_)
            | OpKind::Stride(_)
            | OpKind::Alloc { .. }
            | OpKind::Load(_)
            | OpKind::Store { .. }
            | OpKind::Gather { .. }
            | OpKind::Scatter { .. }
            | OpKind::Fence(_)
            | OpKind::OrderedStore { .. }
            | OpKind::StoreQuad(_)
            | OpKind::Barrier
            | OpKind::WarpBarrier
            | OpKind::GridBarrier
            | OpKind::Cluster(_)
            | OpKind::AsyncCopy(_)
            | OpKind::Sleep
            | OpKind::If
            | OpKind::For
            | OpKind::While
            | OpKind::Yield
            | OpKind::Condition
            | OpKind::FaultRegion
            | OpKind::Assert(_)
            | OpKind::Print(_)
            | OpKind::Explicit(_)
            | OpKind::Address
            | OpKind::Scratch { .. }
            | OpKind::Linear {
                op:
                    LinearOp::Load { .. }
                    | LinearOp::Store { .. }
                    | LinearOp::OrderedStore { .. }
                    | LinearOp::Address,
                ..
            }
            | OpKind::PtrLoad { .. }
            | OpKind::PtrStore { .. }
            | OpKind::PtrOrderedStore { .. }
            | OpKind::CheckBounds
            | OpKind::CheckDivisor
            | OpKind::BlockCheck(_)
            | OpKind::DeferFault { .. }
            | OpKind::Faulted => (own && many) || data.operands.iter().any(|&v| self.varies(v)),
        }
    }

    fn flow(&mut self, kernel: &Kernel, from: &[Value], to: &[Value]) -> bool {
        let mut changed = false;
        for (&from, &to) in from.iter().zip(to) {
            changed |= self.varies(from) && self.mark(kernel, &[to]);
        }
        changed
    }

    /// Marks scalars as varying; whether any was not.
    fn mark(&mut self, kernel: &Kernel, values: &[Value]) -> bool {
        let mut changed = false;
        for &value in values.iter().filter(|&&v| kernel.ty(v).is_scalar()) {
            changed |= !std::mem::replace(&mut self.varying[value.index()], true);
        }
        changed
    }
}

/// Whether all threads of a block meet in a region.
fn meets(kernel: &Kernel, region: Block) -> bool {
    kernel.block(region).ops.iter().any(|&op| {
        let data = kernel.op(op);
        let checks = matches!(data.kind, OpKind::BlockCheck(_) | OpKind::DeferFault { together: false, .. });
        checks
            || fault::meeting(&data.kind).is_some()
            || data.regions.iter().any(|&inner| meets(kernel, inner))
    })
}

/// The space that an operation loads from, if it does.
fn loads_from(kernel: &Kernel, data: &OpData) -> Option<Space> {
    if let OpKind::PtrLoad { space, .. } = data.kind {
        return Some(space);
    }
    let linear = matches!(data.kind, OpKind::Linear { op: LinearOp::Load { .. }, .. });
    let loads = linear || matches!(data.kind, OpKind::Load(_) | OpKind::Gather { .. });
    loads.then(|| kernel.ty(data.view()).as_view().map(|view| view.space)).flatten()
}

/// Whether an operation loads from memory of the thread's own.
fn loads_own(kernel: &Kernel, data: &OpData) -> bool {
    loads_from(kernel, data) == Some(Space::Local)
}

/// Whether an operation loads from memory that is not known to be written by nobody.
fn loads_written(kernel: &Kernel, data: &OpData) -> bool {
    let Some(space) = loads_from(kernel, data) else { return false };
    let is_read_only = |view: Value| match kernel.def(view) {
        Def::Arg(block, at) if block == kernel.body => {
            kernel.params.get(at as usize).is_some_and(|param| !param.mutable)
        }
        Def::Arg(..) | Def::Result(..) => false,
    };
    let by_pointer = matches!(data.kind, OpKind::PtrLoad { .. });
    space != Space::Local && (by_pointer || !is_read_only(data.view()))
}

/// What the terminator of a region hands on.
fn yields(kernel: &Kernel, region: Block) -> &[Value] {
    kernel.block(region).ops.last().map_or(&[], |&op| &kernel.op(op).operands)
}
