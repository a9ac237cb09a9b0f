//! What a warp of a GPU does as one: products of matrix fragments, the way of fragments between shared memory and registers, and copies from
//! global to shared memory that go on while the program does. The lowering to threads makes them, never a front end.
//!
//! A *fragment* is a matrix of 8 × 8 elements of 16 bits, spread over a warp: lane `l` holds the elements `(l / 4, 2 * (l % 4))` and the one
//! after it, packed in an u32 with the first in the lower half (PTX ISA, "Matrix Fragments for mma.m16n8k16"). All lanes of a warp
//! reach such an operation together.

use crate::types::Scalar;
use crate::warpgroup::{GroupProduct, Lines};
use smallvec::SmallVec;

/// The elements of the factors of a product.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Factor {
    F16,
    BF16,
}

impl Factor {
    /// The factor with elements of this type, if there is one.
    ///
    /// ```
    /// use kiln_ir::{Factor, Scalar};
    /// assert_eq!(Factor::of(Scalar::BF16).map(Factor::elem), Some(Scalar::BF16));
    /// assert_eq!(Factor::of(Scalar::F32), None);
    /// ```
    pub fn of(elem: Scalar) -> Option<Factor> {
        match elem {
            Scalar::F16 => Some(Factor::F16),
            Scalar::BF16 => Some(Factor::BF16),
            _ => None,
        }
    }

    /// The type of an element.
    pub fn elem(self) -> Scalar {
        match self {
            Factor::F16 => Scalar::F16,
            Factor::BF16 => Scalar::BF16,
        }
    }
}

/// An operation of a warp on fragments, or of a thread on copies in flight.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FragmentOp {
    /// `(u32 × 4 a, u32 × 2 b, f32 × 4 c) -> f32 × 4`: c + a · b, with a of 16 × 16, b of 16 × 8 and c of 16 × 8 elements. The fragments of a are
    /// its upper left, lower left, upper right and lower right quarter; those of b are the *transposes* of its upper and lower half.
    /// Lane `l` holds of c the elements `(l / 4, 2 * (l % 4))`, the one after it, and the same two 8 rows below. The products are
    /// exact; their sum with c is rounded in an order and to a precision, at least that of f32 with truncation, that are the device's.
    Mma(Factor),
    /// `(u64 shared address) -> u32 × count`: fragments whose rows of 16 bytes lie at the addresses that lanes `8 i` to `8 i + 7` give for
    /// fragment `i`. Addresses are multiples of 16; those of other lanes do not matter.
    LdMatrix {
        /// 1, 2 or 4.
        count: u32,
        /// Gives the transposes.
        transposed: bool,
    },
    /// `(u64 shared address, u32 × count)`: stores fragments, whose rows of 16 bytes lie where those of [`LdMatrix`](FragmentOp::LdMatrix) do.
    StMatrix {
        /// 1, 2 or 4.
        count: u32,
    },
    /// `(x, x) -> u32`: two neighbours, the first in the lower half. They are of the factor's type, or f32 and are rounded to it.
    Pack(Factor),
    /// `(u64 shared address, u64 global address, u32 bytes)`: begins to copy so many bytes (a multiple of 4, at most 16) to 16 bytes of shared memory, and zeros
    /// after them. Both addresses are multiples of 16. What is there is not defined until a
    /// [`CpAsyncWait`](FragmentOp::CpAsyncWait) of this thread.
    CpAsync,
    /// `()`: the copies that this thread began since the last such operation are a group.
    CpAsyncCommit,
    /// `()`: waits until all but the last `pending` groups of this thread have arrived. Other threads see them after a barrier.
    CpAsyncWait {
        /// How many may still be on their way.
        pending: u32,
    },
    /// `(u64 a, u64 b, f32 × r c) -> f32 × r`: begins c + a · b by all warpgroups of the block, which reach it together. a and b are the shared addresses, the same in
    /// all threads, of matrices in [`Panels`](crate::Panels) that lie as the product says, c the thread's sums (none if it does not keep them). With a left factor from registers,
    /// `(u64 b, u32 × s a, f32 × r c)`: of each block of 64 rows and each step of 16 in depth the fragments of [`Mma`](FragmentOp::Mma). The matrices are read, and
    /// the results made, at some time before a [`WarpgroupWait`](FragmentOp::WarpgroupWait); until then results may only go to another such product, or be
    /// carried by a loop.
    WarpgroupMma(GroupProduct),
    /// `(f32 × r) -> f32 × r`: waits until all but the last `pending` products that were begun are done. The results are the operands, computed.
    WarpgroupWait {
        /// How many may still be under way.
        pending: u32,
    },
    /// `()`: what this thread wrote to shared memory, or copied there and waited for, is seen by products that begin after the next barrier.
    AsyncProxyFence,
}

