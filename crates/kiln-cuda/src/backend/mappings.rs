//! Mapped memory. What is given back while a kernel is resident on the device is kept and used
//! again: it could not be freed before that kernel ends.

use super::device::Device;
use crate::driver::{Bar, BarBuffer, Device as Gpu, PinnedBuffer};
use kiln_backend::{DevicePtr, Error, MapObstacle, Mapped, MappedPlace, MappedPlaces, Result};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The smallest piece, a page.
const PAGE: usize = 4096;
/// From here on sizes are rounded up to multiples and not to powers of two.
const LARGE: usize = 2 << 20;

/// The mapped memory of a device.
#[derive(Default)]
pub(super) struct Mappings {
    table: Mutex<Table>,
    /// The way to GPU memory, found on first use.
    bar: OnceLock<std::result::Result<Bar, MapObstacle>>,
}

#[derive(Default)]
struct Table {
    /// By the host's address.
    live: HashMap<usize, Mapping>,
    idle: Vec<Mapping>,
}

/// An allocation, as long as its owner says.
enum Mapping {
    Pinned(PinnedBuffer),
    Bar(BarBuffer),
}

impl Mapping {
    fn place(&self) -> MappedPlace {
        match self {
            Mapping::Pinned(_) => MappedPlace::Host,
            Mapping::Bar(_) => MappedPlace::Device,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Mapping::Pinned(buffer) => buffer.len(),
            Mapping::Bar(buffer) => buffer.len(),
        }
    }

    fn host(&self) -> NonNull<u8> {
        match self {
            Mapping::Pinned(buffer) => buffer.host_pointer(),
            Mapping::Bar(buffer) => buffer.host_pointer(),
        }
    }

    fn device(&self) -> DevicePtr {
        match self {
            Mapping::Pinned(buffer) => buffer.device_pointer(),
            Mapping::Bar(buffer) => buffer.device_pointer(),
        }
    }

    fn write_combined(&self) -> bool {
        match self {
            Mapping::Pinned(_) => false,
            Mapping::Bar(buffer) => buffer.is_write_combined(),
        }
    }

    /// Zeroes what was used before.
    fn clear(&mut self) -> crate::driver::Result<()> {
        match self {
            // SAFETY: the user of the memory has given it back, and with it the promise that it is
            // no longer accessed.
            Mapping::Pinned(buffer) => unsafe { buffer.host_pointer().write_bytes(0, buffer.len()) },
            Mapping::Bar(buffer) => return buffer.clear(),
        }
        Ok(())
    }
}

impl Mappings {
    /// Allocates zeroed memory.
    pub(super) fn map(&self, device: &Device, bytes: usize, place: MappedPlace) -> Result<Mapped> {
        let room = room_for(bytes).ok_or_else(|| Error::OutOfMemory {
            device: device.properties.id.clone(),
            requested: bytes as u64,
            free: device.context.memory().map_or(0, |memory| memory.free as u64),
            total: device.properties.memory,
        })?;
        let piece = match self.take_idle(room, place) {
            Some(mut piece) => {
                piece.clear().map_err(|error| device.explain(error))?;
                piece
            }
            None => self.fresh(device, room, place)?,
        };
        let (host, write_combined) = (piece.host(), piece.write_combined());
        let mapped = Mapped { host, device: piece.device(), bytes, place, write_combined };
        self.table().live.insert(host.as_ptr() as usize, piece);
        Ok(mapped)
    }

    /// Takes memory back.
    pub(super) fn unmap(&self, device: &Device, mapped: Mapped) {
        let resident = device.context.has_resident();
        let mut table = self.table();
        let Some(piece) = table.live.remove(&(mapped.host.as_ptr() as usize)) else { return };
        table.idle.push(piece);
        let unused = if resident { Vec::new() } else { std::mem::take(&mut table.idle) };
        // Freeing takes its time, and others need not wait for it.
        drop(table);
        drop(unused);
    }

    /// Maps memory of another owner.
    ///
    /// # Safety
    /// That of [`Backend::adopt`](kiln_backend::Backend::adopt).
    pub(super) unsafe fn adopt(&self, device: &Device, host: NonNull<u8>, bytes: usize) -> Result<Mapped> {
        // SAFETY: the caller's promise.
        let buffer = unsafe { PinnedBuffer::register(&device.context, host, bytes) };
        let buffer = buffer.map_err(|error| device.explain(error))?;
        let place = MappedPlace::Host;
        let mapped = Mapped { host, device: buffer.device_pointer(), bytes, place, write_combined: false };
        self.table().live.insert(host.as_ptr() as usize, Mapping::Pinned(buffer));
        Ok(mapped)
    }

