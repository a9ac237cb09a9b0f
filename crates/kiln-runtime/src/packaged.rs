//! Kernels of a device that come from packages.

use crate::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::package::{Package, PackageStats};
use crate::sanitize;
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

impl Device {
    /// Loads a package, a file that `kiln package` has made: kernels that are found in it are not
    /// compiled. The environment variable `KILN_PACKAGE` does this for every device as it is
    /// opened.
    ///
    /// A kernel is still recorded by its first launch, which is what it is found by: the digest of
    /// its IR, without places in the source. So a package remains right when unrelated lines move,
    /// and faults name the lines of today. It has the specializations of the run that it was made
    /// from; a kernel that is launched on arguments of another type, rank, alignment or host value
    /// is another one, which is compiled unless [`require_packages`](Self::require_packages) says
    /// otherwise.
    ///
    /// ```no_run
    /// use kiln_runtime::Device;
    /// let device = Device::open("cuda:0")?;
    /// // SAFETY: the file is part of this program's release.
    /// unsafe { device.load_package("kernels.kiln")? };
    /// device.require_packages(true);
    /// // … launches …
    /// println!("{} kernels came from the package", device.package_stats().loaded);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Safety
    /// The package contains machine code, which runs in this process: it is as `kiln package` has
    /// made it. A digest tells files that were damaged, not those that somebody made to do harm.
    ///
    /// # Errors
    /// [`Error::File`] where it cannot be read; [`Error::Package`] where it is no package, is
    /// damaged, was made by another version of Kiln, or has nothing for this device: it has another
    /// compute capability, or lacks instructions of the processor that it was made for.
    pub unsafe fn load_package(&self, path: impl AsRef<Path>) -> Result<()> {
        self.add_package(Package::open(path)?)
    }

    /// As [`load_package`](Self::load_package), of bytes that are there already, such as those of
    /// `include_bytes!`.
    ///
    /// ```
    /// use kiln_backend::Backend;
    /// use kiln_lang::prelude::*;
    /// use kiln_runtime::{Device, DiskCache, PackageBuilder, Tensor};
    ///
    /// #[kernel(crate = kiln_runtime)]
    /// fn double(x: &mut Tensor<f32, 1>) {
    ///     let tile = x.tile(program_id(0) * 4, 4);
    ///     tile.store(tile.load(0.0) * 2.0);
    /// }
    ///
    /// // What `kiln package` does.
    /// let cpu = kiln_cpu::CpuBackend::new();
    /// let device = Device::with_backend(Box::new(cpu), DiskCache::none());
    /// let mut x = device.tensor(&[1.0f32, 2.0, 3.0], [3])?;
    /// let kernel = double(&mut x).ir()?;
    /// let target = device.backend().need_artifacts()?.package_target().expect("it takes packages");
    /// let code = device.backend().compile(&kernel)?.artifact.expect("it is kept");
    /// let mut builder = PackageBuilder::default();
    /// builder.add(&kernel, &target, &code);
    ///
    /// // SAFETY: the bytes were just made.
    /// unsafe { device.load_package_bytes(builder.finish())? };
    /// device.require_packages(true);
    /// double(&mut x).launch(&device)?;
    /// assert_eq!(x.to_vec()?, [2.0, 4.0, 6.0]);
    /// assert_eq!(device.package_stats().loaded, 1);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Safety
    /// As of [`load_package`](Self::load_package).
    ///
    /// # Errors
    /// As of [`load_package`](Self::load_package), except for [`Error::File`].
    pub unsafe fn load_package_bytes(&self, bytes: impl Into<Cow<'static, [u8]>>) -> Result<()> {
        self.add_package(Package::from_bytes(bytes)?)
    }

    /// Under `kiln sanitize` and `kiln debug` the device is the interpreter, which takes none: a
    /// program that loads packages runs there without them, as it is.
    fn add_package(&self, package: Package) -> Result<()> {
        if sanitize::substitute().is_some() {
            return Ok(());
        }
        self.packages().add(Arc::new(package), self.backend())
    }

    /// Whether kernels that are in no package of this device are refused from now on, by
    /// [`Error::NotPackaged`], instead of compiled. The environment variable `KILN_PACKAGE_ONLY=1`
    /// does this for every device as it is opened.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_runtime::{Device, Error, Tensor};
    ///
    /// #[kernel(crate = kiln_runtime)]
    /// fn double(x: &mut Tensor<f32, 1>) {
    ///     let tile = x.tile(program_id(0) * 4, 4);
    ///     tile.store(tile.load(0.0) * 2.0);
    /// }
    ///
    /// let device = Device::open_apart("cpu")?;
    /// device.require_packages(true);
    /// let error = double(&mut device.zeros([8])?).launch(&device).unwrap_err();
    /// assert!(matches!(error, Error::NotPackaged { .. }), "{error}");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn require_packages(&self, required: bool) {
        self.packages().require(required && sanitize::substitute().is_none());
    }

    /// What this device has of packages, and how many kernels came from them.
    ///
    /// ```
    /// let device = kiln_runtime::Device::open("cpu")?;
    /// println!("{} kernels came from packages", device.package_stats().loaded);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn package_stats(&self) -> PackageStats {
        self.packages().stats()
    }
}
