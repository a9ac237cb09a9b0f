//! Assertions and prints on the device.

use crate::elem::{Elem, for_host_numbers};
use crate::trace::{Raw, Recorder, Site, error, with};
use crate::val::{IntoVal, Val};
use kiln_ir::{Literal, OpKind, Shape};
use smallvec::SmallVec;
use std::panic::Location;

/// Ends the kernel with a fault where a condition is false; the message may show scalars, each as
/// `{}`.
///
/// ```
/// # use kiln_lang::{device_assert, param::Facts, trace, Level};
/// # trace("k", Level::Tile { warps: None }, |p| {
/// # let n = p.scalar::<i32>("n", Default::default());
/// device_assert!(n.gt(0), "n is {}", n);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[macro_export]
macro_rules! device_assert {
    ($cond:expr $(,)?) => {
        $crate::diag::assert($cond, concat!("assertion failed: ", stringify!($cond)), &[])
    };
    ($cond:expr, $text:literal $(, $value:expr)* $(,)?) => {
        $crate::diag::assert($cond, $text, &[$($crate::diag::Shown::shown(&$value)),*])
    };
}

/// Prints scalars, each in the place of a `{}`, and a line break: of every thread that comes there,
/// of a kernel over tiles once for each program.
///
/// ```
/// # use kiln_lang::{device_print, param::Facts, program_id, trace, Level};
/// # trace("k", Level::Tile { warps: None }, |p| {
/// # let x = p.view::<f32, 1>("x", Facts::default());
/// let v = x.tile(program_id(0) * 64, 64).load(0.0);
/// device_print!("program {}: from {} to {}", program_id(0), v.reduce_min(), v.reduce_max());
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[macro_export]
macro_rules! device_print {
    ($text:literal $(, $value:expr)* $(,)?) => {
        $crate::diag::print($text, &[$($crate::diag::Shown::shown(&$value)),*])
    };
}

/// What a message can show: scalars of the device and numbers of the host.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// use kiln_lang::diag::Shown;
///
/// /// Checks a limit of the host or the device, which the message shows.
/// fn limited(x: Val<i32>, limit: impl IntoVal<i32> + Shown) {
///     device_assert!(x.le(limit), "{} is more than {}", x, limit);
/// }
///
/// limited(val(3), 7);
/// limited(val(3), val(3));
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be shown from a device",
    note = "messages show scalars of the device, and numbers and bools of the host"
)]
pub trait Shown {
    /// The handle.
    #[doc(hidden)]
    fn shown(&self) -> Raw;
}

impl<T: Elem> Shown for Val<T> {
    fn shown(&self) -> Raw {
        self.raw()
    }
}

impl Shown for crate::ThreadIndex<1> {
    fn shown(&self) -> Raw {
        self.get().raw()
    }
}

impl Shown for bool {
    fn shown(&self) -> Raw {
        Raw::Const(self.literal())
    }
}

macro_rules! shown {
    ($($t:ty)*) => {$(
        impl Shown for $t {
            fn shown(&self) -> Raw {
                use crate::elem::{HostNumber, Number};
                Raw::Const(match self.number() {
                    Number::Int(n) => Literal::wrapping(kiln_ir::Scalar::I64, n),
                    Number::Float(x) => Literal::from_f64(kiln_ir::Scalar::F64, x),
                })
            }
        }
    )*};
}
for_host_numbers!(shown);

/// The condition of an `assert!` of the standard library.
#[doc(hidden)]
pub struct AssertProbe<C>(pub C);

impl AssertProbe<Val<bool>> {
    /// Checks it on the device.
    #[track_caller]
    pub fn check(self, text: &str) {
        assert(self.0, text, &[]);
    }
}

impl AssertProbe<bool> {
    /// Checks it on the host, now.
    #[track_caller]
    pub fn check(self, text: &str) {
        if !self.0 {
            panic!("{text}");
        }
    }
}

#[doc(hidden)]
#[track_caller]
pub fn assert(cond: impl IntoVal<bool>, text: &str, values: &[Raw]) {
    let site = Location::caller();
    assert_raw(cond.into_val().raw(), text, values, site);
}

/// As [`assert`], for a line of the user's.
pub(crate) fn assert_raw(cond: Raw, text: &str, values: &[Raw], site: Site) {
    with(|r| {
        let cond = r.read(cond, site)?;
        emit(r, text, Some(cond), values, site)
    });
}

#[doc(hidden)]
#[track_caller]
pub fn print(text: &str, values: &[Raw]) {
    let site = Location::caller();
    with(|r| emit(r, text, None, values, site));
}

fn emit(
    r: &mut Recorder,
    text: &str,
    cond: Option<crate::trace::Id>,
    values: &[Raw],
    site: &'static Location<'static>,
) -> Option<()> {
    let places = text.matches("{}").count();
    if places != values.len() {
        let message = format!("the message has {places} places for {} values", values.len());
        r.error(site, message, "write one `{}` for each value");
        return None;
    }
    let mut operands: SmallVec<[_; 4]> = cond.into_iter().collect();
    for value in values {
        if let Some(shape) = r.shape(*value).filter(|shape| shape.rank() > 0) {
            let message = format!("a message shows scalars, and this value is a tile of shape {shape}");
            r.error(site, message, "show a part of it, such as its `sum()` or `reduce_max()`");
            return None;
        }
        operands.push(r.read_as(*value, &Shape::scalar(), site)?);
    }
    let message = r.message(text);
    let kind = if cond.is_some() { OpKind::Assert(message) } else { OpKind::Print(message) };
    r.effect(kind, &operands, site);
    Some(())
}

/// Reports a mistake in code that builds on the language, with a location and what to do.
///
/// ```
/// use kiln_lang::{Level, Val, diag, trace, val};
///
/// /// A mean of at least one value.
/// fn mean(values: &[Val<f32>]) -> Val<f32> {
///     if values.is_empty() {
///         diag::report("a mean of nothing", "give it a value");
///         return val(0.0);
///     }
///     values.iter().fold(val(0.0), |sum, &x| sum + x) / values.len()
/// }
///
/// let errors = trace("k", Level::Tile { warps: None }, |_| _ = mean(&[])).unwrap_err();
/// assert_eq!((&errors.errors()[0].message[..], &errors.errors()[0].help[..]), ("a mean of nothing", "give it a value"));
/// ```
#[track_caller]
pub fn report(message: impl Into<String>, help: impl Into<String>) {
    error(Location::caller(), message, help);
}
