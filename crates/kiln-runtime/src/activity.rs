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
pub type CallSite = &'static Location<'static>;

/// One thing that the runtime has done on a device, as an [`Observer`](crate::Observer) receives
/// it.
///
/// Each kind has the device's name, the call site in the user's source, and when it began and how
/// long it took on the host.
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
