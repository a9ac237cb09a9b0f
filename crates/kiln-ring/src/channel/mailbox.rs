//! The queues of an actor with their policies: what happens when it is full, how to wait, where
//! dead letters go. In words; [`Channel`](super::Channel) adds the types.

use super::device_side::DeviceSide;
use super::overflow::{Counters, Counts, Overflow, Replies};
use super::platform::Platform;
use super::priority_ring::PriorityRing;
use super::queue::{Form, Next, Queue, Refused};
use super::wait::{Deadline, Wait, WaitPolicy};
use super::wakers::{Awaited, Wakers};
use crate::dead_letter::DeadLetters;
use crate::error::{AskError, SendError};
use crate::lifecycle::Lifecycle;
use crate::reason::Reason;
use crate::standing::Standing;
use crate::wire::slot::{PAYLOAD, count_of, priority_of};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};

/// What became of a send that did not fail.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Overflow, RingConfig, RingCtx, RingRuntime, Sent, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let config = RingConfig::default().capacity(1).overflow(Overflow::DropNewest);
/// let actor = runtime.launch(double, config)?;
/// assert_eq!(actor.send(1)?, Sent::Queued(0));
/// assert_eq!(actor.send(2)?, Sent::Dropped);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The message is in the queue, in this position. In a priority above the lowest, the uppermost
    /// byte is the number of the priority.
    Queued(u64),
    /// The queue is full and drops the newest: the message was not sent.
    Dropped,
}

/// What a mailbox is called, and how it behaves.
pub struct ChannelPolicy {
    /// The actor's number.
    pub actor: u32,
    /// What a full queue does.
    pub overflow: Overflow,
    /// How threads wait.
    pub wait: WaitPolicy,
    /// What happens to replies that no caller asked for.
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

/// A send that waits longer than this checks whether it waits for replies that no thread receives.
const UNREAD: Duration = Duration::from_secs(1);

/// The queues of an actor, one for each priority, with their policies.
pub struct Mailbox<P: Platform> {
    /// The lowest priority. Most actors have no other.
    pub(super) lowest: PriorityRing<P>,
    /// Those above, from the lowest.
    pub(super) higher: Box<[PriorityRing<P>]>,
    pub(super) policy: ChannelPolicy,
    pub(super) counters: Counters,
    pub(crate) wakers: Wakers,
    parked: AtomicBool,
    lost: AtomicBool,
}

impl<P: Platform> fmt::Debug for Mailbox<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("actor", &self.actor()).finish_non_exhaustive()
    }
}

impl<P: Platform> Mailbox<P> {
    /// A mailbox of one priority.
    #[cfg(test)]
    pub fn new(queue: Queue<P>, policy: ChannelPolicy) -> Mailbox<P> {
        Mailbox::with_priorities(queue, Vec::new(), policy)
    }

    /// A mailbox of several priorities: the lowest, and those above, from the lowest. They share
    /// credits.
    pub fn with_priorities(lowest: Queue<P>, higher: Vec<Queue<P>>, policy: ChannelPolicy) -> Mailbox<P> {
        Mailbox {
            lowest: PriorityRing::new(lowest),
            higher: higher.into_iter().map(PriorityRing::new).collect(),
            policy,
            counters: Counters::default(),
            wakers: Wakers::default(),
            parked: AtomicBool::new(false),
            lost: AtomicBool::new(false),
        }
    }

    /// The priority that messages without a priority go to.
    #[inline]
    pub fn lowest(&self) -> &PriorityRing<P> {
        &self.lowest
    }

    /// The queues of all priorities, from the lowest.
    #[inline]
    pub fn rings(&self) -> impl DoubleEndedIterator<Item = &PriorityRing<P>> {
        std::iter::once(&self.lowest).chain(&self.higher)
    }

    /// The queue of a priority.
    pub fn ring(&self, priority: u8) -> Result<&PriorityRing<P>, SendError> {
        let priorities = self.higher.len() + 1;
        let ring = match priority {
            0 => Some(&self.lowest),
            above => self.higher.get(usize::from(above) - 1),
        };
        ring.ok_or(SendError::NoPriority { actor: self.actor(), priority, priorities })
    }

