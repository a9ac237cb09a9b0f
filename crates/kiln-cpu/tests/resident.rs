//! Resident kernels on the CPU device, and the memory that they share with the host.

use kiln_backend::{
    Backend, BufferBinding, DevicePtr, Error, FaultKind, LaunchArguments, Mapped, MappedMemory, MappedPlace,
    Program, Residency, ResidentId, Residents, StreamId,
};
use kiln_cpu::CpuBackend;
use kiln_ir::parse;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const STREAM: StreamId = StreamId(0);
const STOP: u32 = u32::MAX;
const BAD: u32 = u32::MAX - 1;
/// Long enough for any machine, and no test waits for it unless it fails.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// Each block answers its own word with twice the word, until it is commanded to stop; it faults at
/// `BAD`.
const ECHO: &str =
    "kernel @echo(%in: mut view<u32, 1, global>, %out: mut view<u32, 1, global>) thread [1, 1, 1] {
  %block = program_id x : i64
  %zero = const 0 : u32
  %two = const 2 : u32
  %stop = const 4294967295 : u32
  %bad = const 4294967294 : u32
  %last = while (%seen = %zero) : u32 {
    %more = ne %seen, %stop : bool
    condition %more
  } do (%before) {
    %word = atomic.add.system.check %in[%block] = %zero : u32
    %fine = ne %word, %bad : bool
    assert %fine, \"a bad word: {}\", %word
    %reply = mul %word, %two : u32
    %old = atomic.exchange.system.check %out[%block] = %reply : u32
    yield %word
  }
}
";

struct Rig {
    cpu: CpuBackend,
    program: Arc<dyn Program>,
    inbox: Mapped,
    outbox: Mapped,
}

impl Rig {
    fn new() -> Rig {
        let cpu = CpuBackend::with_threads(2);
        let program = cpu.compile(&parse(ECHO).unwrap_or_else(|e| panic!("{e}"))).unwrap().program;
        let inbox = cpu.map(64, MappedPlace::Device).unwrap();
        let outbox = cpu.map(64, MappedPlace::Host).unwrap();
        Rig { cpu, program, inbox, outbox }
    }

    fn launch(&self, blocks: u32) -> kiln_backend::Result<ResidentId> {
        let arguments = two_views(self.inbox.device, self.outbox.device, 0, blocks);
        // SAFETY: the views are in the rig's memory, which outlives the launch: every test waits
        // for its end.
        unsafe { self.cpu.launch_resident(&self.program, arguments.launch([blocks, 1, 1], STREAM)) }
    }

    fn send(&self, block: usize, word: u32) {
        words(&self.inbox)[block].store(word, Ordering::Release);
    }

    /// Waits for an answer.
    #[track_caller]
    fn expect(&self, block: usize, word: u32) {
        let begun = Instant::now();
        while words(&self.outbox)[block].load(Ordering::Acquire) != word {
            assert!(begun.elapsed() < PATIENCE, "block {block} does not answer {word}");
            std::thread::yield_now();
        }
    }
}

/// Vectors of so many words: at the start of a buffer, and so many bytes from that of another.
fn two_views(first: DevicePtr, second: DevicePtr, byte_offset: u64, words: u32) -> LaunchArguments {
    let second = BufferBinding::write(second).at(byte_offset);
    LaunchArguments::new().view(BufferBinding::write(first), &[words.into()]).view(second, &[words.into()])
}

impl Drop for Rig {
    fn drop(&mut self) {
        for mapped in [&self.inbox, &self.outbox] {
            let Mapped { host, device, bytes, place, write_combined } = *mapped;
            // SAFETY: allocated here, and no launch runs any more.
            unsafe { self.cpu.unmap(Mapped { host, device, bytes, place, write_combined }) };
        }
    }
}

fn words(mapped: &Mapped) -> &[AtomicU32] {
    // SAFETY: aligned, as long as said, initialized, and accessed atomically by both sides.
    unsafe { std::slice::from_raw_parts(mapped.host.as_ptr().cast(), mapped.bytes / 4) }
}

#[test]
fn mapped_memory_is_zero_aligned_and_of_both_kinds() {
    let cpu = CpuBackend::new();
    assert!(cpu.mapped_places().host.is_ok() && cpu.mapped_places().device.is_ok());
    for (bytes, place) in [(1, MappedPlace::Host), (4097, MappedPlace::Device), (5 << 20, MappedPlace::Host)]
    {
        let mapped = cpu.map(bytes, place).unwrap();
        assert_eq!((mapped.bytes, mapped.place, mapped.write_combined), (bytes, place, false));
        assert!(mapped.device.0.is_multiple_of(256) && mapped.host.as_ptr() as u64 == mapped.device.0);
        // SAFETY: as long as said, and used by nothing else.
        let held = unsafe { std::slice::from_raw_parts_mut(mapped.host.as_ptr(), bytes) };
        assert!(held.iter().all(|&byte| byte == 0));
        held.fill(0xa5);
        // SAFETY: allocated above, not used again.
        unsafe { cpu.unmap(mapped) };
    }
    assert!(cpu.map(usize::MAX, MappedPlace::Host).is_err());
}

