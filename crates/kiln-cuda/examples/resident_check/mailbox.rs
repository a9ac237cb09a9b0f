//! Round trips of a 48-byte payload to a resident kernel, through each kind of mapped memory,
//! beside what a launch costs. The clock starts before the first byte is written and stops when the
//! answer is verified.

use crate::rig::{Outcome, Rig, ensure, timed};
use kiln_cuda::driver::{Bar, BarBuffer, DeviceBuffer, Graph, LaunchShape, PinnedBuffer, Stream};
use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const TRIPS: u32 = 100_000;
/// The first ones are not counted.
const WARM: u32 = 2000;
/// Words of a slot.
const SLOT: usize = 16;

type Slot = [u32; SLOT];

/// How the host writes a slot.
#[derive(Clone, Copy)]
enum Store {
    /// Ordinary 16-byte stores.
    Plain,
    /// Streaming 16-byte stores and a store fence.
    Stream16,
    /// A streaming 64-byte store and a store fence.
    Stream64,
}

pub fn measure(rig: &Rig) -> Outcome {
    println!("\nround trips of 48 bytes, {TRIPS} each:");
    let outbox = PinnedBuffer::new(&rig.context, 64)?;
    let pinned = PinnedBuffer::new(&rig.context, 64)?;
    let bar = match timed(|| Bar::open(rig.context.device())) {
        Ok((bar, took)) => {
            println!(
                "  the GPU is open in Vulkan after {took:.1?}, with {} MiB to map",
                bar.heap_bytes() >> 20
            );
            let (buffer, took) = timed(|| BarBuffer::new(&rig.stream, &bar, 64))?;
            println!(
                "  GPU memory is mapped after {took:.1?}, write-combined: {}",
                buffer.is_write_combined()
            );
            Some(buffer)
        }
        Err(obstacle) => {
            println!("  no GPU memory through the BAR: {obstacle}. {}", obstacle.hint());
            None
        }
    };
    let stores = [
        ("plain stores", Store::Plain),
        ("16-byte streaming", Store::Stream16),
        ("64-byte streaming", Store::Stream64),
    ];
    for (name, store) in stores {
        if !store.exists() {
            continue;
        }
        let inbox =
            SlotAddress { host: pinned.host_pointer().as_ptr().cast(), device: pinned.device_pointer().0 };
        report(&format!("pinned host memory, {name}"), trips(rig, &inbox, &outbox, store)?);
        if let Some(buffer) = &bar {
            let inbox = SlotAddress {
                host: buffer.host_pointer().as_ptr().cast(),
                device: buffer.device_pointer().0,
            };
            report(&format!("GPU memory through the BAR, {name}"), trips(rig, &inbox, &outbox, store)?);
        }
    }
    baselines(rig)
}

/// The two addresses of a slot.
struct SlotAddress {
    host: *mut u32,
    device: u64,
}

fn message(i: u32) -> Slot {
    std::array::from_fn(|at| if at % 4 == 3 { i } else { i.wrapping_mul(31).wrapping_add(at as u32) })
}

fn trips(
    rig: &Rig,
    inbox: &SlotAddress,
    outbox: &PinnedBuffer,
    store: Store,
) -> Result<Vec<Duration>, Box<dyn Error>> {
    // SAFETY: 16 words, aligned, zeroed, and accessed by the host through atomics alone while the
    // kernel runs.
    let answers =
        unsafe { std::slice::from_raw_parts(outbox.host_pointer().as_ptr().cast::<AtomicU32>(), SLOT) };
    answers.iter().for_each(|word| word.store(0, Ordering::Release));
    // SAFETY: the slot is mapped; no kernel runs yet.
    unsafe { store.write(inbox.host, &[0; SLOT]) };
    let arguments =
        [inbox.device, outbox.device_pointer().0, TRIPS.into(), Duration::from_secs(20).as_nanos() as u64];
    let shape = LaunchShape::new([1, 1, 1], [32, 1, 1]);
    // SAFETY: both slots have 64 bytes and outlive the kernel, which is waited for.
    unsafe { rig.function("echo")?.launch(&rig.resident, &shape, &arguments)? };
    let mut times = Vec::with_capacity(TRIPS as usize);
    let mut outcome = Ok(());
    for i in 1..=TRIPS {
        let slot = message(i);
        let begun = Instant::now();
        // SAFETY: the slot is mapped, and this thread alone writes it.
        unsafe { store.write(inbox.host, &slot) };
        if !answered(answers, i) {
            outcome = Err(format!("no answer to message {i}: {:?}", answers[3].load(Ordering::Relaxed)));
            break;
        }
        let right = answers.iter().enumerate().all(|(at, word)| {
            let sent = if at % 4 == 0 { slot[at].wrapping_add(1) } else { slot[at] };
            word.load(Ordering::Relaxed) == sent
        });
        let took = begun.elapsed();
        if !right {
            outcome = Err(format!("a wrong answer to message {i}"));
            break;
        }
        if i > WARM {
            times.push(took);
        }
    }
    rig.resident.synchronize()?;
    outcome?;
    Ok(times)
}