    /// Gives it up.
    pub(super) fn disown(&self, mapped: Mapped) {
        let piece = self.table().live.remove(&(mapped.host.as_ptr() as usize));
        drop(piece);
    }

    /// New memory, zeroed.
    fn fresh(&self, device: &Device, bytes: usize, place: MappedPlace) -> Result<Mapping> {
        let piece = match place {
            MappedPlace::Host => PinnedBuffer::new(&device.context, bytes).map(Mapping::Pinned),
            MappedPlace::Device => {
                let bar = self.bar(device).as_ref();
                let bar =
                    bar.map_err(|obstacle| obstacle.clone().into_error(&device.properties.id, place))?;
                BarBuffer::new(&device.clearing, bar, bytes).map(Mapping::Bar)
            }
        };
        piece.map_err(|error| device.explain(error))
    }

    /// What there is, and why not.
    pub(super) fn places(&self, device: &Device) -> MappedPlaces {
        let heap = self.bar(device).as_ref().map(Bar::heap_bytes).map_err(Clone::clone);
        describe(device.context.properties().maps_host_memory, heap)
    }

    fn bar(&self, device: &Device) -> &std::result::Result<Bar, MapObstacle> {
        self.bar.get_or_init(|| Bar::open(device.context.device()))
    }

    fn take_idle(&self, room: usize, place: MappedPlace) -> Option<Mapping> {
        let mut table = self.table();
        let at = table.idle.iter().position(|piece| piece.bytes() == room && piece.place() == place)?;
        Some(table.idle.swap_remove(at))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change is one insertion or removal, so a panic in between leaves nothing half-done.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What mapped memory a GPU has, without making it ready for work. It takes some tenths of a second
/// where Vulkan is there.
///
/// # Errors
/// [`Error::Unavailable`] without a driver or such a GPU.
///
/// ```
/// match kiln_cuda::mapped_places(0) {
///     Ok(places) => println!("{:?}, {:?}", places.host, places.device),
///     Err(error) => println!("{error}"),
/// }
/// ```
pub fn mapped_places(index: usize) -> Result<MappedPlaces> {
    let id = format!("cuda:{index}");
    let gpu = Gpu::new(index).and_then(|gpu| Ok((gpu, gpu.properties()?.maps_host_memory)));
    let (gpu, maps_host_memory) = gpu.map_err(|error| error.into_backend(&id))?;
    Ok(describe(maps_host_memory, Bar::probe(gpu)))
}

fn describe(maps_host_memory: bool, heap: std::result::Result<u64, MapObstacle>) -> MappedPlaces {
    let host = match maps_host_memory {
        true => Ok("pinned host memory, polled over the bus".to_owned()),
        false => Err(MapObstacle::Hardware { what: "the GPU cannot access host memory".into() }),
    };
    let mib = |bytes: u64| bytes >> 20;
    MappedPlaces {
        host,
        device: heap.map(|bytes| format!("GPU memory through the BAR, {} MiB of it", mib(bytes))),
    }
}

/// The size of the piece for so many bytes: few sizes, so that a piece is used again.
fn room_for(bytes: usize) -> Option<usize> {
    let bytes = bytes.max(PAGE);
    if bytes < LARGE { bytes.checked_next_power_of_two() } else { bytes.checked_next_multiple_of(LARGE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_described() {
        let places = describe(true, Ok(256 << 20));
        assert_eq!(places.device.as_deref(), Ok("GPU memory through the BAR, 256 MiB of it"));
        let obstacle = MapObstacle::Missing { what: "memory".into() };
        let places = describe(false, Err(obstacle.clone()));
        assert_eq!(places.device, Err(obstacle));
        assert!(places.host.is_err());
    }

    #[test]
    fn sizes_are_few() {
        assert_eq!(room_for(0), Some(PAGE));
        assert_eq!(room_for(PAGE + 1), Some(2 * PAGE));
        assert_eq!(room_for(LARGE - 1), Some(LARGE));
        assert_eq!(room_for(LARGE + 1), Some(2 * LARGE));
        assert_eq!(room_for(usize::MAX), None);
    }
}
