//! What neighboring lanes of a warp do together: shuffles and votes among groups of 1 to 32 lanes,
//! matching, reductions and scans.
//!
//! All of it is made of shuffles and votes of the warp. So all threads of a warp reach it together,
//! as for [`shuffle_idx`](crate::shuffle_idx), and a lane that the block does not have, in a last
//! warp that is not full, takes no part.

use crate::elem::{Bits, Elem, Num};
use crate::flow::{DeviceValue, Places};
use crate::ops::{Choose, select};
use crate::thread::{ballot, block, lane_id, shuffle_raw, thread_in_block, vote_all, vote_any};
use crate::trace::{Raw, Site, error};
use crate::val::{Idx, IntoIndex, IntoVal, Val};
use kiln_ir::{Scalar, ShuffleMode, WARP};
use std::panic::Location;

/// The lanes of a warp in groups of a power of two: lanes 0 to `size - 1`, and so on. Each group
/// works by itself.
///
/// ```
/// # use kiln_lang::{lane_group, param::Facts, prelude::*};
/// /// The sum of each row of 8 elements, one thread an element.
/// #[device(crate = kiln_lang)]
/// fn row_sums(x: View<f32, 1>, sums: ViewMut<f32, 1>) {
///     let (i, group) = (thread_index(), lane_group(8));
///     let sum = group.sum(x.get_or(i, 0.0)); // not inside an `if`: all threads of the warp
///     if group.rank().eq(0) {
///         sums.atomic_add(i.get() / 8, sum);
///     }
/// }
/// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
/// #     let x = p.view("x", Facts::default());
/// #     row_sums(x, p.view_mut("y", Facts::default()))
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
///
/// What the lanes of a group do together:
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let (group, lane) = (lane_group(4), lane_id() % 4);
/// let x = lane + 1; // 1 2 3 4 in each group
/// assert_eq!(group.size(), 4);
/// device_assert!(group.min(x).eq(1) & group.inclusive_sum(x).eq(x * (x + 1) / 2));
/// device_assert!(group.exclusive_sum(x).eq(x * (x - 1) / 2));
/// device_assert!(group.inclusive_scan(x, |a, b| a.max(b)).eq(x));
/// device_assert!(group.and_bits(x).eq(0) & group.or_bits(x).eq(7) & group.xor_bits(x).eq(4));
/// device_assert!(group.ballot(x.gt(2)).eq(0b1100) & group.any(x.eq(4)));
/// device_assert!(group.match_all(lane_id() / 4));
/// device_assert!(group.shuffle_idx(x, 2).eq(3) & group.shuffle_xor(x, 3).eq(5 - x));
/// device_assert!(group.shuffle_up(x, 1).eq((x - 1).max(1)));
/// device_assert!(group.shuffle_down(x, 1).eq((x + 1).min(4)));
/// # });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneGroup {
    size: u32,
}

/// Groups of so many lanes: 1, 2, 4, 8, 16 or 32. Needs a launch with threads.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let rows = lane_group(8); // four in a warp
/// device_assert!(rows.sum(val::<i32>(1)).eq(8) & rows.rank().eq(lane_id() % 8));
/// # });
/// ```
#[track_caller]
pub fn lane_group(size: usize) -> LaneGroup {
    if size.is_power_of_two() && size <= WARP as usize {
        return LaneGroup { size: size as u32 };
    }
    let message = format!("a warp has no groups of {size} lanes");
    error(Location::caller(), message, "a group has 1, 2, 4, 8, 16 or 32 lanes");
    LaneGroup { size: WARP }
}

/// All 32 lanes of the warp as one [group](LaneGroup).
///
/// ```
/// # use kiln_lang::{prelude::*, warp};
/// # trace("k", Level::Thread { block: [64, 1, 1] }, |_| {
/// let x = lane_id().cast::<u32>();
/// let (total, most) = (warp().sum(x), warp().max(x));
/// let before = warp().exclusive_sum(x);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
pub fn warp() -> LaneGroup {
    LaneGroup { size: WARP }
}

/// A bit for each lane of the warp that the block has. Threads that wait elsewhere are none that
/// are missing: all of a warp reach this together.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// device_assert!(active_mask().eq(u32::MAX)); // warps of this block are full
/// # });
/// ```
#[track_caller]
pub fn active_mask() -> Val<u32> {
    ballot(true)
}

