//! Runs modules on an adapter through wgpu: buffers, a bind group, a dispatch, and the results.

use kiln_wgpu::{Features, Module, Parameter};
use std::borrow::Cow;
use std::sync::{Mutex, OnceLock};
use wgpu::util::{BufferInitDescriptor, DeviceExt};

/// An adapter's device.
pub struct Device {
    pub name: String,
    pub features: Features,
    device: wgpu::Device,
    queue: wgpu::Queue,
    /// One launch at a time, so that an error is that of the test that made it.
    launches: Mutex<()>,
}

/// An argument of a kernel.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A row-major view over all of a buffer's elements but the first `offset`.
    View { bytes: Vec<u8>, offset: u32, extents: Vec<i64> },
    /// A scalar's bits.
    Scalar(u64),
}

impl Arg {
    /// A view of rank 1 over elements.
    pub fn row<T: bytemuck::NoUninit>(elements: &[T]) -> Arg {
        Arg::View {
            bytes: bytemuck::cast_slice(elements).to_vec(),
            offset: 0,
            extents: vec![elements.len() as i64],
        }
    }

    /// A view of rank 2 over elements.
    pub fn rows<T: bytemuck::NoUninit>(elements: &[T], rows: usize) -> Arg {
        let columns = elements.len() / rows;
        Arg::View {
            bytes: bytemuck::cast_slice(elements).to_vec(),
            offset: 0,
            extents: vec![rows as i64, columns as i64],
        }
    }
}

/// The device of the first software adapter, or of any; `None` where there is none.
pub fn device() -> Option<&'static Device> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    DEVICE.get_or_init(|| pollster::block_on(open())).as_ref()
}

async fn open() -> Option<Device> {
    let instance = wgpu::Instance::default();
    let mut adapters = instance.enumerate_adapters(wgpu::Backends::VULKAN).await;
    adapters.sort_by_key(|adapter| adapter.get_info().device_type != wgpu::DeviceType::Cpu);
    let adapter = adapters.into_iter().next()?;
    let wanted = wgpu::Features::SHADER_INT64
        | wgpu::Features::SHADER_F64
        | wgpu::Features::SHADER_F16
        | wgpu::Features::SUBGROUP;
    let has = adapter.features() & wanted;
    let descriptor = wgpu::DeviceDescriptor {
        required_features: has,
        required_limits: adapter.limits(),
        ..Default::default()
    };
    let (device, queue) = adapter.request_device(&descriptor).await.ok()?;
    let info = adapter.get_info();
    let same = info.subgroup_min_size == info.subgroup_max_size;
    let features = Features {
        int64: has.contains(wgpu::Features::SHADER_INT64),
        float64: has.contains(wgpu::Features::SHADER_F64),
        float16: has.contains(wgpu::Features::SHADER_F16),
        subgroup: (same && has.contains(wgpu::Features::SUBGROUP)).then_some(info.subgroup_max_size),
        warp: 32,
    };
    Some(Device { name: info.name, features, device, queue, launches: Mutex::new(()) })
}

impl Device {
    /// Launches a kernel over a grid and gives what the buffers hold afterwards, in the order of
    /// the views.
    pub fn run(&self, module: &Module, grid: [u32; 3], args: &[Arg]) -> Result<Vec<Vec<u8>>, String> {
        let _alone = self.launches.lock().map_err(|e| e.to_string())?;
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let results = self.launch(module, grid, args);
        if let Some(error) = pollster::block_on(scope.pop()) {
            return Err(error.to_string());
        }
        results
    }

