//! A kernel that is compiled for an adapter.

use super::code::Code;
use super::gpu::Gpu;
use super::interface::Interface;
use super::late::Refusal;
use crate::module::Module;
use crate::report::Report as FaultReport;
use kiln_backend::{ArgumentCount, Error, Program, Report, Result};
use kiln_ir::{Kernel, Level};
use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A compiled kernel.
pub(crate) struct WgpuProgram {
    pub(crate) interface: Interface,
    /// What a launch carries.
    pub(crate) arguments: ArgumentCount,
    /// What the records of its report mean, and by which number it signs them.
    pub(crate) report: Option<(u32, Arc<FaultReport>)>,
    code: Code,
    /// Each view as the kernel uses it.
    exact: Pipeline,
    /// All views writable, for launches in which a view that is read and one that is written are in
    /// one buffer: WebGPU binds a buffer in one way at a time.
    writable: OnceLock<Result<Pipeline>>,
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
        let interface = Interface::of(kernel, &module);
        WgpuProgram::of(gpu, interface, Code::of(module)?, report, cache)
    }

    /// As [`new`](Self::new), of what was made of a module.
    pub(crate) fn of(
        gpu: &Gpu,
        interface: Interface,
        code: Code,
        report: Option<(u32, Arc<FaultReport>)>,
        cache: Option<&wgpu::PipelineCache>,
    ) -> Result<WgpuProgram> {
        let exact = Pipeline::new(gpu, &interface, &code, false, cache)?;
        let (arguments, writable) = (interface.arguments(), OnceLock::new());
        Ok(WgpuProgram { interface, arguments, report, code, exact, writable })
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
        let make = || Pipeline::new(gpu, &self.interface, &self.code, true, None);
        let made = self.writable.get_or_init(make);
        made.as_ref().map_err(Clone::clone)
    }
}

impl Program for WgpuProgram {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn report(&self) -> Report {
        let Interface { block, shared, .. } = self.interface;
        Report { threads: block.iter().product(), shared, ..Report::default() }
    }
}

/// What a module reports, for a kernel as the user wrote it.
pub(crate) fn report_of(kernel: &Kernel, module: &Module) -> Option<FaultReport> {
    let report = module.report.clone()?;
    Some(FaultReport { per_thread: matches!(kernel.level, Level::Thread { .. }), ..report })
}

impl Pipeline {
    /// Makes the pipeline of a kernel's code.
    fn new(
        gpu: &Gpu,
        interface: &Interface,
        code: &Code,
        all_writable: bool,
        cache: Option<&wgpu::PipelineCache>,
    ) -> Result<Pipeline> {
        let (kernel, layout) = (interface.kernel.as_str(), interface.layout(all_writable));
        let source = code.source(all_writable)?;
        let make = || {
            let shader = source.shader(gpu, interface);
            let layout = gpu.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: Some(kernel),
                entries: &layout,
            });
            let pipeline_layout = gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: Some(kernel),
                bind_group_layouts: &[Some(&layout)],
                immediate_size: if interface.has_immediates { interface.parameter_bytes } else { 0 },
            });
            let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(kernel),
                layout: Some(&pipeline_layout),
                module: &shader,
                entry_point: Some(&interface.entry),
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
        let (kernel_name, location) = (kernel.to_owned(), interface.location.clone());
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
