//! Gradients in reverse mode, and derivatives in forward mode.
//!
//! A derivative is recorded as any other arrays are: the rules make arrays of arrays, so that what
//! they make fuses with the rest, and has gradients itself.

mod forward;
mod gradients;
mod jacobian;
pub(crate) mod parameters;
mod remat;
mod rules;

pub use forward::{hvp, jvp};
pub use gradients::Gradients;
pub use jacobian::{hessian, jacobian, vjp};
pub use parameters::Parameters;
pub(crate) use parameters::{arrays, called};
pub use remat::remat;

use crate::array::create::constant;
use crate::array::eval;
use crate::dtype::{Kind, kind};
use crate::error::{Error, Site};
use crate::node::{Array, GradientScope, Made, Recipe};
use crate::op::Op;
use crate::shape::Extents;
use crate::weight_products::WeightProducts;
use kiln_ir::Literal;
use rules::{Rules, zeros_like};
use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::slice;
use std::sync::Arc;

/// The gradient of a function's one number with respect to its parameters, of the parameters'
/// structure.
///
/// Parameters are computed, if they are not; the gradient is recorded. Gradients have gradients.
///
/// ```
/// use kiln_array::{Array, grad};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[1.0f32, 2.0, 3.0], &[3]);
/// let cubes = |x: &Array| x.pow(3).sum();
/// assert_eq!(grad(cubes, &x).to_vec::<f32>()?, [3.0, 12.0, 27.0]);
/// let second = grad(|x| grad(cubes, x).sum(), &x);
/// assert_eq!(second.to_vec::<f32>()?, [6.0, 12.0, 18.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// The gradients have an error if the function's result does, if it is not one float, or if a
/// parameter is not of floats.
#[track_caller]
pub fn grad<P: Parameters>(f: impl FnOnce(&P) -> Array, at: &P) -> P {
    differentiate(f, at, Location::caller()).1
}

/// A function's one number, and its gradient with respect to the parameters.
///
/// ```
/// use kiln_array::{Array, value_and_grad};
/// let device = kiln_runtime::Device::open("interp")?;
/// let (x, t) = (Array::new(&device, &[1.0f32, 2.0], &[2]), Array::new(&device, &[3.0f32, 5.0], &[2]));
/// let at = [Array::scalar(&device, 1.0f32), Array::scalar(&device, 0.0f32)];
/// let (loss, [slope, offset]) = value_and_grad(|[a, b]| (&x * a + b - &t).square().mean(), &at);
/// assert_eq!(loss.item::<f32>()?, 6.5);
/// assert_eq!((slope.item::<f32>()?, offset.item::<f32>()?), (-8.0, -5.0));
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// As of [`grad`].
#[track_caller]
pub fn value_and_grad<P: Parameters>(f: impl FnOnce(&P) -> Array, at: &P) -> (Array, P) {
    differentiate(f, at, Location::caller())
}

/// A result with a rule of its own for gradients: `forward` computes it of the inputs, and
/// `backward` gives the gradients of the inputs, of the inputs, the result and its gradient.
///
/// ```
/// use kiln_array::{Array, custom_vjp, grad};
/// let device = kiln_runtime::Device::open("interp")?;
/// // Rounds, but passes gradients on as if it did not.
/// let straight = |x: &Array| custom_vjp(&[x], |x| x[0].round(), |_, _, g| vec![g.clone()]);
/// let x = Array::new(&device, &[0.4f32, 1.7], &[2]);
/// assert_eq!(straight(&x).to_vec::<f32>()?, [0.0, 2.0]);
/// assert_eq!(grad(|x| (straight(x) * 3.0).sum(), &x).to_vec::<f32>()?, [3.0, 3.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// A gradient through it has an error if `backward` gives another number of arrays, or arrays of
/// other shapes or element types than the inputs. What it gives for integers is not used.
#[track_caller]
pub fn custom_vjp(
    inputs: &[&Array],
    forward: impl FnOnce(&[Array]) -> Array,
    backward: impl Fn(&[Array], &Array, &Array) -> Vec<Array> + Send + Sync + 'static,
) -> Array {
    let site = Location::caller();
    let given: Vec<Array> = inputs.iter().map(|&input| input.clone()).collect();
    let result = forward(&given);
    // An input with an error need not be part of the result.
    let problem = given.iter().chain([&result]).find_map(Array::error);
    match problem {
        Some(error) => Array::failed(error, site),
        None => custom(result, given, site, backward),
    }
}

