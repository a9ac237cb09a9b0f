//! Taking a checkpoint of an actor that lives.
//!
//! The actor's gate is closed, which the device acknowledges once the message in hand is done; so
//! state and queue stand still. Everything from the first message without an answer to the last
//! that was begun is then in the request ring, and is read back from there: by the host where it
//! may read the ring, and by a copy of the device where the ring is the device's own memory. A
//! message that is being written at that moment is waited for.

use super::body::{Body, Life};
use super::checkpoint::{Checkpoint, Held, HeldPriority};
use super::limit::Limit;
use crate::channel::{Native, Queue};
use crate::error::{CheckpointError, Result};
use crate::lifecycle::Lifecycle;
use crate::wire::command::Operation;
use crate::wire::record::gate;
use crate::wire::slot::{Kind, count_of, priority_of};
use std::time::Instant;

impl Body {
    /// The actor as it is now. An active one is held meanwhile.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        let mut life = self.life();
        if matches!(life.stage, Lifecycle::Draining | Lifecycle::Terminated) {
            return Err(self.illegal("a checkpoint", life.stage, "not at its end"));
        }
        self.lost()?;
        self.capture(&mut life)
    }

    pub(super) fn capture(&self, life: &mut Life) -> Result<Checkpoint> {
        self.check_portable()?;
        self.hold_messages(life)?;
        let checkpoint = self.read();
        self.let_go_on(life)?;
        checkpoint
    }

    /// Has an active actor handle nothing until [`let_go_on`](Self::let_go_on).
    pub(super) fn hold_messages(&self, life: &mut Life) -> Result<()> {
        if life.stage == Lifecycle::Active {
            self.side.command(Operation::Gate, gate::HELD)?;
            // It may have failed before it was held: then its gate remains closed.
            self.notice(life);
        }
        Ok(())
    }

    /// Ends what [`hold_messages`](Self::hold_messages) began.
    pub(super) fn let_go_on(&self, life: &Life) -> Result<()> {
        if life.stage == Lifecycle::Active { self.side.command(Operation::Gate, gate::OPEN) } else { Ok(()) }
    }

    /// Whether all there is to the actor are its words.
    pub(super) fn check_portable(&self) -> Result<()> {
        if self.body_config.refers {
            let handler = self.kind().handler.signature().name;
            return Err(CheckpointError::NotPortable { handler }.into());
        }
        if self.side.has_inbound_links() {
            return Err(CheckpointError::InboundLinks { actor: self.number }.into());
        }
        Ok(())
    }

    /// Reads state and messages of the host of an actor that is held.
    pub(super) fn read(&self) -> Result<Checkpoint> {
        let handler = self.kind().handler.signature();
        let mut state = vec![0; handler.state_words];
        self.side.read_state(&mut state)?;
        // The time by which deadlines are counted.
        let timed = self.mailbox.form().requests.slot().has_header();
        let now = if timed { self.side.device_clock()? } else { 0 };
        let priorities =
            self.mailbox.rings().map(|ring| self.unhandled(&ring.queue, now)).collect::<Result<_>>()?;
        Ok(Checkpoint {
            handler: handler.name.to_owned(),
            layouts: [handler.state_id, handler.message_id, handler.reply_id],
            first_state: self.first_state(),
            state,
            priorities,
            inbound_links: Vec::new(),
        })
    }

    /// The messages of a priority that have no answer.
    fn unhandled(&self, queue: &Queue<Native>, now: u64) -> Result<HeldPriority> {
        let (end, begun) = (queue.tail(), Instant::now());
        let mut wait = Limit::after(self.side.patience()).wait();
        loop {
            // Anew each time: a full queue may drop its oldest meanwhile, and use their slots
            // again.
            let first = queue.first_unanswered().min(end);
            let messages = self.messages(queue, first, end, now)?;
            let missing = messages.iter().position(Option::is_none);
            let Some(missing) = missing else {
                let messages = messages.into_iter().flatten().collect();
                return Ok(HeldPriority { passed: count_of(first), messages });
            };
            if !wait.step() {
                let position = first + missing as u64;
                return Err(CheckpointError::Unfinished { position, waited: begun.elapsed() }.into());
            }
        }
    }

    /// Reads the messages in some positions of a priority; `None` for one that has not arrived.
    fn messages(&self, queue: &Queue<Native>, first: u64, end: u64, now: u64) -> Result<Vec<Option<Held>>> {
        let (ring, at) = (queue.form().requests, priority_of(first) * queue.form().request_words());
        let (slot, slots) = (ring.slot(), ring.slots() as u64);
        let mut words = vec![0; (end - first) as usize * slot.stride()];
        // The ring's end cuts them in two at most.
        let whole = (slots - ring.index(first) as u64).min(end - first);
        let (before, behind) = words.split_at_mut(whole as usize * slot.stride());
        self.side.read_requests(at + ring.at(first), before)?;
        self.side.read_requests(at + ring.at(first + whole), behind)?;
        let held = |(position, words): (u64, &[u32])| {
            let mut payload = vec![0; slot.payload_words()];
            let kind = slot.decode(ring.lap(position), words, &mut payload)?;
            let deadline = u64::from(words[0]) | u64::from(words[1]) << 32;
            let timed = slot.has_header() && deadline != u64::MAX;
            let left_ns = timed.then(|| deadline.saturating_sub(now));
            (kind == Kind::Request).then_some(Held { left_ns, words: payload })
        };
        Ok((first..end).zip(words.chunks_exact(slot.stride())).map(held).collect())
    }
}
