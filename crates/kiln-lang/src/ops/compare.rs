//! Comparisons and selection.
//!
//! Inside `#[kernel]` and `#[device]` the operators `<`, `==` and so on do this; the methods are
//! for code without the attribute.

use super::elementwise;
use crate::elem::{Elem, Num, Ordered};
use crate::trace::{Raw, Site, error};
use crate::val::{IntoVal, Val};
use kiln_ir::{CompareOp, OpKind, Scalar};
use std::panic::Location;

/// Records a comparison of elements of the type `elem`.
fn compare(op: CompareOp, a: Raw, b: Raw, elem: Scalar, site: Site) -> Raw {
    if elem.is_storage() {
        let what = format!("{elem} has no comparisons on a device");
        error(site, what, "it is for storage: `cast` it first");
        return Raw::Poison;
    }
    elementwise(OpKind::Compare(op), &[a, b], Scalar::Bool, site)
}

macro_rules! compare {
    ($bound:ident: $($(#[$doc:meta])* $name:ident $op:ident;)*) => {
        impl<T: Elem> Val<T> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(self, other: impl IntoVal<T>) -> Val<bool>
            where
                T: $bound,
            {
                let other = other.into_val();
                Val::from_raw(compare(CompareOp::$op, self.raw(), other.raw(), T::SCALAR, Location::caller()))
            }
        )*}
    };
}

compare! { Copy:
    /// Whether the elements are equal.
    ///
    /// With the other comparisons:
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let i = iota::<i32>(4);
    /// let results = [i.eq(2), i.ne(2), i.lt(2), i.le(2), i.gt(2), i.ge(2)];
    /// for (holds, count) in results.into_iter().zip([1, 3, 2, 3, 1, 2]) {
    ///     device_assert!(holds.cast::<i32>().sum().eq(count));
    /// }
    /// # });
    /// ```
    eq Eq;
    /// Whether the elements differ.
    ne Ne;
}

compare! { Ordered:
    /// Whether these elements are smaller.
    lt Lt;
    /// Whether these elements are smaller or equal.
    le Le;
    /// Whether these elements are larger.
    gt Gt;
    /// Whether these elements are larger or equal.
    ge Ge;
}

/// `a` where `cond` holds, `b` elsewhere. Both are computed.
///
/// ```
/// # use kiln_lang::{iota, select, trace, Level};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// let i = iota::<i32>(8);
/// let clipped = select(i.lt(4), i, 0);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn select<T: Elem>(cond: impl IntoVal<bool>, a: impl IntoVal<T>, b: impl IntoVal<T>) -> Val<T> {
    let site = Location::caller();
    let (cond, a, b) = (cond.into_val(), a.into_val(), b.into_val());
    Val::from_raw(elementwise(OpKind::Select, &[cond.raw(), a.raw(), b.raw()], T::SCALAR, site))
}

/// Limits. Comparisons are methods too: `x.lt(y)`, `le`, `gt`, `ge`, `eq`, `ne` give a `Val<bool>`,
/// and [`select`] chooses by one.
///
/// ```
/// # use kiln_lang::{iota, trace, Level};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// let x = iota::<i32>(8);
/// let limited = x.clamp(2, 5);
/// let even = kiln_lang::select((x % 2).eq(0), x, -1);
/// assert_eq!((limited.shape(), even.shape()), (vec![8], vec![8]));
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
impl<T: Num> Val<T> {
    /// The value limited to `lo ..= hi`.
    #[track_caller]
    pub fn clamp(self, lo: impl IntoVal<T>, hi: impl IntoVal<T>) -> Val<T> {
        self.maximum(lo).minimum(hi)
    }
}
