//! Clocks, and rest while there is nothing to do. Needs a launch with threads.
//!
//! ```
//! # use kiln_lang::{param::Facts, prelude::*};
//! # #[device(crate = kiln_lang)]
//! # fn wait(flag: View<u32, 1>) {
//! let begin = clock_ns();
//! while flag.get_ordered(0, Order::Acquire, Scope::System) == 0 && clock_ns() - begin < 1_000_000 {
//!     sleep_ns(200);
//! }
//! # }
//! # trace("k", Level::Thread { block: [1, 1, 1] }, |p| wait(p.view("flag", Facts::default())))?;
//! # Ok::<(), kiln_lang::TraceErrors>(())
//! ```

use crate::thread::block;
use crate::trace::with;
use crate::val::{IntoVal, Val};
use kiln_ir::{ClockUnit, OpKind, Scalar, Shape, Type};
use std::panic::Location;

#[track_caller]
fn clock(what: &str, unit: ClockUnit) -> Val<u64> {
    let site = Location::caller();
    if block(what, site).is_none() {
        return Val::poison();
    }
    Val::from_id(with(|r| r.op(OpKind::Clock(unit), &[], Type::scalar(Scalar::U64), site)))
}

/// Nanoseconds since an instant that all threads of the device share. GPUs advance it in steps, of
/// a microsecond at worst.
///
/// In the interpreter both clocks count operations, so that runs repeat exactly.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let begin = clock_ns();
/// sleep_ns(200);
/// device_assert!(clock_ns().ge(begin));
/// # });
/// ```
#[track_caller]
pub fn clock_ns() -> Val<u64> {
    clock("clock_ns", ClockUnit::Nanos)
}

/// Cycles of the core that runs the thread: only differences taken by one thread mean something.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let begin = clock_cycles();
/// let x = lane_id().cast::<f32>().sqrt();
/// let cycles = clock_cycles() - begin;
/// device_assert!(x.ge(0.0) & cycles.gt(0));
/// # });
/// ```
#[track_caller]
pub fn clock_cycles() -> Val<u64> {
    clock("clock_cycles", ClockUnit::Cycles)
}

/// Rests for about so many nanoseconds, at most a millisecond: a hint to let others work.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let begin = clock_ns();
/// sleep_ns(1000);
/// device_assert!((clock_ns() - begin).lt(1_000_000_000));
/// # });
/// ```
#[track_caller]
pub fn sleep_ns(nanoseconds: impl IntoVal<u32>) {
    let (site, time) = (Location::caller(), nanoseconds.into_val());
    if block("sleep_ns", site).is_some() {
        with(|r| {
            let time = r.read_as(time.raw(), &Shape::scalar(), site)?;
            r.effect(OpKind::Sleep, &[time], site);
            Some(())
        });
    }
}
