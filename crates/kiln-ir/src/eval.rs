//! What element-wise operations compute: the one implementation of their rules, which constant
//! folding applies to literals and the interpreter to registers, so that folding changes no bit.
//!
//! Floats of up to 32 bits are computed so that the result is that of one rounding. Functions are
//! those of the `libm` crate and therefore the same on every host.

use crate::literal::Literal;
use crate::numeric::{Bits, Element, Float, Int, Number, with_element};
use crate::op::{AtomicOp, BinaryOp, BinaryRule, CompareOp, ReduceOp, UnaryOp, UnaryRule};
use crate::types::Scalar;

/// What is done with the function of a unary operation, whatever its types turn out to be.
///
/// ```
/// use kiln_ir::eval::{UseUnary, with_unary};
/// use kiln_ir::numeric::Element;
/// use kiln_ir::{Scalar, UnaryOp};
///
/// /// Applies a function to all elements of a tile, which are held as bits.
/// struct OfTile<'a>(&'a mut [u64]);
///
/// impl UseUnary for OfTile<'_> {
///     type Output = ();
///     fn apply<A: Element, R: Element>(self, f: impl Fn(A) -> R) {
///         self.0.iter_mut().for_each(|bits| *bits = f(A::of_bits(*bits)).bits());
///     }
/// }
///
/// let mut tile = [1, 2, 250];
/// assert_eq!(with_unary(UnaryOp::Neg, Scalar::U8, OfTile(&mut tile)), Some(()));
/// assert_eq!(tile, [255, 254, 6]);
/// assert_eq!(with_unary(UnaryOp::Neg, Scalar::Bool, OfTile(&mut tile)), None);
/// ```
pub trait UseUnary {
    /// What comes of it.
    type Output;
    /// Uses the function.
    fn apply<A: Element, R: Element>(self, f: impl Fn(A) -> R) -> Self::Output;
}

/// What is done with the function of a binary operation, whatever its types turn out to be. The
/// function gives `None` for an integer divided by zero.
///
/// ```
/// use kiln_ir::eval::{UseBinary, with_binary, with_compare};
/// use kiln_ir::numeric::Element;
/// use kiln_ir::{BinaryOp, CompareOp, Scalar};
///
/// /// Combines each element of a tile, held as bits, with the next one.
/// struct Neighbors([u64; 3]);
///
/// impl UseBinary for Neighbors {
///     type Output = Vec<Option<u64>>;
///     fn apply<A: Element, R: Element>(self, f: impl Fn(A, A) -> Option<R>) -> Vec<Option<u64>> {
///         self.0.windows(2).map(|pair| f(A::of_bits(pair[0]), A::of_bits(pair[1])).map(R::bits)).collect()
///     }
/// }
///
/// assert_eq!(with_binary(BinaryOp::Div, Scalar::U32, Neighbors([9, 2, 0])), Some(vec![Some(4), None]));
/// assert_eq!(with_compare(CompareOp::Gt, Scalar::U32, Neighbors([9, 2, 2])), Some(vec![Some(1), Some(0)]));
/// ```
pub trait UseBinary {
    /// What comes of it.
    type Output;
    /// Uses the function.
    fn apply<A: Element, R: Element>(self, f: impl Fn(A, A) -> Option<R>) -> Self::Output;
}

/// Uses the function of a unary operation on elements of a type; `None` if the type has no such
/// operation.
///
/// ```
/// use kiln_ir::{Literal, Scalar, UnaryOp, eval::with_unary};
/// assert_eq!(with_unary(UnaryOp::Sqrt, Scalar::F32, Literal::f32(9.0)), Some(Literal::f32(3.0)));
/// ```
pub fn with_unary<U: UseUnary>(op: UnaryOp, elem: Scalar, user: U) -> Option<U::Output> {
    match op.info().rule {
        UnaryRule::Float(f) => with_element!(float elem, T => user.apply(|x: T| x.via(f))),
        UnaryRule::Bits(f) => with_element!(int elem, T => {
            user.apply(|x: T| T::of_bits(f(x.bits(), 8 * T::SCALAR.bytes())))
        }),
        UnaryRule::Negate => with_element!(number elem, T => user.apply(<T as Number>::neg)),
        UnaryRule::Magnitude => with_element!(number elem, T => user.apply(<T as Number>::abs)),
        UnaryRule::Invert => with_element!(bits elem, T => user.apply(<T as Bits>::not)),
        UnaryRule::IsNan => with_element!(float elem, T => user.apply(<T as Element>::is_nan)),
    }
}

