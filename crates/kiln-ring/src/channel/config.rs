//! How a channel behaves, and the memory that one is made over.

use super::credits::Credits;
use super::device_side::DeviceSide;
use super::mailbox::{ChannelPolicy, Mailbox};
use super::memory::RingMemory;
use super::native::Native;
use super::overflow::{Overflow, Replies};
use super::queue::{Form, Protocol, Queue};
use super::wait::WaitPolicy;
use crate::dead_letter::DeadLetters;
use crate::error::ConfigError;
use crate::layout::Layout;
use crate::message::Message;
use crate::wire::slot::{MAX_CAPACITY, MAX_PRIORITIES, RingLayout, SlotLayout, in_priority};
use std::fmt;
use std::sync::Arc;

/// How a channel behaves.
///
/// ```
/// use kiln_ring::{ChannelConfig, ConfigError, Form, Overflow, Protocol, Replies, WaitPolicy};
///
/// let config = ChannelConfig::default()
///     .capacity(100)
///     .priorities(2)
///     .overflow(Overflow::Reject)
///     .wait(WaitPolicy::default())
///     .deadlines(true)
///     .replies(Replies::Keep);
/// // Messages of two words with a deadline, replies of one word.
/// let form: Form = config.form::<u64, u32>(Protocol::Stamped)?;
/// assert_eq!((form.capacity, form.priorities, form.reply_words), (100, 2, 1));
/// assert_eq!((form.requests.slots(), form.requests.slot().quads()), (128, 2));
/// let none = config.capacity(0).form::<u64, u32>(Protocol::Stamped);
/// assert_eq!(none, Err(ConfigError::ZeroCapacity));
/// # Ok::<(), ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a configuration does nothing until something is made with it"]
pub struct ChannelConfig {
    /// The most messages that are under way, in all priorities together: sent, and their answer not
    /// received.
    pub capacity: usize,
    /// How many priorities there are, from 1 to [`MAX_PRIORITIES`]. Each has slots for as many
    /// messages as the capacity.
    pub priorities: usize,
    /// What a full queue does.
    pub overflow: Overflow,
    /// How threads wait.
    pub wait: WaitPolicy,
    /// Whether messages may have deadlines: each slot has one more quad.
    pub deadlines: bool,
    /// What becomes of replies without a request that waits for them.
    pub replies: Replies,
}

impl Default for ChannelConfig {
    fn default() -> Self {
        ChannelConfig {
            capacity: 1024,
            priorities: 1,
            overflow: Overflow::default(),
            wait: WaitPolicy::default(),
            deadlines: false,
            replies: Replies::default(),
        }
    }
}

impl ChannelConfig {
    /// Sets the most messages that are under way.
    pub fn capacity(self, capacity: usize) -> Self {
        ChannelConfig { capacity, ..self }
    }

    /// Sets the number of priorities.
    pub fn priorities(self, priorities: usize) -> Self {
        ChannelConfig { priorities, ..self }
    }

    /// Sets the overflow policy.
    pub fn overflow(self, overflow: Overflow) -> Self {
        ChannelConfig { overflow, ..self }
    }

    /// Sets how threads wait.
    pub fn wait(self, wait: WaitPolicy) -> Self {
        ChannelConfig { wait, ..self }
    }

    /// Sets whether messages may have deadlines.
    pub fn deadlines(self, deadlines: bool) -> Self {
        ChannelConfig { deadlines, ..self }
    }

    /// Sets what becomes of replies without a request that waits for them.
    pub fn replies(self, replies: Replies) -> Self {
        ChannelConfig { replies, ..self }
    }

    /// The form of a channel of `M` and `R`.
    ///
    /// # Errors
    ///
    /// A capacity of 0, or of more than [`MAX_CAPACITY`]; no priorities, or more than
    /// [`MAX_PRIORITIES`].
    pub fn form<M: Message, R: Layout>(&self, protocol: Protocol) -> Result<Form, ConfigError> {
        self.form_of(protocol, M::WORDS, R::WORDS)
    }

    /// As [`form`](Self::form), of messages and replies of so many words.
    pub(crate) fn form_of(
        &self,
        protocol: Protocol,
        message_words: usize,
        reply_words: usize,
    ) -> Result<Form, ConfigError> {
        match self.capacity {
            0 => return Err(ConfigError::ZeroCapacity),
            capacity if capacity > MAX_CAPACITY => return Err(ConfigError::TooLarge { capacity }),
            _ => {}
        }
        if !(1..=MAX_PRIORITIES).contains(&self.priorities) {
            return Err(ConfigError::Priorities { priorities: self.priorities });
        }
        // Messages come back in the answers of dead letters; a failure takes two words.
        let answer_words = message_words.max(reply_words).max(2);
        Ok(Form {
            protocol,
            capacity: self.capacity,
            priorities: self.priorities,
            requests: RingLayout::new(SlotLayout::new(message_words, self.deadlines), self.capacity),
            answers: RingLayout::new(SlotLayout::new(answer_words, false), self.capacity),
            reply_words,
        })
    }

