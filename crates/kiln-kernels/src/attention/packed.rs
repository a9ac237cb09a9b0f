//! Attention of sequences of any lengths, which follow each other in one tensor.

use super::options::{Attention, shareable};
use super::{Problem, check, dispatch};
use kiln_lang::prelude::*;
use kiln_runtime::{Error, Result, Tensor};
use std::ops::Range;

/// The elements of starts: u32 or i32.
///
/// ```
/// use kiln_kernels::attention::{Attention, Packed, Start};
/// use kiln_runtime::{Device, Result, Tensor};
///
/// /// Causal attention of sequences to themselves.
/// fn within_sequences<I: Start>(starts: &Tensor<I, 1>) -> Result<Packed> {
///     Attention::new().causal().packed(starts, starts)
/// }
///
/// let device = Device::open("interp")?;
/// let x = device.tensor(&[0.0f32, 0.0, 7.0], [3, 1, 1])?;
/// let mut o = device.uninit([3, 1, 1])?;
/// within_sequences(&device.tensor(&[0i32, 2, 3], [3])?)?.run(&x, &x, &x, &mut o)?;
/// within_sequences(&device.tensor(&[0u32, 2, 3], [3])?)?.run(&x, &x, &x, &mut o)?;
/// assert_eq!(o.to_vec()?, [0.0, 0.0, 7.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub trait Start: Elem + TryInto<usize> + std::fmt::Display {}

impl Start for u32 {}
impl Start for i32 {}

/// Attention of sequences that follow each other in tensors tokens × heads × width;
/// [`Attention::packed`] makes it.
///
/// Tokens before the first start and from the last one on belong to no sequence: of q, k and v they
/// are not read, of o they are not written. On a Hopper GPU the values of a sequence should be
/// finite: what is not may reach the one before it.
///
/// ```
/// use kiln_kernels::Attention;
/// let device = kiln_runtime::Device::open("interp")?;
/// // Sequences of 1 and 2 tokens, 1 head of width 1.
/// let starts = device.tensor(&[0u32, 1, 3], [3])?;
/// let (q, v) = (device.zeros::<f32, 3>([3, 1, 1])?, device.tensor(&[5.0f32, 1.0, 3.0], [3, 1, 1])?);
/// let mut o = device.zeros([3, 1, 1])?;
/// Attention::new().packed(&starts, &starts)?.run(&q, &q, &v, &mut o)?;
/// assert_eq!(o.to_vec()?, [5.0, 2.0, 2.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub struct Packed {
    options: Attention,
    /// The queries and the keys of each sequence.
    pub(super) sequences: Vec<[Range<usize>; 2]>,
    /// The same for kernels: a row for each sequence, with the first query, how many, the first key
    /// and how many.
    pub(super) table: Tensor<i32, 2>,
}

impl Attention {
    /// The same options for sequences that follow each other in tensors tokens × heads × width
    /// ("variable lengths"): sequence i has the queries from `query_starts[i]` up to
    /// `query_starts[i + 1]`, and the keys likewise.
    ///
    /// The starts are read here, on the host: where a kernel computes them, this waits for it. What
    /// it gives serves any number of calls, such as all layers of a model.
    ///
    /// ```
    /// # use kiln_kernels::Attention;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// // One query each of two sequences, which have 1 and 3 keys.
    /// let (queries, keys) = (device.tensor(&[0, 1, 2], [3])?, device.tensor(&[0, 1, 4], [3])?);
    /// let packed = Attention::new().packed(&queries, &keys)?;
    /// let (q, k) = (device.zeros::<f32, 3>([2, 1, 1])?, device.zeros([4, 1, 1])?);
    /// let (v, mut o) = (device.tensor(&[9.0f32, 1.0, 2.0, 3.0], [4, 1, 1])?, device.uninit([2, 1, 1])?);
    /// packed.run(&q, &k, &v, &mut o)?;
    /// assert_eq!(o.to_vec()?, [9.0, 2.0]);
    /// // A sequence does not end before it starts.
    /// assert!(Attention::new().packed(&queries, &device.tensor(&[0, 4, 1], [3])?).is_err());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Shape`] unless both have one length, of 1 or more; [`Error::Value`] for a start
    /// below the one before.
    pub fn packed<I: Start>(&self, query_starts: &Tensor<I, 1>, key_starts: &Tensor<I, 1>) -> Result<Packed> {
        Packed::new(*self, query_starts, key_starts)
    }
}

impl Packed {
    pub(super) fn new<I: Start>(
        options: Attention,
        query_starts: &Tensor<I, 1>,
        key_starts: &Tensor<I, 1>,
    ) -> Result<Packed> {
        let count = query_starts.len().max(1);
        for (what, starts) in [("query_starts", query_starts), ("key_starts", key_starts)] {
            if starts.len() != count {
                let (expected, given) = (vec![count], vec![starts.len()]);
                return Err(Error::Shape { what: format!("attention, {what}"), expected, given });
            }
        }
        let queries = ranges("query_starts", &query_starts.to_vec()?)?;
        let keys = ranges("key_starts", &key_starts.to_vec()?)?;
        let sequences: Vec<[Range<usize>; 2]> = queries.into_iter().zip(keys).map(|(q, k)| [q, k]).collect();
        let table: Vec<i32> =
            sequences.iter().flatten().flat_map(|r| [r.start as i32, r.len() as i32]).collect();
        let table = query_starts.device().tensor(&table, [sequences.len(), 4])?;
        Ok(Packed { options, sequences, table })
    }

