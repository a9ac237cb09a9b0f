//! Names of the user's for values, for a debugger.
//!
//! The macros call [`named`] where a name is bound, in builds with debug assertions. It is generic
//! without a bound, so that it has no say in what type the compiler infers, and finds out by the
//! type's identity whether there is something to record.

use crate::elem::{Elem, for_host_numbers};
use crate::memory::{Local, Shared};
use crate::trace::{Item, NameItem, NamedAs, Raw, Site, records_names, with};
use crate::val::Val;
use crate::view::{ThreadIndex, View, ViewMut};
use half::{bf16, f16};
use kiln_ir::{E4M3, E5M2};
use std::any::TypeId;
use std::marker::PhantomData;
use std::panic::Location;

/// Notes that a value is bound to a name, whose scope ends in line `last`, and gives it back.
#[doc(hidden)]
#[track_caller]
#[inline]
pub fn named<T>(value: T, name: &'static str, last: u32) -> T {
    if records_names() {
        let at = &raw const value;
        // SAFETY: `at` points to a value of the type with this identity, which lives.
        unsafe { note(type_id::<T>(), at.cast(), name, last, Location::caller()) };
    }
    value
}

/// The identity of a type, whose lifetimes do not count.
fn type_id<T>() -> TypeId {
    trait Identified {
        fn id(&self) -> TypeId
        where
            Self: 'static;
    }
    impl<T> Identified for PhantomData<T> {
        fn id(&self) -> TypeId
        where
            Self: 'static,
        {
            TypeId::of::<T>()
        }
    }
    let phantom = PhantomData::<T>;
    let erased: &dyn Identified = &phantom;
    // SAFETY: only the lifetime bound of the trait object changes. The method reads nothing, and an
    // identity is the same for all lifetimes.
    let erased: &(dyn Identified + 'static) = unsafe { std::mem::transmute(erased) };
    erased.id()
}

/// Records a name for the value at an address.
///
/// # Safety
/// `at` points to a live value of the type whose identity `id` is.
unsafe fn note(id: TypeId, at: *const (), name: &str, last: u32, site: Site) {
    // SAFETY: the caller's promise.
    let found = unsafe { parts(id, at) };
    for (suffix, what) in found {
        let item = NameItem { name: format!("{}{suffix}", name.trim_start_matches("r#")), what, site, last };
        with(|r| r.push(Item::Name(Box::new(item))));
    }
}

/// What a value is made of that has a name: itself, or the axes of an index.
///
/// # Safety
/// As of [`note`].
unsafe fn parts(id: TypeId, at: *const ()) -> Vec<(String, NamedAs)> {
    let whole = |what| vec![(String::new(), what)];
    macro_rules! is {
        ($t:ty) => {{
            // SAFETY: the identity says that the value is of this type, which has no lifetimes.
            (id == TypeId::of::<$t>()).then(|| unsafe { &*at.cast::<$t>() })
        }};
    }
    macro_rules! host {
        ($($t:ty)*) => {$(
            if let Some(value) = is!($t) {
                return whole(NamedAs::Host(format!("{value:?} {}", std::any::type_name::<$t>().rsplit("::").next().unwrap_or_default())));
            }
        )*};
    }
    macro_rules! device {
        ($($t:ty)*) => {$(
            if let Some(value) = is!(Val<$t>) {
                return whole(NamedAs::Device(value.raw()));
            }
            // SAFETY: the caller's promise.
            if let Some(raw) = unsafe { view_of::<$t>(id, at) } {
                return whole(NamedAs::Device(raw));
            }
        )*};
    }
    device! { f32 i64 i32 u32 bool f16 bf16 f64 u64 E4M3 E5M2 i8 u8 i16 u16 }
    for_host_numbers!(host);
    host! { bool char }
    if let Some(index) = is!(ThreadIndex<1>) {
        return whole(NamedAs::Device(index.axis(0).raw()));
    }
    let axes: Vec<_> = match (is!(ThreadIndex<2>), is!(ThreadIndex<3>)) {
        (Some(index), _) => (0..2).map(|axis| index.axis(axis)).collect(),
        (_, Some(index)) => (0..3).map(|axis| index.axis(axis)).collect(),
        _ => Vec::new(),
    };
    axes.iter().enumerate().map(|(n, axis)| (format!("[{n}]"), NamedAs::Device(axis.raw()))).collect()
}

/// The handle of a whole view.
///
/// # Safety
/// As of [`note`].
unsafe fn view_of<T: Elem>(id: TypeId, at: *const ()) -> Option<Raw> {
    macro_rules! of_rank {
        ($($r:literal)*) => {$(
            if id == TypeId::of::<View<T, $r>>() {
                // SAFETY: the identity says so.
                return unsafe { &*at.cast::<View<T, $r>>() }.core.all();
            }
            if id == TypeId::of::<ViewMut<T, $r>>() {
                // SAFETY: the identity says so.
                return unsafe { &*at.cast::<ViewMut<T, $r>>() }.core.all();
            }
            if id == TypeId::of::<Shared<T, $r>>() {
                // SAFETY: the identity says so.
                return unsafe { &*at.cast::<Shared<T, $r>>() }.core.all();
            }
        )*};
    }
    of_rank! { 1 2 3 4 5 }
    if id == TypeId::of::<Local<T>>() {
        // SAFETY: the identity says so.
        return unsafe { &*at.cast::<Local<T>>() }.view.core.all();
    }
    None
}
