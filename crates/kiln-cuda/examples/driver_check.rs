//! Checks the driver layer on a machine with an NVIDIA GPU, and measures what it costs. The last
//! line is `ok`; anything else is a failure, and the exit status says so too.
//!
//! ```text
//! cargo run --release -p kiln-cuda --example driver_check
//! ```

use kiln_cuda::driver::{
    Context, CudaError, DeviceBuffer, DiagnosticKind, Driver, Event, Function, Graph, JitOptions,
    LaunchShape, MappedWords, Module, PinnedBuffer, Stream, Timer, compile_to_cubin,
};
use std::error::Error;
use std::ffi::c_void;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const BASICS: &str = include_str!("ptx/basics.ptx");
const HOPPER: &str = include_str!("ptx/hopper.ptx");

type Outcome = Result<(), Box<dyn Error>>;
type Check = fn(&Rig) -> Outcome;

fn main() -> ExitCode {
    match check_all() {
        Ok(()) => {
            println!("ok");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What the checks work on.
struct Rig {
    context: Context,
    stream: Stream,
    module: Module,
}

impl Rig {
    fn function(&self, name: &str) -> Result<Function, CudaError> {
        self.module.function(name)
    }
}

fn check_all() -> Outcome {
    let driver = Driver::get()?;
    println!(
        "driver {}, CUDA {}, PTX up to {}, {} GPUs",
        driver.release().unwrap_or_default(),
        driver.version(),
        driver.ptx_version(),
        driver.device_count()
    );
    let started = Instant::now();
    let context = Context::new(0)?;
    println!("context in {:?}: {:#?}", started.elapsed(), context.properties());
    ensure(
        Context::new(0)?.properties() == context.properties(),
        "a second context of the same GPU is the same",
    )?;
    ensure(
        matches!(Context::new(99), Err(CudaError::NoSuchDevice { ordinal: 99, .. })),
        "GPU 99 does not exist",
    )?;
    let stream = Stream::new(&context)?;
    let module = compiling(&context)?;
    let rig = Rig { context, stream, module };
    let checks: [(&str, Check); 13] = [
        ("memory", memory),
        ("large copies", large_copies),
        ("vector add", vector_add),
        ("shared memory", shared_memory),
        ("mapped memory", mapped_memory),
        ("events and streams", events_and_streams),
        ("beside a resident kernel", beside_a_resident_kernel),
        ("graphs", graphs),
        ("clusters and register budgets", clusters_and_register_budgets),
        ("bad launches", bad_launches),
        ("bad programs", bad_programs),
        ("out of memory", out_of_memory),
        ("threads", threads),
    ];
    let mut failed = Vec::new();
    for (name, check) in checks {
        match check(&rig) {
            Ok(()) => println!("passed: {name}"),
            Err(error) => {
                println!("FAILED: {name}: {error}");
                failed.push(name);
            }
        }
    }
    launch_cost(&rig)?;
    copy_speed(&rig)?;
    if failed.is_empty() { Ok(()) } else { Err(failed.join(", ").into()) }
}

fn ensure(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(format!("does not hold: {what}").into()) }
}

/// Compiles the kernels in both ways, cold and warm, and says how long it takes.
fn compiling(context: &Context) -> Result<Module, Box<dyn Error>> {
    // The driver keeps what it compiled on disk; a unique comment makes sure that it has to
    // compile.
    let nonce = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let ptx = format!("// {nonce}\n{BASICS}");
    let options = JitOptions::default();

    let (cubin, linked) = timed(|| compile_to_cubin(context, "basics", &ptx, &options))?;
    let (module, loaded) = timed(|| Module::load(context, &cubin.bytes))?;
    let (function, found) = timed(|| module.function("add"))?;
    println!(
        "link to a cubin of {} bytes {linked:?}, load it {loaded:?}, find a kernel {found:?}",
        cubin.bytes.len()
    );
    println!("log of the link:\n{}", cubin.log.text);
    let usage = cubin.log.functions.iter().find(|usage| usage.name == "add");
    println!("usage of `add` by the log {usage:?}, by the driver {:?}", function.attributes());

    let ((direct, log), cold) = timed(|| Module::from_ptx(context, "basics", &ptx, &options))?;
    let ((_, warm_log), warm) = timed(|| Module::from_ptx(context, "basics", &ptx, &options))?;
    println!("compile and load in one {cold:?}, again from the driver's own cache {warm:?}");
    println!("its log has {} characters, from the cache {}", log.text.len(), warm_log.text.len());
    println!("usage of `add`: {:?}", direct.function("add")?.attributes());
    ensure(function.attributes().local_bytes == 0, "`add` spills nothing")?;
    ensure(function.is_loaded()? != Some(false), "a kernel that was found is loaded")?;
    Ok(direct)
}

fn timed<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<(T, Duration), E> {
    let started = Instant::now();
    let done = work()?;
    Ok((done, started.elapsed()))
}

/// Bytes that differ from their neighbors.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

fn memory(rig: &Rig) -> Outcome {
    for length in [0, 1, 3, 255, 4096, 65_537] {
        let buffer = DeviceBuffer::new(&rig.stream, length)?;
        let data = noise(length);
        buffer.write(0, &data)?;
        let mut back = vec![0xaa; length];
        buffer.read(0, &mut back)?;
        ensure(back == data, "what is written is read")?;
        let mut byte = [0];
        ensure(
            matches!(buffer.read(length, &mut byte), Err(CudaError::OutOfRange { .. })),
            "reads are checked",
        )?;
    }
    let (first, second) = (DeviceBuffer::new(&rig.stream, 1000)?, DeviceBuffer::new(&rig.stream, 1000)?);
    ensure(first.pointer().0 % 256 == 0, "memory is aligned")?;
    first.fill(0x11)?;
    second.fill(0)?;
    // SAFETY: both buffers have 1000 bytes.
    unsafe {
        rig.stream.fill_words(first.pointer(), 0xdead_beef, 10)?;
        rig.stream.copy(second.pointer(), first.pointer(), 999)?;
    }
    let mut back = vec![0xaa; 1000];
    second.read(0, &mut back)?;
    let mut wanted = 0xdead_beef_u32.to_le_bytes().repeat(10);
    wanted.resize(999, 0x11);
    wanted.push(0);
    ensure(back == wanted, "fills and copies do what they say")?;
    let mut pinned = PinnedBuffer::new(&rig.context, 100)?;
    ensure(pinned.as_slice().iter().all(|byte| *byte == 0), "pinned memory starts as zeros")?;
    pinned.as_mut_slice().copy_from_slice(&noise(100));
    // SAFETY: the parts are in the buffers, which live until the read below has waited.
    unsafe {
        rig.stream.upload_pinned(first.pointer(), &pinned, 10..90)?;
        rig.stream.download_pinned(&pinned, 0..80, first.pointer())?;
    }
    rig.stream.synchronize()?;
    ensure(pinned.as_slice()[..80] == noise(100)[10..90], "pinned copies do what they say")?;
    let used = rig.context.memory()?;
    ensure(used.pool_used <= used.pool_reserved && used.free < used.total, "memory use makes sense")
}

/// Sizes around the staging chunks, twice, so that chunks are used again.
fn large_copies(rig: &Rig) -> Outcome {
    const MIB: usize = 1 << 20;
    for length in [64 * 1024, 64 * 1024 + 1, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 8 * MIB, 37 * MIB + 12_345] {
        let data = noise(length);
        let buffer = DeviceBuffer::new(&rig.stream, length)?;
        for _ in 0..2 {
            buffer.fill(0)?;
            let mut source = data.clone();
            buffer.write(0, &source)?;
            // The source is free on return: what happens to it now must not be seen.
            source.fill(0xee);
            let mut back = vec![0xaa; length];
            buffer.read(0, &mut back)?;
            ensure(back == data, &format!("a copy of {length} bytes arrives"))?;
        }
    }
    Ok(())
}

fn floats(length: usize, scale: f32) -> Vec<u8> {
    (0..length).flat_map(|index| (index as f32 * scale).to_le_bytes()).collect()
}

fn vector_add(rig: &Rig) -> Outcome {
    let add = rig.function("add")?;
    for length in [1, 255, 1 << 20, (1 << 20) + 17] {
        let (a, b, c) = add_arguments(rig, length)?;
        let shape = LaunchShape::new([length.div_ceil(256) as u32, 1, 1], [256, 1, 1]);
        // SAFETY: the kernel takes three arrays of `length` floats and their length.
        unsafe {
            add.launch(&rig.stream, &shape, &[a.pointer().0, b.pointer().0, c.pointer().0, length as u64])?
        };
        check_sum(&c, length, 0.75)?;
    }
    Ok(())
}

/// a[i] = i / 2, b[i] = i / 4, and room for the sum and one float more, all poisoned.
fn add_arguments(rig: &Rig, length: usize) -> Result<(DeviceBuffer, DeviceBuffer, DeviceBuffer), CudaError> {
    let new = |bytes| DeviceBuffer::new(&rig.stream, bytes);
    let (a, b, c) = (new(length * 4)?, new(length * 4)?, new(length * 4 + 4)?);
    a.write(0, &floats(length, 0.5))?;
    b.write(0, &floats(length, 0.25))?;
    c.fill(0x5a)?;
    Ok((a, b, c))
}

/// Every sum is exact: the terms are multiples of 1/4 below 2^22.
fn check_sum(c: &DeviceBuffer, length: usize, scale: f32) -> Outcome {
    let mut back = vec![0; length * 4 + 4];
    c.read(0, &mut back)?;
    ensure(back[..length * 4] == floats(length, scale), "the sums are right")?;
    ensure(back[length * 4..] == [0x5a; 4], "nothing is written behind the sums")
}

fn words(values: impl Iterator<Item = u32>) -> Vec<u8> {
    values.flat_map(u32::to_le_bytes).collect()
}

fn shared_memory(rig: &Rig) -> Outcome {
    let buffer = DeviceBuffer::new(&rig.stream, 4 * 1024)?;
    buffer.write(0, &words(0..1024))?;
    let kernel = rig.function("reverse_static")?;
    ensure(kernel.attributes().shared_bytes == 1024, "the kernel has 1 KiB of shared memory")?;
    // SAFETY: four blocks of 256 words.
    unsafe { kernel.launch(&rig.stream, &LaunchShape::new([4, 1, 1], [256, 1, 1]), &[buffer.pointer().0])? };
    let mut back = vec![0; 4 * 1024];
    buffer.read(0, &mut back)?;
    ensure(back == words((0..1024).map(|i| i / 256 * 256 + 255 - i % 256)), "blocks are reversed")?;

    let kernel = rig.function("reverse_dynamic")?;
    let all = rig.context.properties().shared_per_block_opt_in;
    let shape = LaunchShape { shared_bytes: all, ..LaunchShape::new([1, 1, 1], [1024, 1, 1]) };
    let arguments = [buffer.pointer().0, u64::from(all)];
    buffer.write(0, &words(0..1024))?;
    // SAFETY: one block of 1024 words.
    let refused = unsafe { kernel.launch(&rig.stream, &shape, &arguments) };
    let expected =
        |error: &CudaError| matches!(error, CudaError::LaunchLimit { what: "dynamic shared memory", .. });
    ensure(
        refused.as_ref().is_err_and(expected),
        &format!("shared memory must be allowed first, got {refused:?}"),
    )?;
    kernel.allow_shared(all)?;
    ensure(kernel.allowed_shared()? == all, "all of it is allowed")?;
    // SAFETY: as above.
    unsafe { kernel.launch(&rig.stream, &shape, &arguments)? };
    buffer.read(0, &mut back)?;
    ensure(back == words((0..1024).rev()), "the block is reversed through all its shared memory")?;
    println!(
        "occupancy of 1024 threads: {} blocks without shared memory, {} with {all} bytes",
        kernel.blocks_per_multiprocessor(1024, 0)?,
        kernel.blocks_per_multiprocessor(1024, all)?
    );
    Ok(())
}

fn mapped_memory(rig: &Rig) -> Outcome {
    let mapped = MappedWords::new(&rig.context, 5)?;
    ensure(mapped.snapshot() == [0; 5], "mapped words start as zeros")?;
    let report = rig.function("report")?;
    let shape = LaunchShape::new([1, 1, 1], [1, 1, 1]);
    // SAFETY: two words, which live until the loop has seen the flag and the stream is waited for.
    unsafe { report.launch(&rig.stream, &shape, &[mapped.device_pointer().0, 0xcafe])? };
    let started = Instant::now();
    while mapped.words()[0].load(Ordering::Acquire) == 0 {
        ensure(started.elapsed() < Duration::from_secs(5), "the flag arrives")?;
    }
    ensure(mapped.words()[1].load(Ordering::Relaxed) == 0xcafe, "the record is there before its flag")?;
    rig.stream.synchronize()?;
    ensure(mapped.snapshot() == [1, 0xcafe, 0, 0, 0], "nothing else is written")?;
    mapped.clear();
    ensure(mapped.snapshot() == [0; 5], "clearing clears")
}

/// A kernel that runs until the host lets it go, or gives up by itself.
struct Waiting {
    words: MappedWords,
}

impl Waiting {
    fn start(rig: &Rig, stream: &Stream, limit: Duration) -> Result<Waiting, Box<dyn Error>> {
        let words = MappedWords::new(&rig.context, 2)?;
        let kernel = rig.function("wait_for_host")?;
        let arguments = [words.device_pointer().0, limit.as_nanos() as u64];
        // SAFETY: two words, which the callers keep until they have waited for the stream.
        unsafe { kernel.launch(stream, &LaunchShape::new([1, 1, 1], [1, 1, 1]), &arguments)? };
        Ok(Waiting { words })
    }

    fn let_go(&self) {
        self.words.words()[0].store(1, Ordering::Release);
    }

    /// Whether the kernel saw the host, and did not give up.
    fn was_released(&self) -> bool {
        self.words.words()[1].load(Ordering::Acquire) == 1
    }
}

fn events_and_streams(rig: &Rig) -> Outcome {
    let other = Stream::with_priority(&rig.context, -1)?;
    let waiting = Waiting::start(rig, &other, Duration::from_secs(5))?;
    let event = Event::new(&rig.context)?;
    ensure(event.has_passed()?, "an event that was not recorded has passed")?;
    event.record(&other)?;
    ensure(!event.has_passed()? && !other.is_idle()?, "work that runs is not done")?;
    // What waits for the event comes after it, across streams.
    let buffer = DeviceBuffer::new(&rig.stream, 4)?;
    let mapped = MappedWords::new(&rig.context, 2)?;
    rig.stream.wait(&event)?;
    let shape = LaunchShape::new([1, 1, 1], [1, 1, 1]);
    // SAFETY: two words, which live until the stream is waited for.
    unsafe { rig.function("report")?.launch(&rig.stream, &shape, &[mapped.device_pointer().0, 3])? };
    std::thread::sleep(Duration::from_millis(20));
    ensure(mapped.snapshot() == [0, 0] && !rig.stream.is_idle()?, "the stream waits for the event")?;
    waiting.let_go();
    event.synchronize()?;
    ensure(waiting.was_released() && event.has_passed()?, "the kernel saw the host")?;
    rig.stream.synchronize()?;
    ensure(mapped.snapshot() == [1, 3] && rig.stream.is_idle()?, "the work after the event is done")?;
    drop(buffer);

    let timer = Timer::idle(&rig.context)?;
    timer.restart(&rig.stream)?;
    let pause = Waiting::start(rig, &rig.stream, Duration::from_millis(20))?;
    let took = timer.stop(&rig.stream)?;
    ensure(!pause.was_released(), "nobody let the kernel go")?;
    ensure((19..200).contains(&took.as_millis()), &format!("a kernel of 20 ms is timed as {took:?}"))?;
    ensure(Event::new(&rig.context)?.since(&event).is_err(), "events without time have no interval")
}

/// What should not wait for a kernel that does not end by itself. What waits nevertheless is
/// reported and is no failure: it is the driver's way.
fn beside_a_resident_kernel(rig: &Rig) -> Outcome {
    let steps: [(&str, Check); 8] = [
        ("launch and small copies", vector_add),
        ("large copies", large_copies),
        ("compile to a cubin", |rig| {
            Ok(compile_to_cubin(&rig.context, "basics", BASICS, &JitOptions::default()).map(drop)?)
        }),
        ("compile and load, find a kernel, unload", |rig| {
            let (module, _) = Module::from_ptx(&rig.context, "basics", BASICS, &JitOptions::default())?;
            Ok(module.function("report").map(drop)?)
        }),
        ("pin and unpin memory", |rig| Ok(PinnedBuffer::new(&rig.context, 1 << 20).map(drop)?)),
        ("allocate and free 1 GiB", |rig| Ok(DeviceBuffer::new(&rig.stream, 1 << 30).map(drop)?)),
        ("make and end a stream", |rig| Ok(Stream::new(&rig.context).map(drop)?)),
        ("graph", graphs),
    ];
    let other = Stream::new(&rig.context)?;
    for (name, work) in steps {
        let waiting = Waiting::start(rig, &other, Duration::from_secs(2))?;
        let ((), took) = timed(|| work(rig))?;
        waiting.let_go();
        other.synchronize()?;
        let verdict = if waiting.was_released() { "goes on" } else { "WAITS for it" };
        println!("    beside a resident kernel: {name} {verdict} ({took:?})");
    }
    Ok(())
}

fn graphs(rig: &Rig) -> Outcome {
    const LENGTH: usize = 1000;
    let add = rig.function("add")?;
    let (a, b, c) = add_arguments(rig, LENGTH)?;
    let (pa, pb, pc) = (a.pointer().0, b.pointer().0, c.pointer().0);
    let shape = LaunchShape::new([4, 1, 1], [256, 1, 1]);
    let graph = Graph::capture(&rig.stream, |stream| {
        // SAFETY: arrays of `LENGTH` floats, which outlive the graph. The second launch adds to the
        // sum of the first.
        unsafe {
            add.launch(stream, &shape, &[pa, pb, pc, LENGTH as u64])?;
            add.launch(stream, &shape, &[pa, pc, pc, LENGTH as u64])
        }
    })?;
    ensure(graph.nodes() == 2, "two launches are recorded")?;
    let mut untouched = vec![0; LENGTH * 4 + 4];
    c.read(0, &mut untouched)?;
    ensure(untouched.iter().all(|byte| *byte == 0x5a), "recording runs nothing")?;
    for _ in 0..3 {
        // SAFETY: the arrays are alive.
        unsafe { graph.launch(&rig.stream)? };
    }
    check_sum(&c, LENGTH, 1.25)?;
    // A recording that fails gives the stream back.
    let failed = Graph::capture(&rig.stream, |stream| stream.synchronize());
    ensure(failed.is_err() && !rig.stream.is_capturing()?, "waiting cannot be recorded")?;
    for refused in [
        Graph::capture(&rig.stream, |_| a.write(0, &[1])).map(drop),
        Graph::capture(&rig.stream, |_| a.read(0, &mut [0])).map(drop),
        Graph::capture(&rig.stream, |stream| DeviceBuffer::new(stream, 8).map(drop)).map(drop),
    ] {
        ensure(matches!(refused, Err(CudaError::Recording { .. })), "what cannot be recorded is refused")?;
    }
    vector_add(rig)
}

fn clusters_and_register_budgets(rig: &Rig) -> Outcome {
    let add = rig.function("add")?;
    let (a, b, c) = add_arguments(rig, 500)?;
    let shape = LaunchShape { cooperative: true, ..LaunchShape::new([2, 1, 1], [256, 1, 1]) };
    // SAFETY: arrays of 500 floats.
    unsafe { add.launch(&rig.stream, &shape, &[a.pointer().0, b.pointer().0, c.pointer().0, 500])? };
    check_sum(&c, 500, 0.75)?;
    if rig.context.properties().compute_capability.major != 9 {
        println!("    skipped: clusters (this is not compute capability 9.0)");
        return Ok(());
    }
    let nonce = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let ptx = format!("// {nonce}\n{HOPPER}");
    let (module, log) = Module::from_ptx(&rig.context, "hopper", &ptx, &JitOptions::default())?;
    println!("    compiled directly: {:?}", losses(&log));
    let linked = compile_to_cubin(&rig.context, "hopper", &ptx, &JitOptions::default())?;
    println!("    compiled by the linker: {:?}", losses(&linked.log));
    for (way, module) in
        [("directly", &module), ("by the linker", &Module::load(&rig.context, &linked.bytes)?)]
    {
        println!(
            "    `register_budget` compiled {way}: {:?}",
            module.function("register_budget")?.attributes()
        );
    }
    ensure(losses(&log).is_empty(), "compiling directly keeps register budgets")?;

    let ranks = DeviceBuffer::new(&rig.stream, 8 * 4)?;
    let shape = LaunchShape { cluster: Some([4, 1, 1]), ..LaunchShape::new([8, 1, 1], [32, 1, 1]) };
    let kernel = module.function("cluster_rank")?;
    println!("    clusters of 4 that fit: {}", kernel.clusters_on_device(&shape)?);
    // SAFETY: a word for each block.
    unsafe { kernel.launch(&rig.stream, &shape, &[ranks.pointer().0])? };
    let mut back = vec![0xaa; 8 * 4];
    ranks.read(0, &mut back)?;
    ensure(back == words((0..8).map(|block| block % 4)), "blocks know their rank in the cluster")?;
    // SAFETY: one word.
    unsafe {
        let budget = module.function("register_budget")?;
        budget.launch(&rig.stream, &LaunchShape::new([1, 1, 1], [128, 1, 1]), &[ranks.pointer().0])?;
    }
    ranks.read(0, &mut back[..4])?;
    ensure(back[..4] == 7_u32.to_le_bytes(), "a kernel that gives registers back runs")
}

fn losses(log: &kiln_cuda::driver::JitLog) -> Vec<(Option<u16>, DiagnosticKind)> {
    log.performance_losses().map(|loss| (loss.code, loss.kind)).collect()
}

fn bad_launches(rig: &Rig) -> Outcome {
    let add = rig.function("add")?;
    // SAFETY: nothing runs: every one of these is refused, or has no blocks.
    let launch = |grid, block| unsafe { add.launch(&rig.stream, &LaunchShape::new(grid, block), &[0; 4]) };
    launch([0, 1, 1], [256, 1, 1])?;
    let cases = [
        ("threads per block", launch([1, 1, 1], [2048, 1, 1])),
        ("threads per block", launch([1, 1, 1], [32, 32, 32])),
        ("grid extent y", launch([1, 70_000, 1], [32, 1, 1])),
        ("block extent z", launch([1, 1, 1], [1, 1, 128])),
    ];
    for (wanted, outcome) in cases {
        let explained = matches!(&outcome, Err(CudaError::LaunchLimit { what, .. }) if *what == wanted);
        ensure(explained, &format!("the launch is refused for its {wanted}, got {outcome:?}"))?;
    }
    let shape = LaunchShape { cooperative: true, ..LaunchShape::new([1 << 20, 1, 1], [256, 1, 1]) };
    // SAFETY: as above.
    let outcome = unsafe { add.launch(&rig.stream, &shape, &[0; 4]) };
    println!("    a cooperative grid that is too large: {outcome:?}");
    ensure(matches!(outcome, Err(CudaError::LaunchLimit { .. })), "a cooperative grid must fit")?;
    // The context survives all of it.
    vector_add(rig)
}

fn bad_programs(rig: &Rig) -> Outcome {
    let options = JitOptions::default();
    let wrong = BASICS.replace("add.f32", "sum.f32");
    let newer = BASICS.replace(".version 7.0", ".version 99.0");
    let other = BASICS.replace(".target sm_80", ".target sm_120a");
    for (what, ptx) in
        [("a wrong instruction", &wrong), ("a version from the future", &newer), ("another GPU", &other)]
    {
        let linked = compile_to_cubin(&rig.context, what, ptx, &options).map(drop);
        let loaded = Module::from_ptx(&rig.context, what, ptx, &options).map(drop);
        for outcome in [linked, loaded] {
            let Err(CudaError::Jit(failure)) = outcome else {
                return Err(format!("{what}: {outcome:?}").into());
            };
            println!("    {failure}");
            ensure(failure.name == what, "the failure says what was compiled")?;
            if what == "a wrong instruction" {
                let line = 1 + wrong.lines().position(|line| line.contains("sum.f32")).unwrap_or(0) as u32;
                ensure(
                    failure.log.errors().any(|error| error.line == Some(line)),
                    "the failure has the line",
                )?;
            }
        }
    }
    let cubin = compile_to_cubin(&rig.context, "basics", BASICS, &options)?.bytes;
    for length in [0, 63, 64, 1000, cubin.len() - 1] {
        let outcome = Module::load(&rig.context, &cubin[..length]).map(drop);
        ensure(matches!(outcome, Err(CudaError::BadImage { .. })), "a cubin that is cut short is refused")?;
    }
    let missing = rig.function("no_such_kernel").map(drop);
    ensure(
        matches!(missing, Err(CudaError::NoSuchFunction { .. })),
        "a kernel that is not there is not found",
    )?;
    vector_add(rig)
}

fn out_of_memory(rig: &Rig) -> Outcome {
    const TEN_TERABYTES: usize = 10_000_000_000_000;
    let Err(error) = DeviceBuffer::new(&rig.stream, TEN_TERABYTES).map(drop) else {
        return Err("10 TB were allocated".into());
    };
    println!("    {error}");
    let CudaError::OutOfMemory { requested: TEN_TERABYTES, free, total, .. } = error else {
        return Err(format!("not out of memory: {error:?}").into());
    };
    ensure(free > 0 && free <= total, "the numbers make sense")?;
    // Nearly all of it, again and again: what is freed can be had again in another size.
    for share in [2, 3, 4, 5] {
        let buffer = DeviceBuffer::new(&rig.stream, free / share)?;
        buffer.fill(1)?;
    }
    rig.stream.synchronize()?;
    let before = rig.context.memory()?;
    rig.context.trim(0)?;
    println!(
        "    pool before and after trimming: {} and {} bytes",
        before.pool_reserved,
        rig.context.memory()?.pool_reserved
    );
    vector_add(rig)
}

fn threads(rig: &Rig) -> Outcome {
    std::thread::scope(|scope| {
        let work = || {
            let rig = Rig {
                context: rig.context.clone(),
                stream: Stream::new(&rig.context).map_err(|error| error.to_string())?,
                module: rig.module.clone(),
            };
            (0..5)
                .try_for_each(|_| vector_add(&rig).and_then(|()| large_copies(&rig)))
                .map_err(|error| error.to_string())
        };
        let running: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        running.into_iter().try_for_each(|thread| match thread.join() {
            Ok(outcome) => outcome.map_err(Into::into),
            Err(_) => Err("a thread panicked".into()),
        })
    })
}

/// The median of what `call` costs the host, back to back. The queue of launches is emptied now and
/// then so that it never fills up.
fn median_cost(stream: &Stream, mut call: impl FnMut() -> Result<(), CudaError>) -> Result<f64, CudaError> {
    let mut costs = Vec::with_capacity(2000);
    for _ in 0..20 {
        for _ in 0..100 {
            let started = Instant::now();
            call()?;
            costs.push(started.elapsed());
        }
        stream.synchronize()?;
    }
    costs.sort();
    Ok(costs[costs.len() / 2].as_secs_f64() * 1e6)
}

fn launch_cost(rig: &Rig) -> Outcome {
    let empty = rig.function("empty")?;
    let shape = LaunchShape::new([1, 1, 1], [32, 1, 1]);
    let words = [0u64; 8];
    let mut pointers = words.each_ref().map(|word| std::ptr::from_ref(word).cast_mut().cast::<c_void>());
    let (api, function, stream) = (rig.context.api(), empty.handle(), rig.stream.handle());
    // SAFETY: the kernel takes eight words and uses none; the context is current on this thread.
    let mut raw = || unsafe {
        api.cuLaunchKernel(
            function,
            1,
            1,
            1,
            32,
            1,
            1,
            0,
            stream,
            pointers.as_mut_ptr(),
            std::ptr::null_mut(),
        )
    };
    // SAFETY: as above.
    let mut packed = || unsafe { empty.launch(&rig.stream, &shape, &words) };
    let cooperative = LaunchShape { cooperative: true, ..shape };
    // SAFETY: as above.
    let mut extended = || unsafe { empty.launch(&rig.stream, &cooperative, &words) };
    for round in 1..=3 {
        let costs = [
            median_cost(&rig.stream, &mut packed)?,
            median_cost(&rig.stream, &mut raw)?,
            median_cost(&rig.stream, &mut extended)?,
        ];
        println!(
            "launch of 8 parameters, median of 2000, round {round}: {:.2} us (packed words); raw cuLaunchKernel with an array of pointers \
             {:.2} us; cooperative {:.2} us",
            costs[0], costs[1], costs[2]
        );
    }
    let ((), bound) = timed(|| (0..1_000_000).try_for_each(|_| rig.context.bind()))?;
    println!("making the context current when it is: {:.1} ns", bound.as_secs_f64() * 1e3);
    let graph = Graph::capture(&rig.stream, |_| (0..10).try_for_each(|_| packed()))?;
    // SAFETY: the kernels use no memory.
    let cost = median_cost(&rig.stream, || unsafe { graph.launch(&rig.stream) })?;
    println!("launch of a graph of {} empty kernels: {cost:.2} us", graph.nodes());
    let allocate = median_cost(&rig.stream, || DeviceBuffer::new(&rig.stream, 1 << 20).map(drop))?;
    println!("allocate and free 1 MiB from the pool: {allocate:.2} us");
    Ok(())
}

/// Copies of pageable memory as Kiln does them beside what the driver does when it is left to it.
fn copy_speed(rig: &Rig) -> Outcome {
    let (api, stream) = (rig.context.api(), rig.stream.handle());
    for length in [64, 4 << 10, 64 << 10, 128 << 10, 1 << 20, 16 << 20, 256 << 20] {
        let mut host = noise(length);
        let buffer = DeviceBuffer::new(&rig.stream, length)?;
        let device = buffer.pointer().0;
        let best = |work: &mut dyn FnMut() -> Result<(), CudaError>| -> Result<f64, CudaError> {
            let runs: Result<Vec<_>, _> = (0..9).map(|_| timed(&mut *work).map(|((), took)| took)).collect();
            Ok(runs?.iter().min().map_or(0.0, Duration::as_secs_f64) * 1e6)
        };
        let up = best(&mut || buffer.write(0, &host).and_then(|()| rig.stream.synchronize()))?;
        // SAFETY: `host` has the length of the buffer and lives until the wait.
        let raw_up = best(&mut || unsafe {
            api.cuMemcpyHtoDAsync_v2(device, host.as_ptr().cast(), length, stream)?;
            api.cuStreamSynchronize(stream)
        })?;
        let down = best(&mut || buffer.read(0, &mut host))?;
        // SAFETY: as above.
        let raw_down = best(&mut || unsafe {
            api.cuMemcpyDtoHAsync_v2(host.as_mut_ptr().cast(), device, length, stream)?;
            api.cuStreamSynchronize(stream)
        })?;
        println!(
            "copy of {length} bytes: up {up:.1} us (the driver's own path {raw_up:.1}), down {down:.1} us ({raw_down:.1}); {:.1} and {:.1} GB/s",
            length as f64 / up * 1e-3,
            length as f64 / down * 1e-3
        );
    }
    Ok(())
}
