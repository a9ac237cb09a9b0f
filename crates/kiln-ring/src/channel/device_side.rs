//! What a channel needs of the device that answers.

use crate::payload::Hold;
use crate::reason::Reason;
use crate::standing::Standing;

/// What a channel needs of the device's side.
///
/// A runtime implements it for its devices; a program that has a queue to something else, such as
/// a simulated device in a test, implements it and makes a [`Channel`](crate::Channel) by
/// [`new`](crate::Channel::new).
///
/// Here the device is a part of the program, which runs while a caller waits. What both sides do
/// with the memory is the protocol of [`slot`](crate::slot).
///
/// ```
/// use kiln_ring::slot::{Kind, is_of_lap, stamp};
/// use kiln_ring::{
///     Channel, ChannelConfig, DeadLetters, DeviceSide, Form, Hold, Lifecycle, Overflow, Parts,
///     Protocol, Reason, RecvError, RingMemory, Standing,
/// };
/// use std::ptr::NonNull;
/// use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
/// use std::sync::{Arc, Mutex};
///
/// /// A cache line of a ring.
/// #[repr(align(64))]
/// #[derive(Default)]
/// struct Line([AtomicU32; 16]);
///
/// /// A ring as the channel and as the device reaches it.
/// fn ring(words: usize) -> (RingMemory, Arc<[Line]>) {
///     let lines: Arc<[Line]> = (0..words.div_ceil(16)).map(|_| Line::default()).collect();
///     let base = NonNull::from(&*lines).cast();
///     // SAFETY: as many words, aligned and zeroed, which live as long as their owner. Beside the
///     // channel only the device accesses them.
///     let memory = unsafe { RingMemory::new(base, words, false, Arc::new(Arc::clone(&lines))) };
///     (memory, lines)
/// }
///
/// /// Doubles numbers of one word: a request and its answer have one quad each.
/// struct Doubler {
///     form: Form,
///     requests: Arc<[Line]>,
///     answers: Arc<[Line]>,
///     next: Mutex<u64>,
///     skipped: AtomicU64,
///     active: AtomicBool,
///     wakes: AtomicU32,
/// }
///
/// impl DeviceSide for Doubler {
///     fn pump(&self) -> bool {
///         let request = |at: usize| &self.requests[at / 16].0[at % 16];
///         let answer = |at: usize| &self.answers[at / 16].0[at % 16];
///         let Ok(mut next) = self.next.lock() else { return true };
///         loop {
///             let (from, to) = (self.form.requests.at(*next), self.form.answers.at(*next));
///             let lap = self.form.requests.lap(*next);
///             // By the ordered protocol the stamp, a quad's last word, is stored last.
///             if !is_of_lap(request(from + 3).load(Acquire), lap) {
///                 return true; // a device that runs while the host waits
///             }
///             let x = request(from).load(Relaxed);
///             let (kind, word) = match *next < self.skipped.load(Acquire) {
///                 true => (Kind::Dropped, x),
///                 false if self.active.load(Acquire) => (Kind::Reply, x * 2),
///                 false => return true,
///             };
///             answer(to).store(word, Relaxed);
///             answer(to + 3).store(stamp(lap, kind), Release);
///             *next += 1;
///         }
///     }
///
///     fn skip(&self, position: u64) {
///         self.skipped.fetch_max(position, AcqRel);
///     }
///
///     fn wake(&self) {
///         self.wakes.fetch_add(1, AcqRel);
///     }
///
///     fn standing(&self) -> Standing {
///         match self.active.load(Acquire) {
///             true => Standing::Answers,
///             false => Standing::Holds(Lifecycle::Launched),
///         }
///     }
///
///     fn explain(&self, reason: Reason, position: u64) -> String {
///         format!("request {position}: {reason}")
///     }
///
///     fn read_requests(&self, at: usize, words: &mut [u32]) -> bool {
///         let of = |at: usize| self.requests[at / 16].0[at % 16].load(Acquire);
///         words.iter_mut().enumerate().for_each(|(i, word)| *word = of(at + i));
///         true
///     }
///
///     // These three are as their defaults: it reaches no arrays, prints nothing and never fails.
///     fn settle(&self, _hold: &Hold) -> Result<bool, String> {
///         Ok(false)
///     }
///
///     fn is_held_by_print_sink(&self) -> bool {
///         false
///     }
///
///     fn notice(&self) {}
/// }
///
/// let config = ChannelConfig::default().capacity(4).overflow(Overflow::DropOldest);
/// let form = config.form::<u32, u32>(Protocol::Ordered)?;
/// let (requests, answers) = (ring(form.request_words()), ring(form.answer_words()));
/// let device = Arc::new(Doubler {
///     form,
///     requests: requests.1,
///     answers: answers.1,
///     next: Mutex::default(),
///     skipped: AtomicU64::default(),
///     active: AtomicBool::default(),
///     wakes: AtomicU32::default(),
/// });
/// let parts = Parts {
///     actor: 0,
///     requests: requests.0,
///     answers: answers.0,
///     passed: Vec::new(),
///     letters: Arc::new(DeadLetters::new(16)),
///     device: device.clone(),
/// };
/// let channel: Channel<u32, u32> = Channel::new(&config, Protocol::Ordered, parts)?;
///
/// // The queue of a device that holds its messages: five are one too many.
/// channel.send_many(&[1, 2, 3, 4, 5])?;
/// let letter = channel.letters().pop().expect("the oldest was dropped");
/// assert_eq!((letter.decode::<u32>(), letter.reason), (Some(1), Reason::Dropped));
/// assert!(letter.why.starts_with("request 0: "), "{letter}");
/// assert!(matches!(channel.recv(), Err(RecvError::NotActive { .. })));
///
/// device.active.store(true, Release);
/// let mut replies = Vec::new();
/// while replies.len() < 4 {
///     channel.recv_many(4, &mut replies)?;
/// }
/// assert_eq!(replies, [4, 6, 8, 10]);
/// // While it is parked, every sender wakes it.
/// channel.set_parked(true);
/// assert_eq!(channel.ask(&21)?, Some(42));
/// assert_eq!(device.wakes.load(Acquire), 1);
/// // The word of the last request, as a checkpoint reads it.
/// let mut word = [0];
/// assert!(device.read_requests(form.requests.at(channel.tail() - 1), &mut word) && word == [21]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait DeviceSide: Send + Sync {
    /// Requests that the messages of the position's priority that precede it and have not begun are
    /// answered [`Kind::Dropped`](crate::wire::slot::Kind::Dropped). A repeated call with a lower
    /// position has no effect.
    fn skip(&self, position: u64);

    /// Called after a send while [`Channel::set_parked`](crate::Channel::set_parked) says that no
    /// worker polls the request ring.
    fn wake(&self) {}

    /// Lets a device that does not run by itself go on for a while. Returns whether it is one:
    /// callers then look for answers again at once, instead of pausing.
    fn pump(&self) -> bool {
        false
    }

    /// Whether the caller is a print sink for whose return the device waits: whoever waited there
    /// for an answer would wait for ever, and gets
    /// [`AskError::InsidePrintSink`](crate::AskError::InsidePrintSink).
    fn is_held_by_print_sink(&self) -> bool {
        false
    }

    /// Waits until an array that a message refers to is filled. Whether it is one that this
    /// device's side can reach.
    ///
    /// # Errors
    /// What the device failed with, in words.
    fn settle(&self, hold: &Hold) -> Result<bool, String> {
        let _ = hold;
        Ok(false)
    }

    /// Whether the actor answers by itself what it is sent.
    fn standing(&self) -> Standing {
        Standing::Answers
    }

    /// Called before a receiver is told that no reply will come: sees now whether the handler has
    /// failed, which is otherwise seen a little later.
    fn notice(&self) {}

    /// Why the message in a position was not handled, in words.
    fn explain(&self, reason: Reason, position: u64) -> String {
        let _ = position;
        reason.to_string()
    }

    /// Reads words of the request rings, as the device has them, from the word `at` of the lowest
    /// priority's; whether it could. It is what the host has of requests that lie in write-combined
    /// memory.
    fn read_requests(&self, at: usize, words: &mut [u32]) -> bool {
        let _ = (at, words);
        false
    }
}
