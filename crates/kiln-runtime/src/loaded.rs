//! Kernels that are compiled and loaded on a device, with what their launches need.

use crate::activity::{Activity, CallSite, CompileActivity};
use crate::cache::DiskCache;
use crate::digest;
use crate::error::{Error, Result};
use crate::package::Packages;
use crate::params::ParamInfo;
use kiln_backend::{Backend, Compiled, Dump, DumpStage, Program, Properties, Stages};
use kiln_compiler::{Partition, UnsafeOp, partition, promise};
use kiln_ir::{Kernel, Level};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use web_time::Instant;

/// A kernel that was compiled and loaded, with what its launches need.
pub(crate) struct LoadedKernel {
    pub(crate) name: Arc<str>,
    pub(crate) params: Vec<ParamInfo>,
    /// How many numbers the parameters have.
    pub(crate) numbers: usize,
    partition: Partition,
    pub(crate) program: Arc<dyn Program>,
    pub(crate) build: Build,
    /// What it was recorded as, and a digest of that once somebody asked for it: printing a kernel
    /// takes a tenth of the time to load one from disk.
    kernel: Kernel,
    digest: OnceLock<[u8; 32]>,
    /// What it does that may be right for some numbers alone, if anything.
    pub(crate) promise: Option<UnsafeOp>,
}

/// How a program came to be in this process: host time from the launch that needed it to one that
/// was loaded.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_runtime::{Build, Device, ProgramSource, Tensor};
///
/// #[kernel(crate = kiln_runtime)]
/// fn twice(x: &mut Tensor<f32, 1>) {
///     let tile = x.tile(program_id(0) * 4, 4);
///     tile.store(tile.load(0.0) * 2.0);
/// }
///
/// let device = Device::open_apart("interp")?;
/// twice(&mut device.zeros([4])?).launch(&device)?;
/// let builds: Vec<Build> = device.programs().builds();
/// assert_eq!((builds.len(), &*builds[0].kernel), (1, "twice"));
/// // What comes from the disk was not compiled.
/// assert_eq!(builds[0].stages.is_some(), builds[0].source == ProgramSource::Compiler);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The kernel's name.
    pub kernel: Arc<str>,
    /// All of it, with the disk cache.
    pub total: Duration,
    /// Running the kernel's function to record its IR, and verifying that.
    pub tracing: Duration,
    /// What compiling took; `None` for a program that the disk cache or a package had.
    pub stages: Option<Stages>,
    /// Where it came from.
    pub source: ProgramSource,
}

/// Where a program of this process came from.
///
/// ```
/// use kiln_runtime::{Device, ProgramSource};
/// let device = Device::open("cpu")?;
/// let builds = device.programs().builds();
/// let compiled = builds.iter().filter(|build| build.source == ProgramSource::Compiler).count();
/// println!("{compiled} of {} kernels were compiled", builds.len());
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProgramSource {
    /// It was compiled.
    Compiler,
    /// The disk cache had it.
    Disk,
    /// A package had it.
    Package,
}

impl LoadedKernel {
    /// Compiles and loads a verified kernel, whose tracing began at `start`.
    pub(crate) fn new(
        name: &str,
        kernel: Kernel,
        sources: Sources<'_>,
        start: Instant,
    ) -> Result<LoadedKernel> {
        let partition = partition(&kernel);
        let tracing = start.elapsed();
        if !partition.unproven.is_empty() {
            let problem = |u: &kiln_compiler::Unproven| {
                format!(
                    "{}: the programs' stores to `{}` may collide: {}; if they do not, use `unsafe` and \
                     `store_overlapping` (for a kernel from IR, `launch_unchecked`)",
                    u.location, u.param, u.reason
                )
            };
            let problems = partition.unproven.iter().map(problem).collect();
            return Err(Error::Kernel { kernel: name.to_owned(), problems });
        }
        let (program, stages, source) = load_or_compile(sources, &kernel)?;
        let name: Arc<str> = name.into();
        let build = Build { kernel: name.clone(), tracing, total: start.elapsed(), stages, source };
        let (params, promise) = (ParamInfo::list(&kernel.params), promise(&kernel));
        let numbers = params.iter().map(ParamInfo::number_count).sum();
        let digest = OnceLock::new();
        Ok(LoadedKernel { name, params, numbers, partition, program, build, kernel, digest, promise })
    }

    /// A digest of the kernel's IR without places in the source.
    pub(crate) fn digest(&self) -> &[u8; 32] {
        self.digest.get_or_init(|| digest::of_kernel(&self.kernel))
    }

    /// The first line of the kernel's text: its parameters with what is known of them, and its
    /// level.
    fn header(&self) -> String {
        let text = self.kernel.to_string();
        let head = text.lines().find(|line| line.starts_with("kernel")).unwrap_or_default();
        head.trim_end_matches('{').trim_end().to_owned()
    }

