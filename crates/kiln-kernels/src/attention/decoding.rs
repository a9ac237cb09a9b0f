//! Attention of one query to a long cache ("flash-decoding"; Dao et al., 2023).
//!
//! Keys are divided into parts, so that there is work for a whole device where sequences are few. A
//! program takes one part for all heads of queries that share a head of keys, which are the rows of
//! one tile: keys and values are read once. A second kernel joins the parts of a head.
//!
//! ```text
//!  parts:  q (heads that share keys × width) ──▶ product with keys of a turn ─▶ weights ─▶ sums
//!  join:   sums of each part, by their logarithms ──▶ o
//! ```

use super::cache::Cache;
use super::check;
use super::options::Attention;
use crate::sizes::{grids, row_tile};
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Error, Execution, Result, Tensor};
use std::f32::consts::LOG2_E;

/// Kernels, for launches of one's own.
///
/// ```
/// use kiln_kernels::attention::decoding::kernels::{DecodingForm, join, parts, whole};
/// let device = kiln_runtime::Device::open("interp")?;
/// // 1 sequence of 32 keys, 1 head of width 1. All scores are 0: the result is the values' mean.
/// let values: Vec<f32> = (0..32).map(|i| i as f32).collect();
/// let (q, k) = (device.zeros::<f32, 4>([1, 1, 1, 1])?, device.zeros([1, 1, 32, 1])?);
/// let (v, mut o) = (device.tensor(&values, [1, 1, 32, 1])?, device.uninit([1, 1, 1, 1])?);
/// let (lengths, table) = (device.tensor(&[32], [1])?, device.zeros([1, 1])?);
/// let form = DecodingForm { rows: 16, columns: 16, width: 16, bounded: false, capped: false, page: 0 };
/// whole(&q, &k, &v, &lengths, &table, &mut o, 1.0, 1.0, 0, form).grid([1, 1, 1]).launch(&device)?;
/// assert_eq!(o.to_vec()?, [15.5]);
///
/// // The same in two parts of 16 keys.
/// let (mut sums, mut logarithms) = (device.uninit([1, 1, 1, 2, 1])?, device.uninit([1, 1, 1, 2])?);
/// parts(&q, &k, &v, &lengths, &table, &mut sums, &mut logarithms, 1.0, 1.0, 0, form)
///     .grid([2, 1, 1])
///     .launch(&device)?;
/// assert_eq!((sums.to_vec()?, logarithms.to_vec()?), (vec![7.5, 23.5], vec![4.0, 4.0]));
/// join(&sums, &logarithms, &mut o, 2, 2, 1).grid([1, 1, 1]).launch(&device)?;
/// assert_eq!(o.to_vec()?, [15.5]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub mod kernels {
    use super::*;

    /// What a kernel is made for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelConst)]
    #[kiln(crate = kiln_runtime)]
    pub struct DecodingForm {
        /// Covers the heads of queries that share one of keys.
        pub rows: usize,
        /// Keys of a turn; divides a page.
        pub columns: usize,
        /// Covers the width of a head.
        pub width: usize,
        /// Whether there is a limit to the keys that are seen before the last one.
        pub bounded: bool,
        /// Whether scores are capped.
        pub capped: bool,
        /// Keys of a page, where a table names the pages of each sequence; else 0.
        pub page: usize,
    }

    /// Numbers of the host, and the keys of a program.
    #[derive(Clone, Copy)]
    struct Asked {
        scale: Val<f32>,
        cap: Val<f32>,
        /// The sequence, and its head of keys.
        sequence: Idx,
        head: Idx,
        /// The first key that is seen, and the number of keys.
        first: Idx,
        known: Idx,
    }

    /// What the turns so far have summed.
    #[derive(Clone, Copy, DeviceValue)]
    #[kiln(crate = kiln_runtime)]
    struct Sums {
        /// The greatest score, as a logarithm to base 2.
        greatest: Val<f32>,
        sum: Val<f32>,
        out: Val<f32>,
    }

    /// The attention of a query of each sequence (axis 2) and head of keys (axis 1) to the keys of
    /// a part (axis 0), of as many parts as `sums` have. q is sequences × heads of keys × heads
    /// that share one × width; k and v are sequences × heads × keys × width, or pages × heads ×
    /// keys of a page × width, where `table` has the pages of each sequence. Keys from a sequence's
    /// length on are not looked at. `logarithms` are those of the sums of e^score, to base 2, and
    /// -∞ for a part that sees no key.
    #[kernel(crate = kiln_runtime, contract)]
    pub fn parts<T: Float + Accumulate<Acc = f32>>(
        q: &Tensor<T, 4>,
        k: &Tensor<T, 4>,
        v: &Tensor<T, 4>,
        lengths: &Tensor<i32, 1>,
        table: &Tensor<i32, 2>,
        sums: &mut Tensor<f32, 5>,
        logarithms: &mut Tensor<f32, 4>,
        scale: Val<f32>,
        cap: Val<f32>,
        left: Val<i64>,
        form: DecodingForm,
    ) {
        let (part, head, sequence) = (program_id(0), program_id(1), program_id(2));
        let (result, logarithm) =
            part_of(q, k, v, (lengths, table), (part, sums.extent(3)), (scale, cap, left), form);
        let DecodingForm { rows, width, .. } = form;
        let to = sums.row(sequence).row(head).tile((0, part, 0), (rows, 1, width));
        to.store(result.reshape((rows, 1, width)));
        let to = logarithms.row(sequence).row(head).tile((0, part), (rows, 1));
        to.store(logarithm.reshape((rows, 1)));
    }

    /// As [`parts`], of one part, whose results are all: o is like q.
    #[kernel(crate = kiln_runtime, contract)]
    pub fn whole<T: Float + Accumulate<Acc = f32>>(
        q: &Tensor<T, 4>,
        k: &Tensor<T, 4>,
        v: &Tensor<T, 4>,
        lengths: &Tensor<i32, 1>,
        table: &Tensor<i32, 2>,
        o: &mut Tensor<T, 4>,
        scale: Val<f32>,
        cap: Val<f32>,
        left: Val<i64>,
        form: DecodingForm,
    ) {
        let DecodingForm { rows, width, .. } = form;
        let one = (val(0), val(1));
        let (result, _) = part_of(q, k, v, (lengths, table), one, (scale, cap, left), form);
        let to = o.row(program_id(2)).row(program_id(1));
        to.tile((program_id(0) * rows, 0), (rows, width)).store(result.cast::<T>());
    }

    /// A part's sums of weighted values, divided by that of the weights, and the logarithm of that
    /// to base 2.
    #[device(crate = kiln_runtime)]
    fn part_of<T: Float + Accumulate<Acc = f32>>(
        q: View<T, 4>,
        k: View<T, 4>,
        v: View<T, 4>,
        (lengths, table): (View<i32, 1>, View<i32, 2>),
        (part, parts): (Idx, Idx),
        (scale, cap, left): (Val<f32>, Val<f32>, Idx),
        form: DecodingForm,
    ) -> (Val<f32>, Val<f32>) {
        let DecodingForm { rows, columns, width, .. } = form;
        let (head, sequence) = (program_id(1), program_id(2));
        let room = if form.page > 0 { table.extent(1) * form.page } else { k.extent(2) };
        let known = lengths.get(sequence).cast::<i64>().minimum(room).maximum(0);
        let first = if form.bounded { (known - 1 - left).maximum(0) } else { val(0) };
        let asked = Asked { scale, cap, sequence, head, first, known };
        // Parts are whole turns, so that only the last one, and a first one, have other keys.
        let columns = columns as i64;
        let (before, all) = (first / columns, (known + (columns - 1)) / columns);
        let each = (all - before + parts - 1) / parts;
        let begin = (before + part * each) * columns;
        let end = (begin + each * columns).minimum(known);
        let queries = q.row(sequence).row(head).tile((0, 0), (rows, width)).load(0);
        let mut so_far = Sums {
            greatest: full::<f32>(rows, f32::MIN),
            sum: zeros::<f32>(rows),
            out: zeros::<f32>((rows, width)),
        };
        let whole = if form.bounded { begin } else { (end / columns * columns).maximum(begin) };
        for edge in [false, true] {
            if form.bounded && !edge {
                continue;
            }
            let (from, to) = if edge { (whole, end) } else { (begin, whole) };
            for key in range_step(from, to, columns) {
                so_far = turn(so_far, queries, (k, v, table), (key, edge), asked, form);
            }
        }
        let Sums { greatest, sum, out } = so_far;
        let some = sum.gt(0.0);
        let logarithm = select(some, greatest + sum.log2(), f32::NEG_INFINITY);
        (select(some.expand(1), out.fast_div(sum.expand(1)), 0.0), logarithm)
    }

    /// The keys from one on.
    #[device(crate = kiln_runtime)]
    fn turn<T: Float + Accumulate<Acc = f32>>(
        so_far: Sums,
        queries: Val<T>,
        (k, v, table): (View<T, 4>, View<T, 4>, View<i32, 2>),
        (first, edge): (Idx, bool),
        asked: Asked,
        form: DecodingForm,
    ) -> Sums {
        let DecodingForm { columns, width, .. } = form;
        let (outer, at) = if form.page > 0 {
            let size = form.page as i64;
            let page = table.get_or((asked.sequence, first / size), -1).cast::<i64>();
            device_assert!(page.ge(0) & page.lt(k.extent(0)), "page {} is none of the cache's", page);
            (page, first % size)
        } else {
            (asked.sequence, first)
        };
        let of = |x: View<T, 4>| x.row(outer).row(asked.head).tile((at, 0), (columns, width)).load(0);
        let products = dot(queries, of(k).transpose());
        let mut scores = if form.capped {
            (products * asked.scale.fast_div(asked.cap)).tanh() * (asked.cap * LOG2_E)
        } else {
            products * (asked.scale * LOG2_E)
        };
        let mut values = of(v);
        if edge {
            let within = |place: Idx| place.maximum(0).minimum(columns as i64).cast::<i32>();
            let key = iota::<i32>(columns);
            let mut seen = key.lt(within(asked.known - first));
            if form.bounded {
                seen &= key.ge(within(asked.first - first));
            }
            scores = select(seen.expand(0), scores, f32::NEG_INFINITY);
            // What lies behind the last key may be no numbers.
            values = select(seen.expand(1), values, 0);
        }
        let greatest = so_far.greatest.maximum(scores.max_axis(1));
        let weights = (scores - greatest.expand(1)).exp2();
        let shrink = (so_far.greatest - greatest).exp2();
        let sum = so_far.sum * shrink + weights.sum_axis(1);
        let out = dot_acc(weights.cast::<T>(), values, so_far.out * shrink.expand(1));
        Sums { greatest, sum, out }
    }

    /// o = the parts of a head of queries (axis 0) of a sequence (axis 2, with its head of keys on
    /// axis 1), each with its weight; `most` covers their number, of which `columns` are added at
    /// once.
    #[kernel(crate = kiln_runtime, contract)]
    pub fn join<T: Float>(
        sums: &Tensor<f32, 5>,
        logarithms: &Tensor<f32, 4>,
        o: &mut Tensor<T, 4>,
        most: usize,
        columns: usize,
        width: usize,
    ) {
        let (query, head, sequence) = (program_id(0), program_id(1), program_id(2));
        let logarithms = logarithms.row(sequence).row(head).row(query);
        let all = logarithms.load(most, f32::NEG_INFINITY);
        let greatest = all.reduce_max().maximum(f32::MIN);
        let sum = (all - greatest).exp2().sum();
        let mut out = zeros::<f32>(width);
        let sums = sums.row(sequence).row(head).row(query);
        for first in range_step(0, sums.extent(0), columns) {
            let some = logarithms.tile(first, columns).load(f32::NEG_INFINITY);
            let values = sums.tile((first, 0), (columns, width)).load(0.0);
            out += (values * (some - greatest).exp2().expand(1)).sum_axis(0);
        }
        let result = select(sum.gt(0.0), out.fast_div(sum), 0.0);
        o.row(sequence).row(head).row(query).tile(0, width).store(result.cast::<T>());
    }
}

