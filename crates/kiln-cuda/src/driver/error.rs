//! What can go wrong in the driver layer, as values that say what to do.

use super::jit_log::JitLog;
use super::status::Status;
use super::version::CudaVersion;
use kiln_backend::{MapObstacle, MappedPlace};

/// Why a call into the CUDA driver, or the search for the driver, failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// This system has no library of the driver.
    #[error(
        "there is no NVIDIA driver ({reason}): install it, version {} or newer, if there is an NVIDIA GPU; \
         a container must be started with its GPUs (`--gpus all`)",
        CudaVersion::OLDEST_DRIVER
    )]
    LibraryNotFound {
        /// The names that were tried.
        reason: String,
    },
    /// A library of the driver is there and could not be loaded.
    #[error(
        "the NVIDIA driver's library could not be loaded ({reason}): install the NVIDIA driver anew, version {} or newer; \
         a container must be started with its GPUs (`--gpus all`)",
        CudaVersion::OLDEST_DRIVER
    )]
    LibraryNotLoaded {
        /// The system's answer for each name that was tried.
        reason: String,
    },
    /// The library is the toolkit's stub, which is for linking only.
    #[error(
        "the libcuda found is the CUDA toolkit's stub and not a driver: take the toolkit's `stubs` directory out of LD_LIBRARY_PATH"
    )]
    StubLibrary,
    /// An entry point that Kiln needs is not in the library.
    #[error(
        "the NVIDIA driver has no `{symbol}`: its installation is damaged, or too old for this operation; update it"
    )]
    SymbolMissing {
        /// The entry point.
        symbol: &'static str,
    },
    /// The driver is older than the oldest one Kiln supports.
    #[error(
        "the NVIDIA driver supports CUDA {found}, Kiln needs {}: update the driver to version {} or newer",
        CudaVersion::OLDEST,
        CudaVersion::OLDEST_DRIVER
    )]
    DriverTooOld {
        /// The CUDA version the driver supports.
        found: CudaVersion,
    },
    /// The driver runs and sees no GPU.
    #[error("the NVIDIA driver sees no GPU: {advice}")]
    NoDevice {
        /// What was found and what to do.
        advice: String,
    },
    /// This process may not open a device node of the driver.
    #[error(
        "no permission to open {path}: add the user to the group that owns it (often `video` or `render`), or grant the container the device"
    )]
    PermissionDenied {
        /// The device node.
        path: String,
    },
    /// The driver could not start.
    #[error("the NVIDIA driver could not start ({name}, {code}: {description}): {advice}")]
    InitFailed {
        /// The driver's number for the failure.
        code: u32,
        /// The driver's name for it.
        name: &'static str,
        /// The driver's description.
        description: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// There is no GPU of this number.
    #[error(
        "there is no GPU {ordinal}: this process sees {count} (CUDA_VISIBLE_DEVICES renumbers and hides them)"
    )]
    NoSuchDevice {
        /// The number asked for.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// An allocation did not fit.
    #[error(
        "out of {memory}: {requested} bytes asked for; the GPU has {free} of {total} bytes free, and {cached} more in Kiln's pool. \
         Free tensors, work in smaller pieces, or end other programs that use the GPU"
    )]
    OutOfMemory {
        /// Which memory: `GPU memory` or `pinned host memory`.
        memory: &'static str,
        /// Bytes asked for.
        requested: usize,
        /// Bytes free on the GPU.
        free: usize,
        /// Bytes the GPU has.
        total: usize,
        /// Bytes that are reserved by Kiln's pool and unused, but not in one piece of the size
        /// asked for.
        cached: usize,
    },
    /// The driver's compiler refused PTX.
    #[error("{0}")]
    Jit(Box<JitFailure>),
    /// The bytes are no cubin this GPU can load.
    #[error("unusable cubin: {reason}; compile the kernel again")]
    BadImage {
        /// What is wrong with it.
        reason: String,
    },
    /// A module has no kernel of this name.
    #[error("the module has no kernel `{name}`")]
    NoSuchFunction {
        /// The name asked for.
        name: String,
    },
    /// A launch asked for more than the device or the kernel allows.
    #[error("cannot launch `{kernel}`: {what} is {given}, the limit is {limit}")]
    LaunchLimit {
        /// The kernel.
        kernel: String,
        /// The quantity.
        what: &'static str,
        /// What was asked for.
        given: u64,
        /// The limit.
        limit: u64,
    },
    /// An access outside a buffer.
    #[error("{bytes} bytes at offset {offset} are outside a buffer of {length} bytes")]
    OutOfRange {
        /// Where the access starts.
        offset: usize,
        /// Its length.
        bytes: usize,
        /// The buffer's length.
        length: usize,
    },
    /// The host cannot write this GPU's memory.
    #[error("the host cannot write GPU memory: {0}. {hint}", hint = .0.hint())]
    Unmappable(Box<MapObstacle>),
    /// Two GPUs between which there is no way.
    #[error(
        "GPU {device} cannot access the memory of GPU {owner}: copy between them instead (`nvidia-smi topo -p2p r` shows which pairs can)"
    )]
    NoPeerAccess {
        /// The GPU whose kernels would access.
        device: usize,
        /// The GPU whose memory it is.
        owner: usize,
    },
    /// Something that cannot be part of a graph was asked of a stream that is being recorded.
    #[error(
        "cannot {what} while a graph is recorded; do it before, and copy from and to pinned memory in the graph"
    )]
    Recording {
        /// What was asked for.
        what: &'static str,
    },
    /// A kernel or the hardware failed in a way that costs the context: every later call on this
    /// GPU fails too.
    #[error("the GPU's context is lost: {call} reports {name} ({code}: {description}); restart the program")]
    ContextLost {
        /// The call that reported it, often long after the cause.
        call: &'static str,
        /// The driver's number for the failure.
        code: u32,
        /// The driver's name for it.
        name: &'static str,
        /// The driver's description.
        description: &'static str,
    },
    /// Any other failure of a call.
    #[error("{call} failed with {name} ({code}): {description}")]
    Call {
        /// The driver's function.
        call: &'static str,
        /// The driver's number for the failure.
        code: u32,
        /// The driver's name for it.
        name: &'static str,
        /// The driver's description.
        description: &'static str,
    },
}

