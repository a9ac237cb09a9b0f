//! Launching a kernel: from arguments to a program on a device.

use crate::args::{Arguments, Locked};
use crate::cache::{Build, DiskCache, Specialisation};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::params::ParamInfo;
use crate::request::{Request, Typed};
use crate::stream::{Queue, Stream, same_device};
use kiln_backend::{Program, Report, Stages};
use kiln_compiler::{Partition, partition};
use kiln_ir::{Kernel, Level, VerifyError, verify};
use kiln_lang::param::{KernelFn, KernelParams, KernelSite};
use std::sync::Arc;
use std::time::Instant;

/// A kernel with its arguments, ready to launch: what calling a `#[kernel]` function gives.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_runtime::{Device, Tensor};
///
/// /// A tile kernel: the grid follows from what its programs store.
/// #[kernel(crate = kiln_runtime)]
/// fn double(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
///     let at = program_id(0) * 4;
///     y.tile(at, 4).store(x.tile(at, 4).load(0.0) * 2.0);
/// }
///
/// /// A thread kernel: it needs a block, and here a grid.
/// #[kernel(crate = kiln_runtime)]
/// fn increment(y: &mut Tensor<f32, 1>) {
///     let i = thread_index();
///     y.set_or_skip(i, y.get_or(i, 0.0) + 1.0);
/// }
///
/// let device = Device::open("interp")?;
/// let x = device.tensor(&[1.0, 2.0, 3.0, 4.0, 5.0], [5])?;
/// let mut y = device.uninit([5])?;
/// double(&x, &mut y).launch(&device)?;
/// let stream = device.stream()?;
/// increment(&mut y).grid([2]).block([3]).on(&stream).launch(&device)?; // waits for `double` by itself
/// assert_eq!(y.to_vec()?, [3.0, 5.0, 7.0, 9.0, 11.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[must_use = "a kernel runs when it is launched: call `.launch(&device)`"]
pub struct Launch<P: KernelParams> {
    request: Typed<P>,
    settings: Settings,
}

/// How a kernel is launched.
struct Settings {
    grid: Option<[u32; 3]>,
    level: Level,
    queue: Queue,
}

/// A kernel that was compiled and loaded, with what its launches need.
pub(crate) struct LoadedKernel {
    pub(crate) name: &'static str,
    pub(crate) params: Vec<ParamInfo>,
    partition: Partition,
    program: Arc<dyn Program>,
    pub(crate) build: Build,
}

impl<P: KernelParams> Launch<P> {
    /// For the `#[kernel]` macro.
    #[doc(hidden)]
    pub fn new(kernel: KernelFn<P>, args: P::Args) -> Launch<P> {
        let settings = Settings { grid: None, level: Level::Tile { warps: None }, queue: Queue::default() };
        Launch { request: Typed { kernel, args }, settings }
    }

    /// The number of programs (blocks) on x, y and z. Without it the grid follows from the tensors that the programs write, if their stores
    /// tell which part each writes.
    ///
    /// Axes that are left out have one program: `[64]`, `[64, 2]` and `[64, 2, 1]` all will do. A zero launches nothing.
    pub fn grid<const N: usize>(mut self, grid: [u32; N]) -> Self {
        self.settings.grid = Some(three(grid));
        self
    }

    /// Makes this a launch of threads, in blocks of these extents on x, y and z: for kernels that use thread indices. Axes that are left out have
    /// one thread.
    pub fn block<const N: usize>(mut self, block: [u32; N]) -> Self {
        self.settings.level = Level::Thread { block: three(block) };
        self
    }

    /// The warps of 32 threads that work on a program of a tile kernel; the compiler chooses well for most.
    pub fn warps(mut self, warps: u32) -> Self {
        self.settings.level = Level::Tile { warps: Some(warps) };
        self
    }

    /// The stream to launch in, instead of the device's default one.
    pub fn on(mut self, stream: &Stream) -> Self {
        self.settings.queue = stream.queue().clone();
        self
    }

