//! Checks: asserts, indices that must lie inside, divisors that must not be zero.
//!
//! A thread that failed a check and left by itself would be missing in the exchanges, barriers and
//! loops that the others still run, and they would have stored what comes after the fault. So an
//! operation on a tile first finds in each thread whether all of its elements are fine, and then
//! the threads of the block decide together, before any effect of the operation
//! ([`OpKind::BlockCheck`]). Where the condition is the same in all threads, all of them leave
//! without asking each other. A scalar of a kernel over threads is a matter of its thread.
//!
//! In kernels whose threads must not leave at all, faults are deferred: see `deferred_faults.rs`.

use super::indexed::{Element, Indexed};
use super::{Lowering, Registers, roles};
use crate::error::CompileError;
use kiln_ir::{Check, CompareOp, Kernel, Literal, Message, OpData, OpKind, Scalar, Value};
use rustc_hash::FxHashSet;

/// What the operation that is being lowered has found in the elements of one thread.
#[derive(Default)]
pub(super) struct Found {
    /// By axis: whether the indices so far are inside, one that is not if there is one, and the
    /// extent.
    pub outside: Vec<[Value; 3]>,
    /// Whether the divisors so far are not zero.
    pub divisors: Option<Value>,
}

/// The tiles of a kernel with the same value in every element, by value; scalars are among them.
pub(super) fn splats(kernel: &Kernel) -> Vec<bool> {
    let mut splats = vec![false; kernel.counts().0];
    (0..splats.len()).map(Value::from_index).for_each(|v| splats[v.index()] = !roles::is_tile(kernel, v));
    kernel.walk(|_, data| {
        let moves = matches!(data.kind, OpKind::Broadcast | OpKind::Reshape | OpKind::Transpose(_));
        let keeps = moves || matches!(data.kind, OpKind::Const(_)) || data.kind.is_elementwise();
        if keeps && data.operands.iter().all(|v| splats[v.index()]) {
            data.results.iter().for_each(|v| splats[v.index()] = true);
        }
    });
    splats
}

impl Lowering<'_> {
    /// Whether the threads of the block decide together about a check of this tile, or of a scalar.
    fn decides_together(&self, tile: Value) -> bool {
        self.deferred.is_none() && roles::is_tile(self.src, tile)
    }

    /// Appends a check of the block, or one that each thread decides alone with the same result.
    fn check_in_block(&mut self, check: Check, same: bool, operands: &[Value]) {
        let kind = match (same, check) {
            (false, check) => OpKind::BlockCheck(check),
            (true, Check::Assert(message)) => OpKind::Assert(message),
            (true, Check::Bounds) => OpKind::CheckBounds,
            (true, Check::Divisor) => OpKind::CheckDivisor,
        };
        self.em.op(kind, operands, &[]);
    }

    /// Appends an assertion about a tile, or a scalar, of which the first operand says whether it
    /// holds for this thread's elements.
    pub(super) fn check_assert(&mut self, data: &OpData, message: Message, operands: &[Value]) {
        let condition = data.condition();
        let check = Check::Assert(message);
        if self.decides_together(condition) {
            self.check_in_block(check, self.splats[condition.index()], operands);
        } else if self.deferred.is_some() {
            let together = !roles::is_tile(self.src, condition);
            self.em.op(OpKind::DeferFault { check, together }, operands, &[]);
        } else {
            self.em.op(OpKind::Assert(message), operands, &[]);
        }
    }

    /// Checks all divisors of an integer division of tiles before it. Whether it did: else each
    /// division has its own check, if it needs one.
    pub(super) fn check_divisors(&mut self, data: &OpData, registers: &[Registers]) -> bool {
        if !data.kind.divides() || !self.decides_together(data.results[0]) {
            return false;
        }
        let elem = self.src.ty(data.results[0]).elem();
        if !elem.is_int() || self.facts.of(data.right()).min > 0 {
            return false;
        }
        let mut seen = FxHashSet::default();
        let mut all = None;
        for &divisor in registers[1].iter().filter(|d| seen.insert(**d)) {
            let fine = self.is_divisor(divisor, elem);
            all = self.em.both(all, fine);
        }
        if let Some(all) = all {
            self.check_in_block(Check::Divisor, self.splats[data.right().index()], &[all]);
        }
        true
    }

    /// Whether a divisor is not zero; `None` for a constant that is not.
    pub(super) fn is_divisor(&mut self, divisor: Value, elem: Scalar) -> Option<Value> {
        if self.em.as_int(divisor).is_some_and(|d| d != 0) {
            return None;
        }
        let zero = self.em.constant(Literal::zero(elem));
        Some(self.em.compare(CompareOp::Ne, divisor, zero))
    }

    /// The linear indices of an access of tiles, and where each element is to be accessed, after a
    /// check of all of them; `None` if nothing is checked, or each access by itself.
    pub(super) fn checked_elements(
        &mut self,
        data: &OpData,
        access: &Indexed,
    ) -> Result<Option<Vec<Element>>, CompileError> {
        if !access.is_checked() || !self.decides_together(access.tile) {
            return Ok(None);
        }
        let elements = (0..access.count).map(|r| self.element_place(access, r)).collect::<Result<_, _>>()?;
        // One check for all axes: it reports the first that an element leaves.
        let outside = std::mem::take(&mut self.found.outside).into_iter().rev();
        let operands = outside.reduce(|[fine, index, extent], [earlier_fine, earlier, its_extent]| {
            let index = self.em.select(earlier_fine, index, earlier);
            let extent = self.em.select(earlier_fine, extent, its_extent);
            [self.em.and(earlier_fine, fine), index, extent]
        });
        if let Some(operands) = operands {
            let same = data.operands.iter().all(|v| self.splats[v.index()]);
            self.check_in_block(Check::Bounds, same, &operands);
        }
        Ok(Some(elements))
    }

    /// Remembers an index that is checked with others; whether it is.
    pub(super) fn remember_index(
        &mut self,
        tile: Value,
        axis: usize,
        fine: Value,
        index: Value,
        extent: Value,
    ) -> bool {
        if self.deferred.is_none() && !self.decides_together(tile) {
            return false;
        }
        match self.found.outside.get_mut(axis) {
            Some([all, wrong, _]) => {
                *wrong = self.em.select(fine, *wrong, index);
                *all = self.em.and(*all, fine);
            }
            None => self.found.outside.push([fine, index, extent]),
        }
        true
    }
}
