//! What the backend promises: results, faults, prints, streams, events, artifacts, errors.

use crate::cases::{self, Case, add};
use crate::rig::{DeviceMemory, Outcome, STREAM, compare, compile_and_run, ensure, launch, run};
use kiln_backend::{
    Artifacts, Backend, BufferBinding, DevicePtr, Error, FaultKind, LaunchArguments, Program, StreamId,
};
use kiln_cuda::Cuda;
use kiln_interp::{Interp, Options};
use kiln_ir::{Kernel, parse};
use std::sync::{Arc, Mutex};

/// Vectors of so many elements, which a kernel may write.
pub fn views(memory: &[DevicePtr], elements: u64) -> LaunchArguments {
    memory
        .iter()
        .fold(LaunchArguments::new(), |arguments, &at| arguments.view(BufferBinding::write(at), &[elements]))
}

/// Every case on the GPU and on the interpreter, with and without the facts that a runtime would
/// have of the arguments.
pub fn results(gpu: &Cuda) -> Outcome {
    let interp = Interp::new(Options::default());
    let (mut passed, mut failed) = (0, Vec::new());
    for case in cases::all() {
        match check_case(gpu, &interp, &case) {
            Ok(()) => passed += 1,
            Err(error) => failed.push(format!("{}: {error}", case.name)),
        }
    }
    println!("{passed} cases agree with the interpreter");
    if failed.is_empty() { Ok(()) } else { Err(format!("{}\n{}", failed.len(), failed.join("\n")).into()) }
}

fn check_case(gpu: &Cuda, interp: &Interp, case: &Case) -> Outcome {
    let expected = compile_and_run(interp, &case.kernel(false)?, case)?;
    let whole = case.name.contains(' ') && !case.name.contains(" of ");
    for facts in if whole { &[true, false][..] } else { &[true] } {
        compare(case, &expected, &compile_and_run(gpu, &case.kernel(*facts)?, case)?)?;
    }
    Ok(())
}

fn kernel(text: &str) -> Outcome<Kernel> {
    Ok(parse(text).map_err(|e| format!("{e:?}\n{text}"))?)
}

fn compile(gpu: &Cuda, text: &str) -> Outcome<Arc<dyn Program>> {
    Ok(gpu.compile(&kernel(text)?)?.program)
}

const FAULTY: &str = "
file \"faulty.rs\"
kernel @faulty(%x: view<i64, 1, global>, %y: mut view<i64, 1, global>, %which: i64) thread [64, 1, 1] {
  %p = program_id x : i64
  %d = block_dim x : i64
  %t = thread_id x : i64
  %base = mul %p, %d : i64
  %i = add %base, %t : i64
  %zero = const 0 : i64
  %one = const 1 : i64
  %two = const 2 : i64
  %v = gather.check %x[%i] pad %zero : i64
  %a = eq %which, %one : bool
  %last = const 100 : i64
  %early = lt %i, %last : bool
  %off = not %a : bool
  %fine = or %early, %off : bool
  %f = cast %v : f32
  assert %fine, \"{} at {} is {}\", %f, %i, %fine @0:7:9
  %b = eq %which, %two : bool
  %shift = const 1000 : i64
  %far = select %b, %shift, %zero : i64
  %at = add %i, %far : i64
  scatter.check %y[%at] = %v @0:8:3
  %three = const 3 : i64
  %c = eq %which, %three : bool
  %divisor = select %c, %zero, %one : i64
  %q = div %v, %divisor : i64 @0:9:5
  scatter.check %y[%i] = %q
}";

