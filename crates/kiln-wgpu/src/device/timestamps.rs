//! Timestamps that the device takes as it passes events.

use super::gpu::{Gpu, refused};
use super::recorder::Recorder;
use kiln_backend::Result;

/// How many timing events there can be at once: what a query set may have.
const QUERIES: u32 = wgpu::QUERY_SET_MAX_QUERIES;

/// The query set of a device, made when the first timing event is recorded.
#[derive(Default)]
pub(crate) struct Timestamps {
    set: Option<wgpu::QuerySet>,
    vacant: Vec<u32>,
}

impl Timestamps {
    /// Takes the time after what is recorded, in a query.
    pub(crate) fn record(&mut self, gpu: &Gpu, recorder: &mut Recorder) -> Result<u32> {
        let set = self.set.get_or_insert_with(|| {
            self.vacant = (0..QUERIES).rev().collect();
            gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: None,
                ty: wgpu::QueryType::Timestamp,
                count: QUERIES,
            })
        });
        let Some(query) = self.vacant.pop() else {
            return Err(refused("record", format!("there are {QUERIES} timing events already")));
        };
        recorder.write_timestamp(gpu, set, query);
        Ok(query)
    }

    /// Makes a query free for another event.
    pub(crate) fn release(&mut self, query: u32) {
        self.vacant.push(query);
    }

    /// Records that two queries are written to the first 16 bytes of a buffer of their own.
    pub(crate) fn resolve(
        &self,
        gpu: &Gpu,
        recorder: &mut Recorder,
        queries: [u32; 2],
    ) -> Result<wgpu::Buffer> {
        let Some(set) = &self.set else {
            return Err(refused("elapsed_ms", "no timing event was recorded".to_owned()));
        };
        let step = wgpu::QUERY_RESOLVE_BUFFER_ALIGNMENT;
        let buffer = |usage| {
            gpu.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: 2 * step,
                usage: usage | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: false,
            })
        };
        let (resolved, times) =
            (buffer(wgpu::BufferUsages::QUERY_RESOLVE), buffer(wgpu::BufferUsages::COPY_DST));
        let encoder = recorder.encoder(gpu);
        for (i, query) in (0..).zip(queries) {
            encoder.resolve_query_set(set, query..query + 1, &resolved, i * step);
            encoder.copy_buffer_to_buffer(&resolved, i * step, &times, i * 8, 8);
        }
        Ok(times)
    }
}
