//! Gradients that compute again rather than remember.

use super::{custom, pulled_back, variable};
use crate::dtype::{Kind, kind};
use crate::error::{Error, Site};
use crate::grad::Parameters;
use crate::grad::parameters::arrays;
use crate::node::{Array, Made};
use crate::op::Op;
use crate::shape::Extents;
use std::collections::HashSet;
use std::panic::Location;
use std::slice;

/// A function's result, whose gradient computes what it needs of the function again, so that
/// nothing but the parameters is kept until then: less memory, for about one more call. It is
/// gradient checkpointing, and has JAX's name.
///
/// Wrap the layers of a deep network in it, one or a few at a time. What the function needs with a
/// gradient must be among the parameters; captured arrays are constants to it. The function is
/// kept until the gradient is computed, so that it owns what it captures: a `move` closure with
/// clones of arrays, which are handles.
///
/// ```
/// use kiln_array::{Array, grad, remat};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[0.5f32, 1.0], &[2]);
/// let layer = |x: &Array| (x * 2.0).tanh().exp();
/// let kept = grad(|x| layer(&layer(x)).sum(), &x);
/// let again = grad(|x| remat(layer, &remat(layer, x)).sum(), &x);
/// assert_eq!(kept.to_vec::<f32>()?, again.to_vec::<f32>()?);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// The result has an error if the function uses an array that a gradient is being taken with
/// respect to, or that is made of one, without having it as a parameter.
#[track_caller]
pub fn remat<P>(f: impl Fn(&P) -> Array + Send + Sync + 'static, at: &P) -> Array
where
    P: Parameters + Clone + Send + Sync + 'static,
{
    let site = Location::caller();
    let given = arrays(at);
    let value = f(at);
    if let Some(error) = value.error() {
        return Array::failed(error, site);
    }
    if needs_more(&value, &given) {
        let problem = "a function under `remat` uses an array that a gradient is taken with respect to, \
                       and that is none of its parameters"
            .to_owned();
        return Array::failed(Error::Gradient { problem, location: site }, site);
    }
    let structure = at.clone();
    custom(value, given, site, move |inputs, _, g| {
        let mut next = inputs.iter();
        let mut variables = Vec::new();
        let point = structure.map(&mut |parameter| {
            let input = next.next().unwrap_or(parameter);
            match kind(input.dtype()) {
                Kind::Float => variable(&after(input, g, site), &mut variables, site),
                Kind::Bool | Kind::Integer => {
                    variables.push(input.clone());
                    input.clone()
                }
            }
        });
        let value = f(&point);
        match value.error() {
            Some(error) => variables.iter().map(|_| Array::failed(error.clone(), site)).collect(),
            None => {
                let gradients = pulled_back(slice::from_ref(&value), slice::from_ref(g), &variables, site);
                in_order(gradients, inputs, site)
            }
        }
    })
}

/// The gradients of weights before those of what other functions gave: what was computed again is
/// free then, before the function that is next is computed again.
fn in_order(mut gradients: Vec<Array>, inputs: &[Array], site: Site) -> Vec<Array> {
    let mut last: Option<Array> = None;
    for weights in [true, false] {
        for (gradient, _) in gradients.iter_mut().zip(inputs).filter(|(_, input)| is_weight(input) == weights)
        {
            if let Some(last) = &last {
                *gradient = after(gradient, last, site);
            }
            last = Some(gradient.clone());
        }
    }
    gradients
}

/// A parameter, for what is computed after the gradient that asks for it: else all would be
/// computed again before the first gradient is.
fn after(x: &Array, g: &Array, site: Site) -> Array {
    Array::record(&[x, g], site, || {
        Ok(Made { op: Op::After, dtype: x.dtype(), shape: Extents::from_slice(x.shape()) })
    })
}

/// Whether an array is a variable, a constant, or one of these in another element type or shape.
fn is_weight(input: &Array) -> bool {
    let mut array = input.clone();
    while let Some(recipe) = array.recipe() {
        match (&recipe.op, &recipe.inputs[..]) {
            (Op::Variable, _) | (_, []) => return true,
            // One with a rule of its own has its value first.
            (_, [one]) | (Op::Custom, [_, one]) => array = one.clone(),
            _ => return false,
        }
    }
    true
}

/// Whether a value is made of variables that it has not been given.
fn needs_more(value: &Array, given: &[Array]) -> bool {
    let given: HashSet<usize> = given.iter().map(Array::identity).collect();
    let mut seen = HashSet::new();
    let mut pending = vec![value.clone()];
    while let Some(array) = pending.pop() {
        if !array.is_tracked() || given.contains(&array.identity()) || !seen.insert(array.identity()) {
            continue;
        }
        let Some(recipe) = array.recipe() else { continue };
        if let Op::Variable = recipe.op {
            return true;
        }
        pending.extend(recipe.inputs);
    }
    false
}
