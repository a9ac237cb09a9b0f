//! What can go wrong with checkpoints.

use std::io;
use std::path::PathBuf;

/// Why a checkpoint cannot be read, written or used.
///
/// ```
/// use kiln_ring::{Checkpoint, CheckpointError};
/// let error: CheckpointError = Checkpoint::from_bytes(b"something else").unwrap_err();
/// println!("{error}");
/// assert!(Checkpoint::load("no such file").is_err());
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The bytes are something else.
    #[error("this is no checkpoint of an actor: it does not begin with `KILNRING`")]
    NotACheckpoint,
    /// It was written by another version of Kiln.
    #[error("the checkpoint has format {found}, and this version of Kiln reads formats up to {reads}")]
    Version {
        /// Its format.
        found: u32,
        /// The newest format that is read here.
        reads: u32,
    },
    /// Its end is missing.
    #[error("the checkpoint is truncated: {has} of its {needs} bytes are there")]
    Truncated {
        /// Bytes that are there.
        has: u64,
        /// Bytes that it has.
        needs: u64,
    },
    /// Its digest does not fit its content.
    #[error("the checkpoint is damaged: {what}")]
    Damaged {
        /// What does not fit.
        what: &'static str,
    },
    /// It is of an actor with other types.
    #[error(
        "the checkpoint is of an actor of `{of}`, whose {part} has another layout than that of `{handler}`: types must have the same name and fields"
    )]
    Foreign {
        /// The handler of the checkpoint.
        of: String,
        /// The state, the message or the reply.
        part: &'static str,
        /// The handler that it was to be restored with.
        handler: &'static str,
    },
    /// Messages or states name places in the device's memory.
    #[error(
        "the messages or the state of `{handler}` refer to payloads or addresses, which mean nothing elsewhere: it has no checkpoints"
    )]
    NotPortable {
        /// The handler.
        handler: &'static str,
    },
    /// Other actors may send to the actor.
    #[error(
        "actor {actor} has inbound links: a checkpoint of it alone would part it from those that send to it. Take a `RingRuntime::snapshot` of all of them"
    )]
    InboundLinks {
        /// The actor.
        actor: u32,
    },
    /// An actor of a snapshot has an inbound link whose sender cannot be part of one.
    #[error(
        "actor {actor} has an inbound link for {from}: a snapshot has the inbound links of actors of its own runtime alone"
    )]
    ForeignInboundLink {
        /// The actor.
        actor: u32,
        /// Who sends there.
        from: &'static str,
    },
    /// An actor of a snapshot can send to one that is not part of it.
    #[error(
        "the state or a message of actor {actor} (`{handler}`) has the address of an actor that is not part of the snapshot, or has ended: name all actors that send to each other"
    )]
    Outside {
        /// The actor.
        actor: u32,
        /// Its handler.
        handler: &'static str,
    },
    /// A snapshot names an actor twice.
    #[error("the snapshot names actor {actor} twice")]
    Twice {
        /// The actor.
        actor: u32,
    },
    /// A snapshot is restored with another number of handlers.
    #[error("the snapshot has {actors} actors, and handlers were given for {given}")]
    Stages {
        /// How many actors it has.
        actors: usize,
        /// For how many there were handlers; one more than the actors stands for any number above.
        given: usize,
    },
    /// The queue is too small.
    #[error(
        "the checkpoint holds {messages} messages, and the queue takes {capacity}: give it a larger capacity"
    )]
    TooManyMessages {
        /// Messages.
        messages: usize,
        /// The queue's capacity.
        capacity: usize,
    },
    /// A message was being written and did not arrive: its sender is gone, or stopped.
    #[error(
        "the message in position {position} was begun and not finished within {waited:?}: its sender stopped half-way, and what was sent after it cannot be handled"
    )]
    Unfinished {
        /// Its position.
        position: u64,
        /// How long the host waited.
        waited: std::time::Duration,
    },
    /// The file cannot be read or written.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}