/// Each kind of fault is reported once, where it happened, and the device goes on working.
pub fn faults(gpu: &Cuda) -> Outcome {
    let program = compile(gpu, FAULTY)?;
    let data: Vec<u8> = (0..128i64).flat_map(|i| (i * 3 - 10).to_le_bytes()).collect();
    let (x, y) = (DeviceMemory::from(gpu, &data)?, DeviceMemory::from(gpu, &[0xa5; 1024])?);
    for round in 0..2 {
        for which in [0, 1, 2, 3, 0] {
            launch(gpu, &*program, [2, 1, 1], &views(&[x.ptr, y.ptr], 128).scalar(which))?;
            let outcome = gpu.synchronize(STREAM);
            check_fault(which, outcome).map_err(|e| format!("round {round}, kind {which}: {e}"))?;
            ensure(gpu.synchronize(STREAM).is_ok(), "a fault is reported once")?;
        }
        ensure(y.read()? == data, "the device computes after faults")?;
    }
    // A download reports it too, and a fault belongs to its stream.
    let arguments = views(&[x.ptr, y.ptr], 128).scalar(3);
    let other = gpu.create_stream()?;
    // SAFETY: the views are as long as said, and live until the stream is synchronized.
    unsafe { gpu.launch(&*program, arguments.launch([2, 1, 1], other)) }?;
    ensure(gpu.synchronize(STREAM).is_ok(), "a fault is not reported by another stream")?;
    ensure(matches!(gpu.synchronize(other), Err(Error::Fault(_))), "it is reported by its own")?;
    launch(gpu, &*program, [2, 1, 1], &arguments)?;
    ensure(matches!(x.read(), Err(Error::Fault(_))), "a download reports a fault")?;
    // What a stream has not reported when it is destroyed, the default stream does.
    // SAFETY: as above.
    unsafe { gpu.launch(&*program, arguments.launch([2, 1, 1], other)) }?;
    gpu.destroy_stream(other);
    ensure(
        matches!(gpu.synchronize(STREAM), Err(Error::Fault(_))),
        "a destroyed stream's fault is not lost",
    )?;
    ensure(gpu.synchronize(STREAM).is_ok() && gpu.synchronize(other).is_ok(), "and reported once")
}

fn check_fault(which: u64, outcome: kiln_backend::Result<()>) -> Outcome {
    let fault = match (which, outcome) {
        (0, outcome) => return Ok(outcome?),
        (_, Err(Error::Fault(fault))) => fault,
        (_, outcome) => return Err(format!("expected a fault, got {outcome:?}").into()),
    };
    let thread = fault.thread.ok_or("the thread is named")?;
    let index = i64::from(fault.block[0]) * 64 + i64::from(thread[0]);
    let (kind, location) = match which {
        1 => {
            let message = format!("{} at {index} is false", (index * 3 - 10) as f32);
            ensure(index >= 100, "the assert fails from 100 on")?;
            (FaultKind::Assert { message }, "faulty.rs:7:9")
        }
        2 => (FaultKind::OutOfBounds { index: index + 1000, extent: 128 }, "faulty.rs:8:3"),
        _ => (FaultKind::DivisionByZero, "faulty.rs:9:5"),
    };
    ensure(
        fault.kind == kind && fault.location == location,
        &format!("{fault:?} is {kind:?} at {location}"),
    )?;
    ensure(fault.kernel == "faulty", "the kernel is named")
}

const PRINTING: &str = "
kernel @printing(%n: i64) thread [32, 1, 1] {
  %p = program_id x : i64
  %t = thread_id x : i64
  %zero = const 0 : i64
  %half = const 0.5 : bf16
  %all = lt %t, %n : bool
  if %all {
    print \"{}.{} {}\", %p, %t, %half
    yield
  } else {
    yield
  }
}";

const PRINTING_TILES: &str = "
kernel @printing_tiles() tile {
  %at = iota : i32[64]
  %sum = reduce.sum %at axis 0 : i32
  print \"two lines\\nof {}\", %sum
}";

