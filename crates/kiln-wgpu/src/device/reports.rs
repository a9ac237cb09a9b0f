//! Collecting what kernels report: faults and prints.

use super::allocations::AllocationOffset;
use super::gpu::Gpu;
use super::state::DeviceState;
use super::transfers::{Staged, locked, read};
use crate::report::{Report, Reported, read_report};
use kiln_backend::{Fault, Prints, Result, StreamId};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// What the records of each program mean, by number. Numbers begin at 1: in a report, 0 is "nothing
/// was written here".
///
/// They stay for the life of the device, so that a report is readable after its program is gone.
/// Equal ones share a number.
#[derive(Default)]
pub(crate) struct ReportTables(RwLock<Vec<Arc<Report>>>);

impl ReportTables {
    /// The number of what a program reports.
    pub(crate) fn number(&self, report: Report) -> (u32, Arc<Report>) {
        // Pushed whole or not at all, so a panic elsewhere leaves the list usable.
        let mut tables = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let index = tables.iter().position(|known| **known == report).unwrap_or_else(|| {
            tables.push(Arc::new(report));
            tables.len() - 1
        });
        (index as u32 + 1, tables[index].clone())
    }

    fn find(&self, number: u32) -> Option<Arc<Report>> {
        let tables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tables.get((number as usize).checked_sub(1)?).cloned()
    }
}

impl DeviceState {
    /// Records that a stream's reports are read and cleared; those to which nothing was reported
    /// since are left. The reports that are no longer in use are given back.
    pub(crate) fn stage_reports(&mut self, gpu: &Gpu, stream: StreamId) -> Result<Vec<Staged>> {
        let stream = self.streams.live(stream, "synchronize")?;
        let Some(reports) = self.reports.get_mut(&stream) else { return Ok(Vec::new()) };
        let all = std::mem::take(reports);
        let mut staged = Vec::new();
        let last = all.len().saturating_sub(1);
        for (i, mut report) in all.into_iter().enumerate() {
            let place = AllocationOffset::of(report.memory);
            if report.is_pending {
                staged.push(self.stage(gpu, place, report.bytes)?);
                let buffer = self.used(gpu, place)?.buffer.clone();
                self.recorder.encoder(gpu).clear_buffer(&buffer, 0, Some(report.bytes));
                report.is_pending = false;
            }
            match i == last {
                true => self.reports.entry(stream).or_default().push(report),
                false => self.allocations.free(report.memory),
            }
        }
        Ok(staged)
    }
}

/// Waits for a stream, prints what it has printed, and gives its first fault since the last time.
pub(crate) fn collect(
    gpu: &Gpu,
    state: &Mutex<DeviceState>,
    tables: &ReportTables,
    prints: &Prints,
    stream: StreamId,
) -> Result<()> {
    let staged = {
        let mut state = locked(state);
        gpu.check()?;
        state.stage_reports(gpu, stream)?
    };
    let mut fault = None;
    for staged in staged {
        let mut report = Vec::new();
        read(gpu, state, staged, |bytes| report.extend_from_slice(bytes))?;
        fault = fault.or(deliver(tables, prints, &report)?);
    }
    fault.map_or(Ok(()), |fault| Err(fault.into()))
}

/// Prints what the bytes of a report say was printed, and gives its fault.
pub(crate) fn deliver(tables: &ReportTables, prints: &Prints, report: &[u8]) -> Result<Option<Fault>> {
    let (words, _) = report.as_chunks::<4>();
    let words: Vec<u32> = words.iter().map(|&word| u32::from_le_bytes(word)).collect();
    let reported = read_report(&words, |number| tables.find(number))?;
    print(prints, &reported);
    Ok(reported.fault)
}

fn print(prints: &Prints, reported: &Reported) {
    reported.prints.iter().flat_map(|text| text.lines()).for_each(|line| prints.line(line));
    if reported.lost > 0 {
        prints.line(&format!(
            "[kiln] {} more prints were lost: their buffer was full; print in fewer threads, or synchronize more often",
            reported.lost
        ));
    }
}
