//! The device that a command works on.

use crate::failure::Failure;
use kiln_fuzz::GpuCode;
use kiln_runtime::{Device, DiskCache, Error};

/// As [`open`], or the code for GPUs on the interpreter: `interp:gpu-code`, `interp:gpu-code:SEED`.
pub fn open_to_test(name: Option<&str>) -> Result<Device, Failure> {
    match name.and_then(GpuCode::named) {
        Some(backend) => Ok(Device::with_backend(Box::new(backend), DiskCache::none())),
        None => open(name),
    }
}

/// The device of this name, or the default one.
pub fn open(name: Option<&str>) -> Result<Device, Failure> {
    match name.map_or_else(Device::default, Device::open) {
        Err(error @ Error::UnknownDevice { .. }) => Err(Failure::Usage(error.to_string())),
        other => Ok(other?),
    }
}
