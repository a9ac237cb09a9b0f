//! Indices in 32 bits, for adapters without 64-bit integers.
//!
//! Indices, extents and strides are 64-bit integers of the IR. Without 64-bit integers, they and
//! what they are computed of are held in 32 bits. So that no index wraps in silence, a launch
//! computes the range of each of them from its grid, extents, strides and scalars, and is refused
//! where one does not fit. All other 64-bit integers are pairs of words (`pairs.rs`): those with
//! ranges that are not known (elements of tensors, what a loop carries), those with ranges that fit
//! in hardly any launch, and those of which no index is computed.
//!
//! Checks of bounds compare indices as unsigned numbers. Signed numbers that fit into 32 bits have
//! the same order as unsigned ones of 32 bits and of 64, so these are held in 32 bits too, where
//! they are compared and nothing else.

use crate::parameters::Parameter;
use kiln_ir::{BinaryOp, Block, Kernel, Level, OpData, OpKind, Operand, Scalar as Elem, UnaryOp, Value};

/// A range, with both ends.
pub(crate) type Range = [i64; 2];

pub(crate) const ALL: Range = [i32::MIN as i64, i32::MAX as i64];

/// Where the range of a value comes from. Numbers are those of earlier steps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Source {
    Known(Range),
    /// From 0 to below the grid's extent on an axis.
    Program(u32),
    /// A field of the parameter block.
    Field(Parameter),
    /// A scalar parameter, an i32.
    Scalar(usize),
    Unary(UnaryOp, usize),
    Binary(BinaryOp, usize, usize),
    MultiplyAdd([usize; 3]),
    Either(usize, usize),
    /// From the least of one to below the greatest of another.
    Until(usize, usize),
}

/// How the range of a value follows from those of others.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Step {
    pub(crate) source: Source,
    pub(crate) elem: Elem,
    /// Its place in the source of the kernel.
    pub(crate) location: String,
}

/// How the ranges of a kernel's indices follow from a launch. Integers of 32 bits, of which indices
/// may be computed, have ranges too.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Ranges {
    pub(crate) steps: Vec<Step>,
    /// By value of the kernel: its step, if it has a range.
    values: Vec<Option<usize>>,
    /// By step: whether indices are computed of it, or it is compared with such a value.
    pub(crate) wanted: Vec<bool>,
    /// By step: the range in a small launch. What does not fit there gets no step.
    small: Vec<Range>,
    /// By value of the kernel: whether it is an unsigned number of which only the order counts.
    ordered: Vec<bool>,
}

/// An index that does not fit.
#[derive(Debug, PartialEq)]
pub(crate) struct Overflow {
    /// Its place in the source.
    pub(crate) location: String,
    /// Its greatest magnitude.
    pub(crate) magnitude: u64,
}

impl Ranges {
    /// The ranges of a kernel's integers.
    pub(crate) fn of(kernel: &Kernel) -> Ranges {
        let values = kernel.counts().0;
        let mut ranges =
            Ranges { values: vec![None; values], ordered: vec![false; values], ..Ranges::default() };
        ranges.block(kernel, kernel.body);
        ranges.keep_compared(kernel, kernel.body);
        ranges.want(kernel);
        ranges
    }

    /// Whether a value of 64 bits can be held in 32.
    pub(crate) fn has(&self, value: Value) -> bool {
        let index = |step: usize| self.steps[step].elem == Elem::I64 && self.wanted[step];
        self.find(value).is_some_and(index) || self.ordered.get(value.index()).copied().unwrap_or(false)
    }

    fn find(&self, value: Value) -> Option<usize> {
        self.values.get(value.index()).copied().flatten()
    }

    fn set(&mut self, kernel: &Kernel, value: Value, source: Source, op: &OpData) {
        let elem = kernel.ty(value).elem();
        // Two blocks, elements and strides: what they make too large fits in no launch of use.
        let Ok(range) = step_range(source, elem, &self.small, &|_| 2) else { return };
        self.small.push(range);
        self.values[value.index()] = Some(self.steps.len());
        self.steps.push(Step { source, elem, location: kernel.describe(op.loc) });
    }

