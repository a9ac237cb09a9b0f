//! Sums of products by named axes.

use super::product::product;
use crate::dtype::promote;
use crate::error::{Error, Result, Site};
use crate::node::Array;
use crate::shape::{Extents, count};
use kiln_ir::Scalar;
use std::panic::Location;

/// Sums of products of arrays, of which each letter names an axis: `"ij,jk->ik"` is the product of
/// two matrices, `"bhqd,bhkd->bhqk"` that of queries and keys. Letters that the result does not
/// have are summed over, and a letter that an array has twice is its diagonal.
///
/// ```
/// use kiln_array::{Array, einsum};
/// let device = kiln_runtime::Device::open("interp")?;
/// let a = Array::new(&device, &[1.0f32, 2.0, 3.0, 4.0], &[2, 2]);
/// assert_eq!(einsum("ij,kj->ik", &[&a, &a]).to_vec::<f32>()?, [5.0, 11.0, 11.0, 25.0]);
/// assert_eq!(einsum("ij->j", &[&a]).to_vec::<f32>()?, [4.0, 6.0]);
/// assert_eq!(einsum("ii->i", &[&a]).to_vec::<f32>()?, [1.0, 4.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// The result has an error if the text names other axes than the arrays have, or if extents of one
/// letter differ.
#[track_caller]
pub fn einsum(text: &str, arrays: &[&Array]) -> Array {
    let site = Location::caller();
    let parsed = parse(text, arrays, site).and_then(|(terms, result)| contracted(terms, &result, site));
    parsed.unwrap_or_else(|error| Array::failed(error, site))
}

/// An array with a letter for each of its axes.
#[derive(Clone)]
struct Term {
    array: Array,
    axes: Vec<char>,
}

fn refused(problem: String, location: Site) -> Error {
    Error::Shape { op: "einsum", problem, location }
}

/// The arrays with their letters, in one element type, and the letters of the result.
fn parse(text: &str, arrays: &[&Array], site: Site) -> Result<(Vec<Term>, Vec<char>)> {
    if let Some(error) = arrays.iter().find_map(|array| array.error()) {
        return Err(error);
    }
    let letters = |part: &str| -> Vec<char> { part.chars().filter(|c| !c.is_whitespace()).collect() };
    let Some((inputs, result)) = text.split_once("->") else {
        return Err(refused(format!("`{text}` has no `->` and the axes of the result"), site));
    };
    let (inputs, result): (Vec<Vec<char>>, Vec<char>) =
        (inputs.split(',').map(letters).collect(), letters(result));
    if inputs.len() != arrays.len() {
        return Err(refused(
            format!("`{text}` names {} arrays, and there are {}", inputs.len(), arrays.len()),
            site,
        ));
    }
    let mut extents: Vec<(char, usize)> = Vec::new();
    for (axes, array) in inputs.iter().zip(arrays) {
        if axes.len() != array.rank() || axes.iter().any(|axis| !axis.is_ascii_alphabetic()) {
            let axes: String = axes.iter().collect();
            return Err(refused(
                format!("`{axes}` does not name each axis of shape {:?} by a letter", array.shape()),
                site,
            ));
        }
        for (&axis, &extent) in axes.iter().zip(array.shape()) {
            match extents.iter().find(|known| known.0 == axis) {
                None => extents.push((axis, extent)),
                Some(&(_, known)) if known == extent => {}
                Some(&(_, known)) => {
                    return Err(refused(format!("axis `{axis}` has {known} and {extent} elements"), site));
                }
            }
        }
    }
    let is_known = |axis: &char| extents.iter().any(|known| known.0 == *axis);
    let twice = (1..result.len()).any(|at| result[..at].contains(&result[at]));
    if twice || !result.iter().all(is_known) {
        return Err(refused(
            format!("the result of `{text}` has an axis twice, or one that no array has"),
            site,
        ));
    }
    let dtype = arrays.iter().fold(Scalar::Bool, |dtype, array| promote(dtype, array.dtype()));
    let dtype = if dtype == Scalar::Bool { Scalar::I64 } else { dtype };
    let term = |(&array, axes): (&&Array, Vec<char>)| {
        Term { array: array.cast_at(dtype, site), axes }.without_repeats(site)
    };
    Ok((arrays.iter().zip(inputs).map(term).collect(), result))
}