#[test]
fn blocks_run_beside_the_host_until_they_are_told_to_leave() {
    let rig = Rig::new();
    assert_eq!(rig.cpu.properties().residency, Residency::Beside);
    // More blocks than cores, each of which must get its turn.
    let id = rig.launch(5).unwrap();
    for round in 1..50 {
        for block in 0..5 {
            rig.send(block, round * 100 + block as u32);
        }
        for block in 0..5 {
            rig.expect(block, 2 * (round * 100 + block as u32));
        }
    }
    assert!(!rig.cpu.resident_done(id).unwrap());
    let begun = Instant::now();
    assert!(!rig.cpu.resident_wait(id, Duration::from_millis(20)).unwrap());
    assert!(begun.elapsed() >= Duration::from_millis(20));
    // A synchronization waits for none of it.
    rig.cpu.synchronize(STREAM).unwrap();
    (0..4).for_each(|block| rig.send(block, STOP));
    assert!(!rig.cpu.resident_wait(id, Duration::from_millis(20)).unwrap());
    rig.send(4, STOP);
    assert!(rig.cpu.resident_wait(id, PATIENCE).unwrap());
    assert!(rig.cpu.resident_done(id).unwrap(), "it stays over");
}

#[test]
fn two_launches_share_the_device_with_ordinary_ones() {
    let (first, second) = (Rig::new(), Rig::new());
    let cpu = &first.cpu;
    let (one, two) = (first.launch(1).unwrap(), second.launch(1).unwrap());
    first.send(0, 4);
    first.expect(0, 8);
    // An ordinary launch of the same program, whose word says stop from the beginning.
    let memory = cpu.map(8, MappedPlace::Host).unwrap();
    words(&memory)[0].store(STOP, Ordering::Release);
    let arguments = two_views(memory.device, memory.device, 4, 1);
    // SAFETY: the views are the memory's two words.
    unsafe { cpu.launch(&*first.program, arguments.launch([1, 1, 1], STREAM)) }.unwrap();
    assert_eq!(words(&memory)[1].load(Ordering::Acquire), STOP.wrapping_mul(2));
    second.send(0, 6);
    second.expect(0, 12);
    first.send(0, STOP);
    assert!(cpu.resident_wait(one, PATIENCE).unwrap());
    assert!(!second.cpu.resident_done(two).unwrap());
    second.send(0, STOP);
    assert!(second.cpu.resident_wait(two, PATIENCE).unwrap());
    // SAFETY: allocated above, not used again.
    unsafe { cpu.unmap(memory) };
}

#[test]
fn a_fault_ends_its_block_and_is_reported_once_at_the_end() {
    let rig = Rig::new();
    let id = rig.launch(2).unwrap();
    rig.send(1, BAD);
    rig.send(0, 7);
    rig.expect(0, 14);
    assert!(!rig.cpu.resident_wait(id, Duration::from_millis(20)).unwrap(), "block 0 goes on");
    rig.send(0, STOP);
    match rig.cpu.resident_wait(id, PATIENCE) {
        Err(Error::Fault(fault)) => {
            assert_eq!(fault.kind, FaultKind::Assert { message: "a bad word: 4294967294".into() });
            assert_eq!(fault.block, [1, 0, 0]);
        }
        other => panic!("expected a fault, got {other:?}"),
    }
    assert!(rig.cpu.resident_done(id).unwrap());
    rig.cpu.synchronize(STREAM).unwrap();
}

#[test]
fn bad_requests_are_errors() {
    let rig = Rig::new();
    assert!(matches!(rig.launch(1025), Err(Error::LaunchLimit { given: 1025, limit: 1024, .. })));
    assert!(matches!(rig.cpu.resident_done(ResidentId(0)), Err(Error::Internal { .. })));
    let arguments = LaunchArguments::new().view(BufferBinding::write(DevicePtr(1)), &[2]);
    let launch = arguments.launch([1, 1, 1], STREAM);
    // SAFETY: refused for the number of arguments.
    assert!(matches!(unsafe { rig.cpu.launch_resident(&rig.program, launch) }, Err(Error::Internal { .. })));
    let empty = rig.launch(0).unwrap();
    assert!(rig.cpu.resident_wait(empty, PATIENCE).unwrap(), "no blocks are over at once");
    let error = (&rig.cpu as &dyn Backend).need_peers().err().unwrap().to_string();
    assert!(error.starts_with("peer access of cpu is not available: the device does not have it"), "{error}");
}

/// The backend, and the handle to the program, may go while the kernel runs.
#[test]
fn a_launch_outlives_the_device() {
    let memory = Box::leak(Box::new([const { AtomicU32::new(0) }; 2]));
    let at = DevicePtr(memory.as_ptr() as u64);
    let cpu = CpuBackend::with_threads(1);
    let program = cpu.compile(&parse(ECHO).unwrap_or_else(|e| panic!("{e}"))).unwrap().program;
    // SAFETY: the views are memory that is never freed.
    unsafe { cpu.launch_resident(&program, two_views(at, at, 4, 1).launch([1, 1, 1], STREAM)) }.unwrap();
    drop((cpu, program));
    memory[0].store(21, Ordering::Release);
    let begun = Instant::now();
    while memory[1].load(Ordering::Acquire) != 42 {
        assert!(begun.elapsed() < PATIENCE);
    }
    memory[0].store(STOP, Ordering::Release);
}
