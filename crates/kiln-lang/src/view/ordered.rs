//! Elements that other threads, devices or the host write while the kernel runs. Needs a launch
//! with threads.
//!
//! An ordered access is whole, happens where and as often as it stands in the program, and orders
//! the thread's other accesses as its [`Order`] says. What a thread stored before a release is
//! visible to a thread that sees the released value by an acquire:
//!
//! ```
//! # use kiln_lang::{param::Facts, prelude::*};
//! # #[device(crate = kiln_lang)]
//! # fn receive(inbox: View<u32, 1>, sum: ViewMut<u32, 1>) {
//! while inbox.get_ordered(0, Order::Acquire, Scope::System) != 1 {} // the flag
//! let message = inbox.get(1); // stored before the flag was
//! // SAFETY: nobody else stores there.
//! unsafe { sum.set_ordered(0, message + 1, Order::Release, Scope::System) };
//! # }
//! # trace("k", Level::Thread { block: [1, 1, 1] }, |p| {
//! #     receive(p.view("inbox", Facts::default()), p.view_mut("sum", Facts::default()));
//! # })?;
//! # Ok::<(), kiln_lang::TraceErrors>(())
//! ```
//!
//! On a GPU an acquire empties the first cache of the core: who waits for long should look relaxed,
//! and acquire once it has come.
//!
//! A view that a kernel loads from in order is not taken to be constant, though the kernel may not
//! write it.

use super::core::ViewCore;
use super::{Indices, View, ViewMut};
use crate::elem::Word;
use crate::thread::block;
use crate::trace::{Raw, Site, error, with};
use crate::val::{IntoIndex, IntoVal, Val};
use kiln_ir::{Bounds, OpKind, Order, Scalar, Scope, Shape, Type};
use std::panic::Location;

/// Whether an order is one that the access has, in a launch that has it.
fn allowed(what: &str, order: Order, wrong: Order, site: Site) -> bool {
    if order == wrong {
        let message = format!("`{what}` has no order `{order:?}`");
        error(site, message, "loads are relaxed or acquire, stores are relaxed or release");
    }
    block(what, site).is_some() && order != wrong
}

/// Records an ordered load of an element.
fn load(view: &ViewCore, index: &[Raw], (kind, order): (OpKind, Order), elem: Scalar, site: Site) -> Raw {
    if !allowed("get_ordered", order, Order::Release, site) {
        return Raw::Poison;
    }
    let id = with(|r| {
        let operands = view.operands(r, index, &Shape::scalar(), site)?;
        Some(r.op(kind, &operands, Type::scalar(elem), site))
    });
    Raw::of(id.flatten())
}

/// Records an ordered store of an element.
fn store(view: &ViewCore, index: &[Raw], value: Raw, (kind, order): (OpKind, Order), site: Site) {
    if !allowed("set_ordered", order, Order::Acquire, site) {
        return;
    }
    with(|r| {
        let mut operands = view.operands(r, index, &Shape::scalar(), site)?;
        operands.push(r.read_as(value, &Shape::scalar(), site)?);
        r.effect(kind, &operands, site);
        Some(())
    });
}

impl<T: Word, const R: usize> View<T, R> {
    fn load_ordered(
        &self,
        index: [Raw; R],
        (order, scope): (Order, Scope),
        bounds: Bounds,
        site: Site,
    ) -> Val<T> {
        let kind = OpKind::OrderedLoad { order, scope, bounds };
        Val::from_raw(load(&self.core, &index, (kind, order), T::SCALAR, site))
    }

    /// The element at a thread's index, relaxed or acquired. An index outside the view ends the
    /// kernel with a fault.
    ///
    /// The value varies between threads, also where they load the same place: it may change in
    /// between.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
    /// // SAFETY: all threads store the same, by ordered accesses alone, inside the view.
    /// unsafe {
    ///     memory.set_ordered(0, 7, Order::Release, Scope::Device);
    ///     memory.set_ordered_unchecked(1, 8, Order::Relaxed, Scope::Device);
    /// }
    /// barrier();
    /// device_assert!(memory.get_ordered(0, Order::Acquire, Scope::Device).eq(7));
    /// // SAFETY: the index is inside the view.
    /// let eight = unsafe { memory.get_ordered_unchecked(1, Order::Relaxed, Scope::Device) };
    /// device_assert!(eight.eq(8));
    /// # });
    /// ```
    #[track_caller]
    pub fn get_ordered(&self, index: impl Indices<R>, order: Order, scope: Scope) -> Val<T> {
        self.load_ordered(index.indices(), (order, scope), Bounds::Check, Location::caller())
    }

    /// As [`get_ordered`](Self::get_ordered), without looking at the index.
    ///
    /// # Safety
    ///
    /// The index is inside the view.
    #[track_caller]
    pub unsafe fn get_ordered_unchecked(&self, index: impl Indices<R>, order: Order, scope: Scope) -> Val<T> {
        self.load_ordered(index.indices(), (order, scope), Bounds::Trust, Location::caller())
    }
}

impl<T: Word, const R: usize> ViewMut<T, R> {
    fn store_ordered(
        &self,
        index: [Raw; R],
        value: Val<T>,
        (order, scope): (Order, Scope),
        bounds: Bounds,
        site: Site,
    ) {
        let kind = OpKind::OrderedStore { order, scope, bounds };
        store(&self.core, &index, value.raw(), (kind, order), site);
    }

