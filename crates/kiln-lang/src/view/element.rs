//! Single elements: a thread's loads and stores, and gather and scatter over tiles of indices.

use super::selection::Selection;
use super::thread_index::OwnIndex;
use super::{View, ViewMut};
use crate::elem::Elem;
use crate::trace::{Raw, Site};
use crate::val::{IntoVal, Val};
use kiln_ir::{Bounds, Literal};
use std::panic::Location;

/// Indices into a view of rank `R`: one for rank 1, else a tuple with one for each axis. Tiles of
/// indices name as many elements as they have, and stretch to one shape.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// use kiln_lang::Indices;
///
/// /// Reads wherever an index, a tuple of them or tiles of them point.
/// fn doubled<const R: usize>(x: View<u32, R>, at: impl Indices<R>) -> Val<u32> {
///     x.get(at) * 2
/// }
///
/// device_assert!(doubled(*memory, thread_id(0)).eq(0));
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not index a view of rank {R}",
    note = "use one integer for rank 1, else a tuple with an integer for each axis"
)]
pub trait Indices<const R: usize> {
    #[doc(hidden)]
    #[track_caller]
    fn indices(self) -> [Raw; R];
}

impl<I: super::Offsets<R>, const R: usize> Indices<R> for I {
    #[track_caller]
    fn indices(self) -> [Raw; R] {
        self.offsets()
    }
}

impl<T: Elem, const R: usize> View<T, R> {
    /// The elements at indices, where a mask holds if there is one.
    pub(super) fn at<'a>(&'a self, indices: &'a [Raw; R], mask: Option<Val<bool>>) -> Selection<'a> {
        Selection { view: &self.core, indices, mask: mask.map(Val::raw) }
    }

    fn gather(
        &self,
        indices: [Raw; R],
        mask: Option<Val<bool>>,
        other: Raw,
        bounds: Bounds,
        site: Site,
    ) -> Val<T> {
        Val::from_raw(self.at(&indices, mask).gather(other, bounds, T::SCALAR, site))
    }

    /// The element at an index, or the elements at a tile of indices. An index outside the view
    /// ends the kernel with a fault.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
    /// # let x = p.view::<f32, 1>("x", Facts::default());
    /// # let a = p.view::<f32, 2>("a", Facts::default());
    /// let i = thread_index();
    /// let (one, other) = (x.get(i), a.get((i % 4, 3)));
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn get(&self, index: impl Indices<R>) -> Val<T> {
        let zero = Raw::Const(Literal::zero(T::SCALAR));
        self.gather(index.indices(), None, zero, Bounds::Check, Location::caller())
    }

    /// As [`get`](Self::get); where the index lies outside the view, `other`.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
    /// # let x = p.view::<f32, 1>("x", Facts::default());
    /// let i = thread_index();
    /// let left = x.get_or(i - 1, 0.0); // 0 before the first element
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn get_or(&self, index: impl Indices<R>, other: impl IntoVal<T>) -> Val<T> {
        let other = other.into_val().raw();
        self.gather(index.indices(), None, other, Bounds::Mask, Location::caller())
    }

    /// As [`get`](Self::get), without looking at the index.
    ///
    /// # Safety
    ///
    /// The index lies inside the view.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Thread { block: [32, 1, 1] }, |p| {
    /// let table = shared::<u32, 1>([64]);
    /// // SAFETY: a lane's number is less than 32.
    /// let mine = unsafe { table.get_unchecked(lane_id() + 32) };
    /// # _ = mine;
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub unsafe fn get_unchecked(&self, index: impl Indices<R>) -> Val<T> {
        let zero = Raw::Const(Literal::zero(T::SCALAR));
        self.gather(index.indices(), None, zero, Bounds::Trust, Location::caller())
    }

    /// As [`get_or`](Self::get_or), and `other` where `mask` is false too.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Tile { warps: None }, |p| {
    /// # let x = p.view::<f32, 1>("x", Facts::default());
    /// let (index, even) = (iota::<i64>(64), (iota::<i64>(64) % 2).eq(0));
    /// let every_second = x.get_where(index, even, 0.0);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn get_where(
        &self,
        index: impl Indices<R>,
        mask: impl IntoVal<bool>,
        other: impl IntoVal<T>,
    ) -> Val<T> {
        let (mask, other) = (mask.into_val(), other.into_val().raw());
        self.gather(index.indices(), Some(mask), other, Bounds::Mask, Location::caller())
    }
}

impl<T: Elem, const R: usize> ViewMut<T, R> {
    fn put(&self, indices: [Raw; R], mask: Option<Val<bool>>, value: Raw, bounds: Bounds, site: Site) {
        self.at(&indices, mask).scatter(value, bounds, site);
    }

