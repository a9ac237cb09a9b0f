//! Gradients that compute again rather than remember.

use super::{custom, pulled_back};
use crate::dtype::{Kind, kind};
use crate::error::Site;
use crate::grad::Parameters;
use crate::grad::parameters::arrays;
use crate::node::{Array, Made, Recipe};
use crate::op::Op;
use crate::shape::Extents;
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::slice;

/// A function's result, whose gradient computes what it needs of the function again, so that
/// nothing but the parameters is kept until then: less memory, for about one more call. It is
/// gradient checkpointing, and has JAX's name.
///
/// Wrap the layers of a deep network in it, one or a few at a time. Gradients flow through arrays
/// that the function captures as they do through its parameters, and both are kept until the
/// gradient is computed. So is the function, which owns what it captures: a `move` closure with
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
/// The result has the error of what the function gives.
#[track_caller]
pub fn remat<P>(f: impl Fn(&P) -> Array + Send + Sync + 'static, at: &P) -> Array
where
    P: Parameters + Clone + Send + Sync + 'static,
{
    let site = Location::caller();
    let made = Array::made();
    let mut given = arrays(at);
    let value = f(at);
    if let Some(error) = value.error() {
        return Array::failed(error, site);
    }
    given.extend(captured(&value, &given, made));
    let (structure, originals) = (at.clone(), given.clone());
    custom(value, given, site, move |inputs, _, g| {
        let mut variables = Vec::new();
        for input in inputs {
            match kind(input.dtype()) {
                Kind::Float => variables.push(after(input, g, site).passed(Op::Variable, site)),
                Kind::Bool | Kind::Integer => variables.push(input.clone()),
            }
        }
        let mut next = variables.iter();
        let point = structure.map(&mut |parameter| next.next().unwrap_or(parameter).clone());
        let made = Array::made();
        let value = f(&point);
        if let Some(error) = value.error() {
            return variables.iter().map(|_| Array::failed(error.clone(), site)).collect();
        }
        let identities = originals.iter().map(Array::identity);
        let value = replaced(&value, made, identities.zip(variables.iter().cloned()).collect());
        let gradients = pulled_back(slice::from_ref(&value), slice::from_ref(g), &variables, site);
        in_order(gradients, inputs, site)
    })
}

/// The arrays that a function captured and that its value depends on: those that were there before
/// it was called, and are not among those that it was given. Constants are none of them.
fn captured(value: &Array, given: &[Array], made: u64) -> Vec<Array> {
    let mut seen: HashSet<usize> = given.iter().map(Array::identity).collect();
    let mut found = Vec::new();
    let mut pending = vec![value.clone()];
    while let Some(array) = pending.pop() {
        if !array.is_tracked() || !seen.insert(array.identity()) {
            continue;
        }
        if array.is_older(made) {
            found.push(array);
        } else if let Some(recipe) = array.recipe() {
            pending.extend(recipe.inputs);
        }
    }
    found
}

/// What a function gave, with other arrays in the place of those that were there before it was
/// called.
fn replaced(value: &Array, made: u64, mut by: HashMap<usize, Array>) -> Array {
    let mut pending = vec![(value.clone(), false)];
    while let Some((array, inputs_are_there)) = pending.pop() {
        if array.is_older(made) || by.contains_key(&array.identity()) {
            continue;
        }
        let Some(recipe) = array.recipe() else { continue };
        if !inputs_are_there {
            pending.push((array, true));
            pending.extend(recipe.inputs.iter().map(|input| (input.clone(), false)));
            continue;
        }
        let new = |input: &Array| by.get(&input.identity()).unwrap_or(input).clone();
        let inputs: SmallVec<[Array; 2]> = recipe.inputs.iter().map(new).collect();
        let is_same = inputs.iter().zip(&recipe.inputs).all(|(a, b)| a.identity() == b.identity());
        let new =
            if is_same { array.clone() } else { array.again(Recipe { inputs, ..recipe }, array.shape()) };
        by.insert(array.identity(), new);
    }
    by.remove(&value.identity()).unwrap_or_else(|| value.clone())
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
