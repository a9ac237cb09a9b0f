//! Copies from global to shared memory that go on while the thread does: `cp.async` of CUDA.

use super::selection::Selection;
use super::{Indices, View};
use crate::elem::Elem;
use crate::memory::Shared;
use crate::thread::block;
use crate::trace::{Raw, Site, error, with};
use crate::val::{Idx, IntoVal, Val};
use kiln_ir::{AsyncCopyOp, Bounds, Literal, OpKind};
use std::panic::Location;

/// The most elements of a copy: 16 bytes of the smallest.
const MOST: usize = 16;

impl<T: Elem, const R: usize> Shared<T, R> {
    /// Begins to copy `count` adjacent elements of a view to this memory, and goes on meanwhile.
    /// Both indices count vectors of `count` elements along the last axis, as those of
    /// [`get_vec`](View::get_vec) do: of an index `(i, v)` the elements are `(i, count * v)` to
    /// `(i, count * v + count - 1)`. `count` is 1, 2, 4, 8 or 16.
    ///
    /// The elements are there after [`commit_copies`] and a [`wait_copies`] that covers it, for
    /// other threads after a [`barrier`](crate::barrier) that follows. A vector that is not wholly
    /// inside its view ends the kernel with a fault.
    ///
    /// On NVIDIA GPUs of compute capability 8.0 and later, elements of 4, 8 or 16 bytes together
    /// are one instruction that passes by the registers (`cp.async`), if rows of both begin at
    /// multiples of as many bytes: those of tensors do as they are allocated, with a number of
    /// columns that is a multiple of `count`. Otherwise each element of 4 or 8 bytes is an
    /// instruction, and smaller ones are copied at once, as all are on other devices.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
    /// let i = thread_index();
    /// memory.set(i, i.get().cast::<u32>());
    /// barrier();
    /// let s = shared::<u32, 1>([64]);
    /// // SAFETY: each thread has its own place, and nobody reads it before the barrier.
    /// unsafe { s.copy_async(thread_id(0), *memory, 63 - thread_id(0), 1) };
    /// commit_copies();
    /// // … work that does not need the elements …
    /// wait_copies(0);
    /// barrier();
    /// device_assert!(s.get(5).eq(58));
    /// # });
    /// ```
    ///
    /// # Safety
    ///
    /// Until a wait covers the copy, no thread may read or write the elements of this memory, or
    /// write those of the view. Other threads may not read or write those of this memory without a
    /// barrier before the copy and one after the wait.
    #[track_caller]
    pub unsafe fn copy_async<const Q: usize>(
        &self,
        at: impl Indices<R>,
        from: View<T, Q>,
        index: impl Indices<Q>,
        count: usize,
    ) {
        self.copy((at.indices(), from, index.indices()), None, count, Location::caller());
    }

    /// As [`copy_async`](Self::copy_async) where `mask` holds. Elsewhere zeros arrive, and the
    /// index of the view does not matter.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Thread { block: [16, 1, 1] }, &|memory| {
    /// // Rows of four, of which the last two are beyond the end.
    /// let s = shared::<u32, 2>([18, 4]);
    /// for step in [0, 2] {
    ///     let row = thread_id(0) + step;
    ///     // SAFETY: each thread has its own row, and a barrier comes before the next step.
    ///     unsafe { s.copy_async_where((row, 0), *memory, row, row.lt(16), 4) };
    ///     commit_copies();
    ///     wait_copies(0);
    ///     barrier();
    /// }
    /// device_assert!(s.get((17, 3)).eq(0));
    /// # });
    /// ```
    ///
    /// # Safety
    ///
    /// As for [`copy_async`](Self::copy_async).
    #[track_caller]
    pub unsafe fn copy_async_where<const Q: usize>(
        &self,
        at: impl Indices<R>,
        from: View<T, Q>,
        index: impl Indices<Q>,
        mask: impl IntoVal<bool>,
        count: usize,
    ) {
        let mask = mask.into_val();
        self.copy((at.indices(), from, index.indices()), Some(mask), count, Location::caller());
    }