    fn launch(&self, module: &Module, grid: [u32; 3], args: &[Arg]) -> Result<Vec<Vec<u8>>, String> {
        let shader = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(&module.entry),
            source: wgpu::ShaderSource::Naga(Cow::Owned(module.naga.clone())),
        });
        let storage = |read_only| wgpu::BufferBindingType::Storage { read_only };
        let mut layout: Vec<wgpu::BindGroupLayoutEntry> =
            module.bindings.iter().map(|b| entry(b.binding, storage(!b.writable))).collect();
        if module.parameter_bytes > 0 {
            layout.push(entry(0, wgpu::BufferBindingType::Uniform));
        }
        let layout = self
            .device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &layout });
        let pipeline_layout = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            bind_group_layouts: &[Some(&layout)],
            ..Default::default()
        });
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&pipeline_layout),
            module: &shader,
            entry_point: Some(&module.entry),
            compilation_options: Default::default(),
            cache: None,
        });
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
        let buffer = |contents: &[u8], usage| {
            self.device.create_buffer_init(&BufferInitDescriptor { label: None, contents, usage })
        };
        let mut buffers = Vec::new();
        for binding in &module.bindings {
            let Some(Arg::View { bytes, .. }) = args.get(binding.parameter) else {
                return Err(format!("argument {} is no view", binding.parameter));
            };
            let mut padded = bytes.clone();
            padded.resize(bytes.len().next_multiple_of(4).max(4), 0);
            buffers.push(buffer(&padded, usage));
        }
        let mut parameters = packed(module, args);
        parameters.resize(parameters.len().next_multiple_of(16).max(16), 0);
        let parameters = buffer(&parameters, wgpu::BufferUsages::UNIFORM);
        let mut entries: Vec<wgpu::BindGroupEntry<'_>> = Vec::new();
        for (binding, buffer) in module.bindings.iter().zip(&buffers) {
            entries.push(wgpu::BindGroupEntry {
                binding: binding.binding,
                resource: buffer.as_entire_binding(),
            });
        }
        if module.parameter_bytes > 0 {
            entries.push(wgpu::BindGroupEntry { binding: 0, resource: parameters.as_entire_binding() });
        }
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout,
            entries: &entries,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(grid[0], grid[1], grid[2]);
        }
        let mut copies = Vec::new();
        for buffer in &buffers {
            let copy = self.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: buffer.size(),
                usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            });
            encoder.copy_buffer_to_buffer(buffer, 0, &copy, 0, buffer.size());
            copies.push(copy);
        }
        self.queue.submit([encoder.finish()]);
        copies.iter().for_each(|copy| copy.slice(..).map_async(wgpu::MapMode::Read, |_| {}));
        self.device.poll(wgpu::PollType::wait_indefinitely()).map_err(|e| e.to_string())?;
        let read = |copy: &wgpu::Buffer| match copy.slice(..).get_mapped_range() {
            Ok(range) => Ok(range.to_vec()),
            Err(error) => Err(error.to_string()),
        };
        copies.iter().map(read).collect()
    }
}

fn entry(binding: u32, ty: wgpu::BufferBindingType) -> wgpu::BindGroupLayoutEntry {
    wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
        count: None,
    }
}

/// The parameter block.
fn packed(module: &Module, args: &[Arg]) -> Vec<u8> {
    let mut block = vec![0; module.parameter_bytes as usize];
    for field in &module.parameters {
        let word = match (field.parameter, args) {
            (Parameter::Offset(i), args) => match &args[i] {
                Arg::View { offset, .. } => u64::from(*offset),
                Arg::Scalar(_) => 0,
            },
            (Parameter::Scalar(i), args) => match args[i] {
                Arg::Scalar(bits) => bits,
                Arg::View { .. } => 0,
            },
            (Parameter::Extent(i, axis), args) => shape(&args[i])[axis as usize] as u64,
            (Parameter::Stride(i, axis), args) => {
                shape(&args[i])[axis as usize + 1..].iter().product::<i64>() as u64
            }
        };
        let (start, bytes) = (field.offset as usize, field.bytes as usize);
        block[start..start + bytes].copy_from_slice(&word.to_le_bytes()[..bytes]);
    }
    block
}

fn shape(arg: &Arg) -> &[i64] {
    match arg {
        Arg::View { extents, .. } => extents,
        Arg::Scalar(_) => &[],
    }
}
