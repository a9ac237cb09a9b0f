//! Reductions, scans and sorting with any function, of one tile, of several, or of a struct of
//! tiles.
//!
//! Neighbors are combined first, then neighboring pairs, and so on: the function is recorded once
//! for each of log2(n) steps, on tiles of half as many elements as before. A scan records it twice
//! for each: to combine the totals of neighboring groups, and to add the total of the first group
//! of each pair to all elements of the second.

use super::axis::{Axis, compared, counted_along, int};
use super::each::{Choose, all_padded, all_picked, all_seen_as, begin, fitted};
use super::rearrange::{slice, stretched};
use super::sort::sorted_by;
use crate::flow::DeviceValue;
use crate::trace::{Raw, Site};
use crate::val::Val;
use kiln_ir::CompareOp;
use std::panic::Location;

/// Reductions, scans and sorting with any function of two values: of a tile, of a tuple of tiles,
/// or of a struct with `#[derive(DeviceValue)]`.
///
/// A function that combines must be associative; it need not be commutative. Tiles of one value
/// stretch to one shape. Where the extent of the axis is no power of two, the function is also
/// computed on zeros, whose results are dropped; the tiles then pass through memory of the block. A
/// function that divides integers there must not divide by such a zero, which is a fault: `select`
/// a divisor that is none.
///
/// The function is traced for each of log2(n) steps, so that the code grows with it: reduce long
/// rows in parts, by a loop that combines tiles element by element and one `reduce_with` behind
/// it. [`sum_axis`](crate::Val::sum_axis) and the like are made for one step, and faster.
///
/// ```
/// use kiln_lang::prelude::*;
///
/// /// Count, mean and sum of squared deviations.
/// #[derive(Clone, Copy, DeviceValue)]
/// #[kiln(crate = kiln_lang)]
/// struct Moments {
///     count: Val<f32>,
///     mean: Val<f32>,
///     squares: Val<f32>,
/// }
///
/// /// Those of the values of both (Welford's, in the form of Chan, Golub and LeVeque).
/// fn together(a: Moments, b: Moments) -> Moments {
///     let (count, delta) = (a.count + b.count, b.mean - a.mean);
///     let share = b.count / count;
///     Moments {
///         count,
///         mean: a.mean + delta * share,
///         squares: a.squares + b.squares + delta * delta * a.count * share,
///     }
/// }
///
/// /// Mean and variance of each row.
/// fn statistics(rows: Val<f32>) -> (Val<f32>, Val<f32>) {
///     let each = Moments { count: full(rows.shape(), 1.0), mean: rows, squares: zeros(rows.shape()) };
///     let all = each.reduce_with(1, together);
///     (all.mean, all.squares / all.count)
/// }
/// # trace("k", Level::Tile { warps: None }, |_| {
/// assert_eq!(statistics(iota(64).reshape([4, 16])).1.shape(), [4]);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
pub trait AlongAxis: DeviceValue {
    /// Combines all elements along an axis, which goes. The left operand of the function holds
    /// elements of lower indices.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    ///
    /// /// The greatest element of each row and the column it is in.
    /// fn greatest(rows: Val<f32>) -> (Val<f32>, Val<i32>) {
    ///     let columns = iota::<i32>(rows.shape()[1]);
    ///     (rows, columns).reduce_with(1, |(a, i), (b, j)| {
    ///         let left = a.ge(b);
    ///         (select(left, a, b), select(left, i, j))
    ///     })
    /// }
    ///
    /// /// What softmax of each row needs, in one pass: the maximum, and the sum of exponentials.
    /// fn maximum_and_sum(rows: Val<f32>) -> (Val<f32>, Val<f32>) {
    ///     (rows, full(rows.shape(), 1.0)).reduce_with(1, |(m1, s1), (m2, s2)| {
    ///         let m = m1.max(m2);
    ///         (m, s1 * (m1 - m).exp() + s2 * (m2 - m).exp())
    ///     })
    /// }
    /// # trace("k", Level::Tile { warps: None }, |_| {
    /// # let rows = iota(64).reshape([4, 16]);
    /// assert_eq!(greatest(rows).1.shape(), maximum_and_sum(rows).0.shape());
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    fn reduce_with(&self, axis: usize, combine: impl Fn(Self, Self) -> Self) -> Self {
        let site = Location::caller();
        match begin(self, axis, "reduce_with", site) {
            Some((values, axis)) => {
                reduced(&values, &axis, &Combination { of: &combine, name: "reduce_with", site })
            }
            None => self.map(&mut |_| Raw::Poison),
        }
    }

