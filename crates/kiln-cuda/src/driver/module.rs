//! Loaded programs.

use super::context::Context;
use super::cubin;
use super::error::Result;
use super::ffi::ModuleHandle;
use super::garbage::Garbage;
use std::ptr::null_mut;
use std::sync::Arc;

/// A program in a GPU's memory. Clones share it; it is unloaded with the last clone or
/// [`Function`](super::Function) of it, which must not be while one of its kernels runs.
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
    /// `CudaError::BadImage` for bytes that are damaged, cut short, or for another GPU; those of
    /// the calls.
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

    /// The driver's name of it.
    pub(super) fn handle(&self) -> ModuleHandle {
        self.0.handle
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
