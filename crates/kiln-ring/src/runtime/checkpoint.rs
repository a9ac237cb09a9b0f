//! Checkpoints: an actor's state and the messages that it has not handled, apart from any device.
//!
//! ```text
//! magic 8 │ version 4 │ 0 4 │ length 8 │ handler's name │ layouts 3 × 8 │ first state │ state │ priorities 8 │ position 8, messages of each
//!   │ inbound links 8 │ address 8, capacity 8, position 8, messages of each │ SHA-256 32
//! ```
//!
//! Format 2, which is read too, had no inbound links, and format 1 one priority and not their
//! number. Numbers are little-endian; names and lists of words have their length before them as 8
//! bytes. A message is what is left until its deadline, in nanoseconds (2^64 - 1 for none), and its
//! words; one of an inbound link is its words alone. The length counts everything; the digest is of
//! everything before it.

use crate::error::CheckpointError;
use crate::handler::Signature;
use crate::layout::Layout;
use crate::wire::slot::{MAX_CAPACITY, MAX_PRIORITIES, count_of};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

const MAGIC: &[u8; 8] = b"KILNRING";
const VERSION: u32 = 3;
/// Before the fields: magic, version, a zero, the length.
const HEAD: usize = 24;
const DIGEST: usize = 32;

/// An actor as it was at one moment: its state, and the messages that it had been sent and had not
/// handled, in their order.
///
/// [`Actor::checkpoint`](crate::Actor::checkpoint) makes one,
/// [`RingRuntime::restore`](crate::RingRuntime::restore) an actor of one, on any device. It belongs
/// to handlers whose state, message and reply have the same layouts.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Checkpoint, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn total(_ctx: &RingCtx, sum: &mut u32, x: u32) -> u32 {
///     *sum += x;
///     *sum
/// }
///
/// let cpu = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = cpu.launch(total, RingConfig::default().state(100))?;
/// actor.send(7)?; // not handled: the actor is not active yet
/// let bytes = actor.checkpoint()?.to_bytes();
///
/// let elsewhere = RingRuntime::new(&kiln_runtime::Device::open("interp")?)?;
/// let restored = elsewhere.restore(total, RingConfig::default(), &Checkpoint::from_bytes(&bytes)?)?;
/// restored.activate()?;
/// assert_eq!(restored.recv()?, 107);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_ring::{Checkpoint, CheckpointError, RingConfig, RingCtx, RingRuntime, ring_kernel};
///
/// #[ring_kernel(crate = kiln_ring)]
/// fn double(_ctx: &RingCtx, x: u32) -> u32 {
///     x * 2
/// }
///
/// let folder = std::env::temp_dir().join(format!("kiln-doc-checkpoint-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let runtime = RingRuntime::new(&kiln_runtime::Device::open("cpu")?)?;
/// let actor = runtime.launch(double, RingConfig::default())?;
/// actor.activate()?;
/// actor.ask(1)?;
/// actor.deactivate()?;
/// actor.send_many(&[2, 3])?;
/// // What it is, and what is left to do, in a file.
/// let checkpoint = actor.checkpoint()?;
/// assert_eq!((checkpoint.handler(), checkpoint.position(), checkpoint.messages()), ("double", 1, 2));
/// checkpoint.save(folder.join("actor.kiln"))?;
/// assert_eq!(Checkpoint::load(folder.join("actor.kiln"))?, checkpoint);
/// std::fs::write(folder.join("other.kiln"), "something else")?;
/// let damaged: Result<Checkpoint, CheckpointError> = Checkpoint::load(folder.join("other.kiln"));
/// assert!(damaged.is_err());
/// # std::fs::remove_dir_all(folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub(super) handler: String,
    /// Of the state, the message and the reply.
    pub(super) layouts: [u64; 3],
    pub(super) first_state: Vec<u32>,
    pub(super) state: Vec<u32>,
    /// From the lowest.
    pub(super) priorities: Vec<HeldPriority>,
    /// Of an actor of a [`Snapshot`](crate::Snapshot).
    pub(super) inbound_links: Vec<HeldInboundLink>,
}

