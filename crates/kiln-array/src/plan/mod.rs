//! From a graph to launches.
//!
//! | file | holds |
//! |---|---|
//! | `structure.rs`, `hash.rs` | what a plan depends on, in words |
//! | `graph.rs` | what has to be computed, inputs first |
//! | `partition.rs` | which arrays share a kernel |
//! | `body.rs` | what a kernel computes for each element, down to what it reads |
//! | `affine.rs` | indices through views |
//! | `chain.rs` | what is the epilogue of a product |
//! | `merge.rs` | small kernels made one |
//! | `lower.rs` | from a body to a program and its arguments |
//! | `program.rs` | a kernel before it is IR |
//! | `sizes.rs` | how large tiles are |
//! | `steps.rs` | the launches in order |
//! | `peak.rs` | how much of what they make is there at once |

pub(crate) mod affine;
pub(crate) mod body;
pub(crate) mod chain;
pub(crate) mod graph;
pub(crate) mod hash;
pub(crate) mod lower;
pub(crate) mod merge;
pub(crate) mod partition;
pub(crate) mod peak;
pub(crate) mod program;
pub(crate) mod sizes;
pub(crate) mod steps;
pub(crate) mod structure;
