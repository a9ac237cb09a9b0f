//! The adapters of this machine: their names, and what each has and lacks.

use super::masked::masked;
use super::waiting::wait_for;
use crate::features::{Features, MatrixSize};
use crate::float_modes::FloatModes;
use kiln_backend::{Error, Result};
use wgpu::{Backend as Api, DeviceType, Features as F};

/// What a device name asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    /// The adapter of this number.
    Number(usize),
    /// The best adapter of an API.
    Api(Api),
}

/// The device name that all others begin with.
const DEVICE: &str = "wgpu";

/// The APIs that names may ask for. GL is not among them: it has too little of what kernels need.
const APIS: [(&str, Api); 4] =
    [("vulkan", Api::Vulkan), ("metal", Api::Metal), ("dx12", Api::Dx12), ("webgpu", Api::BrowserWebGpu)];

/// What helps where there is no adapter.
const NO_ADAPTER: &str = if cfg!(target_family = "wasm") {
    "Use a browser that has WebGPU, and a page that came from `localhost` or by https."
} else {
    "Install the GPU's Vulkan driver, or Mesa's for processors (Debian and Ubuntu: \
     `mesa-vulkan-drivers`)."
};

/// What an optional feature of wgpu is for, and how kernels do without it.
const OPTIONAL: [(F, &str, &str); 8] = [
    (F::SHADER_INT64, "SHADER_INT64", "64-bit integers"),
    (F::SHADER_F64, "SHADER_F64", "f64"),
    (F::SHADER_F16, "SHADER_F16", "arithmetic of f16"),
    (F::SUBGROUP, "SUBGROUP", "exchanges among lanes other than through workgroup memory"),
    (F::SUBGROUP_BARRIER, "SUBGROUP_BARRIER", "barriers of a warp other than those of its block"),
    (
        F::EXPERIMENTAL_COOPERATIVE_MATRIX,
        "EXPERIMENTAL_COOPERATIVE_MATRIX",
        "products of f16 on matrix units",
    ),
    (F::IMMEDIATES, "IMMEDIATES", "parameters of launches other than in a uniform buffer"),
    (F::TIMESTAMP_QUERY_INSIDE_ENCODERS, "TIMESTAMP_QUERY_INSIDE_ENCODERS", "device time of events"),
];

/// What not every adapter has: wgpu's name of each feature that kernels gain by, and what for.
///
/// ```
/// assert!(kiln_wgpu::optional_features().any(|(name, what)| (name, what) == ("SHADER_F64", "f64")));
/// ```
pub fn optional_features() -> impl Iterator<Item = (&'static str, &'static str)> {
    OPTIONAL.into_iter().map(|(_, name, what)| (name, what))
}

/// An adapter of this machine, as `kiln doctor` lists it.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// The name of its device, such as `wgpu:0`.
    pub id: String,
    /// The product name.
    pub name: String,
    /// The API: `vulkan`, `metal`, `dx12` or `webgpu`.
    pub api: &'static str,
    /// Whether it is software on the host's processors.
    pub is_software: bool,
    /// The driver's name and version.
    pub driver: String,
    /// The rounds that loops of a thread make at most, where the driver ends them after that. A
    /// loop that it ends is a fault.
    pub loop_rounds: Option<u32>,
    /// The optional features that it does not have: wgpu's name of each, and what it is for.
    pub lacks: Vec<(&'static str, &'static str)>,
}

/// The adapters of this machine, best first: real GPUs before software. In a browser none: what
/// it has is known only later.
///
/// ```
/// for adapter in kiln_wgpu::adapters() {
///     println!("{}: {} through {}", adapter.id, adapter.name, adapter.api);
/// }
/// ```
pub fn adapters() -> Vec<Adapter> {
    let all = wait_for(enumerate()).unwrap_or_default();
    all.iter().enumerate().map(|(number, adapter)| describe(number, adapter)).collect()
}

/// Whether a device name is one of this backend's: `wgpu`, `wgpu:N`, `wgpu:vulkan`, `wgpu:metal`,
/// `wgpu:dx12` or `wgpu:webgpu`.
///
/// ```
/// assert!(kiln_wgpu::is_name("wgpu:0") && kiln_wgpu::is_name("wgpu:metal"));
/// assert!(!kiln_wgpu::is_name("wgpu:gl") && !kiln_wgpu::is_name("cuda:0"));
/// ```
pub fn is_name(name: &str) -> bool {
    parse(name).is_some()
}

