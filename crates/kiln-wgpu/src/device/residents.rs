//! Mapped memory and resident launches, as traits of the device.

use super::backend::{Wgpu, checked};
use kiln_backend::{
    Backend, Launch, MapObstacle, Mapped, MappedMemory, MappedPlace, MappedPlaces, Program, ResidentId,
    Residents, Result, Tenant,
};
use std::sync::{Arc, Weak};
use std::time::Duration;

fn no_device_memory() -> MapObstacle {
    MapObstacle::Hardware { what: "the host does not write an adapter's memory while kernels run".to_owned() }
}

impl MappedMemory for Wgpu {
    fn mapped_places(&self) -> MappedPlaces {
        let host = "a copy that dispatches bring up to date".to_owned();
        MappedPlaces { host: Ok(host), device: Err(no_device_memory()) }
    }

    fn map(&self, bytes: usize, place: MappedPlace) -> Result<Mapped> {
        match place {
            MappedPlace::Host => self.map_memory(bytes),
            MappedPlace::Device => Err(no_device_memory().into_error(&self.properties().id, place)),
        }
    }

    unsafe fn unmap(&self, mapped: Mapped) {
        self.unmap_memory(&mapped);
    }
}

impl Residents for Wgpu {
    unsafe fn launch_resident(&self, program: &Arc<dyn Program>, launch: Launch<'_>) -> Result<ResidentId> {
        self.dispatch(checked(&**program, &launch)?, launch)
    }

    fn resident_done(&self, id: ResidentId) -> Result<bool> {
        self.dispatch_is_over(id, false)
    }

    /// A dispatch ends by itself, so that it is waited for whatever the timeout.
    fn resident_wait(&self, id: ResidentId, timeout: Duration) -> Result<bool> {
        self.dispatch_is_over(id, !timeout.is_zero())
    }

    /// A dispatch delays no other work.
    fn add_tenant(&self, _tenant: Weak<dyn Tenant>) {}
}
