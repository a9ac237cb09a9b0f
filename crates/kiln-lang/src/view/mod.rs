//! Views: what a tensor parameter is inside a kernel.
//!
//! | file | holds |
//! |---|---|
//! | `core.rs` | a view and the axes that are fixed at an index |
//! | `tile.rs` | boxes of elements: masked loads and stores |
//! | `element.rs` | single elements, gather and scatter |
//! | `vector.rs` | several adjacent elements of a thread |
//! | `view_at.rs`, `made.rs` | views that the kernel makes, and accesses of them |
//! | `thread_index.rs` | the thread's own index |
//! | `selection.rs` | elements at indices, where a mask holds |
//! | `atomic.rs` | atomic operations |
//! | `atomic_128.rs` | the same on two adjacent elements of 64 bits |
//! | `atomic_pair.rs` | sums of two 16-bit floats in a word |
//! | `async_copy.rs` | copies to shared memory that go on while the thread does |
//! | `record.rs` | elements that are structs: a view for each field |
//! | `ordered.rs` | single elements and quads that others write meanwhile |

mod async_copy;
mod atomic;
mod atomic_128;
mod atomic_pair;
pub(crate) mod core;
mod element;
mod made;
mod ordered;
pub(crate) mod record;
mod selection;
mod thread_index;
mod tile;
mod vector;
mod view_at;

pub use async_copy::{commit_copies, wait_copies};
pub use atomic::{AtomicOrder, Atomics};
pub use atomic_pair::Half;
pub use element::Indices;
pub use record::{
    Field, LocalRecords, Record, RecordView, RecordViewMut, SharedRecords, local_records, shared_records,
};
pub use thread_index::{OwnIndex, ThreadIndex, thread_index, thread_index_2d, thread_index_3d};
pub use tile::{Offsets, TileView, TileViewMut};

use self::core::ViewCore;
use crate::elem::{Elem, Untyped};
use crate::trace::{Id, Recorder, Site};
use crate::val::{Idx, IntoIndex, IntoVal};
use std::marker::PhantomData;
use std::panic::Location;

/// A tensor of rank `R` that a kernel reads.
///
/// ```
/// # use kiln_lang::{param::Facts, program_id, trace, Level};
/// # trace("k", Level::Tile { warps: None }, |p| {
/// # let x = p.view::<f32, 2>("x", Facts::default());
/// let row = x.row(program_id(0));            // a View<f32, 1>
/// let v = row.load(1024, f32::NEG_INFINITY); // elements 0..1024, padded beyond the extent
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
pub struct View<T, const R: usize> {
    pub(crate) core: ViewCore,
    elem: PhantomData<fn() -> T>,
}

/// A tensor of rank `R` that a kernel reads and writes.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let i = thread_index();
/// memory.set(i, 2); // at the thread's own index, so that nothing races
/// device_assert!(memory.get(i).eq(2) & memory.extent(0).eq(64));
/// # });
/// ```
pub struct ViewMut<T, const R: usize> {
    view: View<T, R>,
}

impl<T, const R: usize> Clone for View<T, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const R: usize> Copy for View<T, R> {}

impl<T, const R: usize> Clone for ViewMut<T, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const R: usize> Copy for ViewMut<T, R> {}

/// What can be asked of a writable view for reading too.
impl<T, const R: usize> std::ops::Deref for ViewMut<T, R> {
    type Target = View<T, R>;
    fn deref(&self) -> &View<T, R> {
        &self.view
    }
}

impl<T: Elem, const R: usize> std::fmt::Debug for View<T, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View<{}, {R}>", T::SCALAR)
    }
}

impl<T: Elem, const R: usize> std::fmt::Debug for ViewMut<T, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ViewMut<{}, {R}>", T::SCALAR)
    }
}

impl<T, const R: usize> View<T, R> {
    pub(crate) fn from_core(core: ViewCore) -> Self {
        View { core, elem: PhantomData }
    }

    /// The same view, for what does not look at its element type.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
    /// use kiln_lang::Untyped;
    ///
    /// /// Needs no copy for each element type.
    /// fn columns(x: View<Untyped, 1>) -> Idx {
    ///     x.extent(0)
    /// }
    ///
    /// device_assert!(columns((*memory).untyped()).eq(64));
    /// # });
    /// ```
    pub fn untyped(self) -> View<Untyped, R> {
        View::from_core(self.core)
    }

    /// Its value in the trace.
    pub(crate) fn whole(&self, r: &mut Recorder, site: Site) -> Option<Id> {
        self.core.whole(r, site)
    }

    /// The number of elements on an axis.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Tile { warps: None }, |p| {
    /// # let a = p.view::<f32, 2>("a", Facts::default());
    /// let columns = a.extent(1);
    /// let mean = a.row(program_id(0)).load(64, 0.0).sum() / columns.cast::<f32>();
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn extent(&self, axis: usize) -> Idx {
        self.core.extent(axis, Location::caller())
    }

    /// The numbers of elements on all axes, outermost first.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, trace, Level};
    /// # trace("k", Level::Thread { block: [256, 1, 1] }, |p| {
    /// # let x = p.view::<f32, 2>("x", Facts::default());
    /// let [rows, columns] = x.shape();
    /// let last = x.get((rows - 1, columns - 1));
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn shape(&self) -> [Idx; R] {
        let site = Location::caller();
        std::array::from_fn(|axis| self.core.extent(axis, site))
    }

