//! What the threads of a block do together: reductions, scans, sorting, exchanges, votes.
//!
//! The threads' values become a tile, in the order of the threads' numbers, and the operations are
//! those of tiles. In blocks of other than a power of two of at least 32 threads, which tiles on
//! GPUs do not have, reductions, scans and votes are made of those of warps, and what needs tiles
//! is refused, on every device alike. All threads of the
//! block reach each of these functions together, as they reach a [`barrier`](crate::barrier).
//! Values pass through memory of the block, which calls of one type share.

use crate::elem::{Elem, Int, Num};
use crate::flow::{DeviceValue, Places};
use crate::ops::{AlongAxis, Choose, Combine, checked_shape, scalar_of, select};
use crate::thread::{block, block_uniform_raw, thread_in_block};
use crate::trace::{Id, Raw, Site, error, with};
use crate::val::{Idx, IntoIndex, IntoVal, Val};
use crate::warp::warp;
use kiln_ir::{Bounds, Literal, OpKind, Reuse, Scalar, Shape, Type, WARP};
use std::panic::Location;

/// The values of all threads of the block as a tile: element `i` is that of the thread with the
/// number `i`, axis 0 of the block fastest. With it all operations of tiles are open to threads.
/// Such tiles need a block of a power of two of at least 32 threads; other blocks are refused on
/// every device, with the line.
///
/// ```
/// # use kiln_lang::{block_tile, own_element, prelude::*};
/// # #[device(crate = kiln_lang)]
/// # fn step(x: Val<f32>) -> Val<f32> {
/// // Each thread's share of the block's sum.
/// let all = block_tile(x);
/// own_element(all / all.sum())
/// # }
/// # trace("k", Level::Thread { block: [64, 1, 1] }, |_| { step(val(1.5)); })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn block_tile<D: DeviceValue>(value: D) -> D {
    let site = Location::caller();
    value.map(&mut |raw| tile_of(&[raw], "block_tile", site))
}

/// The values of all threads of the block as a tile, of several each: the first thread's, those of
/// the next one, and so on.
///
/// ```
/// # use kiln_lang::{block_tile_of, prelude::*};
/// # #[device(crate = kiln_lang)]
/// # fn step(a: Val<f32>, b: Val<f32>) -> Val<f32> {
/// block_tile_of([a, b]).top_k(0, 5).0 // the five greatest that the threads have
/// # }
/// # trace("k", Level::Thread { block: [64, 1, 1] }, |_| { step(val(1.5), val(2.5)); })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn block_tile_of<T: Elem, const K: usize>(values: [Val<T>; K]) -> Val<T> {
    let site = Location::caller();
    Val::from_raw(tile_of(&values.map(Val::raw), "block_tile_of", site))
}

/// The thread's own element of a tile with one for each thread, as [`block_tile`] makes them.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let squares = block_tile(thread_id(0)) * block_tile(thread_id(0));
/// device_assert!(own_element(squares).eq(thread_id(0) * thread_id(0)));
/// # });
/// ```
#[track_caller]
pub fn own_element<D: DeviceValue>(tile: D) -> D {
    let site = Location::caller();
    if block("own_element", site).is_none() {
        return poison(&tile);
    }
    let own = thread_in_block();
    tile.map(&mut |raw| elements_of(raw, &[own.raw()], 1, "own_element", site)[0])
}

/// The thread's own elements of a tile with several for each thread, as [`block_tile_of`] makes
/// them.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let i = thread_id(0);
/// let tile = block_tile_of([2 * i, 2 * i + 1]); // 0 1 2 3 …
/// let [first, second] = own_elements(tile + 1);
/// device_assert!(first.eq(2 * i + 1) & second.eq(2 * i + 2));
/// # });
/// ```
#[track_caller]
pub fn own_elements<T: Elem, const K: usize>(tile: Val<T>) -> [Val<T>; K] {
    let site = Location::caller();
    if block("own_elements", site).is_none() {
        return [(); K].map(|()| Val::poison());
    }
    let first = thread_in_block() * K;
    let indices: [Raw; K] = std::array::from_fn(|k| (first + k).raw());
    let all = elements_of(tile.raw(), &indices, K, "own_elements", site);
    std::array::from_fn(|k| Val::from_raw(all[k]))
}

