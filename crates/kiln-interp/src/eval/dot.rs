//! The matrix product.

use crate::numeric::Number;
use crate::value::{Data, Trap, dispatch};

/// `out = acc + a · b` for a: [m, k], b: [k, n], in increasing order of k, with a rounding to the accumulator's type after every product
/// and every sum.
pub fn dot(out: &mut Data, a: &Data, b: &Data, acc: &Data, k: usize, n: usize) -> Result<(), Trap> {
    dispatch!(number a.elem(), T => {
        let a: Vec<_> = widened::<T>(a)?;
        let b: Vec<_> = widened::<T>(b)?;
        product(out, &a, &b, acc, k, n)
    })
}

fn widened<T: Number>(data: &Data) -> Result<Vec<T::Acc>, Trap> {
    Ok(T::of(data)?.iter().map(|x| x.widen()).collect())
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
