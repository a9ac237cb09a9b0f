//! Integer promotion: arithmetic of integers of 8 and 16 bits in those of 32.
//!
//! No processor that Kiln has code for is faster in fewer than 32 bits, one element at a time, and
//! most have no instructions for them. So operands are sign- or zero-extended by their type, the
//! operation is one of 32 bits, and the low bits of its result are the result: sums and products
//! wrap as they should. What depends on the width says so here: amounts of shifts, leading zeros,
//! the order of the bits, and the identity that a scan begins with.
//!
//! Afterwards these types are loaded, stored, moved and selected, and integers of 16 bits are
//! converted from and to those of 32 bits alone.

use kiln_ir::{
    BinaryOp, Block, Builder, Kernel, Literal, Op, OpData, OpKind, Precision, ReduceOp, Scalar, Type,
    UnaryOp, Value, eval,
};

/// Rewrites every operation on integers of 8 and 16 bits that computes.
///
/// ```
/// let mut kernel = kiln_ir::parse("kernel @k(%x: i16, %y: mut view<i16, 1, global>) thread [32, 1, 1] {
///   %0 = add %x, %x : i16
///   %t = thread_id x : i64
///   scatter.mask %y[%t] = %0
/// }")?;
/// kiln_compiler::promote(&mut kernel);
/// let text = kernel.to_string();
/// assert!(text.lines().any(|line| line.contains("add") && line.ends_with(": i32")), "{text}");
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
pub fn promote(kernel: &mut Kernel) {
    for block in (0..kernel.counts().2).map(Block::from_index) {
        let ops = std::mem::take(&mut kernel.block_mut(block).ops);
        for op in ops {
            if computes_in_few_bits(kernel, kernel.op(op)) {
                replace(kernel, block, op);
            }
            kernel.block_mut(block).ops.push(op);
        }
    }
}

/// Whether an operation is to be written in 32 bits.
fn computes_in_few_bits(kernel: &Kernel, data: &OpData) -> bool {
    let elem = |value: Option<&Value>| value.map(|&value| kernel.ty(value).elem());
    let first = elem(data.operands.first());
    let is_small = |elem: Option<Scalar>| elem.is_some_and(Scalar::is_small_int);
    let is_half = |elem: Option<Scalar>| matches!(elem, Some(Scalar::I16 | Scalar::U16));
    match Computation::of(&data.kind) {
        Some(Computation::Cast) => {
            let result = elem(data.results.first());
            let direct = |elem| matches!(elem, Some(Scalar::I32 | Scalar::U32));
            (is_half(first) && !direct(result)) || (is_half(result) && !direct(first))
        }
        // Matrix units multiply those of 8 bits.
        Some(Computation::Dot) => is_half(first),
        Some(Computation::Iota) => is_small(elem(data.results.first())),
        Some(_) => is_small(first),
        None => false,
    }
}

/// An operation that computes.
enum Computation {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Compare(kiln_ir::CompareOp),
    Fma,
    Cast,
    Iota,
    Reduce(ReduceOp, u32),
    Scan {
        op: ReduceOp,
        axis: u32,
        reverse: bool,
        exclusive: bool,
    },
    Dot,
    /// As another thread has it.
    Moved,
}

impl Computation {
    fn of(kind: &OpKind) -> Option<Computation> {
        Some(if let OpKind::Unary(op) = kind {
            Computation::Unary(*op)
        } else if let OpKind::Binary(op) = kind {
            Computation::Binary(*op)
        } else if let OpKind::Compare(op) = kind {
            Computation::Compare(*op)
        } else if let OpKind::Reduce { op, axis } = kind {
            Computation::Reduce(*op, *axis)
        } else if let &OpKind::Scan { op, axis, reverse, exclusive } = kind {
            Computation::Scan { op, axis, reverse, exclusive }
        } else if *kind == OpKind::Fma {
            Computation::Fma
        } else if *kind == OpKind::Cast {
            Computation::Cast
        } else if *kind == OpKind::Iota {
            Computation::Iota
        } else if matches!(kind, OpKind::Shuffle(_) | OpKind::BlockUniform) {
            Computation::Moved
        } else if matches!(kind, OpKind::Dot(_)) {
            Computation::Dot
        } else {
            return None;
        })
    }
}

/// Builds the operation in 32 bits before `op`, and turns `op` into its last step, so that the
/// result keeps its name.
fn replace(kernel: &mut Kernel, block: Block, op: Op) {
    let data = kernel.op(op).clone();
    let mut b = Builder::new(kernel);
    (b.block, b.loc) = (block, data.loc);
    let Some(last) = rewritten(&mut b, &data) else { return };
    // A result that was there before, such as of a conversion that is none.
    let made = kernel.block(block).ops.last().copied().filter(|&op| kernel.op(op).results[..] == [last]);
    if let Some(made) = made {
        kernel.block_mut(block).ops.pop();
        let OpData { kind, operands, .. } = kernel.op(made).clone();
        let target = kernel.op_mut(op);
        (target.kind, target.operands) = (kind, operands);
    }
}

/// The type of 32 bits that holds all values of a small integer.
fn wide(elem: Scalar) -> Scalar {
    if elem.is_signed() { Scalar::I32 } else { Scalar::U32 }
}