/// The name with a number of the device that a name asks for: `wgpu:0` for `wgpu`. `None` for a
/// name that is not one of this backend's, and where the adapter of an API is not there.
///
/// ```
/// assert_eq!(kiln_wgpu::canonical_name("wgpu").as_deref(), Some("wgpu:0"));
/// assert_eq!(kiln_wgpu::canonical_name("cpu"), None);
/// ```
pub fn canonical_name(name: &str) -> Option<String> {
    match parse(name)? {
        Wish::Number(number) => Some(id(number)),
        Wish::Api(_) => match wait_for(find(name)) {
            Some(found) => found.ok().map(|(number, _)| id(number)),
            // A browser offers one adapter.
            None => Some(id(0)),
        },
    }
}

/// The adapter that a name asks for, and its number.
pub(crate) async fn find(name: &str) -> Result<(usize, wgpu::Adapter)> {
    let unavailable =
        |reason: String, hint: String| Error::Unavailable { device: name.to_owned(), reason, hint };
    let Some(wish) = parse(name) else {
        let hint = "Write `wgpu`, `wgpu:N`, or `wgpu:` and an API: vulkan, metal, dx12, webgpu.".to_owned();
        return Err(unavailable("there is no such device name".to_owned(), hint));
    };
    let all = enumerate().await;
    let found: Vec<String> =
        all.iter().enumerate().map(|(i, a)| format!("{DEVICE}:{i} is {}", a.get_info().name)).collect();
    let mut adapters = all.into_iter().enumerate();
    let chosen = match wish {
        Wish::Number(number) => adapters.nth(number),
        Wish::Api(api) => adapters.find(|(_, adapter)| adapter.get_info().backend == api),
    };
    chosen.ok_or_else(|| {
        if found.is_empty() {
            unavailable("no driver here offers an adapter".to_owned(), NO_ADAPTER.to_owned())
        } else {
            unavailable("no adapter fits this name".to_owned(), format!("{}.", found.join(", ")))
        }
    })
}

/// The name of the device of an adapter.
pub(crate) fn id(number: usize) -> String {
    format!("{DEVICE}:{number}")
}

fn parse(name: &str) -> Option<Wish> {
    let rest = name.strip_prefix(DEVICE)?;
    if rest.is_empty() {
        return Some(Wish::Number(0));
    }
    let rest = rest.strip_prefix(':')?;
    let api = APIS.iter().find(|(api, _)| *api == rest).map(|&(_, api)| Wish::Api(api));
    api.or_else(|| rest.parse().ok().map(Wish::Number))
}

/// All adapters of the APIs, best first. Among equals, the order of the drivers.
async fn enumerate() -> Vec<wgpu::Adapter> {
    let backends = APIS.iter().fold(wgpu::Backends::empty(), |all, &(_, api)| all | api.into());
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends,
        // Validation layers would print to the user's terminal.
        flags: wgpu::InstanceFlags::empty(),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let mut adapters = instance.enumerate_adapters(backends).await;
    adapters.sort_by_key(|adapter| rank(&adapter.get_info()));
    adapters
}

fn rank(info: &wgpu::AdapterInfo) -> (usize, usize) {
    let kind = match info.device_type {
        DeviceType::DiscreteGpu => 0,
        DeviceType::IntegratedGpu => 1,
        DeviceType::VirtualGpu => 2,
        DeviceType::Other => 3,
        DeviceType::Cpu => 4,
    };
    // A GPU that two APIs offer is first taken through Vulkan, which has most features.
    (kind, APIS.iter().position(|&(_, api)| api == info.backend).unwrap_or(APIS.len()))
}

fn describe(number: usize, adapter: &wgpu::Adapter) -> Adapter {
    let (info, has) = (adapter.get_info(), adapter.features() - masked(&id(number)).unwrap_or_default());
    let lacks = OPTIONAL.iter().filter(|(feature, ..)| !has.contains(*feature));
    Adapter {
        id: id(number),
        api: APIS.iter().find(|(_, api)| *api == info.backend).map_or("unknown", |&(name, _)| name),
        is_software: is_software(&info),
        driver: driver(&info),
        loop_rounds: loop_rounds(&info),
        name: info.name,
        lacks: lacks.map(|&(_, name, what)| (name, what)).collect(),
    }
}

pub(crate) fn is_software(info: &wgpu::AdapterInfo) -> bool {
    info.device_type == DeviceType::Cpu
}

pub(crate) fn driver(info: &wgpu::AdapterInfo) -> String {
    format!("{} {}", info.driver, info.driver_info).trim().to_owned()
}

