//! A queue with its policies: what happens when it is full, how to wait, where dead letters go. In words; [`Channel`](super::Channel) adds the
//! types.

use super::batch::Batch;
use super::error::{AskError, RecvError, SendError};
use super::failure::Noted;
use super::held::Held;
use super::overflow::{Counter, Counters, Counts, Overflow, Replies};
use super::platform::Platform;
use super::queue::{Answer, Next, Queue, Refused};
use super::wait::{Wait, WaitPolicy};
use super::wakers::{Awaited, Wakers};
use crate::dead_letter::{DeadLetters, Letter, Reason};
use crate::layout::Hold;
use crate::slot::{Kind, PAYLOAD};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};

/// What a channel needs of the device's side.
pub trait DeviceSide: Send + Sync {
    /// Asks that requests in positions below `position` which are not begun be answered [`Kind::Dropped`](crate::slot::Kind::Dropped). It may come again with a lower position,
    /// which changes nothing.
    fn skip(&self, position: u64);

    /// Called after a send while [`Channel::set_parked`](crate::Channel::set_parked) says that nobody polls the request ring.
    fn wake(&self) {}

    /// Lets a device that does not run by itself go on for a while; whether it is one.
    fn pump(&self) -> bool {
        false
    }

    /// Waits until an array that a message refers to is filled. Whether it is one that this device's side can reach.
    ///
    /// # Errors
    /// What the device failed with, in words.
    fn settle(&self, hold: &Hold) -> Result<bool, String> {
        let _ = hold;
        Ok(false)
    }
}

/// What became of a send that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The message is in the queue, in this position.
    Queued(u64),
    /// The queue is full and drops the newest: the message was not sent.
    Dropped,
}

/// What a mailbox is called, and how it behaves.
pub struct Manner {
    /// The actor's number.
    pub actor: u32,
    /// What a full queue does.
    pub overflow: Overflow,
    /// How threads wait.
    pub wait: WaitPolicy,
    /// What becomes of replies that nobody asked for.
    pub replies: Replies,
    /// The message's layout.
    pub message_layout: u64,
    /// The reply's layout.
    pub reply_layout: u64,
    /// Where dead letters go.
    pub letters: Arc<DeadLetters>,
    /// The device's side.
    pub device: Arc<dyn DeviceSide>,
}

/// A send that waits longer than this looks whether it waits for replies that nobody receives.
const UNREAD: Duration = Duration::from_secs(1);

/// How often a receiver that spins looks at the next answer before it looks whether the channel has ended.
const LOOKS: usize = 32;

/// A queue with its policies.
pub struct Mailbox<P: Platform> {
    queue: Queue<P>,
    manner: Manner,
    counters: Counters,
    pub(super) wakers: Wakers,
    pub(super) noted: Noted,
    parked: AtomicBool,
    lost: AtomicBool,
    held: Held,
}

impl<P: Platform> Mailbox<P> {
    pub fn new(queue: Queue<P>, manner: Manner) -> Mailbox<P> {
        Mailbox {
            queue,
            manner,
            counters: Counters::default(),
            wakers: Wakers::default(),
            noted: Noted::default(),
            parked: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            held: Held::default(),
        }
    }

    pub(super) fn held(&self) -> &Held {
        &self.held
    }

    pub(super) fn device(&self) -> &dyn DeviceSide {
        &*self.manner.device
    }

    #[inline]
    pub fn queue(&self) -> &Queue<P> {
        &self.queue
    }

    pub fn actor(&self) -> u32 {
        self.manner.actor
    }

    pub fn letters(&self) -> &Arc<DeadLetters> {
        &self.manner.letters
    }

    /// Whether a full queue is an error, and no reason to wait.
    pub fn rejects(&self) -> bool {
        self.manner.overflow == Overflow::Reject
    }

