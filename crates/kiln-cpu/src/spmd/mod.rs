//! Threads to lanes: a kernel written for the threads of a block becomes one over tiles, with
//! uniform control flow.
//!
//! All threads of a block advance together. A scalar that varies between them becomes a tile with
//! an element for each thread (a *lane*), x fastest; what is uniform remains a scalar. Where
//! threads diverge, both ways are taken, under masks: a varying `if` becomes its two arms and a
//! `select`, a varying loop runs while its condition holds in any lane, and accesses to memory take
//! the mask of the active lanes. The values of inactive lanes are arbitrary and never read.
//! Barriers are removed, and local memory gets an axis for the lanes.
//!
//! What comes out is IR that [`codegen`](crate::codegen) compiles. It differs from what a front end
//! may write in some points: `ThreadId` has an element for each lane, the values of `Assert` and
//! the operand of `BlockUniform` may have one, `Print` begins with a mask, ordered accesses of
//! lanes have a mask after the index, and atomics that add may have indices of bytes.
//!
//! | file | holds |
//! |---|---|
//! | `space.rs` | the places of lanes |
//! | `rewrite.rs` | the walk, values in their two forms, scalar operations |
//! | `control.rs` | branches and loops |
//! | `memory.rs` | accesses under masks |
//! | `ordered.rs` | ordered accesses |
//! | `warp.rs` | thread indices, shuffles, votes, the first thread's value |
//! | `time.rs` | clocks and rest |

mod control;
mod memory;
mod ordered;
mod rewrite;
mod space;
mod time;
mod warp;

pub(crate) use rewrite::{Lockstep, lockstep};
pub(crate) use space::{ENOUGH_LANES, LaneSpace};
