//! The queue itself: tickets, slots, answers. Lock-free for senders; one receiver at a time.
//!
//! ```text
//!            head                     tail            head + capacity
//!    taken    │ answered   unanswered  │    free        │
//! ────────────┼────────────────────────┼────────────────┼──────────────▶ positions
//! ```
//!
//! - A sender takes the position `tail` by compare-and-swap, if it is less than `capacity` above
//!   `head`, and then writes its slot. The device handles positions in order, and waits at one that
//!   is not complete, so that a sender which stops half-way delays the others but its message is
//!   never seen in part.
//! - The device answers position *i* in slot *i* of the answer ring. So correlation is the
//!   position, and the device never waits for room.
//! - A slot is free again when its answer has been taken: the thread that holds the *receiving*
//!   flag moves `head` over answers in order.
//! - An actor with several priorities has a queue for each, and one limit for all: see
//!   `priority_ring.rs`.
//! - A position of an *ask* is marked. Its answer belongs to the asker, which finds it in its slot
//!   without the receiving flag. The flag's holder moves `head` over it when the mark says that it
//!   was taken or given up.
//!
//! Whatever happens before a send happens before the handling of the message, and so before
//! whatever the host does after it took the answer: the stores that a mark or ticket consists of
//! precede those of the slot, and the answer's loads precede the mark's.

use super::credits::Credits;
use super::lines::{SLACK, Slots};
use super::platform::{Atomic, Platform, QueueMemory};
use crate::reason::Reason;
use crate::wire::slot::{self, Kind, PAYLOAD, QUAD, RingLayout};
use crossbeam_utils::CachePadded;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// How a reader detects that a slot is complete.
///
/// ```
/// use kiln_ring::{ChannelConfig, ConfigError, Protocol};
/// let forms = [Protocol::Stamped, Protocol::Ordered].map(|of| ChannelConfig::default().form::<u32, u32>(of));
/// let [stamped, ordered] = forms;
/// // They differ in the order of stores and loads, not in memory.
/// assert_eq!(stamped?.request_words(), ordered?.request_words());
/// # Ok::<(), ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Every quad of 16 bytes arrives whole and bears a stamp: complete when all match.
    Stamped,
    /// The stamp of the first quad is stored last, with release, and loaded first, with acquire.
    Ordered,
}

/// The form of a queue: what host and device must agree on.
///
/// ```
/// use kiln_ring::{ChannelConfig, ConfigError, Form, Protocol};
/// let form: Form = ChannelConfig::default().capacity(4).form::<u32, u32>(Protocol::Ordered)?;
/// // 4 slots of a quad are 16 words, for requests and for answers.
/// assert_eq!((form.request_words(), form.answer_words()), (16, 16));
/// # Ok::<(), ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// How a reader detects that a slot is complete.
    pub protocol: Protocol,
    /// The most messages that are under way in all priorities: sent and their answer not taken.
    pub capacity: usize,
    /// How many priorities there are.
    pub priorities: usize,
    /// The ring of requests of each priority.
    pub requests: RingLayout,
    /// The ring of answers of each priority, with as many slots.
    pub answers: RingLayout,
    /// Words in a reply.
    pub reply_words: usize,
}

impl Form {
    /// Words of memory from the ring of requests of one priority to that of the next.
    pub fn request_words(&self) -> usize {
        self.requests.words().next_multiple_of(slot::LINE)
    }

    /// Words of memory from the ring of answers of one priority to that of the next.
    pub fn answer_words(&self) -> usize {
        self.answers.words().next_multiple_of(slot::LINE)
    }
}

/// The bit of `tail` that closes the queue to senders.
const CLOSED: u64 = 1 << 63;

/// What a slot's mark says.
mod mark {
    /// The answer is for any receiver.
    pub const PLAIN: u8 = 0;
    /// An asker waits, and has not taken the answer.
    pub const ASKED: u8 = 1;
    /// The asker has taken the answer.
    pub const TAKEN: u8 = 2;
    /// The asker has given up.
    pub const GIVEN_UP: u8 = 3;
}

/// Why there is no position for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// As many messages are under way as may be.
    Full,
    /// The queue is closed.
    Closed,
}

