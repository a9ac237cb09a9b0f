//! The gradient of each operation: a line of arrays.
//!
//! Those of element-wise operations are not here: `kiln_ir` has the derivatives as expressions
//! beside the operations, and they are written as arrays.

use super::{custom, pulled_back};
use crate::array::arithmetic::binary;
use crate::array::concatenate;
use crate::array::functions::unary;
use crate::array::product::{is_transpose, product};
use crate::array::reduce::{reduce, wide_sum};
use crate::array::scan::{cumsum, running};
use crate::array::scatter::{sums_of_elements, sums_of_parts};
use crate::array::windows::windows_added;
use crate::dtype::{Kind, kind};
use crate::error::{Error, Site};
use crate::node::{Array, Recipe};
use crate::op::Op;
use crate::shape::{Extents, kept};
use kiln_ir::{Derivative, Expr, Literal, ReduceOp};
use std::slice;

/// An array of zeros like another one.
pub(super) fn zeros_like(x: &Array, site: Site) -> Array {
    x.filled_like(Literal::zero(x.dtype()), site)
}

/// What rules are made of.
pub(super) struct Rules<'a> {
    pub(super) recipe: &'a Recipe,
    /// The result of the operation.
    pub(super) y: &'a Array,
    /// Its gradient.
    pub(super) g: &'a Array,
    pub(super) site: Site,
}

