//! Finding, loading and starting the driver.

use super::error::{CudaError, Result};
use super::ffi::{Api, Status};
use super::version::{CudaVersion, PtxVersion};
use libloading::Library;
use std::error::Error;
use std::ffi::c_int;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::OnceLock;

/// Where the driver's library may be. The last is for WSL distributions without the directory in
/// their loader's path.
#[cfg(not(windows))]
const LIBRARY_NAMES: &[&str] = &["libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"];
/// Where the driver's library may be.
#[cfg(windows)]
const LIBRARY_NAMES: &[&str] = &["nvcuda.dll"];

/// What the driver opens on Linux. A process that may not open them gets the error that there is no
/// GPU, which is no help.
const DEVICE_NODES: &[&str] = &["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"];

/// The driver, loaded and started.
pub struct Driver {
    api: Api,
    version: CudaVersion,
    ptx: PtxVersion,
    devices: usize,
}

impl Driver {
    /// The process's driver. The first call loads it; the outcome, failure included, holds for the
    /// life of the process.
    ///
    /// # Errors
    /// [`CudaError::LibraryNotFound`], [`CudaError::LibraryNotLoaded`], [`CudaError::StubLibrary`],
    /// [`CudaError::DriverTooOld`], [`CudaError::SymbolMissing`], [`CudaError::NoDevice`],
    /// [`CudaError::PermissionDenied`] or [`CudaError::InitFailed`].
    ///
    /// ```
    /// match kiln_cuda::driver::Driver::get() {
    ///     Ok(driver) => println!("CUDA {}, {} GPUs", driver.version(), driver.device_count()),
    ///     Err(error) => println!("no GPU: {error}"),
    /// }
    /// ```
    pub fn get() -> Result<&'static Driver> {
        static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();
        DRIVER.get_or_init(|| Driver::load(LIBRARY_NAMES)).as_ref().map_err(Clone::clone)
    }

    fn load(names: &[&str]) -> Result<Driver> {
        let library = open(names)?;
        let version = version_of(&library)?;
        let (true, Some(ptx)) = (version >= CudaVersion::OLDEST, PtxVersion::newest_for(version)) else {
            return Err(CudaError::DriverTooOld { found: version });
        };
        let api = Api::load(library)?;
        // SAFETY: no preconditions.
        unsafe { api.cuInit(0) }.map_err(explain_init)?;
        let mut devices = 0;
        // SAFETY: `devices` is writable.
        unsafe { api.cuDeviceGetCount(&mut devices) }.map_err(explain_init)?;
        match usize::try_from(devices) {
            Ok(devices) if devices > 0 => Ok(Driver { api, version, ptx, devices }),
            _ => Err(no_device(DEVICE_NODES)),
        }
    }

    /// The newest CUDA version the driver supports.
    pub fn version(&self) -> CudaVersion {
        self.version
    }

    /// The newest PTX version its compiler accepts.
    pub fn ptx_version(&self) -> PtxVersion {
        self.ptx
    }

    /// How many GPUs this process sees: at least one.
    pub fn device_count(&self) -> usize {
        self.devices
    }

    /// The table of entry points, for what this layer does not wrap.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The version on the driver's package, such as `580.65.06`, where the system reports it.
    pub fn release(&self) -> Option<String> {
        release_in(&std::fs::read_to_string("/proc/driver/nvidia/version").ok()?)
    }
}

/// Opens the first library of `names` that loads.
fn open(names: &[&str]) -> Result<Library> {
    let (mut reasons, mut absent) = (Vec::with_capacity(names.len()), true);
    for name in names {
        // SAFETY: loading the driver runs its initializers, which are NVIDIA's and expect to be run
        // this way by any program.
        match unsafe { Library::new(*name) } {
            Ok(library) => return Ok(library),
            Err(error) => {
                let (reason, missing) = refused(name, &error);
                absent &= missing;
                reasons.push(reason);
            }
        }
    }
    let reason = reasons.join("; ");
    Err(if absent { CudaError::LibraryNotFound { reason } } else { CudaError::LibraryNotLoaded { reason } })
}

/// The loader's own words, which are in the source of the error, or less where there is only one
/// thing to say; and whether there is no such library at all.
fn refused(name: &str, error: &libloading::Error) -> (String, bool) {
    let words = error.source().map_or_else(|| format!("{name}: {error}"), ToString::to_string);
    // A library that is there and needs another one which is not fails with the name of the other.
    let missing = if cfg!(windows) {
        // ERROR_MOD_NOT_FOUND
        words.contains("126")
    } else {
        words.starts_with(name) && words.ends_with("No such file or directory")
    };
    if missing { (format!("no {name}"), true) } else { (words, false) }
}

/// Queries a library's version before anything else: an old one lacks entry points, and that it is
/// old says more than which.
fn version_of(library: &Library) -> Result<CudaVersion> {
    const SYMBOL: &str = "cuDriverGetVersion";
    // SAFETY: the C signature of this function, which may be called before the driver is started.
    let function = unsafe { library.get::<unsafe extern "system" fn(*mut c_int) -> Status>(SYMBOL) }
        .map_err(|_| CudaError::SymbolMissing { symbol: SYMBOL })?;
    let mut number = 0;
    // SAFETY: `number` is writable.
    match unsafe { function(&mut number) } {
        Status::STUB_LIBRARY => Err(CudaError::StubLibrary),
        _ => Ok(CudaVersion::from_number(number)),
    }
}

