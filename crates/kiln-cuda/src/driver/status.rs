//! What calls of the driver return.

/// What a driver call returns: zero for success.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    /// Success.
    pub const SUCCESS: Status = Status(0);
    /// An argument is out of range.
    pub const INVALID_VALUE: Status = Status(1);
    /// Memory is exhausted.
    pub const OUT_OF_MEMORY: Status = Status(2);
    /// The library found is the toolkit's link-time stub.
    pub const STUB_LIBRARY: Status = Status(34);
    /// No usable GPU.
    pub const NO_DEVICE: Status = Status(100);
    /// A cubin that is damaged.
    pub const INVALID_IMAGE: Status = Status(200);
    /// A cubin for another GPU.
    pub const NO_BINARY_FOR_GPU: Status = Status(209);
    /// A memory error that the hardware could not correct.
    pub const ECC_UNCORRECTABLE: Status = Status(214);
    /// PTX that does not assemble.
    pub const INVALID_PTX: Status = Status(218);
    /// A link error between GPUs that the hardware could not correct.
    pub const NVLINK_UNCORRECTABLE: Status = Status(220);
    /// The driver's compiler library is not installed.
    pub const JIT_COMPILER_NOT_FOUND: Status = Status(221);
    /// PTX of a newer version than the driver's.
    pub const UNSUPPORTED_PTX_VERSION: Status = Status(222);
    /// An image of a kind the driver does not know.
    pub const INVALID_SOURCE: Status = Status(300);
    /// The operating system refused something.
    pub const OPERATING_SYSTEM: Status = Status(304);
    /// Access to another GPU's memory that was asked for before: an answer, not a failure.
    pub const PEER_ACCESS_ALREADY_ENABLED: Status = Status(704);
    /// A symbol that is not in the module.
    pub const NOT_FOUND: Status = Status(500);
    /// Work that is not finished: an answer, not a failure.
    pub const NOT_READY: Status = Status(600);
    /// A kernel accessed memory that is not mapped. The first of the statuses that cost the
    /// context, see [`Status::loses_context`].
    pub const ILLEGAL_ADDRESS: Status = Status(700);
    /// More threads, registers or shared memory than a block can have.
    pub const LAUNCH_OUT_OF_RESOURCES: Status = Status(701);
    /// The context was destroyed by other code of the process.
    pub const CONTEXT_IS_DESTROYED: Status = Status(709);
    /// A cooperative grid that does not fit the device at once.
    pub const COOPERATIVE_LAUNCH_TOO_LARGE: Status = Status(720);
    /// Not permitted to this process.
    pub const NOT_PERMITTED: Status = Status(800);
    /// Not supported by this system.
    pub const NOT_SUPPORTED: Status = Status(801);
    /// A service that the GPUs need (the fabric manager) is not running.
    pub const SYSTEM_NOT_READY: Status = Status(802);
    /// Library and kernel module are of different versions.
    pub const SYSTEM_DRIVER_MISMATCH: Status = Status(803);
    /// A compatibility package on a GPU that does not allow it.
    pub const COMPAT_NOT_SUPPORTED: Status = Status(804);

    /// Whether the context is unusable from here on: every later call returns the same status.
    pub const fn loses_context(self) -> bool {
        matches!(self.0, 214 | 220 | 700 | 702 | 709 | 710 | 714..=719)
    }
}
