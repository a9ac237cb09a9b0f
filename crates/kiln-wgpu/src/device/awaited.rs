//! Waiting without blocking: reads and synchronizations as futures.
//!
//! A call stages what it needs, submits, and asks wgpu to call back when the host can read it. A
//! browser does so by itself. Elsewhere a thread waits for the submission, once for each call.

use super::backend::Wgpu;
use super::gpu::{Gpu, refused};
use super::reports::deliver;
use super::state::DeviceState;
use super::transfers::{PIECE, Staged, locked};
use kiln_backend::{Asynchronous, DevicePtr, Later, Promised, Result, StreamId, promise};
use std::sync::Mutex;

/// What was staged, once it can be read.
struct Mapping {
    staged: Staged,
    mapped: Promised<std::result::Result<(), wgpu::BufferAsyncError>>,
}

/// What is under way for a future.
struct Begun {
    reports: Vec<Mapping>,
    data: Vec<Mapping>,
    done: Promised<()>,
}

impl Mapping {
    fn begin(staged: Staged) -> Mapping {
        let (promise, mapped) = promise();
        let slice = staged.buffer.slice(..staged.length);
        slice.map_async(wgpu::MapMode::Read, move |outcome| promise.keep(outcome));
        Mapping { staged, mapped }
    }

    /// Hands over the bytes when they are there.
    async fn read<T>(
        self,
        gpu: &Gpu,
        state: &Mutex<DeviceState>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        let outcome = self.mapped.await;
        gpu.check()?;
        match outcome {
            Some(Ok(())) => {}
            Some(Err(error)) => return Err(refused("map_async", error.to_string())),
            None => return Err(refused("map_async", "it was given up".to_owned())),
        }
        let taken = self.staged.take(take)?;
        locked(state).keep(self.staged.buffer);
        Ok(taken)
    }
}

impl Wgpu {
    /// Stages a stream's reports and some bytes, and submits.
    fn begin(&self, stream: StreamId, data: Option<(DevicePtr, usize)>) -> Result<Begun> {
        let (reports, staged, submission) = {
            let mut state = self.state_for(stream, "synchronize")?;
            let reports = state.stage_reports(&self.gpu, stream)?;
            let mut staged = Vec::new();
            if let Some((src, bytes)) = data {
                let mut from = 0;
                while from < bytes as u64 {
                    let piece = (bytes as u64 - from).min(PIECE);
                    let place = state.allocations.place("download", DevicePtr(src.0 + from), piece)?;
                    staged.push(state.stage(&self.gpu, place, piece)?);
                    from += piece;
                }
            }
            state.recorder.submit(&self.gpu)?;
            (reports, staged, state.recorder.submitted())
        };
        let (promise, done) = promise();
        self.gpu.queue.on_submitted_work_done(move || promise.keep(()));
        let [reports, data] =
            [reports, staged].map(|staged| staged.into_iter().map(Mapping::begin).collect());
        self.gpu.call_back(submission)?;
        Ok(Begun { reports, data, done })
    }

    /// What a stream has to report, and the bytes.
    async fn end(&self, begun: Begun, bytes: usize) -> Result<Vec<u8>> {
        // `None` where the device was lost, which a check says.
        begun.done.await;
        self.gpu.late.first().await?;
        self.gpu.check()?;
        let mut fault = None;
        for report in begun.reports {
            let words = report.read(&self.gpu, &self.state, <[u8]>::to_vec).await?;
            fault = fault.or(deliver(&self.tables, &self.prints, &words)?);
        }
        let mut data = Vec::new();
        data.try_reserve_exact(bytes).map_err(|error| refused("download", error.to_string()))?;
        for piece in begun.data {
            piece.read(&self.gpu, &self.state, |bytes| data.extend_from_slice(bytes)).await?;
        }
        if let Some(fault) = fault {
            return Err(fault.into());
        }
        self.prints.outcome(&self.properties.id)?;
        Ok(data)
    }
}

impl Asynchronous for Wgpu {
    fn synchronize_later(&self, stream: StreamId) -> Later<'_, ()> {
        let begun = self.begin(stream, None);
        Box::pin(async move { self.end(begun?, 0).await.map(drop) })
    }

    unsafe fn download_later(&self, src: DevicePtr, bytes: usize, stream: StreamId) -> Later<'_, Vec<u8>> {
        let begun = self.begin(stream, Some((src, bytes)));
        Box::pin(async move { self.end(begun?, bytes).await })
    }
}
