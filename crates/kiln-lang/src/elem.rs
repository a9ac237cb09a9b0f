//! Element types, and the host numbers that turn into them.

use half::{bf16, f16};
use kiln_ir::{E4M3, E5M2, Literal, Scalar};
use std::fmt::{Debug, Display};

mod sealed {
    pub trait Sealed {}
}

/// A type that elements of tensors, tiles and scalars on a device can have.
///
/// ```
/// use kiln_lang::Elem;
/// assert_eq!(<half::f16 as Elem>::SCALAR, kiln_ir::Scalar::F16);
/// assert_eq!(2.5f32.literal().as_f64(), 2.5);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type of device values",
    note = "element types are bool, the integers i8 to i64 and u8 to u64, f16, bf16, f32 and f64, and for storage E4M3 and E5M2"
)]
pub trait Elem: Copy + Debug + Display + PartialEq + Send + Sync + sealed::Sealed + 'static {
    /// The IR's name of the type.
    const SCALAR: Scalar;

    /// The constant.
    fn literal(self) -> Literal;

    /// The element with these bits; bits above the type's width are ignored.
    fn from_bits(bits: u64) -> Self;
}

/// Stands for an element type that only the trace knows: what a helper moves without looking at it
/// need not be compiled for each type. [`View::untyped`](crate::View::untyped) and the like give
/// such handles; nothing makes a typed one of them again.
///
/// ```
/// use kiln_lang::explicit::*;
/// use kiln_lang::prelude::*;
/// use kiln_lang::Untyped;
///
/// /// Begins to copy a box of the view, whatever its elements are.
/// fn copy(from: View<Untyped, 2>, to: SharedTile<Untyped>, row: Idx, done: Mbarrier) {
///     to.load(from, (row, 0), done);
/// }
///
/// fn fetch<T: Elem>(x: View<T, 2>, row: Idx) -> SharedTile<T> {
///     let (tiles, done) = (shared_tiles::<T>(1, 64, 128), mbarriers(1, 1));
///     done.at(0).expect(64 * 128 * size_of::<T>());
///     copy(x.untyped(), tiles.untyped().at(0), row, done.at(0));
///     done.at(0).wait(0);
///     tiles.at(0)
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Untyped {}

/// An element type of numbers: all but `bool`. Those for storage (`E4M3`, `E5M2`) are loaded,
/// stored, moved, converted and multiplied by [`dot`](crate::dot); what computes takes a [`Num`].
#[diagnostic::on_unimplemented(message = "`{Self}` is not an element type of numbers")]
pub trait Numeric: Elem {}

/// An element type with an order: all but `bool` and those for storage.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no order on a device",
    label = "`<`, `<=`, `>` and `>=` compare numbers",
    note = "compare bools with `==` and `!=`, or combine them with `&&`, `||` and `!`"
)]
pub trait Ordered: Elem {}

/// An element type with arithmetic: all but `bool` and those for storage.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no arithmetic on a device",
    note = "use `select` or `cast` to make a number of a bool; E4M3 and E5M2 are for storage: `cast` them first"
)]
pub trait Num: Numeric + HostNumber + Ordered {}

/// An integer element type.
#[diagnostic::on_unimplemented(message = "`{Self}` is not an integer element type")]
pub trait Int: Num + Bits {}

/// A floating-point element type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a floating-point element type",
    note = "convert with `.cast::<f32>()` first"
)]
pub trait Float: Num {}

/// An element type of 4 or 8 bytes, which memory moves in one piece.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no ordered accesses",
    note = "memory moves 4 or 8 bytes in one piece: use i32, u32, i64, u64, f32 or f64"
)]
pub trait Word: Num {}

/// An element type with bits to combine: the integers and `bool`.
#[diagnostic::on_unimplemented(message = "`{Self}` is neither an integer type nor bool")]
pub trait Bits: Elem {}

/// A number on the host, before it is known what it becomes on the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer.
    Int(i128),
    /// A float.
    Float(f64),
}

/// A number type of the host.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a number type of the host")]
pub trait HostNumber: Copy {
    /// The number.
    fn number(self) -> Number;
}

