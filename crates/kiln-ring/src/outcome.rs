//! What a handler returns, on the device.
//!
//! A handler's `Option` and `Result` stand for these types: the variant of a value is decided on
//! the device. In the body of a `#[ring_kernel]`, `Some(..)`, `None`, `Ok(..)` and `Err(..)` make
//! them where they are returned.

use half::{bf16, f16};
use kiln_lang::{DeviceValue, IntoDevice, IntoVal, Val};

/// A value of the device that may be absent.
///
/// ```
/// # use kiln_lang::{Level, trace, val};
/// use kiln_ring::DeviceOption;
/// # trace("k", Level::Thread { block: [1, 1, 1] }, |_| {
/// let some = DeviceOption::some(val::<f32>(2.5));
/// let none = DeviceOption::<kiln_lang::Val<f32>>::none();
/// # let _ = (some.present, none.value);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[derive(Clone, Copy, Debug, DeviceValue)]
#[kiln(crate = kiln_lang)]
pub struct DeviceOption<D: DeviceValue> {
    /// Whether there is a value.
    pub present: Val<bool>,
    /// The value; zeros if there is none.
    pub value: D,
}

impl<D: DeviceValue> DeviceOption<D> {
    /// A value that is there.
    pub fn some(value: D) -> Self {
        DeviceOption { present: true.into_val(), value }
    }
}

impl<D: DeviceValue + Zeroed> DeviceOption<D> {
    /// No value.
    pub fn none() -> Self {
        DeviceOption { present: false.into_val(), value: D::zeroed() }
    }
}

/// An option that the host decides.
impl<D: DeviceValue + Zeroed> IntoDevice<DeviceOption<D>> for Option<D> {
    fn into_device(self) -> DeviceOption<D> {
        match self {
            Some(value) => DeviceOption::some(value),
            None => DeviceOption::none(),
        }
    }
}

