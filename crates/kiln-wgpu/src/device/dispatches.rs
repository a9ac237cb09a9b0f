//! Resident launches: dispatches that end by themselves, before and after which mapped memory is
//! brought up to date.
//!
//! Several may be under way: they are submitted as they are begun, and what they leave is handed to
//! the host in their order.

use super::allocations::AllocationOffset;
use super::gpu::{Gpu, refused};
use super::mapped::{MappedPart, locked as region};
use super::program::WgpuProgram;
use super::state::DeviceState;
use super::transfers::{Staged, locked};
use crate::module::Binding;
use kiln_backend::{Launch, ResidentId, Result};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The dispatches of a device.
#[derive(Default)]
pub(crate) struct Dispatches {
    /// How many there were.
    begun: u64,
    /// Those whose end was not reported yet, by number.
    under_way: BTreeMap<u64, UnderWay>,
}

impl Dispatches {
    /// The number of the next one, and that of the first that is under way or of the next one.
    pub(crate) fn numbers(&self) -> (u64, u64) {
        (self.begun, self.under_way.first_key_value().map_or(self.begun, |(number, _)| *number))
    }

    /// The next dispatch to be dealt with, if it is this one or one before it.
    fn first_until(&mut self, id: ResidentId) -> Option<(u64, UnderWay)> {
        let first = self.under_way.first_entry().filter(|first| *first.key() <= id.0)?;
        Some(first.remove_entry())
    }

    fn check(&self, id: ResidentId) -> Result<()> {
        match id.0 < self.begun {
            true => Ok(()),
            false => Err(refused("resident_done", format!("there is no resident launch {}", id.0))),
        }
    }
}

/// A dispatch that was submitted.
struct UnderWay {
    /// The recording that it is in.
    recording: u64,
    submission: Option<wgpu::SubmissionIndex>,
    results: Vec<DispatchResult>,
    /// What its stream has to report.
    reports: Vec<Arriving>,
}

/// What a dispatch leaves in a part of mapped memory.
struct DispatchResult {
    part: MappedPart,
    arriving: Arriving,
}

/// Bytes on their way to the host, which have arrived when the dispatch is over.
struct Arriving {
    staged: Staged,
    arrived: Receiver<std::result::Result<(), wgpu::BufferAsyncError>>,
}

/// Begins a dispatch, of as many buffers and numbers as the program takes.
pub(crate) fn begin(
    gpu: &Gpu,
    state: &mut DeviceState,
    dispatches: &Mutex<Dispatches>,
    program: &WgpuProgram,
    launch: Launch<'_>,
) -> Result<ResidentId> {
    let mut dispatches = in_order(dispatches);
    let mut written = Vec::new();
    for (at, bytes, is_written) in views(program, &launch) {
        let Some(part) = state.mapped.part(at, bytes) else { continue };
        state.send_changes(gpu, &part, dispatches.numbers())?;
        written.extend(is_written.then_some(part));
    }
    let stream = launch.stream;
    state.launch(gpu, program, launch)?;
    let reports = match program.report {
        Some(_) => state.stage_reports(gpu, stream)?,
        None => Vec::new(),
    };
    let mut results = Vec::new();
    for part in written {
        let staged = state.stage(gpu, part.place_of(part.words.start), part.bytes())?;
        results.push((part, staged));
    }
    let recording = state.recorder.number();
    state.recorder.submit(gpu)?;
    let arriving = |(part, staged)| DispatchResult { part, arriving: Arriving::begin(staged) };
    let results = results.into_iter().map(arriving).collect();
    let reports = reports.into_iter().map(Arriving::begin).collect();
    let under_way = UnderWay { recording, submission: state.recorder.submitted(), reports, results };
    let number = dispatches.begun;
    dispatches.under_way.insert(number, under_way);
    dispatches.begun += 1;
    Ok(ResidentId(number))
}

impl Arriving {
    fn begin(staged: Staged) -> Arriving {
        let (arrive, arrived) = channel();
        staged.buffer.slice(..staged.length).map_async(wgpu::MapMode::Read, move |result| {
            // Nobody listens any more where the wait has failed.
            let _ = arrive.send(result);
        });
        Arriving { staged, arrived }
    }

    /// Hands over what arrived.
    fn take<T>(self, gpu: &Gpu, state: &Mutex<DeviceState>, take: impl FnOnce(&[u8]) -> T) -> Result<T> {
        gpu.arrived(&self.arrived)?;
        let taken = self.staged.take(take)?;
        locked(state).keep(self.staged.buffer);
        Ok(taken)
    }
}

/// Where the views of a launch begin that it binds, the bytes that they span, and whether it writes
/// to them.
fn views(program: &WgpuProgram, launch: &Launch<'_>) -> Vec<(AllocationOffset, u64, bool)> {
    let view = |binding: &Binding| {
        let param = program.interface.params.get(binding.parameter)?;
        let buffer = &launch.buffers[param.buffer];
        Some((AllocationOffset::of_view(buffer), param.span(launch.numbers), buffer.written))
    };
    program.interface.bindings.iter().filter_map(view).collect()
}

/// Whether a dispatch that was begun is over, without waiting. What it left is still to be
/// [taken](finish).
pub(crate) fn is_over(gpu: &Gpu, dispatches: &Mutex<Dispatches>, id: ResidentId) -> Result<bool> {
    gpu.poll()?;
    let dispatches = in_order(dispatches);
    dispatches.check(id)?;
    let last = dispatches.under_way.range(..=id.0).next_back();
    Ok(last.is_none_or(|(_, last)| gpu.status.done() >= last.recording))
}

/// Waits for a dispatch and all before it, and hands the host what they left. Gives the bytes of
/// what they report.
pub(crate) fn finish(
    gpu: &Gpu,
    state: &Mutex<DeviceState>,
    dispatches: &Mutex<Dispatches>,
    id: ResidentId,
) -> Result<Vec<Vec<u8>>> {
    in_order(dispatches).check(id)?;
    let mut reports = Vec::new();
    loop {
        let Some((number, first)) = in_order(dispatches).first_until(id) else { return Ok(reports) };
        if let Some(submission) = first.submission {
            gpu.wait(submission)?;
        }
        for DispatchResult { part, arriving } in first.results {
            let publish = |bytes: &[u8]| region(&part.region).publish(part.words.start, bytes, number);
            arriving.take(gpu, state, publish)?;
        }
        for report in first.reports {
            reports.push(report.take(gpu, state, <[u8]>::to_vec)?);
        }
    }
}

/// The dispatches, of which every change is complete before anything can panic.
pub(crate) fn in_order(dispatches: &Mutex<Dispatches>) -> MutexGuard<'_, Dispatches> {
    dispatches.lock().unwrap_or_else(PoisonError::into_inner)
}