/// An answer that is complete.
pub struct Answer<'a, P: Platform> {
    queue: &'a Queue<P>,
    /// The position of the request.
    pub position: u64,
    /// What became of it.
    pub kind: Kind,
    /// Whether it was asked for, and the asker then gave up.
    pub given_up: bool,
}

impl<P: Platform> Answer<'_, P> {
    /// The first words of its payload.
    #[inline]
    pub fn read(&self, payload: &mut [u32]) {
        let (answers, at) = (&self.queue.answers, self.queue.form.answers.at(self.position));
        for (q, words) in payload.chunks_mut(PAYLOAD).enumerate() {
            let quad = answers.load_quad(at + q * QUAD);
            words.copy_from_slice(&quad[..words.len()]);
        }
    }

    /// The words of its first quad.
    pub fn first(&self) -> [u32; PAYLOAD] {
        let mut words = [0; PAYLOAD];
        self.read(&mut words);
        words
    }

    /// Why the message was not handled; `None` if it was.
    pub fn reason(&self) -> Option<Reason> {
        match self.kind {
            Kind::Request | Kind::Reply | Kind::None => None,
            Kind::Expired => Some(Reason::Expired),
            Kind::Dropped => Some(Reason::Dropped),
            Kind::Undeliverable => Some(Reason::Undeliverable),
            Kind::Failed => {
                let [cause, number, _] = self.first();
                Some(Reason::Failed { cause, number })
            }
        }
    }

    /// Whether it is a reply that any receiver may take.
    #[inline]
    pub fn is_reply(&self) -> bool {
        self.kind == Kind::Reply && !self.given_up
    }

    /// How many words of payload it has.
    pub fn words(&self) -> usize {
        self.queue.words_of(self.kind)
    }
}

/// What stands at the head of the answers.
pub enum Next<'a, P: Platform> {
    /// An answer to be taken.
    Answer(Answer<'a, P>),
    /// An answer that its asker has not taken yet.
    Asked,
    /// No answer yet.
    Pending,
}

/// A queue of requests with their answers.
pub struct Queue<P: Platform> {
    form: Form,
    requests: P::Memory,
    answers: P::Memory,
    /// The next position to be sent, and [`CLOSED`].
    tail: CachePadded<P::U64>,
    /// The next position whose answer is to be taken.
    head: CachePadded<P::U64>,
    /// 1 while a thread moves `head`.
    receiving: CachePadded<P::U8>,
    marks: Box<[P::U8]>,
    /// What all priorities of the actor share, where it has several.
    credits: Option<Arc<Credits<P>>>,
}

impl<P: Platform> Queue<P> {
    /// A queue over zeroed memory, which is as large as the form says, whose first message gets the
    /// position `first`.
    pub fn new(form: Form, requests: P::Memory, answers: P::Memory, first: u64) -> Queue<P> {
        Queue {
            requests,
            answers,
            tail: CachePadded::new(P::U64::new(first)),
            head: CachePadded::new(P::U64::new(first)),
            receiving: CachePadded::new(P::U8::new(0)),
            marks: (0..form.requests.slots()).map(|_| P::U8::new(mark::PLAIN)).collect(),
            credits: None,
            form,
        }
    }

    /// The queue of one priority of several, which share the credits.
    pub fn of_priority(self, credits: &Arc<Credits<P>>) -> Queue<P> {
        Queue { credits: Some(Arc::clone(credits)), ..self }
    }

    /// The form.
    #[inline]
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// The next position to be sent.
    pub fn tail(&self) -> u64 {
        self.tail.load(SeqCst) & !CLOSED
    }

    /// The next position whose answer is to be taken.
    pub fn head(&self) -> u64 {
        self.head.load(Acquire)
    }

    /// How many messages are under way, and whether senders are refused, at one moment.
    pub fn under_way(&self) -> (u64, bool) {
        // The head first: the tail of a later moment is not below it. And the tail once: between
        // two reads another thread could send and close.
        let head = self.head.load(Acquire);
        let tail = self.tail.load(SeqCst);
        ((tail & !CLOSED).saturating_sub(head), tail & CLOSED != 0)
    }

