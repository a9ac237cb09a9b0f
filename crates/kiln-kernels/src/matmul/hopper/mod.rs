//! The product of matrices on a Hopper GPU, at the explicit level.
//!
//! Programs are persistent and go through the tiles of c, in clusters of neighbors. In each, one
//! task copies tiles of a and b into a ring of stages; the others multiply what has arrived, each
//! for rows of its own, and store the sums, while the copies for the next tile are already under
//! way. The multiplying tasks do not wait for each other: one stores while the other multiplies.
//! What a tile's sums become may also wait in registers, and be stored while the tensor cores have
//! the first products of the next tile. The blocks of a cluster stand one above the other and need
//! the same tile of b, or side by side and need the same tile of a: each copies a part of it, into
//! all of them.
//!
//! | file | holds |
//! |---|---|
//! | `plan.rs` | how a product is divided |
//! | `jobs.rs` | which tiles a program computes, and which steps of them |
//! | `ring.rs` | the ring of stages, and the task that fills it |
//! | `multiply.rs` | the tasks that multiply |
//! | `deliver.rs` | the way of results to memory |
//!
//! ```
//! use half::bf16;
//! use kiln_kernels::matmul::epilogue::Identity;
//! use kiln_kernels::matmul::hopper::{MatmulPlan, matmul, stream_k};
//!
//! // The interpreter runs the kernel, too: a 64 x 64 product, in one tile.
//! let device = kiln_runtime::Device::open("interp")?;
//! let a = device.tensor(&[bf16::ONE; 4096], [1, 64, 64])?;
//! let mut c = device.uninit::<f32, 3>([1, 64, 64])?;
//! let plan = MatmulPlan { bulk: false, ..MatmulPlan::PLAIN };
//! matmul::<_, _, _, Identity>(&a, &a, &mut c, Identity, plan).grid([1, 1, 1]).launch(&device)?;
//! assert_eq!(c.to_vec()?, [64.0; 4096]);
//!
//! // By stream-K, programs go through tiles, and have memory for sums that they leave for each other.
//! let plan = MatmulPlan { group: 1, streamed: 1, ..plan };
//! let mut parts = device.zeros::<f32, 1>([plan.parts(1)])?;
//! let mut signals = device.zeros([plan.tasks])?;
//! let mut again = device.uninit::<f32, 3>([1, 64, 64])?;
//! stream_k::<_, _, _, Identity>(&a, &a, &mut again, &mut parts, &mut signals, Identity, plan)
//!     .grid([1])
//!     .launch(&device)?;
//! assert_eq!(again.to_vec()?, c.to_vec()?);
//! # Ok::<(), kiln_runtime::Error>(())
//! ```

mod deliver;
mod jobs;
mod multiply;
mod plan;
mod ring;

pub use plan::MatmulPlan;

use super::epilogue::{Epilogue, TilePosition};
use super::factor::Factor;
use super::stream::Exchange;
use deliver::Delivery;
use jobs::{Corner, Jobs};
use kiln_lang::Untyped;
use kiln_lang::explicit::*;
use kiln_lang::param::KernelParam;
use kiln_lang::prelude::*;
use kiln_runtime::Tensor;
use ring::{Ring, Tiles};

/// c = a · b through the epilogue, for stacks of matrices. No extent is 0, and a and b are such as
/// bulk copies can move: elements adjacent on the last axis, rows and matrices in multiples of 16
/// bytes; so is c if it is stored in bulk. Elements that are not of 16 bits lie along the inner
/// extent: a is not transposed, b is. Launch it with a multiple of `plan.cluster` programs on axis
/// 0, as many as run at once; or, with a `group` of 0, with one for each row of tiles on axis 0,
/// each column on axis 1, the other way round for clusters side by side, and each matrix of c on
/// axis 2.
#[kernel(crate = kiln_runtime, contract)]
pub fn matmul<T: Factor, U: Factor<Sum = T::Sum, Family = T::Family>, O: Numeric, E: Epilogue<T::Sum>>(
    a: &Tensor<T, 3>,
    b: &Tensor<U, 3>,
    c: &mut Tensor<O, 3>,
    epilogue: E,
    plan: MatmulPlan,
) {
    let results = Through::<O, E> { epilogue: &epilogue, c };
    product::<T, U, O>(a, b, c, &results, plan, None);
}

