//! The interpreter behind a backend that counts calls, checks the order of streams, keeps programs
//! as text, and can be made to fail.

use crate::order::Order;
use kiln_backend::{
    Artifacts, Backend, Compiled, DevicePtr, Error, EventId, Execution, Graphs, Launch, Mapped, MappedMemory,
    MappedPlace, MappedPlaces, Multiprocessors, Occupancy, OccupancyLimit, PrintSink, Program, Properties,
    Report, ResidentId, Residents, Result, Stages, StreamId, Tenant,
};
use kiln_interp::{Interp, Options};
use kiln_ir::{Kernel, parse};
use kiln_runtime::{Device, DiskCache};
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// A handle to the backend, which the test keeps while the device owns another.
#[derive(Clone)]
pub struct Probe(Arc<Inner>);

struct Inner {
    interp: Interp,
    properties: Properties,
    order: Mutex<Order>,
    counts: Counts,
    fail_launches: AtomicBool,
    refuse_artifacts: AtomicBool,
    has_graphs: AtomicBool,
    has_multiprocessors: AtomicBool,
    compiles_slowly: AtomicBool,
    compiling: AtomicUsize,
    /// What was freed, and is given again to who asks for as many bytes; `None` if nothing is.
    pool: Mutex<Option<Vec<(DevicePtr, usize)>>>,
}

/// How often each was called.
#[derive(Default)]
pub struct Counts {
    pub compiles: AtomicUsize,
    pub most_compiles_at_once: AtomicUsize,
    pub loads: AtomicUsize,
    pub launches: AtomicUsize,
    pub records: AtomicUsize,
    pub waits: AtomicUsize,
    pub uploads: AtomicUsize,
    pub downloads: AtomicUsize,
    pub copies: AtomicUsize,
    pub graphs_built: AtomicUsize,
    pub graphs_updated: AtomicUsize,
    pub graphs_launched: AtomicUsize,
}

impl Probe {
    /// A device, `unified` or with memory of its own, over a cache, and the probe in it.
    pub fn device(unified: bool, disk: DiskCache) -> (Device, Probe) {
        Probe::device_with(disk, |properties| properties.unified = unified)
    }

    /// One that counts as a device whose times mean something.
    pub fn timed_device(unified: bool, disk: DiskCache) -> (Device, Probe) {
        Probe::device_with(disk, |properties| {
            properties.unified = unified;
            properties.capabilities.execution = Execution::Simd;
        })
    }

    fn device_with(disk: DiskCache, change: impl FnOnce(&mut Properties)) -> (Device, Probe) {
        let interp = Interp::new(Options::fast());
        let mut properties = Properties { id: "probe".into(), ..interp.properties().clone() };
        change(&mut properties);
        let probe = Probe(Arc::new(Inner {
            interp,
            properties,
            order: Mutex::default(),
            counts: Counts::default(),
            fail_launches: AtomicBool::new(false),
            refuse_artifacts: AtomicBool::new(false),
            has_graphs: AtomicBool::new(false),
            has_multiprocessors: AtomicBool::new(false),
            compiles_slowly: AtomicBool::new(false),
            compiling: AtomicUsize::new(0),
            pool: Mutex::default(),
        }));
        (Device::with_backend(Box::new(probe.clone()), disk), probe)
    }

    pub fn counts(&self) -> &Counts {
        &self.0.counts
    }

    /// Events recorded and waited for so far.
    pub fn events(&self) -> (usize, usize) {
        (self.counts().records.load(SeqCst), self.counts().waits.load(SeqCst))
    }

    /// Uploads, downloads and copies so far.
    pub fn transfers(&self) -> (usize, usize, usize) {
        let c = self.counts();
        (c.uploads.load(SeqCst), c.downloads.load(SeqCst), c.copies.load(SeqCst))
    }

    pub fn order(&self) -> MutexGuard<'_, Order> {
        self.0.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    pub fn assert_ordered(&self) {
        assert_eq!(self.order().violations(), &[] as &[String]);
    }

    /// From now on launches fail as a driver's might.
    pub fn fail_launches(&self, fail: bool) {
        self.0.fail_launches.store(fail, SeqCst);
    }

    /// From now on artifacts are not taken, as after a change of driver that the key missed.
    pub fn refuse_artifacts(&self) {
        self.0.refuse_artifacts.store(true, SeqCst);
    }

    /// From now on it has graphs of its own.
    pub fn provide_graphs(&self) {
        self.0.has_graphs.store(true, SeqCst);
    }