/// The values of all threads of the block combined, the same in each of them, as
/// [`reduce_with`](AlongAxis::reduce_with) says. The function is associative; its left operand
/// holds the values of threads of lower numbers.
///
/// ```
/// # use kiln_lang::{block_reduce, param::Facts, prelude::*};
/// /// The greatest element of each block's part, and where it is.
/// #[device(crate = kiln_lang)]
/// fn greatest(x: View<f32, 1>, value: ViewMut<f32, 1>, at: ViewMut<i64, 1>) {
///     let i = thread_index();
///     let (most, place) = block_reduce((x.get_or(i, f32::NEG_INFINITY), i.get()), |(a, i), (b, j)| {
///         let left = a.ge(b);
///         (select(left, a, b), select(left, i, j))
///     });
///     value.tile(program_id(0), 1).store(most); // one element a block
///     at.tile(program_id(0), 1).store(place);
/// }
/// # trace("k", Level::Thread { block: [48, 1, 1] }, |p| {
/// #     let x = p.view("x", Facts::default());
/// #     greatest(x, p.view_mut("y", Facts::default()), p.view_mut("i", Facts::default()))
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn block_reduce<D: DeviceValue>(value: D, combine: impl Fn(D, D) -> D) -> D {
    match has_tiles("block_reduce", Location::caller()) {
        None => poison(&value),
        Some(true) => block_tile(value).reduce_with(0, combine),
        Some(false) => reduced_by_warps(&value, &combine),
    }
}

/// The sum of the values of all threads of the block, in each of them.
///
/// ```
/// # use kiln_lang::{block_sum, param::Facts, prelude::*};
/// #[device(crate = kiln_lang)]
/// fn total(x: View<f32, 1>, sum: ViewMut<f32, 1>) {
///     let of_block = block_sum(x.get_or(thread_index(), 0.0));
///     if thread_id(0) == 0 {
///         sum.atomic_add(0, of_block);
///     }
/// }
/// # trace("k", Level::Thread { block: [256, 1, 1] }, |p| {
/// #     let x = p.view("x", Facts::default());
/// #     total(x, p.view_mut("y", Facts::default()))
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn block_sum<T: Num>(value: Val<T>) -> Val<T> {
    match has_tiles("block_sum", Location::caller()) {
        None => poison(&value),
        Some(true) => block_tile(value).sum(),
        Some(false) => reduced_by_warps(&value, &|a, b| a + b),
    }
}

/// The smallest of the values of all threads of the block, in each of them.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// device_assert!(block_min(100 - thread_id(0)).eq(37));
/// # });
/// ```
#[track_caller]
pub fn block_min<T: Num>(value: Val<T>) -> Val<T> {
    match has_tiles("block_min", Location::caller()) {
        None => poison(&value),
        Some(true) => block_tile(value).reduce_min(),
        Some(false) => reduced_by_warps(&value, &|a, b| a.min(b)),
    }
}

/// The largest of the values of all threads of the block, in each of them.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// device_assert!(block_max(100 - thread_id(0)).eq(100));
/// # });
/// ```
#[track_caller]
pub fn block_max<T: Num>(value: Val<T>) -> Val<T> {
    match has_tiles("block_max", Location::caller()) {
        None => poison(&value),
        Some(true) => block_tile(value).reduce_max(),
        Some(false) => reduced_by_warps(&value, &|a, b| a.max(b)),
    }
}

/// Running combination over the block: each thread gets the values of threads of numbers up to its
/// own, combined. The function is associative; its left operand holds the values of threads of
/// lower numbers.
///
/// ```
/// # use kiln_lang::{block_inclusive_scan, prelude::*};
/// # #[device(crate = kiln_lang)]
/// # fn step(a: Val<f32>, b: Val<f32>) -> Val<f32> {
/// // The states h[t] = a[t] h[t-1] + b[t] of a linear recurrence, one thread a step.
/// block_inclusive_scan((a, b), |(a1, b1), (a2, b2)| (a1 * a2, b1 * a2 + b2)).1
/// # }
/// # trace("k", Level::Thread { block: [64, 1, 1] }, |_| { step(val(1.5), val(2.5)); })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn block_inclusive_scan<D: DeviceValue>(value: D, combine: impl Fn(D, D) -> D) -> D {
    match has_tiles("block_inclusive_scan", Location::caller()) {
        None => poison(&value),
        Some(true) => own_element(block_tile(value).scan_with(0, combine)),
        Some(false) => scanned_by_warps(&value, &combine),
    }
}

