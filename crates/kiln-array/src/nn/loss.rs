//! Losses.

use crate::dtype::{accumulator, mean_of};
use crate::error::Error;
use crate::node::Array;
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
        let x = self.cast_at(accumulator(mean_of(self.dtype())), site);
        // The difference to the largest logit first: two large numbers would lose its digits.
        let max = x.max_keep(&[-1]).stop_gradient();
        let total = (&x - &max).exp().sum_keep(&[-1]).log();
        let at_target = x.take_along(&targets.unsqueeze(-1), -1) - max;
        (total - at_target).mean()
    }
}
