//! The device's side of ring kernels: a resident kernel, written in the kernel language.
//!
//! One kernel serves every kind of actor that a runtime has, on every backend. Each of its blocks
//! is a *worker*: it polls the queues that it was given, its *endpoints*, hands complete messages
//! to their handlers and writes the answers, until a command makes it leave. On a GPU a worker is a
//! warp whose lanes poll side by side; on a CPU and in the interpreter it is one thread.
//!
//! The kernel is traced once for each [`GridPlan`]. What the plan and an [`ActorKind`] say is a
//! host value at that time. So there are two kinds of `if`, which a reader can tell apart:
//!
//! ```text
//! if host(plan.lanes > 1) { .. }     decided on the host; the other branch is no part of the kernel
//! if message.complete { .. }         a branch of the kernel, on a device value
//! ```
//!
//! `host` takes a `bool`, which no device value is. `if let` and `match` are the host's always; a
//! `for` is the kernel's where it goes over a range of device values.
//!
//! | file | holds |
//! |---|---|
//! | `plan.rs` | what a resident kernel is made for, known when it is traced |
//! | `worker.rs` | the memory that a worker reaches, and what changes while it works |
//! | `worker_loop.rs` | the kernel: the loop of a worker |
//! | `dispatched.rs` | the kernel for devices that run it in dispatches |
//! | `command.rs` | carrying out and acknowledging the host's commands |
//! | `poll.rs`, `bursts.rs` | looking for complete messages |
//! | `prefetch.rs` | a message that was seen, and what handling it begins with |
//! | `read_message.rs` | copying a message out of its slot |
//! | `delivery.rs` | the message that is handled: its record, its position, its answer's place |
//! | `serve.rs` | one message: handler, state, answer |
//! | `room.rs` | whether there is room for what a handler may send, before it runs |
//! | `priorities.rs` | which message of an actor with several priorities comes next |
//! | `fast_path.rs` | an inbound link whose messages are passed on, one after the other |
//! | `route.rs` | where a worker sends next |
//! | `send.rs` | messages to other actors |
//! | `write_slot.rs` | copying a message or an answer into its slot |
//! | `ref_counts.rs` | arrays that go from actor to actor |
//! | `cluster.rs` | rings in shared memory |
//! | `words.rs` | the words of a message, of which those of inline arrays stay in memory |
//! | `position.rs` | arithmetic of positions, stamps and lanes |
//! | `measure.rs` | what is kept of an actor's work, for telemetry |
//! | `probe.rs` | the test of a transport |

mod bursts;
mod cluster;
mod command;
mod delivery;
mod dispatched;
mod fast_path;
mod measure;
mod plan;
mod poll;
mod position;
mod prefetch;
mod priorities;
pub(crate) mod probe;
mod read_message;
mod ref_counts;
mod room;
mod route;
mod send;
mod serve;
mod words;
mod worker;
mod worker_loop;
mod write_slot;

pub(crate) use plan::{ActorKind, Cluster, GridPlan};
#[cfg(test)]
pub(crate) use worker_loop::VACANT_SLEEP_NS;
pub(crate) use worker_loop::trace_resident;

#[cfg(test)]
mod tests;