/// As [`block_inclusive_scan`], without the thread's own value: the first thread gets `first`.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let i = thread_id(0);
/// device_assert!(block_exclusive_scan(i, val(-1), |a, b| a.max(b)).eq(i - 1));
/// # });
/// ```
#[track_caller]
pub fn block_exclusive_scan<D: DeviceValue>(value: D, first: D, combine: impl Fn(D, D) -> D) -> D {
    let site = Location::caller();
    if block("block_exclusive_scan", site).is_none() {
        return poison(&value);
    }
    let first = first.snapshot(site);
    let scanned = block_inclusive_scan(value, combine);
    let (own, is_first) = (thread_in_block(), thread_in_block().eq(0));
    let before = select(is_first, 0, own - 1).raw();
    let before = at_each(&scanned, &[before], Bounds::Trust, "block_exclusive_scan", site).remove(0);
    first.zip(&before, &mut Choose { condition: is_first.raw(), site })
}

/// The sum of the values of threads of numbers up to this one's.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let i = thread_id(0);
/// device_assert!(block_inclusive_sum(i).eq(i * (i + 1) / 2));
/// # });
/// ```
#[track_caller]
pub fn block_inclusive_sum<T: Num>(value: Val<T>) -> Val<T> {
    match has_tiles("block_inclusive_sum", Location::caller()) {
        None => poison(&value),
        Some(true) => own_element(block_tile(value).cumsum(0)),
        Some(false) => scanned_by_warps(&value, &|a, b| a + b),
    }
}

/// The sum of the values of threads of lower numbers than this one; of the first it is 0.
///
/// ```
/// # use kiln_lang::{block_exclusive_sum, param::Facts, prelude::*};
/// /// The elements of a block's part that are positive, one behind the other.
/// #[device(crate = kiln_lang)]
/// fn compact(x: View<f32, 1>, y: ViewMut<f32, 2>) {
///     let value = x.get_or(thread_index(), 0.0);
///     let keeps = value > 0.0;
///     let place = block_exclusive_sum(keeps.cast::<i32>());
///     if keeps {
///         // SAFETY: the sums of threads that keep their value differ.
///         unsafe { y.write((program_id(0), place.cast::<i64>()), value) };
///     }
/// }
/// # trace("k", Level::Thread { block: [256, 1, 1] }, |p| {
/// #     let x = p.view("x", Facts::default());
/// #     compact(x, p.view_mut("y", Facts::default()))
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn block_exclusive_sum<T: Num>(value: Val<T>) -> Val<T> {
    match has_tiles("block_exclusive_sum", Location::caller()) {
        None => poison(&value),
        Some(true) => own_element(block_tile(value).scan_axis_exclusive(Combine::Sum, 0)),
        Some(false) => block_exclusive_scan(value, 0.into_val(), |a, b| a + b),
    }
}

/// The value that the thread with a number has, in every thread of the block; the number is the
/// same in all of them. A number that no thread has gives zeros.
///
/// ```
/// # use kiln_lang::{block_broadcast, prelude::*};
/// # trace("k", Level::Thread { block: [48, 1, 1] }, |_| {
/// let last = block_broadcast(thread_id(0) * 3, 47);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn block_broadcast<D: DeviceValue>(value: D, thread: impl IntoIndex) -> D {
    let site = Location::caller();
    let thread = thread.into_index().raw();
    if block("block_broadcast", site).is_none() {
        return poison(&value);
    }
    let there = at_each(&value, &[thread], Bounds::Mask, "block_broadcast", site).remove(0);
    there.map(&mut |raw| block_uniform_raw(raw, site))
}

