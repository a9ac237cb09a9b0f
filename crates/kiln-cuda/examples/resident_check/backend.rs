//! The backend's own calls: mapped memory, resident launches, and everything else beside them.

use crate::rig::{Outcome, ensure, timed};
use kiln_backend::{
    Artifacts, Backend, BufferBinding, DevicePtr, Error, LaunchArguments, Mapped, MappedMemory, MappedPlace,
    Program, Residency, ResidentId, Residents, StreamId, Tenant,
};
use kiln_cuda::Cuda;
use kiln_ir::parse;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const STREAM: StreamId = StreamId(0);
const STOP: u32 = u32::MAX;
const BLOCKS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(5);

/// Each block answers its own word with twice the word, until it is commanded to stop or has polled
/// often enough. The fences keep the accesses in the loop: atomics would not do, since those of a
/// GPU on host memory may undo what the host writes meanwhile.
const ECHO: &str =
    "kernel @echo(%in: mut view<u32, 1, global>, %out: mut view<u32, 1, global>) thread [32, 1, 1] {
  %block = program_id x : i64
  %lane = thread_id x : i64
  %first = const 0 : i64
  %zero = const 0 : u32
  %two = const 2 : u32
  %stop = const 4294967295 : u32
  %bad = const 4294967294 : u32
  %most = const 5000000 : i64
  %one = const 1 : i64
  %leads = eq %lane, %first : bool
  if %leads {
    %last, %polls = while (%seen = %zero, %poll = %first) : u32, i64 {
      %goes = ne %seen, %stop : bool
      %early = lt %poll, %most : bool
      %more = and %goes, %early : bool
      condition %more
    } do (%before, %count) {
      fence.system
      %word = gather.check %in[%block] pad %zero : u32
      %fine = ne %word, %bad : bool
      assert %fine, \"a bad word: {}\", %word
      %reply = mul %word, %two : u32
      scatter.check %out[%block] = %reply
      fence.system
      %next = add %count, %one : i64
      yield %word, %next
    }
    yield
  } else {
    yield
  }
}
";

/// Something to compile while the other is resident.
pub fn other(seed: u32) -> String {
    format!(
        "kernel @other(%x: mut view<u32, 1, global>) tile {{
  %zero = const 0 : i64
  %pad = const 0 : u32
  %addend = const {seed} : u32
  %tile = load %x[%zero] pad %pad : u32[256]
  %all = broadcast %addend : u32[256]
  %sum = add %tile, %all : u32[256]
  store %x[%zero] = %sum
}}
"
    )
}

/// Kernels that echo, and leave for a moment when the device asks.
struct Keeper {
    gpu: Arc<Cuda>,
    program: Arc<dyn Program>,
    inbox: Mapped,
    outbox: Mapped,
    running: Mutex<Option<ResidentId>>,
    /// How often the device has asked.
    asked: AtomicU32,
    /// Whether it does what the device asks.
    obliges: AtomicBool,
}

pub fn check() -> Outcome {
    println!("\nthe backend:");
    let gpu = Arc::new(Cuda::open(0)?);
    ensure(gpu.properties().residency == Residency::Beside, "kernels stay beside the host")?;
    let (places, took) = timed(|| Ok::<_, Error>(gpu.mapped_places()))?;
    println!("  mapped places after {took:.1?}: {places:?}");
    let program = gpu.compile(&parse(ECHO).map_err(|e| e.to_string())?)?.program;
    for place in MappedPlace::ALL {
        if places.get(place).is_ok() {
            resident(&gpu, &program, place)?;
        } else {
            ensure(
                matches!(gpu.map(64, place), Err(Error::Unavailable { .. })),
                "what is not there is refused",
            )?;
        }
    }
    apart(&gpu, &program)?;
    faults(&gpu, &program)?;
    too_many_blocks(&gpu, &program)?;
    println!("  passed: the backend");
    Ok(())
}

impl Keeper {
    fn new(gpu: &Arc<Cuda>, program: &Arc<dyn Program>, place: MappedPlace) -> Result<Arc<Keeper>, Error> {
        let keeper = Arc::new(Keeper {
            gpu: gpu.clone(),
            program: program.clone(),
            inbox: gpu.map(64, place)?,
            outbox: gpu.map(64, MappedPlace::Host)?,
            running: Mutex::new(None),
            asked: AtomicU32::new(0),
            obliges: AtomicBool::new(true),
        });
        keeper.begin()?;
        let tenant: Weak<dyn Tenant> = Arc::downgrade(&(keeper.clone() as Arc<dyn Tenant>));
        gpu.add_tenant(tenant);
        Ok(keeper)
    }

    fn begin(&self) -> Result<(), Error> {
        (0..BLOCKS).for_each(|block| send(&self.inbox, block, 0));
        *self.running.lock().unwrap() = Some(launch(&self.gpu, &self.program, &self.inbox, &self.outbox)?);
        Ok(())
    }

