//! Whether the lanes of a warp that load from one address get one value, while the host changes it.
//!
//! NVIDIA's assembler takes what a warp loads from one address for the same in all lanes, volatile
//! loads included: it leaves out a broadcast of such a value, and the rendezvous behind a branch on
//! it. So a kernel that polls memory of the host relies on that.

use crate::rig::{Outcome, Rig, ensure};
use kiln_cuda::driver::{DeviceBuffer, LaunchShape, MappedWords};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long the kernels poll.
const LENGTH: Duration = Duration::from_secs(2);
/// The word of a quad that changes.
const WORD: usize = 3;

pub fn check(rig: &Rig) -> Outcome {
    println!("\na warp that loads one place of the host's memory, which changes meanwhile:");
    // The word by itself stands where it does in the quad.
    for (what, name, first) in [("a quad", "lanes_of_a_quad", 0), ("a word", "lanes_of_a_word", WORD)] {
        let memory = MappedWords::new(&rig.context, 64)?;
        let (words, counts) = (memory.words(), 16);
        let zeros = DeviceBuffer::new(&rig.stream, 32 * 4)?;
        zeros.fill(0)?;
        let at = memory.device_pointer().0;
        let arguments =
            [at + 4 * first as u64, zeros.pointer().0, at + 4 * counts as u64, LENGTH.as_nanos() as u64];
        let shape = LaunchShape::new([1, 1, 1], [32, 1, 1]);
        // SAFETY: the quad, a zero for each lane and three words to count in, which live until the
        // kernel has ended: this waits for it below.
        unsafe { rig.function(name)?.launch(&rig.stream, &shape, &arguments)? };
        let mut number = 0u32;
        while !rig.stream.is_idle()? {
            for _ in 0..1000 {
                number = number.wrapping_add(1);
                words[WORD].store(number, Ordering::Relaxed);
            }
        }
        let [loads, changes, split] = [0, 1, 2].map(|word| words[counts + word].load(Ordering::Acquire));
        println!(
            "  {what}: {loads} loads, {changes} of another value than before, {split} of several values"
        );
        ensure(changes > 1000, "the word changed while the warp looked")?;
        ensure(split == 0, "all lanes of a warp get what one of them gets")?;
    }
    Ok(())
}