/// Waits as [`barrier`](crate::barrier) does, and gives the number of threads in which the
/// predicate holds.
///
/// ```
/// # use kiln_lang::{barrier_count, prelude::*};
/// # trace("k", Level::Thread { block: [48, 1, 1] }, |_| {
/// let odd = barrier_count((thread_id(0) % 2).eq(1));
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn barrier_count(predicate: impl IntoVal<bool>) -> Val<u32> {
    let holds = predicate.into_val().cast::<u32>();
    match block("barrier_count", Location::caller()) {
        None => poison(&holds),
        Some(_) => block_sum(holds),
    }
}

/// Waits as [`barrier`](crate::barrier) does, and gives whether the predicate holds in all threads
/// of the block.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// device_assert!(barrier_and(thread_id(0).lt(64)) & !barrier_and(thread_id(0).ne(40)));
/// # });
/// ```
#[track_caller]
pub fn barrier_and(predicate: impl IntoVal<bool>) -> Val<bool> {
    let predicate = predicate.into_val();
    match has_tiles("barrier_and", Location::caller()) {
        None => poison(&predicate),
        Some(true) => block_tile(predicate).all(),
        Some(false) => reduced_by_warps(&predicate.cast::<u32>(), &|a, b| a & b).ne(0),
    }
}

/// Waits as [`barrier`](crate::barrier) does, and gives whether the predicate holds in some thread
/// of the block.
///
/// ```
/// # use kiln_lang::{barrier_or, param::Facts, prelude::*};
/// /// Rounds until no thread of the block changes anything; the loop is the same for all.
/// #[device(crate = kiln_lang)]
/// fn settle(x: View<i32, 1>) -> Val<i32> {
///     let mut value = x.get(thread_index());
///     while barrier_or(value > 1) {
///         value = value / 2;
///     }
///     value
/// }
/// # trace("k", Level::Thread { block: [48, 1, 1] }, |p| { settle(p.view("x", Facts::default())); })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn barrier_or(predicate: impl IntoVal<bool>) -> Val<bool> {
    let predicate = predicate.into_val();
    match has_tiles("barrier_or", Location::caller()) {
        None => poison(&predicate),
        Some(true) => block_tile(predicate).any(),
        Some(false) => reduced_by_warps(&predicate.cast::<u32>(), &|a, b| a | b).ne(0),
    }
}

/// The values of all threads of the block sorted: the first thread gets the smallest `K`, and so
/// on. Of blocks it asks what [`block_tile`] does.
///
/// ```
/// # use kiln_lang::{block_sort, prelude::*};
/// # #[device(crate = kiln_lang)]
/// # fn step(a: Val<f32>, b: Val<f32>) -> [Val<f32>; 2] {
/// block_sort([a, b])
/// # }
/// # trace("k", Level::Thread { block: [64, 1, 1] }, |_| { step(val(1.5), val(2.5)); })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn block_sort<T: Num, const K: usize>(values: [Val<T>; K]) -> [Val<T>; K] {
    if block("block_sort", Location::caller()).is_none() {
        return [(); K].map(|()| Val::poison());
    }
    own_elements(Val::<T>::from_raw(tile_of(&values.map(Val::raw), "block_sort", Location::caller())).sort(0))
}

/// The values of all threads of the block sorted, as [`sort_by`](AlongAxis::sort_by) says: of a
/// value, a tuple or a struct. The first thread gets what comes first. Of blocks it asks what
/// [`block_tile`] does.
///
/// ```
/// # use kiln_lang::{block_sort_by, prelude::*};
/// # #[device(crate = kiln_lang)]
/// # fn step(key: Val<u32>, value: Val<f32>) -> (Val<u32>, Val<f32>) {
/// block_sort_by((key, value), |a, b| a.0.lt(b.0))
/// # }
/// # trace("k", Level::Thread { block: [64, 1, 1] }, |_| { step(val(1), val(2.5)); })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn block_sort_by<D: DeviceValue>(value: D, before: impl Fn(D, D) -> Val<bool>) -> D {
    if block("block_sort_by", Location::caller()).is_none() {
        return poison(&value);
    }
    let site = Location::caller();
    own_element(value.map(&mut |raw| tile_of(&[raw], "block_sort_by", site)).sort_by(0, before))
}