    /// Stores an element at the thread's own index. An index outside the view ends the kernel with
    /// a fault.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
    /// # let x = p.view::<f32, 1>("x", Facts::default());
    /// # let y = p.view_mut::<f32, 1>("y", Facts::default());
    /// let i = thread_index();
    /// y.set(i, x.get(i) * 2.0); // as many threads as elements
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn set(&self, index: impl OwnIndex<R>, value: impl IntoVal<T>) {
        let value = value.into_val().raw();
        self.put(index.own(), None, value, Bounds::Check, Location::caller());
    }

    /// As [`set`](Self::set); where the index lies outside the view, nothing is stored.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
    /// # let x = p.view::<f32, 1>("x", Facts::default());
    /// # let y = p.view_mut::<f32, 1>("y", Facts::default());
    /// let i = thread_index();
    /// y.set_or_skip(i, x.get_or(i, 0.0) * 2.0); // any number of threads
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn set_or_skip(&self, index: impl OwnIndex<R>, value: impl IntoVal<T>) {
        let value = value.into_val().raw();
        self.put(index.own(), None, value, Bounds::Mask, Location::caller());
    }

    /// Stores an element at any index. An index outside the view ends the kernel with a fault.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
    /// # let x = p.view::<f32, 1>("x", Facts::default());
    /// # let y = p.view_mut::<f32, 1>("y", Facts::default());
    /// let i = thread_index();
    /// // SAFETY: no two threads have the same place.
    /// unsafe { y.write(y.extent(0) - 1 - i, x.get(i)) };
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    ///
    /// # Safety
    ///
    /// No other thread of the launch may read or write the element, unless a barrier or an atomic
    /// orders the two.
    #[track_caller]
    pub unsafe fn write(&self, index: impl Indices<R>, value: impl IntoVal<T>) {
        let value = value.into_val().raw();
        self.put(index.indices(), None, value, Bounds::Check, Location::caller());
    }

    /// Stores the elements of a tile at a tile of indices; those outside the view are dropped.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Tile { warps: None }, |p| {
    /// # let x = p.view::<f32, 1>("x", Facts::default());
    /// # let y = p.view_mut::<f32, 1>("y", Facts::default());
    /// let place = iota::<i64>(64) * 2 + program_id(0) * 128;
    /// // SAFETY: no two programs have the same place.
    /// unsafe { y.scatter(place, x.tile(program_id(0) * 64, 64).load(0.0)) };
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    ///
    /// # Safety
    ///
    /// As for [`write`](Self::write). Where two indices are equal, one of the values is stored.
    #[track_caller]
    pub unsafe fn scatter(&self, index: impl Indices<R>, value: impl IntoVal<T>) {
        let value = value.into_val().raw();
        self.put(index.indices(), None, value, Bounds::Mask, Location::caller());
    }

    /// As [`scatter`](Self::scatter), without looking at the indices.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let place = 63 - iota::<i64>(64);
    /// // SAFETY: there is one program, and the 64 indices are those of the view.
    /// unsafe { memory.scatter_unchecked(place, iota::<u32>(64)) };
    /// device_assert!(memory.load(64, 0).eq(63 - iota::<u32>(64)).all());
    /// # });
    /// ```
    ///
    /// # Safety
    ///
    /// As for [`write`](Self::write), and all indices lie inside the view. Where two are equal, one
    /// of the values is stored.
    #[track_caller]
    pub unsafe fn scatter_unchecked(&self, index: impl Indices<R>, value: impl IntoVal<T>) {
        let value = value.into_val().raw();
        self.put(index.indices(), None, value, Bounds::Trust, Location::caller());
    }

    /// As [`scatter`](Self::scatter), where `mask` holds.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Tile { warps: None }, |p| {
    /// # let x = p.view::<f32, 1>("x", Facts::default());
    /// # let y = p.view_mut::<f32, 1>("y", Facts::default());
    /// let (v, place) = (x.load(64, 0.0), iota::<i64>(64));
    /// // SAFETY: there is one program.
    /// unsafe { y.scatter_where(place, v.gt(0.0), v) };
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    ///
    /// # Safety
    ///
    /// As for [`write`](Self::write). Where two indices are equal, one of the values is stored.
    #[track_caller]
    pub unsafe fn scatter_where(
        &self,
        index: impl Indices<R>,
        mask: impl IntoVal<bool>,
        value: impl IntoVal<T>,
    ) {
        let (mask, value) = (mask.into_val(), value.into_val().raw());
        self.put(index.indices(), Some(mask), value, Bounds::Mask, Location::caller());
    }
}
