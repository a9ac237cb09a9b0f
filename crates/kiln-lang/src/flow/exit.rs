//! `break`, `continue` and `return`, and the values they carry.
//!
//! The value of an exit, if it has one, is put into the target's [`Slot`]; then the exit is
//! recorded: either the host jumps to the target, or flags were set and what is left of the
//! innermost block on the device is skipped.

use super::value::{DeviceValue, IntoDevice, Places};
use crate::trace::{ExitKind, Raw, ScopeKind, Site, abort, error, with};
use std::panic::Location;

/// Records a `break` out of the scope `levels` outside the innermost one, or a `return` through
/// that many scopes; whether the host itself jumps there.
#[track_caller]
pub fn exit_break(levels: usize) -> bool {
    let site = Location::caller();
    with(|r| r.exit(levels, ExitKind::Break, site)).unwrap_or(true)
}

/// Records a `continue` of the loop `levels` outside the innermost scope; whether the host itself
/// jumps there.
#[track_caller]
pub fn exit_continue(levels: usize) -> bool {
    let site = Location::caller();
    with(|r| r.exit(levels, ExitKind::Continue, site)).unwrap_or(true)
}

/// A function body or labeled block that can be left early.
pub struct Block {
    scope: u32,
}

impl Block {
    /// Enters the block.
    #[allow(clippy::new_without_default)]
    pub fn enter() -> Block {
        Block { scope: with(|r| r.enter(ScopeKind::Block)).unwrap_or(0) }
    }

    /// Leaves the block at its end.
    pub fn leave(self) {}
}

impl Drop for Block {
    fn drop(&mut self) {
        with(|r| r.leave_block(self.scope));
    }
}

/// Whether nothing traced from here on could run.
pub fn unreachable() -> bool {
    with(|r| r.is_dead()).unwrap_or(false)
}

/// Marks what follows an endless loop as unreachable.
pub fn mark_unreachable() {
    with(|r| r.set_dead(true));
}

/// Ends the trace where a function can give no value, because it never returns.
pub fn never_returns() -> ! {
    abort()
}

/// Where the exits of a scope leave their values.
pub struct Slot<T> {
    value: Option<T>,
    /// The region in which the slot's variables live.
    home: usize,
}

impl<T> Slot<T> {
    /// An empty slot of the innermost region.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Slot<T> {
        Slot { value: None, home: with(|r| r.regions.len() - 1).unwrap_or(0) }
    }
}

/// A value about to be put into a slot.
pub struct SlotProbe<'a, T> {
    slot: &'a mut Slot<T>,
    value: Option<T>,
    site: Site,
}

impl<'a, T> SlotProbe<'a, T> {
    /// The value that an exit carries, or that stands at the end of the block.
    #[track_caller]
    pub fn new(slot: &'a mut Slot<T>, value: T) -> Self {
        SlotProbe { slot, value: Some(value), site: Location::caller() }
    }
}

impl<D: DeviceValue> SlotProbe<'_, D> {
    /// Puts the value.
    pub fn put(self) {
        let SlotProbe { slot, value: Some(value), site } = self else { return };
        // On the slot's own level there is one exit, which surely happens: no variable is needed.
        let sure = with(|r| r.is_direct(slot.home)).unwrap_or(true);
        if sure && slot.value.is_none() {
            slot.value = Some(value.snapshot(site));
            return;
        }
        let home = slot.home;
        let place = slot.value.get_or_insert_with(|| value.map(&mut |raw| declare(raw, home)));
        place.overwrite(&value, site);
    }
}

/// A variable for a value like `raw`, in the region `home`.
fn declare(raw: Raw, home: usize) -> Raw {
    with(|r| match r.ty(raw) {
        Some(ty) => Raw::Var(r.declare(ty, home)),
        None => Raw::Poison,
    })
    .unwrap_or(Raw::Poison)
}

/// The host's side of [`SlotProbe`]: under device control flow, every exit must carry the same
/// value.
pub trait SlotHost {
    fn put(self);
}

impl<T: PartialEq> SlotHost for SlotProbe<'_, T> {
    fn put(mut self) {
        put_host(&mut self, |a, b| a == b);
    }
}

/// The host's side of [`SlotProbe`] for values that cannot be compared.
pub trait SlotOpaque {
    fn put(self);
}

impl<T> SlotOpaque for &mut SlotProbe<'_, T> {
    fn put(self) {
        put_host(self, |_, _| false);
    }
}

fn put_host<T>(probe: &mut SlotProbe<'_, T>, same: impl Fn(&T, &T) -> bool) {
    let Some(value) = probe.value.take() else { return };
    match &probe.slot.value {
        None => probe.slot.value = Some(value),
        Some(earlier) if same(earlier, &value) => {}
        Some(_) => error(
            probe.site,
            "exits under device control flow carry different host values",
            "make them device values with `val(x)`",
        ),
    }
}

/// A slot whose scope has ended.
pub struct TakeProbe<T>(pub Slot<T>);

impl<D: DeviceValue> TakeProbe<D> {
    /// The value; `None` if no exit was traced.
    #[track_caller]
    pub fn take(self) -> Option<D> {
        self.0.value.map(|value| value.snapshot(Location::caller()))
    }
}

/// The host's side of [`TakeProbe`].
pub trait TakeHost<T> {
    fn take(self) -> Option<T>;
}

impl<T> TakeHost<T> for TakeProbe<T> {
    fn take(self) -> Option<T> {
        self.0.value
    }
}

/// A slot, and a literal that takes the slot's type.
pub struct SlotLike<'a, T, L>(pub &'a Slot<T>, pub L);

impl<D: DeviceValue, L: IntoDevice<D>> SlotLike<'_, D, L> {
    /// The literal, as a device value.
    #[track_caller]
    pub fn convert(self) -> D {
        self.1.into_device()
    }
}

/// The host's side of [`SlotLike`].
pub trait SlotLikeHost<T> {
    fn convert(self) -> T;
}

impl<T> SlotLikeHost<T> for SlotLike<'_, T, T> {
    fn convert(self) -> T {
        self.1
    }
}
