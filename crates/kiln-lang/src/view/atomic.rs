//! Atomic operations on elements. Relaxed order, among all threads of the device.
//!
//! ```
//! # use kiln_lang::{param::Facts, program_id, trace, Level};
//! # trace("histogram", Level::Tile { warps: None }, |p| {
//! # let (x, counts) = (p.view::<u32, 1>("x", Facts::default()), p.view_mut::<u32, 1>("c", Facts::default()));
//! let bins = x.tile(program_id(0) * 256, 256).load(u32::MAX); // beyond the end: a bin that is not there
//! counts.atomic_add(bins, 1);
//! # })?;
//! # Ok::<(), kiln_lang::TraceErrors>(())
//! ```

use super::element::{Access, Selection};
use super::{Indices, ViewMut};
use crate::elem::{Bits, Elem, Num};
use crate::trace::{Raw, Site, with};
use crate::val::{IntoVal, Val};
use kiln_ir::{AtomicOp, Bounds, OpKind, Scalar, Scope, Type};
use std::panic::Location;

/// A thread's index is checked; tiles of indices are masked, as in `scatter`.
fn bounds_for(access: &Access) -> Bounds {
    if access.shape.rank() == 0 { Bounds::Check } else { Bounds::Mask }
}

impl Selection<'_> {
    fn atomic(&self, op: AtomicOp, value: Raw, trusted: bool, elem: Scalar, site: Site) -> Raw {
        let id = with(|r| {
            let mut access = self.access(r, Some(value), site)?;
            access.operands.push(r.read_as(value, &access.shape, site)?);
            let bounds = if trusted { Bounds::Trust } else { bounds_for(&access) };
            let kind = OpKind::Atomic { op, scope: Scope::Device, bounds, masked: self.mask.is_some() };
            Some(r.op(kind, &access.operands, Type::tile(elem, access.shape), site))
        });
        Raw::of(id.flatten())
    }

    fn compare_exchange(
        &self,
        [expected, desired]: [Raw; 2],
        trusted: bool,
        elem: Scalar,
        site: Site,
    ) -> Raw {
        let id = with(|r| {
            let mut access = self.access(r, Some(desired), site)?;
            access.operands.push(r.read_as(expected, &access.shape, site)?);
            access.operands.push(r.read_as(desired, &access.shape, site)?);
            let bounds = if trusted { Bounds::Trust } else { bounds_for(&access) };
            let kind = OpKind::AtomicCas { scope: Scope::Device, bounds };
            Some(r.op(kind, &access.operands, Type::tile(elem, access.shape), site))
        });
        Raw::of(id.flatten())
    }
}

impl<T: Elem, const R: usize> ViewMut<T, R> {
    fn atomic(
        &self,
        op: AtomicOp,
        indices: [Raw; R],
        mask: Option<Val<bool>>,
        value: Val<T>,
        trusted: bool,
        site: Site,
    ) -> Val<T> {
        Val::from_raw(self.at(&indices, mask).atomic(op, value.raw(), trusted, T::SCALAR, site))
    }

    /// Atomically replaces the element by `value`; gives the old one.
    #[track_caller]
    pub fn atomic_exchange(&self, index: impl Indices<R>, value: impl IntoVal<T>) -> Val<T> {
        self.atomic(AtomicOp::Exchange, index.indices(), None, value.into_val(), false, Location::caller())
    }

    /// Atomically replaces the element by `desired` if it equals `expected`; gives the old one.
    #[track_caller]
    pub fn atomic_cas(
        &self,
        index: impl Indices<R>,
        expected: impl IntoVal<T>,
        desired: impl IntoVal<T>,
    ) -> Val<T> {
        let [expected, desired] = [expected.into_val(), desired.into_val()];
        self.compare_exchange(index.indices(), expected, desired, false, Location::caller())
    }

    /// As [`atomic_cas`](Self::atomic_cas), without looking at the index.
    ///
    /// # Safety
    ///
    /// The index is inside the view.
    #[track_caller]
    pub unsafe fn atomic_cas_unchecked(
        &self,
        index: impl Indices<R>,
        expected: impl IntoVal<T>,
        desired: impl IntoVal<T>,
    ) -> Val<T> {
        let [expected, desired] = [expected.into_val(), desired.into_val()];
        self.compare_exchange(index.indices(), expected, desired, true, Location::caller())
    }

    fn compare_exchange(
        &self,
        indices: [Raw; R],
        expected: Val<T>,
        desired: Val<T>,
        trusted: bool,
        site: Site,
    ) -> Val<T> {
        let values = [expected.raw(), desired.raw()];
        Val::from_raw(self.at(&indices, None).compare_exchange(values, trusted, T::SCALAR, site))
    }
}

macro_rules! atomics {
    ($bound:ident: $($(#[$doc:meta])* $name:ident $masked:ident $op:ident;)*) => {
        impl<T: $bound, const R: usize> ViewMut<T, R> {$(
            $(#[$doc])*
            ///
            /// Gives the old value. A thread's index outside the view is a fault; of a tile of
            /// indices, those outside do nothing and give 0.
            #[track_caller]
            pub fn $name(&self, index: impl Indices<R>, value: impl IntoVal<T>) -> Val<T> {
                self.atomic(AtomicOp::$op, index.indices(), None, value.into_val(), false, Location::caller())
            }

            $(#[$doc])*
            ///
            /// Where `mask` holds; elsewhere nothing happens and the result is 0.
            #[track_caller]
            pub fn $masked(&self, index: impl Indices<R>, mask: impl IntoVal<bool>, value: impl IntoVal<T>) -> Val<T> {
                let mask = Some(mask.into_val());
                self.atomic(AtomicOp::$op, index.indices(), mask, value.into_val(), false, Location::caller())
            }
        )*}
    };
}

impl<T: Num, const R: usize> ViewMut<T, R> {
    /// As [`atomic_add`](Self::atomic_add), without looking at the index.
    ///
    /// # Safety
    ///
    /// The index is inside the view.
    #[track_caller]
    pub unsafe fn atomic_add_unchecked(&self, index: impl Indices<R>, value: impl IntoVal<T>) -> Val<T> {
        self.atomic(AtomicOp::Add, index.indices(), None, value.into_val(), true, Location::caller())
    }
}

atomics! { Num:
    /// Atomically adds to the element.
    atomic_add atomic_add_where Add;
    /// Atomically replaces the element by the smaller of it and the value.
    atomic_min atomic_min_where Min;
    /// Atomically replaces the element by the larger of it and the value.
    atomic_max atomic_max_where Max;
}

atomics! { Bits:
    /// Atomically combines the element with the bits of the value by and.
    atomic_and atomic_and_where And;
    /// Atomically combines the element with the bits of the value by or.
    atomic_or atomic_or_where Or;
    /// Atomically combines the element with the bits of the value by exclusive or.
    atomic_xor atomic_xor_where Xor;
}
