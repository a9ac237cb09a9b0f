//! Sums of two 16-bit floats that are one word of memory.

use super::atomic::Atomics;
use super::{Indices, ViewMut};
use crate::elem::Float;
use crate::val::{IntoVal, Val};
use half::{bf16, f16};
use kiln_ir::AtomicOp;
use std::panic::Location;

/// A float of 16 bits, of which a word holds two: `f16` and `bf16`.
///
/// ```
/// use kiln_lang::prelude::*;
///
/// /// A word with the mean of two numbers in its lower half.
/// fn mean<T: Half>(a: Val<T>, b: Val<T>) -> Val<u32> {
///     ((a + b) * 0.5).pack_pair(0)
/// }
/// ```
pub trait Half: Float {
    #[doc(hidden)]
    const ADD: AtomicOp;
}

impl Half for f16 {
    const ADD: AtomicOp = AtomicOp::AddF16x2;
}

impl Half for bf16 {
    const ADD: AtomicOp = AtomicOp::AddBf16x2;
}

impl<T: Half> Val<T> {
    /// A word with the bits of this number in its lower half, and those of `high` in the upper one:
    /// CUDA's `half2`.
    ///
    /// ```
    /// # use kiln_lang::{f16, trace, val, Level, Val};
    /// # trace("k", Level::Tile { warps: None }, |_| {
    /// let word: Val<u32> = val::<f16>(f16::ONE).pack_pair(2);
    /// let [one, two] = word.unpack_pair::<f16>();
    /// # _ = (one, two);
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn pack_pair(self, high: impl IntoVal<T>) -> Val<u32> {
        let [low, high] = [self, high.into_val()].map(|half| half.bitcast::<u16>().cast::<u32>());
        low | (high << 16)
    }
}

impl Val<u32> {
    /// The two numbers of a word, the lower half first. Undoes [`pack_pair`](Val::pack_pair).
    #[track_caller]
    pub fn unpack_pair<T: Half>(self) -> [Val<T>; 2] {
        [self, self >> 16].map(|word| word.cast::<u16>().bitcast::<T>())
    }
}

impl<const R: usize> ViewMut<u32, R> {
    /// Atomically adds two numbers to those of a word, which holds two of `f16` or `bf16`; gives
    /// the old word. Each of the two is added by itself. One instruction on NVIDIA GPUs (of `bf16`
    /// from compute capability 9.0 on).
    ///
    /// A thread's index outside the view is a fault; of a tile of indices, those outside do nothing
    /// and give 0.
    ///
    /// ```
    /// # use kiln_lang::{param::Facts, prelude::*};
    /// # trace("k", Level::Thread { block: [64, 1, 1] }, |p| {
    /// # let x = p.view::<f16, 1>("x", Facts::default());
    /// # let sums = p.view_mut::<u32, 1>("sums", Facts::default());
    /// let i = thread_index();
    /// sums.atomic_add_pair::<f16>(i % 8, x.get(i).pack_pair(1)); // sums and counts
    /// # })?;
    /// # Ok::<(), kiln_lang::TraceErrors>(())
    /// ```
    #[track_caller]
    pub fn atomic_add_pair<T: Half>(&self, index: impl Indices<R>, pair: impl IntoVal<u32>) -> Val<u32> {
        self.atomic_word(T::ADD, index.indices(), pair.into_val(), Location::caller())
    }
}

impl<const R: usize> Atomics<u32, R> {
    /// Atomically adds two numbers to those of a word: as
    /// [`atomic_add_pair`](ViewMut::atomic_add_pair), in the order.
    #[track_caller]
    pub fn add_pair<T: Half>(&self, index: impl Indices<R>, pair: impl IntoVal<u32>) -> Val<u32> {
        self.atomic_word(T::ADD, index.indices(), pair.into_val(), Location::caller())
    }
}
