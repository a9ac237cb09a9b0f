//! Host time from a first call to its programs loaded on the GPU: traced and compiled, or found in
//! the disk cache.

use half::bf16;
use kiln_cuda::Cuda;
use kiln_kernels::rows::kernels::softmax;
use kiln_kernels::{Attention, matmul};
use kiln_runtime::{Build, Device, DiskCache, Error, Result, Stages};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const COLUMNS: usize = 4096;

/// What is called for the first time.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum FirstCall {
    /// Softmax for rows of 4096 numbers
    Softmax,
    /// The product of two matrices 4096 x 4096 of bf16
    Matmul,
    /// Causal attention of width 64, bf16
    Attention64,
    /// Causal attention of width 128, bf16
    Attention128,
    /// Causal attention of width 256, bf16
    Attention256,
}

/// Microseconds of a first call, with Kiln's caches empty and the driver's switched off, each time
/// in a process of its own: the first kernel that a process compiles has the driver load its
/// compiler.
pub fn cold(device: &Device, work: FirstCall, rounds: usize) -> Result<Vec<f64>> {
    (0..rounds).map(|_| in_a_process(device, work).map_err(|reason| unavailable(device, reason))).collect()
}

fn in_a_process(device: &Device, work: FirstCall) -> std::result::Result<f64, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let name = clap::ValueEnum::to_possible_value(&work).ok_or("it has no name")?;
    let mut child = Command::new(program);
    child.args(["bench", "--first-call", name.get_name(), "--device", device.id()]);
    let output = child.env("CUDA_CACHE_DISABLE", "1").output().map_err(|e| e.to_string())?;
    let answer: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    answer.and_then(|answer| answer["us"].as_f64()).ok_or_else(|| {
        format!("a process that compiles said: {}", String::from_utf8_lossy(&output.stderr).trim())
    })
}

fn unavailable(device: &Device, reason: String) -> Error {
    let hint = "Run `kiln doctor`.".to_owned();
    kiln_backend::Error::Unavailable { device: device.id().to_owned(), reason, hint }.into()
}

/// What [`cold`] has a process do: makes a call for the first time, and gives its microseconds and
/// those of each program that it compiled, by stage.
pub fn first_call(device: &Device, work: FirstCall) -> Result<Value> {
    let folder = Folder::new("cold");
    let fresh = opened_anew(device, DiskCache::at(&folder.0))?;
    let time = once(&fresh, work)?;
    let programs: Vec<Value> = fresh.programs().builds().iter().map(stages).collect();
    Ok(json!({"us": micros(time), "programs": programs}))
}

fn stages(build: &Build) -> Value {
    let Stages { passes, emission, assembly, loading } = build.stages.unwrap_or_default();
    json!({
        "kernel": &*build.kernel,
        "us": micros(build.total),
        "tracing": micros(build.tracing),
        "passes": micros(passes),
        "ptx": micros(emission),
        "driver": micros(assembly),
        "loading": micros(loading),
    })
}

/// Microseconds to trace softmax for rows of 4096 numbers and load what the disk cache has of it.
/// Every round opens the device anew, with an empty program cache.
pub fn from_disk(device: &Device, rounds: usize) -> Result<Vec<f64>> {
    let folder = Folder::new("disk");
    let round = || once(&opened_anew(device, DiskCache::at(&folder.0))?, FirstCall::Softmax).map(micros);
    round()?;
    (0..rounds).map(|_| round()).collect()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Whether the times of a first call can be measured on a device: `kiln-cuda` alone reports them.
pub fn can_open_anew(device: &Device) -> bool {
    device.id().starts_with("cuda:")
}

fn opened_anew(device: &Device, disk: DiskCache) -> Result<Device> {
    let index = device.id().rsplit(':').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    Ok(Device::with_backend(Box::new(Cuda::open(index)?), disk))
}

/// The time of one call, data not included.
fn once(device: &Device, work: FirstCall) -> Result<Duration> {
    match work {
        FirstCall::Softmax => {
            let (x, mut y) = (device.zeros::<f32, 2>([1, COLUMNS])?, device.uninit([1, COLUMNS])?);
            timed(device, || softmax(&x, &mut y, COLUMNS).warps(16).compile(device).map(drop))
        }
        FirstCall::Matmul => {
            let factor = || device.zeros::<bf16, 2>([4096, 4096]);
            let (a, b, mut c) = (factor()?, factor()?, device.uninit::<bf16, 2>([4096, 4096])?);
            timed(device, || matmul(&a, &b, &mut c))
        }
        FirstCall::Attention64 => attention(device, 64),
        FirstCall::Attention128 => attention(device, 128),
        FirstCall::Attention256 => attention(device, 256),
    }
}

/// Causal attention over 4 sequences of 4096, with heads of this width.
fn attention(device: &Device, width: usize) -> Result<Duration> {
    let extents = [4 * 2048 / width, 4096, width];
    let tensor = || device.zeros::<bf16, 3>(extents);
    let (q, k, v, mut o) = (tensor()?, tensor()?, tensor()?, device.uninit(extents)?);
    timed(device, || Attention::new().causal().run(&q, &k, &v, &mut o))
}

fn timed(device: &Device, call: impl FnOnce() -> Result<()>) -> Result<Duration> {
    device.synchronize()?;
    let start = Instant::now();
    call()?;
    let time = start.elapsed();
    device.synchronize()?;
    Ok(time)
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
