//! Compiled kernels as bytes: the kernel's text, and what the driver made of it.
//!
//! A driver's own code comes back from wgpu as the data of a pipeline cache. There is one for each
//! kernel, so that Kiln's folder of programs has one file for each, whose digest tells damaged
//! ones, and nothing grows but by kernels. The text is compiled to a module again, which takes
//! milliseconds; what takes long is the driver's part.

use super::backend::Wgpu;
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
use super::code::Code;
use super::gpu::{Gpu, refused};
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
use super::interface::Interface;
use super::late::Refusal;
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
use super::packaged::Packaged;
use super::passes;
use super::program::{WgpuProgram, report_of};
use kiln_backend::{Artifacts, Backend, Compiled, Error, Program, Result, Stages};
#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
use kiln_backend::{PackageTarget, Places};
use kiln_ir::Kernel;
use std::sync::Arc;
use web_time::Instant;

impl Wgpu {
    /// Compiles a kernel, with what the driver made of it before.
    pub(super) fn build(&self, kernel: &Kernel, made_before: Option<&[u8]>) -> Result<Compiled> {
        let start = Instant::now();
        let module = passes::module(&self.gpu, kernel)?;
        let passes = start.elapsed();
        let report = report_of(kernel, &module).map(|report| self.tables.number(report));
        let cache = pipeline_cache(&self.gpu, made_before)?;
        let program = WgpuProgram::new(&self.gpu, kernel, module, report, cache.as_ref())?;
        // The driver assembles and loads as it makes the pipeline.
        let stages = Stages { passes, assembly: start.elapsed() - passes, ..Stages::default() };
        let data = if made_before.is_some() { None } else { cache.and_then(|cache| cache.get_data()) };
        let artifact = data.map(|data| encode(kernel, &data));
        Ok(Compiled { program: Arc::new(program), artifact, stages })
    }
}

#[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
impl Wgpu {
    /// Compiles a kernel for packages of adapters like this one, as [`package_target`] names them.
    /// The driver compiles it where it is loaded.
    ///
    /// ```no_run
    /// use kiln_backend::Backend;
    /// let device = kiln_wgpu::Wgpu::open("wgpu")?;
    /// let kernel = kiln_ir::parse("kernel @nothing() tile {\n}\n").expect("it is a kernel");
    /// let code = device.compile_for_package(&kernel)?;
    /// let target = (&device as &dyn Backend).need_artifacts()?.package_target();
    /// assert!(!code.is_empty() && target.is_some_and(|target| target.name == "wgpu"));
    /// # Ok::<(), kiln_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`compile`](Backend::compile) but for the driver's, and
    /// [`Error::Unavailable`] of an adapter that takes no SPIR-V.
    ///
    /// [`package_target`]: Artifacts::package_target
    pub fn compile_for_package(&self, kernel: &Kernel) -> Result<Vec<u8>> {
        let module = passes::module(&self.gpu, kernel)?;
        let (interface, report) = (Interface::of(kernel, &module), report_of(kernel, &module));
        match Code::of(module)? {
            Code::Words(words) => Ok(Packaged { interface, report, words }.encode()),
            Code::Module(_) => Err(Error::Unavailable {
                device: self.gpu.id.clone(),
                reason: "packages have SPIR-V, and the adapter takes none".to_owned(),
                hint: "Package for an adapter of Vulkan.".to_owned(),
            }),
        }
    }

    /// The target of an adapter that takes SPIR-V: all that its code depends on.
    fn target(&self) -> Option<PackageTarget> {
        let Gpu { features, limits, .. } = &self.gpu;
        features.float_modes?;
        let mut needs = features.needs();
        needs.push(format!("{} threads of a block", limits.max_compute_invocations_per_workgroup));
        needs.push(format!("{} bytes of shared memory", limits.max_compute_workgroup_storage_size));
        let maker = format!("kiln-wgpu {} {}", env!("CARGO_PKG_VERSION"), env!("KILN_SOURCE_DIGEST"));
        Some(PackageTarget { name: "wgpu".to_owned(), needs: needs.join(", "), maker })
    }

