//! Launches of kernels that are not made here: products of matrices.

use crate::op::Op;
use kiln_kernels::Matmul;
use kiln_runtime::{DynTensor, Result, Tensor};

/// Launches an operation of the library.
pub(crate) fn launch(op: &Op, inputs: &[DynTensor], result: &mut DynTensor) -> Result<()> {
    match (op, inputs) {
        (Op::Product, [a, b]) => product(a, b, result),
        _ => Ok(()),
    }
}

/// Evaluates an expression with a type for the numbers of an element type.
macro_rules! for_numbers {
    ($elem:expr, $t:ident => $body:expr) => {{
        macro_rules! of {
            ($of:ty) => {{
                type $t = $of;
                $body
            }};
        }
        match $elem {
            kiln_ir::Scalar::I32 => of!(i32),
            kiln_ir::Scalar::U32 => of!(u32),
            kiln_ir::Scalar::I64 => of!(i64),
            kiln_ir::Scalar::F16 => of!(half::f16),
            kiln_ir::Scalar::BF16 => of!(half::bf16),
            kiln_ir::Scalar::F64 => of!(f64),
            _ => of!(f32),
        }
    }};
}

fn product(a: &DynTensor, b: &DynTensor, c: &mut DynTensor) -> Result<()> {
    for_numbers!(a.dtype(), T => {
        let (a, b) = (a.downcast_ref::<T, 3>()?, b.downcast_ref::<T, 3>()?);
        let c: &mut Tensor<T, 3> = c.downcast_mut()?;
        Matmul::new(a, b).run(c)
    })
}
