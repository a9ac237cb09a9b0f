//! Buffers for the words of one message: on the stack for all but large ones.

use crate::layout::Layout;

/// Calls `f` with `T::WORDS` words, which are zero.
#[inline]
fn with_words<T: Layout, O>(f: impl FnOnce(&mut [u32]) -> O) -> O {
    // Which arm it is is known when this is compiled.
    match T::WORDS {
        0..=12 => f(&mut [0; 12][..T::WORDS]),
        13..=60 => f(&mut [0; 60][..T::WORDS]),
        61..=1020 => f(&mut [0; 1020][..T::WORDS]),
        words => f(&mut vec![0; words]),
    }
}

/// Calls `f` with a value's words.
#[inline]
pub fn encoded<T: Layout, O>(value: &T, f: impl FnOnce(&[u32]) -> O) -> O {
    with_words::<T, O>(|words| {
        value.encode(words);
        f(words)
    })
}

/// The value of the words that `f` writes.
#[inline]
pub fn decoded<T: Layout>(f: impl FnOnce(&mut [u32])) -> T {
    with_words::<T, T>(|words| {
        f(words);
        T::decode(words)
    })
}
