//! Ranges whose bounds are known on the device alone.

use crate::elem::{Elem, HostNumber, Int};
use crate::trace::{Id, Raw, Site, error, with};
use crate::val::{IntoVal, Val};
use crate::view::ThreadIndex;
use kiln_ir::{BinaryOp, Literal, Scalar, Shape};
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::Location;

/// The largest factor that loops are unrolled by.
const MAX_UNROLL: u32 = 256;

/// A range of integers for a loop on the device. Made by [`range`], [`range_step`], or `a..b` with
/// a device bound.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// /// The last number of a range that is a multiple of 3.
/// #[device(crate = kiln_lang)]
/// fn last(n: Val<i32>) -> Val<i32> {
///     let mut found: Val<i32> = -1;
///     for i in range(0, n).rev() {
///         if found < 0 && i % 3 == 0 {
///             found = i;
///         }
///     }
///     found
/// }
///
/// device_assert!(last(val(11)).eq(9));
/// # });
/// ```
#[derive(Clone, Copy)]
pub struct DeviceRange<T> {
    pub(super) ends: RangeEnds,
    elem: PhantomData<fn() -> T>,
}

/// A range, whatever the type of its integers.
#[derive(Clone, Copy)]
pub(super) struct RangeEnds {
    lo: Raw,
    hi: Raw,
    step: Raw,
    reversed: bool,
    pub unroll: u32,
    pub site: Site,
}

/// The bounds of a range: integers of the device or the host. A device value decides the type; two
/// host numbers are `i64`, the type of indices.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// use kiln_lang::RangeBounds;
///
/// /// How many numbers are in a range of whichever integers.
/// #[device(crate = kiln_lang)]
/// fn count<A, B>(low: A, high: B) -> Val<i64>
/// where
///     (A, B): RangeBounds,
/// {
///     let mut n: Val<i64> = 0;
///     for _ in range(low, high) {
///         n += 1;
///     }
///     n
/// }
///
/// device_assert!(count(2, val::<i32>(7)).eq(5) & count(0, 3).eq(3));
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not the bounds of a range",
    note = "bounds are integers of one type: device values, host numbers or one of each"
)]
pub trait RangeBounds {
    /// The element type.
    type Elem: Int;
    /// The bounds.
    #[doc(hidden)]
    #[track_caller]
    fn bounds(self) -> (Val<Self::Elem>, Val<Self::Elem>);
}

impl<T: Int, B: IntoVal<T>> RangeBounds for (Val<T>, B) {
    type Elem = T;
    #[track_caller]
    fn bounds(self) -> (Val<T>, Val<T>) {
        (self.0, self.1.into_val())
    }
}

impl<A: HostNumber + IntoVal<T>, T: Int> RangeBounds for (A, Val<T>) {
    type Elem = T;
    #[track_caller]
    fn bounds(self) -> (Val<T>, Val<T>) {
        (self.0.into_val(), self.1)
    }
}

impl<A: HostNumber + IntoVal<i64>> RangeBounds for (A, A) {
    type Elem = i64;
    #[track_caller]
    fn bounds(self) -> (Val<i64>, Val<i64>) {
        (self.0.into_val(), self.1.into_val())
    }
}

impl<B: IntoVal<i64>> RangeBounds for (ThreadIndex<1>, B) {
    type Elem = i64;
    #[track_caller]
    fn bounds(self) -> (Val<i64>, Val<i64>) {
        (self.0.get(), self.1.into_val())
    }
}

impl<A: HostNumber + IntoVal<i64>> RangeBounds for (A, ThreadIndex<1>) {
    type Elem = i64;
    #[track_caller]
    fn bounds(self) -> (Val<i64>, Val<i64>) {
        (self.0.into_val(), self.1.get())
    }
}

/// The integers from `lo` to before `hi`, as a loop on the device even where both are host numbers.
///
/// The type is that of a bound that is a device value; two host numbers make it `i64`.
///
/// ```
/// # use kiln_lang::prelude::*;
/// #[device(crate = kiln_lang)]
/// fn sum_of_squares(n: Val<i32>) -> Val<i32> {
///     let mut sum: Val<i32> = 0;
///     for i in range(1, n) {
///         sum += i * i;
///     }
///     for i in range(0, 4) {
///         // Both bounds are host numbers, yet this is one loop of the device, not four copies of its body.
///         sum += i.cast::<i32>();
///     }
///     sum
/// }
/// ```
#[track_caller]
pub fn range<A, B>(lo: A, hi: B) -> DeviceRange<<(A, B) as RangeBounds>::Elem>
where
    (A, B): RangeBounds,
{
    DeviceRange::new((lo, hi).bounds(), 1, Location::caller())
}

