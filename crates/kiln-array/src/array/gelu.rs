//! The Gaussian error linear unit.

use crate::grad::custom_vjp;
use crate::node::Array;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LOG2_E};

impl Array {
    /// x · Φ(x), where Φ is the normal distribution, by the error function.
    #[track_caller]
    pub fn gelu(&self) -> Array {
        let (x, dtype) = self.widened();
        custom_vjp(&[&x], |of| value(&of[0]), |of, _, g| vec![g * slope(&of[0])]).cast(dtype)
    }
}

fn value(x: &Array) -> Array {
    let half = x * 0.5;
    (x * FRAC_1_SQRT_2).erf() * &half + half
}

/// Φ(x) + x φ(x), where φ is the density: a power of two, which is an instruction where e^x is
/// several.
fn slope(x: &Array) -> Array {
    let density = (x.square() * (-0.5 * LOG2_E)).exp2() * (0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2);
    (x * FRAC_1_SQRT_2).erf() * 0.5 + 0.5 + x * density
}
