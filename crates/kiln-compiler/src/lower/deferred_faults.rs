//! Deferred faults, in kernels whose threads wait for each other: a failed check is recorded, and
//! the thread goes on.
//!
//! A task that left would leave others waiting for its arrivals, copies and signals, and a warp
//! that left its warpgroup's products without it. So in kernels with tasks, signals or products of
//! warpgroups a thread that fails a check defers the fault, which the launch reports, and comes to
//! its end as ever, with no harm done: an access outside its view gives the padding or is dropped,
//! a divisor of zero becomes one, and accesses that the user vouched for, maybe because of the
//! check, take place no more. What the kernel computes after the fault means nothing.
//!
//! What ends is as certain as before: `while` loops end with the round, and `for` loops that begin
//! after a fault have no rounds, as their bounds may be nonsense. Those whose rounds others count
//! on go on as they were: loops that wait, or that what waits depends on. Among them a `while` with
//! a check inside is refused, since the check may be all that ends it.

use super::products::Unit;
use super::{Lowering, facts::IntFacts, plan::LayoutPlan, roles};
use crate::error::CompileError;
use kiln_ir::{
    Block, Bounds, Check, ControlFlow, Def, ExplicitOp, Kernel, Level, Literal, Loc, Op, OpData, OpFault,
    OpKind, Operand, Scalar, UnaryOp, Value,
};
use rustc_hash::FxHashSet;

/// How a kernel defers its faults.
#[derive(Default)]
pub(super) struct DeferredFaults {
    /// Loops that end after a fault, by their first region.
    ends: FxHashSet<Block>,
}

/// Whether an operation is for others, or waits for them.
fn concerns_others(kind: &OpKind) -> bool {
    use ExplicitOp::*;
    matches!(
        kind,
        OpKind::Explicit(
            MbarrierExpect { .. }
                | MbarrierArrive
                | MbarrierWait
                | TmaLoad { .. }
                | TmaStore
                | TmaReduce(_)
                | TmaStoreWait { .. }
                | Signal
                | SignalWait
                | Tasks(_)
        )
    )
}

/// Whether an operation is begun, and done later.
fn is_product(kind: &OpKind) -> bool {
    use ExplicitOp::*;
    let explicit = matches!(kind, OpKind::Explicit(Wgmma { .. } | WgmmaRegisters { .. } | WgmmaWait { .. }));
    explicit || matches!(kind, OpKind::Dot(_))
}

/// Whether an operation, or one that it holds, is such a one.
fn holds(kernel: &Kernel, op: Op, is: fn(&OpKind) -> bool) -> bool {
    let data = kernel.op(op);
    let inside = || data.regions.iter().flat_map(|&r| &kernel.block(r).ops);
    is(&data.kind) || inside().any(|&op| holds(kernel, op, is))
}

/// Whether an operation can fault.
fn is_check(kernel: &Kernel, facts: &mut IntFacts<'_>, op: Op) -> bool {
    let data = kernel.op(op);
    kernel.fault_of(op).is_some_and(|fault| match fault {
        OpFault::Assert => !kernel.as_const(data.condition()).is_some_and(Literal::is_true),
        OpFault::DivisionByZero => facts.of(data.right()).min <= 0,
        OpFault::OutOfBounds => true,
    })
}

/// Refuses fault regions whose rest others wait for: it is skipped after a fault.
pub(super) fn refuse_fault_regions(kernel: &Kernel) -> Result<(), CompileError> {
    let mut found = None;
    kernel.walk(|op, data| {
        if data.kind == OpKind::FaultRegion && holds(kernel, op, concerns_others) {
            found.get_or_insert(data.loc);
        }
    });
    let what = "a fault region around operations that other tasks wait for";
    let hint =
        "let a fault region hold only what is computed between them: what follows a fault in it is skipped";
    found.map_or(Ok(()), |loc| refuse(kernel, loc, what, hint))
}

fn refuse(kernel: &Kernel, loc: Loc, what: &str, hint: &str) -> Result<(), CompileError> {
    let location = kernel.describe(loc);
    Err(CompileError::Unsupported { location, what: what.into(), hint: hint.into() })
}

impl DeferredFaults {
    /// Analyzes a kernel over tiles; `None` if a thread may leave, or nothing can fault.
    pub fn of(
        kernel: &Kernel,
        facts: &mut IntFacts<'_>,
        plan: &LayoutPlan,
    ) -> Result<Option<DeferredFaults>, CompileError> {
        let mut waits = plan.products.by_op.values().any(|p| matches!(p.unit, Unit::Warpgroups));
        let mut checks = FxHashSet::default();
        kernel.walk(|op, data| {
            waits |= concerns_others(&data.kind);
            checks.extend(is_check(kernel, facts, op).then_some(op));
        });
        if matches!(kernel.level, Level::Thread { .. }) || !waits || checks.is_empty() {
            return Ok(None);
        }
        let counted = counted_on(kernel);
        let mut deferred = DeferredFaults::default();
        let mut endless = None;
        kernel.walk(|op, data| {
            let goes_on = counted.contains(&op);
            match data.kind.control_flow() {
                Some(ControlFlow::For) => {
                    if !goes_on && !holds(kernel, op, is_product) {
                        deferred.ends.insert(data.regions[0]);
                    }
                }
                Some(ControlFlow::While) if !goes_on => {
                    deferred.ends.insert(data.regions[0]);
                }
                Some(ControlFlow::While) => endless = endless.or_else(|| first_of(kernel, op, &checks)),
                Some(ControlFlow::If | ControlFlow::FaultRegion | ControlFlow::Tasks) | None => {}
            }
        });
        if let Some(check) = endless {
            let what =
                "a check in a `while` loop that other tasks wait for, which might never end after it failed";
            let hint = "count the loop's rounds by a `for` over a range, or check before or after it";
            refuse(kernel, kernel.op(check).loc, what, hint)?;
        }
        Ok(Some(deferred))
    }
}

