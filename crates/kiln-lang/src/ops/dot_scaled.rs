//! Products of matrices whose factors have a scale for each block of 32 elements: the formats MXFP8
//! and MXFP4 of "OCP Microscaling Formats (MX) Specification", version 1.0 (2023).

use super::dot::dot_acc;
use super::select;
use crate::elem::Numeric;
use crate::trace::error;
use crate::val::{IntoVal, Val};
use half::bf16;
use kiln_ir::{E4M3, E5M2};
use std::panic::Location;

/// Elements that share a scale: the specification's block size of these formats.
const BLOCK: usize = 32;

/// An element type of factors with a scale for each block of 32: [`E4M3`], [`E5M2`], and `u8` for
/// two floats e2m1, the first one in the lower four bits.
///
/// ```
/// use kiln_lang::prelude::*;
///
/// /// A product whose left factor has floats of any such type.
/// fn product<A: BlockScaled>(a: View<A, 2>, scales: [Val<u8>; 2], b: Val<E4M3>) -> Val<f32> {
///     dot_scaled(a.tile((0, 0), (16, 32)).load(0), scales[0], b, scales[1], 0.0)
/// }
/// ```
pub trait BlockScaled: Numeric {
    /// The numbers, along the last axis.
    #[doc(hidden)]
    #[track_caller]
    fn numbers(tile: Val<Self>) -> Val<bf16>;
}

impl BlockScaled for E4M3 {
    #[track_caller]
    fn numbers(tile: Val<E4M3>) -> Val<bf16> {
        tile.cast()
    }
}

impl BlockScaled for E5M2 {
    #[track_caller]
    fn numbers(tile: Val<E5M2>) -> Val<bf16> {
        tile.cast()
    }
}

impl BlockScaled for u8 {
    #[track_caller]
    fn numbers(tile: Val<u8>) -> Val<bf16> {
        tile.unpack_e2m1()
    }
}

impl Val<u8> {
    /// The power of two that a scale e8m0 is: 2 to the number less 127, NaN for 255, as in the
    /// specification of MX.
    ///
    /// ```
    /// use kiln_lang::Val;
    ///
    /// fn scaled(x: Val<f32>, scale: Val<u8>) -> Val<f32> {
    ///     x * scale.unpack_e8m0().cast::<f32>()
    /// }
    /// ```
    #[track_caller]
    pub fn unpack_e8m0(self) -> Val<bf16> {
        // The exponent of bf16 has the same bias. What it has no normal number for is subnormal.
        let code = self.cast::<u32>();
        let bits = select(code.eq(0), 0x0040, select(code.eq(255), 0x7fc0, code << 7));
        bits.cast::<u16>().bitcast()
    }
}

/// `acc` plus the product of an `[m, k]` and a `[k, n]` tile, whose elements are multiplied by a
/// scale for each 32 of them along the depth: `[m, k / 32]` and `[n, k / 32]` powers of two in the
/// format e8m0, as in Triton's `tl.dot_scaled`. Two floats e2m1 are a byte along the depth, so that
/// their tiles are `[m, k / 2]` and `[k / 2, n]`.
///
/// The scaled factors are rounded to `bf16`, which holds them all unless their exponent is beyond
/// its range, and multiplied by [`dot_acc`]: no unit of the GPUs that Kiln knows has block scales.
///
/// ```
/// # use kiln_lang::{dot_scaled, trace, zeros, Level, E4M3};
/// # trace("k", Level::Tile { warps: None }, |_| {
/// // MXFP4 by MXFP8.
/// let (a, a_scales) = (zeros::<u8>([16, 32]), zeros::<u8>([16, 2]));
/// let (b, b_scales) = (zeros::<E4M3>([64, 8]), zeros::<u8>([8, 2]));
/// let c = dot_scaled(a, a_scales, b, b_scales, 0.0);
/// assert_eq!(c.shape(), [16, 8]);
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[track_caller]
pub fn dot_scaled<A: BlockScaled, B: BlockScaled>(
    a: Val<A>,
    a_scales: Val<u8>,
    b: Val<B>,
    b_scales: Val<u8>,
    acc: impl IntoVal<f32>,
) -> Val<f32> {
    let (sa, sb) = (a.shape(), b.shape());
    if sa.len() != 2 || sb.len() != 2 {
        let message = format!("there is no scaled product of shapes {sa:?} and {sb:?}");
        error(Location::caller(), message, "they must be [m, k] and [k, n]");
        return Val::poison();
    }
    let (Some(a), Some(b)) = (scaled(A::numbers(a), a_scales), scaled(B::numbers(b.transpose()), b_scales))
    else {
        return Val::poison();
    };
    dot_acc(a, b.transpose(), acc.into_val())
}

/// Rows times their scales.
#[track_caller]
fn scaled(rows: Val<bf16>, scales: Val<u8>) -> Option<Val<bf16>> {
    let (shape, of) = (rows.shape(), scales.shape());
    let &[count, depth] = &shape[..] else { return None };
    if !depth.is_multiple_of(BLOCK) || of != [count, depth / BLOCK] {
        let message = format!("scales of shape {of:?} for {count} rows of {depth} elements");
        let help = "give a scale for each 32 elements along the depth: [m, k / 32] of the left factor, \
                    [n, k / 32] of the right one";
        error(Location::caller(), message, help);
        return None;
    }
    let blocks = scales.unpack_e8m0().expand(2).broadcast_to([count, depth / BLOCK, BLOCK]);
    Some(rows * blocks.reshape([count, depth]))
}
