//! Ranges of an axis, as `slice` takes them.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of an axis: `2..5`, `1..`, `..=3`, `..`. Bounds below 0 count from the axis's end:
/// `-3..` are its last three elements, and `..-1` are all but the last one.
///
/// ```
/// use kiln_array::{Array, SliceRange};
///
/// /// A part of each row.
/// fn columns(x: &Array, range: impl SliceRange) -> Array {
///     x.slice(1, range)
/// }
///
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::arange(&device, 6).reshape(&[2, 3]);
/// assert_eq!(columns(&x, ..-1).to_vec::<i64>()?, [0, 1, 3, 4]);
/// assert_eq!(columns(&x, 2..).to_vec::<i64>()?, [2, 5]);
/// assert_eq!(columns(&x, ..).shape(), x.shape());
/// # Ok::<(), kiln_array::Error>(())
/// ```
pub trait SliceRange: sealed::Sealed {
    /// Its first element, and the one that follows its last.
    #[doc(hidden)]
    fn bounds(&self) -> Bounds;

    /// It as it was written.
    #[doc(hidden)]
    fn written(&self) -> String;
}

mod sealed {
    pub trait Sealed {}
}

/// The ends of a range; `None` is the axis's.
#[doc(hidden)]
pub struct Bounds {
    start: Option<i128>,
    end: Option<i128>,
    /// Whether the end is the last element itself.
    is_inclusive: bool,
}

impl Bounds {
    /// The range in an axis of this extent; `None` where it goes beyond it.
    pub(super) fn within(&self, extent: usize) -> Option<Range<usize>> {
        let extent = extent as i128;
        let counted = |bound: i128| if bound < 0 { bound + extent } else { bound };
        let start = self.start.map_or(0, counted);
        let end = self.end.map_or(extent, |end| counted(end) + i128::from(self.is_inclusive));
        // Neither is larger than the extent, which is a `usize`.
        (0 <= start && start <= end && end <= extent).then_some(start as usize..end as usize)
    }
}

macro_rules! ranges {
    ($($range:ident: |$of:ident| $start:expr, $end:expr, $is_inclusive:expr;)*) => {$(
        ranges!(@bound $range, $of, $start, $end, $is_inclusive; i32 i64 isize usize);
    )*};
    (@bound $range:ident, $of:ident, $start:expr, $end:expr, $is_inclusive:expr; $($t:ty)*) => {$(
        impl sealed::Sealed for $range<$t> {}

        impl SliceRange for $range<$t> {
            fn bounds(&self) -> Bounds {
                let $of = self;
                let [start, end]: [Option<$t>; 2] = [$start, $end];
                let wide = |bound: Option<$t>| bound.map(|bound| bound as i128);
                Bounds { start: wide(start), end: wide(end), is_inclusive: $is_inclusive }
            }

            fn written(&self) -> String {
                format!("{self:?}")
            }
        }
    )*};
}

ranges! {
    Range: |range| Some(range.start), Some(range.end), false;
    RangeFrom: |range| Some(range.start), None, false;
    RangeTo: |range| None, Some(range.end), false;
    RangeInclusive: |range| Some(*range.start()), Some(*range.end()), true;
    RangeToInclusive: |range| None, Some(range.end), true;
}

impl sealed::Sealed for RangeFull {}

impl SliceRange for RangeFull {
    fn bounds(&self) -> Bounds {
        Bounds { start: None, end: None, is_inclusive: false }
    }

    fn written(&self) -> String {
        "..".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Python's lists have it, but that a bound beyond the axis is none.
    fn reference(start: i64, end: i64, extent: i64) -> Option<Range<usize>> {
        let places: Vec<i64> = (0..=extent).collect();
        let place = |bound: i64| match bound {
            0.. => places.get(bound as usize).copied(),
            _ => places.iter().rev().nth(bound.unsigned_abs() as usize).copied(),
        };
        let (start, end) = (place(start)?, place(end)?);
        (start <= end).then_some(start as usize..end as usize)
    }

    #[test]
    fn bounds_below_0_count_from_the_end() {
        for (extent, start, end) in
            (0..5).flat_map(|n| (-7..8).flat_map(move |a| (-7..8).map(move |b| (n, a, b))))
        {
            let of = |bounds: Bounds| bounds.within(extent as usize);
            let expected = reference(start, end, extent);
            assert_eq!(of((start..end).bounds()), expected, "{start}..{end} of {extent}");
            assert_eq!(of((start as i32..end as i32).bounds()), expected);
            assert_eq!(of((start..).bounds()), reference(start, extent, extent), "{start}.. of {extent}");
            assert_eq!(of((..end).bounds()), reference(0, end, extent), "..{end} of {extent}");
            // The last element is named, where there is one.
            if (-extent..extent).contains(&end) {
                let next = if end == -1 { extent } else { end + 1 };
                let expected = reference(start, next, extent);
                assert_eq!(of((start..=end).bounds()), expected, "{start}..={end} of {extent}");
            }
        }
    }
}
