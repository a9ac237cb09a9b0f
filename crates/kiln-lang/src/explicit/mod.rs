//! The explicit level: what a Hopper GPU does beside computing, written by hand. For kernels over
//! tiles.
//!
//! A kernel divides its warps among [`tasks`]: one begins copies from tensors into [`SharedTiles`],
//! others multiply what has arrived and begin copies back. Copies and products are *asynchronous*:
//! an [`Mbarrier`] signals the end of a copy, [`wgmma_wait`] waits for a product, and
//! [`store_wait`] until a stored tile may be overwritten. The interpreter checks the order and
//! reports what is missing with its line.
//!
//! Every function is called by a task as a whole, once, however many threads it has.
//!
//! ```
//! use kiln_lang::explicit::*;
//! use kiln_lang::param::Facts;
//! use kiln_lang::prelude::*;
//!
//! /// c = a · b, `[64, 64]` a program, in one stage and without overlap: the least that works.
//! #[device(crate = kiln_lang)]
//! fn matmul(a: View<bf16, 2>, b: View<bf16, 2>, c: ViewMut<f32, 2>) {
//!     let (row, column) = (program_id(0) * 64, program_id(1) * 64);
//!     let (left, right) = (shared_tiles::<bf16>(1, 64, 64), shared_tiles::<bf16>(1, 64, 64));
//!     let (full, empty) = (mbarriers(1, 1), mbarriers(1, 1));
//!     let steps = (a.extent(1) + 63) / 64;
//!     tasks()
//!         .task(4, 0, || {
//!             for k in range(0, steps) {
//!                 empty.at(0).wait(k - 1);
//!                 full.at(0).expect(2 * 64 * 64 * 2);
//!                 left.at(0).load(a, (row, k * 64), full.at(0));
//!                 right.at(0).load(b, (k * 64, column), full.at(0));
//!             }
//!         })
//!         .task(4, 0, || {
//!             let mut sum = zeros::<f32>((64, 64));
//!             for k in range(0, steps) {
//!                 full.at(0).wait(k);
//!                 sum = wgmma_wait(wgmma(left.at(0), right.at(0), sum, true), 0);
//!                 empty.at(0).arrive();
//!             }
//!             c.tile((row, column), (64, 64)).store(sum);
//!         })
//!         .run();
//! }
//!
//! let kernel = trace("matmul", Level::Tile { warps: None }, |p| {
//!     let (a, b) = (p.view::<bf16, 2>("a", Facts::default()), p.view::<bf16, 2>("b", Facts::default()));
//!     matmul(a, b, p.view_mut::<f32, 2>("c", Facts::default()));
//! })?;
//! assert!(kiln_ir::verify(&kernel).is_ok());
//! # Ok::<(), kiln_lang::TraceErrors>(())
//! ```

mod copies;
mod signals;
mod tasks;

pub use copies::{Part, store_wait};
pub use signals::{signal, signal_wait};
pub use tasks::{Tasks, cluster, cluster_rank, task_rank, tasks};

use crate::elem::{Elem, Num, Untyped};
use crate::ops::checked_shape;
use crate::trace::{Id, Raw, Recorder, Site, error, with};
use crate::val::{Idx, IntoIndex, IntoVal, Val};
use kiln_ir::{ExplicitOp, Level, OpKind, Scalar, Shape, Space, Type};
use std::marker::PhantomData;
use std::panic::Location;

/// Whether the kernel is over tiles; else that is an error.
fn over_tiles(what: &str, site: Site) -> bool {
    let tiles = with(|r| matches!(r.level, Level::Tile { .. })) == Some(true);
    if !tiles {
        error(site, format!("`{what}` stands in a kernel over tiles"), "launch it without a block");
    }
    tiles
}

fn number(what: &str, n: usize, site: Site) -> u32 {
    u32::try_from(n).unwrap_or_else(|_| {
        error(site, format!("{what} is {n}"), "it must fit 32 bits");
        1
    })
}

fn effect(op: ExplicitOp, operands: impl FnOnce(&mut Recorder) -> Option<Vec<Id>>, site: Site) {
    with(|r| {
        let operands = operands(r)?;
        r.effect(OpKind::Explicit(op), &operands, site);
        Some(())
    });
}