    pub fn counts(&self) -> Counts {
        let c = &self.counters;
        let answered = self.queue.head();
        Counts {
            // Read second: never less than what was answered.
            sent: self.queue.tail(),
            answered,
            rejected: c.rejected.get(),
            dropped_newest: c.dropped_newest.get(),
            dropped_oldest: c.dropped_oldest.get(),
            expired: c.expired.get(),
            failed: c.failed.get(),
            undeliverable: c.undeliverable.get(),
            unclaimed: c.unclaimed.get(),
        }
    }

    /// Says whether nobody polls the request ring, so that senders call [`DeviceSide::wake`].
    ///
    /// Whoever parks the device's side says so first, and then looks whether the queue's tail has moved: either it sees the message, or the
    /// sender sees that it must wake it.
    pub fn set_parked(&self, parked: bool) {
        self.parked.store(parked, SeqCst);
        std::sync::atomic::fence(SeqCst);
    }

    /// Refuses senders from now on. Messages under way are still answered.
    pub fn close(&self) {
        self.queue.close();
        self.wake_ready();
    }

    /// Refuses senders, and ends the waits of those who wait for answers that are not there: none will come.
    pub fn abandon(&self) {
        self.queue.close();
        self.lost.store(true, SeqCst);
        self.wake_ready();
    }

    /// Lets a device that does not run by itself go on for a while; whether it is one.
    pub fn pump(&self) -> bool {
        self.manner.device.pump()
    }

    pub fn is_lost(&self) -> bool {
        self.lost.load(Acquire)
    }

    /// The header of a message without a deadline, where slots have one: the last moment there is.
    #[inline]
    pub fn header(&self) -> Option<[u32; PAYLOAD]> {
        self.queue.form().requests.slot().has_header().then_some([u32::MAX, u32::MAX, 0])
    }

    // ---- sending

    /// Sends a message, given as what its slot holds (see [`Queue::write`]); where the queue is full, does as its policy says, and waits at most until `until`.
    #[inline]
    pub fn send(&self, words: &[u32], until: Option<Instant>) -> Result<Sent, SendError> {
        let Some(position) = self.reserve(until)? else { return Ok(Sent::Dropped) };
        self.queue.write(position, words);
        self.sent();
        Ok(Sent::Queued(position))
    }

    /// As [`send`](Self::send), without waiting: a queue that would have to is an error.
    #[inline]
    pub fn try_send(&self, words: &[u32]) -> Result<Sent, SendError> {
        let Some(position) = self.try_reserve()? else { return Ok(Sent::Dropped) };
        self.queue.write(position, words);
        self.sent();
        Ok(Sent::Queued(position))
    }

    /// Sends a request for whose answer the caller will look itself; gives its position.
    pub fn request(&self, words: &[u32], until: Option<Instant>) -> Result<u64, AskError> {
        let position = self.reserve(until)?.ok_or(AskError::DroppedNewest { actor: self.actor() })?;
        self.write_request(position, words);
        Ok(position)
    }

    /// As [`request`](Self::request), without waiting.
    pub fn try_request(&self, words: &[u32]) -> Result<u64, AskError> {
        let position = self.try_reserve()?.ok_or(AskError::DroppedNewest { actor: self.actor() })?;
        self.write_request(position, words);
        Ok(position)
    }

    fn write_request(&self, position: u64, words: &[u32]) {
        self.queue.mark_asked(position);
        self.queue.write(position, words);
        self.sent();
    }

