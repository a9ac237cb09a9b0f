//! A function of arrays, applied to many at once.
//!
//! The function records its graph once, of arrays that stand for each of the many. Then each
//! operation is recorded again, with an axis more in front: no loop runs, and what the function
//! gives are arrays like others, which fuse and have derivatives.

mod rules;

use crate::array::create::constant;
use crate::error::{Error, Result, Site};
use crate::grad::{Parameters, arrays, dependent};
use crate::node::{Array, Recipe};
use crate::op::Op;
use crate::shape::{self, Extents};
use kiln_ir::Literal;
use rules::{Batch, Input};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::panic::Location;

/// A function applied to each part of arrays along their first axis: the results of all parts, one
/// after the other along a new first axis.
///
/// It is what a loop over the parts and [`stack`](crate::stack) would give, in about the kernels of
/// one call of the function. The function sees arrays without that axis. It composes with
/// [`grad`](crate::grad) and [`jvp`](crate::jvp) both ways: gradients for each example of a batch
/// are the `vmap` of a gradient.
///
/// ```
/// use kiln_array::{Array, grad, vmap};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[1.0f32, 2.0, 3.0, 4.0], &[2, 2]);
/// let norms = vmap(|x: &Array| x.square().sum(), &x);
/// assert_eq!(norms.to_vec::<f32>()?, [5.0, 25.0]);
/// let w = Array::new(&device, &[1.0f32, -1.0], &[2]);
/// // The gradient of w for each row of x.
/// let each = vmap(|x: &Array| grad(|w| (x * w).sum().square(), &w), &x);
/// assert_eq!(each.to_vec::<f32>()?, [-2.0, -4.0, -6.0, -8.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// The results have an error if an array has no axes, if the first axes differ, or if the function
/// reads elements of its arrays. Where it chooses by elements, write `where_`. The rule of a
/// [`custom_vjp`](crate::custom_vjp) has to be given the arrays that it needs as inputs.
#[track_caller]
pub fn vmap<P: Parameters, Q: Parameters>(f: impl FnOnce(&P) -> Q, over: &P) -> Q {
    let site = Location::caller();
    let axes = vec![Some(0); arrays(over).len()];
    mapped(f, over, &axes, 0, site)
}

/// As [`vmap`], along an axis of each array, or `None` for an array that is the same for all parts.
/// The results have the new axis at `to`. Axes are in the order in which
/// [`Parameters::map`] visits the arrays; negative ones count from the end.
///
/// ```
/// use kiln_array::{Array, vmap_axes};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::arange(&device, 6).reshape(&[2, 3]);
/// let y = Array::arange(&device, 2) * 10;
/// // Each column of x, and y.
/// let sums = vmap_axes(|[x, y]| x + y, &[x, y], &[Some(1), None], 0);
/// assert_eq!((sums.shape(), sums.to_vec::<i64>()?), (&[3, 2][..], vec![0, 13, 1, 14, 2, 15]));
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// As of [`vmap`], and if there are not as many axes as arrays, or an array lacks its axis.
#[track_caller]
pub fn vmap_axes<P: Parameters, Q: Parameters>(
    f: impl FnOnce(&P) -> Q,
    over: &P,
    axes: &[Option<isize>],
    to: isize,
) -> Q {
    mapped(f, over, axes, to, Location::caller())
}

fn mapped<P: Parameters, Q: Parameters>(
    f: impl FnOnce(&P) -> Q,
    over: &P,
    axes: &[Option<isize>],
    to: isize,
    site: Site,
) -> Q {
    let many = arrays(over);
    let (each, failed) = match Many::of(&many, axes, site) {
        Ok(each) => (each, None),
        Err(error) => (Many::default(), Some(error)),
    };
    let mut parts = each.parts.iter();
    let point = over.map(&mut |array| match &failed {
        Some(error) => Array::failed(error.clone(), site),
        None => parts.next().unwrap_or(array).clone(),
    });
    let results = f(&point);
    if let Some(error) = failed {
        // The function need not use its arrays.
        return results.map(&mut |result| Array::failed(result.error().unwrap_or(error.clone()), site));
    }
    let mut all = each.applied(&arrays(&results), site).into_iter();
    results.map(&mut |result| match all.next() {
        Some(all) if all.error().is_none() => moved(&all, to, site),
        Some(failed) => failed,
        None => result.clone(),
    })
}

