//! What a warp of a GPU does as one: products of matrix fragments, and the way of fragments between
//! shared memory and registers. The lowering to threads makes them, never a front end.
//!
//! A *fragment* is a matrix of 8 rows of 16 bytes, spread over a warp: lane `l` holds the four
//! bytes `l % 4` of row `l / 4` in an u32, the first lowest. That is one element of 32 bits, two
//! neighbors of 16 or four of 8 (PTX ISA, "Matrix Fragments for mma.m16n8k8", "k16" and "k32"). Of
//! f64 a row has 32 bytes, and a lane holds an element as an f64. All lanes of a warp reach such an
//! operation together.

use crate::factor::{Factor, Factors};
use crate::matrix::MatrixOp;
use crate::warpgroup::{GroupProduct, Lines};
use smallvec::SmallVec;

/// An operation of a warp on fragments.
///
/// ```
/// use kiln_ir::{Factors, FragmentOp, Scalar};
/// let product = FragmentOp::Mma(Factors::of(Scalar::BF16, Scalar::BF16).unwrap());
/// assert_eq!((product.name(), product.attributes().len()), ("mma_bf16", 0));
/// let load = FragmentOp::LdMatrix { count: 4, transposed: true };
/// assert_eq!(load.name(), "ldmatrix");
/// assert_eq!(load.attributes()[..], [("count", 4), ("transposed", 1)]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FragmentOp {
    /// `(u32 × 4 a, u32 × 2 b, sum × 4 c) -> sum × 4`, of f64 with f64 in place of u32: c + a · b,
    /// with a of 16 rows and b of 8 columns, two rows of a fragment long, and c of 16 × 8 elements.
    /// The fragments of a are its upper left,
    /// lower left, upper right and lower right quarter; those of b are the *transposes* of its
    /// upper and lower half. Lane `l` holds of c the elements `(l / 4, 2 * (l % 4))`, the one after
    /// it, and the same two 8 rows below. Sums of integers wrap; products of floats are exact, and
    /// their sum with c is rounded in an order and to a precision that are the device's: at least
    /// that of f32 with truncation, but less of [8-bit floats](Factors::has_fast_sums).
    Mma(Factors),
    /// `(u64 shared address) -> u32 × count`: fragments whose rows of 16 bytes lie at the addresses
    /// that lanes `8 i` to `8 i + 7` give for fragment `i`. Addresses are multiples of 16; those of
    /// other lanes do not matter.
    LdMatrix {
        /// 1, 2 or 4.
        count: u32,
        /// Gives the transposes, of elements of 16 bits.
        transposed: bool,
    },
    /// `(u64 shared address, u32 × count)`: stores fragments, whose rows of 16 bytes lie where
    /// those of [`LdMatrix`](FragmentOp::LdMatrix) do.
    StMatrix {
        /// 1, 2 or 4.
        count: u32,
    },
    /// `(x, x) -> u32`: two neighbors, the first in the lower half. They are of the factor's type,
    /// of 16 bits, or f32 and are rounded to it.
    Pack(Factor),
    /// `(u64 a, u64 b, sum × r c) -> sum × r`: begins c + a · b by all warpgroups of the block,
    /// which reach it together. a and b are the shared addresses, the same in all threads, of
    /// matrices in [`Panels`](crate::Panels) that lie as the product says, c the thread's sums
    /// (none if it does not keep them). With a left factor from registers,
    /// `(u64 b, u32 × s a, sum × r c)`: of each block of 64 rows and each step of 32 bytes in depth
    /// the fragments of [`Mma`](FragmentOp::Mma). The matrices are read, and the results made, at
    /// some time before a [`WarpgroupWait`](FragmentOp::WarpgroupWait); until then results may only
    /// go to another such product, or be carried by a loop.
    WarpgroupMma(GroupProduct),
    /// `(sum × r) -> sum × r`: waits until all but the last `pending` products that were begun are
    /// done. The results are the operands, computed.
    WarpgroupWait {
        /// How many may still be under way.
        pending: u32,
    },
    /// `()`: what this thread wrote to shared memory, or copied there and waited for, is seen by
    /// products that begin after the next barrier.
    AsyncProxyFence,
    /// A product on matrix units whose fragments nobody else can read.
    Matrix(MatrixOp),
}

impl FragmentOp {
    /// Its numbers, in the order of the text format.
    pub fn attributes(&self) -> SmallVec<[(&'static str, u32); 6]> {
        match *self {
            FragmentOp::LdMatrix { count, transposed } => {
                SmallVec::from_slice(&[("count", count), ("transposed", u32::from(transposed))])
            }
            FragmentOp::StMatrix { count } => SmallVec::from_slice(&[("count", count)]),
            FragmentOp::WarpgroupWait { pending } => SmallVec::from_slice(&[("pending", pending)]),
            FragmentOp::WarpgroupMma(product) => {
                let ([m, n, k], [left, right]) = (product.extents, product.codes());
                SmallVec::from_slice(&[
                    ("m", m),
                    ("n", n),
                    ("k", k),
                    ("left", left),
                    ("right", right),
                    ("keep", u32::from(product.keep)),
                ])
            }
            FragmentOp::Matrix(op) => op.attributes(),
            FragmentOp::Mma(_) | FragmentOp::Pack(_) | FragmentOp::AsyncProxyFence => SmallVec::new(),
        }
    }

    /// The operation with this word in the text format, whose numbers `number` reads. `Ok(None)`
    /// for a word that names none.
    ///
    /// # Errors
    /// Those of `number`.
    pub(crate) fn read<E>(
        name: &str,
        mut number: impl FnMut(&'static str) -> Result<u32, E>,
    ) -> Result<Option<FragmentOp>, E> {
        use FragmentOp::*;
        let mut product = |factors| {
            Ok(WarpgroupMma(GroupProduct {
                factors,
                extents: [number("m")?, number("n")?, number("k")?],
                left: GroupProduct::lines(number("left")?),
                right: GroupProduct::lines(number("right")?).unwrap_or(Lines::Depth),
                keep: number("keep")? != 0,
            }))
        };
        if let Some((factors, warpgroups)) = Factors::named(name) {
            return if warpgroups { product(factors).map(Some) } else { Ok(Some(Mma(factors))) };
        }
        if let Some(op) = MatrixOp::read(name, &mut number)? {
            return Ok(Some(Matrix(op)));
        }
        Ok(Some(match name {
            "ldmatrix" => LdMatrix { count: number("count")?, transposed: number("transposed")? != 0 },
            "stmatrix" => StMatrix { count: number("count")? },
            "pack_f16" => Pack(Factor::F16),
            "pack_bf16" => Pack(Factor::BF16),
            "warpgroup_wait" => WarpgroupWait { pending: number("pending")? },
            "async_proxy_fence" => AsyncProxyFence,
            _ => return Ok(None),
        }))
    }
}
