//! `if`, and the predicates on what follows an exit.
//!
//! `if c { a } else { b }` becomes
//!
//! ```text
//! let mut branch = branch(c);
//! let then = if branch.then() { Some(a) } else { None };
//! let otherwise = if branch.otherwise() { Some(b) } else { None };
//! JoinProbe::new(branch, then, otherwise).join()
//! ```
//!
//! A host condition runs one arm; a device condition traces both into regions of their own. An arm
//! that ends in an exit is `None`.

use super::condition::{Decision, scalar_condition};
use super::value::{DeviceValue, IntoDevice, Places, Zip, type_of};
use crate::trace::{Id, Item, Raw, Region, RegionKind, Site, Var, abort, error, with};
use std::panic::Location;

/// An `if` under way.
pub struct Branch {
    site: Site,
    state: BranchState,
}

enum BranchState {
    Host(bool),
    Device(Box<DeviceBranch>),
    Done,
}

struct DeviceBranch {
    cond: Option<Id>,
    open: u32,
    then: Option<Region>,
    then_uid: u32,
    then_dead: bool,
    /// The other way out was an exit.
    after_exit: bool,
}

/// Begins an `if`.
#[track_caller]
pub fn branch(decision: Decision) -> Branch {
    let site = Location::caller();
    match decision {
        Decision::Host(value) => Branch { site, state: BranchState::Host(value) },
        Decision::Device(raw) => {
            let raw = scalar_condition(raw, site);
            begin(with(|r| r.read(raw, site)).flatten(), false, site)
        }
    }
}

/// Begins the rest of a block after an exit, under its exit predicate: it runs unless the exit was
/// taken.
#[track_caller]
pub fn after_exit() -> Branch {
    let site = Location::caller();
    match with(|r| r.exit_predicate(site)).flatten() {
        None => Branch { site, state: BranchState::Host(true) },
        cond => begin(cond, true, site),
    }
}

fn begin(cond: Option<Id>, after_exit: bool, site: Site) -> Branch {
    let open = with(|r| r.open(RegionKind::Device)).unwrap_or(0);
    check_nesting(site);
    let state = DeviceBranch { cond, open, then: None, then_uid: open, then_dead: false, after_exit };
    Branch { site, state: BranchState::Device(Box::new(state)) }
}

/// Ends the trace if control flow nests without end: a device function that calls itself is traced
/// for ever.
pub(super) fn check_nesting(site: Site) {
    const MAX_NESTING: usize = 200;
    let nested = with(|r| r.regions.len()).unwrap_or(0);
    if nested > MAX_NESTING {
        let message = format!("device control flow is nested more than {MAX_NESTING} deep");
        error(site, message, "a function cannot call itself under a device condition: use a loop");
        abort();
    }
}

impl Branch {
    /// Whether the first arm is to be traced.
    pub fn then(&mut self) -> bool {
        !matches!(self.state, BranchState::Host(false))
    }

    /// Whether the second arm is to be traced.
    pub fn otherwise(&mut self) -> bool {
        match &mut self.state {
            BranchState::Host(value) => !*value,
            BranchState::Device(device) => {
                device.next_arm();
                true
            }
            BranchState::Done => false,
        }
    }

    /// Ends the `if`; gives the arms if the device decides between them.
    fn close(&mut self) -> Option<Box<Arms>> {
        match std::mem::replace(&mut self.state, BranchState::Done) {
            BranchState::Device(device) => Some(Box::new(device.finish())),
            BranchState::Host(_) | BranchState::Done => None,
        }
    }
}

impl DeviceBranch {
    fn next_arm(&mut self) {
        if self.then.is_some() {
            return;
        }
        with(|r| {
            self.then_dead = r.is_dead();
            self.then = Some(r.close());
            self.open = r.open(RegionKind::Device);
        });
    }

