//! Faults and prints, each reported by the stream that it happened in.

use crate::{Outcome, STREAM, Test, compiled, ensure, text};
use kiln_backend::{Backend, Error, Fault, FaultKind, LaunchArguments, StreamId};
use kiln_wgpu::Wgpu;
use std::sync::{Arc, Mutex, PoisonError};

pub const TESTS: &[Test] = &[
    ("faults_are_of_their_stream", faults_are_of_their_stream),
    ("the_first_fault_is_reported", the_first_fault_is_reported),
    ("prints_arrive", prints_arrive),
    ("devices_are_not_used_inside_a_sink", devices_are_not_used_inside_a_sink),
];

const POSITIVE: &str = "file \"k.rs\"
kernel @positive(%n: i32) thread [32, 1, 1] {
  %0 = const 0 : i32
  %1 = gt %n, %0 : bool
  assert %1, \"n is {}\", %n @0:7:5
}";

const SAY: &str = "kernel @say(%n: i32) thread [1, 1, 1] {
  print \"n = {}\", %n
}";

/// Launches a kernel of one number.
fn launch(device: &Wgpu, source: &str, n: i32, stream: StreamId) -> Outcome {
    let program = compiled(device, source)?;
    let arguments = LaunchArguments::new().scalar(u64::from(n as u32));
    // SAFETY: the kernel touches no memory.
    unsafe { device.launch(&*program, arguments.launch([2, 1, 1], stream)) }.map_err(text)
}

/// Fails unless a stream reports that `n` had this value.
fn expect(device: &Wgpu, stream: StreamId, n: i32) -> Outcome {
    match device.synchronize(stream) {
        Err(Error::Fault(fault)) => {
            let Fault { kind, location, block, .. } = *fault;
            let FaultKind::Assert { message } = kind else { return Err(format!("{kind:?}")) };
            ensure(message == format!("n is {n}") && location == "k.rs:7:5" && block[0] < 2, || {
                format!("{message} at {location} in block {block:?}, expected {n}")
            })
        }
        other => Err(format!("{other:?}, expected a fault for {n}")),
    }
}

fn faults_are_of_their_stream(device: &Wgpu) -> Outcome {
    let [a, b] = [device.create_stream().map_err(text)?, device.create_stream().map_err(text)?];
    launch(device, POSITIVE, -1, a)?;
    launch(device, POSITIVE, -2, b)?;
    launch(device, POSITIVE, 3, STREAM)?;
    device.synchronize(STREAM).map_err(text)?;
    expect(device, b, -2)?;
    expect(device, a, -1)?;
    for stream in [STREAM, a, b] {
        device.synchronize(stream).map_err(text)?;
    }
    // The fault of a stream that is gone is the default stream's.
    launch(device, POSITIVE, -4, a)?;
    device.destroy_stream(a);
    expect(device, STREAM, -4)?;
    device.synchronize(STREAM).map_err(text)
}

fn the_first_fault_is_reported(device: &Wgpu) -> Outcome {
    for round in 1..4 {
        launch(device, POSITIVE, 1, STREAM)?;
        launch(device, POSITIVE, -round, STREAM)?;
        launch(device, POSITIVE, -100, STREAM)?;
        expect(device, STREAM, -round)?;
        device.synchronize(STREAM).map_err(text)?;
    }
    Ok(())
}

fn prints_arrive(device: &Wgpu) -> Outcome {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = lines.clone();
    device.set_print_sink(Arc::new(move |line| {
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
    }));
    // Beside a fault, in a stream whose report had no room for prints.
    launch(device, POSITIVE, -7, STREAM)?;
    launch(device, SAY, 5, STREAM)?;
    expect(device, STREAM, -7)?;
    for _ in 0..3 {
        launch(device, SAY, 6, STREAM)?;
    }
    device.synchronize(STREAM).map_err(text)?;
    let lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
    let want = ["n = 5"; 2].into_iter().chain(["n = 6"; 6]).collect::<Vec<_>>();
    ensure(*lines == want, || format!("{lines:?}"))
}

fn devices_are_not_used_inside_a_sink(device: &Wgpu) -> Outcome {
    let inner = Arc::new(Wgpu::open("wgpu").map_err(text)?);
    let outcome = Arc::new(Mutex::new(None));
    let (used, seen) = (inner.clone(), outcome.clone());
    device.set_print_sink(Arc::new(move |_| {
        *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(used.synchronize(STREAM));
    }));
    launch(device, SAY, 5, STREAM)?;
    device.synchronize(STREAM).map_err(text)?;
    let outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
    let refused = matches!(outcome, Some(Err(Error::InsidePrintSink { .. })));
    ensure(refused, || format!("{outcome:?}"))
}
