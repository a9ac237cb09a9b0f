//! The chain of links behind a topic's publisher: one for each subscriber.

use super::Shared;
use crate::error::Result;
use crate::wire::record::link;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The links that a publisher sends to, in their order. The first is its own, which has no ring.
pub(crate) struct Chain {
    links: Mutex<Vec<u32>>,
}

impl Chain {
    /// That of a publisher, whose own link begins at a word of the arena.
    pub fn new(at: u32) -> Chain {
        Chain { links: Mutex::new(vec![at]) }
    }

    fn links(&self) -> MutexGuard<'_, Vec<u32>> {
        // Changed after the device's memory was, in one go.
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a link.
    pub fn append(&self, shared: &Shared, at: u32) -> Result<()> {
        let mut links = self.links();
        let last = links[links.len() - 1] as usize;
        shared.memory.write_arena(last + link::NEXT, &[at])?;
        links.push(at);
        Ok(())
    }

    /// Takes a link out; gives the publisher's own. The publisher may still be sending to it.
    pub fn remove(&self, shared: &Shared, at: u32) -> Result<u32> {
        let mut links = self.links();
        if let Some(place) = links.iter().position(|link| *link == at) {
            let next = links.get(place + 1).copied().unwrap_or(0);
            shared.memory.write_arena(links[place - 1] as usize + link::NEXT, &[next])?;
            links.remove(place);
        }
        Ok(links[0])
    }
}
