//! Operations with two operands of one type: what each does to an element, and which loop runs it.

use super::Form;
use super::element::{Bits, Int, Number, Ordered};
use super::elementwise::{Arrays, OperandForm, ScalarLeft, ScalarRight, SerialLoop, Zip, ZipLoop};
use super::float16::Half;
use super::isa::{Isa, IsaProfile};
use super::math_f32;
use super::signature::{BinaryFn, BinaryLoop};
use super::through_f32::HalfZipLoop;
use half::{bf16, f16};
use kiln_ir::{BinaryOp, Scalar};

/// `Operation<element bound>: |a, b| value`
macro_rules! zip {
    ($($op:ident<$bound:ident>: |$a:ident, $b:ident| $body:expr;)*) => {$(
        pub(crate) struct $op;
        impl<T: $bound> Zip<T> for $op {
            type Out = T;
            #[inline(always)]
            fn apply<I: IsaProfile>($a: T, $b: T) -> T {
                $body
            }
        }
    )*};
}

zip! {
    Add<Number>: |a, b| a.add(b);
    Sub<Number>: |a, b| a.sub(b);
    Mul<Number>: |a, b| a.mul(b);
    Min<Ordered>: |a, b| a.lesser(b);
    Max<Ordered>: |a, b| a.greater(b);
    And<Bits>: |a, b| a.and(b);
    Or<Bits>: |a, b| a.or(b);
    Xor<Bits>: |a, b| a.xor(b);
    Shl<Int>: |a, b| a.shl(b);
    Shr<Int>: |a, b| a.shr(b);
}

/// Integer division, which reports zero divisors.
pub(crate) struct IntDiv;
impl<T: Int> Zip<T> for IntDiv {
    type Out = T;
    #[inline(always)]
    fn apply<I: IsaProfile>(a: T, b: T) -> T {
        a.div(b)
    }
    #[inline(always)]
    fn faults(_: T, b: T) -> bool {
        b == T::ZERO
    }
}

/// Integer remainder, which reports zero divisors.
pub(crate) struct IntRem;
impl<T: Int> Zip<T> for IntRem {
    type Out = T;
    #[inline(always)]
    fn apply<I: IsaProfile>(a: T, b: T) -> T {
        a.rem(b)
    }
    #[inline(always)]
    fn faults(_: T, b: T) -> bool {
        b == T::ZERO
    }
}

pub(crate) struct FloatDiv;
pub(crate) struct FloatRem;
pub(crate) struct Pow;
pub(crate) struct Atan2;

/// Whether the operations are [long](Zip::LONG), and each as
/// `Operation: type, |a, b, isa| value`.
macro_rules! zip_float {
    (LONG = $long:literal; $($op:ident: $t:ty, |$a:ident, $b:ident, $isa:ident| $body:expr;)*) => {$(
        impl Zip<$t> for $op {
            type Out = $t;
            const LONG: bool = $long;
            #[inline(always)]
            fn apply<$isa: IsaProfile>($a: $t, $b: $t) -> $t {
                $body
            }
        }
    )*};
}

zip_float! {
    LONG = false;
    FloatDiv: f32, |a, b, _I| a / b;
    FloatDiv: f64, |a, b, _I| a / b;
    // Exact, and hence one by one.
    FloatRem: f32, |a, b, _I| a % b;
    FloatRem: f64, |a, b, _I| a % b;
}

zip_float! {
    LONG = true;
    Pow: f32, |a, b, I| math_f32::pow::<I>(a, b);
    Pow: f64, |a, b, _I| a.powf(b);
    Atan2: f32, |a, b, I| math_f32::atan2::<I>(a, b);
    Atan2: f64, |a, b, _I| a.atan2(b);
}

/// The type with the same loop for operations that do not depend on signedness.
pub(crate) fn unsigned(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::I32 => Scalar::U32,
        Scalar::I64 => Scalar::U64,
        other => other,
    }
}

/// The primitive for a binary operation, if the operation is defined on the type.
pub(crate) fn lookup(isa: Isa, op: BinaryOp, form: Form, scalar: Scalar) -> Option<BinaryFn> {
    match form {
        Form::Arrays => binary::<Arrays>(isa, op, scalar),
        Form::ScalarLeft => binary::<ScalarLeft>(isa, op, scalar),
        Form::ScalarRight => binary::<ScalarRight>(isa, op, scalar),
    }
}

fn binary<F: OperandForm>(isa: Isa, op: BinaryOp, scalar: Scalar) -> Option<BinaryFn> {
    use BinaryOp::{Div, Max, Min, Rem, Shr};
    let scalar = if matches!(op, Div | Rem | Min | Max | Shr) { scalar } else { unsigned(scalar) };
    match scalar {
        Scalar::Bool => bool_binary::<F>(isa, op),
        Scalar::I32 => signed_binary::<i32, F>(isa, op),
        Scalar::I64 => signed_binary::<i64, F>(isa, op),
        Scalar::U32 => int_binary::<u32, F>(isa, op),
        Scalar::U64 => int_binary::<u64, F>(isa, op),
        Scalar::F16 => half_binary::<f16, F>(isa, op),
        Scalar::BF16 => half_binary::<bf16, F>(isa, op),
        Scalar::F32 => float_binary::<f32, F>(isa, op),
        Scalar::F64 => float_binary::<f64, F>(isa, op),
        Scalar::E4M3 | Scalar::E5M2 | Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16 => None,
    }
}

