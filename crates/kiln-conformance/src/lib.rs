//! What every Kiln device must do: one suite of cases, written in the kernel language, for all
//! backends.
//!
//! A case computes its own reference on the host, in `f64` or in integers, from fresh random input,
//! fills outputs with garbage beforehand, and compares every element. `kiln selftest` runs the
//! suite on any device; `tests/` runs it on those that every machine has, and on the code that GPUs
//! get, without a GPU.
//!
//! | file | holds |
//! |---|---|
//! | `case.rs` | [`Case`], [`Outcome`], running a case |
//! | `trial.rs` | a case's random input, its comparisons |
//! | `elementwise.rs`, `arithmetic.rs`, `math.rs`, `casts.rs` | element-wise operations |
//! | `four_bits.rs` | integers and floats of four bits |
//! | `exact.rs` | arithmetic that has Rust's bits on every device |
//! | `shapes.rs`, `reduce.rs`, `scan.rs`, `dot.rs` | operations on tiles |
//! | `rearrange.rs`, `combine_with.rs` | moving elements of tiles, reductions with any function |
//! | `ranks.rs`, `random.rs` | sorting, counting, softmax; random numbers |
//! | `matrix_units*.rs` | products on matrix units |
//! | `extents.rs`, `odd_shapes.rs` | tiles, blocks and tensors of any extents |
//! | `explicit.rs` | asynchronous copies and products, tasks, clusters |
//! | `explicit_copies.rs` | bulk copies of vectors and of five axes, sums in memory, prefetches |
//! | `explicit_narrow.rs` | products of tf32, 8-bit floats and 8-bit integers |
//! | `explicit_registers.rs` | factors from registers, packed results |
//! | `explicit_signals.rs` | programs that wait for each other |
//! | `explicit_faults.rs` | faults where others wait |
//! | `explicit_attention.rs` | products from registers, copies of a task, attention |
//! | `explicit_attention_gradients.rs` | the gradients of attention |
//! | `memory.rs` | boxes, gather and scatter, strides, local arrays |
//! | `made_views.rs` | views that a kernel makes |
//! | `flow.rs`, `language.rs` | control flow; structs, closures, generics, constants |
//! | `functions.rs`, `integers.rs`, `parts_of_floats.rs` | functions that are made of operations |
//! | `directions.rs` | rounding in a direction |
//! | `threads.rs`, `atomics.rs`, `uniform.rs` | the threads of a block |
//! | `warps.rs`, `blocks.rs` | what lanes and threads do together |
//! | `async_copies.rs` | copies from global to shared memory in flight |
//! | `ordered.rs` | what blocks hand each other |
//! | `clusters.rs` | what the blocks of a cluster do |
//! | `grid.rs` | what all blocks of a launch do |
//! | `library*.rs`, `products*.rs`, `attention.rs`, `decoding.rs` | kernels of `kiln-kernels` |
//! | `faults.rs`, `prints.rs` | what a kernel reports |
//! | `fault_regions.rs` | faults that a kernel survives |
//! | `hints.rs` | hints, and assumptions that are checked |
//! | `launch.rs`, `tensors.rs`, `streams.rs` | the runtime: bad input, data movement, order |
//! | `graphs.rs` | work that is recorded once and replayed |
//! | `tuning.rs` | choosing among configurations of kernels |
//! | `actors*.rs`, `priorities.rs`, `transports.rs` | ring kernels: messages, faults, bad input |
//! | `telemetry.rs` | what is reported of ring kernels |
//! | `supervision.rs`, `checkpoints.rs` | ring kernels that fail, move and change |

