//! Ordered accesses of elements and quads, and atomics of 128 bits, through views and by address.

use super::operation::{Head, Modifiers};
use super::{Parsed, Parser};
use crate::op::{Atomic128Op, Bounds, OpKind, Order, Scope};
use crate::types::Space;

impl Parser {
    /// `view[index, …]`, or `address where predicate`; then `= value, …` for a store.
    pub(super) fn ordered_access(&mut self, mnemonic: &str, m: &mut Modifiers) -> Parsed<Head> {
        let (mut order, mut scope) = (Order::Relaxed, Scope::System);
        if !mnemonic.ends_with("quad") {
            order = self.modifier(m, "an order", Order::from_name)?;
            scope = self.modifier(m, "a scope", Scope::from_name)?;
        }
        let by_address = mnemonic.starts_with("ptr");
        let (mut bounds, mut space, mut lanes) = (Bounds::Trust, Space::Global, 1);
        if by_address {
            space = self.modifier(m, "a space", Space::from_name)?;
            lanes = self.modifier(m, "`x` and a number of lanes", |w| w.strip_prefix('x')?.parse().ok())?;
        } else {
            bounds = self.modifier(m, "`mask`, `check` or `trust`", Bounds::from_name)?;
        }
        let mut operands = vec![self.value()?];
        let mut predicated = false;
        if by_address {
            predicated = self.predicate(&mut operands)?;
        } else {
            self.mark('[')?;
            operands.extend(self.list_until(']', Self::value)?);
        }
        if mnemonic.contains("store") {
            self.mark('=')?;
            operands.extend(self.separated(Self::value)?);
        }
        let kind = match mnemonic {
            "ordered_load" => OpKind::OrderedLoad { order, scope, bounds },
            "ordered_store" => OpKind::OrderedStore { order, scope, bounds },
            "load_quad" => OpKind::LoadQuad(bounds),
            "store_quad" => OpKind::StoreQuad(bounds),
            "ptr_ordered_load" => OpKind::PtrOrderedLoad { space, lanes, order, scope, predicated },
            _ => OpKind::PtrOrderedStore { space, lanes, order, scope, predicated },
        };
        Ok(Head::new(kind, operands))
    }
    /// `view[index]`, or `address where predicate`; then `= value, value`, or the two that are
    /// expected and after an arrow the two that are desired.
    pub(super) fn atomic_128(&mut self, mnemonic: &str, m: &mut Modifiers) -> Parsed<Head> {
        let scope = self.modifier(m, "a scope", Scope::from_name)?;
        let compares = mnemonic.ends_with("cas_128");
        let op = if compares { Atomic128Op::CompareExchange } else { Atomic128Op::Exchange };
        let by_address = mnemonic.starts_with("ptr");
        let kind = if by_address {
            OpKind::PtrAtomic128 { op, space: self.modifier(m, "a space", Space::from_name)?, scope }
        } else {
            OpKind::Atomic128 { op, scope }
        };
        let mut operands = vec![self.value()?];
        if by_address {
            self.predicate(&mut operands)?;
        } else {
            self.mark('[')?;
            operands.extend(self.list_until(']', Self::value)?);
        }
        self.mark('=')?;
        operands.extend(self.separated(Self::value)?);
        if compares {
            self.desired(&mut operands)?;
            self.mark(',')?;
            operands.push(self.value()?);
        }
        Ok(Head::new(kind, operands))
    }
}
