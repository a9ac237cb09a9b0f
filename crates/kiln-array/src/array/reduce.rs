//! Sums, means, extremes, and where those are.
//!
//! Each comes in three forms: over all elements (`sum`), along axes that go (`sum_axes`), and along
//! axes that stay with an extent of 1 (`sum_keep`), so that the result combines with the array. In
//! the last two no axes at all are all axes.

use super::arithmetic::binary;
use crate::dtype::{Kind, accumulator, kind, mean_of, sum_of};
use crate::error::{Error, Site};
use crate::node::{Array, Made};
use crate::op::Op;
use crate::shape::{Extents, kept, without};
use kiln_ir::{Literal, ReduceOp, Scalar, eval};
use std::panic::Location;

/// Combines along axes, which go.
pub(crate) fn reduce(op: ReduceOp, x: &Array, axes: &[usize], site: Site) -> Array {
    reduce_of((op, false), x, axes, site)
}

/// A sum over axes, of 16-bit floats in f32.
pub(crate) fn wide_sum(x: &Array, axes: &[usize], site: Site) -> Array {
    let wide = x.cast_at(x.dtype().accumulator(), site);
    reduce(ReduceOp::Sum, &wide, axes, site).cast_at(x.dtype(), site)
}

fn reduce_of((op, numbers_only): (ReduceOp, bool), x: &Array, axes: &[usize], site: Site) -> Array {
    // One that has failed has no axes.
    if x.error().is_some() {
        return x.clone();
    }
    let shape = without(x.shape(), axes);
    let axes: Extents = axes.iter().copied().filter(|&axis| x.shape()[axis] != 1).collect();
    if axes.is_empty() {
        return x.reshaped(&shape, site);
    }
    if axes.iter().any(|&axis| x.shape()[axis] == 0) {
        return x.of_nothing(op, &shape, site);
    }
    if let Some(divided) = divided(op, x, &axes, site) {
        return divided.reshaped(&shape, site);
    }
    // Axes of extent 1 are no work.
    let reduced = without(x.shape(), &axes);
    let made = Made { op: Op::Reduce { op, axes, numbers_only }, dtype: x.dtype(), shape: reduced };
    Array::record(&[x], site, || Ok(made)).reshaped(&shape, site)
}

impl Array {
    /// The greatest element along an axis, which becomes 1, as what rows are shifted by before an
    /// exponential: one that is NaN is left out, as a sum of the exponentials has it.
    #[track_caller]
    pub(crate) fn shift_along(&self, axis: isize) -> Array {
        let site = Location::caller();
        match self.axis_at("max", axis, site) {
            Ok(at) if self.shape()[at] > 0 => {
                let greatest = reduce_of((ReduceOp::Max, true), self, &[at], site);
                greatest.reshaped(&kept(self.shape(), &[at]), site).passed_without_gradient(site)
            }
            _ => self.max_keep(&[axis]).stop_gradient(),
        }
    }
}

/// Elements from which on few results are combined in two kernels: along the last axis, and along
/// others, where a program takes several results side by side.
const LONG: [usize; 2] = [1 << 16, 1 << 11];

/// Results that a program takes along other axes than the last one.
const BESIDE: usize = 64;

/// Results that are enough to keep a device busy with one program each.
const MANY: usize = 64;

/// Parts into which a long row is divided, at least; and, of very long rows, elements of a part and
/// parts of all rows, which are some rounds of a GPU's multiprocessors.
const PARTS: usize = 64;
const PART: usize = 1 << 15;
const ALL_PARTS: usize = 1024;

/// A long reduction to few numbers: of parts, which programs combine side by side, and then of what
/// they give. `None` where that is not worth it.
fn divided(op: ReduceOp, x: &Array, axes: &[usize], site: Site) -> Option<Array> {
    let kept_axes: Extents = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
    let rows: usize = kept_axes.iter().map(|&axis| x.shape()[axis]).product();
    let row: usize = axes.iter().map(|&axis| x.shape()[axis]).product();
    let last = (0..x.rank()).rev().find(|&axis| x.shape()[axis] != 1);
    let is_last = last.is_some_and(|last| axes.contains(&last));
    let (long, programs) = if is_last { (LONG[0], rows) } else { (LONG[1], rows.div_ceil(BESIDE)) };
    if row < long || programs >= MANY {
        return None;
    }
    let order = kept_axes.iter().chain(axes).copied().collect();
    let flat = x.ordered(order, site).reshaped(&[rows, row], site);
    // Parts of one length, if there are; else the last elements are a rest.
    let least = (row / PART).min(ALL_PARTS / rows.max(1)).max(PARTS);
    let parts = (least..4 * least).find(|&parts| row.is_multiple_of(parts)).unwrap_or(least);
    let length = row / parts;
    let whole = flat.part(1, 0, parts * length, 1, site).reshaped(&[rows, parts, length], site);
    let total = reduce(op, &reduce(op, &whole, &[2], site), &[1], site);
    let rest = row - parts * length;
    if rest == 0 {
        return Some(total);
    }
    let rest = reduce(op, &flat.part(1, parts * length, rest, 1, site), &[1], site);
    Some(binary(eval::combination(op)?, &total, &rest, None, site))
}

