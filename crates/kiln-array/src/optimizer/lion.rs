//! Lion.

use super::schedule::Schedule;
use super::update::{OptimizerState, Update, of_step};
use crate::error::Result;
use crate::grad::{Gradients, Parameters};
use std::panic::Location;

/// Lion (Chen and others, "Symbolic Discovery of Optimization Algorithms", 2023): the sign of a
/// mean of gradients, with decoupled weight decay on parameters of two axes or more.
///
/// ```
/// use kiln_array::optimizer::Lion;
/// use kiln_array::{Array, grad};
/// let device = kiln_runtime::Device::open("interp")?;
/// let mut x = Array::full(&device, 4.0f32, &[1]);
/// let slope = grad(|x| x.square().sum(), &x);
/// Lion::new(0.5).step(&mut x, slope)?;
/// assert_eq!(x.item::<f32>()?, 3.5);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// ```
/// use kiln_array::optimizer::Lion;
/// use kiln_array::{Array, grad};
/// let device = kiln_runtime::Device::open("interp")?;
/// let mut x = Array::full(&device, 4.0f32, &[1, 1]);
/// let mut optimizer = Lion::new(0.5).betas(0.9, 0.95).weight_decay(0.1);
/// let slope = grad(|x| x.square().sum(), &x);
/// optimizer.step(&mut x, slope)?;
/// assert!((x.item::<f32>()? - (4.0 * (1.0 - 0.5 * 0.1) - 0.5)).abs() < 1e-6);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lion {
    rate: Schedule,
    betas: [f64; 2],
    weight_decay: f64,
    pub(super) state: OptimizerState<1>,
}

impl Lion {
    /// Makes one with betas of 0.9 and 0.99 and no weight decay. The rate is a number or a
    /// [`Schedule`].
    pub fn new(rate: impl Into<Schedule>) -> Lion {
        Lion { rate: rate.into(), betas: [0.9, 0.99], weight_decay: 0.0, state: OptimizerState::new() }
    }

    /// Sets how much of the mean counts in a change, and how much of it stays.
    pub fn betas(self, first: f64, second: f64) -> Lion {
        Lion { betas: [first, second], ..self }
    }

    /// Sets the part of a parameter, times the rate, that is taken off in each step.
    pub fn weight_decay(self, weight_decay: f64) -> Lion {
        Lion { weight_decay, ..self }
    }

    /// Changes the parameters of a module, and computes them.
    ///
    /// # Errors
    /// As of [`Sgd::step`](super::Sgd::step).
    #[track_caller]
    pub fn step<P: Parameters>(&mut self, net: &mut P, gradients: impl Into<Gradients<P>>) -> Result<()> {
        let rate = self.rate.at(self.state.steps);
        let (rate, kept) = (of_step(rate, true), of_step(1.0 - rate * self.weight_decay, false));
        let [first, second] = self.betas;
        self.state.step(net, gradients.into(), Location::caller(), |update: Update<'_, 1>| {
            let Update { parameter, gradient, state: [mean], decays } = update;
            let change = (mean * first + &gradient * (1.0 - first)).sign();
            let kept = if decays { parameter * kept } else { parameter };
            (kept - change * rate, [mean * second + gradient * (1.0 - second)])
        })
    }
}
