//! Device values: handles, and aggregates of handles.

use crate::elem::{Elem, Num, for_host_numbers};
use crate::trace::{Depth, Raw, Site, abort, with};
use crate::val::{IntoVal, Val, WideLiteral, now};
use kiln_ir::Type;

/// A device value, or a tuple, array, box or struct of device values.
///
/// `#[derive(DeviceValue)]` implements it for a struct, so that `let mut`, assignment and `if` work
/// on the struct as a whole. Fields that are not device values are host values: constants that may
/// not change under device control flow.
///
/// ```
/// use kiln_lang::{DeviceValue, Val};
///
/// #[derive(Clone, Copy, DeviceValue)]
/// #[kiln(crate = kiln_lang)]
/// struct Moments {
///     count: Val<f32>,
///     mean: Val<f32>,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not made of device values",
    note = "for a struct, add `#[derive(Clone, Copy, DeviceValue)]`"
)]
pub trait DeviceValue: Clone + IntoDevice<Self> {
    /// Applies `f` to every handle.
    #[doc(hidden)]
    fn map(&self, f: &mut dyn FnMut(Raw) -> Raw) -> Self;

    /// Applies `f` to every pair of handles.
    #[doc(hidden)]
    fn zip(&self, other: &Self, f: &mut dyn Zip) -> Self;
}

/// What [`DeviceValue::zip`] does with each pair.
#[doc(hidden)]
pub trait Zip {
    /// A pair of handles.
    fn device(&mut self, a: Raw, b: Raw) -> Raw;
    /// A pair of host values; whether the second one is the result.
    fn host(&mut self, same: bool) -> bool;
}

impl<T: Elem> DeviceValue for Val<T> {
    fn map(&self, f: &mut dyn FnMut(Raw) -> Raw) -> Self {
        Val::from_raw(f(self.raw()))
    }

    fn zip(&self, other: &Self, f: &mut dyn Zip) -> Self {
        Val::from_raw(f.device(self.raw(), other.raw()))
    }
}

impl<D: DeviceValue, const N: usize> DeviceValue for [D; N] {
    fn map(&self, f: &mut dyn FnMut(Raw) -> Raw) -> Self {
        std::array::from_fn(|i| self[i].map(f))
    }

    fn zip(&self, other: &Self, f: &mut dyn Zip) -> Self {
        std::array::from_fn(|i| self[i].zip(&other[i], f))
    }
}

impl<D: DeviceValue> DeviceValue for Box<D> {
    fn map(&self, f: &mut dyn FnMut(Raw) -> Raw) -> Self {
        Box::new((**self).map(f))
    }

    fn zip(&self, other: &Self, f: &mut dyn Zip) -> Self {
        Box::new((**self).zip(other, f))
    }
}

macro_rules! tuple {
    ($($t:ident $v:ident $n:tt)*) => {
        impl<$($t, $v: IntoDevice<$t>),*> IntoDevice<($($t,)*)> for ($($v,)*) {
            #[allow(clippy::unused_unit)]
            #[track_caller]
            fn into_device(self) -> ($($t,)*) {
                ($(self.$n.into_device(),)*)
            }
        }

        #[allow(clippy::unused_unit)]
        impl<$($t: DeviceValue),*> DeviceValue for ($($t,)*) {
            #[allow(unused_variables)]
            fn map(&self, f: &mut dyn FnMut(Raw) -> Raw) -> Self {
                ($(self.$n.map(f),)*)
            }

            #[allow(unused_variables)]
            fn zip(&self, other: &Self, f: &mut dyn Zip) -> Self {
                ($(self.$n.zip(&other.$n, f),)*)
            }
        }
    };
}
tuple!();
tuple!(A A2 0);
tuple!(A A2 0 B B2 1);
tuple!(A A2 0 B B2 1 C C2 2);
tuple!(A A2 0 B B2 1 C C2 2 D D2 3);
tuple!(A A2 0 B B2 1 C C2 2 D D2 3 E E2 4);
tuple!(A A2 0 B B2 1 C C2 2 D D2 3 E E2 4 F F2 5);
tuple!(A A2 0 B B2 1 C C2 2 D D2 3 E E2 4 F F2 5 G G2 6);
tuple!(A A2 0 B B2 1 C C2 2 D D2 3 E E2 4 F F2 5 G G2 6 H H2 7);

/// What a place of type `D` takes: a `D`, or host numbers in the place of [`Val`]s.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// use kiln_lang::IntoDevice;
///
/// /// Takes device values, and numbers of the host in their place.
/// fn midpoint<P: IntoDevice<[Val<f32>; 2]>>(a: [Val<f32>; 2], b: P) -> [Val<f32>; 2] {
///     let b = b.into_device();
///     [0, 1].map(|axis| (a[axis] + b[axis]) * 0.5)
/// }
///
/// let [x, y] = midpoint([val(1.0), val(2.0)], [3, 4]);
/// device_assert!(x.eq(2.0) & y.eq(3.0));
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "a value of type `{Self}` cannot be stored where there is `{D}`",
    note = "device values convert with `.cast::<T>()`; only host numbers convert by themselves"
)]
pub trait IntoDevice<D> {
    /// The value.
    #[track_caller]
    fn into_device(self) -> D;
}

