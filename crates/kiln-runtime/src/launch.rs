//! Launching a kernel: from arguments to a program on a device.

use crate::activity::{Activity, CallSite, LaunchActivity, LaunchTimer};
use crate::args::{Arguments, Locked};
use crate::cache::Specialization;
use crate::capture::node::Launched;
use crate::capture::recording;
use crate::capture::state::Mode;
use crate::compiled::CompiledKernel;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::extent::{Extent, Extents, no_extent, three};
use crate::loaded::{LoadedKernel, compiled};
use crate::log::Log;
use crate::precompile::{self, Job};
use crate::request::{Request, Typed};
use crate::stream::{Event, Queue, Stream, same_device};
use kiln_ir::{Kernel, LaunchHints, Level};
use kiln_lang::param::{KernelFn, KernelParams};
use std::panic::Location;
use std::sync::Arc;
use web_time::Instant;

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
/// // Waits for `double` by itself.
/// increment(&mut y).grid([2]).block([3]).on(&stream).launch(&device)?;
/// assert_eq!(y.to_vec()?, [3.0, 5.0, 7.0, 9.0, 11.0]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[must_use = "a kernel runs when it is launched: call `.launch(&device)`"]
pub struct Launch<P: KernelParams> {
    request: Typed<P>,
    settings: Settings,
}

/// How a kernel is launched.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) grid: Option<Extents>,
    pub(crate) level: Level,
    pub(crate) hints: LaunchHints,
    /// An extent of the block that is none.
    no_block: Option<Box<i128>>,
    pub(crate) queue: Queue,
}

impl<P: KernelParams> Launch<P> {
    /// For the `#[kernel]` macro.
    #[doc(hidden)]
    pub fn new(kernel: KernelFn<P>, args: P::Args) -> Launch<P> {
        Launch { request: Typed { kernel, args }, settings: Settings::new(Level::Tile { warps: None }) }
    }

