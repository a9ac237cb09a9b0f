//! The conformance suite on the code that GPUs get, without a GPU: every kernel is compiled as for
//! an H100, written as PTX for three generations, and its last stage before PTX that the
//! interpreter knows is run by it: over threads, or with tasks. With `KILN_PTXAS` the PTX is
//! assembled too.

mod suite;

use kiln_backend::{
    Backend, Compiled, DevicePtr, Error, EventId, Launch, Mapped, MappedPlace, MappedPlaces, PrintSink,
    Program, Properties, ResidentId, Result, StreamId, Tenant,
};
use kiln_compiler::{CompileError, legalize_tiles};
use kiln_cuda::{compile_to_ptx, compile_to_tasks, compile_to_threads, ptx, threads_to_ptx};
use kiln_interp::{Interp, Options};
use kiln_ir::{Kernel, Level, OpKind};
use kiln_runtime::{Device, DiskCache};
use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

fn main() -> ExitCode {
    let open = || {
        let backend = GpuCode { interp: Interp::new(Options::fast()), tiles: Mutex::default() };
        Ok(Device::with_backend(Box::new(backend), DiskCache::none()))
    };
    suite::run(open, suite::Threads::Cores, |_| true, vec![assembled()])
}

/// Stands for the assembling of all cases: ignored where no assembler is named, and nothing is
/// assembled.
fn assembled() -> libtest_mimic::Trial {
    let ptxas = std::env::var_os("KILN_PTXAS");
    let missing = ptxas.is_none();
    let starts = move || {
        let ptxas = ptxas.ok_or("no KILN_PTXAS to assemble with")?;
        match Command::new(ptxas).arg("--version").output() {
            Ok(output) if output.status.success() => Ok(()),
            other => Err(format!("the assembler does not start: {other:?}").into()),
        }
    };
    libtest_mimic::Trial::test("every_case_is_assembled_by_ptxas", starts).with_ignored_flag(missing)
}

/// Compute capabilities besides that of an H100.
const OTHER_GENERATIONS: [(u32, u32); 2] = [(8, 0), (10, 0)];

/// The interpreter, given what the compiler makes of kernels for GPUs.
struct GpuCode {
    interp: Interp,
    /// The kernels over tiles, whose faults name no thread although each now has threads.
    tiles: Mutex<HashSet<String>>,
}

impl GpuCode {
    fn faults<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| match error {
            Error::Fault(mut fault) => {
                let tiles = self.tiles.lock().unwrap_or_else(PoisonError::into_inner);
                fault.thread = fault.thread.filter(|_| !tiles.contains(&fault.kernel));
                Error::Fault(fault)
            }
            other => other,
        })
    }
}

fn is_explicit(kernel: &Kernel) -> bool {
    let mut explicit = false;
    kernel.walk(|_, data| explicit |= matches!(data.kind, OpKind::Explicit(_)));
    explicit
}

