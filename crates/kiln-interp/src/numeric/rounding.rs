//! Rounding to odd: an inexact result takes the neighbour whose last bit is one. A later rounding to a type at least two bits narrower then
//! gives what one rounding of the exact value would have given, which two roundings to nearest do not.

/// An f64 as an f32, rounded to odd.
pub fn f64_to_f32_odd(x: f64) -> f32 {
    let near = x as f32;
    if near.is_nan() || f64::from(near) == x {
        return near;
    }
    let truncated = near.to_bits() - u32::from(f64::from(near).abs() > x.abs());
    f32::from_bits(truncated | 1)
}

/// An integer as an f64, rounded to odd.
pub fn i128_to_f64_odd(x: i128) -> f64 {
    let near = x as f64;
    if near as i128 == x {
        return near;
    }
    let truncated = near.to_bits() - u64::from((near as i128).abs() > x.abs());
    f64::from_bits(truncated | 1)
}

/// `a + b` in f64, rounded to odd.
pub fn add_f64_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    // Knuth's two-sum: `sum + error` is exactly `a + b`.
    let b_part = sum - a;
    let error = (a - (sum - b_part)) + (b - b_part);
    if error == 0.0 || !error.is_finite() || sum == 0.0 {
        return sum;
    }
    let away_from_zero = (error < 0.0) == (sum > 0.0);
    f64::from_bits((sum.to_bits() - u64::from(away_from_zero)) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    #[test]
    fn one_rounding_where_two_would_go_wrong() {
        // Just above the midpoint of 1 and the next f16: two roundings tie down to 1.
        let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(f16::from_f32(above as f32), f16::ONE);
        assert_eq!(f16::from_f32(f64_to_f32_odd(above)).to_f64(), 1.0 + 2f64.powi(-10));
        let below = 1.0 + 3.0 * 2f64.powi(-11) - 2f64.powi(-40);
        assert_eq!(f16::from_f32(f64_to_f32_odd(below)).to_f64(), 1.0 + 2f64.powi(-10));
    }

    #[test]
    fn exact_and_special_values_stay() {
        for x in [0.0, -0.0, 1.5, -2.25, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(f64_to_f32_odd(x).to_bits(), (x as f32).to_bits());
        }
        assert!(f64_to_f32_odd(f64::NAN).is_nan());
        assert_eq!(f16::from_f32(f64_to_f32_odd(1e300)), f16::INFINITY);
        assert_eq!(f16::from_f32(f64_to_f32_odd(-1e-300)).to_bits(), 0x8000);
    }

    #[test]
    fn big_integers_round_once() {
        // 2^62 + half a bf16 step + 1: rounds up, although f64 drops the 1.
        let x = (1i128 << 62) + (1 << 54) + 1;
        let want = ((1i128 << 62) + (1 << 55)) as f64;
        assert_eq!(bf16::from_f32(f64_to_f32_odd(i128_to_f64_odd(x))).to_f64(), want);
        assert_eq!(bf16::from_f32(f64_to_f32_odd(i128_to_f64_odd(-x))).to_f64(), -want);
    }

    #[test]
    fn sums_round_once() {
        let half_step = 1.0 + 2f64.powi(-8);
        let sum = add_f64_odd(half_step, 2f64.powi(-100));
        assert_eq!(bf16::from_f32(f64_to_f32_odd(sum)).to_f64(), 1.0 + 2f64.powi(-7));
        let sum = add_f64_odd(-half_step, 2f64.powi(-100));
        assert_eq!(bf16::from_f32(f64_to_f32_odd(sum)).to_f64(), -1.0);
        assert_eq!(add_f64_odd(1.0, f64::INFINITY), f64::INFINITY);
    }
}
