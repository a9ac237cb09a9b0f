//! Bulk copies between tensors and shared tiles.

use super::{Mbarrier, SharedTile, effect, number, scalar};
use crate::elem::{Bits, Num};
use crate::trace::{Raw, Recorder, Site, error};
use crate::val::{Idx, IntoIndex};
use crate::view::core::ViewCore;
use crate::view::{Offsets, View, ViewMut};
use kiln_ir::{BulkReduce, ExplicitOp, Shape};
use std::panic::Location;

/// Which rows of a tile a load fills, and in which blocks of the cluster.
///
/// ```
/// use kiln_lang::{explicit::*, param::Facts, prelude::*};
/// let kernel = trace("k", Level::Tile { warps: None }, |p| {
///     cluster(2);
///     let a = p.view::<bf16, 2>("a", Facts::default());
///     let (tile, done) = (shared_tiles::<bf16>(1, 64, 64).at(0), mbarriers(1, 1).at(0));
///     done.expect(64 * 64 * 2);
///     // Each block loads half of the rows, for both.
///     let row = cluster_rank() * 32;
///     tile.load_part(a, (row, 0), Part { row, rows: 32, multicast: 0b11 }, done);
///     done.wait(0);
/// })?;
/// assert!(kernel.to_string().contains("rows 32 multicast 3"));
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The first row: a multiple of 8.
    pub row: Idx,
    /// How many rows.
    pub rows: usize,
    /// A bit for each block of the cluster that gets them, in the same place; 0 is this block
    /// alone.
    pub multicast: u32,
}

impl<T> SharedTile<T> {
    /// Begins to load the box of the tile's shape that begins at `offsets`; its bytes count for the
    /// current phase of `done`. Elements outside the view are zero.
    ///
    /// On the last axis the box begins at a multiple of 16 bytes (8 elements of bf16), which may be
    /// negative: anywhere else it is a fault. On the other axes it begins anywhere.
    ///
    /// The box covers the last two axes of a view of rank 2 to 5. Of a vector it is as many
    /// adjacent elements as the tile has, row after row.
    #[track_caller]
    pub fn load<const R: usize>(&self, view: View<T, R>, offsets: impl Offsets<R>, done: Mbarrier) {
        let part = Part { row: 0.into_index(), rows: self.tiles.rows, multicast: 0 };
        self.load_as(view.core, &offsets.offsets(), part, done, Location::caller());
    }

    /// Begins to load some rows of the tile, maybe in several blocks at once. The box begins where
    /// that of [`load`](Self::load) may.
    #[track_caller]
    pub fn load_part<const R: usize>(
        &self,
        view: View<T, R>,
        offsets: impl Offsets<R>,
        part: Part,
        done: Mbarrier,
    ) {
        self.load_as(view.core, &offsets.offsets(), part, done, Location::caller());
    }

    fn load_as(&self, view: ViewCore, offsets: &[Raw], part: Part, done: Mbarrier, site: Site) {
        let rows = number("the number of rows", part.rows, site);
        let operands = |r: &mut Recorder| {
            let mut operands = view.operands(r, offsets, &Shape::scalar(), site)?.to_vec();
            operands.extend(self.operands(r, site)?);
            operands.push(scalar(r, part.row, site)?);
            operands.extend(done.operands(r, site)?);
            Some(operands)
        };
        effect(ExplicitOp::TmaLoad { rows, multicast: part.multicast, transposed: false }, operands, site);
    }

