//! Rounding to the 16-bit floats in one step.
//!
//! Rounding to f32 and from there to 16 bits rounds twice, which errs beside ties. Rounding to odd
//! in between does not: an inexact value gets a last bit of 1, which never looks like a tie, and
//! f32 has enough bits more than either format.

use half::{bf16, f16};

/// The nearest f16, ties to even.
pub(crate) fn f16_from_f64(value: f64) -> f16 {
    f16::from_f32(f32_to_odd(value))
}

/// The nearest bf16, ties to even.
pub(crate) fn bf16_from_f64(value: f64) -> bf16 {
    bf16::from_f32(f32_to_odd(value))
}

/// The f64 nearest to an integer; where that is inexact, the neighbor with a last bit of 1.
pub(crate) fn f64_to_odd(value: i128) -> f64 {
    let near = value as f64;
    let error = value - near as i128;
    if error == 0 || near.to_bits() & 1 == 1 {
        return near;
    }
    let away_from_zero = (error > 0) == (near > 0.0);
    f64::from_bits(if away_from_zero { near.to_bits() + 1 } else { near.to_bits() - 1 })
}

/// The f32 nearest to an f64; where that is inexact, the neighbor with a last bit of 1.
pub(crate) fn f32_to_odd(value: f64) -> f32 {
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

/// `x + y`, where an inexact sum gets a last bit of 1.
pub(crate) fn sum_to_odd(x: f64, y: f64) -> f64 {
    let sum = x + y;
    let y_part = sum - x;
    let error = (x - (sum - y_part)) + (y - y_part); // Knuth's two-sum
    if error == 0.0 || !error.is_finite() || sum.to_bits() & 1 == 1 {
        return sum;
    }
    // An even sum is off by `error`: the odd neighbor on that side stands for everything between
    // the two.
    let away_from_zero = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if away_from_zero { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rounding_where_two_would_go_wrong() {
        // Just above the midpoint of 1 and the next f16: two roundings tie down to 1.
        let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(f16::from_f32(above as f32), f16::ONE);
        assert_eq!(f16::from_f32(f32_to_odd(above)).to_f64(), 1.0 + 2f64.powi(-10));
        let below = 1.0 + 3.0 * 2f64.powi(-11) - 2f64.powi(-40);
        assert_eq!(f16::from_f32(f32_to_odd(below)).to_f64(), 1.0 + 2f64.powi(-10));
    }

    #[test]
    fn exact_and_special_values_stay() {
        for x in [0.0, -0.0, 1.5, -2.25, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(f32_to_odd(x).to_bits(), (x as f32).to_bits());
        }
        assert!(f32_to_odd(f64::NAN).is_nan());
        assert_eq!(f16::from_f32(f32_to_odd(1e300)), f16::INFINITY);
        assert_eq!(f16::from_f32(f32_to_odd(-1e-300)).to_bits(), 0x8000);
    }

    #[test]
    fn big_integers_round_once() {
        // 2^62 + half a bf16 step + 1: rounds up, although f64 drops the 1.
        let x = (1i128 << 62) + (1 << 54) + 1;
        let want = ((1i128 << 62) + (1 << 55)) as f64;
        assert_eq!(bf16::from_f32(f32_to_odd(f64_to_odd(x))).to_f64(), want);
        assert_eq!(bf16::from_f32(f32_to_odd(f64_to_odd(-x))).to_f64(), -want);
    }

    #[test]
    fn sums_round_once() {
        let half_step = 1.0 + 2f64.powi(-8);
        let sum = sum_to_odd(half_step, 2f64.powi(-100));
        assert_eq!(bf16::from_f32(f32_to_odd(sum)).to_f64(), 1.0 + 2f64.powi(-7));
        let sum = sum_to_odd(-half_step, 2f64.powi(-100));
        assert_eq!(bf16::from_f32(f32_to_odd(sum)).to_f64(), -1.0);
        assert_eq!(sum_to_odd(1.0, f64::INFINITY), f64::INFINITY);
    }
}