/// [`matmul`] with rounds of tiles whose steps are divided among all programs. `parts` has
/// [room](MatmulPlan::parts) for sums that programs leave for each other; `signals` have a number
/// for each task of each program that multiplies: 0 before and after. Launch it with at most as
/// many programs on axis 0 as run at once, alone. A tile's sums may be added up in another order
/// than by `matmul`, but always in the same.
#[kernel(crate = kiln_runtime, contract)]
pub fn stream_k<T: Factor, U: Factor<Sum = T::Sum, Family = T::Family>, O: Numeric, E: Epilogue<T::Sum>>(
    a: &Tensor<T, 3>,
    b: &Tensor<U, 3>,
    c: &mut Tensor<O, 3>,
    parts: &mut Tensor<T::Sum, 1>,
    signals: &mut Tensor<u32, 1>,
    epilogue: E,
    plan: MatmulPlan,
) {
    let MatmulPlan { rows, columns, tasks, halves, .. } = plan;
    let shape = [rows / tasks, columns / halves];
    let exchange = Exchange { parts, signals, tasks, halves, shape };
    let results = Through::<O, E> { epilogue: &epilogue, c };
    product::<T, U, O>(a, b, c, &results, plan, Some(exchange));
}

/// What a tile of sums becomes, behind functions whose types name neither the epilogue nor the
/// element types: what multiplies is long, and is compiled once for each type of sums.
trait Results<S: Num> {
    /// Results rounded to c's elements of 16 bits, by pairs.
    fn pairs(&self, sums: Val<S>, place: &TilePosition) -> Val<u32>;

    /// Results as elements of c.
    fn elements(&self, sums: Val<S>, place: &TilePosition) -> Val<Untyped>;

    /// Stores results from registers.
    fn store(&self, sums: Val<S>, place: &TilePosition, corner: Corner);
}

/// Results of type `O` that an epilogue gives.
struct Through<'a, O, E: KernelParam> {
    epilogue: &'a E::Traced,
    c: ViewMut<O, 3>,
}

impl<S: Num, O: Numeric, E: Epilogue<S>> Results<S> for Through<'_, O, E> {
    fn pairs(&self, sums: Val<S>, place: &TilePosition) -> Val<u32> {
        pack_pairs::<O>(E::apply(self.epilogue, sums, place).cast::<f32>())
    }

    fn elements(&self, sums: Val<S>, place: &TilePosition) -> Val<Untyped> {
        E::apply(self.epilogue, sums, place).cast::<O>().untyped()
    }

    fn store(&self, sums: Val<S>, place: &TilePosition, (matrix, row, column): Corner) {
        let result = E::apply(self.epilogue, sums, place).cast::<O>();
        let tile = self.c.row(matrix).tile((row, column), (place.shape[0], place.shape[1]));
        // SAFETY: every tile of c has one number, and one task of one program takes it.
        unsafe { tile.store_overlapping(result) };
    }
}

/// What both do.
fn product<T: Factor, U: Factor<Sum = T::Sum, Family = T::Family>, O: Numeric>(
    a: View<T, 3>,
    b: View<U, 3>,
    c: ViewMut<O, 3>,
    results: &dyn Results<T::Sum>,
    plan: MatmulPlan,
    exchange: Option<Exchange<T::Sum>>,
) {
    cluster(plan.cluster);
    let tiles = Tiles::new::<T, U>(&plan);
    let strip = MatmulPlan::strip(size_of::<O>());
    let buffers = plan.bulk.then(|| shared_tiles::<O>(2 * plan.tasks, plan.task_rows(), strip).untyped());
    let buffers = Buffers { tiles: buffers, strip };
    tasks_of_product([a.untyped(), b.untyped()], (c.untyped(), buffers), tiles, results, plan, exchange);
}

/// Where results wait for bulk copies, if they do, and how many columns of them at a time.
struct Buffers {
    tiles: Option<SharedTiles<Untyped>>,
    strip: usize,
}

/// The tasks, once tiles and buffers are there.
fn tasks_of_product<S: Num>(
    [a, b]: [View<Untyped, 3>; 2],
    (c, Buffers { tiles: buffers, strip }): (ViewMut<Untyped, 3>, Buffers),
    tiles: Tiles,
    results: &dyn Results<S>,
    plan: MatmulPlan,
    exchange: Option<Exchange<S>>,
) {
    let ring = Ring::new(tiles, plan);
    let inner = if plan.a_transposed { a.extent(1) } else { a.extent(2) };
    let jobs = Jobs::new(inner, c, plan, exchange.is_some());
    // Found while the mbarriers are made.
    let beginning = jobs.job(jobs.first);
    tasks()
        .task(4, plan.registers[1], || ring::copy(a, b, ring, jobs, beginning))
        .copies(plan.tasks, 4, plan.registers[0], || {
            let delivery = Delivery { c, buffers, task: task_rank(), columns: plan.columns, strip };
            multiply::multiply(ring, jobs, delivery, results, exchange);
        })
        .run();
}
