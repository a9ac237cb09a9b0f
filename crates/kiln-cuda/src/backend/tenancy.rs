//! Who is on the GPU to stay: the resident launches of a context, and their owners. All backends of
//! the context share them, since what the driver does not do beside a resident kernel it does not
//! do beside one of another backend.

use super::residents::{OwnStream, Residents, occupied};
use super::tenants::Tenants;
use crate::driver::{Context, StreamPlace};
use kiln_backend::{Result, Tenant};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// For how many streams there is room at once, where there is none: making it stops the tenants.
const MORE: usize = 32;

/// The resident launches of a context, and who keeps them.
pub(super) struct Tenancy {
    context: Context,
    pub(super) residents: Residents,
    pub(super) tenants: Tenants,
}

/// Those of the contexts that are in use.
static KNOWN: Mutex<Vec<Weak<Tenancy>>> = Mutex::new(Vec::new());

impl Tenancy {
    /// That of a context.
    pub(super) fn of(context: &Context) -> Arc<Tenancy> {
        // Changed by pushes and removals only, so a panic in between leaves nothing half-done.
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.iter().filter_map(Weak::upgrade).find(|found| found.context.is(context)) {
            return found;
        }
        let (residents, tenants) = Default::default();
        let fresh = Arc::new(Tenancy { context: context.clone(), residents, tenants });
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