    /// How many queries the longest sequence has.
    pub(super) fn most_queries(&self) -> usize {
        self.sequences.iter().map(|[queries, _]| queries.len()).max().unwrap_or(0)
    }

    /// Writes the results to o, of the shape of q: tokens × heads × width.
    ///
    /// # Errors
    /// [`Error::Shape`] unless q and o have one shape, k and v another of the same width, of whose
    /// heads the number divides that of q; [`Error::Value`] if a sequence ends behind the last
    /// token, or for a scale or soft-cap that is none.
    pub fn run<T: Float + Accumulate<Acc = f32>>(
        &self,
        q: &Tensor<T, 3>,
        k: &Tensor<T, 3>,
        v: &Tensor<T, 3>,
        o: &mut Tensor<T, 3>,
    ) -> Result<()> {
        let [tokens, heads, _] = q.shape();
        let mut sums = q.device().uninit([heads, tokens])?;
        self.run_with_sums(q, k, v, o, &mut sums)
    }

    /// [`run`](Self::run), and for each query the logarithm of the sum of e^score, as
    /// [`Attention::run_with_sums`] gives it. `sums` are heads × tokens.
    ///
    /// ```
    /// # use kiln_kernels::Attention;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let starts = device.tensor(&[0u32, 1, 3], [3])?;
    /// let (q, v) = (device.zeros::<f32, 3>([3, 1, 1])?, device.tensor(&[5.0f32, 1.0, 3.0], [3, 1, 1])?);
    /// let (mut o, mut sums) = (device.uninit([3, 1, 1])?, device.uninit([1, 3])?);
    /// Attention::new().packed(&starts, &starts)?.run_with_sums(&q, &q, &v, &mut o, &mut sums)?;
    /// let expected = [0.0, 2.0f32.ln(), 2.0f32.ln()];
    /// assert!(sums.to_vec()?.iter().zip(expected).all(|(sum, expected)| (sum - expected).abs() < 1e-6));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`run`](Self::run), and [`Error::Shape`] for `sums` of another shape.
    pub fn run_with_sums<T: Float + Accumulate<Acc = f32>>(
        &self,
        q: &Tensor<T, 3>,
        k: &Tensor<T, 3>,
        v: &Tensor<T, 3>,
        o: &mut Tensor<T, 3>,
        sums: &mut Tensor<f32, 2>,
    ) -> Result<()> {
        let ([tokens, heads, width], [key_tokens, key_heads, _]) = (q.shape(), k.shape());
        let keys = [key_tokens, shareable(key_heads, heads), width];
        check("attention, k", &keys, &k.shape())?;
        check("attention, v", &keys, &v.shape())?;
        check("attention, o", &q.shape(), &o.shape())?;
        check("attention, sums", &[heads, tokens], &sums.shape())?;
        self.check_end("query_starts", 0, tokens)?;
        self.check_end("key_starts", 1, key_tokens)?;
        if heads == 0 || self.most_queries() == 0 {
            return Ok(());
        }
        let by_head = |x: &Tensor<T, 3>, side: usize| -> Result<Tensor<T, 4>> {
            // Memory behind the last sequence may hold anything.
            let end = self.sequences.last().map_or(0, |last| last[side].end);
            x.slice(0, 0..end)?.permute([1, 0, 2])?.unsqueeze(0)
        };
        let tensors = [by_head(q, 0)?, by_head(k, 1)?, by_head(v, 1)?, by_head(o, 0)?];
        let problem = self.options.problem(tensors, sums.unsqueeze(0)?)?;
        dispatch(Problem { packed: Some(self), ..problem })
    }

    fn check_end(&self, what: &str, side: usize, tokens: usize) -> Result<()> {
        let end = self.sequences.last().map_or(0, |last| last[side].end);
        if end <= tokens {
            return Ok(());
        }
        let (what, expected) = (format!("attention, {what}"), format!("an end of at most {tokens} tokens"));
        Err(Error::Value { what, expected, given: end.to_string() })
    }
}

/// From each start to the next.
fn ranges<I: Start>(what: &str, starts: &[I]) -> Result<Vec<Range<usize>>> {
    let mut ends = Vec::with_capacity(starts.len());
    for &start in starts {
        let least = ends.last().copied().unwrap_or(0);
        let end = start.try_into().ok().filter(|&end| end >= least && i32::try_from(end).is_ok());
        ends.push(end.ok_or_else(|| Error::Value {
            what: format!("attention, {what}[{}]", ends.len()),
            expected: format!("a number from {least} to {}", i32::MAX),
            given: start.to_string(),
        })?);
    }
    Ok(ends.windows(2).map(|pair| pair[0]..pair[1]).collect())
}
