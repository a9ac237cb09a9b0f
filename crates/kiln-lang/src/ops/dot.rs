//! Matrix products.

use super::binary;
use super::rearrange::{stacked, unstacked};
use crate::elem::{Elem, Num, Numeric};
use crate::trace::{Raw, Site, error, with};
use crate::val::{Val, shape_of};
use half::{bf16, f16};
use kiln_ir::{BinaryOp, E4M3, E5M2, Literal, OpKind, Precision, Scalar, Shape, Type};
use std::panic::Location;

/// An element type of factors, and the type in which their products accumulate.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// /// The squares of rows of any type of factors: sums of 16-bit floats are f32.
/// fn squares<T: Accumulate<Acc = f32>>(rows: Val<T>) -> Val<f32> {
///     dot(rows, rows.transpose())
/// }
///
/// device_assert!(squares(full([4, 8], val::<bf16>(0.5))).eq(2.0).all());
/// # });
/// ```
pub trait Accumulate: Numeric {
    /// `f32` for the floats of 8 and 16 bits, `i32` for the integers of 8, otherwise the type
    /// itself.
    type Acc: Num;
    /// What both factors of a product have in common: the type itself, or the kind of 8-bit
    /// numbers, of which both types may meet.
    type Family;
}

/// The [family](Accumulate::Family) of the 8-bit floats.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// use kiln_lang::{E5M2, Float8};
///
/// /// Both 8-bit floats may meet in a product.
/// fn product<A, B>(a: Val<A>, b: Val<B>) -> Val<f32>
/// where
///     A: Accumulate<Acc = f32, Family = Float8>,
///     B: Accumulate<Acc = f32, Family = Float8>,
/// {
///     dot(a, b)
/// }
///
/// let (a, b) = (full([4, 8], val::<E4M3>(0.5)), full([8, 4], val::<E5M2>(2.0)));
/// device_assert!(product(a, b).eq(8.0).all());
/// # });
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Float8 {}

/// The [family](Accumulate::Family) of the 8-bit integers.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// use kiln_lang::Int8;
///
/// /// Both 8-bit integers may meet in a product.
/// fn product<A, B>(a: Val<A>, b: Val<B>) -> Val<i32>
/// where
///     A: Accumulate<Acc = i32, Family = Int8>,
///     B: Accumulate<Acc = i32, Family = Int8>,
/// {
///     dot(a, b)
/// }
///
/// let (a, b) = (full([4, 8], val::<i8>(-3)), full([8, 4], val::<u8>(200)));
/// device_assert!(product(a, b).eq(-4800).all());
/// # });
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Int8 {}

macro_rules! accumulate {
    ($($t:ty: $family:ty => $acc:ty;)*) => {$(
        impl Accumulate for $t {
            type Acc = $acc;
            type Family = $family;
        }
    )*};
}

accumulate! {
    f16: f16 => f32;
    bf16: bf16 => f32;
    E4M3: Float8 => f32;
    E5M2: Float8 => f32;
    i8: Int8 => i32;
    u8: Int8 => i32;
    i16: i16 => i32;
    u16: u16 => i32;
    f32: f32 => f32;
    f64: f64 => f64;
    i32: i32 => i32;
    u32: u32 => u32;
    i64: i64 => i64;
    u64: u64 => u64;
}

/// The product of an `[m, k]` and a `[k, n]` tile, accumulated in `f32` for the floats of 8 and 16
/// bits and in `i32`, which wraps, for the integers of 8 and 16. Both tiles have one
/// type, or one is of each of the 8-bit floats or 8-bit integers.
///
/// On GPUs of compute capability 8.0 and later, products of 16-bit floats, of 8-bit integers and of
/// `f64` whose extents m and n are at least 16 and 8, and whose depth is at least 32 bytes (of
/// `f64` 64), run on the tensor cores; those of 8-bit floats do from 8.9 on, and as 16-bit floats
/// before. Terms of `f64` are added one after the other, each by a multiply-add. Those of the
/// others are exact, and the sums are rounded in the order and to the precision of the hardware,
/// about that of `f32`; what it adds up with fewer bits, products of 8-bit floats, is added to the
/// result every 128 products or sooner. Factors that are loaded in a loop and used for nothing else
/// are fetched some rounds ahead; those of 8 bits fastest if they lie along the depth. On compute
/// capability 9.0, warpgroups multiply tiles with 64 rows or more for each four warps and 16 to 256
/// columns, straight from shared memory, and a loop that only adds products up goes on meanwhile.
/// Products of `f32` are never rounded to less, unless [`dot_with`] is told to: they run on the
/// ordinary units.
///
/// Tiles of rank 3, `[b, m, k]` and `[b, k, n]`, are a batch: `b` products, one after the other, of
/// which each begins at zero and what they are added to is added last. Factors and products pass
/// through memory of the block, which they all need room in.
///
/// ```
/// # use kiln_lang::{bf16, dot, trace, zeros, Level, Val};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// let (a, b) = (zeros::<bf16>([16, 32]), zeros::<bf16>([32, 8]));
/// let c: Val<f32> = dot(a, b);
/// assert_eq!(c.shape(), [16, 8]);
/// let (a, b) = (zeros::<bf16>([4, 16, 32]), zeros::<bf16>([4, 32, 8]));
/// assert_eq!(dot(a, b).shape(), [4, 16, 8]);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn dot<T, U>(a: Val<T>, b: Val<U>) -> Val<T::Acc>
where
    T: Accumulate,
    U: Accumulate<Acc = T::Acc, Family = T::Family>,
{
    dot_acc(a, b, Val::from_raw(Raw::Const(Literal::zero(<T::Acc as Elem>::SCALAR))))
}

