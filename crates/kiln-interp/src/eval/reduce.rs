//! Reductions and scans along an axis.

use crate::register::Register;
use crate::trap::Trap;
use crate::value::{Data, dispatch};
use kiln_ir::numeric::{Bits, Element, Number};
use kiln_ir::{ReduceOp, Shape};

/// Combines the elements of `a` along an axis. The first elements of `out` are written, as many as
/// the reduced shape has.
pub fn reduce(op: ReduceOp, out: &mut Data, a: &Data, shape: &Shape, axis: usize) -> Result<(), Trap> {
    let around = shape.around(axis);
    let elem = a.elem();
    match op {
        ReduceOp::Sum => dispatch!(number elem, T => along(out, a, around, pairwise_acc::<T>(Number::add))),
        ReduceOp::Prod => dispatch!(number elem, T => along(out, a, around, pairwise_acc::<T>(Number::mul))),
        ReduceOp::Min => dispatch!(any elem, T => along(out, a, around, |x: &[T]| pairwise(x, &T::least))),
        ReduceOp::Max => dispatch!(any elem, T => along(out, a, around, |x: &[T]| pairwise(x, &T::greatest))),
        ReduceOp::And => dispatch!(bits elem, T => along(out, a, around, |x: &[T]| pairwise(x, &T::and))),
        ReduceOp::Or => dispatch!(bits elem, T => along(out, a, around, |x: &[T]| pairwise(x, &T::or))),
        ReduceOp::Xor => dispatch!(bits elem, T => along(out, a, around, |x: &[T]| pairwise(x, &T::xor))),
        ReduceOp::ArgMin => {
            dispatch!(any elem, T => along(out, a, around, |x: &[T]| first_best(x, T::lt)))
        }
        ReduceOp::ArgMax => {
            dispatch!(any elem, T => along(out, a, around, |x: &[T]| first_best(x, T::gt)))
        }
    }
}

/// Gathers each line of `a` along the axis and stores what `f` makes of it.
fn along<T: Element, R: Element>(
    out: &mut Data,
    a: &Data,
    (outer, extent, inner): (usize, usize, usize),
    f: impl Fn(&[T]) -> R,
) -> Result<(), Trap> {
    let out = R::of_mut(out)?;
    each_line(T::of(a)?, (outer, extent, inner), &mut |at, line| out[at] = f(line));
    Ok(())
}

/// Calls `visit` with the number and the elements of each line along the axis. Not generic over
/// what is done with them, which is little beside gathering them, nor compiled into each caller.
#[inline(never)]
fn each_line<T: Element>(
    a: &[T],
    (outer, extent, inner): (usize, usize, usize),
    visit: &mut dyn FnMut(usize, &[T]),
) {
    let mut line = Vec::with_capacity(extent);
    for o in 0..outer {
        for i in 0..inner {
            line.clear();
            line.extend(a[o * extent * inner + i..].iter().step_by(inner).take(extent));
            visit(o * inner + i, &line);
        }
    }
}

/// Combines by halving, which keeps the rounding error of sums logarithmic in the length. The slice
/// is not empty.
fn pairwise<T: Copy>(x: &[T], f: &impl Fn(T, T) -> T) -> T {
    if x.len() <= 8 {
        return x[1..].iter().fold(x[0], |a, &b| f(a, b));
    }
    let (left, right) = x.split_at(x.len() / 2);
    f(pairwise(left, f), pairwise(right, f))
}

fn pairwise_acc<T: Number>(f: fn(T::Acc, T::Acc) -> T::Acc) -> impl Fn(&[T]) -> T {
    move |x| {
        let wide: Vec<T::Acc> = x.iter().map(|v| v.widen()).collect();
        T::narrow(pairwise(&wide, &f))
    }
}

/// The position of the first element that beats all others; NaN never does.
fn first_best<T: Element>(x: &[T], beats: impl Fn(&T, &T) -> bool) -> i64 {
    let mut best = 0;
    for (i, v) in x.iter().enumerate() {
        if beats(v, &x[best]) || (x[best].is_nan() && !v.is_nan()) {
            best = i;
        }
    }
    best as i64
}

/// The direction and kind of a scan.
#[derive(Clone, Copy)]
pub struct Order {
    /// From the last element to the first.
    pub reverse: bool,
    /// Without the element itself.
    pub exclusive: bool,
}

/// Running combination of `a` along an axis.
pub fn scan(
    op: ReduceOp,
    order: Order,
    out: &mut Data,
    a: &Data,
    shape: &Shape,
    axis: usize,
) -> Result<(), Trap> {
    let lines = Lines { around: shape.around(axis), order };
    let elem = a.elem();
    match op {
        ReduceOp::Sum => dispatch!(number elem, T => lines.run_acc::<T>(out, a, Number::ZERO, Number::add)),
        ReduceOp::Prod => dispatch!(number elem, T => lines.run_acc::<T>(out, a, Number::ONE, Number::mul)),
        ReduceOp::Min => dispatch!(any elem, T => lines.run(out, a, T::GREATEST, T::least)),
        ReduceOp::Max => dispatch!(any elem, T => lines.run(out, a, T::LEAST, T::greatest)),
        ReduceOp::And => dispatch!(bits elem, T => lines.run(out, a, T::ALL, T::and)),
        ReduceOp::Or => dispatch!(bits elem, T => lines.run(out, a, T::NONE, T::or)),
        ReduceOp::Xor => dispatch!(bits elem, T => lines.run(out, a, T::NONE, T::xor)),
        ReduceOp::ArgMin | ReduceOp::ArgMax => {
            Err(Trap::Bug("a scan cannot combine with argmin or argmax".into()))
        }
    }
}

struct Lines {
    around: (usize, usize, usize),
    order: Order,
}

impl Lines {
    fn run<T: Element>(&self, out: &mut Data, a: &Data, identity: T, f: fn(T, T) -> T) -> Result<(), Trap> {
        self.walk(out, a, identity, f, |x: T| x, |acc| acc)
    }

    fn run_acc<T: Number>(
        &self,
        out: &mut Data,
        a: &Data,
        identity: T::Acc,
        f: fn(T::Acc, T::Acc) -> T::Acc,
    ) -> Result<(), Trap> {
        self.walk(out, a, identity, f, T::widen, T::narrow)
    }

    fn walk<T: Element, A: Copy>(
        &self,
        out: &mut Data,
        a: &Data,
        identity: A,
        f: fn(A, A) -> A,
        widen: impl Fn(T) -> A,
        narrow: impl Fn(A) -> T,
    ) -> Result<(), Trap> {
        let (outer, extent, inner) = self.around;
        let (out, a) = (T::of_mut(out)?, T::of(a)?);
        for line in 0..outer * inner {
            let start = line / inner * extent * inner + line % inner;
            let mut acc: Option<A> = None;
            for k in 0..extent {
                let k = if self.order.reverse { extent - 1 - k } else { k };
                let at = start + k * inner;
                let x = widen(a[at]);
                let next = acc.map_or(x, |acc| f(acc, x));
                out[at] = narrow(if self.order.exclusive { acc.unwrap_or(identity) } else { next });
                acc = Some(next);
            }
        }
        Ok(())
    }
}