    /// From now on it has multiprocessors of 2,048 threads, and counts the blocks on one.
    pub fn provide_multiprocessors(&self) {
        self.0.has_multiprocessors.store(true, SeqCst);
    }

    /// From now on freed memory is given again, as by the pool of a driver.
    pub fn pool_memory(&self) {
        *self.pool() = Some(Vec::new());
    }

    fn pool(&self) -> MutexGuard<'_, Option<Vec<(DevicePtr, usize)>>> {
        self.0.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a kernel takes a while to compile.
    pub fn compile_slowly(&self) {
        self.0.compiles_slowly.store(true, SeqCst);
    }

    fn loaded(&self, kernel: &Kernel) -> Result<Arc<Loaded>> {
        let views = kernel.params.iter().filter(|param| param.ty.as_view().is_some());
        let written = views.map(|param| param.mutable).collect();
        Ok(Arc::new(Loaded { program: self.0.interp.compile(kernel)?.program, written }))
    }
}

pub fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, SeqCst);
}

/// A program, and whether each of its views is written.
#[derive(Clone)]
pub struct Loaded {
    program: Arc<dyn Program>,
    written: Vec<bool>,
}

impl Program for Loaded {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn report(&self) -> Report {
        self.program.report()
    }
}

// SAFETY of every `unsafe` call below: the interpreter gets exactly what this backend's caller
// promised.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Backend for Probe {
    fn properties(&self) -> &Properties {
        &self.0.properties
    }

    fn free_memory(&self) -> Result<u64> {
        self.0.interp.free_memory()
    }

    fn allocate(&self, bytes: usize, stream: StreamId) -> Result<DevicePtr> {
        let pooled = self.pool().as_mut().and_then(|pool| {
            let found = pool.iter().rposition(|(_, size)| *size == bytes)?;
            Some(pool.remove(found).0)
        });
        let at = pooled.map_or_else(|| self.0.interp.allocate(bytes, stream), Ok)?;
        self.order().allocated(at.0, bytes as u64, stream.0);
        Ok(at)
    }

    unsafe fn free(&self, ptr: DevicePtr, bytes: usize, stream: StreamId) {
        self.order().freed(ptr.0, stream.0);
        if let Some(pool) = self.pool().as_mut() {
            return pool.push((ptr, bytes));
        }
        unsafe { self.0.interp.free(ptr, bytes, stream) }
    }

    unsafe fn upload(&self, dst: DevicePtr, src: &[u8], stream: StreamId) -> Result<()> {
        count(&self.counts().uploads);
        self.order().touched(dst.0, stream.0, true, "upload");
        unsafe { self.0.interp.upload(dst, src, stream) }
    }

    unsafe fn download(&self, dst: &mut [u8], src: DevicePtr, stream: StreamId) -> Result<()> {
        count(&self.counts().downloads);
        self.order().synchronized(stream.0);
        self.order().touched(src.0, stream.0, false, "download");
        unsafe { self.0.interp.download(dst, src, stream) }
    }

    unsafe fn copy(&self, dst: DevicePtr, src: DevicePtr, bytes: usize, stream: StreamId) -> Result<()> {
        count(&self.counts().copies);
        self.order().touched(src.0, stream.0, false, "copy");
        self.order().touched(dst.0, stream.0, true, "copy");
        unsafe { self.0.interp.copy(dst, src, bytes, stream) }
    }

    unsafe fn fill(&self, dst: DevicePtr, byte: u8, bytes: usize, stream: StreamId) -> Result<()> {
        self.order().touched(dst.0, stream.0, true, "fill");
        unsafe { self.0.interp.fill(dst, byte, bytes, stream) }
    }

    fn compile(&self, kernel: &Kernel) -> Result<Compiled> {
        count(&self.counts().compiles);
        let at_once = self.0.compiling.fetch_add(1, SeqCst) + 1;
        self.counts().most_compiles_at_once.fetch_max(at_once, SeqCst);
        if self.0.compiles_slowly.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(100));
        }
        self.0.compiling.fetch_sub(1, SeqCst);
        let artifact = Some(format!("{kernel:#}").into_bytes());
        Ok(Compiled { program: self.loaded(kernel)?, artifact, stages: Stages::default() })
    }

    unsafe fn launch(&self, program: &dyn Program, launch: Launch<'_>) -> Result<()> {
        count(&self.counts().launches);
        if self.0.fail_launches.load(SeqCst) {
            let (call, code) = ("probe: launch".into(), "out of sorts".into());
            return Err(Error::Driver { call, code, message: "told to fail".into() });
        }
        let loaded = program.as_any().downcast_ref::<Loaded>().expect("the probe's own program");
        for (view, &written) in launch.buffers.iter().zip(&loaded.written) {
            assert_eq!(view.written, written, "{view:?}");
            if view.buffer.0 != 0 {
                self.order().touched(view.address().0, launch.stream.0, written, "launch");
            }
        }
        unsafe { self.0.interp.launch(&*loaded.program, launch) }
    }

    fn create_stream(&self) -> Result<StreamId> {
        self.0.interp.create_stream()
    }

    fn destroy_stream(&self, stream: StreamId) {
        self.0.interp.destroy_stream(stream);
    }

    fn record(&self, stream: StreamId, timing: bool) -> Result<EventId> {
        count(&self.counts().records);
        let event = self.0.interp.record(stream, timing)?;
        self.order().recorded(event.0, stream.0);
        Ok(event)
    }

    fn wait(&self, stream: StreamId, event: EventId) -> Result<()> {
        count(&self.counts().waits);
        self.order().waited(stream.0, event.0);
        self.0.interp.wait(stream, event)
    }

    fn query(&self, event: EventId) -> Result<bool> {
        self.0.interp.query(event)
    }

    fn elapsed_ms(&self, start: EventId, end: EventId) -> Result<f32> {
        self.0.interp.elapsed_ms(start, end)
    }

    fn destroy_event(&self, event: EventId) {
        self.0.interp.destroy_event(event);
    }

    fn synchronize(&self, stream: StreamId) -> Result<()> {
        self.order().synchronized(stream.0);
        self.0.interp.synchronize(stream)
    }

    fn set_print_sink(&self, sink: PrintSink) {
        self.0.interp.set_print_sink(sink);
    }

    fn artifacts(&self) -> Option<&dyn Artifacts> {
        Some(self)
    }

    fn graphs(&self) -> Option<&dyn Graphs> {
        self.0.has_graphs.load(SeqCst).then_some(self)
    }

    fn mapped_memory(&self) -> Option<&dyn MappedMemory> {
        Some(self)
    }

    fn residents(&self) -> Option<&dyn Residents> {
        Some(self)
    }

    fn multiprocessors(&self) -> Option<&dyn Multiprocessors> {
        self.0.has_multiprocessors.load(SeqCst).then_some(self)
    }
}

