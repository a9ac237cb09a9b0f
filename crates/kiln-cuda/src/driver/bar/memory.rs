//! Memory of a GPU that is opened in Vulkan.

use super::loader::{Found, HostVisibleMemory, check};
use super::vulkan::*;
use kiln_backend::MapObstacle;
use std::ffi::{CStr, c_int};
use std::ptr::{NonNull, null, null_mut};
use std::sync::Arc;

/// The one extension: exporting memory as a file descriptor.
const EXTENSION: &CStr = c"VK_KHR_external_memory_fd";

/// A GPU that is opened in Vulkan.
pub(super) struct Gpu {
    device: Device,
    destroy: DestroyDevice,
    allocate: AllocateMemory,
    free: FreeMemory,
    map: MapMemory,
    unmap: UnmapMemory,
    get_fd: GetMemoryFd,
    /// Last: the instance goes after the device.
    found: Found,
}

// SAFETY: the handle is a name that only Vulkan dereferences; allocating and freeing need no
// external synchronization of the device.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

impl Gpu {
    /// Opens it, with one queue, which is not used: Vulkan requires it.
    pub(super) fn open(found: Found) -> Result<Gpu, MapObstacle> {
        // SAFETY: each has the type of the function that is named.
        let gpu = unsafe {
            Gpu {
                device: null_mut(),
                destroy: found.function(c"vkDestroyDevice")?,
                allocate: found.function(c"vkAllocateMemory")?,
                free: found.function(c"vkFreeMemory")?,
                map: found.function(c"vkMapMemory")?,
                unmap: found.function(c"vkUnmapMemory")?,
                get_fd: found.function(c"vkGetMemoryFdKHR")?,
                found,
            }
        };
        gpu.create()
    }

    fn create(mut self) -> Result<Gpu, MapObstacle> {
        // SAFETY: the type of this function.
        let create: CreateDevice = unsafe { self.found.function(c"vkCreateDevice") }?;
        let queue = DeviceQueueCreateInfo {
            s_type: structure::DEVICE_QUEUE_CREATE_INFO,
            next: null(),
            flags: 0,
            family: 0,
            count: 1,
            priorities: &1.0,
        };
        let info = DeviceCreateInfo {
            s_type: structure::DEVICE_CREATE_INFO,
            next: null(),
            flags: 0,
            queue_count: 1,
            queues: &queue,
            layer_count: 0,
            layers: null(),
            extension_count: 1,
            extensions: &EXTENSION.as_ptr(),
            features: null(),
        };
        // SAFETY: the structures are whole and live for the call; the device handle is writable.
        match unsafe { create(self.found.physical(), &info, null(), &mut self.device) } {
            VkResult::ERROR_EXTENSION_NOT_PRESENT => {
                let what = format!("Vulkan extension {}", EXTENSION.to_string_lossy());
                Err(MapObstacle::Missing { what })
            }
            result => check("vkCreateDevice", result).map(|()| self),
        }
    }

    /// The kind of memory it allocates.
    pub(super) fn memory(&self) -> HostVisibleMemory {
        self.found.memory
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if !self.device.is_null() {
            // SAFETY: created in `open`, destroyed here alone; all memory of it is freed, since
            // each holds on to this.
            unsafe { (self.destroy)(self.device, null()) };
        }
    }
}

/// Why memory was not given.
#[derive(Debug)]
pub(super) enum Refused {
    /// There is not enough.
    OutOfMemory,
    /// Anything else.
    Obstacle(MapObstacle),
}

impl From<MapObstacle> for Refused {
    fn from(obstacle: MapObstacle) -> Refused {
        Refused::Obstacle(obstacle)
    }
}

/// GPU memory that is mapped into the host's address space.
pub(super) struct Shared {
    gpu: Arc<Gpu>,
    memory: DeviceMemory,
    host: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it owns its memory, and gives out the address alone.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Allocates and maps memory, of undefined contents.
    pub(super) fn new(gpu: &Arc<Gpu>, bytes: usize) -> Result<Shared, Refused> {
        let export = ExportMemoryAllocateInfo {
            s_type: structure::EXPORT_MEMORY_ALLOCATE_INFO,
            next: null(),
            handle_types: OPAQUE_FD,
        };
        let info = MemoryAllocateInfo {
            s_type: structure::MEMORY_ALLOCATE_INFO,
            next: (&raw const export).cast(),
            bytes: bytes as u64,
            memory_type: gpu.memory().index,
        };
        let mut memory = 0;
        // SAFETY: the structures are whole, chained as the specification says, and live for the
        // call; `memory` is writable.
        match unsafe { (gpu.allocate)(gpu.device, &info, null(), &mut memory) } {
            VkResult::ERROR_OUT_OF_DEVICE_MEMORY | VkResult::ERROR_OUT_OF_HOST_MEMORY => {
                return Err(Refused::OutOfMemory);
            }
            result => check("vkAllocateMemory", result)?,
        }
        let mut shared = Shared { gpu: gpu.clone(), memory, host: NonNull::dangling(), bytes };
        let mut host = null_mut();
        // SAFETY: the memory is live, host-visible and not mapped yet; `host` is writable.
        match unsafe { (gpu.map)(gpu.device, memory, 0, bytes as u64, 0, &mut host) } {
            VkResult::ERROR_MEMORY_MAP_FAILED => return Err(Refused::OutOfMemory),
            result => check("vkMapMemory", result)?,
        }
        let missing = || MapObstacle::Call { call: "vkMapMemory", code: "no address".into() };
        shared.host = NonNull::new(host.cast()).ok_or_else(missing)?;
        Ok(shared)
    }

    pub(super) fn host(&self) -> NonNull<u8> {
        self.host
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A file descriptor that stands for the memory.
    pub(super) fn export(&self) -> Result<Descriptor, MapObstacle> {
        let info = MemoryGetFdInfo {
            s_type: structure::MEMORY_GET_FD_INFO_KHR,
            next: null(),
            memory: self.memory,
            handle_type: OPAQUE_FD,
        };
        let mut fd = -1;
        // SAFETY: the memory is live and was allocated for this kind of export; `fd` is writable.
        check("vkGetMemoryFdKHR", unsafe { (self.gpu.get_fd)(self.gpu.device, &info, &mut fd) })?;
        Ok(Descriptor(fd))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`, freed here alone; unmapping memory that could not be mapped
        // is left out.
        unsafe {
            if self.host != NonNull::dangling() {
                (self.gpu.unmap)(self.gpu.device, self.memory);
            }
            (self.gpu.free)(self.gpu.device, self.memory, null());
        }
    }
}

/// A file descriptor, closed on drop unless it was taken.
pub(super) struct Descriptor(c_int);

impl Descriptor {
    pub(super) fn number(&self) -> c_int {
        self.0
    }

    /// Its new owner closes it.
    pub(super) fn was_taken(self) {
        std::mem::forget(self);
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        #[cfg(unix)]
        // SAFETY: the descriptor is open and this one's own.
        drop(unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(self.0) });
    }
}
