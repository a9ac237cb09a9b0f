//! The parent's side: a backend whose every call another process carries out.

use super::link::Link;
use super::memory::Shared;
use super::wire::{Fields, Frame, MOST, Op, broken, properties};
use kiln_backend::{
    Artifacts, Backend, BlockTime, Capabilities, Compiled, DevicePtr, Error, EventId, Launch, MapObstacle,
    Mapped, MappedMemory, MappedPlace, MappedPlaces, PrintSink, Program, Properties, Report, ResidentId,
    Residents, Result, Stages, StreamId, Tenant,
};
use kiln_ir::Kernel;
use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Between two questions whether a resident launch is over.
const NAP: Duration = Duration::from_micros(200);

/// A device in a process of its own.
pub struct Isolated {
    link: Arc<Link>,
    properties: Properties,
    artifact_key: Option<String>,
    tenants: Mutex<Vec<Weak<dyn Tenant>>>,
    /// Mapped memory, by the device's address.
    mapped: Mutex<HashMap<u64, Shared>>,
    /// The next process, which has the device open when this one is lost: to start one, and a
    /// GPU's driver in it, takes longer than all else that a recovery does. `None` where it is
    /// taken, or could not be started.
    standby: Mutex<Option<Link>>,
}

/// A program of the other process.
struct Remote {
    link: Arc<Link>,
    number: u64,
    report: Report,
}

impl Program for Remote {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn report(&self) -> Report {
        self.report.clone()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Where the other process is gone, so is the program.
        let _ = self.link.call(request(Op::Unload).number(self.number));
    }
}

fn request(op: Op) -> Frame {
    Frame::new(op as u8)
}

impl Isolated {
    /// Starts a process for a device.
    pub fn start(name: &str) -> Result<Isolated> {
        Isolated::over(Link::start(name)?, name)
    }

    /// The device of a process that opens it, with a standby.
    fn over(link: Link, name: &str) -> Result<Isolated> {
        link.greet()?;
        let link = Arc::new(link);
        let mut hello = link.call(request(Op::Hello))?;
        let properties = properties(&mut hello)?;
        // The other process has addresses of its own, and its launch limit is its environment's.
        let capabilities =
            Capabilities { peer_access: false, launch_limit: false, ..properties.capabilities };
        let id = format!("{}{}", super::PREFIX, properties.id);
        let properties = Properties { id, capabilities, ..properties };
        let known = hello.number()? != 0;
        let key = hello.text()?;
        let artifact_key = known.then_some(key);
        let (tenants, mapped) = Default::default();
        let standby = Mutex::new(Link::start(name).ok());
        Ok(Isolated { link, properties, artifact_key, tenants, mapped, standby })
    }

    fn standby(&self) -> MutexGuard<'_, Option<Link>> {
        self.standby.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self, frame: Frame) -> Result<()> {
        self.link.call(frame).map(drop)
    }

    fn number(&self, frame: Frame) -> Result<u64> {
        self.link.call(frame)?.number()
    }

    fn program(&self, fields: &mut Fields) -> Result<Arc<dyn Program>> {
        let number = fields.number()?;
        let mut next = || fields.number().map(|number| number as u32);
        let report = Report { threads: next()?, registers: next()?, shared: next()?, spills: next()? };
        Ok(Arc::new(Remote { link: Arc::clone(&self.link), number, report }))
    }

    fn launch_frame(&self, op: Op, program: &dyn Program, launch: Launch<'_>) -> Result<Frame> {
        let remote = program.as_any().downcast_ref::<Remote>();
        let remote = remote.filter(|remote| Arc::ptr_eq(&remote.link, &self.link)).ok_or_else(|| {
            let message = "the program was compiled for another device".to_owned();
            Error::Internal { place: "kiln-runtime", message }
        })?;
        let frame = request(op).number(remote.number).number(launch.stream.0);
        let frame = launch.grid.into_iter().fold(frame, |frame, extent| frame.number(extent.into()));
        let frame = frame.number(launch.buffers.len() as u64);
        let frame = launch.buffers.iter().fold(frame, |frame, view| {
            frame.number(view.buffer.0).number(view.byte_offset).number(view.written.into())
        });
        let frame = frame.number(launch.numbers.len() as u64);
        Ok(launch.numbers.iter().fold(frame, |frame, number| frame.number(*number)))
    }

    /// Does what would wait for resident launches where the device does not load programs beside
    /// them: their tenants are asked to leave first.
    fn with_room<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.properties.capabilities.loads_beside_residents {
            return work();
        }
        let tenants: Vec<_> = self.tenants().iter().filter_map(Weak::upgrade).collect();
        let left: Vec<_> = tenants.iter().map(|tenant| tenant.leave()).collect();
        let outcome = left.into_iter().collect::<Result<()>>().and_then(|()| work());
        tenants.iter().for_each(|tenant| tenant.come_back());
        outcome
    }

    fn tenants(&self) -> MutexGuard<'_, Vec<Weak<dyn Tenant>>> {
        // Changed by pushes and removals only, here and below.
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mapped(&self) -> MutexGuard<'_, HashMap<u64, Shared>> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Isolated {
    fn drop(&mut self) {
        // It ends while this one's process does. Both are waited for as links are dropped.
        if let Some(standby) = &*self.standby() {
            standby.hang_up();
        }
    }
}

