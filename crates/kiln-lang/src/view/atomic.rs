//! Atomic operations on elements: relaxed, among all threads of the device, or in the order and
//! among the threads that [`ViewMut::atomics`] says.
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

use super::made::{Placed, bounds_of};
use super::selection::{Access, Selection};
use super::{Indices, ViewMut};
use crate::elem::{Bits, Elem, Num};
use crate::thread::block;
use crate::trace::{Raw, Recorder, Site, error, with};
use crate::val::{IntoVal, Val};
use kiln_ir::{AtomicOp, Bounds, OpKind, Scalar, Scope, Shape, Type};
use smallvec::SmallVec;
use std::panic::Location;

/// What an atomic operation orders, beyond being whole.
///
/// [`Order`](crate::Order) is the same of loads and stores, which have one side each.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// use kiln_lang::AtomicOrder;
/// // The last of 64 threads to come sees what all have stored before.
/// memory.set(thread_index(), thread_id(0).cast::<u32>() + 1);
/// let arrived = shared::<u32, 1>([1]);
/// // SAFETY: all threads write the same, and a barrier comes before others touch it.
/// unsafe { arrived.put(0, 0) };
/// barrier();
/// let before = arrived.atomics(AtomicOrder::AcqRel, Scope::Block).add(0, 1);
/// device_assert!(before.lt(64));
/// # });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AtomicOrder {
    /// Nothing. Operations on one element are still seen in one order by all.
    Relaxed,
    /// What the thread does after comes after the operation. An old value that a release has
    /// stored brings what was stored before that release.
    Acquire,
    /// What the thread did before comes before the operation.
    Release,
    /// Both.
    AcqRel,
}

/// An order, and among whom it holds.
#[derive(Clone, Copy)]
pub(super) struct Ordering {
    order: AtomicOrder,
    scope: Scope,
}

pub(super) const RELAXED: Ordering = Ordering { order: AtomicOrder::Relaxed, scope: Scope::Device };

impl Ordering {
    /// Among whom it holds.
    pub(super) fn scope(self) -> Scope {
        self.scope
    }

    /// Whether a launch has the order; reports where it has not.
    fn is_there(self, site: Site) -> bool {
        self.order == AtomicOrder::Relaxed || block(&format!("atomics({:?}, …)", self.order), site).is_some()
    }

    /// Whether elements of this shape have the order; reports where they have not.
    fn holds_for(self, r: &mut Recorder, shape: &Shape, site: Site) -> bool {
        let holds = self.order == AtomicOrder::Relaxed || shape.rank() == 0;
        if !holds {
            let message = format!("atomic operations on tiles of indices have no order `{:?}`", self.order);
            r.error(site, message, "use `Relaxed` here, and order one element that is the thread's own");
        }
        holds
    }

    /// Records the fence that makes a relaxed operation after it a release.
    pub(super) fn before(self, r: &mut Recorder, site: Site) {
        if matches!(self.order, AtomicOrder::Release | AtomicOrder::AcqRel) {
            r.effect(OpKind::Fence(self.scope), &[], site);
        }
    }

    /// Records the fence that makes a relaxed operation before it an acquire.
    pub(super) fn after(self, r: &mut Recorder, site: Site) {
        if matches!(self.order, AtomicOrder::Acquire | AtomicOrder::AcqRel) {
            r.effect(OpKind::Fence(self.scope), &[], site);
        }
    }
}

/// A thread's index is checked; tiles of indices are masked, as in `scatter`.
fn bounds_for(access: &Access) -> Bounds {
    if access.shape.rank() == 0 { Bounds::Check } else { Bounds::Mask }
}

/// Whether elements of a type have atomic operations; reports where they have not.
fn is_atomic(elem: Scalar, site: Site) -> bool {
    if elem.is_small_int() {
        let what = format!("`{elem}` has no atomic operations on a device");
        error(site, what, "use elements of 32 or 64 bits here, and `cast` what is combined");
    }
    !elem.is_small_int()
}

