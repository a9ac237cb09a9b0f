//! Loads of a loop's round that may not take place, behind one branch.
//!
//! Behind a branch for each, a driver may wait for one load before it begins the next. Where all
//! take place, which is so in every round but the last ones, they are in one branch; elsewhere each
//! is in its own. Outside of loops that gained nothing on an NVIDIA GPU (`bench/notes.md`).

use crate::body::Expr;
use crate::memory::ElementAccess;
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{LinearOp, Op, OpData, OpKind, Value};
use naga::{BinaryOperator as B, Scalar};
use std::collections::BTreeSet;

/// The first operations of some, as far as they are loads that do not wait for each other and what
/// these need.
pub(crate) struct LoadsTogether {
    pub(crate) loads: Vec<Op>,
    /// What stands among them and needs none of them.
    pub(crate) before: Vec<Op>,
    /// How many operations both are.
    pub(crate) count: usize,
}

/// A load that may not take place.
struct MaskedLoad {
    place: ElementAccess,
    predicate: Expr,
    /// Elements.
    count: u32,
    /// Whether its variables are words, which elements are unpacked of.
    in_words: bool,
    variables: Vec<Expr>,
}

impl Writer<'_> {
    /// The loads that the first operation of some begins, if there are several.
    pub(crate) fn loads_together(&self, ops: &[Op]) -> Option<LoadsTogether> {
        let kernel = self.kernel;
        let is_load = |op: Op| {
            let data = kernel.op(op);
            let loads = matches!(data.kind, OpKind::Linear { op: LinearOp::Load { .. }, .. });
            loads && data.mask().is_some_and(|mask| kernel.as_const(mask).is_none())
        };
        ops.first().filter(|&&op| is_load(op))?;
        let mut found = LoadsTogether { loads: Vec::new(), before: Vec::new(), count: 0 };
        let (mut given, mut between): (BTreeSet<Value>, Vec<Op>) = (BTreeSet::new(), Vec::new());
        for (i, &op) in ops.iter().enumerate() {
            let data = kernel.op(op);
            if self.parts(op) || data.operands.iter().any(|operand| given.contains(operand)) {
                break;
            }
            if is_load(op) {
                given.extend(data.results.iter().copied());
                found.before.append(&mut between);
                found.loads.push(op);
                found.count = i + 1;
            } else if kernel.is_pure(op) && data.regions.is_empty() {
                between.push(op);
            } else {
                break;
            }
        }
        (found.loads.len() > 1).then_some(found)
    }

    /// Loads behind one branch.
    pub(crate) fn masked_loads(&mut self, ops: &[Op]) -> Result<()> {
        let kernel = self.kernel;
        let loads = ops.iter().map(|&op| self.masked_load(kernel.op(op))).collect::<Result<Vec<_>>>()?;
        let Some(all) = self.all_of(loads.iter().map(|load| load.predicate).collect()) else { return Ok(()) };
        let outer = self.body.begin();
        // First all loads, then what is done with them.
        let values: Vec<Vec<Expr>> = loads.iter().map(|load| self.values_of(load)).collect();
        loads.iter().zip(values).for_each(|(load, values)| self.keep(load, values));
        let accept = self.body.end(outer);
        let outer = self.body.begin();
        for load in &loads {
            let before = self.body.begin();
            let values = self.values_of(load);
            self.keep(load, values);
            let accept = self.body.end(before);
            self.body.branch(load.predicate, accept, naga::Block::new());
        }
        let reject = self.body.end(outer);
        self.body.branch(all, accept, reject);
        for (&op, load) in ops.iter().zip(&loads) {
            let values: Vec<Expr> = load.variables.iter().map(|&variable| self.body.load(variable)).collect();
            let values = if load.in_words { self.unpacked(&values, load.place.elem) } else { values };
            kernel.op(op).results.iter().zip(values).for_each(|(&result, value)| self.define(result, value));
        }
        Ok(())
    }

    /// Whether all predicates hold, by pairs: what writes code for a driver follows an expression
    /// into its operands, and a chain of many would take too much of its stack.
    fn all_of(&mut self, mut predicates: Vec<Expr>) -> Option<Expr> {
        while predicates.len() > 1 {
            let pair = |pair: &[Expr]| match *pair {
                [a, b] => self.body.binary(B::LogicalAnd, a, b),
                _ => pair[0],
            };
            predicates = predicates.chunks(2).map(pair).collect();
        }
        predicates.pop()
    }

    fn masked_load(&mut self, op: &OpData) -> Result<MaskedLoad> {
        let Some(mask) = op.mask() else { return Err(self.internal("a load has no mask".into())) };
        let index = self.get(op.index())?;
        let scalar = self.scalar(op, op.index())?;
        let at = self.narrowed(index, scalar);
        let predicate = self.get(mask)?;
        let place = self.place(op, op.view(), at, Some(predicate))?;
        let count = op.results.len() as u32;
        let bytes = count * place.elem.bytes();
        let in_words = place.region.cell.is_words() && place.elem.bytes() < 4 && bytes.is_multiple_of(4);
        let zeros = match in_words {
            true => self.zeros(Scalar::U32, (bytes / 4) as usize),
            false => self.zeros(self.held(place.elem), count as usize),
        };
        let mut variables = Vec::new();
        for (zero, scalar) in zeros {
            let ty = self.scalar_type(scalar);
            let variable = self.body.variable("loaded", ty, None);
            self.body.store(variable, zero);
            variables.push(variable);
        }
        Ok(MaskedLoad { place, predicate, count, in_words, variables })
    }

    /// What a load gives.
    fn values_of(&mut self, load: &MaskedLoad) -> Vec<Expr> {
        let ElementAccess { region, at, elem, .. } = load.place;
        match load.in_words {
            true => self.load_words(region, at, elem, load.count),
            false => self.load_elements(region, at, elem, load.count),
        }
    }

    fn keep(&mut self, load: &MaskedLoad, values: Vec<Expr>) {
        load.variables.iter().zip(values).for_each(|(&variable, value)| self.body.store(variable, value));
    }
}
