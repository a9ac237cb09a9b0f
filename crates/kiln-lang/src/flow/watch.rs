//! Changes that the macros do not see.
//!
//! `x = v` is written in a kernel, and becomes a write of the variable.
//! `std::mem::swap(&mut x, &mut y)`, `list.swap(0, 1)` and a method without the attribute that says
//! `self.a = v` are plain Rust: they put other handles in the places, at once, whatever the
//! device's control flow around says. So the macros compare a place before and after a call that
//! borrows it:
//!
//! - a value that is made of variables gets new variables for the call, and its own handles back
//!   after it; where others stand in their places, the variables are written instead. Then
//!   branches, loops and exits see the change as they see an assignment;
//! - anything else (a `Vec`, an `Option`, a number of the host) may not change where the device
//!   decides, which is an error as it is for an assignment.
//!
//! The first level of [`WatchProbe`]'s that fits a type decides how its changes are found.

use super::value::{DeviceValue, Zip};
use crate::trace::{Depth, Raw, Site, with};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::rc::Rc;
use std::sync::{Arc, Mutex, RwLock};

/// What a place held before a call.
pub trait Witness<T: ?Sized> {
    /// Makes the place ready for the callee.
    fn open(&mut self, _: &mut T) {}
    /// Writes the variables whose handles were replaced, and reports other changes.
    fn settle(&self, now: &mut T);
    /// Reports every change: the place is still borrowed.
    fn unchanged(&self, now: &T, method: &str);
}

/// Before a call that is a statement of its own.
pub fn open<T: ?Sized, W: Witness<T>>(mut witness: W, now: &mut T) -> W {
    witness.open(now);
    witness
}

/// After a call that is a statement of its own.
pub fn settle<T: ?Sized, W: Witness<T>>(witness: W, now: &mut T) {
    witness.settle(now);
}

/// After a call whose result is used, and may borrow from the place.
pub fn unchanged<T: ?Sized, W: Witness<T>>(witness: &W, now: &T, method: &str) {
    witness.unchanged(now, method);
}

/// A place that a call borrows; it is settled when the call is over.
pub struct Borrowed<'a, T: ?Sized, W: Witness<T>> {
    witness: W,
    place: &'a mut T,
}

impl<'a, T: ?Sized, W: Witness<T>> Borrowed<'a, T, W> {
    /// Borrows a place.
    pub fn new(mut witness: W, place: &'a mut T) -> Self {
        witness.open(place);
        Borrowed { witness, place }
    }
}

impl<T: ?Sized, W: Witness<T>> Deref for Borrowed<'_, T, W> {
    type Target = T;
    fn deref(&self) -> &T {
        self.place
    }
}

impl<T: ?Sized, W: Witness<T>> DerefMut for Borrowed<'_, T, W> {
    fn deref_mut(&mut self) -> &mut T {
        self.place
    }
}

impl<T: ?Sized, W: Witness<T>> Drop for Borrowed<'_, T, W> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.witness.settle(self.place);
        }
    }
}

/// Where a place was declared, and where it is borrowed.
#[derive(Clone, Copy)]
struct Loan {
    declared: Depth,
    site: Site,
}

impl Loan {
    /// Whether device control flow lies between the declaration and here.
    fn matters(&self) -> bool {
        with(|r| r.is_deeper(self.declared)).unwrap_or(false)
    }

    fn report(&self) {
        with(|r| r.check_host_assignment(self.declared, self.site));
    }

    fn report_unseen(&self) {
        with(|r| {
            r.check_change(
                self.declared,
                self.site,
                "a host value is borrowed mutably under device control flow, and its type does not show whether it changes",
                "derive `Clone` and `PartialEq`, or `DeviceValue`, for its type; or use it through `&`",
            )
        });
    }

    fn report_used(&self, method: &str) {
        let message =
            format!("`{method}` changes a device value under device control flow, where its result is used");
        let help = format!(
            "give `{method}` the attribute `#[device]`, or pass the place explicitly, as in `Type::{method}(&mut place)`"
        );
        with(|r| r.check_change(self.declared, self.site, message, help));
    }
}

// ---- what is made of variables

/// A device value as it was.
pub struct Handles<D> {
    before: D,
    /// What the place holds meanwhile.
    borrowed: Vec<Raw>,
    loan: Loan,
}

fn handles<D: DeviceValue>(value: &D) -> Vec<Raw> {
    let mut all = Vec::new();
    value.map(&mut collecting(&mut all));
    all
}