impl Selection<'_> {
    /// The same elements of the view that this one was made of, if the kernel made it.
    fn placed_with(&self, value: Raw, trusted: bool, site: Site) -> Option<Placed> {
        self.view.made()?;
        let operands: SmallVec<[Raw; 8]> =
            self.indices.iter().copied().chain(self.mask).chain([value]).collect();
        self.placed(if trusted { Bounds::Trust } else { bounds_of(&operands, site) }, site)
    }

    fn atomic(
        &self,
        (op, ordering): (AtomicOp, Ordering),
        value: Raw,
        trusted: bool,
        elem: Scalar,
        site: Site,
    ) -> Raw {
        if !is_atomic(elem, site) || !ordering.is_there(site) {
            return Raw::Poison;
        }
        if let Some(below) = self.placed_with(value, trusted, site) {
            return below.selection().atomic((op, ordering), value, trusted, elem, site);
        }
        let id = with(|r| {
            let mut access = self.access(r, Some(value), site)?;
            if !ordering.holds_for(r, &access.shape, site) {
                return None;
            }
            access.operands.push(r.read_as(value, &access.shape, site)?);
            let bounds = if trusted { Bounds::Trust } else { bounds_for(&access) };
            let scope = ordering.scope;
            let kind = OpKind::Atomic { op, scope, bounds, masked: self.mask.is_some() };
            ordering.before(r, site);
            let old = r.op(kind, &access.operands, Type::tile(elem, access.shape), site);
            ordering.after(r, site);
            Some(old)
        });
        Raw::of(id.flatten())
    }

    fn compare_exchange(
        &self,
        [expected, desired]: [Raw; 2],
        ordering: Ordering,
        trusted: bool,
        elem: Scalar,
        site: Site,
    ) -> Raw {
        if !is_atomic(elem, site) || !ordering.is_there(site) {
            return Raw::Poison;
        }
        if let Some(mut below) = self.placed_with(desired, trusted, site) {
            below.fold_mask(site);
            return below.selection().compare_exchange([expected, desired], ordering, trusted, elem, site);
        }
        let id = with(|r| {
            let mut access = self.access(r, Some(desired), site)?;
            if !ordering.holds_for(r, &access.shape, site) {
                return None;
            }
            access.operands.push(r.read_as(expected, &access.shape, site)?);
            access.operands.push(r.read_as(desired, &access.shape, site)?);
            let bounds = if trusted { Bounds::Trust } else { bounds_for(&access) };
            let kind = OpKind::AtomicCas { scope: ordering.scope, bounds };
            ordering.before(r, site);
            let old = r.op(kind, &access.operands, Type::tile(elem, access.shape), site);
            ordering.after(r, site);
            Some(old)
        });
        Raw::of(id.flatten())
    }
}

impl<T: Elem, const R: usize> ViewMut<T, R> {
    fn atomic(
        &self,
        op: (AtomicOp, Ordering),
        indices: [Raw; R],
        mask: Option<Val<bool>>,
        value: Val<T>,
        trusted: bool,
        site: Site,
    ) -> Val<T> {
        Val::from_raw(self.at(&indices, mask).atomic(op, value.raw(), trusted, T::SCALAR, site))
    }

    /// A relaxed operation on a word.
    pub(super) fn atomic_word(&self, op: AtomicOp, index: [Raw; R], value: Val<T>, site: Site) -> Val<T> {
        self.atomic((op, RELAXED), index, None, value, false, site)
    }

