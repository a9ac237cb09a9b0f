//! GPUs and their properties.

use super::error::{CudaError, Result};
use super::ffi::DeviceHandle;
use super::library::Driver;
use std::ffi::{CStr, c_char, c_int};
use std::fmt;

/// A GPU that this process sees.
#[derive(Clone, Copy)]
pub struct Device {
    driver: &'static Driver,
    ordinal: usize,
    handle: DeviceHandle,
}

/// The generation of a GPU's instruction set: 9.0 is Hopper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeCapability {
    /// 9 of 9.0.
    pub major: u32,
    /// 0 of 9.0.
    pub minor: u32,
}

/// What a GPU is and can do. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceProperties {
    /// The product name.
    pub name: String,
    /// Compute capability.
    pub compute_capability: ComputeCapability,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Threads of a warp.
    pub warp: u32,
    /// The most threads in a block.
    pub max_threads_per_block: u32,
    /// The most threads on each axis of a block.
    pub max_block: [u32; 3],
    /// The most blocks on each axis of a grid.
    pub max_grid: [u32; 3],
    /// The most threads resident on a multiprocessor.
    pub max_threads_per_multiprocessor: u32,
    /// The most blocks resident on a multiprocessor.
    pub max_blocks_per_multiprocessor: u32,
    /// Shared memory a block has without asking.
    pub shared_per_block: u32,
    /// Shared memory a block can ask for, see
    /// [`Function::allow_shared`](super::Function::allow_shared).
    pub shared_per_block_opt_in: u32,
    /// Shared memory of a multiprocessor.
    pub shared_per_multiprocessor: u32,
    /// Shared memory of each block that the system keeps.
    pub shared_reserved: u32,
    /// 32-bit registers a block can have.
    pub registers_per_block: u32,
    /// 32-bit registers of a multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// L2 cache.
    pub l2_bytes: u32,
    /// Device memory.
    pub memory_bytes: usize,
    /// Boost clock of the multiprocessors, in kHz.
    pub clock_khz: u32,
    /// Clock of the memory, in kHz.
    pub memory_clock_khz: u32,
    /// Width of the memory's bus, in bits.
    pub memory_bus_bits: u32,
    /// Copy engines that work beside kernels.
    pub copy_engines: u32,
    /// Shares its memory with the host.
    pub integrated: bool,
    /// Kernels can access pinned host memory.
    pub maps_host_memory: bool,
    /// Memory can be allocated in stream order from pools.
    pub memory_pools: bool,
    /// All blocks of a grid can be made to run at once.
    pub cooperative_launch: bool,
    /// Blocks can form clusters.
    pub clusters: bool,
    /// The bulk copy engine takes tensor maps.
    pub tensor_maps: bool,
}

/// The driver's numbers of the attributes that are read.
mod attribute {
    pub const MAX_THREADS_PER_BLOCK: i32 = 1;
    pub const MAX_BLOCK_X: i32 = 2;
    pub const MAX_GRID_X: i32 = 5;
    pub const SHARED_PER_BLOCK: i32 = 8;
    pub const WARP_SIZE: i32 = 10;
    pub const REGISTERS_PER_BLOCK: i32 = 12;
    pub const CLOCK_RATE: i32 = 13;
    pub const MULTIPROCESSOR_COUNT: i32 = 16;
    pub const INTEGRATED: i32 = 18;
    pub const CAN_MAP_HOST_MEMORY: i32 = 19;
    pub const MEMORY_CLOCK_RATE: i32 = 36;
    pub const MEMORY_BUS_WIDTH: i32 = 37;
    pub const L2_CACHE_SIZE: i32 = 38;
    pub const MAX_THREADS_PER_MULTIPROCESSOR: i32 = 39;
    pub const ASYNC_ENGINE_COUNT: i32 = 40;
    pub const COMPUTE_CAPABILITY_MAJOR: i32 = 75;
    pub const COMPUTE_CAPABILITY_MINOR: i32 = 76;
    pub const SHARED_PER_MULTIPROCESSOR: i32 = 81;
    pub const REGISTERS_PER_MULTIPROCESSOR: i32 = 82;
    pub const COOPERATIVE_LAUNCH: i32 = 95;
    pub const SHARED_PER_BLOCK_OPT_IN: i32 = 97;
    pub const MAX_BLOCKS_PER_MULTIPROCESSOR: i32 = 106;
    pub const RESERVED_SHARED_PER_BLOCK: i32 = 111;
    pub const MEMORY_POOLS_SUPPORTED: i32 = 115;
    pub const CLUSTER_LAUNCH: i32 = 120;
    pub const TENSOR_MAP_ACCESS: i32 = 127;
}

impl Device {
    /// The GPU of this number, from 0.
    ///
    /// # Errors
    /// Those of [`Driver::get`], and [`CudaError::NoSuchDevice`].
    pub fn new(ordinal: usize) -> Result<Device> {
        let driver = Driver::get()?;
        let count = driver.device_count();
        let number = c_int::try_from(ordinal).ok().filter(|_| ordinal < count);
        let number = number.ok_or(CudaError::NoSuchDevice { ordinal, count })?;
        let mut handle = 0;
        // SAFETY: `handle` is writable.
        unsafe { driver.api().cuDeviceGet(&mut handle, number) }?;
        Ok(Device { driver, ordinal, handle })
    }

