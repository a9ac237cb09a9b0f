//! The activities that an observer receives: compiles, launches, copies, allocations.

use crate::error::Result;
use kiln_backend::{Stages, StreamId};
use kiln_ir::Level;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;
use web_time::Instant;

/// Where in the user's source a call of the runtime stands.
///
/// ```
/// use kiln_runtime::CallSite;
/// use std::panic::Location;
///
/// #[track_caller]
/// fn here() -> CallSite {
///     Location::caller()
/// }
///
/// let [one, two] = [here(), here()];
/// assert_eq!((one.file(), one.line()), (two.file(), two.line()));
/// assert!(one.column() < two.column());
/// ```
pub type CallSite = &'static Location<'static>;

/// One thing that the runtime has done on a device, as an [`Observer`](crate::Observer) receives
/// it.
///
/// Each kind has the device's name, the call site in the user's source, and when it began and how
/// long it took on the host.
///
/// ```
/// use kiln_runtime::{Activity, Device};
/// use std::collections::BTreeMap;
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
///
/// // The time that each line of this program takes in the runtime.
/// let device = Device::open_apart("interp")?;
/// let lines = Arc::new(Mutex::new(BTreeMap::<u32, Duration>::new()));
/// let sums = lines.clone();
/// let observation = device.observe(move |activity: &Activity| {
///     *sums.lock().unwrap().entry(activity.call_site().line()).or_default() += activity.duration();
/// });
/// let (first, x) = (line!(), device.tensor(&[1.0f32; 100], [100])?);
/// let (second, sum) = (line!(), x.to_vec()?.iter().sum::<f32>());
/// drop(observation);
/// assert_eq!(sum, 100.0);
/// assert!(lines.lock().unwrap().keys().eq([&first, &second]));
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Activity {
    /// A kernel was compiled, or read from the disk cache.
    Compile(CompileActivity),
    /// A kernel was enqueued.
    Launch(LaunchActivity),
    /// A graph was enqueued.
    Replay(ReplayActivity),
    /// Bytes were copied or filled.
    Copy(CopyActivity),
    /// Device memory was allocated.
    Allocate(AllocateActivity),
    /// Device memory was freed.
    Free(FreeActivity),
}

impl Activity {
    /// The call in the user's source that caused it.
    pub fn call_site(&self) -> CallSite {
        match self {
            Activity::Compile(a) => a.call_site,
            Activity::Launch(a) => a.call_site,
            Activity::Replay(a) => a.call_site,
            Activity::Copy(a) => a.call_site,
            Activity::Allocate(a) => a.call_site,
            Activity::Free(a) => a.call_site,
        }
    }

    /// How long it took on the host.
    pub fn duration(&self) -> Duration {
        match self {
            Activity::Compile(a) => a.duration,
            Activity::Launch(a) => a.duration,
            Activity::Replay(a) => a.duration,
            Activity::Copy(a) => a.duration,
            Activity::Allocate(a) => a.duration,
            Activity::Free(a) => a.duration,
        }
    }
}

/// A kernel that was not in memory yet was compiled, or read from the disk cache.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_runtime::{Activity, CompileActivity, Device, Tensor};
///
/// #[kernel(crate = kiln_runtime)]
/// fn twice(x: &mut Tensor<f32, 1>) {
///     let tile = x.tile(program_id(0) * 4, 4);
///     tile.store(tile.load(0.0) * 2.0);
/// }
///
/// let device = Device::open_apart("interp")?;
/// let (sender, compiled) = std::sync::mpsc::channel::<CompileActivity>();
/// let _observation = device.observe(move |activity: &Activity| {
///     if let Activity::Compile(compile) = activity {
///         sender.send(compile.clone()).ok();
///     }
/// });
/// let mut x = device.tensor(&[1.0f32; 8], [8])?;
/// twice(&mut x).launch(&device)?;
/// twice(&mut x).launch(&device)?; // it is in memory now
/// let compiles: Vec<CompileActivity> = compiled.try_iter().collect();
/// assert_eq!(compiles.len(), 1);
/// assert_eq!(&*compiles[0].kernel, "twice");
/// assert!(compiles[0].specialization.contains("@twice"));
/// assert!(compiles[0].tracing <= compiles[0].duration);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct CompileActivity {
    /// The device's name.
    pub device: Arc<str>,
    /// The kernel.
    pub kernel: Arc<str>,
    /// What it was specialized to: the header of its IR, with the level and the facts of its
    /// parameters.
    pub specialization: String,
    /// The launch that needed it.
    pub call_site: CallSite,
    /// When it began.
    pub start: Instant,
    /// All of it.
    pub duration: Duration,
    /// Recording the kernel's IR and verifying it.
    pub tracing: Duration,
    /// What compiling took; `None` for a program that the disk cache had.
    pub stages: Option<Stages>,
}