/// Whether the thread's lane is one of a set of lanes, of which each has a bit. With it a vote, a
/// reduction or a match is among some lanes; the others reach it too, and give what changes
/// nothing.
///
/// ```
/// # use kiln_lang::{lane_in, prelude::*, warp};
/// # trace("k", Level::Thread { block: [64, 1, 1] }, |_| {
/// # let (x, holds) = (lane_id().cast::<u32>(), lane_id().lt(7));
/// let some = lane_in(0x0000_ffffu32);
/// let sum = warp().sum(select(some, x, 0)); // __reduce_add_sync(0xffff, x)
/// let bits = ballot(some & holds);          // __ballot_sync(0xffff, holds)
/// let all = vote_all(!some | holds);        // __all_sync(0xffff, holds)
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn lane_in(lanes: impl IntoVal<u32>) -> Val<bool> {
    ((lanes.into_val() >> lane_id().cast::<u32>()) & 1).ne(0)
}

/// A bit for each lane of the warp that has the same value: see [`LaneGroup::match_any`].
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let odd = match_any(lane_id() % 2);
/// device_assert!(odd.eq(select((lane_id() % 2).eq(1), 0xaaaa_aaaau32, 0x5555_5555)));
/// # });
/// ```
#[track_caller]
pub fn match_any<T: Num>(value: Val<T>) -> Val<u32> {
    warp().match_any(value)
}

/// Whether all lanes of the warp have the same value: see [`LaneGroup::match_all`].
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// device_assert!(match_all(warp_id()) & !match_all(lane_id()));
/// # });
/// ```
#[track_caller]
pub fn match_all<T: Num>(value: Val<T>) -> Val<bool> {
    warp().match_all(value)
}

impl LaneGroup {
    /// The number of lanes.
    pub fn size(self) -> usize {
        self.size as usize
    }

    /// The lane's number in its group.
    #[track_caller]
    pub fn rank(self) -> Idx {
        thread_in_block() % self.size
    }

    /// The value that the lane with a number in the group has; it counts modulo the size.
    #[track_caller]
    pub fn shuffle_idx<T: Elem>(self, value: Val<T>, lane: impl IntoIndex) -> Val<T> {
        if block("shuffle_idx", Location::caller()).is_none() {
            return Val::poison();
        }
        let lane = self.first() + (lane.into_index() & (self.size - 1));
        shuffled(ShuffleMode::Index, value, lane, Location::caller())
    }

    /// The value that the lane `by` below in the group has, modulo the size; the lowest lanes keep
    /// their own.
    #[track_caller]
    pub fn shuffle_up<T: Elem>(self, value: Val<T>, by: impl IntoIndex) -> Val<T> {
        if block("shuffle_up", Location::caller()).is_none() {
            return Val::poison();
        }
        let by = by.into_index() & (self.size - 1);
        let below = shuffled(ShuffleMode::Up, value, by, Location::caller());
        select(self.rank().ge(by), below, value)
    }

    /// The value that the lane `by` above in the group has, modulo the size; the highest lanes keep
    /// their own.
    #[track_caller]
    pub fn shuffle_down<T: Elem>(self, value: Val<T>, by: impl IntoIndex) -> Val<T> {
        if block("shuffle_down", Location::caller()).is_none() {
            return Val::poison();
        }
        let by = by.into_index() & (self.size - 1);
        let above = shuffled(ShuffleMode::Down, value, by, Location::caller());
        select((self.rank() + by).lt(self.size), above, value)
    }

    /// The value that the lane whose number differs by exclusive or with `mask` has, modulo the
    /// size.
    #[track_caller]
    pub fn shuffle_xor<T: Elem>(self, value: Val<T>, mask: impl IntoIndex) -> Val<T> {
        if block("shuffle_xor", Location::caller()).is_none() {
            return Val::poison();
        }
        let mask = mask.into_index() & (self.size - 1);
        shuffled(ShuffleMode::Xor, value, mask, Location::caller())
    }

    /// A bit for each lane of the group in which the predicate holds.
    #[track_caller]
    pub fn ballot(self, predicate: impl IntoVal<bool>) -> Val<u32> {
        self.own_part(ballot(predicate))
    }

    /// Whether the predicate holds in some lane of the group.
    #[track_caller]
    pub fn any(self, predicate: impl IntoVal<bool>) -> Val<bool> {
        if self.size == WARP { vote_any(predicate) } else { self.ballot(predicate).ne(0) }
    }

    /// Whether the predicate holds in every lane of the group.
    #[track_caller]
    pub fn all(self, predicate: impl IntoVal<bool>) -> Val<bool> {
        if self.size == WARP { vote_all(predicate) } else { self.ballot(!predicate.into_val()).eq(0) }
    }

