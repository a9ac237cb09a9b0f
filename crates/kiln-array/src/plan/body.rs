//! What a kernel computes for each of its elements.
//!
//! A *group* is what shares a kernel: members that are stored, or that only other members read. It
//! counts over *axes*: kept ones, which its results have, and row axes, along which reductions
//! combine. A [`Body`] is the group written out: from each member down to what is read from memory,
//! through views, as values over *dimensions*. A dimension is an axis, or a part of one where a
//! reshape divides it.

use super::affine::{Affine, Indivisible, Var, delinear, linear};
use super::graph::Graph;
use crate::op::Op;
use crate::shape::{Extents, row_major};
use kiln_ir::{BinaryOp, CompareOp, Literal, ReduceOp, Scalar, UnaryOp};
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;
use std::slice;

/// The most values of a kernel's body: larger ones are divided among kernels.
const MOST_VALUES: usize = 400;

/// The most reads of a kernel.
const MOST_READS: usize = 20;

/// An axis that a group counts over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GroupAxis {
    pub(crate) extent: usize,
    /// Whether reductions combine along it.
    pub(crate) row: bool,
}

/// An array of a group.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Its position in the graph.
    pub(crate) vertex: usize,
    /// The axis of the group for each axis of the array (of a reduction: of its input); `None` for
    /// those of extent 1.
    pub(crate) axes: Vec<Option<usize>>,
}

/// What shares a kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    pub(crate) axes: Vec<GroupAxis>,
    pub(crate) members: Vec<Member>,
}

impl Group {
    /// Elements of the kept or of the row axes.
    pub(crate) fn extent(&self, row: bool) -> usize {
        self.axes.iter().filter(|axis| axis.row == row).map(|axis| axis.extent).product()
    }

    /// Whether something is combined.
    pub(crate) fn has_rows(&self) -> bool {
        self.axes.iter().any(|axis| axis.row)
    }

    pub(crate) fn member(&self, vertex: usize) -> Option<&Member> {
        self.members.iter().find(|member| member.vertex == vertex)
    }
}

/// A dimension of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dim {
    pub(crate) extent: usize,
    pub(crate) row: bool,
    /// The axis of the group that it is, or is a part of.
    pub(crate) axis: usize,
    /// The distance of its neighbors on that axis.
    stride: usize,
}

/// A value of a body, made of values before it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Value {
    Literal(Literal),
    /// An i64.
    Index(Affine),
    /// An element of an array in memory, by the index on each of its axes, or by the one in
    /// row-major order. Where the mask is false nothing is read.
    Read {
        vertex: usize,
        index: Vec<Affine>,
        mask: Option<usize>,
    },
    Unary(UnaryOp, usize),
    Binary(BinaryOp, [usize; 2]),
    Compare(CompareOp, [usize; 2]),
    Select([usize; 3]),
    Cast(Scalar, usize),
    /// Combined along the row.
    Reduce(ReduceOp, usize),
    /// The running sum along the row.
    CumSum {
        reverse: bool,
        of: usize,
    },
    /// The value, after a check that the index lies on an axis of this extent.
    Checked {
        index: usize,
        extent: usize,
        mask: Option<usize>,
    },
}

impl Value {
    /// The values that it is made of.
    fn operands(&self) -> impl Iterator<Item = usize> + '_ {
        let (values, indices): (SmallVec<[usize; 3]>, &[Affine]) = match self {
            Value::Literal(_) => (SmallVec::new(), &[]),
            Value::Index(index) => (SmallVec::new(), slice::from_ref(index)),
            Value::Read { index, mask, .. } => (mask.iter().copied().collect(), index),
            Value::Unary(_, of) | Value::Cast(_, of) | Value::Reduce(_, of) | Value::CumSum { of, .. } => {
                (smallvec![*of], &[])
            }
            Value::Binary(_, both) | Value::Compare(_, both) => (both.iter().copied().collect(), &[]),
            Value::Select(three) => (three.iter().copied().collect(), &[]),
            Value::Checked { index, mask, .. } => {
                ([Some(*index), *mask].into_iter().flatten().collect(), &[])
            }
        };
        let within = indices.iter().flat_map(|index| &index.terms).filter_map(|(var, _)| match var {
            Var::Value(value) => Some(*value),
            Var::Dim(_) => None,
        });
        values.into_iter().chain(within)
    }
}