    /// The number of elements: of rank 1 the extent, else the product of all.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # #[device(crate = kiln_lang)]
    /// # fn step(x: View<f32, 1>, y: ViewMut<f32, 1>) {
    /// let i = thread_index();
    /// if i < x.len() {
    ///     y.set(i, x.get(i));
    /// }
    /// # }
    /// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
    /// #     let x = p.view("x", Facts::default());
    /// #     step(x, p.view_mut("y", Facts::default()))
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> Idx {
        let mut len: Idx = 1.into_val();
        for extent in self.shape() {
            len *= extent;
        }
        len
    }

    /// The distance of neighbors on an axis, in elements.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
    /// # let a = p.view::<f32, 2>("a", Facts::default());
    /// let is_row_major = a.stride(1).eq(1);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn stride(&self, axis: usize) -> Idx {
        self.core.stride(axis, Location::caller())
    }

    #[track_caller]
    fn fixed<const S: usize>(&self, axis: usize, index: impl IntoIndex) -> View<T, S> {
        let index = index.into_index();
        View::from_core(self.core.fix(axis, index.raw(), Location::caller()))
    }
}

impl<T, const R: usize> ViewMut<T, R> {
    pub(crate) fn from_core(core: ViewCore) -> Self {
        ViewMut { view: View::from_core(core) }
    }

    /// The same view, for what does not look at its element type.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
    /// let any = memory.untyped();
    /// device_assert!(any.extent(0).eq(memory.extent(0)));
    /// # });
    /// ```
    pub fn untyped(self) -> ViewMut<Untyped, R> {
        ViewMut::from_core(self.view.core)
    }
}

macro_rules! subviews {
    ($($rank:literal -> $lower:literal;)*) => {$(
        impl<T: Elem> View<T, $rank> {
            /// The part at index `i` of the first axis. An index outside the extent gives an empty
            /// part.
            ///
            /// ```
            /// # use kiln_lang::{param::Facts, prelude::*};
            /// # trace("k", Level::Tile { warps: None }, |p| {
            /// # let a = p.view::<f32, 2>("a", Facts::default());
            /// let row = a.row(program_id(0)).load(64, 0.0);
            /// # })?;
            /// # Ok::<(), kiln_lang::TraceErrors>(())
            /// ```
            #[track_caller]
            pub fn row(&self, i: impl IntoIndex) -> View<T, $lower> {
                self.fixed(0, i)
            }

            /// The part at index `i` of an axis.
            ///
            /// ```
            /// # use kiln_lang::{param::Facts, prelude::*};
            /// # trace("k", Level::Tile { warps: None }, |p| {
            /// # let a = p.view::<f32, 2>("a", Facts::default());
            /// let column = a.at_axis(1, program_id(0)).load(64, 0.0);
            /// # })?;
            /// # Ok::<(), kiln_lang::TraceErrors>(())
            /// ```
            #[track_caller]
            pub fn at_axis(&self, axis: usize, i: impl IntoIndex) -> View<T, $lower> {
                self.fixed(axis, i)
            }
        }

        impl<T: Elem> ViewMut<T, $rank> {
            /// The part at index `i` of the first axis. An index outside the extent gives an empty
            /// part.
            ///
            /// ```
            /// # use kiln_lang::{param::Facts, prelude::*};
            /// # trace("k", Level::Tile { warps: None }, |p| {
            /// # let a = p.view::<f32, 2>("a", Facts::default());
            /// # let b = p.view_mut::<f32, 2>("b", Facts::default());
            /// let row = program_id(0);
            /// b.row(row).store(a.row(row).load(64, 0.0) * 2.0);
            /// # })?;
            /// # Ok::<(), kiln_lang::TraceErrors>(())
            /// ```
            #[track_caller]
            pub fn row(&self, i: impl IntoIndex) -> ViewMut<T, $lower> {
                ViewMut { view: self.view.fixed(0, i) }
            }

            /// The part at index `i` of an axis.
            ///
            /// ```
            /// # use kiln_lang::{param::Facts, prelude::*};
            /// # trace("k", Level::Tile { warps: None }, |p| {
            /// # let a = p.view::<f32, 2>("a", Facts::default());
            /// # let b = p.view_mut::<f32, 2>("b", Facts::default());
            /// let column = program_id(0);
            /// b.at_axis(1, column).store(a.at_axis(1, column).load(64, 0.0) * 2.0);
            /// # })?;
            /// # Ok::<(), kiln_lang::TraceErrors>(())
            /// ```
            #[track_caller]
            pub fn at_axis(&self, axis: usize, i: impl IntoIndex) -> ViewMut<T, $lower> {
                ViewMut { view: self.view.fixed(axis, i) }
            }
        }
    )*};
}
subviews! { 2 -> 1; 3 -> 2; 4 -> 3; 5 -> 4; }

impl<T: Elem> View<T, 2> {
    /// The column at index `j`.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Tile { warps: None }, |p| {
    /// # let a = p.view::<f32, 2>("a", Facts::default());
    /// let column = a.col(program_id(0)).load(64, 0.0);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn col(&self, j: impl IntoIndex) -> View<T, 1> {
        self.fixed(1, j)
    }
}

impl<T: Elem> ViewMut<T, 2> {
    /// The column at index `j`.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Tile { warps: None }, |p| {
    /// # let a = p.view::<f32, 2>("a", Facts::default());
    /// # let b = p.view_mut::<f32, 2>("b", Facts::default());
    /// let column = program_id(0);
    /// b.col(column).store(a.col(column).load(64, 0.0) * 2.0);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn col(&self, j: impl IntoIndex) -> ViewMut<T, 1> {
        ViewMut { view: self.view.fixed(1, j) }
    }
}