/// The integers from `lo` to before `hi` by a positive `step`. The type is as for [`range`].
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// #[device(crate = kiln_lang)]
/// fn sum_of_even(n: Val<i32>) -> Val<i32> {
///     let mut sum: Val<i32> = 0;
///     for i in range_step(0, n, 2) {
///         sum += i;
///     }
///     sum
/// }
///
/// device_assert!(sum_of_even(val(7)).eq(12));
/// # });
/// ```
#[track_caller]
pub fn range_step<A, B, S>(lo: A, hi: B, step: S) -> DeviceRange<<(A, B) as RangeBounds>::Elem>
where
    (A, B): RangeBounds,
    S: IntoVal<<(A, B) as RangeBounds>::Elem>,
{
    DeviceRange::new((lo, hi).bounds(), step, Location::caller())
}

impl<T: Int> DeviceRange<T> {
    #[track_caller]
    fn new((lo, hi): (Val<T>, Val<T>), step: impl IntoVal<T>, site: Site) -> DeviceRange<T> {
        let step = step.into_val();
        DeviceRange { ends: RangeEnds::new([lo.raw(), hi.raw(), step.raw()], site), elem: PhantomData }
    }

    /// Every `step`th integer.
    #[track_caller]
    pub fn step_by(self, step: impl IntoVal<T>) -> DeviceRange<T> {
        let RangeEnds { lo, hi, reversed, unroll, .. } = self.ends;
        let stepped = RangeEnds::new([lo, hi, step.into_val().raw()], Location::caller());
        DeviceRange { ends: RangeEnds { reversed, unroll, ..stepped }, elem: PhantomData }
    }

    /// The integers from the last to the first.
    #[must_use]
    pub fn rev(self) -> DeviceRange<T> {
        DeviceRange { ends: RangeEnds { reversed: !self.ends.reversed, ..self.ends }, ..self }
    }

    /// Unrolls the loop by a factor: its body has that many rounds, and a second loop has those
    /// that are left. A loop of host numbers with no more rounds than the factor is no loop any
    /// more.
    ///
    /// A hint: it never changes a result. A loop with a `break` or `return` in it, and one whose
    /// step is a device value, are as without it. The budget of a
    /// [`fault_region`](crate::fault_region()) counts the rounds of a body as one step.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// #[device(crate = kiln_lang)]
    /// fn sum_of_squares(n: Val<i32>) -> Val<i32> {
    ///     let mut sum: Val<i32> = 0;
    ///     for i in range(1, n).unroll(4) {
    ///         sum += i * i;
    ///     }
    ///     sum
    /// }
    ///
    /// device_assert!(sum_of_squares(val(7)).eq(1 + 4 + 9 + 16 + 25 + 36));
    /// # });
    /// ```
    #[must_use]
    #[track_caller]
    pub fn unroll(self, factor: usize) -> DeviceRange<T> {
        let unroll = u32::try_from(factor).ok().filter(|factor| (1..=MAX_UNROLL).contains(factor));
        if unroll.is_none() {
            let help = format!("unroll by 1 to {MAX_UNROLL}");
            error(Location::caller(), format!("a loop cannot be unrolled by {factor}"), help);
        }
        DeviceRange { ends: RangeEnds { unroll: unroll.unwrap_or(1), ..self.ends }, ..self }
    }
}

impl RangeEnds {
    fn new([lo, hi, step]: [Raw; 3], site: Site) -> RangeEnds {
        if let Raw::Const(literal) = step
            && literal.as_i128() <= 0
        {
            let help = "count up, and use `.rev()` for the other direction";
            error(site, format!("a loop cannot step by {literal}"), help);
        }
        RangeEnds { lo, hi, step, reversed: false, unroll: 1, site }
    }

    /// The bounds as values, read now.
    pub(super) fn bounds(&self) -> Option<[Id; 3]> {
        let mut ids = [None; 3];
        for (id, part) in ids.iter_mut().zip([self.lo, self.hi, self.step]) {
            *id = with(|r| r.read_as(part, &Shape::scalar(), self.site)).flatten();
        }
        Some([ids[0]?, ids[1]?, ids[2]?])
    }

