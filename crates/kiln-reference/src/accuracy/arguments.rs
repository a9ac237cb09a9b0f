//! Arguments at which functions are tried.

use super::element::Measured;
use crate::rng::Rng;
use std::f64::consts::{FRAC_PI_2, LN_2};

/// So many arguments of a type, about: as many of each sign and exponent, those of which something
/// special is known, and their neighbors. All there are, where the type has no more. The same in
/// every run.
pub fn arguments<T: Measured>(samples: u64) -> Vec<T> {
    if T::BITS == 16 {
        return (0..1 << 16).map(T::from_bits).collect();
    }
    let digits = T::DIGITS as u32 - 1;
    let strata = 1u64 << (T::BITS - digits);
    let each = (samples / strata).max(2);
    let mut rng = Rng::new(0x0075_6c70);
    let mut all = edges::<T>();
    for stratum in 0..strata {
        let first = stratum << digits;
        all.extend([first, first | ((1 << digits) - 1)].map(T::from_bits));
        all.extend((2..each).map(|_| T::from_bits(first | rng.below(1 << digits))));
    }
    all
}

/// The numbers near a value, of both signs.
fn near<T: Measured>(value: f64, all: &mut Vec<T>) {
    let bits = T::nearest(value.abs()).bits();
    for bits in bits.saturating_sub(3)..=bits + 3 {
        all.extend([bits, bits | 1 << (T::BITS - 1)].map(T::from_bits));
    }
}

/// Where something changes: zeros, infinities, NaN, small whole numbers and halves, multiples of
/// π/2, and where results become infinite, subnormal or zero.
fn edges<T: Measured>() -> Vec<T> {
    let mut all = vec![T::nearest(f64::NAN), T::nearest(f64::INFINITY), T::nearest(f64::NEG_INFINITY)];
    near(0.0, &mut all);
    (1..400).for_each(|n| near(f64::from(n) / 2.0, &mut all));
    (1..2000).for_each(|n| near(f64::from(n) * FRAC_PI_2, &mut all));
    (11..100).for_each(|n| near(f64::from(n).exp2() * FRAC_PI_2, &mut all));
    for exponent in [T::LEAST - T::DIGITS, T::LEAST, T::GREATEST + 1] {
        // Of the exponential, and of its hyperbolic kin, which are half of it.
        for logarithm in [f64::from(exponent) * LN_2, f64::from(exponent + 1) * LN_2, exponent.into()] {
            near(logarithm, &mut all);
        }
    }
    all
}

/// Arguments number `first` to `first + count` of all there are of f32, by their bits.
pub fn all_f32(first: u64, count: usize) -> Vec<f32> {
    (first..).take(count).map(|bits| f32::from_bits(bits as u32)).collect()
}

/// So many pairs of arguments, about: all pairs of special numbers, pairs of any bits, of moderate
/// numbers, and of one near 1 with a large one. The same in every run.
pub fn pairs<T: Measured>(samples: u64) -> Vec<[T; 2]> {
    let mut rng = Rng::new(0x7061_6972);
    let mut special: Vec<T> = Vec::new();
    let finite = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0, 100.0, 0.1, 1e-30, 1e30, FRAC_PI_2];
    let limits = [T::LEAST - T::DIGITS + 1, T::LEAST, T::GREATEST].map(|exponent| f64::from(exponent).exp2());
    for x in finite.into_iter().chain(limits).chain([f64::INFINITY]) {
        special.extend([x, -x].map(T::nearest));
    }
    special.push(T::nearest(f64::NAN));
    let mut all: Vec<[T; 2]> = special.iter().flat_map(|&x| special.iter().map(move |&y| [x, y])).collect();
    let sign = |rng: &mut Rng| if rng.below(2) == 0 { 1.0 } else { -1.0 };
    let moderate = |rng: &mut Rng| T::nearest(sign(rng) * rng.between(-12.0, 12.0).exp2());
    for round in 0..samples {
        let mask = u64::MAX >> (64 - T::BITS);
        all.push(match round % 4 {
            0 => [(); 2].map(|()| T::from_bits(rng.bits() & mask)),
            1 => {
                let large = T::nearest(sign(&mut rng) * rng.between(0.0, 22.0).exp2());
                [T::nearest(1.0 + sign(&mut rng) * rng.between(-24.0, -1.0).exp2()), large]
            }
            _ => [moderate(&mut rng), moderate(&mut rng)],
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    #[test]
    fn every_sign_and_exponent_is_tried() {
        let all = arguments::<f32>(4096);
        for stratum in 0..512 {
            assert!(all.iter().filter(|x| x.to_bits() >> 23 == stratum).count() >= 8, "{stratum}");
        }
        assert!(all.len() < 60_000 && all == arguments::<f32>(4096) || all.iter().any(|x| x.is_nan()));
        assert!(all.contains(&(std::f32::consts::PI * 500.0)));
        assert_eq!(arguments::<bf16>(7).len(), 1 << 16);
        assert_eq!(all_f32(0xffff_fffe, 2).len(), 2);
    }
}
