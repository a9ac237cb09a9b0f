//! Mapped memory, and resident launches, which the interpreter runs at once.

use crate::harness::*;
use kiln_backend::{
    Backend, BufferBinding, Error, FaultKind, LaunchArguments, Mapped, MappedMemory, MappedPlace, Residency,
    ResidentId, Residents,
};
use kiln_ir::parse;
use std::sync::atomic::{AtomicU32, Ordering};

/// Each block adds its word of `%in` to its word of `%out`, and refuses 13.
const ADD: &str =
    "kernel @add(%in: mut view<u32, 1, global>, %out: mut view<u32, 1, global>) thread [1, 1, 1] {
  %block = program_id x : i64
  %zero = const 0 : u32
  %bad = const 13 : u32
  %word = gather.check %in[%block] pad %zero : u32
  %fine = ne %word, %bad : bool
  assert %fine, \"unlucky\"
  %old = gather.check %out[%block] pad %zero : u32
  %sum = add %old, %word : u32
  scatter.check %out[%block] = %sum
}
";

/// Two vectors of so many words.
fn two_views(first: BufferBinding, second: BufferBinding, words: u64) -> LaunchArguments {
    LaunchArguments::new().view(first, &[words]).view(second, &[words])
}

fn words(mapped: &Mapped) -> &[AtomicU32] {
    // SAFETY: aligned, as long as said, initialized, and accessed atomically by both sides.
    unsafe { std::slice::from_raw_parts(mapped.host.as_ptr().cast(), mapped.bytes / 4) }
}

#[test]
fn mapped_memory_is_zeroed_counted_and_seen_by_both_sides() {
    for host in [Host::new(), Host::sanitizing()] {
        let device = &host.device;
        assert_eq!(device.properties().residency, Residency::Within);
        assert!(device.mapped_places().host.is_ok() && device.mapped_places().device.is_ok());
        let free = device.free_memory().unwrap();
        let (inbox, outbox) =
            (device.map(12, MappedPlace::Device).unwrap(), device.map(12, MappedPlace::Host).unwrap());
        assert_eq!(device.free_memory().unwrap(), free - 24);
        assert!(inbox.device.0.is_multiple_of(256) && !inbox.write_combined);
        assert!(words(&outbox).iter().all(|word| word.load(Ordering::Relaxed) == 0));
        words(&inbox).iter().zip([1, 20, 300]).for_each(|(word, value)| word.store(value, Ordering::Release));
        let program = device.compile(&parse(ADD).unwrap()).unwrap().program;
        let arguments = two_views(BufferBinding::read(inbox.device), BufferBinding::write(outbox.device), 3);
        for round in 1..=3 {
            // SAFETY: the views are the two mappings.
            let id =
                unsafe { device.launch_resident(&program, arguments.launch([3, 1, 1], STREAM)) }.unwrap();
            assert!(device.resident_done(id).unwrap() && device.resident_done(id).unwrap());
            let sums: Vec<u32> = words(&outbox).iter().map(|word| word.load(Ordering::Acquire)).collect();
            assert_eq!(sums, [round, 20 * round, 300 * round]);
        }
        // SAFETY: allocated above, and no longer used.
        unsafe {
            device.unmap(inbox);
            device.unmap(outbox);
        }
        assert_eq!(device.free_memory().unwrap(), free);
    }
}

#[test]
fn a_resident_fault_is_the_launch_s_and_not_the_stream_s() {
    let host = Host::new();
    let device = &host.device;
    let memory = device.map(8, MappedPlace::Host).unwrap();
    words(&memory)[1].store(13, Ordering::Release);
    let program = device.compile(&parse(ADD).unwrap()).unwrap().program;
    let arguments = two_views(BufferBinding::read(memory.device), BufferBinding::write(memory.device), 2);
    // SAFETY: the views are the mapping.
    let id = unsafe { device.launch_resident(&program, arguments.launch([2, 1, 1], STREAM)) }.unwrap();
    device.synchronize(STREAM).unwrap();
    match device.resident_wait(id, std::time::Duration::ZERO) {
        Err(Error::Fault(fault)) => {
            assert_eq!(fault.kind, FaultKind::Assert { message: "unlucky".into() });
            assert_eq!(fault.block, [1, 0, 0]);
        }
        other => panic!("expected a fault, got {other:?}"),
    }
    assert!(device.resident_done(id).unwrap());
    assert!(matches!(device.resident_done(ResidentId(id.0 + 1)), Err(Error::Internal { .. })));
    assert!(matches!(device.map(usize::MAX, MappedPlace::Host), Err(Error::OutOfMemory { .. })));
    assert!(device.peers().is_none() && device.artifacts().is_none());
    // SAFETY: allocated above, and no longer used.
    unsafe { device.unmap(memory) };
}