    fn end(&self) -> Result<(), Error> {
        (0..BLOCKS).for_each(|block| send(&self.inbox, block, STOP));
        let Some(id) = self.running.lock().unwrap().take() else { return Ok(()) };
        match self.gpu.resident_wait(id, PATIENCE)? {
            true => Ok(()),
            false => {
                Err(Error::Internal { place: "resident_check", message: "a kernel does not leave".into() })
            }
        }
    }

    fn is_there(&self) -> Result<bool, Error> {
        let id = *self.running.lock().unwrap();
        id.map_or(Ok(false), |id| self.gpu.resident_done(id).map(|done| !done))
    }

    fn echoes(&self, round: u32) -> Outcome {
        (0..BLOCKS).for_each(|block| send(&self.inbox, block, round * 10 + block as u32));
        (0..BLOCKS).try_for_each(|block| expect(&self.outbox, block, 2 * (round * 10 + block as u32)))
    }
}

impl Tenant for Keeper {
    fn leave(&self) -> Result<(), Error> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.obliges.load(Ordering::Relaxed) { self.end() } else { Ok(()) }
    }

    fn come_back(&self) {
        if self.obliges.load(Ordering::Relaxed) {
            self.begin().unwrap();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.end();
        for mapped in [&self.inbox, &self.outbox] {
            let Mapped { host, device, bytes, place, write_combined } = *mapped;
            // SAFETY: mapped in `new`, and nothing runs any more.
            unsafe { self.gpu.unmap(Mapped { host, device, bytes, place, write_combined }) };
        }
    }
}

fn words(mapped: &Mapped) -> &[AtomicU32] {
    // SAFETY: aligned, as long as said, and accessed atomically by both sides.
    unsafe { std::slice::from_raw_parts(mapped.host.as_ptr().cast(), mapped.bytes / 4) }
}

/// Vectors of so many words.
fn views(inbox: DevicePtr, outbox: DevicePtr, words: u64) -> LaunchArguments {
    let arguments = LaunchArguments::new().view(BufferBinding::write(inbox), &[words]);
    arguments.view(BufferBinding::write(outbox), &[words])
}

fn launch(
    gpu: &Cuda,
    program: &Arc<dyn Program>,
    inbox: &Mapped,
    outbox: &Mapped,
) -> kiln_backend::Result<ResidentId> {
    let arguments = views(inbox.device, outbox.device, BLOCKS as u64);
    let launch = arguments.launch([BLOCKS as u32, 1, 1], STREAM);
    // SAFETY: both mappings have a word for each block, and live until the launch is over.
    unsafe { gpu.launch_resident(program, launch) }
}

fn send(inbox: &Mapped, block: usize, word: u32) {
    words(inbox)[block].store(word, Ordering::Release);
    std::sync::atomic::fence(Ordering::SeqCst);
}

fn expect(outbox: &Mapped, block: usize, word: u32) -> Outcome {
    let begun = Instant::now();
    while words(outbox)[block].load(Ordering::Acquire) != word {
        ensure(begun.elapsed() < PATIENCE, &format!("block {block} answers {word}"))?;
    }
    Ok(())
}

fn resident(gpu: &Arc<Cuda>, program: &Arc<dyn Program>, place: MappedPlace) -> Outcome {
    let keeper = Keeper::new(gpu, program, place)?;
    ensure(
        words(&keeper.outbox).iter().all(|word| word.load(Ordering::Relaxed) == 0),
        "mapped memory is zero",
    )?;
    (1..200).try_for_each(|round| keeper.echoes(round))?;
    ensure(keeper.is_there()?, "it stays")?;
    for (round, (what, work)) in (1000..).zip(BESIDE) {
        let asked = keeper.asked.load(Ordering::Relaxed);
        let ((), took) = timed(|| work(gpu))?;
        let made_room = keeper.asked.load(Ordering::Relaxed) - asked;
        println!("  beside kernels that poll {place}: {what}: {took:.1?}, which left {made_room} times");
        keeper.echoes(round)?;
        ensure(keeper.is_there()?, "it stays")?;
    }
    // A tenant that does not leave, and so a load that is refused, at once.
    keeper.obliges.store(false, Ordering::Relaxed);
    let kernel = parse(&other(99)).map_err(|e| e.to_string())?;
    let refused = gpu.compile(&kernel).map(|_| ());
    ensure(matches!(refused, Err(Error::Unavailable { .. })), &format!("a load is refused: {refused:?}"))?;
    keeper.obliges.store(true, Ordering::Relaxed);
    let id = keeper.running.lock().unwrap().ok_or("nothing runs")?;
    ensure(!gpu.resident_wait(id, Duration::from_millis(5))?, "a wait for what stays ends in time")?;
    keeper.end()?;
    ensure(gpu.resident_done(id)?, "told to leave, it leaves")
}

/// What another backend of the same GPU loads beside them.
fn apart(gpu: &Arc<Cuda>, program: &Arc<dyn Program>) -> Outcome {
    let keeper = Keeper::new(gpu, program, MappedPlace::Host)?;
    let other = Cuda::open(0)?;
    for (round, (what, work)) in (2000..).zip(BESIDE) {
        let asked = keeper.asked.load(Ordering::Relaxed);
        let ((), took) = timed(|| work(&other))?;
        let made_room = keeper.asked.load(Ordering::Relaxed) - asked;
        println!("  beside kernels of another backend: {what}: {took:.1?}, which left {made_room} times");
        ensure(keeper.is_there()?, "it stays")?;
        keeper.echoes(round)?;
    }
    Ok(keeper.end()?)
}

