//! Mapping memory, and bringing it up to date on the device.

use super::allocations::AllocationOffset;
use super::gpu::Gpu;
use super::mapped::{MappedPart, MappedRegion, locked};
use super::state::DeviceState;
use kiln_backend::{DevicePtr, Error, Mapped, MappedPlace, Result};
use std::sync::{Arc, Mutex};

impl DeviceState {
    /// Maps zeroed memory.
    pub(crate) fn map(&mut self, gpu: &Gpu, bytes: usize) -> Result<Mapped> {
        let region = MappedRegion::new(bytes).ok_or_else(|| Error::OutOfMemory {
            device: "the host".to_owned(),
            requested: bytes as u64,
            free: 0,
            total: 0,
        })?;
        let device = self.allocate(gpu, region.size())?;
        let place = AllocationOffset::of(device);
        let buffer = self.used(gpu, place)?.buffer.clone();
        // Of a buffer from the pool, whatever was there before.
        self.recorder.encoder(gpu).clear_buffer(&buffer, 0, None);
        let (host, place_at) = (region.host(), MappedPlace::Host);
        self.mapped.0.insert(place.allocation, Arc::new(Mutex::new(region)));
        Ok(Mapped { host, device, bytes, place: place_at, write_combined: false })
    }

    /// Frees mapped memory. What dispatches under way find in it is dropped.
    pub(crate) fn unmap(&mut self, device: DevicePtr) {
        if self.mapped.0.remove(&AllocationOffset::of(device).allocation).is_some() {
            self.allocations.free(device);
        }
    }

    /// The part of mapped memory from a pointer on, if it is in some.
    pub(crate) fn mapped_part(&self, from: DevicePtr, bytes: u64) -> Option<MappedPart> {
        self.mapped.part(AllocationOffset::of(from), bytes)
    }

    /// Brings a part of mapped memory on the device up to date, for the dispatch of a number or for
    /// what is recorded before it, while those from `oldest` on are under way.
    pub(crate) fn send_changes(
        &mut self,
        gpu: &Gpu,
        part: &MappedPart,
        (dispatch, oldest): (u64, u64),
    ) -> Result<()> {
        let mut region = locked(&part.region);
        for words in region.take_changes(part.words.clone(), dispatch, oldest) {
            self.write(gpu, part.place_of(words.start), &region.bytes(&words))?;
        }
        Ok(())
    }
}
