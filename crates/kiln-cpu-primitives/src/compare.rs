//! Comparisons: masks of 0 and 1.

use super::Form;
use super::binary::unsigned;
use super::element::Element;
use super::elementwise::{
    Arrays, HalfCompareLoop, OperandForm, ScalarLeft, ScalarRight, Swapped, Zip, ZipLoop,
};
use super::float16::Half;
use super::level::{Isa, Level};
use super::signature::{BinaryFn, BinaryLoop};
use half::{bf16, f16};
use kiln_ir::{CompareOp, Scalar};

macro_rules! compare {
    ($($op:ident: |$a:ident, $b:ident| $body:expr;)*) => {$(
        struct $op;
        impl<T: Element> Zip<T> for $op {
            type Out = u8;
            #[inline(always)]
            fn apply<I: Isa>($a: T, $b: T) -> u8 {
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
pub(crate) fn lookup(level: Level, op: CompareOp, form: Form, scalar: Scalar) -> Option<BinaryFn> {
    let scalar = if matches!(op, CompareOp::Eq | CompareOp::Ne) { unsigned(scalar) } else { scalar };
    Some(match scalar {
        Scalar::Bool => compare::<u8>(level, op, form),
        Scalar::I32 => compare::<i32>(level, op, form),
        Scalar::U32 => compare::<u32>(level, op, form),
        Scalar::I64 => compare::<i64>(level, op, form),
        Scalar::U64 => compare::<u64>(level, op, form),
        Scalar::F16 => compare_half_form::<f16>(level, op, form),
        Scalar::BF16 => compare_half_form::<bf16>(level, op, form),
        Scalar::F32 => compare::<f32>(level, op, form),
        Scalar::F64 => compare::<f64>(level, op, form),
        Scalar::E4M3 | Scalar::E5M2 | Scalar::I8 | Scalar::U8 => return None,
    })
}

fn compare<T: Element>(level: Level, op: CompareOp, form: Form) -> BinaryFn {
    // A comparison with exchanged operands is its mirror image, so that ten loops do for eighteen
    // combinations.
    match form {
        Form::Arrays => match op {
            CompareOp::Eq => ZipLoop::<Eq, T, Arrays>::at(level),
            CompareOp::Ne => ZipLoop::<Ne, T, Arrays>::at(level),
            CompareOp::Lt => ZipLoop::<Lt, T, Arrays>::at(level),
            CompareOp::Le => ZipLoop::<Le, T, Arrays>::at(level),
            CompareOp::Gt => Swapped::<ZipLoop<Lt, T, Arrays>>::at(level),
            CompareOp::Ge => Swapped::<ZipLoop<Le, T, Arrays>>::at(level),
        },
        Form::ScalarRight => match op {
            CompareOp::Eq => ZipLoop::<Eq, T, ScalarRight>::at(level),
            CompareOp::Ne => ZipLoop::<Ne, T, ScalarRight>::at(level),
            CompareOp::Lt => ZipLoop::<Lt, T, ScalarRight>::at(level),
            CompareOp::Le => ZipLoop::<Le, T, ScalarRight>::at(level),
            CompareOp::Gt => ZipLoop::<Gt, T, ScalarRight>::at(level),
            CompareOp::Ge => ZipLoop::<Ge, T, ScalarRight>::at(level),
        },
        Form::ScalarLeft => match op {
            CompareOp::Eq => Swapped::<ZipLoop<Eq, T, ScalarRight>>::at(level),
            CompareOp::Ne => Swapped::<ZipLoop<Ne, T, ScalarRight>>::at(level),
            CompareOp::Lt => Swapped::<ZipLoop<Gt, T, ScalarRight>>::at(level),
            CompareOp::Le => Swapped::<ZipLoop<Ge, T, ScalarRight>>::at(level),
            CompareOp::Gt => Swapped::<ZipLoop<Lt, T, ScalarRight>>::at(level),
            CompareOp::Ge => Swapped::<ZipLoop<Le, T, ScalarRight>>::at(level),
        },
    }
}

fn compare_half_form<H: Half>(level: Level, op: CompareOp, form: Form) -> BinaryFn {
    match form {
        Form::Arrays => compare_half::<H, Arrays>(level, op),
        Form::ScalarLeft => compare_half::<H, ScalarLeft>(level, op),
        Form::ScalarRight => compare_half::<H, ScalarRight>(level, op),
    }
}

fn compare_half<H: Half, F: OperandForm>(level: Level, op: CompareOp) -> BinaryFn {
    match op {
        CompareOp::Eq => HalfCompareLoop::<Eq, H, F>::at(level),
        CompareOp::Ne => HalfCompareLoop::<Ne, H, F>::at(level),
        CompareOp::Lt => HalfCompareLoop::<Lt, H, F>::at(level),
        CompareOp::Le => HalfCompareLoop::<Le, H, F>::at(level),
        CompareOp::Gt => HalfCompareLoop::<Gt, H, F>::at(level),
        CompareOp::Ge => HalfCompareLoop::<Ge, H, F>::at(level),
    }
}