    /// Finds out which values indices are computed of. Those that are compared with one of them
    /// count too, so that checks of bounds stay in 32 bits.
    fn want(&mut self, kernel: &Kernel) {
        self.wanted = vec![false; self.steps.len()];
        let mut compared = Vec::new();
        kernel.walk(|_, data| {
            for operand in [Operand::Offset, Operand::Index, Operand::Low, Operand::High, Operand::Step] {
                data.named(operand).iter().for_each(|&value| self.want_value(value));
            }
            if data.kind == OpKind::For
                && let Some(&index) = kernel.block(data.regions[0]).args.first()
            {
                self.want_value(index);
            }
            if let OpKind::Compare(_) = data.kind {
                compared.push([data.left(), data.right()].map(|value| self.step_compared(kernel, value)));
            }
        });
        loop {
            // Steps are computed of earlier ones.
            for step in (0..self.steps.len()).rev() {
                if self.wanted[step] {
                    self.steps[step].source.operands().for_each(|operand| self.wanted[operand] = true);
                }
            }
            let before = self.wanted.iter().filter(|&&wanted| wanted).count();
            for &[left, right] in &compared {
                if let (Some(left), Some(right)) = (left, right)
                    && (self.wanted[left] || self.wanted[right])
                {
                    (self.wanted[left], self.wanted[right]) = (true, true);
                }
            }
            if self.wanted.iter().filter(|&&wanted| wanted).count() == before {
                break;
            }
        }
        // The bits of an index that is a pair are one.
        kernel.walk(|_, data| {
            if let (OpKind::Cast, [result]) = (&data.kind, &data.results[..])
                && kernel.ty(data.input()).elem() == Elem::I64
                && !self.has(data.input())
            {
                self.ordered[result.index()] = false;
            }
        });
    }

    fn want_value(&mut self, value: Value) {
        if let Some(step) = self.find(value) {
            self.wanted[step] = true;
        }
    }

    /// The step of a value that is compared, maybe as an unsigned number.
    fn step_compared(&self, kernel: &Kernel, value: Value) -> Option<usize> {
        let cast = kernel.defining_op(value).filter(|op| op.kind == OpKind::Cast);
        let from = cast.filter(|_| self.ordered[value.index()]).map(|op| op.input());
        self.find(from.unwrap_or(value))
    }

    fn block(&mut self, kernel: &Kernel, block: Block) {
        for &op in &kernel.block(block).ops {
            let data = kernel.op(op);
            if data.kind == OpKind::For {
                let [low, high, step] = data.for_bounds();
                let forward = kernel.as_const(step).is_some_and(|step| step.as_i128() > 0);
                let forward = forward && self.find(step).is_some();
                let index = kernel.block(data.regions[0]).args.first();
                if let (Some(low), Some(high), true, Some(&index)) =
                    (self.find(low), self.find(high), forward, index)
                {
                    self.set(kernel, index, Source::Until(low, high), data);
                }
            }
            data.regions.iter().for_each(|&region| self.block(kernel, region));
            if data.kind == OpKind::If {
                self.join(kernel, data);
            } else if let [result] = data.results[..]
                && kernel.ty(result).elem() == Elem::U64
            {
                self.ordered[result.index()] = self.is_index_as_unsigned(kernel, data);
            } else if let [result] = data.results[..]
                && limits(kernel.ty(result).elem()).is_some()
                && let Some(source) = self.source(kernel, data)
            {
                self.set(kernel, result, source, data);
            }
        }
    }

    /// Whether an operation gives the bits of a signed number that fits into 32 bits.
    fn is_index_as_unsigned(&self, kernel: &Kernel, data: &OpData) -> bool {
        if let OpKind::Const(literal) = data.kind {
            return i32::try_from(literal.as_i128() as i64).is_ok();
        }
        let from = (data.kind == OpKind::Cast).then(|| data.input());
        from.is_some_and(|from| match kernel.ty(from).elem() {
            Elem::I32 => true,
            Elem::I64 => self.find(from).is_some(),
            _ => false,
        })
    }

    /// Forgets unsigned numbers that are not compared alone.
    fn keep_compared(&mut self, kernel: &Kernel, block: Block) {
        for &op in &kernel.block(block).ops {
            let data = kernel.op(op);
            if !matches!(data.kind, OpKind::Compare(_)) {
                data.operands.iter().for_each(|value| self.ordered[value.index()] = false);
            }
            data.regions.iter().for_each(|&region| self.keep_compared(kernel, region));
        }
    }

