//! Fault regions: faults as values.

use super::branch::check_nesting;
use super::value::{DeviceValue, IntoDevice, Places, Zip, type_of};
use crate::memory::Local;
use crate::trace::{
    Id, Item, NEVER_RETURNS, Raw, Region, RegionKind, Site, abort, error, unless_aborted, with,
};
use crate::val::{IntoVal, Val};
use kiln_ir::{Scalar, Shape, Type};
use std::panic::Location;

/// Runs `body` on the device as a fault region: what would end the kernel ends `body` alone.
/// Returns 0 and the body's value, or the number of the *site* of the fault and `fallback`.
///
/// What is caught: a [`device_assert!`](crate::device_assert) that does not hold, an index outside
/// its view, an integer division by zero, in the body and in the functions it calls.
/// `Kernel::fault_sites` of the traced kernel says what each site is. If `budget` is not 0, the
/// body also ends where its loops have run their bodies more than `budget` times together, with the
/// site [`u32::MAX`].
///
/// After a fault, variables that the body has assigned are what they were before; what it has
/// written to memory remains. A fault is that of one thread, unless the block's threads meet at a
/// barrier or in tiles later in the body: then it is the whole block's.
///
/// ```
/// use kiln_lang::prelude::*;
///
/// #[device(crate = kiln_lang)]
/// fn mean(x: View<i32, 1>, count: Val<i32>) -> (Val<u32>, Val<i32>) {
///     fault_region(1000, -1, || {
///         let mut sum: Val<i32> = 0;
///         for i in 0..count {
///             sum += x.get(i);
///         }
///         sum / count
///     })
/// }
///
/// let kernel = trace("k", Level::Thread { block: [32, 1, 1] }, |p| {
///     let x = p.view::<i32, 1>("x", Default::default());
///     let count = p.scalar::<i32>("count", Default::default());
///     let (fault, value) = mean(x, count);
///     device_print!("{} {}", fault, value);
/// })?;
/// let sites = kernel.fault_sites();
/// assert_eq!(sites[0].message, "index {} out of bounds for extent {}");
/// assert_eq!(sites[1].message, "division by zero");
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn fault_region<D: DeviceValue>(
    budget: impl IntoVal<u32>,
    fallback: impl IntoDevice<D>,
    body: impl FnOnce() -> D,
) -> (Val<u32>, D) {
    record_region(None, budget.into_val(), fallback, body, Location::caller())
}

/// As [`fault_region`], with a record of the fault: where a check fails, the thread stores the
/// number of the site in element 0 of the array and the check's values behind it, as
/// `FaultSite::values` of the traced kernel says. Nothing is stored where nothing fails, where only
/// another thread's check fails, and where the budget is exceeded; values for which the array has
/// no room are left out.
///
/// A check that holds costs what it costs in a fault region without a record.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_lang::fault_region_into;
///
/// #[device(crate = kiln_lang)]
/// fn element(x: View<f32, 1>, i: Val<i64>) {
///     let record = local::<u64>(3);
///     let (fault, element) = fault_region_into(&record, 0, 0.0, || x.get(i));
///     if fault.ne(0) {
///         device_print!("index {} of {}, {} instead", record.get(1), record.get(2), element);
///     }
/// }
/// # trace("k", Level::Thread { block: [32, 1, 1] }, |p| {
/// #     let x = p.view::<f32, 1>("x", Default::default());
/// #     element(x, p.scalar::<i64>("i", Default::default()));
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn fault_region_into<D: DeviceValue>(
    record: &Local<u64>,
    budget: impl IntoVal<u32>,
    fallback: impl IntoDevice<D>,
    body: impl FnOnce() -> D,
) -> (Val<u32>, D) {
    record_region(Some(record), budget.into_val(), fallback, body, Location::caller())
}

