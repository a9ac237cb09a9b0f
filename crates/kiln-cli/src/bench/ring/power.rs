//! What a GPU draws, where NVIDIA's management library (NVML) is there. It is looked for at run time and never needed.

use kiln_runtime::{BackendKind, Device};
use nvml_wrapper::Nvml;
use std::time::Instant;

/// The energy meter of one GPU.
pub struct Meter {
    nvml: Nvml,
    index: u32,
}

/// A reading: millijoules since the driver was loaded, and when.
pub struct Reading(u64, Instant);

impl Meter {
    /// The meter of a device; `None` where there is none.
    ///
    /// NVML numbers the GPUs of the machine, CUDA those that it was told to use: a name that differs is taken for another GPU.
    pub fn of(device: &Device) -> Option<Meter> {
        if device.properties().kind != BackendKind::Cuda {
            return None;
        }
        let index = device.id().rsplit(':').next()?.parse().ok()?;
        let nvml = Nvml::init().ok()?;
        let name = nvml.device_by_index(index).ok()?.name().ok()?;
        (name == device.properties().name).then_some(Meter { nvml, index })
    }

    /// Reads the meter.
    pub fn read(&self) -> Option<Reading> {
        let energy = self.nvml.device_by_index(self.index).ok()?.total_energy_consumption().ok()?;
        Some(Reading(energy, Instant::now()))
    }

    /// Mean watts since a reading.
    pub fn watts_since(&self, begun: &Reading) -> Option<f64> {
        let now = self.read()?;
        Some((now.0 - begun.0) as f64 / 1e3 / (now.1 - begun.1).as_secs_f64())
    }
}