/// Uses the function of a binary operation on elements of a type; `None` if the type has no such
/// operation.
///
/// ```
/// use kiln_ir::{BinaryOp, Literal, Scalar, eval::with_binary};
/// let operands = (Literal::index(7), Literal::index(2));
/// assert_eq!(with_binary(BinaryOp::Rem, Scalar::I64, operands), Some(Some(Literal::index(1))));
/// ```
pub fn with_binary<U: UseBinary>(op: BinaryOp, elem: Scalar, user: U) -> Option<U::Output> {
    macro_rules! total {
        ($class:ident, $bound:ident::$f:ident) => {
            with_element!($class elem, T => user.apply(|a: T, b: T| Some(<T as $bound>::$f(a, b))))
        };
    }
    match op.info().rule {
        BinaryRule::Float(f) => {
            with_element!(float elem, T => user.apply(|a: T, b: T| Some(a.via2(b, f))))
        }
        BinaryRule::Add => total!(number, Number::add),
        BinaryRule::Sub => total!(number, Number::sub),
        BinaryRule::Mul => total!(number, Number::mul),
        BinaryRule::Div => with_element!(number elem, T => user.apply(<T as Number>::div)),
        BinaryRule::Rem => with_element!(number elem, T => user.apply(<T as Number>::rem)),
        BinaryRule::Min => total!(any, Element::least),
        BinaryRule::Max => total!(any, Element::greatest),
        BinaryRule::And => total!(bits, Bits::and),
        BinaryRule::Or => total!(bits, Bits::or),
        BinaryRule::Xor => total!(bits, Bits::xor),
        BinaryRule::Shl => total!(int, Int::shl),
        BinaryRule::Shr => total!(int, Int::shr),
    }
}

/// Uses the function of a comparison on elements of a type, which gives a bool.
///
/// ```
/// use kiln_ir::{CompareOp, Literal, Scalar, eval::with_compare};
/// let operands = (Literal::index(7), Literal::index(2));
/// assert_eq!(with_compare(CompareOp::Le, Scalar::I64, operands), Some(Some(Literal::bool(false))));
/// ```
pub fn with_compare<U: UseBinary>(op: CompareOp, elem: Scalar, user: U) -> Option<U::Output> {
    with_element!(any elem, T => match op {
        CompareOp::Eq => user.apply(|a: T, b: T| Some(a == b)),
        CompareOp::Ne => user.apply(|a: T, b: T| Some(a != b)),
        CompareOp::Lt => user.apply(|a: T, b: T| Some(a.lt(&b))),
        CompareOp::Le => user.apply(|a: T, b: T| Some(a.le(&b))),
        CompareOp::Gt => user.apply(|a: T, b: T| Some(a.gt(&b))),
        CompareOp::Ge => user.apply(|a: T, b: T| Some(a.ge(&b))),
    })
}

/// A literal as an element.
fn element<T: Element>(x: Literal) -> T {
    T::of_bits(x.bits())
}

/// An element as a literal.
fn literal<T: Element>(x: T) -> Literal {
    Literal::from_bits(T::SCALAR, x.bits())
}

impl UseUnary for Literal {
    type Output = Literal;
    fn apply<A: Element, R: Element>(self, f: impl Fn(A) -> R) -> Literal {
        literal(f(element(self)))
    }
}

impl UseBinary for (Literal, Literal) {
    type Output = Option<Literal>;
    fn apply<A: Element, R: Element>(self, f: impl Fn(A, A) -> Option<R>) -> Option<Literal> {
        f(element(self.0), element(self.1)).map(literal)
    }
}

