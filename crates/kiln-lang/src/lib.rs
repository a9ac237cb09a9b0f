//! The embedded kernel language: handles that record IR while a kernel is traced.
//!
//! A kernel is a Rust function over device values. `#[kernel]` rewrites control flow, comparison,
//! assignment and `&&`/`||`; the rest is ordinary Rust that runs once, when the kernel is
//! specialized, and records IR through [`Val`] handles. Host values (`usize`, `bool`, an enum) are
//! compile-time constants of the specialization: `if` on one picks an arm, `for` over one unrolls.
//! `if` and `for` on device values become control flow of the IR.
//!
//! ```
//! use kiln_lang::prelude::*;
//!
//! #[device(crate = kiln_lang)]
//! fn relu_sum(row: View<f32, 1>, block: usize, twice: bool) -> Val<f32> {
//!     let mut total: Val<f32> = 0.0;
//!     for start in (0..row.extent(0)).step_by(block) {   // a device bound: a loop of the IR
//!         let v = row.tile(start, block).load(0.0);
//!         total += v.maximum(0.0).sum();
//!     }
//!     if twice { total * 2.0 } else { total }             // a host bool: decided now
//! }
//!
//! let kernel = trace("k", Level::Tile { warps: None }, |p| {
//!     let x = p.view::<f32, 2>("x", Default::default());
//!     let y = p.view_mut::<f32, 1>("y", Default::default());
//!     let row = program_id(0);
//!     y.tile(row, 1).store(relu_sum(x.row(row), 128, true));
//! })?;
//! # Ok::<(), kiln_lang::TraceErrors>(())
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `elem`, `val` | element types, the handle |
//! | `ops` | operators, mathematics, shapes, reductions, scans, `dot` |
//! | `view`, `memory` | tensors, shared and local memory |
//! | `thread` | ids, barriers, shuffles, votes |
//! | `warp`, `block` | what the lanes of a warp and the threads of a block do together |
//! | `time` | clocks, rest |
//! | `ptx` | PTX in a kernel, for NVIDIA GPUs alone |
//! | [`explicit`] | asynchronous copies and products, mbarriers, tasks (Hopper GPUs) |
//! | `diag`, `assume` | `device_assert!`, `device_print!`; what the user knows |
//! | `flow` | what control flow becomes |
//! | `explain` | what newcomers write, and what to write instead |
//! | `trace` | recording, exits, variables to SSA |
//! | `param` | parameters: the contract with a runtime |

mod assume;
mod block;
pub mod diag;
mod elem;
mod explain;
pub mod explicit;
#[doc(hidden)]
pub mod flow;
mod memory;
mod ops;
pub mod param;
mod ptx;
mod thread;
mod time;
mod trace;
mod val;
mod view;
mod warp;

pub use assume::assume;
pub use block::*;
pub use elem::{Bits, Elem, Float, HostNumber, Int, Num, Number, Numeric, Ordered, Untyped, Word};
pub use flow::{
    Anchor, Condition, DeviceRange, DeviceValue, IntoDevice, RangeBounds, fault_region, fault_region_into,
    range, range_step,
};
pub use half::{bf16, f16};
pub use kiln_ir::{E4M3, E5M2};
pub use kiln_ir::{Level, Order, Precision, Scope};
pub use kiln_macros::{DeviceValue, KernelConst, Record, device, kernel};
pub use memory::{Local, Shared, local, shared};
pub use ops::{
    Accumulate, AlongAxis, AnyVal, BlockScaled, Combine, Float8, Int8, IntoShape, dot, dot_acc, dot_scaled,
    dot_with, full, iota, philox, rand, randint, randint4x, randn, select, zeros,
};
pub use param::trace;
pub use ptx::{PtxInputs, ptx, ptx_effect};
pub use thread::*;
pub use time::{clock_cycles, clock_ns, sleep_ns};
pub use trace::{TraceError, TraceErrors, record_names, traced_now};
pub use val::{Idx, IntoIndex, IntoVal, Tile, Val, val};
pub use view::{
    AtomicOrder, Atomics, Field, Half, Indices, LocalRecords, Offsets, OwnIndex, Record, RecordView,
    RecordViewMut, SharedRecords, ThreadIndex, TileView, TileViewMut, View, ViewMut, commit_copies,
    local_records, shared_records, thread_index, thread_index_2d, thread_index_3d, wait_copies,
};
pub use warp::*;

