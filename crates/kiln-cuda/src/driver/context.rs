//! The context: this process's state on one GPU, shared by everything that uses the GPU.
//!
//! Kiln uses the *primary* context, the one that the CUDA runtime, and with it PyTorch and others,
//! use too: pointers and streams can be exchanged with them in one process. It is retained once a
//! process, however often [`Context::new`] is called.

use super::device::{Device, DeviceProperties};
use super::error::{CudaError, Result};
use super::ffi::{self, Api, ContextHandle, PoolHandle, Status};
use super::garbage::ResidentKernels;
use super::staging::Staging;
use super::stream_room::StreamRoom;
use kiln_backend::DevicePtr;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A GPU made ready for work. Clones share it; it is released with the last object made in it.
#[derive(Clone)]
pub struct Context(Arc<ContextState>);

struct ContextState {
    device: Device,
    handle: ContextHandle,
    /// Whether it is the GPU's primary context, and not one of Kiln's own.
    primary: bool,
    properties: DeviceProperties,
    /// `None` where the device has no pools.
    pool: Option<PoolHandle>,
    staging: Staging,
    residents: ResidentKernels,
    stream_room: StreamRoom,
}

/// Device memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// Free on the GPU, for any program.
    pub free: usize,
    /// The GPU's.
    pub total: usize,
    /// Held by Kiln's pool.
    pub pool_reserved: usize,
    /// Of those, in use.
    pub pool_used: usize,
}

/// The contexts that are alive, by device number.
static CONTEXTS: Mutex<Vec<(usize, Weak<ContextState>)>> = Mutex::new(Vec::new());

impl Context {
    /// The context of GPU `ordinal`, made on the first call.
    ///
    /// # Errors
    /// Those of [`Device::new`] and of the calls.
    pub fn new(ordinal: usize) -> Result<Context> {
        let device = Device::new(ordinal)?;
        // The list is only ever pushed to and filtered, so a panic elsewhere cannot have left it
        // half-changed.
        let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        let live = contexts.iter().filter(|(of, _)| *of == ordinal).find_map(|(_, state)| state.upgrade());
        if let Some(state) = live {
            return Ok(Context(state));
        }
        let context = Context::retain(device)?;
        contexts.retain(|(_, state)| state.strong_count() > 0);
        contexts.push((ordinal, Arc::downgrade(&context.0)));
        Ok(context)
    }

    /// A context of Kiln's own for GPU `ordinal`, beside the one there is, which
    /// [`Context::new`](Self::new) gives from now on. The two share the GPU in turns. It lives
    /// until the process ends: destroying it would wait for the kernels of the other one.
    ///
    /// # Errors
    /// As of [`new`](Self::new). After a kernel has trapped the driver gives the process no new
    /// context, and reports the loss of the old one.
    pub fn anew(ordinal: usize) -> Result<Context> {
        let device = Device::new(ordinal)?;
        let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut handle = ContextHandle::NULL;
        // SAFETY: `handle` is writable.
        unsafe { device.driver().api().cuCtxCreate_v2(&mut handle, 0, device.handle()) }?;
        let context = Context::over(device, handle, false)?;
        contexts.retain(|(of, state)| *of != ordinal && state.strong_count() > 0);
        contexts.push((ordinal, Arc::downgrade(&context.0)));
        Ok(context)
    }

    fn retain(device: Device) -> Result<Context> {
        let mut handle = ContextHandle::NULL;
        // SAFETY: `handle` is writable; every retain is matched by the release when the state
        // drops.
        unsafe { device.driver().api().cuDevicePrimaryCtxRetain(&mut handle, device.handle()) }?;
        Context::over(device, handle, true)
    }

    fn over(device: Device, handle: ContextHandle, primary: bool) -> Result<Context> {
        let properties = device.properties()?;
        let api = device.driver().api();
        let (staging, residents, stream_room) = Default::default();
        let pool = None;
        let mut state =
            ContextState { device, handle, primary, properties, pool, staging, residents, stream_room };
        state.bind()?;
        if state.properties.memory_pools {
            state.pool = Some(create_pool(api, &device)?);
        }
        Ok(Context(Arc::new(state)))
    }

    /// Makes this context the calling thread's current one.
    ///
    /// The check is a read of a thread-local variable of the driver. A copy of it in Kiln would be
    /// no faster and could be wrong: any library in the process may switch the thread's context.
    ///
    /// # Errors
    /// Those of the calls.
    #[inline]
    pub fn bind(&self) -> Result<()> {
        self.0.bind()
    }

