//! `kiln doctor`: what is here, what is missing and how to get it.
//!
//! Everything is asked for without creating a context on a GPU, which takes longer than all the
//! rest together.

mod adapters;
mod report;

use crate::failure::Failure;
use kiln_backend::{Capabilities, Execution, MapObstacle, MappedPlace, MappedPlaces, Properties};
use kiln_cuda::driver;
use kiln_ring::{RingRuntime, RuntimeConfig};
use kiln_runtime::{Device, DiskCache};
use std::env;
use std::io::Write as _;

/// Lists the devices, the driver and the caches, and how to install what is missing.
///
/// The exit status is 1 if the device that programs would use (KILN_DEVICE, else the best one) is
/// not there.
#[derive(clap::Args)]
pub struct Args {
    /// Prints one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// What is missing where programs would find no device.
const DEFAULT_DEVICE: &str = "default device";

/// The oldest GPUs that Kiln compiles for.
const OLDEST_CAPABILITY: (u32, u32) = (7, 5);

/// Runs the command. What is missing is a finding; that the chosen device is missing is a failure.
pub fn run(args: &Args) -> Result<(), Failure> {
    let findings = Findings::gather();
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", findings.to_json())?;
    } else {
        write!(out, "{}", findings.to_text())?;
    }
    let chosen_is_missing = findings.missing.iter().any(|missing| missing.what == DEFAULT_DEVICE);
    if chosen_is_missing { Err(Failure::Reported) } else { Ok(()) }
}

