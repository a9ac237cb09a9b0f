//! Signals: elements of global memory by which tasks of different programs wait for each other.

use super::{effect, over_tiles};
use crate::trace::{Recorder, Site, error};
use crate::val::{Idx, IntoIndex, IntoVal, Val};
use crate::view::ViewMut;
use crate::view::core::ViewCore;
use kiln_ir::{ExplicitOp, Shape};
use std::panic::Location;

/// Stores a value to an element of `signals` when everything that this task did so far is done, but
/// for copies under way. The task that [waits](signal_wait) for it sees what this one did to global
/// memory.
///
/// ```
/// use kiln_lang::explicit::*;
/// use kiln_lang::prelude::*;
///
/// /// The sum of the rows up to the program's own, of 64 columns: each program adds its row to what the one before it has handed on.
/// #[device(crate = kiln_lang)]
/// fn chain(rows: View<f32, 2>, sums: ViewMut<f32, 2>, signals: ViewMut<u32, 1>) {
///     let own = program_id(0);
///     tasks()
///         .task(4, 0, || {
///             let mut sum = rows.tile((own, 0), (1, 64)).load(0);
///             if own.gt(0) {
///                 // SAFETY: there is a signal for each program, and the one before begins first and waits for no later one.
///                 unsafe { signal_wait(signals, own - 1, 1) };
///                 sum += sums.tile((own - 1, 0), (1, 64)).load(0);
///             }
///             // SAFETY: every program has a row of its own, which the next one reads when it has been told.
///             unsafe { sums.tile((own, 0), (1, 64)).store_overlapping(sum) };
///             // SAFETY: as above.
///             unsafe { signal(signals, own, 1) };
///         })
///         .run();
/// }
/// ```
///
/// # Safety
///
/// The index is inside the view, and nothing but signals touches the element during the launch.
#[track_caller]
pub unsafe fn signal(signals: ViewMut<u32, 1>, index: impl IntoIndex, value: impl IntoVal<u32>) {
    of_signal(ExplicitOp::Signal, signals.core, (index.into_index(), value.into_val()), Location::caller());
}

/// Waits until an element of `signals` has a value that a task stores by [`signal`], or that it had
/// before the launch.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// use kiln_lang::explicit::*;
/// tasks()
///     .task(4, 0, || {
///         // SAFETY: the element is inside the view, and signals alone touch it.
///         unsafe { signal(memory, 0, 7) };
///     })
///     .task(4, 0, || {
///         // SAFETY: as above, and another task of this program stores the value.
///         unsafe { signal_wait(memory, 0, 7) };
///     })
///     .run();
/// # });
/// ```
///
/// # Safety
///
/// The index is inside the view, and nothing but signals touches the element during the launch.
/// Programs begin in the order of their numbers, along axis 0 first, and those that the device has
/// no room for begin when others have ended: so what is waited for is stored by the same program or
/// one of its cluster, or by one with a smaller number, and not after a wait that breaks this rule.
#[track_caller]
pub unsafe fn signal_wait(signals: ViewMut<u32, 1>, index: impl IntoIndex, value: impl IntoVal<u32>) {
    let place = (index.into_index(), value.into_val());
    of_signal(ExplicitOp::SignalWait, signals.core, place, Location::caller());
}

fn of_signal(op: ExplicitOp, signals: ViewCore, (index, value): (Idx, Val<u32>), site: Site) {
    if !over_tiles(op.name(), site) {
        return;
    }
    if signals.is_part() {
        error(site, "signals in a row or column of a view", "pass the tensor as one of rank 1");
        return;
    }
    let operands = |r: &mut Recorder| {
        let mut operands = signals.operands(r, &[index.raw()], &Shape::scalar(), site)?.to_vec();
        operands.push(r.read_as(value.raw(), &Shape::scalar(), site)?);
        Some(operands)
    };
    effect(op, operands, site);
}
