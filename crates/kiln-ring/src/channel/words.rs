//! Buffers of words, on the stack for all but large messages, and how a message lies in them.

use super::lines::SLACK;
use crate::layout::Layout;
use crate::wire::slot::{PAYLOAD, SlotLayout, quads_for};

/// Slots that are written or read at once where there are some.
const SOME: usize = 16;

/// Slots that are written at once where there are many. Positions are taken for all of them by one
/// locked instruction, which waits until what was stored to write-combined memory before it has
/// left.
const MANY: usize = 64;

/// Calls `f` with this many words, which are zero.
#[inline(always)]
fn with_words<O>(words: usize, f: impl FnOnce(&mut [u32]) -> O) -> O {
    // Which arm it is, is decided where this is compiled into.
    match words {
        0..=12 => f(&mut [0; 12][..words]),
        13..=28 => f(&mut [0; 28][..words]),
        29..=64 => f(&mut [0; 64][..words]),
        65..=208 => f(&mut [0; 208][..words]),
        209..=768 => f(&mut [0; 768][..words]),
        769..=1024 => f(&mut [0; 1024][..words]),
        _ => f(&mut vec![0; words]),
    }
}

/// Writes what a slot holds, stamps left out: its header, if it has one, and a message. What lies
/// beyond is zero already.
#[inline(always)]
fn lay<M: Layout>(message: &M, header: Option<[u32; PAYLOAD]>, words: &mut [u32]) {
    let from = if let Some(header) = header {
        words[..PAYLOAD].copy_from_slice(&header);
        PAYLOAD
    } else {
        0
    };
    message.encode(&mut words[from..][..M::WORDS]);
}

/// Calls `f` with what the slot of a message holds.
#[inline]
pub fn laid<M: Layout, O>(message: &M, header: Option<[u32; PAYLOAD]>, f: impl FnOnce(&[u32]) -> O) -> O {
    let lay_into = |words: &mut [u32]| {
        lay(message, header, words);
        f(words)
    };
    if header.is_some() {
        with_words(const { SlotLayout::new(M::WORDS, true).pitch() }, lay_into)
    } else {
        with_words(const { SlotLayout::new(M::WORDS, false).pitch() }, lay_into)
    }
}

/// Calls `f` with what the slots of some messages hold, one after the other, until all had their
/// turn.
#[inline]
pub fn laid_many<M: Layout, E>(
    messages: &[M],
    header: Option<[u32; PAYLOAD]>,
    f: impl FnMut(&[u32]) -> Result<(), E>,
) -> Result<(), E> {
    if header.is_some() {
        lay_in_turns(messages, header, const { SlotLayout::new(M::WORDS, true).pitch() }, f)
    } else {
        lay_in_turns(messages, None, const { SlotLayout::new(M::WORDS, false).pitch() }, f)
    }
}

#[inline(always)]
fn lay_in_turns<M: Layout, E>(
    messages: &[M],
    header: Option<[u32; PAYLOAD]>,
    pitch: usize,
    mut f: impl FnMut(&[u32]) -> Result<(), E>,
) -> Result<(), E> {
    let mut lay_some = |words: &mut [u32], some: &[M]| {
        for (message, words) in some.iter().zip(words.chunks_exact_mut(pitch)) {
            lay(message, header, words);
        }
        f(&words[..some.len() * pitch])
    };
    // A larger buffer is cleared for many alone; large messages go one by one.
    if messages.len() > SOME && pitch * MANY <= 1024 {
        with_words(pitch * MANY, |words| messages.chunks(MANY).try_for_each(|some| lay_some(words, some)))
    } else {
        let at_once = if pitch * SOME <= 1024 { SOME } else { 1 };
        with_words(pitch * at_once, |words| {
            messages.chunks(at_once).try_for_each(|some| lay_some(words, some))
        })
    }
}

/// Calls `f` with a buffer for the reply to one message.
#[inline]
pub fn for_one<R: Layout, O>(f: impl FnOnce(&mut [u32]) -> O) -> O {
    with_words(const { quads_for(R::WORDS) * PAYLOAD + SLACK }, f)
}

/// Calls `f` with a buffer for the replies to many messages.
#[inline]
pub fn for_many<R: Layout, O>(f: impl FnOnce(&mut [u32]) -> O) -> O {
    let pitch = const { quads_for(R::WORDS) * PAYLOAD };
    with_words(pitch * if pitch * SOME <= 1000 { SOME } else { 1 } + SLACK, f)
}

/// The value of the words that `f` writes.
#[inline]
pub fn decoded<T: Layout>(f: impl FnOnce(&mut [u32])) -> T {
    with_words(T::WORDS, |words| {
        f(words);
        T::decode(words)
    })
}
