//! Operators, and operations on two arrays.
//!
//! Operands broadcast and promote as in NumPy. A Rust number takes the array's element type where
//! that has numbers of its kind: `x * 2.0` is f16 for an x of f16, and f64 for an x of i32.

use super::create::checked_size;
use crate::dtype::{Kind, float_of, kind, promote};
use crate::error::{Error, Result, Site};
use crate::node::{Array, Made, common_device};
use crate::op::Op;
use crate::shape::{Extents, broadcast};
use kiln_ir::{BinaryOp, Class, Literal, Scalar};
use std::panic::Location;

/// The right side of an operation: an array, or a number of Rust's.
///
/// A number takes the array's element type where that has numbers of its kind, so that `x * 2.0` is
/// f16 for an `x` of f16. A float beside integers or bool makes f64 of both, and an integer beside
/// bool i64. An integer that the array's type cannot hold is an error.
///
/// A number on the left of an operator is an `f64` or an `i64`, so that the compiler knows the type
/// of one that is written out: `(1.0 - &x).exp()`. Of a variable of another type write
/// `f64::from(a) - &x`.
///
/// ```
/// use kiln_array::{Array, Operand, Scalar};
///
/// /// The greater of x and a limit, which is an array or a number.
/// fn at_least(x: &Array, limit: impl Operand) -> Array {
///     x.maximum(limit)
/// }
///
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[-1.0f32, 0.5, 2.0], &[3]);
/// assert_eq!(at_least(&x, 0.0).to_vec::<f32>()?, [0.0, 0.5, 2.0]);
/// assert_eq!(at_least(&x, Array::ones(&device, Scalar::F32, &[1])).to_vec::<f32>()?, [1.0, 1.0, 2.0]);
/// assert_eq!((2 * (1.0 - &x).abs()).sqrt().to_vec::<f32>()?, [2.0, 1.0, f32::sqrt(2.0)]);
/// # Ok::<(), kiln_array::Error>(())
/// ```
pub trait Operand {
    /// It as an array beside another one.
    #[doc(hidden)]
    fn beside(&self, other: &Array, site: Site) -> Array;
}

impl Operand for Array {
    fn beside(&self, _: &Array, _: Site) -> Array {
        self.clone()
    }
}

impl Operand for &Array {
    fn beside(&self, _: &Array, _: Site) -> Array {
        (*self).clone()
    }
}

macro_rules! numbers {
    ($kind:ident: $($t:ty)*) => {$(
        impl Operand for $t {
            fn beside(&self, other: &Array, site: Site) -> Array {
                number_beside(Kind::$kind, *self as f64, *self as i128, other, site)
            }
        }
    )*};
}
numbers!(Float: f32 f64);
numbers!(Integer: i8 u8 i16 u16 i32 i64 u32 usize);

impl Operand for bool {
    fn beside(&self, other: &Array, site: Site) -> Array {
        number_beside(Kind::Bool, f64::from(u8::from(*self)), i128::from(*self), other, site)
    }
}

/// A Rust number in the element type that it has beside an array.
fn number_beside(of: Kind, float: f64, integer: i128, other: &Array, site: Site) -> Array {
    let dtype = match (of, kind(other.dtype())) {
        (Kind::Bool, Kind::Bool) => Scalar::Bool,
        (Kind::Integer, Kind::Bool) => Scalar::I64,
        (Kind::Float, Kind::Bool | Kind::Integer) => Scalar::F64,
        _ => other.dtype(),
    };
    let number = match of {
        Kind::Float => Some(Literal::from_f64(dtype, float)),
        Kind::Bool | Kind::Integer => Literal::from_i128(dtype, integer),
    };
    let Some(device) = other.device() else { return other.clone() };
    match number {
        Some(number) => super::create::constant(device, "full", number, &[], site),
        None => {
            let problem =
                format!("{integer}, beside an array of {dtype}, is out of range: cast the array first");
            Array::failed(Error::Shape { op: "number", problem, location: site }, site)
        }
    }
}

/// Both in one shape and of one element type.
pub(crate) fn paired(
    op: &'static str,
    a: &Array,
    b: &Array,
    dtype: Option<Scalar>,
    site: Site,
) -> Result<[Array; 2]> {
    if let Some(error) = [a, b].into_iter().find_map(|array| array.error()) {
        return Err(error);
    }
    common_device(&[a, b], op, site)?;
    let shape = common_shape(op, &[a, b], site)?;
    let dtype = dtype.unwrap_or_else(|| promote(a.dtype(), b.dtype()));
    checked_size(op, &shape, dtype, site)?;
    Ok([a, b].map(|array| array.cast_at(dtype, site).stretched(&shape, site)))
}