    /// Stores an element at any index, relaxed or released. An index outside the view ends the
    /// kernel with a fault.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
    /// // SAFETY: all threads store the same, by ordered accesses alone, inside the view.
    /// unsafe {
    ///     memory.set_ordered(0, 7, Order::Release, Scope::Device);
    ///     memory.set_ordered_unchecked(1, 8, Order::Relaxed, Scope::Device);
    /// }
    /// barrier();
    /// device_assert!(memory.get_ordered(0, Order::Acquire, Scope::Device).eq(7));
    /// # });
    /// ```
    ///
    /// # Safety
    ///
    /// All other accesses of the element meanwhile are ordered or atomic.
    #[track_caller]
    pub unsafe fn set_ordered(
        &self,
        index: impl Indices<R>,
        value: impl IntoVal<T>,
        order: Order,
        scope: Scope,
    ) {
        let (site, value) = (Location::caller(), value.into_val());
        self.store_ordered(index.indices(), value, (order, scope), Bounds::Check, site);
    }

    /// As [`set_ordered`](Self::set_ordered), without looking at the index.
    ///
    /// # Safety
    ///
    /// As for [`set_ordered`](Self::set_ordered), and the index is inside the view.
    #[track_caller]
    pub unsafe fn set_ordered_unchecked(
        &self,
        index: impl Indices<R>,
        value: impl IntoVal<T>,
        order: Order,
        scope: Scope,
    ) {
        let (site, value) = (Location::caller(), value.into_val());
        self.store_ordered(index.indices(), value, (order, scope), Bounds::Trust, site);
    }
}

impl View<u32, 1> {
    fn has_quads(&self, site: Site) -> bool {
        if self.core.is_part() {
            let help = "pass the tensor as one of rank 1, and compute the index of the row in it";
            error(site, "a row or column of a view has no quads", help);
        }
        !self.core.is_part()
    }

    fn load_quad(&self, index: Raw, bounds: Bounds, site: Site) -> [Val<u32>; 4] {
        if block("get_quad", site).is_none() || !self.has_quads(site) {
            return [Val::poison(); 4];
        }
        let ids = with(|r| {
            let operands = self.core.operands(r, &[index], &Shape::scalar(), site)?;
            let types = [(); 4].map(|()| Type::scalar(Scalar::U32));
            Some(r.op_of(OpKind::LoadQuad(bounds), &operands, types, site))
        });
        match ids.flatten() {
            Some(ids) => ids.map(|id| Val::from_id(Some(id))),
            None => [Val::poison(); 4],
        }
    }

    /// The four words from a thread's index on, as one store of a quad left them: relaxed, seen by
    /// the host and all devices.
    ///
    /// Zeros where not all four are inside the view, or where they do not lie at a multiple of 16
    /// bytes one after the other.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Thread { block: [32, 1, 1] }, |p| {
    /// # let inbox = p.view::<u32, 1>("inbox", Facts::default());
    /// let [a, b, c, stamp] = inbox.get_quad(lane_id() * 4);
    /// let complete = vote_all(stamp.eq(7));
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn get_quad(&self, index: impl IntoIndex) -> [Val<u32>; 4] {
        self.load_quad(index.into_index().raw(), Bounds::Mask, Location::caller())
    }

    /// As [`get_quad`](Self::get_quad), without looking at the index.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
    /// // SAFETY: four words of a view of 64 zeros, the first at a multiple of 16 bytes.
    /// let words = unsafe { memory.get_quad_unchecked(8) };
    /// device_assert!(words[0].eq(0) & words[3].eq(0));
    /// # });
    /// ```
    ///
    /// # Safety
    ///
    /// All four words are inside the view, whose stride is 1, and the first lies at a multiple of
    /// 16 bytes.
    #[track_caller]
    pub unsafe fn get_quad_unchecked(&self, index: impl IntoIndex) -> [Val<u32>; 4] {
        self.load_quad(index.into_index().raw(), Bounds::Trust, Location::caller())
    }
}

impl ViewMut<u32, 1> {
    fn store_quad(&self, index: Raw, words: [Val<u32>; 4], bounds: Bounds, site: Site) {
        if block("set_quad", site).is_none() || !self.has_quads(site) {
            return;
        }
        with(|r| {
            let mut operands = self.core.operands(r, &[index], &Shape::scalar(), site)?;
            for word in words {
                operands.push(r.read_as(word.raw(), &Shape::scalar(), site)?);
            }
            r.effect(OpKind::StoreQuad(bounds), &operands, site);
            Some(())
        });
    }

    /// Stores four words from any index on, which arrive whole: relaxed, seen by the host and all
    /// devices.
    ///
    /// Nothing is stored where not all four are inside the view, or where they do not lie at a
    /// multiple of 16 bytes one after the other.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
    /// let [a, b, c, d] = [1, 2, 3, 4].map(val::<u32>);
    /// // SAFETY: all threads store the same, by quads alone, in the view at multiples of 16 bytes.
    /// unsafe {
    ///     memory.set_quad(0, [a, b, c, d]);
    ///     memory.set_quad_unchecked(4, [d, c, b, a]);
    /// }
    /// barrier();
    /// device_assert!(memory.get_quad(0)[3].eq(4) & memory.get_quad(4)[3].eq(1));
    /// # });
    /// ```
    ///
    /// # Safety
    ///
    /// All other accesses of the words meanwhile are by quads.
    #[track_caller]
    pub unsafe fn set_quad(&self, index: impl IntoIndex, words: [Val<u32>; 4]) {
        self.store_quad(index.into_index().raw(), words, Bounds::Mask, Location::caller());
    }

    /// As [`set_quad`](Self::set_quad), without looking at the index.
    ///
    /// # Safety
    ///
    /// As for [`set_quad`](Self::set_quad). All four words are inside the view, whose stride is 1,
    /// and the first lies at a multiple of 16 bytes.
    #[track_caller]
    pub unsafe fn set_quad_unchecked(&self, index: impl IntoIndex, words: [Val<u32>; 4]) {
        self.store_quad(index.into_index().raw(), words, Bounds::Trust, Location::caller());
    }
}