    /// Begins to bring the box of the tile's shape that begins at `offsets` to the L2 cache, from
    /// where a later [`load`](Self::load) of it takes less time. The tile itself is not touched.
    /// It changes no result, and nothing waits for it. The box begins where that of a load may.
    ///
    /// ```
    /// use kiln_lang::explicit::*;
    /// use kiln_lang::prelude::*;
    ///
    /// /// Loads a tile of a, and prepares the next one.
    /// #[device(crate = kiln_lang)]
    /// fn load_ahead(a: View<bf16, 2>, tile: SharedTile<bf16>, row: Idx, done: Mbarrier) {
    ///     done.expect(64 * 64 * 2);
    ///     tile.load(a, (row, 0), done);
    ///     tile.prefetch(a, (row + 64, 0));
    /// }
    /// ```
    #[track_caller]
    pub fn prefetch<const R: usize>(&self, view: View<T, R>, offsets: impl Offsets<R>) {
        let (site, offsets) = (Location::caller(), offsets.offsets());
        let rows = number("the number of rows", self.tiles.rows, site);
        let columns = number("the number of columns", self.tiles.columns, site);
        let operands =
            |r: &mut Recorder| Some(view.core.operands(r, &offsets, &Shape::scalar(), site)?.to_vec());
        effect(ExplicitOp::TmaPrefetch { rows, columns }, operands, site);
    }

    /// Begins to store the tile to the box of a view that begins at `offsets`. Elements outside the
    /// view are dropped.
    ///
    /// # Safety
    ///
    /// The boxes that the programs of a launch store do not overlap, and no program reads them in
    /// the same launch.
    ///
    /// No offset is negative, and on the last axis the box begins at a multiple of 16 bytes: a copy
    /// from anywhere else ends the GPU's context. The interpreter reports it as a fault.
    #[track_caller]
    pub unsafe fn store<const R: usize>(&self, view: ViewMut<T, R>, offsets: impl Offsets<R>) {
        self.store_as(ExplicitOp::TmaStore, view.core, &offsets.offsets(), Location::caller());
    }

    fn store_as(&self, op: ExplicitOp, view: ViewCore, offsets: &[Raw], site: Site) {
        let operands = |r: &mut Recorder| {
            let mut operands = self.operands(r, site)?;
            operands.extend(view.operands(r, offsets, &Shape::scalar(), site)?);
            Some(operands)
        };
        effect(op, operands, site);
    }

    fn combine(&self, op: BulkReduce, view: ViewCore, offsets: &[Raw], site: Site) {
        let elem = self.tiles.scalar;
        if !op.takes(elem) {
            let all: Vec<String> = op.elements().iter().map(ToString::to_string).collect();
            let what = format!("`store_{}` of {elem}", op.word());
            error(site, what, format!("bulk copies have it for {}", all.join(", ")));
            return;
        }
        self.store_as(ExplicitOp::TmaReduce(op), view, offsets, site);
    }
}

