//! The NVIDIA backend: PTX text, the driver's own JIT compiler, no CUDA toolkit.

pub mod ptx;

pub mod driver;
