//! The kernels of sorting: rows in one tile each, and the steps of a radix sort.
//!
//! Rows are divided into parts of `part` elements, of which a program has `tile` at a time. A digit
//! is [`DIGIT`] bits of a key, from the bit `shift` on.
//!
//! ```
//! use kiln_kernels::sort::kernels::{
//!     DIGIT, DIGITS, count_digits, order_of_rows, pick, place_first, place_last, place_next, sum_counts,
//! };
//! use kiln_runtime::Tensor;
//!
//! let device = kiln_runtime::Device::open("interp")?;
//! let x: Tensor<u32, 2> = device.tensor(&[70_000u32, 3, 258, 3], [1, 4])?;
//! let (mut order, mut y) = (device.uninit::<i64, 2>([1, 4])?, device.uninit([1, 4])?);
//! // A row in one tile.
//! order_of_rows(&x, &mut order, false, 4, false).grid([1]).launch(&device)?;
//! assert_eq!(order.to_vec()?, [1, 3, 2, 0]);
//! pick(&x, &order, &mut y, 4).grid([1, 1]).launch(&device)?;
//! assert_eq!(y.to_vec()?, [3, 3, 258, 70_000]);
//!
//! // The same by digits, from the lowest one on, in one part of one tile.
//! let (mut counts, mut totals) = (device.uninit([1, DIGITS, 1])?, device.uninit([1, DIGITS])?);
//! let mut count = |of: &Tensor<u32, 2>, shift: u32| {
//!     count_digits(of, &mut counts, shift, false, 4, 4).grid([1, 1]).launch(&device)?;
//!     sum_counts(&mut counts, &mut totals, 1).grid([DIGITS as u32, 1]).launch(&device)?;
//!     Ok::<_, kiln_runtime::Error>((counts.alias(), totals.alias()))
//! };
//! let (mut keys, mut indices) = (device.uninit([1, 4])?, device.uninit([1, 4])?);
//! let (all, of_row) = count(&x, 0)?;
//! place_first(&x, &all, &of_row, &mut keys, &mut indices, false, 4, 4, false).grid([1, 1]).launch(&device)?;
//! assert_eq!(keys.to_vec()?, [258, 3, 3, 70_000]); // 70,000 ends with 112.
//! for shift in [DIGIT, 2 * DIGIT] {
//!     let (all, of_row) = count(&keys, shift)?;
//!     let (mut to_keys, mut to_indices) = (device.uninit([1, 4])?, device.uninit([1, 4])?);
//!     place_next(&keys, &indices, &all, &of_row, &mut to_keys, &mut to_indices, shift, 4, 4, false)
//!         .grid([1, 1])
//!         .launch(&device)?;
//!     (keys, indices) = (to_keys, to_indices);
//! }
//! let (all, of_row) = count(&keys, 3 * DIGIT)?;
//! place_last(&keys, &indices, &all, &of_row, &mut order, 3 * DIGIT, 4, 4, false).grid([1, 1]).launch(&device)?;
//! assert_eq!(order.to_vec()?, [1, 3, 2, 0]);
//! # Ok::<(), kiln_runtime::Error>(())
//! ```

use super::key::Sortable;
use kiln_lang::prelude::*;
use kiln_runtime::Tensor;

/// Bits of a digit.
pub const DIGIT: u32 = 8;

/// Values of a digit.
pub const DIGITS: usize = 1 << DIGIT;

/// The indices that put each row in order; `block` covers it.
#[kernel(crate = kiln_runtime)]
pub fn order_of_rows<T: Sortable>(
    x: &Tensor<T, 2>,
    y: &mut Tensor<i64, 2>,
    descending: bool,
    block: usize,
    in_loops: bool,
) {
    let row = program_id(0);
    let (elements, indices) = (x.row(row).load(block, 0), iota::<i32>(block));
    let count = x.extent(1).cast::<i32>();
    let keys = ordered(elements, descending);
    let sorted = match in_loops {
        true => pairs_in_loops(keys, indices, count),
        false => (keys, indices).sort_by(0, |a, b| comes_before(a, b, count)),
    };
    y.row(row).store(sorted.1.cast::<i64>());
}

/// Whether an element of a row of `count`, its key and its index, comes before another one.
fn comes_before<K: Int>(
    (a, i): (Val<K>, Val<i32>),
    (b, j): (Val<K>, Val<i32>),
    count: Val<i32>,
) -> Val<bool> {
    let first = a.lt(b) | (a.eq(b) & i.lt(j));
    // What lies beyond the end of the row comes last.
    i.lt(count) & (j.ge(count) | first)
}

/// Keys that are in ascending order where the elements are in the one that is asked for.
pub(super) fn ordered<T: Sortable>(elements: Val<T>, descending: bool) -> Val<T::Key> {
    let keys = T::key(elements);
    if descending { !keys } else { keys }
}