macro_rules! combining_stores {
    ($bound:ident: $($(#[$doc:meta])* $name:ident $op:ident;)*) => {
        impl<T: $bound> SharedTile<T> {$(
            $(#[$doc])*
            /// Elements outside the view are dropped.
            ///
            /// Each element is changed atomically, in no order among the elements or the programs:
            /// unlike those of [`store`](Self::store), boxes may overlap.
            ///
            /// # Safety
            ///
            /// Nothing else in the same launch reads or changes the box's elements but stores that
            /// combine. The box begins where that of [`store`](Self::store) may.
            #[track_caller]
            pub unsafe fn $name<const R: usize>(&self, view: ViewMut<T, R>, offsets: impl Offsets<R>) {
                self.combine(BulkReduce::$op, view.core, &offsets.offsets(), Location::caller());
            }
        )*}
    };
}

combining_stores! { Num:
    /// Begins to add the tile to the box of a view that begins at `offsets`: of `i32`, `u32`,
    /// `i64`, `u64` (which wrap), `f16`, `bf16` and `f32`.
    ///
    /// ```
    /// use kiln_lang::explicit::*;
    /// use kiln_lang::prelude::*;
    ///
    /// /// Adds a part of a sum to c, as other programs do with other parts.
    /// #[device(crate = kiln_lang)]
    /// fn add_part(part: Val<f32>, out: SharedTile<f32>, c: ViewMut<f32, 2>, row: Idx) {
    ///     out.put(part, 0);
    ///     proxy_fence();
    ///     task_barrier();
    ///     // SAFETY: in this launch all add to c, and none reads it.
    ///     unsafe { out.store_add(c, (row, 0)) };
    ///     store_wait(0);
    /// }
    /// ```
    ///
    store_add Add;
    /// Begins to replace the elements of the box of a view that begins at `offsets` by the smaller
    /// of them and the tile's: of `i32`, `u32`, `i64`, `u64`, `f16` and `bf16`. Where one of the
    /// two is NaN, the device chooses.
    ///
    /// ```
    /// use kiln_lang::{explicit::*, param::Facts, prelude::*};
    /// let kernel = trace("k", Level::Tile { warps: None }, |p| {
    ///     let (low, high) = (p.view_mut("low", Facts::default()), p.view_mut("high", Facts::default()));
    ///     let tile = shared_tiles::<i32>(1, 8, 32).at(0);
    ///     tile.put(full((8, 32), val(7)), 0);
    ///     proxy_fence();
    ///     task_barrier();
    ///     // SAFETY: nothing else reaches these vectors. A tile is 256 elements of one.
    ///     unsafe {
    ///         tile.store_min::<1>(low, 0);
    ///         tile.store_max::<1>(high, 256);
    ///     }
    ///     store_wait(0);
    /// })?;
    /// assert!(kiln_ir::verify(&kernel).is_ok());
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    ///
    store_min Min;
    /// Begins to replace the elements of the box of a view that begins at `offsets` by the larger
    /// of them and the tile's: of the types of [`store_min`](Self::store_min).
    store_max Max;
}

combining_stores! { Bits:
    /// Begins to combine the box of a view that begins at `offsets` with the bits of the tile by
    /// and: of `i32`, `u32`, `i64` and `u64`.
    ///
    /// ```
    /// use kiln_lang::{explicit::*, param::Facts, prelude::*};
    /// let kernel = trace("k", Level::Tile { warps: None }, |p| {
    ///     let flags = p.view_mut::<u32, 2>("flags", Facts::default());
    ///     let tile = shared_tiles::<u32>(1, 8, 32).at(0);
    ///     tile.put(full((8, 32), val(6)), 0);
    ///     proxy_fence();
    ///     task_barrier();
    ///     // SAFETY: the boxes lie side by side, and nothing else reaches them.
    ///     unsafe {
    ///         tile.store_and(flags, (0, 0));
    ///         tile.store_or(flags, (0, 32));
    ///         tile.store_xor(flags, (0, 64));
    ///     }
    ///     store_wait(0);
    /// })?;
    /// assert!(kiln_ir::verify(&kernel).is_ok());
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    ///
    store_and And;
    /// Begins to combine the box of a view that begins at `offsets` with the bits of the tile by
    /// or: of the types of [`store_and`](Self::store_and).
    store_or Or;
    /// Begins to combine the box of a view that begins at `offsets` with the bits of the tile by
    /// exclusive or: of the types of [`store_and`](Self::store_and).
    store_xor Xor;
}

/// Waits until all but the last `pending` stores that this task began have read their tiles.
///
/// ```
/// use kiln_lang::{explicit::*, param::Facts, prelude::*};
/// let kernel = trace("k", Level::Tile { warps: None }, |p| {
///     let y = p.view_mut::<f32, 2>("y", Facts::default());
///     let out = shared_tiles::<f32>(1, 64, 32).at(0);
///     for half in 0..2 {
///         store_wait(0); // the tile was read, and may be written again
///         task_barrier(); // every thread knows it
///         out.put(full((64, 32), val(1.0)), 0);
///         proxy_fence(); // what was written is there for copies
///         task_barrier();
///         // SAFETY: there is one program.
///         unsafe { out.store(y, (0, half * 32)) };
///     }
/// })?;
/// assert_eq!(kernel.to_string().matches("tma_store_wait pending 0").count(), 2);
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn store_wait(pending: usize) {
    let site = Location::caller();
    let pending = number("the number of stores", pending, site);
    effect(ExplicitOp::TmaStoreWait { pending }, |_| Some(vec![]), site);
}