    /// The results of an `if`, of which both regions give values with ranges.
    fn join(&mut self, kernel: &Kernel, data: &OpData) {
        let yielded = |region: Block| {
            let last = kernel.block(region).ops.last().map(|&op| kernel.op(op));
            last.filter(|last| last.kind == OpKind::Yield).map(|last| last.yielded().to_vec())
        };
        let [one, other] = data.regions[..] else { return };
        let (Some(one), Some(other)) = (yielded(one), yielded(other)) else { return };
        for ((&result, one), other) in data.results.iter().zip(one).zip(other) {
            if limits(kernel.ty(result).elem()).is_some()
                && let (Some(one), Some(other)) = (self.find(one), self.find(other))
            {
                self.set(kernel, result, Source::Either(one, other), data);
            }
        }
    }

    fn source(&self, kernel: &Kernel, data: &OpData) -> Option<Source> {
        use BinaryOp::*;
        let threads = |axis: usize| match kernel.level {
            Level::Thread { block } => i64::from(block[axis]),
            Level::Tile { .. } => 1,
        };
        Some(match data.kind {
            OpKind::Const(literal) => {
                let value = i32::try_from(literal.as_i128()).ok()?.into();
                Source::Known([value, value])
            }
            OpKind::ThreadId(axis) => Source::Known([0, threads(axis as usize) - 1]),
            OpKind::BlockDim(axis) => Source::Known([threads(axis as usize); 2]),
            OpKind::ProgramId(axis) => Source::Program(axis as u32),
            OpKind::NumPrograms(axis) => Source::Field(Parameter::Grid(axis as u32)),
            OpKind::Extent(axis) => Source::Field(Parameter::Extent(view(kernel, data)?, axis)),
            OpKind::Stride(axis) => Source::Field(Parameter::Stride(view(kernel, data)?, axis)),
            OpKind::Cast => self.cast(kernel, data.input())?,
            OpKind::Unary(unary @ (UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Not)) => {
                Source::Unary(unary, self.find(data.input())?)
            }
            OpKind::Binary(binary @ (Shl | Shr)) => {
                // The amount counts modulo 64 of the type, but modulo 32 where it is held in that.
                kernel.as_const(data.right()).filter(|by| (0..32).contains(&by.as_i128()))?;
                Source::Binary(binary, self.find(data.left())?, self.find(data.right())?)
            }
            OpKind::Binary(binary @ (Add | Sub | Mul | Div | Rem | Min | Max | And | Or | Xor)) => {
                Source::Binary(binary, self.find(data.left())?, self.find(data.right())?)
            }
            OpKind::Fma => Source::MultiplyAdd([
                self.find(data.left())?,
                self.find(data.right())?,
                self.find(data.addend())?,
            ]),
            OpKind::Select => Source::Either(self.find(data.if_true())?, self.find(data.if_false())?),
            // What is read, exchanged or carried may be any number.
            OpKind::Unary(_)
            | OpKind::Binary(FastDiv | Pow | Atan2)
            | OpKind::Compare(_)
            | OpKind::Bitcast
            | OpKind::Iota
            | OpKind::Broadcast
            | OpKind::Reshape
            | OpKind::Transpose(_)
            | OpKind::Reduce { .. }
            | OpKind::Scan { .. }
            | OpKind::Dot(_)
            | OpKind::Alloc { .. }
            | OpKind::Scratch { .. }
            | OpKind::Load(_)
            | OpKind::Store { .. }
            | OpKind::Gather { .. }
            | OpKind::Scatter { .. }
            | OpKind::Atomic { .. }
            | OpKind::AtomicCas { .. }
            | OpKind::OrderedLoad { .. }
            | OpKind::OrderedStore { .. }
            | OpKind::Linear { .. }
            | OpKind::Fence(_)
            | OpKind::Barrier
            | OpKind::WarpBarrier
            | OpKind::Shuffle(_)
            | OpKind::Vote(_)
            | OpKind::BlockUniform
            | OpKind::If
            | OpKind::For
            | OpKind::While
            | OpKind::Yield
            | OpKind::Condition
            | OpKind::Address
            | OpKind::PtrLoad { .. }
            | OpKind::PtrStore { .. }
            | OpKind::PtrAtomic { .. }
            | OpKind::PtrAtomicCas { .. }
            | OpKind::PtrOrderedLoad { .. }
            | OpKind::PtrOrderedStore { .. }
            | OpKind::PtrAtomic128 { .. }
            | OpKind::LoadQuad(_)
            | OpKind::StoreQuad(_)
            | OpKind::Atomic128 { .. }
            | OpKind::FaultRegion
            | OpKind::Assert(_)
            | OpKind::CheckBounds
            | OpKind::CheckDivisor
            | OpKind::BlockCheck(_)
            | OpKind::DeferFault { .. }
            | OpKind::Faulted
            | OpKind::Print(_)
            | OpKind::Clock(_)
            | OpKind::InlinePtx(_)
            | OpKind::Sleep
            | OpKind::GridBarrier
            | OpKind::Cluster(_)
            | OpKind::AsyncCopy(_)
            | OpKind::Explicit(_)
            | OpKind::Fragment(_) => return None,
        })
    }

