//! The device that a command works on.

use crate::failure::Failure;
use kiln_runtime::{Device, Error};

/// The device of this name, or the default one.
pub fn open(name: Option<&str>) -> Result<Device, Failure> {
    match name.map_or_else(Device::default, Device::open) {
        Err(error @ Error::UnknownDevice { .. }) => Err(Failure::Usage(error.to_string())),
        other => Ok(other?),
    }
}
