//! Random numbers from keys: Philox 4x32-10 as in `kiln_lang`, of which each element is computed
//! where it is needed.

use crate::array::arithmetic::binary;
use crate::error::{Error, Site};
use crate::node::Array;
use kiln_ir::{BinaryOp, Literal, Scalar};
use kiln_runtime::Device;
use std::panic::Location;

/// What random numbers are made of. Equal keys give equal numbers; there is no hidden state.
/// Uniform numbers and what follows from them are the same on every device. Normal ones are made of
/// a logarithm and a cosine, and differ between devices by a few units in the last place.
///
/// ```
/// use kiln_array::nn::Key;
/// let device = kiln_runtime::Device::open("interp")?;
/// let [weights, dropout] = Key::new(42).split();
/// let numbers = weights.uniform(&device, &[2, 3]).to_vec::<f32>()?;
/// assert!(numbers.iter().all(|x| (0.0..1.0).contains(x)));
/// assert_ne!(numbers, dropout.fold(7).uniform(&device, &[2, 3]).to_vec::<f32>()?);
/// # Ok::<(), kiln_array::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// The key of a seed, which is that of `kiln_lang::rand`.
    pub fn new(seed: u64) -> Key {
        Key(seed)
    }

    /// A key that depends on a number too, such as that of a step.
    pub fn fold(self, number: u64) -> Key {
        Key(mixed(mixed(self.0).wrapping_add(number)))
    }

    /// Independent keys.
    pub fn split<const N: usize>(self) -> [Key; N] {
        std::array::from_fn(|part| self.fold(part as u64))
    }

    /// A number of at least 0 and less than `below`, computed by the host: an index, where chance
    /// chooses data. It is 0 for a `below` of 0.
    ///
    /// ```
    /// use kiln_array::nn::Key;
    /// assert!((0..100).all(|step| Key::new(step).index(7) < 7));
    /// ```
    pub fn index(self, below: usize) -> usize {
        ((u128::from(mixed(self.0)) * below as u128) >> 64) as usize
    }

    /// Uniform f32 numbers of at least 0 and less than 1, as of `kiln_lang::rand` with row-major
    /// offsets.
    #[track_caller]
    pub fn uniform(self, device: &Device, shape: &[usize]) -> Array {
        let site = Location::caller();
        uniform_of(&self.words("uniform", device, shape, site)[0])
    }

    /// f32 numbers of the standard normal distribution, as of `kiln_lang::randn`.
    ///
    /// ```
    /// use kiln_array::nn::Key;
    /// let device = kiln_runtime::Device::open("cpu")?;
    /// let x = Key::new(3).normal(&device, &[100, 100]);
    /// assert!(x.mean().item::<f32>()?.abs() < 0.03);
    /// assert!((x.square().mean().item::<f32>()? - 1.0).abs() < 0.05);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn normal(self, device: &Device, shape: &[usize]) -> Array {
        let site = Location::caller();
        let [first, second, ..] = self.words("normal", device, shape, site);
        let length = (uniform_of(&first) + UNIT).log() * -2.0;
        let angle = uniform_of(&second) * std::f32::consts::TAU;
        length.sqrt() * angle.cos()
    }

    /// Uniform i64 numbers of at least `low` and less than `high`, as JAX's `randint` and the
    /// `integers` of NumPy's generators.
    ///
    /// Random bits are read as a share of 1, and the number is the whole part of that share of the
    /// range: of 64 bits for less than 2^32 numbers, and of 128 bits for more. So no chance differs
    /// from another one by more than one part in 2^32 of it.
    ///
    /// ```
    /// use kiln_array::nn::Key;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let throws = Key::new(42).integers(&device, 1, 7, &[600]);
    /// let counts = (throws - 1).bincount(6).to_vec::<i64>()?;
    /// assert!(counts.iter().all(|count| (60..140).contains(count)));
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The array has an error if `low` is not less than `high`.
    #[track_caller]
    pub fn integers(self, device: &Device, low: i64, high: i64, shape: &[usize]) -> Array {
        let site = Location::caller();
        if low >= high {
            let problem = format!("there is no number of at least {low} and less than {high}");
            return Array::failed(Error::Shape { op: "integers", problem, location: site }, site);
        }
        let words = self.words("integers", device, shape, site);
        share_of(&words, high.abs_diff(low)) + low
    }

    /// Four random words for each element.
    fn words(self, op: &'static str, device: &Device, shape: &[usize], site: Site) -> [Array; 4] {
        let count = shape.iter().try_fold(1usize, |count, &extent| count.checked_mul(extent));
        let Some(count) = count.filter(|&count| u32::try_from(count).is_ok()) else {
            let problem = format!("shape {shape:?} has more than 4,294,967,295 random numbers of one key");
            let error = Error::Shape { op, problem, location: site };
            return std::array::from_fn(|_| Array::failed(error.clone(), site));
        };
        let index = Array::arange(device, count).cast(Scalar::U32).reshaped(shape, site);
        let word = |word: u32| Array::scalar(device, word);
        let keys = [self.0 as u32, (self.0 >> 32) as u32];
        let key = |round: u32, of: usize| word(keys[of].wrapping_add(STEPS[of].wrapping_mul(round)));
        let xor = |parts: [Option<Array>; 2], key: Array| {
            let both = |sum: Array, part: Array| binary(BinaryOp::Xor, &part, &sum, None, site);
            Some(parts.into_iter().flatten().fold(key, both))
        };
        // What is not there is zero.
        let [mut a, mut b, mut c, mut d] = [Some(index), None, None, None];
        for round in 0..10 {
            let products = [(&a, FACTORS[0]), (&c, FACTORS[1])]
                .map(|(x, by)| x.as_ref().map_or([None, None], |x| product(x, by).map(Some)));
            let [[low, high], [other_low, other_high]] = products;
            (a, c) = (xor([other_high, b], key(round, 0)), xor([high, d], key(round, 1)));
            (b, d) = (other_low, low);
        }
        [a, b, c, d].map(|word| word.unwrap_or_else(|| Array::full(device, 0u32, shape)))
    }
}

