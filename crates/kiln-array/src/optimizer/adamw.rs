//! AdamW.

use super::schedule::Schedule;
use super::update::{OptimizerState, Update, of_step};
use crate::error::Result;
use crate::grad::{Gradients, Parameters};
use std::panic::Location;

/// Adam with decoupled weight decay (Loshchilov and Hutter, 2019). Parameters of less than two
/// axes, such as biases and the weights of norms, do not decay.
///
/// ```
/// use kiln_array::optimizer::{AdamW, Schedule};
/// use kiln_array::{Array, value_and_grad};
/// let device = kiln_runtime::Device::open("interp")?;
/// let mut x = Array::full(&device, 4.0f32, &[1]);
/// let mut optimizer = AdamW::new(Schedule::cosine(0.5, 0, 30)).weight_decay(0.0);
/// for _ in 0..30 {
///     let (_, slope) = value_and_grad(|x| (x - 1.0).square().sum(), &x);
///     optimizer.step(&mut x, slope)?;
/// }
/// assert!((x.item::<f32>()? - 1.0).abs() < 0.5);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// ```
/// use kiln_array::optimizer::AdamW;
/// use kiln_array::{Array, grad};
/// let device = kiln_runtime::Device::open("interp")?;
/// let mut x = Array::full(&device, 1.0f32, &[1]);
/// let mut optimizer = AdamW::new(0.5).betas(0.5, 0.5).epsilon(1.0);
/// let slope = grad(|x| x.square().sum(), &x);
/// optimizer.step(&mut x, slope)?;
/// // The first means are the gradient, 2, and its square: 1 - 0.5 · 2 / (2 + 1).
/// assert!((x.item::<f32>()? - 2.0 / 3.0).abs() < 1e-6);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AdamW {
    rate: Schedule,
    betas: [f64; 2],
    epsilon: f64,
    weight_decay: f64,
    pub(super) state: OptimizerState<2>,
}

impl AdamW {
    /// Makes one with betas of 0.9 and 0.999, an epsilon of 1e-8 and a weight decay of 0.01. The
    /// rate is a number or a [`Schedule`].
    pub fn new(rate: impl Into<Schedule>) -> AdamW {
        let (betas, epsilon, weight_decay) = ([0.9, 0.999], 1e-8, 0.01);
        AdamW { rate: rate.into(), betas, epsilon, weight_decay, state: OptimizerState::new() }
    }

    /// Sets how much of the means of gradients and of their squares stays in each step.
    pub fn betas(self, first: f64, second: f64) -> AdamW {
        AdamW { betas: [first, second], ..self }
    }

    /// Sets what is added to the root of the mean square.
    pub fn epsilon(self, epsilon: f64) -> AdamW {
        AdamW { epsilon, ..self }
    }

    /// Sets the part of a parameter, times the rate, that is taken off in each step.
    pub fn weight_decay(self, weight_decay: f64) -> AdamW {
        AdamW { weight_decay, ..self }
    }

    /// Changes the parameters of a module, and computes them. A step that
    /// [`Mixed::f16`](crate::nn::Mixed::f16) skips counts for the schedule and the corrections.
    ///
    /// # Errors
    /// As of [`Sgd::step`](super::Sgd::step).
    #[track_caller]
    pub fn step<P: Parameters>(&mut self, net: &mut P, gradients: impl Into<Gradients<P>>) -> Result<()> {
        let rate = self.rate.at(self.state.steps);
        let power = self.state.steps as f64 + 1.0;
        let [first, second] = self.betas;
        let [unbias, unbias_square] = self.betas.map(|beta| 1.0 / (1.0 - beta.powf(power)));
        let (length, root) = (of_step(rate * unbias, true), of_step(unbias_square.sqrt(), true));
        let (kept, epsilon) = (of_step(1.0 - rate * self.weight_decay, false), self.epsilon);
        self.state.step(net, gradients.into(), Location::caller(), |update: Update<'_, 2>| {
            let Update { parameter, gradient, state: [mean, square], decays } = update;
            let mean = mean * first + &gradient * (1.0 - first);
            let square = square * second + gradient.square() * (1.0 - second);
            let change = &mean * length / (square.sqrt() * root + epsilon);
            let kept = if decays { parameter * kept } else { parameter };
            (kept - change, [mean, square])
        })
    }
}
