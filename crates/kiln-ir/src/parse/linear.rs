//! Accesses of a view at a linear index.

use super::operation::{Head, Modifiers};
use super::{Parsed, Parser};
use crate::op::LinearOp;
use crate::op::{AtomicOp, OpKind, Order, Scope};

impl Parser {
    /// `view[index] where predicate`; then `= value, …`, or `= expected -> desired`.
    pub(super) fn linear_access(&mut self, mnemonic: &str, m: &mut Modifiers) -> Parsed<Head> {
        let op = match mnemonic {
            "view_load" | "view_store" => {
                let lanes =
                    self.modifier(m, "`x` and a number of lanes", |w| w.strip_prefix('x')?.parse().ok())?;
                let reuse = m.reuse();
                match mnemonic {
                    "view_load" => LinearOp::Load { lanes, reuse },
                    _ => LinearOp::Store { lanes, reuse, asynchronous: m.flag("async") },
                }
            }
            "view_atomic" => {
                let op = self.modifier(m, "an atomic operation", AtomicOp::from_name)?;
                LinearOp::Atomic { op, scope: self.modifier(m, "a scope", Scope::from_name)? }
            }
            "view_atomic_cas" => {
                LinearOp::AtomicCas { scope: self.modifier(m, "a scope", Scope::from_name)? }
            }
            "view_address" => LinearOp::Address,
            _ => {
                let order = self.modifier(m, "an order", Order::from_name)?;
                let scope = self.modifier(m, "a scope", Scope::from_name)?;
                match mnemonic {
                    "view_ordered_load" => LinearOp::OrderedLoad { order, scope },
                    _ => LinearOp::OrderedStore { order, scope },
                }
            }
        };
        let mut operands = vec![self.value()?];
        self.mark('[')?;
        operands.push(self.value()?);
        self.mark(']')?;
        let predicated = self.predicate(&mut operands)?;
        match op {
            LinearOp::Load { .. } | LinearOp::OrderedLoad { .. } | LinearOp::Address => {}
            LinearOp::Store { .. } | LinearOp::Atomic { .. } | LinearOp::OrderedStore { .. } => {
                self.mark('=')?;
                operands.extend(self.separated(Self::value)?);
            }
            LinearOp::AtomicCas { .. } => {
                self.mark('=')?;
                operands.push(self.value()?);
                self.desired(&mut operands)?;
            }
        }
        Ok(Head::new(OpKind::Linear { op, predicated }, operands))
    }
}
