//! Elements in other places, several times, or in part: all of it indices of what reads them.

use super::join::concatenate;
use crate::error::{Error, Result, Site};
use crate::node::{Array, common_device};
use crate::shape::{Extents, without};
use kiln_ir::Literal;
use std::panic::Location;

/// The coordinates of a grid, of those along each of its axes: for each array, of one axis or a
/// number, one of the grid's shape, whose elements follow the array along its own axis and are
/// equal along the others. They take no memory.
///
/// It is NumPy's `meshgrid` with `indexing="ij"`. NumPy's default, for x and y of an image, is that
/// with the first two axes of all results [swapped](Array::swap_axes).
///
/// ```
/// use kiln_array::{Array, meshgrid};
/// let device = kiln_runtime::Device::open("interp")?;
/// let (rows, columns) = (Array::arange(&device, 2), Array::arange(&device, 3) * 10);
/// let grid = meshgrid(&[&rows, &columns]);
/// assert_eq!(grid[0].to_vec::<i64>()?, [0, 0, 0, 1, 1, 1]);
/// assert_eq!((&grid[0] + &grid[1]).to_vec::<i64>()?, [0, 10, 20, 1, 11, 21]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// The results have an error if an array has more than one axis, or if arrays are on two devices.
#[track_caller]
pub fn meshgrid(arrays: &[&Array]) -> Vec<Array> {
    let site = Location::caller();
    let grid = || -> Result<Vec<Array>> {
        if let Some(error) = arrays.iter().find_map(|array| array.error()) {
            return Err(error);
        }
        common_device(arrays, "meshgrid", site)?;
        if let Some(wrong) = arrays.iter().find(|array| array.rank() > 1) {
            let problem = format!("an array of shape {:?}: each is one axis of the grid", wrong.shape());
            return Err(Error::Shape { op: "meshgrid", problem, location: site });
        }
        let shape: Extents = arrays.iter().map(|array| array.len()).collect();
        let one = |(at, array): (usize, &&Array)| {
            let mut own = Extents::from_elem(1, shape.len());
            own[at] = array.len();
            super::create::checked_size("meshgrid", &shape, array.dtype(), site)?;
            Ok(array.reshaped(&own, site).stretched(&shape, site))
        };
        arrays.iter().enumerate().map(one).collect()
    };
    grid().unwrap_or_else(|error| arrays.iter().map(|_| Array::failed(error.clone(), site)).collect())
}

