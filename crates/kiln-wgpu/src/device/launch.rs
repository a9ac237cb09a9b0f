//! Launches: what is bound, the parameter block, the dispatch.

use super::allocations::AllocationOffset;
use super::gpu::{Gpu, refused};
use super::groups::{CachedGroup, GroupKey};
use super::interface::ParamNumbers;
use super::program::WgpuProgram;
use super::recorder::ParameterSource;
use super::repeats::{BoundBuffers, LastLaunch, Outcome};
use super::state::{DeviceState, ReportBuffer};
use crate::dispatch::Dispatch;
use crate::narrow::Overflow;
use crate::parameters::Parameter;
use crate::report::REPORT_WORDS;
use kiln_backend::{DevicePtr, Error, Launch, Result, StreamId};
use smallvec::SmallVec;

/// Bytes of the report buffer of a stream in which nothing prints.
const REPORT_BYTES: u64 = REPORT_WORDS as u64 * 4;

/// Bytes of the report buffer of a stream in which something prints: some 26,000 prints of one
/// value between two synchronizations.
const PRINT_BYTES: u64 = 1 << 20;

/// What a storage buffer of a launch is bound to.
struct Bound {
    binding: u32,
    place: AllocationOffset,
    /// Whether the kernel may write to it.
    writable: bool,
    /// The bytes of the allocation that are bound.
    start: u64,
    length: Option<u64>,
}

impl DeviceState {
    /// Records a launch that is like the last one of the program and over the same buffers. Gives
    /// whether it is one.
    pub(crate) fn repeat(&mut self, gpu: &Gpu, program: &WgpuProgram, launch: &Launch<'_>) -> Result<bool> {
        let DeviceState { recorder, allocations, groups, reports, .. } = self;
        let last = groups.last_launch(program.serial()).filter(|last| last.is_like(launch));
        let Some(last) = last else { return Ok(false) };
        // First, for it may submit what was recorded.
        let source = match program.interface.has_immediates {
            true => ParameterSource::Immediates(&last.block),
            false => ParameterSource::Uniform(recorder.add_parameters(gpu, &last.block)?),
        };
        let recording = recorder.number();
        let is_there = |&(place, serial)| allocations.used_again(place, serial, recording);
        if !last.bound.iter().all(is_there) {
            return Ok(false);
        }
        if let Some((stream, memory)) = last.report {
            let current = reports.get_mut(&stream).and_then(|all| all.last_mut());
            let Some(report) = current.filter(|report| report.memory == memory) else { return Ok(false) };
            report.is_pending = true;
        }
        let pipeline = program.pipeline(gpu, last.all_writable)?;
        recorder.dispatch(gpu, pipeline, &last.group, source, last.groups);
        recorder.submit_if_full(gpu).map(|()| true)
    }

    /// Records a launch, of as many buffers and numbers as the program takes.
    pub(crate) fn launch(&mut self, gpu: &Gpu, program: &WgpuProgram, launch: Launch<'_>) -> Result<()> {
        let most = gpu.limits.max_compute_workgroups_per_dimension;
        let Some(dispatch) = Dispatch::of(launch.grid, most) else {
            return Err(limit(program, "blocks in the grid", blocks(launch.grid), u64::from(u32::MAX)));
        };
        if launch.grid.contains(&0) {
            return Ok(());
        }
        let fits = program.interface.ranges.check(|parameter| given(program, &launch, parameter));
        fits.map_err(|Overflow { location, magnitude }| {
            limit(program, &format!("an index in 32 bits ({location})"), magnitude, i32::MAX as u64)
        })?;
        let mut bound: SmallVec<[Bound; 8]> = SmallVec::new();
        for binding in &program.interface.bindings {
            let param = &program.interface.params[binding.parameter];
            let place = AllocationOffset::of_view(&launch.buffers[param.buffer]);
            let (start, length) = self.window(gpu, program, param, place, launch.numbers)?;
            let (binding, writable) = (binding.binding, binding.writable);
            bound.push(Bound { binding, place, writable, start, length });
        }
        let all_writable = is_bound_both_ways(&bound);
        let mut reports_to = None;
        if let Some((_, report)) = &program.report {
            let stream = self.streams.live(launch.stream, "launch")?;
            let memory = self.report_buffer(gpu, stream, report.prints())?;
            reports_to = Some((stream, memory));
            let place = AllocationOffset::of(memory);
            bound.push(Bound { binding: report.binding, place, writable: true, start: 0, length: None });
        }
        let block = parameter_block(program, &launch, &bound, dispatch)?;
        let (bound, group) = self.record(gpu, program, &bound, all_writable, &block, dispatch.groups)?;
        let (report, groups) = (reports_to, dispatch.groups);
        let outcome = Outcome { bound, report, all_writable, group, block: &block, groups };
        self.groups.set_last_launch(program.serial(), LastLaunch::new(&launch, outcome));
        self.recorder.submit_if_full(gpu)
    }

