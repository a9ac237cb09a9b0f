//! Kernels of a loaded program: what they use and how many fit.

use super::error::{CudaError, Result};
use super::ffi::{FunctionHandle, Status};
use super::module::Module;
use super::shape::LaunchShape;
use std::ffi::{CString, c_int};
use std::sync::Arc;

/// A kernel, ready to launch. Clones share it and keep its module loaded.
#[derive(Clone)]
pub struct Function {
    module: Module,
    handle: FunctionHandle,
    name: Arc<str>,
    attributes: FunctionAttributes,
}

/// What a kernel uses. Sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionAttributes {
    /// Registers of a thread.
    pub registers: u32,
    /// Memory of a thread: arrays and spilled registers.
    pub local_bytes: u32,
    /// Static shared memory of a block.
    pub shared_bytes: u32,
    /// Constant memory.
    pub constant_bytes: u32,
    /// The most threads of a block that its registers allow.
    pub max_threads: u32,
    /// Ten times the compute capability it was compiled for, such as 90.
    pub binary_version: u32,
}

/// The driver's numbers of the attributes.
mod attribute {
    pub const MAX_THREADS: i32 = 0;
    pub const SHARED_BYTES: i32 = 1;
    pub const CONSTANT_BYTES: i32 = 2;
    pub const LOCAL_BYTES: i32 = 3;
    pub const REGISTERS: i32 = 4;
    pub const BINARY_VERSION: i32 = 6;
    pub const MAX_DYNAMIC_SHARED: i32 = 8;
    pub const SHARED_CARVEOUT: i32 = 9;
    pub const NON_PORTABLE_CLUSTER: i32 = 14;
}

impl Module {
    /// The kernel of this name, loaded for launching: no launch of it waits for the loader later,
    /// which matters beside a resident kernel, for whose end the loader would wait.
    ///
    /// # Errors
    /// [`CudaError::NoSuchFunction`]; those of the calls.
    pub fn function(&self, name: &str) -> Result<Function> {
        let missing = || CudaError::NoSuchFunction { name: name.to_owned() };
        let text = CString::new(name).map_err(|_| missing())?;
        self.context().bind()?;
        let mut handle = FunctionHandle::NULL;
        // SAFETY: `handle` is writable, the module is live, the name ends with a NUL.
        let found =
            unsafe { self.context().api().cuModuleGetFunction(&mut handle, self.handle(), text.as_ptr()) };
        found.map_err(|error| if error.status() == Some(Status::NOT_FOUND) { missing() } else { error })?;
        Function::load(self, handle, name)
    }
}

impl Function {
    /// Loads the kernel if the driver left that for later.
    pub(super) fn load(module: &Module, handle: FunctionHandle, name: &str) -> Result<Function> {
        let api = module.context().api();
        if api.cuFuncLoad.is_some() {
            // SAFETY: the handle was just found in the module. Drivers without the call load when
            // the attributes are read.
            unsafe { api.cuFuncLoad(handle) }?;
        }
        let attribute = |attribute| read(module, handle, attribute);
        let attributes = FunctionAttributes {
            registers: attribute(attribute::REGISTERS)?,
            local_bytes: attribute(attribute::LOCAL_BYTES)?,
            shared_bytes: attribute(attribute::SHARED_BYTES)?,
            constant_bytes: attribute(attribute::CONSTANT_BYTES)?,
            max_threads: attribute(attribute::MAX_THREADS)?,
            binary_version: attribute(attribute::BINARY_VERSION)?,
        };
        Ok(Function { module: module.clone(), handle, name: name.into(), attributes })
    }

    /// Its name in the module.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its module.
    #[inline]
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The driver's own handle. It lives as long as the module.
    #[inline]
    pub fn handle(&self) -> FunctionHandle {
        self.handle
    }

    /// What it uses.
    pub fn attributes(&self) -> FunctionAttributes {
        self.attributes
    }

    /// Lets launches ask for up to `bytes` of dynamic shared memory. Needed above 48 KiB, up to the
    /// device's [opt-in limit](super::DeviceProperties::shared_per_block_opt_in) less the kernel's
    /// static shared memory.
    ///
    /// # Errors
    /// Those of the calls, among them a size above the limit.
    pub fn allow_shared(&self, bytes: u32) -> Result<()> {
        self.set(attribute::MAX_DYNAMIC_SHARED, c_int::try_from(bytes).unwrap_or(c_int::MAX))
    }

    /// Has a multiprocessor that its blocks come to divide its memory so that shared memory gets as
    /// much as it can. A multiprocessor keeps its division while a block is there, whatever other
    /// blocks need.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn prefer_shared(&self) -> Result<()> {
        self.set(attribute::SHARED_CARVEOUT, 100)
    }

    /// Lets launches ask for clusters of 16 blocks, which not every GPU of a generation has room
    /// for. Up to 8 needs no permission.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn allow_large_clusters(&self) -> Result<()> {
        self.set(attribute::NON_PORTABLE_CLUSTER, 1)
    }

    /// How much dynamic shared memory launches may ask for.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn allowed_shared(&self) -> Result<u32> {
        self.module.context().bind()?;
        read(&self.module, self.handle, attribute::MAX_DYNAMIC_SHARED)
    }

    /// How many blocks of this shape run on a multiprocessor at once.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn blocks_per_multiprocessor(&self, threads: u32, shared_bytes: u32) -> Result<u32> {
        let context = self.module.context();
        context.bind()?;
        let mut blocks = 0;
        let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
        // SAFETY: `blocks` is writable, the function is live.
        unsafe {
            context.api().cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                self.handle,
                threads,
                shared_bytes as usize,
            )
        }?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// How many clusters of this shape run on the GPU at once.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn clusters_on_device(&self, shape: &LaunchShape) -> Result<u32> {
        let context = self.module.context();
        context.bind()?;
        let mut clusters = 0;
        shape.describe(super::ffi::StreamHandle::NULL, |description| {
            // SAFETY: `clusters` is writable, the function is live, the description is complete for
            // the duration of the call.
            unsafe { context.api().cuOccupancyMaxActiveClusters(&mut clusters, self.handle, description) }
        })?;
        Ok(u32::try_from(clusters).unwrap_or(0))
    }

    /// Whether the kernel is in the GPU's memory, where the driver reports it (from CUDA 12.4).
    ///
    /// # Errors
    /// Those of the calls.
    pub fn is_loaded(&self) -> Result<Option<bool>> {
        let context = self.module.context();
        if context.api().cuFuncIsLoaded.is_none() {
            return Ok(None);
        }
        context.bind()?;
        let mut state = 0;
        // SAFETY: `state` is writable, the function is live.
        unsafe { context.api().cuFuncIsLoaded(&mut state, self.handle) }?;
        Ok(Some(state != 0))
    }

    fn set(&self, attribute: c_int, value: c_int) -> Result<()> {
        self.module.context().bind()?;
        // SAFETY: the function is live.
        unsafe { self.module.context().api().cuFuncSetAttribute(self.handle, attribute, value) }
    }
}

fn read(module: &Module, handle: FunctionHandle, attribute: c_int) -> Result<u32> {
    let mut value = 0;
    // SAFETY: `value` is writable; the function lives as long as the module.
    unsafe { module.context().api().cuFuncGetAttribute(&mut value, attribute, handle) }?;
    Ok(u32::try_from(value).unwrap_or(0))
}
