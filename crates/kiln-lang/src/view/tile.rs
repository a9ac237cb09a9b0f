//! Boxes of elements. Elements outside the view are padding on a load and dropped on a store.

use super::core::ViewCore;
use super::made::box_indices;
use super::selection::Selection;
use super::{View, ViewMut};
use crate::elem::Elem;
use crate::ops::{IntoShape, checked_shape, reshaped, stretched};
use crate::trace::{Raw, Site, error, with};
use crate::val::{IntoIndex, IntoVal, Val, shape_of};
use kiln_ir::{Bounds, MAX_VIEW_RANK, OpKind, Reuse, Scalar, Shape, Type};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::panic::Location;

/// Where a box of rank `R` begins: an index for rank 1, or a tuple or array of them.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// use kiln_lang::Offsets;
///
/// /// A part of a view of 16 elements, wherever it begins.
/// fn part(x: View<u32, 1>, at: impl Offsets<1>) -> Val<u32> {
///     x.tile(at, 16).load(0)
/// }
///
/// device_assert!(part(*memory, 32).eq(0).all() & part(*memory, [val::<i64>(8)]).eq(0).all());
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a position in a view of rank {R}",
    note = "use one index for rank 1, else a tuple with an index for each axis"
)]
pub trait Offsets<const R: usize> {
    #[doc(hidden)]
    #[track_caller]
    fn offsets(self) -> [Raw; R];
}

impl<A: IntoIndex> Offsets<1> for A {
    #[track_caller]
    fn offsets(self) -> [Raw; 1] {
        [self.into_index().raw()]
    }
}

impl<A: IntoIndex, const R: usize> Offsets<R> for [A; R] {
    #[track_caller]
    fn offsets(self) -> [Raw; R] {
        let mut raws = [Raw::Poison; R];
        for (raw, index) in raws.iter_mut().zip(self) {
            *raw = index.into_index().raw();
        }
        raws
    }
}

macro_rules! tuple_offsets {
    ($rank:literal: $($t:ident $n:tt)*) => {
        impl<$($t: IntoIndex),*> Offsets<$rank> for ($($t,)*) {
            #[track_caller]
            fn offsets(self) -> [Raw; $rank] {
                [$(self.$n.into_index().raw()),*]
            }
        }
    };
}
tuple_offsets!(2: A 0 B 1);
tuple_offsets!(3: A 0 B 1 C 2);
tuple_offsets!(4: A 0 B 1 C 2 D 3);
tuple_offsets!(5: A 0 B 1 C 2 D 3 E 4);

/// A box of a view that can be loaded.
///
/// ```
/// # use kiln_lang::{param::Facts, program_id, trace, Level};
/// # trace("k", Level::Tile { warps: None }, |p| {
/// # let (x, y) = (p.view::<f32, 2>("x", Facts::default()), p.view_mut::<f32, 2>("y", Facts::default()));
/// let (i, j) = (program_id(0) * 16, program_id(1) * 32);
/// let block = x.tile((i, j), (16, 32)).streaming().load(0.0);
/// y.tile((j, i), (32, 16)).store(block.transpose());
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
pub struct TileView<T> {
    tile: TileCore,
    elem: PhantomData<fn() -> T>,
}

/// A box of a view that can be loaded and stored.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// let block = memory.tile(program_id(0) * 64, 64).streaming(); // touched once: not to be cached
/// block.store(iota::<u32>(64));
/// device_assert!(memory.tile(0, 64).load(0).sum().eq(63 * 64 / 2));
/// # });
/// ```
pub struct TileViewMut<T> {
    tile: TileView<T>,
}

/// A box, whatever the type of its elements. It owns no memory, so that a kernel has nothing to
/// free behind each load and store.
#[derive(Clone, Copy)]
struct TileCore {
    view: ViewCore,
    /// Offsets and extents; those beyond the rank mean nothing.
    offsets: [Raw; MAX_VIEW_RANK],
    extents: [u32; MAX_VIEW_RANK],
    /// `None` after an error.
    rank: Option<usize>,
    reuse: Reuse,
}

impl TileCore {
    /// The box of a view that has as many axes as there are offsets.
    fn new(view: ViewCore, offsets: &[Raw], extents: SmallVec<[usize; 4]>, site: Site) -> TileCore {
        let shape = checked_shape(&extents, site);
        let rank = offsets.len();
        let fits = extents.len() == rank;
        if !fits {
            let message = format!("a box of shape {extents:?} does not lie in a view of rank {rank}");
            error(site, message, "give an extent for each axis of the view");
        }
        let mut tile = TileCore {
            view,
            offsets: [Raw::Poison; MAX_VIEW_RANK],
            extents: [1; MAX_VIEW_RANK],
            rank: None,
            reuse: Reuse::Normal,
        };
        // A view with more axes was refused when it was declared.
        if let Some(shape) = shape
            && fits
            && rank <= MAX_VIEW_RANK
        {
            tile.offsets[..rank].copy_from_slice(offsets);
            tile.extents[..rank].copy_from_slice(shape.extents());
            tile.rank = Some(rank);
        }
        tile
    }

