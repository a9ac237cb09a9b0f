//! What a user of the runtime can get wrong, and what a device can.

use kiln_ir::Scalar;
use std::panic::Location;
use std::path::PathBuf;

/// Why an operation of the runtime failed. Whatever it is, the device and every tensor remain
/// usable.
///
/// ```
/// use kiln_runtime::{Device, Error};
/// let device = Device::open("interp")?;
/// let error = device.tensor(&[1.0f32, 2.0], [3]).unwrap_err();
/// assert!(matches!(error, Error::Length { given: 2, expected: 3, .. }));
/// assert_eq!(error.to_string(), "2 elements do not fill shape [3], which has 3");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device failed, or a kernel on it did.
    #[error(transparent)]
    Device(#[from] kiln_backend::Error),
    /// A kernel could not be traced or compiled; every problem found, a line each.
    #[error("kernel `{kernel}` is not valid:\n{}", problems.join("\n"))]
    Kernel {
        /// The kernel.
        kernel: String,
        /// The problems, each with its place in the source and what to do.
        problems: Vec<String>,
    },
    /// A kernel was launched, or compiled, by the function of a kernel while that was traced. What
    /// a kernel's function does runs once, when the kernel is specialized, so that a launch in it
    /// is never what was meant, and one of the same kernel would wait for itself.
    #[error(
        "kernel `{kernel}` is launched while kernel `{traced}` is traced; launch it from the host, before or after \
         `{traced}`, or call its code as a `#[device]` function"
    )]
    LaunchInTrace {
        /// The kernel that was to be launched.
        kernel: String,
        /// The kernel that is being traced.
        traced: String,
    },
    /// The number of elements does not match a shape.
    #[error("{given} elements do not fill shape {shape:?}, which has {expected}")]
    Length {
        /// Elements given.
        given: usize,
        /// Elements the shape has.
        expected: usize,
        /// The shape.
        shape: Vec<usize>,
    },
    /// The number of bytes does not match a shape and an element type.
    #[error("{given} bytes do not fill shape {shape:?} of {dtype}, which has {expected}")]
    ByteLength {
        /// Bytes given.
        given: usize,
        /// Bytes the shape has.
        expected: usize,
        /// The shape.
        shape: Vec<usize>,
        /// The element type.
        dtype: Scalar,
    },
    /// A tensor whose type is known at run time is not of the type that the program has for it.
    #[error(
        "{location}: expected {}, got a tensor of {found} and shape {shape:?}",
        match rank {
            Some(rank) => format!("a tensor of {expected} and rank {rank}"),
            None => format!("elements of {expected}"),
        }
    )]
    DataType {
        /// The element type that was asked for.
        expected: Scalar,
        /// The rank that was asked for, if it matters.
        rank: Option<usize>,
        /// The tensor's element type.
        found: Scalar,
        /// The tensor's shape.
        shape: Vec<usize>,
        /// `file:line:column` of the call.
        location: &'static Location<'static>,
    },
    /// Kernels have not written every element of a tensor.
    #[error(
        "{missing} of {of} elements were never written, the first at {first:?} of shape {shape:?}: a block may be narrower \
         than its row, or the grid too small"
    )]
    Unwritten {
        /// How many were not written.
        missing: usize,
        /// How many there are.
        of: usize,
        /// The index of the first that was not.
        first: Vec<usize>,
        /// The tensor's shape.
        shape: Vec<usize>,
    },
    /// A shape is too large to address.
    #[error("shape {shape:?} of {elem} has more bytes than can be addressed")]
    TooLarge {
        /// The shape.
        shape: Vec<usize>,
        /// The element type.
        elem: Scalar,
    },
    /// The host has no memory for a copy of a tensor's elements.
    #[error("the host has no memory for {bytes} bytes of a tensor's elements")]
    HostMemory {
        /// Bytes asked for; `usize::MAX` for more than can be counted.
        bytes: usize,
    },
    /// A view would reach outside its tensor.
    #[error("{what}, for a tensor of shape {shape:?}")]
    Range {
        /// What is wrong with what was asked for.
        what: String,
        /// The tensor's shape.
        shape: Vec<usize>,
    },
    /// Shapes that must agree do not.
    #[error("`{what}`: expected shape {expected:?}, got {given:?}")]
    Shape {
        /// The operation or argument.
        what: String,
        /// The shape it must have.
        expected: Vec<usize>,
        /// The shape it has.
        given: Vec<usize>,
    },
    /// A number that an operation was given, or found in a tensor, is none that it can work with.
    #[error("`{what}`: expected {expected}, got {given}")]
    Value {
        /// The operation and its argument.
        what: String,
        /// What it must be.
        expected: String,
        /// What it is.
        given: String,
    },
    /// An argument is on another device than the launch.
    #[error(
        "argument `{argument}` of `{kernel}` is on {found}, but the launch is on {expected}; copy it with `Tensor::to_device`"
    )]
    DeviceMismatch {
        /// The kernel.
        kernel: String,
        /// The argument's name.
        argument: String,
        /// Where it is.
        found: String,
        /// Where it must be.
        expected: String,
    },
    /// An implementation of `KernelParam` packed something else than it declared.
    #[error(
        "a parameter of `{kernel}` packs {given} for {argument}, where it declared {expected}: `KernelParam::pack` must hand \
         over what `declare` declares, in the same order, and `key` must tell apart what is declared differently"
    )]
    Parameter {
        /// The kernel.
        kernel: String,
        /// The argument.
        argument: String,
        /// What was declared.
        expected: String,
        /// What was packed.
        given: String,
    },
    /// A text was to be a kernel and is none.
    #[error("the text is no kernel: {message}")]
    IrText {
        /// Where, what was expected and what stands there.
        message: String,
    },
    /// A kernel that was given as IR has operations that a launch cannot make safe.
    #[error(
        "{location}: `{kernel}` has operations that nothing makes safe; launch it by `unsafe` and `launch_unchecked` if \
         they are right:\n{}",
        problems.join("\n")
    )]
    UnsafeKernel {
        /// The kernel.
        kernel: String,
        /// The operations, a line each.
        problems: Vec<String>,
        /// `file:line:column` of the launch.
        location: &'static Location<'static>,
    },
    /// A kernel that was given as IR was launched with too few or too many arguments.
    #[error("{location}: `{kernel}` takes {} arguments ({}), got {given}", names.len(), names.join(", "))]
    ArgumentCount {
        /// The kernel.
        kernel: String,
        /// How many there are.
        given: usize,
        /// The parameters.
        names: Vec<String>,
        /// `file:line:column` of the launch.
        location: &'static Location<'static>,
    },
    /// An argument of a kernel that was given as IR, or a new argument of a launch in a graph, is
    /// none that its parameter takes.
    #[error("{location}: argument `{argument}` of `{kernel}` must be {expected}, got {given}")]
    Argument {
        /// The kernel.
        kernel: String,
        /// The parameter.
        argument: String,
        /// What it takes.
        expected: String,
        /// What it got.
        given: String,
        /// `file:line:column` of the launch.
        location: &'static Location<'static>,
    },
    /// A stream or an event is used with another device than its own.
    #[error("{what} is on {found}, not on {expected}")]
    WrongDevice {
        /// The stream or event.
        what: String,
        /// Where it is.
        found: String,
        /// Where it must be.
        expected: String,
    },
    /// A mutable argument shares memory with another argument.
    #[error(
        "arguments `{first}` and `{second}` of `{kernel}` share memory and one of them is written; copy one of them first"
    )]
    Overlap {
        /// The kernel.
        kernel: String,
        /// One argument.
        first: String,
        /// The other.
        second: String,
    },
    /// Something was done that no graph can hold, while one was captured.
    #[error(
        "{location}: {what} while a graph was captured on {device}: what is captured has not run; do this before or after \
         the capture"
    )]
    Capture {
        /// What was done.
        what: String,
        /// The device.
        device: String,
        /// `file:line:column` of the call.
        location: &'static Location<'static>,
    },
    /// Kernels cannot be compiled ahead here, or what was made meanwhile was used.
    #[error("{location}: {what} ({device})")]
    Precompile {
        /// What was done.
        what: String,
        /// The device.
        device: String,
        /// `file:line:column` of the call.
        location: &'static Location<'static>,
    },
    /// What was launched cannot be repeated by a [`CommandList`](crate::CommandList).
    #[error("{location}: no list of commands: {what}")]
    Commands {
        /// Why.
        what: String,
        /// `file:line:column` of the call.
        location: &'static Location<'static>,
    },
    /// A graph has no part that a change of it asks for.
    #[error("{location}: {what}")]
    GraphUpdate {
        /// What it lacks, and what there is.
        what: String,
        /// `file:line:column` of the call.
        location: &'static Location<'static>,
    },
    /// No candidate of a [`Tune`](crate::Tune) can be launched with a right result.
    #[error("`{tune}` has no candidate that works:\n{}", problems.join("\n"))]
    NoCandidate {
        /// The name of what was to be tuned.
        tune: String,
        /// Each candidate with what is wrong with it.
        problems: Vec<String>,
    },
    /// The contents of a tensor were never written.
    #[error("{what} was never written; fill it or pass it as `&mut` to a kernel first")]
    Uninitialized {
        /// The tensor or argument.
        what: String,
    },
    /// A tensor is used inside the closure that borrows its own host contents.
    #[error("{what} is in use: a closure of `with_host` that has not returned borrows its host contents")]
    Borrowed {
        /// The tensor or argument.
        what: String,
    },
    /// The grid was not given and does not follow from the kernel's stores.
    #[error(
        "the grid of `{kernel}` does not follow from its stores: {reason}; give it with `.grid([x, y, z])`"
    )]
    Grid {
        /// The kernel.
        kernel: String,
        /// Why.
        reason: String,
    },
    /// A package cannot be loaded.
    #[error("package {package}: {reason}")]
    Package {
        /// The file, or `of bytes`.
        package: String,
        /// What is wrong with it, or with the device for it.
        reason: String,
    },
    /// A kernel is in no package that the device has loaded, and nothing may be compiled.
    #[error("kernel `{kernel}` is in no package of {device}, and compiling is off; {hint}")]
    NotPackaged {
        /// The kernel.
        kernel: String,
        /// The device.
        device: String,
        /// What to do: it depends on what the device has of packages.
        hint: &'static str,
    },
    /// There is an NVIDIA driver or GPU, but it cannot be used, and no device was chosen by name.
    #[error(
        "the default device is the first NVIDIA GPU, which fails: {reason} (To use the processor instead, set KILN_DEVICE=cpu.)"
    )]
    DefaultDevice {
        /// What the device or its driver said.
        reason: String,
    },
    /// A device name that no backend has.
    #[error("no device is called `{name}`; there are {available}")]
    UnknownDevice {
        /// What was asked for.
        name: String,
        /// The names that exist.
        available: String,
    },
    /// A device of a backend that the program was built without.
    #[error("this build has no backend `{backend}`: enable the feature `{backend}` of Kiln's crate")]
    MissingBackend {
        /// The backend, which is the name of the feature too.
        backend: &'static str,
    },
    /// The operating system refused a file operation that was asked for by name.
    #[error("{what} `{}`: {message}", path.display())]
    File {
        /// The operation.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's words.
        message: String,
    },
}