/// Which axes, and whether they stay.
#[derive(Clone, Copy)]
struct Along<'a> {
    axes: &'a [isize],
    stay: bool,
}

impl Array {
    /// What a reduction of no elements gives.
    fn of_nothing(&self, op: ReduceOp, shape: &[usize], site: Site) -> Array {
        let number = match op {
            ReduceOp::Sum | ReduceOp::Or | ReduceOp::Xor => Literal::zero(self.dtype()),
            ReduceOp::Prod | ReduceOp::And => Literal::one(self.dtype()),
            ReduceOp::Min | ReduceOp::Max | ReduceOp::ArgMin | ReduceOp::ArgMax => {
                return self.no_elements(op.name(), site);
            }
        };
        let Some(device) = self.device() else { return self.clone() };
        super::create::constant(device, op.name(), number, shape, site)
    }

    fn no_elements(&self, op: &'static str, site: Site) -> Array {
        let problem = format!("no elements along an axis of shape {:?}", self.shape());
        Array::failed(Error::Shape { op, problem, location: site }, site)
    }

    /// Reduces along checked axes.
    fn along(
        &self,
        name: &'static str,
        along: Along<'_>,
        site: Site,
        f: impl FnOnce(&[usize]) -> Array,
    ) -> Array {
        match self.axes_at(name, along.axes, site) {
            Err(error) => Array::failed(error, site),
            Ok(axes) => {
                let reduced = f(&axes).called(name);
                match along.stay && reduced.error().is_none() {
                    true => reduced.reshaped(&kept(self.shape(), &axes), site),
                    false => reduced,
                }
            }
        }
    }

    fn sum_along(&self, along: Along<'_>, site: Site) -> Array {
        self.added(ReduceOp::Sum, "sum", along, site)
    }

    fn prod_along(&self, along: Along<'_>, site: Site) -> Array {
        self.added(ReduceOp::Prod, "prod", along, site)
    }

    /// Sums and products: of 16-bit floats in f32, of integers in i64.
    fn added(&self, op: ReduceOp, name: &'static str, along: Along<'_>, site: Site) -> Array {
        self.along(name, along, site, |axes| {
            let wide = self.cast_at(accumulator(self.dtype()), site);
            reduce(op, &wide, axes, site).cast_at(sum_of(self.dtype()), site)
        })
    }

    fn mean_along(&self, along: Along<'_>, site: Site) -> Array {
        self.along("mean", along, site, |axes| {
            let count: usize = axes.iter().map(|&axis| self.shape()[axis]).product();
            let dtype = mean_of(self.dtype());
            let wide = self.cast_at(accumulator(dtype), site);
            (reduce(ReduceOp::Sum, &wide, axes, site) / count as f64).cast_at(dtype, site)
        })
    }

    fn var_along(&self, along: Along<'_>, site: Site) -> Array {
        self.along("var", along, site, |axes| {
            let count: usize = axes.iter().map(|&axis| self.shape()[axis]).product();
            let dtype = mean_of(self.dtype());
            let wide = self.cast_at(accumulator(dtype), site);
            let mean = reduce(ReduceOp::Sum, &wide, axes, site) / count as f64;
            let centered = &wide - mean.reshaped(&kept(self.shape(), axes), site);
            (reduce(ReduceOp::Sum, &centered.square(), axes, site) / count as f64).cast_at(dtype, site)
        })
    }

    fn std_along(&self, along: Along<'_>, site: Site) -> Array {
        let dtype = mean_of(self.dtype());
        let root = |x: Array| super::functions::unary(kiln_ir::UnaryOp::Sqrt, &x, site).cast_at(dtype, site);
        root(self.cast_at(accumulator(dtype), site).var_along(along, site))
    }

    fn norm_along(&self, along: Along<'_>, site: Site) -> Array {
        self.along("norm", along, site, |axes| {
            let dtype = mean_of(self.dtype());
            let wide = self.cast_at(accumulator(dtype), site);
            let squares = reduce(ReduceOp::Sum, &wide.square(), axes, site);
            super::functions::unary(kiln_ir::UnaryOp::Sqrt, &squares, site).cast_at(dtype, site)
        })
    }

    fn max_along(&self, along: Along<'_>, site: Site) -> Array {
        self.extreme(ReduceOp::Max, "max", along, site)
    }

    fn min_along(&self, along: Along<'_>, site: Site) -> Array {
        self.extreme(ReduceOp::Min, "min", along, site)
    }

    fn extreme(&self, op: ReduceOp, name: &'static str, along: Along<'_>, site: Site) -> Array {
        let op = match (kind(self.dtype()), op) {
            (Kind::Bool, ReduceOp::Max) => ReduceOp::Or,
            (Kind::Bool, _) => ReduceOp::And,
            (Kind::Integer | Kind::Float, op) => op,
        };
        self.along(name, along, site, |axes| reduce(op, self, axes, site))
    }

