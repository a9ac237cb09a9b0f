//! Closing the loops of the device: with an exit in its body, a `for` becomes a `while`, and every
//! loop also runs only while it was not left.

use super::item::{Id, Item, Loop, Raw, Region, Var};
use super::liveness;
use super::recorder::{Recorder, RegionKind};
use super::scope::ScopeKind;
use super::site::Site;
use kiln_ir::{BinaryOp, CompareOp, Literal, OpKind, Scalar, Shape, Type};

/// The bounds of a `for` on the device.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub lo: Id,
    pub hi: Id,
    pub step: Id,
    pub index: Id,
    pub unroll: u32,
}

impl Recorder {
    /// Enters a `for` on the device, whose body is recorded from here on.
    pub fn begin_for(&mut self) -> u32 {
        let scope = self.enter(ScopeKind::DeviceLoop);
        self.open(RegionKind::Device);
        self.decide(scope, ScopeKind::DeviceLoop);
        scope
    }

    /// Ends the body of a `for`.
    pub fn end_for(&mut self, scope: u32, bounds: Bounds, site: Site) {
        let body = self.close();
        let left = self.left_flag(scope);
        self.leave(scope, true);
        let Bounds { lo, hi, step, index, unroll } = bounds;
        match left {
            None => {
                let head = Loop::For { lo, hi, step, index, unroll };
                self.push(Item::Loop { head, body, site, live: Vec::new() });
            }
            Some(left) => self.for_as_while(body, bounds, left, site),
        }
    }

    fn for_as_while(&mut self, mut body: Region, bounds: Bounds, left: Var, site: Site) {
        let Bounds { lo, hi, step, index, .. } = bounds;
        let Some(ty) = self.type_of(lo).cloned() else { return };
        let counter = self.declare(ty.clone(), self.regions.len() - 1);
        self.push(Item::Set { var: counter, value: lo });

        self.open(RegionKind::Device);
        let here = self.value(ty.clone());
        self.push(Item::Get { var: counter, result: here });
        let bool_type = Type::scalar(Scalar::Bool);
        let more = self.op(OpKind::Compare(CompareOp::Lt), &[here, hi], bool_type.clone(), site);
        let cond = self.and_not_left(more, left, site);
        let test = self.close();

        body.items.insert(0, Item::Get { var: counter, result: index });
        self.open(RegionKind::Device);
        let next = self.op(OpKind::Binary(BinaryOp::Add), &[index, step], ty, site);
        self.push(Item::Set { var: counter, value: next });
        body.items.extend(self.close().items);
        self.push(Item::Loop { head: Loop::While { test, cond }, body, site, live: Vec::new() });
    }

    fn and_not_left(&mut self, cond: Id, left: Var, site: Site) -> Id {
        let flag = self.value(Type::scalar(Scalar::Bool));
        self.push(Item::Get { var: left, result: flag });
        let stays = self.not(flag, site);
        self.op(OpKind::Binary(BinaryOp::And), &[stays, cond], Type::scalar(Scalar::Bool), site)
    }

    /// Ends the body of a `while` or `loop` on the device. `test` computes whether it runs again;
    /// without one it does until it is left.
    pub fn end_while(&mut self, scope: u32, test: Option<(Region, Id)>, site: Site) {
        let body = self.close();
        let left = self.left_flag(scope);
        let endless = left.is_none() && test.is_none();
        self.leave(scope, !endless);
        let (test, body) = match test {
            Some((region, cond)) if liveness::writes_outer(&region) => {
                let (test, body) = self.test_in_body(region, cond, body, site);
                (Some(test), body)
            }
            other => (other, body),
        };
        let (test, cond) = match (test, left) {
            (Some((region, cond)), None) => (region, cond),
            (Some((region, cond)), Some(left)) => self.test_unless_left(region, cond, left, site),
            (None, left) => {
                self.open(RegionKind::Device);
                let cond = match left {
                    Some(left) => {
                        let flag = self.value(Type::scalar(Scalar::Bool));
                        self.push(Item::Get { var: left, result: flag });
                        self.not(flag, site)
                    }
                    None => self.constant(Literal::bool(true), Shape::scalar(), site),
                };
                (self.close(), cond)
            }
        };
        self.push(Item::Loop { head: Loop::While { test, cond }, body, site, live: Vec::new() });
    }

    /// A condition that assigns moves into the body, for in the IR a condition cannot hand values
    /// on: the loop runs until a flag says that the condition failed.
    fn test_in_body(&mut self, test: Region, cond: Id, body: Region, site: Site) -> ((Region, Id), Region) {
        let failed = self.declare(Type::scalar(Scalar::Bool), self.regions.len() - 1);
        let no = self.constant(Literal::bool(false), Shape::scalar(), site);
        self.push(Item::Set { var: failed, value: no });

        self.open(RegionKind::Device);
        let flag = self.value(Type::scalar(Scalar::Bool));
        self.push(Item::Get { var: failed, result: flag });
        let goes_on = self.not(flag, site);
        let new_test = self.close();

        self.open(RegionKind::Device);
        let yes = self.constant(Literal::bool(true), Shape::scalar(), site);
        self.push(Item::Set { var: failed, value: yes });
        let otherwise = self.close();

        let mut new_body = test;
        new_body.items.push(Item::If { cond, then: body, otherwise, site, live: Vec::new() });
        ((new_test, goes_on), new_body)
    }

    /// A loop that was left does not evaluate its condition again, unless that does no harm.
    fn test_unless_left(&mut self, test: Region, cond: Id, left: Var, site: Site) -> (Region, Id) {
        self.open(RegionKind::Device);
        if test.is_pure() {
            self.open(RegionKind::Undecided);
            if let Some(open) = self.regions.last_mut() {
                open.region = test;
            }
            self.splice();
            let cond = self.and_not_left(cond, left, site);
            return (self.close(), cond);
        }
        let result = self.declare(Type::scalar(Scalar::Bool), self.regions.len() - 1);
        let flag = self.value(Type::scalar(Scalar::Bool));
        self.push(Item::Get { var: left, result: flag });
        let stays = self.not(flag, site);
        let mut then = test;
        then.items.push(Item::Set { var: result, value: cond });
        self.push(Item::If { cond: stays, then, otherwise: Region::default(), site, live: Vec::new() });
        let Some(cond) = self.read(Raw::Var(result), site) else { return (self.close(), cond) };
        (self.close(), cond)
    }
}
