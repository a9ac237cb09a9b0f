//! What it costs on the CPU to compile a softmax and a product of matrices, to load them from disk,
//! and to load them from a package: medians of the time from a kernel's IR to a loaded program.
//!
//! ```console
//! $ cargo run --release -p kiln-kernels --example load_cost
//! ```

use kiln_backend::Backend;
use kiln_cpu::CpuBackend;
use kiln_ir::Kernel;
use kiln_lang::prelude::*;
use kiln_runtime::{Device, DiskCache, PackageBuilder, ProgramSource, Result, Tensor};
use std::time::Duration;

const ROUNDS: usize = 101;

#[kernel(crate = kiln_runtime)]
fn softmax(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, columns: usize) {
    let (at, shape) = ((program_id(0), 0), (1, columns));
    y.tile(at, shape).store(x.tile(at, shape).load(f32::NEG_INFINITY).softmax(1));
}

#[kernel(crate = kiln_runtime)]
fn product(a: &Tensor<f32, 2>, b: &Tensor<f32, 2>, c: &mut Tensor<f32, 2>) {
    let (m, n, k) = (64, 64, 64);
    let (row, column) = (program_id(0) * m, program_id(1) * n);
    let mut sum = zeros::<f32>((m, n));
    for step in range_step(0, a.extent(1), k) {
        let left = a.tile((row, step), (m, k)).load(0.0);
        let right = b.tile((step, column), (k, n)).load(0.0);
        sum = dot_acc(left, right, sum);
    }
    c.tile((row, column), (m, n)).store(sum);
}

/// A kernel: its IR, and its compilation on a device.
type Work = fn(&Device) -> Result<Kernel>;

fn softmax_of_1000(device: &Device) -> Result<Kernel> {
    let (x, mut y) = (device.zeros([64, 1000])?, device.zeros([64, 1000])?);
    let launch = softmax(&x, &mut y, 1024);
    launch.compile(device)?;
    launch.ir()
}

fn product_of_256(device: &Device) -> Result<Kernel> {
    let (a, b, mut c) = (device.zeros([256, 256])?, device.zeros([256, 256])?, device.zeros([256, 256])?);
    let launch = product(&a, &b, &mut c);
    launch.compile(device)?;
    launch.ir()
}

/// Medians in microseconds: recording the kernel, and all else until its program is there.
fn medians(device: &Device, work: Work, from: ProgramSource) -> Result<(f64, f64)> {
    let mut times: Vec<(Duration, Duration)> = Vec::new();
    for _ in 0..ROUNDS {
        device.programs().clear();
        work(device)?;
        let builds = device.programs().builds();
        assert!(builds.len() == 1 && builds[0].source == from, "{builds:?}");
        times.push((builds[0].tracing, builds[0].total - builds[0].tracing));
    }
    let median = |of: fn(&(Duration, Duration)) -> Duration| {
        let mut all: Vec<Duration> = times.iter().map(of).collect();
        all.sort();
        all[ROUNDS / 2].as_secs_f64() * 1e6
    };
    Ok((median(|times| times.0), median(|times| times.1)))
}

fn cpu(disk: DiskCache) -> Device {
    Device::with_backend(Box::new(CpuBackend::new()), disk)
}

/// What `kiln package` makes of a kernel.
fn package(kernel: &Kernel) -> Result<Vec<u8>> {
    let cpu: &dyn Backend = &CpuBackend::new();
    let target = cpu.need_artifacts()?.package_target().expect("the cpu takes packages");
    let code = cpu.compile(kernel)?.artifact.expect("programs are kept");
    let mut builder = PackageBuilder::default();
    builder.add(kernel, &target, &code);
    Ok(builder.finish())
}

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("kiln-load-cost-{}", std::process::id()));
    println!("{:<10} {:>9} {:>9} {:>9} {:>9}  us", "kernel", "tracing", "compile", "disk", "package");
    for (name, work) in [("softmax", softmax_of_1000 as Work), ("product", product_of_256)] {
        let (tracing, compile) = medians(&cpu(DiskCache::none()), work, ProgramSource::Compiler)?;
        let kernel = work(&cpu(DiskCache::at(&folder)))?;
        let (_, disk) = medians(&cpu(DiskCache::at(&folder)), work, ProgramSource::Disk)?;
        let packaged = cpu(DiskCache::none());
        // SAFETY: made here.
        unsafe { packaged.load_package_bytes(package(&kernel)?)? };
        let (_, package) = medians(&packaged, work, ProgramSource::Package)?;
        println!("{name:<10} {tracing:>9.0} {compile:>9.0} {disk:>9.0} {package:>9.0}");
    }
    let _ = std::fs::remove_dir_all(folder);
    Ok(())
}
