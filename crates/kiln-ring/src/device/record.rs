//! What is known of workers and ports, as words in memory that host and device share.
//!
//! Three regions of words: the *inbox*, which the host writes; the *outbox*, which the device writes and the host reads; the *arena*, device memory.
//!
//! ```text
//! inbox    one line of 16 words a worker: the command quad          then the request rings
//! outbox   one line of 16 words a worker: acknowledgement, heartbeat  then the answer rings
//! arena    one section a worker: its record, then those of its ports  then the actors' states
//! ```

/// Words between the lines of two workers in the inbox and in the outbox.
pub const LINE: usize = 16;

/// Where the heartbeat quad stands in a worker's line of the outbox: turns of its loop, and how many of them had something to do.
pub const HEARTBEAT: usize = 4;

/// The words of a worker's record.
pub mod worker {
    /// How many port records are in use, from the first.
    pub const PORTS: usize = 0;
    /// The number of the last command that was carried out.
    pub const SEEN: usize = 1;
    /// How many words there are.
    pub const WORDS: usize = 16;
}

/// The words of a port's record. A port is a queue that a worker polls.
pub mod port {
    /// The handler's number from 1; 0 for a port that is not in use.
    pub const KIND: usize = 0;
    /// One of [`gate`](super::gate).
    pub const GATE: usize = 1;
    /// The word of the inbox at which the request ring begins.
    pub const REQUESTS: usize = 2;
    /// The word of the outbox at which the answer ring begins.
    pub const ANSWERS: usize = 3;
    /// The binary logarithm of the number of slots.
    pub const LOG2_SLOTS: usize = 4;
    /// The position that comes next: its low half, then its high half.
    pub const POSITION: usize = 5;
    /// Requests below this position (its low half) are dropped; never less than the position that comes next.
    pub const SKIP: usize = 7;
    /// The word of the arena at which the actor's state begins.
    pub const STATE: usize = 8;
    /// The actor's number.
    pub const ACTOR: usize = 9;
    /// Words from one request slot to the next.
    pub const REQUEST_STRIDE: usize = 10;
    /// Quads of a request slot that bear stamps.
    pub const REQUEST_QUADS: usize = 11;
    /// Words from one answer slot to the next.
    pub const ANSWER_STRIDE: usize = 12;
    /// How many messages were handled, and how many of them were not answered by their handler: modulo 2^32.
    pub const HANDLED: usize = 13;
    /// See [`HANDLED`].
    pub const UNHANDLED: usize = 14;
    /// How many words there are.
    pub const WORDS: usize = 16;
}

/// What a port does with its messages.
pub mod gate {
    /// It holds them.
    pub const HELD: u32 = 0;
    /// It hands them to the handler.
    pub const OPEN: u32 = 1;
    /// It gives them back as undeliverable.
    pub const RETURNING: u32 = 2;
    /// It holds them, for the handler failed.
    pub const FAILED: u32 = 3;
}

/// The first two words of a failure's answer.
pub mod cause {
    /// The handler returned an error; the number is its code.
    pub const RETURNED: u32 = 1;
    /// A check failed, or the step budget was exceeded; the number is the site's.
    pub const FAULT: u32 = 2;
}

/// Words of a worker's section of the arena.
pub const fn section_words(ports: usize) -> usize {
    worker::WORDS + ports * port::WORDS
}