/// Prints arrive, each thread's once, tiles' once; what is too much is counted.
pub fn prints(gpu: &Cuda) -> Outcome {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = lines.clone();
    gpu.set_print_sink(Arc::new(move |line| {
        kept.lock().unwrap_or_else(|e| e.into_inner()).push(line.to_owned())
    }));
    let take = || std::mem::take(&mut *lines.lock().unwrap_or_else(|e| e.into_inner()));
    let (threads, tiles) = (compile(gpu, PRINTING)?, compile(gpu, PRINTING_TILES)?);
    for _ in 0..3 {
        launch(gpu, &*threads, [3, 1, 1], &LaunchArguments::new().scalar(5))?;
        launch(gpu, &*tiles, [1, 1, 1], &LaunchArguments::new())?;
        gpu.synchronize(STREAM)?;
        let mut got = take();
        ensure(got[15..] == ["two lines", "of 2016"], "prints keep the order of launches")?;
        got.truncate(15);
        got.sort();
        let wanted: Vec<String> = (0..3).flat_map(|p| (0..5).map(move |t| format!("{p}.{t} 0.5"))).collect();
        ensure(got == wanted, &format!("every thread prints once: {got:?}"))?;
        gpu.synchronize(STREAM)?;
        ensure(take().is_empty(), "prints arrive once")?;
    }
    launch(gpu, &*threads, [3000, 1, 1], &LaunchArguments::new().scalar(32))?;
    gpu.synchronize(STREAM)?;
    let got = take();
    let (last, whole) = got.split_last().ok_or("prints")?;
    ensure(whole.len() == (1 << 18) / 14, &format!("{} prints fit", whole.len()))?;
    ensure(last.contains(&(96_000 - whole.len()).to_string()), &format!("the rest is counted: {last}"))?;
    launch(gpu, &*tiles, [1, 1, 1], &LaunchArguments::new())?;
    gpu.synchronize(STREAM)?;
    ensure(take() == ["two lines", "of 2016"], "prints work after too many")
}

/// Work is ordered by events across streams, and events take time.
pub fn streams_and_events(gpu: &Cuda) -> Outcome {
    let case = add(1024, 1 << 22);
    let program = gpu.compile(&case.kernel(true)?)?.program;
    let n = 1u64 << 22;
    let ones = vec![1f32.to_le_bytes(); n as usize].concat();
    let (x, y) = (DeviceMemory::from(gpu, &ones)?, DeviceMemory::from(gpu, &ones)?);
    gpu.synchronize(STREAM)?;
    let streams = [gpu.create_stream()?, gpu.create_stream()?];
    let arguments = views(&[x.ptr, y.ptr, x.ptr], n);
    let start = gpu.record(streams[0], true)?;
    // x = x + y, from two streams in turn.
    for i in 0..16 {
        let stream = streams[i % 2];
        // SAFETY: the views are as long as said, and live until the streams are synchronized.
        unsafe { gpu.launch(&*program, arguments.launch(case.grid, stream)) }?;
        let done = gpu.record(stream, false)?;
        gpu.wait(streams[(i + 1) % 2], done)?;
        gpu.destroy_event(done);
    }
    let end = gpu.record(streams[1], true)?;
    gpu.wait(STREAM, end)?;
    let sum = x.read()?;
    ensure(sum.chunks(4).all(|c| c == 17f32.to_le_bytes()), "events order streams")?;
    ensure(gpu.query(end)?, "an event that was waited for has passed")?;
    let took = gpu.elapsed_ms(start, end)?;
    ensure(took > 0.0 && took < 1000.0, &format!("16 launches take {took} ms"))?;
    for stream in streams {
        gpu.destroy_stream(stream);
    }
    // A destroyed stream's number is the default stream's.
    gpu.synchronize(streams[0])?;
    gpu.destroy_event(start);
    ensure(matches!(gpu.query(start), Err(Error::Internal { .. })), "a destroyed event is no event")?;
    ensure(gpu.create_stream()? != streams[0], "numbers are not used twice")
}

