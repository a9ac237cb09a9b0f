//! Keys and values that a language model keeps of the tokens so far.

use super::check;
use kiln_lang::prelude::*;
use kiln_runtime::{Error, Result, Tensor};
use std::ops::Range;

/// Keys and values of some sequences, each of a length of its own, in tensors with room for more:
/// what [`Attention::decode`](super::Attention::decode) attends to.
///
/// ```
/// use kiln_kernels::attention::Cache;
/// let device = kiln_runtime::Device::open("interp")?;
/// let k = device.zeros::<f32, 4>([2, 16, 1, 8])?; // 2 sequences, room for 16 keys, 1 head of width 8
/// let lengths = device.tensor(&[3, 1], [2])?;
/// let cache = Cache::new(&k, &k, &lengths)?;
/// assert_eq!(cache.room(), 16);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub struct Cache<T: Elem> {
    /// Sequences or pages × heads × keys × width.
    pub(super) keys: Tensor<T, 4>,
    pub(super) values: Tensor<T, 4>,
    pub(super) lengths: Tensor<i32, 1>,
    pub(super) table: Option<Tensor<i32, 2>>,
}

/// Keys of a page are a multiple of this.
const PAGE: usize = 8;

impl<T: Elem> Cache<T> {
    /// That of some of the sequences.
    pub(super) fn part(&self, sequences: Range<usize>) -> Result<Cache<T>> {
        let of = |x: &Tensor<T, 4>| match self.table {
            Some(_) => Ok(x.alias()),
            None => x.slice(0, sequences.clone()),
        };
        Ok(Cache {
            keys: of(&self.keys)?,
            values: of(&self.values)?,
            lengths: self.lengths.slice(0, sequences.clone())?,
            table: self.table.as_ref().map(|table| table.slice(0, sequences)).transpose()?,
        })
    }

    /// Keys and values sequences × room × heads × width, of which each sequence has as many as
    /// `lengths` say; a length below 0 counts as 0, one above the room as the room. What lies
    /// behind them is not looked at. Tensors that are by heads first are views:
    /// `by_heads.permute([0, 2, 1, 3])`.
    ///
    /// # Errors
    /// [`Error::Shape`] unless k and v have one shape, and there is a length for each sequence.
    pub fn new(k: &Tensor<T, 4>, v: &Tensor<T, 4>, lengths: &Tensor<i32, 1>) -> Result<Cache<T>> {
        check("a cache, v", &k.shape(), &v.shape())?;
        check("a cache, lengths", &k.shape()[..1], &lengths.shape())?;
        Cache::of(k, v, lengths, None)
    }

    /// Keys and values in pages of one size, which sequences share out ("paged attention"; Kwon et
    /// al., 2023): k and v are pages × keys of a page × heads × width, and `table` names the pages
    /// of each sequence in order, sequences × most pages of one. Pages behind a sequence's last key
    /// are not looked at; a page that is not there is a fault of the launch.
    ///
    /// ```
    /// use kiln_kernels::Attention;
    /// use kiln_kernels::attention::Cache;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// // 3 pages of 8 keys, 1 head of width 1; a sequence of 9 keys has the pages 2 and 0.
    /// let v: Vec<f32> = (0..24).map(|i| i as f32).collect();
    /// let (k, v) = (device.zeros([3, 8, 1, 1])?, device.tensor(&v, [3, 8, 1, 1])?);
    /// let (lengths, table) = (device.tensor(&[9], [1])?, device.tensor(&[2, 0], [1, 2])?);
    /// let (q, mut o) = (device.zeros::<f32, 3>([1, 1, 1])?, device.uninit([1, 1, 1])?);
    /// Attention::new().decode(&q, &Cache::paged(&k, &v, &lengths, &table)?, &mut o)?;
    /// assert!((o.to_vec()?[0] - (16..24).sum::<i32>() as f32 / 9.0).abs() < 1e-5);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Shape`] unless k and v have one shape, and there is a length for each row of the
    /// table; [`Error::Value`] unless the keys of a page are a multiple of 8.
    pub fn paged(
        k: &Tensor<T, 4>,
        v: &Tensor<T, 4>,
        lengths: &Tensor<i32, 1>,
        table: &Tensor<i32, 2>,
    ) -> Result<Cache<T>> {
        check("a cache, v", &k.shape(), &v.shape())?;
        check("a cache, lengths", &table.shape()[..1], &lengths.shape())?;
        let page = k.shape()[1];
        if page == 0 || !page.is_multiple_of(PAGE) {
            let (what, expected) = ("a cache, keys of a page".into(), format!("a multiple of {PAGE}"));
            return Err(Error::Value { what, expected, given: page.to_string() });
        }
        Cache::of(k, v, lengths, Some(table.alias()))
    }

    fn of(
        k: &Tensor<T, 4>,
        v: &Tensor<T, 4>,
        lengths: &Tensor<i32, 1>,
        table: Option<Tensor<i32, 2>>,
    ) -> Result<Cache<T>> {
        let by_head = |x: &Tensor<T, 4>| x.permute([0, 2, 1, 3]);
        Ok(Cache { keys: by_head(k)?, values: by_head(v)?, lengths: lengths.alias(), table })
    }

    /// The most keys that a sequence has room for.
    pub fn room(&self) -> usize {
        let keys = self.keys.shape()[2];
        self.table.as_ref().map_or(keys, |table| keys * table.shape()[1])
    }

    /// Keys of a page.
    pub(super) fn page(&self) -> Option<usize> {
        self.table.as_ref().map(|_| self.keys.shape()[2])
    }
}