    /// The range of a value that is converted.
    fn cast(&self, kernel: &Kernel, from: Value) -> Option<Source> {
        if let Some(step) = self.find(from) {
            return Some(Source::Either(step, step));
        }
        let elem = kernel.ty(from).elem();
        let parameter = kernel.block(kernel.body).args.iter().position(|&arg| arg == from);
        Some(match (elem, parameter) {
            (Elem::I32, Some(parameter)) => Source::Scalar(parameter),
            (Elem::I32, None) => Source::Known(ALL),
            (Elem::I8, _) => Source::Known([-128, 127]),
            (Elem::U8, _) => Source::Known([0, 255]),
            (Elem::I16, _) => Source::Known([-32_768, 32_767]),
            (Elem::U16, _) => Source::Known([0, 65_535]),
            (Elem::Bool, _) => Source::Known([0, 1]),
            _ => return None,
        })
    }

    /// Finds an index that does not fit into 32 bits in a launch, of which `field` gives the fields
    /// of the parameter block.
    pub(crate) fn check(&self, field: impl Fn(Parameter) -> u64) -> Result<(), Overflow> {
        let mut ranges: Vec<Range> = Vec::with_capacity(self.steps.len());
        for (step, wanted) in self.steps.iter().zip(&self.wanted) {
            let range = match step_range(step.source, step.elem, &ranges, &field) {
                Ok(range) => range,
                Err(magnitude) if *wanted => {
                    return Err(Overflow { location: step.location.clone(), magnitude });
                }
                // A pair, which no index is computed of.
                Err(_) => ALL,
            };
            ranges.push(range);
        }
        Ok(())
    }
}

impl Source {
    /// The steps that it is computed of.
    pub(crate) fn operands(self) -> impl Iterator<Item = usize> {
        let operands = match self {
            Source::Known(_) | Source::Program(_) | Source::Field(_) | Source::Scalar(_) => [None; 3],
            Source::Unary(_, a) => [Some(a), None, None],
            Source::Binary(_, a, b) | Source::Either(a, b) | Source::Until(a, b) => [Some(a), Some(b), None],
            Source::MultiplyAdd(all) => all.map(Some),
        };
        operands.into_iter().flatten()
    }
}

/// The range of a value, of those of earlier steps and the fields of the parameter block; its
/// greatest magnitude where it does not fit into 32 bits. Integers of 32 bits wrap.
fn step_range(
    source: Source,
    elem: Elem,
    ranges: &[Range],
    field: &dyn Fn(Parameter) -> u64,
) -> Result<Range, u64> {
    let number = |parameter| i64::try_from(field(parameter)).unwrap_or(i64::MAX);
    let range = match source {
        Source::Known(range) => range,
        Source::Program(axis) => [0, (number(Parameter::Grid(axis)) - 1).max(0)],
        Source::Field(parameter) => [number(parameter); 2],
        Source::Scalar(parameter) => [i64::from(field(Parameter::Scalar(parameter)) as i32); 2],
        Source::Unary(op, a) => unary(op, ranges[a]),
        Source::Binary(op, a, b) => binary(op, ranges[a], ranges[b]),
        Source::MultiplyAdd([a, b, c]) => {
            let [low, high] = binary(BinaryOp::Mul, ranges[a], ranges[b]);
            [low + ranges[c][0], high + ranges[c][1]]
        }
        Source::Either(a, b) => hull(&[ranges[a], ranges[b]].concat()),
        Source::Until(low, high) => [ranges[low][0], ranges[low][0].max(ranges[high][1] - 1)],
    };
    let limits = limits(elem).unwrap_or(ALL);
    if limits[0] <= range[0] && range[1] <= limits[1] {
        return Ok(range);
    }
    match elem {
        Elem::I64 => Err(range[0].unsigned_abs().max(range[1].unsigned_abs())),
        _ => Ok(limits),
    }
}

