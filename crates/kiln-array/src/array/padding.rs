//! Elements put around an array.

use super::create::constant;
use crate::dtype::{Kind, kind};
use crate::error::{Error, Result, Site};
use crate::node::Array;
use crate::op::Op;
use crate::shape::Extents;
use kiln_ir::{Literal, Scalar};
use std::panic::Location;

/// What [`pad_with`](Array::pad_with) puts around an array: the modes of NumPy's `pad`.
///
/// ```
/// use kiln_array::{Array, Padding};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[1, 2, 3], &[3]);
/// let around = |with| x.pad_with(&[(2, 3)], with).to_vec::<i32>();
/// assert_eq!(around(Padding::Constant(7.0))?, [7, 7, 1, 2, 3, 7, 7, 7]);
/// assert_eq!(around(Padding::Edge)?, [1, 1, 1, 2, 3, 3, 3, 3]);
/// assert_eq!(around(Padding::Reflect)?, [3, 2, 1, 2, 3, 2, 1, 2]);
/// assert_eq!(around(Padding::Symmetric)?, [2, 1, 1, 2, 3, 3, 2, 1]);
/// assert_eq!(around(Padding::Wrap)?, [2, 3, 1, 2, 3, 1, 2, 3]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Padding {
    /// One number, of the array's element type.
    Constant(f64),
    /// The first and the last element of each axis.
    Edge,
    /// The axis mirrored at its first and last element, which are not repeated.
    Reflect,
    /// The axis mirrored at its ends, so that the first and last element are repeated.
    Symmetric,
    /// The axis from its other end on.
    Wrap,
}

impl Array {
    /// Zeros (or `false`) around it: for each axis, so many before its first element and after its
    /// last one.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1, 2], &[2]).pad(&[(1, 2)]);
    /// assert_eq!(x.to_vec::<i32>()?, [0, 1, 2, 0, 0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there are not as many pairs as axes.
    #[track_caller]
    pub fn pad(&self, widths: &[(usize, usize)]) -> Array {
        self.padded("pad", widths, Location::caller())
    }

    /// Elements around it: for each axis, so many before its first element and after its last one.
    ///
    /// ```
    /// # use kiln_array::{Array, Padding};
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1.0f32, 2.0, 3.0, 4.0], &[2, 2]);
    /// let wide = x.pad_with(&[(0, 0), (1, 1)], Padding::Constant(f64::INFINITY));
    /// assert_eq!(wide.slice(0, 0..1).to_vec::<f32>()?, [f32::INFINITY, 1.0, 2.0, f32::INFINITY]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there are not as many pairs as axes, if the number is none of the
    /// array's element type, or if an axis of no elements is to be repeated.
    #[track_caller]
    pub fn pad_with(&self, widths: &[(usize, usize)], with: Padding) -> Array {
        let site = Location::caller();
        let padded = || match with {
            Padding::Constant(number) => self.surrounded(widths, number, site),
            Padding::Edge | Padding::Reflect | Padding::Symmetric | Padding::Wrap => {
                self.continued(widths, with, site)
            }
        };
        padded().unwrap_or_else(|error| Array::failed(error, site))
    }

    fn padded(&self, name: &'static str, widths: &[(usize, usize)], site: Site) -> Array {
        let op = || {
            let shape = self.padded_shape(widths)?;
            Ok((Op::Pad { before: widths.iter().map(|width| width.0).collect() }, shape))
        };
        if self.is_empty()
            && self.error().is_none()
            && let (Ok((_, shape)), Some(device)) = (op(), self.device())
        {
            // Nothing of it is left to read.
            return constant(device, name, Literal::zero(self.dtype()), &shape, site);
        }
        self.view(site, op, name)
    }

    /// The shape with these widths, or what is wrong with them.
    fn padded_shape(&self, widths: &[(usize, usize)]) -> std::result::Result<Extents, String> {
        if widths.len() != self.rank() {
            return Err(format!("{} pairs of widths for shape {:?}", widths.len(), self.shape()));
        }
        let extent = |(&extent, &(before, after)): (&usize, &(usize, usize))| {
            extent.checked_add(before)?.checked_add(after)
        };
        let shape = self.shape().iter().zip(widths).map(extent).collect::<Option<Extents>>();
        shape.ok_or_else(|| format!("widths {widths:?} are too large"))
    }

    /// The array in the middle of one number.
    fn surrounded(&self, widths: &[(usize, usize)], number: f64, site: Site) -> Result<Array> {
        let padded = self.padded("pad_with", widths, site);
        let (None, Some(device)) = (padded.error(), self.device()) else { return Ok(padded) };
        let outside = self.exactly(number, site)?;
        let inside = constant(device, "pad_with", Literal::bool(true), self.shape(), site);
        let inside = inside.padded("pad_with", widths, site);
        Ok(padded.where_(&inside, constant(device, "pad_with", outside, &[], site)))
    }

    /// The number as one of the elements.
    fn exactly(&self, number: f64, location: Site) -> Result<Literal> {
        let dtype = self.dtype();
        let whole = (number.fract() == 0.0).then_some(number as i128);
        let literal = match kind(dtype) {
            Kind::Float => Some(Literal::from_f64(dtype, number)),
            Kind::Integer => whole.and_then(|whole| Literal::from_i128(dtype, whole)),
            Kind::Bool => whole.filter(|whole| [0, 1].contains(whole)).map(|whole| Literal::bool(whole == 1)),
        };
        let problem = || format!("{number} is no element of type {dtype}");
        literal.ok_or_else(|| Error::Shape { op: "pad_with", problem: problem(), location })
    }

    /// The array, which goes on beyond its ends.
    fn continued(&self, widths: &[(usize, usize)], with: Padding, location: Site) -> Result<Array> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        let refused = |problem| Error::Shape { op: "pad_with", problem, location };
        let shape = self.padded_shape(widths).map_err(refused)?;
        let mut x = self.clone();
        for (axis, &(before, after)) in widths.iter().enumerate() {
            if (before, after) == (0, 0) {
                continue;
            }
            let extent = self.shape()[axis];
            if extent == 0 {
                return Err(refused(format!("axis {axis} has no elements to go on with")));
            }
            let Some(device) = self.device() else { return Ok(x) };
            let mut along = Extents::from_elem(1, self.rank());
            along[axis] = shape[axis];
            let mut whole = Extents::from_slice(x.shape());
            whole[axis] = shape[axis];
            let place = Array::iota(device, &along, axis, location) - before as i64;
            let source = source_of(&place, extent as i64, with).cast_at(Scalar::I64, location);
            x = x.gathered(&source.stretched(&whole, location), axis, location);
        }
        Ok(x)
    }
}

/// Which element of an axis of `extent` stands at a place that may lie before or behind it.
fn source_of(place: &Array, extent: i64, with: Padding) -> Array {
    let mirrored = |period: i64, last: i64| {
        let along = place % period;
        along.minimum(last - &along)
    };
    match with {
        Padding::Reflect if extent > 1 => mirrored(2 * (extent - 1), 2 * (extent - 1)),
        Padding::Symmetric => mirrored(2 * extent, 2 * extent - 1),
        Padding::Wrap => place % extent,
        Padding::Reflect | Padding::Edge | Padding::Constant(_) => place.clip(0, extent - 1),
    }
}