impl Array {
    /// The elements moved along an axis by so many places, towards its end if that is positive;
    /// those that leave it come in again at the other end.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::arange(&device, 5);
    /// assert_eq!(x.roll(2, 0).to_vec::<i64>()?, [3, 4, 0, 1, 2]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn roll(&self, by: isize, axis: isize) -> Array {
        let site = Location::caller();
        let at = match self.axis_at("roll", axis, site) {
            Ok(at) => at,
            Err(error) => return Array::failed(error, site),
        };
        let extent = self.shape()[at];
        let Some(first) = by.checked_rem_euclid(extent as isize).filter(|&first| first > 0) else {
            return self.clone();
        };
        let rest = extent - first as usize;
        let (end, start) = (self.part(at, rest, first as usize, 1, site), self.part(at, 0, rest, 1, site));
        concatenate(&[&end, &start], at as isize)
    }

    /// Each part of an axis so many times, one after the other.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::arange(&device, 2);
    /// assert_eq!(x.repeat(3, 0).to_vec::<i64>()?, [0, 0, 0, 1, 1, 1]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn repeat(&self, times: usize, axis: isize) -> Array {
        let site = Location::caller();
        match self.axis_at("repeat", axis, site) {
            Ok(at) => self.multiplied("repeat", [at, at + 1], times, site),
            Err(error) => Array::failed(error, site),
        }
    }

    /// The whole array so many times along each axis. As in NumPy the last axes are aligned, and
    /// missing ones are of extent 1, or 1 time.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::arange(&device, 2);
    /// let y = x.tile(&[2, 2]);
    /// assert_eq!((y.shape(), y.to_vec::<i64>()?), (&[2, 4][..], vec![0, 1, 0, 1, 0, 1, 0, 1]));
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn tile(&self, times: &[usize]) -> Array {
        let site = Location::caller();
        if self.error().is_some() {
            return self.clone();
        }
        let rank = self.rank().max(times.len());
        let mut whole = Extents::from_elem(1, rank - self.rank());
        whole.extend_from_slice(self.shape());
        let aligned = self.reshaped(&whole, site);
        let axes = (rank - times.len()..rank).zip(times);
        axes.fold(aligned, |x, (axis, &times)| x.multiplied("tile", [axis, axis], times, site))
    }

    /// An axis several times: with the times along a new axis at the second place.
    fn multiplied(&self, op: &'static str, [axis, new]: [usize; 2], times: usize, site: Site) -> Array {
        if self.error().is_some() {
            return self.clone();
        }
        let mut apart = Extents::from_slice(self.shape());
        apart.insert(new, 1);
        let mut stretched = apart.clone();
        stretched[new] = times;
        let mut shape = Extents::from_slice(self.shape());
        let Some(extent) = shape[axis].checked_mul(times) else {
            let problem = format!("{times} times axis {axis} of shape {:?}", self.shape());
            return Array::failed(Error::Shape { op, problem, location: site }, site);
        };
        shape[axis] = extent;
        if let Err(error) = super::create::checked_size(op, &shape, self.dtype(), site) {
            return Array::failed(error, site);
        }
        self.reshaped(&apart, site).stretched(&stretched, site).reshaped(&shape, site)
    }

    /// The elements on and below a diagonal of the last two axes, and zero (or `false`) above it:
    /// the main one for an `offset` of 0, one above it for 1.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1, 2, 3, 4], &[2, 2]);
    /// assert_eq!(x.tril(0).to_vec::<i32>()?, [1, 0, 3, 4]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there are fewer than two axes.
    #[track_caller]
    pub fn tril(&self, offset: isize) -> Array {
        self.triangle("tril", offset, true, Location::caller())
    }

    /// The elements on and above a diagonal of the last two axes, and zero (or `false`) below it.
    /// Otherwise as [`tril`](Self::tril).
    #[track_caller]
    pub fn triu(&self, offset: isize) -> Array {
        self.triangle("triu", offset, false, Location::caller())
    }

    fn triangle(&self, op: &'static str, offset: isize, lower: bool, site: Site) -> Array {
        let Some(device) = self.device() else { return self.clone() };
        let [.., rows, columns] = *self.shape() else { return self.no_matrices(op, site) };
        let [row, column] = [0, 1].map(|axis| Array::iota(device, &[rows, columns], axis, site));
        let last = row + offset as i64;
        let stay = if lower { column.less_equal(&last) } else { column.greater_equal(&last) };
        let zero = self.filled_like(Literal::zero(self.dtype()), site);
        self.where_(&stay, zero)
    }

    fn no_matrices(&self, op: &'static str, location: Site) -> Array {
        let problem = format!("shape {:?} has no rows and columns", self.shape());
        Array::failed(Error::Shape { op, problem, location }, location)
    }

    /// The elements on the main diagonal of the last two axes, which become one.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::arange(&device, 6).reshape(&[2, 3]);
    /// assert_eq!(x.diagonal().to_vec::<i64>()?, [0, 4]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if there are fewer than two axes.
    #[track_caller]
    pub fn diagonal(&self) -> Array {
        let site = Location::caller();
        if self.error().is_some() {
            return self.clone();
        }
        let &[ref before @ .., rows, columns] = self.shape() else {
            return self.no_matrices("diagonal", site);
        };
        let (axis, count) = (self.rank() - 2, rows.min(columns));
        // In row-major order the next one on the diagonal is a row and a column further.
        let mut flat = Extents::from_slice(before);
        flat.push(count * columns);
        let rows = self.part(axis, 0, count, 1, site).reshaped(&flat, site);
        rows.part(axis, 0, count, columns + 1, site)
    }

    /// The sum of the elements on the main diagonal of the last two axes.
    ///
    /// # Errors
    /// As of [`diagonal`](Self::diagonal).
    #[track_caller]
    pub fn trace(&self) -> Array {
        let site = Location::caller();
        match self.rank() < 2 && self.error().is_none() {
            true => self.no_matrices("trace", site),
            false => self.diagonal().sum_axes(&[-1]),
        }
    }

    /// An axis at another place, before which the others keep their order.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::zeros(&device, kiln_ir::Scalar::F32, &[2, 3, 4]);
    /// assert_eq!(x.move_axis(0, -1).shape(), [3, 4, 2]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn move_axis(&self, from: isize, to: isize) -> Array {
        let site = Location::caller();
        match [from, to].map(|axis| self.axis_at("move_axis", axis, site)) {
            [Ok(from), Ok(to)] => {
                let all: Extents = (0..self.rank()).collect();
                let mut order = without(&all, &[from]);
                order.insert(to, from);
                self.ordered(order, site)
            }
            [Err(error), _] | [_, Err(error)] => Array::failed(error, site),
        }
    }

    /// The differences of neighbors along an axis, which has one element less: each minus the one
    /// before.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[1, 4, 9], &[3]);
    /// assert_eq!(x.diff(0).to_vec::<i32>()?, [3, 5]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn diff(&self, axis: isize) -> Array {
        let site = Location::caller();
        match self.axis_at("diff", axis, site) {
            Ok(at) => {
                let count = self.shape()[at].saturating_sub(1);
                let [before, after] =
                    [0, 1].map(|from: usize| self.part(at, from.min(self.shape()[at]), count, 1, site));
                after - before
            }
            Err(error) => Array::failed(error, site),
        }
    }
}