impl Backend for Isolated {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn reopen(&self) -> Option<Result<Box<dyn Backend>>> {
        let name = self.properties.id.strip_prefix(super::PREFIX)?;
        let standby = self.standby().take();
        // In place of one that has ended or could not open the device another one is started.
        let ready = standby.and_then(|link| Isolated::over(link, name).ok());
        let next = ready.map_or_else(|| Isolated::start(name), Ok);
        Some(next.map(|next| Box::new(next) as Box<dyn Backend>))
    }

    fn free_memory(&self) -> Result<u64> {
        self.number(request(Op::FreeMemory))
    }

    fn allocate(&self, bytes: usize, stream: StreamId) -> Result<DevicePtr> {
        self.number(request(Op::Allocate).number(stream.0).number(bytes as u64)).map(DevicePtr)
    }

    unsafe fn free(&self, ptr: DevicePtr, bytes: usize, stream: StreamId) {
        let _ = self.done(request(Op::Free).number(stream.0).number(ptr.0).number(bytes as u64));
    }

    unsafe fn upload(&self, dst: DevicePtr, src: &[u8], stream: StreamId) -> Result<()> {
        (0..).zip(src.chunks(MOST)).try_for_each(|(piece, bytes)| {
            let at = dst.0 + piece * MOST as u64;
            self.done(request(Op::Upload).number(stream.0).number(at).bytes(bytes))
        })
    }

    unsafe fn download(&self, dst: &mut [u8], src: DevicePtr, stream: StreamId) -> Result<()> {
        (0..).zip(dst.chunks_mut(MOST)).try_for_each(|(piece, bytes)| {
            let at = src.0 + piece * MOST as u64;
            let frame = request(Op::Download).number(stream.0).number(at).number(bytes.len() as u64);
            let mut fields = self.link.call(frame)?;
            let got = fields.bytes()?;
            if got.len() != bytes.len() {
                return Err(broken());
            }
            bytes.copy_from_slice(got);
            Ok(())
        })
    }

    unsafe fn copy(&self, dst: DevicePtr, src: DevicePtr, bytes: usize, stream: StreamId) -> Result<()> {
        let frame = request(Op::Copy).number(stream.0).number(dst.0).number(src.0);
        self.done(frame.number(bytes as u64))
    }

    unsafe fn fill(&self, dst: DevicePtr, byte: u8, bytes: usize, stream: StreamId) -> Result<()> {
        let frame = request(Op::Fill).number(stream.0).number(dst.0).number(byte.into());
        self.done(frame.number(bytes as u64))
    }

    fn compile(&self, kernel: &Kernel) -> Result<Compiled> {
        let frame = request(Op::Compile).text(&kernel.to_string());
        let mut fields = self.with_room(|| self.link.call(frame))?;
        let program = self.program(&mut fields)?;
        let kept = fields.number()? != 0;
        let artifact = fields.bytes()?.to_vec();
        let mut time = || fields.number().map(Duration::from_nanos);
        let stages = Stages { passes: time()?, emission: time()?, assembly: time()?, loading: time()? };
        Ok(Compiled { program, artifact: kept.then_some(artifact), stages })
    }

    unsafe fn launch(&self, program: &dyn Program, launch: Launch<'_>) -> Result<()> {
        self.done(self.launch_frame(Op::Launch, program, launch)?)
    }

    fn create_stream(&self) -> Result<StreamId> {
        let create = || self.number(request(Op::CreateStream)).map(StreamId);
        match create() {
            // The device has to make room for one more.
            Err(Error::Unavailable { .. }) => self.with_room(create),
            outcome => outcome,
        }
    }

    fn destroy_stream(&self, stream: StreamId) {
        let _ = self.done(request(Op::DestroyStream).number(stream.0));
    }

