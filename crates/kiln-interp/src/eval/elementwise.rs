//! Element-wise operations. A loop over slices for each operation and type; no choice is made inside a loop.

use crate::mask::Mask;
use crate::numeric::{Bits, Element, Float, Int, Number};
use crate::value::{Data, Trap, dispatch};
use kiln_backend::FaultKind;
use kiln_ir::{AtomicOp, BinaryOp, CompareOp, UnaryOp, eval};

fn map<A: Element, R: Element>(out: &mut Data, a: &Data, f: impl Fn(A) -> R) -> Result<(), Trap> {
    for (o, &a) in R::of_mut(out)?.iter_mut().zip(A::of(a)?) {
        *o = f(a);
    }
    Ok(())
}

fn map2<A: Element, R: Element>(
    out: &mut Data,
    a: &Data,
    b: &Data,
    f: impl Fn(A, A) -> R,
) -> Result<(), Trap> {
    for ((o, &a), &b) in R::of_mut(out)?.iter_mut().zip(A::of(a)?).zip(A::of(b)?) {
        *o = f(a, b);
    }
    Ok(())
}

/// `out = op a`.
pub fn unary(op: UnaryOp, out: &mut Data, a: &Data) -> Result<(), Trap> {
    let elem = a.elem();
    if let Some(f) = eval::float_function(op) {
        return dispatch!(float elem, T => map(out, a, |x: T| x.via(f)));
    }
    match op {
        UnaryOp::Neg => dispatch!(number elem, T => map(out, a, <T as Number>::neg)),
        UnaryOp::Abs => dispatch!(number elem, T => map(out, a, <T as Number>::abs)),
        UnaryOp::Not => dispatch!(bits elem, T => map(out, a, <T as Bits>::not)),
        UnaryOp::Popcount => dispatch!(int elem, T => map(out, a, <T as Int>::popcount)),
        UnaryOp::Clz => dispatch!(int elem, T => map(out, a, <T as Int>::clz)),
        UnaryOp::IsNan => dispatch!(float elem, T => map(out, a, <T as Element>::is_nan)),
        _ => Err(Trap::no_operation(elem)),
    }
}

/// `out = a op b`. Integer division by zero faults in the active threads, or anywhere in a tile.
pub fn binary(op: BinaryOp, out: &mut Data, a: &Data, b: &Data, mask: Option<&Mask>) -> Result<(), Trap> {
    let elem = a.elem();
    match op {
        BinaryOp::Add => dispatch!(number elem, T => map2(out, a, b, <T as Number>::add)),
        BinaryOp::Sub => dispatch!(number elem, T => map2(out, a, b, <T as Number>::sub)),
        BinaryOp::Mul => dispatch!(number elem, T => map2(out, a, b, <T as Number>::mul)),
        BinaryOp::Div => dispatch!(number elem, T => divide(out, a, b, mask, <T as Number>::div)),
        BinaryOp::FastDiv => dispatch!(float elem, T => divide(out, a, b, mask, <T as Number>::div)),
        BinaryOp::Rem => dispatch!(number elem, T => divide(out, a, b, mask, <T as Number>::rem)),
        BinaryOp::Min => dispatch!(any elem, T => map2(out, a, b, <T as Element>::least)),
        BinaryOp::Max => dispatch!(any elem, T => map2(out, a, b, <T as Element>::greatest)),
        BinaryOp::And => dispatch!(bits elem, T => map2(out, a, b, <T as Bits>::and)),
        BinaryOp::Or => dispatch!(bits elem, T => map2(out, a, b, <T as Bits>::or)),
        BinaryOp::Xor => dispatch!(bits elem, T => map2(out, a, b, <T as Bits>::xor)),
        BinaryOp::Shl => dispatch!(int elem, T => map2(out, a, b, <T as Int>::shl)),
        BinaryOp::Shr => dispatch!(int elem, T => map2(out, a, b, <T as Int>::shr)),
        BinaryOp::Pow => dispatch!(float elem, T => map2(out, a, b, |x: T, y: T| x.via2(y, libm::pow))),
        BinaryOp::Atan2 => dispatch!(float elem, T => map2(out, a, b, |y: T, x: T| y.via2(x, libm::atan2))),
    }
}