/// The shape that all broadcast to.
pub(crate) fn common_shape(op: &'static str, arrays: &[&Array], location: Site) -> Result<Extents> {
    let mut shape = Extents::new();
    for array in arrays {
        shape = broadcast(&shape, array.shape()).ok_or_else(|| {
            let shapes: Vec<String> = arrays.iter().map(|array| format!("{:?}", array.shape())).collect();
            let problem =
                format!("shapes {} do not broadcast: axes must be equal, or 1", shapes.join(" and "));
            Error::Shape { op, problem, location }
        })?;
    }
    Ok(shape)
}

/// An operation on two arrays, in the element type that they have in common, or in a given one.
pub(crate) fn binary(op: BinaryOp, a: &Array, b: &Array, dtype: Option<Scalar>, site: Site) -> Array {
    let of = Op::Binary(op);
    let name = of.name();
    match paired(name, a, b, dtype, site) {
        Err(error) => Array::failed(error, site),
        Ok([a, b]) => Array::record(&[&a, &b], site, || {
            let dtype = a.dtype();
            checked_class(name, op.info().class, dtype, site)?;
            Ok(Made { op: of, dtype, shape: Extents::from_slice(a.shape()) })
        }),
    }
}

/// Refuses element types that an operation is not for.
pub(crate) fn checked_class(op: &'static str, class: Class, dtype: Scalar, location: Site) -> Result<()> {
    let hint = match class {
        Class::Number => "it is for numbers; cast to i32 first, or use `&`, `|` and `^`",
        Class::Bits => "it is for integers and bool",
        Class::Integer => "it is for integers",
        Class::Float => "it is for floats; cast first",
        Class::Bool => "it is for bool; compare first",
    };
    if class.has(dtype) { Ok(()) } else { Err(Error::Type { op, dtype, hint, location }) }
}

/// Sums and products of bools are those of NumPy: or, and.
fn of_numbers(op: BinaryOp, a: &Array, b: &Array, site: Site) -> Array {
    let both_bool = a.dtype() == Scalar::Bool && b.dtype() == Scalar::Bool && a.error().is_none();
    let of_bools = [
        (BinaryOp::Add, BinaryOp::Or),
        (BinaryOp::Mul, BinaryOp::And),
        (BinaryOp::Max, BinaryOp::Or),
        (BinaryOp::Min, BinaryOp::And),
    ];
    let instead = of_bools.iter().find(|(of, _)| both_bool && *of == op);
    let op = instead.map_or(op, |&(_, instead)| instead);
    binary(op, a, b, None, site)
}

/// The quotient: of integers as f64.
fn quotient(a: &Array, b: &Array, site: Site) -> Array {
    let common = promote(a.dtype(), b.dtype());
    let dtype = if kind(common) == Kind::Float { common } else { Scalar::F64 };
    binary(BinaryOp::Div, a, b, Some(dtype), site)
}

/// The quotient rounded down, and what is left, of the divisor's sign. Of integers divided by zero
/// both are zero, as in NumPy.
fn floor_division(a: &Array, b: &Array, site: Site) -> [Array; 2] {
    let common = promote(a.dtype(), b.dtype());
    let dtype = if common == Scalar::Bool { Scalar::I32 } else { common };
    let [a, b] = match paired("floor_divide", a, b, Some(dtype), site) {
        Ok(both) => both,
        Err(error) => return [Array::failed(error.clone(), site), Array::failed(error, site)],
    };
    let zero = a.filled_like(Literal::zero(dtype), site);
    let by_zero = b.equal(&zero);
    let of = |op, x: &Array, y: &Array| binary(op, x, y, None, site);
    let other_sign = |left: &Array| {
        let differ = left.less(&zero).not_equal(b.less(&zero));
        differ & left.not_equal(&zero)
    };
    if kind(dtype) == Kind::Float {
        let left = of(BinaryOp::Rem, &a, &b);
        let adjust = other_sign(&left);
        let left_of_b = (&left + &b).where_(&adjust, &left);
        let exact = of(BinaryOp::Div, &(&a - &left), &b);
        // A rounding error below the whole number must not take one off.
        let whole = exact.round();
        let quotient = (&whole - 1.0).where_(&adjust, &whole);
        let infinite = of(BinaryOp::Div, &a, &b);
        return [infinite.where_(&by_zero, &quotient), left_of_b];
    }
    let one = a.filled_like(Literal::one(dtype), site);
    // Anything where the divisor is zero.
    let (whole, left) = (of(BinaryOp::Div, &a, &b), of(BinaryOp::Rem, &a, &b));
    if !dtype.is_signed() {
        return [zero.where_(&by_zero, &whole), zero.where_(&by_zero, &left)];
    }
    let adjust = other_sign(&left);
    let quotient = (&whole - &one).where_(&adjust, &whole);
    let rest = (&left + &b).where_(&adjust, &left);
    [zero.where_(&by_zero, &quotient), zero.where_(&by_zero, &rest)]
}

