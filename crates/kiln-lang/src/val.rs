//! The handle of a device value.

use crate::elem::{Elem, HostNumber, Int, Number, Numeric, Untyped, for_host_numbers};
use crate::trace::{Id, Raw, Site, error, with};
use kiln_ir::{Scalar, Shape};
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

/// A value on the device, of any static shape: at rank 0 a scalar, else a tile.
///
/// A `Val` is a handle: what is done with it is recorded, not computed. Operators take another
/// `Val` or a host number, which becomes a constant of the element type. Shapes combine as in
/// NumPy: scalars and extents of 1 stretch.
///
/// ```
/// # use kiln_lang::{iota, trace, Level};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// let i = iota::<f32>(8);
/// let y = (i * 2.0 + 1.0).sqrt();
/// assert_eq!(y.shape(), [8]);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
pub struct Val<T> {
    raw: Raw,
    elem: PhantomData<fn() -> T>,
}

/// A [`Val`] of rank 1 or more: a name for readers.
pub type Tile<T> = Val<T>;

/// The type of indices, extents and program ids.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// let (row, column): (Idx, Idx) = (thread_id(0) / 8, thread_id(0) % 8);
/// device_assert!((row * 8 + column).eq(thread_id(0)));
/// # });
/// ```
pub type Idx = Val<i64>;

impl<T> Clone for Val<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Val<T> {}

impl<T: Elem> fmt::Debug for Val<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match shape_of(self.raw) {
            Some(shape) if shape.rank() > 0 => write!(f, "Val<{}>{shape}", T::SCALAR),
            _ => write!(f, "Val<{}>", T::SCALAR),
        }
    }
}

impl<T> Val<T> {
    pub(crate) fn from_raw(raw: Raw) -> Self {
        Val { raw, elem: PhantomData }
    }

    pub(crate) fn raw(self) -> Raw {
        self.raw
    }

    /// The same value, for what does not look at its element type.
    ///
    /// ```
    #[doc = include_str!("on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// use kiln_lang::{Untyped, Val};
    ///
    /// /// Needs no copy for each element type.
    /// fn same(a: Val<Untyped>, b: Val<Untyped>) -> bool {
    ///     std::mem::size_of_val(&a) == std::mem::size_of_val(&b)
    /// }
    ///
    /// assert!(same(val::<f32>(1.0).untyped(), iota::<i64>(8).untyped()));
    /// # });
    /// ```
    pub fn untyped(self) -> Val<Untyped> {
        Val::from_raw(self.raw)
    }
}

impl<T: Elem> Val<T> {
    pub(crate) fn from_id(id: Option<Id>) -> Self {
        Val::from_raw(Raw::of(id))
    }

    pub(crate) fn poison() -> Self {
        Val::from_raw(Raw::Poison)
    }

    /// The extents, outermost first; empty for a scalar, and for the result of something that was
    /// refused.
    pub fn shape(self) -> Vec<usize> {
        extents(self.raw)
    }

    /// The number of axes.
    pub fn rank(self) -> usize {
        rank(self.raw)
    }
}

/// The shape behind a handle, `None` for poison.
pub(crate) fn shape_of(raw: Raw) -> Option<Shape> {
    with(|r| r.shape(raw)).flatten()
}

pub(crate) fn rank(raw: Raw) -> usize {
    shape_of(raw).map_or(0, |shape| shape.rank())
}

pub(crate) fn extents(raw: Raw) -> Vec<usize> {
    let shape = shape_of(raw).unwrap_or_default();
    shape.extents().iter().map(|&e| e as usize).collect()
}

/// What a handle stands for now: a result that is the operand itself must not follow the operand's
/// variable.
pub(crate) fn now(raw: Raw, site: Site) -> Raw {
    match raw {
        Raw::Var(_) => Raw::of(with(|r| r.read(raw, site)).flatten()),
        raw => raw,
    }
}

/// Lifts a host number to a device value.
///
/// The element type is usually inferred from the use. A number that does not fit it is an error of
/// the trace.
///
/// ```
/// # use kiln_lang::{trace, val, Level, Val};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// let mut total: Val<f32> = val(0);
/// total += 2.5;
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn val<T: Elem>(x: impl IntoVal<T>) -> Val<T> {
    x.into_val()
}

/// What converts to a device value of element type `T`: itself, or a host number.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// /// Takes values of the device, and numbers of the host.
/// fn halved(x: impl IntoVal<f32>) -> Val<f32> {
///     x.into_val() * 0.5
/// }
///
/// device_assert!(halved(3).eq(1.5) & halved(val(3.0)).eq(1.5));
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not convert to a device value of `{T}`",
    note = "device values convert with `.cast::<T>()`; only host numbers convert by themselves"
)]
pub trait IntoVal<T: Elem>: Copy {
    /// The value.
    #[track_caller]
    fn into_val(self) -> Val<T>;
}

#[diagnostic::do_not_recommend]
impl<T: Elem> IntoVal<T> for Val<T> {
    fn into_val(self) -> Val<T> {
        self
    }
}

impl IntoVal<bool> for bool {
    fn into_val(self) -> Val<bool> {
        Val::from_raw(Raw::Const(self.literal()))
    }
}

macro_rules! into_val {
    ($($t:ty)*) => {$(
        impl<T: Numeric> IntoVal<T> for $t {
            #[track_caller]
            fn into_val(self) -> Val<T> {
                Val::from_raw(constant(self.number(), T::SCALAR, Location::caller()))
            }
        }
    )*};
}
for_host_numbers!(into_val);

/// An integer literal of a kernel that is larger than the largest `i32`, the type that Rust would
/// give it.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct WideLiteral(pub i128);

impl<T: Numeric> IntoVal<T> for WideLiteral {
    #[track_caller]
    fn into_val(self) -> Val<T> {
        Val::from_raw(constant(Number::Int(self.0), T::SCALAR, Location::caller()))
    }
}

fn constant(number: Number, elem: Scalar, site: Site) -> Raw {
    match number.literal(elem) {
        Ok(literal) => Raw::Const(literal),
        Err(why) => {
            error(site, why, "choose a number in range or another element type");
            Raw::Poison
        }
    }
}

/// What serves as an index: an integer of the device or the host.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// /// Takes integers of every type.
/// fn block(number: impl IntoIndex) -> Idx {
///     number.into_index() * 64
/// }
///
/// device_assert!(block(2).eq(128) & block(val::<u32>(2)).eq(128));
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an index",
    note = "an index is an integer: a `Val<i64>`, `Val<i32>`, `Val<u32>`, `Val<u64>` or a host integer"
)]
pub trait IntoIndex: Copy {
    /// The index.
    #[track_caller]
    fn into_index(self) -> Idx;
}

impl<T: Int> IntoIndex for Val<T> {
    #[track_caller]
    fn into_index(self) -> Idx {
        self.cast::<i64>()
    }
}

macro_rules! into_index {
    ($($t:ty)*) => {$(
        impl IntoIndex for $t {
            #[track_caller]
            fn into_index(self) -> Idx {
                self.into_val()
            }
        }
    )*};
}
into_index! { i8 u8 i16 u16 i32 u32 i64 u64 isize usize }