/// Waits until all four stamps are there.
fn answered(answers: &[AtomicU32], stamp: u32) -> bool {
    let begun = Instant::now();
    for piece in 0..4 {
        let word = &answers[4 * piece + 3];
        let mut polls = 0u32;
        while word.load(Ordering::Acquire) != stamp {
            polls += 1;
            if polls.is_multiple_of(1 << 16) && begun.elapsed() > Duration::from_secs(2) {
                return false;
            }
        }
    }
    true
}

impl Store {
    #[cfg(target_arch = "x86_64")]
    fn exists(self) -> bool {
        !matches!(self, Store::Stream64) || std::is_x86_feature_detected!("avx512f")
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn exists(self) -> bool {
        matches!(self, Store::Plain)
    }

    /// # Safety
    /// `to` is writable for 64 bytes, a multiple of 64, and the kind of store exists.
    #[cfg(target_arch = "x86_64")]
    unsafe fn write(self, to: *mut u32, slot: &Slot) {
        use std::arch::x86_64::*;
        // SAFETY: the caller's promise; the slot is read unaligned.
        unsafe {
            match self {
                Store::Stream64 => stream64(to, slot),
                Store::Stream16 | Store::Plain => {
                    for piece in 0..4 {
                        let value = _mm_loadu_si128(slot.as_ptr().add(4 * piece).cast());
                        let at = to.add(4 * piece).cast::<__m128i>();
                        match self {
                            Store::Plain => at.write_volatile(value),
                            _ => _mm_stream_si128(at, value),
                        }
                    }
                }
            }
            _mm_sfence();
        }
    }

    /// # Safety
    /// As above.
    #[cfg(not(target_arch = "x86_64"))]
    unsafe fn write(self, to: *mut u32, slot: &Slot) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[u128; 4]>().write_volatile(std::mem::transmute::<Slot, [u128; 4]>(*slot)) };
        std::sync::atomic::fence(Ordering::SeqCst);
    }
}

/// # Safety
/// The processor has AVX-512; `to` is writable for 64 bytes and a multiple of 64.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn stream64(to: *mut u32, slot: &Slot) {
    use std::arch::x86_64::*;
    // SAFETY: the caller's promise.
    unsafe { _mm512_stream_si512(to.cast(), _mm512_loadu_si512(slot.as_ptr().cast())) };
}

/// The same answer by launches: copy in, launch, copy out, wait; and the three as one graph.
fn baselines(rig: &Rig) -> Outcome {
    let stream = &rig.stream;
    let (mut inbox, outbox) = (PinnedBuffer::new(&rig.context, 64)?, PinnedBuffer::new(&rig.context, 64)?);
    let (a, b) = (DeviceBuffer::new(stream, 64)?, DeviceBuffer::new(stream, 64)?);
    let kernel = rig.function("answer_once")?;
    let (at, to) = (a.pointer(), b.pointer());
    let inbox_at = inbox.host_pointer().as_ptr().cast::<Slot>();
    let enqueue = |stream: &Stream| -> kiln_cuda::driver::Result<()> {
        // SAFETY: all of 64 bytes, alive until the wait after each run.
        unsafe {
            stream.upload_pinned(at, &inbox, 0..64)?;
            kernel.launch(stream, &LaunchShape::new([1, 1, 1], [16, 1, 1]), &[at.0, to.0])?;
            stream.download_pinned(&outbox, 0..64, to)
        }
    };
    let graph = Graph::capture(stream, enqueue)?;
    let launch = |stream: &Stream| {
        // SAFETY: as above.
        unsafe { graph.launch(stream) }
    };
    type Enqueue<'a> = &'a dyn Fn(&Stream) -> kiln_cuda::driver::Result<()>;
    let ways: [(&str, Enqueue<'_>); 2] =
        [("copy, launch, copy, wait", &enqueue), ("the same as a graph", &launch)];
    for (name, way) in ways {
        let mut times = Vec::new();
        for i in 1..=20_000 {
            let slot = message(i);
            let begun = Instant::now();
            // SAFETY: pinned memory of 64 bytes that nothing uses between two runs.
            unsafe { inbox_at.write_volatile(slot) };
            way(stream)?;
            stream.synchronize()?;
            // SAFETY: as above.
            let answer = unsafe { outbox.host_pointer().as_ptr().cast::<Slot>().read_volatile() };
            let right = (0..SLOT)
                .all(|at| answer[at] == if at % 4 == 0 { slot[at].wrapping_add(1) } else { slot[at] });
            let took = begun.elapsed();
            ensure(right, "the launch answers")?;
            if i > WARM {
                times.push(took);
            }
        }
        report(name, times);
    }
    inbox.as_mut_slice().fill(0);
    Ok(())
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at =
        |per_mille: usize| times[(times.len() * per_mille / 1000).min(times.len() - 1)].as_secs_f64() * 1e6;
    println!("  {name:<48} p50 {:6.2}  p99 {:6.2}  p99.9 {:6.2} us", at(500), at(990), at(999));
}
