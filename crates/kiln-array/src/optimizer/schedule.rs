//! Learning rates by steps.

/// The learning rate of each step.
///
/// ```
/// use kiln_array::optimizer::Schedule;
/// let rate = Schedule::cosine(0.1, 2, 6);
/// assert_eq!([0, 1, 2, 6, 9].map(|step| rate.at(step)), [0.05, 0.1, 0.1, 0.0, 0.0]);
/// assert!((rate.at(4) - 0.05).abs() < 1e-12);
/// assert_eq!(Schedule::from(0.5).at(1000), 0.5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Schedule {
    /// The same in all steps.
    Constant(f64),
    /// Rises evenly to `peak` in the first `warm_up` steps, and falls along a cosine to 0 at step
    /// `steps` (Loshchilov and Hutter, "SGDR", 2017).
    Cosine {
        /// The highest rate.
        peak: f64,
        /// The number of steps in which it rises.
        warm_up: usize,
        /// The number of all steps.
        steps: usize,
    },
}

impl Schedule {
    /// Makes a [`Schedule::Cosine`].
    pub fn cosine(peak: f64, warm_up: usize, steps: usize) -> Schedule {
        Schedule::Cosine { peak, warm_up, steps }
    }

    /// The learning rate of a step, counted from 0; 0 from the end of a [`Cosine`](Self::Cosine)
    /// on.
    pub fn at(self, step: usize) -> f64 {
        match self {
            Schedule::Constant(rate) => rate,
            Schedule::Cosine { peak, warm_up, .. } if step < warm_up => {
                peak * (step + 1) as f64 / warm_up as f64
            }
            Schedule::Cosine { steps, .. } if step >= steps => 0.0,
            Schedule::Cosine { peak, warm_up, steps } => {
                let progress = (step - warm_up) as f64 / (steps - warm_up) as f64;
                peak * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
            }
        }
    }
}

impl From<f64> for Schedule {
    fn from(rate: f64) -> Schedule {
        Schedule::Constant(rate)
    }
}