macro_rules! elem {
    ($($t:ty, $scalar:ident, |$v:ident| $bits:expr, |$b:ident| $from:expr;)*) => {$(
        impl sealed::Sealed for $t {}
        impl Elem for $t {
            const SCALAR: Scalar = Scalar::$scalar;

            fn literal(self) -> Literal {
                let $v = self;
                Literal::from_bits(Scalar::$scalar, $bits)
            }

            fn from_bits($b: u64) -> Self {
                $from
            }
        }
    )*};
}

elem! {
    bool, Bool, |v| u64::from(v), |b| b & 1 != 0;
    i32, I32, |v| u64::from(v as u32), |b| b as u32 as i32;
    u32, U32, |v| u64::from(v), |b| b as u32;
    i64, I64, |v| v as u64, |b| b as i64;
    u64, U64, |v| v, |b| b;
    f16, F16, |v| u64::from(v.to_bits()), |b| f16::from_bits(b as u16);
    bf16, BF16, |v| u64::from(v.to_bits()), |b| bf16::from_bits(b as u16);
    f32, F32, |v| u64::from(v.to_bits()), |b| f32::from_bits(b as u32);
    f64, F64, |v| v.to_bits(), |b| f64::from_bits(b);
    i8, I8, |v| u64::from(v as u8), |b| b as u8 as i8;
    u8, U8, |v| u64::from(v), |b| b as u8;
    i16, I16, |v| u64::from(v as u16), |b| b as u16 as i16;
    u16, U16, |v| u64::from(v), |b| b as u16;
    E4M3, E4M3, |v| u64::from(v.to_bits()), |b| E4M3::from_bits(b as u8);
    E5M2, E5M2, |v| u64::from(v.to_bits()), |b| E5M2::from_bits(b as u8);
}

macro_rules! mark {
    ($($trait:ident: $($t:ty)*;)*) => {$($(
        #[diagnostic::do_not_recommend]
        impl $trait for $t {}
    )*)*};
}

mark! {
    Ordered: i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64;
    Numeric: i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 E4M3 E5M2;
    Num: i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64;
    Int: i8 u8 i16 u16 i32 u32 i64 u64;
    Word: i32 u32 i64 u64 f32 f64;
    Bits: bool i8 u8 i16 u16 i32 u32 i64 u64;
    Float: f16 bf16 f32 f64;
}

/// Calls a macro with every number type of the host.
macro_rules! for_host_numbers {
    ($mac:ident) => {
        $mac! { i8 u8 i16 u16 i32 u32 i64 u64 isize usize half::f16 half::bf16 f32 f64 }
    };
}
pub(crate) use for_host_numbers;

macro_rules! host_number {
    ($variant:ident, $as:ty: $($t:ty)*) => {$(
        impl HostNumber for $t {
            fn number(self) -> Number {
                Number::$variant(<$as>::from(self))
            }
        }
    )*};
}

host_number!(Int, i128: i8 u8 i16 u16 i32 u32 i64 u64);
host_number!(Float, f64: f16 bf16 f32 f64);

impl HostNumber for usize {
    fn number(self) -> Number {
        Number::Int(self as i128)
    }
}

impl HostNumber for isize {
    fn number(self) -> Number {
        Number::Int(self as i128)
    }
}

impl Number {
    /// The literal of an element type that stands for this number, or why there is none.
    ///
    /// Integers must be in range; a float becomes an integer only if it is one, and may round, but
    /// not to infinity.
    pub(crate) fn literal(self, elem: Scalar) -> Result<Literal, String> {
        let refuse = |n: &dyn Display| Err(format!("{n} does not fit {elem}"));
        match self {
            Number::Int(n) if elem.is_float() => match Literal::from_f64(elem, n as f64) {
                l if l.as_f64().is_finite() => Ok(l),
                _ => refuse(&n),
            },
            Number::Int(n) => Literal::from_i128(elem, n).map_or_else(|| refuse(&n), Ok),
            Number::Float(x) if elem.is_float() => match Literal::from_f64(elem, x) {
                l if l.as_f64().is_infinite() && x.is_finite() => refuse(&x),
                l => Ok(l),
            },
            Number::Float(x) if x.fract() == 0.0 && x.abs() < 2f64.powi(64) => {
                Number::Int(x as i128).literal(elem)
            }
            Number::Float(x) => Err(format!("{x} is not an integer, as {elem} requires")),
        }
    }
}
