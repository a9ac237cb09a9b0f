//! What everything on one GPU shares: its context, streams, events, what its programs report, and
//! programs that are being unloaded.

use super::capabilities::capabilities;
use super::maps::NOTHING;
use super::reports::Printed;
use super::sites::SiteTables;
use super::streams::{Events, Queue, Streams};
use crate::driver::{Context, CudaError, Event, Function, Stream, StreamPlace};
use kiln_backend::{DevicePtr, PrintSink, Prints, Properties, Residency, Result, StreamId};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A GPU in use.
pub(super) struct Device {
    pub(super) properties: Properties,
    pub(super) streams: Streams,
    /// In which mapped memory is zeroed, beside whatever the others do.
    pub(super) clearing: Stream,
    pub(super) events: Events,
    pub(super) tables: SiteTables,
    /// Zeros, for maps of views without elements. They live as long as the context.
    pub(super) nothing: DevicePtr,
    prints: Prints,
    retired: Mutex<Vec<Retired>>,
    pub(super) context: Context,
}

/// A program without handles, whose launches may still run.
struct Retired {
    function: Function,
    /// Points after all work that was enqueued when it was retired.
    ends: Vec<Event>,
}

impl Retired {
    fn is_over(&self) -> bool {
        self.ends.iter().all(|event| event.has_passed().unwrap_or(false))
    }
}

impl Device {
    /// Opens the GPU of a context, with places for two streams.
    pub(super) fn open(id: String, context: Context, places: [StreamPlace; 2]) -> Result<Device> {
        let opened = || {
            let [default, clearing] = places;
            let streams = Streams::new(default)?;
            let clearing = Stream::in_place(clearing, 0)?;
            let nothing = zeros(&streams)?;
            Ok((streams, clearing, nothing))
        };
        let (streams, clearing, nothing) = opened().map_err(|error: CudaError| error.into_backend(&id))?;
        Ok(Device {
            properties: properties(id, &context),
            streams,
            clearing,
            events: Events::default(),
            tables: SiteTables::default(),
            nothing,
            prints: Prints::default(),
            retired: Mutex::default(),
            context,
        })
    }

    /// The driver's error as this device's.
    #[cold]
    pub(super) fn explain(&self, error: CudaError) -> kiln_backend::Error {
        error.into_backend(&self.properties.id)
    }

    pub(super) fn set_print_sink(&self, sink: PrintSink) {
        self.prints.set(sink);
    }

    /// As [`report`](Self::report), and whether the print sink panicked: for synchronizations. The
    /// end of a resident launch, whose owner has nothing to do with the sink, is no place to say
    /// so.
    pub(super) fn report_all(&self, queue: &Arc<Queue>) -> Result<()> {
        self.report(queue)?;
        self.prints.outcome(&self.properties.id)
    }

    /// Passes on what the work of a stream, which is done, printed, and returns its first fault as
    /// the error.
    pub(super) fn report(&self, queue: &Arc<Queue>) -> Result<()> {
        let mut fault = None;
        for queue in self.streams.due(queue).map_err(|error| self.explain(error))? {
            let Some(reports) = queue.reports() else { continue };
            if let Some(printed) = reports.take_prints().map_err(|error| self.explain(error))? {
                self.print(&printed);
            }
            let record = reports.take_fault().map_err(|error| self.explain(error))?;
            fault = fault.or(record);
        }
        match fault {
            None => Ok(()),
            Some(record) => Err(self.tables.fault(&record)?.into()),
        }
    }

    fn print(&self, printed: &Printed) {
        for text in self.tables.prints(&printed.records) {
            text.lines().for_each(|line| self.prints.line(line));
        }
        if printed.lost > 0 {
            self.prints.line(&format!(
                "[kiln] {} more prints were lost: their buffer was full; print in fewer threads, or synchronize more often",
                printed.lost
            ));
        }
    }

    /// Unloads a program once its launches are over: the driver must not unload code that runs.
    pub(super) fn retire(&self, function: Function) {
        self.sweep();
        match self.streams.ends() {
            Ok(ends) => self.retired().push(Retired { function, ends }),
            // Better to keep the code for ever than to take it from under a kernel.
            Err(_) => std::mem::forget(function),
        }
    }

    /// Unloads retired programs whose launches are over.
    pub(super) fn sweep(&self) {
        self.retired().retain(|retired| !retired.is_over());
    }

    fn retired(&self) -> MutexGuard<'_, Vec<Retired>> {
        // Changed by pushes and removals only, so a panic in between leaves nothing half-done.
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.sweep();
        // What still runs keeps its code until the process ends.
        for Retired { function, .. } in self.retired().drain(..) {
            std::mem::forget(function);
        }
    }
}

/// Memory of [`NOTHING`] zeros, for good.
fn zeros(streams: &Streams) -> crate::driver::Result<DevicePtr> {
    let stream = &streams.get(StreamId::default()).stream;
    let memory = stream.allocate(NOTHING)?;
    // SAFETY: the memory has as many bytes.
    unsafe { stream.fill_bytes(memory, 0, NOTHING) }?;
    stream.synchronize()?;
    Ok(memory)
}

fn properties(id: String, context: &Context) -> Properties {
    let gpu = context.properties();
    let driver = context.device().driver();
    let (cuda, ptx) = (driver.version(), driver.ptx_version());
    let capability = gpu.compute_capability;
    Properties {
        id,
        name: gpu.name.clone(),
        uuid: context.device().uuid().ok(),
        units: gpu.multiprocessors,
        warp: gpu.warp,
        max_threads: gpu.max_threads_per_block,
        max_grid: gpu.max_grid,
        shared_memory: gpu.shared_per_block_opt_in,
        memory: gpu.memory_bytes as u64,
        cache: gpu.l2_bytes.into(),
        compute_capability: Some((capability.major, capability.minor)),
        driver: match driver.release() {
            Some(release) => format!("{release} (CUDA {cuda})"),
            None => format!("CUDA {cuda}"),
        },
        ptx: Some((ptx.major, ptx.minor)),
        unified: false,
        residency: Residency::Beside,
        capabilities: capabilities((capability.major, capability.minor)),
    }
}
