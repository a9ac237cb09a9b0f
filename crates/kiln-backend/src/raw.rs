//! Memory that this process shares with other libraries, by its address.

use crate::{DevicePtr, Result, StreamId};

/// Memory by address, which other libraries use too:
/// [`Backend::raw_memory`](crate::Backend::raw_memory). On such a device a [`DevicePtr`] is an
/// address in this process: of the GPU, or of the host where kernels run on it.
pub trait RawMemory {
    /// Takes in memory of another owner, whose bytes count as written. It is then used as an
    /// allocation of this device is.
    ///
    /// # Errors
    /// [`Error::Unavailable`](crate::Error::Unavailable) where the device cannot reach it, as far
    /// as that is known.
    ///
    /// # Safety
    /// `ptr` points to `bytes` (at least 1) bytes of initialized memory, which this device reaches
    /// and which live until [`give_back`](Self::give_back).
    unsafe fn borrow_memory(&self, ptr: DevicePtr, bytes: usize) -> Result<()> {
        let _ = (ptr, bytes);
        Ok(())
    }

    /// Ends what [`borrow_memory`](Self::borrow_memory) began. Failures are ignored.
    ///
    /// # Safety
    /// `ptr` was borrowed, and is given back once for each time; nothing in flight uses it.
    unsafe fn give_back(&self, ptr: DevicePtr) {
        let _ = ptr;
    }

    /// Says that another library writes these bytes: they count as written.
    fn written_by_others(&self, ptr: DevicePtr, bytes: usize) {
        let _ = (ptr, bytes);
    }

    /// What the driver knows the stream by; `None` where there is no driver.
    fn stream_handle(&self, stream: StreamId) -> Option<u64> {
        let _ = stream;
        None
    }

    /// Whether [`copy`](crate::Backend::copy) between [mapped](crate::MappedMemory) host memory and
    /// memory of the device goes on while the host does something else. Elsewhere a copy is over
    /// when the call returns, from whatever memory of the host.
    fn copies_mapped_memory(&self) -> bool {
        false
    }
}