impl Rules<'_> {
    /// The gradient of each input; `None` where it has none.
    pub(super) fn gradients(&self) -> Vec<Option<Array>> {
        let Rules { g, y, site, .. } = *self;
        match &self.recipe.op {
            Op::Full(_) | Op::Iota { .. } | Op::Mapped => Vec::new(),
            Op::Compare(_) => vec![None, None],
            Op::Unary(op) => vec![op.derivative().and_then(|rule| self.by(rule))],
            Op::Binary(op) => match op.derivatives() {
                Some(rules) => rules.map(|rule| self.by(rule)).to_vec(),
                None => vec![None, None],
            },
            Op::Select => {
                let (condition, zero) = (self.input(0), zeros_like(g, site));
                vec![None, Some(g.where_(condition, &zero)), Some(zero.where_(condition, g))]
            }
            Op::Cast => vec![self.is_of_floats(0).then(|| g.cast_at(self.input(0).dtype(), site))],
            Op::Broadcast => vec![Some(self.summed())],
            Op::Reshape => vec![Some(g.reshaped(self.input(0).shape(), site))],
            Op::Permute(order) => vec![Some(g.ordered(inverse(order), site))],
            Op::Slice { start, step } => vec![Some(g.spread(self.input(0).shape(), start, step, site))],
            Op::Windows { axis, step } => {
                let extent = self.input(0).shape()[*axis];
                vec![Some(windows_added(g, *axis, *step, extent, site))]
            }
            Op::Flip(axes) => vec![Some(g.flipped(axes.clone(), site))],
            Op::Pad { before } => {
                let axes = self.input(0).shape().iter().zip(before).enumerate();
                let part = |g: Array, (axis, (&extent, &from)): (usize, (&usize, &usize))| {
                    g.part(axis, from, extent, 1, site)
                };
                vec![Some(axes.fold(g.clone(), part))]
            }
            Op::Reduce { op, axes, .. } => vec![self.of_reduction(*op, axes)],
            Op::CumSum { axis, reverse } => vec![Some(cumsum(g, *axis, !reverse, site))],
            Op::Take { axis } => vec![Some(self.gathered(*axis)), None],
            Op::Product => self.of_product(),
            Op::AddParts => vec![Some(g.take(self.input(1), 1)), None],
            // They have rules of their own, by `custom_vjp`.
            Op::Attention { .. } | Op::AttentionSums { .. } => vec![None],
            Op::AttentionGradient { .. } | Op::Decode => vec![None; 4],
            Op::Kernel(_) => self.recipe.inputs.iter().map(|_| Some(self.refused())).collect(),
            Op::Variable => vec![Some(g.clone())],
            Op::After => vec![Some(g.clone()), None],
            Op::Stop | Op::ArgSort { .. } => vec![None],
            Op::Custom => self.of_user(y),
        }
    }

    fn input(&self, number: usize) -> &Array {
        &self.recipe.inputs[number]
    }

    /// Of a kernel that has no rule.
    pub(super) fn refused(&self) -> Array {
        let problem =
            "a `custom_kernel` has no derivative of itself: give it a rule by `custom_vjp`".to_owned();
        Array::failed(Error::Gradient { problem, location: self.y.site() }, self.site)
    }

    fn is_of_floats(&self, input: usize) -> bool {
        kind(self.input(input).dtype()) == Kind::Float
    }

    /// The gradient by the derivative of an element-wise operation.
    pub(super) fn by(&self, derivative: Derivative) -> Option<Array> {
        let times = |slope: &Array| binary(kiln_ir::BinaryOp::Mul, self.g, slope, None, self.site);
        match derivative() {
            Expr::Number(0.0) => None,
            Expr::Number(1.0) => Some(self.g.clone()),
            Expr::Number(-1.0) => Some(-self.g),
            other => Some(times(&self.expression(&other))),
        }
    }

    fn expression(&self, expr: &Expr) -> Array {
        match expr {
            Expr::A => self.input(0).clone(),
            Expr::B => self.recipe.inputs[self.recipe.inputs.len() - 1].clone(),
            Expr::Y => self.y.clone(),
            Expr::Number(number) => self.number(*number),
            Expr::Unary(op, x) => unary(*op, &self.expression(x), self.site),
            Expr::Binary(op, both) => {
                let [a, b] = both.each_ref().map(|x| self.expression(x));
                binary(*op, &a, &b, None, self.site)
            }
            Expr::Less(parts) => {
                let [a, b, yes, no] = parts.each_ref().map(|x| self.expression(x));
                yes.where_(&a.less(&b), &no)
            }
        }
    }

    fn number(&self, number: f64) -> Array {
        self.y.filled_like(Literal::from_f64(self.y.dtype(), number), self.site)
    }

    /// The sum over the axes that a broadcast stretched.
    fn summed(&self) -> Array {
        let (from, to) = (self.input(0).shape(), self.y.shape());
        let axes: Vec<usize> = (0..to.len()).filter(|&axis| from[axis] != to[axis]).collect();
        wide_sum(self.g, &axes, self.site).reshaped(from, self.site)
    }

    fn of_reduction(&self, op: ReduceOp, axes: &[usize]) -> Option<Array> {
        let g = self.along_row(self.g, axes);
        if op == ReduceOp::Sum {
            return Some(g);
        }
        Some(g * self.slope_of_reduction(op, axes)?)
    }

    /// What a reduction gives, at each element of its input.
    fn along_row(&self, of: &Array, axes: &[usize]) -> Array {
        let x = self.input(0);
        of.reshaped(&kept(x.shape(), axes), self.site).stretched(x.shape(), self.site)
    }

    /// The derivative of a reduction by each element, where that is not 1 or 0 everywhere.
    pub(super) fn slope_of_reduction(&self, op: ReduceOp, axes: &[usize]) -> Option<Array> {
        let (x, site) = (self.input(0), self.site);
        match op {
            ReduceOp::Min | ReduceOp::Max => {
                // Of several extreme elements each has a share.
                let hit = x.equal(self.along_row(self.y, axes)).cast_at(x.dtype(), site);
                let count = self.along_row(&reduce(ReduceOp::Sum, &hit, axes, site), axes);
                Some(hit / count)
            }
            ReduceOp::Prod => {
                // The product of the others: where one factor is zero, it has that of the rest.
                let zero = x.equal(0.0);
                let zeros = reduce(ReduceOp::Sum, &zero.cast_at(x.dtype(), site), axes, site);
                let zeros = self.along_row(&zeros, axes);
                let one = x.filled_like(Literal::one(x.dtype()), site);
                let factors = one.where_(&zero, x);
                let rest = self.along_row(&reduce(ReduceOp::Prod, &factors, axes, site), axes);
                let others = (&rest / &factors).where_(&zeros.equal(0.0), zeros_like(x, site));
                let alone = zero & zeros.equal(1.0);
                let value = rest.where_(&alone, &others);
                let axes = Extents::from_slice(axes);
                Some(custom(value, vec![x.clone()], site, move |of, _, g| {
                    let x = of[0].passed(Op::Variable, site);
                    let others = products_of_others(&x, &axes, site);
                    pulled_back(slice::from_ref(&others), slice::from_ref(g), &[x], site)
                }))
            }
            ReduceOp::Sum
            | ReduceOp::And
            | ReduceOp::Or
            | ReduceOp::Xor
            | ReduceOp::ArgMin
            | ReduceOp::ArgMax => None,
        }
    }

    /// The sums of the gradients of all places that an element was taken to.
    fn gathered(&self, axis: usize) -> Array {
        let (x, indices, site) = (self.input(0), self.input(1), self.site);
        let extent = x.shape()[axis];
        if let Some(indices) = along_axis(indices, axis, site) {
            let places = (&indices + extent as i64).where_(&indices.less(0), &indices);
            return sums_of_parts(self.g, &places, axis, extent, site);
        }
        let places = (indices + extent).where_(&indices.less(0), indices);
        sums_of_elements(self.g, &places, axis, extent, site)
    }

    /// g bᵀ and aᵀ g; of a factor that serves for several products the sum. The gradient of a
    /// transpose is the transpose of a product too, so that what is transposed gets its gradient by
    /// rows.
    fn of_product(&self) -> Vec<Option<Array>> {
        let (a, b, site) = (self.input(0), self.input(1), self.site);
        let transposed = |x: &Array| x.ordered(Extents::from_slice(&[0, 2, 1]), site);
        let shared = |of: Array, x: &Array| match x.shape()[0] == 1 && of.shape()[0] > 1 {
            true => wide_sum(&of, &[0], site).reshaped(x.shape(), site),
            false => of,
        };
        let by_a = match is_transpose(a) {
            true => transposed(&product(b, &transposed(self.g), site)),
            false => product(self.g, &transposed(b), site),
        };
        let by_b = match is_transpose(b) {
            true => transposed(&product(&transposed(self.g), a, site)),
            false => product(&transposed(a), self.g, site),
        };
        vec![Some(shared(by_a, a)), Some(shared(by_b, b))]
    }

    fn of_user(&self, y: &Array) -> Vec<Option<Array>> {
        let Some(rule) = &self.recipe.rule else { return Vec::new() };
        let inputs = &self.recipe.inputs[1..];
        let given = rule(inputs, y, self.g);
        // That of an integer is not used.
        let fits = |of: &Array, input: &Array| {
            let is_float = kind(input.dtype()) == Kind::Float;
            of.shape() == input.shape() && (!is_float || of.dtype() == input.dtype())
        };
        let fits = given.len() == inputs.len()
            && given.iter().zip(inputs).all(|(of, input)| of.error().is_some() || fits(of, input));
        let checked = |at: usize| match fits {
            true => given[at].clone(),
            false => {
                let all = |arrays: &[Array]| {
                    let one = |array: &Array| format!("{} {:?}", array.dtype(), array.shape());
                    arrays.iter().map(one).collect::<Vec<_>>().join(", ")
                };
                let problem = format!(
                    "the rule of `custom_vjp` gives gradients [{}] for inputs [{}]: their element types and \
                     shapes must be the same",
                    all(&given),
                    all(inputs)
                );
                let location = self.y.site();
                Array::failed(Error::Gradient { problem, location }, self.site)
            }
        };
        let of_inputs = (0..inputs.len()).map(|at| Some(checked(at)));
        std::iter::once(None).chain(of_inputs).collect()
    }
}

