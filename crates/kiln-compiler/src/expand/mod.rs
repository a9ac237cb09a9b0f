//! Elementary functions and 16-bit arithmetic in terms of what a GPU has.
//!
//! NVIDIA's own code for these lives in a library of the toolkit (libdevice), which Kiln does not
//! use. So `exp`, `log`, `sin`, `tanh`, … are written here once, as IR, from the operations that
//! hardware gives: `fma`, comparison, selection, bit casts, and the f32 approximations `exp2`,
//! `fast_div`, `rsqrt`. The interpreter runs the expansion too, so it is tested without a GPU
//! against f64 references. 16-bit floats compute in f32 and round after each operation; f32 has
//! more than twice their digits, so that a sum, product, quotient or root comes out as if rounded
//! once. Their multiply-add would not, and is an instruction of its own.
//!
//! The functions have an error of a few ulp, so their inner quotients are fast ones, and where a
//! product meets a sum they say `fma`: the assembler fuses nothing by itself.
//!
//! Polynomials: Cephes (Moshier, single and double), and FreeBSD's msun (`e_log.c`, `k_sin.c`,
//! `k_cos.c`, `s_erf.c`), by coefficient. Accuracy: f32 within 4 ulp, f64 within 4 ulp except `pow`
//! (relative error to 2^-43, as its logarithm is one double); `sin` and `cos` for
//! |x| < 1e9. The remainder of floats is exact (`remainder.rs`).

mod erf;
mod exponential;
mod math;
mod power;
mod remainder;
mod trigonometric;

use kiln_ir::{BinaryOp, Block, Builder, Kernel, MathFn, Op, OpData, OpKind, Scalar, UnaryOp, Value};
use math::Math;
pub(crate) use remainder::remainders;

/// Rewrites every operation that GPU hardware has not, at either level.
pub fn expand(kernel: &mut Kernel) {
    let blocks = kernel.counts().2;
    for index in 0..blocks {
        expand_block(kernel, Block::from_index(index));
    }
}

fn expand_block(kernel: &mut Kernel, block: Block) {
    let ops = std::mem::take(&mut kernel.block_mut(block).ops);
    for op in ops {
        if needs_expansion(kernel, kernel.op(op)) {
            expand_op(kernel, block, op, rebuild);
        }
        kernel.block_mut(block).ops.push(op);
    }
}

fn is_half(elem: Scalar) -> bool {
    matches!(elem, Scalar::F16 | Scalar::BF16)
}

fn needs_expansion(kernel: &Kernel, data: &OpData) -> bool {
    let Some(&first) = data.operands.first() else { return false };
    let elem = kernel.ty(first).elem();
    if let OpKind::Unary(op) = data.kind {
        is_half(elem) || op.info().expansion.is_needed(elem)
    } else if let OpKind::Binary(op) = data.kind {
        is_half(elem) || op.info().expanded
    } else {
        matches!(data.kind, OpKind::Compare(_)) && is_half(elem)
    }
}

/// Builds the expansion before `op`, and turns `op` into its last operation, so that the result
/// keeps its name.
fn expand_op(
    kernel: &mut Kernel,
    block: Block,
    op: Op,
    rebuild: impl FnOnce(&mut Builder<'_>, &OpData) -> Value,
) {
    let data = kernel.op(op).clone();
    let mut builder = Builder::new(kernel);
    (builder.block, builder.loc) = (block, data.loc);
    rebuild(&mut builder, &data);
    let last = kernel.block_mut(block).ops.pop();
    if let Some(last) = last {
        let OpData { kind, operands, .. } = kernel.op(last).clone();
        let target = kernel.op_mut(op);
        (target.kind, target.operands) = (kind, operands);
    }
}

/// Appends the expansion; its last operation is the result.
fn rebuild(b: &mut Builder<'_>, data: &OpData) -> Value {
    let elem = data.operands.first().map_or(Scalar::Bool, |&v| b.kernel.ty(v).elem());
    let wide: Vec<Value> = match is_half(elem) {
        true => data.operands.iter().map(|&v| b.cast(v, Scalar::F32)).collect(),
        false => data.operands.to_vec(),
    };
    let result = if let OpKind::Unary(op) = data.kind {
        unary(b, op, wide[0])
    } else if let OpKind::Binary(op) = data.kind {
        binary(b, op, wide[0], wide[1])
    } else if let OpKind::Compare(op) = data.kind {
        return b.compare(op, wide[0], wide[1]);
    } else {
        wide[0]
    };
    match is_half(elem) && b.kernel.ty(result).elem() == Scalar::F32 {
        true => b.cast(result, elem),
        false => result,
    }
}

fn unary(b: &mut Builder<'_>, op: UnaryOp, x: Value) -> Value {
    let mut m = Math::new(b, x);
    if let UnaryOp::Math(function) = op {
        m.function(function, x)
    } else if m.is_double() && op == UnaryOp::Exp2 {
        m.exp2_double(x)
    } else if m.is_double() && op == UnaryOp::Rsqrt {
        let root = m.b.unary(UnaryOp::Sqrt, x);
        let one = m.c(1.0);
        m.div(one, root)
    } else {
        // Of 16 bits, computed in f32.
        b.unary(op, x)
    }
}

impl Math<'_, '_> {
    /// A function that GPUs have no instruction for.
    fn function(&mut self, function: MathFn, x: Value) -> Value {
        match function {
            MathFn::Exp => self.exp(x),
            MathFn::Log => self.log(x),
            MathFn::Log2 => self.log2(x),
            MathFn::Log1p => self.log1p(x),
            MathFn::Sin => self.sin(x),
            MathFn::Cos => self.cos(x),
            MathFn::Tanh => self.tanh(x),
            MathFn::Sigmoid => self.sigmoid(x),
            MathFn::Erf => self.erf(x),
        }
    }

    /// ln(1 + x). With u = 1 + x rounded, ln(u) x / (u - 1) has the rounding made good, as ln(t) /
    /// (t - 1) changes slowly near 1 (Kahan, in HP-15C Advanced Functions Handbook).
    fn log1p(&mut self, x: Value) -> Value {
        let one = self.c(1.0);
        let u = self.add(x, one);
        let log = self.log(u);
        let difference = self.sub(u, one);
        let factor = self.div(x, difference);
        let corrected = self.mul(log, factor);
        // Far from 1 the rounding of u does not show, and u may be infinite.
        let far = self.gt(x, 4.0);
        let result = self.select(far, log, corrected);
        let tiny = self.eq(difference, 0.0);
        self.select(tiny, x, result)
    }
}

fn binary(b: &mut Builder<'_>, op: BinaryOp, x: Value, y: Value) -> Value {
    let mut m = Math::new(b, x);
    if op == BinaryOp::Pow {
        m.pow(x, y)
    } else if op == BinaryOp::Atan2 {
        m.atan2(x, y)
    } else {
        b.binary(op, x, y)
    }
}
