//! A kernel that is compiled for an adapter.

use super::gpu::Gpu;
use super::late::Refusal;
use super::passes;
use crate::module::Module;
use crate::report::Report as FaultReport;
use kiln_backend::{ArgumentCount, Error, Program, Report, Result, view_span};
use kiln_ir::{Kernel, Level};
use naga::{AddressSpace, StorageAccess};
use std::any::Any;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A compiled kernel.
pub(crate) struct WgpuProgram {
    pub(crate) kernel: String,
    /// Where an error of the whole kernel is.
    location: String,
    pub(crate) module: Module,
    pub(crate) params: Vec<ParamNumbers>,
    /// What a launch carries.
    pub(crate) arguments: ArgumentCount,
    /// What the records of its report mean, and by which number it signs them.
    pub(crate) report: Option<(u32, Arc<FaultReport>)>,
    /// Each view as the kernel uses it.
    exact: Pipeline,
    /// All views writable, for launches in which a view that is read and one that is written are in
    /// one buffer: WebGPU binds a buffer in one way at a time.
    writable: OnceLock<Result<Pipeline>>,
    shared: u32,
}

/// Where the buffer and the numbers of a parameter are in a launch.
#[derive(Clone, Debug)]
pub(crate) struct ParamNumbers {
    pub(crate) name: String,
    /// The place of its buffer, or of the next view's.
    pub(crate) buffer: usize,
    /// The place of its first number: a scalar, or the extents and then the strides of a view.
    pub(crate) first: usize,
    /// Axes of a view; 0 for a scalar.
    pub(crate) rank: usize,
    /// Bytes of an element.
    pub(crate) elem_bytes: u64,
}

impl ParamNumbers {
    fn list(kernel: &Kernel) -> Vec<ParamNumbers> {
        let (mut buffer, mut first) = (0, 0);
        let numbers = |param: &kiln_ir::Param| {
            let view = param.ty.as_view();
            let rank = view.map_or(0, |view| view.rank as usize);
            let elem_bytes = param.ty.elem().bytes().into();
            let numbers = ParamNumbers { name: param.name.clone(), buffer, first, rank, elem_bytes };
            buffer += usize::from(view.is_some());
            first += param.numbers();
            numbers
        };
        kernel.params.iter().map(numbers).collect()
    }

    /// The bytes that the view spans in a launch with these numbers.
    pub(crate) fn span(&self, numbers: &[u64]) -> u64 {
        let (extents, strides) = numbers[self.first..][..2 * self.rank].split_at(self.rank);
        view_span(extents, strides).saturating_mul(self.elem_bytes)
    }
}

/// The number of pipelines that this process has made.
static PIPELINES: AtomicU64 = AtomicU64::new(0);

/// A pipeline.
pub(crate) struct Pipeline {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) layout: wgpu::BindGroupLayout,
    /// Tells it from every other pipeline of the process.
    pub(crate) serial: u64,
}

impl WgpuProgram {
    /// Makes the pipeline of a module, of which the report has its number; with what the driver
    /// made of it before, if that was kept.
    pub(crate) fn new(
        gpu: &Gpu,
        kernel: &Kernel,
        module: Module,
        report: Option<(u32, Arc<FaultReport>)>,
        cache: Option<&wgpu::PipelineCache>,
    ) -> Result<WgpuProgram> {
        let location = passes::first_line(kernel);
        let name = kernel.name.as_str();
        let exact = Pipeline::new(gpu, &module, module.naga.clone(), (name, location.as_str()), cache)?;
        Ok(WgpuProgram {
            kernel: name.to_owned(),
            shared: passes::shared_bytes(&module.naga),
            location,
            params: ParamNumbers::list(kernel),
            arguments: ArgumentCount::of(kernel),
            report,
            exact,
            writable: OnceLock::new(),
            module,
        })
    }

    /// A number that tells it from every other program of the process.
    pub(crate) fn serial(&self) -> u64 {
        self.exact.serial
    }

    /// The pipeline for a launch, in which buffers may be both read and written by several views.
    pub(crate) fn pipeline(&self, gpu: &Gpu, all_writable: bool) -> Result<&Pipeline> {
        if !all_writable {
            return Ok(&self.exact);
        }
        let made = self.writable.get_or_init(|| {
            let mut module = self.module.naga.clone();
            for (_, variable) in module.global_variables.iter_mut() {
                if let AddressSpace::Storage { access } = &mut variable.space {
                    *access = StorageAccess::LOAD | StorageAccess::STORE;
                }
            }
            Pipeline::new(gpu, &self.module, module, (&self.kernel, &self.location), None)
        });
        made.as_ref().map_err(Clone::clone)
    }
}

impl Program for WgpuProgram {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn report(&self) -> Report {
        let threads = self.module.block.iter().product();
        Report { threads, shared: self.shared, ..Report::default() }
    }
}

/// What a module reports, for a kernel as the user wrote it.
pub(crate) fn report_of(kernel: &Kernel, module: &Module) -> Option<FaultReport> {
    let report = module.report.clone()?;
    Some(FaultReport { per_thread: matches!(kernel.level, Level::Thread { .. }), ..report })
}

