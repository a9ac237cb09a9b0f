//! From element types at run time to those of Rust, for the few kernels of the library that are
//! launched on tensors of any numbers.

/// Evaluates an expression with a type for the numbers of an element type. It borrows its tensors
/// by `downcast_ref` or `downcast_mut`, which refuse bools.
macro_rules! for_numeric {
    ($elem:expr, $t:ident => $body:expr) => {{
        use kiln_ir::Scalar;
        use kiln_lang::{E4M3, E5M2};
        macro_rules! of {
            ($of:ty) => {{
                type $t = $of;
                $body
            }};
        }
        match $elem {
            Scalar::I32 => of!(i32),
            Scalar::U32 => of!(u32),
            Scalar::I64 => of!(i64),
            Scalar::U64 => of!(u64),
            Scalar::F16 => of!(half::f16),
            Scalar::BF16 => of!(half::bf16),
            Scalar::F32 => of!(f32),
            Scalar::F64 => of!(f64),
            Scalar::I8 => of!(i8),
            Scalar::U8 | Scalar::Bool => of!(u8),
            Scalar::I16 => of!(i16),
            Scalar::U16 => of!(u16),
            Scalar::E4M3 => of!(E4M3),
            Scalar::E5M2 => of!(E5M2),
        }
    }};
}
pub(crate) use for_numeric;