/// Assembles PTX, where an assembler is known.
fn assemble(kernel: &str, text: &str) -> Result<()> {
    let Some(ptxas) = std::env::var_os("KILN_PTXAS") else { return Ok(()) };
    let failed =
        |message: String| Error::Compile { kernel: kernel.into(), location: "ptxas".into(), message };
    let (process, thread) = (std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(format!("kiln-gpu-code-{process}-{thread:?}.ptx"));
    let written = std::fs::File::create(&path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|e| failed(e.to_string()))?;
    let mut command = Command::new(ptxas);
    let arch = if text.contains(".target sm_90a") { "-arch=sm_90a" } else { "-arch=sm_90" };
    command.args([arch, "-O1", "-o", "/dev/null"]).arg(&path).stdout(Stdio::piped());
    let output = command.output().map_err(|e| failed(e.to_string()))?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    // Of products of warpgroups that wait for each other it only informs.
    if output.status.success() && !said.contains("serialized") {
        return Ok(());
    }
    Err(failed(format!("{said}\n{text}")))
}

/// Runs a check of what the kernel becomes, unless one of an equal kernel has passed: ring kernels
/// are compiled again for every grid.
fn once(kernel: &Kernel, check: impl FnOnce() -> Result<()>) -> Result<()> {
    static PASSED: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
    let passed = || PASSED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut hasher = DefaultHasher::new();
    kernel.to_string().hash(&mut hasher);
    let own = hasher.finish();
    if !passed().contains(&own) {
        check()?;
        passed().insert(own);
    }
    Ok(())
}

impl Backend for GpuCode {
    fn compile(&self, kernel: &Kernel) -> Result<Compiled> {
        let of = |compute| ptx::Target { compute, ptx: (9, 0) };
        let hopper = of((9, 0));
        if is_explicit(kernel) {
            // Its operations are those of one generation, and the interpreter knows them before the
            // lowering only, on legalized tiles.
            once(kernel, || assemble(&kernel.name, &compile_to_ptx(kernel, hopper)?.text))?;
            let failed = |e: CompileError| Error::Internal {
                place: "the legalization of tiles",
                message: e.to_string(),
            };
            let legal = legalize_tiles(kernel).map_err(failed)?;
            return self.interp.compile(legal.as_ref().unwrap_or(kernel));
        }
        let threads = compile_to_threads(kernel, hopper)?;
        once(kernel, || {
            // There are no clusters before compute capability 9.0.
            for compute in OTHER_GENERATIONS.into_iter().filter(|&g| g >= (9, 0) || kernel.cluster == 1) {
                compile_to_ptx(kernel, of(compute))?;
            }
            assemble(&kernel.name, &threads_to_ptx(&threads, hopper)?.text)
        })?;
        if matches!(kernel.level, Level::Tile { .. }) {
            self.tiles.lock().unwrap_or_else(PoisonError::into_inner).insert(kernel.name.clone());
            // Tasks are of the explicit level, as above.
            if let Some(tasks) = compile_to_tasks(kernel, hopper)? {
                return self.interp.compile(&tasks);
            }
        }
        self.interp.compile(&threads)
    }

    unsafe fn download(&self, dst: &mut [u8], src: DevicePtr, stream: StreamId) -> Result<()> {
        // SAFETY: the caller's promise.
        self.faults(unsafe { self.interp.download(dst, src, stream) })
    }

    fn synchronize(&self, stream: StreamId) -> Result<()> {
        self.faults(self.interp.synchronize(stream))
    }

    fn properties(&self) -> &Properties {
        self.interp.properties()
    }

    fn free_memory(&self) -> Result<u64> {
        self.interp.free_memory()
    }

    fn allocate(&self, bytes: usize, stream: StreamId) -> Result<DevicePtr> {
        self.interp.allocate(bytes, stream)
    }

    unsafe fn free(&self, ptr: DevicePtr, bytes: usize, stream: StreamId) {
        // SAFETY: the caller's promise.
        unsafe { self.interp.free(ptr, bytes, stream) }
    }

    unsafe fn upload(&self, dst: DevicePtr, src: &[u8], stream: StreamId) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.interp.upload(dst, src, stream) }
    }

    unsafe fn copy(&self, dst: DevicePtr, src: DevicePtr, bytes: usize, stream: StreamId) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.interp.copy(dst, src, bytes, stream) }
    }

    unsafe fn fill(&self, dst: DevicePtr, byte: u8, bytes: usize, stream: StreamId) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.interp.fill(dst, byte, bytes, stream) }
    }

    fn artifact_key(&self) -> Option<String> {
        None
    }

    fn load(&self, artifact: &[u8]) -> Result<Arc<dyn Program>> {
        self.interp.load(artifact)
    }

    unsafe fn launch(&self, program: &dyn Program, launch: Launch<'_>) -> Result<()> {
        // SAFETY: the caller's promise; lowering keeps the parameters.
        unsafe { self.interp.launch(program, launch) }
    }

    fn map(&self, bytes: usize, place: MappedPlace) -> Result<Mapped> {
        self.interp.map(bytes, place)
    }

    unsafe fn unmap(&self, mapped: Mapped) {
        // SAFETY: the caller's promise.
        unsafe { self.interp.unmap(mapped) }
    }

    fn mapped_places(&self) -> MappedPlaces {
        self.interp.mapped_places()
    }

    unsafe fn launch_resident(&self, program: &Arc<dyn Program>, launch: Launch<'_>) -> Result<ResidentId> {
        // SAFETY: the caller's promise.
        unsafe { self.interp.launch_resident(program, launch) }
    }

    fn resident_done(&self, id: ResidentId) -> Result<bool> {
        self.faults(self.interp.resident_done(id))
    }

    fn resident_wait(&self, id: ResidentId, timeout: Duration) -> Result<bool> {
        self.faults(self.interp.resident_wait(id, timeout))
    }

    fn add_tenant(&self, tenant: Weak<dyn Tenant>) {
        self.interp.add_tenant(tenant);
    }

    fn enable_peer_access(&self, owner: &Properties) -> Result<()> {
        self.interp.enable_peer_access(owner)
    }

    fn create_stream(&self) -> Result<StreamId> {
        self.interp.create_stream()
    }

    fn destroy_stream(&self, stream: StreamId) {
        self.interp.destroy_stream(stream);
    }

    fn record(&self, stream: StreamId, timing: bool) -> Result<EventId> {
        self.interp.record(stream, timing)
    }

    fn wait(&self, stream: StreamId, event: EventId) -> Result<()> {
        self.interp.wait(stream, event)
    }

    fn query(&self, event: EventId) -> Result<bool> {
        self.interp.query(event)
    }

    fn elapsed_ms(&self, start: EventId, end: EventId) -> Result<f32> {
        self.interp.elapsed_ms(start, end)
    }

    fn destroy_event(&self, event: EventId) {
        self.interp.destroy_event(event);
    }

    fn set_print_sink(&self, sink: PrintSink) {
        self.interp.set_print_sink(sink);
    }
}
