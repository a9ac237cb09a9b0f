//! Resident launches: each in a stream of its own, which nothing else waits for.
//!
//! The stream of one that is over, its events and its reports serve the next: a parked grid is
//! launched by a send, and to make them anew would take longer than the launch.

use super::crowd::Crowd;
use super::device::Device;
use super::occupancy::Block;
use super::program::{CudaProgram, count};
use super::streams::Queue;
use crate::driver::{self, Event, Function, ResidentGuard, StreamPlace};
use kiln_backend::{Error, Launch, ResidentId, Result, StreamPriority};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long a wait polls without a pause before it sleeps between two polls.
const SPIN: Duration = Duration::from_micros(50);
/// How long it sleeps.
const NAP: Duration = Duration::from_micros(100);

/// The resident launches of a context that are not known to be over.
#[derive(Default)]
pub(super) struct Residents(Mutex<Table>);

#[derive(Default)]
struct Table {
    begun: u64,
    live: HashMap<ResidentId, Arc<Resident>>,
    idle: Vec<OwnStream>,
}

/// What a resident launch runs in.
pub(super) struct OwnStream {
    queue: Arc<Queue>,
    /// After what the launch waits for.
    before: Event,
    end: Event,
}

impl OwnStream {
    pub(super) fn new(place: StreamPlace) -> driver::Result<OwnStream> {
        let queue = Queue::new(place, StreamPriority::Normal)?;
        let context = queue.stream.context();
        let (before, end) = (Event::new(context)?, Event::new(context)?);
        Ok(OwnStream { queue, before, end })
    }

    /// Waits for what is in another stream.
    fn come_after(&self, other: &Queue) -> driver::Result<()> {
        self.before.record(&other.stream)?;
        self.queue.stream.wait(&self.before)
    }
}

struct Resident {
    own: OwnStream,
    /// Whose launch it is.
    owner: Weak<Device>,
    /// Its blocks, and what each takes of a multiprocessor.
    blocks: u64,
    block: Block,
    /// Whether it began on a GPU without work: where a multiprocessor works it may keep its memory
    /// divided as it was, with little that is shared.
    was_first: bool,
    /// Keeps the code on the device.
    _function: Function,
    /// Nothing is freed whose freeing would wait for it.
    _guard: ResidentGuard,
}

impl Resident {
    fn may_run(&self) -> bool {
        !self.own.end.has_passed().unwrap_or(false)
    }
}

impl Residents {
    /// Enqueues a launch in a stream of its own, behind what is in the launch's and in `filling`.
    /// `is_idle` says whether no stream has work. No thread may load a program or enqueue a large
    /// kernel meanwhile: [`Tenants::enter`](super::tenants::Tenants::enter).
    ///
    /// # Errors
    /// [`Error::Unavailable`](kiln_backend::Error::Unavailable) where the driver would wait for
    /// another launch before it makes the stream; failures of the device.
    ///
    /// # Safety
    /// That of [`Backend::launch_resident`](kiln_backend::Backend::launch_resident).
    pub(super) unsafe fn begin(
        &self,
        device: &Arc<Device>,
        program: &CudaProgram,
        launch: Launch<'_>,
        filling: &[Arc<Queue>],
        is_idle: &dyn Fn() -> bool,
    ) -> Result<ResidentId> {
        let function = program.resident_function(launch.grid)?;
        let blocks = count(launch.grid);
        let explain = |error| device.explain(error);
        let own = self.own_stream(device)?;
        let was_idle = is_idle();
        if !was_idle {
            own.come_after(&device.streams.get(launch.stream)).map_err(explain)?;
            filling.iter().try_for_each(|queue| own.come_after(queue)).map_err(explain)?;
        }
        own.before.record(&own.queue.stream).map_err(explain)?;
        let guard = device.context.begin_resident();
        // SAFETY: as the caller promises.
        unsafe { program.launch(&own.queue, launch) }?;
        let recorded = own.end.record(&own.queue.stream);
        let was_first = was_idle && is_idle();
        let mut table = self.table();
        let id = ResidentId(table.begun);
        table.begun += 1;
        // Recorded also if its end could not be recorded, which means that the context is lost.
        let owner = Arc::downgrade(device);
        let block = program.block();
        let resident = Resident { own, owner, blocks, block, was_first, _function: function, _guard: guard };
        table.live.insert(id, Arc::new(resident));
        recorded.map(|()| id).map_err(explain)
    }

    /// A stream that no launch has.
    fn own_stream(&self, device: &Device) -> Result<OwnStream> {
        if let Some(idle) = self.table().idle.pop() {
            return Ok(idle);
        }
        let place = match device.context.stream_place() {
            Some(place) => place,
            None if self.any_runs() => {
                return Err(occupied("the stream of a resident launch", &device.properties.id));
            }
            None => StreamPlace::any(&device.context),
        };
        OwnStream::new(place).map_err(|error| device.explain(error))
    }

    /// How many streams its launches have, those that no launch has now among them.
    pub(super) fn streams(&self) -> usize {
        let table = self.table();
        table.live.len() + table.idle.len()
    }

    /// Keeps a stream for a launch to come.
    pub(super) fn keep(&self, stream: OwnStream) {
        self.table().idle.push(stream);
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

    /// Whether a launch may still run.
    pub(super) fn any_runs(&self) -> bool {
        self.crowd().blocks > 0
    }

    /// Those that may still run. Where the device cannot say, they may.
    pub(super) fn crowd(&self) -> Crowd {
        let mut table = self.table();
        // Nobody asks for the end of those whose device was closed.
        let closed = |resident: &Resident| resident.owner.strong_count() == 0 && !resident.may_run();
        let over: Vec<_> = table.live.extract_if(|_, resident| closed(resident)).collect();
        let living = table.live.values().filter(|resident| resident.may_run());
        let crowd = living.fold(Crowd::NONE, |crowd, r| crowd.with(r.block, r.blocks, r.was_first));
        // What was kept for their sake may be freed now, which takes its time.
        drop(table);
        drop(over);
        crowd
    }

    /// Waits until none is behind other work any more.
    pub(super) fn wait_until_begun(&self) {
        let living: Vec<_> = self.table().live.values().cloned().collect();
        for resident in living {
            while !resident.own.before.has_passed().unwrap_or(true) {
                std::thread::sleep(NAP);
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change is one insertion or removal, so a panic in between leaves nothing half-done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Residents {
    /// Gives up what still runs: its code, its stream and its context live until the process ends.
    fn drop(&mut self) {
        let table = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, resident) in table.live.drain().filter(|(_, resident)| resident.may_run()) {
            std::mem::forget(resident);
        }
    }
}

/// That something cannot be had beside the launches that run.
pub(super) fn occupied(what: &'static str, device: &str) -> Error {
    Error::Unavailable {
        device: format!("{what} on {device}"),
        reason: "a resident launch runs there, for whose end the driver would wait".into(),
        hint: "Compile and load programs, and make streams, before the launch, or end it meanwhile.".into(),
    }
}