impl FragmentOp {
    /// The word of the operation in the text format.
    pub fn name(&self) -> &'static str {
        use FragmentOp::*;
        match self {
            Mma(Factor::F16) => "mma_f16",
            Mma(Factor::BF16) => "mma_bf16",
            LdMatrix { .. } => "ldmatrix",
            StMatrix { .. } => "stmatrix",
            Pack(Factor::F16) => "pack_f16",
            Pack(Factor::BF16) => "pack_bf16",
            CpAsync => "cp_async",
            CpAsyncCommit => "cp_async_commit",
            CpAsyncWait { .. } => "cp_async_wait",
            WarpgroupMma(GroupProduct { factor: Factor::F16, .. }) => "warpgroup_mma_f16",
            WarpgroupMma(GroupProduct { factor: Factor::BF16, .. }) => "warpgroup_mma_bf16",
            WarpgroupWait { .. } => "warpgroup_wait",
            AsyncProxyFence => "async_proxy_fence",
        }
    }

    /// Its numbers, in the order of the text format.
    pub fn attributes(&self) -> SmallVec<[(&'static str, u32); 6]> {
        match *self {
            FragmentOp::LdMatrix { count, transposed } => {
                SmallVec::from_slice(&[("count", count), ("transposed", u32::from(transposed))])
            }
            FragmentOp::StMatrix { count } => SmallVec::from_slice(&[("count", count)]),
            FragmentOp::CpAsyncWait { pending } | FragmentOp::WarpgroupWait { pending } => {
                SmallVec::from_slice(&[("pending", pending)])
            }
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
            _ => SmallVec::new(),
        }
    }

    /// The operation with this word in the text format, whose numbers `number` reads. `Ok(None)` for a word that names none.
    ///
    /// # Errors
    /// Those of `number`.
    pub(crate) fn read<E>(
        name: &str,
        mut number: impl FnMut(&'static str) -> Result<u32, E>,
    ) -> Result<Option<FragmentOp>, E> {
        use FragmentOp::*;
        let mut product = |factor| {
            Ok(WarpgroupMma(GroupProduct {
                factor,
                extents: [number("m")?, number("n")?, number("k")?],
                left: GroupProduct::lines(number("left")?),
                right: GroupProduct::lines(number("right")?).unwrap_or(Lines::Depth),
                keep: number("keep")? != 0,
            }))
        };
        Ok(Some(match name {
            "warpgroup_mma_f16" => product(Factor::F16)?,
            "warpgroup_mma_bf16" => product(Factor::BF16)?,
            "mma_f16" => Mma(Factor::F16),
            "mma_bf16" => Mma(Factor::BF16),
            "ldmatrix" => LdMatrix { count: number("count")?, transposed: number("transposed")? != 0 },
            "stmatrix" => StMatrix { count: number("count")? },
            "pack_f16" => Pack(Factor::F16),
            "pack_bf16" => Pack(Factor::BF16),
            "cp_async" => CpAsync,
            "cp_async_commit" => CpAsyncCommit,
            "cp_async_wait" => CpAsyncWait { pending: number("pending")? },
            "warpgroup_wait" => WarpgroupWait { pending: number("pending")? },
            "async_proxy_fence" => AsyncProxyFence,
            _ => return Ok(None),
        }))
    }

    /// Whether it must stay although its results are unused.
    pub fn has_effect(&self) -> bool {
        use FragmentOp::*;
        matches!(
            self,
            StMatrix { .. }
                | CpAsync
                | CpAsyncCommit
                | CpAsyncWait { .. }
                | WarpgroupMma(_)
                | WarpgroupWait { .. }
                | AsyncProxyFence
        )
    }

    /// Whether it depends on its operands alone, in control flow that the threads of a warp share.
    pub fn is_pure(&self) -> bool {
        matches!(self, FragmentOp::Mma(_) | FragmentOp::Pack(_))
    }
}
