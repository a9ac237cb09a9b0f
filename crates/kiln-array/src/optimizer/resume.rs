//! What an optimizer keeps between steps, for checkpoints.

use super::adamw::AdamW;
use super::lion::Lion;
use super::sgd::Sgd;
use crate::node::Array;

/// An optimizer whose state can be kept and restored, as
/// [`save_checkpoint`](crate::nn::save_checkpoint) does.
pub trait Optimizer {
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
