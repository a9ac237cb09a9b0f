//! Memory that the host and running kernels share.
//!
//! Everything else a device has is reached by copies in a stream's order, which wait for the
//! kernels before them. A kernel that is resident on the device
//! ([`Backend::launch_resident`](crate::Residents::launch_resident)) communicates through memory
//! that both sides address: *mapped* memory. Where resident launches are
//! [dispatches](crate::Residency::Dispatched), each side has a copy, and they are brought up to
//! date as a dispatch begins and after it.

use crate::DevicePtr;
use std::fmt;
use std::ptr::NonNull;

/// Where mapped memory lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MappedPlace {
    /// Host memory, which the device reads and writes over the bus. Both sides may do both; for the
    /// host it is ordinary cached memory.
    Host,
    /// Device memory, which the host writes over the bus and does not read: a read takes about a
    /// microsecond for each few bytes, and where the memory is
    /// [write-combined](Mapped::write_combined) it may be served before the host's own earlier
    /// writes.
    Device,
}

impl MappedPlace {
    /// Both, in the order of [`MappedPlaces`].
    pub const ALL: [MappedPlace; 2] = [MappedPlace::Host, MappedPlace::Device];
}

impl fmt::Display for MappedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MappedPlace::Host => "host memory",
            MappedPlace::Device => "device memory",
        })
    }
}

/// An allocation of mapped memory: the host's address and the device's address of the same bytes.
///
/// It is a name and not an owner: it is freed by [`Backend::unmap`](MappedMemory::unmap), and
/// neither address may be used after that. While a kernel may touch it, the host goes through raw
/// pointers and atomics, never through references to plain data.
#[derive(Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The host's address, a multiple of 256.
    pub host: NonNull<u8>,
    /// The address under which kernels see the first byte, a multiple of 256.
    pub device: DevicePtr,
    /// The length.
    pub bytes: usize,
    /// Where it lies.
    pub place: MappedPlace,
    /// Whether the host's stores are collected and leave out of order until a store fence
    /// (`sfence`): then a message is best written by whole, aligned 16-byte or 64-byte streaming
    /// stores, and followed by one fence.
    pub write_combined: bool,
}

// SAFETY: two addresses and numbers. Following the addresses needs `unsafe`, where the caller
// promises that it is in order.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

/// Memory that the host and running kernels share:
/// [`Backend::mapped_memory`](crate::Backend::mapped_memory).
pub trait MappedMemory {
    /// Which mapped memory there is, and why not where there is none. The first call may take a
    /// while: it searches for other libraries.
    fn mapped_places(&self) -> MappedPlaces;

    /// Allocates `bytes` (at least 1) of zeroed memory that the host and running kernels share,
    /// aligned to 256 bytes. It is there, and zero for both sides, when the call returns, and until
    /// [`unmap`](Self::unmap). What orders the accesses of the two sides is the caller's affair:
    /// aligned words and aligned 16-byte pieces arrive whole, and releasing stores at system scope
    /// are seen in order.
    ///
    /// Neither this nor `unmap` waits for a resident launch.
    ///
    /// # Errors
    /// [`crate::Error::Unavailable`] where there is no such memory
    /// ([`mapped_places`](Self::mapped_places) says so beforehand); [`crate::Error::OutOfMemory`].
    fn map(&self, bytes: usize, place: MappedPlace) -> crate::Result<Mapped>;

    /// Frees mapped memory. Failures are ignored.
    ///
    /// # Safety
    /// `mapped` came from [`map`](Self::map) of this device and was not freed; nothing in flight
    /// uses its device address, and nothing uses its host address from now on.
    unsafe fn unmap(&self, mapped: Mapped);

    /// Takes in host memory as [mapped memory](MappedPlace::Host): memory that another process maps
    /// too. It is not zeroed.
    ///
    /// # Errors
    /// [`crate::Error::Unavailable`] where a device cannot; those of the driver.
    ///
    /// # Safety
    /// `host` is a multiple of 4096 and points to that many bytes, which live until
    /// [`disown`](Self::disown), and beyond as long as the device does if resident launches are
    /// there then.
    unsafe fn adopt(&self, host: NonNull<u8>, bytes: usize) -> crate::Result<Mapped> {
        let _ = (host, bytes);
        Err(crate::Error::Unavailable {
            device: "memory of two processes".to_owned(),
            reason: "the device does not take in host memory".to_owned(),
            hint: "Take `cpu` or `cuda:N`.".to_owned(),
        })
    }

