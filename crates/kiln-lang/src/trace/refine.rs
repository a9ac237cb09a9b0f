//! What a condition that holds says of integer scalars.
//!
//! A value of which something is known is replaced by one that has the property whatever happens:
//! `n` that is at least 0 by `max(n, 0)`, a multiple of 16 by `n & -16`. Where the condition holds
//! both are equal. So analyses find the property where they look, and no access relies on a check.

use super::item::{Id, Item};
use super::recorder::Recorder;
use super::site::Site;
use kiln_ir::{BinaryOp, CompareOp, Literal, OpKind, Shape};
use std::collections::HashSet;

impl Recorder {
    /// Refines the values that a condition is about, which was found to hold.
    pub fn refine_by(&mut self, condition: Id, site: Site) {
        let Some((kind, [a, b])) = self.made_from(condition) else { return };
        if kind == OpKind::Binary(BinaryOp::And) {
            self.refine_by(a, site);
            self.refine_by(b, site);
        } else if let OpKind::Compare(compare) = kind {
            match (self.known_number(a), self.known_number(b)) {
                (None, Some(number)) => self.refine_compared(compare, a, number, site),
                (Some(number), None) => self.refine_compared(swapped(compare), b, number, site),
                (None, None) | (Some(_), Some(_)) => None,
            };
        }
    }

    /// What a comparison of a value with a number says of it, or of what it is the rest of.
    fn refine_compared(&mut self, compare: CompareOp, value: Id, number: Literal, site: Site) -> Option<()> {
        let elem = number.elem();
        if !self.type_of(value)?.is_scalar() {
            return None;
        }
        // Its places are told apart by what it is computed from, which a bound would hide.
        if compare != CompareOp::Eq && self.tells_apart(value) {
            return None;
        }
        let bound = |by: i128| Literal::from_i128(elem, number.as_i128() + by);
        let (op, bound) = match compare {
            CompareOp::Lt => (BinaryOp::Min, bound(-1)?),
            CompareOp::Le => (BinaryOp::Min, number),
            CompareOp::Gt => (BinaryOp::Max, bound(1)?),
            CompareOp::Ge => (BinaryOp::Max, number),
            CompareOp::Eq => return self.refine_divided(value, number, site),
            CompareOp::Ne => return None,
        };
        let bound = self.constant(bound, Shape::scalar(), site);
        let value = self.refined(value);
        let refined = self.binary(op, value, bound, site)?;
        self.refine(value, refined);
        Some(())
    }

    /// What it says that a value is a number: of that value, and of one that it is the rest of.
    fn refine_divided(&mut self, rest: Id, number: Literal, site: Site) -> Option<()> {
        if number.bits() == 0
            && let Some((kind, [value, by])) = self.made_from(rest)
            && let Some(by) = self.known_number(by)
        {
            let by = match kind == OpKind::Binary(BinaryOp::And) {
                true => Literal::from_i128(by.elem(), by.as_i128() + 1),
                false => (kind == OpKind::Binary(BinaryOp::Rem)).then_some(by),
            };
            let value = self.refined(value);
            let refined = self.multiple(value, by?, site)?;
            self.refine(value, refined);
        }
        if !self.tells_apart(rest) {
            let exact = self.constant(number, Shape::scalar(), site);
            self.refine(rest, exact);
        }
        Some(())
    }

    /// A value without the bits that a multiple of a positive number does not have.
    pub fn multiple(&mut self, value: Id, of: Literal, site: Site) -> Option<Id> {
        let power = (of.as_i128() > 0).then(|| 1i128 << of.as_i128().trailing_zeros())?;
        if power == 1 {
            return Some(value);
        }
        let shape = self.type_of(value)?.as_tile()?.shape.clone();
        let mask = self.constant(Literal::wrapping(of.elem(), -power), shape, site);
        self.binary(BinaryOp::And, value, mask, site)
    }

    /// Whether a value is computed from the number of the program or the thread.
    fn tells_apart(&self, value: Id) -> bool {
        let (mut todo, mut seen) = (vec![value], HashSet::new());
        while let Some(id) = todo.pop() {
            let Some((kind, operands)) = self.operation_of(id).filter(|_| seen.insert(id)) else { continue };
            if matches!(kind, OpKind::ProgramId(_) | OpKind::ThreadId(_)) {
                return true;
            }
            // What is loaded from memory has lost it.
            if kind.is_pure() {
                todo.extend_from_slice(operands);
            }
        }
        false
    }

    /// The operation of two operands that computes a value, if it stands in an open region.
    fn made_from(&self, id: Id) -> Option<(OpKind, [Id; 2])> {
        let (kind, operands) = self.operation_of(id)?;
        Some((kind.clone(), <[Id; 2]>::try_from(operands).ok()?))
    }

    /// The integer that a value is known to be while the kernel is recorded.
    fn known_number(&self, id: Id) -> Option<Literal> {
        let OpKind::Const(literal) = self.operation_of(id)?.0 else { return None };
        literal.elem().is_int().then_some(*literal)
    }

    fn operation_of(&self, id: Id) -> Option<(&OpKind, &[Id])> {
        let mut items = self.regions.iter().rev().flat_map(|open| open.region.items.iter().rev());
        items.find_map(|item| {
            let Item::Op { kind, operands, results, .. } = item else { return None };
            results.contains(&id).then_some((kind, operands.as_slice()))
        })
    }
}

/// The comparison with its sides exchanged.
fn swapped(compare: CompareOp) -> CompareOp {
    match compare {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
        CompareOp::Eq => CompareOp::Eq,
        CompareOp::Ne => CompareOp::Ne,
    }
}
