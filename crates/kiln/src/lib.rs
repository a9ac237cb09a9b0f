//! Kiln: write a GPU kernel once, in Rust, and run it on NVIDIA GPUs, on the CPU and in the interpreter.