    /// The grid that covers the tensors the programs write, by the numbers of the arguments.
    pub(crate) fn grid(&self, numbers: &[u64]) -> Result<[u32; 3]> {
        let refuse = |reason: String| Error::Grid { kernel: self.name.to_string(), reason };
        let mut grid = [1u32; 3];
        for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
            if !self.partition.used[axis] {
                continue;
            }
            let mut rules = self.partition.grid[axis].iter();
            let Some(&first) = rules.next() else {
                return Err(refuse(self.why_no_rule(name)));
            };
            let count = |rule: kiln_compiler::GridRule| {
                rule.programs(self.params[rule.param].extent(numbers, rule.axis))
            };
            if let Some(&other) = rules.find(|&&r| count(r) != count(first)) {
                let [a, b] = [first, other].map(|r| (&self.params[r.param].name, r.axis, count(r)));
                return Err(refuse(format!(
                    "axis {} of `{}` asks for {} programs on {name}, axis {} of `{}` for {}",
                    a.1, a.0, a.2, b.1, b.0, b.2
                )));
            }
            grid[axis] = u32::try_from(count(first))
                .map_err(|_| self.over_limit(axis, count(first), u64::from(u32::MAX)))?;
        }
        Ok(grid)
    }

    /// Why the number of programs on an axis follows from nothing.
    fn why_no_rule(&self, axis: &str) -> String {
        match self.kernel.level {
            Level::Tile { .. } => format!("no tensor's part depends on `program_id` of axis {axis} alone"),
            Level::Thread { block } => {
                let threads = block.iter().product::<u32>();
                format!(
                    "in a kernel over threads it never does (n threads are `n.div_ceil({threads})` blocks)"
                )
            }
        }
    }

    /// Refuses a grid that the device cannot have, before any argument is touched.
    pub(crate) fn check_limits(&self, grid: [u32; 3], properties: &Properties) -> Result<()> {
        let limits = properties.max_grid;
        match (0..3).find(|&axis| grid[axis] > limits[axis]) {
            None => Ok(()),
            Some(axis) => Err(self.over_limit(axis, grid[axis].into(), limits[axis].into())),
        }
    }

    fn over_limit(&self, axis: usize, given: u64, limit: u64) -> Error {
        let what = format!("grid extent {}", ["x", "y", "z"][axis]);
        Error::Device(kiln_backend::Error::LaunchLimit { kernel: self.name.to_string(), what, given, limit })
    }
}

/// What observers receive of a kernel that was compiled, or read from disk, from `start` on.
pub(crate) fn compiled(
    device: Arc<str>,
    loaded: &LoadedKernel,
    call_site: CallSite,
    start: Instant,
) -> Activity {
    let Build { kernel, total: duration, tracing, stages, .. } = loaded.build.clone();
    let specialization = loaded.header();
    let compile =
        CompileActivity { device, kernel, specialization, call_site, start, duration, tracing, stages };
    Activity::Compile(compile)
}

/// Where programs come from: packages, the disk, the compiler.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) backend: &'a dyn Backend,
    pub(crate) disk: &'a DiskCache,
    pub(crate) packages: &'a Packages,
}

/// Takes the program from a package that has it, or from disk if it is there and the device accepts
/// it, else compiles it, says how long that took, and keeps it.
pub(crate) fn load_or_compile(
    sources: Sources<'_>,
    kernel: &Kernel,
) -> Result<(Arc<dyn Program>, Option<Stages>, ProgramSource)> {
    let Sources { backend, disk, packages } = sources;
    let dump = Dump::of_environment()?;
    if let Some(dump) = dump {
        dump.write(DumpStage::Ir, (kernel, ""), || Ok(format!("{kernel:#}").into_bytes()));
    }
    // What comes from a package or from disk has no stages to write.
    let has_kept = dump.is_none() || packages.are_required();
    if has_kept && let Some(program) = packages.find(backend, kernel)? {
        return Ok((program, None, ProgramSource::Package));
    }
    let compiled = |compiled: Compiled| (compiled.program, Some(compiled.stages), ProgramSource::Compiler);
    let Some(artifacts) = backend.artifacts().filter(|_| disk.folder().is_some()) else {
        return Ok(compiled(backend.compile(kernel)?));
    };
    // With locations: faults name them.
    let key = DiskCache::key(&[format!("{kernel:#}").as_bytes(), artifacts.artifact_key().as_bytes()]);
    if dump.is_none()
        && let Some(bytes) = disk.load(&key)
    {
        match artifacts.load(&bytes) {
            Ok(program) => return Ok((program, None, ProgramSource::Disk)),
            Err(_) => disk.reject(),
        }
    }
    let made = backend.compile(kernel)?;
    if let Some(bytes) = &made.artifact {
        disk.store(&key, bytes);
    }
    Ok(compiled(made))
}
