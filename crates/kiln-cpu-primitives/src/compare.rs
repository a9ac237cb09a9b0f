//! Comparisons: masks of 0 and 1.

use super::Form;
use super::binary::unsigned;
use super::element::Element;
use super::elementwise::{Arrays, OperandForm, ScalarLeft, ScalarRight, Swapped, Zip, ZipLoop};
use super::float16::Half;
use super::isa::{Isa, IsaProfile};
use super::signature::{BinaryFn, BinaryLoop};
use super::through_f32::HalfCompareLoop;
use half::{bf16, f16};
use kiln_ir::{CompareOp, Scalar};

macro_rules! compare {
    ($($op:ident: |$a:ident, $b:ident| $body:expr;)*) => {$(
        struct $op;
        impl<T: Element> Zip<T> for $op {
            type Out = u8;
            #[inline(always)]
            fn apply<I: IsaProfile>($a: T, $b: T) -> u8 {
                ($body) as u8
            }
        }
    )*};
}

compare! {
    Eq: |a, b| a == b;
    Ne: |a, b| a != b;
    Lt: |a, b| a < b;
    Le: |a, b| a <= b;
    Gt: |a, b| a > b;
    Ge: |a, b| a >= b;
}

/// The primitive for a comparison, for types that have them.
pub(crate) fn lookup(isa: Isa, op: CompareOp, form: Form, scalar: Scalar) -> Option<BinaryFn> {
    let scalar = if matches!(op, CompareOp::Eq | CompareOp::Ne) { unsigned(scalar) } else { scalar };
    Some(match scalar {
        Scalar::Bool => compare::<u8>(isa, op, form),
        Scalar::I32 => compare::<i32>(isa, op, form),
        Scalar::U32 => compare::<u32>(isa, op, form),
        Scalar::I64 => compare::<i64>(isa, op, form),
        Scalar::U64 => compare::<u64>(isa, op, form),
        Scalar::F16 => compare_half_form::<f16>(isa, op, form),
        Scalar::BF16 => compare_half_form::<bf16>(isa, op, form),
        Scalar::F32 => compare::<f32>(isa, op, form),
        Scalar::F64 => compare::<f64>(isa, op, form),
        Scalar::E4M3 | Scalar::E5M2 | Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16 => return None,
    })
}

fn compare<T: Element>(isa: Isa, op: CompareOp, form: Form) -> BinaryFn {
    // A comparison with exchanged operands is its mirror image, so that ten loops do for eighteen
    // combinations.
    match form {
        Form::Arrays => match op {
            CompareOp::Eq => ZipLoop::<Eq, T, Arrays>::at(isa),
            CompareOp::Ne => ZipLoop::<Ne, T, Arrays>::at(isa),
            CompareOp::Lt => ZipLoop::<Lt, T, Arrays>::at(isa),
            CompareOp::Le => ZipLoop::<Le, T, Arrays>::at(isa),
            CompareOp::Gt => Swapped::<ZipLoop<Lt, T, Arrays>>::at(isa),
            CompareOp::Ge => Swapped::<ZipLoop<Le, T, Arrays>>::at(isa),
        },
        Form::ScalarRight => match op {
            CompareOp::Eq => ZipLoop::<Eq, T, ScalarRight>::at(isa),
            CompareOp::Ne => ZipLoop::<Ne, T, ScalarRight>::at(isa),
            CompareOp::Lt => ZipLoop::<Lt, T, ScalarRight>::at(isa),
            CompareOp::Le => ZipLoop::<Le, T, ScalarRight>::at(isa),
            CompareOp::Gt => ZipLoop::<Gt, T, ScalarRight>::at(isa),
            CompareOp::Ge => ZipLoop::<Ge, T, ScalarRight>::at(isa),
        },
        Form::ScalarLeft => match op {
            CompareOp::Eq => Swapped::<ZipLoop<Eq, T, ScalarRight>>::at(isa),
            CompareOp::Ne => Swapped::<ZipLoop<Ne, T, ScalarRight>>::at(isa),
            CompareOp::Lt => Swapped::<ZipLoop<Gt, T, ScalarRight>>::at(isa),
            CompareOp::Le => Swapped::<ZipLoop<Ge, T, ScalarRight>>::at(isa),
            CompareOp::Gt => Swapped::<ZipLoop<Lt, T, ScalarRight>>::at(isa),
            CompareOp::Ge => Swapped::<ZipLoop<Le, T, ScalarRight>>::at(isa),
        },
    }
}

fn compare_half_form<H: Half>(isa: Isa, op: CompareOp, form: Form) -> BinaryFn {
    match form {
        Form::Arrays => compare_half::<H, Arrays>(isa, op),
        Form::ScalarLeft => compare_half::<H, ScalarLeft>(isa, op),
        Form::ScalarRight => compare_half::<H, ScalarRight>(isa, op),
    }
}

fn compare_half<H: Half, F: OperandForm>(isa: Isa, op: CompareOp) -> BinaryFn {
    match op {
        CompareOp::Eq => HalfCompareLoop::<Eq, H, F>::at(isa),
        CompareOp::Ne => HalfCompareLoop::<Ne, H, F>::at(isa),
        CompareOp::Lt => HalfCompareLoop::<Lt, H, F>::at(isa),
        CompareOp::Le => HalfCompareLoop::<Le, H, F>::at(isa),
        CompareOp::Gt => HalfCompareLoop::<Gt, H, F>::at(isa),
        CompareOp::Ge => HalfCompareLoop::<Ge, H, F>::at(isa),
    }
}
