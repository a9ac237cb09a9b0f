//! From a kernel as the front end made it to PTX.

use crate::ptx;
use kiln_backend::{Error, Result};
use kiln_compiler::{CompileError, Target, pipeline};
use kiln_ir::{Kernel, verify};

/// Compiles a kernel to PTX, for a GPU that need not be there.
///
/// # Errors
/// [`Error::Compile`] for a kernel that is not well-formed or cannot be lowered,
/// [`Error::Unsupported`] for an operation that the target does not have, [`Error::LaunchLimit`]
/// for a block that is too large for it.
///
/// ```
/// use kiln_cuda::{compile_to_ptx, ptx};
/// use kiln_ir::*;
/// # fn main() -> kiln_backend::Result<()> {
/// let mut kernel = Kernel::new("twice", Level::Tile { warps: None });
/// let ty = Type::view(Scalar::F32, 1, Space::Global);
/// let x = kernel.add_param(Param { name: "x".into(), ty, mutable: true, facts: Facts::default() });
/// let mut b = Builder::new(&mut kernel);
/// let (zero, padding) = (b.index(0), b.constant(Literal::f32(0.0)));
/// let tile = b.load(x, &[zero], padding, Shape::new(&[256]), Reuse::Normal);
/// let sum = b.binary(BinaryOp::Add, tile, tile);
/// b.store(x, &[zero], sum, Reuse::Normal, true);
/// let module = compile_to_ptx(&kernel, ptx::Target { compute: (9, 0), ptx: (8, 0) })?;
/// assert!(module.text.contains(".entry kiln_twice"));
/// # Ok(())
/// # }
/// ```
pub fn compile_to_ptx(kernel: &Kernel, target: ptx::Target) -> Result<ptx::Module> {
    threads_to_ptx(&compile_to_threads(kernel, target)?, target)
}

/// Writes the PTX of a kernel over threads that [`compile_to_threads`] has made for the target.
///
/// # Errors
/// Those of [`compile_to_ptx`] that the emitter reports.
pub fn threads_to_ptx(kernel: &Kernel, target: ptx::Target) -> Result<ptx::Module> {
    emit(kernel, target, target.shared_memory())
}

/// Compiles a kernel as far as PTX is written from it: over threads, with elementary functions
/// expanded. For looking at.
///
/// # Errors
/// Those of [`compile_to_ptx`], except for what the emitter reports.
pub fn compile_to_threads(kernel: &Kernel, target: ptx::Target) -> Result<Kernel> {
    lower(kernel, &lowering_target(target, target.shared_memory()), target)
}

/// The explicit level's kernel that a kernel over tiles becomes where its loops of products get a
/// task that copies; `None` for one that is left as it is. For looking at, and for the interpreter,
/// which runs tasks before the lowering only.
///
/// # Errors
/// Those of [`compile_to_threads`].
pub fn compile_to_tasks(kernel: &Kernel, target: ptx::Target) -> Result<Option<Kernel>> {
    check(kernel)?;
    let threads = lowering_target(target, target.shared_memory());
    let explained = |error| explain(kernel, target, error);
    let compiled = pipeline::compile(kernel, &threads).map_err(explained)?;
    if !compiled.passes.contains(&pipeline::WARP_SPECIALIZE.name()) {
        return Ok(None);
    }
    let tasks = pipeline::run(kernel, &threads, pipeline::TASKS).map_err(explained)?;
    Ok(Some(tasks.kernel))
}

/// The target of the lowering for a GPU whose blocks can have `shared` bytes of shared memory.
pub(super) fn lowering_target(target: ptx::Target, shared: u32) -> Target {
    Target { mixed_products: target.ptx >= ptx::MIXED_VERSION, ..Target::cuda(target.compute, shared) }
}

/// Writes the PTX of a kernel that was lowered, for a GPU whose blocks can have `shared` bytes of
/// shared memory.
pub(super) fn emit(kernel: &Kernel, target: ptx::Target, shared: u32) -> Result<ptx::Module> {
    let module = ptx::emit(kernel, target)?;
    // The lowering counts what it needs itself; the emitter lays everything out.
    if module.shared > shared {
        return Err(too_large(kernel, "bytes of shared memory per block", module.shared, shared));
    }
    Ok(module)
}

/// Compiles a kernel as far as PTX is written from it.
pub(super) fn lower(kernel: &Kernel, threads: &Target, target: ptx::Target) -> Result<Kernel> {
    check(kernel)?;
    let compiled = pipeline::compile(kernel, threads).map_err(|error| explain(kernel, target, error))?;
    Ok(compiled.kernel)
}

fn check(kernel: &Kernel) -> Result<()> {
    let Err(errors) = verify(kernel) else { return Ok(()) };
    let messages: Vec<String> = errors.iter().map(|e| format!("{}, in `{}`", e.message, e.op)).collect();
    Err(Error::Compile {
        kernel: kernel.name.clone(),
        location: errors.into_iter().next().map_or_else(String::new, |e| e.location),
        message: messages.join("; "),
    })
}

fn too_large(kernel: &Kernel, what: &str, given: u32, limit: u32) -> Error {
    Error::LaunchLimit {
        kernel: kernel.name.clone(),
        what: what.into(),
        given: given.into(),
        limit: limit.into(),
    }
}

fn explain(kernel: &Kernel, target: ptx::Target, error: CompileError) -> Error {
    let name = kernel.name.clone();
    match error {
        CompileError::TooManyThreads { threads, limit, .. } => {
            too_large(kernel, "threads per block", threads, limit)
        }
        CompileError::SharedMemory { needed, limit, .. } => {
            too_large(kernel, "bytes of shared memory per block", needed, limit)
        }
        CompileError::Unsupported { location, what, hint } => Error::Unsupported {
            kernel: name,
            what,
            device: format!("sm_{}", target.capability()),
            location,
            hint,
        },
        CompileError::Internal { location, message } => Error::Internal {
            place: "the lowering to threads",
            message: format!("`{name}`, {location}: {message}"),
        },
        CompileError::TooManyParts { ref location, .. }
        | CompileError::TilesNeedWarps { ref location, .. }
        | CompileError::NotSpecialized { ref location, .. } => {
            let text = error.to_string();
            let message = text.strip_prefix(&format!("{location}: ")).unwrap_or(&text).to_owned();
            Error::Compile { kernel: name, location: location.clone(), message }
        }
    }
}
