//! `kiln compile`: the stages of a kernel, from IR text.

use crate::failure::Failure;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use kiln_compiler::Target as LoweringTarget;
use kiln_compiler::pipeline::{self, Step};
use kiln_cuda::compile_to_ptx;
use kiln_cuda::ptx::{self, GENERATIONS, Generation};
use kiln_ir::{Kernel, UNKNOWN_LOCATION, parse, verify};
#[cfg(feature = "wgpu")]
use kiln_wgpu::{Language, Written};
use serde_json::json;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Compiles a kernel from IR text and prints one stage.
///
/// `Launch::ir` gives the IR text of a kernel written in Rust. The kernel does not run, and no GPU
/// is needed.
#[derive(clap::Args)]
pub struct Args {
    /// The file with the kernel, as IR text.
    file: PathBuf,
    /// The stage to print.
    #[arg(long, value_enum, default_value_t = Stage::Ir)]
    emit: Stage,
    /// The target to compile for [default: cpu for clif, portable for shaders, else sm_90]
    #[arg(long, value_enum)]
    target: Option<Target>,
    /// Optimizes the IR first.
    #[arg(long)]
    optimize: bool,
    /// Prints one JSON object, with the stage as text.
    #[arg(long)]
    json: bool,
}

/// A stage of compiling.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// The IR after parsing and verification.
    Ir,
    /// The IR after warp specialization, for a GPU that has bulk copies.
    Tasks,
    /// Thread IR, for a GPU.
    Tir,
    /// PTX, for an NVIDIA GPU.
    Ptx,
    /// Cranelift IR, for the CPU.
    Clif,
    /// WebGPU's language.
    #[cfg(feature = "wgpu")]
    Wgsl,
    /// SPIR-V, Vulkan's binary; as words in JSON.
    #[cfg(feature = "wgpu")]
    Spv,
    /// Metal's language.
    #[cfg(feature = "wgpu")]
    Msl,
    /// DirectX 12's language.
    #[cfg(feature = "wgpu")]
    Hlsl,
}

impl Stage {
    /// The target if none is given.
    fn first_target(self) -> Target {
        match self {
            #[cfg(feature = "wgpu")]
            Stage::Wgsl | Stage::Spv | Stage::Msl | Stage::Hlsl => Target::Portable,
            Stage::Clif => Target::Cpu,
            Stage::Ir | Stage::Tasks | Stage::Tir | Stage::Ptx => Target::Gpu(HOPPER),
        }
    }
}

/// A kind of device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    /// The interpreter.
    Interp,
    /// The CPU of this machine.
    Cpu,
    /// An NVIDIA GPU.
    Gpu(Generation),
    /// A GPU of which nothing is known.
    Portable,
}

/// Shared memory that every WebGPU device has for a block, in bytes (WebGPU, "Limits",
/// `maxComputeWorkgroupStorageSize`).
const PORTABLE_SHARED_MEMORY: u32 = 16 << 10;

/// The newest PTX that is written, whatever driver is there.
const PTX: (u32, u32) = (9, 0);

/// The GPU that is compiled for if none is named.
const HOPPER: Generation = {
    let mut at = 0;
    while GENERATIONS[at].capability != 90 {
        at += 1;
    }
    GENERATIONS[at]
};

/// All of them, GPUs from the oldest on.
const TARGETS: [Target; GENERATIONS.len() + 3] = {
    let mut all = [Target::Portable; GENERATIONS.len() + 3];
    (all[0], all[1]) = (Target::Interp, Target::Cpu);
    let mut at = 0;
    while at < GENERATIONS.len() {
        all[2 + at] = Target::Gpu(GENERATIONS[at]);
        at += 1;
    }
    all
};

impl ValueEnum for Target {
    fn value_variants<'a>() -> &'a [Target] {
        &TARGETS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Target::Interp => ("interp", "The interpreter".to_owned()),
            Target::Cpu => ("cpu", "The CPU of this machine".to_owned()),
            Target::Gpu(generation) => (generation.name, format!("NVIDIA {}", generation.architecture)),
            Target::Portable => {
                let what = "A GPU without addresses, matrix units and shuffles, with the shared memory that WebGPU promises";
                ("portable", what.to_owned())
            }
        };
        Some(PossibleValue::new(name).help(help))
    }
}

impl Target {
    fn gpu(self) -> Option<ptx::Target> {
        let Target::Gpu(Generation { capability, .. }) = self else { return None };
        Some(ptx::Target { compute: (capability / 10, capability % 10), ptx: PTX })
    }

