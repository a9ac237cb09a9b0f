//! Whether the lanes of a warp that load from one address get one value, while the host changes it.
//!
//! NVIDIA's assembler takes what a warp loads from one address for the same in all lanes, volatile
//! loads included: it leaves out a broadcast of such a value, and the rendezvous behind a branch on
//! it. So a kernel that polls memory of the host relies on that.

use crate::rig::{Outcome, Rig, ensure};
use kiln_cuda::driver::{DeviceBuffer, LaunchShape, MappedWords};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long the kernel polls.
const LENGTH: Duration = Duration::from_secs(2);
/// The word of the quad that changes, the last.
const WORD: usize = 3;
/// Where the kernel counts, in words.
const COUNTS: usize = 16;

pub fn check(rig: &Rig) -> Outcome {
    println!("\na warp that loads one place of the host's memory, which changes meanwhile:");
    let memory = MappedWords::new(&rig.context, 2 * COUNTS)?;
    let zeros = DeviceBuffer::new(&rig.stream, 32 * 4)?;
    zeros.fill(0)?;
    let (words, at) = (memory.words(), memory.device_pointer().0);
    let arguments = [at, zeros.pointer().0, at + 4 * COUNTS as u64, LENGTH.as_nanos() as u64];
    let shape = LaunchShape::new([1, 1, 1], [32, 1, 1]);
    // SAFETY: the quad, a zero for each lane and four words to count in, which live until the
    // kernel has ended: this waits for it below.
    unsafe { rig.function("lanes")?.launch(&rig.stream, &shape, &arguments)? };
    let mut number = 0u32;
    while !rig.stream.is_idle()? {
        for _ in 0..1000 {
            number = number.wrapping_add(1);
            words[WORD].store(number, Ordering::Relaxed);
        }
    }
    let [turns, changes, quads, singles] =
        std::array::from_fn(|count| words[COUNTS + count].load(Ordering::Acquire));
    println!("  {turns} turns, {changes} with a new word; lanes differ: {quads} quads, {singles} words");
    ensure(changes > 1000, "the word changed while the warp looked")?;
    ensure(quads == 0 && singles == 0, "all lanes of a warp get what one of them gets")
}