/// A digit of a key.
pub(super) fn one_digit<K: Int>(key: Val<K>, shift: Val<u32>) -> Idx {
    ((key >> shift.cast::<K>()).cast::<u32>() & (DIGITS as u32 - 1)).cast::<i64>()
}

/// A digit of keys as a u32; beyond `count` elements one that is greater than all.
fn digit_of<K: Sortable + Int>(keys: Val<K>, shift: Val<u32>, count: Idx) -> Val<u32> {
    let digit = (keys >> shift.cast::<K>()).cast::<u32>() & (DIGITS as u32 - 1);
    let inside = iota::<i64>(keys.shape()[0]).lt(count);
    select(inside, digit, DIGITS as u32)
}

/// How often each digit occurs in each part: `counts` is rows x digits x parts.
#[kernel(crate = kiln_runtime)]
pub fn count_digits<T: Sortable>(
    x: &Tensor<T, 2>,
    counts: &mut Tensor<u32, 3>,
    shift: Val<u32>,
    descending: bool,
    part: usize,
    tile: usize,
) {
    let (at, row) = (program_id(0), program_id(1));
    let (first, columns) = (at * part, x.extent(1));
    let mut found = zeros::<u32>(DIGITS);
    for start in range_step(first, (first + part).min(columns), tile) {
        let keys = ordered(x.row(row).tile(start, tile).load(0), descending);
        found = found + digit_of(keys, shift, columns - start).histogram(DIGITS);
    }
    counts.at_axis(0, row).tile((0, at), (DIGITS, 1)).store(found.expand(1));
}

/// Counts of the parts become counts of all parts before; `totals` (rows x digits) gets those of
/// all. A program has a digit of a row; `parts` covers the parts.
#[kernel(crate = kiln_runtime)]
pub fn sum_counts(counts: &mut Tensor<u32, 3>, totals: &mut Tensor<u32, 2>, parts: usize) {
    let (digit, row) = (program_id(0), program_id(1));
    let own = counts.at_axis(0, row).row(digit);
    let found = own.tile(0, parts).load(0);
    own.tile(0, parts).store(found.scan_axis_exclusive(Combine::Sum, 0));
    totals.row(row).tile(digit, 1).store(found.sum().reshape(1));
}

/// Where the elements of a tile go, sorted by a digit: their places in the tile, and those in the
/// row, from what lies before the tile's elements of each digit.
fn places(digits: Val<u32>, before: Val<u32>, in_loops: bool) -> (Val<u32>, Val<u32>, Val<u32>) {
    let tile = digits.shape()[0];
    let bits = tile.trailing_zeros();
    let numbered = (digits << bits) | iota::<u32>(tile);
    let sorted = if in_loops { sorted_in_loops(numbered) } else { numbered.sort(0) };
    let (digit, own) = (sorted >> bits, sorted & (tile as u32 - 1));
    let found = digits.histogram(DIGITS);
    let start = found.scan_axis_exclusive(Combine::Sum, 0);
    (own, (before - start).gather(digit, 0) + iota::<u32>(tile), before + found)
}

/// Numbers in ascending order, by the network of [`Val::sort`] as two loops: each step finds the
/// partners in shared memory, where steps that are written out exchange most among registers and
/// lanes.
#[device(crate = kiln_lang)]
fn sorted_in_loops(keys: Val<u32>) -> Val<u32> {
    let (count, mut keys) = (keys.shape()[0], keys);
    for stage in range(0, count.trailing_zeros()) {
        for step in range(0, stage + 1) {
            let (partner, comes_first) = exchange(count, stage, step);
            let other = keys.gather(partner, 0);
            keys = select(comes_first, keys.min(other), keys.max(other));
        }
    }
    keys
}

/// As [`sorted_in_loops`], the keys and indices of a row of `count` elements.
#[device(crate = kiln_lang)]
fn pairs_in_loops<K: Int>(keys: Val<K>, indices: Val<i32>, count: Val<i32>) -> (Val<K>, Val<i32>) {
    let tile = keys.shape()[0];
    let (mut keys, mut indices) = (keys, indices);
    for stage in range(0, tile.trailing_zeros()) {
        for step in range(0, stage + 1) {
            let (partner, comes_first) = exchange(tile, stage, step);
            let (key, index) = (keys.gather(partner, 0), indices.gather(partner, 0));
            let stays = comes_before((keys, indices), (key, index), count).eq(comes_first);
            (keys, indices) = (select(stays, keys, key), select(stays, indices, index));
        }
    }
    (keys, indices)
}

/// The partner of each element in a step of a stage of Batcher's bitonic sort, and whether the
/// element is to be the first one of the two.
fn exchange(count: usize, stage: Val<i64>, step: Val<i64>) -> (Val<i32>, Val<bool>) {
    let (own, stage, bit) = (iota::<i32>(count), stage.cast::<i32>(), (stage - step).cast::<i32>());
    let comes_first = (((own >> bit) ^ (own >> (stage + 1))) & 1).eq(0);
    (own ^ (val(1) << bit), comes_first)
}