/// After how many rounds the driver ends the loops of a thread, if it does. Mesa's driver for
/// processors has the number as `LP_MAX_TGSI_LOOP_ITERATIONS`.
fn loop_rounds(info: &wgpu::AdapterInfo) -> Option<u32> {
    (info.driver == "llvmpipe").then_some(65_535)
}

/// Those of the optional features that an adapter has, but for those that the user leaves out.
pub(crate) fn wanted(number: usize, adapter: &wgpu::Adapter) -> Result<F> {
    let optional = OPTIONAL.iter().fold(UNLISTED, |all, (feature, ..)| all | *feature);
    Ok((adapter.features() & optional & !UNUSED) - masked(&id(number))?)
}

/// What kernels do without where it is missing, unnoticed but in their speed and last bits.
const UNLISTED: F = F::TIMESTAMP_QUERY
    .union(F::TIMESTAMP_QUERY_INSIDE_PASSES)
    .union(F::PASSTHROUGH_SHADERS)
    .union(F::PIPELINE_CACHE);

/// Features that wgpu reports and does not implement: in a browser, setting immediates panics.
const UNUSED: F = if cfg!(target_family = "wasm") { F::IMMEDIATES } else { F::empty() };

/// The most bytes of immediates that are asked for: wgpu tracks which of 64 words were set.
const IMMEDIATE_BYTES: u32 = 256;

/// What code may use on a device that was opened with these features, if its driver keeps floats
/// exact.
pub(crate) fn code_features(
    has: F,
    adapter: &wgpu::Adapter,
    limits: &wgpu::Limits,
    float_modes: Option<FloatModes>,
) -> Features {
    let info = &adapter.get_info();
    let same = info.subgroup_min_size == info.subgroup_max_size;
    Features {
        float_modes: float_modes.filter(|_| has.contains(F::PASSTHROUGH_SHADERS)),
        int64: has.contains(F::SHADER_INT64),
        float64: has.contains(F::SHADER_F64),
        float16: has.contains(F::SHADER_F16),
        asks_for_proof: info.backend == wgpu::Backend::BrowserWebGpu,
        subgroup: (same && has.contains(F::SUBGROUP)).then_some(info.subgroup_max_size),
        subgroup_barriers: has.contains(F::SUBGROUP_BARRIER),
        loop_rounds: loop_rounds(info),
        matrices: match has.contains(F::EXPERIMENTAL_COOPERATIVE_MATRIX) {
            true => matrices(&adapter.cooperative_matrix_properties()),
            false => None,
        },
        immediate_bytes: match has.contains(F::IMMEDIATES) {
            true => limits.max_immediate_size.min(IMMEDIATE_BYTES),
            false => 0,
        },
        ..Features::default()
    }
}

/// The largest matrices of f16 that subgroups multiply with sums of f32.
fn matrices(shapes: &[wgpu::CooperativeMatrixProperties]) -> Option<MatrixSize> {
    let (half, single) = (wgpu::CooperativeScalarType::F16, wgpu::CooperativeScalarType::F32);
    let has = |size: &MatrixSize| {
        shapes.iter().any(|shape| {
            let extents = [shape.m_size, shape.n_size, shape.k_size];
            extents == [size.side(); 3] && shape.ab_type == half && shape.cr_type == single
        })
    };
    [MatrixSize::Sixteen, MatrixSize::Eight].into_iter().find(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose_adapters() {
        assert_eq!(parse("wgpu"), Some(Wish::Number(0)));
        assert_eq!(parse("wgpu:3"), Some(Wish::Number(3)));
        assert_eq!(parse("wgpu:dx12"), Some(Wish::Api(Api::Dx12)));
        for wrong in ["", "wgp", "wgpu:", "wgpu:gl", "wgpu:-1", "wgpu0", "wgpu:vulkan:0", "cuda:0"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_adapter_that_is_not_there_is_named_with_those_that_are() {
        let error = pollster::block_on(find("wgpu:9999")).unwrap_err().to_string();
        assert!(error.starts_with("wgpu:9999 is not available: no "), "{error}");
        assert!(error.contains("driver") || error.contains("wgpu:0 is "), "{error}");
    }

    #[test]
    fn a_discrete_gpu_comes_before_software() {
        let info = |kind, api| rank(&wgpu::AdapterInfo::new(kind, api));
        assert!(info(DeviceType::DiscreteGpu, Api::Dx12) < info(DeviceType::Cpu, Api::Vulkan));
        assert!(info(DeviceType::DiscreteGpu, Api::Vulkan) < info(DeviceType::DiscreteGpu, Api::Dx12));
    }
}