fn scalar(r: &mut Recorder, index: Idx, site: Site) -> Option<Id> {
    r.read_as(index.raw(), &Shape::scalar(), site)
}

// ---- mbarriers

/// Barriers in shared memory that count arrivals and bytes, by index. Each goes through phases 0,
/// 1, 2, …
///
/// ```
/// use kiln_lang::{explicit::*, prelude::*};
/// let kernel = trace("k", Level::Tile { warps: None }, |_| {
///     cluster(2);
///     let barriers: Mbarriers = mbarriers(2, 2);
///     let done: Mbarrier = barriers.at(1);
///     done.arrive_at(0); // at that of the first block, which both blocks arrive at
///     done.arrive_at(1);
///     done.wait(0);
/// })?;
/// assert_eq!(kernel.to_string().matches("mbarrier_arrive").count(), 2);
/// assert!(kiln_ir::verify(&kernel).is_ok());
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Mbarriers {
    view: Raw,
}

/// One of [`Mbarriers`].
///
/// ```
/// use kiln_lang::{explicit::*, prelude::*};
/// let kernel = trace("k", Level::Tile { warps: None }, |_| {
///     cluster(2);
///     let done: Mbarrier = mbarriers(1, 2).at(0);
///     (0..2).for_each(|rank| done.arrive_at(rank));
///     done.wait(0); // until both blocks have come
/// })?;
/// assert!(kernel.to_string().contains("mbarrier count 1 arrivals 2"));
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Mbarrier {
    view: Raw,
    index: Idx,
}

/// Makes `count` barriers. A phase of one is complete when `arrivals` have come, each of one task
/// (of any block of the cluster), and all bytes that were announced.
#[track_caller]
pub fn mbarriers(count: usize, arrivals: usize) -> Mbarriers {
    let site = Location::caller();
    if !over_tiles("mbarriers", site) {
        return Mbarriers { view: Raw::Poison };
    }
    let op = ExplicitOp::Mbarrier {
        count: number("the number of barriers", count, site),
        arrivals: number("the number of arrivals", arrivals, site),
    };
    let ty = Type::view(Scalar::U64, 1, Space::Shared);
    let view = with(|r| r.op(OpKind::Explicit(op), &[], ty, site));
    Mbarriers { view: view.map_or(Raw::Poison, Raw::Value) }
}

impl Mbarriers {
    /// The barrier with this index.
    #[track_caller]
    pub fn at(&self, index: impl IntoIndex) -> Mbarrier {
        Mbarrier { view: self.view, index: index.into_index() }
    }
}

impl Mbarrier {
    fn operands(&self, r: &mut Recorder, site: Site) -> Option<Vec<Id>> {
        Some(vec![r.read(self.view, site)?, scalar(r, self.index, site)?])
    }

    /// Announces that copies will bring so many bytes in this phase, and arrives.
    #[track_caller]
    pub fn expect(&self, bytes: usize) {
        let site = Location::caller();
        let bytes = number("the number of bytes", bytes, site);
        effect(ExplicitOp::MbarrierExpect { bytes }, |r| self.operands(r, site), site);
    }

    /// Arrives: what this task did so far is done.
    #[track_caller]
    pub fn arrive(&self) {
        let site = Location::caller();
        effect(ExplicitOp::MbarrierArrive, |r| self.operands(r, site), site);
    }

    /// Arrives at this barrier of the block with a number in the cluster.
    #[track_caller]
    pub fn arrive_at(&self, rank: impl IntoIndex) {
        let (site, rank) = (Location::caller(), rank.into_index());
        let operands = |r: &mut Recorder| {
            let mut operands = self.operands(r, site)?;
            operands.push(scalar(r, rank, site)?);
            Some(operands)
        };
        effect(ExplicitOp::MbarrierArrive, operands, site);
    }

    /// Waits until the phase with this number, counted from 0, is complete. Phases below 0 are: so
    /// the first round of a ring needs no special case.
    ///
    /// A wait must not come two phases late: the hardware tests the lowest bit of a phase.
    #[track_caller]
    pub fn wait(&self, phase: impl IntoIndex) {
        let (site, phase) = (Location::caller(), phase.into_index());
        let operands = |r: &mut Recorder| {
            let mut operands = self.operands(r, site)?;
            operands.push(scalar(r, phase, site)?);
            Some(operands)
        };
        effect(ExplicitOp::MbarrierWait, operands, site);
    }
}