    /// The driver's own handle.
    pub(super) fn handle(&self) -> ContextHandle {
        self.0.handle
    }

    /// Whether other libraries of the process use it too.
    pub fn is_primary(&self) -> bool {
        self.0.primary
    }

    /// The GPU.
    pub fn device(&self) -> Device {
        self.0.device
    }

    /// What the GPU is, as read when the context was made.
    pub fn properties(&self) -> &DeviceProperties {
        &self.0.properties
    }

    /// The driver's entry points.
    #[inline]
    pub fn api(&self) -> &'static Api {
        self.0.device.driver().api()
    }

    /// How much device memory there is, and how much of it is free and pooled.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn memory(&self) -> Result<MemoryUse> {
        self.bind()?;
        let mut memory = MemoryUse { free: 0, total: 0, pool_reserved: 0, pool_used: 0 };
        // SAFETY: both are writable.
        unsafe { self.api().cuMemGetInfo_v2(&mut memory.free, &mut memory.total) }?;
        memory.pool_reserved = self.pool_bytes(ffi::POOL_RESERVED)?;
        memory.pool_used = self.pool_bytes(ffi::POOL_USED)?;
        Ok(memory)
    }

    /// Gives unused pooled memory back to the system, but for `keep` bytes.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn trim(&self, keep: usize) -> Result<()> {
        let Some(pool) = self.0.pool else { return Ok(()) };
        self.bind()?;
        // SAFETY: the pool lives as long as the context.
        unsafe { self.api().cuMemPoolTrimTo(pool, keep) }
    }

    /// Lets kernels of this GPU access the memory of `owner`, another one: what is there and what
    /// is allocated later, from the pool or not. Asking again changes nothing.
    ///
    /// # Errors
    /// [`CudaError::NoPeerAccess`] where the hardware cannot; those of the calls.
    pub fn enable_peer_access(&self, owner: &Context) -> Result<()> {
        let (device, other) = (self.device(), owner.device());
        if device.ordinal() == other.ordinal() {
            return Ok(());
        }
        if !device.can_access(other)? {
            return Err(CudaError::NoPeerAccess { device: device.ordinal(), owner: other.ordinal() });
        }
        self.bind()?;
        let api = self.api();
        // SAFETY: the owner's context is live and this one current.
        match unsafe { (api.cuCtxEnablePeerAccess)(owner.0.handle, 0) } {
            Status::SUCCESS | Status::PEER_ACCESS_ALREADY_ENABLED => {}
            status => return Err(api.error("cuCtxEnablePeerAccess", status)),
        }
        // Pools have permissions of their own.
        let Some(pool) = owner.0.pool else { return Ok(()) };
        let access = ffi::PoolAccess {
            location: ffi::MEM_LOCATION_DEVICE,
            device: device.handle(),
            access: ffi::ACCESS_READ_WRITE,
        };
        // SAFETY: the pool lives as long as its context; one description.
        unsafe { api.cuMemPoolSetAccess(pool, &access, 1) }
    }

    /// The number of the GPU whose memory an address is in, or with which host memory is
    /// registered.
    ///
    /// # Errors
    /// Those of the call: one for memory that the driver does not know.
    pub fn ordinal_of(&self, address: DevicePtr) -> Result<usize> {
        self.bind()?;
        let mut ordinal: c_int = -1;
        let data = (&raw mut ordinal).cast();
        // SAFETY: the attribute is a 32-bit number; the driver looks the address up.
        unsafe { self.api().cuPointerGetAttribute(data, ffi::POINTER_DEVICE_ORDINAL, address.0) }?;
        Ok(usize::try_from(ordinal).unwrap_or(usize::MAX))
    }

    /// Waits for all work on the GPU. It does not return while a resident kernel runs.
    ///
    /// # Errors
    /// Those of the calls, and those of earlier work.
    pub fn synchronize(&self) -> Result<()> {
        self.bind()?;
        // SAFETY: the context is current.
        unsafe { self.api().cuCtxSynchronize() }
    }

    /// Local memory of each thread that there is room for: what a launch needs beyond it the driver
    /// makes room for first, and waits for all work on the GPU to do so.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn local_bytes(&self) -> Result<usize> {
        self.bind()?;
        let mut bytes = 0;
        // SAFETY: the context is current, and `bytes` is writable.
        unsafe { self.api().cuCtxGetLimit(&mut bytes, ffi::LIMIT_STACK_SIZE) }?;
        Ok(bytes)
    }

    /// Makes room for so much of it.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn reserve_local(&self, bytes: usize) -> Result<()> {
        self.bind()?;
        // SAFETY: the context is current.
        unsafe { self.api().cuCtxSetLimit(ffi::LIMIT_STACK_SIZE, bytes) }
    }

    pub(super) fn pool(&self) -> Option<PoolHandle> {
        self.0.pool
    }

    pub(super) fn staging(&self) -> &Staging {
        &self.0.staging
    }

    pub(super) fn residents(&self) -> &ResidentKernels {
        &self.0.residents
    }

    pub(super) fn stream_room(&self) -> &StreamRoom {
        &self.0.stream_room
    }

    /// Whether this is that context.
    pub(crate) fn is(&self, other: &Context) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The error for an allocation of `requested` bytes that failed with `error`: typed, with the
    /// numbers, where memory ran out.
    pub(super) fn explain_allocation(
        &self,
        memory: &'static str,
        requested: usize,
        error: CudaError,
    ) -> CudaError {
        if error.status() != Some(Status::OUT_OF_MEMORY) {
            return error;
        }
        let now = self.memory().unwrap_or(MemoryUse { free: 0, total: 0, pool_reserved: 0, pool_used: 0 });
        let cached = now.pool_reserved.saturating_sub(now.pool_used);
        CudaError::OutOfMemory { memory, requested, free: now.free, total: now.total, cached }
    }

    fn pool_bytes(&self, attribute: c_int) -> Result<usize> {
        let Some(pool) = self.0.pool else { return Ok(0) };
        let mut bytes = 0u64;
        // SAFETY: the attribute is a 64-bit number.
        unsafe { self.api().cuMemPoolGetAttribute(pool, attribute, (&raw mut bytes).cast()) }?;
        Ok(bytes as usize)
    }
}

