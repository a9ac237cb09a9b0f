//! Passes over Kiln IR: canonicalization, analyses, layouts and the lowering from tiles to threads.
//!
//! A kernel goes through the passes that [`pipeline`] lists for its target: [`optimize`] and, for
//! GPUs, [`expand::expand`], [`warp_specialize`] and [`lower_to_threads`]. Each takes and gives a
//! kernel that [`kiln_ir::verify`] accepts. No pass changes what a kernel means: the interpreter
//! runs what any of them gives, which is how they are tested.
//!
//! | module | holds |
//! |---|---|
//! | [`pipeline`] | which passes a kernel goes through for each target |
//! | [`passes`], `opt` | canonicalization, folding, CSE, dead code, loop invariants |
//! | [`analysis`] | what the launch must know: which part of a tensor a program writes |
//! | `fault_region` | faults as values, in terms of `if` and loops |
//! | [`expand`] | elementary functions in terms of arithmetic |
//! | `legalize` | tiles of any extents in terms of tiles whose extents are powers of two |
//! | [`layout`] | which thread and register holds which element; layout conversions |
//! | `warp_specialize` | loops of products with a task that copies |
//! | `lower` | from tiles to threads |
//! | `adjacent` | adjacent accesses of a thread as one |
//! | `async_copies` | loads and asynchronous stores as copies in flight |
//! | `address` | from linear indices of views to addresses |
//! | `promote` | integers of 8 and 16 bits in terms of those of 32 |
//! | `widen` | products of 8-bit numbers where no matrix unit multiplies them |
//! | `target`, `error` | what is known of a device; why a kernel cannot be compiled |
//!
//! # Tiles of any extents
//!
//! Extents are any positive numbers. Layouts are maps of bits and support powers of two alone, so
//! for GPUs `legalize` rewrites the kernel: an extent is the sum of its powers of two, a tile the
//! product of its axes' parts, and an operation becomes one for each part. Which parts a tile has
//! follows from its shape, so nothing is converted between them. Only a reshape whose parts are
//! other runs of elements goes through shared memory. What follows sees ordinary tiles. At the
//! explicit level a product remains one instruction of all its columns, whose sums are tiles side
//! by side.
//!
//! # Products
//!
//! Products of floats of 8 and 16 bits, of 8-bit integers and, where a precision says so, of f32 as
//! tf32 go to matrix units where a GPU has them and the extents are multiples of 16 x 8 x 32 bytes
//! (`lower/products.rs`). The layouts of a product's operands are those of its fragments
//! (`layout/fragments.rs`), so what is computed along its rows and what is multiplied next stay in
//! registers.
//!
//! A loop whose loads feed products alone is pipelined (`lower/pipeline.rs`). Those tiles never
//! enter registers: they lie in swizzled slots of shared memory, in as many stages as are in
//! flight. Products of f32 in full precision stay fused multiply-adds. Those of 8-bit numbers that
//! no unit multiplies are converted first, to f16 or i32 (`widen.rs`, for CPUs too). Units
//! transpose elements of 16 bits alone; other factors lie along the depth in their slots, where
//! threads put them if memory has them the other way round. Sums of 8-bit floats keep few bits in
//! the units, so every 128 products at most are added up outside, unless the precision allows fewer
//! bits.
//!
//! On compute capability 9.0 a product with 64 rows for each four warps is one of warpgroups
//! (`lower/warpgroups.rs`). `wgmma` reads the slots, whose swizzles are those of its descriptors,
//! behind a proxy fence and the barrier. Where a loop only adds up such products of its stages,
//! those of one round are in flight while the next begins (`lower/in_flight.rs`), and their stage
//! is free one round later. All others are waited for at once. If the assembler reports that
//! products would wait for each other, the kernel is compiled again without warpgroups.
//! [`explain_layouts`] prints which products and loads those are.
//!
//! # Warp specialization
//!
//! On compute capability 9.0, `warp_specialize` divides a kernel over tiles into tasks: where loops
//! load tiles for products alone, from views that bulk tensor copies can move (the specialization's
//! facts say so), it writes operations of the explicit level. One warp copies boxes into a ring of
//! stages; the warpgroups multiply what has arrived and do everything else. Nothing below depends
//! on it, and the interpreter checks the order of what it writes. Copies see views by rows or by
//! columns; an empty view is one zero to them. Which loops gain is a rule from measurements
//! (`warp_specialize/eligibility.rs`, `bench/notes.md`). If the assembler serializes products in
//! tasks, the kernel is compiled again without.
//!
//! # The explicit level
//!
//! A task is lowered as a program of its warps, of which copies may run side by side. A task
//! without tiles is the work of one thread. Tensor maps are no parameters of the user: the emitter
//! lists which views are copied in which boxes, and the backend makes the maps from the words of a
//! launch. Tiles go between registers and shared tiles (`lower/shared_store.rs`) by `stmatrix` and
//! `ldmatrix` where threads hold the fragments of products. Programs of a launch may wait for
//! *signals* of those before them, which the GPU begins earlier: never for one that it may have no
//! room for.
//!
//! # Deferred faults
//!
//! On a GPU a thread that fails a check leaves, unless others wait for it. In kernels with tasks,
//! signals or products of warpgroups the lowering defers faults (`lower/deferred_faults.rs`): the
//! fault is recorded at once and the thread goes on without harm. What lies outside a view is
//! masked, a divisor of zero is one, unchecked accesses that come after do nothing, `while` loops
//! end and `for` loops do not begin, except those whose rounds others count on. So all mbarriers
//! get their arrivals and all signals are taken: a launch with a fault ends like any other. A
//! `while` loop that waits and has a check inside is refused by name.
//!
//! `fault_region` turns fault regions into `if`s and loop conditions before all other passes, for
//! the backends that do not run them as they are.

mod address;
mod adjacent;
pub mod analysis;
mod async_copies;
mod error;
pub mod expand;
mod fault_region;
pub mod layout;
mod legalize;
mod lower;
mod opt;
pub mod passes;
pub mod pipeline;
mod promote;
mod target;
mod warp_specialize;
mod widen;

pub use analysis::{GridRule, Partition, Unproven, UnsafeOp, make_safe, partition, promise};
pub use error::CompileError;
pub use legalize::legalize_tiles;
pub use lower::{explain_layouts, lower_to_threads};
pub use passes::optimize;
pub use promote::promote;
pub use target::{IndexWidth, Target, TargetKind, WARP};
pub use warp_specialize::{NotSpecialized, warp_specialize};
pub use widen::widen_products;