    /// Atomically replaces the element by `value`; gives the old one.
    ///
    /// With the other operations on an element, which give its old value. `memory` is 64 zeros:
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
    /// let i = thread_id(0).cast::<u32>();
    /// let first = i.eq(0);
    /// device_assert!(memory.atomic_add(0, 1).lt(64) & memory.atomic_add_where(1, first, 5).eq(0));
    /// memory.atomic_max(2, i);
    /// memory.atomic_max_where(3, first, 9);
    /// memory.atomic_min(4, i);
    /// memory.atomic_min_where(4, first, 7);
    /// memory.atomic_or(5, i);
    /// memory.atomic_or_where(6, first, 3);
    /// memory.atomic_xor(7, i); // every bit is there an even number of times
    /// memory.atomic_xor_where(8, first, 6);
    /// memory.atomic_and(9, i);
    /// memory.atomic_and_where(9, first, 1);
    /// memory.atomic_exchange(10, 8);
    /// memory.atomic_cas(11, 0, 4); // the first thread stores, the others find 4
    /// // SAFETY: these are inside the view.
    /// unsafe {
    ///     memory.atomic_add_unchecked(12, 1);
    ///     memory.atomic_cas_unchecked(13, 0, 2);
    /// }
    /// barrier();
    /// let expected = [64, 5, 63, 9, 0, 63, 3, 0, 6, 0, 8, 4, 64, 2];
    /// for (at, expected) in expected.into_iter().enumerate() {
    ///     device_assert!(memory.get(at).eq(expected), "element {}", at);
    /// }
    /// # });
    /// ```
    #[track_caller]
    pub fn atomic_exchange(&self, index: impl Indices<R>, value: impl IntoVal<T>) -> Val<T> {
        let op = (AtomicOp::Exchange, RELAXED);
        self.atomic(op, index.indices(), None, value.into_val(), false, Location::caller())
    }

    /// As [`atomic_exchange`](Self::atomic_exchange), where `mask` holds; elsewhere nothing happens
    /// and the result is 0.
    ///
    /// ```
    /// # use kiln_lang::{iota, param::Facts, trace, Level};
    /// # trace("k", Level::Tile { warps: None }, |p| {
    /// # let slots = p.view_mut::<u32, 1>("slots", Facts::default());
    /// let i = iota::<i64>(64);
    /// let before = slots.atomic_exchange_where(i, (i % 2).eq(0), i.cast::<u32>());
    /// # _ = before;
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn atomic_exchange_where(
        &self,
        index: impl Indices<R>,
        mask: impl IntoVal<bool>,
        value: impl IntoVal<T>,
    ) -> Val<T> {
        let (op, mask) = ((AtomicOp::Exchange, RELAXED), Some(mask.into_val()));
        self.atomic(op, index.indices(), mask, value.into_val(), false, Location::caller())
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
        self.compare_exchange(index.indices(), [expected, desired], RELAXED, false, Location::caller())
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
        self.compare_exchange(index.indices(), [expected, desired], RELAXED, true, Location::caller())
    }

    fn compare_exchange(
        &self,
        indices: [Raw; R],
        values: [Val<T>; 2],
        ordering: Ordering,
        trusted: bool,
        site: Site,
    ) -> Val<T> {
        let values = values.map(Val::raw);
        Val::from_raw(self.at(&indices, None).compare_exchange(values, ordering, trusted, T::SCALAR, site))
    }
}

/// Atomic operations on a view's elements in an order, among some threads: see
/// [`ViewMut::atomics`].
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// use kiln_lang::AtomicOrder;
/// let ordered = memory.atomics(AtomicOrder::AcqRel, Scope::Device);
/// let i = thread_id(0).cast::<u32>();
/// let first = i.eq(0);
/// device_assert!(ordered.add(0, 1).lt(64) & ordered.add_where(1, first, 5).eq(0));
/// ordered.max(2, i);
/// ordered.max_where(3, first, 9);
/// ordered.min(4, i);
/// ordered.min_where(4, first, 7);
/// ordered.or(5, i);
/// ordered.or_where(6, first, 3);
/// ordered.xor(7, i);
/// ordered.xor_where(8, first, 6);
/// ordered.and(9, i);
/// ordered.and_where(9, first, 1);
/// ordered.exchange_where(10, first, 8);
/// ordered.add_pair::<f16>(11, val::<f16>(1.0).pack_pair(2.0));
/// barrier();
/// for (at, expected) in [64, 5, 63, 9, 0, 63, 3, 0, 6, 0, 8].into_iter().enumerate() {
///     device_assert!(memory.get(at).eq(expected), "element {}", at);
/// }
/// let [ones, twos] = memory.get(11).unpack_pair::<f16>();
/// device_assert!(ones.eq(64.0) & twos.eq(128.0));
/// # });
/// ```
pub struct Atomics<T, const R: usize> {
    pub(super) view: ViewMut<T, R>,
    pub(super) ordering: Ordering,
}

