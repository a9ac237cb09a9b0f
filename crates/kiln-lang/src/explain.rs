//! What newcomers write in their first hour, and what to write instead.
//!
//! None of this does anything: operators and methods that other languages have on tensors and
//! values exist here with bounds that never hold, so that the compiler gives the bound's message in
//! place of "no method named".

use crate::elem::Elem;
use crate::memory::Local;
use crate::val::Val;
use crate::view::{TileView, View};
use std::iter::Empty;
use std::ops::{Index, IndexMut};

/// What a tensor, shared memory or a tile may be indexed with by `[]`: nothing.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// memory.set(thread_index(), 3); // not `memory[i] = 3`
/// device_assert!(memory.get(thread_id(0)).eq(3)); // not `memory[i]`
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "`[]` does not index memory or values of the device",
    label = "an index of the device",
    note = "read an element with `x.get(i)`, of a matrix with `m.get((i, j))`",
    note = "store one with `y.set(thread_index(), v)`, into shared memory with `unsafe {{ s.put(i, v) }}`",
    note = "a tile has no elements to pick: reduce it, as in `v.sum()`, or choose with `select`"
)]
pub trait Subscript {}

/// Tensors that a kernel may store into: those behind `&mut`.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// /// A `View` is read alone; a `ViewMut` is written, and read by what reads views.
/// fn add_one(y: ViewMut<u32, 1>) {
///     y.set(thread_index(), y.get(thread_id(0)) + 1);
/// }
///
/// add_one(memory);
/// device_assert!(memory.get(thread_id(0)).eq(1));
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "this tensor is read only: the kernel has it as `&Tensor`",
    label = "stores into a tensor",
    note = "write `&mut Tensor<..>` in the kernel's signature, and `&mut y` where it is called"
)]
pub trait Writable {}

/// Values that are optional: none of the device.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// // Not `memory.get(i).unwrap_or(7)`: another value is for indices outside.
/// device_assert!(memory.get_or(thread_id(0) + 64, 7).eq(7));
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "a device value is there: it is no `Option` and no `Result`",
    label = "not optional",
    note = "leave the call away; an index outside ends the kernel with a fault, `x.get_or(i, 0.0)` gives another value there"
)]
pub trait Optional {}

/// What has elements to iterate over on the host: nothing of the device.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// /// Not `for v in x.iter()`: the loop counts.
/// #[device(crate = kiln_lang)]
/// fn ones(x: View<u32, 1>) -> Val<i64> {
///     let mut count: Val<i64> = 0;
///     for i in 0..x.extent(0) {
///         if x.get(i) == 1 {
///             count += 1;
///         }
///     }
///     count
/// }
///
/// device_assert!(ones(*memory).eq(0));
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "elements of the device cannot be iterated over",
    label = "no iterator",
    note = "count with a range: `for i in 0..x.extent(0) {{ let v = x.get(i); .. }}`; a tile is reduced, as in `v.sum()`"
)]
pub trait Iterable {}

macro_rules! indexed {
    ($([$($generics:tt)*] $t:ty;)*) => {$(
        #[doc(hidden)]
        impl<T: Elem, I: Subscript $($generics)*> Index<I> for $t {
            type Output = Val<T>;
            fn index(&self, _: I) -> &Val<T> {
                crate::trace::abort()
            }
        }

        #[doc(hidden)]
        impl<T: Elem, I: Subscript $($generics)*> IndexMut<I> for $t {
            fn index_mut(&mut self, _: I) -> &mut Val<T> {
                crate::trace::abort()
            }
        }
    )*};
}
indexed! { [, const R: usize] View<T, R>; [] Local<T>; [] Val<T>; }

#[doc(hidden)]
impl<T: Elem, const R: usize> View<T, R> {
    pub fn set<I, V>(&self, _: I, _: V)
    where
        Self: Writable,
    {
    }

    pub fn set_or_skip<I, V>(&self, _: I, _: V)
    where
        Self: Writable,
    {
    }

    /// # Safety
    ///
    /// It does nothing.
    pub unsafe fn write<I, V>(&self, _: I, _: V)
    where
        Self: Writable,
    {
    }

    pub fn store<V>(&self, _: V)
    where
        Self: Writable,
    {
    }

    pub fn iter(&self) -> Empty<Val<T>>
    where
        Self: Iterable,
    {
        std::iter::empty()
    }
}

#[doc(hidden)]
impl<T: Elem> TileView<T> {
    pub fn store<V>(&self, _: V)
    where
        Self: Writable,
    {
    }
}

#[doc(hidden)]
impl<T: Elem> Val<T> {
    pub fn iter(&self) -> Empty<Val<T>>
    where
        Self: Iterable,
    {
        std::iter::empty()
    }

    pub fn unwrap(self) -> Val<T>
    where
        Self: Optional,
    {
        self
    }

    pub fn expect(self, _: &str) -> Val<T>
    where
        Self: Optional,
    {
        self
    }
}
