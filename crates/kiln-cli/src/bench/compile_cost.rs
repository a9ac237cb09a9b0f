//! Host time from a kernel that this process has never seen to one that is loaded on the GPU: traced and compiled, or found in the disk cache.
//!
//! Every round opens the device anew, with an empty program cache.

use kiln_cuda::Cuda;
use kiln_kernels::rows::kernels::softmax;
use kiln_runtime::{Device, DiskCache, Result};
use std::path::PathBuf;
use std::time::Instant;

const COLUMNS: usize = 4096;

/// Microseconds to trace, compile and load softmax for rows of 4096 numbers, into an empty disk cache.
pub fn cold(device: &Device, rounds: usize) -> Result<Vec<f64>> {
    let folder = Folder::new("cold");
    (0..rounds).map(|round| once(device, DiskCache::at(folder.0.join(round.to_string())))).collect()
}

/// Microseconds to trace softmax for rows of 4096 numbers and load what the disk cache has of it.
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
