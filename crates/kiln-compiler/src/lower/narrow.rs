//! Index arithmetic over tiles in 32 bits, for targets of that [`IndexWidth`].
//!
//! Front ends compute indices in i64, each operation of which is several instructions on a GPU.
//! Where every element of a tile provably fits i32, comparisons, conversions and indexed accesses
//! that use it are given an i32 copy of the arithmetic instead; what is no longer used is never
//! lowered.

use super::facts::{IntFacts, Known};
use super::roles::is_tile;
use crate::target::IndexWidth;
use kiln_ir::{BinaryOp, Block, Computed, Def, Kernel, Literal, Op, OpKind, Operand, Scalar, Type, Value};
use rustc_hash::FxHashMap;

/// The kernel with narrow index arithmetic, or `None` if there is nothing to narrow.
pub(crate) fn narrow(kernel: &Kernel, width: IndexWidth) -> Option<Kernel> {
    if width == IndexWidth::Bits64 {
        return None;
    }
    let mut pass = Narrowing {
        facts: IntFacts::new(kernel),
        src: kernel,
        out: kernel.clone(),
        copies: FxHashMap::default(),
        after: FxHashMap::default(),
        changed: false,
    };
    kernel.walk(|op, _| pass.op(op));
    pass.changed.then(|| pass.finish())
}

struct Narrowing<'k> {
    facts: IntFacts<'k>,
    src: &'k Kernel,
    out: Kernel,
    /// The i32 copy of a value, if there can be one.
    copies: FxHashMap<Value, Option<Value>>,
    /// New operations, by the operation they follow.
    after: FxHashMap<Op, Vec<Op>>,
    changed: bool,
}

impl Narrowing<'_> {
    fn op(&mut self, op: Op) {
        let data = self.src.op(op);
        // The indices of single elements and quads are scalars.
        let of_tiles = matches!(
            data.kind,
            OpKind::Gather { .. } | OpKind::Scatter { .. } | OpKind::Atomic { .. } | OpKind::AtomicCas { .. }
        );
        if of_tiles {
            self.operands(op, Operand::Index);
        } else if let OpKind::Compare(_) = data.kind {
            self.compare(op);
        } else if data.kind == OpKind::Cast {
            self.operands(op, Operand::Input);
        }
    }

    /// Replaces those of the operands that are tiles with a narrow copy.
    fn operands(&mut self, op: Op, name: Operand) {
        for (i, &value) in self.src.op(op).named(name).iter().enumerate() {
            if is_tile(self.src, value)
                && let Some(copy) = self.copy(value)
            {
                self.replace(op, (name, i), copy);
            }
        }
    }

    fn compare(&mut self, op: Op) {
        let data = self.src.op(op);
        let (left, right) = (data.left(), data.right());
        if !is_tile(self.src, left) || !self.is_wide(left) {
            return;
        }
        let copies = [left, right].map(|v| self.copy(v));
        let both = match copies {
            [Some(a), Some(b)] => Some([a, b]),
            // One side is the same everywhere: outside the range of the other its exact value makes
            // no difference.
            [Some(a), None] => self.clamped(right, left).map(|b| [a, b]),
            [None, Some(b)] => self.clamped(left, right).map(|a| [a, b]),
            [None, None] => None,
        };
        for (name, copy) in [Operand::Left, Operand::Right].into_iter().zip(both.into_iter().flatten()) {
            self.replace(op, (name, 0), copy);
        }
    }

    /// Puts the copy in the place of an operand: which of those of a name.
    fn replace(&mut self, op: Op, (name, i): (Operand, usize), copy: Value) {
        if let Some(operand) = self.out.op_mut(op).named_mut(name).get_mut(i) {
            *operand = copy;
        }
        self.changed = true;
    }

    fn is_wide(&self, value: Value) -> bool {
        self.src.ty(value).elem() == Scalar::I64
    }

    /// The i32 copy of an i64 value whose elements all fit.
    fn copy(&mut self, value: Value) -> Option<Value> {
        if let Some(&copy) = self.copies.get(&value) {
            return copy;
        }
        let known = self.facts.of(value);
        let fits = known.min >= i32::MIN.into() && known.max <= i32::MAX.into();
        let copy = (self.is_wide(value) && fits).then(|| self.make_copy(value)).flatten();
        self.copies.insert(value, copy);
        copy
    }

    fn make_copy(&mut self, value: Value) -> Option<Value> {
        let ty = Type::tile(Scalar::I32, self.src.shape(value));
        let Def::Result(op, _) = self.src.def(value) else {
            return None;
        };
        let data = self.src.op(op);
        let (kind, wide): (OpKind, &[Operand]) = match data.kind.computed()? {
            Computed::Const(literal) => {
                let literal = Literal::wrapping(Scalar::I32, literal.as_i128());
                return Some(self.insert(op, OpKind::Const(literal), &[], ty));
            }
            Computed::Cast if self.src.ty(data.input()).elem() == Scalar::I32 => {
                return Some(data.input());
            }
            Computed::Broadcast if !is_tile(self.src, data.input()) => {
                let scalar = self.insert(op, OpKind::Cast, &data.operands, Type::scalar(Scalar::I32));
                return Some(self.insert(op, OpKind::Broadcast, &[scalar], ty));
            }
            Computed::Iota => (OpKind::Iota, &[]),
            Computed::Broadcast | Computed::Reshape | Computed::Transpose(_) => {
                (data.kind.clone(), &[Operand::Input])
            }
            Computed::Binary(binary) if is_exact(binary) => {
                (data.kind.clone(), &[Operand::Left, Operand::Right])
            }
            Computed::Select => (data.kind.clone(), &[Operand::IfTrue, Operand::IfFalse]),
            Computed::ProgramId(_)
            | Computed::NumPrograms(_)
            | Computed::ThreadId(_)
            | Computed::BlockDim(_)
            | Computed::Extent(_)
            | Computed::Stride(_)
            | Computed::Unary(_)
            | Computed::Binary(_)
            | Computed::Compare(_)
            | Computed::Fma
            | Computed::Cast
            | Computed::Bitcast
            | Computed::BlockUniform => return None,
        };
        let mut narrow = data.clone();
        for operand in wide {
            for value in narrow.named_mut(*operand) {
                *value = self.copy(*value)?;
            }
        }
        Some(self.insert(op, kind, &narrow.operands, ty))
    }

    /// A broadcast scalar, clamped to just outside the range of the tile it is compared with, as an
    /// i32 tile.
    fn clamped(&mut self, value: Value, other: Value) -> Option<Value> {
        let Def::Result(op, _) = self.src.def(value) else { return None };
        let data = self.src.op(op);
        if data.kind != OpKind::Broadcast || is_tile(self.src, data.input()) {
            return None;
        }
        let Known { min, max, .. } = self.facts.of(other);
        let limits = [(BinaryOp::Max, min - 1), (BinaryOp::Min, max + 1)];
        let mut scalar = data.input();
        for (bound, limit) in limits {
            i32::try_from(limit).ok()?;
            let literal = Literal::wrapping(Scalar::I64, limit);
            let ty = Type::scalar(Scalar::I64);
            let limit = self.insert(op, OpKind::Const(literal), &[], ty.clone());
            scalar = self.insert(op, OpKind::Binary(bound), &[scalar, limit], ty);
        }
        let scalar = self.insert(op, OpKind::Cast, &[scalar], Type::scalar(Scalar::I32));
        let ty = Type::tile(Scalar::I32, self.src.shape(value));
        Some(self.insert(op, OpKind::Broadcast, &[scalar], ty))
    }

    /// A new operation behind one of the source, after those that are there already.
    fn insert(&mut self, after: Op, kind: OpKind, operands: &[Value], ty: Type) -> Value {
        let loc = self.src.op(after).loc;
        let op = self.out.add_op(kind, operands, &[ty], &[], loc);
        self.after.entry(after).or_default().push(op);
        self.out.result(op)
    }

    /// Puts the new operations in their places.
    fn finish(mut self) -> Kernel {
        let (.., blocks) = self.out.counts();
        for block in (0..blocks).map(Block::from_index) {
            let ops = std::mem::take(&mut self.out.block_mut(block).ops);
            let placed = ops
                .into_iter()
                .flat_map(|op| std::iter::once(op).chain(self.after.remove(&op).unwrap_or_default()));
            let placed: Vec<Op> = placed.collect();
            self.out.block_mut(block).ops = placed;
        }
        self.out
    }
}