fn collecting(all: &mut Vec<Raw>) -> impl FnMut(Raw) -> Raw {
    |raw| {
        all.push(raw);
        raw
    }
}

/// The value with other handles.
fn with_handles<D: DeviceValue>(value: &D, handles: &[Raw]) -> D {
    value.map(&mut replacing(handles))
}

fn replacing(handles: &[Raw]) -> impl FnMut(Raw) -> Raw {
    let mut handles = handles.iter();
    move |raw| handles.next().copied().unwrap_or(raw)
}

/// What a callee gets in the place of handles: variables of its own where they are variables.
fn callee_handles(handles: Vec<Raw>, site: Site) -> Vec<Raw> {
    let own = |raw| match raw {
        Raw::Var(_) => with(|r| r.declare_as(raw, site)).unwrap_or(raw),
        raw => raw,
    };
    handles.into_iter().map(own).collect()
}

/// The handles of a place after a call that borrowed others: variables have been written, and
/// changes of anything else were reported.
fn settled(before: Vec<Raw>, borrowed: &[Raw], now: Vec<Raw>, loan: Loan) -> Vec<Raw> {
    let changes = before.into_iter().zip(borrowed).zip(now);
    let settled = changes.map(|((old, borrowed), new)| match old {
        Raw::Var(var) => {
            with(|r| {
                if *borrowed != new || r.is_written(new) {
                    r.set(var, new, loan.site);
                }
            });
            old
        }
        old => {
            if old != new {
                loan.report();
            }
            new
        }
    });
    settled.collect()
}

impl<D: DeviceValue> Witness<D> for Handles<D> {
    /// The callee gets variables of its own: a handle that it keeps, gives back or puts elsewhere
    /// goes on standing for the value that it stood for, whatever the place is assigned.
    fn open(&mut self, now: &mut D) {
        self.borrowed = callee_handles(handles(&self.before), self.loan.site);
        *now = with_handles(now, &self.borrowed);
    }

    fn settle(&self, now: &mut D) {
        if host_changed(&self.before, now) {
            self.loan.report();
        }
        let settled = settled(handles(&self.before), &self.borrowed, handles(now), self.loan);
        *now = with_handles(now, &settled);
    }

    fn unchanged(&self, now: &D, method: &str) {
        if !self.loan.matters() {
            return;
        }
        if handles(&self.before) != handles(now) {
            self.loan.report_used(method);
        } else if host_changed(&self.before, now) {
            self.loan.report();
        }
    }
}

/// Whether the host values in a device value differ.
fn host_changed<D: DeviceValue>(before: &D, now: &D) -> bool {
    let mut found = HostChange(false);
    before.zip(now, &mut found);
    found.0
}

/// Whether a host value differed so far.
struct HostChange(bool);

impl Zip for HostChange {
    fn device(&mut self, _: Raw, new: Raw) -> Raw {
        new
    }

    fn host(&mut self, same: bool) -> bool {
        self.0 |= !same;
        true
    }
}

// ---- containers

/// What a host value holds, in a number.
#[derive(Default)]
pub struct Marks(DefaultHasher);

/// A host value, or one that holds device values, of which a change is found by what it held
/// before.
#[diagnostic::on_unimplemented(
    message = "whether `{Self}` changes under device control flow cannot be found out here",
    note = "write the type of the variable where it is declared, such as `let mut list: Vec<{Self}> = Vec::new()`"
)]
pub trait Marked {
    /// Adds what the value holds.
    fn mark(&self, marks: &mut Marks);
}

impl<D: DeviceValue> Marked for D {
    fn mark(&self, marks: &mut Marks) {
        self.map(&mut marking(marks));
    }
}

fn marking(marks: &mut Marks) -> impl FnMut(Raw) -> Raw {
    |raw| {
        marks.handle(raw);
        raw
    }
}

impl Marks {
    /// Adds a handle.
    pub(crate) fn handle(&mut self, raw: Raw) {
        match raw {
            Raw::Const(literal) => (0u8, literal.elem().name(), literal.bits()).hash(&mut self.0),
            Raw::Value(id) => (1u8, id).hash(&mut self.0),
            Raw::Var(var) => (2u8, var).hash(&mut self.0),
            Raw::Poison => 3u8.hash(&mut self.0),
        }
    }

    fn each<'a, M: Marked + 'a>(&mut self, len: usize, items: impl Iterator<Item = &'a M>) {
        len.hash(&mut self.0);
        items.for_each(|item| item.mark(self));
    }
}

