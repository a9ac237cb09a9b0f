//! Device memory: allocation in stream order, copies and fills.
//!
//! Memory comes from a pool of the context's, which the driver manages: an allocation that fits
//! what was freed earlier in the same stream costs about a microsecond and no synchronization.
//! Where a device has no pools, the slow calls are used, which wait for the device.

use super::error::Result;
use super::garbage::Garbage;
use super::pinned::PinnedBuffer;
use super::range::check_range;
use super::stream::Stream;
use kiln_backend::DevicePtr;
use std::ops::Range;

impl Stream {
    /// Allocates uninitialized device memory, aligned to 256 bytes, for work later in this stream.
    /// Zero bytes are the null pointer.
    ///
    /// # Errors
    /// `CudaError::OutOfMemory` with the numbers; `CudaError::Recording` during a
    /// [capture](super::Graph::capture).
    pub fn allocate(&self, bytes: usize) -> Result<DevicePtr> {
        if bytes == 0 {
            return Ok(DevicePtr(0));
        }
        self.refuse_recording("allocate")?;
        let allocated = self.try_allocate(bytes).or_else(|error| {
            // Pooled memory that is free in other pieces can be given back and taken again in one.
            // A pool that cannot shrink changes nothing.
            self.context().trim(0)?;
            self.try_allocate(bytes).map_err(|_| error)
        });
        allocated.map_err(|error| self.context().explain_allocation("GPU memory", bytes, error))
    }

    fn try_allocate(&self, bytes: usize) -> Result<DevicePtr> {
        let api = self.context().api();
        let mut address = 0;
        // SAFETY: `address` is writable; the pool and the stream are of the current context.
        unsafe {
            match self.context().pool() {
                Some(pool) => api.cuMemAllocFromPoolAsync(&mut address, bytes, pool, self.handle()),
                None => api.cuMemAlloc_v2(&mut address, bytes),
            }
        }?;
        Ok(DevicePtr(address))
    }

    /// Frees memory once the work now in this stream is done.
    ///
    /// # Errors
    /// Those of the calls, and `CudaError::Recording`; the memory is then lost until the context
    /// ends.
    ///
    /// # Safety
    /// `pointer` came from [`Stream::allocate`] in this context and was not freed. Work in other
    /// streams that uses it is over, or this stream was made to wait for it.
    pub unsafe fn free(&self, pointer: DevicePtr) -> Result<()> {
        if pointer.0 == 0 {
            return Ok(());
        }
        self.refuse_recording("free")?;
        let api = self.context().api();
        // SAFETY: as the caller promises.
        unsafe {
            match self.context().pool() {
                Some(_) => api.cuMemFreeAsync(pointer.0, self.handle()),
                None => {
                    self.context().release(Garbage::Memory(pointer.0));
                    Ok(())
                }
            }
        }
    }

    /// Copies from the host, in stream order. `source` may be reused on return.
    ///
    /// # Errors
    /// Those of the calls, and `CudaError::Recording`.
    ///
    /// # Safety
    /// `destination` has room for the bytes.
    pub unsafe fn upload(&self, destination: DevicePtr, source: &[u8]) -> Result<()> {
        if source.is_empty() {
            return Ok(());
        }
        self.refuse_recording("copy from pageable memory")?;
        // SAFETY: the context is current; the rest is the caller's promise.
        unsafe { self.context().staging().upload(self.context().api(), self.handle(), destination.0, source) }
    }

    /// Waits for the stream and copies to the host.
    ///
    /// # Errors
    /// Those of the calls, and of earlier work in the stream; `CudaError::Recording`.
    ///
    /// # Safety
    /// `source` has that many bytes.
    pub unsafe fn download(&self, destination: &mut [u8], source: DevicePtr) -> Result<()> {
        if destination.is_empty() {
            return self.synchronize();
        }
        self.refuse_recording("copy to pageable memory")?;
        // SAFETY: the context is current; the rest is the caller's promise.
        unsafe {
            self.context().staging().download(self.context().api(), self.handle(), destination, source.0)
        }
    }

    /// Copies part of pinned memory to the device, in stream order, without waiting.
    ///
    /// # Errors
    /// `CudaError::OutOfRange` for a part outside the buffer; those of the calls.
    ///
    /// # Safety
    /// `destination` has room for the bytes. Until the copy is done, the part is not written and
    /// the buffer is not dropped.
    pub unsafe fn upload_pinned(
        &self,
        destination: DevicePtr,
        source: &PinnedBuffer,
        part: Range<usize>,
    ) -> Result<()> {
        let from = source.part(&part)?;
        self.context().bind()?;
        // SAFETY: the part is inside the buffer; the rest is the caller's promise.
        unsafe {
            self.context().api().cuMemcpyHtoDAsync_v2(destination.0, from.cast(), part.len(), self.handle())
        }
    }

