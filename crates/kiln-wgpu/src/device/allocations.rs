//! Device memory: a buffer of wgpu's for each allocation, kept for reuse, and pointers that find
//! it.

use super::gpu::{Gpu, refused};
use super::groups::BindGroups;
use super::late::Refusal;
pub(crate) use super::offset::AllocationOffset;
use super::offset::OFFSET_BITS;
use kiln_backend::{DevicePtr, Error, Result};
use std::collections::BTreeMap;

/// The size of the smallest buffer in bytes. All sizes are multiples of it, so that every buffer
/// ends with a whole word, and can be bound from any multiple of 256 bytes on.
const SMALLEST: u64 = 256;

/// Memory that the caller of the backend has.
pub(crate) struct Allocation {
    pub(crate) pooled: PooledBuffer,
    /// The bytes that were asked for; what lies behind them in the buffer is unused.
    pub(crate) bytes: u64,
}

/// A buffer that is used for one allocation after another.
pub(crate) struct PooledBuffer {
    pub(crate) buffer: wgpu::Buffer,
    /// Tells it from every other buffer, also from those that are gone.
    pub(crate) serial: u64,
    /// The last recording that uses it.
    pub(crate) last_use: u64,
}

/// The allocations of a device.
pub(crate) struct Allocations {
    /// By number, less one.
    slots: Vec<Option<Allocation>>,
    vacant: Vec<usize>,
    /// Buffers without a user, by size.
    pool: BTreeMap<u64, Vec<PooledBuffer>>,
    /// Bytes of all buffers.
    reserved: u64,
    serial: u64,
    /// What views without elements are bound to.
    empty: Option<PooledBuffer>,
}

impl Allocations {
    pub(crate) fn new() -> Allocations {
        Allocations {
            slots: Vec::new(),
            vacant: Vec::new(),
            pool: BTreeMap::new(),
            reserved: 0,
            serial: 0,
            empty: None,
        }
    }

    /// Bytes of all buffers, in use or not.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Bytes that an allocation can still have.
    pub(crate) fn free_bytes(&self, gpu: &Gpu) -> u64 {
        let pooled: u64 = self.pool.iter().map(|(size, buffers)| size * buffers.len() as u64).sum();
        gpu.memory.saturating_sub(self.reserved - pooled)
    }

