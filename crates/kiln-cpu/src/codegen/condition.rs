//! Conditions on affine numbers.

use super::affine::Affine;
use cranelift_codegen::ir;
use kiln_ir::CompareOp;

/// A comparison of two numbers of type i64 in each lane.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Term {
    pub(super) op: CompareOp,
    pub(super) left: Affine,
    pub(super) right: Affine,
}

/// Whether all terms and gates hold in a lane; the opposite if inverted.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Condition {
    pub(super) terms: Vec<Term>,
    /// Scalars of type bool.
    pub(super) gates: Vec<ir::Value>,
    pub(super) inverted: bool,
}

impl Condition {
    pub(super) fn of_term(term: Term) -> Condition {
        Condition { terms: vec![term], gates: Vec::new(), inverted: false }
    }

    pub(super) fn of_gate(gate: ir::Value) -> Condition {
        Condition { terms: Vec::new(), gates: vec![gate], inverted: false }
    }

    /// Where it does not hold.
    pub(super) fn not(mut self) -> Condition {
        match (&mut self.terms[..], &self.gates[..]) {
            ([term], []) if !self.inverted => term.op = opposite(term.op),
            _ => self.inverted = !self.inverted,
        }
        self
    }

    /// Both, if that is a condition of this form.
    pub(super) fn and(mut self, other: &Condition) -> Option<Condition> {
        if self.inverted || other.inverted {
            return None;
        }
        self.terms.extend(other.terms.iter().filter(|t| !self.terms.contains(t)).collect::<Vec<_>>());
        self.gates.extend(other.gates.iter().filter(|g| !self.gates.contains(g)).collect::<Vec<_>>());
        Some(self)
    }

    /// Whether it holds in every lane in which `other` does.
    pub(super) fn follows_from(&self, other: &Condition) -> bool {
        let parts = !self.inverted
            && !other.inverted
            && self.terms.iter().all(|t| other.terms.contains(t))
            && self.gates.iter().all(|g| other.gates.contains(g));
        parts || self == other
    }
}

fn opposite(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Eq => CompareOp::Ne,
        CompareOp::Ne => CompareOp::Eq,
        CompareOp::Lt => CompareOp::Ge,
        CompareOp::Ge => CompareOp::Lt,
        CompareOp::Gt => CompareOp::Le,
        CompareOp::Le => CompareOp::Gt,
    }
}