    fn load_package_code(&self, artifact: &[u8], places: &Places) -> Result<Arc<dyn Program>> {
        let mut packaged = Packaged::decode(artifact).map_err(|reason| self.damaged(reason))?;
        packaged.move_to(places);
        self.gpu.check()?;
        let Packaged { interface, report, words } = packaged;
        let report = report.map(|report| self.tables.number(report));
        let program = WgpuProgram::of(&self.gpu, interface, Code::Words(words), report, None)?;
        Ok(Arc::new(program))
    }
}

impl Wgpu {
    fn damaged(&self, why: &str) -> Error {
        Error::Driver {
            call: format!("{}: loading a compiled kernel", self.gpu.id),
            code: "damaged bytes".into(),
            message: format!("{why}; compile the kernel again"),
        }
    }
}

impl Artifacts for Wgpu {
    fn artifact_key(&self) -> String {
        let (version, info) = (env!("CARGO_PKG_VERSION"), &self.gpu.info);
        let (features, driver) = (self.gpu.features, &self.properties().driver);
        let (vendor, device) = (info.vendor, info.device);
        format!("kiln-wgpu {version}, {} {vendor:x}:{device:x}, driver {driver}, {features:?}", info.name)
    }

    fn load(&self, artifact: &[u8]) -> Result<Arc<dyn Program>> {
        let damaged = || self.damaged("they are no compiled kernel");
        let (text, data) = decode(artifact).ok_or_else(damaged)?;
        let kernel = kiln_ir::parse(text).map_err(|_| damaged())?;
        self.gpu.check()?;
        self.build(&kernel, Some(data)).map(|compiled| compiled.program)
    }

    #[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
    fn package_target(&self) -> Option<PackageTarget> {
        self.target()
    }

    #[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
    fn load_packaged(&self, artifact: &[u8], places: &Places) -> Result<Arc<dyn Program>> {
        self.load_package_code(artifact, places)
    }
}

/// A cache for the pipelines of one kernel, of an adapter that has such caches.
fn pipeline_cache(gpu: &Gpu, data: Option<&[u8]>) -> Result<Option<wgpu::PipelineCache>> {
    if !gpu.has_pipeline_caches() {
        return Ok(None);
    }
    let descriptor = wgpu::PipelineCacheDescriptor { label: Some("kiln"), data, fallback: true };
    // SAFETY: the data is what wgpu gave for this adapter and this driver, as the key of the
    // artifact says; the digest of its file was checked as it was read, and wgpu and the driver
    // check its header once more.
    let make = || unsafe { gpu.device.create_pipeline_cache(&descriptor) };
    let made = gpu.scoped(make, |refusal| refused("create_pipeline_cache", message(refusal)))?;
    Ok(Some(made))
}

fn message(refusal: Refusal) -> String {
    match refusal {
        Refusal::OutOfMemory => "the driver ran out of memory".to_owned(),
        Refusal::Refused(message) => message,
    }
}

/// The length of the text in 8 bytes, the text with its places in the source, and the data.
fn encode(kernel: &Kernel, data: &[u8]) -> Vec<u8> {
    let text = format!("{kernel:#}");
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

fn decode(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (text, data) = rest.split_at_checked(length)?;
    Some((std::str::from_utf8(text).ok()?, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_off_is_damaged() {
        let kernel = kiln_ir::parse("kernel @k() tile {\n}").unwrap();
        let bytes = encode(&kernel, &[1, 2, 3]);
        let (text, data) = decode(&bytes).unwrap();
        assert_eq!((text, data), (format!("{kernel:#}").as_str(), &[1u8, 2, 3][..]));
        for length in 0..bytes.len() - 3 {
            assert_eq!(decode(&bytes[..length]), None, "{length}");
        }
        assert_eq!(decode(&[255; 20]), None);
    }
}
