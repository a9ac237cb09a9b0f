//! Kernels compiled for GPUs that need not be there, for packages.

use super::artifact::{Artifact, Code};
use super::pipeline::{emit, lower, lowering_target};
use super::{accept, artifact, gives_up_products, package_target};
use crate::driver::JitLog;
use crate::ptx;
use kiln_backend::{Error, PackageTarget, Result};
use kiln_compiler::Target;
use kiln_ir::Kernel;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a package's code for GPUs of a compute capability is made for.
///
/// ```
/// let target = kiln_cuda::ptx::Target { compute: (9, 0), ptx: (8, 0) };
/// assert_eq!(kiln_cuda::package_target_of(target).name, "sm_90");
/// ```
pub fn package_target_of(target: ptx::Target) -> PackageTarget {
    package_target(target)
}

/// Compiles a kernel for a package: to machine code where there is an assembler (`ptxas`), else to
/// PTX, which the driver assembles as it loads it.
///
/// # Errors
/// Those of [`compile_to_ptx`](crate::compile_to_ptx), and what the assembler says.
pub fn compile_for_package(kernel: &Kernel, target: ptx::Target, ptxas: Option<&Path>) -> Result<Vec<u8>> {
    let shared = target.shared_memory();
    let first = lowering_target(target, shared);
    let made = |threads: &Target| emit(&lower(kernel, threads, target)?, target, shared);
    let Some(ptxas) = ptxas else {
        return Ok(artifact(kernel, made(&first)?, Code::Ptx, &JitLog::default()).encode());
    };
    // As on a device: where products of warpgroups would wait for each other, warps multiply.
    let whole = Target { tasks: false, ..first.clone() };
    let fewer = Target { warpgroups: false, ..whole.clone() };
    let mut best: Option<Artifact> = None;
    for threads in [first, whole, fewer] {
        let module = made(&threads)?;
        let (cubin, log) = assemble(kernel, &module.text, ptxas)?;
        let gives_up = gives_up_products(&log);
        if !gives_up {
            accept(kernel, &log)?;
        }
        best = Some(artifact(kernel, module, |_| Code::Cubin(cubin), &log));
        if !gives_up {
            break;
        }
    }
    let best = best.ok_or(Error::Internal { place: "kiln-cuda", message: "nothing was assembled".into() })?;
    Ok(best.encode())
}

/// Machine code of a PTX text, and the assembler's log.
fn assemble(kernel: &Kernel, text: &str, ptxas: &Path) -> Result<(Vec<u8>, JitLog)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let refuse = |message: String| Error::Compile {
        kernel: kernel.name.clone(),
        location: "generated PTX".to_owned(),
        message: format!("{}: {message}", ptxas.display()),
    };
    let arch = text.lines().find_map(|line| line.strip_prefix(".target ")).unwrap_or_default().trim();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let source = std::env::temp_dir().join(format!("kiln-package-{}-{number}.ptx", std::process::id()));
    let output = source.with_extension("cubin");
    let run = || -> std::io::Result<_> {
        std::fs::write(&source, text)?;
        let mut command = Command::new(ptxas);
        command.args(["-v", "-O3", &format!("-arch={arch}")]).arg(&source).arg("-o").arg(&output);
        let done = command.output()?;
        let log = String::from_utf8_lossy(&done.stderr).into_owned();
        Ok(if done.status.success() { Ok((std::fs::read(&output)?, log)) } else { Err(log) })
    };
    let outcome = run();
    // What is left of them there is the system's to clean up.
    let _ = (std::fs::remove_file(&source), std::fs::remove_file(&output));
    let (cubin, log) = outcome.map_err(|error| refuse(error.to_string()))?.map_err(refuse)?;
    Ok((cubin, JitLog::parse(&log, "")))
}
