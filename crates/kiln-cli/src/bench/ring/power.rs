//! What a GPU draws, where NVIDIA's management library (NVML) is there. It is looked for at run
//! time and never needed.

use kiln_runtime::Device;
use nvml_wrapper::Nvml;
use std::time::Instant;

/// The energy meter of one GPU.
pub struct Meter {
    nvml: Nvml,
    uuid: String,
}

/// A reading: millijoules since the driver was loaded, and when.
pub struct Reading(u64, Instant);

impl Meter {
    /// The meter of a device; `None` where there is none.
    ///
    /// NVML numbers the GPUs of the machine, CUDA those that it was told to use: so the GPU is
    /// looked for by its UUID.
    pub fn of(device: &Device) -> Option<Meter> {
        let uuid = name_of(&device.properties().uuid?);
        let nvml = Nvml::init().ok()?;
        let known = nvml.device_by_uuid(uuid.as_str()).is_ok();
        known.then_some(Meter { nvml, uuid })
    }

    /// Reads the meter.
    pub fn read(&self) -> Option<Reading> {
        let energy = self.nvml.device_by_uuid(self.uuid.as_str()).ok()?.total_energy_consumption().ok()?;
        Some(Reading(energy, Instant::now()))
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