    /// A bit for each lane of the group that has the same value, bit by bit: zeros of different
    /// sign differ. Each bit of the type takes a vote.
    ///
    /// ```
    /// # use kiln_lang::{match_any, param::Facts, prelude::*};
    /// /// Counts keys, with one atomic operation for all lanes of a warp that have the same one.
    /// #[device(crate = kiln_lang)]
    /// fn count(keys: View<u32, 1>, counts: ViewMut<u32, 1>) {
    ///     let key = keys.get(thread_index());
    ///     let same = match_any(key);
    ///     if lane_id() == same.ctz().cast::<i64>() {
    ///         counts.atomic_add(key, same.popcount());
    ///     }
    /// }
    /// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
    /// #     let x = p.view("x", Facts::default());
    /// #     count(x, p.view_mut("y", Facts::default()))
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn match_any<T: Num>(self, value: Val<T>) -> Val<u32> {
        if block("match_any", Location::caller()).is_none() {
            return Val::poison();
        }
        let mut same = ballot(true);
        for (word, bits) in words(value) {
            for bit in 0..bits {
                let is_set = ((word >> bit) & 1).ne(0);
                let set = ballot(is_set);
                same &= select(is_set, set, !set);
            }
        }
        self.own_part(same)
    }

    /// Whether all lanes of the group have the same value, bit by bit: zeros of different sign
    /// differ.
    #[track_caller]
    pub fn match_all<T: Num>(self, value: Val<T>) -> Val<bool> {
        if block("match_all", Location::caller()).is_none() {
            return Val::poison();
        }
        let mut same: Val<bool> = true.into_val();
        for (word, _) in words(value) {
            same &= word.eq(self.shuffle_idx(word, 0));
        }
        self.all(same)
    }

    /// The values of all lanes of the group combined, in each of them. The function is associative;
    /// its left operand holds the values of lower lanes.
    ///
    /// ```
    /// # use kiln_lang::{prelude::*, warp};
    /// # #[device(crate = kiln_lang)]
    /// # fn step(x: Val<f32>) -> (Val<f32>, Val<i64>) {
    /// // The greatest value of a warp, and the first lane that has it.
    /// warp().reduce((x, lane_id()), |(a, i), (b, j)| {
    ///     let left = a.ge(b);
    ///     (select(left, a, b), select(left, i, j))
    /// })
    /// # }
    /// # trace("k", Level::Thread { block: [64, 1, 1] }, |_| { step(val(1.5)); })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn reduce<D: DeviceValue>(self, value: D, combine: impl Fn(D, D) -> D) -> D {
        let site = Location::caller();
        if block("reduce", site).is_none() {
            return value.map(&mut |_| Raw::Poison);
        }
        let mut total = value.snapshot(site);
        for by in self.steps() {
            let other = moved(&total, ShuffleMode::Down, by, site);
            let joined = combine(total.clone(), other).snapshot(site);
            total = match block_size(site) {
                // Behind the last thread of the block there is no value.
                Some(threads) if threads % WARP != 0 => {
                    let condition = (thread_in_block() + by).lt(threads).raw();
                    joined.zip(&total, &mut Choose { condition, site })
                }
                _ => joined,
            };
        }
        let first = self.first().raw();
        total.map(&mut |raw| shuffle_raw(ShuffleMode::Index, raw, first, site))
    }

    /// Running combination: each lane gets the values of lanes up to its own, combined. The
    /// function is associative; its left operand holds the values of lower lanes.
    #[track_caller]
    pub fn inclusive_scan<D: DeviceValue>(self, value: D, combine: impl Fn(D, D) -> D) -> D {
        let site = Location::caller();
        if block("inclusive_scan", site).is_none() {
            return value.map(&mut |_| Raw::Poison);
        }
        let mut prefix = value.snapshot(site);
        for by in self.steps() {
            let below = moved(&prefix, ShuffleMode::Up, by, site);
            let joined = combine(below, prefix.clone());
            let condition = self.rank().ge(by).raw();
            prefix = joined.zip(&prefix, &mut Choose { condition, site });
        }
        prefix
    }

    /// As [`inclusive_scan`](LaneGroup::inclusive_scan), without the lane's own value: the first
    /// lane of a group gets `first`.
    ///
    /// ```
    /// # use kiln_lang::{lane_group, prelude::*};
    /// # #[device(crate = kiln_lang)]
    /// # fn step(x: Val<f32>) -> Val<f32> {
    /// // The greatest value that a lane of the group before this one has.
    /// lane_group(16).exclusive_scan(x, val(f32::NEG_INFINITY), |a, b| a.max(b))
    /// # }
    /// # trace("k", Level::Thread { block: [64, 1, 1] }, |_| { step(val(1.5)); })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn exclusive_scan<D: DeviceValue>(self, value: D, first: D, combine: impl Fn(D, D) -> D) -> D {
        let site = Location::caller();
        if block("exclusive_scan", site).is_none() {
            return value.map(&mut |_| Raw::Poison);
        }
        let first = first.snapshot(site);
        let prefix = self.inclusive_scan(value, combine);
        let before = moved(&prefix, ShuffleMode::Up, 1, site);
        let condition = self.rank().eq(0).raw();
        first.zip(&before, &mut Choose { condition, site })
    }

    /// The sum of the values of all lanes of the group.
    #[track_caller]
    pub fn sum<T: Num>(self, value: Val<T>) -> Val<T> {
        self.reduce(value, |a, b| a + b)
    }

    /// The smallest of the values of all lanes of the group; a number wins over NaN.
    #[track_caller]
    pub fn min<T: Num>(self, value: Val<T>) -> Val<T> {
        self.reduce(value, |a, b| a.min(b))
    }

    /// The largest of the values of all lanes of the group; a number wins over NaN.
    #[track_caller]
    pub fn max<T: Num>(self, value: Val<T>) -> Val<T> {
        self.reduce(value, |a, b| a.max(b))
    }

    /// The bits that all lanes of the group have.
    #[track_caller]
    pub fn and_bits<T: Bits>(self, value: Val<T>) -> Val<T> {
        self.reduce(value, |a, b| a & b)
    }

    /// The bits that some lane of the group has.
    #[track_caller]
    pub fn or_bits<T: Bits>(self, value: Val<T>) -> Val<T> {
        self.reduce(value, |a, b| a | b)
    }

    /// The bits that an odd number of lanes of the group have.
    #[track_caller]
    pub fn xor_bits<T: Bits>(self, value: Val<T>) -> Val<T> {
        self.reduce(value, |a, b| a ^ b)
    }

    /// The sum of the values of lanes up to this one.
    #[track_caller]
    pub fn inclusive_sum<T: Num>(self, value: Val<T>) -> Val<T> {
        self.inclusive_scan(value, |a, b| a + b)
    }

    /// The sum of the values of lanes below this one; of the first it is 0.
    #[track_caller]
    pub fn exclusive_sum<T: Num>(self, value: Val<T>) -> Val<T> {
        self.exclusive_scan(value, 0.into_val(), |a, b| a + b)
    }

    /// The lane of the warp that is the group's first.
    #[track_caller]
    fn first(self) -> Idx {
        lane_id() & -i64::from(self.size)
    }

    /// The distances 1, 2, 4, … below the size.
    fn steps(self) -> impl Iterator<Item = u32> {
        (0..self.size.ilog2()).map(|step| 1 << step)
    }

    /// The bits of the group's own lanes, of those of the warp.
    #[track_caller]
    fn own_part(self, lanes: Val<u32>) -> Val<u32> {
        if self.size == WARP {
            return lanes;
        }
        (lanes >> self.first().cast::<u32>()) & ((1u32 << self.size) - 1)
    }
}

