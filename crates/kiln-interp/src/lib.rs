//! The reference interpreter: a backend that walks the IR and means exactly what `kiln_ir::OpKind`
//! says. Every other backend is tested against it.
//!
//! Blocks run one after the other. The threads of a block run in lockstep, one operation at a time,
//! under a mask of the active ones, or with [`Options::seed`] in a random order between two
//! barriers. A value of rank 0 has an element for each thread, a tile one array for the block.
//! Every access is checked against the live allocations, and with [`Options::sanitize`] also for
//! reads of uninitialized memory and for races. What is found is a [`Fault`](kiln_backend::Fault)
//! at the operation's source line.
//!
//! | file | holds |
//! |---|---|
//! | `backend.rs` | [`Interp`], the device |
//! | `streams.rs`, `residents.rs` | streams, events, resident launches, pending faults |
//! | `program.rs` | a loaded kernel and its block memory |
//! | `launch.rs`, `machine.rs` | a launch and the loop over its blocks; its state while it runs |
//! | `step.rs`, `control.rs`, `message.rs` | straight operations, regions, asserts and prints |
//! | `fault_region.rs`, `leave.rs`, `stopped.rs` | fault regions: faults, steps, exited threads |
//! | `access.rs`, `quad.rs`, `pointer.rs` | accesses through views, of whole quads, by address |
//! | `atomic_128.rs` | atomics of two elements of 8 bytes |
//! | `explicit/` | the explicit level: tasks, clusters, order of asynchronous operations |
//! | `memory.rs`, `host_shared.rs` | allocations, elements that the host shares |
//! | `spaces.rs`, `shadow.rs` | address spaces, shadow memory of the sanitizer |
//! | `explain.rs` | what the sanitizer found, in the user's words |
//! | `fragment.rs`, `warpgroup.rs` | products of fragments and of warpgroups, copies |
//! | `matrix.rs` | products on matrix units whose fragments only they can read |
//! | `in_flight.rs` | copies and products that nobody has waited for |
//! | `order.rs` | in which order blocks run |
//! | `schedule.rs`, `strands.rs` | in which order the threads of a block run |
//! | `threads.rs`, `mask.rs` | thread indices, votes, shuffles; active threads |
//! | `debug/` | the debugger's sessions |
//! | `time.rs` | how long a launch may run |
//! | `eval/` | operations on registers |
//! | `value.rs`, `register.rs` | registers, and their elements by type |
//! | `trap.rs`, `memory_access.rs` | why an operation did not complete; an access of memory |
//!
//! # Orders of threads
//!
//! With a seed, as in `interp:7`, a schedule divides the threads of a block into strands, each with
//! its own place in the kernel. A random strand runs until it comes to a barrier, a shuffle or a
//! product, or is interrupted anywhere, so that a missing barrier changes results. Right kernels
//! give the same results under every seed. Which of several faults is reported depends on the seed.
//! The threads of a resident launch always run in lockstep.
//!
//! # The sanitizer
//!
//! The sanitizer keeps a shadow of memory (`shadow.rs`): which bytes were written, and which
//! operation of which thread touched each in this launch. Races, reads of what nothing has written,
//! and warps that reach a shuffle or a vote in part are faults; `explain.rs` says them in the
//! user's words. `interp:fast` has no shadow. Loops look at the launch's time limit.
//!
//! With a seed (`interp:7`) a *schedule* (`schedule.rs`) divides the threads of a block into
//! strands, each with its own place in the kernel. A random one runs on to the next barrier,
//! shuffle or product, or is interrupted anywhere, so that a missing barrier changes results too.
//! Results of correct kernels are the same under every seed; which thread's fault is reported is
//! not.
//!
//! At the explicit level tasks and the blocks of a cluster run in turns, each with a vector clock.
//! An access of a shared tile that nothing orders is a fault with its line, and so is a wait that
//! never ends. Operations on fragments run too: a copy arrives when it is waited for, and a
//! product's factors are read again when it is waited for, so that a change in between is reported.
//!
//! A resident launch runs within the call that needs it, until it has polled often enough.

mod access;
mod async_copy;
mod atomic_128;
mod backend;
mod control;
mod debug;
mod eval;
mod explain;
mod explicit;
mod fault_region;
mod fragment;
mod host_shared;
mod in_flight;
mod launch;
mod leave;
mod machine;
mod mask;
mod matrix;
mod memory;
mod memory_access;
mod message;
mod order;
mod pointer;
mod program;
mod quad;
mod register;
mod residents;
mod schedule;
mod shadow;
mod spaces;
mod step;
mod stopped;
mod strands;
mod streams;
mod thread_order;
mod threads;
mod time;
mod trap;
mod value;
mod warpgroup;

pub use backend::{Interp, Options};
pub use debug::{Session, Terminal};