impl<T, const R: usize> Clone for Atomics<T, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const R: usize> Copy for Atomics<T, R> {}

impl<T: Elem, const R: usize> ViewMut<T, R> {
    /// The atomic operations on the view's elements in an order, among the threads of a scope.
    /// Orders other than `Relaxed` need a launch with threads, and indices of single elements.
    ///
    /// What a thread stored before a release is visible to a thread whose acquire finds the value
    /// of that release, or one that other atomic operations have made of it:
    ///
    /// ```
    /// # use kiln_lang::{AtomicOrder, param::Facts, prelude::*};
    /// # #[device(crate = kiln_lang)]
    /// # fn finish(partial: ViewMut<f32, 1>, arrived: ViewMut<u32, 1>, y: ViewMut<f32, 1>, sum: Val<f32>) {
    /// let blocks = num_programs(0);
    /// if thread_id(0) == 0 {
    ///     // SAFETY: one thread of each block writes its own element.
    ///     unsafe { partial.write(program_id(0), sum) };
    ///     let before = arrived.atomics(AtomicOrder::AcqRel, Scope::Device).add(0, 1);
    ///     if before.cast::<i64>() == blocks - 1 {
    ///         // The last block sees what all have written.
    ///         let mut total: Val<f32> = 0.0;
    ///         for p in 0..blocks {
    ///             total += partial.get(p);
    ///         }
    ///         // SAFETY: only the last block comes here.
    ///         unsafe { y.write(0, total) };
    ///     }
    /// }
    /// # }
    /// # trace("k", Level::Thread { block: [32, 1, 1] }, |p| {
    /// #     let (a, b) = (p.view_mut("partial", Facts::default()), p.view_mut("arrived", Facts::default()));
    /// #     finish(a, b, p.view_mut("y", Facts::default()), val(1.0));
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    ///
    /// A device without such an order (`wgpu` has none between blocks) refuses the launch by name.
    /// Ordered loads and stores are [`get_ordered`](crate::View::get_ordered) and
    /// [`set_ordered`](Self::set_ordered).
    pub fn atomics(&self, order: AtomicOrder, scope: Scope) -> Atomics<T, R> {
        Atomics { view: *self, ordering: Ordering { order, scope } }
    }
}

impl<T: Elem, const R: usize> Atomics<T, R> {
    /// An operation on a word, in the order.
    pub(super) fn atomic_word(&self, op: AtomicOp, index: [Raw; R], value: Val<T>, site: Site) -> Val<T> {
        self.view.atomic((op, self.ordering), index, None, value, false, site)
    }

    /// Replaces the element by `value`; gives the old one.
    ///
    /// ```
    /// # use kiln_lang::{AtomicOrder, param::Facts, prelude::*};
    /// # trace("k", Level::Thread { block: [32, 1, 1] }, |p| {
    /// # let lock = p.view_mut::<u32, 1>("lock", Facts::default());
    /// lock.atomics(AtomicOrder::Release, Scope::Device).exchange(0, 0); // unlocks
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn exchange(&self, index: impl Indices<R>, value: impl IntoVal<T>) -> Val<T> {
        let op = (AtomicOp::Exchange, self.ordering);
        self.view.atomic(op, index.indices(), None, value.into_val(), false, Location::caller())
    }

    /// As [`exchange`](Self::exchange), where `mask` holds; elsewhere nothing happens and the
    /// result is 0.
    #[track_caller]
    pub fn exchange_where(
        &self,
        index: impl Indices<R>,
        mask: impl IntoVal<bool>,
        value: impl IntoVal<T>,
    ) -> Val<T> {
        let (op, mask) = ((AtomicOp::Exchange, self.ordering), Some(mask.into_val()));
        self.view.atomic(op, index.indices(), mask, value.into_val(), false, Location::caller())
    }