impl Multiprocessors for Probe {
    fn occupancy(&self, program: &dyn Program) -> Result<Occupancy> {
        let loaded = program.as_any().downcast_ref::<Loaded>().expect("the probe's own program");
        let blocks = 2048 / loaded.report().threads;
        Ok(Occupancy { blocks, warps: 64, max_warps: 64, limit: OccupancyLimit::Threads })
    }
}

impl Artifacts for Probe {
    fn artifact_key(&self) -> String {
        "probe 1".into()
    }

    fn load(&self, artifact: &[u8]) -> Result<Arc<dyn Program>> {
        let refused =
            |message: String| Error::Driver { call: "probe: load".into(), code: "refused".into(), message };
        if self.0.refuse_artifacts.load(SeqCst) {
            return Err(refused("made by another driver".into()));
        }
        let text = std::str::from_utf8(artifact).map_err(|e| refused(e.to_string()))?;
        let kernel = parse(text).map_err(|e| refused(e.to_string()))?;
        count(&self.counts().loads);
        Ok(self.loaded(&kernel)?)
    }
}

impl MappedMemory for Probe {
    fn map(&self, bytes: usize, place: MappedPlace) -> Result<Mapped> {
        self.0.interp.map(bytes, place)
    }

    unsafe fn unmap(&self, mapped: Mapped) {
        // SAFETY: as the caller promises.
        unsafe { self.0.interp.unmap(mapped) }
    }

    fn mapped_places(&self) -> MappedPlaces {
        self.0.interp.mapped_places()
    }
}

impl Residents for Probe {
    unsafe fn launch_resident(&self, program: &Arc<dyn Program>, launch: Launch<'_>) -> Result<ResidentId> {
        let loaded = program.as_any().downcast_ref::<Loaded>().expect("the probe's own program");
        // SAFETY: as the caller promises.
        unsafe { self.0.interp.launch_resident(&loaded.program, launch) }
    }

    fn resident_done(&self, id: ResidentId) -> Result<bool> {
        self.0.interp.resident_done(id)
    }

    fn resident_wait(&self, id: ResidentId, timeout: Duration) -> Result<bool> {
        self.0.interp.resident_wait(id, timeout)
    }

    fn add_tenant(&self, tenant: Weak<dyn Tenant>) {
        self.0.interp.add_tenant(tenant);
    }
}
