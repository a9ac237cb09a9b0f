//! The ring of an actor's outputs: what becomes of the messages that other actors sent.
//!
//! An actor's inbound links share one ring of outputs, which the device writes and the host reads.
//! The host says how far it has taken them in a quad of the inbox, which the device reads only when
//! the ring seems full; a full one holds up the actor.

use super::Side;
use super::memory::SharedMemory;
use super::region::WordRange;
use crate::channel::{QueueMemory, RingMemory, WaitPolicy, Wakers};
use crate::dead_letter::{DeadLetters, Letter};
use crate::error::Result;
use crate::handler::{Inlines, References};
use crate::payload::received;
use crate::reason::Reason;
use crate::standing::Standing;
use crate::wire::record::actor;
use crate::wire::slot::{self, Kind, PAYLOAD, QUAD, RingLayout, SlotLayout};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// What the ring of an actor's outputs is made for.
#[derive(Clone, Debug)]
pub(crate) struct OutputSpec {
    /// The actor's number.
    pub actor: u32,
    /// Its handler's name.
    pub handler: &'static str,
    /// Slots of the ring.
    pub capacity: usize,
    /// The layout of a slot.
    pub slot: SlotLayout,
    /// The message's [`Layout::ID`] and [`Layout::WORDS`].
    pub message: (u64, usize),
    /// The reply's [`Layout::WORDS`].
    pub reply_words: usize,
    /// The arrays in both.
    pub inlines: Inlines,
    /// The arrays that they refer to.
    pub references: References,
    /// Where dead letters go.
    pub letters: Arc<DeadLetters>,
    /// How threads wait.
    pub wait: WaitPolicy,
}

/// The host's end of an actor's outputs, which has memory from the first inbound link on.
pub(crate) struct OutputRing {
    spec: OutputSpec,
    made: OnceLock<Made>,
    reader: Mutex<Reader>,
    /// No more will come.
    closed: AtomicBool,
    /// Whose outputs they are.
    side: OnceLock<Weak<Side>>,
    pub wakers: Wakers,
}

struct Made {
    /// Of the outbox and of the inbox.
    ranges: [WordRange; 2],
    ring: RingLayout,
    outputs: RingMemory,
    taken: RingMemory,
}

#[derive(Default)]
struct Reader {
    /// The position of the next output to be taken.
    next: u64,
    /// What the device was last sent of it.
    acknowledged: u64,
    /// The position up to which failures were searched.
    searched: u64,
    /// The newest failure that was not dealt with.
    failure: Option<(u32, u64, Reason)>,
    /// Replies that made room for others before they were received.
    kept: VecDeque<Vec<u32>>,
}

/// An output that is there.
struct Output {
    kind: Kind,
    /// The word of the arena at which the inbound link's link stands.
    link: u32,
    /// The position of the message in its inbound link.
    position: u64,
    words: Vec<u32>,
}

impl OutputRing {
    pub fn new(spec: OutputSpec) -> OutputRing {
        OutputRing {
            spec,
            made: OnceLock::new(),
            reader: Mutex::default(),
            closed: AtomicBool::new(false),
            side: OnceLock::new(),
            wakers: Wakers::default(),
        }
    }

    /// Says whose outputs they are.
    pub fn belongs_to(&self, side: &Arc<Side>) {
        // It is said once, where the actor is made.
        let _ = self.side.set(Arc::downgrade(side));
    }

    pub fn spec(&self) -> &OutputSpec {
        &self.spec
    }

