//! Each operation with an axis more in front.
//!
//! Most are recorded as they were, with the numbers of their axes one higher. What counts its axes,
//! as the kernels of the library do, takes the new one together with the one that it is stacked
//! along.

use super::Many;
use crate::array::product::{is_transpose, product};
use crate::array::stack;
use crate::error::Site;
use crate::node::{Array, Recipe, Rule};
use crate::op::Op;
use crate::shape::Extents;
use kiln_ir::Literal;
use std::sync::Arc;

/// An input of an operation.
#[derive(Clone)]
pub(super) enum Input {
    /// The same for all parts.
    Same(Array),
    /// Those of all parts along the first axis.
    Each(Array),
}

impl Input {
    /// Those of all parts.
    pub(super) fn whole(&self, size: usize, site: Site) -> Array {
        match self {
            Input::Each(all) => all.clone(),
            Input::Same(one) => {
                let shape = with_axis(size, one.shape());
                one.reshaped(&with_axis(1, one.shape()), site).stretched(&shape, site)
            }
        }
    }
}

/// A shape with an axis in front.
fn with_axis(size: usize, shape: &[usize]) -> Extents {
    std::iter::once(size).chain(shape.iter().copied()).collect()
}

/// Numbers of axes one higher.
fn after(axes: &[usize]) -> Extents {
    axes.iter().map(|axis| axis + 1).collect()
}

/// An operation that is recorded for all parts.
pub(super) struct Batch<'a> {
    pub(super) recipe: &'a Recipe,
    /// Its result for one part.
    pub(super) y: &'a Array,
    pub(super) inputs: Vec<Input>,
    /// The number of parts.
    pub(super) size: usize,
}