    /// Copies from the device to part of pinned memory, in stream order, without waiting.
    ///
    /// # Errors
    /// `CudaError::OutOfRange` for a part outside the buffer; those of the calls.
    ///
    /// # Safety
    /// `source` has that many bytes. Until the copy is done, the part is neither read nor written
    /// and the buffer is not dropped.
    pub unsafe fn download_pinned(
        &self,
        destination: &PinnedBuffer,
        part: Range<usize>,
        source: DevicePtr,
    ) -> Result<()> {
        let to = destination.part(&part)?;
        self.context().bind()?;
        // SAFETY: the part is inside the buffer; the rest is the caller's promise.
        unsafe { self.context().api().cuMemcpyDtoHAsync_v2(to.cast(), source.0, part.len(), self.handle()) }
    }

    /// Copies device to device, in stream order.
    ///
    /// # Errors
    /// Those of the calls.
    ///
    /// # Safety
    /// Both have that many bytes and do not overlap.
    pub unsafe fn copy(&self, destination: DevicePtr, source: DevicePtr, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.context().bind()?;
        // SAFETY: as the caller promises.
        unsafe { self.context().api().cuMemcpyDtoDAsync_v2(destination.0, source.0, bytes, self.handle()) }
    }

    /// Fills with a byte, in stream order.
    ///
    /// # Errors
    /// Those of the calls.
    ///
    /// # Safety
    /// `destination` has that many bytes.
    pub unsafe fn fill_bytes(&self, destination: DevicePtr, value: u8, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.context().bind()?;
        // SAFETY: as the caller promises.
        unsafe { self.context().api().cuMemsetD8Async(destination.0, value, bytes, self.handle()) }
    }

    /// Fills with a 32-bit word, in stream order.
    ///
    /// # Errors
    /// Those of the calls, among them an address that is not a multiple of 4.
    ///
    /// # Safety
    /// `destination` has that many words.
    pub unsafe fn fill_words(&self, destination: DevicePtr, value: u32, words: usize) -> Result<()> {
        if words == 0 {
            return Ok(());
        }
        self.context().bind()?;
        // SAFETY: as the caller promises.
        unsafe { self.context().api().cuMemsetD32Async(destination.0, value, words, self.handle()) }
    }
}

/// Device memory that frees itself, in the order of the stream it was allocated in.
///
/// Reads and writes here go through that stream, so they need no care. A caller that passes
/// [`pointer`](DeviceBuffer::pointer) to work in another stream must make the buffer's stream wait
/// for that work before the buffer drops, and must not drop it during a capture of its stream.
pub struct DeviceBuffer {
    stream: Stream,
    pointer: DevicePtr,
    bytes: usize,
}

impl DeviceBuffer {
    /// Allocates uninitialized memory.
    ///
    /// # Errors
    /// `CudaError::OutOfMemory` with the numbers.
    pub fn new(stream: &Stream, bytes: usize) -> Result<DeviceBuffer> {
        Ok(DeviceBuffer { stream: stream.clone(), pointer: stream.allocate(bytes)?, bytes })
    }

    /// The stream it was allocated in.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Its address; null if it has no bytes.
    pub fn pointer(&self) -> DevicePtr {
        self.pointer
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies from the host to `offset`, in the order of the buffer's stream.
    ///
    /// # Errors
    /// `CudaError::OutOfRange`; those of the calls.
    pub fn write(&self, offset: usize, source: &[u8]) -> Result<()> {
        let at = self.at(offset, source.len())?;
        // SAFETY: the range is inside the allocation.
        unsafe { self.stream.upload(at, source) }
    }

    /// Waits for the buffer's stream and copies to the host from `offset`.
    ///
    /// # Errors
    /// `CudaError::OutOfRange`; those of the calls and of earlier work in the stream.
    pub fn read(&self, offset: usize, destination: &mut [u8]) -> Result<()> {
        let at = self.at(offset, destination.len())?;
        // SAFETY: the range is inside the allocation.
        unsafe { self.stream.download(destination, at) }
    }

    /// Fills all of it with a byte, in the order of the buffer's stream.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn fill(&self, value: u8) -> Result<()> {
        // SAFETY: the whole allocation.
        unsafe { self.stream.fill_bytes(self.pointer, value, self.bytes) }
    }

    fn at(&self, offset: usize, bytes: usize) -> Result<DevicePtr> {
        check_range(offset, bytes, self.bytes)?;
        Ok(DevicePtr(self.pointer.0 + offset as u64))
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, freed here alone; the type's contract covers other streams. A
        // failure cannot be reported.
        let _ = unsafe { self.stream.free(self.pointer) };
    }
}