    fn reader(&self) -> MutexGuard<'_, Reader> {
        // Every change is complete before anything can panic.
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the ring its memory, and writes the actor's line, if that was not done before.
    pub fn make(&self, side: &Side) -> Result<()> {
        // One at a time: making inbound links holds the lock of those.
        if self.made.get().is_some() {
            return Ok(());
        }
        let shared = &side.shared;
        let ring = RingLayout::new(self.spec.slot, self.spec.capacity);
        let ranges = {
            let mut free = shared.free();
            let outputs = free.outbox.allocate(ring.words())?;
            match free.inbox.allocate(QUAD) {
                Ok(taken) => [outputs, taken],
                Err(error) => {
                    free.outbox.release(outputs);
                    return Err(error);
                }
            }
        };
        let made = Made {
            ranges,
            ring,
            outputs: shared.memory.outbox_range(ranges[0]),
            taken: shared.memory.inbox_range(ranges[1]),
        };
        SharedMemory::clear(&made.outputs);
        SharedMemory::clear(&made.taken);
        let mut line = [0; actor::WORDS];
        line[actor::OUTPUTS] = ranges[0].at as u32;
        line[actor::LOG2_SLOTS] = ring.log2_slots();
        line[actor::STRIDE] = ring.slot().stride() as u32;
        line[actor::TAKEN_AT] = ranges[1].at as u32;
        let written = shared.memory.write_arena(side.ranges[2].at, &line[..actor::UNDELIVERED]);
        if let Err(error) = written {
            let mut free = shared.free();
            free.outbox.release(ranges[0]);
            free.inbox.release(ranges[1]);
            return Err(error);
        }
        // No other code makes it.
        let _ = self.made.set(made);
        Ok(())
    }

    /// The memory, to be given back: of the outbox and of the inbox.
    pub fn ranges(&self) -> Option<[WordRange; 2]> {
        self.made.get().map(|made| made.ranges)
    }

    /// Whether nothing more comes.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// No more outputs will come than are there.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Others will come again: the actor was restarted.
    pub fn reopen(&self) {
        self.closed.store(false, Ordering::Release);
    }

    /// Whether a reply is there, or will never be.
    pub fn is_ready(&self, standing: &Standing) -> bool {
        if self.closed.load(Ordering::Acquire) || matches!(standing, Standing::Failed(_)) {
            return true;
        }
        let Some(made) = self.made.get() else { return false };
        let reader = self.reader();
        !reader.kept.is_empty() || self.output(made, reader.next).is_some()
    }

    fn words_of(&self, kind: Kind) -> usize {
        match kind {
            Kind::Reply => self.spec.reply_words,
            Kind::None | Kind::Request => 0,
            Kind::Failed => 2,
            Kind::Expired | Kind::Dropped | Kind::Undeliverable => self.spec.message.1,
        }
    }

    /// The output in a position, if it is complete.
    fn output(&self, made: &Made, position: u64) -> Option<Output> {
        let (at, lap) = (made.ring.at(position), made.ring.lap(position));
        // First, for the transport by which quads may not arrive whole.
        made.outputs.load_acquire(at + PAYLOAD);
        let header = made.outputs.load_quad(at);
        let stamp = header[PAYLOAD];
        let kind = Kind::of_stamp(stamp).filter(|_| slot::is_of_lap(stamp, lap))?;
        let mut words = vec![0; self.words_of(kind)];
        for q in 0..slot::quads_for(words.len()) {
            let quad = made.outputs.load_quad(at + (q + 1) * QUAD);
            if quad[PAYLOAD] != stamp {
                return None;
            }
            for (word, value) in words.iter_mut().skip(q * PAYLOAD).zip(&quad[..PAYLOAD]) {
                *word = *value;
            }
        }
        // What the device did before is seen.
        fence(Ordering::Acquire);
        let position = u64::from(header[1]) | u64::from(header[2]) << 32;
        Some(Output { kind, link: header[0], position, words })
    }

    /// Takes up to `most` outputs that are replies; others become dead letters.
    pub(super) fn take(&self, most: usize, mut take: impl FnMut(&[u32])) -> usize {
        let Some(made) = self.made.get() else { return 0 };
        let mut reader = self.reader();
        let mut taken = 0;
        while taken < most {
            if let Some(words) = reader.kept.pop_front() {
                take(&words);
                self.received(&words);
                taken += 1;
                continue;
            }
            let Some(output) = self.output(made, reader.next) else { break };
            self.pass(made, &mut reader, &output);
            if output.kind == Kind::Reply {
                take(&output.words);
                self.received(&output.words);
                taken += 1;
            }
        }
        taken
    }

