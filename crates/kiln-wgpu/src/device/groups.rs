//! Bind groups, which are kept for launches over the same buffers.

use super::gpu::Gpu;
use super::program::Pipeline;
use smallvec::SmallVec;
use std::collections::HashMap;

/// Bind groups that are kept. A training loop has a few for each kernel; what makes tensors of new
/// sizes all the time has new ones each time.
const GROUPS: usize = 4096;

/// The buffers of a group: the serial number and the first byte of each.
pub(crate) type GroupKey = SmallVec<[(u64, u64); 8]>;

/// The bind groups of a device. Each keeps its buffers alive.
#[derive(Default)]
pub(crate) struct BindGroups(HashMap<(u64, GroupKey), wgpu::BindGroup>);

impl BindGroups {
    /// The bind group of a pipeline over these buffers.
    pub(crate) fn get(
        &mut self,
        gpu: &Gpu,
        pipeline: &Pipeline,
        key: GroupKey,
        entries: &[wgpu::BindGroupEntry<'_>],
    ) -> &wgpu::BindGroup {
        let key = (pipeline.serial, key);
        if self.0.len() >= GROUPS && !self.0.contains_key(&key) {
            self.0.clear();
        }
        self.0.entry(key).or_insert_with(|| {
            gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &pipeline.layout,
                entries,
            })
        })
    }

    /// Forgets them, so that buffers without a user are freed.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