#[diagnostic::do_not_recommend]
impl<T: Elem> IntoDevice<Val<T>> for Val<T> {
    fn into_device(self) -> Val<T> {
        self
    }
}

impl<D, V: IntoDevice<D>, const N: usize> IntoDevice<[D; N]> for [V; N] {
    #[track_caller]
    fn into_device(self) -> [D; N] {
        // A loop, not a closure: the location of an error is this method's caller.
        let mut converted = [const { None }; N];
        for (place, value) in converted.iter_mut().zip(self) {
            *place = Some(value.into_device());
        }
        converted.map(|value| value.unwrap_or_else(|| abort()))
    }
}

impl<D: DeviceValue> IntoDevice<Box<D>> for Box<D> {
    fn into_device(self) -> Box<D> {
        self
    }
}

impl IntoDevice<Val<bool>> for bool {
    fn into_device(self) -> Val<bool> {
        self.into_val()
    }
}

impl<T: Num> IntoDevice<Val<T>> for WideLiteral {
    #[track_caller]
    fn into_device(self) -> Val<T> {
        self.into_val()
    }
}

macro_rules! into_device {
    ($($t:ty)*) => {$(
        impl<T: Num> IntoDevice<Val<T>> for $t {
            #[track_caller]
            fn into_device(self) -> Val<T> {
                self.into_val()
            }
        }
    )*};
}
for_host_numbers!(into_device);

/// A field of a derived [`DeviceValue`]: device values and host values are told apart by the
/// methods' bounds.
#[doc(hidden)]
pub struct FieldProbe<'a, T>(pub &'a T);

impl<T: DeviceValue> FieldProbe<'_, T> {
    pub fn map(self, f: &mut dyn FnMut(Raw) -> Raw) -> T {
        self.0.map(f)
    }

    pub fn zip(self, other: &T, f: &mut dyn Zip) -> T {
        self.0.zip(other, f)
    }
}

/// The host's side of [`FieldProbe`].
#[doc(hidden)]
pub trait HostField<T> {
    fn map(self, f: &mut dyn FnMut(Raw) -> Raw) -> T;
    fn zip(self, other: &T, f: &mut dyn Zip) -> T;
}

impl<T: Clone + PartialEq> HostField<T> for FieldProbe<'_, T> {
    fn map(self, _: &mut dyn FnMut(Raw) -> Raw) -> T {
        self.0.clone()
    }

    fn zip(self, other: &T, f: &mut dyn Zip) -> T {
        if f.host(self.0 == other) { other.clone() } else { self.0.clone() }
    }
}

/// Operations on whole device values, in terms of `map` and `zip`. What they do with each handle is
/// in functions without type parameters: each type of values would have a copy of a closure.
pub(crate) trait Places: DeviceValue {
    /// The value as it is now: variables are read.
    fn snapshot(&self, site: Site) -> Self {
        self.map(&mut reading(site))
    }

    /// New variables that hold the value.
    fn to_variables(&self, site: Site) -> Self {
        self.map(&mut declaring(site))
    }

    /// Writes the variables this value is made of; what is not a variable is replaced.
    fn overwrite(&mut self, value: &Self, site: Site) {
        *self = self.zip(value, &mut Overwrite { site, declared: None });
    }

    /// As [`overwrite`](Self::overwrite), for a place that was declared at some depth of device
    /// control flow.
    fn overwrite_declared(&mut self, value: &Self, declared: Depth, site: Site) {
        *self = self.zip(value, &mut Overwrite { site, declared: Some(declared) });
    }

    /// Reports parts that are not variables if the place was declared outside the device control
    /// flow around.
    fn check_assignable(&self, declared: Depth, site: Site) {
        self.map(&mut checking(declared, site));
    }
}

impl<D: DeviceValue> Places for D {}

fn reading(site: Site) -> impl FnMut(Raw) -> Raw {
    move |raw| now(raw, site)
}

fn declaring(site: Site) -> impl FnMut(Raw) -> Raw {
    move |raw| with(|r| r.declare_as(raw, site)).unwrap_or(Raw::Poison)
}

fn checking(declared: Depth, site: Site) -> impl FnMut(Raw) -> Raw {
    move |raw| {
        if matches!(raw, Raw::Const(_) | Raw::Value(_)) {
            with(|r| r.check_host_assignment(declared, site));
        }
        raw
    }
}

struct Overwrite {
    site: Site,
    declared: Option<Depth>,
}

impl Zip for Overwrite {
    fn device(&mut self, old: Raw, new: Raw) -> Raw {
        if let Raw::Var(var) = old {
            with(|r| r.set(var, new, self.site));
            return old;
        }
        if let Some(declared) = self.declared {
            with(|r| r.check_host_assignment(declared, self.site));
        }
        now(new, self.site)
    }

    fn host(&mut self, same: bool) -> bool {
        if let (Some(declared), false) = (self.declared, same) {
            with(|r| r.check_host_assignment(declared, self.site));
        }
        true
    }
}

/// The type of the variables that hold a value, if it is not poison.
pub(crate) fn type_of(raw: Raw) -> Option<Type> {
    with(|r| r.ty(raw)).flatten()
}