/// A kernel was enqueued (or run, on a device that works within the call).
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_runtime::{Activity, Device, LaunchActivity, Tensor};
///
/// #[kernel(crate = kiln_runtime)]
/// fn twice(x: &mut Tensor<f32, 1>) {
///     let tile = x.tile(program_id(0) * 4, 4);
///     tile.store(tile.load(0.0) * 2.0);
/// }
///
/// let device = Device::open_apart("interp")?;
/// let (sender, launched) = std::sync::mpsc::channel::<LaunchActivity>();
/// let _observation = device.observe(move |activity: &Activity| {
///     if let Activity::Launch(launch) = activity {
///         sender.send(launch.clone()).ok();
///     }
/// });
/// let mut x = device.tensor(&[1.0f32; 10], [10])?;
/// for _ in 0..2 {
///     twice(&mut x).launch(&device)?;
/// }
/// let launches: Vec<LaunchActivity> = launched.try_iter().collect();
/// assert_eq!((launches[0].grid, launches[0].cached), ([3, 1, 1], false));
/// assert_eq!((launches[1].grid, launches[1].cached), ([3, 1, 1], true));
/// assert!(launches[0].timer.is_none()); // nobody has asked for it
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LaunchActivity {
    /// The device's name.
    pub device: Arc<str>,
    /// The kernel.
    pub kernel: Arc<str>,
    /// Programs (blocks) on x, y and z.
    pub grid: [u32; 3],
    /// What a program is: a block of threads with its extents, or a program over tiles.
    pub level: Level,
    /// The stream.
    pub stream: StreamId,
    /// The launch.
    pub call_site: CallSite,
    /// When the call of the device began.
    pub start: Instant,
    /// What that call took on the host.
    pub duration: Duration,
    /// Whether the program was in memory before this launch.
    pub cached: bool,
    /// The launch on the device's clock, if an observer [asks for
    /// it](crate::Observer::times_launches).
    pub timer: Option<LaunchTimer>,
}

/// A [`Graph`](crate::Graph) was enqueued (or run, on a device that works within the call). Its
/// launches and copies are no activities of their own.
///
/// ```
/// use kiln_runtime::{Activity, Device, ReplayActivity};
/// let device = Device::open_apart("interp")?;
/// let (graph, zeros) = device.graph(|_| device.zeros::<f32, 1>([4]))?;
/// let (sender, replayed) = std::sync::mpsc::channel::<ReplayActivity>();
/// let _observation = device.observe(move |activity: &Activity| {
///     if let Activity::Replay(replay) = activity {
///         sender.send(replay.clone()).ok();
///     }
/// });
/// graph.replay()?;
/// assert_eq!(zeros.to_vec()?, [0.0; 4]);
/// assert_eq!(replayed.try_iter().map(|replay| replay.nodes).collect::<Vec<_>>(), [1]); // a fill
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ReplayActivity {
    /// The device's name.
    pub device: Arc<str>,
    /// How many launches, copies and fills it has.
    pub nodes: usize,
    /// The stream.
    pub stream: StreamId,
    /// The call that enqueued it.
    pub call_site: CallSite,
    /// When the call of the device began.
    pub start: Instant,
    /// What that call took on the host.
    pub duration: Duration,
    /// The graph on the device's clock, if an observer [asks for
    /// it](crate::Observer::times_launches).
    pub timer: Option<LaunchTimer>,
}

/// Which way a copy went.
///
/// ```
/// use kiln_runtime::CopyKind;
/// assert_eq!(CopyKind::DeviceToHost.to_string(), "device to host");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CopyKind {
    /// From host memory to the device.
    HostToDevice,
    /// From the device to host memory; it waits for the work before it.
    DeviceToHost,
    /// Between two places of one device.
    DeviceToDevice,
    /// The device filled its memory with one byte.
    Fill,
}

impl fmt::Display for CopyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CopyKind::HostToDevice => "host to device",
            CopyKind::DeviceToHost => "device to host",
            CopyKind::DeviceToDevice => "device to device",
            CopyKind::Fill => "fill",
        })
    }
}

/// Bytes were copied or filled.
///
/// ```
/// use kiln_runtime::{Activity, CopyActivity, CopyKind, Device};
/// let device = Device::open_apart("interp")?;
/// let (sender, copied) = std::sync::mpsc::channel::<CopyActivity>();
/// let _observation = device.observe(move |activity: &Activity| {
///     if let Activity::Copy(copy) = activity {
///         sender.send(copy.clone()).ok();
///     }
/// });
/// device.tensor(&[1.0f32; 100], [100])?;
/// let copy = copied.try_iter().last().expect("the elements were copied");
/// assert_eq!((copy.kind, copy.bytes), (CopyKind::HostToDevice, 400));
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct CopyActivity {
    /// The device's name.
    pub device: Arc<str>,
    /// The direction.
    pub kind: CopyKind,
    /// How many bytes.
    pub bytes: usize,
    /// The stream that orders it.
    pub stream: StreamId,
    /// The call that needed the copy.
    pub call_site: CallSite,
    /// When it began.
    pub start: Instant,
    /// What the call of the device took on the host.
    pub duration: Duration,
}

