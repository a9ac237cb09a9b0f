//! The programs of packages that a device has loaded.

use super::file::{Key, Package, PackagedProgram};
use crate::digest;
use crate::error::{Error, Result};
use crate::sanitize;
use kiln_backend::{Artifacts, Backend, PackageTarget, Places, Program};
use kiln_ir::Kernel;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

/// Names files, as in a list of folders, that every device loads as it is opened.
const PACKAGE_VARIABLE: &str = "KILN_PACKAGE";
/// `1` to refuse kernels that are in no package.
const ONLY_VARIABLE: &str = "KILN_PACKAGE_ONLY";

/// The programs that a device has of packages.
#[derive(Default)]
pub(crate) struct Packages {
    programs: RwLock<HashMap<Key, Found>>,
    /// Whether there are some: most devices have none.
    is_used: AtomicBool,
    only: AtomicBool,
    loaded: AtomicU64,
    missing: AtomicU64,
    refused: AtomicU64,
}

/// A program of a package, by its number.
#[derive(Clone)]
struct Found {
    package: Arc<Package>,
    number: usize,
}

/// What a device has of packages: [`Device::package_stats`](crate::Device::package_stats).
///
/// ```
/// use kiln_runtime::{Device, PackageStats};
/// assert_eq!(Device::open_apart("cpu")?.package_stats(), PackageStats::default());
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PackageStats {
    /// Programs for this device in the packages that were loaded.
    pub programs: usize,
    /// Kernels that were taken from them.
    pub loaded: u64,
    /// Kernels that are in none of them.
    pub missing: u64,
    /// Kernels that are in one whose program could not be loaded; each was compiled, where that is
    /// allowed.
    pub refused: u64,
}

impl Packages {
    /// Adds the programs of a package that are for the device.
    ///
    /// # Errors
    /// [`Error::Package`] if none is, or if they were made by another version, or for another
    /// processor.
    pub(crate) fn add(&self, package: Arc<Package>, backend: &dyn Backend) -> Result<()> {
        let refuse = |reason| Error::Package { package: package.name().to_owned(), reason };
        let id = &backend.properties().id;
        let own = backend.artifacts().and_then(Artifacts::package_target);
        let own = own.ok_or_else(|| refuse(format!("`{id}` is a device that takes no packages")))?;
        check(&package, &own, id).map_err(refuse)?;
        let mut programs = self.programs.write().unwrap_or_else(PoisonError::into_inner);
        for (number, program) in package.programs().iter().enumerate() {
            if program.target == own {
                programs.insert(program.key, Found { package: package.clone(), number });
            }
        }
        drop(programs);
        self.is_used.store(true, Relaxed);
        Ok(())
    }

    /// Whether kernels that are in no package are refused.
    pub(crate) fn require(&self, only: bool) {
        self.only.store(only, Relaxed);
    }

    pub(crate) fn are_required(&self) -> bool {
        self.only.load(Relaxed)
    }

    /// The program of a kernel; `None` where it is in no package, and to be compiled.
    ///
    /// # Errors
    /// Where nothing may be compiled: [`Error::NotPackaged`] for a kernel that is in no package,
    /// [`Error::Package`] for a program that cannot be loaded.
    pub(crate) fn find(&self, backend: &dyn Backend, kernel: &Kernel) -> Result<Option<Arc<dyn Program>>> {
        let only = self.only.load(Relaxed);
        if !only && !self.is_used.load(Relaxed) {
            return Ok(None);
        }
        let key = digest::of_kernel(kernel);
        let found = self.programs.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let Some(Found { package, number }) = found else {
            self.missing.fetch_add(1, Relaxed);
            if !only {
                return Ok(None);
            }
            let (kernel, device) = (kernel.name.clone(), backend.properties().id.clone());
            return Err(Error::NotPackaged { kernel, device, hint: self.hint(backend) });
        };
        let program = &package.programs()[number];
        match load(backend, &package, program, kernel) {
            Ok(program) => {
                self.loaded.fetch_add(1, Relaxed);
                Ok(Some(program))
            }
            Err(reason) => {
                self.refused.fetch_add(1, Relaxed);
                let reason = format!("its program of kernel `{}` cannot be loaded: {reason}", kernel.name);
                let package = package.name().to_owned();
                if only { Err(Error::Package { package, reason }) } else { Ok(None) }
            }
        }
    }