fn block_size(site: Site) -> Option<u32> {
    block("lane_group", site).map(|extents| extents.iter().product())
}

fn shuffled<T: Elem>(mode: ShuffleMode, value: Val<T>, by: Idx, site: Site) -> Val<T> {
    Val::from_raw(shuffle_raw(mode, value.raw(), by.raw(), site))
}

/// Each handle of a value as another lane has it.
fn moved<D: DeviceValue>(value: &D, mode: ShuffleMode, by: u32, site: Site) -> D {
    let by: Idx = by.into_val();
    value.map(&mut |raw| shuffle_raw(mode, raw, by.raw(), site))
}

/// The words of a value's bits, and how many bits of each count.
#[track_caller]
fn words<T: Num>(value: Val<T>) -> Vec<(Val<u32>, u32)> {
    match T::SCALAR {
        Scalar::F64 | Scalar::I64 | Scalar::U64 => {
            let bits = value.bitcast::<u64>();
            vec![(bits.cast(), 32), ((bits >> 32).cast(), 32)]
        }
        // The bits as f32: the lowest 13 are zero in all of them.
        Scalar::F16 => vec![(value.cast::<f32>().bitcast::<u32>() >> 13, 19)],
        Scalar::BF16 => vec![(value.cast::<f32>().bitcast::<u32>() >> 16, 16)],
        Scalar::I8 | Scalar::U8 => vec![(value.cast::<u8>().cast(), 8)],
        Scalar::I16 | Scalar::U16 => vec![(value.cast::<u16>().cast(), 16)],
        _ => vec![(value.bitcast(), 32)],
    }
}
