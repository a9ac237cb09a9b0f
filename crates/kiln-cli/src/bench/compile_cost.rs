//! Host time from a kernel that was never seen to one that is loaded on the GPU: traced and compiled, or found in the disk cache.

use kiln_cuda::Cuda;
use kiln_kernels::rows::kernels::softmax;
use kiln_runtime::{Device, DiskCache, Error, Result};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

const COLUMNS: usize = 4096;

/// Microseconds to trace, compile and load softmax for rows of 4096 numbers, into an empty disk cache, each time in a process of its own: the first kernel that a
/// process compiles has the driver load its compiler.
pub fn cold(device: &Device, rounds: usize) -> Result<Vec<f64>> {
    (0..rounds).map(|_| in_a_process(device).map_err(|reason| unavailable(device, reason))).collect()
}

fn in_a_process(device: &Device) -> std::result::Result<f64, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut child = Command::new(program);
    child.args(["bench", "--compile-once", "--device", device.id()]);
    let output = child.output().map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| {
        format!("a process that compiles said: {}", String::from_utf8_lossy(&output.stderr).trim())
    })
}

fn unavailable(device: &Device, reason: String) -> Error {
    let hint = "Run `kiln doctor`.".to_owned();
    kiln_backend::Error::Unavailable { device: device.id().to_owned(), reason, hint }.into()
}

/// What [`cold`] has a process do: compiles softmax once, and gives the microseconds.
pub fn compile_once(device: &Device) -> Result<f64> {
    let folder = Folder::new("cold");
    once(device, DiskCache::at(&folder.0))
}

/// Microseconds to trace softmax for rows of 4096 numbers and load what the disk cache has of it. Every round opens the device anew, with an empty program
/// cache.
pub fn from_disk(device: &Device, rounds: usize) -> Result<Vec<f64>> {
    let folder = Folder::new("disk");
    once(device, DiskCache::at(&folder.0))?;
    (0..rounds).map(|_| once(device, DiskCache::at(&folder.0))).collect()
}

fn once(device: &Device, disk: DiskCache) -> Result<f64> {
    let index = device.id().rsplit(':').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let fresh = Device::with_backend(Box::new(Cuda::open(index)?), disk);
    let (x, mut y) = (fresh.zeros::<f32, 2>([1, COLUMNS])?, fresh.uninit([1, COLUMNS])?);
    fresh.synchronize()?;
    let start = Instant::now();
    softmax(&x, &mut y, COLUMNS).warps(16).compile(&fresh)?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

/// A folder for disk caches, deleted with everything in it on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(what: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("kiln-bench-{what}-{}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be deleted is left to the system's temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