impl Batch<'_> {
    /// The results for all parts.
    pub(super) fn recorded(&self) -> Array {
        let op = &self.recipe.op;
        match op {
            // They have no inputs, so that they are the same for all.
            Op::Full(_) | Op::Iota { .. } | Op::Mapped => {
                Input::Same(self.y.clone()).whole(self.size, self.site())
            }
            Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Select
            | Op::Cast
            | Op::Broadcast
            | Op::Reshape
            | Op::Stop
            | Op::After => self.by(op.clone()),
            Op::Permute(order) => self.by(Op::Permute(with_axis(0, &after(order)))),
            Op::Slice { start, step } => {
                self.by(Op::Slice { start: with_axis(0, start), step: with_axis(1, step) })
            }
            Op::Windows { axis, step } => self.by(Op::Windows { axis: axis + 1, step: *step }),
            Op::Flip(axes) => self.by(Op::Flip(after(axes))),
            Op::Pad { before } => self.by(Op::Pad { before: with_axis(0, before) }),
            Op::Reduce { op, axes, numbers_only } => {
                self.by(Op::Reduce { op: *op, axes: after(axes), numbers_only: *numbers_only })
            }
            Op::CumSum { axis, reverse } => self.by(Op::CumSum { axis: axis + 1, reverse: *reverse }),
            Op::Take { axis } => self.by(Op::Take { axis: axis + 1 }),
            Op::Product => self.products(),
            Op::AddParts => self.parts_added(),
            Op::ArgSort { .. }
            | Op::Attention { .. }
            | Op::AttentionSums { .. }
            | Op::AttentionGradient { .. }
            | Op::Decode => self.stacked(),
            Op::Kernel(kernel) if kernel.of_parts => self.stacked(),
            Op::Kernel(_) => self.one_by_one(),
            // The gradient that it was the variable of has been taken.
            Op::Variable => self.whole(0),
            Op::Custom => self.with_rule(),
        }
    }

    fn site(&self) -> Site {
        self.y.site()
    }

    fn whole(&self, input: usize) -> Array {
        self.inputs[input].whole(self.size, self.site())
    }

    /// The shape of the results.
    fn shape(&self) -> Extents {
        with_axis(self.size, self.y.shape())
    }

    /// An operation on all inputs with the new axis.
    fn by(&self, op: Op) -> Array {
        let inputs = (0..self.inputs.len()).map(|input| self.whole(input)).collect();
        self.y.again(Recipe { op, inputs, rule: None }, &self.shape())
    }

    /// The operation on inputs whose first axis has that of the parts in it.
    fn stacked(&self) -> Array {
        let joined = |shape: &[usize]| {
            let mut shape = Extents::from_slice(shape);
            shape[0] *= self.size;
            shape
        };
        let input = |(at, one): (usize, &Array)| self.whole(at).reshaped(&joined(one.shape()), self.site());
        let inputs = self.recipe.inputs.iter().enumerate().map(input).collect();
        let all =
            self.y.again(Recipe { op: self.recipe.op.clone(), inputs, rule: None }, &joined(self.y.shape()));
        all.reshaped(&self.shape(), self.site())
    }

    /// The operation on each part by itself.
    fn one_by_one(&self) -> Array {
        let site = self.site();
        let all: Vec<Array> = (0..self.inputs.len()).map(|input| self.whole(input)).collect();
        let part = |at: usize| {
            let input =
                |(all, one): (&Array, &Array)| all.part(0, at, 1, 1, site).reshaped(one.shape(), site);
            let inputs = all.iter().zip(&self.recipe.inputs).map(input).collect();
            self.y.again(Recipe { op: self.recipe.op.clone(), inputs, rule: None }, self.y.shape())
        };
        let parts: Vec<Array> = (0..self.size).map(part).collect();
        match parts.is_empty() {
            true => self.y.filled_like(Literal::zero(self.y.dtype()), site).stretched(&self.shape(), site),
            false => stack(&parts.iter().collect::<Vec<_>>(), 0),
        }
    }

    /// Products. A factor that is the same for all makes one large product with the others, where
    /// those lie below each other.
    fn products(&self) -> Array {
        let (site, size) = (self.site(), self.size);
        let [a, b] = [0, 1].map(|input| self.recipe.inputs[input].shape());
        let (&[of_a, m, k], &[of_b, _, n]) = (a, b) else { return self.by(Op::Product) };
        let all = match (&self.inputs[0], &self.inputs[1]) {
            (Input::Each(a), Input::Same(b))
                if of_b == 1 && !(m > 1 && is_transpose(&self.recipe.inputs[0])) =>
            {
                product(&a.reshaped(&[1, size * of_a * m, k], site), b, site)
            }
            (Input::Same(a), Input::Each(b)) if of_a == 1 && of_b == 1 && n == 1 => {
                // Columns: rows of the transposed product.
                let transposed = a.ordered(Extents::from_slice(&[0, 2, 1]), site);
                product(&b.reshaped(&[1, size, k], site), &transposed, site)
            }
            (Input::Each(a), Input::Same(b)) if of_b == 1 => {
                product(&a.reshaped(&[size * of_a, m, k], site), b, site)
            }
            (Input::Same(a), Input::Each(b)) if of_a == 1 => {
                product(a, &b.reshaped(&[size * of_b, k, n], site), site)
            }
            _ => {
                let of = of_a.max(of_b);
                let factor = |input: usize, rows: usize, columns: usize| {
                    let each = self.whole(input).stretched(&[size, of, rows, columns], site);
                    each.reshaped(&[size * of, rows, columns], site)
                };
                product(&factor(0, m, k), &factor(1, k, n), site)
            }
        };
        all.reshaped(&self.shape(), site)
    }

    /// Sums by indices. Where those differ, parts of different batches have different indices.
    fn parts_added(&self) -> Array {
        let (site, size) = (self.site(), self.size);
        let (&[outer, extent, inner], x) = (self.y.shape(), self.whole(0)) else { return self.whole(0) };
        let count = self.recipe.inputs[1].len();
        let record = |x: Array, indices: Array, shape: [usize; 3]| {
            let inputs = [x, indices].into_iter().collect();
            self.y.again(Recipe { op: Op::AddParts, inputs, rule: None }, &shape)
        };
        let all = match &self.inputs[1] {
            Input::Same(indices) => {
                let x = x.reshaped(&[size * outer, count, inner], site);
                record(x, indices.clone(), [size * outer, extent, inner])
            }
            Input::Each(indices) => {
                let Some(device) = x.device() else { return x };
                let first = Array::iota(device, indices.shape(), 0, site) * extent as i64;
                let indices = (indices + first).reshaped(&[size * count], site);
                let order = Extents::from_slice(&[1, 0, 2, 3]);
                let x = x.ordered(order.clone(), site).reshaped(&[outer, size * count, inner], site);
                let sums = record(x, indices, [outer, size * extent, inner]);
                sums.reshaped(&[outer, size, extent, inner], site).ordered(order, site)
            }
        };
        all.reshaped(&self.shape(), site)
    }

    /// A result with a rule for gradients, which is applied to all parts.
    fn with_rule(&self) -> Array {
        let (site, size) = (self.site(), self.size);
        let Some(rule) = self.recipe.rule.clone() else { return self.whole(0) };
        let all: Rule = Arc::new(move |inputs, y, g| {
            let mut many = Many { size, ..Many::default() };
            inputs.iter().chain([y, g]).for_each(|whole| many.push(whole.clone(), site));
            let given = many.parts.clone();
            let (parts, [y, g]) = given.split_at(inputs.len()) else { return Vec::new() };
            let gradients = rule(parts, y, g);
            many.applied(&gradients, site)
        });
        let inputs = (0..self.inputs.len()).map(|input| self.whole(input)).collect();
        self.y.again(Recipe { op: Op::Custom, inputs, rule: Some(all) }, &self.shape())
    }
}
