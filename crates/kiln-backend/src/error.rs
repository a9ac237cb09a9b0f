//! What can go wrong on a device, as values.

use crate::Properties;
use crate::variables::LAUNCH_LIMIT_VARIABLE;
use kiln_ir::UNKNOWN_LOCATION;
use std::fmt;
use std::time::Duration;

/// Why a device operation failed. Nothing here leaves the device unusable, except `Lost`.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The device, its driver or library is not there or not usable.
    #[error("{device} is not available: {reason}. {hint}")]
    Unavailable {
        /// The device asked for, such as `cuda:0`.
        device: String,
        /// What was found.
        reason: String,
        /// What the user can do.
        hint: String,
    },
    /// An allocation did not fit.
    #[error("{device} is out of memory: {requested} bytes asked for, {free} of {total} bytes free")]
    OutOfMemory {
        /// The device.
        device: String,
        /// Bytes asked for.
        requested: u64,
        /// Bytes free when it failed.
        free: u64,
        /// Bytes of the device, or the limit that was set.
        total: u64,
    },
    /// A launch asked for more than the device has, or for an impossible shape.
    #[error("cannot launch `{kernel}`: {what} is {given}, the limit is {limit}")]
    LaunchLimit {
        /// The kernel.
        kernel: String,
        /// Which quantity, such as `grid extent x` or `threads per block`.
        what: String,
        /// What was asked for.
        given: u64,
        /// The device's limit.
        limit: u64,
    },
    /// The kernel uses something this device or backend does not have.
    #[error("`{kernel}` needs {what}, which {device} does not support ({location}). {hint}")]
    Unsupported {
        /// The kernel.
        kernel: String,
        /// The capability or operation, by name.
        what: String,
        /// The device.
        device: String,
        /// Source location of the operation.
        location: String,
        /// What the user can do.
        hint: String,
    },
    /// The kernel could not be compiled.
    #[error("cannot compile `{kernel}` ({location}): {message}")]
    Compile {
        /// The kernel.
        kernel: String,
        /// Source location, or `unknown location`.
        location: String,
        /// What is wrong, with the names the user wrote.
        message: String,
    },
    /// A kernel ended with a fault.
    #[error(transparent)]
    Fault(Box<Fault>),
    /// A call of a driver or the system failed.
    #[error("{call} failed with {code}: {message}")]
    Driver {
        /// The call.
        call: String,
        /// The driver's name or number of the error.
        code: String,
        /// The driver's description.
        message: String,
    },
    /// The device does not answer any more; a new one must be opened.
    #[error("{device} was lost: {reason}")]
    Lost {
        /// The device.
        device: String,
        /// What was seen.
        reason: String,
    },
    /// The print sink of the device panicked. The kernel that printed has gone on.
    #[error("the print sink of {device} panicked: {message}")]
    PrintSink {
        /// The device.
        device: String,
        /// The message of the panic.
        message: String,
    },
    /// A device was used from inside a print sink, which is called in the middle of a call of the
    /// device.
    #[error(
        "{device} cannot be used from inside a print sink; let the sink hand its lines over, to a channel for example, and use \
         devices after the call that printed"
    )]
    InsidePrintSink {
        /// The device.
        device: String,
    },
    /// A call would wait for the device where nothing may wait: in a page of a browser.
    #[error(
        "`{call}` would wait for {device}, which a page in a browser cannot do; await `{instead}` instead"
    )]
    CannotWait {
        /// The device.
        device: String,
        /// The call.
        call: &'static str,
        /// The call that can be awaited.
        instead: &'static str,
    },
    /// A bug in Kiln.
    #[error("internal error in {place}: {message}; please report it")]
    Internal {
        /// The component.
        place: &'static str,
        /// What does not hold.
        message: String,
    },
}

impl Error {
    /// The error of asking a device for an optional part that it does not have, such as `peer
    /// access`.
    pub fn lacking(properties: &Properties, part: &str) -> Error {
        Error::Unavailable {
            device: format!("{part} of {}", properties.id),
            reason: "the device does not have it".to_owned(),
            hint: "`kiln doctor` lists what each device can do.".to_owned(),
        }
    }
}

