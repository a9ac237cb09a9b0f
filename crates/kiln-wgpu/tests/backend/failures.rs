//! Memory that runs out, limits, and a device that is lost: errors by name, with the process alive.

use crate::{Outcome, STREAM, Test, compiled, downloaded, ensure, text, uploaded, vector};
use kiln_backend::{Backend, BufferBinding, DevicePtr, Error, LaunchArguments};
use kiln_wgpu::Wgpu;

pub const TESTS: &[Test] = &[
    ("memory_runs_out", memory_runs_out),
    ("large_blocks_are_refused", large_blocks_are_refused),
    ("wrong_arguments_are_refused", wrong_arguments_are_refused),
    ("a_lost_device_says_so", a_lost_device_says_so),
];

fn memory_runs_out(device: &Wgpu) -> Outcome {
    for bytes in [1usize << 50, usize::MAX] {
        match device.allocate(bytes, STREAM) {
            Err(Error::OutOfMemory { requested, total, .. }) => {
                ensure(requested == bytes as u64 && total > 0, || format!("{requested} of {total}"))?;
            }
            other => return Err(format!("{bytes} bytes: {other:?}")),
        }
    }
    // The device is usable.
    let memory = uploaded(device, &[9; 10])?;
    ensure(downloaded(device, memory, 10)? == [9; 10], || "other bytes".into())
}

fn large_blocks_are_refused(device: &Wgpu) -> Outcome {
    let threads = "kernel @wide(%x: mut view<f32, 1, global>) thread [32, 1, 32] {
  %0 = const 0 : i64
  %1 = const 1.0 : f32
  view_store.x1 %x[%0] = %1
}";
    let most = device.properties().max_threads;
    let refused = compiled(device, threads);
    match refused {
        Ok(_) => ensure(most >= 1024, || "1024 threads were taken".into()),
        Err(error) => ensure(error.contains("threads per block"), || error),
    }
}

fn wrong_arguments_are_refused(device: &Wgpu) -> Outcome {
    let program = compiled(
        device,
        "kernel @one(%x: mut view<f32, 1, global>) thread [1, 1, 1] {
  %0 = const 0 : i64
  %1 = const 1.0 : f32
  view_store.x1 %x[%0] = %1
}",
    )?;
    let memory = uploaded(device, &[0; 16])?;
    let view = BufferBinding::write(memory);
    let wrong = [
        LaunchArguments::new(),
        LaunchArguments::new().view(view, &[1]).view(view, &[1]),
        LaunchArguments::new().view(view, &[1]).scalar(1),
        vector(DevicePtr(memory.0 + (77 << 40)), 1),
        vector(DevicePtr(memory.0 + 2), 1),
        LaunchArguments::new().view(view.at(2), &[1]),
    ];
    for arguments in &wrong {
        // SAFETY: not what the call asks for: that it is found out is what is tested.
        let outcome = unsafe { device.launch(&*program, arguments.launch([1; 3], STREAM)) };
        ensure(outcome.is_err(), || format!("{arguments:?} was launched"))?;
    }
    device.synchronize(STREAM).map_err(text)
}

fn a_lost_device_says_so(device: &Wgpu) -> Outcome {
    let memory = uploaded(device, &[1; 64])?;
    // SAFETY: the memory has 64 bytes.
    unsafe { device.fill(memory, 2, 64, STREAM) }.map_err(text)?;
    device.destroy();
    let mut bytes = [0; 64];
    // SAFETY: as above; nothing is touched any more.
    let outcomes = unsafe {
        [
            device.synchronize(STREAM),
            device.allocate(16, STREAM).map(drop),
            device.upload(memory, &[1; 64], STREAM),
            device.download(&mut bytes, memory, STREAM),
            device.record(STREAM, true).map(drop),
        ]
    };
    for outcome in outcomes {
        let lost = matches!(&outcome, Err(Error::Lost { device, .. }) if device == "wgpu:0");
        ensure(lost, || format!("{outcome:?}"))?;
    }
    // SAFETY: the allocation above, once.
    unsafe { device.free(memory, 64, STREAM) };
    // Another one works.
    let again = Wgpu::open("wgpu").map_err(text)?;
    let memory = uploaded(&again, &[3; 5])?;
    ensure(downloaded(&again, memory, 5)? == [3; 5], || "other bytes".into())
}
