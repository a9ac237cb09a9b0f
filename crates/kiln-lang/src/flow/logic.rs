//! `&&` and `||`.
//!
//! `a && b` becomes `let mut lhs = and(a); let b = if lhs.wants_right() { Some(b) } else { None };
//! lhs.join(b)`. With a device value on the left, the right side is traced into a region that runs
//! only where it matters, unless running it always does no harm.

use super::condition::{Condition, Decision};
use crate::trace::{Id, Item, Raw, Region, RegionKind, Site, error, with};
use crate::val::{IntoVal, Val};
use kiln_ir::{BinaryOp, OpKind, Scalar, Shape, Type};
use std::panic::Location;

/// The left side of `&&` or `||`.
pub struct Logic<A> {
    left: A,
    is_and: bool,
    /// The region of the right side.
    open: Option<u32>,
    site: Site,
}

/// Begins `a && …`.
#[track_caller]
pub fn and<A: Condition>(left: A) -> Logic<A> {
    Logic::begin(left, true, Location::caller())
}

/// Begins `a || …`.
#[track_caller]
pub fn or<A: Condition>(left: A) -> Logic<A> {
    Logic::begin(left, false, Location::caller())
}

impl<A: Condition> Logic<A> {
    fn begin(left: A, is_and: bool, site: Site) -> Logic<A> {
        let open = match left.decision() {
            Decision::Host(_) => None,
            Decision::Device(raw) => with(|r| {
                // Tiles have no control flow of their own: both sides are computed.
                let scalar = r.shape(raw).is_some_and(|s| s.rank() == 0);
                scalar.then(|| r.open(RegionKind::Device))
            })
            .flatten(),
        };
        Logic { left, is_and, open, site }
    }

    /// Whether the right side is to be traced.
    pub fn wants_right(&mut self) -> bool {
        match self.left.decision() {
            Decision::Host(value) => value == self.is_and,
            Decision::Device(_) => true,
        }
    }
}

impl Logic<bool> {
    /// The result: the right side, or what the left side alone decides.
    pub fn join<B: Condition>(self, right: Option<B>) -> B {
        right.unwrap_or_else(|| B::constant(!self.is_and))
    }
}

impl Logic<Val<bool>> {
    /// The result, on the device.
    pub fn join<B: IntoVal<bool>>(mut self, right: Option<B>) -> Val<bool> {
        let Some(right) = right.map(IntoVal::into_val) else { return Val::poison() };
        let kind = OpKind::Binary(if self.is_and { BinaryOp::And } else { BinaryOp::Or });
        let operands = [self.left.raw(), right.raw()];
        if self.open.take().is_none() {
            return Val::from_raw(crate::ops::elementwise(kind, &operands, Scalar::Bool, self.site));
        }
        let id = with(|r| {
            let scalar = Shape::scalar();
            let right = r.read_as(right.raw(), &scalar, self.site);
            let region = r.close();
            let (left, right) = (r.read(self.left.raw(), self.site)?, right?);
            if region.is_pure() {
                region.items.into_iter().for_each(|item| r.push(item));
                return Some(r.op(kind, &[left, right], Type::scalar(Scalar::Bool), self.site));
            }
            self.short_circuit(r, left, right, region)
        });
        Val::from_id(id.flatten())
    }

    fn short_circuit(
        &self,
        r: &mut crate::trace::Recorder,
        left: Id,
        right: Id,
        mut region: Region,
    ) -> Option<Id> {
        let result = r.declare(Type::scalar(Scalar::Bool), r.regions.len() - 1);
        region.items.push(Item::Set { var: result, value: right });
        r.push(Item::Set { var: result, value: left });
        let (then, otherwise) =
            if self.is_and { (region, Region::default()) } else { (Region::default(), region) };
        r.push(Item::If { cond: left, then, otherwise, site: self.site, live: Vec::new() });
        r.read(Raw::Var(result), self.site)
    }
}

impl<A> Drop for Logic<A> {
    fn drop(&mut self) {
        let Some(open) = self.open else { return };
        with(|r| {
            let Some(at) = r.position(open) else { return };
            r.regions.truncate(at);
        });
        if !std::thread::panicking() {
            error(self.site, "control leaves the right side of `&&` or `||` through `?`", "use `if`");
        }
    }
}
