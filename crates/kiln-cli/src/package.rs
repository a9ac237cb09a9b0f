//! `kiln package`: the kernels of a program of the user's, compiled for targets into one file.

use crate::failure::Failure;
use crate::program;
use crate::units::{bytes, count};
use kiln_backend::{Backend, PackageTarget};
use kiln_cpu::CpuBackend;
use kiln_cuda::driver::{CudaVersion, PtxVersion};
use kiln_cuda::ptx;
use kiln_ir::{Kernel, parse, verify};
use kiln_runtime::PackageBuilder;
#[cfg(feature = "wgpu")]
use kiln_wgpu::Wgpu;
use serde_json::json;
use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a program and compiles its kernels for targets, into a file that loads without the
/// compiler.
///
/// The program needs no changes, and runs as ever: each specialization of a kernel that it compiles
/// is recorded. Its tests, an example, or a `main` that calls `.compile(&device)` will do. Library
/// kernels that choose by device are recorded as chosen for the device that the program opens.
///
/// Code for NVIDIA GPUs is PTX, which the driver assembles as it loads it, or machine code where
/// KILN_PTXAS names NVIDIA's assembler. Code for cpu is for the processor of this machine, and ones
/// that have its instruction sets; code for wgpu, in a build with it, is for adapters of Vulkan
/// like the one that the name chooses. `Device::load_package` and the environment variable
/// KILN_PACKAGE load the file.
#[derive(clap::Args)]
pub struct Args {
    /// What to compile for: sm_75, sm_80, sm_86, sm_87, sm_89, sm_90, sm_100, sm_101, sm_120, cpu
    /// or wgpu; may be given several times
    #[arg(long = "target", value_name = "TARGET", required = true)]
    targets: Vec<String>,
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "kernels.kiln")]
    output: PathBuf,
    /// The newest PTX that may be written, such as 8.4; drivers that know it take the file
    /// [default: the oldest that has what the target has]
    #[arg(long, value_name = "VERSION")]
    ptx: Option<String>,
    /// Leaves out what a target does not support, instead of failing
    #[arg(long)]
    skip_unsupported: bool,
    /// Prints one JSON object; what the program prints goes to standard error
    #[arg(long)]
    json: bool,
    /// The program, such as target/release/train
    program: PathBuf,
    /// What the program is called with
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// What kernels are compiled for.
enum Target {
    Gpu(ptx::Target),
    Cpu(Box<CpuBackend>, PackageTarget),
    #[cfg(feature = "wgpu")]
    Adapter(Box<Wgpu>, PackageTarget),
}

impl Target {
    fn named(name: &str, newest: Option<(u32, u32)>) -> Result<Target, Failure> {
        if name == "cpu" {
            let cpu = CpuBackend::new();
            let target = (&cpu as &dyn Backend).need_artifacts()?.package_target();
            let target = target.ok_or_else(|| Failure::Wrong("`cpu` takes no packages".to_owned()))?;
            return Ok(Target::Cpu(Box::new(cpu), target));
        }
        #[cfg(feature = "wgpu")]
        if kiln_wgpu::is_name(name) {
            return Target::adapter(name);
        }
        let capability = name.strip_prefix("sm_").and_then(|number| number.parse::<u32>().ok());
        let known = capability.filter(|n| ptx::GENERATIONS.iter().any(|known| known.capability == *n));
        let capability = known.ok_or_else(|| {
            Failure::Usage(format!(
                "there is no target `{name}`; there are {}, cpu{}",
                ptx::GENERATIONS.map(|known| known.name).join(", "),
                if cfg!(feature = "wgpu") {
                    " and wgpu"
                } else {
                    " and, in a build with the feature `wgpu`, wgpu"
                }
            ))
        })?;
        // The oldest PTX with all that the target has (PTX ISA, "Release Notes").
        let oldest = match capability {
            ..=90 => (8, 0),
            91..=101 => (8, 6),
            _ => (8, 7),
        };
        let (compute, ptx) = ((capability / 10, capability % 10), newest.unwrap_or(oldest));
        if ptx < oldest {
            let (major, minor) = oldest;
            return Err(Failure::Usage(format!("{name} needs PTX {major}.{minor} at least")));
        }
        Ok(Target::Gpu(ptx::Target { compute, ptx }))
    }

    /// Adapters like one that is there.
    #[cfg(feature = "wgpu")]
    fn adapter(name: &str) -> Result<Target, Failure> {
        let device = Wgpu::open(name)?;
        let target = device.artifacts().and_then(kiln_backend::Artifacts::package_target);
        let target = target.ok_or_else(|| {
            let name = &device.properties().name;
            Failure::Wrong(format!("packages have SPIR-V for adapters of Vulkan, and `{name}` takes none"))
        })?;
        Ok(Target::Adapter(Box::new(device), target))
    }

    fn describe(&self) -> PackageTarget {
        match self {
            Target::Gpu(target) => kiln_cuda::package_target_of(*target),
            Target::Cpu(_, target) => target.clone(),
            #[cfg(feature = "wgpu")]
            Target::Adapter(_, target) => target.clone(),
        }
    }