    /// Replaces the element by `desired` if it equals `expected`; gives the old one. It has the
    /// order also where the element does not equal `expected`.
    ///
    /// ```
    /// # use kiln_lang::{AtomicOrder, param::Facts, prelude::*};
    /// # #[device(crate = kiln_lang)]
    /// # fn locked(lock: ViewMut<u32, 1>) {
    /// while lock.atomics(AtomicOrder::Acquire, Scope::Device).compare_exchange(0, 0, 1) != 0 {}
    /// # }
    /// # trace("k", Level::Thread { block: [1, 1, 1] }, |p| {
    /// #     locked(p.view_mut("lock", Facts::default()));
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn compare_exchange(
        &self,
        index: impl Indices<R>,
        expected: impl IntoVal<T>,
        desired: impl IntoVal<T>,
    ) -> Val<T> {
        let values = [expected.into_val(), desired.into_val()];
        self.view.compare_exchange(index.indices(), values, self.ordering, false, Location::caller())
    }
}

macro_rules! atomics {
    ($bound:ident: $($(#[$doc:meta])* $name:ident $masked:ident $op:ident $short:ident $short_masked:ident;)*) => {
        impl<T: $bound, const R: usize> ViewMut<T, R> {$(
            $(#[$doc])*
            ///
            /// Gives the old value. A thread's index outside the view is a fault; of a tile of
            /// indices, those outside do nothing and give 0.
            #[track_caller]
            pub fn $name(&self, index: impl Indices<R>, value: impl IntoVal<T>) -> Val<T> {
                let op = (AtomicOp::$op, RELAXED);
                self.atomic(op, index.indices(), None, value.into_val(), false, Location::caller())
            }

            $(#[$doc])*
            ///
            /// Where `mask` holds; elsewhere nothing happens and the result is 0.
            #[track_caller]
            pub fn $masked(&self, index: impl Indices<R>, mask: impl IntoVal<bool>, value: impl IntoVal<T>) -> Val<T> {
                let (op, mask) = ((AtomicOp::$op, RELAXED), Some(mask.into_val()));
                self.atomic(op, index.indices(), mask, value.into_val(), false, Location::caller())
            }
        )*}

        impl<T: $bound, const R: usize> Atomics<T, R> {$(
            $(#[$doc])*
            ///
            #[doc = concat!("As [`", stringify!($name), "`](ViewMut::", stringify!($name), "), in the order.")]
            #[track_caller]
            pub fn $short(&self, index: impl Indices<R>, value: impl IntoVal<T>) -> Val<T> {
                let op = (AtomicOp::$op, self.ordering);
                self.view.atomic(op, index.indices(), None, value.into_val(), false, Location::caller())
            }

            $(#[$doc])*
            ///
            /// Where `mask` holds; elsewhere nothing happens and the result is 0.
            #[track_caller]
            pub fn $short_masked(&self, index: impl Indices<R>, mask: impl IntoVal<bool>, value: impl IntoVal<T>) -> Val<T> {
                let (op, mask) = ((AtomicOp::$op, self.ordering), Some(mask.into_val()));
                self.view.atomic(op, index.indices(), mask, value.into_val(), false, Location::caller())
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
        let op = (AtomicOp::Add, RELAXED);
        self.atomic(op, index.indices(), None, value.into_val(), true, Location::caller())
    }
}

atomics! { Num:
    /// Atomically adds to the element.
    atomic_add atomic_add_where Add add add_where;
    /// Atomically replaces the element by the smaller of it and the value.
    atomic_min atomic_min_where Min min min_where;
    /// Atomically replaces the element by the larger of it and the value.
    atomic_max atomic_max_where Max max max_where;
}

atomics! { Bits:
    /// Atomically combines the element with the bits of the value by and.
    atomic_and atomic_and_where And and and_where;
    /// Atomically combines the element with the bits of the value by or.
    atomic_or atomic_or_where Or or or_where;
    /// Atomically combines the element with the bits of the value by exclusive or.
    atomic_xor atomic_xor_where Xor xor xor_where;
}