/// Device memory was allocated.
///
/// ```
/// use kiln_runtime::{Activity, AllocateActivity, Device, FreeActivity};
/// use std::sync::mpsc;
/// let device = Device::open_apart("interp")?;
/// let (allocations, allocated) = mpsc::channel::<AllocateActivity>();
/// let (frees, freed) = mpsc::channel::<FreeActivity>();
/// let _observation = device.observe(move |activity: &Activity| match activity {
///     Activity::Allocate(allocate) => _ = allocations.send(allocate.clone()),
///     Activity::Free(free) => _ = frees.send(free.clone()),
///     _ => {}
/// });
/// let x = device.zeros::<f32, 1>([100])?;
/// let allocation = allocated.try_recv().expect("the tensor has memory");
/// assert_eq!((allocation.bytes, freed.try_recv().is_err()), (400, true));
/// drop(x);
/// let free = freed.try_recv().expect("it was freed");
/// assert_eq!((free.address, free.bytes, free.call_site), (allocation.address, 400, allocation.call_site));
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct AllocateActivity {
    /// The device's name.
    pub device: Arc<str>,
    /// Where the memory begins.
    pub address: u64,
    /// How many bytes were asked for.
    pub bytes: usize,
    /// Whether the device's pool had the memory; `None` where there is no pool, or the device does
    /// not say.
    pub pool_hit: Option<bool>,
    /// The call that made the tensor.
    pub call_site: CallSite,
    /// When it began.
    pub start: Instant,
    /// What it took on the host.
    pub duration: Duration,
}

/// Device memory was freed: the last tensor or view of it is gone.
///
/// ```
/// use kiln_runtime::{Activity, Device, FreeActivity};
/// let device = Device::open_apart("interp")?;
/// let (sender, freed) = std::sync::mpsc::channel::<FreeActivity>();
/// let _observation = device.observe(move |activity: &Activity| {
///     if let Activity::Free(free) = activity {
///         sender.send(free.clone()).ok();
///     }
/// });
/// let x = device.zeros::<u8, 1>([64])?;
/// let view = x.slice(0, 0..8)?;
/// drop(x);
/// assert!(freed.try_recv().is_err()); // the view has the memory still
/// drop(view);
/// assert_eq!(freed.try_recv().map(|free| free.bytes), Ok(64));
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct FreeActivity {
    /// The device's name.
    pub device: Arc<str>,
    /// Where the memory began.
    pub address: u64,
    /// How many bytes it had.
    pub bytes: usize,
    /// The call that had allocated it.
    pub call_site: CallSite,
    /// When it began.
    pub start: Instant,
    /// What it took on the host.
    pub duration: Duration,
}

/// The time between two points of the device, around one launch.
pub(crate) trait DeviceTime: fmt::Debug + Send + Sync {
    /// The time; `None` as long as the later point has not been reached.
    fn elapsed(&self) -> Result<Option<Duration>>;
}

/// Two points on the device's clock, around one launch.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_runtime::{Activity, Device, LaunchTimer, Observer, Tensor};
///
/// #[kernel(crate = kiln_runtime)]
/// fn twice(x: &mut Tensor<f32, 1>) {
///     let tile = x.tile(program_id(0) * 4, 4);
///     tile.store(tile.load(0.0) * 2.0);
/// }
///
/// /// Asks for the times of launches on the device.
/// struct Timers(std::sync::mpsc::Sender<Option<LaunchTimer>>);
///
/// impl Observer for Timers {
///     fn observe(&self, activity: &Activity) {
///         if let Activity::Launch(launch) = activity {
///             self.0.send(launch.timer.clone()).ok();
///         }
///     }
///     fn times_launches(&self) -> bool {
///         true
///     }
/// }
///
/// let device = Device::open_apart("cpu")?;
/// let (sender, timers) = std::sync::mpsc::channel();
/// let _observation = device.observe(Timers(sender));
/// twice(&mut device.tensor(&[1.0f32; 10], [10])?).launch(&device)?;
/// device.synchronize()?;
/// let timer = timers.try_recv().expect("there was a launch").expect("the device has a clock");
/// assert!(timer.elapsed()?.is_some_and(|time| time.as_secs() < 60));
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LaunchTimer(Arc<dyn DeviceTime>);

impl LaunchTimer {
    pub(crate) fn new(time: impl DeviceTime + 'static) -> LaunchTimer {
        LaunchTimer(Arc::new(time))
    }

    /// The time that the launch took on the device; `None` as long as it is not over.
    ///
    /// # Errors
    /// Failures of the device.
    pub fn elapsed(&self) -> Result<Option<Duration>> {
        self.0.elapsed()
    }
}
