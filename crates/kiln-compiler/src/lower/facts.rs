//! What is known of integers: powers of two that divide them and intervals they lie in. What is
//! known of a tile holds for each element.

use kiln_ir::{Axis, BinaryOp, Block, Computed, Def, IntFact, Kernel, Level, Op, OpKind, Scalar, Value};
use rustc_hash::FxHashMap;

/// What is known of an integer value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    /// A power of two that divides it.
    pub divisor: u64,
    /// The least it can be.
    pub min: i128,
    /// The greatest it can be.
    pub max: i128,
}

/// No divisor larger than this is tracked: it is above every alignment and extent that matters.
const LARGEST: u64 = 1 << 32;

impl Known {
    fn nothing(elem: Scalar) -> Known {
        let (min, max) = match elem {
            Scalar::Bool => (0, 1),
            Scalar::I32 => (i32::MIN as i128, i32::MAX as i128),
            Scalar::U32 => (0, u32::MAX as i128),
            Scalar::I8 => (i8::MIN as i128, i8::MAX as i128),
            Scalar::U8 => (0, u8::MAX as i128),
            Scalar::I16 => (i16::MIN as i128, i16::MAX as i128),
            Scalar::U16 => (0, u16::MAX as i128),
            Scalar::U64 => (0, u64::MAX as i128),
            _ => (i64::MIN as i128, i64::MAX as i128),
        };
        Known { divisor: 1, min, max }
    }

    fn exactly(value: i128) -> Known {
        let divisor = if value == 0 { LARGEST } else { 1 << value.trailing_zeros().min(32) };
        Known { divisor, min: value, max: value }
    }

    fn of_fact(fact: IntFact, elem: Scalar, floor: i128) -> Known {
        if let Some(value) = fact.equals {
            return Known::exactly(value.into());
        }
        let mut known = Known::nothing(elem);
        known.min = known.min.max(floor);
        if fact.fits_i32 {
            (known.min, known.max) = (0, i32::MAX.into());
        }
        // The largest power of two, in case the fact is a multiple of one.
        known.divisor = 1 << u64::from(fact.divisor.max(1)).trailing_zeros();
        known
    }

    /// Whether it is never negative.
    pub fn non_negative(&self) -> bool {
        self.min >= 0
    }
}

/// What is known of the integers of a kernel.
pub(crate) struct IntFacts<'k> {
    kernel: &'k Kernel,
    known: Vec<Option<Known>>,
    /// The `For` operation of each loop body.
    loops: FxHashMap<Block, Op>,
}

impl<'k> IntFacts<'k> {
    pub fn new(kernel: &'k Kernel) -> Self {
        let mut loops = FxHashMap::default();
        kernel.walk(|op, data| {
            if data.kind == OpKind::For {
                loops.insert(data.regions[0], op);
            }
        });
        let mut facts = IntFacts { kernel, known: vec![None; kernel.counts().0], loops };
        // In order, so that operands are known and long chains need no deep recursion.
        kernel.walk(|_, data| {
            for &result in data.results.iter().filter(|v| kernel.ty(**v).elem().is_int()) {
                facts.of(result);
            }
        });
        facts
    }

    /// What is known of an integer value.
    pub fn of(&mut self, value: Value) -> Known {
        if let Some(known) = self.known[value.index()] {
            return known;
        }
        let elem = self.kernel.ty(value).elem();
        let mut known = self.find(value, elem).unwrap_or(Known::nothing(elem));
        let limits = Known::nothing(elem);
        if known.min < limits.min || known.max > limits.max {
            // It may wrap, which keeps divisibility by powers of two and nothing else.
            known = Known { divisor: known.divisor, ..limits };
        }
        self.known[value.index()] = Some(known);
        known
    }

    /// What is known of each value, by index; nothing where `None`.
    pub fn into_known(self) -> Vec<Option<Known>> {
        self.known
    }

    /// What is known of the extent of a view on an axis.
    pub fn extent(&self, view: Value, axis: usize) -> Known {
        self.view_fact(view, axis, true)
    }

