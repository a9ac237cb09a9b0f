//! The backends that this build has: the features `cuda`, `wgpu`, `cpu` and `interp`. No other file
//! depends on which.

use crate::error::{Error, Result};
use crate::sanitize;
use kiln_backend::{Backend, launch_limit_of_environment};

type Opened = Result<Box<dyn Backend>>;

/// Opens a device by name.
///
/// # Errors
/// [`Error::UnknownDevice`] if no backend of Kiln's has such a device, [`Error::MissingBackend`]
/// for a backend that this build lacks, and what the backend refuses.
pub(crate) fn open(name: &str) -> Opened {
    sanitize::check()?;
    let opened = find(name).unwrap_or_else(|| Err(unknown(name)))?;
    if sanitize::substitute().is_some() {
        sanitize::opened(name);
    }
    Ok(opened)
}

/// Opens a device anew, in place of one that is lost. [`open`] says more.
pub(crate) fn open_anew(name: &str) -> Opened {
    gpu_index(name).map_or_else(|| open(name), cuda::open_anew)
}

/// The device of this name, where it is one that must be awaited to be opened without blocking;
/// `None` where a call opens it.
pub(crate) async fn open_later(name: &str) -> Option<Opened> {
    wgpu::open_later(name).await
}

/// The device of this name; `None` if no backend of Kiln's has such a device.
fn find(name: &str) -> Option<Opened> {
    if let Some(index) = gpu_index(name) {
        return Some(cuda::open(index));
    }
    if let Some(opened) = wgpu::open(name) {
        return Some(opened);
    }
    let opened = if name == "cpu" { cpu::open() } else { interp::open(name)? };
    Some(opened.and_then(with_launch_limit))
}

fn unknown(name: &str) -> Error {
    Error::UnknownDevice { name: name.to_owned(), available: available().join(", ") }
}

/// The names of the devices that can be opened here, best first. GPUs whose driver fails are not
/// among them.
pub(crate) fn available() -> Vec<String> {
    let gpus = gpu_count().unwrap_or(0);
    let gpus = (0..gpus).map(|i| format!("cuda:{i}"));
    gpus.chain(wgpu::names(true)).chain(hosts().map(String::from)).collect()
}

/// The name of the best GPU that another backend than NVIDIA's has. Software is none.
pub(crate) fn other_gpu() -> Option<String> {
    wgpu::names(false).into_iter().next()
}

/// The name that a device has of several that it is opened by, and in a program under `kiln
/// sanitize` or `kiln debug` that of the device to open in its place.
pub(crate) fn canonical(name: &str) -> String {
    sanitize::replaced(match name {
        "cuda" => "cuda:0".to_owned(),
        other => wgpu::canonical(other).unwrap_or_else(|| other.to_owned()),
    })
}

/// The number of NVIDIA GPUs.
///
/// # Errors
/// A driver that is there and fails.
pub(crate) fn gpu_count() -> kiln_backend::Result<usize> {
    cuda::count()
}

/// The names of the devices that every machine has, best first.
pub(crate) fn hosts() -> impl Iterator<Item = &'static str> {
    let all = [("cpu", cfg!(feature = "cpu")), ("interp", cfg!(feature = "interp"))];
    all.into_iter().filter_map(|(name, here)| here.then_some(name))
}

fn gpu_index(name: &str) -> Option<usize> {
    name.strip_prefix("cuda:").and_then(|n| n.parse().ok())
}

fn with_launch_limit(backend: Box<dyn Backend>) -> Opened {
    if let Some(limit) = launch_limit_of_environment()? {
        backend.set_launch_limit(limit)?;
    }
    Ok(backend)
}

#[cfg(feature = "cuda")]
mod cuda {
    use super::Opened;
    use kiln_cuda::Cuda;

    pub(super) fn open(index: usize) -> Opened {
        Ok(Box::new(Cuda::open(index)?))
    }

    pub(super) fn open_anew(index: usize) -> Opened {
        Ok(Box::new(Cuda::open_anew(index)?))
    }

    pub(super) fn count() -> kiln_backend::Result<usize> {
        kiln_cuda::device_count()
    }
}

#[cfg(not(feature = "cuda"))]
mod cuda {
    use super::Opened;
    use crate::error::Error;

    pub(super) fn open(_: usize) -> Opened {
        Err(Error::MissingBackend { backend: "cuda" })
    }