/// How many of the values of all threads of the block are 0, 1, 2, … `bins - 1`, as a tile. Others
/// are not counted. Of blocks it asks what [`block_tile`] does.
///
/// ```
/// # use kiln_lang::{block_histogram, param::Facts, prelude::*};
/// #[device(crate = kiln_lang)]
/// fn shades(pixels: View<u32, 1>, counts: ViewMut<u32, 1>) {
///     let of_block = block_histogram([pixels.get_or(thread_index(), u32::MAX)], 256);
///     counts.atomic_add(iota::<i64>(256), of_block);
/// }
/// # trace("k", Level::Thread { block: [128, 1, 1] }, |p| {
/// #     let x = p.view("x", Facts::default());
/// #     shades(x, p.view_mut("y", Facts::default()))
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn block_histogram<T: Int, const K: usize>(values: [Val<T>; K], bins: usize) -> Val<u32> {
    if block("block_histogram", Location::caller()).is_none() {
        return Val::poison();
    }
    let site = Location::caller();
    Val::<T>::from_raw(tile_of(&values.map(Val::raw), "block_histogram", site)).histogram(bins)
}

/// Turns values that lie in turns among the threads (thread `t` of `n` has elements `t`, `t + n`,
/// `t + 2n`, …, as loads of neighboring threads are neighbors) into `K` neighboring ones for each
/// thread.
///
/// ```
/// # use kiln_lang::{blocked_to_striped, param::Facts, prelude::*, striped_to_blocked};
/// # #[device(crate = kiln_lang)]
/// # fn step(x: View<f32, 1>) -> [Val<f32>; 4] {
/// let (n, t) = (block_dim(0), thread_id(0));
/// let striped = [0, 1, 2, 3].map(|k| x.get(n * k + t));
/// let own = striped_to_blocked(striped); // x[4t], x[4t + 1], x[4t + 2], x[4t + 3]
/// blocked_to_striped(own)
/// # }
/// # trace("k", Level::Thread { block: [48, 1, 1] }, |p| { step(p.view("x", Facts::default())); })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn striped_to_blocked<T: Elem, const K: usize>(values: [Val<T>; K]) -> [Val<T>; K] {
    let site = Location::caller();
    if block("striped_to_blocked", site).is_none() {
        return [(); K].map(|()| Val::poison());
    }
    exchange(values, striped(site), blocked::<K>(), "striped_to_blocked", site)
}

/// The other way round: see [`striped_to_blocked`].
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let i = thread_id(0);
/// let [low, high] = blocked_to_striped([2 * i, 2 * i + 1]);
/// device_assert!(low.eq(i) & high.eq(i + 64));
/// # });
/// ```
#[track_caller]
pub fn blocked_to_striped<T: Elem, const K: usize>(values: [Val<T>; K]) -> [Val<T>; K] {
    let site = Location::caller();
    if block("blocked_to_striped", site).is_none() {
        return [(); K].map(|()| Val::poison());
    }
    exchange(values, blocked::<K>(), striped(site), "blocked_to_striped", site)
}

/// Whether tiles among the threads are there on every device: in blocks of a power of two of at
/// least 32. Reports where there are no threads.
fn has_tiles(name: &str, site: Site) -> Option<bool> {
    let threads: u32 = block(name, site)?.iter().product();
    Some(threads >= WARP && threads.is_power_of_two())
}

/// Whether the threads of the block can have tiles; reports where they cannot.
fn check_tiles(name: &str, site: Site) -> bool {
    let has = has_tiles(name, site);
    if has == Some(false) {
        let threads: u32 = block(name, site).map_or(0, |extents| extents.iter().product());
        let message = format!(
            "`{name}` needs a block of a power of two of at least {WARP} threads, this kernel's has {threads}"
        );
        let more = threads.next_power_of_two().max(WARP);
        error(site, message, format!("launch blocks of {more} threads, of which the last do nothing"));
    }
    has == Some(true)
}

