//! Runs modules on an adapter through wgpu: buffers, a bind group, a dispatch, and the results.

use kiln_backend::Backend;
use kiln_wgpu::{Dispatch, Features, Module, Parameter, REPORT_WORDS, Reported, Wgpu, read_report};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, OnceLock};
use wgpu::util::{BufferInitDescriptor, DeviceExt};

/// An adapter's device.
pub struct Device {
    pub name: String,
    pub features: Features,
    /// Whether Kiln lets kernels of f64 run there: some drivers round them wrong.
    pub rounds_doubles: bool,
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

/// Whether Kiln's own device takes a kernel of f64.
fn runs_doubles() -> bool {
    let text = "kernel @doubles(%x: mut view<f64, 1, global>) thread [1, 1, 1] {
  %0 = const 0 : i64
  %1 = const 1.0 : f64
  scatter.check %x[%0] = %1
}";
    let kernel = kiln_ir::parse(text).expect("a kernel");
    Wgpu::open("wgpu").and_then(|device| device.compile(&kernel)).is_ok()
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
        float_modes: None,
        exact_floats: false,
        exact_multiply_adds: false,
        exact_doubles: false,
        exact_quotients: true,
        exact_roots: true,
        exact_powers: false,
        contracts: false,
        contracts_halves: false,
        loses_nan: false,
        loses_signs: false,
        exact_extrema: false,
        asks_for_proof: false,
        subgroup: (same && has.contains(wgpu::Features::SUBGROUP)).then_some(info.subgroup_max_size),
        subgroup_barriers: false,
        loop_rounds: None,
        matrices: None,
        warp: 32,
        immediate_bytes: 0,
    };
    let rounds_doubles = runs_doubles();
    Some(Device { name: info.name, features, rounds_doubles, device, queue, launches: Mutex::new(()) })
}

impl Device {
    /// Launches a kernel over a grid and gives what the buffers hold afterwards, in the order of
    /// the views. A fault is an error.
    pub fn run(&self, module: &Module, grid: [u32; 3], args: &[Arg]) -> Result<Vec<Vec<u8>>, String> {
        let (buffers, reported) = self.run_reporting(module, grid, args, 0)?;
        match reported.fault {
            None => Ok(buffers),
            Some(fault) => Err(fault.to_string()),
        }
    }

    /// As [`run`](Device::run), with so many words for prints. Gives what was reported too.
    pub fn run_reporting(
        &self,
        module: &Module,
        grid: [u32; 3],
        args: &[Arg],
        print_words: u32,
    ) -> Result<(Vec<Vec<u8>>, Reported), String> {
        let _alone = self.launches.lock().map_err(|e| e.to_string())?;
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let results = self.launch(module, grid, args, REPORT_WORDS + print_words);
        if let Some(error) = pollster::block_on(scope.pop()) {
            return Err(error.to_string());
        }
        let (mut buffers, reports) = (results?, module.report.clone().map(Arc::new));
        let Some(report) = reports else { return Ok((buffers, Reported::default())) };
        let words = buffers.pop().map(|bytes| crate::words(&bytes)).unwrap_or_default();
        let find = |number| (number == PROGRAM).then(|| report.clone());
        Ok((buffers, read_report(&words, find).map_err(|e| e.to_string())?))
    }

    /// What the buffers hold, and after them the report, if there is one.
    fn launch(
        &self,
        module: &Module,
        grid: [u32; 3],
        args: &[Arg],
        report_words: u32,
    ) -> Result<Vec<Vec<u8>>, String> {
        let dispatch = Dispatch::of(grid, 65_535).ok_or("the grid is too large")?;
        let shader = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(&module.entry),
            source: wgpu::ShaderSource::Naga(Cow::Owned(module.naga.clone())),
        });
        let storage = |read_only| wgpu::BufferBindingType::Storage { read_only };
        let mut layout: Vec<wgpu::BindGroupLayoutEntry> =
            module.bindings.iter().map(|b| entry(b.binding, storage(!b.writable))).collect();
        layout.push(entry(0, wgpu::BufferBindingType::Uniform));
        layout.extend(module.report.iter().map(|report| entry(report.binding, storage(false))));
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
        if module.report.is_some() {
            buffers.push(buffer(&vec![0; 4 * report_words as usize], usage));
        }
        let mut parameters = packed(module, grid, dispatch, args);
        parameters.resize(parameters.len().next_multiple_of(16).max(16), 0);
        let parameters = buffer(&parameters, wgpu::BufferUsages::UNIFORM);
        let mut entries: Vec<wgpu::BindGroupEntry<'_>> = Vec::new();
        let numbers = module.bindings.iter().map(|binding| binding.binding);
        let numbers = numbers.chain(module.report.as_ref().map(|report| report.binding));
        for (binding, buffer) in numbers.zip(&buffers) {
            entries.push(wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() });
        }
        entries.push(wgpu::BindGroupEntry { binding: 0, resource: parameters.as_entire_binding() });
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
            let [x, y, z] = dispatch.groups;
            pass.dispatch_workgroups(x, y, z);
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

/// The number that launches give the program.
const PROGRAM: u32 = 7;

/// The parameter block.
fn packed(module: &Module, grid: [u32; 3], dispatch: Dispatch, args: &[Arg]) -> Vec<u8> {
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
            (Parameter::Grid(axis), _) => u64::from(grid[axis as usize]),
            (Parameter::Fold, _) => u64::from(dispatch.fold),
            (Parameter::Program, _) => u64::from(PROGRAM),
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