    /// A reply was taken: it refers to its arrays no more. The receiver does.
    fn received(&self, reply: &[u32]) {
        self.spec.references.reply.iter().for_each(|first| received(&reply[*first..]));
    }

    /// What is there will not be taken.
    pub fn give_up(&self) {
        if !self.spec.references.reply.is_empty() {
            self.make_room();
            self.reader().kept.drain(..).for_each(|words| self.received(&words));
        }
    }

    /// Advances to the next output; writes the reader's position to the device at intervals.
    fn pass(&self, made: &Made, reader: &mut Reader, output: &Output) {
        if reader.next >= reader.searched {
            reader.record(output);
        }
        reader.next += 1;
        self.settle(output);
        if reader.next - reader.acknowledged >= (made.ring.slots() as u64 / 4).max(1) {
            reader.acknowledged = reader.next;
            made.taken.store_quad(0, [reader.next as u32, 0, 0, 1]);
            made.taken.flush();
        }
    }

    /// Makes a dead letter of an output that is not a reply.
    fn settle(&self, output: &Output) {
        let Some(reason) = output.reason() else { return };
        let side = self.side.get().and_then(Weak::upgrade);
        let words = if output.kind == Kind::Failed {
            let message =
                side.as_ref().and_then(|side| side.message_of_inbound_link(output.link, output.position));
            message.unwrap_or_default()
        } else {
            output.words.clone()
        };
        let why = side.map_or_else(
            || reason.to_string(),
            |side| side.explain_message(reason, output.link, output.position),
        );
        self.spec.letters.push(Letter {
            reason,
            actor: self.spec.actor,
            position: output.position,
            layout: self.spec.message.0,
            words,
            why,
        });
    }

    /// Takes outputs that no thread receives, as far as they come first.
    pub fn tidy(&self) {
        let Some(made) = self.made.get() else { return };
        let mut reader = self.reader();
        while let Some(output) = self.output(made, reader.next).filter(|output| output.kind != Kind::Reply) {
            self.pass(made, &mut reader, &output);
        }
    }

    /// Makes room in the ring: takes letters, and keeps replies for later receivers.
    pub fn make_room(&self) {
        let Some(made) = self.made.get() else { return };
        let mut reader = self.reader();
        while let Some(output) = self.output(made, reader.next) {
            self.pass(made, &mut reader, &output);
            if output.kind == Kind::Reply {
                reader.kept.push_back(output.words);
            }
        }
    }

    /// The newest failure on a message of an inbound link that was not dealt with: the inbound
    /// link's link, the message's position, and why. It may be queued behind replies that were not
    /// received.
    pub fn failure(&self) -> Option<(u32, u64, Reason)> {
        let made = self.made.get()?;
        let mut reader = self.reader();
        let mut position = reader.searched.max(reader.next);
        while position < reader.next + made.ring.slots() as u64
            && let Some(output) = self.output(made, position)
        {
            reader.record(&output);
            position += 1;
            reader.searched = position;
        }
        reader.failure
    }

    /// The failures that are there are dealt with.
    pub fn forgive(&self) {
        self.failure();
        self.reader().failure = None;
    }
}

impl Reader {
    /// Remembers a failure that was not seen before.
    fn record(&mut self, output: &Output) {
        if output.kind == Kind::Failed {
            self.failure = output.reason().map(|reason| (output.link, output.position, reason));
        }
    }
}

impl Output {
    fn reason(&self) -> Option<Reason> {
        match self.kind {
            Kind::Request | Kind::Reply | Kind::None => None,
            Kind::Expired => Some(Reason::Expired),
            Kind::Dropped => Some(Reason::Dropped),
            Kind::Undeliverable => Some(Reason::Undeliverable),
            Kind::Failed => Some(Reason::Failed { cause: self.words[0], number: self.words[1] }),
        }
    }
}
