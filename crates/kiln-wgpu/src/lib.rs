//! GPUs through Vulkan, Metal and DX12 as Kiln devices: thread IR as modules of naga, which wgpu
//! runs.
//!
//! [`Wgpu`] is the device; `device/mod.rs` has its chapter. [`compile`] takes a kernel that was
//! lowered to threads and gives a [`Module`]: a `naga::Module` that naga's validator has accepted,
//! and what a launch has to bind. The module is built directly, without text.
//!
//! | file | holds |
//! |---|---|
//! | `device/` | memory, streams, launches, reports |
//! | `features.rs` | what an adapter has that not every adapter has |
//! | `module.rs` | the module, its entry point and its bindings |
//! | `spirv/`, `finishing.rs`, `float_modes.rs` | SPIR-V as drivers of Vulkan get it |
//! | `language.rs` | the module as WGSL, SPIR-V, MSL and HLSL |
//! | `parameters.rs`, `uniform.rs` | offsets, extents, strides and scalars that a launch fills |
//! | `writer.rs` | the module under construction: values, errors |
//! | `body.rs`, `functions.rs` | expressions and statements; functions beside the entry point |
//! | `types.rs`, `words.rs` | which type of naga holds an element type; elements in words |
//! | `operation.rs`, `refused.rs` | what each operation becomes, or why it is refused |
//! | `arith.rs`, `bits.rs`, `extrema.rs` | element-wise operations |
//! | `long.rs`, `pairs.rs`, `pair_functions.rs` | 64-bit integers as pairs of words |
//! | `exact.rs`, `multiply_adds.rs` | floats that are exact whatever a driver does |
//! | `quotients.rs`, `powers.rs` | quotients, roots and powers of two, likewise |
//! | `cast.rs`, `codes.rs` | conversions; floats of 8 and 16 bits as words |
//! | `control.rs` | `if`, `for`, `while` |
//! | `rounds.rs`, `loop_end.rs` | loops that a driver ends before they are done |
//! | `regions.rs`, `declare.rs` | how views, allocations and scratch memory lie in variables |
//! | `memory.rs`, `cells.rs`, `access.rs` | loads and stores; of an element; at several indices |
//! | `together.rs` | loads of a loop's round behind one branch |
//! | `atomics.rs` | atomic operations |
//! | `threads.rs` | indices, barriers |
//! | `agreement.rs` | conditions that decide about barriers |
//! | `matrices/` | products of f16 on matrix units |
//! | `narrow.rs` | indices in 32 bits |
//! | `dispatch.rs` | grids that an adapter cannot dispatch |
//! | `lanes.rs` | shuffles and votes |
//! | `exit_points.rs`, `leave.rs` | where a thread that failed a check leaves, and how |
//! | `faults.rs`, `records.rs`, `report.rs` | checks and prints; what they write; what it means |
//!
//! # Memory
//!
//! There are no addresses. Each view is a storage buffer of its own binding in one bind group, with
//! an element offset; allocations of a block are workgroup variables. An array has the type of its
//! elements where all accesses agree on one that an adapter can store. Elements of 8 and 16 bits,
//! floats that atomics change, and scratch memory seen under several types lie in arrays of 32-bit
//! words. A store of a part of a word clears and sets its bits by two atomic operations: other
//! threads' bits in that word stay.
//!
//! # Faults
//!
//! A module that can fault or print has a storage buffer more, the *report*. The first thread to
//! fail a check claims its record and fills it in; every thread that fails one leaves, but not
//! while others wait for it at a barrier (`leave.rs` shows how). [`read_report`] makes values of
//! the words.
//!
//! # Values
//!
//! A value is an expression, emitted once where its operation stands. Results of `if` and what
//! loops carry are local variables, as naga has no block arguments. `bf16` is held as `f32`, 8-bit
//! integers as 32-bit ones, and 8-bit floats as their bits in a word; so is `f16` where the adapter
//! has none. 64-bit integers are vectors of two words where the adapter has none. Infinities and
//! NaN are no literals: their bits come from a variable.
//! NaN is found by its bits, since WGSL lets a compiler assume that there is none.
//!
//! # Warps
//!
//! Lanes of a warp exchange values through workgroup memory, unless the adapter's subgroups are as
//! wide as the warps that the kernel was lowered for. Then they are subgroup operations, and a
//! thread's index follows from its subgroup and lane.
//!
//! # What is not exact
//!
//! Subnormal numbers may be flushed, unless the driver takes SPIR-V that asks for them
//! ([`Features::float_modes`]). Sums, products and multiply-adds are exact where the driver keeps
//! floats as they are written, or is kept from doing otherwise ([`Features::exact_floats`];
//! multiply-adds that have no wider type, those of f64 and f32 without f64, may be rounded twice
//! where the result is subnormal). Quotients and square roots of f32 are corrected where the
//! driver's are not the nearest numbers; those of f64 are the driver's. `dot` asks for
//! no multiply-adds: where they are computed from parts, it rounds products and sums. In HLSL, naga
//! loses bit casts between f64 and integers.
//!
//! # What is not there
//!
//! Clocks, orders among workgroups, 64-bit atomics and the explicit level are refused by name.
//! Without 64-bit integers, indices are held in 32 bits, and a launch of which one does not fit is
//! refused (`narrow.rs`); all others are pairs of words (`pairs.rs`), and f64 is refused.

mod access;
mod agreement;
mod arith;
mod atomics;
mod bits;
mod body;
mod cast;
mod cells;
mod codes;
mod control;
mod declare;
mod device;
mod dispatch;
mod exact;
mod exit_points;
mod extrema;
mod faults;
mod features;
// Read where SPIR-V is written.
#[cfg_attr(
    not(any(
        feature = "languages",
        windows,
        target_os = "linux",
        target_os = "android",
        target_os = "freebsd"
    )),
    allow(dead_code)
)]
mod finishing;
#[cfg_attr(
    not(any(
        feature = "languages",
        windows,
        target_os = "linux",
        target_os = "android",
        target_os = "freebsd"
    )),
    allow(dead_code)
)]
mod float_modes;
mod functions;
mod lanes;
#[cfg(feature = "languages")]
mod language;
mod leave;
mod long;
mod loop_end;
mod matrices;
mod memory;
mod module;
mod multiply_adds;
mod narrow;
mod operation;
mod pair_functions;
mod pairs;
mod parameters;
mod powers;
mod quotients;
mod records;
mod refused;
mod regions;
mod report;
mod rounds;
#[cfg(any(
    feature = "languages",
    windows,
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd"
))]
mod spirv;
mod threads;
mod together;
mod types;
mod uniform;
mod words;
mod writer;

pub use device::{
    Adapter, ShaderTarget, Wgpu, adapters, canonical_name, capabilities, is_name, lowered, optional_features,
    shader,
};
pub use dispatch::Dispatch;
pub use features::{Features, MatrixSize};
pub use float_modes::{FloatModes, Widths};
#[cfg(feature = "languages")]
pub use language::{Language, Written};
pub use module::{Binding, Module, compile};
pub use parameters::{Field, Parameter};
pub use report::{REPORT_WORDS, Report, Reported, read_report};
