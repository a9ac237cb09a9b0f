//! Reads and synchronizations that are awaited.

use crate::{Outcome, STREAM, Test, compiled, ensure, launched, text, uploaded, vector};
use kiln_backend::{Asynchronous, Backend, Error, Later};
use kiln_wgpu::Wgpu;
use pollster::block_on;

pub const TESTS: &[Test] = &[
    ("a_read_gives_what_was_there_when_it_began", a_read_gives_what_was_there_when_it_began),
    ("reads_of_any_bytes", reads_of_any_bytes),
    ("an_awaited_fault_has_its_line", an_awaited_fault_has_its_line),
    ("a_lost_device_ends_what_is_awaited", a_lost_device_ends_what_is_awaited),
    ("an_adapter_opens_later", an_adapter_opens_later),
];

fn read(device: &Wgpu, from: kiln_backend::DevicePtr, bytes: usize) -> Later<'_, Vec<u8>> {
    // SAFETY: the tests ask for bytes of one allocation.
    unsafe { device.download_later(from, bytes, STREAM) }
}

fn a_read_gives_what_was_there_when_it_began(device: &Wgpu) -> Outcome {
    let memory = uploaded(device, &[1; 1000])?;
    let first = read(device, memory, 1000);
    // SAFETY: the memory has 1000 bytes.
    unsafe { device.fill(memory, 2, 1000, STREAM) }.map_err(text)?;
    let second = read(device, memory, 1000);
    // In the other order than they began.
    let (second, first) = (block_on(second).map_err(text)?, block_on(first).map_err(text)?);
    ensure(first == [1; 1000] && second == [2; 1000], || "other bytes".into())
}

fn reads_of_any_bytes(device: &Wgpu) -> Outcome {
    let bytes: Vec<u8> = (0..1003).map(|i| (i * 7 % 251) as u8).collect();
    let memory = uploaded(device, &bytes)?;
    for (start, end) in [(0, 1003), (1, 2), (3, 1002), (1002, 1003), (5, 5)] {
        let from = kiln_backend::DevicePtr(memory.0 + start as u64);
        let found = block_on(read(device, from, end - start)).map_err(text)?;
        ensure(found == bytes[start..end], || format!("bytes {start} to {end}: {found:?}"))?;
    }
    let beyond = block_on(read(device, memory, 1004));
    ensure(beyond.is_err(), || "a byte behind the end was read".into())
}

fn an_awaited_fault_has_its_line(device: &Wgpu) -> Outcome {
    let source = "file \"stencil.rs\"
kernel @checked(%x: mut view<f32, 1, global>) thread [1, 1, 1] {
  %i = const 7 : i64
  %n = extent %x axis 0 : i64
  %in = lt %i, %n : bool
  check_bounds %in, %i, %n @0:12:5
  %v = const 1.0 : f32
  view_store.x1 %x[%i] = %v
}";
    let program = compiled(device, source)?;
    let memory = uploaded(device, &[0; 16])?;
    launched(device, &program, [1; 3], &vector(memory, 4))?;
    match block_on(device.synchronize_later(STREAM)) {
        Err(Error::Fault(fault)) => {
            ensure(fault.location == "stencil.rs:12:5" && fault.kernel == "checked", || fault.to_string())?;
        }
        other => return Err(format!("{other:?}")),
    }
    // It is reported once, and a read reports it in place of its bytes.
    block_on(device.synchronize_later(STREAM)).map_err(text)?;
    launched(device, &program, [1; 3], &vector(memory, 4))?;
    let failed = block_on(read(device, memory, 16));
    ensure(matches!(failed, Err(Error::Fault(_))), || format!("{failed:?}"))?;
    block_on(read(device, memory, 16)).map(drop).map_err(text)
}

fn a_lost_device_ends_what_is_awaited(device: &Wgpu) -> Outcome {
    let memory = uploaded(device, &[1; 64])?;
    let began = read(device, memory, 64);
    device.destroy();
    let after = read(device, memory, 64);
    for outcome in [block_on(began).map(drop), block_on(after).map(drop)] {
        ensure(matches!(outcome, Err(Error::Lost { .. })), || format!("{outcome:?}"))?;
    }
    Ok(())
}

fn an_adapter_opens_later(device: &Wgpu) -> Outcome {
    let opened = block_on(Wgpu::open_later("wgpu")).map_err(text)?;
    let same = opened.properties().name == device.properties().name;
    ensure(same, || format!("{:?}", opened.properties()))?;
    let missing = block_on(Wgpu::open_later("wgpu:9999")).err();
    ensure(matches!(missing, Some(Error::Unavailable { .. })), || format!("{missing:?}"))
}
