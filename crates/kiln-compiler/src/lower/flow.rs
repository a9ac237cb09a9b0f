//! Structured control flow: what carried a tile carries its registers.

use super::Lowering;
use crate::error::CompileError;
use kiln_ir::{Block, OpData, OpKind, Type, Value};

impl Lowering<'_> {
    pub(super) fn flow(&mut self, data: &OpData) -> Result<(), CompileError> {
        let src = self.src;
        // Leading operands that are not carried: a condition, or a loop's bounds and step.
        let mut operands: Vec<Value> = self.scalars(data.control())?.to_vec();
        if let [from, end, _] = operands.as_mut_slice() {
            *end = self.last_round(data, *from, *end);
        }
        for (&init, &result) in data.inits().iter().zip(&data.results) {
            operands.extend_from_slice(&self.operand(init, self.plan.home(result))?);
        }
        let regions: Vec<Block> =
            data.regions.iter().map(|&r| self.region(r, &data.results)).collect::<Result<_, _>>()?;
        self.end_after_fault(data, regions.first().copied().unwrap_or(self.em.block));
        let mut types = Vec::new();
        for &result in &data.results {
            let count = self.plan.layout(self.plan.home(result)).registers();
            types.extend(std::iter::repeat_n(Type::scalar(src.ty(result).elem()), count));
        }
        self.em.loc = data.loc;
        let op =
            self.em.kernel.append(self.em.block, data.kind.clone(), &operands, &types, &regions, data.loc);
        let results = self.em.kernel.op(op).results.clone();
        let mut lowered = results.into_iter();
        for &result in &data.results {
            self.carry(result, &mut lowered)?;
        }
        Ok(())
    }

    /// Lowers a region into a new block.
    fn region(&mut self, region: Block, results: &[Value]) -> Result<Block, CompileError> {
        let block = self.em.kernel.add_block();
        let outer = std::mem::replace(&mut self.em.block, block);
        self.arguments(region, block)?;
        self.ops(region, results)?;
        self.em.block = outer;
        Ok(block)
    }

    /// Gives a block the arguments of a region, and defines them.
    pub(super) fn arguments(&mut self, region: Block, block: Block) -> Result<(), CompileError> {
        for &arg in &self.src.block(region).args {
            let ty = Type::scalar(self.src.ty(arg).elem());
            let count = self.plan.layout(self.plan.home(arg)).registers();
            let mut registers = Vec::with_capacity(count);
            for _ in 0..count {
                registers.push(self.em.kernel.add_arg(block, ty.clone()));
            }
            self.carry(arg, &mut registers.into_iter())?;
        }
        Ok(())
    }

    /// Emits two branches that give values of these types.
    pub(super) fn branch(
        &mut self,
        condition: Value,
        types: &[Type],
        then: impl FnOnce(&mut Self) -> Result<Vec<Value>, CompileError>,
        otherwise: impl FnOnce(&mut Self) -> Result<Vec<Value>, CompileError>,
    ) -> Result<Vec<Value>, CompileError> {
        let blocks = [(); 2].map(|()| self.em.kernel.add_block());
        let outer = std::mem::replace(&mut self.em.block, blocks[0]);
        let values = then(self)?;
        self.em.op(OpKind::Yield, &values, &[]);
        self.em.block = blocks[1];
        let values = otherwise(self)?;
        self.em.op(OpKind::Yield, &values, &[]);
        self.em.block = outer;
        let loc = self.em.loc;
        let op = self.em.kernel.append(outer, OpKind::If, &[condition], types, &blocks, loc);
        Ok(self.em.kernel.op(op).results.to_vec())
    }

    /// Defines a carried value from the registers that carry it.
    pub(super) fn carry(
        &mut self,
        value: Value,
        lowered: &mut impl Iterator<Item = Value>,
    ) -> Result<(), CompileError> {
        let home = self.plan.home(value);
        let count = self.plan.layout(home).registers();
        self.define(value, home, lowered.take(count).collect())
    }

    /// The registers that a region hands on.
    pub(super) fn yielded(&self, data: &OpData, results: &[Value]) -> Result<Vec<Value>, CompileError> {
        let mut operands = Vec::new();
        for (&value, &result) in data.operands.iter().zip(results) {
            operands.extend_from_slice(&self.operand(value, self.plan.home(result))?);
        }
        Ok(operands)
    }

    pub(super) fn yield_(&mut self, data: &OpData, results: &[Value]) -> Result<(), CompileError> {
        let operands = self.yielded(data, results)?;
        self.em.op(OpKind::Yield, &operands, &[]);
        Ok(())
    }
}
