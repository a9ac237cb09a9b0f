//! Rounding to the 16-bit floats in one step.
//!
//! Rounding to f32 and from there to 16 bits rounds twice, which errs beside ties. Rounding to odd in between does not: an
//! inexact value gets a last bit of 1, which never looks like a tie, and f32 has enough bits more than either format.

use half::{bf16, f16};

/// The nearest f16, ties to even.
pub(crate) fn f16_from_f64(value: f64) -> f16 {
    f16::from_f32(f32_to_odd(value))
}

/// The nearest bf16, ties to even.
pub(crate) fn bf16_from_f64(value: f64) -> bf16 {
    bf16::from_f32(f32_to_odd(value))
}

/// The f64 nearest to an integer; where that is inexact, the neighbour with a last bit of 1.
pub(crate) fn f64_to_odd(value: i128) -> f64 {
    let near = value as f64;
    let error = value - near as i128;
    if error == 0 || near.to_bits() & 1 == 1 {
        return near;
    }
    let away_from_zero = (error > 0) == (near > 0.0);
    f64::from_bits(if away_from_zero { near.to_bits() + 1 } else { near.to_bits() - 1 })
}

fn f32_to_odd(value: f64) -> f32 {
    let near = value as f32;
    let back = f64::from(near);
    if back == value || value.is_nan() || near.to_bits() & 1 == 1 {
        return near;
    }
    if near.is_infinite() {
        return f32::MAX.copysign(near); // odd; both 16-bit formats round it on to infinity
    }
    let away_from_zero = value.abs() > back.abs();
    f32::from_bits(if away_from_zero { near.to_bits() + 1 } else { near.to_bits() - 1 })
}
