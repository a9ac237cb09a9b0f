//! What goes from the host to the device and back.

use super::allocations::AllocationOffset;
use super::bytes::ByteKernels;
use super::gpu::{Gpu, refused};
use super::late::Refusal;
use super::state::DeviceState;
use kiln_backend::{DevicePtr, Error, Result};
use std::ops::Range;
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a word of a buffer.
const WORD: u64 = 4;

/// Bytes that are read back at a time.
pub(crate) const PIECE: u64 = 32 << 20;

/// Bytes of the largest staging buffer that is kept, and how many are.
const KEPT_BYTES: u64 = PIECE;
const KEPT: usize = 4;

impl DeviceState {
    /// Records a copy from the host.
    pub(crate) fn upload(
        &mut self,
        gpu: &Gpu,
        kernels: &ByteKernels,
        dst: DevicePtr,
        data: &[u8],
    ) -> Result<()> {
        let bytes = data.len() as u64;
        if bytes == 0 {
            return Ok(());
        }
        let place = self.allocations.place("upload", dst, bytes)?;
        let ends = place.offset + bytes == self.allocations.get("upload", place)?.bytes;
        if place.offset.is_multiple_of(WORD) && (ends || bytes.is_multiple_of(WORD)) {
            return self.write(gpu, place, data);
        }
        // By way of an allocation in which the data lie as in the words of the target.
        let phase = place.offset % WORD;
        let staged = self.allocate(gpu, phase + bytes)?;
        let mut padded = vec![0; phase as usize];
        padded.extend_from_slice(data);
        let uploaded = self
            .write(gpu, AllocationOffset::of(staged), &padded)
            .and_then(|()| self.copy(gpu, kernels, [dst, DevicePtr(staged.0 + phase)], bytes));
        self.allocations.free(staged);
        uploaded
    }

    /// Writes to a place that begins with a word. What the data lack of a last word is unused.
    pub(crate) fn write(&mut self, gpu: &Gpu, place: AllocationOffset, data: &[u8]) -> Result<()> {
        let pooled = &self.allocations.get("upload", place)?.pooled;
        let buffer = pooled.buffer.clone();
        if pooled.last_use >= self.recorder.number() {
            // wgpu writes before all that is recorded, which still needs what is there.
            self.recorder.submit(gpu)?;
        }
        let (whole, rest) = data.split_at(data.len() / WORD as usize * WORD as usize);
        if !whole.is_empty() {
            self.recorder.upload(gpu, &buffer, place.offset, whole);
        }
        if !rest.is_empty() {
            let mut word = [0; WORD as usize];
            word[..rest.len()].copy_from_slice(rest);
            self.recorder.upload(gpu, &buffer, place.offset + whole.len() as u64, &word);
        }
        self.recorder.submit_if_full(gpu)
    }

    /// Records that the words around some bytes are copied to where the host can read them.
    pub(crate) fn stage(&mut self, gpu: &Gpu, place: AllocationOffset, bytes: u64) -> Result<Staged> {
        let buffer = self.used(gpu, place)?.buffer.clone();
        self.stage_buffer(gpu, &buffer, place.offset..place.offset + bytes)
    }

    /// The same of a buffer.
    pub(crate) fn stage_buffer(
        &mut self,
        gpu: &Gpu,
        buffer: &wgpu::Buffer,
        bytes: Range<u64>,
    ) -> Result<Staged> {
        let first = bytes.start / WORD * WORD;
        let length = bytes.end.next_multiple_of(WORD) - first;
        let staging = self.staging(gpu, length)?;
        self.recorder.encoder(gpu).copy_buffer_to_buffer(buffer, first, &staging, 0, length);
        let (skip, bytes) = ((bytes.start - first) as usize, (bytes.end - bytes.start) as usize);
        Ok(Staged { buffer: staging, skip, bytes, length })
    }

    /// A buffer that the host can read, of at least so many bytes.
    fn staging(&mut self, gpu: &Gpu, bytes: u64) -> Result<wgpu::Buffer> {
        if let Some(at) = self.staging.iter().position(|kept| kept.size() >= bytes) {
            return Ok(self.staging.swap_remove(at));
        }
        let full = Error::OutOfMemory {
            device: gpu.id.clone(),
            requested: bytes,
            free: self.allocations.free_bytes(gpu),
            total: gpu.memory,
        };
        let make = || {
            gpu.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("staging"),
                size: bytes.next_power_of_two().max(256),
                usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        };
        gpu.scoped(make, |refusal| match refusal {
            Refusal::OutOfMemory => full,
            Refusal::Refused(message) => refused("create_buffer", message),
        })
    }

    pub(crate) fn keep(&mut self, staging: wgpu::Buffer) {
        if self.staging.len() < KEPT && staging.size() <= KEPT_BYTES {
            self.staging.push(staging);
        }
    }
}

/// Bytes on their way to the host.
pub(crate) struct Staged {
    pub(crate) buffer: wgpu::Buffer,
    /// Bytes before the first that is wanted.
    skip: usize,
    bytes: usize,
    /// Bytes that were copied.
    pub(crate) length: u64,
}

impl Staged {
    /// Hands over what was staged, in a buffer that is mapped now.
    pub(crate) fn take<T>(&self, take: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let taken = match self.buffer.slice(..self.length).get_mapped_range() {
            Ok(range) => take(&range[self.skip..self.skip + self.bytes]),
            Err(error) => return Err(refused("get_mapped_range", error.to_string())),
        };
        self.buffer.unmap();
        Ok(taken)
    }
}

/// Reads bytes of the device once all that was recorded before is done.
pub(crate) fn download(gpu: &Gpu, state: &Mutex<DeviceState>, src: DevicePtr, dst: &mut [u8]) -> Result<()> {
    for (i, piece) in dst.chunks_mut(PIECE as usize).enumerate() {
        let from = DevicePtr(src.0 + i as u64 * PIECE);
        let staged = {
            let mut state = locked(state);
            let place = state.allocations.place("download", from, piece.len() as u64)?;
            state.stage(gpu, place, piece.len() as u64)?
        };
        read(gpu, state, staged, |bytes| piece.copy_from_slice(bytes))?;
    }
    Ok(())
}

/// Submits what was recorded, waits for it, and hands over what was staged there.
pub(crate) fn read(
    gpu: &Gpu,
    state: &Mutex<DeviceState>,
    staged: Staged,
    take: impl FnOnce(&[u8]),
) -> Result<()> {
    let (mapped, outcome) = mpsc::channel();
    let submission = {
        let mut state = locked(state);
        state.recorder.submit(gpu)?;
        state.recorder.submitted()
    };
    staged.buffer.slice(..staged.length).map_async(wgpu::MapMode::Read, move |result| {
        // Nobody listens any more where the wait has failed.
        let _ = mapped.send(result);
    });
    if let Some(submission) = submission {
        gpu.wait(submission)?;
    }
    gpu.arrived(&outcome)?;
    staged.take(take)?;
    locked(state).keep(staged.buffer);
    Ok(())
}

/// The state, which is whole whenever its lock is let go, so that a panic elsewhere does not spoil
/// it.
pub(crate) fn locked(state: &Mutex<DeviceState>) -> MutexGuard<'_, DeviceState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