    /// Compiles the kernel if it is new, and enqueues it. Work that uses the arguments is ordered before and after it.
    ///
    /// # Errors
    /// Wrong kernels with every problem in them ([`Error::Kernel`]), arguments on another device, uninitialised or overlapping, grids that do not
    /// follow from the stores or exceed the device's limits, and failures of the device. A kernel's own fault surfaces at the next
    /// synchronisation or read of a tensor. On an error nothing was launched and no argument changed.
    pub fn launch(self, device: &Device) -> Result<()> {
        self.settings.launch(&self.request, device)
    }

    /// Compiles the kernel if it is new, and says what became of it.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    pub fn compile(&self, device: &Device) -> Result<Report> {
        Ok(self.settings.load(&self.request, device)?.program.report())
    }

    /// The kernel's IR, specialised to these arguments.
    ///
    /// # Errors
    /// [`Error::Kernel`] with every problem in it.
    pub fn ir(&self) -> Result<Kernel> {
        self.settings.ir(&self.request)
    }
}

/// Everything that does not depend on the types of the parameters: compiled once, not once for each
/// kernel of a program.
impl Settings {
    fn launch(&self, request: &dyn Request, device: &Device) -> Result<()> {
        device.check_not_printing()?;
        if let Some(home) = self.queue.device() {
            same_device("the stream of the launch", home, device)?;
        }
        let loaded = self.load(request, device)?;
        let mut args = Arguments::default();
        args.collect(request, &loaded, device)?;
        let grid = match self.grid {
            Some(grid) => grid,
            None => loaded.grid(&args)?,
        };
        loaded.check_limits(grid, device)?;
        if grid.contains(&0) {
            return Ok(());
        }
        let mut locked = Locked::default();
        args.lock(&loaded, &mut locked)?;
        locked.prepare(&self.queue)?;
        let launch = kiln_backend::Launch { grid, words: args.words(), stream: self.queue.id() };
        // SAFETY: `Arguments::collect` compared each packed argument with the parameter that the program was compiled for, whatever
        // the `KernelParam` says: its kind, element type, rank and mutability, and every fact that the program relies on. A view's
        // words come through the unsafe `ArgSink::view` alone, so that they are a live tensor's address, extents and strides; its
        // device was checked, and its buffer orders freeing after this stream's work. A view that is written is a `&mut Tensor`, and
        // `check_overlaps` refused any other argument in its memory.
        unsafe { device.backend().launch(&*loaded.program, launch)? };
        locked.launched(&self.queue);
        Ok(())
    }

    fn ir(&self, request: &dyn Request) -> Result<Kernel> {
        let site = request.site();
        let refuse = |problems| Error::Kernel { kernel: site.name.to_owned(), problems };
        let kernel = request
            .trace(self.level)
            .map_err(|errors| refuse(errors.errors().iter().map(ToString::to_string).collect()))?;
        verify(&kernel).map_err(|errors| refuse(errors.iter().map(|e| problem(site, e)).collect()))?;
        Ok(kernel)
    }

    /// Refuses a block that the device cannot have: a limit, not a fault of the kernel.
    fn check_block(&self, request: &dyn Request, device: &Device) -> Result<()> {
        let Level::Thread { block } = self.level else { return Ok(()) };
        let limit = u64::from(device.properties().max_threads);
        let threads = block.iter().fold(1u64, |n, &extent| n.saturating_mul(extent.into()));
        if threads <= limit {
            return Ok(());
        }
        let kernel = request.site().name.to_owned();
        let what = "threads per block".to_owned();
        Err(Error::Device(kiln_backend::Error::LaunchLimit { kernel, what, given: threads, limit }))
    }

    fn load(&self, request: &dyn Request, device: &Device) -> Result<Arc<LoadedKernel>> {
        self.check_block(request, device)?;
        if let Some(traced) = kiln_lang::traced_now() {
            let kernel = request.site().name.to_owned();
            return Err(Error::LaunchInTrace { kernel, traced });
        }
        let key = Specialisation { spec: request.key(), level: self.level };
        device.programs().get(&key, || self.compile_new(request, device))
    }

