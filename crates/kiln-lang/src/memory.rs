//! Memory of a block and of a thread.

use crate::elem::Elem;
use crate::ops::checked_shape;
use crate::trace::{Id, Recorder, Site, error, with};
use crate::val::{IntoIndex, IntoVal, Val};
use crate::view::core::ViewCore;
use crate::view::{Indices, ViewMut};
use kiln_ir::{ClusterOp, OpKind, Scalar, Shape, Space, Type};
use std::ops::Deref;
use std::panic::Location;

/// Memory that the threads of a block share. Uninitialized at first.
///
/// ```
/// # use kiln_lang::{barrier, shared, thread_id, trace, val, Level};
/// # trace("k", Level::Thread { block: [16, 1, 1] }, |_| {
/// let s = shared::<f32, 1>([16]);
/// // SAFETY: each thread writes its own element, and the barrier comes before any is read.
/// unsafe { s.put(thread_id(0), 1.0) };
/// barrier();
/// let neighbor = s.get((thread_id(0) + 1) % 16);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Shared<T: Elem, const R: usize> {
    view: ViewMut<T, R>,
}

/// Reading, atomics and boxes of tiles are those of a view.
impl<T: Elem, const R: usize> Deref for Shared<T, R> {
    type Target = ViewMut<T, R>;
    fn deref(&self) -> &ViewMut<T, R> {
        &self.view
    }
}

/// Allocates shared memory of a static shape.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let total = shared::<u32, 1>([1]);
/// // SAFETY: all threads write the same, and a barrier comes before others touch it.
/// unsafe { total.put(0, 0) };
/// barrier();
/// total.atomic_add(0, 1);
/// barrier();
/// device_assert!(total.get(0).eq(64));
/// # });
/// ```
#[track_caller]
pub fn shared<T: Elem, const R: usize>(shape: [usize; R]) -> Shared<T, R> {
    Shared { view: ViewMut::from_core(alloc(Space::Shared, T::SCALAR, &shape, Location::caller())) }
}

impl<T: Elem, const R: usize> Shared<T, R> {
    /// Stores an element. An index outside the extents ends the kernel with a fault.
    ///
    /// # Safety
    ///
    /// No other thread of the block may read or write the element without a
    /// [`barrier`](crate::barrier) in between.
    #[track_caller]
    pub unsafe fn put(&self, index: impl Indices<R>, value: impl IntoVal<T>) {
        // SAFETY: the caller keeps the promise that `write` asks for.
        unsafe { self.view.write(index, value) }
    }
}

impl<T: Elem> Shared<T, 1> {
    /// Stores the elements `N * index` to `N * index + N - 1`, which
    /// [`get_vec`](crate::View::get_vec) reads.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # trace("k", Level::Thread { block: [32, 1, 1] }, |p| {
    /// let table = shared::<f32, 1>([128]);
    /// // SAFETY: each thread has four elements of its own, and none is read before the barrier.
    /// unsafe { table.put_vec(thread_id(0), [1.0, 2.0, 3.0, 4.0].map(val)) };
    /// barrier();
    /// let [a, b] = table.get_vec::<2>(63 - thread_id(0));
    /// # _ = (a, b);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    ///
    /// # Safety
    ///
    /// As for [`put`](Self::put), for each of the elements.
    #[track_caller]
    pub unsafe fn put_vec<const N: usize>(&self, index: impl IntoIndex, values: [Val<T>; N]) {
        // SAFETY: the caller keeps the promise that `write_vec` asks for.
        unsafe { self.view.write_vec(index, values) }
    }
}

