//! What a mailbox does about the arrays that messages refer to.

use super::mailbox::{Mailbox, Sent};
use super::platform::Platform;
use super::priority_ring::PriorityRing;
use crate::error::SendError;
use crate::message::Message;
use crate::payload::Hold;
use std::collections::VecDeque;

impl<P: Platform> Mailbox<P> {
    /// The arrays that a message refers to, once they are filled. Without any, this costs nothing.
    #[inline]
    pub fn settled<M: Message>(&self, message: &M) -> Result<Vec<Hold>, SendError> {
        let mut holds = Vec::new();
        if M::HOLDS {
            message.hold(&mut holds);
            for hold in &holds {
                self.filled(hold)?;
            }
        }
        Ok(holds)
    }

    fn filled(&self, hold: &Hold) -> Result<(), SendError> {
        let actor = self.actor();
        match self.device().settle(hold) {
            Ok(true) => Ok(()),
            Ok(false) => Err(SendError::PayloadForeign { actor }),
            Err(_) => Err(SendError::PayloadNotFilled { actor }),
        }
    }

    /// Keeps the arrays of a message that was sent until it is answered.
    #[inline]
    pub fn keep(&self, sent: Sent, holds: Vec<Hold>) -> Sent {
        if let (false, Sent::Queued(position)) = (holds.is_empty(), sent) {
            let ring = self.of(position);
            let mut held = ring.held.lock();
            ring.let_go_answered(&mut held);
            held.push_back((position, holds));
        }
        sent
    }

    /// Lets go of the arrays of messages that are answered, after their answers were taken.
    #[cold]
    pub fn let_go(&self) {
        self.rings().for_each(|ring| ring.let_go_answered(&mut ring.held.lock()));
    }
}

impl<P: Platform> PriorityRing<P> {
    fn let_go_answered(&self, held: &mut VecDeque<(u64, Vec<Hold>)>) {
        let answered = self.queue.head();
        // Those of messages that other threads sent meanwhile may stand a little out of order, and
        // are let go a little later.
        while held.front().is_some_and(|&(position, _)| position < answered) {
            held.pop_front();
        }
    }
}