/// What a function gives where there are no threads.
fn poison<D: DeviceValue>(value: &D) -> D {
    value.map(&mut |_| Raw::Poison)
}

/// The numbers of the threads that have a lane, of each warp.
fn of_each_warp(lane: u32, site: Site) -> Vec<Raw> {
    let threads: u32 = block("block_reduce", site).map_or(0, |extents| extents.iter().product());
    (lane..threads).step_by(WARP as usize).map(|t| Raw::Const(Literal::index(t.into()))).collect()
}

/// What each warp combines, combined by every thread in the same order.
#[track_caller]
fn reduced_by_warps<D: DeviceValue>(value: &D, combine: &dyn Fn(D, D) -> D) -> D {
    let site = Location::caller();
    let of_warp = warp().reduce(value.clone(), combine);
    let firsts = of_each_warp(0, site);
    let totals = at_each(&of_warp, &firsts, Bounds::Trust, "block_reduce", site);
    let total = totals.into_iter().reduce(combine).unwrap_or(of_warp);
    total.map(&mut |raw| block_uniform_raw(raw, site))
}

/// What the lanes of a warp get, behind what all warps before have.
#[track_caller]
fn scanned_by_warps<D: DeviceValue>(value: &D, combine: &dyn Fn(D, D) -> D) -> D {
    let site = Location::caller();
    let of_warp = warp().inclusive_scan(value.clone(), combine);
    let totals = at_each(&of_warp, &of_each_warp(WARP - 1, site), Bounds::Trust, "block_scan", site);
    let own = thread_in_block() / WARP;
    let mut before: Option<D> = None;
    for (number, total) in totals.into_iter().enumerate() {
        before = Some(match before {
            None => total,
            Some(before) => {
                let condition = own.gt(number).raw();
                combine(before.clone(), total).zip(&before, &mut Choose { condition, site })
            }
        });
    }
    match before {
        None => of_warp,
        Some(before) => {
            let condition = own.gt(0).raw();
            combine(before, of_warp.clone()).zip(&of_warp, &mut Choose { condition, site })
        }
    }
}

/// The values that the threads with some numbers have.
fn at_each<D: DeviceValue>(value: &D, threads: &[Raw], bounds: Bounds, name: &str, site: Site) -> Vec<D> {
    let mut found: Vec<Vec<Raw>> = Vec::new();
    value.map(&mut |raw| {
        let elements = Staged::write(&[raw], name, site).map(|staged| {
            let elements = threads.iter().map(|thread| staged.element(*thread, bounds, site)).collect();
            barrier_at(site);
            elements
        });
        found.push(elements.unwrap_or_else(|| vec![Raw::Poison; threads.len()]));
        raw
    });
    let of = |number: usize| {
        let mut parts = found.iter().map(|elements| elements[number]);
        value.map(&mut |_| parts.next().unwrap_or(Raw::Poison))
    };
    (0..threads.len()).map(of).collect()
}

/// Where a thread's elements are: the first one, and the distance to the next.
type Arrangement = (Idx, u32);

#[track_caller]
fn blocked<const K: usize>() -> Arrangement {
    (thread_in_block() * K, 1)
}

#[track_caller]
fn striped(site: Site) -> Arrangement {
    let threads = block("striped_to_blocked", site).map_or(1, |extents| extents.iter().product());
    (thread_in_block(), threads)
}

fn exchange<T: Elem, const K: usize>(
    values: [Val<T>; K],
    (from, from_step): Arrangement,
    (to, to_step): Arrangement,
    name: &str,
    site: Site,
) -> [Val<T>; K] {
    let indices: [Raw; K] = std::array::from_fn(|k| (from + from_step * k as u32).raw());
    let Some(staged) = Staged::write_at(&values.map(Val::raw), &indices, name, site) else {
        return [(); K].map(|()| Val::poison());
    };
    let read = std::array::from_fn(|k| {
        let at = to + to_step * k as u32;
        Val::from_raw(staged.element(at.raw(), Bounds::Trust, site))
    });
    barrier_at(site);
    read
}

/// Values of all threads in memory of the block, behind a barrier.
struct Staged {
    memory: Id,
    elem: Scalar,
    shape: Shape,
}

