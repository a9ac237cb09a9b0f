//! From a kernel as the front end made it to a module.

use super::gpu::Gpu;
use crate::features::Features;
#[cfg(feature = "languages")]
use crate::language::{Language, Written};
use crate::matrices;
use crate::module::{Module, compile};
use kiln_backend::{DumpStage, Error, Result, dump};
use kiln_compiler::{CompileError, Target, pipeline};
use kiln_ir::{Kernel, Loc, OpKind, WARP, verify};
use naga::proc::{GlobalCtx, Layouter};

/// The most threads that a kernel may ask for in a block.
const MAX_THREADS: u32 = 1024;

/// What kernels are compiled for.
#[derive(Clone, Copy, Debug)]
pub struct ShaderTarget<'a> {
    /// What errors call the device.
    pub device: &'a str,
    /// What the code may use; the warp is chosen for each kernel.
    pub features: Features,
    /// The most threads of a block.
    pub max_threads: u32,
    /// The most shared memory of a block, in bytes.
    pub shared_memory: u32,
}

/// Makes the module of a kernel as the front end made it, without a device.
///
/// ```
/// use kiln_wgpu::{Features, ShaderTarget, shader};
/// let kernel = kiln_ir::parse("kernel @ones(%y: mut view<f32, 1, global>) tile {
///   %0 = const 0 : i64
///   %1 = const 1.0 : f32[128]
///   store %y[%0] = %1
/// }").unwrap();
/// let features = Features::default();
/// let (max_threads, shared_memory) = (256, 16 << 10);
/// let target = ShaderTarget { device: "a GPU", features, max_threads, shared_memory };
/// assert_eq!(shader(&kernel, &target)?.entry, "ones");
/// # Ok::<(), kiln_backend::Error>(())
/// ```
///
/// # Errors
/// What the target has no room or no code for, by name; and what the verifier says of the kernel.
pub fn shader(kernel: &Kernel, target: &ShaderTarget<'_>) -> Result<Module> {
    let lowered = lowered(kernel, target)?;
    dump(DumpStage::Tir, (kernel, target.device), || Ok(format!("{lowered:#}").into_bytes()));
    let features = Features { warp: warp(target.features, kernel), ..target.features };
    let module = compile(&lowered, features).map_err(|error| named(target.device, error))?;
    let module = module.without_double_checks(kernel);
    dump_shader(target.device, kernel, &module);
    Ok(module)
}

/// The kernel over threads that [`shader`] makes its module of: with products on matrix units where
/// the target has them and there is room.
///
/// ```
/// use kiln_wgpu::{Features, ShaderTarget, lowered};
/// let kernel = kiln_ir::parse("kernel @ones(%y: mut view<f32, 1, global>) tile {
///   %0 = const 0 : i64
///   %1 = const 1.0 : f32[128]
///   store %y[%0] = %1
/// }").unwrap();
/// let features = Features::default();
/// let (max_threads, shared_memory) = (256, 16 << 10);
/// let target = ShaderTarget { device: "a GPU", features, max_threads, shared_memory };
/// assert!(lowered(&kernel, &target)?.to_string().contains("view_store"));
/// # Ok::<(), kiln_backend::Error>(())
/// ```
///
/// # Errors
/// As [`shader`].
pub fn lowered(kernel: &Kernel, target: &ShaderTarget<'_>) -> Result<Kernel> {
    check(kernel)?;
    refuse_explicit(target.device, kernel)?;
    let warp = warp(target.features, kernel);
    let lowering = Target {
        max_threads: target.max_threads.min(MAX_THREADS),
        multiply_adds: target.features.exact_multiply_adds,
        ..Target::portable(warp, target.shared_memory)
    };
    let failed = |error| explain(target.device, kernel, error);
    if (Features { warp, ..target.features }).multiplies()
        && let Some(lowered) = matrices::lowered(kernel, &lowering).map_err(failed)?
    {
        return Ok(lowered);
    }
    pipeline::compile(kernel, &lowering).map(|compiled| compiled.kernel).map_err(failed)
}

/// Writes the shader in its languages, if a program asks for them.
#[cfg(feature = "languages")]
fn dump_shader(device: &str, kernel: &Kernel, module: &Module) {
    for (stage, language) in [(DumpStage::Wgsl, Language::Wgsl), (DumpStage::Spv, Language::Spirv)] {
        dump(stage, (kernel, device), || {
            Ok(match module.write(language).map_err(|error| error.to_string())? {
                Written::Text(text) => text.into_bytes(),
                Written::Words(words) => words.into_iter().flat_map(u32::to_le_bytes).collect(),
            })
        });
    }
}

/// Says why no shader is written, if a program asks for one.
#[cfg(not(feature = "languages"))]
fn dump_shader(device: &str, kernel: &Kernel, _: &Module) {
    for stage in [DumpStage::Wgsl, DumpStage::Spv] {
        dump(stage, (kernel, device), || Err("it takes the feature `languages` of kiln-wgpu".to_owned()));
    }
}

/// Makes the module of a kernel for an adapter.
pub(crate) fn module(gpu: &Gpu, kernel: &Kernel) -> Result<Module> {
    let target = ShaderTarget {
        device: &gpu.id,
        features: gpu.features,
        max_threads: gpu.limits.max_compute_invocations_per_workgroup,
        shared_memory: gpu.limits.max_compute_workgroup_storage_size,
    };
    let module = shader(kernel, &target)?;
    check_limits(gpu, kernel, &module)?;
    Ok(module)
}

