//! Which failures of a handler are new: those behind the ones that are settled.

use super::failure::Failure;
use super::mailbox::Mailbox;
use super::platform::Platform;
use super::priority_ring::PriorityRing;
use crate::wire::slot::{Kind, priority_of};

/// The failures that are over: of each priority, those below a position.
#[derive(Clone, Debug)]
pub struct Settled(Vec<u64>);

impl Settled {
    /// The failure in this position is over too.
    pub fn with(&mut self, position: u64) {
        if let Some(from) = self.0.get_mut(priority_of(position)) {
            *from = position + 1;
        }
    }
}

impl<P: Platform> Mailbox<P> {
    /// All failures so far, if there is none among the messages that are not answered.
    pub fn settled_so_far(&self) -> Settled {
        Settled(self.rings().map(|ring| ring.queue.first_unanswered()).collect())
    }

    /// Those that are over when nothing was answered yet.
    pub fn none_settled(&self) -> Settled {
        Settled(self.rings().map(|ring| ring.queue.tail()).collect())
    }

    /// The newest failure of those that are not over. After one, an actor handles no message of any
    /// priority.
    pub fn failure_since(&self, settled: &Settled) -> Option<Failure> {
        self.rings().zip(&settled.0).find_map(|(ring, &from)| ring.failure_since(from))
    }
}

impl<P: Platform> PriorityRing<P> {
    /// The newest failure in position `from` or later.
    fn failure_since(&self, from: u64) -> Option<Failure> {
        let received = self.last_failure.get().filter(|&(position, _)| position >= from);
        let newest = self.newest_failure(from);
        received.into_iter().chain(newest).max_by_key(|&(position, _)| position)
    }

    /// The failure that the newest answers show: an actor that failed answers nothing after it, but
    /// that messages were dropped to make room.
    fn newest_failure(&self, from: u64) -> Option<Failure> {
        let mut position = self.queue.first_unanswered();
        while position > from {
            position -= 1;
            let (kind, reason) = self.queue.peek(position, |answer| (answer.kind, answer.reason()))?;
            match kind {
                Kind::Failed => return reason.map(|reason| (position, reason)),
                Kind::Dropped => {}
                _ => return None,
            }
        }
        None
    }
}
