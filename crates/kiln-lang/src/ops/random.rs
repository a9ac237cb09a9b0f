//! Random numbers from counters: Philox 4x32-10 (Salmon and others, "Parallel Random Numbers: As
//! Easy as 1, 2, 3", 2011), of integer operations alone, so that every device has the same ones.

use crate::elem::Int;
use crate::val::{IntoVal, Val};
use kiln_ir::Scalar;

/// Four random words for each counter and key, by Philox 4x32-10: the same as in Random123.
///
/// ```
/// # use kiln_lang::{iota, philox, trace, val, zeros, Level};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// let (zero, key) = (zeros::<u32>(64), [val(7), val(0)]);
/// let words = philox([iota(64), zero, zero, zero], key);
/// assert_eq!(words[3].shape(), [64]);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn philox(counter: [Val<u32>; 4], key: [Val<u32>; 2]) -> [Val<u32>; 4] {
    const FACTORS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
    // What is added to the key each round: of the golden ratio and the root of 3 the first bits.
    const STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    let ([mut a, mut b, mut c, mut d], [mut low, mut high]) = (counter, key);
    for round in 0..10 {
        if round > 0 {
            (low, high) = (low + STEPS[0], high + STEPS[1]);
        }
        let (first, second) = (a * FACTORS[0], c * FACTORS[1]);
        let (first_high, second_high) = (a.mul_hi(FACTORS[0]), c.mul_hi(FACTORS[1]));
        (a, b, c, d) = (second_high ^ b ^ low, second, first_high ^ d ^ high, first);
    }
    [a, b, c, d]
}

/// Four random words for each offset, all of a stream that the seed names. Words of different
/// offsets or seeds are independent, and the same on every device.
///
/// Offsets of 64 bits count in full. Give each element of the launch an offset of its own, and each
/// use of random numbers a seed, or offsets of its own.
///
/// ```
/// use kiln_lang::{Val, randint4x};
///
/// /// Four throws of a die for each offset.
/// fn throws(seed: Val<u64>, offsets: Val<i64>) -> [Val<u32>; 4] {
///     randint4x(seed, offsets).map(|word| word.mul_hi(6) + 1)
/// }
/// ```
#[track_caller]
pub fn randint4x<I: Int>(seed: impl IntoVal<u64>, offsets: Val<I>) -> [Val<u32>; 4] {
    let seed = seed.into_val();
    let key = [seed.cast::<u32>(), (seed >> 32).cast::<u32>()];
    let zero: Val<u32> = 0.into_val();
    let high = match I::SCALAR {
        Scalar::I64 | Scalar::U64 => (offsets.cast::<u64>() >> 32).cast::<u32>(),
        _ => zero,
    };
    philox([offsets.cast::<u32>(), high, zero, zero], key)
}

/// A random word for each offset: the first of [`randint4x`].
///
/// ```
/// use kiln_lang::{Val, randint};
///
/// /// Whether each offset is one of a thousandth of all.
/// fn chosen(seed: Val<u64>, offsets: Val<i64>) -> Val<bool> {
///     randint(seed, offsets).lt(u32::MAX / 1000)
/// }
/// ```
#[track_caller]
pub fn randint<I: Int>(seed: impl IntoVal<u64>, offsets: Val<I>) -> Val<u32> {
    randint4x(seed, offsets)[0]
}

/// A random number of at least 0 and less than 1 for each offset, each multiple of 2^-24 as likely
/// as another: from the upper bits of [`randint`].
///
/// ```
/// use kiln_lang::{Val, rand, select};
///
/// /// Dropout: each element is zero with a probability of `p`.
/// fn dropout(x: Val<f32>, p: Val<f32>, seed: Val<u64>, offsets: Val<i64>) -> Val<f32> {
///     select(rand(seed, offsets).ge(p), x / (-p + 1.0), 0.0)
/// }
/// ```
#[track_caller]
pub fn rand<I: Int>(seed: impl IntoVal<u64>, offsets: Val<I>) -> Val<f32> {
    uniform(randint(seed, offsets))
}

/// A random number of the standard normal distribution for each offset, from the first two words of
/// [`randint4x`] (Box and Muller, 1958). None is further than 5.8 from 0. The words are the same on
/// every device; the logarithm and the cosine of them differ by a few units in the last place.
///
/// ```
/// use kiln_lang::{Val, randn};
///
/// /// Weights of a layer to begin with (He and others, 2015).
/// fn weights(inputs: usize, seed: Val<u64>, offsets: Val<i64>) -> Val<f32> {
///     randn(seed, offsets) * (2.0 / inputs as f32).sqrt()
/// }
/// ```
#[track_caller]
pub fn randn<I: Int>(seed: impl IntoVal<u64>, offsets: Val<I>) -> Val<f32> {
    let [first, second, ..] = randint4x(seed, offsets);
    // Above 0 and up to 1, so that the logarithm is finite.
    let length = (uniform(first) + UNIT).log() * -2.0;
    let angle = uniform(second) * std::f32::consts::TAU;
    length.sqrt() * angle.cos()
}

/// The distance of the numbers that [`rand`] gives.
const UNIT: f32 = 1.0 / 16_777_216.0;

#[track_caller]
fn uniform(word: Val<u32>) -> Val<f32> {
    (word >> 8).cast::<f32>() * UNIT
}
