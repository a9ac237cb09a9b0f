//! The driver's PTX compiler.
//!
//! There are two ways through it, and neither has everything:
//!
//! - [`Module::from_ptx`] compiles a whole program and loads it. The code is as good as offline
//!   ptxas makes it. The driver does not hand the cubin out, but keeps it in a cache of its own
//!   (`~/.nv/ComputeCache`, see `CUDA_CACHE_PATH`), so that the next process loads the same PTX
//!   fast.
//! - [`compile_to_cubin`] uses the driver's linker, which hands the cubin out. The linker compiles
//!   *relocatable* code, ready to be linked with more: `setmaxnreg` is ignored in it (C7504), and
//!   registers are budgeted for callers that are not there. Kernels that depend on either must take
//!   the other way.
//!
//! Both return the compiler's log, parsed.

use super::context::Context;
use super::error::{CudaError, JitFailure, Result};
use super::ffi::{self, Api, LinkHandle, ModuleHandle, Status, jit_option};
use super::jit_log::JitLog;
use super::module::Module;
use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::ptr::null_mut;

/// Room for each of the two logs. A kernel takes about 300 bytes; what does not fit is cut off.
const LOG_BYTES: usize = 64 << 10;

/// How to compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JitOptions {
    /// From 0 (as fast as possible to compile) to 4 (the best code).
    pub optimization: u8,
    /// Keep the source lines of `.loc` directives, for profilers.
    pub line_info: bool,
    /// The most registers a thread may have, where the PTX does not say.
    pub max_registers: Option<u32>,
}

impl Default for JitOptions {
    fn default() -> JitOptions {
        JitOptions { optimization: 4, line_info: false, max_registers: None }
    }
}

/// A compiled program, and what the compiler said.
#[derive(Debug, Clone)]
pub struct Cubin {
    /// What [`Module::load`] takes, in this process or another on the same kind of GPU.
    pub bytes: Vec<u8>,
    /// The compiler's log.
    pub log: JitLog,
}

/// Compiles PTX for the context's GPU into a cubin that can be kept, as relocatable code:
/// `setmaxnreg` is ignored in it, and it may spill where what [`Module::from_ptx`] makes does not.
/// The log says so.
///
/// `name` is for messages.
///
/// # Errors
/// [`CudaError::Jit`] with the log; those of the calls.
pub fn compile_to_cubin(context: &Context, name: &str, ptx: &str, options: &JitOptions) -> Result<Cubin> {
    context.bind()?;
    let text = c_text(name, ptx)?;
    let mut request = Request::new(options);
    let link = Link::new(context.api(), &mut request)?;
    let compiled = link.compile(&text);
    // The linker closes its log when it is destroyed.
    drop(link);
    match compiled {
        Ok(bytes) => Ok(Cubin { bytes, log: request.log() }),
        Err(status) => Err(refusal(context, name, status, request.log())),
    }
}

impl Module {
    /// Compiles PTX for the context's GPU and loads it, with the best code the driver makes. Unlike
    /// [`compile_to_cubin`] it leaves nothing for the caller to keep: keep the PTX, which the
    /// driver has in a cache of its own.
    ///
    /// `name` is for messages. The log is empty where the driver found the PTX in its cache.
    ///
    /// # Errors
    /// [`CudaError::Jit`] with the log; those of the calls.
    pub fn from_ptx(
        context: &Context,
        name: &str,
        ptx: &str,
        options: &JitOptions,
    ) -> Result<(Module, JitLog)> {
        context.bind()?;
        let text = c_text(name, ptx)?;
        let mut request = Request::new(options);
        let mut handle = ModuleHandle::NULL;
        let (count, keys, values) = request.arguments();
        // SAFETY: `handle` is writable, the text ends with a NUL, the options and the logs they
        // point to live until `request` drops.
        let status = unsafe {
            (context.api().cuModuleLoadDataEx)(&mut handle, text.as_ptr().cast(), count, keys, values)
        };
        match status {
            Status::SUCCESS => Ok((Module::own(context, handle), request.log())),
            status => Err(refusal(context, name, status, request.log())),
        }
    }
}

/// PTX as the driver takes it.
fn c_text(name: &str, ptx: &str) -> Result<CString> {
    CString::new(ptx).map_err(|error| {
        let position = error.nul_position();
        CudaError::Jit(Box::new(JitFailure {
            name: name.to_owned(),
            status: "CUDA_ERROR_INVALID_PTX",
            advice: Some(format!("the text has a NUL character at byte {position}")),
            log: JitLog::default(),
        }))
    })
}

/// The error for PTX that was refused with `status`.
fn refusal(context: &Context, name: &str, status: Status, log: JitLog) -> CudaError {
    let api = context.api();
    if status.loses_context() || status == Status::OUT_OF_MEMORY {
        let error = api.error("compiling PTX", status);
        return context.explain_allocation("GPU memory", 0, error);
    }
    let device = context.device();
    let advice = match status {
        Status::UNSUPPORTED_PTX_VERSION => Some(format!(
            "its `.version` is newer than {}, the newest this driver (CUDA {}) accepts; update the driver",
            device.driver().ptx_version(),
            device.driver().version(),
        )),
        Status::NO_BINARY_FOR_GPU => {
            Some(format!("its `.target` does not run on compute capability {}", context.properties().compute_capability))
        }
        Status::JIT_COMPILER_NOT_FOUND => Some(
            "libnvidia-ptxjitcompiler is missing; install the driver's full package, or start the container with \
             NVIDIA_DRIVER_CAPABILITIES=compute,utility"
                .to_owned(),
        ),
        _ => None,
    };
    CudaError::Jit(Box::new(JitFailure { name: name.to_owned(), status: api.name(status), advice, log }))
}