/// The product of all terms, from the left.
fn contracted(terms: Vec<Term>, result: &[char], site: Site) -> Result<Array> {
    let mut left: Option<Term> = None;
    let axes: Vec<Vec<char>> = terms.iter().map(|term| term.axes.clone()).collect();
    for (at, term) in terms.into_iter().enumerate() {
        let needed =
            |axis: &char| result.contains(axis) || axes[at + 1..].iter().any(|later| later.contains(axis));
        left = Some(match left {
            None => term.summed(&|axis| needed(axis)),
            Some(left) => {
                let others = term.axes.clone();
                let left = left.summed(&|axis| needed(axis) || others.contains(axis));
                let of_left = left.axes.clone();
                let right = term.summed(&|axis| needed(axis) || of_left.contains(axis));
                left.times(&right, &needed, site)
            }
        });
    }
    match left {
        Some(term) => Ok(term.in_order(result, site)),
        None => Err(refused("there are no arrays".into(), site)),
    }
}

impl Term {
    /// With the diagonal of axes of one letter in their place.
    fn without_repeats(mut self, site: Site) -> Term {
        let repeated = |axes: &[char]| {
            (1..axes.len()).find_map(|at| Some((axes[..at].iter().position(|axis| *axis == axes[at])?, at)))
        };
        while let Some((first, second)) = repeated(&self.axes) {
            let mut order: Extents =
                (0..self.axes.len()).filter(|axis| ![first, second].contains(axis)).collect();
            order.extend([first, second]);
            self.array = self.array.ordered(order, site).diagonal();
            let letter = self.axes.remove(second);
            self.axes.remove(first);
            self.axes.push(letter);
        }
        self
    }

    /// Without the axes that nothing needs.
    #[track_caller]
    fn summed(self, needed: &dyn Fn(&char) -> bool) -> Term {
        let gone: Vec<isize> =
            (0..self.axes.len()).filter(|&at| !needed(&self.axes[at])).map(|at| at as isize).collect();
        if gone.is_empty() {
            return self;
        }
        let array = self.array.sum_axes(&gone).cast(self.array.dtype());
        Term { array, axes: self.axes.into_iter().filter(|axis| needed(axis)).collect() }
    }

    /// The axes in this order; they are all there.
    fn in_order(&self, axes: &[char], site: Site) -> Array {
        let order: Extents =
            axes.iter().filter_map(|axis| self.axes.iter().position(|own| own == axis)).collect();
        self.array.ordered(order, site)
    }

    fn extents(&self, axes: &[char]) -> Extents {
        let extent =
            |axis: &char| self.axes.iter().position(|own| own == axis).map(|at| self.array.shape()[at]);
        axes.iter().filter_map(extent).collect()
    }

    /// The product with another term. Axes that both have are those of a stack where they are
    /// needed later, and summed over where not.
    fn times(&self, right: &Term, needed: &dyn Fn(&char) -> bool, site: Site) -> Term {
        let both = |axis: &&char| right.axes.contains(axis);
        let stack: Vec<char> = self.axes.iter().filter(both).filter(|axis| needed(axis)).copied().collect();
        let inner: Vec<char> = self.axes.iter().filter(both).filter(|axis| !needed(axis)).copied().collect();
        let rows: Vec<char> = self.axes.iter().filter(|axis| !both(axis)).copied().collect();
        let columns: Vec<char> =
            right.axes.iter().filter(|axis| !self.axes.contains(axis)).copied().collect();
        let size = |term: &Term, axes: &[char]| count(&term.extents(axes));
        let (n, m, k, l) = (size(self, &stack), size(self, &rows), size(self, &inner), size(right, &columns));
        let a = self.in_order(&[&stack[..], &rows, &inner].concat(), site).reshaped(&[n, m, k], site);
        let b = right.in_order(&[&stack[..], &inner, &columns].concat(), site).reshaped(&[n, k, l], site);
        let axes = [&stack[..], &rows, &columns].concat();
        let mut shape = self.extents(&[&stack[..], &rows].concat());
        shape.extend(right.extents(&columns));
        let is_empty = n * m * k * l == 0;
        let array = if is_empty {
            self.array
                .device()
                .map_or_else(|| self.array.clone(), |device| Array::zeros(device, a.dtype(), &shape))
        } else {
            product(&a, &b, site).reshaped(&shape, site)
        };
        Term { array, axes }
    }
}