/// An artifact loads in place of compiling; damage is an error.
pub fn artifacts(gpu: &Cuda) -> Outcome {
    let case = add(1024, 5000);
    let interp = Interp::new(Options::default());
    let expected = compile_and_run(&interp, &case.kernel(false)?, &case)?;
    let compiled = gpu.compile(&case.kernel(true)?)?;
    let artifact = compiled.artifact.ok_or("programs can be kept")?;
    let second = Cuda::open(0)?;
    let loaded = second.load(&artifact)?;
    compare(&case, &expected, &run(&second, &*loaded, &case)?)?;
    ensure(loaded.report() == compiled.program.report(), "the report is kept")?;
    for length in (0..artifact.len()).step_by(97) {
        ensure(gpu.load(&artifact[..length]).is_err(), "a short artifact is refused")?;
    }
    for bit in (0..8 * artifact.len()).step_by(1009) {
        let mut damaged = artifact.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        ensure(gpu.load(&damaged).is_err(), "a damaged artifact is refused")?;
    }
    let key = gpu.artifact_key();
    println!("artifact of {} bytes, key `{key}`, {:?}", artifact.len(), loaded.report());
    let wrong = launch(gpu, &*loaded, [1, 1, 1], &LaunchArguments::new());
    ensure(matches!(wrong, Err(Error::Internal { .. })), "a program of another device is refused")
}

/// Limits are typed errors; nothing costs the device.
pub fn bad_input(gpu: &Cuda) -> Outcome {
    let case = add(1024, 5000);
    let program = gpu.compile(&case.kernel(true)?)?.program;
    let nothing = views(&[DevicePtr(0); 3], 0);
    launch(gpu, &*program, [0, 1, 1], &nothing)?;
    launch(gpu, &*program, [1, 0, 7], &nothing)?;
    let limit = launch(gpu, &*program, [1, 70_000, 1], &nothing);
    ensure(
        matches!(limit, Err(Error::LaunchLimit { given: 70_000, limit: 65_535, .. })),
        &format!("grids have a limit: {limit:?}"),
    )?;
    let short = launch(gpu, &*program, [1, 1, 1], &views(&[DevicePtr(0); 2], 0));
    ensure(matches!(short, Err(Error::Internal { .. })), "arguments are counted")?;
    let huge = gpu.allocate(1 << 50, STREAM);
    ensure(
        matches!(huge, Err(Error::OutOfMemory { requested: 0x4_0000_0000_0000, free: 1.., total: 1.., .. })),
        &format!("memory has an end: {huge:?}"),
    )?;
    let shared = |kib: u32| {
        format!(
            "kernel @big(%y: mut view<f32, 1, global>) thread [32, 1, 1] {{
  %s = alloc shared f32[{}] : view<f32, 1, shared>
  %t = thread_id x : i64
  %v = cast %t : f32
  scatter.check %s[%t] = %v
  barrier
  %pad = const 0.0 : f32
  %w = gather.check %s[%t] pad %pad : f32
  scatter.check %y[%t] = %w
}}",
            kib * 256
        )
    };
    let limit = gpu.properties().shared_memory;
    let refused = gpu.compile(&kernel(&shared(limit / 1024 + 1))?).err();
    ensure(
        matches!(&refused, Some(Error::LaunchLimit { kernel, .. }) if kernel == "big"),
        &format!("shared memory has a limit: {refused:?}"),
    )?;
    let y = DeviceMemory::from(gpu, &[0xa5; 128])?;
    let program = compile(gpu, &shared(limit / 1024))?;
    launch(gpu, &*program, [1, 1, 1], &views(&[y.ptr], 32))?;
    let wanted: Vec<u8> = (0..32).flat_map(|i| (i as f32).to_le_bytes()).collect();
    ensure(y.read()? == wanted, "all shared memory can be used")?;
    // A program that is dropped while it runs.
    for _ in 0..20 {
        let program = gpu.compile(&case.kernel(false)?)?.program;
        let x = DeviceMemory::from(gpu, &[0; 20_000])?;
        launch(gpu, &*program, [5, 1, 1], &views(&[x.ptr; 3], 5000))?;
    }
    gpu.synchronize(StreamId(12_345))?;
    Ok(())
}
