//! Whether the lanes of a warp that load from one address get one value, while the host changes it.
//!
//! NVIDIA's assembler takes what a warp loads from one address for the same in all lanes, volatile
//! loads included: it leaves out a broadcast of such a value, and the rendezvous behind a branch on
//! it. So a kernel that polls memory of the host relies on that, or one that polls its own shared
//! memory, in which another block of the cluster stores.

use crate::rig::{Outcome, Rig, ensure};
use kiln_cuda::driver::{DeviceBuffer, JitOptions, LaunchShape, MappedWords, Module};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long the kernel polls.
const LENGTH: Duration = Duration::from_secs(2);
/// The word of the quad that changes, the last.
const WORD: usize = 3;
/// Where the kernel counts, in words.
const COUNTS: usize = 16;

const CLUSTER: &str = include_str!("../ptx/cluster.ptx");

pub fn check(rig: &Rig) -> Outcome {
    of_the_host(rig)?;
    if rig.context.properties().clusters { near(rig) } else { Ok(()) }
}

fn of_the_host(rig: &Rig) -> Outcome {
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

/// Of shared memory lanes may find different words: what is found is reported, and no failure.
fn near(rig: &Rig) -> Outcome {
    println!("\na warp that loads one place of its shared memory, in which another block stores meanwhile:");
    let (module, _) = Module::from_ptx(&rig.context, "cluster", CLUSTER, &JitOptions::default())?;
    let memory = MappedWords::new(&rig.context, 4)?;
    let zeros = DeviceBuffer::new(&rig.stream, 32 * 4)?;
    zeros.fill(0)?;
    let arguments = [zeros.pointer().0, memory.device_pointer().0, LENGTH.as_nanos() as u64];
    let shape = LaunchShape { cluster: Some([2, 1, 1]), ..LaunchShape::new([2, 1, 1], [32, 1, 1]) };
    // SAFETY: a zero for each lane and four words to count in, which live until the kernel has
    // ended: this waits for it.
    unsafe { module.function("near")?.launch(&rig.stream, &shape, &arguments)? };
    rig.stream.synchronize()?;
    let [turns, changes, quads, torn] =
        std::array::from_fn(|count| memory.words()[count].load(Ordering::Acquire));
    println!(
        "  {turns} turns, {changes} with a new number; lanes differ in {quads}, quads are torn in {torn}"
    );
    ensure(changes > 1000, "the number changed while the warp looked")
}