    /// The number of programs (blocks) on x, y and z. Without it the grid follows from the tensors
    /// that the programs write, if their stores determine which part each writes.
    ///
    /// Axes that are left out have one program: `[64]`, `[64, 2]` and `[64, 2, 1]` all will do. A
    /// zero launches nothing.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_runtime::{Device, Tensor};
    /// #[kernel(crate = kiln_runtime)]
    /// fn increment(y: &mut Tensor<i32, 1>) {
    ///     let i = thread_index();
    ///     y.set_or_skip(i, y.get_or(i, 0) + 1);
    /// }
    ///
    /// let device = Device::open("interp")?;
    /// let mut y = device.zeros([5])?;
    /// // 6 threads, of which one has no element.
    /// increment(&mut y).grid([3]).block([2]).launch(&device)?;
    /// assert_eq!(y.to_vec()?, [1; 5]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn grid<E: Extent, const N: usize>(mut self, grid: [E; N]) -> Self {
        self.settings.grid = Some(three(grid));
        self
    }

    /// Makes this a launch of threads, in blocks of these extents on x, y and z: for kernels that
    /// use thread indices. Axes that are left out have one thread.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_runtime::{Device, Tensor};
    /// #[kernel(crate = kiln_runtime)]
    /// fn increment(y: &mut Tensor<i32, 1>) {
    ///     let i = thread_index();
    ///     y.set_or_skip(i, y.get_or(i, 0) + 1);
    /// }
    ///
    /// let device = Device::open("interp")?;
    /// let mut y = device.zeros([5])?;
    /// increment(&mut y).grid([1]).block([32]).launch(&device)?;
    /// assert_eq!(y.to_vec()?, [1; 5]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn block<E: Extent, const N: usize>(mut self, block: [E; N]) -> Self {
        self.settings.of_threads(three(block));
        self
    }

    /// The warps of 32 threads that work on a program of a tile kernel; the compiler chooses well
    /// for most.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_runtime::{Device, Tensor};
    /// #[kernel(crate = kiln_runtime)]
    /// fn increment(y: &mut Tensor<i32, 1>) {
    ///     let tile = y.tile(program_id(0) * 4, 4);
    ///     tile.store(tile.load(0) + 1);
    /// }
    ///
    /// let device = Device::open("interp")?;
    /// let mut y = device.zeros([5])?;
    /// increment(&mut y).warps(1).launch(&device)?;
    /// assert_eq!(y.to_vec()?, [1; 5]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn warps(mut self, warps: u32) -> Self {
        self.settings.no_block = None;
        self.settings.level = Level::Tile { warps: Some(warps) };
        self
    }

    /// The most registers of a thread on NVIDIA GPUs, 24 to 255 (CUDA's `__maxnreg__`): fewer let
    /// more blocks run at once, and what does not fit is in memory. Other devices have no such
    /// limit, and results are the same. The compiler gives such a kernel no task that copies, and
    /// tasks with registers of their own are refused.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_runtime::{Device, Tensor};
    /// #[kernel(crate = kiln_runtime)]
    /// fn increment(y: &mut Tensor<i32, 1>) {
    ///     let tile = y.tile(program_id(0) * 4, 4);
    ///     tile.store(tile.load(0) + 1);
    /// }
    ///
    /// let device = Device::open("interp")?;
    /// let mut y = device.zeros([5])?;
    /// increment(&mut y).max_registers(64).launch(&device)?;
    /// assert_eq!(y.to_vec()?, [1; 5]);
    /// let error = increment(&mut y).max_registers(300).launch(&device).unwrap_err();
    /// assert!(error.to_string().contains("at most 300 registers of a thread, expected 24 to 255"));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn max_registers(mut self, registers: u32) -> Self {
        self.settings.hints.registers = Some(registers);
        self
    }

    /// How many tiles a loop of products (`dot`) over tiles has in shared memory at once, 1 to 16:
    /// the one that it uses and those that are fetched ahead, as far as there is room. With 1
    /// nothing is. For NVIDIA GPUs; other devices ignore it, and results are the same. The compiler
    /// chooses well for most.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_runtime::{Device, Tensor};
    /// #[kernel(crate = kiln_runtime)]
    /// fn product(a: &Tensor<f16, 2>, b: &Tensor<f16, 2>, c: &mut Tensor<f32, 2>) {
    ///     let (i, j) = (program_id(0) * 16, program_id(1) * 16);
    ///     let mut sum = zeros::<f32>((16, 16));
    ///     for k in range_step(0, a.extent(1), 16) {
    ///         sum = dot_acc(a.tile((i, k), (16, 16)).load(0), b.tile((k, j), (16, 16)).load(0), sum);
    ///     }
    ///     c.tile((i, j), (16, 16)).store(sum);
    /// }
    ///
    /// let device = Device::open("interp")?;
    /// let ones = [f16::ONE; 1024];
    /// let (a, b) = (device.tensor(&ones, [16, 64])?, device.tensor(&ones, [64, 16])?);
    /// let mut c = device.uninit([16, 16])?;
    /// product(&a, &b, &mut c).stages(3).launch(&device)?;
    /// assert_eq!(c.to_vec()?, [64.0; 256]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn stages(mut self, stages: u32) -> Self {
        self.settings.hints.stages = Some(stages);
        self
    }

    /// The stream to launch in, instead of the device's default one.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_runtime::{Device, Tensor};
    /// #[kernel(crate = kiln_runtime)]
    /// fn increment(y: &mut Tensor<i32, 1>) {
    ///     let tile = y.tile(program_id(0) * 4, 4);
    ///     tile.store(tile.load(0) + 1);
    /// }
    ///
    /// let device = Device::open("interp")?;
    /// let mut y = device.zeros([5])?;
    /// let stream = device.stream()?;
    /// increment(&mut y).on(&stream).launch(&device)?;
    /// stream.synchronize()?;
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn on(mut self, stream: &Stream) -> Self {
        self.settings.queue = stream.queue().clone();
        self
    }

    /// Compiles the kernel if it is new, and enqueues it. Work that uses the arguments is ordered
    /// before and after it.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_runtime::{Device, Tensor};
    /// #[kernel(crate = kiln_runtime)]
    /// fn increment(y: &mut Tensor<i32, 1>) {
    ///     let tile = y.tile(program_id(0) * 4, 4);
    ///     tile.store(tile.load(0) + 1);
    /// }
    ///
    /// let device = Device::open("interp")?;
    /// let mut y = device.zeros([5])?;
    /// increment(&mut y).launch(&device)?; // does not wait
    /// assert_eq!(y.to_vec()?, [1; 5]); // waits
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// Wrong kernels with every problem in them ([`Error::Kernel`]), arguments on another device,
    /// uninitialized or overlapping, grids that do not follow from the stores or exceed the
    /// device's limits, and failures of the device. A kernel's own fault surfaces at the next
    /// synchronization or read of a tensor. On an error nothing was launched and no argument
    /// changed.
    #[track_caller]
    pub fn launch(self, device: &Device) -> Result<()> {
        self.settings.launch(&self.request, device, Location::caller())
    }

    /// Compiles the kernel if it is new, and says what became of it.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_runtime::{Device, Tensor};
    /// #[kernel(crate = kiln_runtime)]
    /// fn increment(y: &mut Tensor<i32, 1>) {
    ///     let tile = y.tile(program_id(0) * 4, 4);
    ///     tile.store(tile.load(0) + 1);
    /// }
    ///
    /// let device = Device::open("interp")?;
    /// let mut y = device.zeros([5])?;
    /// let compiled = increment(&mut y).compile(&device)?;
    /// println!("{} threads, {} bytes of shared memory", compiled.threads, compiled.shared);
    /// assert_eq!(y.to_vec()?, [0; 5]); // nothing ran
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    #[track_caller]
    pub fn compile(&self, device: &Device) -> Result<CompiledKernel> {
        self.settings.compile(&self.request, device, Location::caller())
    }

    /// The kernel's IR, specialized to these arguments.
    ///
    /// ```
    /// # use kiln_lang::prelude::*;
    /// # use kiln_runtime::{Device, Tensor};
    /// #[kernel(crate = kiln_runtime)]
    /// fn increment(y: &mut Tensor<i32, 1>) {
    ///     let tile = y.tile(program_id(0) * 4, 4);
    ///     tile.store(tile.load(0) + 1);
    /// }
    ///
    /// let device = Device::open("interp")?;
    /// let mut y = device.zeros([5])?;
    /// println!("{}", increment(&mut y).ir()?); // the text that `kiln compile` takes
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Kernel`] with every problem in it.
    pub fn ir(&self) -> Result<Kernel> {
        self.settings.check_extents(&self.request)?;
        let request: &dyn Request = &self.request;
        request.specialize(self.settings.level, self.settings.hints)
    }
}

/// Everything that does not depend on the types of the parameters: compiled once, not once for each
/// kernel of a program.
impl Settings {
    pub(crate) fn new(level: Level) -> Settings {
        Settings { grid: None, level, hints: LaunchHints::default(), no_block: None, queue: Queue::default() }
    }

    /// Makes this a launch of threads. Not inlined into every kernel's.
    #[inline(never)]
    fn of_threads(&mut self, block: Extents) {
        self.level = Level::Thread { block: *block.as_ref().unwrap_or(&[1; 3]) };
        self.no_block = block.err();
    }

    /// Compiles a kernel if it is new, and enqueues it: the one way to a device for all kernels.
    pub(crate) fn launch(&self, request: &dyn Request, device: &Device, site: CallSite) -> Result<()> {
        device.check_not_printing()?;
        if let Some(home) = self.queue.device() {
            same_device("the stream of the launch", home, device)?;
        }
        let mode = device.capture_mode();
        if mode == Some(Mode::Precompile) {
            return self.precompile(request, device, site);
        }
        let log = &mut Log::at(site);
        let (loaded, cached) = self.load(request, device, log)?;
        let mut args = Arguments::default();
        args.collect(request, &loaded, device)?;
        let grid = match &self.grid {
            Some(Ok(grid)) => *grid,
            Some(Err(given)) => return Err(no_extent("grid", request.name(), **given)),
            None => loaded.grid(args.numbers())?,
        };
        loaded.check_limits(grid, device.properties())?;
        if mode.is_some() {
            recording::launch(Launched { kernel: loaded, grid, args: args.kept() }, &self.queue, site);
            return Ok(());
        }
        if grid.contains(&0) {
            return Ok(());
        }
        let mut locked = Locked::default();
        args.lock(&loaded, &mut locked)?;
        locked.prepare(&self.queue, log)?;
        let started = if log.is_on() { Some(Started::now(device, &self.queue)) } else { None };
        let (buffers, numbers, stream) = (args.views(), args.numbers(), self.queue.id());
        let launch = kiln_backend::Launch { grid, buffers, numbers, stream };
        // SAFETY: `Arguments::collect` compared each packed argument with the parameter that the
        // program was compiled for, whatever the request says: its kind, element type, rank and
        // mutability, and every fact that the program relies on. What is packed of a view comes
        // through the unsafe `ArgSink::view` alone. So the elements that its extents and strides
        // reach from the byte offset on lie in its buffer, which the request keeps alive here, and
        // which orders its freeing after this stream's work; its device was checked. A view that is
        // said to be written is a `&mut` tensor of a parameter that may be written, any other one
        // is of a parameter that may not, and `check_overlaps` refused any other argument in the
        // memory of one that is written. What the kernel does inside of them is safe by its
        // language, by the checks of `DynKernel::new`, or by the promise of
        // `DynLaunch::launch_unchecked`.
        unsafe { device.backend().launch(&*loaded.program, launch)? };
        locked.launched(&self.queue);
        if let Some(started) = started {
            log.add(device, started.ended(device, &loaded.name, (grid, cached), self, site));
        }
        Ok(())
    }

    /// Compiles a kernel if it is new, and says what became of it.
    pub(crate) fn compile(
        &self,
        request: &dyn Request,
        device: &Device,
        site: CallSite,
    ) -> Result<CompiledKernel> {
        let (loaded, _) = self.load(request, device, &mut Log::at(site))?;
        Ok(CompiledKernel::new(loaded, device))
    }

    /// The specialization for a request, and whether it was there.
    fn load(
        &self,
        request: &dyn Request,
        device: &Device,
        log: &mut Log,
    ) -> Result<(Arc<LoadedKernel>, bool)> {
        self.check_request(request, device)?;
        let key = self.key(request);
        let mut built = None;
        let loaded = device.programs().get(&key, || {
            let (start, kernel) = (Instant::now(), request.specialize(self.level, self.hints)?);
            built = Some(start);
            Ok(Arc::new(LoadedKernel::new(request.name(), kernel, device.sources(), start)?))
        })?;
        // Observers are called when other threads no longer wait for this.
        if let Some(start) = built.filter(|_| log.is_on()) {
            log.add(device, compiled(device.shared_id(), &loaded, log.site(), start));
        }
        Ok((loaded, built.is_none()))
    }

    /// Records the kernel and hands it to the threads that compile, if it is new.
    fn precompile(&self, request: &dyn Request, device: &Device, site: CallSite) -> Result<()> {
        self.check_request(request, device)?;
        let key = self.key(request);
        if device.programs().announce(&key) {
            let start = Instant::now();
            let (name, kernel) = (request.name().to_owned(), request.specialize(self.level, self.hints)?);
            let tracing = start.elapsed();
            precompile::add(Job { device: device.clone(), key, name, kernel, tracing, site });
        }
        Ok(())
    }

    /// Refuses what no program can be made of.
    fn check_request(&self, request: &dyn Request, device: &Device) -> Result<()> {
        self.check_block(request, device)?;
        match kiln_lang::traced_now() {
            Some(traced) => Err(Error::LaunchInTrace { kernel: request.name().to_owned(), traced }),
            None => Ok(()),
        }
    }

    /// What the program of a request is found by: made where it stays, for it is large to move.
    #[inline]
    fn key(&self, request: &dyn Request) -> Specialization {
        Specialization { spec: request.key(), level: self.level, hints: self.hints }
    }

    /// Refuses a block with an extent that is no number of threads.
    fn check_extents(&self, request: &dyn Request) -> Result<()> {
        self.no_block.as_ref().map_or(Ok(()), |given| Err(no_extent("block", request.name(), **given)))
    }

    /// Refuses a block that the device cannot have: a limit, not a fault of the kernel.
    fn check_block(&self, request: &dyn Request, device: &Device) -> Result<()> {
        let Level::Thread { block } = self.level else { return Ok(()) };
        self.check_extents(request)?;
        let limit = u64::from(device.properties().max_threads);
        let threads = block.iter().fold(1u64, |n, &extent| n.saturating_mul(extent.into()));
        if threads <= limit {
            return Ok(());
        }
        let kernel = request.name().to_owned();
        let what = "threads per block".to_owned();
        Err(Error::Device(kiln_backend::Error::LaunchLimit { kernel, what, given: threads, limit }))
    }
}

/// A launch that is observed.
struct Started {
    start: Instant,
    /// The device's clock before it, if an observer times launches.
    before: Option<Event>,
}

impl Started {
    fn now(device: &Device, queue: &Queue) -> Started {
        // Without the device's time the launch goes on.
        let timed = device.observers().time_launches();
        let before = if timed { Event::record(device, queue.id()).ok() } else { None };
        Started { start: Instant::now(), before }
    }

    fn ended(
        self,
        device: &Device,
        kernel: &Arc<str>,
        (grid, cached): ([u32; 3], bool),
        settings: &Settings,
        call_site: CallSite,
    ) -> Activity {
        let duration = self.start.elapsed();
        let timer = self.before.and_then(|before| {
            let after = Event::record(device, settings.queue.id()).ok()?;
            Some(LaunchTimer::new((before, after)))
        });
        Activity::Launch(LaunchActivity {
            device: device.shared_id(),
            kernel: kernel.clone(),
            grid,
            level: settings.level,
            stream: settings.queue.id(),
            call_site,
            start: self.start,
            duration,
            cached,
            timer,
        })
    }
}
