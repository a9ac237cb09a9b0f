//! Gradients on their way to an optimizer.

use super::Parameters;
use crate::array::concatenate;
use crate::error::Error;
use crate::node::Array;
use kiln_ir::Scalar;
use std::panic::Location;

/// Gradients of parameters, in the parameters' structure, for an optimizer's step.
///
/// ```
/// use kiln_array::{Array, Gradients};
/// let device = kiln_runtime::Device::open("interp")?;
/// let at = [Array::full(&device, 3.0f32, &[1]), Array::full(&device, 4.0f32, &[1])];
/// let gradients = Gradients::from(at);
/// assert_eq!(gradients.norm().item::<f32>()?, 5.0);
/// let [a, b] = gradients.clip_norm(1.0).of;
/// assert!((a.item::<f32>()? - 0.6).abs() < 1e-5 && (b.item::<f32>()? - 0.8).abs() < 1e-5);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Gradients<P> {
    /// One for each parameter.
    pub of: P,
    /// Whether to use them, on the device; `None` for yes.
    pub(crate) usable: Option<Array>,
    /// What is computed together with them.
    pub(crate) together: Vec<Array>,
    /// The narrower floats that new parameters are made in too, for the next loss.
    pub(crate) narrow: Option<Scalar>,
}

/// Gradients of so few elements are small: biases, and the weights of norms.
const SMALL: usize = 4096;

/// Gradients of so many elements are large, and are added up in so many parts.
const LARGE: usize = 1 << 16;
const PARTS: usize = 64;

/// As many small gradients are added up in one kernel.
const TOGETHER: usize = 16;

impl<P: Parameters> From<P> for Gradients<P> {
    fn from(of: P) -> Gradients<P> {
        Gradients { of, usable: None, together: Vec::new(), narrow: None }
    }
}

impl<P: Parameters> Gradients<P> {
    /// The length of all gradients as one vector, in f32.
    #[track_caller]
    pub fn norm(&self) -> Array {
        let site = Location::caller();
        let (mut parts, mut small) = (Vec::new(), Vec::new());
        self.of.map(&mut |gradient| {
            let of = gradient.cast_at(Scalar::F32, site).reshaped(&[gradient.len()], site);
            if of.len() <= SMALL {
                small.push(of)
            } else {
                parts.push(of)
            }
            gradient.clone()
        });
        // A kernel each would cost more than what it does.
        parts.extend(small.chunks(TOGETHER).map(|all| concatenate(&all.iter().collect::<Vec<_>>(), 0)));
        // Of a large one the sums of parts, which those of the others are added to: else each would
        // end in a kernel of its own.
        let (large, others): (Vec<Array>, Vec<Array>) =
            parts.into_iter().partition(|part| part.len() >= LARGE && part.len().is_multiple_of(PARTS));
        let of_parts = large.iter().map(|part| {
            let part = part.reshaped(&[PARTS, part.len() / PARTS], site);
            part.square().sum_axes(&[1])
        });
        let sum = |total: Array, squares: Array| total + squares;
        let large = of_parts.reduce(sum).map(|squares| squares.sum());
        let squares = others.iter().map(|part| part.square().sum()).chain(large);
        squares.reduce(sum).map_or_else(
            || {
                Array::failed(
                    Error::Gradient { problem: "there are no gradients".into(), location: site },
                    site,
                )
            },
            |total| total.sqrt(),
        )
    }

    /// Scales all gradients so that their norm is at most this.
    ///
    /// Gradients that are not finite make all of them NaN.
    #[track_caller]
    pub fn clip_norm(self, most: f64) -> Gradients<P> {
        let norm = self.norm();
        let factor = (most / (norm + 1e-6)).minimum(1.0);
        let of = self.of.map(&mut |gradient| gradient * factor.cast(gradient.dtype()));
        Gradients { of, ..self }
    }
}
