//! The options of attention, and tensors that each hold a batch of one length.

use super::heads::Heads;
use super::{Problem, check, dispatch};
use crate::Tuning;
use kiln_lang::prelude::*;
use kiln_runtime::{Error, Result, Tensor};

/// Scaled dot-product attention with options: o = softmax(scale q kᵀ) v for each head, where a
/// query sees the keys that all options let it see.
///
/// Tensors are heads × length × width, or batch × length × heads × width; or tokens × heads ×
/// width, where sequences of any lengths follow each other ([`packed`](Self::packed)). Only
/// elements of a row must be adjacent, so queries, keys and values may be views of one fused
/// tensor. k and v may have fewer heads than q, of which as many neighbors share one as the numbers
/// say ("grouped-query attention"). Scores and sums are f32. A query that sees no key gives zeros.
/// The same inputs give the same bits.
///
/// On a Hopper GPU, f16 and bf16 of widths up to 256 that are multiples of 8, at addresses and
/// strides of multiples of 16 bytes, with a scale above 0, go to the tensor cores.
///
/// ```
/// use kiln_kernels::Attention;
/// use kiln_runtime::Tensor;
/// let device = kiln_runtime::Device::open("interp")?;
/// // Batch 1, length 2, queries, keys and values of 1 head of width 1 side by side.
/// let fused = device.tensor(&[0.0f32, 0.0, 1.0, 0.0, 0.0, 3.0], [1, 2, 3, 1, 1])?;
/// let [q, k, v] = [0, 1, 2].map(|i| fused.select::<4>(2, i));
/// let (q, k, v, mut o) = (q?, k?, v?, device.uninit([1, 2, 1, 1])?);
/// Attention::new().causal().window(128, None).soft_cap(30.0).run(&q, &k, &v, &mut o)?;
/// assert_eq!(o.to_vec()?, [1.0, 2.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attention {
    pub(super) left: Option<usize>,
    pub(super) right: Option<usize>,
    pub(super) soft_cap: Option<f32>,
    pub(super) scale: Option<f32>,
    pub(super) tuning: Tuning,
}

/// What the kernels get of the options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mask {
    /// How many keys before its place a query sees.
    pub left: Option<usize>,
    /// How many after it.
    pub right: Option<usize>,
}

impl Mask {
    /// Whether there is a limit to the left, and to the right.
    pub fn bounded(&self) -> [bool; 2] {
        [self.left.is_some(), self.right.is_some()]
    }

    /// The limits; what is above all lengths limits nothing.
    pub fn limits(&self) -> [i64; 2] {
        let number = |limit: Option<usize>| limit.map_or(0, |n| (n as u64).min(1 << 40) as i64);
        [number(self.left), number(self.right)]
    }
}

impl Attention {
    /// Every query sees every key; the scale is 1 / √width.
    pub fn new() -> Attention {
        Attention::default()
    }

    /// Query i sees the keys up to i + (keys - queries): the last query sees them all.
    #[must_use]
    pub fn causal(self) -> Attention {
        self.window(None, 0)
    }

    /// Query i sees only the keys from p - `left` to p + `right`, where p = i + (keys - queries);
    /// `None` is no limit ("sliding window"). With [`causal`](Self::causal) and other windows, what
    /// all of them let it see.
    #[must_use]
    pub fn window(mut self, left: impl Into<Option<usize>>, right: impl Into<Option<usize>>) -> Attention {
        let narrower = |a: Option<usize>, b: Option<usize>| a.into_iter().chain(b).min();
        self.left = narrower(self.left, left.into());
        self.right = narrower(self.right, right.into());
        self
    }

    /// Scores s become c · tanh(s / c) before the softmax ("logit soft-capping"; Gemma Team, "Gemma
    /// 2", 2024). c is finite and above 0.
    #[must_use]
    pub fn soft_cap(mut self, c: f32) -> Attention {
        self.soft_cap = Some(c);
        self
    }

    /// What products of queries and keys are multiplied by, in place of 1 / √width; finite.
    ///
    /// ```
    /// # use kiln_kernels::Attention;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let (q, k) = (device.tensor(&[1.0f32], [1, 1, 1])?, device.tensor(&[0.0f32, 3.0f32.ln()], [1, 2, 1])?);
    /// let (v, mut o) = (device.tensor(&[0.0f32, 1.0], [1, 2, 1])?, device.uninit([1, 1, 1])?);
    /// Attention::new().scale(1.0).run(&q, &k, &v, &mut o)?;
    /// assert!((o.to_vec()?[0] - 3.0 / 4.0).abs() < 1e-6);
    /// Attention::new().scale(2.0).run(&q, &k, &v, &mut o)?;
    /// assert!((o.to_vec()?[0] - 9.0 / 10.0).abs() < 1e-6);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    #[must_use]
    pub fn scale(mut self, scale: f32) -> Attention {
        self.scale = Some(scale);
        self
    }

