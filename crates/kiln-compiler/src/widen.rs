//! Products of 8-bit floats and integers of 8 and 16 bits, where no matrix unit multiplies them:
//! factors are converted to a type that holds all their values and that devices compute in.

use kiln_ir::{Block, Kernel, Op, OpData, OpKind, Operand, Precision, Scalar, Type, Value};

/// The kernel whose products of 8-bit floats are products of f16, and those of integers of 8 and 16
/// bits of i32, but for those to be left; `None` if there is nothing to do. Products are exact
/// either way, and sums are of the same type.
///
/// ```
/// let kernel = kiln_ir::parse("kernel @k(%a: view<e4m3, 2, global>, %c: mut view<f32, 2, global>) tile {
///   %0 = const 0 : i64
///   %1 = const 0 : e4m3
///   %2 = const 0 : f32[16, 16]
///   %3 = load %a[%0, %0] pad %1 : e4m3[16, 16]
///   %4 = dot.fast_sums %3, %3, %2 : f32[16, 16]
///   store %c[%0, %0] = %4
/// }")?;
/// let wide = kiln_compiler::widen_products(&kernel, |_, _| false).unwrap().to_string();
/// assert!(wide.contains("cast %3 : f16[16, 16]") && wide.contains("dot %"));
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
pub fn widen_products(kernel: &Kernel, stays: impl Fn(&Kernel, &OpData) -> bool) -> Option<Kernel> {
    let mut found = Vec::new();
    kernel.walk(|op, data| {
        let narrow =
            data.kind == OpKind::Dot(Precision::Full) || data.kind == OpKind::Dot(Precision::FastSums);
        let is_small = |elem: Scalar| elem.is_float8() || elem.is_small_int();
        if narrow && is_small(kernel.ty(data.left()).elem()) && !stays(kernel, data) {
            found.push(op);
        }
    });
    if found.is_empty() {
        return None;
    }
    let mut out = kernel.clone();
    for block in (0..kernel.counts().2).map(Block::from_index) {
        let ops = std::mem::take(&mut out.block_mut(block).ops);
        for op in ops {
            if found.contains(&op) {
                widen(&mut out, block, op);
            }
            out.block_mut(block).ops.push(op);
        }
    }
    Some(out)
}

/// Converts the factors of a product before it.
fn widen(kernel: &mut Kernel, block: Block, op: Op) {
    kernel.op_mut(op).kind = OpKind::Dot(Precision::Full);
    for name in [Operand::Left, Operand::Right] {
        let (factor, loc) = (kernel.op(op).operand(name), kernel.op(op).loc);
        let ty = Type::tile(wide(kernel.ty(factor).elem()), kernel.shape(factor));
        let cast = kernel.append(block, OpKind::Cast, &[factor], &[ty], &[], loc);
        let cast: Value = kernel.result(cast);
        if let [factor] = kernel.op_mut(op).named_mut(name) {
            *factor = cast;
        }
    }
}

/// The type that factors of a type are converted to.
fn wide(elem: Scalar) -> Scalar {
    if elem.is_float8() { Scalar::F16 } else { Scalar::I32 }
}