    fn any_along(&self, along: Along<'_>, site: Site) -> Array {
        self.along("any", along, site, |axes| {
            reduce(ReduceOp::Or, &self.cast_at(Scalar::Bool, site), axes, site)
        })
    }

    fn all_along(&self, along: Along<'_>, site: Site) -> Array {
        self.along("all", along, site, |axes| {
            reduce(ReduceOp::And, &self.cast_at(Scalar::Bool, site), axes, site)
        })
    }

    /// The i64 index along an axis of its first greatest element, or of its first NaN. The axis
    /// goes.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1.0f32, 3.0, 2.0, 5.0, 4.0, 5.0], &[2, 3]);
    /// assert_eq!(x.argmax(-1).to_vec::<i64>()?, [1, 0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there is no such axis, or if it has no elements.
    #[track_caller]
    pub fn argmax(&self, axis: isize) -> Array {
        self.position("argmax", axis, Array::max_along, Location::caller())
    }

    /// The i64 index along an axis of its first least element, or of its first NaN. The axis goes.
    ///
    /// # Errors
    /// As of [`argmax`](Self::argmax).
    #[track_caller]
    pub fn argmin(&self, axis: isize) -> Array {
        self.position("argmin", axis, Array::min_along, Location::caller())
    }

    /// The least index whose element is the extreme one.
    fn position(
        &self,
        name: &'static str,
        axis: isize,
        extreme: fn(&Array, Along<'_>, Site) -> Array,
        site: Site,
    ) -> Array {
        let at = match self.axis_at(name, axis, site) {
            Ok(at) => at,
            Err(error) => return Array::failed(error, site),
        };
        if self.shape()[at] == 0 {
            return self.no_elements(name, site);
        }
        let Some(device) = self.device() else { return self.clone() };
        let best = extreme(self, Along { axes: &[axis], stay: true }, site);
        let hit = self.equal(&best) | self.is_nan();
        let index = Array::iota(device, self.shape(), at, site);
        let none = self.shape()[at] as i64;
        reduce(ReduceOp::Min, &index.where_(&hit, none), &[at], site)
    }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $all:ident $axes:ident $keep:ident $f:ident;)*) => {
        impl Array {$(
            $(#[$doc])*
            ///
            /// Over all elements.
            #[track_caller]
            pub fn $all(&self) -> Array {
                self.$f(Along { axes: &[], stay: false }, Location::caller())
            }

            $(#[$doc])*
            ///
            /// Along axes, which go; along all of them if none is named.
            #[track_caller]
            pub fn $axes(&self, axes: &[isize]) -> Array {
                self.$f(Along { axes, stay: false }, Location::caller())
            }

            $(#[$doc])*
            ///
            /// Along axes, which stay with an extent of 1, so that the result combines with the
            /// array; along all of them if none is named.
            #[track_caller]
            pub fn $keep(&self, axes: &[isize]) -> Array {
                self.$f(Along { axes, stay: true }, Location::caller())
            }
        )*}
    };
}

reductions! {
    /// The sum: of integers and bool in i64. 16-bit floats are added up in f32 and rounded once, to
    /// their own type. Zero of no elements.
    sum sum_axes sum_keep sum_along;
    /// The product, in the types of the [sum](Self::sum). One of no elements.
    prod prod_axes prod_keep prod_along;
    /// The mean: of integers and bool in f64. NaN of no elements.
    mean mean_axes mean_keep mean_along;
    /// The variance: the mean of the squared distances from the mean, in the types of the
    /// [mean](Self::mean). It divides by the number of elements, as NumPy's `var`.
    var var_axes var_keep var_along;
    /// The standard deviation: the root of the [variance](Self::var).
    std std_axes std_keep std_along;
    /// The Euclidean norm, the root of the sum of the squares, in the types of the
    /// [mean](Self::mean): NumPy's `linalg.norm` of all elements as one vector, and the array API's
    /// `vector_norm`. Zero of no elements. Where all elements are zero its gradient is NaN, as in
    /// JAX. Norms of matrices are [`matrix_norm`](Self::matrix_norm).
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[3.0f32, 4.0, 0.0, -2.0], &[2, 2]);
    /// assert_eq!(x.norm_axes(&[1]).to_vec::<f32>()?, [5.0, 2.0]);
    /// assert_eq!((&x / x.norm_keep(&[1])).to_vec::<f32>()?, [0.6, 0.8, 0.0, -1.0]); // of length 1
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    norm norm_axes norm_keep norm_along;
    /// The greatest element; NaN where one is. There is none of no elements: the result has an
    /// error.
    max max_axes max_keep max_along;
    /// The least element; NaN where one is. There is none of no elements: the result has an error.
    min min_axes min_keep min_along;
    /// Whether an element is true, or not zero, as NaN is. False of no elements.
    any any_axes any_keep any_along;
    /// Whether all elements are true, or not zero, as NaN is. True of no elements.
    all all_axes all_keep all_along;
}
