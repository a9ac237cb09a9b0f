//! What `if` and `while` decide on.

use crate::trace::{Raw, Site, error, with};
use crate::val::Val;

/// The condition of an `if` or `while`: a host `bool` decides while the kernel is traced, a device
/// `Val<bool>` becomes control flow.
///
/// ```
/// use kiln_lang::Condition;
/// use kiln_lang::prelude::*;
///
/// /// Decides now of a bool, and on the device of a value.
/// #[device(crate = kiln_lang)]
/// fn doubled_if(condition: impl Condition, x: Val<i32>) -> Val<i32> {
///     if condition { x * 2 } else { x }
/// }
///
/// let kernel = trace("k", Level::Tile { warps: None }, |p| {
///     let n = p.scalar::<i32>("n", Default::default());
///     let y = doubled_if(true, n); // no control flow
///     device_print!("{}", doubled_if(n.gt(0), y));
/// })?;
/// assert_eq!(kernel.to_string().matches(" if ").count(), 1);
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a condition",
    label = "expected `bool` or `Val<bool>`",
    note = "compare it, as in `x != 0`"
)]
pub trait Condition: Copy {
    /// Where the decision is taken.
    #[doc(hidden)]
    fn decision(self) -> Decision;

    /// The condition that is known on the host.
    #[doc(hidden)]
    fn constant(value: bool) -> Self;

    /// The condition itself. The macros call it, as a method of this trait, so that an error about
    /// something else names no function of theirs.
    #[doc(hidden)]
    fn checked(self) -> Self {
        self
    }
}

/// Where a condition is decided.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision {
    /// On the host, now.
    Host(bool),
    /// On the device.
    Device(Raw),
}

#[diagnostic::do_not_recommend]
impl Condition for bool {
    fn decision(self) -> Decision {
        Decision::Host(self)
    }

    fn constant(value: bool) -> bool {
        value
    }
}

#[diagnostic::do_not_recommend]
impl Condition for Val<bool> {
    fn decision(self) -> Decision {
        Decision::Device(self.raw())
    }

    fn constant(value: bool) -> Val<bool> {
        Val::from_raw(Raw::Const(kiln_ir::Literal::bool(value)))
    }
}

/// Reports a condition of rank 1 or more: there is one control flow for the whole tile.
pub(super) fn scalar_condition(raw: Raw, site: Site) -> Raw {
    let shape = with(|r| r.shape(raw)).flatten();
    match shape {
        Some(shape) if shape.rank() > 0 => {
            let message = format!("the condition is a tile of shape {shape}, not one bool");
            error(site, message, "reduce it with `.any()` or `.all()`, or choose elements with `select`");
            Raw::Poison
        }
        _ => raw,
    }
}
