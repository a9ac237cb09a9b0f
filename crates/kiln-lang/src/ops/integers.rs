//! Arithmetic of integers that is made of operations: saturating sums, averages, differences, and
//! shifts of two words.

use super::bits::logical_shift;
use super::select;
use crate::elem::Int;
use crate::val::{IntoVal, Val};

impl<T: Int> Val<T> {
    /// The place of the lowest one bit, counted from 1; of 0 it is 0.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// The first lane of a set of lanes, or -1.
    /// fn first(lanes: Val<u32>) -> Val<i32> {
    ///     lanes.ffs().cast::<i32>() - 1
    /// }
    /// ```
    #[track_caller]
    pub fn ffs(self) -> Val<T> {
        select(self.eq(0), 0.into_val(), self.ctz() + 1)
    }

    /// The sum, or the nearest number that the type has.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// Counts up to the largest count that there is.
    /// fn count(seen: Val<u32>, more: Val<u32>) -> Val<u32> {
    ///     seen.saturating_add(more)
    /// }
    /// ```
    #[track_caller]
    pub fn saturating_add(self, other: impl IntoVal<T>) -> Val<T> {
        let other = other.into_val();
        let sum = self + other;
        if !T::SCALAR.is_signed() {
            return select(sum.lt(self), !zero::<T>(), sum);
        }
        // It overflowed where its sign is that of neither operand.
        let overflowed = ((self ^ sum) & (other ^ sum)).lt(0);
        select(overflowed, bound(self), sum)
    }

    /// The difference, or the nearest number that the type has: of unsigned integers at least 0.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// fn left(stock: Val<u32>, sold: Val<u32>) -> Val<u32> {
    ///     stock.saturating_sub(sold)
    /// }
    /// ```
    #[track_caller]
    pub fn saturating_sub(self, other: impl IntoVal<T>) -> Val<T> {
        let other = other.into_val();
        if !T::SCALAR.is_signed() {
            return self.max(other) - other;
        }
        let difference = self - other;
        let overflowed = ((self ^ other) & (self ^ difference)).lt(0);
        select(overflowed, bound(self), difference)
    }

    /// The distance between two integers. That of signed ones may exceed the largest number of the
    /// type and wraps: `a.abs_diff(b).cast::<u32>()` is exact for `i32`.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// fn moved(before: Val<i32>, after: Val<i32>) -> Val<u32> {
    ///     before.abs_diff(after).cast::<u32>()
    /// }
    /// ```
    #[track_caller]
    pub fn abs_diff(self, other: impl IntoVal<T>) -> Val<T> {
        let other = other.into_val();
        self.max(other) - self.min(other)
    }

    /// The [distance](Val::abs_diff) between two integers, added to a third.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// How far two rows of four pixels are apart.
    /// fn distance(a: [Val<u32>; 4], b: [Val<u32>; 4]) -> Val<u32> {
    ///     (1..4).fold(a[0].abs_diff(b[0]), |sum, i| a[i].sad(b[i], sum))
    /// }
    /// ```
    #[track_caller]
    pub fn sad(self, other: impl IntoVal<T>, sum: impl IntoVal<T>) -> Val<T> {
        self.abs_diff(other) + sum.into_val()
    }

    /// The average of two integers, rounded down, without overflow between.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// The middle of a range in a binary search.
    /// fn middle(low: Val<u32>, high: Val<u32>) -> Val<u32> {
    ///     low.hadd(high)
    /// }
    /// ```
    #[track_caller]
    pub fn hadd(self, other: impl IntoVal<T>) -> Val<T> {
        let other = other.into_val();
        (self & other) + ((self ^ other) >> 1)
    }

