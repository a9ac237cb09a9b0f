//! Operations with one operand: what each does to an element, and which loop runs it.

use super::element::{Int, Number};
use super::elementwise::{Map, MapLoop};
use super::float16::Half;
use super::isa::{Isa, IsaProfile};
use super::math_f32;
use super::signature::{UnaryFn, UnaryLoop};
use super::through_f32::HalfMapLoop;
use half::{bf16, f16};
use kiln_ir::{MathFn, Scalar, UnaryOp};

pub(crate) struct Neg;
pub(crate) struct Not;
pub(crate) struct Abs;
pub(crate) struct Exp;
pub(crate) struct Exp2;
pub(crate) struct Log;
pub(crate) struct Log2;
pub(crate) struct Log1p;
pub(crate) struct Sqrt;
pub(crate) struct Rsqrt;
pub(crate) struct Recip;
pub(crate) struct Sin;
pub(crate) struct Cos;
pub(crate) struct Tanh;
pub(crate) struct Erf;
pub(crate) struct Sigmoid;
pub(crate) struct Floor;
pub(crate) struct Ceil;
pub(crate) struct Round;
pub(crate) struct Trunc;
pub(crate) struct Popcount;
pub(crate) struct Clz;
pub(crate) struct BitReverse;
pub(crate) struct IsNan;

impl<T: Number> Map<T> for Neg {
    type Out = T;
    #[inline(always)]
    fn apply<I: IsaProfile>(x: T) -> T {
        x.neg()
    }
}

impl<T: Number> Map<T> for Abs {
    type Out = T;
    #[inline(always)]
    fn apply<I: IsaProfile>(x: T) -> T {
        x.abs()
    }
}

impl<T: Int> Map<T> for Popcount {
    type Out = T;
    #[inline(always)]
    fn apply<I: IsaProfile>(x: T) -> T {
        x.popcount()
    }
}

impl<T: Int> Map<T> for Clz {
    type Out = T;
    #[inline(always)]
    fn apply<I: IsaProfile>(x: T) -> T {
        x.clz()
    }
}

/// `Operation: argument type -> result type, |argument, isa| value`
macro_rules! map {
    ($($op:ident: $t:ty => $out:ty, |$x:ident, $isa:ident| $body:expr;)*) => {$(
        impl Map<$t> for $op {
            type Out = $out;
            #[inline(always)]
            fn apply<$isa: IsaProfile>($x: $t) -> $out {
                $body
            }
        }
    )*};
}

