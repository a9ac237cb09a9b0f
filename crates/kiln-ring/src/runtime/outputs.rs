//! Outputs: what becomes of the messages that other actors sent.
//!
//! An actor's inlets share one ring of outputs, which the device writes and the host reads. The host says how far it has taken them in a quad of the
//! inbox, at which the device looks only when the ring seems full; a full one holds up the actor.

use super::Side;
use super::error::Result;
use super::region::Piece;
use super::supervise::Farewell;
use crate::channel::{DeviceSide, Memory, RecvError, RingMemory, Wait, WaitPolicy};
use crate::dead_letter::{DeadLetters, Letter, Reason};
use crate::device::record::actor;
use crate::handler::{Inlines, References};
use crate::layout::Layout;
use crate::payload::received;
use crate::slot::{self, Kind, PAYLOAD, QUAD, RingLayout, SlotLayout};
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What the ring of an actor's outputs is made for.
#[derive(Clone, Debug)]
pub(crate) struct Nature {
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
}

/// The host's end of an actor's outputs, which has memory from the first inlet on.
pub(crate) struct OutputRing {
    nature: Nature,
    made: OnceLock<Made>,
    reader: Mutex<Reader>,
    /// No more will come.
    closed: AtomicBool,
}

struct Made {
    /// Of the outbox and of the inbox.
    pieces: [Piece; 2],
    ring: RingLayout,
    outputs: RingMemory,
    taken: RingMemory,
}

#[derive(Default)]
struct Reader {
    /// The position of the next output to be taken.
    next: u64,
    /// What the device was told of it.
    told: u64,
    /// The position up to which failures were looked for.
    searched: u64,
    /// The newest failure that nobody has dealt with.
    failure: Option<(u64, Reason)>,
    /// Replies that made room for others before anybody received them.
    kept: VecDeque<Vec<u32>>,
}

/// An output that is there.
struct Output {
    kind: Kind,
    /// The position of the message in its inlet.
    position: u64,
    words: Vec<u32>,
}

impl OutputRing {
    pub fn new(nature: Nature) -> OutputRing {
        OutputRing { nature, made: OnceLock::new(), reader: Mutex::default(), closed: AtomicBool::new(false) }
    }

    pub fn nature(&self) -> &Nature {
        &self.nature
    }

    fn reader(&self) -> MutexGuard<'_, Reader> {
        // Every change is complete before anything can panic.
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the ring its memory, and writes the actor's line, if that was not done before.
    pub fn make(&self, side: &Side) -> Result<()> {
        // One at a time: whoever makes inlets holds the lock of those.
        if self.made.get().is_some() {
            return Ok(());
        }
        let shared = &side.shared;
        let ring = RingLayout::new(self.nature.slot, self.nature.capacity);
        let pieces = {
            let mut free = shared.free();
            let outputs = free.outbox.take(ring.words())?;
            match free.inbox.take(QUAD) {
                Ok(taken) => [outputs, taken],
                Err(error) => {
                    free.outbox.give(outputs);
                    return Err(error);
                }
            }
        };
        let made = Made {
            pieces,
            ring,
            outputs: shared.memory.outbox_piece(pieces[0]),
            taken: shared.memory.inbox_piece(pieces[1]),
        };
        super::SharedMemory::clear(&made.outputs);
        super::SharedMemory::clear(&made.taken);
        let mut line = [0; actor::WORDS];
        line[actor::OUTPUTS] = pieces[0].at as u32;
        line[actor::LOG2_SLOTS] = ring.log2_slots();
        line[actor::STRIDE] = ring.slot().stride() as u32;
        line[actor::TAKEN_AT] = pieces[1].at as u32;
        let written = shared.memory.write_arena(side.pieces[2].at, &line[..actor::UNDELIVERED]);
        if let Err(error) = written {
            let mut free = shared.free();
            free.outbox.give(pieces[0]);
            free.inbox.give(pieces[1]);
            return Err(error);
        }
        // Nobody else makes it.
        let _ = self.made.set(made);
        Ok(())
    }

    /// The memory, to be given back: of the outbox and of the inbox.
    pub fn pieces(&self) -> Option<[Piece; 2]> {
        self.made.get().map(|made| made.pieces)
    }

    /// No more outputs will come than are there.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    fn words_of(&self, kind: Kind) -> usize {
        match kind {
            Kind::Reply => self.nature.reply_words,
            Kind::None | Kind::Request => 0,
            Kind::Failed => 2,
            Kind::Expired | Kind::Dropped | Kind::Undeliverable => self.nature.message.1,
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
        Some(Output { kind, position, words })
    }

