//! What the user knows of values and the compiler does not.

use crate::diag::assert_raw;
use crate::elem::Int;
use crate::trace::{Raw, error, with};
use crate::val::{IntoVal, Val};
use kiln_ir::{BinaryOp, CompareOp, Literal, OpKind, Type};
use std::panic::Location;

/// Says that a condition holds, so that the compiler can rely on it. It is checked on every device:
/// where it is false, the kernel ends with a fault of this line.
///
/// What follows of integer scalars is known to the code that comes after, in the same branch or
/// loop: comparisons with constants bound a value, and `(n % 16).eq(0)` says what divides it
/// ([`Val::multiple_of`] does so too). `i.lt(x.extent(0))`, with `i` known not to be negative,
/// takes the check from `x.get(i)`. Conditions that are joined by `&` count each. Bounds of what is
/// computed from `program_id` or `thread_id` are checked alone. Of a variable that is assigned to
/// (`let mut`) nothing is known afterwards, as it may change: bind its value by `let`.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// /// A block of 16 elements that begins where another tensor says.
/// #[device(crate = kiln_lang)]
/// fn block(x: View<u32, 1>, at: Val<i64>) -> Val<u32> {
///     assume(at.ge(0) & (at % 16).eq(0)); // loads of 16 bytes, and no mask below 0
///     x.tile(at, 16).load(0)
/// }
///
/// device_assert!(block(*memory, val(32)).eq(0).all());
/// # });
/// ```
#[track_caller]
pub fn assume(condition: impl IntoVal<bool>) {
    let site = Location::caller();
    let condition = condition.into_val().raw();
    let read = with(|r| r.read(condition, site)).flatten().map_or(Raw::Poison, Raw::Value);
    assert_raw(read, "an assumption does not hold", &[], site);
    if let Raw::Value(id) = read {
        with(|r| r.refine_by(id, site));
    }
}

impl<T: Int> Val<T> {
    /// The value, which the user knows to be a multiple of a number: boxes that begin there can be
    /// loaded and stored in vectors. It is checked on every device: where an element is no multiple
    /// of it, the kernel ends with a fault of this line.
    ///
    /// ```
    #[doc = include_str!("on_interp.txt")]
    /// # on_interp(Level::Tile { warps: None }, &|memory| {
    /// let places = memory.tile(0, 4).load(0); // where blocks begin
    /// let at = places.reduce_max().cast::<i64>().multiple_of(16);
    /// memory.tile(at, 16).store(1u32);
    /// device_assert!(memory.get(15).eq(1) & memory.get(16).eq(0));
    /// # });
    /// ```
    #[must_use]
    #[track_caller]
    pub fn multiple_of(self, number: usize) -> Val<T> {
        Val::from_raw(multiple_of(self.raw(), number))
    }
}

/// Not generic, so that kernels have one.
#[track_caller]
fn multiple_of(value: Raw, number: usize) -> Raw {
    let site = Location::caller();
    let Some(ty) = with(|r| r.ty(value)).flatten() else { return Raw::Poison };
    let (elem, scalar) = (ty.elem(), ty.is_scalar());
    let literal = (number > 0).then(|| Literal::from_i128(elem, number as i128)).flatten();
    let Some(literal) = literal else {
        let message = format!("{number} is not a number that a value of {elem} is a multiple of");
        error(site, message, format!("give a positive number that {elem} has"));
        return Raw::Poison;
    };
    let made = with(|r| {
        let shape = r.shape(value)?;
        let value = r.read(value, site)?;
        let number = r.constant(literal, shape.clone(), site);
        let rest = r.binary(BinaryOp::Rem, value, number, site)?;
        let zero = r.constant(Literal::zero(elem), shape.clone(), site);
        let ty = Type::tile(kiln_ir::Scalar::Bool, shape);
        let holds = r.op(OpKind::Compare(CompareOp::Eq), &[rest, zero], ty, site);
        Some((value, holds))
    });
    let Some((value, holds)) = made.flatten() else { return Raw::Poison };
    let shown: &[Raw] = if scalar { &[Raw::Value(value)] } else { &[] };
    let text = match scalar {
        true => format!("{{}} is not a multiple of {number}"),
        false => format!("an element is not a multiple of {number}"),
    };
    assert_raw(Raw::Value(holds), &text, shown, site);
    Raw::of(with(|r| r.multiple(value, literal, site)).flatten())
}