/// An inbound link of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HeldInboundLink {
    /// The address to which others sent, where the checkpoint was taken.
    pub address: [u32; 2],
    /// How many places its queue had.
    pub capacity: usize,
    /// How many messages it had before.
    pub passed: u64,
    /// The messages' words.
    pub messages: Vec<Vec<u32>>,
}

/// A priority of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HeldPriority {
    /// How many messages it had before.
    pub passed: u64,
    pub messages: Vec<Held>,
}

/// A message of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// What is left until its deadline, in nanoseconds.
    pub left_ns: Option<u64>,
    pub words: Vec<u32>,
}

type Result<T> = std::result::Result<T, CheckpointError>;

impl Checkpoint {
    /// The name of the handler.
    pub fn handler(&self) -> &str {
        &self.handler
    }

    /// How many messages were not handled.
    pub fn messages(&self) -> usize {
        self.of_host()
            + self.inbound_links.iter().map(|inbound_link| inbound_link.messages.len()).sum::<usize>()
    }

    /// How many of them the host sent.
    fn of_host(&self) -> usize {
        self.priorities.iter().map(|priority| priority.messages.len()).sum()
    }

    /// The position of the first message that was not handled: how many were, since the actor's
    /// beginning; in all priorities together, where there are several.
    pub fn position(&self) -> u64 {
        self.priorities.iter().map(|priority| priority.passed).sum()
    }

    /// All messages of the host.
    pub(super) fn held(&self) -> impl Iterator<Item = &Held> {
        self.priorities.iter().flat_map(|priority| &priority.messages)
    }

    /// The state, if it is of this type.
    pub fn state<S: Layout>(&self) -> Option<S> {
        (self.layouts[0] == S::ID && self.state.len() == S::WORDS).then(|| S::decode(&self.state))
    }

    /// Whether an actor of this handler can go on from here.
    pub(super) fn check(&self, handler: &Signature, capacity: usize) -> Result<()> {
        let here = [handler.state_id, handler.message_id, handler.reply_id];
        for (part, (of, is)) in ["state", "message", "reply"].into_iter().zip(self.layouts.iter().zip(&here))
        {
            if of != is {
                return Err(CheckpointError::Foreign {
                    of: self.handler.clone(),
                    part,
                    handler: handler.name,
                });
            }
        }
        let sizes =
            [self.state.len(), self.first_state.len()].iter().all(|words| *words == handler.state_words);
        let of_inbound_links = self.inbound_links.iter().flat_map(|inbound_link| &inbound_link.messages);
        let mut messages = self.held().map(|held| &held.words).chain(of_inbound_links);
        let fit = self
            .inbound_links
            .iter()
            .all(|inbound_link| inbound_link.messages.len() <= inbound_link.capacity);
        if !sizes || !fit || messages.any(|words| words.len() != handler.message_words) {
            return Err(CheckpointError::Damaged { what: "its words are not as many as its layouts have" });
        }
        if self.of_host() > capacity {
            return Err(CheckpointError::TooManyMessages { messages: self.of_host(), capacity });
        }
        Ok(())
    }

    // ---- bytes

