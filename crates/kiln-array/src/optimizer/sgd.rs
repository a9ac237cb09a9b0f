//! Stochastic gradient descent.

use super::schedule::Schedule;
use super::update::{OptimizerState, Update, of_step};
use crate::error::Result;
use crate::grad::{Gradients, Parameters};
use std::panic::Location;

/// Stochastic gradient descent with momentum: v ← momentum · v + g; p ← p - rate · v.
///
/// ```
/// use kiln_array::optimizer::Sgd;
/// use kiln_array::{Array, grad};
/// let device = kiln_runtime::Device::open("interp")?;
/// let mut x = Array::full(&device, 4.0f32, &[1]);
/// let mut optimizer = Sgd::new(0.25);
/// let slope = grad(|x| x.square().sum(), &x);
/// optimizer.step(&mut x, slope)?;
/// assert_eq!(x.item::<f32>()?, 2.0);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sgd {
    rate: Schedule,
    momentum: f64,
    pub(super) state: OptimizerState<1>,
}

impl Sgd {
    /// Makes one without momentum. The rate is a number or a [`Schedule`].
    pub fn new(rate: impl Into<Schedule>) -> Sgd {
        Sgd { rate: rate.into(), momentum: 0.0, state: OptimizerState::new() }
    }

    /// Sets the momentum, 0 by default.
    ///
    /// ```
    /// # use kiln_array::optimizer::Sgd;
    /// # use kiln_array::{Array, grad};
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let mut x = Array::full(&device, 4.0f32, &[1]);
    /// let mut optimizer = Sgd::new(0.5).momentum(0.5);
    /// for expected in [3.5, 2.75] {
    ///     let slope = grad(|x| x.sum(), &x); // 1, and then 1.5 with what is left of the first
    ///     optimizer.step(&mut x, slope)?;
    ///     assert_eq!(x.item::<f32>()?, expected);
    /// }
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    pub fn momentum(self, momentum: f64) -> Sgd {
        Sgd { momentum, ..self }
    }

    /// Changes the parameters of a module, and computes them.
    ///
    /// # Errors
    /// The error of a gradient or a parameter; gradients of other shapes; parameters or gradients
    /// that are no floats; those of launches. Nothing has changed then.
    #[track_caller]
    pub fn step<P: Parameters>(&mut self, net: &mut P, gradients: impl Into<Gradients<P>>) -> Result<()> {
        let (rate, momentum) = (of_step(self.rate.at(self.state.steps), true), self.momentum);
        self.state.step(net, gradients.into(), Location::caller(), |update: Update<'_, 1>| {
            let [velocity] = update.state;
            let velocity = velocity * momentum + update.gradient;
            (update.parameter - &velocity * rate, [velocity])
        })
    }
}