/// A unary operation; `None` if the element type has no such operation.
///
/// ```
/// use kiln_ir::{Literal, UnaryOp, eval};
/// assert_eq!(eval::unary(UnaryOp::Round, Literal::f32(2.5)), Some(Literal::f32(2.0)));
/// assert_eq!(eval::unary(UnaryOp::Clz, Literal::index(1)), Some(Literal::index(63)));
/// assert_eq!(eval::unary(UnaryOp::Sqrt, Literal::index(4)), None);
/// ```
pub fn unary(op: UnaryOp, x: Literal) -> Option<Literal> {
    with_unary(op, x.elem(), x)
}

/// A binary operation on operands of one type; `None` is the fault of an integer division by zero,
/// or that the element type has no such operation.
///
/// ```
/// use kiln_ir::{BinaryOp, Literal, eval};
/// let nan = Literal::f32(f32::NAN);
/// assert_eq!(eval::binary(BinaryOp::Min, nan, Literal::f32(1.0)), Some(Literal::f32(1.0)));
/// assert_eq!(eval::binary(BinaryOp::Div, Literal::index(1), Literal::index(0)), None);
/// ```
pub fn binary(op: BinaryOp, a: Literal, b: Literal) -> Option<Literal> {
    with_binary(op, a.elem(), (a, b)).flatten()
}

/// A comparison of operands of one type.
///
/// ```
/// use kiln_ir::{CompareOp, Literal, eval};
/// let (one, nan) = (Literal::f32(1.0), Literal::f32(f32::NAN));
/// assert!(eval::compare(CompareOp::Lt, one, Literal::f32(2.0)).is_true());
/// assert!(eval::compare(CompareOp::Ne, nan, nan).is_true() && !eval::compare(CompareOp::Ge, one, nan).is_true());
/// ```
pub fn compare(op: CompareOp, a: Literal, b: Literal) -> Literal {
    let holds = with_compare(op, a.elem(), (a, b)).flatten();
    holds.unwrap_or(Literal::bool(false))
}

/// `a * b + c`, rounded once; `None` if the element type has no arithmetic.
///
/// ```
/// use kiln_ir::{Literal, eval};
/// let near = Literal::f32(1.0 + f32::EPSILON); // its square needs twice the bits
/// let minus = Literal::f32(-(1.0 + 2.0 * f32::EPSILON));
/// let tiny = Literal::f32(f32::EPSILON * f32::EPSILON);
/// assert_eq!(eval::fma(near, near, minus), Some(tiny));
/// ```
pub fn fma(a: Literal, b: Literal, c: Literal) -> Option<Literal> {
    with_element!(number a.elem(), T => literal(Number::fma(element::<T>(a), element(b), element(c))))
}

/// Converts to another element type, as Rust's `as`; to bool is `!= 0`.
///
/// ```
/// use kiln_ir::{Literal, Scalar, eval};
/// assert_eq!(eval::cast(Literal::f32(-1.5), Scalar::U32), Literal::zero(Scalar::U32));
/// assert_eq!(eval::cast(Literal::f32(f32::NAN), Scalar::Bool), Literal::bool(true));
/// assert_eq!(eval::cast(Literal::index(-1), Scalar::U32).as_i128(), u32::MAX as i128);
/// ```
pub fn cast(x: Literal, elem: Scalar) -> Literal {
    with_element!(any elem, To => {
        with_element!(any x.elem(), From => literal(element::<From>(x).cast::<To>()))
    })
    .flatten()
    .unwrap_or(Literal::zero(elem))
}

/// The same bits as another element type of the same size.
///
/// ```
/// use kiln_ir::{Literal, Scalar, eval};
/// assert_eq!(eval::bitcast(Literal::f32(1.0), Scalar::U32).as_i128(), 0x3f80_0000);
/// ```
pub fn bitcast(x: Literal, elem: Scalar) -> Literal {
    Literal::from_bits(elem, x.bits())
}

