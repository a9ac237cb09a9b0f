//! What reductions and scans combine with: the working type, neutral elements, and pairs of key and
//! index for argmin and argmax.

use super::emit::Emitter;
use kiln_ir::{BinaryOp, CompareOp, Literal, OpKind, ReduceOp, Scalar, UnaryOp, Value};
use smallvec::{SmallVec, smallvec};

/// A partial result: one value, or a key and an i32 index.
pub(super) type Partial = SmallVec<[Value; 2]>;

/// How elements of a type are combined.
#[derive(Clone, Copy)]
pub(super) struct Combiner {
    op: ReduceOp,
    elem: Scalar,
}

impl Combiner {
    pub fn new(op: ReduceOp, elem: Scalar) -> Combiner {
        Combiner { op, elem }
    }

    /// Whether the result is an index.
    pub fn is_arg(self) -> bool {
        matches!(self.op, ReduceOp::ArgMin | ReduceOp::ArgMax)
    }

    /// The type elements are combined in: 16-bit floats widen, bools become integers, and argmin
    /// and argmax order floats by an integer key.
    fn work(self) -> Scalar {
        match self.elem.accumulator() {
            Scalar::Bool => Scalar::U32,
            Scalar::F32 if self.is_arg() => Scalar::I32,
            Scalar::F64 if self.is_arg() => Scalar::I64,
            other => other,
        }
    }

    /// The types of a partial result.
    pub fn types(self) -> SmallVec<[Scalar; 2]> {
        if self.is_arg() { smallvec![self.work(), Scalar::I32] } else { smallvec![self.work()] }
    }

    /// The partial result of one element, with its index along the axis if that matters.
    pub fn begin(self, em: &mut Emitter, value: Value, index: impl FnOnce(&mut Emitter) -> Value) -> Partial {
        let wide = self.elem.accumulator();
        if !self.is_arg() {
            return smallvec![em.cast(value, self.work())];
        }
        let value = em.cast(value, if wide.is_float() { wide } else { self.work() });
        let key = if wide.is_float() { self.key(em, value, wide) } else { value };
        smallvec![key, index(em)]
    }

    /// An integer that orders as the float does: both zeros are equal, NaN is worse than every
    /// number.
    fn key(self, em: &mut Emitter, value: Value, elem: Scalar) -> Value {
        let (int, top, most, least) = match elem {
            Scalar::F64 => (Scalar::I64, 63, i64::MAX, i64::MIN),
            _ => (Scalar::I32, 31, i32::MAX.into(), i32::MIN.into()),
        };
        let zero = em.constant(Literal::zero(elem));
        let unsigned_zero = em.add(value, zero);
        let bits = em.one(OpKind::Bitcast, &[unsigned_zero], int);
        let (top, low) = (em.int(int, top), em.int(int, most));
        let sign = em.binary(BinaryOp::Shr, bits, top);
        let flip = em.and(sign, low);
        let key = em.binary(BinaryOp::Xor, bits, flip);
        let nan = em.unary(UnaryOp::IsNan, value);
        let worst = em.int(int, if self.op == ReduceOp::ArgMax { least } else { most });
        em.select(nan, worst, key)
    }

    /// The partial result of both.
    pub fn join(self, em: &mut Emitter, a: &Partial, b: &Partial) -> Partial {
        if !self.is_arg() {
            return smallvec![em.binary(binary(self.op), a[0], b[0])];
        }
        let better = em.compare(self.comparison(), a[0], b[0]);
        let tie = em.compare(CompareOp::Eq, a[0], b[0]);
        let earlier = em.compare(CompareOp::Lt, a[1], b[1]);
        let first = em.and(tie, earlier);
        let take = em.or(better, first);
        smallvec![em.select(take, a[0], b[0]), em.select(take, a[1], b[1])]
    }

    /// The partial result of both, where every index of `a` is below those of `b`.
    pub fn join_in_order(self, em: &mut Emitter, a: &Partial, b: &Partial) -> Partial {
        if !self.is_arg() {
            return self.join(em, a, b);
        }
        let better = em.compare(self.comparison(), b[0], a[0]);
        smallvec![em.select(better, b[0], a[0]), em.select(better, b[1], a[1])]
    }

    /// The partial result of a list, as a balanced tree. The list is in the order of the axis if
    /// `ordered`.
    pub fn join_all(self, em: &mut Emitter, mut list: Vec<Partial>, ordered: bool) -> Option<Partial> {
        while list.len() > 1 {
            list = list
                .chunks(2)
                .map(|pair| match pair {
                    [a, b] if ordered => self.join_in_order(em, a, b),
                    [a, b] => self.join(em, a, b),
                    _ => pair[0].clone(),
                })
                .collect();
        }
        list.pop()
    }

    /// The result, in the element type `to`.
    pub fn end(self, em: &mut Emitter, partial: &Partial, to: Scalar) -> Value {
        em.cast(partial[partial.len() - 1], to)
    }

    /// The element that changes nothing. Not for argmin and argmax.
    pub fn neutral(self, em: &mut Emitter) -> Value {
        let elem = self.work();
        let float = |value: f64| Literal::from_f64(elem, value);
        let (least, most) = match elem {
            Scalar::I32 => (i32::MIN.into(), i32::MAX.into()),
            Scalar::U32 => (0, u32::MAX.into()),
            Scalar::I64 => (i64::MIN.into(), i64::MAX.into()),
            _ => (0, u64::MAX as i128),
        };
        em.constant(match self.op {
            ReduceOp::Prod => Literal::one(elem),
            ReduceOp::Min if elem.is_float() => float(f64::INFINITY),
            ReduceOp::Max if elem.is_float() => float(f64::NEG_INFINITY),
            ReduceOp::Min => Literal::wrapping(elem, most),
            ReduceOp::Max => Literal::wrapping(elem, least),
            ReduceOp::And => Literal::wrapping(elem, -1),
            ReduceOp::Sum | ReduceOp::Or | ReduceOp::Xor => Literal::zero(elem),
            // They have no neutral element.
            ReduceOp::ArgMin | ReduceOp::ArgMax => Literal::zero(elem),
        })
    }

    fn comparison(self) -> CompareOp {
        if self.op == ReduceOp::ArgMax { CompareOp::Gt } else { CompareOp::Lt }
    }
}

/// What combines two elements, or of argmin and argmax two keys.
pub(crate) fn binary(op: ReduceOp) -> BinaryOp {
    match op {
        ReduceOp::Sum => BinaryOp::Add,
        ReduceOp::Prod => BinaryOp::Mul,
        ReduceOp::Min | ReduceOp::ArgMin => BinaryOp::Min,
        ReduceOp::Max | ReduceOp::ArgMax => BinaryOp::Max,
        ReduceOp::And => BinaryOp::And,
        ReduceOp::Or => BinaryOp::Or,
        ReduceOp::Xor => BinaryOp::Xor,
    }
}
