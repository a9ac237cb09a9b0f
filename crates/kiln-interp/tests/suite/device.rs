//! The device without kernels: memory, streams, events, limits, bad input.

use crate::harness::*;
use kiln_backend::{Backend, Error, EventId, Execution, LaunchArguments, StreamId};
use kiln_interp::{Interp, Options};
use kiln_ir::*;

#[test]
fn memory_is_counted_aligned_and_bounded() {
    let device = Interp::new(Options { memory: 1000, ..Options::default() });
    let a = device.allocate(600, STREAM).unwrap();
    assert!(a.0.is_multiple_of(256));
    assert_eq!(device.free_memory().unwrap(), 400);
    match device.allocate(500, STREAM) {
        Err(Error::OutOfMemory { requested: 500, free: 400, total: 1000, .. }) => {}
        other => panic!("expected to be out of memory, got {other:?}"),
    }
    // SAFETY: the allocation is `a`, of 600 bytes.
    unsafe { device.free(a, 600, STREAM) };
    assert_eq!(device.free_memory().unwrap(), 1000);
    assert!(device.allocate(1000, STREAM).is_ok());
    assert!(Interp::new(Options::default()).allocate(usize::MAX, STREAM).is_err());
}

#[test]
fn copies_and_fills() {
    let host = Host::new();
    let (a, b) = (host.vector(&[1u8, 2, 3, 4, 5, 6]), host.vector(&[0u8; 6]));
    // SAFETY: the ranges lie in the allocations.
    unsafe {
        host.device.copy(kiln_backend::DevicePtr(b.ptr.0 + 1), a.ptr, 4, STREAM).unwrap();
        host.device.fill(kiln_backend::DevicePtr(b.ptr.0 + 5), 9, 1, STREAM).unwrap();
    }
    assert_eq!(host.read::<u8>(&b), [0, 1, 2, 3, 4, 9]);
    let mut too_long = [0; 7];
    // SAFETY: none; the device finds that the range is too long.
    unsafe {
        assert!(matches!(host.device.download(&mut too_long, a.ptr, STREAM), Err(Error::Driver { .. })));
        assert!(matches!(host.device.upload(a.ptr, &too_long, STREAM), Err(Error::Driver { .. })));
    }
    // Empty copies need no place.
    // SAFETY: nothing is copied.
    unsafe { host.device.upload(a.ptr, &[], STREAM).unwrap() };
}

#[test]
fn fresh_memory_is_poisoned() {
    let host = Host::new();
    assert!(host.read::<f32>(&host.uninit(16, &[4])).iter().all(|v| v.is_nan()));
}

#[test]
fn properties_tell_the_truth() {
    let host = Host::new();
    let p = host.device.properties();
    assert_eq!(
        (p.capabilities.execution, p.id.as_str(), p.warp, p.max_threads),
        (Execution::Interpreted, "interp:fast", 32, 1024)
    );
    assert!(p.unified && !host.device.sanitizes());
    let host = Host::sanitizing();
    assert!(!host.device.properties().unified && host.device.sanitizes());
    assert_eq!(host.device.properties().id, "interp");
    for name in ["interp", "interp:7", "interp:fast", "interp:fast:7"] {
        assert_eq!(Interp::new(Options::named(name).unwrap()).properties().id, name);
    }
    assert!(["interp:", "interp:fast:", "interp:slow", "cpu"].iter().all(|n| Options::named(n).is_none()));
}

#[test]
fn grids_within_the_limits() {
    let kernel = tiles(&[P::View(Scalar::I64, 1)], |b, p| {
        let pid = b.program_id(Axis::X);
        b.store_at(p[0], pid, pid);
    });
    let host = Host::new();
    let out = host.vector(&[-1i64; 2]);
    for (grid, axis, limit) in
        [([1 << 31, 1, 1], "x", i32::MAX as u64), ([1, 65536, 1], "y", 65535), ([0, 1, 65536], "z", 65535)]
    {
        match host.run(&kernel, grid, &args(&[&out])) {
            Err(Error::LaunchLimit { what, given, limit: l, .. }) => {
                assert_eq!((what, l), (format!("grid extent {axis}"), limit));
                assert_eq!(given, u64::from(*grid.iter().max().unwrap()));
            }
            other => panic!("expected a limit, got {other:?}"),
        }
    }
    for empty in [[0, 1, 1], [1, 0, 1], [2, 2, 0]] {
        host.run(&kernel, empty, &args(&[&out])).unwrap();
        assert_eq!(host.read::<i64>(&out), [-1, -1]);
    }
    host.run(&kernel, [2, 1, 1], &args(&[&out])).unwrap();
    assert_eq!(host.read::<i64>(&out), [0, 1]);
}