    /// Refuses senders from now on; whether they were not refused before.
    pub fn close(&self) -> bool {
        self.change_tail(|tail| tail | CLOSED) & CLOSED == 0
    }

    /// Accepts senders again.
    pub fn reopen(&self) {
        self.change_tail(|tail| tail & !CLOSED);
    }

    fn change_tail(&self, change: impl Fn(u64) -> u64) -> u64 {
        let mut tail = self.tail.load(Relaxed);
        loop {
            match self.tail.compare_exchange_weak(tail, change(tail), AcqRel, Relaxed) {
                Ok(before) => return before,
                Err(now) => tail = now,
            }
        }
    }

    // ---- sending

    /// Takes positions for up to `count` messages, at least one. They must all be written.
    #[inline]
    pub fn reserve(&self, count: u64) -> Result<Range<u64>, Refused> {
        match &self.credits {
            None => self.take_positions(count),
            Some(credits) => self.take_with_credits(credits, count),
        }
    }

    fn take_with_credits(&self, credits: &Credits<P>, count: u64) -> Result<Range<u64>, Refused> {
        let granted = credits.take(count);
        if granted == 0 {
            let closed = self.tail.load(Relaxed) & CLOSED != 0;
            return Err(if closed { Refused::Closed } else { Refused::Full });
        }
        let positions = self.take_positions(granted);
        let taken = positions.as_ref().map_or(0, |positions| positions.end - positions.start);
        if taken < granted {
            credits.give(granted - taken);
        }
        positions
    }

    #[inline]
    fn take_positions(&self, count: u64) -> Result<Range<u64>, Refused> {
        let mut tail = self.tail.load(Relaxed);
        loop {
            if tail & CLOSED != 0 {
                return Err(Refused::Closed);
            }
            // Acquire: what the receiver, and the device before it, did with the slots that are
            // free now is over. A tail that is out of date makes too much room, and then the
            // exchange fails.
            let head = self.head.load(Acquire);
            let room = (head + self.form.capacity as u64).saturating_sub(tail);
            let count = count.min(room);
            if count == 0 {
                return Err(Refused::Full);
            }
            match self.tail.compare_exchange_weak(tail, tail + count, SeqCst, Relaxed) {
                Ok(_) => return Ok(tail..tail + count),
                Err(now) => tail = now,
            }
        }
    }

    /// Marks a reserved position, before it is written, as one of an ask.
    pub fn mark_asked(&self, position: u64) {
        // A read-modify-write: on x86 it is visible before any later store, streaming ones
        // included.
        self.mark(position).swap(mark::ASKED, SeqCst);
    }

    #[inline]
    fn mark(&self, position: u64) -> &P::U8 {
        &self.marks[self.form.requests.index(position)]
    }

    /// Writes reserved slots, as many as there are: a header where slots have one, the payload, and
    /// zeros up to the slot's end, stamps left out.
    #[inline]
    pub fn write(&self, first: u64, words: &[u32]) {
        match self.form.protocol {
            Protocol::Stamped => self.write_stamped(first, words),
            Protocol::Ordered => self.write_ordered(first, words),
        }
    }

    #[inline]
    fn write_stamped(&self, first: u64, words: &[u32]) {
        let ring = &self.form.requests;
        let pitch = ring.slot().pitch();
        let (mut position, mut words) = (first, words);
        P::fence(Release);
        while !words.is_empty() {
            // Up to the end of the ring, where a new lap begins.
            let (now, later) =
                words.split_at(((ring.slots() - ring.index(position)) * pitch).min(words.len()));
            let stamp = slot::stamp(ring.lap(position), Kind::Request);
            self.requests.store_quads(ring.at(position), now, stamp);
            position += (ring.slots() - ring.index(position)) as u64;
            words = later;
        }
    }

    fn write_ordered(&self, first: u64, words: &[u32]) {
        let ring = &self.form.requests;
        for (position, words) in (first..).zip(words.chunks_exact(ring.slot().pitch())) {
            let (at, stamp) = (ring.at(position), slot::stamp(ring.lap(position), Kind::Request));
            let (quad, others) = words.split_at(PAYLOAD);
            self.requests.store_each(at + QUAD, others, stamp);
            self.requests.store_quad_release(at, [quad[0], quad[1], quad[2], stamp]);
        }
    }