    /// What to do about a kernel that is in no package.
    fn hint(&self, backend: &dyn Backend) -> &'static str {
        if backend.artifacts().and_then(Artifacts::package_target).is_none() {
            "this device takes no packages: let it compile, or use `cuda`, `cpu` or `wgpu` through Vulkan"
        } else if self.stats().programs == 0 {
            "no package with programs for this device is loaded: name one in KILN_PACKAGE, or load it"
        } else {
            "make the package from a run that uses the kernel with arguments of the same types, ranks and \
             alignment, and the same host values"
        }
    }

    pub(crate) fn stats(&self) -> PackageStats {
        PackageStats {
            programs: self.programs.read().unwrap_or_else(PoisonError::into_inner).len(),
            loaded: self.loaded.load(Relaxed),
            missing: self.missing.load(Relaxed),
            refused: self.refused.load(Relaxed),
        }
    }
}

fn load(
    backend: &dyn Backend,
    package: &Package,
    program: &PackagedProgram,
    kernel: &Kernel,
) -> std::result::Result<Arc<dyn Program>, String> {
    let (code, places) = package.code(program);
    let places = Places::since(places, kernel).map_err(|reason| format!("its places: {reason}"))?;
    let artifacts = backend.need_artifacts().map_err(|error| error.to_string())?;
    artifacts.load_packaged(code, &places).map_err(|error| error.to_string())
}

/// Whether a package has programs for a device.
fn check(package: &Package, own: &PackageTarget, id: &str) -> std::result::Result<(), String> {
    let targets = package.targets();
    if targets.contains(&own) {
        return Ok(());
    }
    let same_name: Vec<_> = targets.iter().filter(|target| target.name == own.name).collect();
    if same_name.is_empty() {
        let mut names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        names.dedup();
        let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        return Err(format!("it is for {names}, and `{id}` is {}", own.name));
    }
    if let Some(other) = same_name.iter().find(|target| target.maker == own.maker) {
        let (needs, has) = (without(&other.needs, &own.needs), without(&own.needs, &other.needs));
        return Err(format!("its code for {} needs {needs}; `{id}` has {has}", own.name));
    }
    let makers: Vec<&str> = same_name.iter().map(|target| target.maker.as_str()).collect();
    Err(format!(
        "its code for {} was made by {}, and this program has {}; make it with the same version",
        own.name,
        makers.join(" and "),
        own.maker
    ))
}

/// Those of a list of needs that are not in another one; all, if that leaves none.
fn without<'a>(needs: &'a str, others: &str) -> Cow<'a, str> {
    let known: Vec<&str> = others.split(", ").collect();
    let rest: Vec<&str> = needs.split(", ").filter(|need| !known.contains(need)).collect();
    if rest.is_empty() { Cow::Borrowed(needs) } else { Cow::Owned(rest.join(", ")) }
}

/// What the environment says of packages, for a device that is opened.
///
/// A device whose backend a package has nothing of goes without it.
///
/// # Errors
/// For a file that cannot be read or is no package, and for one with code of this device's backend
/// that this device cannot run.
pub(crate) fn of_environment(backend: &dyn Backend) -> Result<Packages> {
    let packages = Packages::default();
    if sanitize::substitute().is_some() {
        return Ok(packages);
    }
    match std::env::var_os(ONLY_VARIABLE) {
        None => {}
        Some(value) if value.is_empty() || value == "0" => {}
        Some(value) if value == "1" => packages.require(true),
        Some(value) => {
            let reason = format!("`{}` is neither 1 nor 0", value.to_string_lossy());
            return Err(Error::Package { package: ONLY_VARIABLE.to_owned(), reason });
        }
    }
    let Some(paths) = std::env::var_os(PACKAGE_VARIABLE) else { return Ok(packages) };
    let Some(own) = backend.artifacts().and_then(Artifacts::package_target) else { return Ok(packages) };
    let backend_of = |target: &PackageTarget| target.maker.split(' ').next().map(str::to_owned);
    for path in std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()) {
        let package = Package::open(path)?;
        if package.targets().into_iter().any(|target| backend_of(target) == backend_of(&own)) {
            packages.add(Arc::new(package), backend)?;
        }
    }
    Ok(packages)
}