/// Records the body, and merges what it gives with the fallback.
fn record_region<D: DeviceValue>(
    record: Option<&Local<u64>>,
    budget: Val<u32>,
    fallback: impl IntoDevice<D>,
    body: impl FnOnce() -> D,
    site: Site,
) -> (Val<u32>, D) {
    let (record, budget) = operands(record, budget, site);
    let fallback = fallback.into_device().snapshot(site);
    let (mut body, mut value) = (Some(body), None);
    let mut merge = Merge::of_body(&mut || value = body.take().map(|body| body()), site);
    // A body that never ends by itself gives the fallback, if anything.
    let merged = value.map_or_else(|| fallback.clone(), |value| fallback.zip(&value, &mut merge));
    (Val::from_raw(merge.emit(budget, record)), merged.snapshot(site))
}

/// The record and the budget of a fault region, as values.
fn operands(record: Option<&Local<u64>>, budget: Val<u32>, site: Site) -> (Option<Id>, Option<Id>) {
    let record = record.and_then(|record| with(|r| record.whole(r, site)).flatten());
    (record, with(|r| r.read_as(budget.raw(), &Shape::scalar(), site)).flatten())
}

/// The body of a fault region, while it is recorded.
struct Open(u32);

impl Open {
    fn begin(site: Site) -> Open {
        let open = Open(with(|r| r.open(RegionKind::Device)).unwrap_or(0));
        check_nesting(site);
        open
    }

    /// Ends the trace unless the body was traced to its end, which is an endless loop.
    fn ends_in_a_loop(&self, site: Site) {
        let fine = with(|r| {
            let whole = r.innermost() == self.0 && r.is_dead();
            if r.errors.is_empty() && !whole {
                r.error(site, NEVER_RETURNS.0, NEVER_RETURNS.1);
            }
            r.errors.is_empty()
        });
        if fine != Some(true) {
            abort();
        }
    }

    fn close(self) -> (u32, Region) {
        let region = with(|r| r.close()).unwrap_or_default();
        let uid = self.0;
        std::mem::forget(self);
        (uid, region)
    }
}

impl Drop for Open {
    /// Control left the body by a panic, which is reported already.
    fn drop(&mut self) {
        with(|r| {
            if let Some(at) = r.position(self.0) {
                r.regions.truncate(at);
            }
        });
    }
}

/// Makes variables of the fallback that the body writes last.
struct Merge {
    uid: u32,
    body: Region,
    site: Site,
}

impl Merge {
    /// Records a body, which is called once.
    fn of_body(body: &mut dyn FnMut(), site: Site) -> Merge {
        let open = Open::begin(site);
        if !unless_aborted(body) {
            open.ends_in_a_loop(site);
        }
        let (uid, body) = open.close();
        Merge { uid, body, site }
    }

    /// Records the region; gives the number of the fault's site.
    fn emit(self, budget: Option<Id>, record: Option<Id>) -> Raw {
        let Merge { body, site, .. } = self;
        let fault = with(|r| {
            let fault = r.value(Type::scalar(Scalar::U32));
            // Without a budget, an error was reported and the trace will not be used.
            r.push(Item::FaultRegion { budget: budget?, record, fault, body, site, live: Vec::new() });
            Some(fault)
        });
        Raw::of(fault.flatten())
    }
}

impl Zip for Merge {
    fn device(&mut self, fallback: Raw, value: Raw) -> Raw {
        let (Some(ty), Some(other)) = (type_of(fallback), type_of(value)) else { return Raw::Poison };
        let (Some(ta), Some(tb)) = (ty.as_tile(), other.as_tile()) else { return Raw::Poison };
        let Some(shape) = ta.shape.broadcast(&tb.shape) else {
            let message = format!(
                "the fallback has shape {}, the value of the region has shape {}",
                ta.shape, tb.shape
            );
            error(self.site, message, "give both shapes that stretch to one");
            return Raw::Poison;
        };
        let (site, ty) = (self.site, Type::tile(ta.elem, shape));
        let var = with(|r| {
            let var = r.declare(ty, r.regions.len() - 1);
            r.set(var, fallback, site);
            r.open_as(self.uid, RegionKind::Device);
            r.set(var, value, site);
            self.body.items.extend(r.close().items);
            var
        });
        var.map_or(Raw::Poison, Raw::Var)
    }

    fn host(&mut self, same: bool) -> bool {
        if !same {
            error(
                self.site,
                "the fallback and the value of the region hold different host values",
                "make them device values with `val(x)`",
            );
        }
        false
    }
}