/// `acc` plus the product of an `[m, k]` and a `[k, n]` tile, or of batches of them.
///
/// ```
#[doc = include_str!("../on_interp.txt")]
/// # on_interp(Level::Tile { warps: None }, &|memory| {
/// let (a, b) = (full([4, 8], val::<f32>(2.0)), full([8, 4], val::<f32>(3.0)));
/// let sums = dot_acc(a, b, full([4, 4], val(1.0)));
/// device_assert!(sums.eq(49.0).all()); // 8 · 2 · 3 + 1
/// # });
/// ```
#[track_caller]
pub fn dot_acc<T, U>(a: Val<T>, b: Val<U>, acc: Val<T::Acc>) -> Val<T::Acc>
where
    T: Accumulate,
    U: Accumulate<Acc = T::Acc, Family = T::Family>,
{
    dot_with(a, b, acc, Precision::Full)
}

/// `acc` plus the product of an `[m, k]` and a `[k, n]` tile, with less precision if that is asked
/// for: [`Precision::Tf32`] and [`Precision::Tf32x3`], nearly the full one on tensor cores, are
/// about factors of `f32`, and [`Precision::FastSums`] about 8-bit floats. Factors of other types
/// have the full one.
///
/// ```
/// # use kiln_lang::{dot_with, trace, zeros, Level, Precision, Val};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// let (a, b, sum) = (zeros::<f32>([16, 32]), zeros::<f32>([32, 8]), zeros::<f32>([16, 8]));
/// let c: Val<f32> = dot_with(a, b, sum, Precision::Tf32);
/// # let _ = c;
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn dot_with<T, U>(a: Val<T>, b: Val<U>, acc: Val<T::Acc>, precision: Precision) -> Val<T::Acc>
where
    T: Accumulate,
    U: Accumulate<Acc = T::Acc, Family = T::Family>,
{
    let (elem, sum) = (T::SCALAR, <T::Acc as Elem>::SCALAR);
    let factors = [a.raw(), b.raw()];
    Val::from_raw(product(factors, acc.raw(), precision, (elem, sum), Location::caller()))
}

/// Records the products of a batch: each of two matrices, and on top of the sum.
fn batch([a, b]: [Raw; 2], acc: Raw, precision: Precision, (elem, sum): (Scalar, Scalar), site: Site) -> Raw {
    let zero = Raw::Const(Literal::zero(sum));
    let (Some(lefts), Some(rights)) = (unstacked(a, "dot", site), unstacked(b, "dot", site)) else {
        return Raw::Poison;
    };
    let each = lefts.into_iter().zip(rights);
    let products: Vec<Raw> = each.map(|(a, b)| product([a, b], zero, precision, (elem, sum), site)).collect();
    let products = stacked(&products, "dot", site);
    match acc {
        Raw::Const(literal) if literal == Literal::zero(sum) => products,
        _ => binary(BinaryOp::Add, acc, products, sum, site),
    }
}

/// Records a product of factors of the type `elem`, the first of two, in a sum of the type `sum`.
fn product(
    [a, b]: [Raw; 2],
    acc: Raw,
    precision: Precision,
    (elem, sum): (Scalar, Scalar),
    site: Site,
) -> Raw {
    let (Some(sa), Some(sb)) = (shape_of(a), shape_of(b)) else { return Raw::Poison };
    if sa.rank() == 3 && sb.rank() == 3 && sa[0] == sb[0] && sa[2] == sb[1] {
        return batch([a, b], acc, precision, (elem, sum), site);
    }
    if sa.rank() != 2 || sb.rank() != 2 || sa[1] != sb[0] {
        error(
            site,
            format!("there is no matrix product of shapes {sa} and {sb}"),
            "they must be [m, k] and [k, n], or [b, m, k] and [b, k, n]",
        );
        return Raw::Poison;
    }
    let concerned = match precision {
        Precision::Full => true,
        Precision::Tf32 | Precision::Tf32x3 => elem == Scalar::F32,
        Precision::FastSums => elem.is_float8(),
    };
    let kind = OpKind::Dot(if concerned { precision } else { Precision::Full });
    let shape = Shape::new(&[sa[0], sb[1]]);
    let id = with(|r| {
        let acc = r.read_as(acc, &shape, site)?;
        let operands = [r.read(a, site)?, r.read(b, site)?, acc];
        Some(r.op(kind, &operands, Type::tile(sum, shape.clone()), site))
    });
    Raw::of(id.flatten())
}