    /// The checkpoint as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 12]);
        put(&mut out, self.handler.len() as u64);
        out.extend(self.handler.as_bytes());
        self.layouts.iter().for_each(|id| put(&mut out, *id));
        put_words(&mut out, &self.first_state);
        put_words(&mut out, &self.state);
        put(&mut out, self.priorities.len() as u64);
        for priority in &self.priorities {
            put(&mut out, priority.passed);
            put(&mut out, priority.messages.len() as u64);
            for held in &priority.messages {
                put(&mut out, held.left_ns.unwrap_or(u64::MAX));
                put_words(&mut out, &held.words);
            }
        }
        put(&mut out, self.inbound_links.len() as u64);
        for inbound_link in &self.inbound_links {
            let [link, serial] = inbound_link.address.map(u64::from);
            put(&mut out, link | serial << 32);
            put(&mut out, inbound_link.capacity as u64);
            put(&mut out, inbound_link.passed);
            put(&mut out, inbound_link.messages.len() as u64);
            inbound_link.messages.iter().for_each(|words| put_words(&mut out, words));
        }
        sealed(out)
    }

    /// The checkpoint that these bytes are.
    ///
    /// # Errors
    /// They are truncated, damaged, of another format, or something else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Checkpoint> {
        let (found, content) = opened(bytes, MAGIC, VERSION)?;
        content.checkpoint(found)
    }

    // ---- files

    /// Writes the checkpoint to a file: aside first and then renamed, so that the file is never
    /// there in part, whatever happens meanwhile.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        write_file(path.as_ref(), &self.to_bytes())
    }

    /// Reads a checkpoint from a file.
    ///
    /// # Errors
    /// As of [`from_bytes`](Self::from_bytes), and those of the file system.
    pub fn load(path: impl AsRef<Path>) -> Result<Checkpoint> {
        Checkpoint::from_bytes(&read_file(path.as_ref())?)
    }
}

/// Bytes with their length in their head and their digest behind them.
pub(super) fn sealed(mut out: Vec<u8>) -> Vec<u8> {
    let length = (out.len() + DIGEST) as u64;
    out[HEAD - 8..HEAD].copy_from_slice(&length.to_le_bytes());
    let digest = Sha256::digest(&out);
    out.extend(digest);
    out
}

/// The format of sealed bytes, and what is behind their head.
pub(super) fn opened<'a>(bytes: &'a [u8], magic: &[u8; 8], reads: u32) -> Result<(u32, Reader<'a>)> {
    let begin = &bytes[..bytes.len().min(magic.len())];
    if begin != &magic[..begin.len()] {
        return Err(CheckpointError::NotACheckpoint);
    }
    let has = bytes.len() as u64;
    if bytes.len() < HEAD {
        return Err(CheckpointError::Truncated { has, needs: (HEAD + DIGEST) as u64 });
    }
    let mut reader = Reader(&bytes[magic.len()..]);
    let found = u32::from_le_bytes(reader.array()?);
    if !(1..=reads).contains(&found) {
        return Err(CheckpointError::Version { found, reads });
    }
    let _: [u8; 4] = reader.array()?;
    let needs = reader.number()?;
    if has < needs {
        return Err(CheckpointError::Truncated { has, needs });
    }
    let damaged = |what| CheckpointError::Damaged { what };
    if has > needs || bytes.len() < HEAD + DIGEST {
        return Err(damaged("its length is not the one that it names"));
    }
    let (content, digest) = bytes.split_at(bytes.len() - DIGEST);
    if Sha256::digest(content)[..] != *digest {
        return Err(damaged("its digest does not fit its content"));
    }
    Ok((found, Reader(&content[HEAD..])))
}

/// Writes a file aside and renames it then.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let mut aside = path.file_name().map_or_else(OsString::new, OsString::from);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    aside.push(format!(".{}-{number}.part", std::process::id()));
    let aside = path.with_file_name(aside);
    let write = || {
        let mut file = File::create(&aside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&aside, path)
    };
    write().map_err(|error| {
        // What is left of it is of no use; that it cannot be removed says less than the error
        // itself.
        let _ = fs::remove_file(&aside);
        CheckpointError::File { path: path.to_owned(), error }
    })
}

/// All bytes of a file.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| CheckpointError::File { path: path.to_owned(), error })
}