/// A value of the device, or a failure with a number. A handler that returns a failure marks its
/// actor failed.
///
/// A function that several handlers call returns one, which they return in turn:
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{AskError, DeviceResult, Reason, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// /// The square root; failure 3 for a negative number.
/// fn checked_root(x: Val<f32>) -> DeviceResult<Val<f32>> {
///     let failed = x.lt(0.0);
///     DeviceResult { failed, code: select(failed, 3u32, 0), value: x.maximum(0.0).sqrt() }
/// }
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn root(_ctx: &RingCtx, x: f32) -> Result<f32, u32> {
///     checked_root(x)
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(root, RingConfig::default())?;
/// actor.activate()?;
/// assert_eq!(actor.ask(6.25)?, Some(2.5));
/// let Err(AskError::Unhandled { reason, .. }) = actor.ask(-1.0) else { panic!("it failed") };
/// assert!(matches!(reason, Reason::Failed { number: 3, .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, DeviceValue)]
#[kiln(crate = kiln_lang)]
pub struct DeviceResult<D: DeviceValue> {
    /// Whether this is a failure.
    pub failed: Val<bool>,
    /// The failure's number; 0 if there is none.
    pub code: Val<u32>,
    /// The value; zeros if there is none.
    pub value: D,
}

/// What has a value whose words are all zero: that of an absent [`DeviceOption`].
///
/// `#[derive(Message)]` and `#[derive(State)]` implement it for the struct on the device. Another
/// struct of device values implements it where a function returns an option of it:
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{DeviceOption, Zeroed};
/// use kiln_runtime::{Device, Tensor};
///
/// #[derive(Clone, Copy, DeviceValue)]
/// #[kiln(crate = kiln_lang)]
/// struct Bounds { low: Val<u32>, high: Val<u32> }
///
/// impl Zeroed for Bounds {
///     fn zeroed() -> Bounds {
///         Bounds { low: Val::zeroed(), high: Val::zeroed() }
///     }
/// }
///
/// /// The bounds of numbers, of which there may be none.
/// fn bounds(numbers: &[Val<u32>]) -> DeviceOption<Bounds> {
///     let Some((first, others)) = numbers.split_first() else { return DeviceOption::none() };
///     let both = |bounds: Bounds, x: &Val<u32>| Bounds {
///         low: bounds.low.minimum(*x),
///         high: bounds.high.maximum(*x),
///     };
///     DeviceOption::some(others.iter().fold(Bounds { low: *first, high: *first }, both))
/// }
///
/// #[kernel(crate = kiln_runtime)]
/// fn widths(out: &mut Tensor<u32, 1>) {
///     let (some, none) = (bounds(&[val(7), val(2), val(5)]), bounds(&[]));
///     let width = some.value.high - some.value.low + none.value.high;
///     let there = some.present.cast::<u32>() + none.present.cast::<u32>();
///     out.tile(0, 1).store((width * 10 + there).broadcast_to(1));
/// }
///
/// let device = Device::open("interp")?;
/// let mut out = device.uninit([1])?;
/// widths(&mut out).grid([1]).launch(&device)?;
/// assert_eq!(out.to_vec()?, [51]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub trait Zeroed {
    /// The value: zero, `false`, or all parts zeroed.
    fn zeroed() -> Self;
}

macro_rules! zeroed {
    ($($t:ident)*) => {$(
        impl Zeroed for Val<$t> {
            fn zeroed() -> Self {
                IntoVal::<$t>::into_val(0)
            }
        }
    )*};
}
zeroed! { u32 i32 u64 i64 f32 f64 f16 bf16 }

impl Zeroed for Val<bool> {
    fn zeroed() -> Self {
        false.into_val()
    }
}

impl<D: Zeroed, const N: usize> Zeroed for [D; N] {
    fn zeroed() -> Self {
        std::array::from_fn(|_| D::zeroed())
    }
}

impl Zeroed for () {
    fn zeroed() -> Self {}
}

impl<D: DeviceValue + Zeroed> Zeroed for DeviceOption<D> {
    fn zeroed() -> Self {
        DeviceOption::none()
    }
}

/// What became of a message: a reply or none, or a failure of the actor.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{DeviceOption, Outcome};
///
/// // What a handler's function becomes, in a kernel that shows it.
/// use kiln_runtime::{Device, Tensor};
/// #[kernel(crate = kiln_runtime)]
/// fn outcomes(codes: &mut Tensor<u32, 1>) {
///     let reply = Outcome::<Val<u32>>::reply(val(7)).or_failure(val(true), val(3));
///     let maybe = Outcome::<Val<u32>>::maybe(DeviceOption::some(val(5)));
///     let silent = Outcome::<Val<u32>>::silent();
///     let sum = reply.code * 100 + maybe.reply.value * 10 + silent.code;
///     codes.tile(0, 1).store(sum.broadcast_to(1));
/// }
///
/// let device = Device::open("interp")?;
/// let mut codes = device.uninit([1])?;
/// outcomes(&mut codes).grid([1]).launch(&device)?;
/// assert_eq!(codes.to_vec()?, [350]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug, DeviceValue)]
#[kiln(crate = kiln_lang)]
pub struct Outcome<D: DeviceValue> {
    /// The reply. Of no meaning where the handler failed.
    pub reply: DeviceOption<D>,
    /// Whether the handler failed.
    pub failed: Val<bool>,
    /// The number of the failure, which the handler chose.
    pub code: Val<u32>,
}

impl<D: DeviceValue + Zeroed> Outcome<D> {
    /// No reply.
    pub fn silent() -> Self {
        Outcome::maybe(DeviceOption::none())
    }

    /// A reply.
    pub fn reply(value: D) -> Self {
        Outcome::maybe(DeviceOption::some(value))
    }

    /// A reply if there is one.
    pub fn maybe(reply: DeviceOption<D>) -> Self {
        Outcome { reply, failed: false.into_val(), code: 0.into_val() }
    }

    /// The outcome, or a failure.
    pub fn or_failure(self, failed: Val<bool>, code: Val<u32>) -> Self {
        Outcome { failed, code, ..self }
    }
}

// ---- what `#[ring_kernel]` makes of `Some`, `None`, `Ok`, `Err` and of the fields of struct
// literals

/// `Some(value)`.
#[track_caller]
pub fn some<D: DeviceValue>(value: impl IntoDevice<D>) -> DeviceOption<D> {
    DeviceOption::some(value.into_device())
}

/// `None`.
pub fn none<D: DeviceValue + Zeroed>() -> DeviceOption<D> {
    DeviceOption::none()
}

/// `Ok(value)`.
#[track_caller]
pub fn ok<D: DeviceValue>(value: impl IntoDevice<D>) -> DeviceResult<D> {
    DeviceResult { failed: false.into_val(), code: 0.into_val(), value: value.into_device() }
}

/// `Err(code)`.
#[track_caller]
pub fn err<D: DeviceValue + Zeroed>(code: impl IntoDevice<Val<u32>>) -> DeviceResult<D> {
    DeviceResult { failed: true.into_val(), code: code.into_device(), value: D::zeroed() }
}

/// A field of a struct literal.
#[track_caller]
pub fn field<D>(value: impl IntoDevice<D>) -> D {
    value.into_device()
}
