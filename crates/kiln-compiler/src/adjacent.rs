//! Adjacent accesses of a thread become one: loads of `x[4 * i]` to `x[4 * i + 3]` a load of four
//! elements.
//!
//! The accesses are of one view, under one predicate, at one sum plus constants: `x[r, 4 * i + 1]`
//! is at `r * stride + (4 * i + 1)`, one more than the sum of `r * stride` and `4 * i`. Loads are
//! joined where the first of them is, and nothing but loads and arithmetic may stand between them;
//! stores where the last is, and nothing but arithmetic may. The joined access has the alignment
//! that a device asks for: of the view's element 0 and of each term of the sum, as far as facts
//! say.
//!
//! Needs: a lowered kernel, with accesses at linear indices ([`LinearOp`]).

use crate::lower::facts::{IntFacts, Known};
use crate::opt::Renames;
use kiln_ir::{BinaryOp, Block, Kernel, LinearOp, Literal, Loc, Op, OpKind, Reuse, Scalar, Type, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The most bytes of an access.
const WIDEST: u32 = 16;
/// How many sums of an index are taken apart: more than views have axes.
const MOST_SUMS: u32 = 16;

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
#[derive(Clone, PartialEq, Eq)]
struct Common {
    access: Access,
    view: Value,
    predicate: Option<Value>,
    sum: Sum,
}

/// The sum to which constants are added.
#[derive(Clone, PartialEq, Eq)]
struct Sum {
    /// Sorted.
    terms: SmallVec<[Term; 4]>,
    /// A power of two that divides each term.
    divisor: u64,
}

/// A term of a sum. Each access has products of its own with the strides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Term {
    Value(Value),
    Product(Value, Value),
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
            let ends = match &found {
                // Another store may be at the same place.
                Some((common, _)) if matches!(common.access, Access::Store(..)) => {
                    groups.iter().any(|(other, _)| other != common)
                }
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
        let mut sum = Sum { terms: SmallVec::new(), divisor: u64::MAX };
        let distance = self.take_apart(data.index(), &mut { MOST_SUMS }, &mut sum);
        sum.terms.sort_unstable();
        let common = Common { access, view: data.view(), predicate: data.mask(), sum };
        Some((common, Member { at, distance }))
    }

    /// Adds the terms of a number to a sum, and gives the constant beside them.
    fn take_apart(&self, number: Value, most: &mut u32, sum: &mut Sum) -> i128 {
        let (number, distance) = self.without_constants(number);
        if let Some((left, right)) = self.parts(number, most) {
            return distance + self.take_apart(left, most, sum) + self.take_apart(right, most, sum);
        }
        sum.divisor = sum.divisor.min(self.known(number).map_or(1, |known| known.divisor));
        let product = self.kernel.defining_op(number).filter(|op| op.kind == OpKind::Binary(BinaryOp::Mul));
        let term = product.map_or(Term::Value(number), |op| Term::Product(op.left(), op.right()));
        sum.terms.push(term);
        distance
    }

    /// A number as another one and a constant.
    fn without_constants(&self, mut number: Value) -> (Value, i128) {
        let constant = |value| self.kernel.as_const(value).map(|number| number.as_i128());
        let mut distance = 0;
        while let Some((left, right)) = self.sum(number) {
            let (other, more) = match (constant(left), constant(right)) {
                (None, Some(more)) => (left, more),
                (Some(more), None) => (right, more),
                _ => break,
            };
            (number, distance) = (other, distance + more);
        }
        (number, distance)
    }

    /// The operands of a sum that is as large as they are together.
    fn sum(&self, number: Value) -> Option<(Value, Value)> {
        let data = self.kernel.defining_op(number)?;
        let sum = data.kind == OpKind::Binary(BinaryOp::Add) && self.is_exact(number);
        sum.then(|| (data.left(), data.right()))
    }

    /// The operands of a sum that may be taken apart, so many of which are left. One of 64 bits: of
    /// one of 32 bits, what is left without the constants may wrap.
    fn parts(&self, number: Value, most: &mut u32) -> Option<(Value, Value)> {
        let parts = self.sum(number).filter(|_| self.kernel.ty(number).elem().bytes() == 8)?;
        *most = most.checked_sub(1)?;
        Some(parts)
    }

    /// What is left of a number without the constants in it. Makes the sums of it that have any.
    fn root(&mut self, number: Value, most: &mut u32, made: &mut Made) -> Value {
        let (number, _) = self.without_constants(number);
        let Some((left, right)) = self.parts(number, most) else { return number };
        let parts = [self.root(left, most, made), self.root(right, most, made)];
        if parts == [left, right] { number } else { made.sum(self.kernel, parts) }
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
        let aligned = self.aligned.get(&common.view).copied().unwrap_or(1);
        let fits = |lanes: u64| {
            let wide = lanes * u64::from(bytes);
            wide <= WIDEST.into() && aligned.is_multiple_of(wide) && common.sum.divisor.is_multiple_of(lanes)
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
        let (at, elem) = (self.kernel.op(ops[place]), self.kernel.ty(common.view).elem());
        let (loc, index) = (at.loc, at.index());
        let mut made = Made { ops: Vec::new(), loc };
        let mut index = self.root(index, &mut { MOST_SUMS }, &mut made);
        if distance != 0 {
            let elem = self.kernel.ty(index).elem();
            let constant = made.constant(self.kernel, elem, distance);
            index = made.sum(self.kernel, [index, constant]);
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
        made.ops.push(wide);
        (place, made.ops)
    }

    fn rename(self) {
        let mut ops = Vec::new();
        self.kernel.walk(|op, _| ops.push(op));
        for op in ops {
            self.renames.apply(self.kernel, op);
        }
    }
}

/// New operations at one place.
struct Made {
    ops: Vec<Op>,
    loc: Loc,
}

impl Made {
    fn sum(&mut self, kernel: &mut Kernel, parts: [Value; 2]) -> Value {
        let elem = kernel.ty(parts[0]).elem();
        self.one(kernel, OpKind::Binary(BinaryOp::Add), &parts, elem)
    }

    fn constant(&mut self, kernel: &mut Kernel, elem: Scalar, number: i128) -> Value {
        self.one(kernel, OpKind::Const(Literal::wrapping(elem, number)), &[], elem)
    }

    fn one(&mut self, kernel: &mut Kernel, kind: OpKind, operands: &[Value], elem: Scalar) -> Value {
        let op = kernel.add_op(kind, operands, &[Type::scalar(elem)], &[], self.loc);
        self.ops.push(op);
        kernel.result(op)
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
