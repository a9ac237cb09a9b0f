//! What a GPU draws, where NVIDIA's management library (NVML) is there. It is opened at run time
//! and never needed.

use kiln_runtime::Device;
use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_ulonglong, c_void};
use std::time::Instant;

/// Where the library may be.
#[cfg(not(windows))]
const LIBRARY_NAMES: &[&str] =
    &["libnvidia-ml.so.1", "libnvidia-ml.so", "/usr/lib/wsl/lib/libnvidia-ml.so.1"];
/// Where the library may be.
#[cfg(windows)]
const LIBRARY_NAMES: &[&str] = &["nvml.dll"];

/// What NVML's functions return: 0 if they did what they say.
type Status = c_int;
/// NVML's handle of a GPU.
type Handle = *mut c_void;

type Init = unsafe extern "C" fn() -> Status;
type HandleByUuid = unsafe extern "C" fn(uuid: *const c_char, device: *mut Handle) -> Status;
type TotalEnergy = unsafe extern "C" fn(device: Handle, millijoules: *mut c_ulonglong) -> Status;

/// The energy meter of one GPU.
pub struct Meter {
    energy: TotalEnergy,
    device: Handle,
}

/// A reading: millijoules since the driver was loaded, and when.
pub struct Reading(u64, Instant);

impl Meter {
    /// The meter of a device; `None` where there is none.
    ///
    /// NVML numbers the GPUs of the machine, CUDA those that are visible to it: so the GPU is found
    /// by its UUID.
    pub fn of(device: &Device) -> Option<Meter> {
        let uuid = CString::new(name_of(&device.properties().uuid?)).ok()?;
        // SAFETY: loading the library runs its initializers, which are NVIDIA's and expect to be
        // run this way by any program.
        let library = LIBRARY_NAMES.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
        // SAFETY: these are the functions' types in `nvml.h`. None is called after the library was
        // unloaded, which it is only on the way out of here without a meter.
        let (init, handle, energy) = unsafe {
            (
                *library.get::<Init>("nvmlInit_v2").ok()?,
                *library.get::<HandleByUuid>("nvmlDeviceGetHandleByUUID").ok()?,
                *library.get::<TotalEnergy>("nvmlDeviceGetTotalEnergyConsumption").ok()?,
            )
        };
        let mut device = std::ptr::null_mut();
        // SAFETY: initializing comes first; the UUID ends with a zero, and `device` is writable.
        let found = unsafe { init() == 0 && handle(uuid.as_ptr(), &mut device) == 0 };
        let meter = Meter { energy, device };
        // GPUs before Volta have no such meter.
        let works = found && meter.read().is_some();
        works.then(|| {
            // NVML remains initialized until the process ends.
            std::mem::forget(library);
            meter
        })
    }

    /// Reads the meter.
    pub fn read(&self) -> Option<Reading> {
        let mut millijoules = 0;
        // SAFETY: NVML gave the handle and is still initialized; `millijoules` is writable.
        let status = unsafe { (self.energy)(self.device, &mut millijoules) };
        (status == 0).then(|| Reading(millijoules, Instant::now()))
    }

    /// Mean watts since a reading.
    pub fn watts_since(&self, begun: &Reading) -> Option<f64> {
        let now = self.read()?;
        Some((now.0 - begun.0) as f64 / 1e3 / (now.1 - begun.1).as_secs_f64())
    }
}

/// A GPU's UUID as NVML writes it.
fn name_of(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    #[test]
    fn uuids_are_written_as_nvml_writes_them() {
        let uuid = std::array::from_fn(|i| i as u8 * 17);
        assert_eq!(super::name_of(&uuid), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}
