//! Matrix products.

use crate::elem::{Elem, Num};
use crate::trace::{Raw, error, with};
use crate::val::Val;
use half::{bf16, f16};
use kiln_ir::{Literal, OpKind, Shape, Type};
use std::panic::Location;

/// The type in which products of an element type accumulate.
pub trait Accumulate: Num {
    /// `f32` for the 16-bit floats, otherwise the type itself.
    type Acc: Num;
}

macro_rules! accumulate {
    ($($t:ty => $acc:ty;)*) => {$(
        impl Accumulate for $t {
            type Acc = $acc;
        }
    )*};
}

accumulate! { f16 => f32; bf16 => f32; f32 => f32; f64 => f64; i32 => i32; u32 => u32; i64 => i64; u64 => u64; }

/// The product of an `[m, k]` and a `[k, n]` tile, accumulated in `f32` for the 16-bit floats.
///
/// On GPUs of compute capability 8.0 and later, products of 16-bit floats whose extents m, n and k are at least 16, 8 and 16 run on the tensor cores: their terms are exact, and the
/// sums are rounded in the order and to the precision of the hardware, about that of `f32`. Factors that are loaded in a loop and used for nothing else are
/// fetched some rounds ahead. On compute capability 9.0, warpgroups multiply tiles with 64 rows or more for each four warps and 16 to 256 columns, straight from shared memory, and a loop that
/// only adds products up goes on meanwhile. Products of `f32` are never rounded to less: they run on the ordinary units.
///
/// ```
/// # use kiln_lang::{bf16, dot, trace, zeros, Level, Val};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// let (a, b) = (zeros::<bf16>([16, 32]), zeros::<bf16>([32, 8]));
/// let c: Val<f32> = dot(a, b);
/// assert_eq!(c.shape(), [16, 8]);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn dot<T: Accumulate>(a: Val<T>, b: Val<T>) -> Val<T::Acc> {
    dot_acc(a, b, Val::from_raw(Raw::Const(Literal::zero(<T::Acc as Elem>::SCALAR))))
}

/// `acc` plus the product of an `[m, k]` and a `[k, n]` tile.
#[track_caller]
pub fn dot_acc<T: Accumulate>(a: Val<T>, b: Val<T>, acc: Val<T::Acc>) -> Val<T::Acc> {
    let site = Location::caller();
    let (Some(sa), Some(sb)) = (a.ir_shape(), b.ir_shape()) else { return Val::poison() };
    if sa.rank() != 2 || sb.rank() != 2 || sa[1] != sb[0] {
        error(
            site,
            format!("there is no matrix product of shapes {sa} and {sb}"),
            "they must be [m, k] and [k, n]",
        );
        return Val::poison();
    }
    let shape = Shape::new(&[sa[0], sb[1]]);
    let id = with(|r| {
        let acc = r.read_as(acc.raw(), &shape, site)?;
        let operands = [r.read(a.raw(), site)?, r.read(b.raw(), site)?, acc];
        Some(r.op(OpKind::Dot, &operands, Type::tile(<T::Acc as Elem>::SCALAR, shape.clone()), site))
    });
    Val::from_id(id.flatten())
}
