//! Where arrays of a handler lie: in the arena, or in the slot of the message before it.

use crate::slot::{PAYLOAD, QUAD};
use kiln_lang::prelude::*;

/// In the arena, from a word on.
pub(crate) const ARENA: u32 = 1;
/// In the message, from a word of its payload on.
pub(crate) const MESSAGE: u32 = 2;

/// The memory that a handler's arrays lie in. One whose source is neither constant is all zeros.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub arena: ViewMut<u32, 1>,
    pub message: Option<MessageSlot>,
}

/// The slot of a message.
#[derive(Clone, Copy, Debug)]
pub struct MessageSlot {
    pub inbox: View<u32, 1>,
    /// Whether it may lie in the arena instead.
    pub inlets: bool,
    /// Whether it does.
    pub inlet: Val<bool>,
    /// The first quad of its payload.
    pub at: Val<u32>,
}

impl Memory {
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
                let quad = self.quad(slot, slot.at + at / PAYLOAD as u32 * QUAD as u32);
                let place = at % PAYLOAD as u32;
                word = select(place.eq(0), quad[0], select(place.eq(1), quad[1], quad[2]));
            }
        }
        word
    }

    #[device(crate = kiln_lang)]
    fn quad(&self, slot: &MessageSlot, at: Val<u32>) -> [Val<u32>; QUAD] {
        // By quads, as the message was seen to be complete: another kind of load might find an older line in a cache.
        // SAFETY: the quad belongs to the message's slot, which lies there.
        unsafe {
            if slot.inlets && slot.inlet {
                self.arena.get_quad_unchecked(at)
            } else {
                slot.inbox.get_quad_unchecked(at)
            }
        }
    }
}
