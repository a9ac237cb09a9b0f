//! Who is on the GPU to stay: the resident launches of a context, and their owners. All backends of
//! the context share them, since what the driver does not do beside a resident kernel it does not
//! do beside one of another backend.

use super::crowd::Crowd;
use super::device::Device;
use super::program::CudaProgram;
use super::residents::{OwnStream, Residents, occupied};
use super::streams::Queue;
use super::tenants::Tenants;
use crate::driver::{Context, StreamPlace};
use kiln_backend::{Launch, ResidentId, Result, Tenant};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// For how many streams there is room at once, where there is none: making it stops the tenants.
const MORE: usize = 32;

/// The resident launches of a context, and who keeps them.
pub(super) struct Tenancy {
    context: Context,
    pub(super) residents: Residents,
    pub(super) tenants: Tenants,
    /// Whether there are residents beside which even a small kernel may find no room.
    is_crowded: AtomicBool,
    /// The devices, whose streams may have work that is to begin before a resident launch.
    devices: Mutex<Vec<Weak<Device>>>,
    /// Streams in which large kernels were launched since the last resident launch began.
    filling: Mutex<Vec<Weak<Queue>>>,
}

/// Those of the contexts that are in use.
static KNOWN: Mutex<Vec<Weak<Tenancy>>> = Mutex::new(Vec::new());

impl Tenancy {
    /// That of a context.
    pub(super) fn of(context: &Context) -> Arc<Tenancy> {
        let mut known = locked(&KNOWN);
        if let Some(found) = known.iter().filter_map(Weak::upgrade).find(|found| found.context.is(context)) {
            return found;
        }
        let fresh = Arc::new(Tenancy {
            context: context.clone(),
            residents: Residents::default(),
            tenants: Tenants::default(),
            is_crowded: AtomicBool::new(false),
            devices: Mutex::default(),
            filling: Mutex::default(),
        });
        known.retain(|tenancy| tenancy.strong_count() > 0);
        known.push(Arc::downgrade(&fresh));
        fresh
    }

    /// Does `work`, which waits for all kernels of the context, while none of its resident launches
    /// runs: `what` of a device.
    ///
    /// # Errors
    /// Those of `work` and of the tenants;
    /// [`Error::Unavailable`](kiln_backend::Error::Unavailable) where a resident launch runs that
    /// no tenant ends.
    pub(super) fn with_room<T>(
        &self,
        what: &'static str,
        device: &str,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.tenants.with_room(&self.residents, work)?.map_or_else(|| Err(occupied(what, device)), Ok)
    }

    /// A place for a stream.
    ///
    /// # Errors
    /// As of [`with_room`](Self::with_room), where the driver has no room.
    pub(super) fn stream_place(&self, device: &str) -> Result<StreamPlace> {
        loop {
            if let Some(place) = self.context.stream_place() {
                return Ok(place);
            }
            let make = || self.context.make_stream_room(MORE).map_err(|error| error.into_backend(device));
            self.with_room("a stream", device, make)?;
        }
    }

    /// Registers a device of the context.
    pub(super) fn know(&self, device: &Arc<Device>) {
        let mut devices = locked(&self.devices);
        devices.retain(|device| device.strong_count() > 0);
        devices.push(Arc::downgrade(device));
    }

    /// Whether launches of every kernel have to look for room.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded.load(Ordering::Relaxed)
    }

    /// Enqueues what may not find room beside the resident launches: if it does not fit, the
    /// tenants leave until its stream has done its work. Beside a resident launch that no tenant
    /// ends it waits on the GPU.
    ///
    /// # Errors
    /// Those of `enqueue`, of the work where it is waited for, and of the tenants.
    pub(super) fn enqueue(
        &self,
        (device, queue): (&Device, &Arc<Queue>),
        fits: impl FnOnce(&Crowd) -> bool,
        enqueue: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let suits = |crowd: &Crowd| {
            if crowd.blocks == 0 {
                // No resident launch begins meanwhile.
                self.is_crowded.store(false, Ordering::Relaxed);
            }
            fits(crowd)
        };
        if let Some(_door) = self.tenants.beside(&self.residents, suits) {
            enqueue()?;
            self.fills(queue);
            return Ok(());
        }
        let alone = self.tenants.alone(&self.residents)?;
        enqueue()?;
        match alone {
            Some(_) => queue.stream.synchronize().map_err(|error| device.explain(error)),
            None => Ok(()),
        }
    }

    /// Remembers that a stream has work that must begin before the next resident launch, which
    /// could leave no room for it.
    fn fills(&self, queue: &Arc<Queue>) {
        if !queue.fills.swap(true, Ordering::Relaxed) {
            locked(&self.filling).push(Arc::downgrade(queue));
        }
    }

    /// Begins a resident launch.
    ///
    /// # Errors
    /// As of [`Residents::begin`].
    ///
    /// # Safety
    /// That of [`Residents::begin`].
    pub(super) unsafe fn begin(
        &self,
        device: &Arc<Device>,
        program: &CudaProgram,
        launch: Launch<'_>,
    ) -> Result<ResidentId> {
        let _door = self.tenants.enter();
        let filling: Vec<_> = locked(&self.filling).drain(..).filter_map(|queue| queue.upgrade()).collect();
        for queue in &filling {
            queue.fills.store(false, Ordering::Relaxed);
        }
        // SAFETY: as the caller promises.
        let begun = unsafe { self.residents.begin(device, program, launch, &filling, &|| self.is_idle()) };
        if begun.is_err() {
            // The next one comes after them.
            filling.iter().for_each(|queue| self.fills(queue));
        }
        let typical = Crowd::typical(self.context.properties());
        self.is_crowded.store(!self.residents.crowd().is_within(&typical), Ordering::Relaxed);
        begun
    }

    /// Whether no stream has anything to do.
    fn is_idle(&self) -> bool {
        let devices: Vec<_> = locked(&self.devices).iter().filter_map(Weak::upgrade).collect();
        devices.iter().all(|device| device.streams.are_idle().unwrap_or(false))
    }

    /// Registers a tenant, and makes the stream of its launch, which cannot make room itself: the
    /// tenant may hold locks then which it needs to leave.
    pub(super) fn add(&self, device: &str, tenant: Weak<dyn Tenant>) {
        while self.residents.streams() <= self.tenants.count() {
            let made = self
                .stream_place(device)
                .and_then(|place| OwnStream::new(place).map_err(|error| error.into_backend(device)));
            // Without it the launch says why it has none.
            let Ok(stream) = made else { break };
            self.residents.keep(stream);
        }
        self.tenants.add(tenant);
    }
}

/// Changed by whole insertions and removals only, so a panic in between leaves nothing half-done.
fn locked<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}