    fn record(&self, stream: StreamId, timing: bool) -> Result<EventId> {
        self.number(request(Op::Record).number(stream.0).number(timing.into())).map(EventId)
    }

    fn wait(&self, stream: StreamId, event: EventId) -> Result<()> {
        self.done(request(Op::Wait).number(stream.0).number(event.0))
    }

    fn query(&self, event: EventId) -> Result<bool> {
        self.number(request(Op::Query).number(event.0)).map(|passed| passed != 0)
    }

    fn elapsed_ms(&self, start: EventId, end: EventId) -> Result<f32> {
        self.number(request(Op::Elapsed).number(start.0).number(end.0))
            .map(|bits| f32::from_bits(bits as u32))
    }

    fn destroy_event(&self, event: EventId) {
        let _ = self.done(request(Op::DestroyEvent).number(event.0));
    }

    fn synchronize(&self, stream: StreamId) -> Result<()> {
        self.done(request(Op::Synchronize).number(stream.0))
    }

    /// Kernels print where the other process does: on the standard output that it has from this
    /// one.
    fn set_print_sink(&self, _: PrintSink) {}

    fn artifacts(&self) -> Option<&dyn Artifacts> {
        self.artifact_key.is_some().then_some(self as &dyn Artifacts)
    }

    fn mapped_memory(&self) -> Option<&dyn MappedMemory> {
        Some(self)
    }

    fn residents(&self) -> Option<&dyn Residents> {
        Some(self)
    }
}

impl Artifacts for Isolated {
    fn artifact_key(&self) -> String {
        self.artifact_key.clone().unwrap_or_default()
    }

    fn load(&self, artifact: &[u8]) -> Result<Arc<dyn Program>> {
        let mut fields = self.with_room(|| self.link.call(request(Op::Load).bytes(artifact)))?;
        self.program(&mut fields)
    }
}

impl MappedMemory for Isolated {
    fn map(&self, bytes: usize, place: MappedPlace) -> Result<Mapped> {
        if place == MappedPlace::Device {
            return Err(no_device_memory().into_error(&self.properties.id, place));
        }
        let shared = Shared::create(bytes, &self.properties.id)?;
        let frame = request(Op::Map).text(&shared.path().to_string_lossy()).number(bytes.max(1) as u64);
        let device = self.number(frame);
        // Both sides have it now, or none will.
        shared.forget_path();
        let (device, host) = (device?, shared.pointer().ok_or_else(broken)?);
        self.mapped().insert(device, shared);
        Ok(Mapped { host, device: DevicePtr(device), bytes, place, write_combined: false })
    }

    unsafe fn unmap(&self, mapped: Mapped) {
        let _ = self.done(request(Op::Unmap).number(mapped.device.0));
        self.mapped().remove(&mapped.device.0);
    }

    fn mapped_places(&self) -> MappedPlaces {
        let host = Ok("memory that this process shares with the device's".to_owned());
        MappedPlaces { host, device: Err(no_device_memory()) }
    }
}

impl Residents for Isolated {
    unsafe fn launch_resident(&self, program: &Arc<dyn Program>, launch: Launch<'_>) -> Result<ResidentId> {
        self.number(self.launch_frame(Op::LaunchResident, &**program, launch)?).map(ResidentId)
    }

    fn resident_done(&self, id: ResidentId) -> Result<bool> {
        self.number(request(Op::ResidentDone).number(id.0)).map(|over| over != 0)
    }

    fn resident_wait(&self, id: ResidentId, timeout: Duration) -> Result<bool> {
        // Polled again and again, so that other calls are served meanwhile.
        let begun = Instant::now();
        while !self.resident_done(id)? {
            if begun.elapsed() >= timeout {
                return Ok(false);
            }
            std::thread::sleep(NAP);
        }
        Ok(true)
    }

    fn block_time(&self, id: ResidentId, block: u64) -> Option<BlockTime> {
        let mut fields = self.link.call(request(Op::BlockTime).number(id.0).number(block)).ok()?;
        let mut next = || fields.number().ok();
        let (known, ran, runnable) = (next()?, next()?, next()?);
        (known != 0).then_some(BlockTime { ran: Duration::from_nanos(ran), runnable: runnable != 0 })
    }

    fn add_tenant(&self, tenant: Weak<dyn Tenant>) {
        let mut tenants = self.tenants();
        tenants.retain(|tenant| tenant.strong_count() > 0);
        tenants.push(tenant);
    }
}

fn no_device_memory() -> MapObstacle {
    MapObstacle::Hardware { what: "device memory cannot be mapped into two processes".to_owned() }
}
