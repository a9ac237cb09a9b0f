//! The runtime from outside: launches, tensors, caches, streams.

mod absurd;
mod cache;
mod faults;
mod kernels;
mod launch;
mod order;
mod params;
mod prints;
mod probe;
mod streams;
mod tensors;
mod views;
