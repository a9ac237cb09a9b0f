//! Address legalization: accesses of views at linear indices become accesses by address, for
//! devices that have addresses.
//!
//! The lowering to threads says where an element lies in elements from its view's first
//! ([`LinearOp`]). This pass puts byte arithmetic in its place. Of a view whose elements have `s`
//! bytes:
//!
//! ```text
//! address(a + b)      = address(a) + bytes(b)       where the sum serves accesses alone
//! address(i)          = base + bytes(i)
//! bytes(constant)     = constant * s
//! bytes(a * stride)   = a * (stride * s)            where the product serves accesses alone
//! bytes(i)            = i * s
//! ```
//!
//! So the parts of an index keep apart what changes in a loop and what does not, and a constant at
//! the end fits the instruction. Each is made once for a block and those inside it, right before
//! the access, or before the loop in which its parts do not change.
//!
//! Needs: a lowered kernel. After: it has no access at a linear index, and no view of scratch
//! memory.

use crate::lower::facts::{IntFacts, Known};
use crate::opt::Renames;
use crate::target::IndexWidth;
use kiln_ir::{
    BinaryOp, Block, Def, Kernel, LinearOp, Literal, Loc, Op, OpData, OpKind, Operand, Scalar, Space, Type,
    Value,
};
use rustc_hash::FxHashMap;

/// How deep sums and products are taken apart.
const MOST_PARTS: u32 = 32;

/// Makes accesses by address of all accesses at linear indices. The first `prologue` operations
/// depend on nothing but the thread and the launch.
pub(crate) fn legalize(kernel: &mut Kernel, prologue: usize, width: IndexWidth) {
    let mut accesses = false;
    kernel.walk(|_, data| {
        let scratch = matches!(data.kind, OpKind::Scratch { .. });
        accesses |= matches!(data.kind, OpKind::Linear { .. });
        accesses |= scratch && !kernel.ty(data.results[0]).is_scalar();
    });
    if !accesses {
        return;
    }
    let parts = parts_of_indices(kernel);
    let known = IntFacts::new(kernel).into_known();
    let mut levels = vec![0; kernel.counts().0];
    kernel.block(kernel.body).args.iter().for_each(|arg| levels[arg.index()] = PROLOGUE);
    let mut pass = Pass {
        kernel,
        parts,
        known,
        levels,
        prologue,
        width,
        front: Vec::new(),
        hoisted: Vec::new(),
        loc: Loc::default(),
        frames: Vec::new(),
        values: FxHashMap::default(),
        renames: Renames::default(),
    };
    let body = pass.kernel.body;
    pass.block(body, Kind::Body);
}

/// What a block belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Body,
    Loop,
    /// Of a branch, a task.
    Other,
}

/// The level of what the prologue has. In other blocks, level `n` has `n - 1` blocks around it.
const PROLOGUE: usize = 0;

/// A block that the pass is in.
struct Frame {
    kind: Kind,
    /// The operations of the block so far.
    ops: Vec<Op>,
    /// What is known only here.
    made: Vec<Key>,
}

/// What new values stand for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Constant(Literal),
    /// The address of element 0 of a view.
    Base(Value),
    /// A sum.
    Sum(Value, Value),
    /// A distance in elements of so many bytes.
    Bytes(Value, u32),
    /// A stride times so many bytes.
    Step(Value, u32),
}

/// Which values are sums and products that serve accesses alone: by value, how deep they are. To
/// take another one apart would compute it twice.
fn parts_of_indices(kernel: &Kernel) -> Vec<Option<u32>> {
    let mut ops = Vec::new();
    let mut others = vec![false; kernel.counts().0];
    kernel.walk(|op, data| {
        ops.push(op);
        if let OpKind::Linear { .. } = data.kind {
            let index = data.index();
            let rest = data.operands.iter().filter(|v| **v != index);
            rest.chain(data.stored_values()).for_each(|v| others[v.index()] = true);
        } else if !is_sum_or_product(data) {
            data.operands.iter().for_each(|v| others[v.index()] = true);
        }
    });
    // Users stand behind what they use.
    for &op in ops.iter().rev() {
        let data = kernel.op(op);
        if !is_sum_or_product(data) {
            continue;
        }
        // The factors of a product are not taken apart: the right one is scaled by itself.
        if others[data.results[0].index()] || data.kind == OpKind::Binary(BinaryOp::Mul) {
            data.operands.iter().for_each(|v| others[v.index()] = true);
        }
    }
    let mut depths: Vec<Option<u32>> = vec![None; others.len()];
    for op in ops {
        let data = kernel.op(op);
        if is_sum_or_product(data) && !others[data.results[0].index()] {
            let deepest = data.operands.iter().filter_map(|v| depths[v.index()]).max().unwrap_or(0);
            depths[data.results[0].index()] = (deepest < MOST_PARTS).then_some(deepest + 1);
        }
    }
    depths
}