/// The first axis at another place.
fn moved(x: &Array, to: isize, site: Site) -> Array {
    let Some(to) = shape::axis(to, x.rank()) else {
        let problem = format!("results of shape {:?} have no axis {to}", x.shape());
        return Array::failed(Error::Shape { op: "vmap", problem, location: site }, site);
    };
    let mut order: Extents = (1..x.rank()).collect();
    order.insert(to, 0);
    x.ordered(order, site)
}

/// Arrays that a function is applied to at once.
#[derive(Default)]
struct Many {
    /// As many.
    size: usize,
    /// What the function is given.
    parts: Vec<Array>,
    /// What stands for each of many, by identity, with these along the first axis.
    whole: HashMap<usize, Array>,
}

impl Many {
    fn of(arrays: &[Array], axes: &[Option<isize>], site: Site) -> Result<Many> {
        let refused = |problem: String| Error::Shape { op: "vmap", problem, location: site };
        if let Some(error) = arrays.iter().find_map(Array::error) {
            return Err(error);
        }
        if axes.len() != arrays.len() {
            return Err(refused(format!("{} axes for {} arrays", axes.len(), arrays.len())));
        }
        let mut many = Many::default();
        let mut first: Option<&Array> = None;
        for (array, axis) in arrays.iter().zip(axes) {
            let Some(axis) = axis else {
                many.parts.push(array.clone());
                continue;
            };
            let at = array.axis_at("vmap", *axis, site)?;
            let size = array.shape()[at];
            if first.is_some() && size != many.size {
                let of = first.map_or(&[][..], Array::shape);
                let problem =
                    format!("axis {at} of shape {:?} is not as long as that of shape {of:?}", array.shape());
                return Err(refused(problem));
            }
            (first, many.size) = (first.or(Some(array)), size);
            let mut order: Extents = (0..array.rank()).filter(|&axis| axis != at).collect();
            order.insert(0, at);
            many.push(array.ordered(order, site), site);
        }
        match first {
            Some(_) => Ok(many),
            None => Err(refused("no array has an axis to map over".into())),
        }
    }

    /// Adds an array whose first axis is mapped over.
    fn push(&mut self, whole: Array, site: Site) {
        let recipe = Recipe { op: Op::Mapped, inputs: SmallVec::new(), rule: None };
        let shape = Extents::from_slice(&whole.shape()[1..]);
        let part = Array::lazy(recipe, whole.dtype(), shape, whole.device().cloned(), site);
        self.whole.insert(part.identity(), whole);
        self.parts.push(part);
    }

    /// What a function of the parts gives of all of them, along a new first axis.
    fn applied(self, results: &[Array], site: Site) -> Vec<Array> {
        let Many { size, whole: mut known, .. } = self;
        let of: HashSet<usize> = known.keys().copied().collect();
        if size > 0 {
            for (array, recipe) in dependent(results, &of, |recipe| &recipe.inputs) {
                if of.contains(&array.identity()) {
                    continue;
                }
                let input = |input: &Array| match known.get(&input.identity()) {
                    Some(all) => Input::Each(all.clone()),
                    None => Input::Same(input.clone()),
                };
                let inputs = recipe.inputs.iter().map(input).collect();
                let all = Batch { recipe: &recipe, y: &array, inputs, size }.recorded();
                known.insert(array.identity(), all);
            }
        }
        let all = |result: &Array| {
            let (Some(device), None) = (result.device(), result.error()) else { return result.clone() };
            if size == 0 {
                let mut shape = Extents::from_slice(result.shape());
                shape.insert(0, 0);
                return constant(device, "vmap", Literal::zero(result.dtype()), &shape, site);
            }
            let same = || Input::Same(result.clone()).whole(size, site);
            known.get(&result.identity()).cloned().unwrap_or_else(same)
        };
        results.iter().map(all).collect()
    }
}
