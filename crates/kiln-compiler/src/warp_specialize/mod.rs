//! Specialized warps: a kernel over tiles whose loops load factors of products and multiply them
//! becomes one of the explicit level, with a task that copies and a task that does everything else.
//!
//! Before: loops of the kernel's body whose loads feed products alone, from memory that the kernel
//! does not write. After: one warp copies these tiles into a ring of *stages* of shared memory by
//! bulk tensor copies, some iterations ahead. The other warps multiply what has arrived and release
//! each stage that they have read; they also do everything else that the program does. Both tasks
//! go through the same iterations, so loop bounds and the places of loads are scalars that either
//! task can compute. The values are the same to the bit: the products are the same, in the same
//! order.
//!
//! It takes a GPU with bulk copies and products of warpgroups (compute capability 9.0), and views
//! that bulk copies can move, as far as the facts of the specialization say so. Everything else
//! about the copies holds by itself: what lies outside a view is zero, as of loads padded with
//! zero. A fault does not end a task: the lowering defers it, since the copying warp would wait for
//! ever.
//!
//! | file | holds |
//! |---|---|
//! | `eligibility.rs` | whether a kernel is one of these: its loops, products and copies |
//! | `copies.rs` | which boxes of views bulk copies can move |
//! | `memory.rs` | the shared memory and mbarriers of the tasks, and how many stages there are |
//! | `producer.rs` | the task that copies |
//! | `consumer.rs` | the task that multiplies |
//! | `results.rs` | results that leave through shared memory |

mod consumer;
mod copies;
mod eligibility;
mod memory;
mod producer;
mod results;

use crate::error::CompileError;
use crate::target::Target;
use eligibility::EligibleKernel;
use kiln_ir::{BinaryOp, Builder, CompareOp, ExplicitOp, Kernel, Loc, Op, OpKind, Scalar, Task, Type, Value};
use memory::SharedMemory;
use rustc_hash::FxHashMap;
use smallvec::smallvec;

/// Why a kernel is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotSpecialized {
    /// `file:line:column`.
    pub location: String,
    /// What stands in the way.
    pub reason: String,
}

impl From<NotSpecialized> for CompileError {
    fn from(NotSpecialized { location, reason }: NotSpecialized) -> CompileError {
        CompileError::NotSpecialized { location, reason }
    }
}

/// Why a kernel is not eligible, before its location is resolved.
#[derive(Debug)]
struct NotEligible {
    loc: Loc,
    reason: String,
}

impl NotEligible {
    fn new<T>(loc: Loc, reason: impl Into<String>) -> Result<T, NotEligible> {
        Err(NotEligible { loc, reason: reason.into() })
    }
}

/// Gives loops of products a task that copies. The kernel is optimized and has its elementary
/// functions expanded.
///
/// # Errors
/// [`NotSpecialized`] for a kernel that is not eligible; it compiles without a copy task.
///
/// ```
/// use kiln_compiler::{Target, warp_specialize};
/// let kernel = kiln_ir::parse("kernel @sum(%x: view<f32, 1, global>) tile {
///   %0 = const 0 : i64
///   %1 = const 0.0 : f32
///   %2 = load %x[%0] pad %1 : f32[64]
/// }").unwrap();
/// let kept = warp_specialize(&kernel, &Target::cuda((9, 0), 227 << 10)).unwrap_err();
/// assert_eq!(kept.reason, "it has no products of matrices");
/// ```
pub fn warp_specialize(kernel: &Kernel, target: &Target) -> Result<Kernel, NotSpecialized> {
    EligibleKernel::of(kernel, target)
        .and_then(|eligible| Ok((SharedMemory::plan(kernel, &eligible, target)?, eligible)))
        .map(|(plan, eligible)| Specializer::new(kernel, &eligible).run(&plan))
        .map_err(|NotEligible { loc, reason }| NotSpecialized { location: kernel.describe(loc), reason })
}

/// The kernel while it is taken apart.
struct Specializer<'f> {
    kernel: Kernel,
    eligible: &'f EligibleKernel,
    /// What the consumer's values have become.
    renames: FxHashMap<Value, Value>,
}

impl<'f> Specializer<'f> {
    fn new(kernel: &Kernel, eligible: &'f EligibleKernel) -> Specializer<'f> {
        Specializer { kernel: kernel.clone(), eligible, renames: FxHashMap::default() }
    }

    fn run(mut self, plan: &memory::SharedPlan) -> Kernel {
        let body = self.kernel.body;
        let (outside, rest): (Vec<Op>, Vec<Op>) = std::mem::take(&mut self.kernel.block_mut(body).ops)
            .into_iter()
            .partition(|op| self.eligible.outside.contains(op));
        self.kernel.block_mut(body).ops = outside;
        let memory = SharedMemory::make(&mut self.kernel, self.eligible, plan);
        let producer = self.producer(&memory);
        let consumer = self.consumer(&memory, rest);
        let task = |warps| Task { copies: 1, warps, registers: 0 };
        let tasks = ExplicitOp::Tasks(smallvec![task(1), task(self.eligible.warps)]);
        let loc = self.kernel.op(self.eligible.loops[0].op).loc;
        self.kernel.append(body, OpKind::Explicit(tasks), &[], &[], &[producer, consumer], loc);
        self.kernel
    }
}

/// An explicit operation without results.
fn effect(b: &mut Builder<'_>, op: ExplicitOp, operands: &[Value]) {
    b.op(OpKind::Explicit(op), operands, &[]);
}

/// An explicit operation with a result like one of its operands.
fn like(b: &mut Builder<'_>, op: ExplicitOp, operands: &[Value], model: Value) -> Value {
    let ty = b.kernel.ty(model).clone();
    let made = b.op(OpKind::Explicit(op), operands, &[ty]);
    b.kernel.result(made)
}

/// Where a task is in a ring: a stage, and how often it has gone round.
#[derive(Clone, Copy)]
struct RingPosition {
    stage: Value,
    phase: Value,
}

impl RingPosition {
    /// The beginning of a ring.
    fn first(b: &mut Builder<'_>) -> RingPosition {
        let zero = b.index(0);
        RingPosition { stage: zero, phase: zero }
    }

    /// The place of the next round.
    fn next(self, b: &mut Builder<'_>, stages: u32) -> RingPosition {
        let (zero, one, all) = (b.index(0), b.index(1), b.index(stages.into()));
        let stage = b.binary(BinaryOp::Add, self.stage, one);
        let around = b.compare(CompareOp::Eq, stage, all);
        let phase = b.binary(BinaryOp::Add, self.phase, one);
        RingPosition { stage: b.select(around, zero, stage), phase: b.select(around, phase, self.phase) }
    }
}

/// The type of stages, phases and places.
fn index() -> Type {
    Type::scalar(Scalar::I64)
}
