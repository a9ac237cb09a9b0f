//! Boxes of elements. Elements outside the view are padding on a load and dropped on a store.

use super::core::ViewCore;
use super::{View, ViewMut};
use crate::elem::Elem;
use crate::ops::IntoShape;
use crate::ops::checked_shape;
use crate::trace::{Raw, error, with};
use crate::val::{IntoIndex, IntoVal, Val};
use kiln_ir::{OpKind, Reuse, Shape, Type};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::panic::Location;

/// Where a box of rank `R` begins: an index for rank 1, or a tuple or array of them.
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
    core: ViewCore,
    offsets: SmallVec<[Raw; 4]>,
    shape: Option<Shape>,
    reuse: Reuse,
    elem: PhantomData<fn() -> T>,
}

/// A box of a view that can be loaded and stored.
pub struct TileViewMut<T> {
    tile: TileView<T>,
}

impl<T: Elem, const R: usize> View<T, R> {
    /// The box of `shape` that begins at `offsets`.
    #[track_caller]
    pub fn tile(&self, offsets: impl Offsets<R>, shape: impl IntoShape) -> TileView<T> {
        let site = Location::caller();
        let extents = shape.extents();
        let mut shape = checked_shape(&extents, site);
        if extents.len() != R {
            let message = format!("a box of shape {extents:?} does not lie in a view of rank {R}");
            error(site, message, "give an extent for each axis of the view");
            shape = None;
        }
        let offsets = SmallVec::from_slice(&offsets.offsets());
        TileView { core: self.core, offsets, shape, reuse: Reuse::Normal, elem: PhantomData }
    }

    /// Loads the box of `shape` at the view's origin; elements outside the view are `other`.
    #[track_caller]
    pub fn load(&self, shape: impl IntoShape, other: impl IntoVal<T>) -> Val<T> {
        self.tile([0usize; R], shape).load(other)
    }
}

impl<T: Elem, const R: usize> ViewMut<T, R> {
    /// The box of `shape` that begins at `offsets`.
    #[track_caller]
    pub fn tile(&self, offsets: impl Offsets<R>, shape: impl IntoShape) -> TileViewMut<T> {
        TileViewMut { tile: self.view.tile(offsets, shape) }
    }

    /// Stores a tile at the view's origin; elements outside the view are dropped.
    ///
    /// The programs of a launch must store to different places; see [`TileViewMut::store`].
    #[track_caller]
    pub fn store(&self, value: Val<T>) {
        let Some(shape) = value.ir_shape() else { return };
        let extents: Vec<usize> = shape.extents().iter().map(|&e| e as usize).collect();
        self.tile([0usize; R], extents).store(value);
    }
}

impl<T: Elem> TileView<T> {
    /// Says that the elements are touched once, so that they need not stay in caches.
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.reuse = Reuse::Streaming;
        self
    }

    /// The elements; those outside the view are `other`.
    #[track_caller]
    pub fn load(&self, other: impl IntoVal<T>) -> Val<T> {
        let site = Location::caller();
        let other = other.into_val();
        let Some(shape) = &self.shape else { return Val::poison() };
        let whole = self.core.box_shape(shape);
        let id = with(|r| {
            let mut operands = self.core.operands(r, &self.offsets, &Shape::scalar(), site)?;
            operands.push(r.read_as(other.raw(), &Shape::scalar(), site)?);
            Some(r.op(OpKind::Load(self.reuse), &operands, Type::tile(T::SCALAR, whole), site))
        });
        let loaded: Val<T> = Val::from_id(id.flatten());
        loaded.reshaped(shape.clone(), site)
    }
}

impl<T: Elem> TileViewMut<T> {
    /// Says that the elements are touched once, so that they need not stay in caches.
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.tile.reuse = Reuse::Streaming;
        self
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
    #[track_caller]
    pub fn store(&self, value: impl IntoVal<T>) {
        self.store_as(value, true, Location::caller());
    }

    /// As [`store`](Self::store), where boxes of several programs may overlap.
    ///
    /// # Safety
    ///
    /// Where two programs store different values to one element, which one stays is unspecified,
    /// and no program may read it in the same launch.
    #[track_caller]
    pub unsafe fn store_overlapping(&self, value: impl IntoVal<T>) {
        self.store_as(value, false, Location::caller());
    }

    fn store_as(&self, value: impl IntoVal<T>, disjoint: bool, site: crate::trace::Site) {
        let value = value.into_val();
        let TileView { core, offsets, shape, reuse, .. } = &self.tile;
        let Some(shape) = shape else { return };
        let Some(value) = with(|r| r.read_as(value.raw(), shape, site)).flatten() else { return };
        let whole = Val::<T>::from_id(Some(value)).reshaped(core.box_shape(shape), site);
        with(|r| {
            let mut operands = core.operands(r, offsets, &Shape::scalar(), site)?;
            operands.push(r.read(whole.raw(), site)?);
            r.effect(OpKind::Store { reuse: *reuse, disjoint }, &operands, site);
            Some(())
        });
    }
}
