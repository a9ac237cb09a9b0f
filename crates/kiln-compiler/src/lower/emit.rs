//! Writing a thread-level kernel: operations over scalars, a pool of constants, and the thread's
//! coordinates.

use kiln_ir::{
    Axis, BinaryOp, Block, CompareOp, Kernel, Level, Literal, Loc, Op, OpKind, Scalar, Type, UnaryOp, Value,
};
use rustc_hash::FxHashMap;

/// Appends operations to a thread-level kernel.
///
/// What depends on nothing but the thread and the launch (constants, indices, addresses of
/// parameters) goes to a prologue and is made once; [`finish`](Self::finish) puts the prologue in
/// front of the body.
pub(crate) struct Emitter {
    pub kernel: Kernel,
    pub block: Block,
    pub loc: Loc,
    prologue: Block,
    constants: FxHashMap<Literal, Value>,
    pooled: FxHashMap<(OpKey, Option<Value>), Value>,
    linear: FxHashMap<Vec<u32>, Value>,
    /// Operations of the prologue, so that each is made once.
    hoisted: FxHashMap<(Hoisted, Value, Value), Value>,
    /// The number of bits of the index of a thread in its block.
    thread_bits: u32,
}

/// Operations that often recur in the prologue.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Hoisted {
    Binary(BinaryOp),
    Cast(Scalar),
}

/// Operations without effect that are made once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum OpKey {
    Extent(u32),
    Stride(u32),
    Address,
    Thread,
    First(u32),
}

impl Emitter {
    pub fn new(name: &str, block: [u32; 3]) -> Emitter {
        let mut kernel = Kernel::new(name, Level::Thread { block });
        let prologue = kernel.add_block();
        let body = kernel.body;
        Emitter {
            kernel,
            block: body,
            loc: Loc::default(),
            prologue,
            constants: FxHashMap::default(),
            pooled: FxHashMap::default(),
            linear: FxHashMap::default(),
            hoisted: FxHashMap::default(),
            thread_bits: block.iter().product::<u32>().next_power_of_two().trailing_zeros(),
        }
    }

    /// The kernel, with what is used of the prologue in front, and how many operations that is.
    pub fn finish(mut self) -> (Kernel, usize) {
        let mut used = vec![false; self.kernel.counts().0];
        self.kernel.walk(|_, data| data.operands.iter().for_each(|v| used[v.index()] = true));
        let mut ops = std::mem::take(&mut self.kernel.block_mut(self.prologue).ops);
        for i in (0..ops.len()).rev() {
            let data = self.kernel.op(ops[i]);
            if data.results.iter().any(|v| used[v.index()]) {
                data.operands.iter().for_each(|v| used[v.index()] = true);
            } else {
                ops.remove(i);
            }
        }
        let (body, prologue) = (self.kernel.body, ops.len());
        ops.append(&mut self.kernel.block_mut(body).ops);
        self.kernel.block_mut(body).ops = ops;
        (self.kernel, prologue)
    }

    pub fn op(&mut self, kind: OpKind, operands: &[Value], results: &[Type]) -> Op {
        self.kernel.append(self.block, kind, operands, results, &[], self.loc)
    }

    pub fn one(&mut self, kind: OpKind, operands: &[Value], elem: Scalar) -> Value {
        let op = self.op(kind, operands, &[Type::scalar(elem)]);
        self.kernel.result(op)
    }

    pub fn elem(&self, value: Value) -> Scalar {
        self.kernel.ty(value).elem()
    }

    /// Emits into the prologue.
    pub fn hoisted<T>(&mut self, emit: impl FnOnce(&mut Emitter) -> T) -> T {
        let block = std::mem::replace(&mut self.block, self.prologue);
        let result = emit(self);
        self.block = block;
        result
    }

    pub fn constant(&mut self, literal: Literal) -> Value {
        if let Some(&value) = self.constants.get(&literal) {
            return value;
        }
        let value = self.hoisted(|e| e.one(OpKind::Const(literal), &[], literal.elem()));
        self.constants.insert(literal, value);
        value
    }

    pub fn int(&mut self, elem: Scalar, value: i64) -> Value {
        self.constant(Literal::wrapping(elem, value as i128))
    }

    pub fn i32(&mut self, value: i64) -> Value {
        self.int(Scalar::I32, value)
    }