/// Everything a kernel uses.
pub mod prelude {
    pub use crate::{
        Accumulate, AlongAxis, AtomicOrder, Bits, BlockScaled, Combine, DeviceValue, E4M3, E5M2, Elem, Float,
        Half, Idx, Int, IntoIndex, IntoVal, KernelConst, LaneGroup, Level, Local, LocalRecords, Num, Numeric,
        Order, Record, RecordView, RecordViewMut, Scope, Shared, SharedRecords, ThreadIndex, Tile, Val, View,
        ViewMut, Word, active_mask, assume, ballot, barrier, barrier_and, barrier_count, barrier_or, bf16,
        block_broadcast, block_dim, block_exclusive_scan, block_exclusive_sum, block_histogram,
        block_inclusive_scan, block_inclusive_sum, block_max, block_min, block_reduce, block_sort,
        block_sort_by, block_sum, block_tile, block_tile_of, block_uniform, blocked_to_striped, clock_cycles,
        clock_ns, commit_copies, device, device_assert, device_print, dot, dot_acc, dot_scaled, dot_with,
        f16, fault_region, fence, fence_block, fence_system, full, grid_barrier, iota, kernel, lane_group,
        lane_id, lane_in, local, local_records, match_all, match_any, num_programs, own_element,
        own_elements, philox, program_id, ptx, ptx_effect, rand, randint, randint4x, randn, range,
        range_step, select, shared, shared_records, shuffle_down, shuffle_idx, shuffle_up, shuffle_xor,
        sleep_ns, striped_to_blocked, sync_warp, sync_warp_mask, thread_id, thread_index, thread_index_2d,
        thread_index_3d, trace, val, vote_all, vote_any, wait_copies, warp, warp_id, zeros,
    };
}

/// Traits that nothing on the device has: where code needs one, the compiler gives its message,
/// which says what to write instead.
///
/// ```compile_fail,E0277
/// use kiln_lang::prelude::*;
///
/// #[device(crate = kiln_lang)]
/// fn halved(x: Val<i32>) -> Val<f32> {
///     x as f32 * 0.5 // error: `as` does not cast device values … write `x.cast::<f32>()`
/// }
/// ```
pub mod mistakes {
    pub use crate::explain::{Iterable, Optional, Subscript, Writable};
    pub use crate::flow::compare::OfNumber;
    pub use crate::flow::refuse::{Castable, Formattable, HostCondition, HostOperand, LoopSource, Matchable};
}

/// What the macros name. No part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use crate::diag::AssertProbe;
    pub use crate::elem::Elem;
    pub use crate::flow::branch::{Branch, JoinProbe, LikeProbe, after_exit, branch};
    pub use crate::flow::compare::{CompareProbe, LiteralLeft, WideProbe, of_number};
    pub use crate::flow::condition::Condition;
    pub use crate::flow::exit::{
        Block, Slot, SlotLike, SlotProbe, TakeProbe, exit_break, exit_continue, mark_unreachable,
        never_returns, unreachable,
    };
    pub use crate::flow::logic::{and, or};
    pub use crate::flow::loops::{Loop, LoopProbe, While};
    pub use crate::flow::naming::named;
    pub use crate::flow::range::RangeProbe;
    pub use crate::flow::refuse::{
        Castable, Formattable, HostCondition, HostOperand, LoopSource, Matchable, OperandProbe, RefuseProbe,
    };
    pub use crate::flow::variable::{Annotated, PlaceProbe, Probe, depth};
    pub use crate::flow::watch::{Borrowed, CellProbe, ReferenceProbe, WatchProbe, open, settle, unchanged};
    pub use crate::flow::{DeviceValue, FieldProbe, HostField, IntoDevice, Zip};
    pub use crate::param::{
        ArgSink, KernelFn, KernelParam, KernelParams, KernelSite, ParamDecl, SpecKey, ViewArg,
    };
    pub use crate::trace::Raw;
    pub use crate::val::Val;
    pub use crate::view::record::derived as record;
    pub use crate::view::{Field, Record};
    pub use std::any::TypeId;

    /// The methods of probes on host values, to be imported without names.
    pub mod host {
        pub use crate::flow::branch::{JoinHost as _, JoinOpaque as _, LikeHost as _};
        pub use crate::flow::compare::{
            CompareEq as _, CompareOrd as _, CompareRight as _, CompareRightOrd as _, LiteralAdd as _,
            LiteralDiv as _, LiteralMul as _, LiteralRem as _, LiteralSub as _, WideHost as _,
        };
        pub use crate::flow::exit::{SlotHost as _, SlotLikeHost as _, SlotOpaque as _, TakeHost as _};
        pub use crate::flow::loops::LoopHost as _;
        pub use crate::flow::range::{RangeHost as _, RangeTo as _};
        pub use crate::flow::refuse::{OperandHost as _, RefuseHost as _};
        pub use crate::flow::variable::{HostAnnotated as _, HostPlace as _, HostProbe as _};
        pub use crate::flow::watch::{
            CellNone as _, ReferenceDevice as _, ReferenceHost as _, ReferenceMarked as _,
            ReferenceNone as _, WatchDevice as _, WatchDeviceRef as _, WatchHost as _, WatchHostRef as _,
            WatchMarked as _, WatchUnseen as _,
        };
    }
}
