//! What changes as a device is used, under one lock.

use super::allocations::{AllocationOffset, Allocations, PooledBuffer};
use super::gpu::Gpu;
use super::groups::BindGroups;
use super::mapped::MappedRegions;
use super::recorder::Recorder;
use super::streams::Streams;
use super::timestamps::Timestamps;
use kiln_backend::{DevicePtr, Result, StreamId};
use std::collections::HashMap;

/// The state of a device.
pub(crate) struct DeviceState {
    pub(crate) recorder: Recorder,
    pub(crate) allocations: Allocations,
    pub(crate) groups: BindGroups,
    pub(crate) streams: Streams,
    pub(crate) timestamps: Timestamps,
    /// Where the kernels of each stream leave faults and prints. The last one is in use; those
    /// before it may still have something to report.
    pub(crate) reports: HashMap<StreamId, Vec<ReportBuffer>>,
    /// Buffers that the host reads from, not in use now.
    pub(crate) staging: Vec<wgpu::Buffer>,
    pub(crate) mapped: MappedRegions,
}

/// A buffer for faults and prints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportBuffer {
    pub(crate) memory: DevicePtr,
    pub(crate) bytes: u64,
    /// Whether something that can report was launched since it was read.
    pub(crate) is_pending: bool,
}

impl DeviceState {
    pub(crate) fn new(gpu: &Gpu) -> DeviceState {
        DeviceState {
            recorder: Recorder::new(gpu),
            allocations: Allocations::new(),
            groups: BindGroups::default(),
            streams: Streams::new(),
            timestamps: Timestamps::default(),
            reports: HashMap::new(),
            staging: Vec::new(),
            mapped: MappedRegions::default(),
        }
    }

    /// An allocation of at least a byte.
    pub(crate) fn allocate(&mut self, gpu: &Gpu, bytes: u64) -> Result<DevicePtr> {
        self.allocations.allocate(gpu, &mut self.groups, bytes.max(1))
    }

    /// The buffer at a place, which the open recording uses from now on.
    pub(crate) fn used(&mut self, gpu: &Gpu, place: AllocationOffset) -> Result<&PooledBuffer> {
        let recording = self.recorder.number();
        self.allocations.used(gpu, &mut self.groups, place, recording)
    }

    /// Forgets a stream. The default stream reports what it has not.
    pub(crate) fn destroy_stream(&mut self, stream: StreamId) {
        if stream == StreamId::default() {
            return;
        }
        self.streams.destroy(stream);
        if let Some(orphans) = self.reports.remove(&stream) {
            // Before the default stream's own, of which the last one stays in use.
            self.reports.entry(StreamId::default()).or_default().splice(0..0, orphans);
        }
    }
}