/// How the keys are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Division {
    rows: usize,
    columns: usize,
    warps: Option<u32>,
    parts: usize,
}

/// Parts that are added at once where they are joined.
const JOINED: usize = 16;
/// The most parts of a sequence.
const PARTS: usize = 1024;

impl Attention {
    /// Attention of one query for each sequence to the keys and values of a cache, which are those
    /// of the query's place and of all before it: what a language model does for each token that it
    /// adds. q and o are sequences × heads × width.
    ///
    /// Limits to the right have no effect, since no key comes after the query; limits to the left
    /// count from the last key of the sequence. A sequence without keys gives zeros. The lengths of
    /// sequences are read on the device, so that a graph of this serves all tokens. The same inputs
    /// give the same bits.
    ///
    /// ```
    /// use kiln_kernels::Attention;
    /// use kiln_kernels::attention::Cache;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// // 2 sequences, of which the second has 1 key; room for 3; 1 head of width 1.
    /// let (q, k) = (device.zeros::<f32, 3>([2, 1, 1])?, device.zeros([2, 3, 1, 1])?);
    /// let v = device.tensor(&[1.0f32, 3.0, 5.0, 7.0, 8.0, 9.0], [2, 3, 1, 1])?;
    /// let (lengths, mut o) = (device.tensor(&[3, 1], [2])?, device.uninit([2, 1, 1])?);
    /// Attention::new().decode(&q, &Cache::new(&k, &v, &lengths)?, &mut o)?;
    /// assert_eq!(o.to_vec()?, [3.0, 7.0]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Shape`] unless the cache has as many sequences as q, its width, and a number of
    /// heads that divides that of q, and o the shape of q; [`Error::Value`] for a scale or soft-cap
    /// that is none.
    pub fn decode<T: Float + Accumulate<Acc = f32>>(
        &self,
        q: &Tensor<T, 3>,
        cache: &Cache<T>,
        o: &mut Tensor<T, 3>,
    ) -> Result<()> {
        let [sequences, heads, width] = q.shape();
        let [_, key_heads, _, key_width] = cache.keys.shape();
        check("attention, o", &[sequences, heads, width], &o.shape())?;
        check("attention, the cache's lengths", &[sequences], &cache.lengths.shape())?;
        check("attention, the cache's width", &[width], &[key_width])?;
        let shared = heads.checked_div(key_heads).unwrap_or(0);
        if shared * key_heads != heads {
            let (what, expected) = ("attention, the cache's heads".into(), format!("a divisor of {heads}"));
            return Err(Error::Value { what, expected, given: key_heads.to_string() });
        }
        let (scale, cap) = self.numbers(width)?;
        if sequences * heads * width == 0 {
            return Ok(());
        }
        let of_keys = |x: &Tensor<T, 3>| grouped(x, [sequences, key_heads, shared, width]);
        let (q, o) = (of_keys(q)?, of_keys(o)?);
        let at_once = divide(q.device(), size_of::<T>(), q.shape(), cache).rows;
        for [_, batch] in grids(q.device(), [1, sequences], [1; 2]) {
            let (q, o, cache) = (q.slice(0, batch.clone())?, o.slice(0, batch.clone())?, cache.part(batch)?);
            for first in (0..shared).step_by(at_once) {
                let heads = first..(first + at_once).min(shared);
                let mut o = o.slice(2, heads.clone())?;
                self.decode_heads(&q.slice(2, heads)?, &cache, &mut o, (scale, cap))?;
            }
        }
        Ok(())
    }