    /// The bytes of an allocation that a view is bound to: all of them, or where those are more
    /// than a binding can have, from the view on.
    fn window(
        &self,
        gpu: &Gpu,
        program: &WgpuProgram,
        param: &ParamNumbers,
        place: AllocationOffset,
        numbers: &[u64],
    ) -> Result<(u64, Option<u64>)> {
        let most = gpu.limits.max_storage_buffer_binding_size;
        let size = match place.allocation {
            0 => 0,
            _ => self.allocations.get("launch", place)?.pooled.buffer.size(),
        };
        if size <= most {
            return Ok((0, None));
        }
        // What is bound has whole vectors of 16 bytes.
        let alignment = u64::from(gpu.limits.min_storage_buffer_offset_alignment.max(16));
        let start = place.offset / alignment * alignment;
        let length = (most / 16 * 16).min(size.saturating_sub(start));
        let span = param.span(numbers);
        if !holds(length, place.offset - start, span) {
            let what = format!("the bytes that `{}` spans", param.name);
            return Err(limit(program, &what, span, most));
        }
        Ok((start, Some(length)))
    }

    /// The report buffer for a launch in a live stream, with room for prints if need be.
    fn report_buffer(&mut self, gpu: &Gpu, stream: StreamId, prints: bool) -> Result<DevicePtr> {
        let bytes = if prints { PRINT_BYTES } else { REPORT_BYTES };
        if let Some(last) = self.reports.get_mut(&stream).and_then(|all| all.last_mut())
            && last.bytes >= bytes
        {
            last.is_pending = true;
            return Ok(last.memory);
        }
        let memory = self.allocate(gpu, bytes)?;
        let buffer = self.used(gpu, AllocationOffset::of(memory))?.buffer.clone();
        // Of a buffer from the pool, whatever was there before.
        self.recorder.encoder(gpu).clear_buffer(&buffer, 0, None);
        let report = ReportBuffer { memory, bytes, is_pending: true };
        self.reports.entry(stream).or_default().push(report);
        Ok(memory)
    }

    fn record(
        &mut self,
        gpu: &Gpu,
        program: &WgpuProgram,
        bound: &[Bound],
        all_writable: bool,
        block: &[u8],
        groups: [u32; 3],
    ) -> Result<(BoundBuffers, CachedGroup)> {
        let pipeline = program.pipeline(gpu, all_writable)?;
        // First, for it may submit what was recorded.
        let source = match program.interface.has_immediates {
            true => ParameterSource::Immediates(block),
            false => ParameterSource::Uniform(self.recorder.add_parameters(gpu, block)?),
        };
        let (mut key, mut buffers) = (GroupKey::new(), BoundBuffers::new());
        for bound in bound {
            let serial = self.used(gpu, bound.place)?.serial;
            key.push((serial, bound.start));
            buffers.push((bound.place, serial));
        }
        let DeviceState { recorder, allocations, groups: cached, .. } = self;
        let bind = || {
            let mut entries = SmallVec::new();
            for bound in bound {
                let size = bound.length.and_then(wgpu::BufferSize::new);
                entries.push(entry(bound.binding, allocations.buffer(bound.place)?, bound.start, size));
            }
            if let ParameterSource::Uniform(_) = source {
                let size = wgpu::BufferSize::new(block.len() as u64);
                entries.push(entry(0, recorder.parameter_buffer(), 0, size));
            }
            Ok(entries)
        };
        let group = cached.get(gpu, pipeline, key, bind)?;
        recorder.dispatch(gpu, pipeline, group, source, groups);
        Ok((buffers, group.clone()))
    }
}