impl Staged {
    /// Memory for some elements of each thread; reports where there can be none.
    fn new(elem: Option<Scalar>, each: usize, name: &str, site: Site) -> Option<Staged> {
        let threads: u32 = block(name, site)?.iter().product();
        let shape = checked_shape(&[threads as usize * each], site)?;
        let elem = elem?;
        let memory = with(|r| r.staging(elem, &shape, site))?;
        Some(Staged { memory, elem, shape })
    }

    /// Writes the values of each thread one behind the other.
    fn write(values: &[Raw], name: &str, site: Site) -> Option<Staged> {
        block(name, site)?;
        let first = thread_in_block() * values.len();
        let indices: Vec<Raw> = (0..values.len()).map(|k| (first + k).raw()).collect();
        Staged::write_at(values, &indices, name, site)
    }

    /// Writes the values of each thread, at indices that no other value has.
    fn write_at(values: &[Raw], indices: &[Raw], name: &str, site: Site) -> Option<Staged> {
        let staged = Staged::new(values.first().copied().and_then(scalar_of), values.len(), name, site)?;
        // Others may still read what was there before.
        barrier_at(site);
        for (value, index) in values.iter().zip(indices) {
            with(|r| {
                let scalar = Shape::scalar();
                let operands =
                    [staged.memory, r.read_as(*index, &scalar, site)?, r.read_as(*value, &scalar, site)?];
                r.effect(
                    OpKind::Scatter { bounds: Bounds::Trust, masked: false, asynchronous: false },
                    &operands,
                    site,
                );
                Some(())
            });
        }
        barrier_at(site);
        Some(staged)
    }

    /// All elements as a tile.
    fn load(&self, site: Site) -> Raw {
        Raw::of(with(|r| {
            let begin = r.constant(Literal::index(0), Shape::scalar(), site);
            let padding = r.constant(Literal::zero(self.elem), Shape::scalar(), site);
            let ty = Type::tile(self.elem, self.shape.clone());
            r.op(OpKind::Load(Reuse::Normal), &[self.memory, begin, padding], ty, site)
        }))
    }

    /// The element at an index; `Trust` says that it is inside, `Mask` gives zero where it is not.
    fn element(&self, index: Raw, bounds: Bounds, site: Site) -> Raw {
        let id = with(|r| {
            let index = r.read_as(index, &Shape::scalar(), site)?;
            let other = r.constant(Literal::zero(self.elem), Shape::scalar(), site);
            let kind = OpKind::Gather { bounds, masked: false };
            Some(r.op(kind, &[self.memory, index, other], Type::scalar(self.elem), site))
        });
        Raw::of(id.flatten())
    }
}

fn barrier_at(site: Site) {
    with(|r| r.effect(OpKind::Barrier, &[], site));
}

/// The values of each thread as one tile.
fn tile_of(values: &[Raw], name: &str, site: Site) -> Raw {
    if !check_tiles(name, site) {
        return Raw::Poison;
    }
    match Staged::write(values, name, site) {
        Some(staged) => staged.load(site),
        None => Raw::Poison,
    }
}

/// The elements of a tile with so many for each thread at indices of the thread's own.
fn elements_of(tile: Raw, indices: &[Raw], each: usize, name: &str, site: Site) -> Vec<Raw> {
    let poison = vec![Raw::Poison; indices.len()];
    // A poison has been reported.
    if matches!(tile, Raw::Poison) || !check_tiles(name, site) {
        return poison;
    }
    let Some(staged) = Staged::new(scalar_of(tile), each, name, site) else { return poison };
    let stored = with(|r| {
        let value = r.read_as(tile, &staged.shape, site)?;
        let begin = r.constant(Literal::index(0), Shape::scalar(), site);
        let kind = OpKind::Store { reuse: Reuse::Normal, disjoint: false };
        r.effect(kind, &[staged.memory, begin, value], site);
        Some(())
    });
    if stored.flatten().is_none() {
        return poison;
    }
    barrier_at(site);
    let elements = indices.iter().map(|index| staged.element(*index, Bounds::Trust, site)).collect();
    barrier_at(site);
    elements
}