/// What lies before a part's elements of each digit.
fn before_part(counts: View<u32, 3>, totals: View<u32, 2>, row: Idx, at: Idx) -> Val<u32> {
    let all = totals.row(row).tile(0, DIGITS).load(0);
    let own = counts.at_axis(0, row).tile((0, at), (DIGITS, 1)).load(0).reshape(DIGITS);
    all.scan_axis_exclusive(Combine::Sum, 0) + own
}

/// The first pass: keys of elements and their indices, by the lowest digit.
#[kernel(crate = kiln_runtime)]
pub fn place_first<T: Sortable>(
    x: &Tensor<T, 2>,
    counts: &Tensor<u32, 3>,
    totals: &Tensor<u32, 2>,
    to_keys: &mut Tensor<T::Key, 2>,
    to_indices: &mut Tensor<u32, 2>,
    descending: bool,
    part: usize,
    tile: usize,
    in_loops: bool,
) {
    let (at, row) = (program_id(0), program_id(1));
    let (first, columns) = (at * part, x.extent(1));
    let mut before = before_part(counts, totals, row, at);
    for start in range_step(first, (first + part).min(columns), tile) {
        let keys = ordered(x.row(row).tile(start, tile).load(0), descending);
        let count = columns - start;
        let (own, place, after) = places(digit_of(keys, val(0), count), before, in_loops);
        let inside = iota::<i64>(tile).lt(count);
        let place = place.cast::<i64>();
        // SAFETY: places are a permutation of the row's: each is the number of elements with a
        // smaller digit, or the same and an earlier index.
        unsafe {
            to_keys.row(row).scatter_where(place, inside, keys.gather(own.cast::<i32>(), 0));
            to_indices.row(row).scatter_where(place, inside, own + start.cast::<u32>());
        }
        before = after;
    }
}

/// A further pass: keys and indices by the digit from `shift` on.
#[kernel(crate = kiln_runtime)]
pub fn place_next<K: Sortable<Key = K> + Int>(
    keys: &Tensor<K, 2>,
    indices: &Tensor<u32, 2>,
    counts: &Tensor<u32, 3>,
    totals: &Tensor<u32, 2>,
    to_keys: &mut Tensor<K, 2>,
    to_indices: &mut Tensor<u32, 2>,
    shift: Val<u32>,
    part: usize,
    tile: usize,
    in_loops: bool,
) {
    let (at, row) = (program_id(0), program_id(1));
    let (first, columns) = (at * part, keys.extent(1));
    let mut before = before_part(counts, totals, row, at);
    for start in range_step(first, (first + part).min(columns), tile) {
        let own_keys = keys.row(row).tile(start, tile).load(0);
        let own_indices = indices.row(row).tile(start, tile).load(0);
        let count = columns - start;
        let (own, place, after) = places(digit_of(own_keys, shift, count), before, in_loops);
        let inside = iota::<i64>(tile).lt(count);
        let place = place.cast::<i64>();
        // SAFETY: as in `place_first`.
        unsafe {
            to_keys.row(row).scatter_where(place, inside, own_keys.gather(own.cast::<i32>(), 0));
            to_indices.row(row).scatter_where(place, inside, own_indices.gather(own.cast::<i32>(), 0));
        }
        before = after;
    }
}

/// The last pass, by the highest digit: of keys nothing is left but the order of their elements.
#[kernel(crate = kiln_runtime)]
pub fn place_last<K: Sortable<Key = K> + Int>(
    keys: &Tensor<K, 2>,
    indices: &Tensor<u32, 2>,
    counts: &Tensor<u32, 3>,
    totals: &Tensor<u32, 2>,
    order: &mut Tensor<i64, 2>,
    shift: Val<u32>,
    part: usize,
    tile: usize,
    in_loops: bool,
) {
    let (at, row) = (program_id(0), program_id(1));
    let (first, columns) = (at * part, keys.extent(1));
    let mut before = before_part(counts, totals, row, at);
    for start in range_step(first, (first + part).min(columns), tile) {
        let own_keys = keys.row(row).tile(start, tile).load(0);
        let own_indices = indices.row(row).tile(start, tile).load(0);
        let count = columns - start;
        let (own, place, after) = places(digit_of(own_keys, shift, count), before, in_loops);
        let inside = iota::<i64>(tile).lt(count);
        let sorted = own_indices.gather(own.cast::<i32>(), 0).cast::<i64>();
        // SAFETY: as in `place_first`.
        unsafe { order.row(row).scatter_where(place.cast::<i64>(), inside, sorted) };
        before = after;
    }
}

/// The elements of each row at indices, `block` a program.
#[kernel(crate = kiln_runtime)]
pub fn pick<T: Num>(x: &Tensor<T, 2>, order: &Tensor<i64, 2>, y: &mut Tensor<T, 2>, block: usize) {
    let (at, row) = (program_id(0) * block, program_id(1));
    let index = order.row(row).tile(at, block).load(0);
    y.row(row).tile(at, block).store(x.row(row).get_or(index, 0));
}