/// The message, as `Display` gives it: `main` prints an error that it returns by `Debug`, and
/// `unwrap` does.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// The kernel's own failure, if that is what happened.
    ///
    /// ```
    /// # use kiln_runtime::{Device, Error};
    /// let device = Device::open("interp")?;
    /// assert!(matches!(device.synchronize(), Ok(())));
    /// let error = Device::open("abacus").unwrap_err();
    /// assert!(error.fault().is_none());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn fault(&self) -> Option<&kiln_backend::Fault> {
        match self {
            Error::Device(kiln_backend::Error::Fault(fault)) => Some(fault),
            _ => None,
        }
    }
}

impl From<kiln_backend::Fault> for Error {
    fn from(fault: kiln_backend::Fault) -> Error {
        Error::Device(fault.into())
    }
}

/// The result of a runtime operation.
///
/// ```
/// use kiln_runtime::{Device, Result};
///
/// fn sum(device: &str, x: &[f32]) -> Result<f32> {
///     Ok(Device::open(device)?.tensor(x, [x.len()])?.to_vec()?.iter().sum())
/// }
///
/// assert_eq!(sum("interp", &[1.0, 2.0])?, 3.0);
/// assert!(sum("no device", &[1.0]).is_err());
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub type Result<T> = std::result::Result<T, Error>;
