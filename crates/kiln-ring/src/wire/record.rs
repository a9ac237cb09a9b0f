//! The records of workers and endpoints, as words in memory that host and device share.
//!
//! Three regions of words: the *inbox*, which the host writes; the *outbox*, which the device
//! writes and the host reads; the *arena*, device memory.
//!
//! ```text
//! inbox    one line of 16 words a worker: the command quad          then the request rings
//! outbox   one line of 16 words a worker: acknowledgement, heartbeat  then the answer rings
//! arena    one section a worker: its record, then those of its endpoints
//!          then, in clusters, a copy of each worker's own memory
//!          then the actors' states, links and inbound links
//! ```
//!
//! An actor that gets messages from others has an endpoint for each of those: an *inbound link*,
//! whose request ring lies in the arena. What becomes of those messages goes to the actor's
//! *outputs*, one ring in the outbox: the device does not wait there for one answer after the
//! other, but for room.

/// Words between the lines of two workers in the inbox and in the outbox.
pub const LINE: usize = 16;

/// Where the heartbeat quad stands in a worker's line of the outbox: turns of its loop, and how
/// many of them had something to do.
pub const HEARTBEAT: usize = 4;

/// The words of a worker's record.
pub mod worker {
    /// How many endpoint records are in use, from the first.
    pub const ENDPOINTS: usize = 0;
    /// The number of the last command that was carried out.
    pub const SEEN: usize = 1;
    /// How many words there are.
    pub const WORDS: usize = 16;
}

/// The words of an endpoint's record. An endpoint is a queue that a worker polls.
pub mod endpoint {
    /// The handler's number from 1; 0 for an endpoint that is not in use.
    pub const KIND: usize = 0;
    /// One of [`gate`](super::gate).
    pub const GATE: usize = 1;
    /// The word at which the request ring begins: of the inbox, or, for an inbound link, of the
    /// arena or of its worker's own memory.
    pub const REQUESTS: usize = 2;
    /// The word of the outbox at which the answer ring begins; an inbound link has none.
    pub const ANSWERS: usize = 3;
    /// The binary logarithm of the number of slots.
    pub const LOG2_SLOTS: usize = 4;
    /// The position that comes next: its low half, then its high half.
    pub const POSITION: usize = 5;
    /// Requests below this position (its low half) are dropped; never less than the position that
    /// comes next.
    pub const SKIP: usize = 7;
    /// The word of the arena at which the actor's state begins.
    pub const STATE: usize = 8;
    /// The actor's number.
    pub const ACTOR: usize = 9;
    /// Words from one request slot to the next.
    pub const REQUEST_STRIDE: usize = 10;
    /// Quads of a request slot that bear stamps; and [`NEAR`].
    pub const REQUEST_QUADS: usize = 11;
    /// A bit of [`REQUEST_QUADS`]: the request ring lies in the worker's own memory, and begins at
    /// that word of it.
    pub const NEAR: u32 = 1 << 31;
    /// Words from one answer slot to the next.
    pub const ANSWER_STRIDE: usize = 12;
    /// How many messages were handled, and how many of them were not answered by their handler:
    /// modulo 2^32.
    pub const HANDLED: usize = 13;
    /// See [`HANDLED`].
    pub const UNHANDLED: usize = 14;
    /// The word of the arena at which an inbound link's [`link`](super::link) begins; 0 for an
    /// endpoint whose messages the host sends.
    pub const LINK: usize = 15;
    /// How many words there are.
    pub const WORDS: usize = 16;
}

/// The words of an actor's line, in the arena before its state. They are its worker's, but for what
/// the host writes when it makes the ring of outputs.
pub mod actor {
    /// The word of the outbox at which the ring of outputs begins.
    pub const OUTPUTS: usize = 0;
    /// The binary logarithm of the number of its slots.
    pub const LOG2_SLOTS: usize = 1;
    /// Words from one of its slots to the next.
    pub const STRIDE: usize = 2;
    /// The word of the inbox at which the host's quad stands: the low half of the position below
    /// which it took all outputs.
    pub const TAKEN_AT: usize = 3;
    /// What the worker last saw there.
    pub const TAKEN_SEEN: usize = 4;
    /// The position of the next output: its low half, then its high half.
    pub const TAIL: usize = 5;
    /// How many messages were sent to actors that had ended: modulo 2^32.
    pub const UNDELIVERED: usize = 7;
    /// How many messages of other actors are done with: the low half, then the high half.
    pub const RECEIVED: usize = 8;
    /// How many of them were not answered by the handler: modulo 2^32.
    pub const RECEIVED_UNHANDLED: usize = 10;
    /// Where messages, replies or states refer to arrays: the word of the arena at which the
    /// reference-count table begins (see `runtime/ref_counts.rs`), and the number of its lines, a
    /// power of two, less one.
    pub const REF_COUNTS: usize = 11;
    /// How many words there are.
    pub const WORDS: usize = 16;
}