/// A result with a rule of its own for derivatives, in forward mode: `tangent` gives the result's,
/// of the inputs, the result and the inputs' tangents, in which it is linear. Gradients are those
/// of that rule, transposed.
///
/// ```
/// use kiln_array::{Array, custom_jvp, grad, jvp};
/// let device = kiln_runtime::Device::open("interp")?;
/// // ln(1 + e^x), whose own derivative is infinity divided by itself where x is large.
/// let softplus = |x: &Array| {
///     custom_jvp(&[x], |x| (x[0].exp() + 1.0).log(), |x, _, t| &t[0] * x[0].sigmoid())
/// };
/// let x = Array::new(&device, &[0.0f32, 100.0], &[2]);
/// assert_eq!(grad(|x| softplus(x).sum(), &x).to_vec::<f32>()?, [0.5, 1.0]);
/// assert_eq!(jvp(softplus, &x, &x).1.to_vec::<f32>()?, [0.0, 100.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// A derivative through it has an error if `tangent` gives another shape or element type than the
/// result's.
#[track_caller]
pub fn custom_jvp(
    inputs: &[&Array],
    forward: impl FnOnce(&[Array]) -> Array,
    tangent: impl Fn(&[Array], &Array, &[Array]) -> Array + Send + Sync + 'static,
) -> Array {
    let site = Location::caller();
    let given: Vec<Array> = inputs.iter().map(|&input| input.clone()).collect();
    let result = forward(&given);
    if let Some(error) = given.iter().chain([&result]).find_map(Array::error) {
        return Array::failed(error, site);
    }
    custom(result, given, site, move |inputs, y, g| {
        let zero = |input: &Array| match kind(input.dtype()) {
            Kind::Float => zeros_like(input, site).passed(Op::Variable, site),
            Kind::Bool | Kind::Integer => zeros_like(input, site),
        };
        let tangents: Vec<Array> = inputs.iter().map(zero).collect();
        let of = tangent(inputs, y, &tangents);
        let problem = of.error().or_else(|| {
            let problem = format!(
                "the rule of `custom_jvp` gives {} of shape {:?} for a result of {} and shape {:?}",
                of.dtype(),
                of.shape(),
                y.dtype(),
                y.shape()
            );
            let fits = of.shape() == y.shape() && of.dtype() == y.dtype();
            (!fits).then_some(Error::Gradient { problem, location: site })
        });
        match problem {
            Some(error) => inputs.iter().map(|_| Array::failed(error.clone(), site)).collect(),
            None => pulled_back(slice::from_ref(&of), slice::from_ref(g), &tangents, site),
        }
    })
}

/// A result with a rule for the gradients of inputs. The rule may call functions of the program
/// again, whose layers multiply then as those that are recorded now.
pub(crate) fn custom(
    result: Array,
    given: Vec<Array>,
    site: Site,
    backward: impl Fn(&[Array], &Array, &Array) -> Vec<Array> + Send + Sync + 'static,
) -> Array {
    let (dtype, shape) = (result.dtype(), Extents::from_slice(result.shape()));
    let device = result.device().cloned();
    let inputs = std::iter::once(result).chain(given).collect();
    let products = WeightProducts::current();
    let rule = move |inputs: &[Array], y: &Array, g: &Array| {
        let _products = products.enter();
        backward(inputs, y, g)
    };
    Array::lazy(Recipe { op: Op::Custom, inputs, rule: Some(Arc::new(rule)) }, dtype, shape, device, site)
}

impl Array {
    /// The same elements, of which no gradient is taken.
    #[track_caller]
    pub fn stop_gradient(&self) -> Array {
        self.passed(Op::Stop, Location::caller())
    }

    /// As [`stop_gradient`](Self::stop_gradient), of a line that was recorded before.
    pub(crate) fn passed_without_gradient(&self, site: Site) -> Array {
        self.passed(Op::Stop, site)
    }

    fn passed(&self, op: Op, site: Site) -> Array {
        let shape = Extents::from_slice(self.shape());
        Array::record(&[self], site, || Ok(Made { op, dtype: self.dtype(), shape }))
    }
}

fn differentiate<P: Parameters>(f: impl FnOnce(&P) -> Array, at: &P, site: Site) -> (Array, P) {
    compute(at);
    let _scope = GradientScope::open();
    let (point, variables) = variables_of(at, site);
    let value = f(&point);
    let gradients = backward(&value, &variables, site);
    let mut next = gradients.into_iter();
    let of = at.map(&mut |parameter| next.next().unwrap_or_else(|| parameter.clone()));
    (value, of)
}

/// The parameters as variables, in their structure and in its order.
fn variables_of<P: Parameters>(at: &P, site: Site) -> (P, Vec<Array>) {
    let mut variables = Vec::new();
    let point = at.map(&mut |parameter| {
        let variable = match kind(parameter.dtype()) {
            _ if parameter.error().is_some() => parameter.clone(),
            Kind::Float => parameter.passed(Op::Variable, site),
            Kind::Bool | Kind::Integer => no_float(at, variables.len(), parameter, site),
        };
        variables.push(variable.clone());
        variable
    });
    (point, variables)
}