    /// Chooses by measurement how the work is divided: see [`Tuning`].
    ///
    /// ```
    /// use kiln_kernels::{Attention, Tuning};
    /// use std::time::Duration;
    ///
    /// let device = kiln_runtime::Device::open("cpu")?;
    /// let (q, mut o) = (device.tensor(&[0.5f32; 300 * 64], [1, 300, 64])?, device.uninit([1, 300, 64])?);
    /// Attention::new().causal().tuning(Tuning::budget(Duration::from_millis(100))).run(&q, &q, &q, &mut o)?;
    /// assert!(o.to_vec()?.iter().all(|&x| (x - 0.5f32).abs() < 1e-6));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    #[must_use]
    pub fn tuning(mut self, tuning: Tuning) -> Attention {
        self.tuning = tuning;
        self
    }

    /// Writes the results to o, of the shape of q.
    ///
    /// # Errors
    /// [`Error::Shape`] unless k and v have the batch and width of q, one length and a number of
    /// heads that divides that of q, and o the shape of q; [`Error::Value`] for a scale or soft-cap
    /// that is none.
    pub fn run<X: Heads>(&self, q: &X, k: &X, v: &X, o: &mut X) -> Result<()> {
        let mut sums = X::sums_of(q)?;
        self.run_with_sums(q, k, v, o, &mut sums)
    }

    /// [`run`](Self::run), and for each query the logarithm of the sum of e^score, which joins
    /// results over parts of the keys and is the input of a backward pass. It is -∞ for a query
    /// that sees no key. `sums` are heads × length, or batch × heads × length.
    ///
    /// # Errors
    /// Those of [`run`](Self::run), and [`Error::Shape`] for `sums` of another shape.
    pub fn run_with_sums<X: Heads>(&self, q: &X, k: &X, v: &X, o: &mut X, sums: &mut X::Sums) -> Result<()> {
        let (q, k, v, o) = (q.by_head()?, k.by_head()?, v.by_head()?, o.by_head()?);
        let sums = X::sums_by_head(sums)?;
        let [batch, heads, queries, width] = q.shape();
        let [_, key_heads, count, _] = k.shape();
        let keys = [batch, shareable(key_heads, heads), count, width];
        check("attention, k", &X::given(keys), &X::given(k.shape()))?;
        check("attention, v", &X::given(keys), &X::given(v.shape()))?;
        check("attention, o", &X::given(q.shape()), &X::given(o.shape()))?;
        let expected = X::given_sums([batch, heads, queries]);
        check("attention, sums", &expected, &X::given_sums(sums.shape()))?;
        dispatch(self.problem([q, k, v, o], sums)?)
    }

    /// The scale for heads of a width, and the cap, or 1 without one.
    pub(super) fn numbers(&self, width: usize) -> Result<(f32, f32)> {
        let refuse = |what: &str, expected: &str, given: f32| {
            let (what, expected, given) = (format!("attention, {what}"), expected.into(), given.to_string());
            Err(Error::Value { what, expected, given })
        };
        let scale = self.scale.unwrap_or(1.0 / (width as f32).sqrt());
        if self.scale.is_some_and(|s| !s.is_finite()) {
            return refuse("scale", "a finite number", scale);
        }
        if let Some(c) = self.soft_cap.filter(|c| !(c.is_finite() && *c > 0.0)) {
            return refuse("soft_cap", "a finite number above 0", c);
        }
        Ok((scale, self.soft_cap.unwrap_or(1.0)))
    }

    /// Checks the numbers, and puts everything together, for tensors that each hold a batch.
    pub(super) fn problem<'a, T: Elem>(
        &self,
        [q, k, v, o]: [Tensor<T, 4>; 4],
        sums: Tensor<f32, 3>,
    ) -> Result<Problem<'a, T>> {
        let (scale, _) = self.numbers(q.shape()[3])?;
        let mask = Mask { left: self.left, right: self.right };
        let (soft_cap, tuning) = (self.soft_cap, self.tuning);
        Ok(Problem { q, k, v, o, sums, packed: None, mask, scale, soft_cap, tuning })
    }
}

/// As many heads of keys as there are, if they can be shared, else as many as q has.
pub(super) fn shareable(key_heads: usize, heads: usize) -> usize {
    if key_heads > 0 && heads.is_multiple_of(key_heads) { key_heads } else { heads }
}