impl Array {
    /// The larger of two elements; NaN where one is. Of bool, whether one is true.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[-1.0f32, 2.0], &[2]);
    /// assert_eq!(x.maximum(0.0).to_vec::<f32>()?, [0.0, 2.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn maximum(&self, other: impl Operand) -> Array {
        let site = Location::caller();
        of_numbers(BinaryOp::Max, self, &other.beside(self, site), site)
    }

    /// The smaller of two elements; NaN where one is. Of bool, whether both are true.
    #[track_caller]
    pub fn minimum(&self, other: impl Operand) -> Array {
        let site = Location::caller();
        of_numbers(BinaryOp::Min, self, &other.beside(self, site), site)
    }

    /// The elements, but those below `low` or above `high`, which become these.
    #[track_caller]
    pub fn clip(&self, low: impl Operand, high: impl Operand) -> Array {
        let site = Location::caller();
        let raised = of_numbers(BinaryOp::Max, self, &low.beside(self, site), site);
        of_numbers(BinaryOp::Min, &raised, &high.beside(self, site), site)
    }

    /// The quotient rounded down. Of integers divided by zero it is zero, as in NumPy.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[7, -7], &[2]);
    /// assert_eq!(x.floor_divide(2).to_vec::<i32>()?, [3, -4]);
    /// assert_eq!((x % 4).to_vec::<i32>()?, [3, 1]); // of the divisor's sign
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    #[track_caller]
    pub fn floor_divide(&self, by: impl Operand) -> Array {
        let site = Location::caller();
        let [quotient, _] = floor_division(self, &by.beside(self, site), site);
        quotient
    }

    /// Each element to the power of another. Whole exponents up to 4 are products.
    ///
    /// ```
    /// # use kiln_array::Array;
    /// let device = kiln_runtime::Device::open("interp")?;
    /// let x = Array::new(&device, &[2.0f32, -3.0], &[2]);
    /// assert_eq!(x.pow(2).to_vec::<f32>()?, [4.0, 9.0]);
    /// # Ok::<(), kiln_array::Error>(())
    /// ```
    ///
    /// # Errors
    /// Powers of integers are there for exponents from 0 to 4, given as numbers; cast to f64 for
    /// others.
    #[track_caller]
    pub fn pow(&self, exponent: impl Operand) -> Array {
        let site = Location::caller();
        let exponent = exponent.beside(self, site);
        if let Some(whole) = small_exponent(&exponent)
            && kind(self.dtype()) != Kind::Bool
            && promote(self.dtype(), exponent.dtype()) == self.dtype()
        {
            let one = self.filled_like(Literal::one(self.dtype()), site);
            let times = |x: &Array, y: &Array| binary(BinaryOp::Mul, x, y, None, site);
            return match whole {
                0 => one,
                1 => self.clone(),
                2 => times(self, self),
                3 => times(&times(self, self), self),
                _ => times(&times(self, self), &times(self, self)),
            };
        }
        binary(BinaryOp::Pow, self, &exponent, None, site)
    }

    /// The angle of the point whose y is this and whose x is the other, in radians.
    #[track_caller]
    pub fn atan2(&self, x: impl Operand) -> Array {
        let site = Location::caller();
        let x = x.beside(self, site);
        let dtype = float_of(promote(self.dtype(), x.dtype()));
        binary(BinaryOp::Atan2, self, &x, Some(dtype), site)
    }

    /// The bits of each element moved up by so many places.
    #[track_caller]
    pub fn shift_left(&self, by: impl Operand) -> Array {
        let site = Location::caller();
        binary(BinaryOp::Shl, self, &by.beside(self, site), None, site)
    }

    /// The bits of each element moved down by so many places; the sign stays.
    #[track_caller]
    pub fn shift_right(&self, by: impl Operand) -> Array {
        let site = Location::caller();
        binary(BinaryOp::Shr, self, &by.beside(self, site), None, site)
    }
}