    /// The queue that a position is of.
    #[inline]
    pub(super) fn of(&self, position: u64) -> &PriorityRing<P> {
        match priority_of(position) {
            0 => &self.lowest,
            above => self.higher.get(above - 1).unwrap_or(&self.lowest),
        }
    }

    pub(super) fn device(&self) -> &dyn DeviceSide {
        &*self.policy.device
    }

    /// What all priorities have in common.
    #[inline]
    pub fn form(&self) -> &Form {
        self.lowest.queue.form()
    }

    /// How many messages the device has not answered yet.
    pub fn unanswered(&self) -> u64 {
        self.rings().map(|ring| ring.queue.unanswered()).sum()
    }

    /// How many messages are under way, and whether senders are refused.
    pub(super) fn under_way(&self) -> (u64, bool) {
        self.rings().fold((0, true), |(under_way, closed), ring| {
            let (more, this) = ring.queue.under_way();
            (under_way + more, closed && this)
        })
    }

    /// Whether senders are refused.
    pub fn is_closed(&self) -> bool {
        self.under_way().1
    }

    /// How many messages were sent, and how many of them the device has answered: since the actor's
    /// beginning.
    pub fn progress(&self) -> (u64, u64) {
        self.rings().fold((0, 0), |(sent, answered), ring| {
            // What was answered first: of a later moment, no less was sent.
            let first = count_of(ring.queue.first_unanswered());
            (sent + count_of(ring.queue.tail()), answered + first)
        })
    }

    pub fn actor(&self) -> u32 {
        self.policy.actor
    }

    pub fn letters(&self) -> &Arc<DeadLetters> {
        &self.policy.letters
    }

    /// Whether a full queue is an error, and no reason to wait.
    pub fn rejects(&self) -> bool {
        self.policy.overflow == Overflow::Reject
    }

