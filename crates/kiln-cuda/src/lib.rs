//! The NVIDIA backend: PTX text, the driver's own JIT compiler, no CUDA toolkit.
//!
//! [`Cuda`] is a GPU as Kiln's runtime drives it. [`compile_to_ptx`] needs no GPU. [`driver`] and [`ptx`] are the layers below.

pub mod driver;
pub mod ptx;

mod backend;

pub use backend::{
    Cuda, compile_to_ptx, compile_to_tasks, compile_to_threads, device_count, mapped_places, threads_to_ptx,
};