    /// Closes both arms.
    fn finish(mut self) -> Arms {
        self.next_arm();
        let closed = with(|r| (r.is_dead(), r.close()));
        let (else_dead, otherwise) = closed.unwrap_or_default();
        Arms {
            cond: self.cond,
            then: Arm { uid: self.then_uid, region: self.then.unwrap_or_default() },
            otherwise: Arm { uid: self.open, region: otherwise },
            dead: self.then_dead && (else_dead || self.after_exit),
        }
    }
}

/// Both arms of an `if` on the device, closed but not yet part of the trace.
struct Arms {
    cond: Option<Id>,
    then: Arm,
    otherwise: Arm,
    dead: bool,
}

/// One arm, and the number of its region.
struct Arm {
    uid: u32,
    region: Region,
}

impl Arms {
    fn emit(self, site: Site) {
        let Arms { cond, then, otherwise, dead } = self;
        with(|r| {
            // Without a condition, an error was reported and the trace will not be used.
            if let Some(cond) = cond {
                let (then, otherwise) = (then.region, otherwise.region);
                r.push(Item::If { cond, then, otherwise, site, live: Vec::new() });
            }
            r.set_dead(dead);
        });
    }
}

impl Drop for Branch {
    /// A branch that was not joined was left by `?`, or by a panic, which is reported already.
    fn drop(&mut self) {
        let BranchState::Device(device) = &self.state else { return };
        with(|r| {
            let Some(at) = r.position(device.open) else { return };
            r.regions.truncate(at);
            if std::thread::panicking() {
                return;
            }
            let message = "control leaves this `if` on a device value through `?`";
            r.error(self.site, message, "use `return`, `break` or `continue`, or decide on a host value");
        });
    }
}

/// An `if` whose arms have been traced.
pub struct JoinProbe<T> {
    branch: Branch,
    then: Option<T>,
    otherwise: Option<T>,
}

impl<T> JoinProbe<T> {
    /// An `if` and the values of its arms.
    pub fn new(branch: Branch, then: Option<T>, otherwise: Option<T>) -> Self {
        JoinProbe { branch, then, otherwise }
    }
}

impl<D: DeviceValue> JoinProbe<D> {
    /// The value of the `if`; `None` where both arms exit.
    pub fn join_or_exit(self) -> Option<D> {
        let JoinProbe { mut branch, then, otherwise } = self;
        match branch.close() {
            None => then.or(otherwise),
            Some(arms) => join_device(arms, then, otherwise, branch.site),
        }
    }

    /// The value of an `if` without exits.
    pub fn join(self) -> D {
        self.join_or_exit().unwrap_or_else(|| abort())
    }
}

fn join_device<D: DeviceValue>(mut arms: Box<Arms>, a: Option<D>, b: Option<D>, site: Site) -> Option<D> {
    let joined = match (&a, &b) {
        (Some(a), Some(b)) => Some(a.zip(b, &mut Merge { arms: &mut arms, site })),
        (Some(a), None) => Some(a.map(&mut handing_out(&mut arms.then, site))),
        (None, Some(b)) => Some(b.map(&mut handing_out(&mut arms.otherwise, site))),
        (None, None) => None,
    };
    arms.emit(site);
    joined.map(|value| value.snapshot(site))
}

/// See [`hand_out`]. Not generic, as a closure in `join_device` would be.
fn handing_out(arm: &mut Arm, site: Site) -> impl FnMut(Raw) -> Raw {
    move |raw| hand_out(raw, arm, site)
}

/// Makes a value of an arm outlive the arm: as a variable that the arm writes last.
fn hand_out(raw: Raw, arm: &mut Arm, site: Site) -> Raw {
    if matches!(raw, Raw::Const(_) | Raw::Poison) {
        return raw;
    }
    let Some(ty) = type_of(raw) else { return Raw::Poison };
    let var = with(|r| r.declare(ty, r.regions.len() - 1));
    match var {
        Some(var) => {
            write_last(var, raw, arm, site);
            Raw::Var(var)
        }
        None => Raw::Poison,
    }
}