    /// Of some of the heads that share keys (axis 2), as many as one program takes.
    fn decode_heads<T: Float + Accumulate<Acc = f32>>(
        &self,
        q: &Tensor<T, 4>,
        cache: &Cache<T>,
        o: &mut Tensor<T, 4>,
        (scale, cap): (f32, f32),
    ) -> Result<()> {
        let [sequences, key_heads, shared, width] = q.shape();
        let device = q.device().clone();
        let division = divide(&device, size_of::<T>(), q.shape(), cache);
        let form = kernels::DecodingForm {
            rows: division.rows,
            columns: division.columns,
            width: row_tile(width),
            bounded: self.left.is_some(),
            capped: self.soft_cap.is_some(),
            page: cache.page().unwrap_or(0),
        };
        let left = self.left.map_or(0, |n| (n as u64).min(1 << 40) as i64);
        let none;
        let table = match &cache.table {
            Some(table) => table,
            None => {
                // The kernel reads no table then.
                none = cache.lengths.unsqueeze(1)?;
                &none
            }
        };
        let (k, v, lengths) = (&cache.keys, &cache.values, &cache.lengths);
        let Division { parts, warps, .. } = division;
        let grid = [parts as u32, key_heads as u32, sequences as u32];
        if parts == 1 {
            let launch = kernels::whole(q, k, v, lengths, table, o, scale, cap, left, form);
            let launch = if let Some(warps) = warps { launch.warps(warps) } else { launch };
            return launch.grid(grid).launch(&device);
        }
        let mut sums = device.uninit([sequences, key_heads, shared, parts, width])?;
        let mut logarithms = device.uninit([sequences, key_heads, shared, parts])?;
        let launch =
            kernels::parts(q, k, v, lengths, table, &mut sums, &mut logarithms, scale, cap, left, form);
        let launch = if let Some(warps) = warps { launch.warps(warps) } else { launch };
        launch.grid(grid).launch(&device)?;
        kernels::join(&sums, &logarithms, o, parts.next_power_of_two(), JOINED, form.width)
            .grid([shared as u32, key_heads as u32, sequences as u32])
            .launch(&device)
    }
}