/// The first of some operations that another holds.
fn first_of(kernel: &Kernel, op: Op, among: &FxHashSet<Op>) -> Option<Op> {
    let inside = kernel.op(op).regions.iter().flat_map(|&r| &kernel.block(r).ops);
    inside.copied().find_map(|op| if among.contains(&op) { Some(op) } else { first_of(kernel, op, among) })
}

/// The operations with regions that others count on: those that hold what concerns them, and those
/// that it is computed from.
fn counted_on(kernel: &Kernel) -> FxHashSet<Op> {
    let mut around = vec![None; kernel.counts().2];
    let (mut found, mut todo) = (FxHashSet::default(), Vec::new());
    kernel.walk(|op, data| {
        data.regions.iter().for_each(|r| around[r.index()] = Some(op));
        if concerns_others(&data.kind) {
            todo.extend(data.operands.iter().copied());
        }
        if !data.regions.is_empty() && holds(kernel, op, concerns_others) {
            found.insert(op);
            match data.kind.control_flow() {
                Some(ControlFlow::If | ControlFlow::For) => todo.extend(data.control()),
                Some(ControlFlow::While) => todo.extend(yields(kernel, data.regions[0])),
                // One around what others wait for is refused; tasks have nothing that decides.
                Some(ControlFlow::FaultRegion | ControlFlow::Tasks) | None => {}
            }
        }
    });
    let mut seen = FxHashSet::default();
    while let Some(value) = todo.pop() {
        if !seen.insert(value) {
            continue;
        }
        // A loop's values may each depend on all that it carries.
        let from = match kernel.def(value) {
            Def::Result(op, _) => Some(op),
            Def::Arg(block, _) => around[block.index()],
        };
        let Some(op) = from else { continue };
        let data = kernel.op(op);
        todo.extend(data.operands.iter().copied());
        todo.extend(data.regions.iter().flat_map(|&r| yields(kernel, r)));
        if !data.regions.is_empty() {
            found.insert(op);
        }
    }
    found
}

/// What the end of a region has.
fn yields(kernel: &Kernel, region: Block) -> impl Iterator<Item = Value> + '_ {
    kernel.block(region).ops.last().into_iter().flat_map(|&op| kernel.op(op).operands.iter().copied())
}

impl Lowering<'_> {
    /// Whether nothing has failed, where accesses and loops must ask for it.
    fn nothing_failed(&mut self) -> Value {
        let faulted = self.em.one(OpKind::Faulted, &[], Scalar::Bool);
        self.em.unary(UnaryOp::Not, faulted)
    }

    /// Where an access that the user vouched for may still take place; `None` is always.
    pub(super) fn still_trusted(&mut self, bounds: Bounds) -> Option<Value> {
        (bounds == Bounds::Trust && self.deferred.is_some()).then(|| self.nothing_failed())
    }

    /// Whether a loop with this first region ends after a fault.
    fn ends_after_fault(&self, region: Block) -> bool {
        self.deferred.as_ref().is_some_and(|deferred| deferred.ends.contains(&region))
    }

    /// The end of a `for` loop that begins at `from`, which may begin after a fault.
    pub(super) fn last_round(&mut self, data: &OpData, from: Value, end: Value) -> Value {
        if data.kind != OpKind::For || !self.ends_after_fault(data.regions[0]) {
            return end;
        }
        let fine = self.nothing_failed();
        self.em.select(fine, end, from)
    }

    /// Lets a `while` loop whose first region has become `looks` end after a fault.
    pub(super) fn end_after_fault(&mut self, data: &OpData, looks: Block) {
        if data.kind != OpKind::While || !self.ends_after_fault(data.regions[0]) {
            return;
        }
        let Some(end) = self.em.kernel.block_mut(looks).ops.pop() else { return };
        let outer = std::mem::replace(&mut self.em.block, looks);
        let fine = self.nothing_failed();
        let more = self.em.kernel.op(end).condition();
        let more = self.em.and(fine, more);
        self.em.kernel.op_mut(end).set_operand(Operand::Condition, more);
        self.em.kernel.block_mut(looks).ops.push(end);
        self.em.block = outer;
    }

    /// What to divide by where the fault of a zero divisor is deferred; `None` where it ends the
    /// thread.
    pub(super) fn harmless_divisor(&mut self, divisor: Value, not_zero: Value) -> Option<Value> {
        self.deferred.as_ref()?;
        self.found.divisors = Some(match self.found.divisors {
            Some(others) => self.em.and(others, not_zero),
            None => not_zero,
        });
        let one = self.em.constant(Literal::one(self.em.elem(divisor)));
        Some(self.em.select(not_zero, divisor, one))
    }

    /// Defers the faults that an operation with this result, or operand, has found in its elements.
    pub(super) fn defer_found(&mut self, tile: Value) {
        let together = !roles::is_tile(self.src, tile);
        if self.deferred.is_none() {
            return;
        }
        let (outside, divisors) = (std::mem::take(&mut self.found.outside), self.found.divisors.take());
        for operands in outside {
            self.em.op(OpKind::DeferFault { check: Check::Bounds, together }, &operands, &[]);
        }
        if let Some(fine) = divisors {
            self.em.op(OpKind::DeferFault { check: Check::Divisor, together }, &[fine], &[]);
        }
    }
}
