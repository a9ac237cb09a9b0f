//! Parts of a backend that only some devices have, and that need no file of their own.

use crate::{DevicePtr, Error, Places, Program, Properties, Result, StreamId};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Programs that are kept on disk: [`Backend::artifacts`](crate::Backend::artifacts).
pub trait Artifacts {
    /// Identifies everything but the kernel that an artifact depends on: code generator version,
    /// device, driver.
    fn artifact_key(&self) -> String;

    /// Loads an artifact of [`compile`](crate::Backend::compile) that was made under the same
    /// [`artifact_key`](Self::artifact_key). Damaged bytes are an error.
    fn load(&self, artifact: &[u8]) -> Result<Arc<dyn Program>>;

    /// What a package's code for this device was made for; `None` on a device that takes none.
    fn package_target(&self) -> Option<PackageTarget> {
        None
    }

    /// Loads an artifact that was made for this device's
    /// [`package_target`](Self::package_target), under today's places. Damaged bytes are an error.
    fn load_packaged(&self, artifact: &[u8], places: &Places) -> Result<Arc<dyn Program>> {
        let _ = (artifact, places);
        Err(Error::Internal { place: "the backend", message: "it takes no packages".to_owned() })
    }
}

/// What the code in a package is made for. Code is loaded where all three are the device's.
///
/// ```
/// use kiln_backend::PackageTarget;
/// let target = |needs: &str| PackageTarget {
///     name: "cpu".into(),
///     needs: needs.into(),
///     maker: "kiln-cpu 0.1.0".into(),
/// };
/// assert_ne!(target("avx2"), target("avx512"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PackageTarget {
    /// What users call it: `sm_90`, `cpu`.
    pub name: String,
    /// What the code needs of the device beside that, such as instruction sets.
    pub needs: String,
    /// The version of the code generator.
    pub maker: String,
}

/// How soon the waiting work of a stream begins, beside that of other streams.
///
/// ```
/// use kiln_backend::StreamPriority;
/// assert_eq!(StreamPriority::default(), StreamPriority::Normal);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StreamPriority {
    /// After that of streams of a high priority.
    #[default]
    Normal,
    /// First: a multiprocessor that becomes free takes a block from here. Blocks that run are not
    /// interrupted.
    High,
}

/// A function of the host that a stream calls.
pub type HostCall = Box<dyn FnOnce() + Send>;

/// Streams with priorities, and calls of the host in their order:
/// [`Backend::stream_controls`](crate::Backend::stream_controls).
pub trait StreamControls {
    /// As [`Backend::create_stream`](crate::Backend::create_stream), with a priority. A device that
    /// does its work within the calls that enqueue it has nothing to put first.
    fn create_stream_of(&self, priority: StreamPriority) -> Result<StreamId>;

    /// Calls a function after all work now in the stream, whose later work begins after it has
    /// returned. It may run in a thread of the driver's. It must not call the device, and must not
    /// panic.
    fn call_host(&self, stream: StreamId, call: HostCall) -> Result<()>;
}

/// Kernels that reach other devices' memory: [`Backend::peers`](crate::Backend::peers).
pub trait Peers {
    /// Lets kernels of this device access all memory of device `owner`, also what it allocates
    /// later (not its mapped memory). Asking again changes nothing.
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable) where the two devices cannot, with the
    /// reason.
    fn enable_peer_access(&self, owner: &Properties) -> Result<()>;
}

/// What helps to find bugs: [`Backend::diagnostics`](crate::Backend::diagnostics).
pub trait Diagnostics {
    /// The ranges of these bytes that neither a kernel nor the host has written since they were
    /// allocated, in order; with `filled`, those too that [`fill`](crate::Backend::fill) alone has.
    /// `None` on a device that does not keep track: the interpreter with its sanitizer does.
    fn unwritten(&self, ptr: DevicePtr, bytes: usize, filled: bool) -> Option<Vec<Range<usize>>> {
        let _ = (ptr, bytes, filled);
        None
    }

    /// Sets how long each launch from now on may run; `None` for as long as it takes. A launch that
    /// runs longer ends with [`FaultKind::LaunchLimit`](crate::FaultKind::LaunchLimit) in the loop
    /// that it is in. Resident launches have no limit. `false` on a device that cannot end a
    /// kernel, as [`Capabilities::launch_limit`](crate::Capabilities::launch_limit) says.
    fn set_launch_limit(&self, limit: Option<Duration>) -> bool {
        let _ = limit;
        false
    }

    /// Bytes that the device's pool of memory holds, in use or not; `None` where there is no pool.
    /// An allocation that leaves it as it was came from the pool.
    fn pool_reserved(&self) -> Option<u64> {
        None
    }
}