/// The position among the parameters of the view that an operation names.
fn view(kernel: &Kernel, data: &OpData) -> Option<usize> {
    let view = data.named(Operand::View).first()?;
    kernel.block(kernel.body).args.iter().position(|arg| arg == view)
}

/// The numbers that a value of an element type is to hold; `None` if it has no range.
fn limits(elem: Elem) -> Option<Range> {
    match elem {
        Elem::I32 | Elem::I64 => Some(ALL),
        Elem::U32 => Some([0, u32::MAX.into()]),
        _ => None,
    }
}

fn hull(ends: &[i64]) -> Range {
    ends.iter().fold([i64::MAX, i64::MIN], |[low, high], &end| [low.min(end), high.max(end)])
}

/// Ends that fit into 32 bits give ends that fit into 64.
fn unary(op: UnaryOp, [low, high]: Range) -> Range {
    if op == UnaryOp::Neg {
        [-high, -low]
    } else if op == UnaryOp::Not {
        [!high, !low]
    } else if low > 0 {
        // A magnitude.
        [low, high]
    } else {
        [0, high.max(-low)]
    }
}

fn binary(op: BinaryOp, a: Range, b: Range) -> Range {
    let corners =
        |f: fn(i64, i64) -> i64| hull(&[f(a[0], b[0]), f(a[0], b[1]), f(a[1], b[0]), f(a[1], b[1])]);
    let positive = a[0] >= 0 && b[0] >= 0;
    match op {
        BinaryOp::Add => [a[0] + b[0], a[1] + b[1]],
        BinaryOp::Sub => [a[0] - b[1], a[1] - b[0]],
        BinaryOp::Mul => corners(|a, b| a * b),
        BinaryOp::Min => [a[0].min(b[0]), a[1].min(b[1])],
        BinaryOp::Max => [a[0].max(b[0]), a[1].max(b[1])],
        BinaryOp::Shl => corners(|a, by| a << by),
        BinaryOp::Shr => corners(|a, by| a >> by),
        BinaryOp::Div if b[0] > 0 => corners(|a, b| a / b),
        BinaryOp::Rem if b[0] > 0 && a[0] >= 0 => [0, a[1].min(b[1] - 1)],
        BinaryOp::Rem if b[0] > 0 => [1 - b[1], b[1] - 1],
        // By a divisor that may be -1, the least number has a quotient that does not fit.
        BinaryOp::Div | BinaryOp::Rem => hull(&[a[0], a[1], -a[0], -a[1]]),
        BinaryOp::And if positive => [0, a[1].min(b[1])],
        BinaryOp::And if a[0] >= 0 => [0, a[1]],
        BinaryOp::And if b[0] >= 0 => [0, b[1]],
        BinaryOp::Or | BinaryOp::Xor if positive => {
            // All the bits up to the highest one.
            [0, (a[1].max(b[1]).unsigned_abs() + 1).next_power_of_two() as i64 - 1]
        }
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => ALL,
        BinaryOp::FastDiv | BinaryOp::Pow | BinaryOp::Atan2 => ALL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "file \"k.rs\"
kernel @k(%x: mut view<f32, 2, global>, %n: i32) thread [64, 1, 1] {
  %t = thread_id x : i64
  %p = program_id x : i64
  %w = const 64 : i64
  %first = mul %p, %w : i64 @0:3:5
  %i = add %first, %t : i64
  %s = stride %x axis 0 : i64
  %at = mul %i, %s : i64 @0:4:7
  %far = cast %n : i64
  %off = add %at, %far : i64 @0:5:9
  %v = const 1.0 : f32
  view_store.x1 %x[%off] = %v
}";

    fn check(grid: u64, stride: u64, n: u64) -> Result<(), Overflow> {
        let kernel = kiln_ir::parse(KERNEL).unwrap_or_else(|error| panic!("{error:?}"));
        Ranges::of(&kernel).check(|parameter| match parameter {
            Parameter::Grid(0) => grid,
            Parameter::Stride(0, 0) => stride,
            Parameter::Scalar(1) => n,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn an_index_that_does_not_fit_is_found_with_its_line() {
        assert_eq!(check(1 << 20, 1, 0), Ok(()));
        assert_eq!(check(1 << 20, 31, (-5i32) as u32 as u64), Ok(()));
        let overflow = |magnitude: u64, line: &str| Err(Overflow { location: line.into(), magnitude });
        assert_eq!(check(1 << 26, 1, 0), overflow(((1 << 26) - 1) << 6, "k.rs:3:5"));
        assert_eq!(check(1 << 20, 33, 0), overflow(((1 << 26) - 1) * 33, "k.rs:4:7"));
        let far = i32::MAX as u64;
        assert_eq!(check(1, 2, far), overflow(63 * 2 + far, "k.rs:5:9"));
    }

    #[test]
    fn indices_may_be_computed_of_words_and_compared_as_unsigned_numbers() {
        let text = "file \"k.rs\"
kernel @k(%x: mut view<f32, 1, global>) thread [64, 1, 1] {
  %t = thread_id x : i64
  %word = cast %t : i32
  %seven = const 7 : i32
  %low = and %word, %seven : i32
  %i = cast %low : i64
  %s = stride %x axis 0 : i64
  %at = mul %i, %s : i64 @0:3:5
  %n = extent %x axis 0 : i64
  %a = cast %at : u64
  %b = cast %n : u64
  %in = lt %a, %b : bool
  %c = cast %i : u64
  %sum = add %c, %b : u64
  %v = const 1.0 : f32
  view_store.x1 %x[%at] = %v
}";
        let kernel = kiln_ir::parse(text).unwrap_or_else(|error| panic!("{error:?}"));
        let ranges = Ranges::of(&kernel);
        let check = |stride: u64| {
            ranges.check(|parameter| if parameter == Parameter::Stride(0, 0) { stride } else { 5 })
        };
        let stride = i32::MAX as u64 / 7;
        assert_eq!(check(stride), Ok(()));
        let overflow = Overflow { location: "k.rs:3:5".into(), magnitude: 7 * (stride + 1) };
        assert_eq!(check(stride + 1), Err(overflow));
        // The index, what it is computed of and what is compared with it alone; neither words nor a
        // sum, nor the extent, of which only that is computed.
        let ops = kernel.block(kernel.body).ops.iter().take(13);
        let narrow: Vec<bool> = ops.map(|&op| ranges.has(kernel.op(op).results[0])).collect();
        let [yes, no] = [true, false];
        assert_eq!(narrow, [yes, no, no, no, yes, yes, yes, no, yes, no, no, no, no]);
    }

    #[test]
    fn ranges_hold_what_operations_give() {
        use BinaryOp::*;
        let ends = [-7i64, -1, 0, 1, 2, 5, 9];
        for op in [Add, Sub, Mul, Div, Rem, Min, Max, And, Or, Xor] {
            for (a, b) in ends.iter().flat_map(|&a| ends.iter().map(move |&b| (a, b))) {
                let (left, right) = ([a, a + 3], [b, b + 2]);
                let range = binary(op, left, right);
                for x in left[0]..=left[1] {
                    for y in (right[0]..=right[1]).filter(|&y| y != 0 || !matches!(op, Div | Rem)) {
                        let value = match op {
                            Add => x + y,
                            Sub => x - y,
                            Mul => x * y,
                            Div => x / y,
                            Rem => x % y,
                            Min => x.min(y),
                            Max => x.max(y),
                            And => x & y,
                            Or => x | y,
                            _ => x ^ y,
                        };
                        assert!(range[0] <= value && value <= range[1], "{op:?} {x} {y}: {range:?}");
                    }
                }
            }
        }
    }
}