fn divide<T: Number>(
    out: &mut Data,
    a: &Data,
    b: &Data,
    mask: Option<&Mask>,
    f: impl Fn(T, T) -> Option<T>,
) -> Result<(), Trap> {
    let (out, a, b) = (T::of_mut(out)?, T::of(a)?, T::of(b)?);
    for (i, ((o, &a), &b)) in out.iter_mut().zip(a).zip(b).enumerate() {
        *o = match f(a, b) {
            Some(quotient) => quotient,
            None if mask.is_some_and(|m| !m.has(i)) => T::ZERO,
            None => {
                return Err(Trap::Fault { kind: FaultKind::DivisionByZero, lane: mask.map(|_| i) });
            }
        };
    }
    Ok(())
}

/// `out = a op b`, bools.
pub fn compare(op: CompareOp, out: &mut Data, a: &Data, b: &Data) -> Result<(), Trap> {
    dispatch!(any a.elem(), T => match op {
        CompareOp::Eq => map2(out, a, b, |x: T, y: T| x == y),
        CompareOp::Ne => map2(out, a, b, |x: T, y: T| x != y),
        CompareOp::Lt => map2(out, a, b, |x: T, y: T| x.lt(&y)),
        CompareOp::Le => map2(out, a, b, |x: T, y: T| x.le(&y)),
        CompareOp::Gt => map2(out, a, b, |x: T, y: T| x.gt(&y)),
        CompareOp::Ge => map2(out, a, b, |x: T, y: T| x.ge(&y)),
    })
}

/// `out = cond ? a : b`.
pub fn select(out: &mut Data, cond: &Data, a: &Data, b: &Data) -> Result<(), Trap> {
    dispatch!(any a.elem(), T => {
        let cond = bool::of(cond)?;
        let arms = T::of(a)?.iter().zip(T::of(b)?);
        for ((o, &c), (&a, &b)) in T::of_mut(out)?.iter_mut().zip(cond).zip(arms) {
            *o = if c { a } else { b };
        }
        Ok(())
    })
}

/// `out = a * b + c`.
pub fn fma(out: &mut Data, a: &Data, b: &Data, c: &Data) -> Result<(), Trap> {
    dispatch!(number a.elem(), T => {
        let factors = T::of(a)?.iter().zip(T::of(b)?);
        for ((o, (&a, &b)), &c) in T::of_mut(out)?.iter_mut().zip(factors).zip(T::of(c)?) {
            *o = <T as Number>::fma(a, b, c);
        }
        Ok(())
    })
}

/// `out = a as out's type`.
pub fn cast(out: &mut Data, a: &Data) -> Result<(), Trap> {
    dispatch!(any out.elem(), To => dispatch!(any a.elem(), From => map(out, a, <From as Element>::cast::<To>)))
}

/// `out = bits of a`.
pub fn bitcast(out: &mut Data, a: &Data) -> Result<(), Trap> {
    if out.elem().bytes() != a.elem().bytes() {
        return Err(Trap::wrong_type(out.elem(), a.elem()));
    }
    dispatch!(any out.elem(), To => dispatch!(any a.elem(), From => map(out, a, |x: From| <To as Element>::of_bits(x.bits()))))
}

/// The new value an atomic operation leaves, in the bits of an element type.
pub fn combine(op: AtomicOp, elem: kiln_ir::Scalar, old: u64, value: u64) -> Result<u64, Trap> {
    macro_rules! apply {
        ($class:ident, $f:expr) => {
            dispatch!($class elem, T => {
                let f: fn(T, T) -> T = $f;
                Ok(f(Element::of_bits(old), Element::of_bits(value)).bits())
            })
        };
    }
    match op {
        AtomicOp::Add => apply!(number, Number::add),
        AtomicOp::Min => apply!(any, Element::least),
        AtomicOp::Max => apply!(any, Element::greatest),
        AtomicOp::And => apply!(bits, Bits::and),
        AtomicOp::Or => apply!(bits, Bits::or),
        AtomicOp::Xor => apply!(bits, Bits::xor),
        AtomicOp::Exchange => Ok(value),
    }
}