    /// The offsets and the shape; `None` after an error.
    fn placed(&self) -> Option<(&[Raw], Shape)> {
        let rank = self.rank?;
        Some((&self.offsets[..rank], Shape::new(&self.extents[..rank])))
    }

    fn load(&self, other: Raw, elem: Scalar, site: Site) -> Raw {
        let Some((offsets, shape)) = self.placed() else { return Raw::Poison };
        if self.view.made().is_some() {
            let indices = box_indices(offsets, &shape, site);
            let selection = Selection { view: &self.view, indices: &indices, mask: None };
            return stretched(selection.gather(other, Bounds::Mask, elem, site), &shape, site);
        }
        let whole = self.view.box_shape(&shape);
        let id = with(|r| {
            let mut operands = self.view.operands(r, offsets, &Shape::scalar(), site)?;
            operands.push(r.read_as(other, &Shape::scalar(), site)?);
            Some(r.op(OpKind::Load(self.reuse), &operands, Type::tile(elem, whole), site))
        });
        reshaped(Raw::of(id.flatten()), shape, elem, site)
    }

    fn store(&self, value: Raw, disjoint: bool, elem: Scalar, site: Site) {
        let Some((offsets, shape)) = self.placed() else { return };
        let Some(value) = with(|r| r.read_as(value, &shape, site)).flatten() else { return };
        if self.view.made().is_some() {
            let indices = box_indices(offsets, &shape, site);
            let selection = Selection { view: &self.view, indices: &indices, mask: None };
            return selection.scatter(Raw::Value(value), Bounds::Mask, site);
        }
        let whole = reshaped(Raw::Value(value), self.view.box_shape(&shape), elem, site);
        with(|r| {
            let mut operands = self.view.operands(r, offsets, &Shape::scalar(), site)?;
            operands.push(r.read(whole, site)?);
            r.effect(OpKind::Store { reuse: self.reuse, disjoint }, &operands, site);
            Some(())
        });
    }
}

impl<T: Elem, const R: usize> View<T, R> {
    /// The box of `shape` that begins at `offsets`.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Tile { warps: None }, |p| {
    /// # let a = p.view::<f32, 2>("a", Facts::default());
    /// let (row, column) = (program_id(1) * 16, program_id(0) * 32);
    /// let block = a.tile((row, column), (16, 32)).load(0.0);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn tile(&self, offsets: impl Offsets<R>, shape: impl IntoShape) -> TileView<T> {
        let offsets = offsets.offsets();
        let tile = TileCore::new(self.core, &offsets, shape.extents(), Location::caller());
        TileView { tile, elem: PhantomData }
    }

    /// Loads the box of `shape` at the view's origin; elements outside the view are `other`.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Tile { warps: None }, |p| {
    /// # let a = p.view::<f32, 2>("a", Facts::default());
    /// let row = a.row(program_id(0)).load(1024, f32::NEG_INFINITY); // a row of up to 1024 elements
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn load(&self, shape: impl IntoShape, other: impl IntoVal<T>) -> Val<T> {
        self.tile([0usize; R], shape).load(other)
    }
}

impl<T: Elem, const R: usize> ViewMut<T, R> {
    /// The box of `shape` that begins at `offsets`.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Tile { warps: None }, |p| {
    /// # let x = p.view::<f32, 1>("x", Facts::default());
    /// # let y = p.view_mut::<f32, 1>("y", Facts::default());
    /// let at = program_id(0) * 256;
    /// y.tile(at, 256).store(x.tile(at, 256).load(0.0) + 1.0);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn tile(&self, offsets: impl Offsets<R>, shape: impl IntoShape) -> TileViewMut<T> {
        TileViewMut { tile: self.view.tile(offsets, shape) }
    }

    /// Stores a tile at the view's origin; elements outside the view are dropped.
    ///
    /// The programs of a launch must store to different places; see [`TileViewMut::store`].
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Tile { warps: None }, |p| {
    /// # let a = p.view::<f32, 2>("a", Facts::default());
    /// # let b = p.view_mut::<f32, 2>("b", Facts::default());
    /// let row = program_id(0);
    /// b.row(row).store(a.row(row).load(64, 0.0));
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn store(&self, value: Val<T>) {
        if shape_of(value.raw()).is_some() {
            self.tile([0usize; R], value.shape()).store(value);
        }
    }
}

/// Which caches hold the elements, as a hint for NVIDIA GPUs. It never changes a result; the last
/// one counts, and other devices ignore all but `streaming`.
impl<T: Elem> TileView<T> {
    /// Says that the elements are touched once, so that they need not stay in caches.
    #[must_use]
    pub fn streaming(self) -> Self {
        self.reused(Reuse::Streaming)
    }

