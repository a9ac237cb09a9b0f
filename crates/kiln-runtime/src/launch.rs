//! Launching a kernel: from arguments to a program on a device.

use crate::args::{Arguments, ParamInfo};
use crate::cache::{DiskCache, Specialisation};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::stream::Stream;
use kiln_backend::{Program, Report, StreamId};
use kiln_compiler::{Partition, partition};
use kiln_ir::{Kernel, Level, verify};
use kiln_lang::param::{KernelFn, KernelParams};
use std::sync::Arc;

/// A kernel with its arguments, ready to launch: what calling a `#[kernel]` function gives.
///
/// ```text
/// softmax(&x, &mut y, 4096).launch(&device)?;
/// histogram(&x, &mut counts).grid([64, 1, 1]).block([256, 1, 1]).on(&stream).launch(&device)?;
/// ```
#[must_use = "a kernel runs when it is launched: call `.launch(&device)`"]
pub struct Launch<P: KernelParams> {
    kernel: KernelFn<P>,
    args: P::Args,
    grid: Option<[u32; 3]>,
    level: Level,
    stream: StreamId,
}

/// A kernel that was compiled and loaded, with what its launches need.
pub(crate) struct LoadedKernel {
    pub(crate) name: &'static str,
    pub(crate) params: Vec<ParamInfo>,
    partition: Partition,
    program: Arc<dyn Program>,
}

impl<P: KernelParams> Launch<P> {
    /// For the `#[kernel]` macro.
    #[doc(hidden)]
    pub fn new(kernel: KernelFn<P>, args: P::Args) -> Launch<P> {
        Launch { kernel, args, grid: None, level: Level::Tile { warps: None }, stream: StreamId::default() }
    }

    /// The number of programs (blocks) on x, y and z. Without it the grid follows from the tensors that the programs write, if their stores
    /// tell which part each writes.
    pub fn grid(mut self, grid: [u32; 3]) -> Self {
        self.grid = Some(grid);
        self
    }

    /// Makes this a launch of threads, in blocks of these extents on x, y and z: for kernels that use thread indices.
    pub fn block(mut self, block: [u32; 3]) -> Self {
        self.level = Level::Thread { block };
        self
    }

    /// The warps of 32 threads that work on a program of a tile kernel; the compiler chooses well for most.
    pub fn warps(mut self, warps: u32) -> Self {
        self.level = Level::Tile { warps: Some(warps) };
        self
    }

    /// The stream to launch in, instead of the device's default one.
    pub fn on(mut self, stream: &Stream) -> Self {
        self.stream = stream.id();
        self
    }

    /// Compiles the kernel if it is new, and enqueues it. Work that uses the arguments is ordered before and after it.
    ///
    /// # Errors
    /// Wrong kernels with every problem in them ([`Error::Kernel`]), arguments on another device, uninitialised or overlapping, grids that do not
    /// follow from the stores or exceed the device's limits, and failures of the device. A kernel's own fault surfaces at the next
    /// synchronisation or read of a tensor. On an error nothing was launched and no argument changed.
    pub fn launch(self, device: &Device) -> Result<()> {
        let loaded = self.load(device)?;
        let args = Arguments::collect::<P>(&self.args, &loaded, device)?;
        let grid = match self.grid {
            Some(grid) => grid,
            None => loaded.grid(&args)?,
        };
        args.prepare(&loaded, self.stream)?;
        let launch = kiln_backend::Launch { grid, words: args.words(), stream: self.stream };
        // SAFETY: the words were packed by the parameters that the program was compiled for: live tensors of this device with
        // their extents and strides. Their buffers order freeing after this stream's work.
        unsafe { Ok(device.backend().launch(&*loaded.program, launch)?) }
    }

    /// Compiles the kernel if it is new, and says what became of it.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    pub fn compile(&self, device: &Device) -> Result<Report> {
        Ok(self.load(device)?.program.report())
    }

    /// The kernel's IR, specialised to these arguments.
    ///
    /// # Errors
    /// [`Error::Kernel`] with every problem in it.
    pub fn ir(&self) -> Result<Kernel> {
        let name = self.kernel.site().name;
        let refuse = |problems| Error::Kernel { kernel: name.to_owned(), problems };
        let kernel = self.kernel.trace(&self.args, self.level).map_err(|errors| {
            refuse(errors.errors().iter().map(ToString::to_string).collect())
        })?;
        verify(&kernel).map_err(|errors| {
            refuse(errors.into_iter().map(|e| format!("{}: {} (in `{}`)", e.location, e.message, e.op)).collect())
        })?;
        Ok(kernel)
    }

    fn load(&self, device: &Device) -> Result<Arc<LoadedKernel>> {
        let key = Specialisation { spec: self.kernel.key(&self.args), level: self.level };
        device.programs().get(&key, || self.compile_new(device))
    }

    fn compile_new(&self, device: &Device) -> Result<Arc<LoadedKernel>> {
        let kernel = self.ir()?;
        let name = self.kernel.site().name;
        let partition = partition(&kernel);
        if !partition.unproven.is_empty() {
            let problem = |u: &kiln_compiler::Unproven| {
                format!("{}: the programs' stores to `{}` may collide: {}; if they do not, use `unsafe` and `store_overlapping`", u.location, u.param, u.reason)
            };
            let problems = partition.unproven.iter().map(problem).collect();
            return Err(Error::Kernel { kernel: name.to_owned(), problems });
        }
        let program = load_or_compile(device, &kernel)?;
        let params = ParamInfo::list(&kernel.params);
        Ok(Arc::new(LoadedKernel { name, params, partition, program }))
    }
}

/// Takes the program from disk if it is there and the device accepts it, else compiles it and keeps it.
fn load_or_compile(device: &Device, kernel: &Kernel) -> Result<Arc<dyn Program>> {
    let (backend, disk) = (device.backend(), device.disk_cache());
    let Some(artifact_key) = backend.artifact_key().filter(|_| disk.folder().is_some()) else {
        return Ok(backend.compile(kernel)?.program);
    };
    // With locations: faults name them.
    let key = DiskCache::key(&[format!("{kernel:#}").as_bytes(), artifact_key.as_bytes()]);
    if let Some(bytes) = disk.load(&key) {
        match backend.load(&bytes) {
            Ok(program) => return Ok(program),
            Err(_) => disk.reject(),
        }
    }
    let compiled = backend.compile(kernel)?;
    if let Some(bytes) = &compiled.artifact {
        disk.store(&key, bytes);
    }
    Ok(compiled.program)
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
            let count = |rule: kiln_compiler::GridRule| rule.programs(args.extent(rule.param, rule.axis));
            if let Some(&other) = rules.find(|&&r| count(r) != count(first)) {
                let [a, b] = [first, other].map(|r| (&self.params[r.param].name, r.axis, count(r)));
                return Err(refuse(format!(
                    "axis {} of `{}` asks for {} programs on {name}, axis {} of `{}` for {}",
                    a.1, a.0, a.2, b.1, b.0, b.2
                )));
            }
            grid[axis] = u32::try_from(count(first)).map_err(|_| {
                Error::Device(kiln_backend::Error::LaunchLimit {
                    kernel: self.name.to_owned(),
                    what: format!("grid extent {name}"),
                    given: count(first),
                    limit: u64::from(u32::MAX),
                })
            })?;
        }
        Ok(grid)
    }
}