fn rewritten(b: &mut Builder<'_>, data: &OpData) -> Option<Value> {
    let of = |b: &Builder<'_>, value: Option<&Value>| value.map(|&value| b.kernel.ty(value).elem());
    let (first, result) = (of(b, data.operands.first()), of(b, data.results.first()));
    let elem = first.filter(|elem| elem.is_small_int()).or(result)?;
    let narrow = |b: &mut Builder<'_>, value: Value| Some(b.cast(value, elem));
    let widened = |b: &mut Builder<'_>, value: Value| b.cast(value, wide(elem));
    match Computation::of(&data.kind)? {
        Computation::Unary(op) => {
            let computed = unary(b, op, data.input(), elem);
            narrow(b, computed)
        }
        Computation::Binary(op) => {
            let (left, mut right) = (widened(b, data.left()), widened(b, data.right()));
            if matches!(op, BinaryOp::Shl | BinaryOp::Shr) {
                let mask = constant_like(b, right, i128::from(8 * elem.bytes() - 1));
                right = b.binary(BinaryOp::And, right, mask);
            }
            let computed = b.binary(op, left, right);
            narrow(b, computed)
        }
        Computation::Compare(op) => {
            let (left, right) = (widened(b, data.left()), widened(b, data.right()));
            Some(b.compare(op, left, right))
        }
        Computation::Fma => {
            let factors = (widened(b, data.left()), widened(b, data.right()));
            let addend = widened(b, data.addend());
            let computed = b.fma(factors.0, factors.1, addend);
            narrow(b, computed)
        }
        Computation::Cast => cast(b, data.input(), result?),
        Computation::Iota => {
            let shape = b.kernel.shape(*data.results.first()?);
            let counted = b.iota(wide(elem), shape.extents().first().copied()?);
            narrow(b, counted)
        }
        Computation::Reduce(op, axis) => {
            let input = widened(b, data.input());
            let reduced = b.reduce(op, axis, input);
            if op.gives_index() { Some(reduced) } else { narrow(b, reduced) }
        }
        Computation::Scan { op, axis, reverse, exclusive } => {
            let input = widened(b, data.input());
            let mut scanned = b.scan(op, axis, reverse, exclusive, input);
            // The first result is the identity of 32 bits, which is beyond the type.
            if let Some(limit @ (BinaryOp::Min | BinaryOp::Max)) = eval::combination(op).filter(|_| exclusive)
            {
                let identity = constant_like(b, scanned, eval::identity(op, elem).as_i128());
                scanned = b.binary(limit, scanned, identity);
            }
            narrow(b, scanned)
        }
        Computation::Dot => {
            let [left, right] = [data.left(), data.right()].map(|factor| b.cast(factor, Scalar::I32));
            Some(b.dot_with(left, right, data.addend(), Precision::Full))
        }
        Computation::Moved => {
            let ty = Type::scalar(wide(elem));
            let moved = widened(b, data.input());
            let mut operands = data.operands.clone();
            *operands.first_mut()? = moved;
            let op = b.op(data.kind.clone(), &operands, &[ty]);
            let moved = b.kernel.result(op);
            narrow(b, moved)
        }
    }
}

/// A constant of the type and shape of a value.
fn constant_like(b: &mut Builder<'_>, value: Value, number: i128) -> Value {
    let (elem, shape) = (b.kernel.ty(value).elem(), b.kernel.shape(value));
    b.splat(Literal::wrapping(elem, number), shape)
}

fn unary(b: &mut Builder<'_>, op: UnaryOp, x: Value, elem: Scalar) -> Value {
    let of_bits = matches!(op, UnaryOp::Popcount | UnaryOp::Clz | UnaryOp::BitReverse);
    if !of_bits {
        let x = b.cast(x, wide(elem));
        return b.unary(op, x);
    }
    // The bits above those of the element are zeros.
    let extended = b.cast(x, Scalar::U32);
    let mask = constant_like(b, extended, (1 << (8 * elem.bytes())) - 1);
    let bits = b.binary(BinaryOp::And, extended, mask);
    let computed = b.unary(op, bits);
    let above = constant_like(b, computed, i128::from(32 - 8 * elem.bytes()));
    if op == UnaryOp::Clz {
        b.binary(BinaryOp::Sub, computed, above)
    } else if op == UnaryOp::BitReverse {
        b.binary(BinaryOp::Shr, computed, above)
    } else {
        computed
    }
}

/// A conversion of which one type is an integer of 16 bits, and the other none of 32.
fn cast(b: &mut Builder<'_>, x: Value, to: Scalar) -> Option<Value> {
    let from = b.kernel.ty(x).elem();
    if from.is_small_int() {
        let extended = b.cast(x, wide(from));
        return Some(b.cast(extended, to));
    }
    let mut word = b.cast(x, Scalar::I32);
    if from.is_float() {
        for (limit, op) in [(BinaryOp::Max, ReduceOp::Max), (BinaryOp::Min, ReduceOp::Min)] {
            let end = constant_like(b, word, eval::identity(op, to).as_i128());
            word = b.binary(limit, word, end);
        }
    }
    Some(b.cast(word, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::parse;

    /// The bits of a word that is positive are a number of either sign.
    #[test]
    fn ranges_do_not_outlive_a_sign() {
        let text = "kernel @k(%x: i8, %y: mut view<i32, 1, global>) thread [32, 1, 1] {
  %r = bit_reverse %x : i8
  %w = cast %r : i32
  %zero = const 0 : i32
  %m = max %w, %zero : i32
  %t = thread_id x : i64
  scatter.mask %y[%t] = %m
}";
        let mut kernel = parse(text).unwrap();
        promote(&mut kernel);
        crate::passes::optimize(&mut kernel).unwrap();
        assert!(kernel.to_string().contains("max"), "{kernel}");
    }
}
