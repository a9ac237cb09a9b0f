//! What all optimizers can do: a step, and what checkpoints keep of them.

use super::adamw::AdamW;
use super::lion::Lion;
use super::sgd::Sgd;
use crate::error::Result;
use crate::grad::{Gradients, Parameters};
use crate::node::Array;

/// An optimizer: what trains with any of them takes a step by it, and
/// [`save_checkpoint`](crate::nn::save_checkpoint) keeps and restores its state.
///
/// ```
/// use kiln_array::nn::{Key, Linear, Mixed};
/// use kiln_array::optimizer::{Lion, Optimizer, Sgd};
/// use kiln_array::{Array, Result};
///
/// /// The loss after some steps.
/// fn trained(net: &mut Linear, mut optimizer: impl Optimizer, x: &Array) -> Result<f32> {
///     let loss = |net: &Linear| net.forward(x).square().mean();
///     for _ in 0..10 {
///         let (_, gradients) = Mixed::f32().value_and_grad(&*net, loss);
///         optimizer.step(net, gradients)?;
///     }
///     loss(net).item()
/// }
///
/// let device = kiln_runtime::Device::open("cpu")?;
/// let x = Key::new(1).normal(&device, &[8, 4]);
/// let new = || Linear::new(&device, Key::new(2), 4, 2);
/// let before = new().forward(&x).square().mean().item::<f32>()?;
/// assert!(trained(&mut new(), Sgd::new(0.1).momentum(0.5), &x)? < before);
/// assert!(trained(&mut new(), Lion::new(0.01), &x)? < before);
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// ```
/// use kiln_array::optimizer::{Optimizer, Sgd};
/// use kiln_array::{Array, grad};
///
/// // An optimizer that goes on where another one stopped.
/// let device = kiln_runtime::Device::open("interp")?;
/// let (mut x, new) = (Array::full(&device, 4.0f32, &[1]), || Sgd::new(0.25).momentum(0.5));
/// let mut optimizer = new();
/// let step = |optimizer: &mut Sgd, x: &mut Array| {
///     let slope = grad(|x| x.square().sum(), &*x);
///     optimizer.step(x, slope)
/// };
/// step(&mut optimizer, &mut x)?;
/// let state = optimizer.state();
/// assert_eq!((optimizer.steps(), optimizer.arrays_of_parameter(), state.len()), (1, 1, 1));
/// let (mut again, mut y) = (new(), x.clone());
/// again.restore(optimizer.steps(), state);
/// step(&mut optimizer, &mut x)?;
/// step(&mut again, &mut y)?;
/// assert_eq!(x.item::<f32>()?, y.item::<f32>()?);
/// # Ok::<(), kiln_array::Error>(())
/// ```
pub trait Optimizer {
    /// Changes the parameters of a module, and computes them.
    ///
    /// # Errors
    /// The error of a gradient or a parameter; gradients of other shapes; parameters or gradients
    /// that are no floats; those of launches. Nothing has changed then.
    #[track_caller]
    fn step<P: Parameters>(&mut self, net: &mut P, gradients: impl Into<Gradients<P>>) -> Result<()>
    where
        Self: Sized;

    /// The number of steps so far.
    fn steps(&self) -> usize;

    /// The number of arrays that are kept of each parameter.
    fn arrays_of_parameter(&self) -> usize;

    /// The arrays that are kept: a list of one for each parameter, for each of
    /// [`arrays_of_parameter`](Self::arrays_of_parameter). There are none before the first step.
    fn state(&self) -> Vec<Vec<Array>>;

    /// Goes on from a number of steps with the arrays that [`state`](Self::state) gave. Arrays of
    /// another module are refused by the next step.
    fn restore(&mut self, steps: usize, state: Vec<Vec<Array>>);
}

macro_rules! optimizers {
    ($($name:ident $arrays:literal)*) => {$(
        impl Optimizer for $name {
            #[track_caller]
            fn step<P: Parameters>(&mut self, net: &mut P, gradients: impl Into<Gradients<P>>) -> Result<()> {
                $name::step(self, net, gradients)
            }

            fn steps(&self) -> usize {
                self.state.steps
            }

            fn arrays_of_parameter(&self) -> usize {
                $arrays
            }

            fn state(&self) -> Vec<Vec<Array>> {
                self.state.parts()
            }

            fn restore(&mut self, steps: usize, state: Vec<Vec<Array>>) {
                self.state.restore(steps, &state);
            }
        }
    )*};
}
optimizers!(AdamW 2 Lion 1 Sgd 1);
