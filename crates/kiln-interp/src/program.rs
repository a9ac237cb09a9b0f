//! A compiled kernel: verified, with its block memory laid out. Nothing else is prepared; the
//! machine walks the IR.

use crate::thread_order::ThreadOrder;
use crate::value::Data;
use kiln_backend::{Program, Report};
use kiln_ir::{
    ExplicitOp, FaultRegions, Kernel, Level, LinearOp, Op, OpKind, Order, Scalar, Scope, Shape, Space, Value,
};
use std::any::Any;
use std::collections::HashMap;

/// A kernel that is ready to run.
pub struct Loaded {
    /// The kernel.
    pub kernel: Kernel,
    /// The block's extents; one thread for a program over tiles.
    pub block: [u32; 3],
    /// Whether the block has threads that are visible to the user.
    pub threaded: bool,
    /// Bytes of block memory: the scratch memory and the shared allocations.
    pub shared_bytes: usize,
    /// Bytes of each thread's memory.
    pub local_bytes: usize,
    /// Whether it has fences, signals or loads that acquire, by which blocks order themselves.
    pub fenced: bool,
    /// Whether a block may wait for what another one stores.
    pub waits_for_blocks: bool,
    /// Whether it has loads or atomic operations that acquire, by which the threads of a block
    /// order themselves too.
    pub acquires: bool,
    /// Whether a check by itself ends the thread that fails it, and no other.
    pub leave_alone: bool,
    /// What fault regions catch, if there are any.
    pub fault_regions: Option<FaultRegions>,
    /// Threads of a warp.
    pub warp: usize,
    /// The address of each allocation in its space.
    pub allocations: HashMap<Op, u64>,
}

impl Loaded {
    /// Lays out a kernel for warps of so many threads.
    pub fn new(kernel: &Kernel, warp: usize) -> Loaded {
        let (block, threaded) = match kernel.level {
            Level::Tile { .. } => ([1; 3], false),
            Level::Thread { block } => (block, true),
        };
        let mut loaded = Loaded {
            kernel: kernel.clone(),
            block,
            threaded,
            shared_bytes: kernel.scratch_bytes as usize,
            local_bytes: 0,
            fenced: false,
            waits_for_blocks: false,
            acquires: false,
            leave_alone: leave_alone(kernel),
            fault_regions: FaultRegions::of(kernel),
            warp,
            allocations: HashMap::new(),
        };
        let acquiring = acquiring_fences(kernel);
        loaded.acquires = !acquiring.is_empty();
        loaded.waits_for_blocks = acquiring.iter().any(|scope| *scope != Scope::Block);
        kernel.walk(|op, data| {
            // A fence of the block orders nothing between blocks.
            let fence = matches!(data.kind, OpKind::Fence(Scope::Device | Scope::System));
            let waits = matches!(data.kind, OpKind::Explicit(ExplicitOp::SignalWait));
            loaded.fenced |= fence || waits || acquires_of_others(&data.kind);
            let ordered = ordered_load(&data.kind).is_some_and(|(_, scope)| scope != Scope::Block);
            loaded.waits_for_blocks |= waits || ordered || matches!(data.kind, OpKind::LoadQuad(_));
            loaded.acquires |= acquires(&data.kind);
            if let OpKind::Alloc { space, elem, shape } = &data.kind {
                let end = match space {
                    Space::Local => &mut loaded.local_bytes,
                    _ => &mut loaded.shared_bytes,
                };
                let start = end.next_multiple_of(16);
                *end = start + allocation_bytes(*elem, shape);
                loaded.allocations.insert(op, start as u64);
            }
        });
        loaded
    }

    /// The number of threads of a block.
    pub fn lanes(&self) -> usize {
        self.block.iter().map(|&e| e as usize).product()
    }

    /// Calls `visit` with the element type and the number of elements of each register: tiles are
    /// held whole, scalars once a thread, views not at all.
    fn for_each_register(&self, mut visit: impl FnMut(Value, Scalar, usize)) {
        let mut add = |value: Value| {
            if let Some(tile) = self.kernel.ty(value).as_tile() {
                let len = if tile.shape.rank() == 0 { self.lanes() } else { tile.shape.len() };
                visit(value, tile.elem, len);
            }
        };
        self.kernel.block(self.kernel.body).args.iter().copied().for_each(&mut add);
        self.kernel.walk(|_, data| {
            data.results.iter().copied().for_each(&mut add);
            for &region in &data.regions {
                self.kernel.block(region).args.iter().copied().for_each(&mut add);
            }
        });
    }

