//! Adjacent accesses of a thread become one: loads of `x[4 * i]` to `x[4 * i + 3]` a load of four
//! elements.
//!
//! The accesses are of one view, under one predicate, at one number plus constants. Loads are
//! joined where the first of them is, and nothing but loads and arithmetic may stand between them;
//! stores where the last is, and nothing but arithmetic may. The joined access has the alignment
//! that a device asks for: of the view's element 0 and of the number, as far as facts say.
//!
//! Needs: a lowered kernel, with accesses at linear indices ([`LinearOp`]).

use crate::lower::facts::{IntFacts, Known};
use crate::opt::Renames;
use kiln_ir::{BinaryOp, Block, Kernel, LinearOp, Literal, Op, OpKind, Reuse, Type, Value};
use rustc_hash::FxHashMap;

/// The most bytes of an access.
const WIDEST: u32 = 16;

/// Joins what is adjacent.
pub(crate) fn join(kernel: &mut Kernel) {
    let mut accesses = 0;
    kernel.walk(|_, data| accesses += u32::from(single(&data.kind).is_some()));
    if accesses < 2 {
        return;
    }
    let facts = IntFacts::new(kernel);
    let mut aligned = FxHashMap::default();
    kernel.walk(|_, data| {
        if single(&data.kind).is_some() {
            aligned.entry(data.view()).or_insert_with(|| facts.alignment(data.view()));
        }
    });
    let known = facts.into_known();
    let mut pass = Pass { kernel, known, aligned, renames: Renames::default() };
    for block in (0..pass.kernel.counts().2).map(Block::from_index) {
        pass.block(block);
    }
    pass.rename();
}

/// A load or store of one element.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Access {
    Load(Reuse),
    /// Asynchronous or not.
    Store(Reuse, bool),
}

impl Access {
    fn of(self, lanes: u32) -> LinearOp {
        match self {
            Access::Load(reuse) => LinearOp::Load { lanes, reuse },
            Access::Store(reuse, asynchronous) => LinearOp::Store { lanes, reuse, asynchronous },
        }
    }
}

fn single(kind: &OpKind) -> Option<Access> {
    let OpKind::Linear { op, .. } = kind else { return None };
    if let LinearOp::Load { lanes: 1, reuse } = op {
        return Some(Access::Load(*reuse));
    }
    if let LinearOp::Store { lanes: 1, reuse, asynchronous } = op {
        Some(Access::Store(*reuse, *asynchronous))
    } else {
        None
    }
}

/// What adjacent accesses have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Common {
    access: Access,
    view: Value,
    predicate: Option<Value>,
    /// The number to which constants are added.
    root: Value,
}

/// An access at a constant distance from the number.
#[derive(Clone, Copy)]
struct Member {
    /// Its place in the block.
    at: usize,
    distance: i128,
}

struct Pass<'k> {
    kernel: &'k mut Kernel,
    known: Vec<Option<Known>>,
    /// Powers of two that divide the addresses of views.
    aligned: FxHashMap<Value, u64>,
    renames: Renames,
}

