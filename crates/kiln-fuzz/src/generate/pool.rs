//! Values to use as operands.

use super::Generator;
use kiln_ir::*;

/// A value in scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) value: Value,
    /// Whether it may differ between threads; such a value is not used in tile operations.
    pub(super) varying: bool,
}

impl Generator<'_> {
    pub(super) fn ty(&self, value: Value) -> Type {
        self.kernel.ty(value).clone()
    }

    pub(super) fn keep(&mut self, value: Value, varying: bool) -> Entry {
        let varying = varying && self.kernel.ty(value).is_scalar();
        let entry = Entry { value, varying };
        self.pool.push(entry);
        entry
    }

    pub(super) fn keep_all(&mut self, values: &[Value], varying: bool) {
        for &value in values {
            self.keep(value, varying);
        }
    }

    pub(super) fn constant(&mut self, elem: Scalar) -> Entry {
        let literal = self.literal(elem);
        let value = self.builder().constant(literal);
        Entry { value, varying: false }
    }

    /// A value in scope that may be used here and fulfils a condition; recent ones are likelier.
    pub(super) fn find(&mut self, holds: impl Fn(&Type, &Entry) -> bool) -> Option<Entry> {
        let usable = |e: &Entry| {
            let ty = self.kernel.ty(e.value);
            (ty.is_scalar() || !self.divergent) && holds(ty, e)
        };
        let found: Vec<Entry> = self.pool.iter().copied().filter(usable).collect();
        if found.is_empty() {
            return None;
        }
        let back = self.rng.below(found.len()).min(self.rng.below(found.len()));
        Some(found[found.len() - 1 - back])
    }

    /// Any tile or scalar of an element type with this property; a constant if there is none.
    pub(super) fn operand(&mut self, elems: impl Fn(Scalar) -> bool) -> Entry {
        if let Some(entry) = self.find(|ty, _| elems(ty.elem())) {
            return entry;
        }
        let mut all = Scalar::ALL.to_vec();
        all.retain(|&e| {
            !e.is_storage()
                && elems(e)
                && (self.options.elems.contains(&e) || matches!(e, Scalar::I32 | Scalar::F32))
        });
        let elem = if all.is_empty() { Scalar::I64 } else { *self.rng.pick(&all) };
        self.constant(elem)
    }

    /// A value of this type: one in scope, or one made from another.
    pub(super) fn of_type(&mut self, ty: &Type) -> Entry {
        if !self.rng.one_in(4)
            && let Some(entry) = self.find(|t, _| t == ty)
        {
            return entry;
        }
        let any = self.operand(|_| true);
        self.convert(any, ty)
    }

    /// A scalar that all threads agree on.
    pub(super) fn uniform(&mut self, elem: Scalar) -> Value {
        let found = self.find(|ty, e| ty.is_scalar() && !e.varying && ty.elem() == elem);
        found.unwrap_or_else(|| self.constant(elem)).value
    }

    /// Turns a value into one of another type, by casting, and by reducing to a scalar and
    /// broadcasting.
    pub(super) fn convert(&mut self, entry: Entry, ty: &Type) -> Entry {
        let Some(target) = ty.as_tile() else { return entry };
        let (elem, shape) = (target.elem, target.shape.clone());
        let mut value = entry.value;
        let from = self.kernel.shape(value);
        if from != shape {
            if shape.rank() > 0 && entry.varying {
                value = self.constant(elem).value;
            } else if from.len() == shape.len() && from.rank() > 0 {
                value = self.builder().reshape(value, shape);
                return self.cast_to(Entry { value, ..entry }, elem);
            }
            while self.kernel.shape(value).rank() > 0 {
                value = self.shrink(value);
            }
        }
        let scalar = self.cast_to(Entry { value, ..entry }, elem);
        let value = self.builder().broadcast(scalar.value, shape);
        Entry { value, varying: scalar.varying && self.kernel.ty(value).is_scalar() }
    }

    /// Reduces the last axis by something exact.
    fn shrink(&mut self, value: Value) -> Value {
        let axis = self.kernel.shape(value).rank() as u32 - 1;
        let op = if self.ty(value).elem() == Scalar::Bool { ReduceOp::Xor } else { ReduceOp::Max };
        let value = self.builder().reduce(op, axis, value);
        self.positive_zero(value)
    }

    fn cast_to(&mut self, entry: Entry, elem: Scalar) -> Entry {
        Entry { value: self.builder().cast(entry.value, elem), ..entry }
    }

    /// A scalar i64 in `-range < i < range`.
    pub(super) fn small_index(&mut self, entry: Entry, range: i64) -> Entry {
        let index = self.convert(entry, &Type::scalar(Scalar::I64));
        let mut b = self.builder();
        let range = b.index(range);
        Entry { value: b.binary(BinaryOp::Rem, index.value, range), ..index }
    }
}