macro_rules! hashed {
    ($($t:ty)*) => {$(
        impl Marked for $t {
            fn mark(&self, marks: &mut Marks) {
                self.hash(&mut marks.0);
            }
        }
    )*};
}
hashed! { bool char u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize String &'static str }

macro_rules! floats {
    ($($t:ty)*) => {$(
        impl Marked for $t {
            fn mark(&self, marks: &mut Marks) {
                self.to_bits().hash(&mut marks.0);
            }
        }
    )*};
}
floats! { f32 f64 half::f16 half::bf16 }

impl<M: Marked> Marked for Vec<M> {
    fn mark(&self, marks: &mut Marks) {
        marks.each(self.len(), self.iter());
    }
}

impl<M: Marked> Marked for VecDeque<M> {
    fn mark(&self, marks: &mut Marks) {
        marks.each(self.len(), self.iter());
    }
}

impl<M: Marked> Marked for Option<M> {
    fn mark(&self, marks: &mut Marks) {
        marks.each(self.iter().len(), self.iter());
    }
}

impl<M: Marked, E: Marked> Marked for Result<M, E> {
    fn mark(&self, marks: &mut Marks) {
        marks.each(self.iter().len(), self.iter());
        marks.each(0, self.as_ref().err().into_iter());
    }
}

impl<K: Marked, M: Marked> Marked for BTreeMap<K, M> {
    fn mark(&self, marks: &mut Marks) {
        marks.each(self.len(), self.keys());
        marks.each(self.len(), self.values());
    }
}

// The order of a table is the same as long as nothing was added or removed.
impl<K: Marked, M: Marked, S> Marked for HashMap<K, M, S> {
    fn mark(&self, marks: &mut Marks) {
        marks.each(self.len(), self.keys());
        marks.each(self.len(), self.values());
    }
}

impl<K: Marked, S> Marked for HashSet<K, S> {
    fn mark(&self, marks: &mut Marks) {
        marks.each(self.len(), self.iter());
    }
}

impl<T, const R: usize> Marked for crate::View<T, R> {
    fn mark(&self, marks: &mut Marks) {
        self.core.handles(|raw| marks.handle(raw));
    }
}

impl<T, const R: usize> Marked for crate::ViewMut<T, R> {
    fn mark(&self, marks: &mut Marks) {
        self.core.handles(|raw| marks.handle(raw));
    }
}

/// A container as it was, if a change of it matters.
pub struct Marked64 {
    before: Option<u64>,
    loan: Loan,
}

impl Marked64 {
    fn new<M: Marked>(value: &M, loan: Loan) -> Marked64 {
        Marked64 { before: loan.matters().then(|| marked(value)), loan }
    }
}

fn marked<M: Marked>(value: &M) -> u64 {
    let mut marks = Marks::default();
    value.mark(&mut marks);
    marks.0.finish()
}

impl<M: Marked> Witness<M> for Marked64 {
    fn settle(&self, now: &mut M) {
        self.unchanged(now, "");
    }

    fn unchanged(&self, now: &M, _: &str) {
        if self.before.is_some_and(|before| before != marked(now)) {
            self.loan.report();
        }
    }
}

// ---- other host values

/// A host value as it was, if a change of it matters.
pub struct Copied<T> {
    before: Option<T>,
    loan: Loan,
}

impl<T: Clone + PartialEq> Witness<T> for Copied<T> {
    fn settle(&self, now: &mut T) {
        self.unchanged(now, "");
    }

    fn unchanged(&self, now: &T, _: &str) {
        if self.before.as_ref().is_some_and(|before| before != now) {
            self.loan.report();
        }
    }
}

/// A value of which no change can be found.
pub struct Unseen(());

impl<T: ?Sized> Witness<T> for Unseen {
    fn settle(&self, _: &mut T) {}
    fn unchanged(&self, _: &T, _: &str) {}
}

/// The witness of what a mutable reference refers to.
pub struct Behind<T: ?Sized, W>(W, PhantomData<fn(&T)>);

impl<T: ?Sized, W: Witness<T>> Witness<&mut T> for Behind<T, W> {
    fn open(&mut self, now: &mut &mut T) {
        self.0.open(now);
    }

    fn settle(&self, now: &mut &mut T) {
        self.0.settle(now);
    }

    fn unchanged(&self, now: &&mut T, method: &str) {
        self.0.unchanged(now, method);
    }
}

// ---- which it is

/// A place about to be borrowed. Called as `(&&&&&&WatchProbe(&place)).watch(depth)`: the first
/// trait below that fits is taken.
pub struct WatchProbe<'a, T: ?Sized>(pub &'a T);