// ---- shared tiles

/// Tiles in shared memory, by stage, that copies and products reach. Uninitialized at first.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// use kiln_lang::explicit::*;
/// let tiles: SharedTiles<bf16> = shared_tiles(2, 64, 64);
/// tiles.at(0).put(full((64, 64), val(1.5)), 0);
/// proxy_fence();
/// task_barrier();
/// let words = tiles.at(0).words(); // two elements a number
/// assert_eq!(words.shape(), [64, 32]);
/// assert_eq!(size_of_val(&tiles.untyped()), size_of_val(&tiles)); // the same handle
/// device_assert!(words.eq(0x3fc0_3fc0).all());
/// # });
/// ```
#[derive(Debug)]
pub struct SharedTiles<T> {
    view: Raw,
    rows: usize,
    columns: usize,
    scalar: Scalar,
    elem: PhantomData<fn() -> T>,
}

/// One of [`SharedTiles`].
///
/// ```
/// use kiln_lang::{explicit::*, param::Facts, prelude::*};
/// let kernel = trace("k", Level::Tile { warps: None }, |p| {
///     let a = p.view::<bf16, 2>("a", Facts::default());
///     let (tile, done) = (shared_tiles::<bf16>(1, 64, 64).at(0), mbarriers(1, 1).at(0));
///     done.expect(64 * 64 * 2);
///     // The box in two parts, each with half of the rows.
///     for half in [0, 32] {
///         tile.load_part(a, (half, 0), Part { row: val(half), rows: 32, multicast: 0 }, done);
///     }
///     done.wait(0);
///     let squares = wgmma_wait(wgmma(tile, tile.transposed(), zeros::<f32>((64, 64)), false), 0);
///     task_barrier();
///     tile.put(squares.cast::<bf16>(), 0);
///     proxy_fence();
///     task_barrier();
///     assert_eq!(tile.words().shape(), [64, 32]);
/// })?;
/// assert!(kiln_ir::verify(&kernel).is_ok());
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[derive(Debug)]
pub struct SharedTile<T> {
    tiles: SharedTiles<T>,
    stage: Idx,
    transposed: bool,
}

impl<T> Clone for SharedTiles<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedTiles<T> {}

impl<T> Clone for SharedTile<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedTile<T> {}

/// Makes room for `stages` tiles `[rows, columns]`. There are a multiple of 8 rows, and each is a
/// multiple of 128 bytes.
#[track_caller]
pub fn shared_tiles<T: Elem>(stages: usize, rows: usize, columns: usize) -> SharedTiles<T> {
    let site = Location::caller();
    let view = tiles_view(stages, rows, columns, T::SCALAR, site).map_or(Raw::Poison, Raw::Value);
    SharedTiles { view, rows, columns, scalar: T::SCALAR, elem: PhantomData }
}

fn tiles_view(stages: usize, rows: usize, columns: usize, elem: Scalar, site: Site) -> Option<Id> {
    let shape = checked_shape(&[stages, rows, columns], site).filter(|_| over_tiles("shared_tiles", site))?;
    let op = ExplicitOp::SharedTile { stages: shape[0], rows: shape[1], columns: shape[2] };
    let ty = Type::view(elem, 3, Space::Shared);
    with(|r| r.op(OpKind::Explicit(op), &[], ty, site))
}

impl<T> SharedTiles<T> {
    /// The same tiles, for what does not look at their element type.
    pub fn untyped(self) -> SharedTiles<Untyped> {
        let SharedTiles { view, rows, columns, scalar, .. } = self;
        SharedTiles { view, rows, columns, scalar, elem: PhantomData }
    }

    /// The tile of a stage.
    #[track_caller]
    pub fn at(&self, stage: impl IntoIndex) -> SharedTile<T> {
        SharedTile { tiles: *self, stage: stage.into_index(), transposed: false }
    }
}

impl<T> SharedTile<T> {
    /// The tile as a factor of a product, transposed. Nothing moves.
    #[must_use]
    pub fn transposed(mut self) -> Self {
        self.transposed = !self.transposed;
        self
    }

    fn untyped(self) -> SharedTile<Untyped> {
        let SharedTile { tiles, stage, transposed } = self;
        SharedTile { tiles: tiles.untyped(), stage, transposed }
    }