    /// What is known of the stride of a view on an axis, in elements.
    pub fn stride(&self, view: Value, axis: usize) -> Known {
        self.view_fact(view, axis, false)
    }

    /// A power of two that divides the address of element 0 of a view, in bytes.
    pub fn alignment(&self, view: Value) -> u64 {
        let bytes = self.kernel.ty(view).elem().bytes();
        match self.kernel.def(view) {
            Def::Arg(_, i) => match self.kernel.params[i as usize].facts.align {
                0 => bytes.into(),
                align => 1 << u64::from(align).trailing_zeros(),
            },
            Def::Result(..) => 16, // memory of a block or thread is laid out on 16 bytes
        }
    }

    fn view_fact(&self, view: Value, axis: usize, extent: bool) -> Known {
        let floor = if extent { 0 } else { i64::MIN.into() };
        match self.kernel.def(view) {
            Def::Arg(_, i) => {
                let facts = &self.kernel.params[i as usize].facts;
                let list = if extent { &facts.extents } else { &facts.strides };
                let fact = list.get(axis).copied().unwrap_or_default();
                Known::of_fact(fact, Scalar::I64, floor)
            }
            Def::Result(..) => self.kernel.alloc_shape(view).map_or(Known::nothing(Scalar::I64), |shape| {
                let (_, own, inner) = shape.around(axis);
                Known::exactly(if extent { own as i128 } else { inner as i128 })
            }),
        }
    }

    fn find(&mut self, value: Value, elem: Scalar) -> Option<Known> {
        let kernel = self.kernel;
        let data = match kernel.def(value) {
            Def::Arg(block, i) if self.loops.contains_key(&block) => {
                return if i == 0 { self.induction(block) } else { self.carried(value, block, i) };
            }
            Def::Arg(block, i) if block == kernel.body => {
                return Some(Known::of_fact(kernel.params[i as usize].facts.value, elem, i64::MIN.into()));
            }
            Def::Arg(..) => return None,
            Def::Result(op, _) => kernel.op(op),
        };
        match data.kind.computed()? {
            Computed::Const(literal) if !literal.elem().is_float() => Some(Known::exactly(literal.as_i128())),
            // Grid extents fit 31 bits on every backend.
            Computed::ProgramId(_) => Some(Known { divisor: 1, min: 0, max: i32::MAX as i128 - 1 }),
            Computed::NumPrograms(_) => Some(Known { divisor: 1, min: 1, max: i32::MAX.into() }),
            Computed::ThreadId(axis) => {
                let last = self.block_extent(axis).map_or(1023, |e| e - 1);
                Some(Known { divisor: 1, min: 0, max: last })
            }
            Computed::BlockDim(axis) => {
                Some(self.block_extent(axis).map_or(Known { divisor: 1, min: 1, max: 1024 }, Known::exactly))
            }
            Computed::Extent(axis) => Some(self.extent(data.view(), axis as usize)),
            Computed::Stride(axis) => Some(self.stride(data.view(), axis as usize)),
            Computed::Cast if elem.is_int() && kernel.ty(data.input()).elem().is_int() => {
                Some(self.of(data.input()))
            }
            Computed::Iota => {
                let last = kernel.shape(value).len() as i128 - 1;
                Some(Known { divisor: 1, min: 0, max: last })
            }
            Computed::Broadcast | Computed::Reshape | Computed::Transpose(_) | Computed::BlockUniform => {
                Some(self.of(data.input()))
            }
            Computed::Select if elem.is_int() => {
                let (a, b) = (self.of(data.if_true()), self.of(data.if_false()));
                let divisor = a.divisor.min(b.divisor);
                Some(Known { divisor, min: a.min.min(b.min), max: a.max.max(b.max) })
            }
            Computed::Binary(op) if elem.is_int() => {
                let (a, b) = (self.of(data.left()), self.of(data.right()));
                combine(op, elem, a, b)
            }
            Computed::Const(_)
            | Computed::Unary(_)
            | Computed::Binary(_)
            | Computed::Compare(_)
            | Computed::Select
            | Computed::Fma
            | Computed::Cast
            | Computed::Bitcast => None,
        }
    }

