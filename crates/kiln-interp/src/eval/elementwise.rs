//! Element-wise operations: `kiln_ir::eval` says what each computes, and here a loop over slices
//! applies it. No choice is made inside a loop.

use crate::mask::Mask;
use crate::register::Register;
use crate::trap::Trap;
use crate::value::{Data, dispatch};
use kiln_backend::FaultKind;
use kiln_ir::eval::{UseBinary, UseUnary};
use kiln_ir::numeric::{Element, Number};
use kiln_ir::{AtomicOp, BinaryOp, CompareOp, Literal, Scalar, UnaryOp, eval};

fn map<A: Element, R: Element>(out: &mut Data, a: &Data, f: impl Fn(A) -> R) -> Result<(), Trap> {
    for (o, &a) in R::of_mut(out)?.iter_mut().zip(A::of(a)?) {
        *o = f(a);
    }
    Ok(())
}

/// Applies an operation's function to every element of a register.
struct Map<'a> {
    out: &'a mut Data,
    a: &'a Data,
}

impl UseUnary for Map<'_> {
    type Output = Result<(), Trap>;
    fn apply<A: Element, R: Element>(self, f: impl Fn(A) -> R) -> Result<(), Trap> {
        map(self.out, self.a, f)
    }
}

/// As `Map`, of two registers. Where there is no result, active threads and tiles fault.
struct Zip<'a> {
    out: &'a mut Data,
    a: &'a Data,
    b: &'a Data,
    mask: Option<&'a Mask>,
}

impl UseBinary for Zip<'_> {
    type Output = Result<(), Trap>;
    fn apply<A: Element, R: Element>(self, f: impl Fn(A, A) -> Option<R>) -> Result<(), Trap> {
        let (out, a, b) = (R::of_mut(self.out)?, A::of(self.a)?, A::of(self.b)?);
        for (i, ((o, &a), &b)) in out.iter_mut().zip(a).zip(b).enumerate() {
            *o = match f(a, b) {
                Some(result) => result,
                None if self.mask.is_some_and(|m| !m.has(i)) => R::of_bits(0),
                None => {
                    let lane = self.mask.map(|_| i);
                    return Err(Trap::Fault { kind: FaultKind::DivisionByZero, lane });
                }
            };
        }
        Ok(())
    }
}

/// `out = op a`.
pub fn unary(op: UnaryOp, out: &mut Data, a: &Data) -> Result<(), Trap> {
    let elem = a.elem();
    eval::with_unary(op, elem, Map { out, a }).unwrap_or(Err(Trap::no_operation(elem)))
}

/// `out = a op b`. Integer division by zero faults in the active threads, or anywhere in a tile.
pub fn binary(op: BinaryOp, out: &mut Data, a: &Data, b: &Data, mask: Option<&Mask>) -> Result<(), Trap> {
    let elem = a.elem();
    eval::with_binary(op, elem, Zip { out, a, b, mask }).unwrap_or(Err(Trap::no_operation(elem)))
}

/// `out = a op b`, bools.
pub fn compare(op: CompareOp, out: &mut Data, a: &Data, b: &Data) -> Result<(), Trap> {
    let elem = a.elem();
    eval::with_compare(op, elem, Zip { out, a, b, mask: None }).unwrap_or(Err(Trap::no_operation(elem)))
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
    // By way of the bits: a loop for each type, not one for each pair of types.
    let bits: Vec<u64> =
        dispatch!(any a.elem(), From => Ok(From::of(a)?.iter().map(|x| x.bits()).collect()))?;
    dispatch!(any out.elem(), To => {
        for (o, &bits) in To::of_mut(out)?.iter_mut().zip(&bits) {
            *o = <To as Element>::of_bits(bits);
        }
        Ok(())
    })
}

/// The new value an atomic operation leaves, in the bits of an element type.
pub fn combine(op: AtomicOp, elem: Scalar, old: u64, value: u64) -> Result<u64, Trap> {
    let [old, value] = [old, value].map(|bits| Literal::from_bits(elem, bits));
    eval::atomic(op, old, value).map(Literal::bits).ok_or_else(|| Trap::no_operation(elem))
}