/// Queries or results with an axis for the heads that share keys.
fn grouped<T: Elem>(x: &Tensor<T, 3>, shape: [usize; 4]) -> Result<Tensor<T, 4>> {
    let [by_sequence, by_head, by_column] = x.strides();
    let strides = [by_sequence, shape[2] * by_head, by_head, by_column];
    x.as_dyn().strided(x.offset(), &shape, &strides)?.downcast()
}

/// How a device divides decoding: the fastest of those tried (`bench/notes.md`).
fn divide<T: Elem>(
    device: &Device,
    bytes: usize,
    [sequences, key_heads, shared, width]: [usize; 4],
    cache: &Cache<T>,
) -> Division {
    let (execution, units) = (device.capabilities().execution, device.properties().units as usize);
    let narrow = row_tile(width) <= 128;
    // Products of tensor cores have 16 rows. Pages are read at once by the fewest programs.
    let paged = cache.page().is_some();
    let (least, most, warps, at_once) = match execution {
        Execution::Simt if bytes == 2 && narrow && !paged => (16, 32, Some(2), 4),
        Execution::Simt if bytes == 2 => (16, if narrow { 64 } else { 32 }, Some(4), 1),
        Execution::Simt => (1, if narrow { 32 } else { 16 }, Some(4), 2),
        Execution::Simd => (1, 128, None, 1),
        Execution::Interpreted => (1, 16, None, 4),
    };
    let rows = shared.next_power_of_two().max(least);
    let page = cache.page();
    let columns = page.map_or(most, |page| most.min(1 << page.trailing_zeros()));
    let (rows, columns) = match execution {
        Execution::Simt => {
            fitting(rows, columns, row_tile(width), device.properties().shared_memory as usize)
        }
        Execution::Simd | Execution::Interpreted => (rows, columns),
    };
    let turns = cache.room().div_ceil(columns).max(1);
    let parts = parts(units * at_once, sequences * key_heads, turns.min(PARTS));
    Division { rows, columns, warps, parts }
}