/// A kernel's own failure: what happened, where in the source, and in which block and thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// The kernel.
    pub kernel: String,
    /// What happened.
    pub kind: FaultKind,
    /// `file:line:column`.
    pub location: String,
    /// The block (program) index.
    pub block: [u32; 3],
    /// The thread index in its block; `None` for a program over tiles.
    pub thread: Option<[u32; 3]>,
}

/// The kinds of fault.
#[derive(Debug, Clone, PartialEq)]
pub enum FaultKind {
    /// A failed `device_assert!`; the message has its values filled in.
    Assert {
        /// The message.
        message: String,
    },
    /// A checked access outside a view.
    OutOfBounds {
        /// The index.
        index: i64,
        /// The extent it must be below.
        extent: i64,
    },
    /// An integer division by zero.
    DivisionByZero,
    /// The launch ran longer than it may; the location is that of a loop that had not ended.
    LaunchLimit {
        /// How long it may run.
        limit: Duration,
    },
    /// The device's driver ended a loop before it was done; the location is that of the loop.
    LoopLimit {
        /// How many rounds the driver lets all loops of a thread make.
        rounds: u32,
    },
    /// What only a backend that checks every access sees (the interpreter); on the others it is
    /// undefined behavior.
    Sanitizer {
        /// The rule that was broken.
        finding: Finding,
        /// The address, element, threads or values involved.
        detail: String,
    },
}

/// The rules of a kernel that nothing enforces on fast devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finding {
    /// An access outside every live allocation.
    Address,
    /// An address that is not a multiple of the access's size.
    Misaligned,
    /// An index outside a view where a pass or `unsafe` code had promised that it is inside.
    BrokenTrust,
    /// A read of memory that nothing has written.
    Uninitialized,
    /// Two threads touched one place, one of them writing, with no barrier between.
    Race,
    /// A barrier or a tile operation that not all threads of the block reached, or reached with
    /// different scalars.
    Divergence,
    /// An asynchronous copy or product, and an access of the same shared tile, with no order
    /// between them.
    Unordered,
    /// A wait for what can no longer happen.
    Deadlock,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Finding::Address => "access outside every allocation",
            Finding::Misaligned => "misaligned access",
            Finding::BrokenTrust => "unchecked access outside its view",
            Finding::Uninitialized => "read of uninitialized memory",
            Finding::Race => "data race",
            Finding::Divergence => "divergent threads",
            Finding::Unordered => "accesses without an order",
            Finding::Deadlock => "deadlock",
        })
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FaultKind::Assert { message } => write!(f, "assertion failed in `{}`: {message}", self.kernel)?,
            FaultKind::OutOfBounds { index, extent } => {
                write!(f, "index {index} out of bounds for extent {extent} in `{}`", self.kernel)?
            }
            FaultKind::DivisionByZero => write!(f, "integer division by zero in `{}`", self.kernel)?,
            FaultKind::LaunchLimit { limit } => write!(
                f,
                "`{}` ran longer than its limit of {limit:?}, in a loop that had not ended; if it needs more time, \
                 set {LAUNCH_LIMIT_VARIABLE} or call `Device::set_launch_limit`",
                self.kernel
            )?,
            FaultKind::LoopLimit { rounds } => write!(
                f,
                "`{}` has a loop that had not ended when the driver ended it: the driver ends loops after {rounds} \
                 rounds of a thread; give each thread less to do, or use another device",
                self.kernel
            )?,
            FaultKind::Sanitizer { finding, detail } => {
                write!(f, "{finding} in `{}`: {detail}", self.kernel)?
            }
        }
        // Kernels that are made of arrays have no line: the error around this one has it.
        if self.location != UNKNOWN_LOCATION {
            write!(f, ", at {}", self.location)?;
        }
        write!(f, ", block {:?}", self.block)?;
        self.thread.map_or(Ok(()), |thread| write!(f, ", thread {thread:?}"))
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::Fault(Box::new(fault))
    }
}

/// The result of a device operation.
pub type Result<T> = std::result::Result<T, Error>;
