//! Where arrays of a handler lie: in the arena, or in the slot of the message before it.

use crate::layout::MAX_WORDS;
use crate::wire::slot::{PAYLOAD, QUAD};
use kiln_lang::prelude::*;

/// In the arena, from a word on.
pub(crate) const ARENA: u32 = 1;
/// In the message, from a word of its payload on.
pub(crate) const MESSAGE: u32 = 2;

/// The memory that a handler's arrays lie in. One whose source is neither constant is all zeros.
#[derive(Clone, Copy, Debug)]
pub struct ArrayMemory {
    pub arena: ViewMut<u32, 1>,
    pub message: Option<MessageSlot>,
}

/// The slot of a message.
#[derive(Clone, Copy, Debug)]
pub struct MessageSlot {
    pub inbox: View<u32, 1>,
    /// Whether it may lie in the arena instead.
    pub inbound_links: bool,
    /// Whether it does.
    pub inbound_link: Val<bool>,
    /// The first quad of its payload.
    pub at: Val<u32>,
}

impl ArrayMemory {
    /// A word of what `source` says.
    #[device(crate = kiln_lang)]
    pub(crate) fn word(&self, source: Val<u32>, at: Val<u32>) -> Val<u32> {
        let mut word: Val<u32> = 0;
        if source.eq(ARENA) {
            // A reference that no host made may name words outside the arena: those read as zero.
            word = self.arena.get_or(at, 0);
        }
        if let Some(slot) = &self.message {
            if source.eq(MESSAGE) {
                word = self.word_of_slot(slot, at);
            }
        }
        word
    }

    /// A word of a message's payload: a quad of the slot holds three of them, so that each third
    /// one is followed by a stamp.
    #[device(crate = kiln_lang)]
    fn word_of_slot(&self, slot: &MessageSlot, at: Val<u32>) -> Val<u32> {
        // A third by a product, for numbers below 2^16: a division costs as much as the rest of a
        // handler's loop. Messages have `MAX_WORDS` words at most.
        let stamps = (at * 0xaaab) >> 17;
        let at = slot.at + at + stamps;
        // In order, as the message was seen to be complete: another kind of load might find an
        // older line in a cache.
        // SAFETY: the word belongs to the message's slot, which lies there.
        unsafe {
            if slot.inbound_links && slot.inbound_link {
                self.arena.get_ordered_unchecked(at, Order::Relaxed, Scope::System)
            } else {
                slot.inbox.get_ordered_unchecked(at, Order::Relaxed, Scope::System)
            }
        }
    }
}

const _: () = assert!(PAYLOAD == 3 && QUAD == 4 && MAX_WORDS <= 1 << 15);

#[cfg(test)]
mod tests {
    /// The slot's words behind the last that a handler can read are read too, when it is sent on.
    #[test]
    fn thirds_are_whole() {
        assert!((0u32..1 << 16).all(|at| (at * 0xaaab) >> 17 == at / 3));
    }
}