/// The options of one compilation, in the two parallel arrays the driver takes, and the memory its
/// logs go to.
struct Request {
    // Never resized: the driver keeps their addresses.
    info: Vec<u8>,
    errors: Vec<u8>,
    keys: Vec<c_int>,
    values: Vec<*mut c_void>,
}

impl Request {
    fn new(options: &JitOptions) -> Request {
        let log = || vec![0u8; LOG_BYTES];
        let mut request = Request { info: log(), errors: log(), keys: Vec::new(), values: Vec::new() };
        let (info, errors) = (request.info.as_mut_ptr().cast(), request.errors.as_mut_ptr().cast());
        request.push(jit_option::INFO_LOG, info);
        request.number(jit_option::INFO_LOG_BYTES, LOG_BYTES);
        request.push(jit_option::ERROR_LOG, errors);
        request.number(jit_option::ERROR_LOG_BYTES, LOG_BYTES);
        request.number(jit_option::LOG_VERBOSE, 1);
        request.number(jit_option::OPTIMIZATION_LEVEL, usize::from(options.optimization.min(4)));
        if options.line_info {
            request.number(jit_option::LINE_INFO, 1);
        }
        if let Some(registers) = options.max_registers {
            request.number(jit_option::MAX_REGISTERS, registers as usize);
        }
        request
    }

    fn push(&mut self, key: c_int, value: *mut c_void) {
        self.keys.push(key);
        self.values.push(value);
    }

    /// The driver takes small numbers in the place of a pointer.
    fn number(&mut self, key: c_int, value: usize) {
        self.push(key, std::ptr::without_provenance_mut(value));
    }

    fn arguments(&mut self) -> (c_uint, *mut c_int, *mut *mut c_void) {
        (self.keys.len() as c_uint, self.keys.as_mut_ptr(), self.values.as_mut_ptr())
    }

    fn log(&self) -> JitLog {
        // The last byte is never written, so there is always a NUL.
        let text = |log: &[u8]| {
            CStr::from_bytes_until_nul(log)
                .map(|text| text.to_string_lossy().into_owned())
                .unwrap_or_default()
        };
        JitLog::parse(&text(&self.info), &text(&self.errors))
    }
}

/// A run of the driver's linker.
struct Link<'a> {
    api: &'a Api,
    handle: LinkHandle,
}

impl<'a> Link<'a> {
    /// `request` must outlive the link: the driver writes its logs there until the link is
    /// destroyed.
    fn new(api: &'a Api, request: &mut Request) -> Result<Link<'a>> {
        let mut handle = LinkHandle::NULL;
        let (count, keys, values) = request.arguments();
        // SAFETY: `handle` is writable; the options and logs live until after the link in the only
        // caller.
        unsafe { api.cuLinkCreate_v2(count, keys, values, &mut handle) }?;
        Ok(Link { api, handle })
    }

    fn compile(&self, text: &CStr) -> std::result::Result<Vec<u8>, Status> {
        let bytes = text.to_bytes_with_nul();
        let (mut cubin, mut length) = (null_mut::<c_void>(), 0usize);
        // SAFETY: the link is live and the text is as long as said; the driver does not write to
        // it. A null name and no options are allowed.
        let status = unsafe {
            (self.api.cuLinkAddData_v2)(
                self.handle,
                ffi::JIT_INPUT_PTX,
                bytes.as_ptr().cast_mut().cast(),
                bytes.len(),
                std::ptr::null(),
                0,
                null_mut(),
                null_mut(),
            )
        };
        if status != Status::SUCCESS {
            return Err(status);
        }
        // SAFETY: the link is live, both results are writable.
        match unsafe { (self.api.cuLinkComplete)(self.handle, &mut cubin, &mut length) } {
            // SAFETY: the cubin belongs to the link and lives as long as it.
            Status::SUCCESS => Ok(unsafe { std::slice::from_raw_parts(cubin.cast::<u8>(), length) }.to_vec()),
            status => Err(status),
        }
    }
}

impl Drop for Link<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed here alone. A failure cannot be reported.
        let _ = unsafe { self.api.cuLinkDestroy(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_in_step() {
        let request =
            Request::new(&JitOptions { optimization: 9, line_info: true, max_registers: Some(128) });
        let value = |key| {
            let at = request.keys.iter().position(|candidate| *candidate == key).unwrap();
            request.values[at].addr()
        };
        assert_eq!(request.keys.len(), request.values.len());
        assert_eq!(value(jit_option::OPTIMIZATION_LEVEL), 4);
        assert_eq!(value(jit_option::LINE_INFO), 1);
        assert_eq!(value(jit_option::MAX_REGISTERS), 128);
        assert_eq!(value(jit_option::INFO_LOG), request.info.as_ptr().addr());
        assert_eq!(value(jit_option::ERROR_LOG_BYTES), LOG_BYTES);
        let plain = Request::new(&JitOptions::default());
        assert!(
            !plain.keys.contains(&jit_option::MAX_REGISTERS) && !plain.keys.contains(&jit_option::LINE_INFO)
        );
        assert_eq!(plain.log(), JitLog::default());
    }

    #[test]
    fn text_with_a_nul_is_refused() {
        let Err(CudaError::Jit(failure)) = c_text("k", "a\0b") else { panic!("accepted") };
        assert_eq!(failure.name, "k");
        assert!(failure.to_string().contains("byte 1"), "{failure}");
    }
}
