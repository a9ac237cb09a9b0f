//! The code of a kernel, as it is kept while the kernel may be launched, and as wgpu takes it.

use super::gpu::Gpu;
use super::interface::Interface;
use crate::module::Module;
use kiln_backend::Result;
use naga::{AddressSpace, StorageAccess};
use std::borrow::Cow;

/// The code of a kernel.
pub(crate) enum Code {
    /// A module, which wgpu writes for the driver.
    Module(Box<Module>),
    /// SPIR-V, which goes to a driver of Vulkan as it is.
    #[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
    Words(Vec<u32>),
}

/// Code as wgpu takes it.
pub(crate) enum Source {
    Shader(Box<wgpu::ShaderSource<'static>>),
    #[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
    Words(Vec<u32>),
}

impl Code {
    /// That of a module.
    pub(crate) fn of(module: Module) -> Result<Code> {
        #[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
        if let Some(finishing) = module.finishing {
            return module.finished(&module.naga, finishing).map(Code::Words);
        }
        Ok(Code::Module(Box::new(module)))
    }

    /// What wgpu takes, with all storage buffers writable if it says so.
    pub(crate) fn source(&self, all_writable: bool) -> Result<Source> {
        match self {
            Code::Module(module) => {
                let mut naga = module.naga.clone();
                for (_, variable) in naga.global_variables.iter_mut().filter(|_| all_writable) {
                    if let AddressSpace::Storage { access } = &mut variable.space {
                        *access = StorageAccess::LOAD | StorageAccess::STORE;
                    }
                }
                shader(module, naga).map(|shader| Source::Shader(Box::new(shader)))
            }
            #[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
            Code::Words(words) => match all_writable {
                true => crate::spirv::with_writable_buffers(words).map(Source::Words),
                false => Ok(Source::Words(words.clone())),
            },
        }
    }
}

impl Source {
    /// Hands it to wgpu.
    pub(crate) fn shader(self, gpu: &Gpu, of: &Interface) -> wgpu::ShaderModule {
        let label = Some(of.kernel.as_str());
        match self {
            Source::Shader(source) => {
                let descriptor = wgpu::ShaderModuleDescriptor { label, source: *source };
                gpu.device.create_shader_module(descriptor)
            }
            #[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
            Source::Words(words) => {
                // Metal alone asks for the size of a workgroup.
                let entry = wgpu::PassthroughShaderEntryPoint {
                    name: of.entry.as_str().into(),
                    workgroup_size: (0, 0, 0),
                };
                let descriptor = wgpu::ShaderModuleDescriptorPassthrough {
                    label,
                    entry_points: Cow::Borrowed(std::slice::from_ref(&entry)),
                    spirv: Some(words.into()),
                    ..Default::default()
                };
                // SAFETY: naga wrote the words, of a module that its validator has accepted; what
                // was added (`spirv/mod.rs`) are modes that the driver has and decorations. Checks
                // of indices are left out only where Kiln's code has its own. Words of a package
                // are such words: who loads it vouches for the file, and a checksum tells damaged
                // ones.
                unsafe { gpu.device.create_shader_module_passthrough(descriptor) }
            }
        }
    }
}

/// A module of naga's as wgpu takes it: as it is.
#[cfg(not(target_family = "wasm"))]
fn shader(_: &Module, naga: naga::Module) -> Result<wgpu::ShaderSource<'static>> {
    Ok(wgpu::ShaderSource::Naga(Cow::Owned(naga)))
}

/// A module of naga's as a browser takes it: as text. It may differ from the one that was validated
/// in how buffers may be accessed.
#[cfg(target_family = "wasm")]
fn shader(module: &Module, naga: naga::Module) -> Result<wgpu::ShaderSource<'static>> {
    let text = naga::back::wgsl::write_string(&naga, &module.info, naga::back::wgsl::WriterFlags::empty());
    let text = text.map_err(|error| kiln_backend::Error::Internal {
        place: "the writer of WGSL",
        message: format!("`{}`: {error}", module.entry),
    })?;
    Ok(wgpu::ShaderSource::Wgsl(Cow::Owned(text)))
}