    fn block_extent(&self, axis: Axis) -> Option<i128> {
        match self.kernel.level {
            Level::Thread { block } => Some(block[axis as usize].into()),
            Level::Tile { .. } => None,
        }
    }

    /// The induction variable of a loop: `lo + i * step`, below `hi`.
    fn induction(&mut self, body: Block) -> Option<Known> {
        let [lo, hi, step] = self.kernel.op(self.loops[&body]).for_bounds().map(|v| self.of(v));
        Some(Known { divisor: lo.divisor.min(step.divisor), min: lo.min, max: (hi.max - 1).max(lo.min) })
    }
}

/// How deep sums of what a loop carries are followed.
const DEEPEST: u32 = 8;

impl IntFacts<'_> {
    /// What a loop carries: what divides it before the loop, and after a round if it does before.
    fn carried(&mut self, value: Value, body: Block, argument: u32) -> Option<Known> {
        let kernel = self.kernel;
        let at = argument as usize - 1;
        let before = *kernel.op(self.loops[&body]).inits().get(at)?;
        let next = *kernel.op(*kernel.block(body).ops.last()?).operands.get(at)?;
        let nothing = Known::nothing(kernel.ty(value).elem());
        // What is computed from it has no better facts than this on the way.
        self.known[value.index()] = Some(nothing);
        let mut divisor = self.of(before).divisor;
        // A round makes it the lesser of what was assumed and of others, so twice is enough.
        for _ in 0..2 {
            divisor = divisor.min(self.divisor_if(next, (value, divisor), DEEPEST));
        }
        Some(Known { divisor, ..nothing })
    }

    /// A divisor of a value if another one has the assumed divisor.
    fn divisor_if(&mut self, value: Value, assumed: (Value, u64), depth: u32) -> u64 {
        if value == assumed.0 {
            return assumed.1;
        }
        let known = self.of(value).divisor;
        let Some(op) = self.kernel.defining_op(value).filter(|_| depth > 0) else { return known };
        use BinaryOp::{Add, Max, Min, Sub};
        let parts = if matches!(op.kind, OpKind::Binary(Add | Sub | Min | Max)) {
            [op.left(), op.right()]
        } else if op.kind == OpKind::Select {
            [op.if_true(), op.if_false()]
        } else {
            return known;
        };
        let [one, other] = parts.map(|v| self.divisor_if(v, assumed, depth - 1));
        known.max(one.min(other))
    }
}