    /// Ends what [`adopt`](Self::adopt) began. Failures are ignored.
    ///
    /// # Safety
    /// `mapped` came from `adopt` of this device, once; nothing in flight uses it.
    unsafe fn disown(&self, mapped: Mapped) {
        let _ = mapped;
    }
}

/// What mapped memory a device has: for each place what it is, in words, or what stands in the way.
#[derive(Debug, Clone, PartialEq)]
pub struct MappedPlaces {
    /// [`MappedPlace::Host`].
    pub host: Result<String, MapObstacle>,
    /// [`MappedPlace::Device`].
    pub device: Result<String, MapObstacle>,
}

impl MappedPlaces {
    /// What is known of a place.
    pub fn get(&self, place: MappedPlace) -> &Result<String, MapObstacle> {
        match place {
            MappedPlace::Host => &self.host,
            MappedPlace::Device => &self.device,
        }
    }
}

/// Why a device has no mapped memory in a place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MapObstacle {
    /// The hardware or the system does not do it.
    #[error("{what}")]
    Hardware {
        /// What is not there.
        what: String,
    },
    /// A library that is needed could not be loaded.
    #[error("{library} could not be loaded: {reason}")]
    Library {
        /// Its name.
        library: &'static str,
        /// The system's words.
        reason: String,
    },
    /// A call failed.
    #[error("{call} failed with {code}")]
    Call {
        /// The function.
        call: &'static str,
        /// The name or number of its result.
        code: String,
    },
    /// Another interface to the device does not list it.
    #[error("{interface} does not list this device: it lists {listed}")]
    NotListed {
        /// The interface.
        interface: &'static str,
        /// What it lists, or `nothing`.
        listed: String,
    },
    /// The device's driver lacks something.
    #[error("the driver has no {what}")]
    Missing {
        /// The extension or kind of memory.
        what: String,
    },
}

impl MapObstacle {
    /// What the user can do, as a sentence.
    pub fn hint(&self) -> &'static str {
        match self {
            MapObstacle::Hardware { .. } => "Use another place for mapped memory.",
            MapObstacle::Library { .. } => {
                "Install it (Debian and Ubuntu: `libvulkan1`), or use mapped host memory, which needs nothing but is slower to poll."
            }
            MapObstacle::Call { .. } | MapObstacle::NotListed { .. } => {
                "See that the Vulkan part of the device's driver is installed and that `vulkaninfo` lists the device (`VK_DRIVER_FILES` names \
                 its description where the loader does not find it), or use mapped host memory."
            }
            MapObstacle::Missing { .. } => "Update the device's driver, or use mapped host memory.",
        }
    }

    /// The error of asking `device` for memory there nevertheless.
    pub fn into_error(self, device: &str, place: MappedPlace) -> crate::Error {
        let hint = self.hint().to_owned();
        crate::Error::Unavailable {
            device: format!("mapped {place} of {device}"),
            reason: self.to_string(),
            hint,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn obstacles_say_what_is_missing_and_what_to_do() {
        let reason = "cannot open shared object file".to_owned();
        let obstacle = MapObstacle::Library { library: "libvulkan.so.1", reason };
        let text = obstacle.into_error("cuda:0", MappedPlace::Device).to_string();
        assert!(
            text.starts_with("mapped device memory of cuda:0 is not available: libvulkan.so.1 could"),
            "{text}"
        );
        assert!(text.contains("libvulkan1") && text.ends_with('.'), "{text}");
    }

    #[test]
    fn places_are_found_by_name() {
        let obstacle = MapObstacle::Missing { what: "memory".into() };
        let places = MappedPlaces { host: Ok("RAM".into()), device: Err(obstacle.clone()) };
        let found: Vec<_> = MappedPlace::ALL.map(|place| places.get(place).clone()).into();
        assert_eq!(found, [Ok("RAM".to_owned()), Err(obstacle)]);
    }
}
