//! Channels against a device that is played by the test.
//!
//! | file | holds |
//! |---|---|
//! | `device.rs` | the device, memory, channels |
//! | `basics.rs` | each operation and error by itself |
//! | `policies.rs` | full queues against a reference model, by proptest |
//! | `priorities.rs` | several priorities with one capacity |
//! | `threads.rs` | many senders and receivers at once |
//! | `lines.rs` | vectors of every width |
//! | `futures.rs` | waiting without a thread |
//! | `models.rs` | the queue under loom: the interleavings and orders of memory that it explores |

mod basics;
mod device;
mod futures;
mod lines;
mod models;
mod policies;
mod priorities;
mod threads;
