//! Derivatives of functions with several results: products from the left, and whole matrices.

use super::forward::jvp_of_line;
use super::parameters::{Parameters, arrays};
use super::{compute, differentiate, pulled_back, variables_of, zeros_like};
use crate::batch::vmap;
use crate::error::{Error, Site};
use crate::node::{Array, GradientScope, common_device};
use crate::shape::Extents;
use std::panic::Location;

/// A function's results, and what makes gradients of the parameters of gradients of the results: a
/// vector times the Jacobian, for each call.
///
/// ```
/// use kiln_array::{Array, vjp};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[1.0f32, 2.0], &[2]);
/// let (y, pull_back) = vjp(|x: &Array| x.square(), &x);
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 4.0]);
/// let g = Array::new(&device, &[1.0f32, 10.0], &[2]);
/// assert_eq!(pull_back(&g).to_vec::<f32>()?, [2.0, 40.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// The gradients have an error if a parameter is not of floats, or if those of the results differ
/// from them in number, shape or element type.
#[track_caller]
pub fn vjp<P: Parameters, Q: Parameters, F: FnOnce(&P) -> Q>(
    f: F,
    at: &P,
) -> (Q, impl Fn(&Q) -> P + use<P, Q, F>) {
    let site = Location::caller();
    compute(at);
    let scope = GradientScope::open();
    let (point, variables) = variables_of(at, site);
    let results = f(&point);
    let values = arrays(&results);
    let pull_back = move |given: &Q| {
        // What is computed before the last call keeps how it was.
        let _kept = &scope;
        let mut gradients = gradients(&values, &arrays(given), &variables, site).into_iter();
        point.map(&mut |parameter| gradients.next().unwrap_or_else(|| parameter.clone()))
    };
    (results, pull_back)
}

fn gradients(values: &[Array], given: &[Array], variables: &[Array], site: Site) -> Vec<Array> {
    let differs = |(y, g): (&Array, &Array)| y.shape() != g.shape() || y.dtype() != g.dtype();
    let all: Vec<&Array> = values.iter().chain(given).chain(variables).collect();
    let problem = all.iter().find_map(|array| array.error());
    let problem = problem.or_else(|| common_device(&all, "vjp", site).err()).or_else(|| {
        let wrong = values.len() != given.len() || values.iter().zip(given).any(differs);
        let of = |arrays: &[Array]| {
            let each: Vec<String> =
                arrays.iter().map(|array| format!("{} {:?}", array.dtype(), array.shape())).collect();
            each.join(", ")
        };
        wrong.then(|| {
            let problem = format!(
                "gradients [{}] for results [{}] of `vjp`: their element types and shapes must be the same",
                of(given),
                of(values)
            );
            Error::Gradient { problem, location: site }
        })
    });
    match problem {
        Some(error) => variables.iter().map(|_| Array::failed(error.clone(), site)).collect(),
        None => pulled_back(values, given, variables, site),
    }
}

/// The derivatives of all elements of a function's result by all of its parameter: the axes of the
/// result, and then those of the parameter.
///
/// By gradients of each result, or by tangents of each element of the parameter, whichever are
/// fewer; all at once, by [`vmap`](crate::vmap).
///
/// ```
/// use kiln_array::{Array, jacobian};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[2.0f32, 3.0], &[2]);
/// let area_and_sum = |x: &Array| kiln_array::stack(&[&x.prod(), &x.sum(), &x.select(0, 0)], 0);
/// assert_eq!(jacobian(area_and_sum, &x).to_vec::<f32>()?, [3.0, 2.0, 1.0, 1.0, 1.0, 0.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// As of [`vjp`] and [`vmap`](crate::vmap).
#[track_caller]
pub fn jacobian(f: impl Fn(&Array) -> Array, at: &Array) -> Array {
    let site = Location::caller();
    let (y, pull_back) = vjp(&f, at);
    let Some(device) = y.device().cloned().filter(|_| y.error().is_none() && at.error().is_none()) else {
        return pull_back(&y);
    };
    let shape: Extents = y.shape().iter().chain(at.shape()).copied().collect();
    if shape.contains(&0) {
        return zeros_like(at, site)
            .reshaped(&[at.len()], site)
            .part(0, 0, 0, 1, site)
            .reshaped(&shape, site);
    }
    if y.len() <= at.len() {
        let unit = Array::eye(&device, y.dtype(), y.len());
        let rows = vmap(|g: &Array| pull_back(&g.reshaped(y.shape(), site)), &unit);
        return if rows.error().is_some() { rows } else { rows.reshaped(&shape, site) };
    }
    let unit = Array::eye(&device, at.dtype(), at.len());
    let columns = vmap(|v: &Array| jvp_of_line(&f, at, &v.reshaped(at.shape(), site), site).1, &unit);
    match columns.error() {
        Some(_) => columns,
        None => columns.move_axis(0, -1).reshaped(&shape, site),
    }
}

/// The matrix of second derivatives of a function's one number: the axes of the parameter, twice.
///
/// ```
/// use kiln_array::{Array, hessian};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[2.0f32, 3.0], &[2]);
/// assert_eq!(hessian(|x| x.prod() * x.sum(), &x).to_vec::<f32>()?, [6.0, 10.0, 10.0, 4.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// As of [`grad`](crate::grad) and [`jacobian`].
#[track_caller]
pub fn hessian(f: impl Fn(&Array) -> Array, at: &Array) -> Array {
    let site = Location::caller();
    jacobian(|x| differentiate(&f, x, site).1, at)
}
