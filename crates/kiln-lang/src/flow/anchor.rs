//! Variables declared late: from deep in device control flow, for what follows after it.

use super::value::{DeviceValue, Places, type_of};
use crate::trace::{Raw, error, with};
use std::panic::Location;

/// A place in a trace, for which variables can be declared from deeper in the control flow around.
///
/// A function that is called under device conditions can keep a value for its caller, though no
/// variable was declared for it beforehand. Where control does not come past, the variable holds
/// zeros; so it does after a fault in a [fault region](super::fault_region()) that is opened after
/// the place.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_lang::Anchor;
///
/// #[device(crate = kiln_lang)]
/// fn largest_even(x: View<i32, 1>) -> Val<i32> {
///     let here = Anchor::here();
///     let mut kept = Vec::new();
///     for i in 0..4 {
///         let value = x.get(i);
///         let variable = here.variable(&value);
///         if value % 2 == 0 {
///             here.set(&variable, value); // zero where the `if` is not taken
///         }
///         kept.push(variable);
///     }
///     kept.into_iter().fold(val(0), |a, b| a.maximum(b))
/// }
/// # trace("k", Level::Thread { block: [1, 1, 1] }, |p| {
/// #     device_print!("{}", largest_even(p.view("x", Default::default())));
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Anchor(u32);

impl Anchor {
    /// The place where control is now.
    pub fn here() -> Anchor {
        Anchor(with(|r| r.innermost()).unwrap_or(0))
    }

    /// A variable of the type of `like`, which lives where the anchor was made and holds zeros
    /// until it is [set](Self::set).
    #[track_caller]
    pub fn variable<D: DeviceValue>(&self, like: &D) -> D {
        let site = Location::caller();
        like.map(&mut |raw| {
            let Some(ty) = type_of(raw) else { return Raw::Poison };
            let declared = with(|r| {
                let home = r.open_position(self.0)?;
                Some(r.declare(ty, home))
            });
            declared.flatten().map_or_else(
                || {
                    let help = "make the anchor where the variable is read";
                    error(
                        site,
                        "an anchor is used after the control flow that it was made in has ended",
                        help,
                    );
                    Raw::Poison
                },
                Raw::Var,
            )
        })
    }

    /// Writes a variable that an anchor gave.
    #[track_caller]
    pub fn set<D: DeviceValue>(&self, variable: &D, value: D) {
        variable.clone().overwrite(&value, Location::caller());
    }
}
