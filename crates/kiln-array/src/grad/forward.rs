//! Derivatives in forward mode: of arrays along with them, from inputs to results.
//!
//! The rules are those of reverse mode, read the other way. Of an element-wise operation it is the
//! same derivative; an operation that is linear is its own tangent; the rule of a `custom_vjp`,
//! which is linear in the gradient, is transposed.

use super::parameters::{Parameters, arrays};
use super::rules::{Rules, zeros_like};
use super::{backward, compute, dependent, differentiate, variables_of};
use crate::array::product::product;
use crate::array::reduce::wide_sum;
use crate::dtype::{Kind, kind};
use crate::error::{Error, Site};
use crate::node::{Array, GradientScope, Recipe, common_device};
use crate::op::Op;
use kiln_ir::ReduceOp;
use std::collections::{HashMap, HashSet};
use std::panic::Location;

/// A function's results, and how they change where its parameters change by `tangents`: the
/// Jacobian times a vector. Both have the structure of what the function gives, which may be any
/// number of arrays of any shape.
///
/// It costs a few times as much as the function, however many results there are: a product of two
/// matrices that both change takes two more. So it is for functions of few parameters; for a number
/// of many there is [`grad`](crate::grad).
///
/// ```
/// use kiln_array::{Array, jvp};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[1.0f32, 2.0, 3.0], &[3]);
/// let v = Array::new(&device, &[1.0f32, 0.0, 10.0], &[3]);
/// let (squares, change) = jvp(|x| x.square(), &x, &v);
/// assert_eq!(squares.to_vec::<f32>()?, [1.0, 4.0, 9.0]);
/// assert_eq!(change.to_vec::<f32>()?, [2.0, 0.0, 60.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// A tangent is a product of numbers: where the slope is infinite, as that of `sqrt` at 0, a
/// tangent of 0 gives NaN and any other infinity, as in JAX. Inputs that do not depend on a
/// parameter have no tangent, and give none.
///
/// ```
/// use kiln_array::{Array, jvp};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[0.0f32, 0.0, 4.0], &[3]);
/// let v = Array::new(&device, &[0.0f32, 1.0, 0.0], &[3]);
/// let change = jvp(|x| x.sqrt(), &x, &v).1.to_vec::<f32>()?;
/// assert!(change[0].is_nan() && change[1..] == [f32::INFINITY, 0.0]);
/// // Zero where the root is not asked for: the root is of another number there.
/// let root = |x: &Array| {
///     let inside = x.greater(0.0);
///     let x = x.where_(&inside, &(x * 0.0 + 1.0));
///     x.sqrt().where_(&inside, &(&x * 0.0))
/// };
/// assert_eq!(jvp(root, &x, &v).1.to_vec::<f32>()?, [0.0; 3]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// The tangents of the results have an error if a parameter is not of floats, or if tangents differ
/// from the parameters in number, shape or element type.
#[track_caller]
pub fn jvp<P: Parameters, Q: Parameters>(f: impl FnOnce(&P) -> Q, at: &P, tangents: &P) -> (Q, Q) {
    jvp_of_line(f, at, tangents, Location::caller())
}

/// As [`jvp`], of a line that is known.
pub(super) fn jvp_of_line<P: Parameters, Q: Parameters>(
    f: impl FnOnce(&P) -> Q,
    at: &P,
    tangents: &P,
    site: Site,
) -> (Q, Q) {
    compute(at);
    compute(tangents);
    let _scope = GradientScope::open();
    let (point, variables) = variables_of(at, site);
    let values = f(&point);
    let given = arrays(tangents);
    let results = arrays(&values);
    let mut changes = forward(&results, &variables, &given, site).into_iter();
    let of = values.map(&mut |value| changes.next().unwrap_or_else(|| value.clone()));
    (values, of)
}

/// The second derivatives of a function's one number, times a vector: the Hessian matrix times `v`,
/// in the structure of the parameters, without the matrix.
///
/// It is the forward derivative of the gradient, and costs a few times as much as that.
///
/// ```
/// use kiln_array::{Array, hvp};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[1.0f32, 2.0], &[2]);
/// let v = Array::new(&device, &[1.0f32, 10.0], &[2]);
/// // x^3 + y^3 has 6x and 6y on the diagonal.
/// assert_eq!(hvp(|x| x.pow(3).sum(), &x, &v).to_vec::<f32>()?, [6.0, 120.0]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// As of [`grad`](crate::grad) and [`jvp`].
#[track_caller]
pub fn hvp<P: Parameters>(f: impl FnOnce(&P) -> Array, at: &P, v: &P) -> P {
    let site = Location::caller();
    jvp_of_line(|at| differentiate(f, at, site).1, at, v, site).1
}

/// The tangents of values, of those of variables.
fn forward(values: &[Array], variables: &[Array], tangents: &[Array], site: Site) -> Vec<Array> {
    let all: Vec<&Array> = variables.iter().chain(tangents).collect();
    let problem = all.iter().find_map(|array| array.error());
    let problem = problem
        .or_else(|| common_device(&all, "jvp", site).err())
        .or_else(|| unequal(variables, tangents).map(|problem| Error::Gradient { problem, location: site }));
    if let Some(error) = problem {
        return values.iter().map(|_| Array::failed(error.clone(), site)).collect();
    }
    let given = variables.iter().map(Array::identity).zip(tangents.iter().cloned());
    let mut of: HashMap<usize, Array> = given.collect();
    let of_variables: HashSet<usize> = of.keys().copied().collect();
    for (array, recipe) in dependent(values, &of_variables, Recipe::differentiated_inputs) {
        if of_variables.contains(&array.identity()) || kind(array.dtype()) != Kind::Float {
            continue;
        }
        let inputs: Vec<_> = recipe.inputs.iter().map(|input| of.get(&input.identity()).cloned()).collect();
        if let Some(tangent) = (Tangents { recipe: &recipe, y: &array, inputs, site }).tangent() {
            of.insert(array.identity(), tangent);
        }
    }
    let tangent = |value: &Array| match value.error() {
        Some(error) => Array::failed(error, site),
        None => of.get(&value.identity()).cloned().unwrap_or_else(|| zeros_like(value, site)),
    };
    values.iter().map(tangent).collect()
}

