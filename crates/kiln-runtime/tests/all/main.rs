//! The runtime from outside: launches, tensors, caches, streams.

mod absurd;
mod awaited;
mod cache;
mod cache_size;
mod commands;
mod display;
mod dyn_kernels;
mod dyn_tensors;
mod faults;
mod graphs;
mod kernels;
mod launch;
mod observers;
mod order;
mod package;
mod params;
mod precompile;
mod prints;
mod probe;
mod probe_graphs;
mod records;
mod streams;
mod tensors;
mod tune;
mod views;