/// What an atomic operation leaves, of the old value and its operand; `None` if the element type
/// has no such operation.
///
/// ```
/// use kiln_ir::{AtomicOp, Literal, eval};
/// let (old, operand) = (Literal::index(5), Literal::index(3));
/// assert_eq!(eval::atomic(AtomicOp::Max, old, operand), Some(old));
/// assert_eq!(eval::atomic(AtomicOp::Exchange, old, operand), Some(operand));
/// assert_eq!(eval::atomic(AtomicOp::And, Literal::f32(1.0), Literal::f32(2.0)), None);
/// ```
pub fn atomic(op: AtomicOp, old: Literal, operand: Literal) -> Option<Literal> {
    let combination = match op {
        AtomicOp::Add => BinaryOp::Add,
        AtomicOp::Min => BinaryOp::Min,
        AtomicOp::Max => BinaryOp::Max,
        AtomicOp::And => BinaryOp::And,
        AtomicOp::Or => BinaryOp::Or,
        AtomicOp::Xor => BinaryOp::Xor,
        AtomicOp::Exchange => return Some(operand),
        AtomicOp::AddF16x2 => return pair(Scalar::F16, old, operand),
        AtomicOp::AddBf16x2 => return pair(Scalar::BF16, old, operand),
    };
    binary(combination, old, operand)
}

/// The sums of the two elements that words are made of.
fn pair(half: Scalar, old: Literal, operand: Literal) -> Option<Literal> {
    let part = |word: Literal, shift: u32| Literal::from_bits(half, word.bits() >> shift & 0xffff);
    let sum = |shift| binary(BinaryOp::Add, part(old, shift), part(operand, shift));
    let (low, high) = (sum(0)?, sum(16)?);
    Some(Literal::from_bits(Scalar::U32, high.bits() << 16 | low.bits()))
}

/// The element-wise operation that a reduction repeats; `None` for those that give an index.
///
/// ```
/// use kiln_ir::{BinaryOp, ReduceOp, eval};
/// assert_eq!(eval::combination(ReduceOp::Prod), Some(BinaryOp::Mul));
/// assert_eq!(eval::combination(ReduceOp::ArgMin), None);
/// ```
pub fn combination(op: ReduceOp) -> Option<BinaryOp> {
    Some(match op {
        ReduceOp::Sum => BinaryOp::Add,
        ReduceOp::Prod => BinaryOp::Mul,
        ReduceOp::Min => BinaryOp::Min,
        ReduceOp::Max => BinaryOp::Max,
        ReduceOp::And => BinaryOp::And,
        ReduceOp::Or => BinaryOp::Or,
        ReduceOp::Xor => BinaryOp::Xor,
        ReduceOp::ArgMin | ReduceOp::ArgMax => return None,
    })
}

/// What a reduction begins with: combined with any number, it gives the number.
///
/// ```
/// use kiln_ir::{Literal, ReduceOp, Scalar, eval};
/// assert_eq!(eval::identity(ReduceOp::Max, Scalar::I32).as_i128(), i32::MIN as i128);
/// assert_eq!(eval::identity(ReduceOp::Min, Scalar::F32), Literal::f32(f32::INFINITY));
/// ```
pub fn identity(op: ReduceOp, elem: Scalar) -> Literal {
    match op {
        ReduceOp::Sum | ReduceOp::Or | ReduceOp::Xor => Literal::zero(elem),
        ReduceOp::Prod => Literal::one(elem),
        ReduceOp::And => Literal::from_bits(elem, u64::MAX),
        ReduceOp::Min | ReduceOp::ArgMin => greatest(elem, false),
        ReduceOp::Max | ReduceOp::ArgMax => greatest(elem, true),
    }
}

