//! Bind groups, which are kept for launches over the same buffers.

use super::gpu::Gpu;
use super::program::Pipeline;
pub(crate) use super::repeats::CachedGroup;
use super::repeats::LastLaunch;
use kiln_backend::Result;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Bind groups that are kept. A training loop has a few for each kernel; what makes tensors of new
/// sizes all the time has new ones each time.
const GROUPS: usize = 4096;

/// The buffers of a group: the serial number and the first byte of each.
pub(crate) type GroupKey = SmallVec<[(u64, u64); 8]>;

/// The bind groups of a device. Each keeps its buffers alive.
#[derive(Default)]
pub(crate) struct BindGroups {
    groups: FxHashMap<(u64, GroupKey), CachedGroup>,
    /// The last launch of each program, by the serial number of its first pipeline.
    launches: FxHashMap<u64, LastLaunch>,
    /// The last one that was asked for: launches that follow each other are often over the same
    /// buffers.
    last: Option<((u64, GroupKey), CachedGroup)>,
    /// How many were made.
    made: u64,
}

impl BindGroups {
    /// The bind group of a pipeline over the buffers of a key, whose entries `bind` makes if it is
    /// not there yet.
    pub(crate) fn get<'a>(
        &mut self,
        gpu: &Gpu,
        pipeline: &Pipeline,
        key: GroupKey,
        bind: impl FnOnce() -> Result<SmallVec<[wgpu::BindGroupEntry<'a>; 9]>>,
    ) -> Result<&CachedGroup> {
        let key = (pipeline.serial, key);
        let found = match self.last.take() {
            Some((last, group)) if last == key => group,
            _ => self.find(gpu, pipeline, &key, bind)?,
        };
        let (_, group) = self.last.insert((key, found));
        Ok(group)
    }

    fn find<'a>(
        &mut self,
        gpu: &Gpu,
        pipeline: &Pipeline,
        key: &(u64, GroupKey),
        bind: impl FnOnce() -> Result<SmallVec<[wgpu::BindGroupEntry<'a>; 9]>>,
    ) -> Result<CachedGroup> {
        if let Some(known) = self.groups.get(key) {
            return Ok(known.clone());
        }
        if self.groups.len() >= GROUPS {
            self.groups.clear();
        }
        let descriptor =
            wgpu::BindGroupDescriptor { label: None, layout: &pipeline.layout, entries: &bind()? };
        let group = gpu.device.create_bind_group(&descriptor);
        self.made += 1;
        let group = CachedGroup { group, serial: self.made };
        self.groups.insert(key.clone(), group.clone());
        Ok(group)
    }

    /// The last launch of a program.
    pub(crate) fn last_launch(&self, program: u64) -> Option<&LastLaunch> {
        self.launches.get(&program)
    }

    /// Keeps the last launch of a program.
    pub(crate) fn set_last_launch(&mut self, program: u64, launch: LastLaunch) {
        if self.launches.len() >= GROUPS {
            self.launches.clear();
        }
        self.launches.insert(program, launch);
    }

    /// Forgets them, so that buffers without a user are freed.
    pub(crate) fn clear(&mut self) {
        self.groups.clear();
        self.launches.clear();
        self.last = None;
    }
}