/// The exponent, if it is a whole number up to 4.
fn small_exponent(exponent: &Array) -> Option<u32> {
    let Op::Full(number) = exponent.recipe()?.op else { return None };
    let value = number.as_f64();
    (exponent.rank() == 0 && (0.0..=4.0).contains(&value) && value.fract() == 0.0).then_some(value as u32)
}

macro_rules! operators {
    ($($(#[$doc:meta])* $trait:ident $method:ident, $assign:ident $in_place:ident: $f:expr;)*) => {$(
        impl<R: Operand> std::ops::$trait<R> for &Array {
            type Output = Array;

            $(#[$doc])*
            #[track_caller]
            fn $method(self, right: R) -> Array {
                let site = Location::caller();
                let right = right.beside(self, site);
                let f: fn(&Array, &Array, Site) -> Array = $f;
                f(self, &right, site)
            }
        }

        impl<R: Operand> std::ops::$trait<R> for Array {
            type Output = Array;

            $(#[$doc])*
            #[track_caller]
            fn $method(self, right: R) -> Array {
                let site = Location::caller();
                let right = right.beside(&self, site);
                let f: fn(&Array, &Array, Site) -> Array = $f;
                f(&self, &right, site)
            }
        }

        /// The variable becomes the result, with its element type and shape. What else has the
        /// array keeps it as it was.
        impl<R: Operand> std::ops::$assign<R> for Array {
            #[track_caller]
            fn $in_place(&mut self, right: R) {
                *self = std::ops::$trait::$method(&*self, right);
            }
        }

        operators!(@numbers $trait $method $f);
    )*};
    // Of one type of floats and one of integers: with two the compiler does not know which a number
    // is that is written out, and so refuses a method of the result.
    (@numbers $trait:ident $method:ident $f:expr) => {
        operators!(@number $trait $method $f, f64);
        operators!(@number $trait $method $f, i64);
    };
    (@number $trait:ident $method:ident $f:expr, $t:ty) => {
        impl std::ops::$trait<&Array> for $t {
            type Output = Array;

            #[track_caller]
            fn $method(self, right: &Array) -> Array {
                let site = Location::caller();
                let f: fn(&Array, &Array, Site) -> Array = $f;
                f(&self.beside(right, site), right, site)
            }
        }

        impl std::ops::$trait<Array> for $t {
            type Output = Array;

            #[track_caller]
            fn $method(self, right: Array) -> Array {
                let site = Location::caller();
                let f: fn(&Array, &Array, Site) -> Array = $f;
                f(&self.beside(&right, site), &right, site)
            }
        }
    };
}

operators! {
    /// The sum.
    Add add, AddAssign add_assign: |a, b, site| of_numbers(BinaryOp::Add, a, b, site);
    /// The difference.
    Sub sub, SubAssign sub_assign: |a, b, site| binary(BinaryOp::Sub, a, b, None, site);
    /// The product.
    Mul mul, MulAssign mul_assign: |a, b, site| of_numbers(BinaryOp::Mul, a, b, site);
    /// The quotient: of integers as f64.
    Div div, DivAssign div_assign: quotient;
    /// What a division leaves, of the divisor's sign, as in NumPy.
    Rem rem, RemAssign rem_assign: |a, b, site| {
        let [_, left] = floor_division(a, b, site);
        left
    };
    /// Both bits.
    BitAnd bitand, BitAndAssign bitand_assign: |a, b, site| binary(BinaryOp::And, a, b, None, site);
    /// One of the bits.
    BitOr bitor, BitOrAssign bitor_assign: |a, b, site| binary(BinaryOp::Or, a, b, None, site);
    /// One of the bits, and not both.
    BitXor bitxor, BitXorAssign bitxor_assign: |a, b, site| binary(BinaryOp::Xor, a, b, None, site);
}