map! {
    // Bool, as a byte of 0 or 1.
    Not: u8 => u8, |x, _I| x ^ 1;
    Not: u32 => u32, |x, _I| !x;
    Not: u64 => u64, |x, _I| !x;
    BitReverse: u32 => u32, |x, _I| x.reverse_bits();
    BitReverse: u64 => u64, |x, _I| x.reverse_bits();

    Exp: f32 => f32, |x, I| math_f32::exp::<I>(x);
    Exp2: f32 => f32, |x, I| math_f32::exp2::<I>(x);
    Log: f32 => f32, |x, I| math_f32::log::<I>(x);
    Log2: f32 => f32, |x, I| math_f32::log2::<I>(x);
    Log1p: f32 => f32, |x, I| {
        // Kahan's: the factor makes good the rounding of u. Far from 1 it does not show.
        let u = x + 1.0;
        let log = math_f32::log::<I>(u);
        let corrected = log * (x / (u - 1.0));
        let y = if x > 4.0 { log } else { corrected };
        if u == 1.0 { x } else { y }
    };
    Sqrt: f32 => f32, |x, _I| x.sqrt();
    Rsqrt: f32 => f32, |x, _I| 1.0 / x.sqrt();
    Recip: f32 => f32, |x, _I| 1.0 / x;
    Tanh: f32 => f32, |x, I| math_f32::tanh::<I>(x);
    Erf: f32 => f32, |x, I| math_f32::erf::<I>(x);
    Sigmoid: f32 => f32, |x, I| math_f32::sigmoid::<I>(x);
    Floor: f32 => f32, |x, _I| x.floor();
    Ceil: f32 => f32, |x, _I| x.ceil();
    Round: f32 => f32, |x, _I| x.round_ties_even();
    Trunc: f32 => f32, |x, _I| x.trunc();
    IsNan: f32 => u8, |x, _I| x.is_nan() as u8;

    Exp: f64 => f64, |x, _I| x.exp();
    Exp2: f64 => f64, |x, _I| x.exp2();
    Log: f64 => f64, |x, _I| x.ln();
    Log2: f64 => f64, |x, _I| x.log2();
    Log1p: f64 => f64, |x, _I| x.ln_1p();
    Sqrt: f64 => f64, |x, _I| x.sqrt();
    Rsqrt: f64 => f64, |x, _I| 1.0 / x.sqrt();
    Recip: f64 => f64, |x, _I| 1.0 / x;
    Sin: f64 => f64, |x, _I| x.sin();
    Cos: f64 => f64, |x, _I| x.cos();
    Tanh: f64 => f64, |x, _I| x.tanh();
    Erf: f64 => f64, |x, _I| libm::erf(x);
    Sigmoid: f64 => f64, |x, _I| {
        let e = (-x.abs()).exp();
        (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
    };
    Floor: f64 => f64, |x, _I| x.floor();
    Ceil: f64 => f64, |x, _I| x.ceil();
    Round: f64 => f64, |x, _I| x.round_ties_even();
    Trunc: f64 => f64, |x, _I| x.trunc();
    IsNan: f64 => u8, |x, _I| x.is_nan() as u8;

    // By bits: a comparison of 16-bit floats would go through f32.
    IsNan: f16 => u8, |x, _I| ((x.to_bits() & 0x7fff) > 0x7c00) as u8;
    IsNan: bf16 => u8, |x, _I| ((x.to_bits() & 0x7fff) > 0x7f80) as u8;
}

/// The sine or cosine of f32: large arguments, which the vector code cannot reduce exactly, go
/// through f64 one by one.
macro_rules! trigonometric {
    ($($op:ident: $name:ident;)*) => {$(
        impl Map<f32> for $op {
            type Out = f32;
            #[inline(always)]
            fn apply<I: IsaProfile>(x: f32) -> f32 {
                math_f32::$name::<I>(x)
            }
            #[inline(always)]
            fn is_exceptional(x: f32) -> bool {
                x.abs() > math_f32::TRIGONOMETRIC_LIMIT
            }
            fn exceptional(x: f32) -> f32 {
                (x as f64).$name() as f32
            }
        }
    )*};
}
trigonometric! { Sin: sin; Cos: cos; }

/// An instruction for one element, which generated code has in place of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryInstruction {
    /// The value itself.
    Copy,
    /// Negation of an integer.
    NegateInt,
    /// The other sign of a float.
    NegateFloat,
    /// The other bool.
    InvertBool,
    /// Every bit of an integer inverted.
    InvertBits,
    /// The magnitude of a signed integer.
    AbsInt,
    /// A float without its sign.
    AbsFloat,
    /// The square root.
    Sqrt,
    /// Whether a float is NaN.
    IsNan,
}

/// The instruction that does an operation on one element, if there is one for the type.
///
/// ```
/// use kiln_cpu_primitives::{UnaryInstruction, unary_instruction};
/// use kiln_ir::{MathFn, Scalar, UnaryOp};
/// assert_eq!(unary_instruction(UnaryOp::Abs, Scalar::U32), Some(UnaryInstruction::Copy));
/// assert_eq!(unary_instruction(UnaryOp::Sqrt, Scalar::F16), None);
/// ```
pub fn unary_instruction(op: UnaryOp, elem: Scalar) -> Option<UnaryInstruction> {
    use UnaryInstruction as I;
    let int = |instruction| elem.is_int().then_some(instruction);
    let float = |instruction| matches!(elem, Scalar::F32 | Scalar::F64).then_some(instruction);
    match op {
        UnaryOp::Neg => int(I::NegateInt).or(float(I::NegateFloat)),
        UnaryOp::Not if elem == Scalar::Bool => Some(I::InvertBool),
        UnaryOp::Not => int(I::InvertBits),
        UnaryOp::Abs if elem.is_signed() => int(I::AbsInt).or(float(I::AbsFloat)),
        UnaryOp::Abs => int(I::Copy),
        UnaryOp::Sqrt => float(I::Sqrt),
        UnaryOp::IsNan => float(I::IsNan),
        UnaryOp::Math(_)
        | UnaryOp::Exp2
        | UnaryOp::Rsqrt
        | UnaryOp::Recip
        | UnaryOp::Floor
        | UnaryOp::Ceil
        | UnaryOp::Round
        | UnaryOp::Trunc
        | UnaryOp::Popcount
        | UnaryOp::Clz
        | UnaryOp::BitReverse => None,
    }
}