pub(super) fn put(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

fn put_words(out: &mut Vec<u8>, words: &[u32]) {
    put(out, words.len() as u64);
    words.iter().for_each(|word| out.extend(word.to_le_bytes()));
}

/// What is left to read.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn bytes(&mut self, count: u64) -> Result<&'a [u8]> {
        let there = usize::try_from(count).ok().and_then(|count| self.0.split_at_checked(count));
        let (bytes, rest) = there.ok_or(CheckpointError::Damaged { what: "a field runs beyond its end" })?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N as u64)?);
        Ok(array)
    }

    pub(super) fn number(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn words(&mut self) -> Result<Vec<u32>> {
        let count = self.number()?;
        let bytes = self.bytes(count.saturating_mul(4))?;
        Ok(bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    fn checkpoint(mut self, version: u32) -> Result<Checkpoint> {
        let length = self.number()?;
        let handler = String::from_utf8(self.bytes(length)?.to_vec())
            .map_err(|_| CheckpointError::Damaged { what: "the handler's name is no text" })?;
        let layouts = [self.number()?, self.number()?, self.number()?];
        let (first_state, state) = (self.words()?, self.words()?);
        let count = if version == 1 { 1 } else { self.number()? };
        if !(1..=MAX_PRIORITIES as u64).contains(&count) {
            return Err(CheckpointError::Damaged { what: "it has a number of priorities that no actor has" });
        }
        let priorities = (0..count).map(|_| self.priority()).collect::<Result<_>>()?;
        let inbound_links = if version < 3 { 0 } else { self.number()? };
        let inbound_links = (0..inbound_links).map(|_| self.inbound_link()).collect::<Result<_>>()?;
        self.end()?;
        Ok(Checkpoint { handler, layouts, first_state, state, priorities, inbound_links })
    }

    /// Nothing is left to read.
    pub(super) fn end(&self) -> Result<()> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(CheckpointError::Damaged { what: "there is more behind its last field" })
        }
    }

    fn inbound_link(&mut self) -> Result<HeldInboundLink> {
        let address = self.number()?;
        let (capacity, passed, count) = (self.number()?, self.number()?, self.number()?);
        let capacity =
            usize::try_from(capacity).ok().filter(|capacity| (1..=MAX_CAPACITY).contains(capacity));
        let Some(capacity) = capacity else {
            return Err(CheckpointError::Damaged { what: "it has an inbound link of a size that none has" });
        };
        let messages = (0..count).map(|_| self.words()).collect::<Result<_>>()?;
        Ok(HeldInboundLink { address: [address as u32, (address >> 32) as u32], capacity, passed, messages })
    }

    fn priority(&mut self) -> Result<HeldPriority> {
        let (passed, count) = (self.number()?, self.number()?);
        if count_of(passed) != passed {
            return Err(CheckpointError::Damaged { what: "it has more positions than a queue" });
        }
        let mut messages = Vec::new();
        for _ in 0..count {
            let left = self.number()?;
            let left_ns = (left != u64::MAX).then_some(left);
            messages.push(Held { left_ns, words: self.words()? });
        }
        Ok(HeldPriority { passed, messages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Checkpoint {
        let held = |left_ns, word| Held { left_ns, words: vec![word, !word, 3] };
        Checkpoint {
            handler: "déjà_vu".to_owned(),
            layouts: [1, u64::MAX, 3],
            first_state: vec![],
            state: vec![5, 6],
            priorities: vec![
                HeldPriority {
                    passed: 1 << 40,
                    messages: vec![held(None, 7), held(Some(0), 8), held(Some(1 << 33), 9)],
                },
                HeldPriority::default(),
                HeldPriority { passed: 2, messages: vec![held(None, 10)] },
            ],
            inbound_links: vec![
                HeldInboundLink {
                    address: [64, 7],
                    capacity: 4,
                    passed: 9,
                    messages: vec![vec![1, 2, 3]; 2],
                },
                HeldInboundLink { address: [128, 8], capacity: 1, ..HeldInboundLink::default() },
            ],
        }
    }

    /// The digest of changed bytes is made anew: what is wrong is for the reader to see.
    fn signed(mut content: Vec<u8>) -> Vec<u8> {
        let length = (content.len() + DIGEST) as u64;
        content[HEAD - 8..HEAD].copy_from_slice(&length.to_le_bytes());
        let digest = Sha256::digest(&content);
        content.extend(digest);
        content
    }

    /// The first format had no number of priorities: it is what the second says of one priority,
    /// without that word. The second had no inbound links.
    #[test]
    fn the_first_format_is_read() {
        let mut one = Checkpoint { inbound_links: Vec::new(), ..example() };
        one.priorities.truncate(1);
        let mut bytes = one.to_bytes();
        // Nor had it inbound links, of which the last word is the number.
        bytes.truncate(bytes.len() - DIGEST - 8);
        let place = bytes
            .windows(16)
            .position(|w| w[..8] == 1u64.to_le_bytes() && w[8..] == (1u64 << 40).to_le_bytes());
        bytes.drain(place.unwrap()..place.unwrap() + 8);
        bytes[8] = 1;
        assert_eq!(Checkpoint::from_bytes(&signed(bytes)).unwrap(), one);
        let mut bytes = one.to_bytes();
        bytes.truncate(bytes.len() - DIGEST - 8);
        bytes[8] = 2;
        assert_eq!(Checkpoint::from_bytes(&signed(bytes)).unwrap(), one);
    }

    #[test]
    fn priorities_that_no_actor_has_are_damage() {
        for wrong in [
            Checkpoint { priorities: Vec::new(), ..example() },
            Checkpoint { priorities: vec![HeldPriority::default(); MAX_PRIORITIES + 1], ..example() },
            Checkpoint {
                priorities: vec![HeldPriority { passed: 1 << 56, messages: Vec::new() }],
                ..example()
            },
        ] {
            let refused = Checkpoint::from_bytes(&wrong.to_bytes());
            assert!(matches!(refused, Err(CheckpointError::Damaged { .. })), "{refused:?}");
        }
    }

    #[test]
    fn bytes_survive_the_round_trip() {
        let checkpoint = example();
        assert_eq!(Checkpoint::from_bytes(&checkpoint.to_bytes()).unwrap(), checkpoint);
    }

    /// Every shorter file is truncated, and every changed bit is noticed.
    #[test]
    fn truncated_and_damaged_bytes_are_errors() {
        let bytes = example().to_bytes();
        for length in 0..bytes.len() {
            let error = Checkpoint::from_bytes(&bytes[..length]).unwrap_err();
            assert!(
                matches!(error, CheckpointError::Truncated { has, .. } if has == length as u64),
                "{error}"
            );
        }
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Checkpoint::from_bytes(&bytes).is_err(), "bit {bit}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(matches!(Checkpoint::from_bytes(&longer), Err(CheckpointError::Damaged { .. })));
    }

    #[test]
    fn other_files_and_formats_are_errors_by_name() {
        assert!(matches!(Checkpoint::from_bytes(b"PK\x03\x04"), Err(CheckpointError::NotACheckpoint)));
        let mut later = example().to_bytes();
        later[8] = 4;
        let error = Checkpoint::from_bytes(&later).unwrap_err();
        assert!(matches!(error, CheckpointError::Version { found: 4, reads: 3 }), "{error}");
        let missing = Checkpoint::load("/nowhere/at/all").unwrap_err();
        assert!(missing.to_string().starts_with("/nowhere/at/all: "), "{missing}");
    }

    /// A count that promises more than there is allocates nothing first.
    #[test]
    fn counts_beyond_the_end_are_damage() {
        let mut bytes = example().to_bytes();
        bytes.truncate(bytes.len() - DIGEST);
        bytes[HEAD..HEAD + 8].copy_from_slice(&(u64::MAX / 2).to_le_bytes());
        let digest = Sha256::digest(&bytes);
        bytes.extend(digest);
        let error = Checkpoint::from_bytes(&bytes).unwrap_err();
        assert!(matches!(error, CheckpointError::Damaged { what: "a field runs beyond its end" }), "{error}");
    }

    #[test]
    fn files_replace_each_other_and_leave_nothing_aside() {
        let folder = std::env::temp_dir().join(format!("kiln-checkpoint-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("actor");
        for state in [1, 2] {
            let checkpoint = Checkpoint { state: vec![state], ..example() };
            checkpoint.save(&path).unwrap();
            assert_eq!(Checkpoint::load(&path).unwrap(), checkpoint);
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert!(example().save(folder.join("missing").join("actor")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