fn combine(op: BinaryOp, elem: Scalar, a: Known, b: Known) -> Option<Known> {
    // Shifts take the amount modulo the width.
    let amount = (b.min == b.max).then(|| b.min.rem_euclid(8 * i128::from(elem.bytes())));
    let corners = |f: fn(i128, i128) -> Option<i128>| -> Option<(i128, i128)> {
        let all = [f(a.min, b.min)?, f(a.min, b.max)?, f(a.max, b.min)?, f(a.max, b.max)?];
        Some((all.into_iter().min()?, all.into_iter().max()?))
    };
    let (divisor, (min, max)) = match op {
        BinaryOp::Add => (a.divisor.min(b.divisor), corners(i128::checked_add)?),
        BinaryOp::Sub => (a.divisor.min(b.divisor), corners(i128::checked_sub)?),
        BinaryOp::Mul => (a.divisor.saturating_mul(b.divisor).min(LARGEST), corners(i128::checked_mul)?),
        BinaryOp::Min => (a.divisor.min(b.divisor), (a.min.min(b.min), a.max.min(b.max))),
        BinaryOp::Max => (a.divisor.min(b.divisor), (a.min.max(b.min), a.max.max(b.max))),
        BinaryOp::Div if a.min >= 0 && b.min > 0 => {
            let exact = b.min == b.max && a.divisor as i128 % b.min == 0;
            let divisor = if exact { a.divisor / b.min as u64 } else { 1 };
            (divisor, (a.min / b.max, a.max / b.min))
        }
        BinaryOp::Shr
            if a.min >= 0
                && let Some(by) = amount =>
        {
            ((a.divisor >> by).max(1), (a.min >> by, a.max >> by))
        }
        BinaryOp::Shl if let Some(by) = amount => {
            let scale = 1i128 << by;
            let divisor = a.divisor.saturating_mul(scale as u64).min(LARGEST);
            (divisor, (a.min.checked_mul(scale)?, a.max.checked_mul(scale)?))
        }
        // What one side has no bits for, the result has none for.
        BinaryOp::And if b.min >= 0 => {
            (a.divisor.max(b.divisor), (0, if a.min >= 0 { a.max.min(b.max) } else { b.max }))
        }
        BinaryOp::And if a.min >= 0 => (a.divisor.max(b.divisor), (0, a.max)),
        // Of unknown sign both, so that it may be any number of which they have no such bits.
        BinaryOp::And => {
            let Known { min, max, .. } = Known::nothing(elem);
            (a.divisor.max(b.divisor), (min, max))
        }
        BinaryOp::Rem if a.min >= 0 && b.min > 0 => (a.divisor.min(b.divisor), (0, a.max.min(b.max - 1))),
        BinaryOp::Div
        | BinaryOp::FastDiv
        | BinaryOp::Rem
        | BinaryOp::Or
        | BinaryOp::Xor
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::Pow
        | BinaryOp::Atan2 => return None,
    };
    Some(Known { divisor, min, max })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::{Builder, Facts, Literal, Param, Space, Type};

    #[test]
    fn offsets_of_programs_and_loops() {
        let mut kernel = Kernel::new("k", Level::Tile { warps: None });
        let extent = IntFact { divisor: 16, equals: None, fits_i32: true };
        let x = kernel.add_param(Param {
            name: "x".into(),
            ty: Type::view(Scalar::F32, 1, Space::Global),
            mutable: false,
            facts: Facts { align: 256, extents: [extent].into_iter().collect(), ..Facts::default() },
        });
        let mut b = Builder::new(&mut kernel);
        let pid = b.program_id(Axis::X);
        let block = b.index(1024);
        let at = b.binary(BinaryOp::Mul, pid, block);
        let n = b.extent(x, 0);
        let last = b.binary(BinaryOp::Sub, n, block);
        let odd = b.constant(Literal::index(-3));
        let low = b.binary(BinaryOp::Add, at, odd);
        let block_body = b.kernel.add_block();
        let iv = b.kernel.add_arg(block_body, Type::scalar(Scalar::I64));
        b.kernel.append(b.block, OpKind::For, &[at, n, block], &[], &[block_body], b.loc);

        let mut facts = IntFacts::new(&kernel);
        assert_eq!(facts.of(at), Known { divisor: 1024, min: 0, max: (i32::MAX as i128 - 1) * 1024 });
        assert_eq!(facts.of(n), Known { divisor: 16, min: 0, max: i32::MAX.into() });
        assert_eq!(facts.of(last).divisor, 16);
        assert!(!facts.of(last).non_negative());
        assert_eq!((facts.of(low).divisor, facts.of(low).min), (1, -3));
        assert_eq!((facts.of(iv).divisor, facts.of(iv).min), (1024, 0));
        assert_eq!((facts.alignment(x), facts.stride(x, 0).divisor), (256, 1));
    }

    #[test]
    fn what_a_loop_adds_to() {
        let kernel = kiln_ir::parse(
            "kernel @k(%n: i64, %y: mut view<i64, 1, global>) tile {
  %0 = const 0 : i64
  %1 = const 1 : i64
  %2 = const 48 : i64
  %3 = const 64 : i64
  %4, %5, %6 = for %7 = %0 to %n step %1 carry (%8 = %2, %9 = %2, %10 = %2) : i64, i64, i64 {
    %11 = add %8, %3 : i64
    %12 = add %10, %9 : i64
    %13 = add %9, %12 : i64
    yield %11, %12, %13
  }
  store.disjoint %y[%4] = %5
}",
        )
        .expect("parses");
        let mut facts = IntFacts::new(&kernel);
        let carried = |name: &str, facts: &mut IntFacts<'_>| {
            let body = kernel.op(kernel.block(kernel.body).ops[4]).regions[0];
            let at = ["%7", "%8", "%9", "%10"].iter().position(|&n| n == name).unwrap();
            facts.of(kernel.block(body).args[at])
        };
        assert_eq!(carried("%8", &mut facts), Known { divisor: 16, ..Known::nothing(Scalar::I64) });
        // Each is added to the other, of which nothing is known on the way.
        assert_eq!(carried("%9", &mut facts).divisor, 1);
        assert_eq!(carried("%10", &mut facts).divisor, 1);
    }

    #[test]
    fn a_mask_bounds_what_nothing_is_known_of() {
        let mut kernel = Kernel::new("k", Level::Thread { block: [32, 1, 1] });
        let unknown = kernel.add_param(Param {
            name: "n".into(),
            ty: Type::scalar(Scalar::I64),
            mutable: false,
            facts: Facts::default(),
        });
        let mut b = Builder::new(&mut kernel);
        let (mask, negative) = (b.index(0x70), b.index(-16));
        let masked = b.binary(BinaryOp::And, unknown, mask);
        let rounded = b.binary(BinaryOp::And, unknown, negative);
        let both = b.binary(BinaryOp::And, masked, negative);
        let mut facts = IntFacts::new(&kernel);
        assert_eq!(facts.of(masked), Known { divisor: 16, min: 0, max: 0x70 });
        let any = Known { divisor: 16, ..Known::nothing(Scalar::I64) };
        assert_eq!(facts.of(rounded), any, "nothing is known of its sign");
        assert_eq!(facts.of(both), Known { divisor: 16, min: 0, max: 0x70 });
    }

    #[test]
    fn a_shift_is_a_division() {
        let mut kernel = Kernel::new("k", Level::Tile { warps: None });
        let mut b = Builder::new(&mut kernel);
        let (programs, by, none) = (b.num_programs(Axis::X), b.index(6), b.index(0));
        let rounded = b.index(0xfc0);
        let up = b.binary(BinaryOp::Add, programs, rounded);
        let (pieces, same) = (b.binary(BinaryOp::Shr, up, by), b.binary(BinaryOp::Shr, up, none));
        let odd = b.binary(BinaryOp::Shr, pieces, programs);
        let mut facts = IntFacts::new(&kernel);
        assert_eq!(facts.of(pieces), Known { divisor: 1, min: 63, max: (i32::MAX as i128 + 0xfc0) >> 6 });
        assert_eq!(facts.of(same), facts.of(up));
        assert_eq!(facts.of(odd), Known::nothing(Scalar::I64), "nothing is known of the distance");
    }

    #[test]
    fn the_amount_of_a_shift_is_taken_modulo_the_width() {
        let mut kernel = Kernel::new("k", Level::Thread { block: [32, 1, 1] });
        let mut b = Builder::new(&mut kernel);
        let threads = b.block_dim(Axis::X);
        let width = b.cast(threads, Scalar::I32);
        let (right, left) = (b.binary(BinaryOp::Shr, width, width), b.binary(BinaryOp::Shl, width, width));
        let wide = b.binary(BinaryOp::Shr, threads, threads);
        let mut facts = IntFacts::new(&kernel);
        assert_eq!([right, left, wide].map(|v| facts.of(v).max), [32, 32, 0]);
        assert_eq!([right, left].map(|v| facts.of(v).min), [32, 32]);
    }

    #[test]
    fn wrapping_forgets_the_interval_but_not_the_divisor() {
        let mut kernel = Kernel::new("k", Level::Tile { warps: None });
        let mut b = Builder::new(&mut kernel);
        let big = b.index(1 << 40);
        let square = b.binary(BinaryOp::Mul, big, big);
        let mut facts = IntFacts::new(&kernel);
        assert_eq!(facts.of(square), Known { divisor: 1 << 32, min: i64::MIN.into(), max: i64::MAX.into() });
    }
}