/// Appends `var = raw` to an arm that is already closed.
fn write_last(var: Var, raw: Raw, arm: &mut Arm, site: Site) {
    with(|r| {
        r.open_as(arm.uid, RegionKind::Device);
        r.set(var, raw, site);
        let last = r.close();
        arm.region.items.extend(last.items);
    });
}

struct Merge<'a> {
    arms: &'a mut Arms,
    site: Site,
}

impl Zip for Merge<'_> {
    fn device(&mut self, a: Raw, b: Raw) -> Raw {
        if a == b && matches!(a, Raw::Const(_) | Raw::Value(_)) {
            return a;
        }
        let (Some(ty), Some(other)) = (type_of(a), type_of(b)) else { return Raw::Poison };
        let (Some(ta), Some(tb)) = (ty.as_tile(), other.as_tile()) else { return Raw::Poison };
        let Some(shape) = ta.shape.broadcast(&tb.shape) else {
            let message = format!("the arms have values of shapes {} and {}", ta.shape, tb.shape);
            error(
                self.site,
                message,
                "both arms of an `if` on a device value need shapes that stretch to one",
            );
            return Raw::Poison;
        };
        let ty = kiln_ir::Type::tile(ta.elem, shape);
        let Some(var) = with(|r| r.declare(ty, r.regions.len() - 1)) else { return Raw::Poison };
        write_last(var, a, &mut self.arms.then, self.site);
        write_last(var, b, &mut self.arms.otherwise, self.site);
        Raw::Var(var)
    }

    fn host(&mut self, same: bool) -> bool {
        if !same {
            differing_hosts(self.site);
        }
        false
    }
}

fn differing_hosts(site: Site) {
    error(
        site,
        "the arms of this `if` on a device value give different host values",
        "make them device values with `val(x)`, or use `select`",
    );
}

/// The host's side of [`JoinProbe`]: values that can be compared must be equal if the device
/// decides.
pub trait JoinHost<T> {
    fn join_or_exit(self) -> Option<T>;
    fn join(self) -> T;
}

impl<T: PartialEq> JoinHost<T> for JoinProbe<T> {
    fn join_or_exit(mut self) -> Option<T> {
        join_host(&mut self, |a, b| a == b)
    }

    fn join(mut self) -> T {
        join_host(&mut self, |a, b| a == b).unwrap_or_else(|| abort())
    }
}

/// The host's side of [`JoinProbe`] for values that cannot be compared.
pub trait JoinOpaque<T> {
    fn join_or_exit(self) -> Option<T>;
    fn join(self) -> T;
}

impl<T> JoinOpaque<T> for &mut JoinProbe<T> {
    fn join_or_exit(self) -> Option<T> {
        join_host(self, |_, _| false)
    }

    fn join(self) -> T {
        join_host(self, |_, _| false).unwrap_or_else(|| abort())
    }
}

fn join_host<T>(probe: &mut JoinProbe<T>, same: impl Fn(&T, &T) -> bool) -> Option<T> {
    let JoinProbe { branch, then, otherwise } = probe;
    if let Some(arms) = branch.close() {
        if let (Some(a), Some(b)) = (&then, &otherwise)
            && !same(a, b)
        {
            differing_hosts(branch.site);
        }
        arms.emit(branch.site);
    }
    then.take().or(otherwise.take())
}

/// The value of one arm, to which the literal that the other arm ends in is converted.
pub struct LikeProbe<'a, T, L>(pub &'a Option<T>, pub Option<L>);

impl<D: DeviceValue, L: IntoDevice<D>> LikeProbe<'_, D, L> {
    /// The literal, as a device value.
    #[track_caller]
    pub fn convert(self) -> Option<D> {
        // Not `map`: the location of an error is this method's caller.
        let literal = self.1?;
        Some(literal.into_device())
    }
}

/// The host's side of [`LikeProbe`].
pub trait LikeHost<T> {
    fn convert(self) -> Option<T>;
}

impl<T> LikeHost<T> for LikeProbe<'_, T, T> {
    fn convert(self) -> Option<T> {
        self.1
    }
}