    fn copy<const Q: usize>(
        &self,
        (at, from, index): ([Raw; R], View<T, Q>, [Raw; Q]),
        mask: Option<Val<bool>>,
        count: usize,
        site: Site,
    ) {
        if block("copy_async", site).is_none() {
            return;
        }
        if !count.is_power_of_two() || count > MOST {
            error(
                site,
                format!("a copy of {count} elements"),
                "copy 1, 2, 4, 8 or 16 of them, and the others by further copies",
            );
            return;
        }
        let zero = Raw::Const(Literal::zero(T::SCALAR));
        // All are read before any is stored, so that neighbors can become one access. The last
        // comes first, whose check is one for all of them.
        let lanes = || std::iter::once(count - 1).chain(0..count - 1);
        let bounds = |lane| if lane == count - 1 { Bounds::Check } else { Bounds::Trust };
        let values: Vec<Raw> = lanes()
            .map(|lane| {
                let index = element(index, count, lane);
                let source = Selection { view: &from.core, indices: &index, mask: mask.map(Val::raw) };
                source.gather(zero, bounds(lane), T::SCALAR, site)
            })
            .collect();
        for (lane, value) in lanes().zip(values) {
            let at = element(at, count, lane);
            Selection { view: &self.core, indices: &at, mask: None }.begin_copy(value, bounds(lane), site);
        }
    }
}

/// The index of an element of the vector of `count` elements with an index.
fn element<const R: usize>(mut vector: [Raw; R], count: usize, lane: usize) -> [Raw; R] {
    if let Some(last) = vector.last_mut() {
        *last = (Idx::from_raw(*last) * count as i64 + lane as i64).raw();
    }
    vector
}

/// Makes a group of the copies that this thread has begun since the last such call. A thread
/// without any has an empty group.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Thread { block: [32, 1, 1] }, &|memory| {
/// let s = shared::<u32, 1>([64]);
/// for half in 0..2 {
///     let place = thread_id(0) + 32 * half;
///     // SAFETY: each thread has its own places, and reads no others.
///     unsafe { s.copy_async(place, *memory, place, 1) };
///     commit_copies();
/// }
/// wait_copies(1); // the first half is here
/// device_assert!(s.get(thread_id(0)).eq(0));
/// # });
/// ```
#[track_caller]
pub fn commit_copies() {
    record("commit_copies", AsyncCopyOp::Commit, Location::caller());
}

/// Waits until all groups of copies of this thread have arrived but its last `pending`: 0 waits for
/// all. Copies that are of no group yet, see [`commit_copies`], are not waited for.
///
/// ```
/// # use kiln_lang::{param::Facts, prelude::*};
/// /// Sums of tiles of 256: the next tile comes while this one is added up.
/// #[device(crate = kiln_lang)]
/// fn sum_of_tiles(x: View<f32, 1>, tiles: Val<i64>) -> Val<f32> {
///     let (i, stages) = (thread_id(0), shared::<f32, 2>([2, 256]));
///     let mut sum = val(0.0f32);
///     for tile in 0..tiles + 1 {
///         if tile < tiles {
///             // SAFETY: each thread has its own places, and reads no others.
///             unsafe { stages.copy_async((tile % 2, i), x, 64 * tile + i, 4) };
///         }
///         commit_copies();
///         if tile > 0 {
///             wait_copies(1);
///             for k in 0..4 {
///                 sum += stages.get(((tile + 1) % 2, 4 * i + k));
///             }
///         }
///     }
///     sum
/// }
/// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
/// #     sum_of_tiles(p.view("x", Facts::default()), val(3i64));
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn wait_copies(pending: usize) {
    let site = Location::caller();
    match u32::try_from(pending) {
        Ok(pending) => record("wait_copies", AsyncCopyOp::Wait { pending }, site),
        Err(_) => {
            error(site, format!("a wait for all but {pending} groups of copies"), "leave fewer pending")
        }
    }
}

fn record(what: &str, op: AsyncCopyOp, site: Site) {
    if block(what, site).is_some() {
        with(|r| r.effect(OpKind::AsyncCopy(op), &[], site));
    }
}