/// Why a group has no body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// An array must be stored before, in a kernel of its own.
    Store(usize),
    /// A member is read in another order than it is computed in.
    Conflict,
}

/// How the walk goes on after what it met.
enum Stop {
    Divide { dim: usize, inner: usize },
    Failed(Failure),
}

/// What a kernel computes.
pub(crate) struct Body {
    pub(crate) dims: Vec<Dim>,
    pub(crate) values: Vec<Value>,
    pub(crate) elems: Vec<Scalar>,
    /// The value of each member, in their order.
    pub(crate) results: Vec<usize>,
    /// For each value that is checked, the array whose index it is: the first one that asks.
    pub(crate) checks: Vec<(usize, usize)>,
    numbers: HashMap<Value, usize>,
    seen: HashMap<(usize, Vec<Affine>, Option<usize>), usize>,
    reads: usize,
}

impl Body {
    /// Writes a group out. `is_stored` says which arrays are in memory when it runs, unless they
    /// are members.
    pub(crate) fn of(graph: &Graph, group: &Group, is_stored: &[bool]) -> Result<Body, Failure> {
        let whole = |(axis, of): (usize, &GroupAxis)| Dim { extent: of.extent, row: of.row, axis, stride: 1 };
        let mut dims: Vec<Dim> = group.axes.iter().enumerate().map(whole).collect();
        loop {
            let mut writer = Writer { graph, group, is_stored, body: Body::empty(dims.clone()) };
            match writer.write() {
                Ok(()) => return Ok(writer.body),
                Err(Stop::Failed(failure)) => return Err(failure),
                Err(Stop::Divide { dim, inner }) => {
                    let Dim { extent, stride, .. } = dims[dim];
                    let outer = Dim { extent: extent / inner, stride: stride * inner, ..dims[dim] };
                    dims[dim].extent = inner;
                    dims.insert(dim, outer);
                }
            }
        }
    }

    /// The body of a group without members.
    pub(crate) fn nothing() -> Body {
        Body::empty(Vec::new())
    }

    fn empty(dims: Vec<Dim>) -> Body {
        Body {
            dims,
            values: Vec::new(),
            elems: Vec::new(),
            results: Vec::new(),
            checks: Vec::new(),
            numbers: HashMap::new(),
            seen: HashMap::new(),
            reads: 0,
        }
    }

    /// The index on an axis of the group.
    pub(crate) fn axis_index(&self, axis: usize) -> Affine {
        let parts = self.dims.iter().enumerate().filter(|(_, dim)| dim.axis == axis);
        parts.fold(Affine::default(), |sum, (at, dim)| {
            sum.plus(&Affine::of(Var::Dim(at), dim.stride as i64), 1)
        })
    }

    /// The indices on a member's axes.
    pub(crate) fn indices(&self, axes: &[Option<usize>]) -> Vec<Affine> {
        axes.iter().map(|axis| axis.map_or_else(Affine::default, |axis| self.axis_index(axis))).collect()
    }

    fn push(&mut self, value: Value, elem: Scalar) -> usize {
        if let Some(&number) = self.numbers.get(&value) {
            return number;
        }
        self.reads += usize::from(matches!(value, Value::Read { .. }));
        self.values.push(value.clone());
        self.elems.push(elem);
        self.numbers.insert(value, self.values.len() - 1);
        self.values.len() - 1
    }

    /// Whether a value is made of another one, which is among those before it.
    fn depends(&self, value: usize, on: usize) -> bool {
        let mut needed = vec![false; value + 1];
        needed[value] = true;
        for at in (on + 1..=value).rev().filter(|_| on <= value) {
            if needed[at] {
                self.values[at].operands().for_each(|operand| needed[operand] = true);
            }
        }
        on <= value && needed[on]
    }
}

/// Writes a body.
struct Writer<'a> {
    graph: &'a Graph,
    group: &'a Group,
    is_stored: &'a [bool],
    body: Body,
}

type Written = Result<usize, Stop>;

