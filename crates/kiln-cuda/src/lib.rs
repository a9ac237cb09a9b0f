//! The NVIDIA backend: PTX text, the driver's own JIT compiler, no CUDA toolkit.
//!
//! [`Cuda`] is a GPU as Kiln's runtime drives it. [`compile_to_ptx`] needs no GPU. [`driver`] and
//! [`ptx`] are the layers below.
//!
//! # Resident kernels
//!
//! Host and resident kernel communicate through *mapped memory*: host memory that the device
//! accesses, or device memory that the host writes. The latter is memory that Vulkan maps and CUDA
//! imports, so a polling kernel does not cross the bus. Vulkan is opened at run time and never
//! required.
//!
//! The driver waits for the end of every kernel before it loads or unloads a program or unpins
//! memory, and holds up other threads meanwhile. So this backend defers what drops would free until
//! no resident launch is left, and before it loads a program it requests that the *tenants*, the
//! owners of resident launches, leave for the moment. Streams, events, pooled memory, copies,
//! launches and graphs do not wait (`examples/resident_check` shows each call).
//!
//! Sums of products keep their registers while products are in flight (`ptx/in_place.rs`).

pub mod driver;
pub mod ptx;

mod backend;

pub use backend::{
    Cuda, capabilities, compile_for_package, compile_to_ptx, compile_to_tasks, compile_to_threads,
    device_count, mapped_places, package_target_of, threads_to_ptx,
};