    fn operands(&self, r: &mut Recorder, site: Site) -> Option<Vec<Id>> {
        Some(vec![r.read(self.tiles.view, site)?, scalar(r, self.stage, site)?])
    }

    /// Writes the columns of a tile that begin at `column`, as many as this one has. Before a copy
    /// or product reads them come [`proxy_fence`] and [`task_barrier`]. Of a tile whose columns are
    /// no power of two they lie within one of the powers of two whose sum these are: each 64 of 192
    /// do.
    #[track_caller]
    pub fn put(&self, value: Val<T>, column: usize) {
        self.put_raw(value.raw(), column, Location::caller());
    }

    /// Writes as [`put`](Self::put) does, where the tile's elements are of 16 bits and were [packed
    /// by pairs](pack_pairs): `column` counts elements.
    ///
    /// ```
    /// use kiln_lang::explicit::*;
    /// use kiln_lang::prelude::*;
    ///
    /// /// Begins to store sums of 64 × 64 to c, rounded to bf16.
    /// #[device(crate = kiln_lang)]
    /// fn finish(sums: Val<f32>, out: SharedTile<bf16>, c: ViewMut<bf16, 2>, row: Idx) {
    ///     out.put_pairs(pack_pairs::<bf16>(sums), 0);
    ///     proxy_fence();
    ///     task_barrier();
    ///     // SAFETY: whoever calls this has rows of its own.
    ///     unsafe { out.store(c, (row, 0)) };
    /// }
    /// ```
    #[track_caller]
    pub fn put_pairs(&self, pairs: Val<u32>, column: usize) {
        self.put_raw(pairs.raw(), column, Location::caller());
    }

    fn put_raw(&self, value: Raw, column: usize, site: Site) {
        let column = number("the column", column, site);
        let operands = |r: &mut Recorder| {
            let mut operands = vec![r.read(value, site)?];
            operands.extend(self.operands(r, site)?);
            Some(operands)
        };
        effect(ExplicitOp::SharedStore { column }, operands, site);
    }

    /// What the tile holds, four bytes a number: a factor of [`wgmma_registers`]. Several products
    /// may then take it from registers.
    #[track_caller]
    pub fn words(&self) -> Val<u32> {
        let site = Location::caller();
        if self.transposed {
            error(site, "the words of a transposed tile", "read them as they lie in memory");
            return Val::poison();
        }
        let SharedTiles { rows, columns, scalar, .. } = self.tiles;
        let Some(shape) = checked_shape(&[rows, columns * scalar.bytes() as usize / 4], site) else {
            return Val::poison();
        };
        let id = with(|r| {
            let operands = self.operands(r, site)?;
            let ty = Type::tile(Scalar::U32, shape.clone());
            Some(r.op(OpKind::Explicit(ExplicitOp::SharedLoad), &operands, ty, site))
        });
        Val::from_id(id.flatten())
    }
}

/// What this task wrote to shared tiles with [`SharedTile::put`] is there for copies and products
/// that begin after the next barrier.
///
/// ```
/// use kiln_lang::{explicit::*, prelude::*};
/// let kernel = trace("k", Level::Tile { warps: None }, |_| {
///     let tile = shared_tiles::<f16>(1, 64, 64).at(0);
///     tile.put(full((64, 64), val(1.0)), 0);
///     proxy_fence(); // products that begin after the barrier read what was written
///     task_barrier();
///     let squares = wgmma_wait(wgmma(tile, tile.transposed(), zeros::<f32>((64, 64)), false), 0);
///     assert_eq!(squares.shape(), [64, 64]);
/// })?;
/// assert!(kiln_ir::verify(&kernel).is_ok());
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn proxy_fence() {
    effect(ExplicitOp::ProxyFence, |_| Some(vec![]), Location::caller());
}

/// All threads of the task arrive before any goes on.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// use kiln_lang::explicit::*;
/// let tile = shared_tiles::<f32>(1, 64, 32).at(0);
/// tile.put(full((64, 32), val(1.0)), 0);
/// proxy_fence();
/// task_barrier(); // all of the tile is there
/// device_assert!(tile.words().eq(1f32.to_bits()).all());
/// # });
/// ```
#[track_caller]
pub fn task_barrier() {
    effect(ExplicitOp::TaskBarrier, |_| Some(vec![]), Location::caller());
}