fn entry(
    binding: u32,
    buffer: &wgpu::Buffer,
    offset: u64,
    size: Option<wgpu::BufferSize>,
) -> wgpu::BindGroupEntry<'_> {
    let resource = wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset, size });
    wgpu::BindGroupEntry { binding, resource }
}

/// Whether one buffer is bound to a view that is read and to one that is written.
fn is_bound_both_ways(bound: &[Bound]) -> bool {
    bound.iter().enumerate().any(|(i, a)| {
        bound[i + 1..].iter().any(|b| a.place.allocation == b.place.allocation && a.writable != b.writable)
    })
}

/// The bytes of the parameter block.
fn parameter_block(
    program: &WgpuProgram,
    launch: &Launch<'_>,
    bound: &[Bound],
    dispatch: Dispatch,
) -> Result<SmallVec<[u8; 256]>> {
    let mut block = SmallVec::from_elem(0, program.interface.parameter_bytes as usize);
    for field in &program.interface.parameters {
        let value = match field.parameter {
            Parameter::Offset(param) => element_offset(program, param, bound)?,
            Parameter::Extent(..) | Parameter::Stride(..) | Parameter::Scalar(_) | Parameter::Grid(_) => {
                given(program, launch, field.parameter)
            }
            Parameter::Fold => dispatch.fold.into(),
            Parameter::Program => program.report.as_ref().map_or(0, |(number, _)| u64::from(*number)),
        };
        let (start, bytes) = (field.offset as usize, field.bytes as usize);
        block[start..start + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    }
    Ok(block)
}

/// What a launch gives for a field of the parameter block; 0 for a field that it does not have.
fn given(program: &WgpuProgram, launch: &Launch<'_>, parameter: Parameter) -> u64 {
    match parameter {
        Parameter::Extent(param, axis) => {
            launch.numbers[program.interface.params[param].first + axis as usize]
        }
        Parameter::Stride(param, axis) => {
            let param = &program.interface.params[param];
            launch.numbers[param.first + param.rank + axis as usize]
        }
        Parameter::Scalar(param) => launch.numbers[program.interface.params[param].first],
        Parameter::Grid(axis) => launch.grid[axis as usize].into(),
        Parameter::Offset(_) | Parameter::Fold | Parameter::Program => 0,
    }
}

/// Where a view begins in what is bound, in elements.
fn element_offset(program: &WgpuProgram, param: usize, bound: &[Bound]) -> Result<u64> {
    let at = program.interface.bindings.iter().position(|binding| binding.parameter == param);
    let Some(bound) = at.and_then(|at| bound.get(at)) else {
        return Err(refused(
            "launch",
            format!("parameter {param} of `{}` is not bound", program.interface.kernel),
        ));
    };
    let param = &program.interface.params[param];
    let bytes = bound.place.offset - bound.start;
    if bytes % param.elem_bytes != 0 {
        let message = format!("`{}` does not begin at a whole element", param.name);
        return Err(refused("launch", message));
    }
    let elements = bytes / param.elem_bytes;
    match u32::try_from(elements) {
        Ok(_) => Ok(elements),
        Err(_) => {
            let what = format!("the first element of `{}` in its allocation", param.name);
            Err(limit(program, &what, elements, u32::MAX.into()))
        }
    }
}

/// Whether a binding of `length` bytes holds a view of `span` bytes that begins at `offset`.
fn holds(length: u64, offset: u64, span: u64) -> bool {
    offset.saturating_add(span) <= length
}

fn blocks(grid: [u32; 3]) -> u64 {
    grid.iter().fold(1, |blocks: u64, &extent| blocks.saturating_mul(extent.into()))
}

fn limit(program: &WgpuProgram, what: &str, given: u64, limit: u64) -> Error {
    Error::LaunchLimit { kernel: program.interface.kernel.clone(), what: what.to_owned(), given, limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_without_an_end_fits_nowhere() {
        assert!(holds(128, 64, 64) && !holds(128, 64, 65));
        assert!(!holds(128, 64, kiln_backend::view_span(&[u64::MAX, 2], &[u64::MAX, 1])));
    }
}