impl ContextState {
    #[inline]
    fn bind(&self) -> Result<()> {
        let api = self.device.driver().api();
        let mut current = ContextHandle::NULL;
        // SAFETY: `current` is writable.
        let status = unsafe { (api.cuCtxGetCurrent)(&mut current) };
        if status == Status::SUCCESS && current == self.handle {
            return Ok(());
        }
        // SAFETY: the context is retained, or Kiln's own, for as long as `self` lives.
        unsafe { api.cuCtxSetCurrent(self.handle) }
    }
}

/// A pool of Kiln's own, so that what it keeps and when it is trimmed is independent of other
/// libraries that use the device's default pool.
fn create_pool(api: &Api, device: &Device) -> Result<PoolHandle> {
    let properties = ffi::PoolProperties {
        allocation: ffi::MEM_ALLOCATION_PINNED,
        handle_types: 0,
        location: ffi::MEM_LOCATION_DEVICE,
        device: device.handle(),
        security: null_mut::<c_void>(),
        max_bytes: 0,
        reserved: [0; 56],
    };
    let mut pool = PoolHandle::NULL;
    // SAFETY: `pool` is writable, the properties are complete.
    unsafe { api.cuMemPoolCreate(&mut pool, &properties) }?;
    // Without this the pool returns what is unused to the system at every synchronization, and the
    // next allocation pays for it again.
    let mut keep = u64::MAX;
    // SAFETY: the attribute is a 64-bit number.
    let kept =
        unsafe { api.cuMemPoolSetAttribute(pool, ffi::POOL_RELEASE_THRESHOLD, (&raw mut keep).cast()) };
    if let Err(error) = kept {
        // SAFETY: nothing was allocated from it. Its own failure would hide the first one.
        let _ = unsafe { api.cuMemPoolDestroy(pool) };
        return Err(error);
    }
    Ok(pool)
}

impl Drop for ContextState {
    fn drop(&mut self) {
        if !self.primary {
            // It was made beside a kernel that does not end, for which freeing and destroying would
            // wait. The process's end takes it.
            return;
        }
        let api = self.device.driver().api();
        // A failure here cannot be reported; it happens when the process is ending and the driver
        // already stopped.
        if self.bind().is_ok() {
            self.staging.release(api);
            // SAFETY: the context is current; a resident kernel holds on to the context, so there
            // is none.
            unsafe { self.residents.clear(api) };
            if let Some(pool) = self.pool {
                // SAFETY: every allocation holds the context, so none is left. The driver defers
                // what is still in flight.
                let _ = unsafe { api.cuMemPoolDestroy(pool) };
            }
        }
        // SAFETY: matches the retain.
        let _ = unsafe { api.cuDevicePrimaryCtxRelease_v2(self.device.handle()) };
    }
}