    /// An allocation of so many bytes, from the pool where it has one that fits.
    pub(crate) fn allocate(&mut self, gpu: &Gpu, groups: &mut BindGroups, bytes: u64) -> Result<DevicePtr> {
        let size = size_class(bytes);
        let reused = self.pool.get_mut(&size).and_then(Vec::pop);
        let pooled = match reused {
            Some(pooled) => pooled,
            None => self.create(gpu, groups, size, bytes)?,
        };
        let allocation = Some(Allocation { pooled, bytes });
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.slots[slot] = allocation;
                slot
            }
            None => {
                self.slots.push(allocation);
                self.slots.len() - 1
            }
        };
        Ok(AllocationOffset { allocation: slot + 1, offset: 0 }.pointer())
    }

    /// Gives an allocation back to the pool. Work that comes later may use its buffer at once: the
    /// queue does it after what was recorded before.
    pub(crate) fn free(&mut self, ptr: DevicePtr) {
        let Some(slot) = AllocationOffset::of(ptr).allocation.checked_sub(1) else { return };
        if let Some(freed) = self.slots.get_mut(slot).and_then(Option::take) {
            self.vacant.push(slot);
            self.pool.entry(freed.pooled.buffer.size()).or_default().push(freed.pooled);
        }
    }

    /// The place that `bytes` bytes from a pointer on are in.
    pub(crate) fn place(&self, call: &str, ptr: DevicePtr, bytes: u64) -> Result<AllocationOffset> {
        let place = AllocationOffset::of(ptr);
        let allocation = self.get(call, place)?;
        match place.offset.checked_add(bytes).is_some_and(|end| end <= allocation.bytes) {
            true => Ok(place),
            false => Err(refused(
                call,
                format!(
                    "{bytes} bytes from byte {} on do not lie in an allocation of {} bytes",
                    place.offset, allocation.bytes
                ),
            )),
        }
    }

    /// The allocation that a place is in.
    pub(crate) fn get(&self, call: &str, place: AllocationOffset) -> Result<&Allocation> {
        let slot = place.allocation.checked_sub(1);
        let found = slot.and_then(|slot| self.slots.get(slot)?.as_ref());
        found.ok_or_else(|| refused(call, "the pointer is in no allocation".to_owned()))
    }

    /// The buffer at a place, for work of a recording.
    pub(crate) fn used(
        &mut self,
        gpu: &Gpu,
        groups: &mut BindGroups,
        place: AllocationOffset,
        recording: u64,
    ) -> Result<&PooledBuffer> {
        let pooled = match place.allocation.checked_sub(1) {
            None => self.empty(gpu, groups)?,
            Some(slot) => match self.slots.get_mut(slot) {
                Some(Some(allocation)) => &mut allocation.pooled,
                _ => return Err(refused("launch", "a view points into no allocation".to_owned())),
            },
        };
        pooled.last_use = recording;
        Ok(pooled)
    }

    /// Whether a place is in the buffer of that serial number, which a recording uses then.
    pub(crate) fn used_again(&mut self, place: AllocationOffset, serial: u64, recording: u64) -> bool {
        let pooled = match place.allocation.checked_sub(1) {
            None => self.empty.as_mut(),
            Some(slot) => match self.slots.get_mut(slot) {
                Some(Some(allocation)) => Some(&mut allocation.pooled),
                _ => None,
            },
        };
        let Some(pooled) = pooled.filter(|pooled| pooled.serial == serial) else { return false };
        pooled.last_use = recording;
        true
    }

    /// The buffer at a place that is [used](Self::used).
    pub(crate) fn buffer(&self, place: AllocationOffset) -> Result<&wgpu::Buffer> {
        match (place.allocation, &self.empty) {
            (0, Some(empty)) => Ok(&empty.buffer),
            _ => Ok(&self.get("launch", place)?.pooled.buffer),
        }
    }

    /// What views without elements are bound to.
    fn empty(&mut self, gpu: &Gpu, groups: &mut BindGroups) -> Result<&mut PooledBuffer> {
        let buffer = match self.empty.take() {
            Some(buffer) => buffer,
            None => self.create(gpu, groups, SMALLEST, SMALLEST)?,
        };
        Ok(self.empty.insert(buffer))
    }

    /// Makes a buffer. Where there is no memory for it, once more without the pool.
    fn create(&mut self, gpu: &Gpu, groups: &mut BindGroups, size: u64, asked: u64) -> Result<PooledBuffer> {
        let limit = gpu.limits.max_buffer_size;
        let full = |free: u64| Error::OutOfMemory {
            device: gpu.id.clone(),
            requested: asked,
            free: free.min(limit),
            total: gpu.memory,
        };
        if size > limit || size >> OFFSET_BITS != 0 {
            return Err(full(self.free_bytes(gpu)));
        }
        for attempt in 0..2 {
            if self.reserved + size > gpu.memory || attempt > 0 {
                groups.clear();
                self.trim(gpu)?;
            }
            if self.reserved + size > gpu.memory {
                break;
            }
            let out = full(self.free_bytes(gpu));
            let made = gpu.scoped(
                || buffer(gpu, size),
                |refusal| match refusal {
                    Refusal::OutOfMemory => out,
                    Refusal::Refused(message) => refused("create_buffer", message),
                },
            );
            match made {
                Ok(buffer) => {
                    self.reserved += size;
                    self.serial += 1;
                    return Ok(PooledBuffer { buffer, serial: self.serial, last_use: 0 });
                }
                Err(Error::OutOfMemory { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        gpu.check()?;
        Err(full(self.free_bytes(gpu)))
    }

    /// Gives the pool's buffers back to the driver, which frees those that no work uses any more.
    fn trim(&mut self, gpu: &Gpu) -> Result<()> {
        for (size, buffers) in std::mem::take(&mut self.pool) {
            self.reserved -= size * buffers.len() as u64;
        }
        gpu.poll()
    }
}

fn buffer(gpu: &Gpu, size: u64) -> wgpu::Buffer {
    gpu.device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size,
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    })
}

/// The size of the buffer for an allocation: a power of two, or above 1 MiB a multiple of an eighth
/// of one, so that no more than an eighth is lost.
fn size_class(bytes: u64) -> u64 {
    const FINE: u64 = 1 << 20;
    if bytes <= FINE {
        return bytes.max(SMALLEST).next_power_of_two();
    }
    // An allocation of exabytes is refused by its size.
    let step = 1u64 << (bytes.ilog2() - 3);
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_hold_what_was_asked_and_little_more() {
        for (bytes, size) in [
            (1, 256),
            (256, 256),
            (257, 512),
            (1 << 20, 1 << 20),
            ((1 << 20) + 1, 9 << 17),
            (3 << 20, 3 << 20),
            (1 << 32, 1 << 32),
            ((1 << 32) + 1, 9 << 29),
        ] {
            assert_eq!(size_class(bytes), size, "{bytes}");
        }
        assert_eq!(size_class(u64::MAX), u64::MAX);
    }
}
