//! Which allocations are sums of products on matrix units.

use crate::fragment::FragmentOp;
use crate::kernel::{Kernel, Value};
use crate::op::{OpKind, Operand};

/// Whether an allocation is of sums that no other operations reach, so that it need not lie in
/// shared memory.
///
/// ```
/// use kiln_ir::{lies_in_fragments, parse};
/// let kernel = parse(
///     "kernel @k() tile {
///       %0 = alloc shared f32[128, 64] : view<f32, 2, shared>
///       %1 = alloc shared f32[128, 64] : view<f32, 2, shared>
///       matrix_zero %0 rows 2 columns 4
///     }",
/// )?;
/// let [sums, other] = [0, 1].map(|at| kernel.result(kernel.block(kernel.body).ops[at]));
/// assert!(lies_in_fragments(&kernel, sums) && !lies_in_fragments(&kernel, other));
/// # Ok::<(), kiln_ir::ParseError>(())
/// ```
pub fn lies_in_fragments(kernel: &Kernel, allocation: Value) -> bool {
    let (mut sums, mut others) = (false, false);
    kernel.walk(|_, data| {
        let uses = data.operands.iter().filter(|&&operand| operand == allocation).count();
        let multiplies = matches!(data.kind, OpKind::Fragment(FragmentOp::Matrix(_)));
        let views = data.named(Operand::View).iter().filter(|&&view| view == allocation).count();
        let of_sums = if multiplies { views } else { 0 };
        sums |= of_sums > 0;
        others |= uses > of_sums;
    });
    sums && !others
}
