//! Products of warpgroups: both factors, or the right one, are read from shared memory by the
//! matrix units themselves.

use super::Lowering;
use super::barriers::Does;
use super::mma::{FactorPlacement, GROUP_DEPTH, Side, Source};
use super::products::Product;
use super::scratch::Area;
use crate::error::CompileError;
use kiln_ir::{FragmentOp, GroupProduct, Lines, Op, OpData, OpKind, Scalar, Type, Value};

impl Lowering<'_> {
    pub(super) fn warpgroup_product(
        &mut self,
        op: Op,
        data: &OpData,
        product: Product,
    ) -> Result<(), CompileError> {
        let (left, right) = self.sources(op, data, &product)?;
        if product.two_level {
            return self.two_level_product(data, product, [left, right]);
        }
        let in_flight = self.plan.pipelines.is_in_flight(op);
        let zero = self.src.as_const(data.addend()).is_some_and(|l| !l.is_true());
        let keep = in_flight || !zero;
        let mut operands = Vec::new();
        let mut areas = Vec::new();
        let mut lines = |source: &Source, side, operands: &mut Vec<Value>| match source {
            Source::Registers(_) => None,
            Source::Shared { base, slot, transposed, area } => {
                operands.push(*base);
                areas.extend(*area);
                let place = FactorPlacement { slot: *slot, transposed: *transposed, side };
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
            operands.extend_from_slice(&self.operand(data.addend(), product.sums)?);
        }
        let extents = product.extents;
        let begun = GroupProduct { factors: product.factors, extents, left: of_left, right: of_right, keep };
        let types = vec![Type::scalar(product.factors.sum()); registers];
        let made = self.em.op(OpKind::Fragment(FragmentOp::WarpgroupMma(begun)), &operands, &types);
        for area in areas.into_iter().map(Area::read) {
            self.accesses.record(made, area, Does::Read);
        }
        let mut sums = self.em.kernel.op(made).results.to_vec();
        if !in_flight {
            sums = self.await_products(&sums, 0);
        }
        self.define(data.results[0], product.sums, sums)
    }

    /// A product of which every 128 columns of the left factor and rows of the right, a panel of
    /// each, are multiplied by themselves and then added to the sums.
    fn two_level_product(
        &mut self,
        data: &OpData,
        product: Product,
        sources: [Source; 2],
    ) -> Result<(), CompileError> {
        let [m, n, k] = product.extents;
        let mut matrices = Vec::new();
        for source in sources {
            let Source::Shared { base, area, .. } = source else {
                return Err(self.internal("a factor of 8 bits in registers".into()));
            };
            matrices.push((base, area));
        }
        let deep = k.min(GROUP_DEPTH);
        let begun = GroupProduct {
            factors: product.factors,
            extents: [m, n, deep],
            left: Some(Lines::Depth),
            right: Lines::Depth,
            keep: false,
        };
        let none = self.src.as_const(data.addend()).is_some_and(|l| !l.is_true());
        let mut sums = if none { Vec::new() } else { self.operand(data.addend(), product.sums)?.to_vec() };
        let types = vec![Type::scalar(product.factors.sum()); self.layout(product.sums).registers()];
        for group in 0..k / deep {
            let mut operands = Vec::new();
            for (&(base, _), lines) in matrices.iter().zip([m, n]) {
                let panel = self.em.int(Scalar::U64, i64::from(group * lines * GROUP_DEPTH));
                operands.push(self.em.add(base, panel));
            }
            let made = self.em.op(OpKind::Fragment(FragmentOp::WarpgroupMma(begun)), &operands, &types);
            for area in matrices.iter().filter_map(|&(_, area)| area) {
                self.accesses.record(made, area.read(), Does::Read);
            }
            let made = self.em.kernel.op(made).results.to_vec();
            let made = self.await_products(&made, 0);
            sums = match sums.is_empty() {
                true => made,
                false => sums.into_iter().zip(made).map(|(sum, partial)| self.em.add(sum, partial)).collect(),
            };
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
            for step in 0..k / product.factors.depth() {
                words.extend(self.fragments(left, Side::Left, &layout, (block, 1), step, product)?);
            }
        }
        Ok(words)
    }

    /// Waits for all but the last `pending` products.
    pub(super) fn await_products(&mut self, sums: &[Value], pending: u32) -> Vec<Value> {
        let types: Vec<Type> = sums.iter().map(|&v| self.em.kernel.ty(v).clone()).collect();
        let op = self.em.op(OpKind::Fragment(FragmentOp::WarpgroupWait { pending }), sums, &types);
        self.em.kernel.op(op).results.to_vec()
    }
}
