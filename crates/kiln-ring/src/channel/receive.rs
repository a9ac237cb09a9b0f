//! Taking answers: replies for receivers and askers, letters for what was not handled.

use super::mailbox::Mailbox;
use super::overflow::{Counter, Replies};
use super::platform::Platform;
use super::priority_ring::PriorityRing;
use super::queue::{Answer, Next};
use super::wait::{Deadline, LOOKS_PER_CLOCK, Wait};
use crate::dead_letter::Letter;
use crate::error::{AskError, RecvError};
use crate::reason::Reason;
use crate::standing::Standing;
use crate::wire::slot::{Kind, priority_of};
use std::sync::Arc;

/// How often a receiver that spins polls the next answer before it checks whether the channel has
/// ended.
const LOOKS: usize = 32;

/// And before the first such check: so few that the time limit is not read meanwhile, and a channel
/// that has ended is said to have.
const FIRST_LOOKS: usize = LOOKS_PER_CLOCK as usize - 1;

/// What a receiver saw of a priority: how many replies it took, whether it dealt with other
/// answers, and whether it came to one that is not there yet.
struct Seen {
    taken: usize,
    settled: bool,
    pending: bool,
}

impl<P: Platform> Mailbox<P> {
    /// Takes answers that no thread receives, as far as they come first.
    pub fn tidy(&self) {
        let mut passed = false;
        // Reads first: while a thread holds the flag, receivers and senders cannot find what is
        // there.
        let keep = self.policy.replies == Replies::Keep;
        let tidied = self.rings().filter(|ring| ring.queue.has_untidy(keep));
        for mut sweep in tidied.filter_map(|ring| ring.queue.sweep_soon()) {
            while let Next::Answer(answer) = sweep.next() {
                if answer.is_reply() && self.policy.replies == Replies::Keep {
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
    pub(super) fn settle(&self, answer: &Answer<'_, P>) {
        let unclaimed = (answer.kind == Kind::Reply).then_some((&self.counters.unclaimed, Reason::Unclaimed));
        let Some((counter, reason)) = unclaimed.or_else(|| self.counter_of(answer)) else { return };
        counter.add_one();
        self.of(answer.position).last_failure.record(answer);
        let layout =
            if answer.kind == Kind::Reply { self.policy.reply_layout } else { self.policy.message_layout };
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
        Some((counter, answer.reason()?))
    }

    pub(super) fn letter(&self, reason: Reason, answer: &Answer<'_, P>, layout: u64) {
        let words = if answer.kind == Kind::Failed {
            self.request_at(answer.position).unwrap_or_default()
        } else {
            let mut words = vec![0; answer.words()];
            answer.read(&mut words);
            words
        };
        let why = self.policy.device.explain(reason, answer.position);
        let letter = Letter { reason, actor: self.actor(), position: answer.position, layout, words, why };
        self.policy.letters.push(letter);
    }

    /// The position of a message that the device has not answered and that stands whole in its
    /// ring, of those that come next in the priorities.
    pub fn next_whole_request(&self) -> Option<u64> {
        let next = self.rings().map(|ring| (ring.queue.first_unanswered(), ring.queue.tail()));
        let mut waiting = next.filter(|(next, tail)| next < tail).map(|(next, _)| next);
        waiting.find(|&position| self.request_at(position).is_some())
    }

    /// The message in a position whose answer was not taken: its slot is not used again before
    /// that. `None` where the request ring cannot be read back.
    fn request_at(&self, position: u64) -> Option<Vec<u32>> {
        let (form, ring) = (self.form(), self.form().requests);
        let mut slot = vec![0; ring.slot().stride()];
        let at = priority_of(position) * form.request_words() + ring.at(position);
        if !self.policy.device.read_requests(at, &mut slot) {
            return None;
        }
        let mut words = vec![0; ring.slot().payload_words()];
        ring.slot().decode(ring.lap(position), &slot, &mut words)?;
        Some(words)
    }

    /// Takes up to `most` replies that are there; gives how many. `take` gets the words of each;
    /// the buffer holds those of one at least, and [`SLACK`](super::lines::SLACK) words more.
    ///
    /// `for_ever` says that the caller would wait without a limit: then it is an error, too, if no
    /// reply can come before another send or an activation.
    #[inline]
    pub fn receive(
        &self,
        most: usize,
        for_ever: bool,
        buffer: &mut [u32],
        mut take: impl FnMut(&[u32]),
    ) -> Result<usize, RecvError> {
        let (mut taken, mut pending) = self.receive_once(most, buffer, &mut take);
        if taken == 0 && self.policy.device.pump() {
            (taken, pending) = self.receive_once(most, buffer, &mut take);
        }
        if taken > 0 || most == 0 || !pending {
            return Ok(taken);
        }
        let mut none = self.none_to_come(for_ever);
        if matches!(none, Some(RecvError::NothingSent { .. })) {
            // The last message may be one on which the handler failed.
            self.policy.device.notice();
            none = self.none_to_come(for_ever);
        }
        let Some(error) = none else { return Ok(0) };
        // What arrived before that was read is found now.
        let (taken, pending) = self.receive_once(most, buffer, &mut take);
        if taken == 0 && pending { Err(error) } else { Ok(taken) }
    }

    /// Gives how many were taken, and whether all priorities came to an answer that is not there
    /// yet.
    #[inline]
    fn receive_once(&self, most: usize, buffer: &mut [u32], take: &mut impl FnMut(&[u32])) -> (usize, bool) {
        let Seen { taken, settled, pending } = match self.higher.is_empty() {
            true => self.receive_of(&self.lowest, most, buffer, take),
            false => self.receive_by_priority(most, buffer, take),
        };
        if taken > 0 || settled {
            self.wake_ready();
        }
        (taken, pending)
    }

    /// As [`receive_once`](Self::receive_once), where there are several priorities.
    #[inline(never)]
    fn receive_by_priority(&self, most: usize, buffer: &mut [u32], take: &mut impl FnMut(&[u32])) -> Seen {
        let (mut taken, mut settled, mut pending) = (0, false, true);
        let mut receive = |ring: &PriorityRing<P>| {
            let seen = self.receive_of(ring, most - taken, buffer, take);
            (taken, settled, pending) = (taken + seen.taken, settled | seen.settled, pending & seen.pending);
        };
        // The replies of a higher priority first. Where one of a lower priority is there, those
        // that were given before it are there too, even if they were not when they were looked for.
        for (above, ring) in self.higher.iter().rev().chain([&self.lowest]).enumerate() {
            if above > 0 {
                if ring.queue.answered(ring.queue.head()).is_none() {
                    continue;
                }
                self.higher.iter().rev().take(above).for_each(&mut receive);
            }
            receive(ring);
        }
        Seen { taken, settled, pending }
    }

    /// Takes up to `most` replies of a priority.
    #[inline]
    fn receive_of(
        &self,
        ring: &PriorityRing<P>,
        most: usize,
        buffer: &mut [u32],
        take: &mut impl FnMut(&[u32]),
    ) -> Seen {
        let mut seen = Seen { taken: 0, settled: false, pending: false };
        let Some(mut sweep) = ring.queue.sweep_soon() else { return seen };
        loop {
            seen.taken += sweep.replies(most - seen.taken, buffer, &mut *take);
            if seen.taken == most {
                break;
            }
            match sweep.next() {
                Next::Answer(answer) if answer.is_reply() => {
                    let words = &mut buffer[..self.form().reply_words];
                    answer.read(words);
                    take(words);
                    seen.taken += 1;
                }
                Next::Answer(answer) => {
                    self.settle(&answer);
                    seen.settled = true;
                }
                Next::Asked => break,
                Next::Pending => {
                    seen.pending = true;
                    break;
                }
            }
            sweep.pass();
        }
        seen
    }

    /// Whether the next answer of some priority is there.
    #[inline]
    fn has_next(&self) -> bool {
        self.lowest.queue.has_next() || self.higher.iter().any(|ring| ring.queue.has_next())
    }

    /// Why no reply will come, where none is there. See [`receive`](Self::receive) for `for_ever`.
    pub(super) fn none_to_come(&self, for_ever: bool) -> Option<RecvError> {
        let actor = self.actor();
        let (under_way, closed) = self.under_way();
        if under_way == 0 && closed {
            return Some(RecvError::Closed { actor });
        }
        if self.is_lost() {
            return Some(RecvError::Lost { actor, unanswered: under_way });
        }
        match self.policy.device.standing() {
            Standing::Failed(failed) => Some(RecvError::Failed { actor, failed }),
            Standing::Holds(is) => for_ever.then_some(RecvError::NotActive { actor, is }),
            Standing::Answers => (for_ever && under_way == 0).then_some(RecvError::NothingSent { actor }),
        }
    }

    /// The error of waiting for the answer to a request, where none comes by itself.
    pub fn check_answers(&self) -> Result<(), AskError> {
        let actor = self.actor();
        if self.policy.device.is_held_by_print_sink() {
            return Err(AskError::InsidePrintSink { actor });
        }
        match self.policy.device.standing() {
            Standing::Answers => Ok(()),
            Standing::Holds(is) => Err(AskError::NotActive { actor, is }),
            Standing::Failed(failed) => Err(AskError::Failed { actor, failed }),
        }
    }

    /// Waits until there are replies, at most until `until`, and takes up to `most`.
    #[inline]
    pub fn receive_until(
        &self,
        most: usize,
        until: Option<Deadline>,
        buffer: &mut [u32],
        mut take: impl FnMut(&[u32]),
    ) -> Result<usize, RecvError> {
        let mut wait = Wait::new(self.policy.wait, until.map(Deadline::end));
        // An answer that is on its way is awaited before anything else: why none may come is found
        // out by code that is in no cache after a pause.
        let mut first = wait.is_spinning();
        loop {
            let taken = match first {
                true => self.receive_once(most, buffer, &mut take).0,
                false => self.receive(most, until.is_none(), buffer, &mut take)?,
            };
            if taken > 0 || most == 0 {
                return Ok(taken);
            }
            // Polls the next answer alone: of what else may arrive, nothing is urgent.
            for _ in 0..if first { FIRST_LOOKS } else { LOOKS } {
                if !P::step(&mut wait) {
                    return Err(RecvError::TimedOut { actor: self.actor(), waited: Deadline::waited(until) });
                }
                if self.has_next() || !wait.is_spinning() {
                    break;
                }
            }
            first = false;
        }
    }

    /// Takes the answer to a request, if it is there: `true` and the reply's words, or `false` if
    /// it was handled without a reply.
    pub fn poll_request(&self, position: u64, reply: &mut [u32]) -> Option<Result<bool, AskError>> {
        // Read first: an answer that came before the loss is found.
        let lost = self.is_lost();
        let answer = self.take_answer(position, reply);
        if answer.is_some() {
            return answer;
        }
        let none = if lost { Err(AskError::Lost { actor: self.actor() }) } else { self.check_answers() };
        let Err(error) = none else { return None };
        // What arrived before that was read is found now.
        let answer = self.take_answer(position, reply);
        if answer.is_none() {
            self.of(position).queue.give_up(position);
            return Some(Err(error));
        }
        answer
    }

    fn take_answer(&self, position: u64, reply: &mut [u32]) -> Option<Result<bool, AskError>> {
        let actor = self.actor();
        let queue = &self.of(position).queue;
        let answer = queue.take_asked(position, |answer| match answer.kind {
            Kind::Reply => {
                answer.read(reply);
                Ok(true)
            }
            _ => self.unhandled(answer).map_or(Ok(false), |reason| {
                let why: Arc<str> = self.policy.device.explain(reason, position).into();
                Err(AskError::Unhandled { actor, reason, why })
            }),
        });
        if answer.is_some() && queue.head() == position {
            self.tidy();
        }
        answer
    }

    /// Counts a request that was not handled, and gives why; `None` if it was.
    fn unhandled(&self, answer: &Answer<'_, P>) -> Option<Reason> {
        let (counter, reason) = self.counter_of(answer)?;
        counter.add_one();
        self.of(answer.position).last_failure.record(answer);
        Some(reason)
    }

    /// Waits for the answer to a request, at most until `until`.
    pub fn await_request(
        &self,
        position: u64,
        until: Option<Deadline>,
        reply: &mut [u32],
    ) -> Result<bool, AskError> {
        let mut wait = Wait::new(self.policy.wait, until.map(Deadline::end));
        // As in `receive_until`.
        for _ in 0..FIRST_LOOKS {
            if !wait.is_spinning() || self.of(position).queue.answered(position).is_some() {
                break;
            }
            P::step(&mut wait);
        }
        loop {
            if let Some(answer) = self.poll_request(position, reply) {
                return answer;
            }
            if self.policy.device.pump() && self.of(position).queue.answered(position).is_some() {
                continue;
            }
            if !P::step(&mut wait) {
                self.of(position).queue.give_up(position);
                return Err(AskError::TimedOut { actor: self.actor(), waited: Deadline::waited(until) });
            }
        }
    }
}