    /// All GPUs this process sees.
    ///
    /// # Errors
    /// Those of [`Driver::get`].
    pub fn all() -> Result<Vec<Device>> {
        (0..Driver::get()?.device_count()).map(Device::new).collect()
    }

    /// Its number, from 0.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// The driver it belongs to.
    pub fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// The driver's own handle.
    pub fn handle(&self) -> DeviceHandle {
        self.handle
    }

    /// Queries the driver for the GPU's properties. Free memory is
    /// [`Context::memory`](super::Context::memory).
    ///
    /// # Errors
    /// Those of the calls.
    pub fn properties(&self) -> Result<DeviceProperties> {
        use attribute::*;
        let number = |attribute| self.attribute(attribute);
        let flag = |attribute| self.attribute(attribute).map(|value| value != 0);
        let axes = |first| Ok([number(first)?, number(first + 1)?, number(first + 2)?]);
        Ok(DeviceProperties {
            name: self.name()?,
            compute_capability: ComputeCapability {
                major: number(COMPUTE_CAPABILITY_MAJOR)?,
                minor: number(COMPUTE_CAPABILITY_MINOR)?,
            },
            multiprocessors: number(MULTIPROCESSOR_COUNT)?,
            warp: number(WARP_SIZE)?,
            max_threads_per_block: number(MAX_THREADS_PER_BLOCK)?,
            max_block: axes(MAX_BLOCK_X)?,
            max_grid: axes(MAX_GRID_X)?,
            max_threads_per_multiprocessor: number(MAX_THREADS_PER_MULTIPROCESSOR)?,
            max_blocks_per_multiprocessor: number(MAX_BLOCKS_PER_MULTIPROCESSOR)?,
            shared_per_block: number(SHARED_PER_BLOCK)?,
            shared_per_block_opt_in: number(SHARED_PER_BLOCK_OPT_IN)?,
            shared_per_multiprocessor: number(SHARED_PER_MULTIPROCESSOR)?,
            shared_reserved: number(RESERVED_SHARED_PER_BLOCK)?,
            registers_per_block: number(REGISTERS_PER_BLOCK)?,
            registers_per_multiprocessor: number(REGISTERS_PER_MULTIPROCESSOR)?,
            l2_bytes: number(L2_CACHE_SIZE)?,
            memory_bytes: self.memory_bytes()?,
            clock_khz: number(CLOCK_RATE)?,
            memory_clock_khz: number(MEMORY_CLOCK_RATE)?,
            memory_bus_bits: number(MEMORY_BUS_WIDTH)?,
            copy_engines: number(ASYNC_ENGINE_COUNT)?,
            integrated: flag(INTEGRATED)?,
            maps_host_memory: flag(CAN_MAP_HOST_MEMORY)?,
            memory_pools: flag(MEMORY_POOLS_SUPPORTED)?,
            cooperative_launch: flag(COOPERATIVE_LAUNCH)?,
            clusters: flag(CLUSTER_LAUNCH)?,
            tensor_maps: flag(TENSOR_MAP_ACCESS)?,
        })
    }

    /// The number that names this GPU in every interface to it.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn uuid(&self) -> Result<[u8; 16]> {
        let mut uuid = [0; 16];
        // SAFETY: `uuid` is writable.
        unsafe { self.driver.api().cuDeviceGetUuid_v2(&mut uuid, self.handle) }?;
        Ok(uuid)
    }

    /// Whether kernels of this GPU can access the memory of another one.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn can_access(&self, owner: Device) -> Result<bool> {
        let mut can = 0;
        // SAFETY: `can` is writable.
        unsafe { self.driver.api().cuDeviceCanAccessPeer(&mut can, self.handle, owner.handle) }?;
        Ok(can != 0)
    }

    fn attribute(&self, attribute: c_int) -> Result<u32> {
        let mut value = 0;
        // SAFETY: `value` is writable; the device handle is the driver's.
        unsafe { self.driver.api().cuDeviceGetAttribute(&mut value, attribute, self.handle) }?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    fn name(&self) -> Result<String> {
        let mut name = [0 as c_char; 256];
        // SAFETY: the buffer is as long as said; the driver ends the name with a NUL.
        unsafe {
            self.driver.api().cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int - 1, self.handle)
        }?;
        // SAFETY: the last byte was never written and is 0, so there is a NUL in the buffer.
        Ok(unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned())
    }

    fn memory_bytes(&self) -> Result<usize> {
        let mut bytes = 0;
        // SAFETY: `bytes` is writable.
        unsafe { self.driver.api().cuDeviceTotalMem_v2(&mut bytes, self.handle) }?;
        Ok(bytes)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cuda:{}", self.ordinal)
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
