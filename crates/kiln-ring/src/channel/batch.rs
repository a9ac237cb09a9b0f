//! Many messages sent in a row.

use super::mailbox::Mailbox;
use super::platform::Platform;
use super::priority_ring::PriorityRing;
use super::wait::Deadline;
use crate::error::SendError;

/// Many messages in a row. When it is dropped, what was sent is pushed out.
pub struct Batch<'a, P: Platform> {
    mailbox: &'a Mailbox<P>,
    to: &'a PriorityRing<P>,
    sent: usize,
    /// How many of those sent were pushed out.
    pushed: usize,
}

impl<'a, P: Platform> Batch<'a, P> {
    pub fn new(mailbox: &'a Mailbox<P>, to: &'a PriorityRing<P>) -> Self {
        Batch { mailbox, to, sent: 0, pushed: 0 }
    }

    /// How many messages were sent.
    pub fn sent(&self) -> usize {
        self.sent
    }

    /// Sends messages, given as what their slots hold, one after the other. Where the queue is
    /// full, does as its policy says.
    #[inline]
    pub fn send(&mut self, words: &[u32], until: Option<Deadline>) -> Result<(), SendError> {
        let queue = &self.to.queue;
        let pitch = queue.form().requests.slot().pitch();
        let mut words = words;
        while !words.is_empty() {
            let (first, count) = match queue.reserve((words.len() / pitch) as u64) {
                Ok(positions) => (positions.start, (positions.end - positions.start) as usize),
                Err(refused) => {
                    // The device may wait for these to make room.
                    self.push();
                    match self.mailbox.overflow(self.to, refused, Some(until))? {
                        Some(position) => (position, 1),
                        None => {
                            words = &words[pitch..];
                            continue;
                        }
                    }
                }
            };
            let (now, later) = words.split_at(count * pitch);
            queue.write(first, now);
            self.sent += count;
            words = later;
        }
        Ok(())
    }

    /// Pushes out what was sent.
    #[inline]
    fn push(&mut self) {
        if self.sent != self.pushed {
            self.pushed = self.sent;
            self.mailbox.sent(self.to);
        }
    }
}

impl<P: Platform> Drop for Batch<'_, P> {
    #[inline]
    fn drop(&mut self) {
        self.push();
    }
}
