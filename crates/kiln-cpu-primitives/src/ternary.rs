//! `select` and fused multiply-add.

use super::Form;
use super::element::{Element, Number};
use super::elementwise::{Arrays, OperandForm, ScalarLeft, ScalarRight, Zip3, Zip3Loop};
use super::float16::ToOddF32;
use super::isa::Isa;
use super::signature::{TernaryFn, TernaryLoop};
use super::through_f32::HalfZip3Loop;
use half::{bf16, f16};
use kiln_ir::Scalar;

struct Select;
impl<T: Element> Zip3<T, u8> for Select {
    #[inline(always)]
    fn apply(a: T, b: T, mask: u8) -> T {
        if mask != 0 { a } else { b }
    }
}

struct Fma;
impl<T: Number> Zip3<T, T> for Fma {
    #[inline(always)]
    fn apply(a: T, b: T, c: T) -> T {
        a.mul_add(b, c)
    }
}

/// The multiply-add of 16-bit floats, as f32: rounded to odd, so that rounding it to 16 bits is the
/// only rounding. Rounding to f32 and to 16 bits would meet the middle of two results too often.
struct HalfFma;
impl Zip3<f32, f32> for HalfFma {
    #[inline(always)]
    fn apply(a: f32, b: f32, c: f32) -> f32 {
        // Exact: 48 bits, and no exponent out of range.
        let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
        let sum = product + c;
        let part = sum - product;
        let error = (product - (sum - part)) + (c - part); // Knuth's two-sum
        let inexact = error != 0.0 && error.is_finite() && sum.to_bits() & 1 == 0;
        let outward = (error > 0.0) == (sum > 0.0);
        let step = (inexact as i64) * (2 * (outward as i64) - 1);
        f64::from_bits(sum.to_bits().wrapping_add_signed(step)).to_odd_f32()
    }
}

/// The primitive for `select`, whose third operand is the mask.
pub(crate) fn select(isa: Isa, form: Form, scalar: Scalar) -> TernaryFn {
    match form {
        Form::Arrays => select_form::<Arrays>(isa, scalar),
        Form::ScalarLeft => select_form::<ScalarLeft>(isa, scalar),
        Form::ScalarRight => select_form::<ScalarRight>(isa, scalar),
    }
}

fn select_form<F: OperandForm>(isa: Isa, scalar: Scalar) -> TernaryFn {
    // Bits move, whatever they mean.
    match scalar.bytes() {
        1 => Zip3Loop::<Select, u8, u8, F>::at(isa),
        2 => Zip3Loop::<Select, u16, u8, F>::at(isa),
        4 => Zip3Loop::<Select, u32, u8, F>::at(isa),
        _ => Zip3Loop::<Select, u64, u8, F>::at(isa),
    }
}

/// The primitive for `fma`, whose third operand is the addend.
pub(crate) fn fma(isa: Isa, form: Form, scalar: Scalar) -> Option<TernaryFn> {
    match form {
        Form::Arrays => fma_form::<Arrays>(isa, scalar),
        Form::ScalarLeft => fma_form::<ScalarLeft>(isa, scalar),
        Form::ScalarRight => fma_form::<ScalarRight>(isa, scalar),
    }
}

fn fma_form<F: OperandForm>(isa: Isa, scalar: Scalar) -> Option<TernaryFn> {
    Some(match scalar {
        Scalar::Bool | Scalar::E4M3 | Scalar::E5M2 | Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16 => {
            return None;
        }
        Scalar::I32 | Scalar::U32 => Zip3Loop::<Fma, u32, u32, F>::at(isa),
        Scalar::I64 | Scalar::U64 => Zip3Loop::<Fma, u64, u64, F>::at(isa),
        Scalar::F16 => HalfZip3Loop::<HalfFma, f16, F>::at(isa),
        Scalar::BF16 => HalfZip3Loop::<HalfFma, bf16, F>::at(isa),
        Scalar::F32 => Zip3Loop::<Fma, f32, f32, F>::at(isa),
        Scalar::F64 => Zip3Loop::<Fma, f64, f64, F>::at(isa),
    })
}