    /// Takes up to `most` outputs that are replies; others become dead letters.
    fn take(&self, most: usize, mut take: impl FnMut(&[u32])) -> usize {
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

    /// A reply was taken: it refers to its arrays no more. Whoever took it does.
    fn received(&self, reply: &[u32]) {
        self.nature.references.reply.iter().for_each(|first| received(&reply[*first..]));
    }

    /// Nobody will take what is there.
    pub fn give_up(&self) {
        if !self.nature.references.reply.is_empty() {
            self.make_room();
            self.reader().kept.drain(..).for_each(|words| self.received(&words));
        }
    }

    /// Goes on to the next output; tells the device now and then.
    fn pass(&self, made: &Made, reader: &mut Reader, output: &Output) {
        if reader.next >= reader.searched {
            reader.note(output);
        }
        reader.next += 1;
        self.settle(output);
        if reader.next - reader.told >= (made.ring.slots() as u64 / 4).max(1) {
            reader.told = reader.next;
            made.taken.store_quad(0, [reader.next as u32, 0, 0, 1]);
            made.taken.flush();
        }
    }

    /// Makes a dead letter of an output that is not a reply.
    fn settle(&self, output: &Output) {
        let Some(reason) = output.reason() else { return };
        let words = if output.kind == Kind::Failed { Vec::new() } else { output.words.clone() };
        self.nature.letters.push(Letter {
            reason,
            actor: self.nature.actor,
            position: output.position,
            layout: self.nature.message.0,
            words,
        });
    }

    /// Takes outputs that nobody receives, as far as they come first.
    pub fn tidy(&self) {
        let Some(made) = self.made.get() else { return };
        let mut reader = self.reader();
        while let Some(output) = self.output(made, reader.next).filter(|output| output.kind != Kind::Reply) {
            self.pass(made, &mut reader, &output);
        }
    }

    /// Makes room in the ring: takes letters, and keeps replies for whoever receives them later.
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

    /// The newest failure on a message of an inlet that nobody has dealt with. It may lie behind replies that nobody received.
    pub fn failure(&self) -> Option<(u64, Reason)> {
        let made = self.made.get()?;
        let mut reader = self.reader();
        let mut position = reader.searched.max(reader.next);
        while position < reader.next + made.ring.slots() as u64
            && let Some(output) = self.output(made, position)
        {
            reader.note(&output);
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
    fn note(&mut self, output: &Output) {
        if output.kind == Kind::Failed {
            self.failure = output.reason().map(|reason| (output.position, reason));
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

/// The replies to messages that other actors sent, for the host.
///
/// Those of all inlets come in the order in which they were made. Messages that were not handled become
/// [dead letters](crate::RingRuntime::dead_letters) when their turn comes. As many may be there as the actor's queue has places; when nobody takes them, the
/// actor waits, and then those who send to it: of a handler that replies to other actors, take the replies.
///
/// Clones read the same outputs. While one thread takes some, others wait.
pub struct Outputs<R> {
    side: Arc<Side>,
    replies: PhantomData<fn() -> R>,
    /// The last part.
    farewell: Farewell,
}

impl<R> Clone for Outputs<R> {
    fn clone(&self) -> Self {
        Outputs { side: Arc::clone(&self.side), replies: PhantomData, farewell: self.farewell.clone() }
    }
}

impl<R> fmt::Debug for Outputs<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outputs").field("actor", &self.ring().nature.actor).finish_non_exhaustive()
    }
}

impl<R> Outputs<R> {
    fn ring(&self) -> &OutputRing {
        &self.side.inlets.outputs
    }
}

impl<R: Layout> Outputs<R> {
    pub(super) fn new(side: &Arc<Side>) -> Outputs<R> {
        Outputs { side: Arc::clone(side), replies: PhantomData, farewell: Farewell::of(&side.shared) }
    }

    /// The next reply, if it is there.
    ///
    /// # Errors
    /// There is none yet, or there will be none.
    pub fn try_recv(&self) -> Result<R, RecvError> {
        let mut reply = None;
        self.some(1, |words| reply = Some(R::decode(words)))?;
        reply.ok_or(RecvError::Empty { actor: self.ring().nature.actor })
    }

    /// The next reply.
    ///
    /// # Errors
    /// There will be none.
    pub fn recv(&self) -> Result<R, RecvError> {
        self.recv_until(None)
    }

    /// The next reply, waiting no longer than `timeout`.
    ///
    /// # Errors
    /// There was none in time, or there will be none.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<R, RecvError> {
        self.recv_until(Instant::now().checked_add(timeout))
    }

    fn recv_until(&self, until: Option<Instant>) -> Result<R, RecvError> {
        let begun = Instant::now();
        let mut wait = Wait::new(WaitPolicy::default(), until);
        loop {
            match self.try_recv() {
                Err(RecvError::Empty { .. }) => {}
                other => return other,
            }
            if !wait.step() {
                return Err(RecvError::TimedOut { actor: self.ring().nature.actor, waited: begun.elapsed() });
            }
        }
    }

    /// Appends up to `most` replies that are there to `replies`; gives how many.
    ///
    /// # Errors
    /// There will be none.
    pub fn recv_many(&self, most: usize, replies: &mut Vec<R>) -> Result<usize, RecvError> {
        self.some(most, |words| replies.push(R::decode(words)))
    }

    fn some(&self, most: usize, mut take: impl FnMut(&[u32])) -> Result<usize, RecvError> {
        let ring = self.ring();
        // Read first: what came before the end is found.
        let closed = ring.closed.load(Ordering::Acquire);
        let mut taken = ring.take(most, &mut take);
        if taken == 0 && !closed && self.side.pump() {
            taken = ring.take(most, &mut take);
        }
        if taken > 0 {
            self.side.shared.room_made();
        } else if closed {
            return Err(RecvError::Closed { actor: ring.nature.actor });
        }
        Ok(taken)
    }
}