#[test]
fn kernels_that_do_not_fit_are_refused() {
    let host = Host::new();
    let threads = kernel(Level::Thread { block: [64, 32, 1] }, &[], |_, _| {});
    assert!(matches!(host.device.compile(&threads), Err(Error::Compile { .. })));
    let shared = tiles(&[], |b, _| {
        b.alloc(Space::Shared, Scalar::F64, Shape::new(&[1 << 16]));
    });
    match host.device.compile(&shared) {
        Err(Error::LaunchLimit { what, given, .. }) => {
            assert_eq!((what.as_str(), given), ("shared memory of a block in bytes", 1 << 19));
        }
        other => panic!("expected a limit, got {:?}", other.map(|_| ())),
    }
    let wrong = tiles(&[], |b, _| {
        let (x, y) = (b.index(1), b.f32(1.0));
        b.at(33).binary(BinaryOp::Add, x, y);
    });
    match host.device.compile(&wrong) {
        Err(Error::Compile { kernel, location, message }) => {
            assert_eq!((kernel.as_str(), location.as_str()), ("under_test", "test.rs:33:1"));
            assert!(message.contains("expected i64"), "{message}");
        }
        other => panic!("expected a compile error, got {:?}", other.map(|_| ())),
    }
}

#[test]
fn launches_with_wrong_arguments_are_refused() {
    let host = Host::new();
    let kernel = tiles(&[P::View(Scalar::F32, 2), P::Scalar(Scalar::F32)], |_, _| {});
    match host.run(&kernel, [1; 3], &[Arg::Bits(0)]) {
        Err(Error::Internal { message, .. }) => {
            assert_eq!(message, "`under_test` takes 1 buffers and 5 numbers, not 0 and 1")
        }
        other => panic!("expected an error, got {other:?}"),
    }
}

#[test]
fn no_artifacts() {
    let host = Host::new();
    assert!(host.device.artifacts().is_none());
    let compiled = host.device.compile(&threads(96, &[], |b, _| {
        b.alloc(Space::Shared, Scalar::F32, Shape::new(&[10]));
    }));
    let compiled = compiled.unwrap();
    assert!(compiled.artifact.is_none());
    assert_eq!((compiled.program.report().threads, compiled.program.report().shared), (96, 40));
}

#[test]
fn streams_and_events_are_kept_apart() {
    let host = Host::new();
    let d = &host.device;
    let stream = d.create_stream().unwrap();
    assert_ne!(stream, STREAM);
    let begun = std::time::Instant::now();
    let start = d.record(stream, true).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(3));
    let end = d.record(stream, true).unwrap();
    assert!(d.query(end).unwrap());
    let (there, back) = (d.elapsed_ms(start, end).unwrap(), d.elapsed_ms(end, start).unwrap());
    let most = begun.elapsed().as_secs_f32() * 1e3;
    assert!((3.0..=most + 0.01).contains(&there), "{there} of {most} ms");
    assert_eq!(there, -back);
    d.wait(STREAM, end).unwrap();
    let untimed = d.record(stream, false).unwrap();
    assert!(d.elapsed_ms(start, untimed).is_err());
    d.destroy_event(start);
    assert!(d.query(start).is_err() && d.wait(STREAM, start).is_err() && d.elapsed_ms(start, end).is_err());
    assert!(d.query(EventId(12345)).is_err());
    d.destroy_stream(stream);
    // The number of a destroyed stream means the default stream; one that never existed is refused.
    assert!(d.synchronize(stream).is_ok() && d.record(stream, true).is_ok());
    let never = StreamId(12345);
    assert!(d.synchronize(never).is_err() && d.record(never, true).is_err() && d.allocate(4, never).is_err());
    d.destroy_stream(StreamId(0));
    assert!(d.synchronize(STREAM).is_ok());
    let kernel = tiles(&[], |_, _| {});
    let program = d.compile(&kernel).unwrap().program;
    // SAFETY: the kernel has no parameters.
    let launch = unsafe { d.launch(&*program, LaunchArguments::new().launch([1; 3], never)) };
    assert!(launch.is_err());
}

/// A launch whose registers are larger than the device's memory is refused before any of them is
/// allocated.
#[test]
fn registers_that_do_not_fit_are_out_of_memory() {
    const TILES: u64 = 2000;
    let kernel = tiles(&[], |b, _| {
        for _ in 0..TILES {
            b.iota(Scalar::I64, 1 << 20);
        }
    });
    let device = Interp::new(Options::default());
    let program = device.compile(&kernel).unwrap().program;
    // SAFETY: the kernel has no parameters.
    match unsafe { device.launch(&*program, LaunchArguments::new().launch([1, 1, 1], STREAM)) } {
        Err(Error::OutOfMemory { requested, total, .. }) => {
            assert_eq!(requested, TILES * (8 << 20));
            assert_eq!(total, 8 << 30);
        }
        other => panic!("expected to be out of memory, got {other:?}"),
    }
}
