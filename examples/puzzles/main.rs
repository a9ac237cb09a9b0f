//! The fourteen puzzles of Sasha Rush's "GPU Puzzles" (<https://github.com/srush/GPU-Puzzles>),
//! solved at thread level: one kernel is the program of one thread, as in CUDA. Read the files in
//! this order; each kernel shows one thing more.
//!
//! | file | puzzles |
//! |---|---|
//! | `maps.rs` | map, zip, guards, map 2D, broadcast |
//! | `blocks.rs` | blocks, blocks 2D |
//! | `shared.rs` | shared memory, pooling, 1D convolution |
//! | `sums.rs` | dot product, prefix sum, axis sum |
//! | `matmul.rs` | matrix multiplication |
//!
//! ```text
//! cargo run --release --example puzzles
//! KILN_DEVICE=cuda:0 cargo run --release --example puzzles
//! ```
//!
//! Every puzzle runs in several sizes and is compared with plain Rust on the host.

mod bench;
mod blocks;
mod maps;
mod matmul;
mod shared;
mod sums;

pub use bench::{Bench, Outcome};
use kiln::Device;
use std::process::ExitCode;

/// Solves a puzzle in several sizes and compares.
pub type Check = fn(&mut Bench) -> Outcome;

/// The puzzles, by name.
pub const PUZZLES: [(&str, Check); 14] = [
    ("map", maps::check_map),
    ("zip", maps::check_zip),
    ("guards", maps::check_guards),
    ("map 2D", maps::check_map_2d),
    ("broadcast", maps::check_broadcast),
    ("blocks", blocks::check_blocks),
    ("blocks 2D", blocks::check_blocks_2d),
    ("shared memory", shared::check_shared_memory),
    ("pooling", shared::check_pooling),
    ("dot product", sums::check_dot),
    ("1D convolution", shared::check_convolution),
    ("prefix sum", sums::check_prefix_sum),
    ("axis sum", sums::check_axis_sum),
    ("matrix multiplication", matmul::check_matmul),
];

fn main() -> kiln::Result<ExitCode> {
    let device = Device::default()?;
    println!("on {} ({})", device.id(), device.properties().name);
    let mut bench = Bench::new(&device);
    let mut failed = 0;
    for (name, check) in PUZZLES {
        match check(&mut bench) {
            Ok(()) => println!("{name} {:.<1$} ok", "", 24 - name.len()),
            Err(error) => {
                failed += 1;
                println!("{name} {:.<1$} FAILED\n    {error}", "", 24 - name.len());
            }
        }
    }
    println!("{} passed, {failed} failed", PUZZLES.len() - failed);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