/// The error of a parameter that has no gradient.
fn no_float<P: Parameters>(of: &P, at: usize, parameter: &Array, site: Site) -> Array {
    let dtype = parameter.dtype();
    let problem = match of.parameter_name(at) {
        Some(name) if name.is_empty() => {
            format!("an array of {dtype} has no gradient: cast it to f32 first")
        }
        _ => format!(
            "{} is of {dtype}, which has no gradient: cast it to f32, or write `#[module(skip)]` above its \
             field if it is no parameter",
            called(of, at)
        ),
    };
    Array::failed(Error::Gradient { problem, location: site }, site)
}

/// Computes parameters that are not computed yet and depend on no variable. So the first step of a
/// training has the same kernels as all others, and graphs do not grow over steps.
fn compute<P: Parameters>(at: &P) {
    let mut parameters = arrays(at);
    parameters.retain(|parameter| !parameter.is_tracked());
    // Those that have an error make variables that have it.
    eval(&parameters.iter().collect::<Vec<_>>()).unwrap_or_default();
}

/// The gradients of a number with respect to variables.
fn backward(value: &Array, variables: &[Array], site: Site) -> Vec<Array> {
    let problem = value.error().or_else(|| variables.iter().find_map(Array::error)).or_else(|| {
        let (dtype, shape) = (value.dtype(), value.shape());
        let problem = format!(
            "a gradient is of one float, such as a `mean`, but the function gives {dtype} of shape {shape:?}"
        );
        let is_number = value.len() == 1 && kind(dtype) == Kind::Float;
        (!is_number).then_some(Error::Gradient { problem, location: site })
    });
    if let Some(error) = problem {
        return variables.iter().map(|_| Array::failed(error.clone(), site)).collect();
    }
    let Some(device) = value.device() else { return variables.to_vec() };
    let one = constant(device, "ones", Literal::one(value.dtype()), value.shape(), site);
    pulled_back(slice::from_ref(value), &[one], variables, site)
}

/// What gradients of values make of the variables.
fn pulled_back(values: &[Array], given: &[Array], variables: &[Array], site: Site) -> Vec<Array> {
    let of_variables: HashSet<usize> = variables.iter().map(Array::identity).collect();
    let order = dependent(values, &of_variables, Recipe::differentiated_inputs);
    let mut gradients: HashMap<usize, Array> = HashMap::new();
    for (value, given) in values.iter().zip(given) {
        let sum = match gradients.remove(&value.identity()) {
            Some(before) => before + given,
            None => given.clone(),
        };
        gradients.insert(value.identity(), sum);
    }
    let depends: HashSet<usize> = order.iter().map(|(array, _)| array.identity()).collect();
    for (array, recipe) in order.iter().rev() {
        if of_variables.contains(&array.identity()) {
            continue;
        }
        let Some(gradient) = gradients.remove(&array.identity()) else { continue };
        let rules = Rules { recipe, y: array, g: &gradient, site };
        for (input, of_input) in recipe.inputs.iter().zip(rules.gradients()) {
            let is_wanted = depends.contains(&input.identity()) && kind(input.dtype()) == Kind::Float;
            let Some(of_input) = of_input.filter(|_| is_wanted) else { continue };
            let sum = match gradients.remove(&input.identity()) {
                Some(before) => before + of_input,
                None => of_input,
            };
            gradients.insert(input.identity(), sum);
        }
    }
    let of = |variable: &Array| {
        gradients.remove(&variable.identity()).unwrap_or_else(|| zeros_like(variable, site))
    };
    variables.iter().map(of).collect()
}

/// The arrays between variables and values by the inputs that count, inputs before what is made of
/// them, with recipes.
pub(crate) fn dependent(
    values: &[Array],
    variables: &HashSet<usize>,
    counts: impl Fn(&Recipe) -> &[Array],
) -> Vec<(Array, Recipe)> {
    let mut found = Vec::new();
    let mut state: HashMap<usize, bool> = HashMap::new();
    let mut pending: Vec<_> = values.iter().rev().map(|value| (value.clone(), false)).collect();
    while let Some((array, inputs_are_there)) = pending.pop() {
        if state.contains_key(&array.identity()) {
            continue;
        }
        let Some(recipe) = array.recipe() else {
            state.insert(array.identity(), false);
            continue;
        };
        if !inputs_are_there {
            pending.push((array, true));
            pending.extend(counts(&recipe).iter().map(|input| (input.clone(), false)));
            continue;
        }
        let is_variable = variables.contains(&array.identity());
        let of_input =
            counts(&recipe).iter().any(|input| state.get(&input.identity()).copied().unwrap_or(false));
        state.insert(array.identity(), is_variable || of_input);
        if is_variable || of_input {
            found.push((array, recipe));
        }
    }
    found
}