    /// The queue of a channel over memory that it shares with a device. Not generic, because every
    /// type of actor would have a copy: of the types it gets the [`Layout::ID`]s.
    pub(crate) fn mailbox(
        &self,
        form: Form,
        [message_layout, reply_layout]: [u64; 2],
        parts: Parts,
    ) -> Result<Arc<Mailbox<Native>>, ConfigError> {
        let protocol = form.protocol;
        check_memory(
            "requests",
            &parts.requests,
            ring_words(form.priorities, form.request_words(), &form.requests),
        )?;
        check_memory(
            "answers",
            &parts.answers,
            ring_words(form.priorities, form.answer_words(), &form.answers),
        )?;
        let refuse = |ring, why: &str| Err(ConfigError::Memory { ring, why: why.to_owned() });
        if parts.answers.is_write_combined() {
            return refuse("answers", "it is write-combined, which the host cannot read");
        }
        if protocol == Protocol::Ordered && parts.requests.is_write_combined() {
            return refuse(
                "requests",
                "it is write-combined, where stores have no order: use the stamped protocol",
            );
        }
        let credits = (form.priorities > 1).then(|| Arc::new(Credits::new(form.capacity)));
        let mut queues = (0..form.priorities).map(|priority| {
            let first = in_priority(priority, parts.passed.get(priority).copied().unwrap_or(0));
            // SAFETY: as was checked, the priorities lie inside one after the other, each a whole
            // number of lines, and each queue keeps the owner of the memory.
            let (requests, answers) = unsafe {
                (
                    parts.requests.part(priority * form.request_words(), form.requests.words()),
                    parts.answers.part(priority * form.answer_words(), form.answers.words()),
                )
            };
            let queue = Queue::new(form, requests, answers, first);
            match &credits {
                Some(credits) => queue.of_priority(credits),
                None => queue,
            }
        });
        let lowest = queues.next().ok_or(ConfigError::Priorities { priorities: 0 })?;
        let higher = queues.collect();
        let policy = ChannelPolicy {
            actor: parts.actor,
            overflow: self.overflow,
            wait: self.wait,
            replies: self.replies,
            message_layout,
            reply_layout,
            letters: parts.letters,
            device: parts.device,
        };
        Ok(Arc::new(Mailbox::with_priorities(lowest, higher, policy)))
    }
}

/// What the runtime gives a channel.
///
/// ```
/// use kiln_ring::{
///     Channel, ChannelConfig, ConfigError, DeadLetters, DeviceSide, Parts, Protocol, RingMemory,
/// };
/// # use std::ptr::NonNull;
/// use std::sync::Arc;
/// # use std::sync::atomic::AtomicU32;
/// # #[repr(align(64))]
/// # #[derive(Default)]
/// # struct Line([AtomicU32; 16]);
///
/// /// As many lines of 16 words, aligned to 64 bytes and zeroed.
/// fn ring(lines: usize) -> RingMemory {
///     // …
/// #   let words = lines * 16;
/// #   let lines: Arc<[Line]> = (0..lines).map(|_| Line::default()).collect();
/// #   let base = NonNull::from(&*lines).cast();
/// #   // SAFETY: as many words, which live as long as their owner.
/// #   unsafe { RingMemory::new(base, words, false, Arc::new(lines)) }
/// }
///
/// /// A device that answers nothing.
/// struct Idle;
///
/// impl DeviceSide for Idle {
///     fn skip(&self, _position: u64) {}
/// }
///
/// // 8 slots of a quad are 32 words for requests, and as many for answers.
/// let config = ChannelConfig::default().capacity(8);
/// let made = |lines| {
///     let (requests, answers) = (ring(2), ring(lines));
///     let (letters, device) = (Arc::new(DeadLetters::new(16)), Arc::new(Idle));
///     let parts = Parts { actor: 0, requests, answers, passed: vec![100], letters, device };
///     Channel::<u32, u32>::new(&config, Protocol::Stamped, parts)
/// };
/// assert!(matches!(made(1), Err(ConfigError::Memory { ring: "answers", .. })));
/// let channel = made(2)?;
/// assert_eq!(channel.tail(), 100); // positions go on behind those that were passed
/// # Ok::<(), ConfigError>(())
/// ```
pub struct Parts {
    /// The actor's number.
    pub actor: u32,
    /// The memory of the request rings, the lowest priority's first: at least
    /// [`request_words`](Form::request_words) for each.
    pub requests: RingMemory,
    /// The memory of the answer rings, which the host reads: at least
    /// [`answer_words`](Form::answer_words) for each.
    pub answers: RingMemory,
    /// How many messages each priority, from the lowest, had before, in a channel where this one
    /// goes on: so many positions are passed over. None where it is not said.
    pub passed: Vec<u64>,
    /// Where dead letters go.
    pub letters: Arc<DeadLetters>,
    /// The device's side.
    pub device: Arc<dyn DeviceSide>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("actor", &self.actor)
            .field("requests", &self.requests)
            .field("answers", &self.answers)
            .field("passed", &self.passed)
            .finish_non_exhaustive()
    }
}

/// Words of memory for the rings of all priorities, `pitch` words from one to the next.
fn ring_words(priorities: usize, pitch: usize, ring: &RingLayout) -> usize {
    (priorities - 1) * pitch + ring.words()
}

fn check_memory(ring: &'static str, memory: &RingMemory, words: usize) -> Result<(), ConfigError> {
    let why = if memory.words() < words {
        format!("it has {} words, and {words} are needed", memory.words())
    } else if !memory.is_aligned() {
        "it is not aligned to 64 bytes".to_owned()
    } else {
        return Ok(());
    };
    Err(ConfigError::Memory { ring, why })
}