impl Pipeline {
    /// Makes the pipeline of a module of naga, for the kernel of a name and place.
    fn new(
        gpu: &Gpu,
        module: &Module,
        naga: naga::Module,
        (kernel, location): (&str, &str),
        cache: Option<&wgpu::PipelineCache>,
    ) -> Result<Pipeline> {
        let layout = layout_entries(module, &naga);
        let code = Code::of(module, naga)?;
        let make = || {
            let shader = code.shader(gpu, kernel, &module.entry);
            let layout = gpu.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: Some(kernel),
                entries: &layout,
            });
            let pipeline_layout = gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: Some(kernel),
                bind_group_layouts: &[Some(&layout)],
                immediate_size: if module.has_immediates { module.parameter_bytes } else { 0 },
            });
            let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(kernel),
                layout: Some(&pipeline_layout),
                module: &shader,
                entry_point: Some(&module.entry),
                compilation_options: wgpu::PipelineCompilationOptions {
                    // A kernel writes shared memory before it reads it; zeroing would cost every
                    // block a pass over it and a barrier.
                    zero_initialize_workgroup_memory: false,
                    ..Default::default()
                },
                cache,
            });
            (layout, pipeline)
        };
        let (kernel_name, location) = (kernel.to_owned(), location.to_owned());
        let explain = move |refusal| {
            let message = match refusal {
                Refusal::OutOfMemory => "the driver ran out of memory".to_owned(),
                Refusal::Refused(message) => format!("the driver refuses its code: {message}"),
            };
            Error::Compile { kernel: kernel_name, location, message }
        };
        let (layout, pipeline) = gpu.scoped(make, explain)?;
        gpu.check()?;
        Ok(Pipeline { pipeline, layout, serial: PIPELINES.fetch_add(1, Ordering::Relaxed) })
    }
}

/// What wgpu takes.
enum Code {
    Source(Box<wgpu::ShaderSource<'static>>),
    /// SPIR-V for the driver.
    #[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
    Words(Vec<u32>),
}

impl Code {
    fn of(module: &Module, naga: naga::Module) -> Result<Code> {
        #[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
        if let Some(finishing) = module.finishing {
            return module.finished(&naga, finishing).map(Code::Words);
        }
        source(module, naga).map(|source| Code::Source(Box::new(source)))
    }

    fn shader(self, gpu: &Gpu, kernel: &str, _entry: &str) -> wgpu::ShaderModule {
        match self {
            Code::Source(source) => {
                let descriptor = wgpu::ShaderModuleDescriptor { label: Some(kernel), source: *source };
                gpu.device.create_shader_module(descriptor)
            }
            #[cfg(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd"))]
            Code::Words(words) => {
                // Metal alone asks for the size of a workgroup.
                let entry =
                    wgpu::PassthroughShaderEntryPoint { name: _entry.into(), workgroup_size: (0, 0, 0) };
                let descriptor = wgpu::ShaderModuleDescriptorPassthrough {
                    label: Some(kernel),
                    entry_points: Cow::Borrowed(std::slice::from_ref(&entry)),
                    spirv: Some(words.into()),
                    ..Default::default()
                };
                // SAFETY: naga wrote the words, of a module that its validator has accepted; what
                // was added (`spirv/mod.rs`) are modes that the driver has and decorations. Checks
                // of indices are left out only where Kiln's code has its own.
                unsafe { gpu.device.create_shader_module_passthrough(descriptor) }
            }
        }
    }
}

/// A module of naga's as wgpu takes it: as it is.
#[cfg(not(target_family = "wasm"))]
fn source(_: &Module, naga: naga::Module) -> Result<wgpu::ShaderSource<'static>> {
    Ok(wgpu::ShaderSource::Naga(Cow::Owned(naga)))
}

/// A module of naga's as a browser takes it: as text. It may differ from the one that was validated
/// in how buffers may be accessed.
#[cfg(target_family = "wasm")]
fn source(module: &Module, naga: naga::Module) -> Result<wgpu::ShaderSource<'static>> {
    let text = naga::back::wgsl::write_string(&naga, &module.info, naga::back::wgsl::WriterFlags::empty());
    let text = text.map_err(|error| Error::Internal {
        place: "the writer of WGSL",
        message: format!("`{}`: {error}", module.entry),
    })?;
    Ok(wgpu::ShaderSource::Wgsl(Cow::Owned(text)))
}

/// The layout of a module's bind group. Storage buffers are writable as the module says.
fn layout_entries(module: &Module, naga: &naga::Module) -> Vec<wgpu::BindGroupLayoutEntry> {
    let bound = naga.global_variables.iter().filter_map(|(_, variable)| {
        let binding = variable.binding?.binding;
        match variable.space {
            AddressSpace::Storage { access } => {
                let read_only = !access.contains(StorageAccess::STORE);
                Some(entry(binding, wgpu::BufferBindingType::Storage { read_only }, None))
            }
            AddressSpace::Uniform => {
                let size = wgpu::BufferSize::new(module.parameter_bytes.into());
                Some(entry(binding, wgpu::BufferBindingType::Uniform, size))
            }
            _ => None,
        }
    });
    bound.collect()
}

/// A binding; the parameter block, of which `size` is given, has a dynamic offset.
fn entry(
    binding: u32,
    ty: wgpu::BufferBindingType,
    size: Option<wgpu::BufferSize>,
) -> wgpu::BindGroupLayoutEntry {
    wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: size.is_some(), min_binding_size: size },
        count: None,
    }
}