// ---- products

/// Begins a · b, plus `acc` where `keep`: the tensor cores read the shared tiles. Factors `[m, k]`
/// and `[k, n]`: m a power of two from 64, k a multiple of 32 bytes, n of 8 up to 256: 80 and 192
/// columns are one instruction as 128 are.
///
/// | factors | sum | |
/// |---|---|---|
/// | both f16, or both bf16 | f32 | |
/// | f32 | f32 | as tf32: the last 13 bits of elements do not count |
/// | E4M3, E5M2, or one of each | f32 | |
/// | i8, u8, or one of each | i32 | wraps |
///
/// Elements of 16 bits may lie either way round in shared memory. Others lie along the inner
/// extent: a is not [transposed](SharedTile::transposed), b is. The sums of 8-bit floats keep fewer
/// bits than an f32 has while products are added to them: add up the products of a long sum in
/// groups, each from zero.
///
/// The result is in flight: it may only go to another product, to a variable and to [`wgmma_wait`].
#[track_caller]
pub fn wgmma<T, U, S: Num>(
    a: SharedTile<T>,
    b: SharedTile<U>,
    acc: Val<S>,
    keep: impl IntoVal<bool>,
) -> Val<S> {
    let (site, keep) = (Location::caller(), keep.into_val());
    Val::from_raw(product([a.untyped(), b.untyped()], acc.raw(), keep.raw(), S::SCALAR, site))
}

fn product([a, b]: [SharedTile<Untyped>; 2], acc: Raw, keep: Raw, sum: Scalar, site: Site) -> Raw {
    if !accumulates(a.tiles.scalar, sum, site) {
        return Raw::Poison;
    }
    let rows = if a.transposed { a.tiles.columns } else { a.tiles.rows };
    let columns = if b.transposed { b.tiles.rows } else { b.tiles.columns };
    let Some(shape) = checked_shape(&[rows, columns], site) else { return Raw::Poison };
    // The IR takes b as [n, k].
    let op = ExplicitOp::Wgmma { transposed_a: a.transposed, transposed_b: !b.transposed };
    let id = with(|r| {
        let mut operands = a.operands(r, site)?;
        operands.extend(b.operands(r, site)?);
        operands.push(r.read_as(keep, &Shape::scalar(), site)?);
        operands.push(r.read_as(acc, &shape, site)?);
        Some(r.op(OpKind::Explicit(op), &operands, Type::tile(sum, shape.clone()), site))
    });
    Raw::of(id.flatten())
}

/// Whether products of elements of a type are summed up in another; else that is an error.
fn accumulates(factor: Scalar, given: Scalar, site: Site) -> bool {
    let sum = factor.accumulator();
    if given != sum {
        error(site, format!("a sum of products of {factor} in {given}"), format!("it is {sum}"));
    }
    given == sum
}

/// Begins a · b as [`wgmma`] does, where a is in registers: `[m, k]`, packed by [`pack_pairs`] to
/// the elements of b, or the [words](SharedTile::words) of a tile of such elements. Computed tiles
/// go to the tensor cores this way without shared memory between.
///
/// A loop loads a factor that it multiplies in every turn itself ([`SharedTile::words`]): one from
/// before the loop is refused as the kernel is compiled, since NVIDIA's assembler may give its
/// registers to other values.
///
/// ```
/// use kiln_lang::explicit::*;
/// use kiln_lang::prelude::*;
///
/// /// tanh(a · b) · b, of square tiles.
/// #[device(crate = kiln_lang)]
/// fn twice(a: SharedTile<bf16>, b: SharedTile<bf16>) -> Val<f32> {
///     let none = zeros::<f32>((64, 64));
///     let first = wgmma_wait(wgmma(a, b, none, false), 0);
///     wgmma_wait(wgmma_registers(pack_pairs::<bf16>(first.tanh()), b, none, false), 0)
/// }
/// ```
#[track_caller]
pub fn wgmma_registers<T, S: Num>(
    a: Val<u32>,
    b: SharedTile<T>,
    acc: Val<S>,
    keep: impl IntoVal<bool>,
) -> Val<S> {
    let (site, keep) = (Location::caller(), keep.into_val());
    Val::from_raw(product_of_registers(a.raw(), b.untyped(), acc.raw(), keep.raw(), S::SCALAR, site))
}

