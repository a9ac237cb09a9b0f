//! `let mut`, reads of mutable names, assignment.
//!
//! A handle is `Copy`, so a mutable name must hold a variable of the trace: then
//! `let y = x; x += 1;` leaves `y` alone, because the macro takes a snapshot where a mutable name
//! is read as a value, and a loop or branch that assigns `x` is seen by what follows.

use super::value::{DeviceValue, IntoDevice, Places};
use crate::trace::{Depth, with};
use std::marker::PhantomData;
use std::panic::Location;

/// How deep in device control flow the trace is: recorded where a name is declared, compared where
/// it is assigned.
pub fn depth() -> Depth {
    with(|r| r.depth()).unwrap_or_default()
}

/// A value about to be bound or read.
pub struct Probe<T>(pub T);

impl<D: DeviceValue> Probe<D> {
    /// The initial value of a mutable name, as variables.
    #[track_caller]
    pub fn variable(self) -> D {
        self.0.to_variables(Location::caller())
    }

    /// The value of a mutable name as it is now.
    #[track_caller]
    pub fn snapshot(self) -> D {
        self.0.snapshot(Location::caller())
    }
}

/// The host's side of [`Probe`]: nothing to do.
pub trait HostProbe<T> {
    fn variable(self) -> T;
    fn snapshot(self) -> T;
}

impl<T> HostProbe<T> for Probe<T> {
    fn variable(self) -> T {
        self.0
    }

    fn snapshot(self) -> T {
        self.0
    }
}

/// A place about to be assigned, and the depth at which its name was declared.
pub struct PlaceProbe<'a, T: ?Sized>(pub &'a mut T, pub Depth);

impl<D: DeviceValue> PlaceProbe<'_, D> {
    /// `place = value`.
    #[track_caller]
    pub fn assign<V: IntoDevice<D>>(self, value: V) {
        self.0.overwrite_declared(&value.into_device(), self.1, Location::caller());
    }

    /// Whether `place op= value` and `&mut place` are allowed here.
    #[track_caller]
    pub fn check(self) {
        self.0.check_assignable(self.1, Location::caller());
    }
}

/// The host's side of [`PlaceProbe`].
pub trait HostPlace<T: ?Sized> {
    #[track_caller]
    fn assign(self, value: T)
    where
        T: Sized;
    #[track_caller]
    fn check(self);
}

impl<T: ?Sized> HostPlace<T> for PlaceProbe<'_, T> {
    #[track_caller]
    fn assign(self, value: T)
    where
        T: Sized,
    {
        check_host(self.1);
        *self.0 = value;
    }

    #[track_caller]
    fn check(self) {
        check_host(self.1);
    }
}

#[track_caller]
fn check_host(declared: Depth) {
    let site = Location::caller();
    with(|r| r.check_host_assignment(declared, site));
}

/// The type that a `let` or a function result is annotated with, about to receive a value.
pub struct Annotated<T: ?Sized>(PhantomData<fn() -> T>);

impl<T: ?Sized> Annotated<T> {
    /// The type.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Annotated(PhantomData)
    }
}

impl<D: DeviceValue> Annotated<D> {
    /// Converts a host number to the device value that is expected.
    #[track_caller]
    pub fn convert<V: IntoDevice<D>>(self, value: V) -> D {
        value.into_device()
    }
}

/// The host's side of [`Annotated`]: the value has the type, or coerces to it.
pub trait HostAnnotated<T> {
    fn convert(self, value: T) -> T;
}

impl<T> HostAnnotated<T> for Annotated<T> {
    fn convert(self, value: T) -> T {
        value
    }
}