/// Everything that was found.
struct Findings {
    /// Best first.
    devices: Vec<Found>,
    /// The adapters of other APIs than CUDA.
    adapters: Vec<adapters::Found>,
    nvidia: Option<Nvidia>,
    /// The device that programs use unless they say otherwise, and what decided.
    default: (String, &'static str),
    cache: Cache,
    mailboxes: Vec<Mailbox>,
    /// How messages of ring kernels get to each device: its name, and the way with the reason.
    transports: Vec<[String; 2]>,
    missing: Vec<Missing>,
}

/// Memory that the host shares with resident kernels of a device, or why there is none of a kind.
struct Mailbox {
    device: String,
    place: MappedPlace,
    found: Result<String, MapObstacle>,
}

/// A device.
struct Found {
    id: String,
    name: String,
    units: u32,
    memory: u64,
    cache: u64,
    compute_capability: Option<(u32, u32)>,
    /// The SIMD level of a processor.
    simd: Option<String>,
    max_threads: u32,
    /// Threads of a subgroup.
    subgroup: u32,
    shared_memory: u32,
    capabilities: Capabilities,
}

/// The NVIDIA driver.
struct Nvidia {
    /// The version of its package, where the system reports it.
    release: Option<String>,
    cuda: String,
    ptx: String,
}

/// The programs kept on disk.
struct Cache {
    folder: Option<String>,
    /// The system's words if programs cannot be kept.
    problem: Option<String>,
    programs: usize,
    bytes: u64,
}

/// Something that is not there or does not work.
struct Missing {
    what: &'static str,
    why: String,
    how: Option<String>,
}

impl Findings {
    fn gather() -> Findings {
        let (mut missing, mut mailboxes) = (Vec::new(), Vec::new());
        let (nvidia, mut devices) = match driver::Driver::get() {
            Ok(driver) => (Some(nvidia(driver)), gpus(&mut missing)),
            Err(error) => {
                let (why, how) = split_advice(&error.to_string());
                let what = if error.is_absence() { "NVIDIA GPU" } else { "NVIDIA driver" };
                missing.push(Missing { what, why, how });
                (None, Vec::new())
            }
        };
        for ordinal in 0..devices.len() {
            // A GPU that cannot be asked is missing already.
            let places = kiln_cuda::mapped_places(ordinal);
            mailboxes
                .extend(places.into_iter().flat_map(|places| of_device(&format!("cuda:{ordinal}"), places)));
        }
        for name in ["cpu", "interp"] {
            match Device::open(name) {
                Ok(device) => {
                    devices.push(found(device.properties()));
                    mailboxes.extend(of_device(name, device.backend().mapped_places()));
                }
                Err(error) => missing.push(Missing { what: "device", why: error.to_string(), how: None }),
            }
        }
        let transports = devices.iter().map(|device| transport(&device.id)).collect();
        let default = default_device(&devices, &mut missing);
        let cache = cache(&mut missing);
        let adapters = adapters::found();
        Findings { devices, adapters, nvidia, default, cache, mailboxes, transports, missing }
    }
}

fn nvidia(driver: &driver::Driver) -> Nvidia {
    Nvidia {
        release: driver.release(),
        cuda: driver.version().to_string(),
        ptx: driver.ptx_version().to_string(),
    }
}

fn gpus(missing: &mut Vec<Missing>) -> Vec<Found> {
    let count = driver::Driver::get().map_or(0, driver::Driver::device_count);
    let mut found = Vec::with_capacity(count);
    for ordinal in 0..count {
        match driver::Device::new(ordinal).and_then(|device| device.properties()) {
            Ok(properties) => found.push(gpu(ordinal, properties, missing)),
            Err(error) => {
                let (why, how) = split_advice(&error.to_string());
                missing.push(Missing { what: "NVIDIA GPU", why: format!("cuda:{ordinal}: {why}"), how });
            }
        }
    }
    found
}

fn gpu(ordinal: usize, properties: driver::DeviceProperties, missing: &mut Vec<Missing>) -> Found {
    let capability = (properties.compute_capability.major, properties.compute_capability.minor);
    if capability < OLDEST_CAPABILITY {
        missing.push(Missing {
            what: "newer GPU",
            why: format!(
                "cuda:{ordinal} ({}) has compute capability {}",
                properties.name, properties.compute_capability
            ),
            how: Some("Kiln needs 7.5 or newer (Turing, 2018)".into()),
        });
    }
    Found {
        id: format!("cuda:{ordinal}"),
        name: properties.name,
        units: properties.multiprocessors,
        memory: properties.memory_bytes as u64,
        cache: u64::from(properties.l2_bytes),
        compute_capability: Some(capability),
        simd: None,
        max_threads: properties.max_threads_per_block,
        subgroup: properties.warp,
        shared_memory: properties.shared_per_block_opt_in,
        capabilities: kiln_cuda::capabilities(capability),
    }
}

fn found(properties: &Properties) -> Found {
    let is_cpu = properties.capabilities.execution == Execution::Simd;
    Found {
        id: properties.id.clone(),
        name: properties.name.clone(),
        units: properties.units,
        memory: properties.memory,
        cache: properties.cache,
        compute_capability: properties.compute_capability,
        simd: is_cpu.then(|| properties.driver.clone()),
        max_threads: properties.max_threads,
        subgroup: properties.warp,
        shared_memory: properties.shared_memory,
        capabilities: properties.capabilities,
    }
}

fn of_device(id: &str, places: MappedPlaces) -> Vec<Mailbox> {
    let mailbox = |place| Mailbox { device: id.to_owned(), place, found: places.get(place).clone() };
    MappedPlace::ALL.map(mailbox).into()
}

/// How messages of ring kernels get to a device, and why that way: what a small runtime finds,
/// which tests it as any other does.
fn transport(id: &str) -> [String; 2] {
    let small = RuntimeConfig {
        inbox_bytes: 1 << 16,
        outbox_bytes: 1 << 16,
        arena_bytes: 1 << 16,
        ..RuntimeConfig::default().workers(1)
    };
    let found = Device::open(id).map_err(|error| error.to_string()).and_then(|device| {
        let runtime = RingRuntime::with(&device, small).map_err(|error| error.to_string())?;
        Ok(runtime.transport_choice().to_string())
    });
    [id.to_owned(), found.unwrap_or_else(|why| format!("none: {why}"))]
}

/// Errors of the driver say what is wrong, a colon, and what to do.
fn split_advice(message: &str) -> (String, Option<String>) {
    match message.rsplit_once("): ").or_else(|| message.split_once(": ")) {
        Some((why, how)) if message.contains("): ") => (format!("{why})"), Some(how.to_owned())),
        Some((why, how)) => (why.to_owned(), Some(how.to_owned())),
        None => (message.to_owned(), None),
    }
}

fn default_device(devices: &[Found], missing: &mut Vec<Missing>) -> (String, &'static str) {
    let Some(wish) = env::var("KILN_DEVICE").ok().filter(|w| !w.trim().is_empty()) else {
        return match Device::default() {
            Ok(device) => (device.id().to_owned(), "the best one; KILN_DEVICE chooses another"),
            Err(error) => {
                let how = Some("mend it, or set KILN_DEVICE=cpu to use the processor".to_owned());
                missing.push(Missing { what: DEFAULT_DEVICE, why: error.to_string(), how });
                ("none".to_owned(), "the NVIDIA driver or GPU fails; KILN_DEVICE chooses another")
            }
        };
    };
    let wish = if wish.trim() == "cuda" { "cuda:0" } else { wish.trim() };
    // Names with options, such as `interp:fast`, are those of no listed device. A GPU that is not
    // listed is not opened, which takes longer than all the rest.
    let opens = || !wish.starts_with("cuda") && Device::open(wish).is_ok();
    if !devices.iter().any(|d| d.id == wish) && !opens() {
        let ids: Vec<&str> = devices.iter().map(|d| d.id.as_str()).collect();
        missing.push(Missing {
            what: DEFAULT_DEVICE,
            why: format!("KILN_DEVICE names `{wish}`, which is not here"),
            how: Some(format!("unset it, or set it to one of {}", ids.join(", "))),
        });
    }
    (wish.to_owned(), "from KILN_DEVICE")
}

fn cache(missing: &mut Vec<Missing>) -> Cache {
    let cache = DiskCache::from_env();
    let problem =
        cache.as_ref().map_or_else(|error| Some(error.to_string()), |cache| cache.check_writable().err());
    let cache = cache.unwrap_or_else(|_| DiskCache::none());
    if let Some(problem) = &problem {
        missing.push(Missing {
            what: "program cache",
            why: format!("programs cannot be kept: {problem}"),
            how: Some(
                "set KILN_CACHE_DIR to a folder that can be written; until then every process compiles anew"
                    .into(),
            ),
        });
    }
    let (programs, bytes) = cache.usage();
    Cache { folder: cache.folder().map(|f| f.display().to_string()), problem, programs, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_follows_the_last_colon_of_the_reason() {
        let split = |text| split_advice(text);
        assert_eq!(
            split("the library could not be loaded (libcuda.so.1: not found): install the driver"),
            (
                "the library could not be loaded (libcuda.so.1: not found)".into(),
                Some("install the driver".into())
            )
        );
        assert_eq!(
            split("the driver sees no GPU: check nvidia-smi"),
            ("the driver sees no GPU".into(), Some("check nvidia-smi".into()))
        );
        assert_eq!(split("no advice"), ("no advice".into(), None));
    }
}
