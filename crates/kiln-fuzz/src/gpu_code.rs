//! The code for NVIDIA GPUs as a device, without a GPU.
//!
//! Every kernel is compiled as for an H100, and the interpreter runs its last stage before PTX that
//! it supports: over threads, or with tasks. With a seed the threads run in an order of their own.

use kiln_backend::{
    Backend, Compiled, DevicePtr, Error, EventId, Launch, Mapped, MappedMemory, MappedPlace, MappedPlaces,
    PrintSink, Program, Properties, ResidentId, Residents, Result, StreamControls, StreamId, Tenant,
};
use kiln_compiler::{CompileError, Target, pipeline};
use kiln_cuda::{compile_to_tasks, compile_to_threads, ptx};
use kiln_interp::{Interp, Options};
use kiln_ir::{Kernel, Level, OpKind};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// What else is asked of a kernel before it runs: it gets the kernel, and what that was lowered to
/// unless it is of the explicit level.
pub type Check = dyn Fn(&Kernel, Option<&Kernel>) -> Result<()> + Send + Sync;

/// The interpreter, given what the compiler makes of kernels for GPUs.
///
/// ```
/// use kiln_backend::Backend;
/// use kiln_fuzz::GpuCode;
/// let device = GpuCode::named("interp:gpu-code:7").unwrap();
/// assert_eq!(device.properties().id, "interp:7");
/// assert!(GpuCode::named("interp:7").is_none());
/// ```
pub struct GpuCode {
    interp: Interp,
    check: Box<Check>,
    /// The kernels over tiles, whose faults name no thread although each now has threads.
    tiles: Mutex<HashSet<String>>,
}

impl GpuCode {
    /// The name of the device: `interp:gpu-code`, or `interp:gpu-code:SEED` for threads in the
    /// order of a seed.
    pub const NAME: &str = "interp:gpu-code";

    /// On an interpreter that is set up so.
    pub fn new(options: Options) -> GpuCode {
        let interp = Interp::new(options);
        GpuCode { interp, check: Box::new(|_, _| Ok(())), tiles: Mutex::default() }
    }

    /// The device of a name; `None` if it is the name of another one.
    pub fn named(name: &str) -> Option<GpuCode> {
        let seed = name.strip_prefix(GpuCode::NAME)?;
        Options::named(&format!("interp{seed}")).map(GpuCode::new)
    }

    /// The same with a check of every kernel.
    #[must_use]
    pub fn with_check(
        self,
        check: impl Fn(&Kernel, Option<&Kernel>) -> Result<()> + Send + Sync + 'static,
    ) -> GpuCode {
        GpuCode { check: Box::new(check), ..self }
    }

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

/// Whether a kernel has operations of the explicit level.
fn is_explicit(kernel: &Kernel) -> bool {
    let mut explicit = false;
    kernel.walk(|_, data| explicit |= matches!(data.kind, OpKind::Explicit(_)));
    explicit
}

impl Backend for GpuCode {
    fn compile(&self, kernel: &Kernel) -> Result<Compiled> {
        let hopper = ptx::Target { compute: (9, 0), ptx: (9, 0) };
        if is_explicit(kernel) {
            // Its operations are those of one generation, and the interpreter supports them before
            // the lowering only, on legalized tiles.
            (self.check)(kernel, None)?;
            let failed = |e: CompileError| Error::Internal {
                place: "the legalization of tiles",
                message: e.to_string(),
            };
            let target = Target::cuda(hopper.compute, self.properties().shared_memory);
            let legal = pipeline::run(kernel, &target, pipeline::EXPLICIT).map_err(failed)?;
            return self.interp.compile(&legal.kernel);
        }
        let threads = compile_to_threads(kernel, hopper)?;
        (self.check)(kernel, Some(&threads))?;
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

    unsafe fn launch(&self, program: &dyn Program, launch: Launch<'_>) -> Result<()> {
        // SAFETY: the caller's promise; lowering keeps the parameters.
        unsafe { self.interp.launch(program, launch) }
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

    fn mapped_memory(&self) -> Option<&dyn MappedMemory> {
        Some(self)
    }

    fn residents(&self) -> Option<&dyn Residents> {
        Some(self)
    }

    fn stream_controls(&self) -> Option<&dyn StreamControls> {
        self.interp.stream_controls()
    }
}

impl MappedMemory for GpuCode {
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
}

impl Residents for GpuCode {
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
}