    fn compile_new(&self, request: &dyn Request, device: &Device) -> Result<Arc<LoadedKernel>> {
        let begun = Instant::now();
        let kernel = self.ir(request)?;
        let name = request.site().name;
        let partition = partition(&kernel);
        let tracing = begun.elapsed();
        if !partition.unproven.is_empty() {
            let problem = |u: &kiln_compiler::Unproven| {
                format!(
                    "{}: the programs' stores to `{}` may collide: {}; if they do not, use `unsafe` and `store_overlapping`",
                    u.location, u.param, u.reason
                )
            };
            let problems = partition.unproven.iter().map(problem).collect();
            return Err(Error::Kernel { kernel: name.to_owned(), problems });
        }
        let (program, stages) = load_or_compile(device, &kernel)?;
        let build = Build { kernel: name, tracing, total: begun.elapsed(), stages };
        let params = ParamInfo::list(&kernel.params);
        Ok(Arc::new(LoadedKernel { name, params, partition, program, build }))
    }
}

/// A finding of the verifier in words. One about the kernel as a whole is placed at the function.
fn problem(site: &KernelSite, error: &VerifyError) -> String {
    let (location, op) = (&error.location, &error.op);
    match location.contains(':') {
        true => format!("{location}: {} (in `{op}`)", error.message),
        false => format!("{}:{}:{}: {}", site.file, site.line, site.column, error.message),
    }
}

impl Device {
    /// The program of a kernel that was traced by other means than a launch: from disk if it is there and the device accepts it, else compiled and kept.
    ///
    /// # Errors
    /// What the device refuses.
    pub fn program(&self, kernel: &Kernel) -> Result<Arc<dyn Program>> {
        Ok(load_or_compile(self, kernel)?.0)
    }
}

/// Takes the program from disk if it is there and the device accepts it, else compiles it, says how long that took, and keeps it.
fn load_or_compile(device: &Device, kernel: &Kernel) -> Result<(Arc<dyn Program>, Option<Stages>)> {
    let (backend, disk) = (device.backend(), device.disk_cache());
    let Some(artifact_key) = backend.artifact_key().filter(|_| disk.folder().is_some()) else {
        let compiled = backend.compile(kernel)?;
        return Ok((compiled.program, Some(compiled.stages)));
    };
    // With locations: faults name them.
    let key = DiskCache::key(&[format!("{kernel:#}").as_bytes(), artifact_key.as_bytes()]);
    if let Some(bytes) = disk.load(&key) {
        match backend.load(&bytes) {
            Ok(program) => return Ok((program, None)),
            Err(_) => disk.reject(),
        }
    }
    let compiled = backend.compile(kernel)?;
    if let Some(bytes) = &compiled.artifact {
        disk.store(&key, bytes);
    }
    Ok((compiled.program, Some(compiled.stages)))
}

impl LoadedKernel {
    /// The grid that covers the tensors the programs write.
    fn grid(&self, args: &Arguments) -> Result<[u32; 3]> {
        let refuse = |reason: String| Error::Grid { kernel: self.name.to_owned(), reason };
        let mut grid = [1u32; 3];
        for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
            if !self.partition.used[axis] {
                continue;
            }
            let mut rules = self.partition.grid[axis].iter();
            let Some(&first) = rules.next() else {
                return Err(refuse(format!("no tensor's part depends on `program_id` of axis {name} alone")));
            };
            let count = |rule: kiln_compiler::GridRule| {
                rule.programs(args.extent(&self.params[rule.param], rule.axis))
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

    /// Refuses a grid that the device cannot have, before any argument is touched.
    fn check_limits(&self, grid: [u32; 3], device: &Device) -> Result<()> {
        let limits = device.properties().max_grid;
        match (0..3).find(|&axis| grid[axis] > limits[axis]) {
            None => Ok(()),
            Some(axis) => Err(self.over_limit(axis, grid[axis].into(), limits[axis].into())),
        }
    }

    fn over_limit(&self, axis: usize, given: u64, limit: u64) -> Error {
        let what = format!("grid extent {}", ["x", "y", "z"][axis]);
        Error::Device(kiln_backend::Error::LaunchLimit { kernel: self.name.to_owned(), what, given, limit })
    }
}

/// The extents on three axes.
fn three<const N: usize>(extents: [u32; N]) -> [u32; 3] {
    const { assert!(N >= 1 && N <= 3, "a grid or block has one, two or three axes") };
    std::array::from_fn(|axis| extents.get(axis).copied().unwrap_or(1))
}