/// PTX that the driver's compiler refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the driver's compiler refused `{name}` ({status}){}", self.summary())]
pub struct JitFailure {
    /// What was compiled.
    pub name: String,
    /// The driver's name for the failure.
    pub status: &'static str,
    /// What to do, where the status says it.
    pub advice: Option<String>,
    /// What the compiler wrote, errors first.
    pub log: JitLog,
}

impl JitFailure {
    /// The advice and the compiler's first words, for one line.
    fn summary(&self) -> String {
        let advice = self.advice.as_deref().map(|advice| format!(": {advice}"));
        let first = self.log.errors().next().map(|error| format!(": {error}"));
        [advice, first].into_iter().flatten().collect()
    }
}

/// The result of a driver call.
pub type Result<T> = std::result::Result<T, CudaError>;

impl CudaError {
    /// What a failed call means.
    pub(super) fn from_status(
        call: &'static str,
        status: Status,
        name: &'static str,
        description: &'static str,
    ) -> CudaError {
        let code = status.0;
        match status {
            lost if lost.loses_context() => CudaError::ContextLost { call, code, name, description },
            Status::INVALID_IMAGE | Status::NO_BINARY_FOR_GPU | Status::INVALID_SOURCE => {
                CudaError::BadImage { reason: format!("{call} reports {name} ({description})") }
            }
            _ => CudaError::Call { call, code, name, description },
        }
    }

    /// Whether this says that there is no GPU here, rather than that a driver is there and fails.
    ///
    /// ```
    /// if let Err(error) = kiln_cuda::driver::Driver::get() {
    ///     println!("{}: {error}", if error.is_absence() { "no GPU" } else { "the driver fails" });
    /// }
    /// ```
    pub fn is_absence(&self) -> bool {
        matches!(self, CudaError::LibraryNotFound { .. } | CudaError::NoDevice { .. })
    }

    /// The status behind the error, where it is a plain failure of a call.
    pub fn status(&self) -> Option<Status> {
        match self {
            CudaError::Call { code, .. }
            | CudaError::ContextLost { code, .. }
            | CudaError::InitFailed { code, .. } => Some(Status(*code)),
            _ => None,
        }
    }

