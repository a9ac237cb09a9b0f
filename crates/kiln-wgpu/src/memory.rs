//! Accesses of views at a linear index, allocations and scratch memory.

use crate::body::Expr;
use crate::refused::Refused;
use crate::regions::Region;
use crate::types::integer;
use crate::writer::Writer;
use kiln_backend::Result;
use kiln_ir::{LinearOp, OpData, Order, Scalar as Elem, Value};
use naga::{BinaryOperator as B, Expression, Scalar};

/// Where an access takes place.
#[derive(Clone, Copy)]
pub(crate) struct ElementAccess {
    pub(crate) region: Region,
    /// The number of the first element in the region's array, as a u32.
    pub(crate) at: Expr,
    pub(crate) elem: Elem,
    /// Whether it takes place, if it may not.
    pub(crate) predicate: Option<Expr>,
}

impl Writer<'_> {
    pub(crate) fn linear(&mut self, op: &OpData, linear: LinearOp) -> Result<()> {
        let index = self.get(op.index())?;
        let scalar = self.scalar(op, op.index())?;
        let at = self.narrowed(index, scalar);
        let predicate = op.mask().map(|mask| self.get(mask)).transpose()?;
        let place = self.place(op, op.view(), at, predicate)?;
        match linear {
            LinearOp::Load { lanes, .. } => {
                let zeros = self.zeros(self.held(place.elem), lanes as usize);
                self.load(op, place, &zeros)
            }
            LinearOp::Store { .. } => {
                let held = self.held(place.elem);
                let values = op
                    .stored_values()
                    .iter()
                    .map(|&value| self.get_as(value, held))
                    .collect::<Result<Vec<_>>>()?;
                self.store(place, &values)
            }
            LinearOp::Atomic { op: function, .. } => self.atomic(op, place, function),
            LinearOp::AtomicCas { .. } => self.compare_exchange(op, place),
            LinearOp::OrderedLoad { order, .. } => self.ordered_load(op, place, order),
            LinearOp::Address => Err(self.refused(op, Refused::Addresses)),
            LinearOp::OrderedStore { order, .. } => self.ordered_store(op, place, order),
        }
    }

    /// The place of an element that has the number `at` in its view.
    pub(crate) fn place(
        &mut self,
        op: &OpData,
        view: Value,
        at: Expr,
        predicate: Option<Expr>,
    ) -> Result<ElementAccess> {
        let (region, elem) = (self.region(view)?, self.elem(view));
        self.require(Some(op), elem)?;
        let at = match region.base {
            Some(base) => self.body.binary(B::Add, base, at),
            None => at,
        };
        Ok(ElementAccess { region, at, elem, predicate })
    }

    /// The type that holds an element.
    pub(crate) fn held(&self, elem: Elem) -> naga::Scalar {
        self.features.register(elem)
    }

    pub(crate) fn load(
        &mut self,
        op: &OpData,
        place: ElementAccess,
        otherwise: &[(Expr, naga::Scalar)],
    ) -> Result<()> {
        if place.predicate.is_some_and(|predicate| self.never_holds(predicate)) {
            // As the literals that they are: a driver that finds that out computes with them then.
            op.results.iter().zip(otherwise).for_each(|(&result, &(value, _))| self.define(result, value));
            return Ok(());
        }
        let count = op.results.len() as u32;
        let fills_words = place.region.cell.is_words() && (count * place.elem.bytes()).is_multiple_of(4);
        if fills_words && place.predicate.is_some() && place.elem.bytes() < 4 && self.are_zeros(otherwise) {
            return self.load_whole_words(op, place, count);
        }
        let values = self.predicated(place.predicate, otherwise, |w| {
            Ok(w.load_elements(place.region, place.at, place.elem, count))
        })?;
        op.results.iter().zip(values).for_each(|(&result, value)| self.define(result, value));
        Ok(())
    }

    /// Elements that fill words, or zeros: fewer variables than elements, which are copied as they
    /// are where nothing else is done with them.
    fn load_whole_words(&mut self, op: &OpData, place: ElementAccess, count: u32) -> Result<()> {
        let zeros = self.zeros(Scalar::U32, (count * place.elem.bytes() / 4) as usize);
        let words = self.predicated(place.predicate, &zeros, |w| {
            Ok(w.load_words(place.region, place.at, place.elem, count))
        })?;
        let values = self.unpacked(&words, place.elem);
        op.results.iter().zip(values).for_each(|(&result, value)| self.define(result, value));
        Ok(())
    }

    /// Whether a predicate is the literal `false`.
    fn never_holds(&self, predicate: Expr) -> bool {
        matches!(self.body.function.expressions[predicate], Expression::Literal(naga::Literal::Bool(false)))
    }

    /// Whether values are the zeros that a load without padding gives.
    fn are_zeros(&self, values: &[(Expr, Scalar)]) -> bool {
        values.iter().all(|&(value, scalar)| {
            let expression = &self.body.function.expressions[value];
            matches!(expression, Expression::Literal(literal) if *literal == integer(scalar, 0))
        })
    }

    pub(crate) fn store(&mut self, place: ElementAccess, values: &[Expr]) -> Result<()> {
        self.predicated(place.predicate, &[], |w| {
            w.store_elements(place.region, place.at, place.elem, values);
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// Nothing orders memory among workgroups, so that an order is refused.
    pub(crate) fn relaxed(&self, op: &OpData, order: Order) -> Result<()> {
        if order == Order::Relaxed {
            return Ok(());
        }
        let what = format!("an access with the order `{}`", order.name());
        Err(self.unsupported(op, what, "Put flag and value into one word, and access it relaxed."))
    }

    pub(crate) fn ordered_load(&mut self, op: &OpData, place: ElementAccess, order: Order) -> Result<()> {
        self.relaxed(op, order)?;
        self.one_word(op, place)?;
        let zeros = self.zeros(self.held(place.elem), 1);
        self.load(op, place, &zeros)
    }

    pub(crate) fn ordered_store(&mut self, op: &OpData, place: ElementAccess, order: Order) -> Result<()> {
        self.relaxed(op, order)?;
        self.one_word(op, place)?;
        let value = self.get(op.stored_value())?;
        self.store(place, &[value])
    }

    /// Only words of 32 bits are atomic everywhere.
    pub(crate) fn one_word(&self, op: &OpData, place: ElementAccess) -> Result<()> {
        match place.elem.bytes() {
            8 => {
                let what = format!("`{}` of {}", op.kind.mnemonic(), place.elem);
                Err(self.unsupported(op, what, "Use a type of 32 bits."))
            }
            _ => Ok(()),
        }
    }
}
