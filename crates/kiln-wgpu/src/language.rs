//! Modules in the languages that drivers and browsers take, for looking at.

use crate::module::Module;
use kiln_backend::{Error, Result};
use naga::TypeInner;
use naga::back::{hlsl, msl, spv, wgsl};
use std::fmt::Display;

/// The version of Metal's language: that of macOS 12, which all of Apple's own GPUs have.
const METAL: (u8, u8) = (2, 4);

/// The version of SPIR-V that wgpu would write: that of Vulkan 1.1, the first with subgroups.
const SPIRV: (u8, u8) = (1, 3);

/// A language in which a module can be written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Language {
    /// That of WebGPU, with naga's names for types that it lacks.
    Wgsl,
    /// That of Vulkan: a binary.
    Spirv,
    /// That of Metal.
    Msl,
    /// That of DirectX 12.
    Hlsl,
}

/// A module in a language.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// A text.
    Text(String),
    /// The words of a binary.
    Words(Vec<u32>),
}

impl Language {
    fn name(self) -> &'static str {
        match self {
            Language::Wgsl => "WGSL",
            Language::Spirv => "SPIR-V",
            Language::Msl => "MSL",
            Language::Hlsl => "HLSL",
        }
    }
}

impl Module {
    /// The module in a language, as wgpu would give it to a driver, but for the numbers of
    /// bindings. SPIR-V for an adapter with [`Features::float_modes`](crate::Features::float_modes)
    /// is what Kiln gives to its driver.
    ///
    /// ```
    /// use kiln_wgpu::{Features, Language, Written, compile};
    /// let text = "kernel @double(%x: mut view<f32, 1, global>) thread [64, 1, 1] {
    ///   %0 = thread_id x : i64
    ///   %1 = view_load.x1 %x[%0] : f32
    ///   %2 = add %1, %1 : f32
    ///   view_store.x1 %x[%0] = %2
    /// }";
    /// let kernel = kiln_ir::parse(text).unwrap();
    /// let module = compile(&kernel, Features::default())?;
    /// let Written::Text(metal) = module.write(Language::Msl)? else { unreachable!() };
    /// assert!(metal.contains("kernel void double_"), "{metal}");
    /// # Ok::<(), kiln_backend::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a kernel with f64 in MSL, which has none; [`Error::Internal`] if
    /// naga cannot write what it has accepted.
    pub fn write(&self, language: Language) -> Result<Written> {
        match language {
            Language::Wgsl => {
                let flags = wgsl::WriterFlags::empty();
                let text = wgsl::write_string(&self.naga, &self.info, flags);
                text.map(Written::Text).map_err(|error| self.unwritten(language, &error))
            }
            Language::Spirv => {
                if let Some(finishing) = self.finishing {
                    return self.finished(&self.naga, finishing).map(Written::Words);
                }
                let options = spv::Options { lang_version: SPIRV, ..Default::default() };
                let words = spv::write_vec(&self.naga, &self.info, &options, None);
                words.map(Written::Words).map_err(|error| self.unwritten(language, &error))
            }
            Language::Msl => self.metal(),
            Language::Hlsl => self.hlsl(),
        }
    }

    fn metal(&self) -> Result<Written> {
        if self.naga.types.iter().any(|(_, ty)| matches!(ty.inner, TypeInner::Scalar(naga::Scalar::F64))) {
            return Err(Error::Unsupported {
                kernel: self.entry.clone(),
                what: "f64".into(),
                device: "Metal".into(),
                location: kiln_ir::UNKNOWN_LOCATION.into(),
                hint: "Compute in f32.".into(),
            });
        }
        let options = msl::Options { lang_version: METAL, fake_missing_bindings: true, ..Default::default() };
        let written = msl::write_string(&self.naga, &self.info, &options, &Default::default());
        let (text, _) = written.map_err(|error| self.unwritten(Language::Msl, &error))?;
        Ok(Written::Text(text))
    }

    fn hlsl(&self) -> Result<Written> {
        let options = hlsl::Options {
            shader_model: hlsl::ShaderModel::V6_2,
            immediates_target: Some(hlsl::BindTarget::default()),
            fake_missing_bindings: true,
            ..Default::default()
        };
        let (mut text, pipeline) = (String::new(), hlsl::PipelineOptions::default());
        let mut writer = hlsl::Writer::new(&mut text, &options, &pipeline);
        let written = writer.write(&self.naga, &self.info, None);
        written.map_err(|error| self.unwritten(Language::Hlsl, &error))?;
        Ok(Written::Text(text))
    }

    fn unwritten(&self, language: Language, error: &dyn Display) -> Error {
        Error::Internal {
            place: "naga's writers",
            message: format!("`{}` as {}: {error}", self.entry, language.name()),
        }
    }
}
