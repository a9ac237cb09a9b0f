//! Casts.

use super::elementwise;
use crate::elem::Elem;
use crate::trace::error;
use crate::val::Val;
use kiln_ir::{OpKind, Scalar};
use std::panic::Location;

impl<T: Elem> Val<T> {
    /// Converts the elements as Rust's `as` does: float to integer saturates and NaN gives 0,
    /// integers wrap, floats round to nearest even. 8-bit floats saturate: what is too large for
    /// them becomes their largest number. To `bool` it asks whether the element differs from zero.
    #[track_caller]
    pub fn cast<U: Elem>(self) -> Val<U> {
        if T::SCALAR == U::SCALAR {
            return Val::from_raw(self.now(Location::caller()));
        }
        elementwise(OpKind::Cast, &[self.raw()], Location::caller())
    }

    /// Reads the bits of the elements as another type of the same size.
    #[track_caller]
    pub fn bitcast<U: Elem>(self) -> Val<U> {
        let site = Location::caller();
        if T::SCALAR == U::SCALAR {
            return Val::from_raw(self.now(site));
        }
        if T::SCALAR.bytes() != U::SCALAR.bytes() {
            let message = format!("{} and {} differ in size", T::SCALAR, U::SCALAR);
            error(site, message, "`bitcast` keeps the bits; `cast` converts the value");
            return Val::poison();
        }
        if T::SCALAR == Scalar::Bool || U::SCALAR == Scalar::Bool {
            error(site, "a bool has no bits to reinterpret", "`cast` converts the value");
            return Val::poison();
        }
        elementwise(OpKind::Bitcast, &[self.raw()], site)
    }
}
