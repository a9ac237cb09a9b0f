//! The thread's number in the launch, at which it may store without racing.

use crate::flow::IntoDevice;
use crate::thread::{block, block_dim, num_programs, program_id, thread_id, thread_in_block};
use crate::trace::Raw;
use crate::val::{Idx, IntoIndex, IntoVal, Val};
use std::ops::{Add, BitAnd, BitOr, BitXor, Deref, Div, Mul, Rem, Shl, Shr, Sub};
use std::panic::Location;

/// The number of a thread in the launch, which no other thread has: where it may store without
/// racing.
///
/// ```
/// # use kiln_lang::{param::Facts, thread_index, trace, Level};
/// # trace("k", Level::Thread { block: [256, 1, 1] }, |p| {
/// # let (x, y) = (p.view::<f32, 1>("x", Facts::default()), p.view_mut::<f32, 1>("y", Facts::default()));
/// let i = thread_index();
/// y.set_or_skip(i, x.get_or(i, 0.0) + 1.0);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
///
/// Its numbers:
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let (flat, place) = (thread_index(), thread_index_2d());
/// device_assert!(flat.get().eq(place.axis(1)) & place.axes()[0].eq(0));
/// # });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ThreadIndex<const R: usize> {
    axes: [Idx; R],
}

impl<const R: usize> ThreadIndex<R> {
    /// The index on an axis, outermost first.
    pub fn axis(self, axis: usize) -> Idx {
        self.axes.get(axis).copied().unwrap_or_else(Idx::poison)
    }

    /// The indices.
    pub fn axes(self) -> [Idx; R] {
        self.axes
    }
}

impl ThreadIndex<1> {
    /// The index.
    pub fn get(self) -> Idx {
        self.axes[0]
    }
}

/// In one dimension it is used as the number that it is.
impl Deref for ThreadIndex<1> {
    type Target = Idx;
    fn deref(&self) -> &Idx {
        &self.axes[0]
    }
}

impl IntoVal<i64> for ThreadIndex<1> {
    fn into_val(self) -> Idx {
        self.axes[0]
    }
}

impl IntoDevice<Idx> for ThreadIndex<1> {
    fn into_device(self) -> Idx {
        self.axes[0]
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident)*) => {$(
        impl<R: IntoVal<i64>> $trait<R> for ThreadIndex<1> {
            type Output = Idx;
            #[track_caller]
            fn $method(self, other: R) -> Idx {
                self.axes[0].$method(other)
            }
        }
        operators! { @left $trait $method i8 u8 i16 u16 i32 u32 i64 u64 isize usize }
    )*};
    (@left $trait:ident $method:ident $($t:ty)*) => {$(
        impl $trait<ThreadIndex<1>> for $t {
            type Output = Idx;
            #[track_caller]
            fn $method(self, other: ThreadIndex<1>) -> Idx {
                self.$method(other.axes[0])
            }
        }
    )*};
}
operators! { Add add Sub sub Mul mul Div div Rem rem }

macro_rules! bit_operators {
    ($($trait:ident $method:ident)*) => {$(
        impl<R: IntoVal<i64>> $trait<R> for ThreadIndex<1> {
            type Output = Idx;
            #[track_caller]
            fn $method(self, other: R) -> Idx {
                self.axes[0].$method(other)
            }
        }
    )*};
}
bit_operators! { BitAnd bitand BitOr bitor BitXor bitxor Shl shl Shr shr }

impl IntoIndex for ThreadIndex<1> {
    fn into_index(self) -> Idx {
        self.axes[0]
    }
}

mod sealed {
    pub trait Sealed {}
}

/// Where a thread may store into a view of rank `R` without racing: its [`ThreadIndex`].
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// use kiln_lang::OwnIndex;
///
/// /// Stores safely wherever the thread's own place is.
/// fn store_one<const R: usize>(y: ViewMut<u32, R>, at: impl OwnIndex<R>) {
///     y.set(at, 1);
/// }
///
/// store_one(memory, thread_index());
/// device_assert!(memory.get(thread_id(0)).eq(1));
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "a safe store into a view of rank {R} is at the thread's own index, which `{Self}` is not known to be",
    label = "another thread may have this index",
    note = "the thread's own index is `thread_index()`, `thread_index_2d()` or `thread_index_3d()`, by the view's rank; \
            `unsafe {{ y.write(index, value) }}` stores at any index; a tile is stored by `y.tile(at, block).store(v)`"
)]
pub trait OwnIndex<const R: usize>: sealed::Sealed {
    #[doc(hidden)]
    fn own(self) -> [Raw; R];
}

impl<const R: usize> sealed::Sealed for ThreadIndex<R> {}

#[diagnostic::do_not_recommend]
impl<const R: usize> OwnIndex<R> for ThreadIndex<R> {
    fn own(self) -> [Raw; R] {
        self.axes.map(Val::raw)
    }
}

macro_rules! thread_index_offsets {
    ($($rank:literal)*) => {$(
        impl super::Offsets<$rank> for ThreadIndex<$rank> {
            fn offsets(self) -> [Raw; $rank] {
                self.axes.map(Val::raw)
            }
        }
    )*};
}
thread_index_offsets!(2 3);

/// The thread's number in the launch: `program_id(0) * block_dim(0) + thread_id(0)` where blocks
/// and grid have one axis; further axes of the grid and of blocks count on from there.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let i = thread_index();
/// memory.set(i, i.get().cast::<u32>()); // no other thread has this index
/// device_assert!(memory.get(i).eq(thread_id(0).cast::<u32>()));
/// # });
/// ```
#[track_caller]
pub fn thread_index() -> ThreadIndex<1> {
    if block("thread_index", Location::caller()).is_none() {
        return ThreadIndex { axes: [Idx::poison()] };
    }
    let program = program_id(0) + num_programs(0) * (program_id(1) + num_programs(1) * program_id(2));
    let threads = block_dim(0) * block_dim(1) * block_dim(2);
    ThreadIndex { axes: [program * threads + thread_in_block()] }
}

/// The thread's place in a two-dimensional launch: row (axis 1 of grid and block), column (axis 0).
/// A third axis counts on in rows.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let [row, column] = thread_index_2d().axes(); // blocks of [64, 1, 1] have one row
/// device_assert!(row.eq(0) & column.eq(thread_id(0)));
/// # });
/// ```
#[track_caller]
pub fn thread_index_2d() -> ThreadIndex<2> {
    if block("thread_index_2d", Location::caller()).is_none() {
        return ThreadIndex { axes: [Idx::poison(); 2] };
    }
    let block_row = program_id(1) + num_programs(1) * program_id(2);
    let thread_row = thread_id(1) + block_dim(1) * thread_id(2);
    let row = block_row * (block_dim(1) * block_dim(2)) + thread_row;
    ThreadIndex { axes: [row, program_id(0) * block_dim(0) + thread_id(0)] }
}

/// The thread's place in a three-dimensional launch: plane (axis 2), row (axis 1), column (axis 0).
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let [plane, row, column] = thread_index_3d().axes();
/// device_assert!(plane.eq(0) & row.eq(0) & column.eq(thread_id(0)));
/// # });
/// ```
#[track_caller]
pub fn thread_index_3d() -> ThreadIndex<3> {
    if block("thread_index_3d", Location::caller()).is_none() {
        return ThreadIndex { axes: [Idx::poison(); 3] };
    }
    ThreadIndex { axes: [2, 1, 0].map(|axis| program_id(axis) * block_dim(axis) + thread_id(axis)) }
}