    pub fn counts(&self) -> Counts {
        let c = &self.counters;
        let answered = self.rings().map(|ring| count_of(ring.queue.head())).sum();
        Counts {
            // Read second: never less than what was answered.
            sent: self.rings().map(|ring| count_of(ring.queue.tail())).sum(),
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

    /// Sets whether the request ring is unpolled, so that senders call [`DeviceSide::wake`].
    ///
    /// To park the device's side, set this first and then check whether the queue's tail has moved:
    /// either this check finds the message, or the sender finds that it must wake the device.
    pub fn set_parked(&self, parked: bool) {
        self.parked.store(parked, SeqCst);
        std::sync::atomic::fence(SeqCst);
    }

    /// Refuses senders from now on. Messages under way are still answered.
    pub fn close(&self) {
        for ring in self.rings() {
            ring.queue.close();
        }
        self.wake_ready();
    }

    /// Accepts senders again.
    pub fn reopen(&self) {
        self.rings().for_each(|ring| ring.queue.reopen());
    }

    /// Refuses senders, and ends the waits of those who wait for answers that are not there: none
    /// will come.
    pub fn abandon(&self) {
        for ring in self.rings() {
            ring.queue.close();
        }
        self.lost.store(true, SeqCst);
        self.wake_ready();
    }

    /// Lets a device that does not run by itself go on for a while; whether it is one.
    pub fn pump(&self) -> bool {
        self.policy.device.pump()
    }

    pub fn is_lost(&self) -> bool {
        self.lost.load(Acquire)
    }

    /// The header of a message without a deadline, where slots have one: the last moment there is.
    #[inline]
    pub fn header(&self) -> Option<[u32; PAYLOAD]> {
        self.form().requests.slot().has_header().then_some([u32::MAX, u32::MAX, 0])
    }

    // ---- sending

    /// Sends a message of some priority, given as what its slot holds (see [`Queue::write`]); where
    /// the actor is full, does as its policy says, and waits at most until `until`.
    #[inline]
    pub fn send(
        &self,
        to: &PriorityRing<P>,
        words: &[u32],
        until: Option<Deadline>,
    ) -> Result<Sent, SendError> {
        let Some(position) = self.reserve(to, until)? else { return Ok(Sent::Dropped) };
        to.queue.write(position, words);
        self.sent(to);
        Ok(Sent::Queued(position))
    }

    /// As [`send`](Self::send), without waiting: a queue that would have to is an error.
    #[inline]
    pub fn try_send(&self, to: &PriorityRing<P>, words: &[u32]) -> Result<Sent, SendError> {
        let Some(position) = self.try_reserve(to)? else { return Ok(Sent::Dropped) };
        to.queue.write(position, words);
        self.sent(to);
        Ok(Sent::Queued(position))
    }

    /// Sends a request whose answer the caller polls for; returns its position.
    pub fn request(
        &self,
        to: &PriorityRing<P>,
        words: &[u32],
        until: Option<Deadline>,
    ) -> Result<u64, AskError> {
        let position = self.reserve(to, until)?.ok_or(AskError::DroppedNewest { actor: self.actor() })?;
        self.write_request(to, position, words);
        Ok(position)
    }

    /// As [`request`](Self::request), without waiting.
    pub fn try_request(&self, to: &PriorityRing<P>, words: &[u32]) -> Result<u64, AskError> {
        let position = self.try_reserve(to)?.ok_or(AskError::DroppedNewest { actor: self.actor() })?;
        self.write_request(to, position, words);
        Ok(position)
    }

    fn write_request(&self, to: &PriorityRing<P>, position: u64, words: &[u32]) {
        to.queue.mark_asked(position);
        to.queue.write(position, words);
        self.sent(to);
    }

    /// After slots were written.
    #[inline]
    pub(super) fn sent(&self, to: &PriorityRing<P>) {
        to.queue.publish();
        if self.parked.load(SeqCst) {
            self.policy.device.wake();
        }
    }

    #[inline]
    fn reserve(&self, to: &PriorityRing<P>, until: Option<Deadline>) -> Result<Option<u64>, SendError> {
        match to.queue.reserve(1) {
            Ok(positions) => Ok(Some(positions.start)),
            Err(refused) => self.overflow(to, refused, Some(until)),
        }
    }

    #[inline]
    fn try_reserve(&self, to: &PriorityRing<P>) -> Result<Option<u64>, SendError> {
        match to.queue.reserve(1) {
            Ok(positions) => Ok(Some(positions.start)),
            Err(refused) => self.overflow(to, refused, None),
        }
    }

    /// A position in a queue that was full, as its policy says. `until` is `None` for those who do
    /// not wait.
    #[cold]
    pub(super) fn overflow(
        &self,
        to: &PriorityRing<P>,
        refused: Refused,
        until: Option<Option<Deadline>>,
    ) -> Result<Option<u64>, SendError> {
        let actor = self.actor();
        let begun = Instant::now();
        let mut wait = Wait::new(self.policy.wait, until.flatten().map(Deadline::end));
        let (mut refused, mut warned) = (refused, false);
        let full = || SendError::Full { actor, capacity: self.form().capacity };
        loop {
            if refused == Refused::Closed {
                return Err(SendError::Closed { actor });
            }
            // Answers that no thread receives make room.
            self.tidy();
            match to.queue.reserve(1) {
                Ok(positions) => return Ok(Some(positions.start)),
                Err(now) => refused = now,
            }
            if refused == Refused::Closed {
                continue;
            }
            match self.policy.overflow {
                Overflow::Reject => {
                    self.counters.rejected.add_one();
                    return Err(full());
                }
                Overflow::DropNewest | Overflow::DropOldest => match self.gives_way(to) {
                    Some(ring) => self.drop_oldest(ring),
                    // Whatever was in the way has gone meanwhile.
                    None if self.under_way().0 < self.form().capacity as u64 => {}
                    None => {
                        self.counters.dropped_newest.add_one();
                        return Ok(None);
                    }
                },
                Overflow::Block => {
                    if matches!(until, Some(None))
                        && let Some(error) = self.no_room_comes()
                    {
                        return Err(error);
                    }
                }
            }
            if until.is_none() {
                return to.queue.reserve(1).map(|p| Some(p.start)).map_err(|_| full());
            }
            let over = if self.policy.device.pump() { wait.is_over() } else { !P::step(&mut wait) };
            if over {
                return Err(SendError::TimedOut { actor, waited: Deadline::waited(until.flatten()) });
            }
            if !warned && begun.elapsed() > UNREAD {
                warned = true;
                self.warn_of_replies();
            }
        }
    }

    /// The error of a sender that would wait for ever: the queue is full, and no message is handled
    /// until the actor is activated or restarted. While there are replies, receivers may make room.
    pub(super) fn no_room_comes(&self) -> Option<SendError> {
        let is = match self.policy.device.standing() {
            Standing::Answers => return None,
            Standing::Holds(is) => is,
            Standing::Failed(_) => Lifecycle::Failed,
        };
        let replies = self.rings().any(|ring| ring.queue.has_next());
        let (actor, capacity) = (self.actor(), self.form().capacity);
        (!replies).then_some(SendError::NotActive { actor, capacity, is })
    }

    /// Whether a full queue waits for the device to make room.
    pub(super) fn blocks(&self) -> bool {
        self.policy.overflow == Overflow::Block
    }

    /// How threads wait.
    pub fn wait_policy(&self) -> WaitPolicy {
        self.policy.wait
    }

    /// The priority whose oldest message makes room for one of the priority `to`, by the policy:
    /// the lowest that holds any, as long as it is not above `to`. Where the newest is dropped,
    /// that is the message to be sent, unless one of a lower priority is there.
    fn gives_way(&self, to: &PriorityRing<P>) -> Option<&PriorityRing<P>> {
        let own = priority_of(to.queue.head());
        let may = own + usize::from(self.policy.overflow == Overflow::DropOldest);
        self.rings().take(may).find(|ring| ring.queue.under_way().0 > 0)
    }

    /// Says in the log if the queue is full of replies.
    fn warn_of_replies(&self) {
        if self.rings().any(|ring| ring.queue.is_receivable(ring.queue.head())) {
            let actor = self.actor();
            tracing::warn!(
                target: "kiln_ring",
                actor,
                "a send to actor {actor} waits for replies that no thread receives: receive them, or launch the actor with `replies(Replies::Discard)`"
            );
        }
    }

    /// Makes the oldest message or reply of a priority go.
    fn drop_oldest(&self, ring: &PriorityRing<P>) {
        let oldest = ring.queue.head();
        let mut dropped = false;
        if let Some(mut sweep) = ring.queue.sweep() {
            while let Next::Answer(answer) = sweep.next() {
                if !answer.is_reply() {
                    self.settle(&answer);
                } else if !dropped && answer.position == oldest {
                    // The oldest is a reply that no thread has received.
                    dropped = true;
                    self.letter(Reason::Dropped, &answer, self.policy.reply_layout);
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
        if !dropped && ring.queue.head() == oldest {
            self.policy.device.skip(oldest + 1);
        }
    }

    // ---- those who wait without a thread

    /// Wakes those whose wait is over.
    #[inline]
    pub(super) fn wake_ready(&self) {
        if !self.wakers.is_empty() {
            self.wakers.wake(|awaited| self.is_ready(awaited));
        }
    }

    /// Whether what is awaited is there, or will never be.
    pub fn is_ready(&self, awaited: Awaited) -> bool {
        if self.is_lost() {
            return true;
        }
        let receivable = || self.rings().any(|ring| ring.queue.is_receivable(ring.queue.head()));
        match awaited {
            Awaited::Room => {
                let (under_way, closed) = self.under_way();
                closed
                    || under_way < self.form().capacity as u64
                    || (self.blocks() && self.no_room_comes().is_some())
            }
            Awaited::Reply { sent_later } => receivable() || self.none_to_come(!sent_later).is_some(),
            Awaited::Answer(position) => {
                let queue = &self.of(position).queue;
                position < queue.head()
                    || queue.answered(position).is_some()
                    || self.policy.device.standing() != Standing::Answers
            }
        }
    }

    /// Runs the device's side where it does not run by itself, takes answers that no thread
    /// receives, and wakes the tasks whose wait is over. Returns whether there were any.
    pub fn attend(&self) -> bool {
        self.policy.device.pump();
        self.tidy();
        self.wakers.wake(|awaited| self.is_ready(awaited))
    }
}