    pub(super) use open as open_anew;

    pub(super) fn count() -> kiln_backend::Result<usize> {
        Ok(0)
    }
}

#[cfg(feature = "wgpu")]
mod wgpu {
    use super::Opened;
    use kiln_wgpu::{Wgpu, adapters, is_name};

    pub(super) fn open(name: &str) -> Option<Opened> {
        is_name(name).then(|| Ok(Box::new(Wgpu::open(name)?) as Box<_>))
    }

    pub(super) async fn open_later(name: &str) -> Option<Opened> {
        if !is_name(name) {
            return None;
        }
        let opened = Wgpu::open_later(name).await;
        Some(opened.map(|device| Box::new(device) as Box<_>).map_err(Into::into))
    }

    /// The names of the adapters, best first, with those that are software or without.
    pub(super) fn names(software: bool) -> Vec<String> {
        if cfg!(target_family = "wasm") {
            // What a browser has is known when it is opened.
            return vec!["wgpu:0".to_owned()];
        }
        let wanted = adapters().into_iter().filter(|adapter| software || !adapter.is_software);
        wanted.map(|adapter| adapter.id).collect()
    }

    /// The name with a number, of an adapter that is there.
    pub(super) fn canonical(name: &str) -> Option<String> {
        kiln_wgpu::canonical_name(name)
    }
}

#[cfg(not(feature = "wgpu"))]
mod wgpu {
    use super::Opened;
    use crate::error::Error;

    pub(super) fn open(name: &str) -> Option<Opened> {
        let ours = name == "wgpu" || name.starts_with("wgpu:");
        ours.then_some(Err(Error::MissingBackend { backend: "wgpu" }))
    }

    pub(super) async fn open_later(_: &str) -> Option<Opened> {
        None
    }

    pub(super) fn names(_: bool) -> Vec<String> {
        Vec::new()
    }

    pub(super) fn canonical(_: &str) -> Option<String> {
        None
    }
}

#[cfg(feature = "cpu")]
mod cpu {
    use super::Opened;

    pub(super) fn open() -> Opened {
        Ok(Box::new(kiln_cpu::CpuBackend::new()))
    }
}

#[cfg(not(feature = "cpu"))]
mod cpu {
    use super::Opened;
    use crate::error::Error;

    pub(super) fn open() -> Opened {
        Err(Error::MissingBackend { backend: "cpu" })
    }
}

#[cfg(feature = "interp")]
mod interp {
    use super::Opened;
    use crate::{debug, sanitize};
    use kiln_interp::{Interp, Options};

    pub(super) fn open(name: &str) -> Option<Opened> {
        let mut device = Interp::new(Options::named(name)?);
        if sanitize::device().is_some() {
            device = device.on_fault(|fault| sanitize::report(&fault.to_string()));
        }
        Some(debug::session().map(|session| match session {
            Some(session) => Box::new(device.debugged(session)) as Box<_>,
            None => Box::new(device) as Box<_>,
        }))
    }
}

#[cfg(not(feature = "interp"))]
mod interp {
    use super::Opened;
    use crate::error::Error;

    pub(super) fn open(name: &str) -> Option<Opened> {
        let ours = name == "interp" || name.starts_with("interp:");
        ours.then_some(Err(Error::MissingBackend { backend: "interp" }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs in builds of any features: what is there opens, what is not there is named with its
    /// feature.
    #[test]
    fn a_backend_is_there_or_named_as_missing() {
        for (name, feature, here) in [
            ("cpu", "cpu", cfg!(feature = "cpu")),
            ("interp:fast", "interp", cfg!(feature = "interp")),
            ("cuda:0", "cuda", cfg!(feature = "cuda")),
            ("wgpu:0", "wgpu", cfg!(feature = "wgpu")),
        ] {
            let opened = find(name).map(|opened| opened.map(drop));
            match opened {
                Some(Err(Error::MissingBackend { backend })) => assert!(!here && backend == feature),
                other => assert!(here && other.is_some(), "{name}: {other:?}"),
            }
        }
        assert!(find("abacus").is_none());
        assert_eq!(hosts().any(|name| name == "cpu"), cfg!(feature = "cpu"));
        assert_eq!(
            Error::MissingBackend { backend: "cuda" }.to_string(),
            "this build has no backend `cuda`: enable the feature `cuda` of Kiln's crate"
        );
    }
}