    /// Many messages in a row, of which all are pushed out at once.
    pub fn batch(&self) -> Batch<'_, P> {
        Batch::new(self)
    }

    /// After slots were written.
    #[inline]
    pub(super) fn sent(&self) {
        self.queue.publish();
        if self.parked.load(SeqCst) {
            self.manner.device.wake();
        }
    }

    #[inline]
    fn reserve(&self, until: Option<Instant>) -> Result<Option<u64>, SendError> {
        match self.queue.reserve(1) {
            Ok(positions) => Ok(Some(positions.start)),
            Err(refused) => self.overflow(refused, Some(until)),
        }
    }

    #[inline]
    fn try_reserve(&self) -> Result<Option<u64>, SendError> {
        match self.queue.reserve(1) {
            Ok(positions) => Ok(Some(positions.start)),
            Err(refused) => self.overflow(refused, None),
        }
    }

    /// A position in a queue that was full, as its policy says. `until` is `None` for those who do not wait.
    #[cold]
    pub(super) fn overflow(
        &self,
        refused: Refused,
        until: Option<Option<Instant>>,
    ) -> Result<Option<u64>, SendError> {
        let actor = self.actor();
        let begun = Instant::now();
        let mut wait = Wait::new(self.manner.wait, until.flatten());
        let (mut refused, mut warned) = (refused, false);
        let full = || SendError::Full { actor, capacity: self.queue.form().capacity };
        loop {
            if refused == Refused::Closed {
                return Err(SendError::Closed { actor });
            }
            // Answers that nobody receives make room.
            self.tidy();
            match self.queue.reserve(1) {
                Ok(positions) => return Ok(Some(positions.start)),
                Err(now) => refused = now,
            }
            if refused == Refused::Closed {
                continue;
            }
            match self.manner.overflow {
                Overflow::Reject => {
                    self.counters.rejected.add_one();
                    return Err(full());
                }
                Overflow::DropNewest => {
                    self.counters.dropped_newest.add_one();
                    return Ok(None);
                }
                Overflow::DropOldest => self.drop_oldest(),
                Overflow::Block => {}
            }
            if until.is_none() {
                return self.queue.reserve(1).map(|p| Some(p.start)).map_err(|_| full());
            }
            if if self.manner.device.pump() { wait.is_over() } else { !P::step(&mut wait) } {
                return Err(SendError::TimedOut { actor, waited: begun.elapsed() });
            }
            if !warned && begun.elapsed() > UNREAD {
                warned = true;
                self.warn_of_replies();
            }
        }
    }

    /// Says in the log if the queue is full of replies.
    fn warn_of_replies(&self) {
        if self.queue.is_receivable(self.queue.head()) {
            let actor = self.actor();
            tracing::warn!(
                target: "kiln_ring",
                actor,
                "a send to actor {actor} waits for replies that nobody receives: receive them, or launch the actor with `replies(Replies::Discard)`"
            );
        }
    }

    /// Makes the oldest message or reply go.
    fn drop_oldest(&self) {
        let oldest = self.queue.head();
        let mut dropped = false;
        if let Some(mut sweep) = self.queue.sweep() {
            while let Next::Answer(answer) = sweep.next() {
                if !answer.is_reply() {
                    self.settle(&answer);
                } else if !dropped && answer.position == oldest {
                    // The oldest is a reply that nobody received.
                    dropped = true;
                    self.letter(Reason::Dropped, &answer, self.manner.reply_layout);
                    self.counters.dropped_oldest.add_one();
                } else {
                    break;
                }
                sweep.pass();
                if dropped {
                    break;
                }
            }
        }
        if !dropped && self.queue.head() == oldest {
            self.manner.device.skip(oldest + 1);
        }
    }

    // ---- answers

    /// Takes answers that nobody receives, as far as they come first.
    pub fn tidy(&self) {
        let mut passed = false;
        if let Some(mut sweep) = self.queue.sweep() {
            while let Next::Answer(answer) = sweep.next() {
                if answer.is_reply() && self.manner.replies == Replies::Keep {
                    break;
                }
                if !answer.is_reply() {
                    self.settle(&answer);
                }
                sweep.pass();
                passed = true;
            }
        }
        if passed {
            self.wake_ready();
        }
    }

    /// Deals with an answer that is not a reply to be received.
    fn settle(&self, answer: &Answer<'_, P>) {
        let unclaimed = (answer.kind == Kind::Reply).then_some((&self.counters.unclaimed, Reason::Unclaimed));
        let Some((counter, reason)) = unclaimed.or_else(|| self.counter_of(answer)) else { return };
        counter.add_one();
        self.noted.note(answer);
        let layout =
            if answer.kind == Kind::Reply { self.manner.reply_layout } else { self.manner.message_layout };
        self.letter(reason, answer, layout);
    }

    /// Why a message was not handled, and where that is counted; `None` if it was.
    fn counter_of(&self, answer: &Answer<'_, P>) -> Option<(&Counter, Reason)> {
        let c = &self.counters;
        let counter = match answer.kind {
            Kind::None | Kind::Request | Kind::Reply => return None,
            Kind::Expired => &c.expired,
            Kind::Dropped => &c.dropped_oldest,
            Kind::Undeliverable => &c.undeliverable,
            Kind::Failed => &c.failed,
        };
        Some((counter, reason_of(answer)?))
    }

    fn letter(&self, reason: Reason, answer: &Answer<'_, P>, layout: u64) {
        let mut words = vec![0; if answer.kind == Kind::Failed { 0 } else { answer.words() }];
        answer.read(&mut words);
        let letter = Letter { reason, actor: self.actor(), position: answer.position, layout, words };
        self.manner.letters.push(letter);
    }

    /// Takes up to `most` replies that are there; gives how many. `take` gets the words of each; the buffer holds those of one at least, and
    /// [`SLACK`](super::lines::SLACK) words more.
    #[inline]
    pub fn receive(
        &self,
        most: usize,
        buffer: &mut [u32],
        mut take: impl FnMut(&[u32]),
    ) -> Result<usize, RecvError> {
        let taken = self.receive_once(most, buffer, &mut take);
        if taken != Ok(0) {
            return taken;
        }
        if self.manner.device.pump() {
            return self.receive_once(most, buffer, &mut take);
        }
        Ok(0)
    }

    #[inline]
    fn receive_once(
        &self,
        most: usize,
        buffer: &mut [u32],
        take: &mut impl FnMut(&[u32]),
    ) -> Result<usize, RecvError> {
        let Some(mut sweep) = self.queue.sweep_soon() else { return Ok(0) };
        let (mut taken, mut settled, mut pending) = (0, false, false);
        loop {
            taken += sweep.replies(most - taken, buffer, &mut *take);
            if taken == most {
                break;
            }
            match sweep.next() {
                Next::Answer(answer) if answer.is_reply() => {
                    let words = &mut buffer[..self.queue.form().reply_words];
                    answer.read(words);
                    take(words);
                    taken += 1;
                }
                Next::Answer(answer) => {
                    self.settle(&answer);
                    settled = true;
                }
                Next::Asked => break,
                Next::Pending => {
                    pending = true;
                    break;
                }
            }
            sweep.pass();
        }
        drop(sweep);
        if taken > 0 || settled {
            self.wake_ready();
        }
        if taken == 0 && pending {
            self.ended()?;
        }
        Ok(taken)
    }

    /// Whether no answer will come, where none is there.
    fn ended(&self) -> Result<(), RecvError> {
        let actor = self.actor();
        let (under_way, closed) = self.queue.under_way();
        if under_way == 0 && closed {
            return Err(RecvError::Closed { actor });
        }
        if self.is_lost() {
            return Err(RecvError::Lost { actor, unanswered: under_way });
        }
        Ok(())
    }

    /// Waits until there are replies, at most until `until`, and takes up to `most`.
    #[inline]
    pub fn receive_until(
        &self,
        most: usize,
        until: Option<Instant>,
        buffer: &mut [u32],
        mut take: impl FnMut(&[u32]),
    ) -> Result<usize, RecvError> {
        let mut wait: Option<(Wait, Instant)> = None;
        loop {
            let taken = self.receive(most, buffer, &mut take)?;
            if taken > 0 || most == 0 {
                return Ok(taken);
            }
            let (wait, begun) =
                wait.get_or_insert_with(|| (Wait::new(self.manner.wait, until), Instant::now()));
            // Some looks at the next answer alone: of what else may come, nothing is urgent.
            for _ in 0..LOOKS {
                if !P::step(wait) {
                    return Err(RecvError::TimedOut { actor: self.actor(), waited: begun.elapsed() });
                }
                if self.queue.has_next() || !wait.is_spinning() {
                    break;
                }
            }
        }
    }

    /// Takes the answer to a request, if it is there: `true` and the reply's words, or `false` if it was handled without a reply.
    pub fn poll_request(&self, position: u64, reply: &mut [u32]) -> Option<Result<bool, AskError>> {
        // Read first: an answer that came before the loss is found.
        let lost = self.is_lost();
        let actor = self.actor();
        let answer = self.queue.take_asked(position, |answer| match answer.kind {
            Kind::Reply => {
                answer.read(reply);
                Ok(true)
            }
            _ => {
                self.unhandled(answer).map_or(Ok(false), |reason| Err(AskError::Unhandled { actor, reason }))
            }
        });
        if answer.is_some() {
            if self.queue.head() == position {
                self.tidy();
            }
            return answer;
        }
        lost.then(|| {
            self.queue.give_up(position);
            Err(AskError::Lost { actor })
        })
    }

    /// Counts a request that was not handled, and gives why; `None` if it was.
    fn unhandled(&self, answer: &Answer<'_, P>) -> Option<Reason> {
        let (counter, reason) = self.counter_of(answer)?;
        counter.add_one();
        self.noted.note(answer);
        Some(reason)
    }

    /// Waits for the answer to a request, at most until `until`.
    pub fn await_request(
        &self,
        position: u64,
        until: Option<Instant>,
        reply: &mut [u32],
    ) -> Result<bool, AskError> {
        let mut wait: Option<(Wait, Instant)> = None;
        loop {
            if let Some(answer) = self.poll_request(position, reply) {
                return answer;
            }
            if self.manner.device.pump() && self.queue.answered(position).is_some() {
                continue;
            }
            let (wait, begun) =
                wait.get_or_insert_with(|| (Wait::new(self.manner.wait, until), Instant::now()));
            if !P::step(wait) {
                self.queue.give_up(position);
                return Err(AskError::TimedOut { actor: self.actor(), waited: begun.elapsed() });
            }
        }
    }

    // ---- those who wait without a thread

    /// Wakes those whose wait is over.
    #[inline]
    fn wake_ready(&self) {
        if !self.wakers.is_empty() {
            self.wakers.wake(|awaited| self.is_ready(awaited));
        }
    }

    /// Whether what is awaited is there, or will never be.
    pub fn is_ready(&self, awaited: Awaited) -> bool {
        if self.is_lost() {
            return true;
        }
        let head = self.queue.head();
        let (under_way, closed) = self.queue.under_way();
        match awaited {
            Awaited::Room => closed || under_way < self.queue.form().capacity as u64,
            Awaited::Reply => self.queue.is_receivable(head) || (under_way == 0 && closed),
            Awaited::Answer(position) => position < head || self.queue.answered(position).is_some(),
        }
    }

    /// Lets the device's side go on where it does not run by itself, takes answers that nobody receives, and wakes those whose wait is over; whether
    /// there were any.
    pub fn attend(&self) -> bool {
        self.manner.device.pump();
        self.tidy();
        self.wakers.wake(|awaited| self.is_ready(awaited))
    }
}

/// Why a message was not handled; `None` if it was.
pub fn reason_of<P: Platform>(answer: &Answer<'_, P>) -> Option<Reason> {
    match answer.kind {
        Kind::Request | Kind::Reply | Kind::None => None,
        Kind::Expired => Some(Reason::Expired),
        Kind::Dropped => Some(Reason::Dropped),
        Kind::Undeliverable => Some(Reason::Undeliverable),
        Kind::Failed => {
            let [cause, number, _] = answer.first();
            Some(Reason::Failed { cause, number })
        }
    }
}
