//! Concatenating, stacking, splitting.

use crate::error::{Error, Result, Site};
use crate::node::{Array, common_device};
use crate::shape::{self, Extents};
use std::panic::Location;

/// Arrays one after the other along an axis.
///
/// ```
/// use kiln_array::{Array, concatenate};
/// let device = kiln_runtime::Device::open("interp")?;
/// let (x, y) = (Array::new(&device, &[1, 2], &[1, 2]), Array::new(&device, &[3, 4, 5, 6], &[2, 2]));
/// let all = concatenate(&[&x, &y], 0);
/// assert_eq!((all.shape(), all.to_vec::<i32>()?), (&[3, 2][..], vec![1, 2, 3, 4, 5, 6]));
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// The result has an error if there are no arrays, or if they differ in another axis.
#[track_caller]
pub fn concatenate(arrays: &[&Array], axis: isize) -> Array {
    let site = Location::caller();
    joined(arrays, axis, site).unwrap_or_else(|error| Array::failed(error, site))
}

/// Arrays of one shape along a new axis.
///
/// ```
/// use kiln_array::{Array, stack};
/// let device = kiln_runtime::Device::open("interp")?;
/// let (x, y) = (Array::new(&device, &[1, 2], &[2]), Array::new(&device, &[3, 4], &[2]));
/// assert_eq!(stack(&[&x, &y], 1).to_vec::<i32>()?, [1, 3, 2, 4]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// The result has an error if there are no arrays, if their shapes differ, or if there is no such
/// place among the axes.
#[track_caller]
pub fn stack(arrays: &[&Array], axis: isize) -> Array {
    stack_at(arrays, axis, Location::caller())
}

/// As [`stack`], of a line that is known.
pub(crate) fn stack_at(arrays: &[&Array], axis: isize, site: Site) -> Array {
    stacked(arrays, axis, site).unwrap_or_else(|error| Array::failed(error, site))
}

fn stacked(arrays: &[&Array], axis: isize, location: Site) -> Result<Array> {
    let refused = |problem: String| Error::Shape { op: "stack", problem, location };
    let Some(first) = arrays.first() else { return Err(refused("there are no arrays".into())) };
    if let Some(error) = arrays.iter().find_map(|array| array.error()) {
        return Err(error);
    }
    let mut shape = Extents::from_slice(first.shape());
    let Some(at) = shape::axis(axis, shape.len() + 1) else {
        return Err(refused(format!("there is no place {axis} for a new axis in shape {:?}", first.shape())));
    };
    if arrays.iter().any(|array| array.shape() != first.shape()) {
        let shapes: Vec<String> = arrays.iter().map(|array| format!("{:?}", array.shape())).collect();
        return Err(refused(format!("shapes {} differ", shapes.join(", "))));
    }
    shape.insert(at, 1);
    let expanded: Vec<Array> = arrays.iter().map(|array| array.reshaped(&shape, location)).collect();
    joined(&expanded.iter().collect::<Vec<_>>(), at as isize, location)
}

/// Arrays that are joined by one chain of choices.
const AT_ONCE: usize = 16;

fn joined(arrays: &[&Array], axis: isize, location: Site) -> Result<Array> {
    let refused = |problem: String| Error::Shape { op: "concatenate", problem, location };
    let Some(first) = arrays.first() else { return Err(refused("there are no arrays".into())) };
    if let Some(error) = arrays.iter().find_map(|array| array.error()) {
        return Err(error);
    }
    let at = first.axis_at("concatenate", axis, location)?;
    let mut dtype = first.dtype();
    for array in arrays {
        let fits = array.rank() == first.rank()
            && (0..first.rank()).all(|axis| axis == at || array.shape()[axis] == first.shape()[axis]);
        if !fits {
            let shapes: Vec<String> = arrays.iter().map(|array| format!("{:?}", array.shape())).collect();
            return Err(refused(format!("shapes {} differ beside axis {at}", shapes.join(", "))));
        }
        dtype = crate::dtype::promote(dtype, array.dtype());
    }
    if arrays.len() > AT_ONCE {
        // Each level reads all elements once; one chain of choices would go through all arrays for
        // each of them.
        let parts: Vec<Array> =
            arrays.chunks(AT_ONCE).map(|part| joined(part, axis, location)).collect::<Result<_>>()?;
        return joined(&parts.iter().collect::<Vec<_>>(), axis, location);
    }
    common_device(arrays, "concatenate", location)?;
    let total: usize = arrays.iter().map(|array| array.shape()[at]).sum();
    let mut shape = Extents::from_slice(first.shape());
    shape[at] = total;
    let Some(device) = first.device() else { return Ok((*first).clone()) };
    let index = Array::iota(device, &shape, at, location);
    let mut all: Option<Array> = None;
    let mut before = 0;
    for array in arrays.iter().filter(|array| array.shape()[at] > 0) {
        let extent = array.shape()[at];
        let mut widths = vec![(0, 0); shape.len()];
        widths[at] = (before, total - before - extent);
        let placed = array.cast_at(dtype, location).pad(&widths);
        all = Some(match all {
            None => placed,
            Some(all) => all.where_(&index.less(before), &placed),
        });
        before += extent;
    }
    Ok(all.unwrap_or_else(|| first.cast_at(dtype, location)))
}

impl Array {
    /// Parts of an axis of these extents, one after the other.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let parts = Array::arange(&device, 5).split(0, &[2, 3]);
    /// assert_eq!(parts[1].to_vec::<i64>()?, [2, 3, 4]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// All parts have an error if their extents are not the axis's.
    #[track_caller]
    pub fn split(&self, axis: isize, extents: &[usize]) -> Vec<Array> {
        let site = Location::caller();
        let at = match self.axis_at("split", axis, site) {
            Ok(at) if extents.iter().sum::<usize>() == self.shape()[at] => at,
            Ok(_) => {
                let problem =
                    format!("extents {extents:?} are not those of axis {axis} of shape {:?}", self.shape());
                let error = Error::Shape { op: "split", problem, location: site };
                return extents.iter().map(|_| Array::failed(error.clone(), site)).collect();
            }
            Err(error) => return extents.iter().map(|_| Array::failed(error.clone(), site)).collect(),
        };
        let mut from = 0;
        let mut part = |&extent: &usize| {
            from += extent;
            self.part(at, from - extent, extent, 1, site)
        };
        extents.iter().map(&mut part).collect()
    }
}
