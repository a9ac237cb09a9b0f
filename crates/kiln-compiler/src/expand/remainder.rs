//! The remainder of floats, by loops over threads.
//!
//! `x - trunc(x / y) y` is exact where the quotient has at most 53 bits, which takes one step in
//! f64. Of a larger quotient each step takes 52 bits: first with the divisor times a power of 2^52,
//! then with one that is 2^52 times smaller, until it is the divisor itself. f32 needs 6 steps at
//! most, f64 41.

use super::math::Math;
use kiln_ir::{BinaryOp, Block, Builder, CompareOp, Kernel, Loc, OpKind, Scalar, Type, UnaryOp, Value};

/// Bits of a quotient that one step takes.
const STEP: f64 = (1u64 << 52) as f64;

/// Rewrites the remainders of floats in a kernel that was lowered to threads. Tiles cannot loop
/// element by element, so that [`expand`](super::expand) leaves them alone.
pub(crate) fn remainders(kernel: &mut Kernel) {
    let blocks = kernel.counts().2;
    for index in 0..blocks {
        let block = Block::from_index(index);
        let is_remainder = |kernel: &Kernel, op| {
            let data = kernel.op(op);
            data.kind == OpKind::Binary(BinaryOp::Rem) && kernel.ty(data.left()).elem().is_float()
        };
        if !kernel.block(block).ops.iter().any(|&op| is_remainder(kernel, op)) {
            continue;
        }
        for op in std::mem::take(&mut kernel.block_mut(block).ops) {
            if is_remainder(kernel, op) {
                super::expand_op(kernel, block, op, |b, data| remainder(b, data.left(), data.right()));
            }
            kernel.block_mut(block).ops.push(op);
        }
    }
}

fn remainder(b: &mut Builder<'_>, x: Value, y: Value) -> Value {
    let elem = b.kernel.ty(x).elem();
    if elem == Scalar::F64 {
        return double(b, x, y);
    }
    let (x, y) = (b.cast(x, Scalar::F64), b.cast(y, Scalar::F64));
    let result = double(b, x, y);
    b.cast(result, elem)
}

fn double(b: &mut Builder<'_>, x: Value, y: Value) -> Value {
    let mut m = Math::new(b, x);
    let (dividend, divisor) = (m.abs(x), m.abs(y));
    // Infinity, NaN and a divisor of zero take one step, which gives NaN.
    let (none, zero, infinity) = (m.c(-1.0), m.c(0.0), m.c(f64::INFINITY));
    let finite = m.b.compare(CompareOp::Lt, dividend, infinity);
    let positive = m.b.compare(CompareOp::Gt, divisor, zero);
    let ordinary = m.b.binary(BinaryOp::And, finite, positive);
    let limit = m.select(ordinary, dividend, none);

    let largest = repeat(
        m.b,
        &[divisor],
        |b, args| {
            let next = scaled(b, args[0], STEP);
            b.compare(CompareOp::Le, next, limit)
        },
        |b, args| vec![scaled(b, args[0], STEP)],
    );
    let reduced = repeat(
        m.b,
        &[dividend, largest[0]],
        |b, args| b.compare(CompareOp::Gt, args[1], divisor),
        |b, args| vec![step(&mut Math::new(b, args[0]), args[0], args[1]), scaled(b, args[1], 1.0 / STEP)],
    );
    let rest = step(&mut m, reduced[0], divisor);
    // A finite number is its own remainder by infinity.
    let infinite = m.eq(divisor, f64::INFINITY);
    let own = m.b.binary(BinaryOp::And, infinite, finite);
    let rest = m.select(own, dividend, rest);
    let signed = m.copy_sign(rest, x);
    let nan = m.b.unary(UnaryOp::IsNan, rest);
    m.select(nan, rest, signed)
}

/// What `by` leaves of `r`, where the quotient is at most 2^52. It may round up across a whole
/// number, which shows as a rest below zero.
fn step(m: &mut Math<'_, '_>, r: Value, by: Value) -> Value {
    let quotient = m.b.binary(BinaryOp::Div, r, by);
    let whole = m.b.unary(UnaryOp::Trunc, quotient);
    let minus = m.neg(whole);
    let rest = m.fma(minus, by, r);
    let below = m.lt(rest, 0.0);
    let raised = m.add(rest, by);
    let rest = m.select(below, raised, rest);
    let above = m.b.compare(CompareOp::Ge, rest, by);
    let lowered = m.sub(rest, by);
    m.select(above, lowered, rest)
}

fn scaled(b: &mut Builder<'_>, x: Value, by: f64) -> Value {
    let mut m = Math::new(b, x);
    let by = m.c(by);
    m.mul(x, by)
}

/// `while condition(carried) { carried = body(carried) }`.
fn repeat(
    b: &mut Builder<'_>,
    inits: &[Value],
    condition: impl FnOnce(&mut Builder<'_>, &[Value]) -> Value,
    body: impl FnOnce(&mut Builder<'_>, &[Value]) -> Vec<Value>,
) -> Vec<Value> {
    let (outer, loc): (Block, Loc) = (b.block, b.loc);
    let types: Vec<Type> = inits.iter().map(|&v| b.kernel.ty(v).clone()).collect();
    let region = |b: &mut Builder<'_>| {
        let block = b.kernel.add_block();
        let args: Vec<Value> = types.iter().map(|ty| b.kernel.add_arg(block, ty.clone())).collect();
        b.block = block;
        (block, args)
    };
    let (head, args) = region(b);
    let holds = condition(b, &args);
    b.op(OpKind::Condition, &[holds], &[]);
    let (tail, args) = region(b);
    let next = body(b, &args);
    b.yield_(&next);
    b.block = outer;
    let op = b.kernel.append(outer, OpKind::While, inits, &types, &[head, tail], loc);
    b.kernel.op(op).results.to_vec()
}