    /// Sends what was written on its way.
    #[inline]
    pub fn publish(&self) {
        self.requests.flush();
    }

    // ---- answers

    #[inline]
    fn words_of(&self, kind: Kind) -> usize {
        match kind {
            Kind::Reply => self.form.reply_words,
            Kind::None | Kind::Request => 0,
            Kind::Failed => 2,
            Kind::Expired | Kind::Dropped | Kind::Undeliverable => self.form.requests.slot().payload_words(),
        }
    }

    /// The kind of a position's answer, once it is complete.
    #[inline]
    pub fn answered(&self, position: u64) -> Option<Kind> {
        let ring = &self.form.answers;
        let (at, lap) = (ring.at(position), ring.lap(position));
        if self.form.protocol == Protocol::Ordered {
            let stamp = self.answers.load_acquire(at + PAYLOAD);
            return Kind::of_stamp(stamp).filter(|_| slot::is_of_lap(stamp, lap));
        }
        let stamp = self.answers.load_quad(at)[PAYLOAD];
        let kind = Kind::of_stamp(stamp).filter(|_| slot::is_of_lap(stamp, lap))?;
        let quads = slot::quads_for(self.words_of(kind));
        let complete = (1..quads).all(|q| self.answers.load_quad(at + q * QUAD)[PAYLOAD] == stamp);
        // Acquire: what the device had read when it answered, and the mark was there before that.
        complete.then(|| P::fence(Acquire)).map(|()| kind)
    }

    /// Whether the next answer to be taken is there. Reads only.
    #[inline]
    pub fn has_next(&self) -> bool {
        self.answered(self.head.load(Relaxed)).is_some()
    }

    /// Whether a sweep would find an answer in this position that belongs to no asker.
    pub fn is_receivable(&self, position: u64) -> bool {
        self.answered(position).is_some() && self.mark(position).load(Acquire) != mark::ASKED
    }

    /// Whether the next answer has no receiver, so that it can be dropped. `keep` says that replies
    /// are kept for receivers. Reads only.
    pub fn has_untidy(&self, keep: bool) -> bool {
        let head = self.head.load(Acquire);
        self.answered(head).is_some_and(|kind| match self.mark(head).load(Acquire) {
            mark::ASKED => false,
            mark::PLAIN => !(keep && kind == Kind::Reply),
            _ => true,
        })
    }

    /// How many messages the device has not answered yet.
    pub fn unanswered(&self) -> u64 {
        let first = self.first_unanswered();
        self.tail() - first
    }

    /// The first position that the device has not answered yet. It answers in order.
    pub fn first_unanswered(&self) -> u64 {
        // The head first: the tail of a later moment is not below it.
        let mut answered = self.head();
        let mut unanswered = self.tail();
        while answered < unanswered {
            let middle = answered + (unanswered - answered) / 2;
            if self.answered(middle).is_some() { answered = middle + 1 } else { unanswered = middle }
        }
        answered
    }

