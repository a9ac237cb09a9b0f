//! What host and device agree on: the words that they share.
//!
//! Numbers and layouts alone. Nothing here waits, allocates or traces a kernel, and nothing is
//! imported from the modules above.
//!
//! | file | holds |
//! |---|---|
//! | `slot.rs` | slots, quads and stamps: how messages lie in rings; positions |
//! | `quads.rs` | which quads of a slot hold arrays alone |
//! | `record.rs` | the records of workers, endpoints, actors and links |
//! | `command.rs` | what the host commands a worker to do |
//! | `gauge.rs` | what a worker keeps of an actor's work |

pub(crate) mod command;
pub(crate) mod gauge;
pub(crate) mod quads;
pub(crate) mod record;
pub mod slot;
