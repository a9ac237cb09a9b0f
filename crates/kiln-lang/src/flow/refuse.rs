//! Errors for what cannot be traced, with what to write instead.

use crate::val::Val;

/// A value about to be matched against literals.
pub struct MatchProbe<'a, T: ?Sized>(pub &'a T);

/// What can be matched against patterns: host values.
#[diagnostic::on_unimplemented(
    message = "a device value cannot be matched: its value is not known while the kernel is traced",
    label = "this is a device value",
    note = "compare it with `if x == 0 {{ .. }} else if x == 1 {{ .. }}`, or choose with `select`"
)]
pub trait Matchable {}

impl<T> MatchProbe<'_, Val<T>> {
    /// Refuses device values.
    pub fn matchable(self)
    where
        Val<T>: Matchable,
    {
    }
}

/// Host values may be matched.
pub trait MatchHost {
    fn matchable(self);
}

impl<T: ?Sized> MatchHost for MatchProbe<'_, T> {
    fn matchable(self) {}
}

/// A value about to be cast with `as`.
pub struct CastProbe<'a, T: ?Sized>(pub &'a T);

/// What `as` casts: host numbers.
#[diagnostic::on_unimplemented(
    message = "`as` does not cast device values",
    label = "this is a device value",
    note = "write `x.cast::<f32>()`"
)]
pub trait Castable {}

impl<T> CastProbe<'_, Val<T>> {
    /// Refuses device values.
    pub fn castable(self)
    where
        Val<T>: Castable,
    {
    }
}

/// Host values may be cast.
pub trait CastHost {
    fn castable(self);
}

impl<T: ?Sized> CastHost for CastProbe<'_, T> {
    fn castable(self) {}
}