    /// Begins to take answers, which one thread can do at a time; `None` while another one is at
    /// it.
    #[inline]
    pub fn sweep(&self) -> Option<Sweep<'_, P>> {
        // Reads first: a failed exchange would take the cache line from the thread that holds the
        // flag.
        if self.receiving.load(Relaxed) != 0 {
            return None;
        }
        // Acquire: what the last receiver did is over.
        self.receiving.compare_exchange(0, 1, Acquire, Relaxed).ok()?;
        let begin = self.head.load(Relaxed);
        Some(Sweep { queue: self, begin, head: begin })
    }

    /// As [`sweep`](Self::sweep), after checking some times whether the other thread is done.
    #[inline]
    pub fn sweep_soon(&self) -> Option<Sweep<'_, P>> {
        self.sweep().or_else(|| {
            (0..P::LOOKS).find_map(|_| {
                P::pause();
                self.sweep()
            })
        })
    }

    /// Hands the answer to a position that was asked for to `take`, once it is there. After that
    /// the position is done with.
    pub fn take_asked<T>(&self, position: u64, take: impl FnOnce(&Answer<'_, P>) -> T) -> Option<T> {
        let kind = self.answered(position)?;
        let taken = take(&Answer { queue: self, position, kind, given_up: false });
        // Release: the answer is read before its slot is used again.
        self.mark(position).store(mark::TAKEN, Release);
        Some(taken)
    }

    /// Passes a position's answer to `look`, if it is there, without taking it. Returns `None` also
    /// where the slot was used again meanwhile.
    pub fn peek<T>(&self, position: u64, look: impl FnOnce(&Answer<'_, P>) -> T) -> Option<T> {
        let kind = self.answered(position)?;
        let seen = look(&Answer { queue: self, position, kind, given_up: false });
        (self.answered(position)? == kind).then_some(seen)
    }

    /// Gives up waiting for a position that was asked for. The next sweep takes its answer.
    pub fn give_up(&self, position: u64) {
        self.mark(position).store(mark::GIVEN_UP, Release);
    }
}

/// A thread's turn to take answers, in order.
pub struct Sweep<'a, P: Platform> {
    queue: &'a Queue<P>,
    begin: u64,
    /// The next position whose answer is to be taken.
    head: u64,
}

impl<'a, P: Platform> Sweep<'a, P> {
    /// Takes up to `most` replies, as far as nothing else comes first; gives how many. `take` gets
    /// the words of each. The buffer holds those of one at least, and
    /// [`SLACK`](super::lines::SLACK) words more.
    ///
    /// With the ordered protocol it takes none: there a reply is checked by itself.
    #[inline]
    pub fn replies(&mut self, most: usize, buffer: &mut [u32], mut take: impl FnMut(&[u32])) -> usize {
        let (ring, reply_words) = (self.queue.form.answers, self.queue.form.reply_words);
        if self.queue.form.protocol == Protocol::Ordered {
            return 0;
        }
        let (quads, mut taken) = (slot::quads_for(reply_words), 0);
        let at_once = buffer.len().saturating_sub(SLACK) / (quads * PAYLOAD);
        while taken < most {
            let count = at_once.min(most - taken).min(ring.slots() - ring.index(self.head));
            let stamp = slot::stamp(ring.lap(self.head), Kind::Reply);
            let slots = Slots { at: ring.at(self.head), stride: ring.slot().stride(), quads, count, stamp };
            let there = self.queue.answers.load_slots(&slots, buffer);
            // Acquire: what the device had read when it answered, and marks were there before that.
            P::fence(Acquire);
            for words in buffer.chunks_exact(quads * PAYLOAD).take(there) {
                if self.queue.mark(self.head).load(Acquire) != mark::PLAIN {
                    return taken;
                }
                take(&words[..reply_words]);
                self.head += 1;
                taken += 1;
            }
            if there < count || count == 0 {
                break;
            }
        }
        taken
    }

    /// What comes next. Answers that were asked for and taken are skipped.
    #[inline]
    pub fn next(&mut self) -> Next<'a, P> {
        loop {
            let position = self.head;
            let Some(kind) = self.queue.answered(position) else { return Next::Pending };
            match self.queue.mark(position).load(Acquire) {
                mark::ASKED => return Next::Asked,
                mark::TAKEN => self.pass(),
                mark => {
                    let given_up = mark == mark::GIVEN_UP;
                    return Next::Answer(Answer { queue: self.queue, position, kind, given_up });
                }
            }
        }
    }

    /// Takes the answer that comes next.
    #[inline]
    pub fn pass(&mut self) {
        let mark = self.queue.mark(self.head);
        if mark.load(Relaxed) != mark::PLAIN {
            mark.store(mark::PLAIN, Relaxed);
        }
        self.head += 1;
    }
}

/// Also if the thread that took an answer panicked: what was taken before is taken.
impl<P: Platform> Drop for Sweep<'_, P> {
    #[inline]
    fn drop(&mut self) {
        if self.head != self.begin {
            // Release: the answers are read, and the marks clear, before the slots are used again.
            self.queue.head.store(self.head, Release);
            if let Some(credits) = &self.queue.credits {
                credits.give(self.head - self.begin);
            }
        }
        self.queue.receiving.store(0, Release);
    }
}