    /// The same failure as `device` (such as `cuda:0`) reports it to Kiln's runtime.
    pub fn into_backend(self, device: &str) -> kiln_backend::Error {
        use kiln_backend::Error;
        let device = device.to_owned();
        let message = self.to_string();
        match self {
            CudaError::OutOfMemory { requested, free, total, cached, .. } => Error::OutOfMemory {
                device,
                requested: requested as u64,
                free: (free + cached) as u64,
                total: total as u64,
            },
            CudaError::LaunchLimit { kernel, what, given, limit } => {
                Error::LaunchLimit { kernel, what: what.to_owned(), given, limit }
            }
            CudaError::Jit(failure) => {
                Error::Compile { kernel: failure.name.clone(), location: "generated PTX".to_owned(), message }
            }
            CudaError::Unmappable(obstacle) => obstacle.into_error(&device, MappedPlace::Device),
            CudaError::NoPeerAccess { owner, .. } => Error::Unavailable {
                device: format!("peer access of {device} to cuda:{owner}"),
                reason: "there is no way between the two GPUs".to_owned(),
                hint: "Copy between them instead (`nvidia-smi topo -p2p r` shows which pairs can)."
                    .to_owned(),
            },
            CudaError::ContextLost { .. } => Error::Lost { device, reason: message },
            CudaError::Call { call, name, description, .. } => Error::Driver {
                call: call.to_owned(),
                code: name.to_owned(),
                message: description.to_owned(),
            },
            CudaError::BadImage { .. } => {
                Error::Driver { call: "loading a cubin".to_owned(), code: "bad image".to_owned(), message }
            }
            CudaError::OutOfRange { .. } | CudaError::NoSuchFunction { .. } | CudaError::Recording { .. } => {
                Error::Internal { place: "kiln-cuda", message }
            }
            _ => {
                let (reason, hint) = message.rsplit_once(": ").unwrap_or((&message, "run `kiln doctor`"));
                Error::Unavailable { device, reason: reason.to_owned(), hint: hint.to_owned() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u32) -> CudaError {
        CudaError::from_status("cuAnything", Status(code), "NAME", "text")
    }

    #[test]
    fn statuses_become_typed_errors() {
        assert_eq!(
            of(700),
            CudaError::ContextLost { call: "cuAnything", code: 700, name: "NAME", description: "text" }
        );
        assert!(matches!(of(719), CudaError::ContextLost { .. }));
        assert!(matches!(of(200), CudaError::BadImage { .. }));
        assert!(matches!(of(209), CudaError::BadImage { .. }));
        assert_eq!(of(1), CudaError::Call { call: "cuAnything", code: 1, name: "NAME", description: "text" });
        assert_eq!(of(1).status(), Some(Status::INVALID_VALUE));
        assert_eq!(of(1).to_string(), "cuAnything failed with NAME (1): text");
        assert_eq!(of(200).status(), None);
    }

    #[test]
    fn out_of_memory_keeps_its_numbers() {
        let error = CudaError::OutOfMemory {
            memory: "GPU memory",
            requested: 1 << 43,
            free: 100,
            total: 1000,
            cached: 20,
        };
        let text = error.to_string();
        for number in ["8796093022208", "100 of 1000", "20 more"] {
            assert!(text.contains(number), "{text}");
        }
        let kiln_backend::Error::OutOfMemory { requested, free, total, .. } = error.into_backend("cuda:0")
        else {
            panic!("not out of memory");
        };
        assert_eq!((requested, free, total), (1 << 43, 120, 1000));
    }

    #[test]
    fn backend_errors_say_what_to_do() {
        let error = CudaError::DriverTooOld { found: CudaVersion { major: 11, minor: 4 } };
        assert_eq!(
            error.to_string(),
            "the NVIDIA driver supports CUDA 11.4, Kiln needs 12.0: update the driver to version 525 or newer"
        );
        let kiln_backend::Error::Unavailable { device, reason, hint } = error.into_backend("cuda:1") else {
            panic!("not unavailable");
        };
        assert_eq!(device, "cuda:1");
        assert_eq!(reason, "the NVIDIA driver supports CUDA 11.4, Kiln needs 12.0");
        assert_eq!(hint, "update the driver to version 525 or newer");
        assert!(matches!(of(719).into_backend("cuda:0"), kiln_backend::Error::Lost { .. }));
    }
}
