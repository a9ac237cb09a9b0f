//! Operations without effects.

use super::Generator;
use super::pool::Entry;
use kiln_ir::*;

impl Generator<'_> {
    /// One operation whose result joins the pool.
    pub(super) fn expression(&mut self) {
        let tiles = !self.divergent;
        match self.rng.below(26) {
            0 => {
                let elem = self.elem();
                let constant = self.constant(elem);
                self.keep(constant.value, false);
            }
            1 if tiles => {
                let (elem, shape) = (self.elem(), self.shape());
                let literal = self.literal(elem);
                let value = self.builder().splat(literal, shape);
                self.keep(value, false);
            }
            2 if tiles => {
                let (elem, shape) = (*self.rng.pick(&[Scalar::I32, Scalar::I64, Scalar::U32]), self.shape());
                let value = self.builder().iota(elem, shape[0]);
                self.keep(value, false);
            }
            3 => self.position(),
            4 | 5 => self.unary(),
            6..=10 => self.binary(),
            11 | 12 => self.compare(),
            13 => self.select(),
            14 => self.fma(),
            15 => self.cast(),
            16 => self.bitcast(),
            17 if tiles => self.stretch(),
            18 if tiles => self.rearrange(),
            19 if tiles => self.reduce(),
            20 if tiles => self.scan(),
            21 if tiles && self.rng.one_in(2) => self.dot(),
            22 => self.measure(),
            23 if self.thread.is_some() && tiles => self.talk_in_warp(),
            _ => self.read(),
        }
    }

    fn position(&mut self) {
        let axis = *self.rng.pick(Axis::ALL);
        let kind = self.rng.below(if self.thread.is_some() { 4 } else { 2 });
        let mut b = self.builder();
        let value = match kind {
            0 => b.program_id(axis),
            1 => b.num_programs(axis),
            2 => b.thread_id(axis),
            _ => b.block_dim(axis),
        };
        self.keep(value, kind == 2);
    }

    fn unary(&mut self) {
        let x = self.operand(|_| true);
        let elem = self.ty(x.value).elem();
        let exact = self.options.exact;
        let fits = |op: &UnaryOp| op.info().class.has(elem) && (op.info().exact || !exact);
        let all: Vec<UnaryOp> = UnaryOp::ALL.iter().copied().filter(fits).collect();
        let op = if let [only] = all[..] { only } else { *self.rng.pick(&all) };
        let value = self.builder().unary(op, x.value);
        self.keep(value, x.varying);
    }

    fn binary(&mut self) {
        use BinaryOp::*;
        let a = self.operand(|_| true);
        let ty = self.ty(a.value);
        let mut b = self.of_type(&ty);
        let elem = ty.elem();
        let op = if elem == Scalar::Bool {
            *self.rng.pick(&[And, Or, Xor])
        } else if elem.is_int() {
            *self.rng.pick(&[Add, Sub, Mul, Div, Rem, Min, Max, And, Or, Xor, Shl, Shr])
        } else if self.options.exact {
            *self.rng.pick(&[Add, Sub, Mul, Div, Min, Max])
        } else {
            *self.rng.pick(&[Add, Sub, Mul, Div, FastDiv, Rem, Min, Max, Pow, Atan2])
        };
        if elem.is_int() && matches!(op, Div | Rem) && !(self.may_fault() && self.rng.one_in(4)) {
            b.value = self.odd(b.value);
        }
        let mut value = self.builder().binary(op, a.value, b.value);
        if matches!(op, Min | Max) {
            value = self.positive_zero(value);
        }
        self.keep(value, a.varying || b.varying);
    }

    /// Where results must be exact, the sum of an extremum and zero: which zero is the smaller is
    /// not specified.
    pub(super) fn positive_zero(&mut self, value: Value) -> Value {
        let (elem, shape) = (self.ty(value).elem(), self.kernel.shape(value));
        if !self.options.exact || !elem.is_float() {
            return value;
        }
        let mut b = self.builder();
        let zero = b.splat(Literal::zero(elem), shape);
        b.binary(BinaryOp::Add, value, zero)
    }

    /// An integer with its last bit set, which is not zero.
    fn odd(&mut self, value: Value) -> Value {
        let (elem, shape) = (self.ty(value).elem(), self.kernel.shape(value));
        let mut b = self.builder();
        let one = b.splat(Literal::one(elem), shape);
        b.binary(BinaryOp::Or, value, one)
    }

    fn compare(&mut self) {
        let a = self.operand(|_| true);
        let ty = self.ty(a.value);
        let b = self.of_type(&ty);
        let ops = if ty.elem() == Scalar::Bool { &CompareOp::ALL[..2] } else { CompareOp::ALL };
        let op = *self.rng.pick(ops);
        let value = self.builder().compare(op, a.value, b.value);
        self.keep(value, a.varying || b.varying);
    }

    fn select(&mut self) {
        let a = self.operand(|_| true);
        let ty = self.ty(a.value);
        let b = self.of_type(&ty);
        let shape = self.kernel.shape(a.value);
        let cond = self.of_type(&Type::tile(Scalar::Bool, shape));
        let value = self.builder().select(cond.value, a.value, b.value);
        self.keep(value, cond.varying || a.varying || b.varying);
    }

    fn fma(&mut self) {
        let a = self.operand(|e| e != Scalar::Bool);
        let ty = self.ty(a.value);
        let (b, c) = (self.of_type(&ty), self.of_type(&ty));
        let value = self.builder().fma(a.value, b.value, c.value);
        self.keep(value, a.varying || b.varying || c.varying);
    }

    fn cast(&mut self) {
        let x = self.operand(|_| true);
        let elem = self.elem();
        let value = self.builder().cast(x.value, elem);
        self.keep(value, x.varying);
    }

    fn bitcast(&mut self) {
        let exact = self.options.exact;
        // The payload of NaN is not specified, and must not leak into integers.
        let x = self.operand(|e| e != Scalar::Bool && !(exact && e.is_float()));
        let from = self.ty(x.value).elem();
        let mut same = self.options.elems.clone();
        same.retain(|e| e.bytes() == from.bytes() && *e != from && *e != Scalar::Bool);
        if !same.is_empty() {
            let elem = *self.rng.pick(&same);
            let value = self.builder().bitcast(x.value, elem);
            self.keep(value, x.varying);
        }
    }

    /// Broadcasts a scalar, or axes of extent 1.
    fn stretch(&mut self) {
        let flat = self.find(|ty, e| {
            !e.varying && ty.as_tile().is_some_and(|t| t.shape.rank() == 0 || t.shape.extents().contains(&1))
        });
        let Some(x) = flat else { return };
        let from = self.kernel.shape(x.value);
        let shape = if from.rank() == 0 {
            self.shape()
        } else {
            let wider = |&e: &u32| if e == 1 { self.shape()[0] } else { e };
            Shape::new(&from.extents().to_vec().iter().map(wider).collect::<Vec<_>>())
        };
        let value = self.builder().broadcast(x.value, shape);
        self.keep(value, false);
    }

    fn tile(&mut self, elems: impl Fn(Scalar) -> bool) -> Option<Entry> {
        self.find(|ty, _| !ty.is_scalar() && elems(ty.elem()))
    }

    /// A transposition or a reshape.
    fn rearrange(&mut self) {
        let Some(x) = self.tile(|_| true) else { return };
        let shape = self.kernel.shape(x.value);
        let value = match self.rng.below(3) {
            0 => {
                let len = shape.len() as u32;
                let divisors: Vec<u32> = (1..=len).filter(|d| len.is_multiple_of(*d)).collect();
                let rows = *self.rng.pick(&divisors);
                self.builder().reshape(x.value, Shape::new(&[rows, len / rows]))
            }
            _ => {
                let mut perm: Vec<u32> = (0..shape.rank() as u32).collect();
                for i in (1..perm.len()).rev() {
                    perm.swap(i, self.rng.below(i + 1));
                }
                self.builder().transpose(x.value, &perm)
            }
        };
        self.keep(value, false);
    }

    /// Combinations that a type has, and whose result does not depend on the order if it must be
    /// exact.
    fn combinations(&self, elem: Scalar) -> &'static [ReduceOp] {
        use ReduceOp::*;
        match elem {
            Scalar::Bool => &[And, Or, Xor],
            _ if elem.is_int() => &[Sum, Prod, Min, Max, And, Or, Xor],
            _ if self.options.exact => &[Min, Max],
            _ => &[Sum, Prod, Min, Max],
        }
    }

    fn reduce(&mut self) {
        let Some(x) = self.tile(|_| true) else { return };
        let elem = self.ty(x.value).elem();
        let axis = self.rng.below(self.kernel.shape(x.value).rank()) as u32;
        let mut ops = self.combinations(elem).to_vec();
        if elem != Scalar::Bool && !(self.options.exact && elem.is_float()) {
            ops.extend([ReduceOp::ArgMin, ReduceOp::ArgMax]);
        }
        let op = *self.rng.pick(&ops);
        let value = self.builder().reduce(op, axis, x.value);
        let value = self.positive_zero(value);
        self.keep(value, false);
    }

    fn scan(&mut self) {
        let Some(x) = self.tile(|_| true) else { return };
        let elem = self.ty(x.value).elem();
        let axis = self.rng.below(self.kernel.shape(x.value).rank()) as u32;
        let op = *self.rng.pick(self.combinations(elem));
        let (reverse, exclusive) = (self.rng.one_in(2), self.rng.one_in(2));
        let x = self.number(x.value);
        let value = self.builder().scan(op, axis, reverse, exclusive, x);
        let value = self.positive_zero(value);
        self.keep(value, false);
    }

    /// Where results must be exact, zeros for NaN: an extremum so far of NaN alone may be NaN or
    /// the identity.
    fn number(&mut self, value: Value) -> Value {
        let (elem, shape) = (self.ty(value).elem(), self.kernel.shape(value));
        if !self.options.exact || !elem.is_float() {
            return value;
        }
        let mut b = self.builder();
        let zero = b.splat(Literal::zero(elem), shape);
        let nan = b.unary(UnaryOp::IsNan, value);
        b.select(nan, zero, value)
    }

    fn dot(&mut self) {
        let exact = self.options.exact;
        let Some(a) = self.tile(|e| e != Scalar::Bool && !(exact && e.is_float())) else { return };
        let (elem, shape) = (self.ty(a.value).elem(), self.kernel.shape(a.value));
        let (m, k) = (shape[0], shape.len() as u32 / shape[0]);
        let n = self.shape()[0];
        let a = self.builder().reshape(a.value, Shape::new(&[m, k]));
        let b = self.of_type(&Type::tile(elem, Shape::new(&[k, n])));
        let acc = self.of_type(&Type::tile(elem.accumulator(), Shape::new(&[m, n])));
        let value = self.builder().dot(a, b.value, acc.value);
        self.keep(value, false);
    }

    /// An extent or a stride of a view.
    fn measure(&mut self) {
        let view = *self.rng.pick(&self.inputs);
        let rank = self.ty(view).as_view().map_or(0, |v| v.rank) as usize;
        if rank > 0 {
            let axis = self.rng.below(rank) as u32;
            let extent = self.rng.one_in(2);
            let mut b = self.builder();
            let value = if extent { b.extent(view, axis) } else { b.stride(view, axis) };
            self.keep(value, false);
        }
    }

    /// A shuffle or a vote, where all lanes of whole warps are present.
    fn talk_in_warp(&mut self) {
        // Inside a fault region some threads of a warp may have had a fault.
        if self.threads.iter().product::<u32>() % 32 != 0 || self.in_fault_region {
            return;
        }
        if self.rng.one_in(4) {
            let mut b = self.builder();
            let lanes = b.constant(Literal::from_bits(Scalar::U32, u32::MAX.into()));
            b.op(OpKind::WarpBarrier, &[lanes], &[]);
        }
        let scalar = |ty: &Type, _: &Entry| ty.is_scalar();
        let Some(x) = self.find(scalar) else { return };
        let ty = self.ty(x.value);
        let value = if ty.elem() == Scalar::Bool {
            let mode = *self.rng.pick(VoteMode::ALL);
            let elem = if mode == VoteMode::Ballot { Scalar::U32 } else { Scalar::Bool };
            let op = self.builder().op(OpKind::Vote(mode), &[x.value], &[Type::scalar(elem)]);
            self.kernel.result(op)
        } else {
            let mode = *self.rng.pick(ShuffleMode::ALL);
            let lane = Literal::index(self.rng.below(32) as i64);
            let mut b = self.builder();
            let lane = b.constant(lane);
            let op = b.op(OpKind::Shuffle(mode), &[x.value, lane], &[ty]);
            self.kernel.result(op)
        };
        self.keep(value, true);
    }
}