const FACTORS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// What is added to the key each round.
const STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
/// The distance of uniform numbers.
const UNIT: f32 = 1.0 / 16_777_216.0;

/// The lower and the upper word of a product.
#[track_caller]
fn product(x: &Array, by: u32) -> [Array; 2] {
    // Its 64 bits are those of the product of i64, whatever the sign.
    let whole = x.cast(Scalar::I64) * i64::from(by);
    let upper = whole.shift_right(32);
    [whole, upper].map(|half| half.cast(Scalar::U32))
}

/// The whole part of a share of a range, as the bits of an i64: words are the digits of the share
/// after the point, the highest one first. The product is taken as by hand, from the last digit on;
/// of each only what is carried is kept.
#[track_caller]
fn share_of(words: &[Array; 4], range: u64) -> Array {
    let [low, high] = [range & WORD as u64, range >> 32].map(|half| half as i64);
    let [lower, upper] = [0, 32].map(|by| move |x: &Array| x.shift_right(by) & WORD);
    let digits = if high == 0 { &words[..2] } else { &words[..] };
    // Less than the range, so that no sum below has more than 64 bits.
    let mut carried = words[0].filled_like(Literal::index(0), Location::caller());
    for digit in digits.iter().rev() {
        let digit = digit.cast(Scalar::I64);
        let below = upper(&(&digit * low + lower(&carried)));
        carried = if high == 0 { below } else { &digit * high + upper(&carried) + below };
    }
    carried
}

/// The bits of a word.
const WORD: i64 = 0xFFFF_FFFF;

#[track_caller]
fn uniform_of(word: &Array) -> Array {
    word.shift_right(8u32).cast(Scalar::F32) * UNIT
}

/// A bijection of 64 bits in which each depends on all: SplitMix64 (Steele and others, "Fast
/// Splittable Pseudorandom Number Generators", 2014).
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

impl Array {
    /// Each element is zero with a probability, and divided by the probability that it is not
    /// otherwise.
    ///
    /// ```
    /// use kiln_array::{Array, nn::Key};
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::full(&device, 1.0f32, &[100]).dropout(0.5, Key::new(1)).to_vec::<f32>()?;
    /// assert!(x.iter().all(|&x| x == 0.0 || x == 2.0) && x.contains(&0.0) && x.contains(&2.0));
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// The result has an error if the probability is not at least 0 and less than 1.
    #[track_caller]
    pub fn dropout(&self, probability: f64, key: Key) -> Array {
        let site = Location::caller();
        let Some(device) = self.device() else { return self.clone() };
        if !(0.0..1.0).contains(&probability) {
            let problem = format!("a probability of {probability} is not at least 0 and less than 1");
            return Array::failed(Error::Shape { op: "dropout", problem, location: site }, site);
        }
        let kept = key.uniform(device, self.shape()).greater_equal(probability);
        (self * (1.0 / (1.0 - probability))).where_(&kept, 0.0)
    }
}