/// Whether an operation on operands that fit i32 gives in 32 bits what it gives in 64, if that fits
/// too.
fn is_exact(op: BinaryOp) -> bool {
    use BinaryOp::*;
    matches!(op, Add | Sub | Mul | Min | Max | And | Or | Xor)
}

#[cfg(test)]
mod tests {
    use super::{IndexWidth, narrow};
    use kiln_ir::{Kernel, OpKind, Scalar, parse, verify};

    /// The element types of the operands of every comparison of tiles, after the pass.
    fn compared(text: &str) -> Vec<Scalar> {
        let kernel = parse(text).unwrap();
        let out: Kernel = narrow(&kernel, IndexWidth::Bits32).unwrap_or(kernel);
        verify(&out).unwrap();
        let mut all = Vec::new();
        out.walk(|_, data| {
            if matches!(data.kind, OpKind::Compare(_)) {
                all.extend(data.operands.iter().map(|&v| out.ty(v).elem()));
            }
        });
        all
    }

    #[test]
    fn masks_against_any_extent_are_narrow() {
        let text = "kernel @k(%n: i64) tile {
  %0 = iota : i64[64]
  %1 = const 2 : i64[64]
  %2 = mul %0, %1 : i64[64]
  %3 = broadcast %n : i64[64]
  %4 = lt %2, %3 : bool[64]
  %5 = ge %3, %2 : bool[64]
  %6 = lt %2, %0 : bool[64]
}
";
        assert_eq!(compared(text), [Scalar::I32; 6]);
        // The scalar is clamped to one below and one above what it is compared with.
        let kernel = parse(text).unwrap();
        assert!(narrow(&kernel, IndexWidth::Bits64).is_none());
        let out = narrow(&kernel, IndexWidth::Bits32).unwrap().to_string();
        assert!(out.contains("const -1 : i64") && out.contains("const 127 : i64"), "{out}");
    }

    #[test]
    fn what_may_not_fit_stays_wide() {
        let text = "kernel @k(%n: i64) tile {
  %0 = program_id x : i64
  %1 = const 1024 : i64
  %2 = mul %0, %1 : i64
  %3 = broadcast %2 : i64[1024]
  %4 = iota : i64[1024]
  %5 = add %3, %4 : i64[1024]
  %6 = broadcast %n : i64[1024]
  %7 = lt %5, %6 : bool[1024]
  %8 = cast %5 : f32[1024]
}
";
        assert_eq!(compared(text), [Scalar::I64; 2]);
        assert!(narrow(&parse(text).unwrap(), IndexWidth::Bits32).is_none());
    }
}
