//! Dispatches by wgpu itself, of the shader that Kiln makes of an empty kernel.

use kiln_runtime::Device;
use std::borrow::Cow;

/// The threads of a block of the empty kernel are as many as its shader says; of these limits it
/// needs nothing.
const SHARED_MEMORY: u32 = 16 << 10;

/// An empty kernel's pipeline, and what a dispatch of it is bound to.
pub struct Raw {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    data: wgpu::Buffer,
    staging: wgpu::Buffer,
    timestamps: Option<wgpu::QuerySet>,
}

/// What wgpu or the driver refused.
pub type Refused = String;

impl Raw {
    /// Opens the adapter that a Kiln device has, by its product name, and makes the pipeline.
    pub fn open(adapter_name: &str, kernel: &kiln_ir::Kernel) -> Result<Raw, Refused> {
        pollster::block_on(Raw::open_later(adapter_name, kernel))
    }

    async fn open_later(adapter_name: &str, kernel: &kiln_ir::Kernel) -> Result<Raw, Refused> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
            flags: wgpu::InstanceFlags::empty(),
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        });
        let all = instance.enumerate_adapters(wgpu::Backends::PRIMARY).await;
        let found = all.into_iter().find(|adapter| adapter.get_info().name == adapter_name);
        let adapter = found.ok_or_else(|| format!("wgpu has no adapter {adapter_name}"))?;
        let timestamps = wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS;
        let has_timestamps = adapter.features().contains(timestamps);
        let opened = adapter.request_device(&wgpu::DeviceDescriptor {
            required_features: if has_timestamps { timestamps } else { wgpu::Features::empty() },
            required_limits: adapter.limits(),
            ..Default::default()
        });
        let (device, queue) = opened.await.map_err(|error| error.to_string())?;
        let limits = kiln_wgpu::ShaderTarget {
            device: adapter_name,
            features: kiln_wgpu::Features::default(),
            max_threads: 256,
            shared_memory: SHARED_MEMORY,
        };
        let module = kiln_wgpu::shader(kernel, &limits).map_err(|error| error.to_string())?;
        Raw::new(device, queue, module, has_timestamps).await
    }

    async fn new(
        device: wgpu::Device,
        queue: wgpu::Queue,
        module: kiln_wgpu::Module,
        has_timestamps: bool,
    ) -> Result<Raw, Refused> {
        let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let shader = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Naga(Cow::Owned(module.naga)),
        });
        let buffer = |size, usage| {
            let mapped_at_creation = false;
            device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation })
        };
        let parameters = buffer(
            u64::from(module.parameter_bytes),
            wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
        );
        let data = buffer(4096, wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC);
        let staging = buffer(64, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
        let uniform = wgpu::BufferBindingType::Uniform;
        let mut layout = vec![layout_entry(0, uniform)];
        let mut entries = vec![entry(0, &parameters)];
        for binding in &module.bindings {
            let read_only = !binding.writable;
            layout.push(layout_entry(binding.binding, wgpu::BufferBindingType::Storage { read_only }));
            entries.push(entry(binding.binding, &data));
        }
        let descriptor = wgpu::BindGroupLayoutDescriptor { label: None, entries: &layout };
        let layout = device.create_bind_group_layout(&descriptor);
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout,
            entries: &entries,
        });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            bind_group_layouts: &[Some(&layout)],
            ..Default::default()
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&pipeline_layout),
            module: &shader,
            entry_point: None,
            compilation_options: Default::default(),
            cache: None,
        });
        let timestamps = has_timestamps.then(|| {
            device.create_query_set(&wgpu::QuerySetDescriptor {
                label: None,
                ty: wgpu::QueryType::Timestamp,
                count: 2,
            })
        });
        match scope.pop().await {
            Some(error) => Err(error.to_string()),
            None => Ok(Raw { device, queue, pipeline, group, data, staging, timestamps }),
        }
    }

    /// Dispatches so many times in one submission.
    pub fn submit(&self, dispatches: usize) {
        let mut encoder = self.dispatched(dispatches);
        if let (1, Some(set)) = (dispatches, &self.timestamps) {
            encoder.write_timestamp(set, 0);
        }
        self.queue.submit([encoder.finish()]);
    }

    fn dispatched(&self, dispatches: usize) -> wgpu::CommandEncoder {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.group, &[]);
        (0..dispatches).for_each(|_| pass.dispatch_workgroups(1, 1, 1));
        drop(pass);
        encoder
    }

    /// Looks which work is done.
    pub fn poll(&self) -> Result<(), Refused> {
        self.device.poll(wgpu::PollType::Poll).map(drop).map_err(|error| error.to_string())
    }

    /// Waits for all work.
    pub fn wait(&self) -> Result<(), Refused> {
        self.device.poll(wgpu::PollType::wait_indefinitely()).map(drop).map_err(|error| error.to_string())
    }

    /// Dispatches, and reads 64 bytes.
    pub fn dispatch_and_read(&self) -> Result<(), Refused> {
        let mut encoder = self.dispatched(1);
        encoder.copy_buffer_to_buffer(&self.data, 0, &self.staging, 0, 64);
        self.queue.submit([encoder.finish()]);
        // A failure shows as the range is taken.
        self.staging.slice(..).map_async(wgpu::MapMode::Read, |_| {});
        self.wait()?;
        let range = self.staging.slice(..).get_mapped_range().map_err(|error| error.to_string())?;
        std::hint::black_box(range.first());
        drop(range);
        self.staging.unmap();
        Ok(())
    }
}

/// The adapter of a device, opened once more for dispatches by wgpu itself.
pub fn beside(device: &Device, kernel: &kiln_ir::Kernel) -> Result<Raw, Refused> {
    Raw::open(&device.properties().name, kernel)
}

fn layout_entry(binding: u32, ty: wgpu::BufferBindingType) -> wgpu::BindGroupLayoutEntry {
    wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
        count: None,
    }
}

fn entry(binding: u32, buffer: &wgpu::Buffer) -> wgpu::BindGroupEntry<'_> {
    wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() }
}
