//! The CPU backend: Cranelift for control flow and addressing, the primitives of
//! `kiln-cpu-primitives` for the rest.
//!
//! [`CpuBackend`] implements [`kiln_backend::Backend`] on the host's processor. A kernel becomes
//! one function that runs one program; a pool of threads runs the programs of a launch. Kernels
//! written for threads are first rewritten so that the threads of a block advance in lockstep, as
//! the lanes of tiles: no operating-system thread stands for a GPU thread.
//!
//! | module | holds |
//! |---|---|
//! | `backend.rs`, `memory.rs` | the device and its memory |
//! | `launch.rs`, `limit.rs` | launches and their time limits |
//! | `copies.rs` | copies of views to which a kernel only adds |
//! | `pool.rs`, `resident.rs`, `thread_time.rs` | worker threads, resident launches |
//! | `symbol.rs`, `link.rs` | what code refers to, and how it is made executable |
//! | `artifact.rs`, `machine.rs` | code as bytes, for the next process on such a machine |
//! | `program.rs`, `cost.rs` | a compiled kernel, and what its programs take |
//! | `spmd/` | threads to lanes |
//! | `codegen/` | lanes and tiles to machine code |
//! | `frame.rs`, `site.rs`, `report.rs` | launch state that generated code reads; faults |
//! | `time.rs` | clocks and pauses that generated code calls |
//!
//! # Faults
//!
//! A fault leaves what the program stored before it and nothing after (see `kiln-ir`). The code
//! generator therefore makes a value in the memory that it is stored to only where nothing in the
//! same loop over chunks can fault (`codegen/group.rs`).

mod artifact;
mod backend;
mod codegen;
mod copies;
mod cost;
mod frame;
mod launch;
mod limit;
mod link;
mod machine;
mod memory;
mod pool;
mod processor;
mod program;
mod report;
mod resident;
mod site;
mod spmd;
mod symbol;
mod thread_time;
mod time;

pub use backend::CpuBackend;
pub use program::clif;
