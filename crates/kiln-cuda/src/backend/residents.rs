//! Resident launches: each in a stream of its own, which nothing else waits for.
//!
//! The stream of one that is over, its events and its reports serve the next: a parked grid is
//! launched by a send, and to make them anew would take longer than the launch.

use super::device::Device;
use super::program::CudaProgram;
use super::streams::Queue;
use crate::driver::{self, Context, Event, Function, ResidentGuard};
use kiln_backend::{Error, Launch, ResidentId, Result, StreamPriority};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a wait polls without a pause before it sleeps between two polls.
const SPIN: Duration = Duration::from_micros(50);
/// How long it sleeps.
const NAP: Duration = Duration::from_micros(100);

/// The resident launches of a device that are not known to be over.
#[derive(Default)]
pub(super) struct Residents(Mutex<Table>);

#[derive(Default)]
struct Table {
    begun: u64,
    live: HashMap<ResidentId, Arc<Resident>>,
    idle: Vec<OwnStream>,
}

/// What a resident launch runs in.
struct OwnStream {
    queue: Arc<Queue>,
    /// After what was in the launch's stream.
    before: Event,
    end: Event,
}

impl OwnStream {
    fn new(context: &Context) -> driver::Result<OwnStream> {
        let queue = Queue::new(context, StreamPriority::Normal)?;
        Ok(OwnStream { queue, before: Event::new(context)?, end: Event::new(context)? })
    }
}

struct Resident {
    own: OwnStream,
    /// Keeps the code on the device.
    _function: Function,
    /// Nothing is freed whose freeing would wait for it.
    _guard: ResidentGuard,
}

impl Residents {
    /// Enqueues a launch in a new stream, behind what is in the launch's. No thread may load a
    /// program meanwhile: [`Tenants::enter`](super::tenants::Tenants::enter).
    ///
    /// # Safety
    /// That of [`Backend::launch_resident`](kiln_backend::Backend::launch_resident).
    pub(super) unsafe fn begin(
        &self,
        device: &Device,
        program: &CudaProgram,
        launch: Launch<'_>,
    ) -> Result<ResidentId> {
        let function = program.resident_function(launch.grid)?;
        let explain = |error| device.explain(error);
        let idle = self.table().idle.pop();
        let own = idle.map_or_else(|| OwnStream::new(&device.context), Ok).map_err(explain)?;
        own.before.record(&device.streams.get(launch.stream).stream).map_err(explain)?;
        own.queue.stream.wait(&own.before).map_err(explain)?;
        let guard = device.context.begin_resident();
        // SAFETY: as the caller promises.
        unsafe { program.launch(&own.queue, launch) }?;
        let recorded = own.end.record(&own.queue.stream);
        let mut table = self.table();
        let id = ResidentId(table.begun);
        table.begun += 1;
        // Recorded also if its end could not be recorded, which means that the context is lost.
        table.live.insert(id, Arc::new(Resident { own, _function: function, _guard: guard }));
        recorded.map(|()| id).map_err(explain)
    }

    /// Whether a launch is over. Reports its fault the first time.
    pub(super) fn is_over(&self, device: &Device, id: ResidentId) -> Result<bool> {
        let resident = {
            let table = self.table();
            match table.live.get(&id) {
                Some(resident) => resident.clone(),
                None if id.0 < table.begun => return Ok(true),
                None => {
                    let message = format!("there is no resident launch {}", id.0);
                    return Err(Error::Internal { place: "kiln-cuda", message });
                }
            }
        };
        if !resident.own.end.has_passed().map_err(|error| device.explain(error))? {
            return Ok(false);
        }
        // Of several threads that ask, one reports.
        if self.table().live.remove(&id).is_none() {
            return Ok(true);
        }
        device.report(&resident.own.queue)?;
        // Not while another thread asks: then it is dropped by the last of them.
        if let Some(resident) = Arc::into_inner(resident) {
            self.table().idle.push(resident.own);
        }
        Ok(true)
    }

    /// Waits for a launch at most this long.
    pub(super) fn wait(&self, device: &Device, id: ResidentId, timeout: Duration) -> Result<bool> {
        let begun = Instant::now();
        loop {
            if self.is_over(device, id)? {
                return Ok(true);
            }
            let left = timeout.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            if begun.elapsed() < SPIN {
                std::hint::spin_loop();
            } else {
                std::thread::sleep(NAP.min(left));
            }
        }
    }

    /// Whether a launch may still run. Where the device cannot say, it may.
    pub(super) fn any_runs(&self) -> bool {
        self.table().live.values().any(|resident| !resident.own.end.has_passed().unwrap_or(false))
    }

    /// Gives up what still runs: its code, its stream and its context live until the process ends.
    pub(super) fn abandon(&self) {
        for (_, resident) in self.table().live.drain() {
            if !resident.own.end.has_passed().unwrap_or(false) {
                std::mem::forget(resident);
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change is one insertion or removal, so a panic in between leaves nothing half-done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
