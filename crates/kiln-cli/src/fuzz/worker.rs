//! The process that runs kernels and says on standard output what it is at.

use super::Args;
use crate::device;
use crate::failure::Failure;
use kiln_backend::Backend;
use kiln_cpu::CpuBackend;
use kiln_cuda::{compile_to_ptx, ptx};
use kiln_fuzz::{Assemble, Case, GpuCode, Tested, Trial, Verdict};
use kiln_ir::Kernel;
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::io::{Write as _, stdout};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Which kernels a process runs: from one on, every so many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) next: u64,
    pub(super) step: u64,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.next, self.step)
    }
}

pub(super) fn parse(text: &str) -> Result<Part, String> {
    let numbers = text.split_once('/').map(|(next, step)| (next.parse(), step.parse()));
    match numbers {
        Some((Ok(next), Ok(step))) if step > 0 => Ok(Part { next, step }),
        _ => Err("a part is NEXT/STEP".into()),
    }
}

/// An error unless there is a device of this name.
pub(super) fn check(name: &str) -> Result<(), Failure> {
    // What has used NVIDIA's driver must not wait while others do, so the handle goes at once.
    if name == GpuCode::NAME { Ok(()) } else { device::open(Some(name)).map(drop) }
}

pub(super) fn run(args: &Args, part: Part) -> Result<(), Failure> {
    // A kernel's panic is reported with the kernel.
    std::panic::set_hook(Box::new(|_| ()));
    with_trial(args.device.as_deref().unwrap_or_default(), |trial| kernels(args, part, trial))
}

/// Runs the kernels of files.
pub(super) fn replay(device: &str, files: &[PathBuf], as_json: bool) -> Result<(), Failure> {
    with_trial(device, |trial| {
        let (mut found, mut refused) = (Vec::new(), BTreeMap::new());
        for path in files {
            let named = |source| Failure::File { path: path.clone(), source };
            let text = std::fs::read_to_string(path).map_err(named)?;
            let wrong = |message| Failure::Source(format!("{}: {message}", path.display()));
            let case = Case::read(&text).map_err(wrong)?;
            match trial.compare(&case) {
                Verdict::Agrees => {}
                Verdict::Refused(what) => *refused.entry(what).or_insert(0) += 1,
                Verdict::Differs(difference) | Verdict::Lost(difference) => {
                    if !as_json {
                        writeln!(stdout(), "; {}: {difference}", path.display())?;
                    }
                    found.push(json!({ "file": path, "difference": difference }));
                }
            }
        }
        let (kernels, differ) = (files.len(), found.len());
        if as_json {
            let all = json!({ "device": device, "kernels": kernels, "differ": differ, "refused": refused,
                "found": found });
            writeln!(stdout(), "{all:#}")?;
        } else {
            super::print_refused(&refused)?;
            writeln!(stdout(), "{kernels} kernels, {differ} differ")?;
        }
        if differ > 0 { Err(Failure::Reported) } else { Ok(()) }
    })
}

fn with_trial(name: &str, work: impl FnOnce(&Trial<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
    if name == GpuCode::NAME {
        let assembler = std::env::var_os("KILN_PTXAS").filter(|path| !path.is_empty());
        let assemble: &Assemble<'_> = &|kernel| assemble(assembler.as_deref(), kernel);
        return work(&Trial::new(Tested::GpuCode { assemble: Some(assemble) }));
    }
    if name == "cpu" {
        // Each process keeps to its own core.
        let cpu = CpuBackend::with_threads(1);
        return work(&Trial::new(Tested::Device(&cpu)));
    }
    let device = device::open(Some(name))?;
    let backend: &dyn Backend = device.backend();
    work(&Trial::new(Tested::Device(backend)))
}

/// Compiles a kernel for an H100 and has the assembler, if there is one, take it, as the driver
/// would.
fn assemble(assembler: Option<&OsStr>, kernel: &Kernel) -> Result<(), String> {
    let hopper = ptx::Target { compute: (9, 0), ptx: (9, 0) };
    let compiled = compile_to_ptx(kernel, hopper).map_err(|e| e.to_string())?;
    let Some(assembler) = assembler else { return Ok(()) };
    let path = std::env::temp_dir().join(format!("kiln-fuzz-{}.ptx", std::process::id()));
    std::fs::write(&path, compiled.text).map_err(|e| format!("{}: {e}", path.display()))?;
    let output = Command::new(assembler).args(["-arch=sm_90a", "-o", "/dev/null"]).arg(&path).output();
    let output = output.map_err(|e| format!("the assembler does not start: {e}"))?;
    // What is left behind is one small file for each process.
    let _ = std::fs::remove_file(&path);
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            Err(format!("the assembler ended with {}: {}", output.status, said.trim()))
        }
    }
}

fn kernels(args: &Args, part: Part, trial: &Trial<'_>) -> Result<(), Failure> {
    let started = Instant::now();
    let limit = args.seconds.map(Duration::from_secs);
    writeln!(stdout(), "gpu {}", trial.is_gpu())?;
    let mut number = part.next;
    while args.kernels.is_none_or(|all| number < all) && limit.is_none_or(|l| started.elapsed() < l) {
        let mut out = stdout().lock();
        writeln!(out, "at {number}")?;
        out.flush()?;
        drop(out);
        let (mode, seed) = args.kernel(number);
        let case = trial.case(mode, seed);
        match trial.compare(&case) {
            Verdict::Agrees => {}
            Verdict::Refused(what) => writeln!(stdout(), "refused {what}")?,
            // Another process goes on.
            Verdict::Lost(difference) => return found(&difference, &case).map_err(Failure::from),
            Verdict::Differs(difference) => {
                found(&difference, &case)?;
                let (smaller, lost) = trial.reduce(&case, &difference);
                if smaller.case.kernel.to_string() != case.kernel.to_string() {
                    found(&smaller.difference, &smaller.case)?;
                }
                if lost {
                    return Ok(());
                }
            }
        }
        number = number.saturating_add(part.step);
    }
    writeln!(stdout(), "end")?;
    Ok(())
}

fn found(difference: &str, case: &Case) -> std::io::Result<()> {
    let value = json!({ "difference": difference, "kernel": case.to_string() });
    writeln!(stdout(), "found {value}")?;
    stdout().flush()
}