mod actors;
mod actors_bad_input;
mod actors_beside;
mod actors_clusters;
mod actors_conversations;
mod actors_faults;
mod actors_inline;
mod actors_links;
mod actors_many;
mod actors_payload;
mod actors_references;
mod actors_tiles;
mod arithmetic;
mod async_copies;
mod atomics;
mod attention;
mod blocks;
mod case;
mod casts;
mod checkpoints;
mod clusters;
mod combine_with;
mod decoding;
mod directions;
mod dot;
mod elementwise;
mod exact;
mod explicit;
mod explicit_attention;
mod explicit_attention_gradients;
mod explicit_copies;
mod explicit_extents;
mod explicit_faults;
mod explicit_narrow;
mod explicit_registers;
mod explicit_signals;
mod extents;
mod fault_regions;
mod faults;
mod flow;
mod four_bits;
mod functions;
mod graphs;
mod grid;
mod hints;
mod integers;
mod language;
mod launch;
mod library;
mod library_create;
mod library_rows;
mod library_sort;
mod made_views;
mod math;
mod matrix_units;
mod matrix_units_copied;
mod matrix_units_narrow;
mod memory;
mod odd_shapes;
mod ordered;
mod parts_of_floats;
mod prints;
mod priorities;
mod products;
mod products_large;
mod random;
mod ranks;
mod rearrange;
mod reduce;
mod scan;
mod shapes;
mod streams;
mod supervision;
mod telemetry;
mod tensors;
mod threads;
mod transports;
mod trial;
mod tuning;
mod uniform;
mod warps;

pub use case::{Case, Outcome};

/// Every case, group by group.
pub fn suite() -> Vec<Case> {
    let groups: &[fn() -> Vec<Case>] = &[
        arithmetic::cases,
        math::cases,
        functions::cases,
        integers::cases,
        parts_of_floats::cases,
        directions::cases,
        casts::cases,
        four_bits::cases,
        exact::cases,
        shapes::cases,
        rearrange::cases,
        reduce::cases,
        scan::cases,
        combine_with::cases,
        ranks::cases,
        random::cases,
        dot::cases,
        matrix_units::cases,
        extents::cases,
        odd_shapes::cases,
        matrix_units_narrow::cases,
        matrix_units_copied::cases,
        explicit::cases,
        explicit_copies::cases,
        explicit_attention::cases,
        explicit_attention_gradients::cases,
        explicit_narrow::cases,
        explicit_registers::cases,
        explicit_signals::cases,
        explicit_extents::cases,
        explicit_faults::cases,
        memory::cases,
        hints::cases,
        made_views::cases,
        flow::cases,
        language::cases,
        threads::cases,
        warps::cases,
        blocks::cases,
        atomics::cases,
        async_copies::cases,
        ordered::cases,
        clusters::cases,
        grid::cases,
        uniform::cases,
        faults::cases,
        fault_regions::cases,
        prints::cases,
        library::cases,
        library_create::cases,
        library_rows::cases,
        library_sort::cases,
        products::cases,
        products_large::cases,
        attention::cases,
        decoding::cases,
        launch::cases,
        tensors::cases,
        streams::cases,
        graphs::cases,
        tuning::cases,
    ];
    // Ring kernels.
    let resident: &[fn() -> Vec<Case>] = &[
        actors::cases,
        actors_links::cases,
        actors_clusters::cases,
        actors_conversations::cases,
        priorities::cases,
        actors_faults::cases,
        actors_inline::cases,
        transports::cases,
        actors_payload::cases,
        actors_references::cases,
        actors_tiles::cases,
        actors_bad_input::cases,
        actors_beside::cases,
        actors_many::cases,
        supervision::cases,
        telemetry::cases,
        checkpoints::cases,
    ];
    let resident = resident.iter().flat_map(|group| group()).map(Case::resident);
    groups.iter().flat_map(|group| group()).chain(resident).collect()
}

/// Cases of any sizes, large ones too: a check of a device that takes minutes without a GPU, apart
/// from the [`suite`].
pub fn sweep() -> Vec<Case> {
    [
        odd_shapes::large_cases(),
        library_rows::large_cases(),
        library_sort::large_cases(),
        products_large::large_cases(),
        attention::large_cases(),
    ]
    .concat()
}