fn is_sum_or_product(data: &OpData) -> bool {
    matches!(data.kind, OpKind::Binary(BinaryOp::Add | BinaryOp::Mul))
}

struct Pass<'k> {
    kernel: &'k mut Kernel,
    parts: Vec<Option<u32>>,
    known: Vec<Option<Known>>,
    /// Where each value is made, by value.
    levels: Vec<usize>,
    /// How many operations of the body are left that are the prologue.
    prologue: usize,
    /// The integers that distances in bytes are computed in where they fit.
    width: IndexWidth,
    /// New operations in front of the prologue, and behind it.
    front: Vec<Op>,
    hoisted: Vec<Op>,
    loc: Loc,
    /// The blocks that the pass is in, the innermost last.
    frames: Vec<Frame>,
    values: FxHashMap<Key, Value>,
    renames: Renames,
}

impl Pass<'_> {
    fn block(&mut self, block: Block, kind: Kind) {
        let old = std::mem::take(&mut self.kernel.block_mut(block).ops);
        self.frames.push(Frame { kind, ops: Vec::with_capacity(old.len()), made: Vec::new() });
        let level = self.frames.len();
        if kind != Kind::Body {
            self.kernel.block(block).args.iter().for_each(|arg| self.levels[arg.index()] = level);
        }
        for (i, op) in old.into_iter().enumerate() {
            self.renames.apply(self.kernel, op);
            let data = self.kernel.op(op);
            self.loc = data.loc;
            let own = if kind == Kind::Body && i < self.prologue { PROLOGUE } else { level };
            data.results.iter().for_each(|result| self.levels[result.index()] = own);
            let repeats = matches!(data.kind, OpKind::For | OpKind::While);
            let inside = if repeats { Kind::Loop } else { Kind::Other };
            for region in data.regions.clone() {
                self.block(region, inside);
            }
            if self.access(op) {
                self.frames[level - 1].ops.push(op);
            }
        }
        let Some(mut frame) = self.frames.pop() else { return };
        for key in frame.made {
            self.values.remove(&key);
        }
        if kind == Kind::Body {
            let rest = frame.ops.split_off(self.prologue.min(frame.ops.len()));
            let parts = [std::mem::take(&mut self.front), frame.ops, std::mem::take(&mut self.hoisted), rest];
            frame.ops = parts.concat();
        }
        self.kernel.block_mut(block).ops = frame.ops;
    }

    /// Legalizes an operation; whether anything of it is left.
    fn access(&mut self, op: Op) -> bool {
        let data = self.kernel.op(op);
        let OpKind::Linear { op: access, predicated } = data.kind else {
            // The address of a view of scratch memory is made where it is used.
            let scratch = matches!(data.kind, OpKind::Scratch { .. });
            return !scratch || self.kernel.ty(data.results[0]).is_scalar();
        };
        let (view, index) = (data.view(), data.index());
        let space = self.kernel.ty(view).as_view().map_or(Space::Global, |view| view.space);
        let mut rest = data.mask().into_iter().collect::<Vec<_>>();
        rest.extend(
            [Operand::Stored, Operand::Expected, Operand::Desired].iter().flat_map(|&n| data.named(n)),
        );
        let address = self.address(view, index);
        let kind = match access {
            LinearOp::Load { lanes, reuse } => OpKind::PtrLoad { space, lanes, reuse, predicated },
            LinearOp::Store { lanes, reuse, .. } => OpKind::PtrStore { space, lanes, reuse, predicated },
            LinearOp::Atomic { op, scope } => OpKind::PtrAtomic { space, op, scope, predicated },
            LinearOp::AtomicCas { scope } => OpKind::PtrAtomicCas { space, scope, predicated },
            LinearOp::OrderedLoad { order, scope } => {
                OpKind::PtrOrderedLoad { space, lanes: 1, order, scope, predicated }
            }
            LinearOp::OrderedStore { order, scope } => {
                OpKind::PtrOrderedStore { space, lanes: 1, order, scope, predicated }
            }
            LinearOp::Address => {
                self.renames.add(self.kernel.result(op), address);
                return false;
            }
        };
        let data = self.kernel.op_mut(op);
        data.kind = kind;
        data.operands = std::iter::once(address).chain(rest).collect();
        true
    }

    /// The address of an element: the base and the parts of the index in their order, the constant
    /// last.
    fn address(&mut self, view: Value, index: Value) -> Value {
        let size = self.kernel.ty(view).elem().bytes();
        let mut terms = Vec::new();
        let constant = self.terms(index, &mut terms);
        let mut address = self.base(view);
        for term in terms {
            let distance = self.bytes(term, size);
            address = self.add(address, distance, self.branch());
        }
        let constant = self.constant(Scalar::U64, constant * i128::from(size));
        self.add(address, constant, self.branch())
    }

    /// Takes sums apart, but for those of the prologue, which are made there once for all accesses.
    /// Gives the sum of the constants.
    fn terms(&self, value: Value, terms: &mut Vec<Value>) -> i128 {
        if let Some(number) = self.kernel.as_const(value) {
            return number.as_i128();
        }
        match self.sum(value).filter(|_| self.levels[value.index()] > PROLOGUE) {
            Some((left, right)) => self.terms(left, terms) + self.terms(right, terms),
            None => {
                terms.push(value);
                0
            }
        }
    }

    /// The address of element 0.
    fn base(&mut self, view: Value) -> Value {
        let key = Key::Base(view);
        if let Some(&base) = self.values.get(&key) {
            return base;
        }
        let scratch = self
            .kernel
            .defining_op(view)
            .and_then(|data| if let OpKind::Scratch { offset } = data.kind { Some(offset) } else { None });
        let base = match scratch {
            Some(offset) => self.make(self.branch(), OpKind::Scratch { offset }, &[], Scalar::U64),
            None => self.make(self.levels[view.index()], OpKind::Address, &[view], Scalar::U64),
        };
        self.remember(key, base)
    }

    /// The parts of a sum that is taken apart, the constant last.
    fn sum(&self, value: Value) -> Option<(Value, Value)> {
        let data = self.kernel.defining_op(value).filter(|d| d.kind == OpKind::Binary(BinaryOp::Add))?;
        let constant = |v| self.kernel.as_const(v).is_some();
        let (left, right) = match constant(data.left()) {
            true => (data.right(), data.left()),
            false => (data.left(), data.right()),
        };
        // A constant costs nothing.
        let apart = self.is_part(value) || constant(right);
        (apart && left != right && self.is_exact(value, left, right)).then_some((left, right))
    }

    /// Whether a value is a sum or product that serves accesses alone.
    fn is_part(&self, value: Value) -> bool {
        self.parts.get(value.index()).is_some_and(Option::is_some)
    }

    fn known(&self, value: Value) -> Option<Known> {
        self.known.get(value.index()).copied().flatten()
    }

    /// Whether a sum is the sum of its parts when these are extended to 64 bits.
    fn is_exact(&self, sum: Value, left: Value, right: Value) -> bool {
        if self.kernel.ty(sum).elem() == Scalar::I64 {
            return true; // modulo 2^64, as addresses are
        }
        match (self.known(left), self.known(right)) {
            (Some(a), Some(b)) => fits(a.min + b.min, a.max + b.max),
            _ => false,
        }
    }

    /// A distance in bytes, as a u64.
    fn bytes(&mut self, value: Value, size: u32) -> Value {
        let key = Key::Bytes(value, size);
        if let Some(&bytes) = self.values.get(&key) {
            return bytes;
        }
        let bytes = match (self.kernel.as_const(value), self.sum(value)) {
            (Some(number), _) => self.constant(Scalar::U64, number.as_i128() * i128::from(size)),
            (None, Some((left, right))) => {
                let (left, right) = (self.bytes(left, size), self.bytes(right, size));
                self.add(left, right, PROLOGUE)
            }
            (None, None) => {
                let scaled = self.scaled(value, size);
                self.cast(scaled, Scalar::U64)
            }
        };
        self.remember(key, bytes)
    }

    /// A number times the size of an element, in 32 bits where that is exact.
    fn scaled(&mut self, value: Value, size: u32) -> Value {
        let value = match self.kernel.ty(value).elem() == Scalar::I64 || self.fits_scaled(value, size) {
            true => value,
            false => self.cast(value, Scalar::I64),
        };
        let product = self
            .kernel
            .defining_op(value)
            .filter(|data| data.kind == OpKind::Binary(BinaryOp::Mul) && self.is_part(value));
        let product = product.map(|data| (data.left(), data.right()));
        match product {
            Some((factor, stride)) => {
                let step = self.times(stride, size);
                self.mul(factor, step)
            }
            None => self.times(value, size),
        }
    }

    fn fits_scaled(&self, value: Value, size: u32) -> bool {
        let size = i128::from(size);
        let fits = |known: Known| fits(known.min * size, known.max * size);
        self.width == IndexWidth::Bits32 && self.known(value).is_some_and(fits)
    }

    fn times(&mut self, value: Value, size: u32) -> Value {
        let key = Key::Step(value, size);
        if let Some(&step) = self.values.get(&key) {
            return step;
        }
        let elem = self.kernel.ty(value).elem();
        let step = match self.kernel.as_const(value) {
            Some(number) => self.constant(elem, number.as_i128() * i128::from(size)),
            None => {
                let size = self.constant(elem, size.into());
                self.mul(value, size)
            }
        };
        self.remember(key, step)
    }

    fn mul(&mut self, a: Value, b: Value) -> Value {
        if self.kernel.as_const(b).is_some_and(|b| b.as_i128() == 1) {
            return a;
        }
        self.binary(BinaryOp::Mul, a, b, PROLOGUE)
    }

    fn add(&mut self, a: Value, b: Value, least: usize) -> Value {
        let zero = |v| self.kernel.as_const(v).is_some_and(|v| v.as_i128() == 0);
        match (zero(a), zero(b)) {
            (_, true) => return a,
            (true, false) => return b,
            (false, false) => {}
        }
        let key = Key::Sum(a, b);
        if let Some(&sum) = self.values.get(&key) {
            return sum;
        }
        let sum = self.binary(BinaryOp::Add, a, b, least);
        self.remember(key, sum)
    }

    fn binary(&mut self, op: BinaryOp, a: Value, b: Value, least: usize) -> Value {
        let level = self.levels[a.index()].max(self.levels[b.index()]).max(least);
        let elem = self.kernel.ty(a).elem();
        self.make(level, OpKind::Binary(op), &[a, b], elem)
    }

    fn cast(&mut self, value: Value, to: Scalar) -> Value {
        match self.kernel.ty(value).elem() == to {
            true => value,
            false => self.make(self.levels[value.index()], OpKind::Cast, &[value], to),
        }
    }

    fn constant(&mut self, elem: Scalar, number: i128) -> Value {
        let key = Key::Constant(Literal::wrapping(elem, number));
        if let Some(&value) = self.values.get(&key) {
            return value;
        }
        let value = self.make(PROLOGUE, OpKind::Const(Literal::wrapping(elem, number)), &[], elem);
        self.remember(key, value)
    }

    /// The level of the innermost branch, or of the body: what is made for an access is placed in
    /// it.
    fn branch(&self) -> usize {
        self.frames.iter().rposition(|frame| frame.kind != Kind::Loop).map_or(1, |at| at + 1)
    }

    /// A new operation at a level, before what the pass has come to there.
    fn make(&mut self, level: usize, kind: OpKind, operands: &[Value], elem: Scalar) -> Value {
        let first = operands.iter().all(|&view| kind == OpKind::Address && self.is_param(view));
        let op = self.kernel.add_op(kind, operands, &[Type::scalar(elem)], &[], self.loc);
        match level.checked_sub(1) {
            None if first => self.front.push(op),
            None => self.hoisted.push(op),
            Some(at) => self.frames[at].ops.push(op),
        }
        self.levels.push(level);
        self.kernel.result(op)
    }

    fn is_param(&self, view: Value) -> bool {
        matches!(self.kernel.def(view), Def::Arg(..))
    }

    /// Keeps a value for what stands for the same where it is there.
    fn remember(&mut self, key: Key, value: Value) -> Value {
        self.values.insert(key, value);
        if let Some(at) = self.levels[value.index()].checked_sub(1) {
            self.frames[at].made.push(key);
        }
        value
    }
}

/// Whether an interval is one of i32.
fn fits(min: i128, max: i128) -> bool {
    min >= i32::MIN.into() && max <= i32::MAX.into()
}