    /// What the user's loop variable is, of the type `elem`, given the index of the loop.
    pub(super) fn item(&self, [lo, hi, step]: [Id; 3], index: Id, elem: Scalar) -> Raw {
        if !self.reversed {
            return Raw::Value(index);
        }
        // With last = lo + (hi - 1 - lo) / step * step, the loop over lo, lo + step, … visits
        // last - (index - lo).
        let site = self.site;
        let id = with(|r| {
            let one = r.read(Raw::Const(Literal::one(elem)), site)?;
            let span = r.binary(BinaryOp::Sub, hi, lo, site)?;
            let span = r.binary(BinaryOp::Sub, span, one, site)?;
            let count = r.binary(BinaryOp::Div, span, step, site)?;
            let reach = r.binary(BinaryOp::Mul, count, step, site)?;
            let done = r.binary(BinaryOp::Sub, index, lo, site)?;
            let rest = r.binary(BinaryOp::Sub, reach, done, site)?;
            r.binary(BinaryOp::Add, lo, rest, site)
        });
        Raw::of(id.flatten())
    }
}

/// `a..b` in the head of a `for`, whose bounds may be device values.
#[doc(hidden)]
pub struct RangeProbe<A, B>(pub A, pub B);

impl<T: Elem, B> RangeProbe<Val<T>, B> {
    /// The range.
    #[track_caller]
    pub fn range(self) -> DeviceRange<T>
    where
        T: Int,
        B: IntoVal<T>,
    {
        range(self.0, self.1)
    }

    /// The range, the upper bound included.
    #[track_caller]
    pub fn range_inclusive(self) -> DeviceRange<T>
    where
        T: Int,
        B: IntoVal<T>,
    {
        range(self.0, self.1.into_val() + 1)
    }
}

impl<B> RangeProbe<ThreadIndex<1>, B> {
    /// The range.
    #[track_caller]
    pub fn range(self) -> DeviceRange<i64>
    where
        B: IntoVal<i64>,
    {
        range(self.0, self.1)
    }

    /// The range, the upper bound included.
    #[track_caller]
    pub fn range_inclusive(self) -> DeviceRange<i64>
    where
        B: IntoVal<i64>,
    {
        range(self.0, self.1.into_val() + 1)
    }
}

/// A device bound on the right. It is for a reference, and so found after [`RangeHost`]: a bound
/// whose type is inferred later, such as `2 * k` of a host literal `k`, is a host number.
#[doc(hidden)]
pub trait RangeTo<A, T> {
    #[track_caller]
    fn range(self) -> DeviceRange<T>
    where
        T: Int,
        A: HostNumber + IntoVal<T>;
    #[track_caller]
    fn range_inclusive(self) -> DeviceRange<T>
    where
        T: Int,
        A: HostNumber + IntoVal<T>;
}

impl<T: Elem, A> RangeTo<A, T> for &RangeProbe<A, Val<T>> {
    #[track_caller]
    fn range(self) -> DeviceRange<T>
    where
        T: Int,
        A: HostNumber + IntoVal<T>,
    {
        range(self.0, self.1)
    }

    #[track_caller]
    fn range_inclusive(self) -> DeviceRange<T>
    where
        T: Int,
        A: HostNumber + IntoVal<T>,
    {
        range(self.0, self.1 + 1)
    }
}

impl<A> RangeTo<A, i64> for &RangeProbe<A, ThreadIndex<1>> {
    #[track_caller]
    fn range(self) -> DeviceRange<i64>
    where
        A: HostNumber + IntoVal<i64>,
    {
        range(self.0, self.1)
    }

    #[track_caller]
    fn range_inclusive(self) -> DeviceRange<i64>
    where
        A: HostNumber + IntoVal<i64>,
    {
        range(self.0, self.1 + 1)
    }
}

/// Two host bounds.
#[doc(hidden)]
pub trait RangeHost<A> {
    fn range(self) -> Range<A>;
    fn range_inclusive(self) -> std::ops::RangeInclusive<A>;
}

impl<A> RangeHost<A> for RangeProbe<A, A> {
    fn range(self) -> Range<A> {
        self.0..self.1
    }

    fn range_inclusive(self) -> std::ops::RangeInclusive<A> {
        self.0..=self.1
    }
}