impl Shared<u32, 1> {
    /// Stores four words, which arrive whole, at the same place of this memory in a block of the
    /// [cluster](crate::explicit::cluster): that with this rank. Relaxed: its threads see them by
    /// [`get_quad_unchecked`](crate::View::get_quad_unchecked).
    ///
    /// ```
    /// # use kiln_lang::{cluster_barrier, explicit::cluster, prelude::*};
    /// # trace("k", Level::Thread { block: [32, 1, 1] }, |_| {
    /// cluster(2);
    /// let s = shared::<u32, 1>([4]);
    /// let (rank, zero) = (program_id(0) % 2, val::<u32>(0));
    /// cluster_barrier();
    /// // SAFETY: all threads store the same, inside the memory, after a barrier, and another one comes before anybody reads.
    /// unsafe { s.set_quad_of(val(1i64) - rank, 0, [rank.cast::<u32>(), zero, zero, zero]) };
    /// cluster_barrier();
    /// // SAFETY: inside the memory.
    /// let other = unsafe { s.get_quad_unchecked(0) }[0];
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    ///
    /// # Safety
    ///
    /// All four words are inside the memory, the first at a multiple of 16 bytes, and the rank is
    /// one of the cluster, whose block has begun (a barrier says so) and has not ended. Whoever
    /// else accesses the words meanwhile does so by quads.
    #[track_caller]
    pub unsafe fn set_quad_of(&self, rank: impl IntoIndex, index: impl IntoIndex, words: [Val<u32>; 4]) {
        let site = Location::caller();
        if crate::thread::block("set_quad_of", site).is_none() {
            return;
        }
        let (rank, index) = (rank.into_index(), index.into_index());
        with(|r| {
            let mut operands = self.view.core.operands(r, &[index.raw()], &Shape::scalar(), site)?;
            operands.push(r.read_as(rank.raw(), &Shape::scalar(), site)?);
            for word in words {
                operands.push(r.read_as(word.raw(), &Shape::scalar(), site)?);
            }
            r.effect(OpKind::Cluster(ClusterOp::StoreQuad), &operands, site);
            Some(())
        });
    }
}

/// An array of one thread, with indices on the device. Uninitialized at first.
///
/// ```
/// # use kiln_lang::{local, thread_id, trace, Level};
/// # trace("k", Level::Thread { block: [32, 1, 1] }, |_| {
/// let digits = local::<i32>(10);
/// for k in 0..10 {
///     digits.set(k, k * k);
/// }
/// let one = digits.get(thread_id(0) % 10);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Local<T: Elem> {
    pub(crate) view: ViewMut<T, 1>,
}

/// Allocates an array of `len` elements for each thread.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let powers = local::<i64>(4);
/// for k in 0..4 {
///     powers.set(k, thread_id(0) << k);
/// }
/// device_assert!(powers.get(3).eq(thread_id(0) * 8));
/// # });
/// ```
#[track_caller]
pub fn local<T: Elem>(len: usize) -> Local<T> {
    Local { view: ViewMut::from_core(alloc(Space::Local, T::SCALAR, &[len], Location::caller())) }
}

impl<T: Elem> Local<T> {
    /// The array's value in the trace.
    pub(crate) fn whole(&self, r: &mut Recorder, site: Site) -> Option<Id> {
        self.view.whole(r, site)
    }

    /// The element at an index. An index outside the array ends the kernel with a fault.
    #[track_caller]
    pub fn get(&self, index: impl Indices<1>) -> crate::Val<T> {
        self.view.get(index)
    }

    /// Stores an element. An index outside the array ends the kernel with a fault.
    #[track_caller]
    pub fn set(&self, index: impl Indices<1>, value: impl IntoVal<T>) {
        // SAFETY: the array belongs to one thread, so that nothing races.
        unsafe { self.view.write(index, value) }
    }
}

/// A view of new memory.
pub(crate) fn alloc(space: Space, elem: Scalar, extents: &[usize], site: Site) -> ViewCore {
    let Some(shape) = checked_shape(extents, site) else { return ViewCore::poison() };
    let rank = extents.len();
    if let Some((message, help)) = ViewCore::refusal(rank) {
        error(site, format!("this memory is {message}"), help);
        return ViewCore::poison();
    }
    let ty = Type::view(elem, rank as u32, space);
    let core = with(|r| ViewCore::new(r.op(OpKind::Alloc { space, elem, shape }, &[], ty, site), rank));
    core.unwrap_or_else(ViewCore::poison)
}