/// Rows and columns of which both factors of a product have room in shared memory, as f32 at most:
/// fewer keys of a turn first, then fewer heads, each of which reads the keys again.
fn fitting(mut rows: usize, mut columns: usize, width: usize, memory: usize) -> (usize, usize) {
    // Beside the factors there are the results of reductions.
    let fits = |rows: usize, columns: usize| (rows + columns) * width * size_of::<f32>() + 2048 <= memory;
    while columns > 8 && !fits(rows, columns) {
        columns /= 2;
    }
    while rows > 1 && !fits(rows, columns) {
        rows /= 2;
    }
    while columns > 1 && !fits(rows, columns) {
        columns /= 2;
    }
    (rows, columns)
}

/// The fewest parts of heads that keep places for programs busy, 85 % as well as any number does:
/// more have to be joined.
fn parts(places: usize, heads: usize, most: usize) -> usize {
    // A round of programs takes as long if few places have one.
    let busy = |parts: usize| {
        let programs = heads * parts;
        programs as f64 / programs.next_multiple_of(places.max(1)) as f64
    };
    let all = 1..=most.min(places.div_ceil(heads.max(1))).max(1);
    let best = all.clone().map(busy).fold(0.0, f64::max);
    all.into_iter().find(|&parts| busy(parts) >= 0.85 * best).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::{fitting, parts};

    #[test]
    fn products_have_room_in_shared_memory() {
        // An H200; an adapter with 32 KiB: 17 heads, 128 heads, heads of much width.
        assert_eq!(fitting(64, 64, 128, 232_448), (64, 64));
        assert_eq!(fitting(32, 32, 128, 32_768), (32, 16));
        assert_eq!(fitting(128, 32, 128, 32_768), (32, 8));
        assert_eq!(fitting(16, 16, 512, 32_768), (4, 8));
        assert_eq!(fitting(4, 16, 1024, 32_768), (1, 4));
    }

    #[test]
    fn parts_are_as_few_as_keep_a_device_busy() {
        // 16 sequences of 8 heads on 132 multiprocessors, one, few keys, more heads than places.
        assert_eq!(parts(132, 128, 1000), 1);
        assert_eq!(parts(132, 8, 1000), 14);
        assert_eq!(parts(132, 8, 3), 3);
        assert_eq!(parts(132, 1000, 1000), 1);
        assert_eq!([parts(0, 1, 1), parts(4, 0, 0)], [1, 1]);
    }
}
