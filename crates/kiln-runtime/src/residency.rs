//! Where the contents of a buffer are, and what a buffer is called.

use std::fmt;

/// Which copy of a buffer's contents is the current one.
///
/// Where host and device share their memory, as on the CPU, there is one copy: it is
/// `Uninitialized` or `DeviceOnly`.
///
/// ```
/// use kiln_runtime::{Device, Residency};
/// let device = Device::open("cpu")?;
/// let mut x = device.uninit::<f32, 1>([3])?;
/// assert_eq!(x.residency(), Residency::Uninitialized);
/// x.with_host_mut(|x| x.fill(1.0))?;
/// assert_eq!(x.residency(), Residency::DeviceOnly);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residency {
    /// Nothing was written yet.
    Uninitialized,
    /// Only the host has contents.
    HostOnly,
    /// Only the device has contents.
    DeviceOnly,
    /// Host and device have the same contents.
    InSync,
    /// Both have contents, the host's are newer.
    HostDirty,
    /// Both have contents, the device's are newer.
    DeviceDirty,
}

/// What to call a buffer in an error; formatted only if there is one.
#[derive(Clone, Copy)]
pub(crate) enum Named<'a> {
    /// A tensor, outside of a launch.
    Tensor,
    /// An argument of a launch.
    Argument {
        /// The kernel.
        kernel: &'a str,
        /// The parameter.
        argument: &'a str,
    },
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Named::Tensor => f.write_str("the tensor"),
            Named::Argument { kernel, argument } => write!(f, "argument `{argument}` of `{kernel}`"),
        }
    }
}