fn product_of_registers(a: Raw, b: SharedTile<Untyped>, acc: Raw, keep: Raw, sum: Scalar, site: Site) -> Raw {
    if !accumulates(b.tiles.scalar, sum, site) {
        return Raw::Poison;
    }
    let columns = if b.transposed { b.tiles.rows } else { b.tiles.columns };
    let op = ExplicitOp::WgmmaRegisters { transposed_b: !b.transposed };
    let id = with(|r| {
        let Type::Tile(tile) = r.ty(a)? else { return None };
        let rows = tile.shape.extents().first().map_or(1, |&rows| rows as usize);
        let shape = checked_shape(&[rows, columns], site)?;
        let mut operands = b.operands(r, site)?;
        operands.push(r.read_as(keep, &Shape::scalar(), site)?);
        operands.push(r.read(a, site)?);
        operands.push(r.read_as(acc, &shape, site)?);
        Some(r.op(OpKind::Explicit(op), &operands, Type::tile(sum, shape), site))
    });
    Raw::of(id.flatten())
}

/// The elements of a tile `[m, n]` rounded to T, f16 or bf16, each two neighbors of a row in one
/// number, the first in its lower half.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// use kiln_lang::explicit::pack_pairs;
/// let pairs = pack_pairs::<bf16>(iota::<f32>(4).reshape([2, 2])); // 0 and 1, 2 and 3
/// device_assert!(pairs.reduce_min().eq(0x3f80_0000) & pairs.reduce_max().eq(0x4040_4000));
/// # });
/// ```
#[track_caller]
pub fn pack_pairs<T: Elem>(tile: Val<f32>) -> Val<u32> {
    let site = Location::caller();
    if !matches!(T::SCALAR, Scalar::F16 | Scalar::BF16) {
        error(site, format!("`pack_pairs` to {}", T::SCALAR), "pack to f16 or bf16");
        return Val::poison();
    }
    let op = ExplicitOp::PackPairs { bf16: T::SCALAR == Scalar::BF16 };
    let id = with(|r| {
        let Type::Tile(of) = r.ty(tile.raw())? else { return None };
        let Some((last, outer)) = of.shape.extents().split_last() else {
            error(site, "`pack_pairs` of a scalar", "give it a tile of two axes");
            return None;
        };
        let mut extents: Vec<usize> = outer.iter().map(|&e| e as usize).collect();
        extents.push(*last as usize / 2);
        let shape = checked_shape(&extents, site)?;
        let operand = r.read(tile.raw(), site)?;
        Some(r.op(OpKind::Explicit(op), &[operand], Type::tile(Scalar::U32, shape), site))
    });
    Val::from_id(id.flatten())
}

/// 2 to the power of each element, zero where that is not a normal number: one instruction, where
/// [`Val::exp2`] takes four.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// use kiln_lang::explicit::exp2_flushed;
/// let y = exp2_flushed(iota::<f32>(4) * -50.0); // 1, 2^-50, 2^-100, and not 2^-150
/// device_assert!(y.reduce_max().eq(1.0) & y.eq(0.0).cast::<i32>().sum().eq(1));
/// # });
/// ```
#[track_caller]
pub fn exp2_flushed(x: Val<f32>) -> Val<f32> {
    let site = Location::caller();
    let id = with(|r| {
        let (operand, ty) = (r.read(x.raw(), site)?, r.ty(x.raw())?);
        Some(r.op(OpKind::Explicit(ExplicitOp::Exp2Flushed), &[operand], ty, site))
    });
    Val::from_id(id.flatten())
}

/// Waits until all but the last `pending` products that this task began are done. What it gives is
/// there to be used if the product is: with 0, or if so many products began after it, in the same
/// block of code.
#[track_caller]
pub fn wgmma_wait<S: Num>(product: Val<S>, pending: usize) -> Val<S> {
    let site = Location::caller();
    let op = ExplicitOp::WgmmaWait { pending: number("the number of products", pending, site) };
    let id = with(|r| {
        let (product, ty) = (r.read(product.raw(), site)?, r.ty(product.raw())?);
        Some(r.op(OpKind::Explicit(op), &[product], ty, site))
    });
    Val::from_id(id.flatten())
}
