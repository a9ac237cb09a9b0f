//! Kernels that need much of a multiprocessor, beside resident ones on one or on all of them. A
//! multiprocessor divides its memory between shared memory and the first cache while it has nothing
//! to run, and the driver makes room for local memory that is more than there ever was: either may
//! wait for a resident kernel.
//!
//! What waits is reported and is no failure.

use crate::rig::{Outcome, Rig, ends, ensure, timed};
use kiln_cuda::driver::{DeviceBuffer, LaunchShape};
use std::time::Duration;

/// How long the kernels are resident if the host does not release them.
const STAY: Duration = Duration::from_secs(2);
/// A kernel that takes as long waits for them.
const LONG: Duration = Duration::from_millis(200);

pub fn measure(rig: &Rig) -> Outcome {
    let gpu = rig.context.properties();
    println!("\nkernels that need much, beside resident ones:");
    let (spread, deep) = (rig.function("spread")?, rig.function("deep")?);
    spread.allow_shared(gpu.shared_per_block_opt_in)?;
    let buffer = DeviceBuffer::new(&rig.stream, 4)?;
    let at = buffer.pointer().0;
    let little = LaunchShape::new([1, 1, 1], [32, 1, 1]);
    let large = LaunchShape { shared_bytes: gpu.shared_per_block_opt_in, ..little };
    let grid = LaunchShape::new([gpu.multiprocessors, 1, 1], [1024, 1, 1]);
    for blocks in [1, gpu.multiprocessors] {
        for (what, function, shape, arguments) in [
            ("a little kernel", &spread, &little, &[at][..]),
            ("a block with all of the shared memory", &spread, &large, &[at]),
            ("64 KiB of local memory a thread", &deep, &little, &[at, 4096, 4096]),
            ("the same, of all multiprocessors", &deep, &grid, &[at, 8192, 8192]),
        ] {
            buffer.fill(0)?;
            rig.stream.synchronize()?;
            let staying = rig.stay_in(&rig.resident, STAY, blocks)?;
            // SAFETY: a word, which lives until the kernel has ended, and places in local memory.
            let ((), call) = timed(|| unsafe { function.launch(&rig.stream, shape, arguments) })?;
            let (ended, work) = timed(|| ends(&rig.stream, LONG))?;
            let waits = if ended && call < LONG { "" } else { ", waits" };
            println!("  beside {blocks}: {what}: the call {call:.1?}, the work {work:.1?}{waits}");
            staying.end()?;
            let mut word = [0; 4];
            buffer.read(0, &mut word)?;
            ensure(u32::from_le_bytes(word) == 7, "the kernel has stored its word")?;
        }
    }
    Ok(())
}
