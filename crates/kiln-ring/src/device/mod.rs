//! The device's side of ring kernels: a resident kernel, written in the kernel language.
//!
//! One kernel serves every kind of actor that a runtime has, on every backend. Each of its blocks
//! is a *worker*: it polls the queues that it was given, its *ports*, hands complete messages to
//! their handlers and writes the answers, until it is told to leave. On a GPU a worker is a warp
//! whose lanes poll side by side; on a CPU and in the interpreter it is one thread.
//!
//! What a [`Plan`] or a [`Kind`] says is decided on the host, when the kernel is traced: an `if`,
//! `for` or `match` on it is none in the kernel. All others are the device's.
//!
//! | file | holds |
//! |---|---|
//! | `record.rs` | what is known of workers and ports, as words that host and device share |
//! | `resident.rs` | the kernel: the loop of a worker |
//! | `poll.rs` | looking for complete messages |
//! | `due.rs` | a message that was seen, and what handling it begins with |
//! | `serve.rs` | one message: handler, state, answer |
//! | `room.rs` | whether there is room for what a handler may send, before it runs |
//! | `bands.rs` | which message of an actor with several priorities comes next |
//! | `stay.rs` | an inlet whose messages are passed on, one after the other |
//! | `route.rs` | where a worker sends next |
//! | `send.rs`, `slots.rs` | messages to other actors; writing slots |
//! | `lend.rs` | arrays that go from actor to actor |
//! | `cluster.rs` | rings in shared memory |
//! | `words.rs` | the words of a message, of which those of inline arrays stay in memory |
//! | `measure.rs` | what is kept of an actor's work, for telemetry |
//! | `probe.rs` | the test of a transport |
//! | `command.rs` | what the host tells a worker |

mod bands;
mod cluster;
mod command;
mod due;
mod lend;
mod measure;
mod poll;
pub(crate) mod probe;
pub(crate) mod record;
mod resident;
mod room;
mod route;
mod send;
mod serve;
mod slots;
mod stay;
mod words;

pub(crate) use cluster::Cluster;
pub(crate) use command::Operation;
pub(crate) use resident::{Kind, Plan, trace_resident};
pub(crate) use words::plain_quads;

#[cfg(test)]
mod tests;
