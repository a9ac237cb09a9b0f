//! Products of warpgroups: both factors, or the right one, are read from shared memory by the matrix units themselves.

use super::Lowering;
use super::barriers::Does;
use super::mma::{Place, Side, Source};
use super::products::Product;
use super::scratch::Area;
use crate::error::CompileError;
use kiln_ir::{FragmentOp, GroupProduct, Lines, Op, OpData, OpKind, Scalar, Type, Value};

/// The depth of one instruction.
const STEP: u32 = 16;

impl Lowering<'_> {
    pub(super) fn warpgroup_product(
        &mut self,
        op: Op,
        data: &OpData,
        product: Product,
    ) -> Result<(), CompileError> {
        let (left, right) = self.sources(op, data, &product)?;
        let in_flight = self.plan.pipelines.is_in_flight(op);
        let zero = self.src.as_const(data.operands[2]).is_some_and(|l| !l.is_true());
        let keep = in_flight || !zero;
        let mut operands = Vec::new();
        let mut areas = Vec::new();
        let mut lines = |source: &Source, side, operands: &mut Vec<Value>| match source {
            Source::Registers(_) => None,
            Source::Shared { base, slot, transposed, area } => {
                operands.push(*base);
                areas.extend(*area);
                let place = Place { slot: *slot, transposed: *transposed, side };
                Some(if place.along_depth() { Lines::Depth } else { Lines::Across })
            }
        };
        let of_left = lines(&left, Side::Left, &mut operands);
        let Some(of_right) = lines(&right, Side::Right, &mut operands) else {
            return Err(self.internal("a right factor of warpgroups in registers".into()));
        };
        if of_left.is_none() {
            operands.extend(self.left_words(&left, &product)?);
        }
        let registers = self.layout(product.sums).registers();
        if keep {
            operands.extend_from_slice(&self.operand(data.operands[2], product.sums)?);
        }
        let extents = product.extents;
        let begun = GroupProduct { factor: product.factor, extents, left: of_left, right: of_right, keep };
        let types = vec![Type::scalar(Scalar::F32); registers];
        let made = self.em.op(OpKind::Fragment(FragmentOp::WarpgroupMma(begun)), &operands, &types);
        for area in areas.into_iter().map(Area::read) {
            self.accesses.note(made, area, Does::Read);
        }
        let mut sums = self.em.kernel.op(made).results.to_vec();
        if !in_flight {
            sums = self.await_products(&sums, 0);
        }
        self.define(data.results[0], product.sums, sums)
    }

    /// The words of the left factor, by blocks of 64 rows and steps.
    fn left_words(&mut self, left: &Source, product: &Product) -> Result<Vec<Value>, CompileError> {
        let Some(layout) = product.fragments[0].map(|id| self.layout(id)) else {
            return Err(self.internal("a left factor without a layout".into()));
        };
        let [m, _, k] = product.extents;
        let mut words = Vec::new();
        for block in 0..m / (16 * self.warps) {
            for step in 0..k / STEP {
                words.extend(self.fragments(left, Side::Left, &layout, (block, 1), step, product)?);
            }
        }
        Ok(words)
    }

    /// Waits for all but the last `pending` products.
    pub(super) fn await_products(&mut self, sums: &[Value], pending: u32) -> Vec<Value> {
        let types = vec![Type::scalar(Scalar::F32); sums.len()];
        let op = self.em.op(OpKind::Fragment(FragmentOp::WarpgroupWait { pending }), sums, &types);
        self.em.kernel.op(op).results.to_vec()
    }
}