impl Writer<'_> {
    fn write(&mut self) -> Result<(), Stop> {
        for member in &self.group.members {
            let index = self.own_index(member);
            let value = self.value(member.vertex, index, None)?;
            self.body.results.push(value);
        }
        Ok(())
    }

    /// The indices by which a member is computed: of a reduction those on the axes that stay.
    fn own_index(&self, member: &Member) -> Vec<Affine> {
        let all = self.body.indices(&member.axes);
        match self.graph[member.vertex].op() {
            Some(Op::Reduce { axes, .. }) => {
                let stays = |(axis, index)| (!axes.contains(&axis)).then_some(index);
                all.into_iter().enumerate().filter_map(stays).collect()
            }
            _ => all,
        }
    }

    /// The element of an array at an index. Where the mask is false, it may be anything.
    fn value(&mut self, vertex: usize, index: Vec<Affine>, mask: Option<usize>) -> Written {
        let key = (vertex, index, mask);
        if let Some(&value) = self.body.seen.get(&key) {
            return Ok(value);
        }
        let (vertex, index, mask) = key.clone();
        let value = match self.group.member(vertex) {
            Some(member) if index != self.own_index(member) || mask.is_some() => {
                return Err(Stop::Failed(Failure::Conflict));
            }
            Some(_) => self.computed(vertex, index, mask)?,
            None if self.is_stored[vertex] => {
                let elem = self.graph[vertex].array.dtype();
                self.body.push(Value::Read { vertex, index, mask }, elem)
            }
            None => self.computed(vertex, index, mask)?,
        };
        let inner = self.group.member(vertex).is_none() && !self.is_stored[vertex];
        if inner && (self.body.values.len() > MOST_VALUES || self.body.reads > MOST_READS) {
            return Err(Stop::Failed(Failure::Store(vertex)));
        }
        self.body.seen.insert(key, value);
        Ok(value)
    }

    fn computed(&mut self, vertex: usize, index: Vec<Affine>, mask: Option<usize>) -> Written {
        let of = &self.graph[vertex];
        let (elem, shape) = (of.array.dtype(), of.shape());
        let Some(op) = of.op() else { return Err(Stop::Failed(Failure::Store(vertex))) };
        let value = match op {
            Op::Full(literal) => Value::Literal(*literal),
            Op::Iota { axis } => Value::Index(index[*axis].clone()),
            Op::Unary(op) => Value::Unary(*op, self.operand(vertex, 0, index, mask)?),
            Op::Binary(op @ (BinaryOp::Div | BinaryOp::Rem)) if !elem.is_float() => {
                let [a, b] = self.operands(vertex, index, mask)?;
                Value::Binary(*op, [a, self.divisor(b, elem)])
            }
            Op::Binary(op) => Value::Binary(*op, self.operands(vertex, index, mask)?),
            Op::Compare(op) => Value::Compare(*op, self.operands(vertex, index, mask)?),
            Op::Select => Value::Select(self.operands(vertex, index, mask)?),
            Op::Cast => match self.operand(vertex, 0, index, mask)? {
                same if self.body.elems[same] == elem => return Ok(same),
                other => Value::Cast(elem, other),
            },
            Op::Broadcast => {
                let from = self.graph[of.inputs[0]].shape();
                let stretched =
                    |(index, extent): (Affine, &usize)| if *extent == 1 { Affine::default() } else { index };
                let index = index.into_iter().zip(from).map(stretched).collect();
                return self.operand(vertex, 0, index, mask);
            }
            Op::Reshape => return self.reshaped(vertex, &index, mask),
            Op::Permute(order) => {
                let mut from = vec![Affine::default(); order.len()];
                order.iter().zip(index).for_each(|(&axis, index)| from[axis] = index);
                return self.operand(vertex, 0, from, mask);
            }
            Op::Slice { start, step } => {
                let places = start.iter().zip(step).zip(index);
                let at = places.map(|((&start, &step), index)| index.times(step as i64).offset(start as i64));
                let at = at.collect();
                return self.operand(vertex, 0, at, mask);
            }
            Op::Windows { axis, step } => {
                let mut from = index;
                let within = from.remove(axis + 1);
                from[*axis] = from[*axis].times(*step as i64).plus(&within, 1);
                return self.operand(vertex, 0, from, mask);
            }
            Op::Flip(axes) => {
                let reversed = |(axis, index): (usize, Affine)| match axes.contains(&axis) {
                    true => index.times(-1).offset(shape[axis] as i64 - 1),
                    false => index,
                };
                let at = index.into_iter().enumerate().map(reversed).collect();
                return self.operand(vertex, 0, at, mask);
            }
            Op::Pad { before } => return self.padded(vertex, before, index, mask),
            Op::Reduce { op, axes, numbers_only } => {
                return self.reduced(vertex, *op, axes, *numbers_only);
            }
            Op::CumSum { reverse, .. } => {
                let of = self.operand(vertex, 0, index, mask)?;
                Value::CumSum { reverse: *reverse, of }
            }
            Op::Take { axis } => return self.taken(vertex, *axis, index, mask),
            Op::Variable | Op::Stop | Op::After | Op::Custom => return self.operand(vertex, 0, index, mask),
            Op::Product
            | Op::ArgSort { .. }
            | Op::AddParts
            | Op::Attention { .. }
            | Op::AttentionSums { .. }
            | Op::AttentionGradient { .. }
            | Op::Decode
            | Op::Kernel(_)
            | Op::Mapped => {
                return Err(Stop::Failed(Failure::Store(vertex)));
            }
        };
        Ok(self.body.push(value, elem))
    }

    fn operand(&mut self, vertex: usize, number: usize, index: Vec<Affine>, mask: Option<usize>) -> Written {
        self.value(self.graph[vertex].inputs[number], index, mask)
    }

    fn operands<const N: usize>(
        &mut self,
        vertex: usize,
        index: Vec<Affine>,
        mask: Option<usize>,
    ) -> Result<[usize; N], Stop> {
        let mut values = [0; N];
        for (number, value) in values.iter_mut().enumerate() {
            *value = self.operand(vertex, number, index.clone(), mask)?;
        }
        Ok(values)
    }

    /// What an integer is divided by: 1 in the place of 0, at which a device faults. Where a mask
    /// is false, and in a tile beyond the ends of arrays, a divisor may be 0 that is none of the
    /// program's.
    fn divisor(&mut self, value: usize, elem: Scalar) -> usize {
        if let Value::Literal(number) = &self.body.values[value]
            && *number != Literal::zero(elem)
        {
            return value;
        }
        let [zero, one] = [Literal::zero(elem), Literal::one(elem)]
            .map(|number| self.body.push(Value::Literal(number), elem));
        let is_some = self.body.push(Value::Compare(CompareOp::Ne, [value, zero]), Scalar::Bool);
        self.body.push(Value::Select([is_some, value, one]), elem)
    }

    /// The number that all elements of an array are, if they are one, in whatever order.
    fn number(&self, vertex: usize) -> Option<Literal> {
        let mut source = vertex;
        loop {
            match self.graph[source].op()? {
                Op::Full(number) => return Some(*number),
                op if op.is_view() => source = self.graph[source].inputs[0],
                _ => return None,
            }
        }
    }

    /// The element of a reshape's input. In memory it is found by its number, whatever the shapes.
    fn reshaped(&mut self, vertex: usize, index: &[Affine], mask: Option<usize>) -> Written {
        let from = self.graph[vertex].inputs[0];
        if let Some(number) = self.number(from) {
            return Ok(self.body.push(Value::Literal(number), number.elem()));
        }
        let flat = linear(index, &row_major(self.graph[vertex].shape()));
        let extent = |dim: usize| self.body.dims[dim].extent;
        let indivisible = match delinear(&flat, self.graph[from].shape(), extent) {
            Ok(index) => return self.value(from, index, mask),
            Err(indivisible) => indivisible,
        };
        match (self.in_order(from), indivisible) {
            (Some(vertex), _) => {
                let elem = self.graph[vertex].array.dtype();
                Ok(self.body.push(Value::Read { vertex, index: vec![flat], mask }, elem))
            }
            (None, Indivisible::Divide { dim, inner }) => Err(Stop::Divide { dim, inner }),
            (None, Indivisible::Never) => Err(Stop::Failed(Failure::Store(from))),
        }
    }

    /// The array in memory that has an array's elements in their order: itself, or what reshapes
    /// made it of.
    fn in_order(&self, vertex: usize) -> Option<usize> {
        let mut source = vertex;
        while !self.is_stored[source] && self.group.member(source).is_none() {
            match self.graph[source].op() {
                Some(Op::Reshape) => source = self.graph[source].inputs[0],
                _ => return None,
            }
        }
        self.group.member(source).is_none().then_some(source)
    }

    /// Zero outside of the input, whose elements there are not read.
    fn padded(
        &mut self,
        vertex: usize,
        before: &Extents,
        index: Vec<Affine>,
        mask: Option<usize>,
    ) -> Written {
        let of = &self.graph[vertex];
        let (elem, outer, inner) = (of.array.dtype(), of.shape(), self.graph[of.inputs[0]].shape());
        let mut inside = mask;
        let mut at = Vec::with_capacity(index.len());
        for (axis, index) in index.into_iter().enumerate() {
            let index = index.offset(-(before[axis] as i64));
            let value = self.body.push(Value::Index(index.clone()), Scalar::I64);
            if before[axis] > 0 {
                inside = Some(self.bounded(value, CompareOp::Ge, 0, inside));
            }
            if before[axis] + inner[axis] < outer[axis] {
                inside = Some(self.bounded(value, CompareOp::Lt, inner[axis] as i64, inside));
            }
            at.push(index);
        }
        let value = self.operand(vertex, 0, at, inside)?;
        let Some(inside) = inside.filter(|_| inside != mask) else { return Ok(value) };
        let zero = self.body.push(Value::Literal(Literal::zero(elem)), elem);
        Ok(self.body.push(Value::Select([inside, value, zero]), elem))
    }

    /// Whether an index is on a side of a bound, and what was asked before holds.
    fn bounded(&mut self, index: usize, op: CompareOp, bound: i64, before: Option<usize>) -> usize {
        let bound = self.body.push(Value::Index(Affine::constant(bound)), Scalar::I64);
        let here = self.body.push(Value::Compare(op, [index, bound]), Scalar::Bool);
        match before {
            Some(before) => self.body.push(Value::Binary(BinaryOp::And, [before, here]), Scalar::Bool),
            None => here,
        }
    }

    /// A reduction, which is a member: of its input at every place of the row.
    fn reduced(&mut self, vertex: usize, op: ReduceOp, axes: &Extents, numbers_only: bool) -> Written {
        let Some(member) = self.group.member(vertex) else {
            return Err(Stop::Failed(Failure::Store(vertex)));
        };
        let index = self.body.indices(&member.axes);
        debug_assert!(axes.len() <= index.len());
        let of = self.operand(vertex, 0, index, None)?;
        let elem = self.body.elems[of];
        let combined = self.body.push(Value::Reduce(op, of), elem);
        if numbers_only || !(elem.is_float() && matches!(op, ReduceOp::Min | ReduceOp::Max)) {
            return Ok(combined);
        }
        // The operation of the IR prefers numbers to NaN, NumPy's does not.
        let is_nan = self.body.push(Value::Unary(UnaryOp::IsNan, of), Scalar::Bool);
        let any = self.body.push(Value::Reduce(ReduceOp::Or, is_nan), Scalar::Bool);
        let nan = self.body.push(Value::Literal(Literal::from_f64(elem, f64::NAN)), elem);
        Ok(self.body.push(Value::Select([any, nan, combined]), elem))
    }

    /// The element that an index among the inputs says.
    fn taken(&mut self, vertex: usize, axis: usize, index: Vec<Affine>, mask: Option<usize>) -> Written {
        let extent = self.graph[self.graph[vertex].inputs[0]].shape()[axis];
        let given = self.operand(vertex, 1, index.clone(), mask)?;
        let place = self.body.push(Value::Checked { index: given, extent, mask }, Scalar::I64);
        if self.body.checks.iter().all(|(value, _)| *value != place) {
            self.body.checks.push((place, vertex));
        }
        let mut at = index;
        at[axis] = Affine::of(Var::Value(place), 1);
        let value = self.operand(vertex, 0, at, mask)?;
        if self.body.depends(value, place) {
            return Ok(value);
        }
        // All elements along the axis are equal, so that no index is read by. Its check remains.
        let zero = self.body.push(Value::Literal(Literal::zero(Scalar::I64)), Scalar::I64);
        let found = self.body.push(Value::Compare(CompareOp::Ge, [place, zero]), Scalar::Bool);
        Ok(self.body.push(Value::Select([found, value, value]), self.body.elems[value]))
    }
}
