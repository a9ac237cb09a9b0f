//! Loaded programs.

use super::context::Context;
use super::cubin;
use super::error::{CudaError, Result};
use super::ffi::{FunctionHandle, ModuleHandle, Status};
use super::function::Function;
use super::stay::Garbage;
use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::Arc;

/// A program in a GPU's memory. Clones share it; it is unloaded with the last clone or [`Function`] of it, which must not be while one of its
/// kernels runs.
#[derive(Clone)]
pub struct Module(Arc<ModuleState>);

struct ModuleState {
    context: Context,
    handle: ModuleHandle,
}

impl Module {
    /// Loads a cubin.
    ///
    /// # Errors
    /// [`CudaError::BadImage`] for bytes that are damaged, cut short, or for another GPU; those of the calls.
    pub fn load(context: &Context, cubin: &[u8]) -> Result<Module> {
        let image = cubin::checked(cubin)?;
        context.bind()?;
        let mut handle = ModuleHandle::NULL;
        // SAFETY: `handle` is writable; the image is whole, and there are no options.
        unsafe {
            context.api().cuModuleLoadDataEx(&mut handle, image.as_ptr().cast(), 0, null_mut(), null_mut())
        }?;
        Ok(Module::own(context, handle))
    }

    /// Takes a handle over.
    pub(super) fn own(context: &Context, handle: ModuleHandle) -> Module {
        Module(Arc::new(ModuleState { context: context.clone(), handle }))
    }

    /// The kernel of this name, loaded for launching: no launch of it waits for the loader later, which matters beside a resident kernel, for
    /// whose end the loader would wait.
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
            unsafe { self.context().api().cuModuleGetFunction(&mut handle, self.0.handle, text.as_ptr()) };
        found.map_err(|error| if error.status() == Some(Status::NOT_FOUND) { missing() } else { error })?;
        Function::load(self, handle, name)
    }

    /// The context it is loaded in.
    #[inline]
    pub fn context(&self) -> &Context {
        &self.0.context
    }
}

impl Drop for ModuleState {
    fn drop(&mut self) {
        // SAFETY: loaded by `load` or handed to `own`, given up here alone.
        unsafe { self.context.release(Garbage::Module(self.handle)) };
    }
}
