//! The sender's end of a link, also where that lies in another runtime.

use super::Shared;
use super::endpoints::Endpoint;
use super::limit::Limit;
use super::region::WordRange;
use crate::error::Result;
use crate::wire::command::Operation;
use crate::wire::record::link;
use std::sync::{Arc, Weak};

/// The sender's end of an inbound link whose sender belongs to another runtime.
pub(super) struct Sender {
    runtime: Weak<Shared>,
    record: WordRange,
}

impl Sender {
    /// Makes the record of a link, of which the receiver's has these words, and stands at this word
    /// of the receiver's arena.
    pub fn new(
        runtime: &Arc<Shared>,
        receiver: &Shared,
        at: usize,
        mut words: [u32; link::WORDS],
    ) -> Result<Sender> {
        let bytes = receiver.memory.arena_address().wrapping_sub(runtime.memory.arena_address());
        // Modulo 2^62 words: an address that begins there is the same, and no index is negative.
        let far = bytes >> 2;
        words[link::FAR] = far as u32;
        words[link::FAR + 1] = (far >> 32) as u32;
        words[link::PEER] = at as u32;
        let record = runtime.allocate_arena(link::WORDS)?;
        let sender = Sender { runtime: Arc::downgrade(runtime), record };
        match runtime.memory.write_arena(record.at, &words) {
            Ok(()) => Ok(sender),
            Err(error) => {
                sender.give_back();
                Err(error)
            }
        }
    }

    /// The sender's runtime, if it is still there, and the word of its arena at which the record
    /// stands.
    pub fn record(&self) -> (Option<Arc<Shared>>, usize) {
        (self.runtime.upgrade(), self.record.at)
    }

    /// Gives the record's memory back.
    pub fn give_back(&self) {
        if let Some(runtime) = self.runtime.upgrade() {
            runtime.free().arena.release(self.record);
        }
    }
}

/// Has the actor that claimed the link with this record find that it has ended.
pub(super) fn end_link(runtime: &Shared, at: usize, limit: Limit) -> Result<()> {
    runtime.memory.write_arena(at + link::SERIAL, &[0])?;
    settle_owner(runtime, at, limit)
}

/// Has the owner of a link read its record again before it handles another message.
pub(super) fn settle_owner(runtime: &Shared, at: usize, limit: Limit) -> Result<()> {
    let mut owner = [0];
    runtime.memory.read_arena(at + link::OWNER, &mut owner)?;
    let endpoint: Option<Endpoint> = owner[0].checked_sub(1).and_then(|actor| runtime.place_of(actor));
    endpoint.map_or(Ok(()), |endpoint| runtime.command(endpoint, Operation::Settle, 0, limit))
}