/// At each element the product of the others along axes, without a division: of those before and
/// those after it. It has the right derivatives where factors are zero.
fn products_of_others(x: &Array, axes: &[usize], site: Site) -> Array {
    let mut order: Extents = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
    order.extend(axes.iter().copied());
    let ordered = x.ordered(order.clone(), site);
    let len: usize = axes.iter().map(|&axis| x.shape()[axis]).product();
    let rows = ordered.reshaped(&[ordered.len() / len.max(1), len], site);
    let before = |x: &Array| {
        let products = running(|before, x| before * x, &x.part(1, 0, len - 1, 1, site), 1, site);
        let first = x.filled_like(Literal::one(x.dtype()), site).part(1, 0, 1, 1, site);
        concatenate(&[&first, &products], 1)
    };
    let back = |x: &Array| x.flipped(Extents::from_slice(&[1]), site);
    let others = before(&rows) * back(&before(&back(&rows)));
    others.reshaped(ordered.shape(), site).ordered(inverse(&order), site)
}

/// The indices along an axis, if they are the same for all places on the other axes and several.
fn along_axis(indices: &Array, axis: usize, site: Site) -> Option<Array> {
    let len = indices.shape()[axis];
    if indices.rank() == 1 {
        return (len > 1).then(|| indices.clone());
    }
    let recipe = indices.recipe()?;
    let from = recipe.inputs.first()?;
    let is_one = matches!(recipe.op, Op::Broadcast) && from.len() == len && from.shape()[axis] == len;
    (is_one && len > 1).then(|| from.reshaped(&[len], site))
}

/// The order that undoes another one.
fn inverse(order: &[usize]) -> Extents {
    let mut inverse = Extents::from_elem(0, order.len());
    order.iter().enumerate().for_each(|(at, &axis)| inverse[axis] = at);
    inverse
}
