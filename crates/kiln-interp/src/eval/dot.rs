//! The matrix product.

use super::elementwise::cast;
use crate::register::Register;
use crate::trap::Trap;
use crate::value::{Data, dispatch};
use kiln_ir::Scalar;
use kiln_ir::numeric::Number;
use std::borrow::Cow;

/// `out = acc + a · b` for a: [m, k], b: [k, n], in increasing order of k, with a rounding to the
/// accumulator's type after every product and every sum. Factors count in full whatever precision
/// is asked for.
pub fn dot(out: &mut Data, a: &Data, b: &Data, acc: &Data, k: usize, n: usize) -> Result<(), Trap> {
    let (a, b) = (widened(a, acc.elem())?, widened(b, acc.elem())?);
    dispatch!(number acc.elem(), T => product::<T>(out, T::of(&a)?, T::of(&b)?, acc, k, n))
}

/// Elements in the type of their sums, which holds them all.
fn widened(data: &Data, sum: Scalar) -> Result<Cow<'_, Data>, Trap> {
    if data.elem() == sum {
        return Ok(Cow::Borrowed(data));
    }
    let mut wide = Data::zeros(sum, data.len());
    cast(&mut wide, data)?;
    Ok(Cow::Owned(wide))
}

fn product<A: Number>(out: &mut Data, a: &[A], b: &[A], acc: &Data, k: usize, n: usize) -> Result<(), Trap> {
    out.copy(acc)?;
    let rows = A::of_mut(out)?.chunks_exact_mut(n).zip(a.chunks_exact(k));
    for (out_row, a_row) in rows {
        for (&x, b_row) in a_row.iter().zip(b.chunks_exact(n)) {
            for (o, &y) in out_row.iter_mut().zip(b_row) {
                *o = o.add(x.mul(y));
            }
        }
    }
    Ok(())
}