/// The primitive for a unary operation, if the operation is defined on the type.
pub(crate) fn lookup(isa: Isa, op: UnaryOp, scalar: Scalar) -> Option<UnaryFn> {
    match scalar {
        Scalar::Bool => (op == UnaryOp::Not).then(|| MapLoop::<Not, u8>::at(isa)),
        Scalar::I32 if op == UnaryOp::Abs => Some(MapLoop::<Abs, i32>::at(isa)),
        Scalar::I64 if op == UnaryOp::Abs => Some(MapLoop::<Abs, i64>::at(isa)),
        // Apart from `abs` the signedness makes no difference.
        Scalar::I32 | Scalar::U32 => int::<u32>(isa, op),
        Scalar::I64 | Scalar::U64 => int::<u64>(isa, op),
        Scalar::F16 => float16::<f16>(isa, op),
        Scalar::BF16 => float16::<bf16>(isa, op),
        Scalar::F32 => float32(isa, op),
        Scalar::F64 => float64(isa, op),
        Scalar::E4M3 | Scalar::E5M2 | Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16 => None,
    }
}

fn int<T: Int>(isa: Isa, op: UnaryOp) -> Option<UnaryFn>
where
    MapLoop<Not, T>: UnaryLoop,
    MapLoop<BitReverse, T>: UnaryLoop,
{
    Some(match op {
        UnaryOp::Neg => MapLoop::<Neg, T>::at(isa),
        UnaryOp::Not => MapLoop::<Not, T>::at(isa),
        UnaryOp::Abs => MapLoop::<Abs, T>::at(isa),
        UnaryOp::Popcount => MapLoop::<Popcount, T>::at(isa),
        UnaryOp::Clz => MapLoop::<Clz, T>::at(isa),
        UnaryOp::BitReverse => MapLoop::<BitReverse, T>::at(isa),
        UnaryOp::Math(_)
        | UnaryOp::Exp2
        | UnaryOp::Sqrt
        | UnaryOp::Rsqrt
        | UnaryOp::Recip
        | UnaryOp::Floor
        | UnaryOp::Ceil
        | UnaryOp::Round
        | UnaryOp::Trunc
        | UnaryOp::IsNan => return None,
    })
}

/// A match over the operations on floats, where `$run` is the loop for all but `is_nan`.
macro_rules! float_ops {
    ($op:expr, $run:ident::<_, $t:ty>, $isa:expr) => {
        Some(match $op {
            UnaryOp::Neg => $run::<Neg, $t>::at($isa),
            UnaryOp::Abs => $run::<Abs, $t>::at($isa),
            UnaryOp::Math(function) => match function {
                MathFn::Exp => $run::<Exp, $t>::at($isa),
                MathFn::Log => $run::<Log, $t>::at($isa),
                MathFn::Log2 => $run::<Log2, $t>::at($isa),
                MathFn::Log1p => $run::<Log1p, $t>::at($isa),
                MathFn::Sin => $run::<Sin, $t>::at($isa),
                MathFn::Cos => $run::<Cos, $t>::at($isa),
                MathFn::Tanh => $run::<Tanh, $t>::at($isa),
                MathFn::Erf => $run::<Erf, $t>::at($isa),
                MathFn::Sigmoid => $run::<Sigmoid, $t>::at($isa),
            },
            UnaryOp::Exp2 => $run::<Exp2, $t>::at($isa),
            UnaryOp::Sqrt => $run::<Sqrt, $t>::at($isa),
            UnaryOp::Rsqrt => $run::<Rsqrt, $t>::at($isa),
            UnaryOp::Recip => $run::<Recip, $t>::at($isa),
            UnaryOp::Floor => $run::<Floor, $t>::at($isa),
            UnaryOp::Ceil => $run::<Ceil, $t>::at($isa),
            UnaryOp::Round => $run::<Round, $t>::at($isa),
            UnaryOp::Trunc => $run::<Trunc, $t>::at($isa),
            UnaryOp::IsNan => MapLoop::<IsNan, $t>::at($isa),
            UnaryOp::Not | UnaryOp::Popcount | UnaryOp::Clz | UnaryOp::BitReverse => return None,
        })
    };
}

fn float16<H: Half>(isa: Isa, op: UnaryOp) -> Option<UnaryFn>
where
    MapLoop<IsNan, H>: UnaryLoop,
{
    float_ops!(op, HalfMapLoop::<_, H>, isa)
}

fn float32(isa: Isa, op: UnaryOp) -> Option<UnaryFn> {
    float_ops!(op, MapLoop::<_, f32>, isa)
}

fn float64(isa: Isa, op: UnaryOp) -> Option<UnaryFn> {
    float_ops!(op, MapLoop::<_, f64>, isa)
}