    /// The properties of a GPU that the passes use.
    fn lowering(self) -> Option<LoweringTarget> {
        match self.gpu() {
            Some(gpu) => Some(LoweringTarget::cuda(gpu.compute, gpu.shared_memory())),
            None if self == Target::Portable => Some(LoweringTarget::portable(1, PORTABLE_SHARED_MEMORY)),
            None => None,
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    make(args).map_err(|failure| match failure {
        // Of the kernel as a whole, or of an operation that has no place in a source.
        Failure::Source(text) if text.starts_with(UNKNOWN_LOCATION) => {
            Failure::Source(text.replacen(UNKNOWN_LOCATION, &args.file.display().to_string(), 1))
        }
        other => other,
    })
}

fn make(args: &Args) -> Result<(), Failure> {
    let mut kernel = read(&args.file)?;
    if args.optimize {
        kiln_compiler::optimize(&mut kernel).map_err(|error| Failure::Source(error.to_string()))?;
    }
    let kernel_name = kernel.name.clone();
    let target = args.target.unwrap_or_else(|| args.emit.first_target());
    let lowering = target.lowering();
    let made = match (args.emit, target.gpu(), &lowering) {
        (Stage::Ir, ..) => Made::Text(kernel.to_string()),
        (Stage::Tir, _, Some(target)) => Made::Text(passed(&kernel, target, target.pipeline())?.to_string()),
        (Stage::Tasks, Some(_), Some(target)) => {
            Made::Text(passed(&kernel, target, pipeline::TASKS)?.to_string())
        }
        (Stage::Ptx, Some(gpu), _) => Made::Text(compile_to_ptx(&kernel, gpu)?.text),
        (Stage::Clif, ..) if target == Target::Cpu => Made::Text(kiln_cpu::clif(&kernel)?),
        #[cfg(feature = "wgpu")]
        (Stage::Wgsl, None, Some(target)) => shader(&kernel, target, Language::Wgsl)?,
        #[cfg(feature = "wgpu")]
        (Stage::Spv, None, Some(target)) => shader(&kernel, target, Language::Spirv)?,
        #[cfg(feature = "wgpu")]
        (Stage::Msl, None, Some(target)) => shader(&kernel, target, Language::Msl)?,
        #[cfg(feature = "wgpu")]
        (Stage::Hlsl, None, Some(target)) => shader(&kernel, target, Language::Hlsl)?,
        _ => return Err(Failure::Usage(unfitting(args.emit, target))),
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        let mut found = json!({ "kernel": kernel_name, "stage": name(&args.emit), "target": name(&target) });
        match made {
            Made::Text(text) => found["text"] = text.into(),
            #[cfg(feature = "wgpu")]
            Made::Words(words) => found["words"] = words.into(),
        }
        writeln!(out, "{found:#}")?;
        return Ok(());
    }
    match made {
        Made::Text(text) => write!(out, "{text}")?,
        #[cfg(feature = "wgpu")]
        Made::Words(words) => {
            let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
            out.write_all(&bytes)?;
        }
    }
    Ok(())
}

/// A stage of a kernel.
enum Made {
    Text(String),
    /// A binary of 32-bit words.
    #[cfg(feature = "wgpu")]
    Words(Vec<u32>),
}

/// A kernel in a language of shaders, for an adapter that has what most have.
#[cfg(feature = "wgpu")]
fn shader(kernel: &Kernel, target: &LoweringTarget, language: Language) -> Result<Made, Failure> {
    let threads = passed(kernel, target, target.pipeline())?;
    let float64 = language != Language::Msl;
    let features = kiln_wgpu::Features {
        float_modes: Some(kiln_wgpu::FloatModes::ALL),
        int64: true,
        float64,
        float16: true,
        ..Default::default()
    };
    let module = kiln_wgpu::compile(&threads, features)?.without_double_checks(kernel);
    Ok(match module.write(language)? {
        Written::Text(text) => Made::Text(text),
        Written::Words(words) => Made::Words(words),
    })
}

/// A value as the command line has it.
fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn read(path: &Path) -> Result<Kernel, Failure> {
    let text = fs::read_to_string(path).map_err(|source| Failure::File { path: path.to_owned(), source })?;
    let name = path.display();
    let kernel = parse(&text).map_err(|e| {
        Failure::Source(format!("{name}:{}:{}: expected {}, found {}", e.line, e.column, e.expected, e.found))
    })?;
    let Err(errors) = verify(&kernel) else { return Ok(kernel) };
    let lines =
        errors.iter().map(|e| format!("{}: {}, in `{}`", place(&text, name.to_string(), e), e.message, e.op));
    Err(Failure::Source(lines.collect::<Vec<_>>().join("\n")))
}

/// Where the operation that breaks a rule stands in the text, if it is there once, else its place
/// in the source it was made from.
fn place(text: &str, name: String, error: &kiln_ir::VerifyError) -> String {
    let mut found = text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with(&error.op));
    match (found.next(), found.next()) {
        (Some((line, content)), None) => {
            format!("{name}:{}:{}", line + 1, content.len() - content.trim_start().len() + 1)
        }
        _ => format!("{name}: {}", error.location),
    }
}

/// The kernel at the end of a pipeline.
fn passed(kernel: &Kernel, target: &LoweringTarget, steps: &[Step]) -> Result<Kernel, Failure> {
    let compiled = pipeline::run(kernel, target, steps);
    compiled.map(|done| done.kernel).map_err(|error| Failure::Source(error.to_string()))
}

fn unfitting(stage: Stage, target: Target) -> String {
    let targets = match stage {
        Stage::Clif => "cpu",
        Stage::Tir => "GPUs, sm_75 to sm_120, and portable",
        Stage::Ir | Stage::Tasks | Stage::Ptx => "NVIDIA's GPUs, sm_75 to sm_120",
        #[cfg(feature = "wgpu")]
        Stage::Wgsl | Stage::Spv | Stage::Msl | Stage::Hlsl => "portable",
    };
    format!("there is no {} for {}; it is made for {targets}", name(&stage), name(&target))
}
