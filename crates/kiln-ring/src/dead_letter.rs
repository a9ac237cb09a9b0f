//! Dead letters: messages that no handler finished, and why.

use crate::layout::Layout;
use crate::reason::Reason;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// A message that no handler finished.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn share(_ctx: &RingCtx, parts: u32) -> u32 {
///     1000 / parts
/// }
///
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(share, RingConfig::default())?;
/// actor.activate()?;
/// actor.send(0)?;
/// assert!(actor.recv().is_err()); // it failed
/// let letter = runtime.dead_letters().pop().expect("a letter");
/// assert_eq!(letter.decode::<u32>(), Some(0)); // the message that the handler cannot take
/// assert_eq!(letter.bytes(), [0; 4]); // the same for a log, whatever its type is
/// assert!(letter.why.contains("division by zero"), "{letter}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Why.
    pub reason: Reason,
    /// The number of the actor it was for.
    pub actor: u32,
    /// Its position in the actor's queue; of a message in a priority above the lowest, the
    /// uppermost byte is the number of the priority.
    pub position: u64,
    /// The [`Layout::ID`] of the type that `words` hold.
    pub layout: u64,
    /// The message in words. Empty where it is gone: where a handler failed on a message of another
    /// actor whose place in the inbound link was used again since, or that lay in the shared memory
    /// of a cluster; and of a device that was lost.
    pub words: Vec<u32>,
    /// The reason in words, with the place in the handler's source where a check failed.
    pub why: String,
}

impl fmt::Display for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {} to actor {}: {}", self.position, self.actor, self.why)
    }
}

impl Letter {
    /// The message, if it is of this type and its words were read. A letter keeps no arrays: a
    /// [`Payload`](crate::Payload) in it may be gone.
    pub fn decode<M: Layout>(&self) -> Option<M> {
        (self.layout == M::ID && self.words.len() == M::WORDS).then(|| M::decode(&self.words))
    }

    /// The message as bytes, little-endian.
    pub fn bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }
}

/// A bounded queue of dead letters. When it is full, the oldest letter makes room, and is counted.
///
/// ```
/// use kiln_ring::{DeadLetters, Layout, Letter, Reason};
///
/// let letters = DeadLetters::new(1);
/// for position in 0..3 {
///     let why = Reason::Expired.to_string();
///     letters.push(Letter { reason: Reason::Expired, actor: 0, position, layout: u32::ID, words: vec![7], why });
/// }
/// let letter = letters.pop().expect("one is kept");
/// assert_eq!((letter.position, letter.decode::<u32>(), letters.discarded()), (2, Some(7), 2));
/// ```
#[derive(Debug)]
pub struct DeadLetters {
    capacity: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    letters: VecDeque<Letter>,
    arrived: u64,
    discarded: u64,
}

impl DeadLetters {
    /// A queue that keeps up to `capacity` letters.
    pub fn new(capacity: usize) -> DeadLetters {
        DeadLetters { capacity, kept: Mutex::default() }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        // Every change is complete before anything can panic.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a letter.
    pub fn push(&self, letter: Letter) {
        let mut kept = self.kept();
        kept.arrived += 1;
        kept.letters.push_back(letter);
        if kept.letters.len() > self.capacity {
            kept.letters.pop_front();
            kept.discarded += 1;
        }
    }

    /// Takes the oldest letter.
    pub fn pop(&self) -> Option<Letter> {
        self.kept().letters.pop_front()
    }

    /// Takes all letters, oldest first.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_ring::{Letter, RingConfig, RingCtx, RingRuntime, ring_kernel};
    ///
    /// #[ring_kernel(crate = kiln_ring)]
    /// fn double(_ctx: &RingCtx, x: u32) -> u32 {
    ///     x * 2
    /// }
    ///
    /// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
    /// let actor = runtime.launch(double, RingConfig::default())?;
    /// actor.send(1)?;
    /// actor.send(2)?;
    /// actor.terminate()?; // it was never active
    /// let letters = runtime.dead_letters();
    /// assert!(letters.len() == 2 && !letters.is_empty());
    /// let all: Vec<Letter> = letters.drain();
    /// assert_eq!((all.len(), letters.len(), letters.arrived()), (2, 0, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain(&self) -> Vec<Letter> {
        self.kept().letters.drain(..).collect()
    }

    /// How many letters are kept now.
    pub fn len(&self) -> usize {
        self.kept().letters.len()
    }

    /// Whether no letter is kept now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many letters ever arrived.
    pub fn arrived(&self) -> u64 {
        self.kept().arrived
    }

    /// How many letters were given up because the queue was full.
    pub fn discarded(&self) -> u64 {
        self.kept().discarded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(position: u64) -> Letter {
        let why = Reason::Dropped.to_string();
        Letter { reason: Reason::Dropped, actor: 3, position, layout: u64::ID, words: vec![1, 2], why }
    }

    #[test]
    fn letters_are_kept_in_order_and_the_oldest_goes_first() {
        let letters = DeadLetters::new(2);
        assert!(letters.is_empty() && letters.pop().is_none());
        (0..5).for_each(|i| letters.push(letter(i)));
        assert_eq!((letters.len(), letters.arrived(), letters.discarded()), (2, 5, 3));
        assert_eq!(letters.drain(), [letter(3), letter(4)]);
        assert_eq!((letters.len(), letters.arrived()), (0, 5));
    }

    /// Also where the runtime is not asked for its letters.
    #[test]
    fn reasons_say_what_happened() {
        let said = [(1, 77), (2, u32::MAX), (2, 5), (3, crate::wire::record::refusal::TAKEN), (9, 1)]
            .map(|(cause, number)| Reason::Failed { cause, number }.to_string());
        let named = [
            "the error 77",
            "than its budget",
            "number 5: `RingRuntime::explain`",
            "an inbound link for each",
            "cause 9",
        ];
        for (said, named) in said.iter().zip(named) {
            assert!(said.contains(named), "{said}");
        }
    }

    #[test]
    fn a_queue_of_none_only_counts() {
        let letters = DeadLetters::new(0);
        letters.push(letter(0));
        assert_eq!((letters.len(), letters.discarded()), (0, 1));
    }

    #[test]
    fn a_letter_decodes_as_its_own_type_alone() {
        assert_eq!(letter(0).decode::<u64>(), Some(1 | 2 << 32));
        assert_eq!(letter(0).decode::<i64>(), None);
        assert_eq!(letter(0).bytes(), [1, 0, 0, 0, 2, 0, 0, 0]);
        let lost = Letter { words: vec![], ..letter(0) };
        assert_eq!(lost.decode::<u64>(), None);
    }
}
