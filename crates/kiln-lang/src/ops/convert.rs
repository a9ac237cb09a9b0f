//! Casts.

use super::elementwise;
use crate::elem::Elem;
use crate::trace::{Raw, Site, error};
use crate::val::{Val, now};
use kiln_ir::{OpKind, Scalar};
use std::panic::Location;

/// Conversions between element types. None happens by itself.
///
/// ```
/// # use kiln_lang::{iota, trace, Level};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// let x = iota::<i32>(8).cast::<f32>() * 0.5;
/// let bits = x.bitcast::<u32>();
/// assert_eq!(bits.shape(), [8]);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
impl<T: Elem> Val<T> {
    /// Converts the elements as Rust's `as` does: float to integer saturates and NaN gives 0,
    /// integers wrap, floats round to nearest even. 8-bit floats saturate: what is too large for
    /// them becomes their largest number. To `bool` it asks whether the element differs from zero.
    #[track_caller]
    pub fn cast<U: Elem>(self) -> Val<U> {
        Val::from_raw(cast(self.raw(), T::SCALAR, U::SCALAR, Location::caller()))
    }

    /// Reads the bits of the elements as another type of the same size.
    #[track_caller]
    pub fn bitcast<U: Elem>(self) -> Val<U> {
        Val::from_raw(bitcast(self.raw(), T::SCALAR, U::SCALAR, Location::caller()))
    }
}

/// Records a cast between element types.
pub(crate) fn cast(raw: Raw, from: Scalar, to: Scalar, site: Site) -> Raw {
    if from == to { now(raw, site) } else { elementwise(OpKind::Cast, &[raw], to, site) }
}

/// Records the same bits as another type.
pub(super) fn bitcast(raw: Raw, from: Scalar, to: Scalar, site: Site) -> Raw {
    if from == to {
        return now(raw, site);
    }
    if from.bytes() != to.bytes() {
        let message = format!("{from} and {to} differ in size");
        error(site, message, "`bitcast` keeps the bits; `cast` converts the value");
        return Raw::Poison;
    }
    if from == Scalar::Bool || to == Scalar::Bool {
        error(site, "a bool has no bits to reinterpret", "`cast` converts the value");
        return Raw::Poison;
    }
    elementwise(OpKind::Bitcast, &[raw], to, site)
}
