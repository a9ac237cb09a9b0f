//! Memory by address: that of other libraries, and of tensors for them.

use super::Cuda;
use kiln_backend::{DevicePtr, Error, RawMemory, Result, StreamId};

/// Kiln's context is the primary one, as that of CUDA's runtime is: an address means the same to
/// all libraries of the process.
impl RawMemory for Cuda {
    unsafe fn borrow_memory(&self, ptr: DevicePtr, _bytes: usize) -> Result<()> {
        let id = &self.device.properties.id;
        let here = self.device.context.device().ordinal();
        let refused = |reason: String, hint: &str| {
            let device = format!("memory at address {:#x} on {id}", ptr.0);
            Err(Error::Unavailable { device, reason, hint: hint.to_owned() })
        };
        if !self.device.context.is_primary() {
            let reason = "the device was opened anew, and has a context of its own".to_owned();
            return refused(reason, "Copy it through the host.");
        }
        match self.device.context.ordinal_of(ptr) {
            Ok(there) if there == here => Ok(()),
            Ok(there) => {
                refused(format!("it is memory of cuda:{there}"), "Open that device, or copy it there.")
            }
            Err(error) => refused(
                format!("the driver does not know it ({error})"),
                "Pass the address of GPU memory, and `Device::tensor` a slice of the host's.",
            ),
        }
    }

    fn stream_handle(&self, stream: StreamId) -> Option<u64> {
        Some(self.device.streams.get(stream).stream.handle().0 as u64)
    }

    fn copies_mapped_memory(&self) -> bool {
        true
    }
}