/// The words of a link's record, in the arena. They are the sender's, but for [`HEAD`](link::HEAD),
/// and for what the host writes: [`SERIAL`](link::SERIAL) when the receiver ends,
/// [`NEXT`](link::NEXT) when subscribers come and go.
pub mod link {
    /// The serial number of the link, unique in the runtime; 0 when the receiver has ended.
    pub const SERIAL: usize = 0;
    /// The number of the actor that sends, plus 1; 0 for none yet.
    pub const OWNER: usize = 1;
    /// The word of the arena at which the ring begins, or of the receiver's worker's own memory.
    pub const RING: usize = 2;
    /// The binary logarithm of the number of its slots.
    pub const LOG2_SLOTS: usize = 3;
    /// Words from one of its slots to the next.
    pub const STRIDE: usize = 4;
    /// Quads of header in a slot: 0 or 1.
    pub const HEADERS: usize = 5;
    /// The position of the next message: its low half, then its high half.
    pub const TAIL: usize = 6;
    /// The low half of the position of the receiver's next message, as the sender last saw it.
    pub const HEAD_SEEN: usize = 8;
    /// 1 for the link of a topic's publisher, which has no ring.
    pub const IS_TOPIC: usize = 9;
    /// The word of the arena at which the next link of a topic's publisher begins; 0 after the
    /// last.
    pub const NEXT: usize = 10;
    /// The number of the receiver's worker, plus 1, where the ring lies in that worker's own
    /// memory; else 0.
    pub const NEAR: usize = 11;
    /// How far the receiver's arena lies behind the sender's, in words: the low half, then the high
    /// half. 0 within a runtime.
    pub const FAR: usize = 12;
    /// The word of the receiver's arena at which its record of the link begins: within a runtime it
    /// is this one.
    pub const PEER: usize = 14;
    /// The low half of the position of the receiver's next message. On a line of its own, for the
    /// receiver writes it.
    pub const HEAD: usize = 32;
    /// How many words there are.
    pub const WORDS: usize = 64;
}

/// Why a handler may not send what it sends: the number of the failure [`SEND`](cause::SEND).
pub mod refusal {
    /// Another actor sends to that address.
    pub const TAKEN: u32 = 1;
    /// It sends more messages at once than the queue has slots.
    pub const TOO_MANY: u32 = 2;
    /// The queue lies in the shared memory of a worker of another cluster.
    pub const NOT_IN_CLUSTER: u32 = 3;
    /// It hands on an array that is gone, or that has no line in the reference-count table.
    pub const UNHELD: u32 = 4;
}

/// What an endpoint does with its messages.
pub mod gate {
    /// It holds them.
    pub const HELD: u32 = 0;
    /// It hands them to the handler.
    pub const OPEN: u32 = 1;
    /// It gives them back as undeliverable.
    pub const RETURNING: u32 = 2;
    /// It holds them, for the handler failed.
    pub const FAILED: u32 = 3;
    /// A bit beside these: the next message found no room for what it may send. The worker sets and
    /// clears it, and polls such an endpoint less often while it has other work.
    pub const HELD_UP: u32 = 1 << 8;
}

/// The first two words of a failure's answer.
pub mod cause {
    /// The handler returned an error; the number is its code.
    pub const RETURNED: u32 = 1;
    /// A check failed, or the step budget was exceeded; the number is the site's.
    pub const FAULT: u32 = 2;
    /// The handler sent what it may not send; the number is one of [`refusal`](super::refusal).
    pub const SEND: u32 = 3;
}

/// Words of a worker's section of the arena.
pub const fn section_words(endpoints: usize) -> usize {
    worker::WORDS + endpoints * endpoint::WORDS
}