type Beside = fn(&Cuda) -> Outcome;

const BESIDE: [(&str, Beside); 7] = [
    ("compile, launch and drop a kernel", |gpu| {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_nanos();
        use_other(gpu, seed, &gpu.compile(&parse(&other(seed)).map_err(|e| e.to_string())?)?.program)
    }),
    ("compile another, load it from its artifact", |gpu| {
        let compiled = gpu.compile(&parse(&other(77)).map_err(|e| e.to_string())?)?;
        use_other(gpu, 77, &gpu.load(&compiled.artifact.ok_or("no artifact")?)?)
    }),
    ("record 3000 events", |gpu| {
        let events = (0..3000).map(|_| gpu.record(STREAM, false)).collect::<Result<Vec<_>, Error>>()?;
        gpu.synchronize(STREAM)?;
        ensure(gpu.query(events[2999])?, "an event has passed")?;
        events.into_iter().for_each(|event| gpu.destroy_event(event));
        Ok(())
    }),
    ("make and destroy 100 streams", |gpu| {
        let streams = (0..100).map(|_| gpu.create_stream()).collect::<Result<Vec<_>, Error>>()?;
        streams.iter().try_for_each(|stream| gpu.synchronize(*stream))?;
        streams.into_iter().for_each(|stream| gpu.destroy_stream(stream));
        Ok(())
    }),
    ("map and unmap host memory", |gpu| unmap(gpu, MappedPlace::Host)),
    ("map and unmap GPU memory", |gpu| match gpu.mapped_places().device {
        Ok(_) => unmap(gpu, MappedPlace::Device),
        Err(_) => Ok(()),
    }),
    ("make and destroy a stream, record and query", |gpu| {
        let stream = gpu.create_stream()?;
        let event = gpu.record(stream, false)?;
        gpu.query(event)?;
        gpu.synchronize(stream)?;
        gpu.destroy_event(event);
        gpu.destroy_stream(stream);
        Ok(())
    }),
];

fn unmap(gpu: &Cuda, place: MappedPlace) -> Outcome {
    let mapped = gpu.map(100_000, place)?;
    // SAFETY: mapped just now, not used yet.
    unsafe { gpu.unmap(mapped) };
    Ok(())
}

fn use_other(gpu: &Cuda, addend: u32, program: &Arc<dyn Program>) -> Outcome {
    let memory = gpu.allocate(1024, STREAM)?;
    let mut bytes = [0; 1024];
    // SAFETY: the memory has room for 256 words, and is freed after its last use.
    unsafe {
        gpu.fill(memory, 0, 1024, STREAM)?;
        let arguments = LaunchArguments::new().view(BufferBinding::write(memory), &[256]);
        gpu.launch(&**program, arguments.launch([1, 1, 1], STREAM))?;
        gpu.download(&mut bytes, memory, STREAM)?;
        gpu.free(memory, 1024, STREAM);
    }
    ensure(
        bytes.as_chunks::<4>().0.iter().all(|word| u32::from_le_bytes(*word) == addend),
        "the other kernel adds",
    )
}

fn faults(gpu: &Cuda, program: &Arc<dyn Program>) -> Outcome {
    let (inbox, outbox) = (gpu.map(64, MappedPlace::Host)?, gpu.map(64, MappedPlace::Host)?);
    let id = launch(gpu, program, &inbox, &outbox)?;
    send(&inbox, 2, u32::MAX - 1);
    [0, 1, 3].into_iter().try_for_each(|block| {
        send(&inbox, block, 5);
        expect(&outbox, block, 10)
    })?;
    ensure(!gpu.resident_wait(id, Duration::from_millis(20))?, "the other blocks go on")?;
    [0, 1, 3].into_iter().for_each(|block| send(&inbox, block, STOP));
    match gpu.resident_wait(id, PATIENCE) {
        Err(Error::Fault(fault)) => {
            println!("  reported at the end: {fault}");
            ensure(fault.block == [2, 0, 0], "the fault names its block")?;
        }
        other => return Err(format!("expected a fault, got {other:?}").into()),
    }
    ensure(gpu.resident_done(id)?, "it is reported once")?;
    // SAFETY: nothing runs any more.
    unsafe {
        gpu.unmap(inbox);
        gpu.unmap(outbox);
    }
    Ok(())
}

fn too_many_blocks(gpu: &Cuda, program: &Arc<dyn Program>) -> Outcome {
    let arguments = views(DevicePtr(0), DevicePtr(0), 0);
    // SAFETY: refused.
    match unsafe { gpu.launch_resident(program, arguments.launch([1 << 20, 1, 1], STREAM)) } {
        Err(Error::LaunchLimit { limit, .. }) => {
            println!("  {limit} such blocks can stay at once");
            Ok(())
        }
        other => Err(format!("expected a limit, got {other:?}").into()),
    }
}
