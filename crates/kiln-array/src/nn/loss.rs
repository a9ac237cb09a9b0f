//! Losses.

use crate::dtype::{accumulator, mean_of};
use crate::error::{Error, Site};
use crate::grad::custom_vjp;
use crate::node::Array;
use kiln_ir::{Literal, Scalar};
use std::panic::Location;

impl Array {
    /// The mean of -ln softmax(x)\[target\] over rows of logits `[…, classes]` and integer targets
    /// `[…]`.
    ///
    /// It is ln Σ e^x - x\[target\] in f32 or wider, which does not overflow.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let logits = Array::new(&device, &[1000.0f32, 1000.0, 0.0, 0.0], &[2, 2]);
    /// let loss = logits.cross_entropy(&Array::new(&device, &[0i32, 1], &[2]));
    /// assert!((loss.item::<f32>()? - std::f32::consts::LN_2).abs() < 1e-6);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The loss has an error if the targets are no integers of the logits' shape without its last
    /// axis. A target that is no class is found when the loss is read.
    #[track_caller]
    pub fn cross_entropy(&self, targets: &Array) -> Array {
        let site = Location::caller();
        if let Some(error) = [self, targets].into_iter().find_map(Array::error) {
            return Array::failed(error, site);
        }
        if self.shape().split_last().map(|(_, rows)| rows) != Some(targets.shape()) {
            let (logits, targets) = (self.shape(), targets.shape());
            let problem = format!(
                "targets of shape {targets:?} for logits of shape {logits:?}: one target for each row of logits"
            );
            return Array::failed(Error::Shape { op: "cross_entropy", problem, location: site }, site);
        }
        if self.shape().last() == Some(&0) {
            let problem = format!("logits of shape {:?} are of no classes", self.shape());
            return Array::failed(Error::Shape { op: "cross_entropy", problem, location: site }, site);
        }
        let x = self.cast_at(accumulator(mean_of(self.dtype())), site);
        // The difference to the largest logit first: two large numbers would lose its digits.
        let max = x.shift_along(-1);
        let at_target =
            target_logits(&x, &self.stop_gradient(), &no_negative(targets, x.shape()), site) - &max;
        (log_of_sum(&x, &max) - at_target).mean()
    }
}

/// ln Σ e^(x - max) along the last axis, which stays. Its gradient is computed of the result, so
/// that nothing of x's extent is kept but x.
fn log_of_sum(x: &Array, max: &Array) -> Array {
    custom_vjp(
        &[x, max],
        |of| power(&(&of[0] - &of[1])).sum_keep(&[-1]).log(),
        |of, y, g| vec![g * power(&(&of[0] - &of[1] - y)), g * 0.0],
    )
}

/// e^x of what is at most 0. The product that is rounded changes the power by no more than the
/// rounding of x did, and the power of two is an instruction.
fn power(x: &Array) -> Array {
    (x * std::f64::consts::LOG2_E).exp2()
}

/// Targets among so many classes, of which those below zero are no class. Indices would count from
/// the end there.
fn no_negative(targets: &Array, shape: &[usize]) -> Array {
    match targets.dtype() {
        Scalar::I8 | Scalar::I16 => no_negative(&targets.cast(Scalar::I32), shape),
        Scalar::I32 | Scalar::I64 => {
            let classes = shape.last().map_or(1, |&classes| classes as i64);
            targets.where_(&targets.greater_equal(0), classes)
        }
        _ => targets.clone(),
    }
}

/// The logits at targets `[…]`: `[…, 1]`. They are taken of `logits`, which is x before it was made
/// wide: what elements are taken of is in memory. The gradient is written at the place of the
/// target and zero elsewhere, so that it is computed in the kernel of what it is added to.
fn target_logits(x: &Array, logits: &Array, targets: &Array, site: Site) -> Array {
    let classes = *x.shape().last().unwrap_or(&1);
    custom_vjp(
        &[x, logits, &targets.unsqueeze(-1)],
        |of| of[1].taken_along(&of[2], -1, ("cross_entropy", site)).cast_at(of[0].dtype(), site),
        move |of, _, g| {
            let (x, targets) = (&of[0], &of[2]);
            let places = targets.cast_at(Scalar::I32, site);
            let of_x = match x.device() {
                Some(device) => {
                    let class = Array::iota(device, &[classes], 0, site).cast_at(Scalar::I32, site);
                    let zero = g.filled_like(Literal::zero(g.dtype()), site);
                    g.where_(&class.equal(&places), &zero)
                }
                None => x.clone(),
            };
            let nothing = |x: &Array| x.filled_like(Literal::zero(x.dtype()), site);
            vec![of_x, nothing(&of[1]), nothing(targets)]
        },
    )
}