/// The greatest value of a type, infinity for floats; `negative` gives the least.
fn greatest(elem: Scalar, negative: bool) -> Literal {
    if elem.is_float() {
        return Literal::from_f64(elem, if negative { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    let width = 8 * elem.bytes();
    let bits = match (elem, negative) {
        (Scalar::Bool, _) => u64::from(!negative),
        (elem, false) if elem.is_signed() => u64::MAX >> (65 - width),
        (elem, true) if elem.is_signed() => 1 << (width - 1),
        (_, false) => u64::MAX,
        (_, true) => 0,
    };
    Literal::from_bits(elem, bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::MathFn;
    use half::{bf16, f16};

    fn f16_of(bits: u16) -> Literal {
        Literal::from_bits(Scalar::F16, u64::from(bits))
    }

    #[test]
    fn integers_agree_with_rust() {
        let values = [0i32, 1, -1, 7, -8, 31, 33, i32::MAX, i32::MIN, 0x1234_5678];
        let lit = |v: i32| Literal::wrapping(Scalar::I32, v as i128);
        let ulit = |v: u32| Literal::wrapping(Scalar::U32, v as i128);
        for a in values {
            assert_eq!(unary(UnaryOp::Neg, lit(a)), Some(lit(a.wrapping_neg())));
            assert_eq!(unary(UnaryOp::Abs, lit(a)), Some(lit(a.wrapping_abs())));
            assert_eq!(unary(UnaryOp::Not, lit(a)), Some(lit(!a)));
            assert_eq!(unary(UnaryOp::Clz, lit(a)), Some(lit(a.leading_zeros() as i32)));
            assert_eq!(unary(UnaryOp::Popcount, lit(a)), Some(lit(a.count_ones() as i32)));
            for b in values {
                let (ua, ub) = (a as u32, b as u32);
                let check = |op, signed: Option<i32>, unsigned: Option<u32>| {
                    assert_eq!(binary(op, lit(a), lit(b)), signed.map(lit), "{op:?} {a} {b}");
                    assert_eq!(binary(op, ulit(ua), ulit(ub)), unsigned.map(ulit), "{op:?} {ua} {ub}");
                };
                check(BinaryOp::Add, Some(a.wrapping_add(b)), Some(ua.wrapping_add(ub)));
                check(BinaryOp::Sub, Some(a.wrapping_sub(b)), Some(ua.wrapping_sub(ub)));
                check(BinaryOp::Mul, Some(a.wrapping_mul(b)), Some(ua.wrapping_mul(ub)));
                let div = (b != 0).then(|| a.wrapping_div(b));
                check(BinaryOp::Div, div, ua.checked_div(ub));
                check(BinaryOp::Rem, (b != 0).then(|| a.wrapping_rem(b)), ua.checked_rem(ub));
                check(BinaryOp::Shl, Some(a.wrapping_shl(ub)), Some(ua.wrapping_shl(ub)));
                check(BinaryOp::Shr, Some(a.wrapping_shr(ub)), Some(ua.wrapping_shr(ub)));
                check(BinaryOp::Max, Some(a.max(b)), Some(ua.max(ub)));
            }
        }
    }

    #[test]
    fn f32_agrees_with_the_processor() {
        let values = [0.0f32, -0.0, 1.0, -1.5, 1e-45, 3.4e38, 1e-38, f32::INFINITY, 0.1, 7.25, 1.0e10];
        for a in values {
            let root = Literal::f32(a.abs().sqrt());
            assert_eq!(unary(UnaryOp::Sqrt, Literal::f32(a.abs())), Some(root));
            for b in values {
                let check = |op, expected: f32| {
                    let got =
                        binary(op, Literal::f32(a), Literal::f32(b)).map(|l| f32::from_bits(l.bits() as u32));
                    let same = got.is_some_and(|g| {
                        g.to_bits() == expected.to_bits() || g.is_nan() && expected.is_nan()
                    });
                    assert!(same, "{op:?} {a} {b}: {got:?}, expected {expected}");
                };
                check(BinaryOp::Add, a + b);
                check(BinaryOp::Sub, a - b);
                check(BinaryOp::Mul, a * b);
                check(BinaryOp::Div, a / b);
                check(BinaryOp::Rem, a % b);
            }
        }
    }

    /// Against exact rational arithmetic: a finite f16 is an integer times 2^-24, so a product is
    /// one times 2^-48.
    #[test]
    fn f16_fma_rounds_once() {
        let units = |l: Literal| (l.as_f64() * 16_777_216.0) as i128;
        let mut state = 1u64;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let [a, b, c] = [16, 32, 48].map(|s| f16_of((state >> s) as u16));
            if [a, b, c].iter().any(|l| !l.as_f64().is_finite()) {
                continue;
            }
            let exact = units(a) * units(b) + (units(c) << 24);
            let got = fma(a, b, c).unwrap();
            // The nearest f16: no neighbor is closer, and a tie has an even last bit.
            let distance = |l: Literal| (exact - (units(l) << 24)).abs();
            if !got.as_f64().is_finite() {
                assert!(exact.abs() >= (65520i128 << 48), "{a} * {b} + {c} = {got}");
                continue;
            }
            for neighbor in [got.bits().wrapping_sub(1), got.bits() + 1] {
                let neighbor = f16_of(neighbor as u16);
                if neighbor.as_f64().is_finite() {
                    let (near, far) = (distance(got), distance(neighbor));
                    assert!(near < far || near == far && got.bits() & 1 == 0, "{a} * {b} + {c} = {got}");
                }
            }
        }
    }

    #[test]
    fn casts_round_once() {
        // Halfway between two f16 but for the last bit of the f64.
        let above = f64::from_bits((1.0 + 2f64.powi(-11)).to_bits() + 1);
        assert_eq!(Literal::from_f64(Scalar::F16, above).bits(), u64::from(f16::ONE.to_bits() + 1));
        let above = f64::from_bits((1.0 + 2f64.powi(-8)).to_bits() + 1);
        assert_eq!(Literal::from_f64(Scalar::BF16, above).bits(), u64::from(bf16::ONE.to_bits() + 1));
        // Halfway between two f32 but for the last bit of the i64.
        let big = (1i64 << 62) + (1 << 38) + 1;
        assert_eq!(cast(Literal::index(big), Scalar::F32), Literal::f32(big as f32));
        let big = (1i64 << 62) + (1 << 54) + 1;
        assert_eq!(
            cast(Literal::index(big), Scalar::BF16).as_f64(),
            (1i64 << 62) as f64 * (1.0 + 1.0 / 128.0)
        );
        for v in [i64::MIN, i64::MAX, -1, 0, 1, 1 << 53] {
            assert_eq!(cast(Literal::index(v), Scalar::F32), Literal::f32(v as f32));
            assert_eq!(cast(Literal::index(v), Scalar::F64).as_f64(), v as f64);
            assert_eq!(cast(Literal::index(v), Scalar::I32).as_i128(), (v as i32) as i128);
        }
        assert_eq!(cast(Literal::f32(1e20), Scalar::I32).as_i128(), i32::MAX as i128);
        assert_eq!(cast(Literal::f32(f32::NAN), Scalar::I64).as_i128(), 0);
    }

    /// Values from tables and series of high precision, not from this machine's functions.
    #[test]
    fn extremes_of_functions_are_those_of_the_tables() {
        let smallest = f64::from_bits(1);
        // (operation, argument, value, the relative error that is allowed; of subnormals, in units
        // of the smallest one)
        let table = [
            // sigmoid(-x) = e^-x / (1 + e^-x), and e^-x to 17 digits
            (UnaryOp::Math(MathFn::Sigmoid), -700.0, 9.859_676_543_759_77e-305),
            (UnaryOp::Math(MathFn::Sigmoid), -709.0, 1.216_780_750_623_423e-308),
            (UnaryOp::Math(MathFn::Sigmoid), -710.0, 4.476_286_225_675_13e-309),
            (UnaryOp::Math(MathFn::Sigmoid), -720.0, 2.032_230_802_424_29e-313),
            (UnaryOp::Math(MathFn::Sigmoid), -745.0, smallest),
            (UnaryOp::Math(MathFn::Sigmoid), -746.0, 0.0),
            (UnaryOp::Math(MathFn::Sigmoid), -37.0, 8.533_047_625_744_065e-17),
            (UnaryOp::Math(MathFn::Sigmoid), -1.0, 0.268_941_421_369_995_1),
            (UnaryOp::Math(MathFn::Sigmoid), 1.0, 0.731_058_578_630_004_9),
            (UnaryOp::Math(MathFn::Sigmoid), 800.0, 1.0),
            (UnaryOp::Math(MathFn::Exp), -745.0, smallest),
            (UnaryOp::Math(MathFn::Exp), 709.0, 8.218_407_461_554_972e307),
            (UnaryOp::Exp2, -1074.0, smallest),
            (UnaryOp::Math(MathFn::Log), 5e-324, -744.440_071_921_381_2),
            (UnaryOp::Math(MathFn::Log2), 5e-324, -1074.0),
            (UnaryOp::Math(MathFn::Tanh), 1e-300, 1e-300),
            (UnaryOp::Math(MathFn::Tanh), 0.5, 0.462_117_157_260_009_76),
            (UnaryOp::Math(MathFn::Tanh), -30.0, -1.0),
            // Abramowitz and Stegun, table 7.1, and the series to 16 digits
            (UnaryOp::Math(MathFn::Erf), 0.1, 0.112_462_916_018_284_9),
            (UnaryOp::Math(MathFn::Erf), 0.5, 0.520_499_877_813_046_5),
            (UnaryOp::Math(MathFn::Erf), 1.0, 0.842_700_792_949_714_9),
            (UnaryOp::Math(MathFn::Erf), 2.0, 0.995_322_265_018_952_7),
            (UnaryOp::Math(MathFn::Erf), -3.0, -0.999_977_909_503_001_4),
            (UnaryOp::Math(MathFn::Erf), 1e-300, 1.128_379_167_095_512_6e-300),
            (UnaryOp::Math(MathFn::Erf), 6.0, 1.0),
            (UnaryOp::Rsqrt, smallest, 4.498_913_794_543_196_4e161),
        ];
        for (op, x, want) in table {
            let got = unary(op, Literal::from_f64(Scalar::F64, x)).map(Literal::as_f64).unwrap_or(f64::NAN);
            let close = (got - want).abs() <= want.abs() * 1e-15 + smallest;
            assert!(close, "{op:?}({x}) = {got:e}, not {want:e}");
        }
    }

    #[test]
    fn operations_of_other_types_are_not_folded() {
        for op in [UnaryOp::Math(MathFn::Exp), UnaryOp::Floor, UnaryOp::IsNan, UnaryOp::Math(MathFn::Sigmoid)]
        {
            assert_eq!(unary(op, Literal::index(3)), None, "{op:?}");
        }
        for op in [UnaryOp::Not, UnaryOp::Popcount, UnaryOp::Clz] {
            assert_eq!(unary(op, Literal::f32(3.0)), None, "{op:?}");
        }
        assert_eq!(binary(BinaryOp::Pow, Literal::index(3), Literal::index(3)), None);
        assert_eq!(binary(BinaryOp::Xor, Literal::f32(3.0), Literal::f32(1.0)), None);
    }

    #[test]
    fn nan_and_zeros_in_extrema_and_comparisons() {
        let (nan, one) = (Literal::f32(f32::NAN), Literal::f32(1.0));
        let (plus, minus) = (Literal::f32(0.0), Literal::f32(-0.0));
        for op in [BinaryOp::Min, BinaryOp::Max] {
            assert_eq!(binary(op, nan, one), Some(one));
            assert_eq!(binary(op, one, nan), Some(one));
            assert!(binary(op, nan, nan).is_some_and(|l| l.as_f64().is_nan()));
        }
        assert_eq!(binary(BinaryOp::Min, plus, minus), Some(minus));
        assert_eq!(binary(BinaryOp::Max, minus, plus), Some(plus));
        assert_eq!(binary(BinaryOp::Max, plus, minus), Some(plus));
        for op in CompareOp::ALL {
            assert_eq!(compare(*op, nan, one).is_true(), *op == CompareOp::Ne);
        }
        assert!(compare(CompareOp::Eq, plus, minus).is_true());
    }

    #[test]
    fn identities_leave_numbers_alone() {
        for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max] {
            for elem in Scalar::COMPUTED.into_iter().filter(|&e| e != Scalar::Bool) {
                for v in [0i128, 1, 100] {
                    let v = Literal::wrapping(elem, v);
                    let combined = combination(op).and_then(|b| binary(b, identity(op, elem), v));
                    assert_eq!(combined, Some(v), "{op:?} {elem}");
                }
            }
        }
    }
}