impl Pass<'_> {
    fn block(&mut self, block: Block) {
        let ops = self.kernel.block(block).ops.clone();
        // In the order in which they were first seen, so that the same kernel becomes the same.
        let mut groups: Vec<(Common, Vec<Member>)> = Vec::new();
        let mut joined: Vec<(usize, Vec<Op>)> = Vec::new();
        let mut gone = vec![false; ops.len()];
        for (at, &op) in ops.iter().enumerate() {
            let found = self.member(op, at);
            let stores = found.is_some_and(|(common, _)| matches!(common.access, Access::Store(..)));
            let ends = match found {
                // Another store may be at the same place.
                Some((common, _)) if stores => groups.iter().any(|(other, _)| *other != common),
                Some(_) => groups.iter().any(|(other, _)| matches!(other.access, Access::Store(..))),
                None => !self.is_passed(op),
            };
            if ends {
                self.join(&ops, std::mem::take(&mut groups), &mut joined, &mut gone);
            }
            let Some((common, member)) = found else { continue };
            match groups.iter_mut().find(|(other, _)| *other == common) {
                Some((_, members)) => members.push(member),
                None => groups.push((common, vec![member])),
            }
        }
        self.join(&ops, groups, &mut joined, &mut gone);
        if joined.is_empty() {
            return;
        }
        let mut at_place: FxHashMap<usize, Vec<Op>> = joined.into_iter().collect();
        let mut all = Vec::with_capacity(ops.len());
        for (at, &op) in ops.iter().enumerate() {
            all.extend(at_place.remove(&at).unwrap_or_default());
            if !gone[at] {
                all.push(op);
            }
        }
        self.kernel.block_mut(block).ops = all;
    }

    /// An operation as an access of one element at a constant distance from a number.
    fn member(&self, op: Op, at: usize) -> Option<(Common, Member)> {
        let data = self.kernel.op(op);
        let access = single(&data.kind)?;
        let (root, distance) = self.split(data.index());
        let common = Common { access, view: data.view(), predicate: data.mask(), root };
        Some((common, Member { at, distance }))
    }

    /// A number as another one and a constant.
    fn split(&self, index: Value) -> (Value, i128) {
        let sum = self.kernel.defining_op(index).filter(|data| data.kind == OpKind::Binary(BinaryOp::Add));
        let Some(sum) = sum else { return (index, 0) };
        let constant = |value| self.kernel.as_const(value).map(|number| number.as_i128());
        match (constant(sum.left()), constant(sum.right())) {
            (None, Some(distance)) if self.is_exact(index) => (sum.left(), distance),
            (Some(distance), None) if self.is_exact(index) => (sum.right(), distance),
            _ => (index, 0),
        }
    }

    /// Whether a sum does not wrap before it is extended to the 64 bits of an address.
    fn is_exact(&self, sum: Value) -> bool {
        let limits = |known: Known| known.min > i32::MIN.into() && known.max < i32::MAX.into();
        self.kernel.ty(sum).elem().bytes() == 8 || self.known(sum).is_some_and(limits)
    }

    fn known(&self, value: Value) -> Option<Known> {
        self.known.get(value.index()).copied().flatten()
    }

    /// Whether an operation may stand between those that are joined.
    fn is_passed(&self, op: Op) -> bool {
        let data = self.kernel.op(op);
        data.regions.is_empty() && data.kind.is_pure()
    }

    fn join(
        &mut self,
        ops: &[Op],
        groups: Vec<(Common, Vec<Member>)>,
        joined: &mut Vec<(usize, Vec<Op>)>,
        gone: &mut [bool],
    ) {
        for (common, mut members) in groups {
            members.sort_by_key(|member| member.distance);
            let all = members.len();
            members.dedup_by_key(|member| member.distance);
            // Of two stores at one place the order counts. The second of two loads is left.
            let ordered = matches!(common.access, Access::Store(..)) && members.len() < all;
            let widest = if ordered { 1 } else { self.widest(&common) };
            let mut rest = members.as_slice();
            while let Some(first) = rest.first() {
                let lanes = adjacent(rest, widest);
                let (these, others) = rest.split_at(lanes);
                rest = others;
                if lanes > 1 {
                    joined.push(self.one(ops, &common, first.distance, these));
                    these.iter().for_each(|member| gone[member.at] = true);
                }
            }
        }
    }

    /// How many elements an access may have whose distance is a multiple of that.
    fn widest(&self, common: &Common) -> usize {
        let bytes = self.kernel.ty(common.view).elem().bytes();
        let divisor = self.known(common.root).map_or(1, |known| known.divisor);
        let aligned = self.aligned.get(&common.view).copied().unwrap_or(1);
        let fits = |lanes: u64| {
            let wide = lanes * u64::from(bytes);
            wide <= WIDEST.into() && aligned.is_multiple_of(wide) && divisor.is_multiple_of(lanes)
        };
        [16, 8, 4, 2].into_iter().find(|&lanes| fits(lanes)).unwrap_or(1) as usize
    }

    /// The access of all members, and the place in the block before which it stands.
    fn one(&mut self, ops: &[Op], common: &Common, distance: i128, members: &[Member]) -> (usize, Vec<Op>) {
        let places = members.iter().map(|member| member.at);
        let place = match common.access {
            Access::Load(_) => places.min(),
            Access::Store(..) => places.max(),
        };
        let place = place.unwrap_or_default();
        let (loc, elem) = (self.kernel.op(ops[place]).loc, self.kernel.ty(common.view).elem());
        let mut made = Vec::new();
        let mut index = common.root;
        if distance != 0 {
            let wide = Type::scalar(self.kernel.ty(index).elem());
            let constant = OpKind::Const(Literal::wrapping(wide.elem(), distance));
            let constant = self.kernel.add_op(constant, &[], std::slice::from_ref(&wide), &[], loc);
            let operands = [index, self.kernel.result(constant)];
            let sum = self.kernel.add_op(OpKind::Binary(BinaryOp::Add), &operands, &[wide], &[], loc);
            made.extend([constant, sum]);
            index = self.kernel.result(sum);
        }
        let mut operands = vec![common.view, index];
        operands.extend(common.predicate);
        let mut types = Vec::new();
        for member in members {
            match common.access {
                Access::Load(_) => types.push(Type::scalar(elem)),
                Access::Store(..) => operands.extend(self.kernel.op(ops[member.at]).stored_values()),
            }
        }
        let op = common.access.of(members.len() as u32);
        let kind = OpKind::Linear { op, predicated: common.predicate.is_some() };
        let wide = self.kernel.add_op(kind, &operands, &types, &[], loc);
        for (lane, _) in types.iter().enumerate() {
            let old = self.kernel.result(ops[members[lane].at]);
            self.renames.add(old, self.kernel.op(wide).results[lane]);
        }
        made.push(wide);
        (place, made)
    }

    fn rename(self) {
        let mut ops = Vec::new();
        self.kernel.walk(|op, _| ops.push(op));
        for op in ops {
            self.renames.apply(self.kernel, op);
        }
    }
}

/// How many of the first members are one access: each a step behind the one before, and the first
/// at a multiple of their number.
fn adjacent(members: &[Member], widest: usize) -> usize {
    let begin = members[0].distance;
    let row = members.iter().zip(begin..).take_while(|(member, distance)| member.distance == *distance);
    let longest = row.count().min(widest);
    let mut lanes = 1;
    while lanes * 2 <= longest && begin.rem_euclid(lanes as i128 * 2) == 0 {
        lanes *= 2;
    }
    lanes
}