    /// Says that the elements are the first to go where a multiprocessor's cache needs room (PTX's
    /// `L1::evict_first`).
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let (once, often) = (memory.tile(0, 64).evict_first(), memory.tile(64, 16).evict_last());
    /// device_assert!(once.load(0).eq(0).all() & often.load(0).eq(0).all());
    /// # });
    /// ```
    #[must_use]
    pub fn evict_first(self) -> Self {
        self.reused(Reuse::EvictFirst)
    }

    /// Says that the elements are the last to go where a multiprocessor's cache needs room (PTX's
    /// `L1::evict_last`): what a program reads again and again beside what passes by.
    #[must_use]
    pub fn evict_last(self) -> Self {
        self.reused(Reuse::EvictLast)
    }

    /// Says that the device's cache alone is to hold the elements, not that of a multiprocessor
    /// (PTX's `ld.cg` and `st.cg`): what other programs read again, and this one does not.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let shared = memory.tile(0, 64).l2_only();
    /// device_assert!(shared.load(0).eq(0).all());
    /// # });
    /// ```
    #[must_use]
    pub fn l2_only(self) -> Self {
        self.reused(Reuse::L2Only)
    }

    fn reused(mut self, reuse: Reuse) -> Self {
        self.tile.reuse = reuse;
        self
    }

    /// The elements; those outside the view are `other`.
    #[track_caller]
    pub fn load(&self, other: impl IntoVal<T>) -> Val<T> {
        let other = other.into_val();
        Val::from_raw(self.tile.load(other.raw(), T::SCALAR, Location::caller()))
    }
}

/// Which caches hold the elements, as a hint for NVIDIA GPUs. It never changes a result; the last
/// one counts, and other devices ignore all but `streaming`.
impl<T: Elem> TileViewMut<T> {
    /// Says that the elements are touched once, so that they need not stay in caches.
    #[must_use]
    pub fn streaming(self) -> Self {
        TileViewMut { tile: self.tile.streaming() }
    }

    /// As [`TileView::evict_first`], of loads and stores.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// memory.tile(program_id(0) * 64, 64).evict_first().store(7u32);
    /// device_assert!(memory.tile(0, 64).evict_first().load(0).eq(7).all());
    /// # });
    /// ```
    #[must_use]
    pub fn evict_first(self) -> Self {
        TileViewMut { tile: self.tile.evict_first() }
    }

    /// As [`TileView::evict_last`], of loads and stores.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let often = memory.tile(program_id(0) * 64, 64).evict_last();
    /// often.store(often.load(0) + 1);
    /// device_assert!(often.load(0).eq(1).all());
    /// # });
    /// ```
    #[must_use]
    pub fn evict_last(self) -> Self {
        TileViewMut { tile: self.tile.evict_last() }
    }

    /// As [`TileView::l2_only`], of loads and stores.
    #[must_use]
    pub fn l2_only(self) -> Self {
        TileViewMut { tile: self.tile.l2_only() }
    }

    /// Says that stores go through the caches to memory at once (PTX's `st.wt`): what the host or
    /// another device reads soon. It orders nothing.
    ///
    /// ```
    #[doc = include_str!("../on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// memory.tile(program_id(0) * 64, 64).write_through().store(7u32);
    /// device_assert!(memory.tile(0, 64).l2_only().load(0).eq(7).all());
    /// # });
    /// ```
    #[must_use]
    pub fn write_through(self) -> Self {
        TileViewMut { tile: self.tile.reused(Reuse::WriteThrough) }
    }

    /// The elements; those outside the view are `other`.
    #[track_caller]
    pub fn load(&self, other: impl IntoVal<T>) -> Val<T> {
        self.tile.load(other)
    }

    /// Stores a value, stretched to the box; elements outside the view are dropped.
    ///
    /// The programs of a launch must store to different places: the compiler proves it, or the
    /// sanitizer checks it.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Tile { warps: None }, |p| {
    /// # let y = p.view_mut::<f32, 1>("y", Facts::default());
    /// y.tile(program_id(0) * 64, 64).store(1.0); // stretched to 64 elements
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn store(&self, value: impl IntoVal<T>) {
        self.store_as(value, true);
    }

    /// As [`store`](Self::store), where boxes of several programs may overlap.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Tile { warps: None }, |p| {
    /// # let y = p.view_mut::<f32, 1>("y", Facts::default());
    /// // SAFETY: all programs store the same.
    /// unsafe { y.tile(0, 1).store_overlapping(1.0) };
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    ///
    /// # Safety
    ///
    /// Where two programs store different values to one element, which one remains is unspecified,
    /// and no program may read it in the same launch.
    #[track_caller]
    pub unsafe fn store_overlapping(&self, value: impl IntoVal<T>) {
        self.store_as(value, false);
    }

    #[track_caller]
    fn store_as(&self, value: impl IntoVal<T>, disjoint: bool) {
        let value = value.into_val();
        self.tile.tile.store(value.raw(), disjoint, T::SCALAR, Location::caller());
    }
}
