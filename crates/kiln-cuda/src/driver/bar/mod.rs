//! GPU memory that the host writes through the GPU's base address register (BAR).
//!
//! CUDA has no call for it, Vulkan has: memory that is device-local and host-visible. It is
//! allocated and mapped there, exported as a file descriptor, and taken in by CUDA, so that kernels
//! and the host address the same bytes. A kernel that polls such memory finds it in the L2 cache
//! and does not cross the bus, as it would for every poll of pinned host memory.
//!
//! Vulkan is never required: its loader is opened at run time, and everything that can be missing
//! is a [`MapObstacle`].
//!
//! | file | holds |
//! |---|---|
//! | `vulkan.rs` | the part of Vulkan's interface that is used |
//! | `loader.rs` | finding the GPU |
//! | `mapping.rs` | that memory as CUDA has taken it in |
//! | `memory.rs` | allocating, mapping and exporting memory |

mod loader;
mod mapping;
mod memory;
mod vulkan;

use super::device::Device;
use super::error::{CudaError, Result};
use super::garbage::Garbage;
use super::stream::Stream;
use kiln_backend::{DevicePtr, MapObstacle};
use loader::Found;
pub(super) use mapping::Mapping;
use memory::{Gpu, Shared};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// A GPU whose memory the host can write.
#[derive(Clone)]
pub struct Bar(Arc<Gpu>);

impl Bar {
    /// Opens the GPU in Vulkan. It takes some tenths of a second, which is why a
    /// [`Context`](super::Context) does not do it by itself.
    ///
    /// # Errors
    /// What stands in the way.
    pub fn open(device: Device) -> std::result::Result<Bar, MapObstacle> {
        Gpu::open(find(device)?).map(|gpu| Bar(Arc::new(gpu)))
    }

    /// Whether the GPU has such memory, and how much at most, in bytes, without opening it.
    ///
    /// # Errors
    /// What stands in the way.
    pub fn probe(device: Device) -> std::result::Result<u64, MapObstacle> {
        find(device).map(|found| found.memory.heap_bytes)
    }

    /// How much such memory there is at most, in bytes.
    pub fn heap_bytes(&self) -> u64 {
        self.0.memory().heap_bytes
    }
}

fn find(device: Device) -> std::result::Result<Found, MapObstacle> {
    if !cfg!(target_os = "linux") {
        return Err(MapObstacle::Hardware {
            what: "this system exports no memory as a file descriptor".into(),
        });
    }
    let call = |error: CudaError| MapObstacle::Call { call: "cuDeviceGetUuid", code: error.to_string() };
    Found::new(loader::LIBRARY, &device.uuid().map_err(call)?)
}

/// GPU memory that the host writes and kernels read and write, zeroed.
///
/// The host must not read it (see [`MappedPlace::Device`](kiln_backend::MappedPlace::Device)), and
/// writes it through raw pointers. It must outlive the kernels that use it; a drop waits for the
/// device, or beside a resident kernel
/// ([`Context::begin_resident`](super::Context::begin_resident)) frees it when that has ended.
pub struct BarBuffer {
    /// In which it is zeroed.
    stream: Stream,
    /// `None` only while it is dropped.
    mapping: Option<Mapping>,
    address: DevicePtr,
    host: NonNull<u8>,
    bytes: usize,
    write_combined: bool,
}

// SAFETY: the buffer owns its memory, and gives out the addresses alone.
unsafe impl Send for BarBuffer {}
// SAFETY: as above.
unsafe impl Sync for BarBuffer {}

impl BarBuffer {
    /// Allocates `bytes` (at least 1) zero bytes, and sees that what the host writes arrives. It
    /// waits for the work in the stream, as [`clear`](Self::clear) does, and for nothing else.
    ///
    /// # Errors
    /// [`CudaError::Unmappable`] where Vulkan or CUDA refuses, or where the host's writes do not
    /// arrive; [`CudaError::OutOfMemory`].
    pub fn new(stream: &Stream, bar: &Bar, bytes: usize) -> Result<BarBuffer> {
        let (context, bytes) = (stream.context(), bytes.max(1));
        let shared = Shared::new(&bar.0, bytes).map_err(|refused| match refused {
            memory::Refused::OutOfMemory => {
                let now = context.memory().ok();
                CudaError::OutOfMemory {
                    memory: "GPU memory that the host can write",
                    requested: bytes,
                    free: now.map_or(0, |memory| memory.free),
                    total: usize::try_from(bar.heap_bytes()).unwrap_or(usize::MAX),
                    cached: 0,
                }
            }
            memory::Refused::Obstacle(obstacle) => CudaError::Unmappable(Box::new(obstacle)),
        })?;
        let (host, write_combined) = (shared.host(), !bar.0.memory().cached);
        context.bind()?;
        // SAFETY: the context is current.
        let mapping = unsafe { Mapping::new(context.api(), shared) }?;
        let (stream, address) = (stream.clone(), mapping.address);
        let buffer = BarBuffer { stream, mapping: Some(mapping), address, host, bytes, write_combined };
        buffer.check()?;
        buffer.clear()?;
        Ok(buffer)
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes: never.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address under which kernels see it.
    pub fn device_pointer(&self) -> DevicePtr {
        self.address
    }

    /// The address under which the host writes it.
    pub fn host_pointer(&self) -> NonNull<u8> {
        self.host
    }

    /// Whether the host's writes are collected and leave out of order until a store fence.
    pub fn is_write_combined(&self) -> bool {
        self.write_combined
    }

    /// Zeroes it, from the device, behind the work in its stream. Waits until that is done.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn clear(&self) -> Result<()> {
        // SAFETY: the whole of the memory.
        unsafe { self.stream.fill_bytes(self.device_pointer(), 0, self.len()) }?;
        self.stream.synchronize()
    }

    /// Writes from the host and reads with the device.
    fn check(&self) -> Result<()> {
        const WORDS: usize = 16;
        let count = WORDS.min(self.len() / 4);
        let word = |at: usize| (at as u32 + 1).wrapping_mul(0x9e37_79b9);
        for at in 0..count {
            // SAFETY: inside the memory, aligned, and not used yet.
            let word_at = unsafe { AtomicU32::from_ptr(self.host_pointer().as_ptr().cast::<u32>().add(at)) };
            word_at.store(word(at), Ordering::Relaxed);
        }
        // What the processor collects leaves now.
        fence(Ordering::SeqCst);
        let mut seen = [0; 4 * WORDS];
        // SAFETY: inside the memory.
        unsafe { self.stream.download(&mut seen[..4 * count], self.device_pointer()) }?;
        let (words, _) = seen.as_chunks::<4>();
        if words[..count].iter().enumerate().all(|(at, bytes)| u32::from_le_bytes(*bytes) == word(at)) {
            return Ok(());
        }
        let what = "what the host writes to GPU memory does not arrive there".to_owned();
        Err(CudaError::Unmappable(Box::new(MapObstacle::Hardware { what })))
    }
}

impl Drop for BarBuffer {
    fn drop(&mut self) {
        if let Some(mapping) = self.mapping.take() {
            // SAFETY: made by `new`, given up here alone.
            unsafe { self.stream.context().release(Garbage::Bar(mapping)) };
        }
    }
}