    /// The size of all registers.
    pub fn register_bytes(&self) -> u64 {
        let mut bytes = 0u64;
        self.for_each_register(|_, elem, len| {
            bytes = bytes.saturating_add((len as u64).saturating_mul(elem.bytes().into()));
        });
        bytes
    }

    /// Zeroed registers, by value index; empty ones for views. `None` if the system has no more
    /// memory.
    pub fn registers(&self) -> Option<Vec<Data>> {
        let mut registers = vec![Data::default(); self.kernel.counts().0];
        let mut all = true;
        self.for_each_register(|value, elem, len| match Data::try_zeros(elem, len) {
            Some(zeros) if all => registers[value.index()] = zeros,
            _ => all = false,
        });
        all.then_some(registers)
    }
}

/// Whether threads of a kernel leave one by one.
fn leave_alone(kernel: &Kernel) -> bool {
    let (mut lowered, mut waits) = (false, kernel.cluster != 1);
    kernel.walk(|_, data| {
        lowered |= data.kind.is_below_tiles();
        waits |= matches!(data.kind, OpKind::Explicit(ref op) if *op != ExplicitOp::Exp2Flushed);
    });
    lowered && !waits
}

impl Loaded {
    /// The order of the threads of a block that begins.
    pub fn thread_order(&self) -> ThreadOrder {
        let mut meets = false;
        self.kernel.walk(|_, data| meets |= data.kind == OpKind::WarpBarrier);
        ThreadOrder::new(self.lanes(), meets.then_some(self.warp))
    }
}

/// The order and the scope of an ordered load.
fn ordered_load(kind: &OpKind) -> Option<(Order, Scope)> {
    if let OpKind::OrderedLoad { order, scope, .. }
    | OpKind::PtrOrderedLoad { order, scope, .. }
    | OpKind::Linear { op: LinearOp::OrderedLoad { order, scope, .. }, .. } = kind
    {
        return Some((*order, *scope));
    }
    None
}

/// Whether an operation is a load that orders what follows it.
fn acquires(kind: &OpKind) -> bool {
    ordered_load(kind).is_some_and(|(order, _)| order == Order::Acquire)
}

/// Whether it orders what other blocks have stored.
fn acquires_of_others(kind: &OpKind) -> bool {
    acquires(kind) && ordered_load(kind).is_some_and(|(_, scope)| scope != Scope::Block)
}

/// The scopes of the fences that stand behind an atomic operation: so one is written that acquires.
/// A fence that a barrier follows is part of that.
fn acquiring_fences(kernel: &Kernel) -> Vec<Scope> {
    let mut blocks = vec![kernel.body];
    kernel.walk(|_, data| blocks.extend_from_slice(&data.regions));
    let mut scopes = Vec::new();
    for block in blocks {
        let ops = &kernel.block(block).ops;
        let kind = |at: usize| ops.get(at).map(|op| &kernel.op(*op).kind);
        for at in 1..ops.len() {
            let Some(OpKind::Fence(scope)) = kind(at) else { continue };
            if kind(at - 1).is_some_and(is_atomic) && !matches!(kind(at + 1), Some(OpKind::Barrier)) {
                scopes.push(*scope);
            }
        }
    }
    scopes
}

fn is_atomic(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::Atomic { .. }
            | OpKind::AtomicCas { .. }
            | OpKind::PtrAtomic { .. }
            | OpKind::PtrAtomicCas { .. }
            | OpKind::Atomic128 { .. }
            | OpKind::PtrAtomic128 { .. }
            | OpKind::Linear { op: LinearOp::Atomic { .. } | LinearOp::AtomicCas { .. }, .. }
    )
}

/// The size of an allocation.
pub fn allocation_bytes(elem: Scalar, shape: &Shape) -> usize {
    shape.len() * elem.bytes() as usize
}

impl Program for Loaded {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn report(&self) -> Report {
        Report { threads: self.lanes() as u32, shared: self.shared_bytes as u32, ..Report::default() }
    }
}