    /// Running combination along an axis: element `i` combines elements `0 ..= i`, and the left
    /// operand of the function holds elements of lower indices.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    ///
    /// /// The states h[t] = a[t] h[t-1] + b[t] of a linear recurrence (a selective scan).
    /// fn states(a: Val<f32>, b: Val<f32>) -> Val<f32> {
    ///     (a, b).scan_with(0, |(a1, b1), (a2, b2)| (a1 * a2, b1 * a2 + b2)).1
    /// }
    /// # trace("k", Level::Tile { warps: None }, |_| {
    /// assert_eq!(states(iota(16), iota(16)).shape(), [16]);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    fn scan_with(&self, axis: usize, combine: impl Fn(Self, Self) -> Self) -> Self {
        let site = Location::caller();
        match begin(self, axis, "scan_with", site) {
            Some((values, axis)) => {
                scanned(&values, &axis, false, &Combination { of: &combine, name: "scan_with", site })
            }
            None => self.map(&mut |_| Raw::Poison),
        }
    }

    /// As [`scan_with`](AlongAxis::scan_with), from the last element to the first: element `i`
    /// combines elements `n - 1`, `n - 2`, … `i`, and the left operand of the function holds those
    /// of higher indices.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    ///
    /// /// The discounted returns r[t] + g r[t+1] + g² r[t+2] + … of an episode.
    /// fn returns(rewards: Val<f32>, discount: Val<f32>) -> Val<f32> {
    ///     let factors = discount.broadcast_to(rewards.shape());
    ///     (factors, rewards).scan_with_reverse(0, |(g1, r1), (g2, r2)| (g1 * g2, r1 * g2 + r2)).1
    /// }
    /// # trace("k", Level::Tile { warps: None }, |_| {
    /// assert_eq!(returns(iota(16), val(0.9)).shape(), [16]);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    fn scan_with_reverse(&self, axis: usize, combine: impl Fn(Self, Self) -> Self) -> Self {
        let site = Location::caller();
        match begin(self, axis, "scan_with_reverse", site) {
            Some((values, axis)) => {
                let combine = Combination { of: &combine, name: "scan_with_reverse", site };
                scanned(&values, &axis, true, &combine)
            }
            None => self.map(&mut |_| Raw::Poison),
        }
    }

    /// Sorts along an axis: `before` says whether its left operand must come before the right one.
    /// Neither comes before the other where two are equal, and then their order is open. Each of
    /// log2(n) (log2(n) + 1) / 2 steps compares all elements with those that a power of two divides
    /// from them (Batcher's bitonic sort). [`sort`](Val::sort) sorts numbers, and is faster.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    ///
    /// /// The order in which each row is sorted: of equal elements the first comes first.
    /// fn argsort(rows: Val<f32>) -> Val<i32> {
    ///     let columns = iota::<i32>(rows.shape()[1]);
    ///     (rows, columns).sort_by(1, |(a, i), (b, j)| a.lt(b) | (a.eq(b) & i.lt(j))).1
    /// }
    /// # trace("k", Level::Tile { warps: None }, |_| {
    /// assert_eq!(argsort(iota(64).reshape([4, 16])).shape(), [4, 16]);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    fn sort_by(&self, axis: usize, before: impl Fn(Self, Self) -> Val<bool>) -> Self {
        let site = Location::caller();
        match begin(self, axis, "sort_by", site) {
            Some((values, axis)) => sorted_by(&values, &axis, &before, site),
            None => self.map(&mut |_| Raw::Poison),
        }
    }
}

impl<D: DeviceValue> AlongAxis for D {}

/// A function of two values, and what the user calls it by.
struct Combination<'a, D> {
    of: &'a dyn Fn(D, D) -> D,
    name: &'static str,
    site: Site,
}

impl<D: DeviceValue> Combination<'_, D> {
    /// The function of two values that have one shape, in that shape.
    fn of(&self, a: &D, b: &D) -> D {
        fitted(a, &(self.of)(a.clone(), b.clone()), self.name, self.site)
    }
}

fn reduced<D: DeviceValue>(values: &D, axis: &Axis, combine: &Combination<'_, D>) -> D {
    let site = combine.site;
    let mut extent = axis.len.next_power_of_two();
    let mut parts = match extent == axis.len {
        true => values.clone(),
        false => all_padded(values, axis, (0, extent), combine.name, site),
    };
    // How many of the elements on the axis count.
    let mut count = axis.len;
    while extent > 1 {
        extent /= 2;
        let pairs = all_seen_as(&parts, &axis.split_into(&[extent, 2]), site);
        let [left, right] = [0, 1].map(|index| all_picked(&pairs, 2, index, site));
        parts = combine.of(&left, &right);
        if count / 2 < extent {
            let along = counted_along(extent, 1, site);
            let condition = compared(CompareOp::Lt, along, int(count / 2), site);
            parts = parts.zip(&left, &mut Choose { condition, site });
        }
        count = count.div_ceil(2);
    }
    all_seen_as(&parts, &axis.removed(), site)
}

fn scanned<D: DeviceValue>(values: &D, axis: &Axis, reverse: bool, combine: &Combination<'_, D>) -> D {
    let site = combine.site;
    let extent = axis.len.next_power_of_two();
    // Zeros come last in the direction of the scan, so that no element that counts sees them.
    let before = if reverse { extent - axis.len } else { 0 };
    let mut prefix = match extent == axis.len {
        true => values.clone(),
        false => all_padded(values, axis, (before, extent), combine.name, site),
    };
    let mut totals = prefix.clone();
    let (mut groups, mut width) = (extent, 1);
    while groups > 1 {
        groups /= 2;
        let pairs = all_seen_as(&totals, &axis.split_into(&[groups, 2]), site);
        let [even, odd] = [0, 1].map(|index| all_picked(&pairs, 2, index, site));
        let (first, second) = if reverse { (odd, even) } else { (even, odd) };
        let seen = all_seen_as(&prefix, &axis.split_into(&[groups, 2, width]), site);
        let whole = axis.split_into(&[groups, 2, width]);
        let carried = all_seen_as(&first, &axis.split_into(&[groups, 1, 1]), site);
        let carried = carried.map(&mut |raw| stretched(raw, &whole, site));
        let joined = combine.of(&carried, &seen);
        let half = counted_along(2, 2, site);
        let condition = compared(CompareOp::Eq, half, int(u32::from(!reverse)), site);
        prefix = joined.zip(&seen, &mut Choose { condition, site });
        if groups > 1 {
            totals = combine.of(&first, &second);
        }
        width *= 2;
    }
    let whole = all_seen_as(&prefix, &axis.with_len(extent), site);
    if extent == axis.len {
        return whole;
    }
    let (at, part) = (axis.at, before as usize..(before + axis.len) as usize);
    whole.map(&mut |raw| slice(raw, at, part.clone(), site))
}