fn bool_binary<F: OperandForm>(isa: Isa, op: BinaryOp) -> Option<BinaryFn> {
    Some(match op {
        BinaryOp::And | BinaryOp::Min => F::Commuting::<And, u8>::at(isa),
        BinaryOp::Or | BinaryOp::Max => F::Commuting::<Or, u8>::at(isa),
        BinaryOp::Xor => F::Commuting::<Xor, u8>::at(isa),
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::Div
        | BinaryOp::FastDiv
        | BinaryOp::Rem
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::Pow
        | BinaryOp::Atan2 => return None,
    })
}

/// The operations in which signedness matters.
fn signed_binary<T: Int, F: OperandForm>(isa: Isa, op: BinaryOp) -> Option<BinaryFn> {
    Some(match op {
        BinaryOp::Div => SerialLoop::<IntDiv, T, F>::at(Isa::Portable),
        BinaryOp::Rem => SerialLoop::<IntRem, T, F>::at(Isa::Portable),
        BinaryOp::Min => F::Commuting::<Min, T>::at(isa),
        BinaryOp::Max => F::Commuting::<Max, T>::at(isa),
        BinaryOp::Shr => ZipLoop::<Shr, T, F>::at(isa),
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Xor
        | BinaryOp::Shl
        | BinaryOp::FastDiv
        | BinaryOp::Pow
        | BinaryOp::Atan2 => return None,
    })
}

fn int_binary<T: Int, F: OperandForm>(isa: Isa, op: BinaryOp) -> Option<BinaryFn> {
    Some(match op {
        BinaryOp::Add => F::Commuting::<Add, T>::at(isa),
        BinaryOp::Sub => ZipLoop::<Sub, T, F>::at(isa),
        BinaryOp::Mul => F::Commuting::<Mul, T>::at(isa),
        BinaryOp::And => F::Commuting::<And, T>::at(isa),
        BinaryOp::Or => F::Commuting::<Or, T>::at(isa),
        BinaryOp::Xor => F::Commuting::<Xor, T>::at(isa),
        BinaryOp::Shl => ZipLoop::<Shl, T, F>::at(isa),
        BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::Shr
        | BinaryOp::FastDiv
        | BinaryOp::Pow
        | BinaryOp::Atan2 => return signed_binary::<T, F>(isa, op),
    })
}

fn half_binary<H: Half, F: OperandForm>(isa: Isa, op: BinaryOp) -> Option<BinaryFn> {
    Some(match op {
        BinaryOp::Add => HalfZipLoop::<Add, H, F>::at(isa),
        BinaryOp::Sub => HalfZipLoop::<Sub, H, F>::at(isa),
        BinaryOp::Mul => HalfZipLoop::<Mul, H, F>::at(isa),
        BinaryOp::Div | BinaryOp::FastDiv => HalfZipLoop::<FloatDiv, H, F>::at(isa),
        BinaryOp::Rem => HalfZipLoop::<FloatRem, H, F>::at(isa),
        BinaryOp::Min => HalfZipLoop::<Min, H, F>::at(isa),
        BinaryOp::Max => HalfZipLoop::<Max, H, F>::at(isa),
        BinaryOp::Pow => HalfZipLoop::<Pow, H, F>::at(isa),
        BinaryOp::Atan2 => HalfZipLoop::<Atan2, H, F>::at(isa),
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => return None,
    })
}

fn float_binary<T: Number, F: OperandForm>(isa: Isa, op: BinaryOp) -> Option<BinaryFn>
where
    FloatDiv: Zip<T>,
    FloatRem: Zip<T>,
    Pow: Zip<T>,
    Atan2: Zip<T>,
{
    Some(match op {
        BinaryOp::Add => F::Commuting::<Add, T>::at(isa),
        BinaryOp::Sub => ZipLoop::<Sub, T, F>::at(isa),
        BinaryOp::Mul => F::Commuting::<Mul, T>::at(isa),
        BinaryOp::Div | BinaryOp::FastDiv => ZipLoop::<FloatDiv, T, F>::at(isa),
        BinaryOp::Rem => SerialLoop::<FloatRem, T, F>::at(Isa::Portable),
        BinaryOp::Min => F::Commuting::<Min, T>::at(isa),
        BinaryOp::Max => F::Commuting::<Max, T>::at(isa),
        BinaryOp::Pow => ZipLoop::<Pow, T, F>::at(isa),
        BinaryOp::Atan2 => ZipLoop::<Atan2, T, F>::at(isa),
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => return None,
    })
}