/// The threads that a kernel is lowered for as a warp. Tiles suit any number of lanes, so that
/// subgroups serve them as they are; shuffles that the user wrote are among 32 threads.
fn warp(features: Features, kernel: &Kernel) -> u32 {
    let mut asks = false;
    kernel.walk(|_, data| {
        asks |= matches!(data.kind, OpKind::Shuffle(_) | OpKind::Vote(_) | OpKind::WarpBarrier)
    });
    match features.subgroup.filter(|width| width.is_power_of_two() && !asks) {
        Some(width) => width.min(WARP),
        None => WARP,
    }
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

/// Refuses what names units that NVIDIA's GPUs alone have, before anything is lowered.
fn refuse_explicit(device: &str, kernel: &Kernel) -> Result<()> {
    const TILES: &str = "Write the kernel over tiles, with `dot`.";
    const LAUNCHES: &str = "Launch a kernel for each step: launches of a stream follow each other.";
    let mut found = None;
    kernel.walk(|_, op| {
        let (of, hint) = if let OpKind::Explicit(_) = op.kind {
            ("the explicit level", TILES)
        } else if let OpKind::Fragment(_) = op.kind {
            ("fragments of matrices", TILES)
        } else if let OpKind::Cluster(_) = op.kind {
            ("a cluster's blocks", TILES)
        } else if let OpKind::GridBarrier = op.kind {
            ("blocks that wait for each other", LAUNCHES)
        } else {
            return;
        };
        found.get_or_insert((format!("`{}` of {of}", op.kind.mnemonic()), op.loc, hint));
    });
    let Some((what, loc, hint)) = found else { return Ok(()) };
    Err(Error::Unsupported {
        kernel: kernel.name.clone(),
        what,
        device: device.to_owned(),
        location: kernel.describe(loc),
        hint: hint.to_owned(),
    })
}

/// Refuses what wgpu would refuse as the pipeline is made, by the names of its limits.
fn check_limits(gpu: &Gpu, kernel: &Kernel, module: &Module) -> Result<()> {
    let limits = &gpu.limits;
    let [x, y, z] = module.naga.entry_points.first().map_or(module.block, |entry| entry.workgroup_size);
    let extents = [
        ("threads per block on x", x, limits.max_compute_workgroup_size_x),
        ("threads per block on y", y, limits.max_compute_workgroup_size_y),
        ("threads per block on z", z, limits.max_compute_workgroup_size_z),
        (
            "threads per block",
            module.block.iter().product(),
            limits.max_compute_invocations_per_workgroup.min(MAX_THREADS),
        ),
        (
            "bytes of shared memory per block",
            shared_bytes(&module.naga),
            limits.max_compute_workgroup_storage_size,
        ),
    ];
    if let Some((what, given, limit)) = extents.into_iter().find(|(_, given, limit)| given > limit) {
        return Err(too_large(kernel, what, given, limit));
    }
    let buffers = module.bindings.len() + usize::from(module.report.is_some());
    let most = limits.max_storage_buffers_per_shader_stage;
    if buffers <= most as usize {
        return Ok(());
    }
    Err(Error::Unsupported {
        kernel: kernel.name.clone(),
        what: format!("{buffers} storage buffers (max_storage_buffers_per_shader_stage is {most})"),
        device: gpu.id.clone(),
        location: first_line(kernel),
        hint: "Pass fewer tensors, or put several into one.".to_owned(),
    })
}

/// The place of the first operation of a kernel that has one.
pub(crate) fn first_line(kernel: &Kernel) -> String {
    let mut first = Loc::default();
    kernel.walk(|_, data| {
        if first.line == 0 {
            first = data.loc;
        }
    });
    kernel.describe(first)
}

/// Bytes of workgroup memory of a module.
pub(crate) fn shared_bytes(module: &naga::Module) -> u32 {
    let mut layouter = Layouter::default();
    // The validator has accepted the module, so that its types have layouts.
    let context = GlobalCtx {
        types: &module.types,
        constants: &module.constants,
        overrides: &module.overrides,
        global_expressions: &module.global_expressions,
    };
    if layouter.update(context).is_err() {
        return 0;
    }
    let shared = module.global_variables.iter().filter(|(_, v)| v.space == naga::AddressSpace::WorkGroup);
    // As wgpu counts: each variable begins at a multiple of 16 bytes.
    shared.map(|(_, variable)| layouter[variable.ty].size.next_multiple_of(16)).sum()
}

fn too_large(kernel: &Kernel, what: &str, given: u32, limit: u32) -> Error {
    Error::LaunchLimit {
        kernel: kernel.name.clone(),
        what: what.into(),
        given: given.into(),
        limit: limit.into(),
    }
}

fn explain(device: &str, kernel: &Kernel, error: CompileError) -> Error {
    let name = kernel.name.clone();
    match error {
        CompileError::TooManyThreads { threads, limit, .. } => {
            too_large(kernel, "threads per block", threads, limit)
        }
        CompileError::SharedMemory { needed, limit, .. } => {
            too_large(kernel, "bytes of shared memory per block", needed, limit)
        }
        CompileError::Unsupported { location, what, hint } => {
            Error::Unsupported { kernel: name, what, device: device.to_owned(), location, hint }
        }
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

/// The error of the writer of modules, which does not know the adapter's name.
fn named(device: &str, error: Error) -> Error {
    match error {
        Error::Unsupported { kernel, what, location, hint, .. } => {
            Error::Unsupported { kernel, what, device: device.to_owned(), location, hint }
        }
        other => other,
    }
}