    fn compile(&self, kernel: &Kernel, ptxas: Option<&Path>) -> kiln_backend::Result<Vec<u8>> {
        match self {
            Target::Gpu(target) => kiln_cuda::compile_for_package(kernel, *target, ptxas),
            Target::Cpu(cpu, _) => Ok(cpu.compile(kernel)?.artifact.unwrap_or_default()),
            #[cfg(feature = "wgpu")]
            Target::Adapter(device, _) => device.compile_for_package(kernel),
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let newest = args.ptx.as_deref().map(version).transpose()?;
    let mut targets: Vec<Target> = Vec::new();
    for name in &args.targets {
        let target = Target::named(name, newest)?;
        // One that is named twice, or by two names of an adapter, is there once.
        if targets.iter().all(|known| known.describe() != target.describe()) {
            targets.push(target);
        }
    }
    check_place(&args.output)?;
    let kernels = record(args)?;
    let ptxas = std::env::var_os("KILN_PTXAS").filter(|path| !path.is_empty()).map(PathBuf::from);
    let mut package = PackageBuilder::default();
    let (mut programs, mut left_out) = (0, Vec::new());
    for target in &targets {
        let described = target.describe();
        for kernel in &kernels {
            match target.compile(kernel, ptxas.as_deref()) {
                Ok(code) => {
                    package.add(kernel, &described, &code);
                    programs += 1;
                }
                Err(error) => {
                    left_out.push((kernel.name.as_str(), described.name.clone(), error.to_string()))
                }
            }
        }
    }
    for (kernel, target, error) in &left_out {
        eprintln!("kiln: no `{kernel}` for {target}: {error}");
    }
    if !left_out.is_empty() && !args.skip_unsupported {
        let kernels = count(left_out.len() as u64, "program");
        let message =
            format!("no package was written: {kernels} cannot be made (--skip-unsupported leaves them out)");
        return Err(Failure::Wrong(message));
    }
    let file = package.finish();
    std::fs::write(&args.output, &file)
        .map_err(|source| Failure::File { path: args.output.clone(), source })?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let left_out = left_out
            .iter()
            .map(|(kernel, target, error)| json!({ "kernel": kernel, "target": target, "error": error }));
        let found = json!({
            "file": args.output,
            "kernels": kernels.len(),
            "programs": programs,
            "bytes": file.len(),
            "left_out": left_out.collect::<Vec<_>>(),
        });
        writeln!(out, "{found:#}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{}: {}, {}, {}",
        args.output.display(),
        count(kernels.len() as u64, "kernel"),
        count(programs, "program"),
        bytes(file.len() as u64)
    )?;
    Ok(())
}

/// A version such as 8.4.
fn version(text: &str) -> Result<(u32, u32), Failure> {
    let parts =
        text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let asked = parts.ok_or_else(|| Failure::Usage(format!("`{text}` is no version of PTX, such as 8.4")))?;
    match PtxVersion::newest_for(CudaVersion { major: u32::MAX, minor: 0 }) {
        Some(known) if asked > (known.major, known.minor) => {
            Err(Failure::Usage(format!("there is no PTX {text}: the newest that Kiln knows is {known}")))
        }
        _ => Ok(asked),
    }
}

/// Whether the file can be made at its place, before the program runs for it, which may take long.
fn check_place(file: &Path) -> Result<(), Failure> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let found = std::fs::metadata(folder).and_then(|folder| match folder.is_dir() {
        true if file.is_dir() => Err(ErrorKind::IsADirectory.into()),
        true => Ok(()),
        false => Err(ErrorKind::NotADirectory.into()),
    });
    found.map_err(|source| Failure::File { path: file.to_owned(), source })
}

/// Runs the program and reads the kernels that it has compiled, in the order of their names.
fn record(args: &Args) -> Result<Vec<Kernel>, Failure> {
    let folder = Folder(std::env::temp_dir().join(format!("kiln-package-{}", std::process::id())));
    // One of a process that had this number before.
    let _ = std::fs::remove_dir_all(&folder.0);
    let mut command = Command::new(&args.program);
    command.args(&args.arguments).env("KILN_DUMP", "ir").env("KILN_DUMP_DIR", &folder.0);
    command.env_remove("KILN_PACKAGE").env_remove("KILN_PACKAGE_ONLY");
    if args.json {
        command.stdout(std::io::stderr());
    }
    let status = program::run(&mut command, &args.program)?;
    let program = args.program.display();
    if !status.success() {
        return Err(Failure::Wrong(format!("`{program}` ended with {status}; no package was written")));
    }
    let entries = std::fs::read_dir(&folder.0).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort_unstable();
    if files.is_empty() {
        return Err(Failure::Wrong(format!(
            "`{program}` has compiled no kernel; is it a program that uses this version of Kiln?"
        )));
    }
    let mut kernels: Vec<Kernel> = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|source| Failure::File { path: path.clone(), source })?;
        let kernel = parse(&text).ok().filter(|kernel| verify(kernel).is_ok());
        let kernel = kernel.ok_or_else(|| {
            Failure::Wrong(format!("`{program}` was built with another version of Kiln than this command"))
        })?;
        // One that is there from another place in the source is the same.
        if !kernels.iter().any(|known| known.name == kernel.name && known.to_string() == kernel.to_string()) {
            kernels.push(kernel);
        }
    }
    Ok(kernels)
}

/// A folder that is removed with this.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