/// How tangents differ from what they are tangents of.
fn unequal(variables: &[Array], tangents: &[Array]) -> Option<String> {
    if variables.len() != tangents.len() {
        return Some(format!("{} tangents for {} parameters", tangents.len(), variables.len()));
    }
    let differs = |(x, t): &(&Array, &Array)| x.shape() != t.shape() || x.dtype() != t.dtype();
    let (x, t) = variables.iter().zip(tangents).find(differs)?;
    Some(format!(
        "a tangent of {} and shape {:?} for a parameter of {} and shape {:?}",
        t.dtype(),
        t.shape(),
        x.dtype(),
        x.shape()
    ))
}

/// What rules are made of.
struct Tangents<'a> {
    recipe: &'a Recipe,
    /// The result of the operation.
    y: &'a Array,
    /// The tangent of each input; `None` for zero.
    inputs: Vec<Option<Array>>,
    site: Site,
}

impl Tangents<'_> {
    /// The tangent of the result; `None` for zero.
    fn tangent(&self) -> Option<Array> {
        let site = self.site;
        match &self.recipe.op {
            Op::Full(_) | Op::Iota { .. } | Op::Mapped => None,
            Op::Compare(_) | Op::ArgSort { .. } | Op::Stop => None,
            Op::Unary(op) => self.rules(self.of(0)?).by(op.derivative()?),
            Op::Binary(op) => {
                let [a, b] = op.derivatives()?;
                let part = |at: usize, rule| self.of(at).and_then(|t| self.rules(t).by(rule));
                added(part(0, a), part(1, b))
            }
            Op::Select => {
                let zero = || zeros_like(self.y, site);
                let (a, b) = (self.of(1).cloned(), self.of(2).cloned());
                if a.is_none() && b.is_none() {
                    return None;
                }
                let (a, b) = (a.unwrap_or_else(zero), b.unwrap_or_else(zero));
                Some(a.where_(&self.recipe.inputs[0], &b))
            }
            Op::Cast
            | Op::Broadcast
            | Op::Reshape
            | Op::Permute(_)
            | Op::Slice { .. }
            | Op::Windows { .. }
            | Op::Flip(_)
            | Op::Pad { .. }
            | Op::CumSum { .. }
            | Op::Take { .. }
            | Op::AddParts
            | Op::After
            | Op::Variable => self.linear(),
            Op::Reduce { op: ReduceOp::Sum, .. } => self.linear(),
            Op::Reduce { op, axes, .. } => {
                let t = self.of(0)?;
                let slope = self.rules(t).slope_of_reduction(*op, axes)?;
                Some(wide_sum(&(t * slope), axes, site))
            }
            Op::Product => {
                let [a, b] = [0, 1].map(|at| &self.recipe.inputs[at]);
                added(self.of(0).map(|t| product(t, b, site)), self.of(1).map(|t| product(a, t, site)))
            }
            // They are the values of a `Custom`, which has the rule.
            Op::Attention { .. } | Op::AttentionSums { .. } | Op::AttentionGradient { .. } | Op::Decode => {
                None
            }
            Op::Kernel(_) => {
                let t = self.inputs.iter().flatten().next()?;
                Some(self.rules(t).refused())
            }
            Op::Custom => self.of_user(),
        }
    }

    fn of(&self, input: usize) -> Option<&Array> {
        self.inputs.get(input)?.as_ref()
    }

    /// The rules with a tangent of an input in the place of the gradient, by which derivatives are
    /// multiplied.
    fn rules<'a>(&'a self, tangent: &'a Array) -> Rules<'a> {
        Rules { recipe: self.recipe, y: self.y, g: tangent, site: self.site }
    }

    /// The operation on the tangent of its first input.
    fn linear(&self) -> Option<Array> {
        let mut recipe = self.recipe.clone();
        recipe.inputs[0] = self.of(0)?.clone();
        if let Op::Variable = recipe.op {
            return recipe.inputs.pop();
        }
        Some(self.y.again(recipe, self.y.shape()))
    }

    /// Of a rule for gradients, which is linear in the result's gradient: the transposed one. It is
    /// the gradient with respect to that gradient of what the tangents make of the rule's results.
    fn of_user(&self) -> Option<Array> {
        let site = self.site;
        let g = zeros_like(self.y, site).passed(Op::Variable, site);
        let of_inputs = Rules { recipe: self.recipe, y: self.y, g: &g, site }.gradients();
        let products = of_inputs.into_iter().zip(&self.inputs).skip(1);
        let products = products.filter_map(|(of, t)| Some((of?, t.as_ref()?)));
        let sums = products.map(|(of, t)| (of * t).sum().cast_at(self.y.dtype().accumulator(), site));
        let total = sums.reduce(|a, b| a + b)?;
        backward(&total, &[g], site).pop()
    }
}

fn added(a: Option<Array>, b: Option<Array>) -> Option<Array> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (one, other) => one.or(other),
    }
}