    /// The average of two integers, rounded up, without overflow between.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let x = val::<u32>(u32::MAX);
    /// device_assert!(x.rhadd(u32::MAX - 1).eq(u32::MAX) & x.hadd(u32::MAX - 1).eq(u32::MAX - 1));
    /// # });
    /// ```
    #[track_caller]
    pub fn rhadd(self, other: impl IntoVal<T>) -> Val<T> {
        let other = other.into_val();
        (self | other) - ((self ^ other) >> 1)
    }

    /// The upper half of two words, moved left by `n` together: `self` is the upper word, `low` the
    /// lower one. `n` counts modulo the width.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// /// 32 bits of a stream of words, from a bit on.
    /// fn window(words: [Val<u32>; 2], bit: Val<u32>) -> Val<u32> {
    ///     words[0].funnel_shift_left(words[1], bit)
    /// }
    /// ```
    #[track_caller]
    pub fn funnel_shift_left(self, low: impl IntoVal<T>, n: impl IntoVal<T>) -> Val<T> {
        let n = n.into_val() & (width::<T>() - 1);
        // By two shifts of less than the width: one by the width is not defined.
        let below =
            logical_shift(logical_shift(low.into_val(), 1.into_val()), (width::<T>() - 1).into_val() ^ n);
        self << n | below
    }

    /// As [`funnel_shift_left`](Val::funnel_shift_left), by at most the width: then it is `low`.
    /// `n` counts as unsigned.
    #[track_caller]
    pub fn funnel_shift_left_clamped(self, low: impl IntoVal<T>, n: impl IntoVal<T>) -> Val<T> {
        let (low, n) = (low.into_val(), n.into_val());
        select(is_far(n), low, self.funnel_shift_left(low, n))
    }

    /// The lower half of two words, moved right by `n` together: `self` is the upper word, `low`
    /// the lower one. `n` counts modulo the width.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let (high, low) = (val::<u32>(0x1234_5678), val::<u32>(0x9abc_def0u32));
    /// device_assert!(high.funnel_shift_right(low, 8).eq(0x789a_bcde));
    /// device_assert!(high.funnel_shift_left(low, 8).eq(0x3456_789a));
    /// // By the width, one counts modulo it and the other gives a whole word.
    /// device_assert!(high.funnel_shift_right(low, 32).eq(low));
    /// device_assert!(high.funnel_shift_right_clamped(low, 32).eq(high));
    /// device_assert!(high.funnel_shift_left(low, 32).eq(high));
    /// device_assert!(high.funnel_shift_left_clamped(low, 32).eq(low));
    /// # });
    /// ```
    #[track_caller]
    pub fn funnel_shift_right(self, low: impl IntoVal<T>, n: impl IntoVal<T>) -> Val<T> {
        let n = n.into_val() & (width::<T>() - 1);
        let above = self << 1 << ((width::<T>() - 1).into_val() ^ n);
        logical_shift(low.into_val(), n) | above
    }

    /// As [`funnel_shift_right`](Val::funnel_shift_right), by at most the width: then it is `self`.
    /// `n` counts as unsigned.
    #[track_caller]
    pub fn funnel_shift_right_clamped(self, low: impl IntoVal<T>, n: impl IntoVal<T>) -> Val<T> {
        let n = n.into_val();
        select(is_far(n), self, self.funnel_shift_right(low, n))
    }
}

fn width<T: Int>() -> i32 {
    T::SCALAR.bytes() as i32 * 8
}

#[track_caller]
fn zero<T: Int>() -> Val<T> {
    0.into_val()
}

/// The least number of a signed type for negative numbers, the largest for others.
#[track_caller]
fn bound<T: Int>(x: Val<T>) -> Val<T> {
    let largest = logical_shift(!zero::<T>(), 1.into_val());
    (x >> (width::<T>() - 1)) ^ largest
}

/// Whether an amount, as unsigned, is at least the width.
#[track_caller]
fn is_far<T: Int>(n: Val<T>) -> Val<bool> {
    logical_shift(n, width::<T>().trailing_zeros().cast_signed().into_val()).ne(0)
}
