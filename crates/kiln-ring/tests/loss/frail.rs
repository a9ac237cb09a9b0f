//! A device that can be lost when a test says so: from then on every call fails, while what ran
//! goes on unseen.

use kiln_backend::{
    Artifacts, Backend, BlockTime, Compiled, DevicePtr, Error, EventId, Launch, Mapped, MappedMemory,
    MappedPlace, MappedPlaces, PrintSink, Program, Properties, ResidentId, Residents, Result, StreamId,
    Tenant,
};
use kiln_ir::Kernel;
use kiln_runtime::{Device, DiskCache};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

pub struct Frail {
    inner: Box<dyn Backend>,
    lost: Arc<AtomicBool>,
}

/// A device over a backend, and what loses it.
pub fn device(inner: Box<dyn Backend>) -> (Device, Arc<AtomicBool>) {
    let lost = Arc::new(AtomicBool::new(false));
    let frail = Frail { inner, lost: Arc::clone(&lost) };
    (Device::with_backend(Box::new(frail), DiskCache::none()), lost)
}

impl Frail {
    fn there(&self) -> Result<&dyn Backend> {
        if self.lost.load(Ordering::Acquire) {
            let (device, reason) = (self.inner.properties().id.clone(), "it was pulled out".to_owned());
            return Err(Error::Lost { device, reason });
        }
        Ok(&*self.inner)
    }
}

// SAFETY of each unsafe block: as the caller promises.
impl Backend for Frail {
    fn properties(&self) -> &Properties {
        self.inner.properties()
    }

    fn free_memory(&self) -> Result<u64> {
        self.there()?.free_memory()
    }

    fn allocate(&self, bytes: usize, stream: StreamId) -> Result<DevicePtr> {
        self.there()?.allocate(bytes, stream)
    }

    unsafe fn free(&self, ptr: DevicePtr, bytes: usize, stream: StreamId) {
        // SAFETY: see above.
        unsafe { self.inner.free(ptr, bytes, stream) }
    }

    unsafe fn upload(&self, dst: DevicePtr, src: &[u8], stream: StreamId) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.there()?.upload(dst, src, stream) }
    }

    unsafe fn download(&self, dst: &mut [u8], src: DevicePtr, stream: StreamId) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.there()?.download(dst, src, stream) }
    }

    unsafe fn copy(&self, dst: DevicePtr, src: DevicePtr, bytes: usize, stream: StreamId) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.there()?.copy(dst, src, bytes, stream) }
    }

    unsafe fn fill(&self, dst: DevicePtr, byte: u8, bytes: usize, stream: StreamId) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.there()?.fill(dst, byte, bytes, stream) }
    }

    fn compile(&self, kernel: &Kernel) -> Result<Compiled> {
        self.there()?.compile(kernel)
    }

    unsafe fn launch(&self, program: &dyn Program, launch: Launch<'_>) -> Result<()> {
        // SAFETY: see above.
        unsafe { self.there()?.launch(program, launch) }
    }

    fn create_stream(&self) -> Result<StreamId> {
        self.there()?.create_stream()
    }

    fn destroy_stream(&self, stream: StreamId) {
        self.inner.destroy_stream(stream);
    }

    fn record(&self, stream: StreamId, timing: bool) -> Result<EventId> {
        self.there()?.record(stream, timing)
    }

    fn wait(&self, stream: StreamId, event: EventId) -> Result<()> {
        self.there()?.wait(stream, event)
    }

    fn query(&self, event: EventId) -> Result<bool> {
        self.there()?.query(event)
    }

    fn elapsed_ms(&self, start: EventId, end: EventId) -> Result<f32> {
        self.there()?.elapsed_ms(start, end)
    }

    fn destroy_event(&self, event: EventId) {
        self.inner.destroy_event(event);
    }

    fn synchronize(&self, stream: StreamId) -> Result<()> {
        self.there()?.synchronize(stream)
    }

    fn set_print_sink(&self, sink: PrintSink) {
        self.inner.set_print_sink(sink);
    }

    fn artifacts(&self) -> Option<&dyn Artifacts> {
        self.inner.artifacts().map(|_| self as &dyn Artifacts)
    }

    fn mapped_memory(&self) -> Option<&dyn MappedMemory> {
        Some(self)
    }

    fn residents(&self) -> Option<&dyn Residents> {
        Some(self)
    }
}

impl Artifacts for Frail {
    fn artifact_key(&self) -> String {
        self.inner.artifacts().map_or_else(String::new, Artifacts::artifact_key)
    }

    fn load(&self, artifact: &[u8]) -> Result<Arc<dyn Program>> {
        let inner = self.there()?;
        inner.need_artifacts()?.load(artifact)
    }
}

impl MappedMemory for Frail {
    fn map(&self, bytes: usize, place: MappedPlace) -> Result<Mapped> {
        self.there()?.need_mapped_memory()?.map(bytes, place)
    }

    unsafe fn unmap(&self, mapped: Mapped) {
        // SAFETY: see above.
        unsafe { self.inner.unmap(mapped) }
    }

    fn mapped_places(&self) -> MappedPlaces {
        self.inner.mapped_places()
    }
}

impl Residents for Frail {
    unsafe fn launch_resident(&self, program: &Arc<dyn Program>, launch: Launch<'_>) -> Result<ResidentId> {
        // SAFETY: see above.
        unsafe { self.there()?.need_residents()?.launch_resident(program, launch) }
    }

    fn resident_done(&self, id: ResidentId) -> Result<bool> {
        self.there()?.need_residents()?.resident_done(id)
    }

    fn resident_wait(&self, id: ResidentId, timeout: Duration) -> Result<bool> {
        self.there()?.need_residents()?.resident_wait(id, timeout)
    }

    fn block_time(&self, id: ResidentId, block: u64) -> Option<BlockTime> {
        self.there().ok()?.residents()?.block_time(id, block)
    }

    fn add_tenant(&self, tenant: Weak<dyn Tenant>) {
        if let Some(residents) = self.inner.residents() {
            residents.add_tenant(tenant);
        }
    }
}
