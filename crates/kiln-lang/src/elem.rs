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
    ///
    /// ```
    /// use kiln_lang::Elem;
    /// assert_eq!((<f32 as Elem>::from_bits(0x3f80_0000), <u8 as Elem>::from_bits(0x1ff)), (1.0, 255));
    /// ```
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
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// /// Moves and converts numbers of any type, those for storage too.
/// fn halves<T: Numeric>(x: Val<T>) -> Val<f32> {
///     x.cast::<f32>() * 0.5
/// }
///
/// device_assert!(halves(val::<E4M3>(3)).eq(1.5) & halves(val::<i8>(-3)).eq(-1.5));
/// # });
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` is not an element type of numbers")]
pub trait Numeric: Elem {}

/// An element type with an order: all but `bool` and those for storage.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// use kiln_lang::Ordered;
///
/// fn is_between<T: Ordered>(x: Val<T>, low: Val<T>, high: Val<T>) -> Val<bool> {
///     x.ge(low) & x.lt(high)
/// }
///
/// device_assert!(is_between(val::<u8>(3), val(3), val(4)));
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no order on a device",
    label = "`<`, `<=`, `>` and `>=` compare numbers",
    note = "compare bools with `==` and `!=`, or combine them with `&&`, `||` and `!`"
)]
pub trait Ordered: Elem {}

/// An element type with arithmetic: all but `bool` and those for storage.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// fn square<T: Num>(x: Val<T>) -> Val<T> {
///     x * x
/// }
///
/// device_assert!(square(val::<f32>(-1.5)).eq(2.25) & square(val::<u32>(3)).eq(9));
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no arithmetic on a device",
    note = "use `select` or `cast` to make a number of a bool; E4M3 and E5M2 are for storage: `cast` them first"
)]
pub trait Num: Numeric + HostNumber + Ordered {}

/// An integer element type.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// fn is_power_of_two<T: Int>(x: Val<T>) -> Val<bool> {
///     x.popcount().eq(1)
/// }
///
/// device_assert!(is_power_of_two(val::<u8>(64)) & !is_power_of_two(val::<i32>(65)));
/// # });
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` is not an integer element type")]
pub trait Int: Num + Bits {}

/// A floating-point element type.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// fn length<T: Float>(x: Val<T>, y: Val<T>) -> Val<T> {
///     (x * x + y * y).sqrt()
/// }
///
/// device_assert!(length(val::<f64>(3.0), val(4.0)).eq(5.0) & length(val::<f16>(3), val(4)).eq(5));
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a floating-point element type",
    note = "convert with `.cast::<f32>()` first"
)]
pub trait Float: Num {}

/// An element type of 4 or 8 bytes, which memory moves in one piece.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Thread { block: [64, 1, 1] }, &|memory| {
/// /// What another thread has released.
/// fn received<T: Word>(inbox: View<T, 1>, at: usize) -> Val<T> {
///     inbox.get_ordered(at, Order::Acquire, Scope::Device)
/// }
///
/// device_assert!(received(*memory, 7).eq(0));
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no ordered accesses",
    note = "memory moves 4 or 8 bytes in one piece: use i32, u32, i64, u64, f32 or f64"
)]
pub trait Word: Num {}

/// An element type with bits to combine: the integers and `bool`.
///
/// ```
#[doc = include_str!("on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// /// What is in one set of bits, or in one bool, and not in the other.
/// fn without<T: Bits>(a: Val<T>, b: Val<T>) -> Val<T> {
///     a & !b
/// }
///
/// device_assert!(without(val::<u32>(7), val(2)).eq(5) & without(val(true), val(false)));
/// # });
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` is neither an integer type nor bool")]
pub trait Bits: Elem {}

/// A number on the host, before it is known what it becomes on the device.
///
/// ```
/// use kiln_lang::{HostNumber, Number};
/// assert_eq!((7u8.number(), 2.5f32.number()), (Number::Int(7), Number::Float(2.5)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer.
    Int(i128),
    /// A float.
    Float(f64),
}

/// A number type of the host.
///
/// ```
/// use kiln_lang::{HostNumber, Number};
///
/// fn is_whole(x: impl HostNumber) -> bool {
///     match x.number() {
///         Number::Int(_) => true,
///         Number::Float(x) => x.fract() == 0.0,
///     }
/// }
///
/// assert!(is_whole(3i64) && is_whole(2.0f32) && !is_whole(0.5f64));
/// ```
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