/// Turns the failure of a start into what to do about it.
fn explain_init(error: CudaError) -> CudaError {
    let CudaError::Call { code, name, description, .. } = error else { return error };
    let advice = match Status(code) {
        Status::STUB_LIBRARY => return CudaError::StubLibrary,
        Status::NO_DEVICE => return no_device(DEVICE_NODES),
        Status::OPERATING_SYSTEM | Status::NOT_PERMITTED => match unopenable(DEVICE_NODES) {
            Some(path) => return CudaError::PermissionDenied { path },
            None => {
                "a container or sandbox may forbid what the driver needs; start it with access to the GPU's device nodes"
            }
        },
        Status::SYSTEM_NOT_READY => {
            "start the fabric manager (`systemctl start nvidia-fabricmanager`) and try again"
        }
        Status::SYSTEM_DRIVER_MISMATCH => {
            "the library and the kernel module are of different versions; restart the computer after a driver update"
        }
        Status::COMPAT_NOT_SUPPORTED => {
            "the CUDA compatibility package works on data center GPUs only; remove it or update the driver itself"
        }
        _ => {
            "see that `nvidia-smi` works; load the kernel modules (`nvidia-modprobe -u -c 0`) or restart the computer"
        }
    };
    CudaError::InitFailed { code, name, description, advice }
}

/// Why the driver may see no GPU.
fn no_device(nodes: &[&str]) -> CudaError {
    if let Some(path) = unopenable(nodes) {
        return CudaError::PermissionDenied { path };
    }
    let advice = match std::env::var("CUDA_VISIBLE_DEVICES") {
        Ok(value) => format!("CUDA_VISIBLE_DEVICES is set to `{value}`; unset it, or name a GPU that exists"),
        Err(_) if cfg!(target_os = "linux") && !nodes.iter().any(|node| Path::new(node).exists()) => {
            "the kernel module is not loaded (`nvidia-modprobe`), or the container was started without its GPUs (`--gpus all`)".to_owned()
        }
        Err(_) => "see that `nvidia-smi` lists one".to_owned(),
    };
    CudaError::NoDevice { advice }
}

/// The first of the paths that exists and may not be opened.
fn unopenable(paths: &[&str]) -> Option<String> {
    let denied = |path: &&&str| {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        opened.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    };
    paths.iter().find(denied).map(|path| (*path).to_owned())
}

/// The version in the kernel module's own description, its first word that looks like one.
fn release_in(description: &str) -> Option<String> {
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    description.split_whitespace().find(is_version).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_an_error_value() {
        let error = Driver::load(&["libno-such-driver.so.1", "libno-such-driver.so"]).err();
        let Some(CudaError::LibraryNotFound { reason }) = error else { panic!("{error:?}") };
        for name in ["libno-such-driver.so.1", "libno-such-driver.so"] {
            assert!(reason.split("; ").any(|words| words.contains(name)), "{reason}");
        }
        let error = CudaError::LibraryNotFound { reason };
        assert!(error.is_absence());
        let text = error.to_string();
        assert!(text.contains("install it, version 525 or newer"), "{text}");
    }

    /// A file of the driver's name that is none: there is a driver, and it fails.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_damaged_library_is_not_absent() {
        let path = std::env::temp_dir().join(format!("kiln-damaged-driver-{}.so", std::process::id()));
        std::fs::write(&path, "no library").unwrap();
        let error = Driver::load(&["libno-such-driver.so.1", path.to_str().unwrap()]).err().unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(matches!(error, CudaError::LibraryNotLoaded { .. }) && !error.is_absence(), "{error:?}");
    }

    #[test]
    fn no_names_is_an_error_value() {
        assert!(matches!(Driver::load(&[]), Err(CudaError::LibraryNotFound { .. })));
    }

    /// A library that is no driver: the C library of this system.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_foreign_library_is_an_error_value() {
        let error = Driver::load(&["libc.so.6"]).err();
        assert_eq!(error, Some(CudaError::SymbolMissing { symbol: "cuDriverGetVersion" }));
    }

    /// With a driver or without one, asking twice gives the same answer and does not panic.
    #[test]
    fn the_outcome_is_remembered() {
        match (Driver::get(), Driver::get()) {
            (Ok(first), Ok(second)) => {
                assert!(std::ptr::eq(first, second));
                assert!(first.device_count() > 0 && first.version() >= CudaVersion::OLDEST);
            }
            (Err(first), Err(second)) => assert_eq!(first, second),
            _ => panic!("two outcomes"),
        }
    }

    #[test]
    fn init_failures_say_what_to_do() {
        let explain = |code| explain_init(CudaError::from_status("cuInit", Status(code), "NAME", "text"));
        assert_eq!(explain(34), CudaError::StubLibrary);
        for (code, word) in
            [(802, "fabric manager"), (803, "restart"), (804, "compatibility"), (999, "nvidia-smi")]
        {
            let text = explain(code).to_string();
            assert!(text.contains(word) && text.contains(&code.to_string()), "{text}");
        }
        // Not the driver's own failures: left as they are.
        assert!(matches!(explain(700), CudaError::ContextLost { .. }));
    }

    #[test]
    fn no_gpu_says_why() {
        let error = no_device(&["/nonexistent/nvidia0"]);
        assert!(matches!(&error, CudaError::NoDevice { advice } if !advice.is_empty()), "{error:?}");
        assert!(error.is_absence());
    }

    #[test]
    fn versions_in_descriptions() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs)\nGCC version: gcc 12.2.0";
        assert_eq!(release_in(open).as_deref(), Some("580.65.06"));
        assert_eq!(release_in("NVRM version: unknown"), None);
    }
}
