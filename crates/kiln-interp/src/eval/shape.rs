//! Operations that move elements without changing them.

use crate::register::Register;
use crate::trap::Trap;
use crate::value::{Data, dispatch};
use kiln_ir::Shape;
use kiln_ir::numeric::Element;

/// 0, 1, 2, …
pub fn iota(out: &mut Data) -> Result<(), Trap> {
    dispatch!(int out.elem(), T => {
        for (i, o) in T::of_mut(out)?.iter_mut().enumerate() {
            *o = T::of_u64(i as u64);
        }
        Ok(())
    })
}

/// Stretches axes of extent 1. A scalar operand is read at the element `scalar_at`.
pub fn broadcast(out: &mut Data, to: &Shape, a: &Data, from: &Shape, scalar_at: usize) -> Result<(), Trap> {
    if from.rank() == 0 {
        out.fill(a.bits(scalar_at));
        return Ok(());
    }
    let strides: Vec<usize> =
        (0..from.rank()).map(|i| if from[i] == 1 { 0 } else { from.around(i).2 }).collect();
    dispatch!(any a.elem(), T => {
        strided(T::of_mut(out)?, to, T::of(a)?, &strides);
        Ok(())
    })
}

/// Result axis `i` is operand axis `perm[i]`.
pub fn transpose(out: &mut Data, to: &Shape, a: &Data, from: &Shape, perm: &Shape) -> Result<(), Trap> {
    let strides: Vec<usize> = perm.extents().iter().map(|&p| from.around(p as usize).2).collect();
    dispatch!(any a.elem(), T => {
        strided(T::of_mut(out)?, to, T::of(a)?, &strides);
        Ok(())
    })
}

/// Fills `out`, of shape `to`, with the elements of `a` at these strides.
fn strided<T: Copy>(out: &mut [T], to: &Shape, a: &[T], strides: &[usize]) {
    let last = to.rank() - 1;
    let mut index = vec![0u32; last];
    for row in out.chunks_exact_mut(to[last] as usize) {
        let start: usize = index.iter().zip(strides).map(|(&i, &s)| i as usize * s).sum();
        for (k, o) in row.iter_mut().enumerate() {
            *o = a[start + k * strides[last]];
        }
        advance(&mut index, to.extents());
    }
}

/// The next index in row-major order over the first `index.len()` extents; wraps at the end.
pub fn advance(index: &mut [u32], extents: &[u32]) {
    for axis in (0..index.len()).rev() {
        index[axis] += 1;
        if index[axis] < extents[axis] {
            return;
        }
        index[axis] = 0;
    }
}