macro_rules! levels {
    ($($(#[$doc:meta])* $name:ident: [$($g:tt)*] $probe:ty => $witness:ty, |$place:ident, $loan:ident| $make:expr;)*) => {$(
        $(#[$doc])*
        pub trait $name {
            type Witness;
            #[track_caller]
            fn watch(&self, declared: Depth) -> Self::Witness;
        }

        impl<$($g)*> $name for $probe {
            type Witness = $witness;
            #[track_caller]
            fn watch(&self, declared: Depth) -> $witness {
                let ($place, $loan) = (self.0, Loan { declared, site: Location::caller() });
                $make
            }
        }
    )*};
}

levels! {
    /// Device values.
    WatchDevice: [D: DeviceValue] &&&&&WatchProbe<'_, D> => Handles<D>,
        |place, loan| Handles { before: place.clone(), borrowed: Vec::new(), loan };
    /// References to device values.
    WatchDeviceRef: [D: DeviceValue] &&&&WatchProbe<'_, &mut D> => Behind<D, Handles<D>>,
        |place, loan| Behind(Handles { before: D::clone(place), borrowed: Vec::new(), loan }, PhantomData);
    /// Containers.
    WatchMarked: [M: Marked] &&&WatchProbe<'_, M> => Marked64,
        |place, loan| Marked64::new(place, loan);
    /// References to other host values.
    WatchHostRef: [T: Clone + PartialEq] &&WatchProbe<'_, &mut T> => Behind<T, Copied<T>>,
        |place, loan| Behind(Copied { before: loan.matters().then(|| T::clone(place)), loan }, PhantomData);
    /// Other host values.
    WatchHost: [T: Clone + PartialEq] &WatchProbe<'_, T> => Copied<T>,
        |place, loan| Copied { before: loan.matters().then(|| place.clone()), loan };
    /// Everything else.
    WatchUnseen: [T: ?Sized] WatchProbe<'_, T> => Unseen,
        |_place, loan| { loan.report_unseen(); Unseen(()) };
}

/// What may be a mutable reference, about to be passed on or asked: only what it refers to matters.
pub struct ReferenceProbe<'a, T: ?Sized>(pub &'a T);

levels! {
    /// References to device values.
    ReferenceDevice: [D: DeviceValue] &&&ReferenceProbe<'_, &mut D> => Behind<D, Handles<D>>,
        |place, loan| Behind(Handles { before: D::clone(place), borrowed: Vec::new(), loan }, PhantomData);
    /// References to containers.
    ReferenceMarked: [M: Marked] &&ReferenceProbe<'_, &mut M> => Behind<M, Marked64>,
        |place, loan| Behind(Marked64::new(&**place, loan), PhantomData);
    /// References to other host values.
    ReferenceHost: [T: Clone + PartialEq] &ReferenceProbe<'_, &mut T> => Behind<T, Copied<T>>,
        |place, loan| Behind(Copied { before: loan.matters().then(|| T::clone(place)), loan }, PhantomData);
    /// What is no reference.
    ReferenceNone: [T: ?Sized] ReferenceProbe<'_, T> => Unseen,
        |_place, _loan| Unseen(());
}

/// What may be changed through a shared reference, about to be.
pub struct CellProbe<'a, T: ?Sized>(pub &'a T);

macro_rules! cells {
    ($($t:ty)*) => {$(
        impl<T> CellProbe<'_, $t> {
            /// Reports the change under device control flow.
            #[track_caller]
            pub fn check(self, declared: Depth) {
                Loan { declared, site: Location::caller() }.report();
            }
        }
    )*};
}
cells! { Cell<T> RefCell<T> OnceCell<T> Mutex<T> RwLock<T> Rc<Cell<T>> Rc<RefCell<T>> Arc<Mutex<T>> Arc<RwLock<T>>
&Cell<T> &RefCell<T> &Mutex<T> &RwLock<T> &Rc<Cell<T>> &Rc<RefCell<T>> &Arc<Mutex<T>> &Arc<RwLock<T>> }

/// Everything else: nothing to do.
pub trait CellNone {
    fn check(self, declared: Depth);
}

impl<T: ?Sized> CellNone for CellProbe<'_, T> {
    fn check(self, _: Depth) {}
}
