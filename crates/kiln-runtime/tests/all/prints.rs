//! Print sinks that do what they should not: none ends the process or waits for itself.

use crate::kernels::assert_works;
use kiln_backend::{Backend, Error as DeviceError};
use kiln_interp::Interp;
use kiln_lang::prelude::*;
use kiln_runtime::{Device, DiskCache, Error, Tensor};
use std::sync::{Arc, Mutex};

#[kernel(crate = kiln_runtime)]
fn speaking(y: &mut Tensor<f32, 1>) {
    let at = program_id(0) * 4;
    device_print!("program at {}", at);
    y.tile(at, 4).store(y.tile(at, 4).load(0.0) + 1.0);
}

/// Devices of the test's own, so that no other test prints there.
fn devices() -> Vec<Device> {
    let backends: [Box<dyn Backend>; 4] = [
        Box::new(Interp::new(kiln_interp::Options::default())),
        Box::new(Interp::new(kiln_interp::Options { sanitize: true, ..Default::default() })),
        Box::new(kiln_cpu::CpuBackend::with_threads(1)),
        Box::new(kiln_cpu::CpuBackend::with_threads(3)),
    ];
    backends.into_iter().map(|backend| Device::with_backend(backend, DiskCache::none())).collect()
}

#[test]
fn a_sink_that_panics_is_an_error_of_the_next_synchronization() {
    for device in devices() {
        device.backend().set_print_sink(Arc::new(|line| std::panic::panic_any(format!("no `{line}`"))));
        let mut y = device.zeros([8]).unwrap();
        speaking(&mut y).launch(&device).unwrap();
        let error = device.synchronize().unwrap_err();
        let Error::Device(DeviceError::PrintSink { device: id, message }) = &error else { panic!("{error}") };
        assert!(id == device.id() && message.starts_with("no `program at "), "{error}");
        device.synchronize().unwrap();
        assert_eq!(y.to_vec().unwrap(), [1.0; 8], "the kernel has gone on");
        assert_works(&device);
    }
}

/// What a sink can do with a device and a tensor that the launch which prints has locked.
#[test]
fn devices_are_not_used_from_inside_a_sink() {
    for device in devices() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut y = device.zeros::<f32, 1>([4]).unwrap();
        let (kept, inside, same) = (seen.clone(), device.clone(), y.alias());
        let given = Mutex::new(Some(device.tensor(&[1.0f32; 4], [4]).unwrap()));
        device.backend().set_print_sink(Arc::new(move |_| {
            let mut new = given.lock().unwrap();
            let Some(other) = new.take() else { return };
            let mut same = same.alias();
            let outcomes = [
                speaking(&mut same).launch(&inside),
                same.to_vec().map(drop),
                same.write(&[1.0; 4]),
                other.to_vec().map(drop),
                other.copy().map(drop),
                same.with_host(|_| ()),
            ];
            let _ = same.residency();
            // Dropping is allowed.
            drop((other, same));
            kept.lock().unwrap().extend(outcomes.map(|outcome| outcome.err().map(|error| error.to_string())));
        }));
        let free = device.free_memory().unwrap();
        speaking(&mut y).launch(&device).unwrap();
        device.synchronize().unwrap();
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(seen.len(), 6);
        for error in seen {
            let error = error.expect("refused");
            assert!(error.contains("from inside a print sink") && error.contains(device.id()), "{error}");
        }
        assert_eq!(y.to_vec().unwrap(), [1.0; 4]);
        if device.id() == "interp" {
            assert!(device.free_memory().unwrap() > free, "what was dropped there is free");
        }
        device.backend().set_print_sink(Arc::new(|_| {}));
        assert_works(&device);
    }
}

#[test]
fn a_sink_that_is_replaced_while_it_prints() {
    for device in devices() {
        let inside = device.clone();
        device.backend().set_print_sink(Arc::new(move |_| inside.backend().set_print_sink(Arc::new(|_| {}))));
        let mut y = device.zeros([64]).unwrap();
        speaking(&mut y).launch(&device).unwrap();
        assert_eq!(y.to_vec().unwrap(), [1.0; 64]);
    }
}

/// `prog | head -1`: the reader of the standard output goes. In a process of its own, whose output
/// no other test needs.
#[cfg(unix)]
#[test]
fn a_closed_pipe_ends_nobody() {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "prints::prints_into_a_closed_pipe", "--ignored", "--nocapture"]);
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{output:?}");
}

#[cfg(unix)]
#[test]
#[ignore = "`a_closed_pipe_ends_nobody` runs it in a process of its own"]
fn prints_into_a_closed_pipe() {
    use std::os::fd::AsRawFd;
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    // SAFETY: descriptors of this process; standard output is put back below.
    let (kept, replaced) = unsafe { (libc::dup(1), libc::dup2(writer.as_raw_fd(), 1)) };
    assert!(kept > 2 && replaced == 1);
    let outcomes: Vec<_> = devices()
        .iter()
        .map(|device| {
            let mut y = device.zeros([64])?;
            speaking(&mut y).launch(device)?;
            device.synchronize()?;
            y.to_vec()
        })
        .collect();
    // SAFETY: as above.
    unsafe { libc::dup2(kept, 1) };
    for outcome in outcomes {
        assert_eq!(outcome.unwrap(), [1.0; 64]);
    }
}
