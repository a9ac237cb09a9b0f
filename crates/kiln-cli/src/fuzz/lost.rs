//! A kernel that ended the process which ran it, made smaller: each smaller one has a process too.

use kiln_fuzz::{Case, Tested, Trial, reduce::reduce};
use kiln_ir::Kernel;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a kernel is made smaller.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a process may be at a smaller one, before it counts as one that hangs.
const EACH: Duration = Duration::from_secs(15);

/// The smallest case found that ends its process as this one does; the case itself where a process
/// lives through it now.
pub(super) fn reduced(device: &str, case: &Case) -> Case {
    let begun = Instant::now();
    // What the interpreter refuses may do anything on a device.
    let reference = Trial::new(Tested::GpuCode { assemble: None });
    let fails = |kernel: &Kernel| {
        let smaller = case.with(kernel.clone());
        begun.elapsed() < PATIENCE && reference.accepted(&smaller).is_some() && ends(device, &smaller)
    };
    case.with(reduce(&case.kernel, fails))
}

/// Whether a process that runs a case ends without a word, or hangs.
fn ends(device: &str, case: &Case) -> bool {
    static FILES: AtomicU64 = AtomicU64::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("kiln-fuzz-{}-{number}.kir", std::process::id()));
    let status = run(device, case, &path);
    // What is left behind is one small file.
    let _ = std::fs::remove_file(&path);
    match status {
        Ok(Some(status)) => !matches!(status.code(), Some(0..=2)),
        Ok(None) => true,
        // Nothing ran.
        Err(_) => false,
    }
}

/// How a process that runs a case ends, or `None` if it does not in time.
fn run(device: &str, case: &Case, path: &Path) -> std::io::Result<Option<ExitStatus>> {
    std::fs::write(path, case.to_string())?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["fuzz", "--device", device, "--replay"]).arg(path);
    command.env("CUDA_CACHE_DISABLE", "1");
    let nothing = Stdio::null;
    let mut child = command.stdin(nothing()).stdout(nothing()).stderr(nothing()).spawn()?;
    let begun = Instant::now();
    while begun.elapsed() < EACH {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        sleep(Duration::from_millis(5));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}