    pub fn i64(&mut self, value: i64) -> Value {
        self.int(Scalar::I64, value)
    }

    /// The constant a value is, as an integer.
    pub fn as_int(&self, value: Value) -> Option<i128> {
        self.kernel.as_const(value).filter(|l| !l.elem().is_float()).map(Literal::as_i128)
    }

    /// A binary operation, folded where an operand is neutral or both are constant integers.
    pub fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        use BinaryOp::*;
        let elem = self.elem(a);
        let (left, right) = (self.as_int(a), self.as_int(b));
        match (op, left, right) {
            (Add | Or | Xor, Some(0), _) => return b,
            (Add | Sub | Or | Xor | Shl | Shr, _, Some(0)) => return a,
            (Mul, Some(1), _) => return b,
            (Mul | Div, _, Some(1)) => return a,
            (Mul | And, Some(0), _) => return a,
            (Mul | And, _, Some(0)) => return b,
            (And, Some(1), _) if elem == Scalar::Bool => return b,
            (And, _, Some(1)) if elem == Scalar::Bool => return a,
            (
                Add | Sub | Mul | Div | FastDiv | Rem | Min | Max | And | Or | Xor | Shl | Shr | Pow | Atan2,
                ..,
            ) => {}
        }
        if let (Some(x), Some(y)) = (left, right)
            && elem.is_int()
        {
            let folded = match op {
                Add => Some(x + y),
                Sub => Some(x - y),
                Mul => Some(x.wrapping_mul(y)),
                Div | FastDiv | Rem | Min | Max | And | Or | Xor | Shl | Shr | Pow | Atan2 => None,
            };
            if let Some(value) = folded {
                return self.constant(Literal::wrapping(elem, value));
            }
        }
        self.recurring(Hoisted::Binary(op), a, b, |e| e.one(OpKind::Binary(op), &[a, b], elem))
    }

    /// An operation that is looked up among those of the prologue, if it goes there.
    fn recurring(
        &mut self,
        key: Hoisted,
        a: Value,
        b: Value,
        emit: impl FnOnce(&mut Emitter) -> Value,
    ) -> Value {
        if self.block != self.prologue {
            return emit(self);
        }
        if let Some(&value) = self.hoisted.get(&(key, a, b)) {
            return value;
        }
        let value = emit(self);
        self.hoisted.insert((key, a, b), value);
        value
    }

    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.binary(BinaryOp::Add, a, b)
    }

    pub fn sub(&mut self, a: Value, b: Value) -> Value {
        self.binary(BinaryOp::Sub, a, b)
    }

    pub fn mul(&mut self, a: Value, b: Value) -> Value {
        self.binary(BinaryOp::Mul, a, b)
    }

    pub fn and(&mut self, a: Value, b: Value) -> Value {
        self.binary(BinaryOp::And, a, b)
    }

    pub fn or(&mut self, a: Value, b: Value) -> Value {
        self.binary(BinaryOp::Or, a, b)
    }

    /// Both conditions, where `None` is true.
    pub fn both(&mut self, a: Option<Value>, b: Option<Value>) -> Option<Value> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.and(a, b)),
            (a, b) => a.or(b),
        }
    }

    pub fn compare(&mut self, op: CompareOp, a: Value, b: Value) -> Value {
        self.one(OpKind::Compare(op), &[a, b], Scalar::Bool)
    }

    pub fn select(&mut self, cond: Value, a: Value, b: Value) -> Value {
        if a == b {
            return a;
        }
        let elem = self.elem(a);
        self.one(OpKind::Select, &[cond, a, b], elem)
    }

    pub fn unary(&mut self, op: UnaryOp, a: Value) -> Value {
        let elem = if op == UnaryOp::IsNan { Scalar::Bool } else { self.elem(a) };
        self.one(OpKind::Unary(op), &[a], elem)
    }

    pub fn cast(&mut self, a: Value, elem: Scalar) -> Value {
        let from = self.elem(a);
        if from == elem {
            return a;
        }
        if let (Some(value), true) = (self.as_int(a), elem.is_int()) {
            return self.constant(Literal::wrapping(elem, value));
        }
        self.recurring(Hoisted::Cast(elem), a, a, |e| e.one(OpKind::Cast, &[a], elem))
    }

    /// An operation that depends on a parameter alone, made once.
    pub fn pooled(
        &mut self,
        key: OpKey,
        of: Option<Value>,
        emit: impl FnOnce(&mut Emitter) -> Value,
    ) -> Value {
        if let Some(&value) = self.pooled.get(&(key, of)) {
            return value;
        }
        let value = self.hoisted(emit);
        self.pooled.insert((key, of), value);
        value
    }

    /// The number of bits of the index of a thread in its block.
    pub fn thread_bits(&self) -> u32 {
        self.thread_bits
    }

    /// The i32 index of the thread in its block.
    pub fn thread(&mut self) -> Value {
        let Level::Thread { block } = self.kernel.level else { return self.i32(0) };
        self.pooled(OpKey::Thread, None, |e| {
            let mut index = None;
            for (axis, extent) in [Axis::Z, Axis::Y, Axis::X].into_iter().zip([block[2], block[1], block[0]])
            {
                if extent == 1 && axis != Axis::X {
                    continue;
                }
                let id = e.one(OpKind::ThreadId(axis), &[], Scalar::I64);
                let id = e.cast(id, Scalar::I32);
                index = Some(match index {
                    None => id,
                    Some(outer) => {
                        let extent = e.i32(extent.into());
                        let outer = e.mul(outer, extent);
                        e.add(outer, id)
                    }
                });
            }
            index.unwrap_or_else(|| e.i32(0))
        })
    }

    /// An i32 that is linear in the bits of the thread index: the sum of `bases[i]` over its set
    /// bits `i`. Bases are zero or distinct powers of two.
    pub fn linear(&mut self, bases: &[u32]) -> Value {
        if let Some(&value) = self.linear.get(bases) {
            return value;
        }
        let value = self.hoisted(|e| e.linear_runs(bases));
        self.linear.insert(bases.to_vec(), value);
        value
    }

    /// An i32: the exclusive or of `parts[i]` over the set bits `i` of the thread index.
    pub fn xor_of_bits(&mut self, parts: &[u32]) -> Value {
        let parts = parts.to_vec();
        self.hoisted(|e| {
            let thread = e.thread();
            let (zero, one) = (e.i32(0), e.i32(1));
            let mut sum = zero;
            for (bit, &part) in parts.iter().enumerate().filter(|(_, part)| **part != 0) {
                let by = e.i32(bit as i64);
                let set = e.binary(BinaryOp::Shr, thread, by);
                let set = e.and(set, one);
                let part = e.i32(part.into());
                let part = e.mul(set, part);
                sum = e.binary(BinaryOp::Xor, sum, part);
            }
            sum
        })
    }

    /// One shift and mask for each run of bits that move together.
    fn linear_runs(&mut self, bases: &[u32]) -> Value {
        let thread = self.thread();
        let mut sum = self.i32(0);
        let mut from = 0;
        while from < bases.len() {
            let mut to = from + 1;
            if bases[from] != 0 {
                while to < bases.len() && bases[to] == bases[to - 1] << 1 {
                    to += 1;
                }
                let part = self.move_bits(thread, from as u32, to as u32, bases[from].trailing_zeros());
                sum = self.add(sum, part);
            }
            from = to;
        }
        sum
    }

    /// Bits `from..to` of a thread index, moved to begin at bit `target`.
    fn move_bits(&mut self, thread: Value, from: u32, to: u32, target: u32) -> Value {
        let mut part = thread;
        if to < self.thread_bits {
            let mask = self.i32((1i64 << to) - (1i64 << from));
            part = self.and(part, mask);
        } else if from > 0 && target > 0 {
            let mask = self.i32(-(1i64 << from));
            part = self.and(part, mask);
        }
        if target >= from {
            let by = self.i32((target - from).into());
            self.binary(BinaryOp::Shl, part, by)
        } else {
            let by = self.i32((from - target).into());
            self.binary(BinaryOp::Shr, part, by)
        }
    }

    /// Whether the bits of `mask` are zero in the thread index; `None` if there are none to ask
    /// for.
    pub fn thread_is_first(&mut self, mask: u32) -> Option<Value> {
        let bases: Vec<u32> = (0..self.thread_bits).map(|i| mask & 1 << i).collect();
        if mask == 0 {
            return None;
        }
        Some(self.pooled(OpKey::First(mask), None, |e| {
            let part = e.linear(&bases);
            let zero = e.i32(0);
            e.compare(CompareOp::Eq, part, zero)
        }))
    }
}
