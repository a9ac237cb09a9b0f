//! Launches like one before, of which nothing is computed anew.
//!
//! A step of training or of a solver launches each of its kernels over the same buffers, with the
//! same numbers, again and again. What such a launch binds, and the parameters that it records,
//! follow from its arguments and from the buffers behind them alone.

use super::offset::AllocationOffset;
use kiln_backend::{BufferBinding, DevicePtr, Launch, StreamId};
use smallvec::SmallVec;

/// The buffers of a launch: where they begin, and their serial numbers.
pub(crate) type BoundBuffers = SmallVec<[(AllocationOffset, u64); 4]>;

/// A bind group that is kept.
#[derive(Clone)]
pub(crate) struct CachedGroup {
    pub(crate) group: wgpu::BindGroup,
    /// Tells it from every other one of the device, also from those that are gone.
    pub(crate) serial: u64,
}

/// The last launch of a program, and what became of it.
pub(crate) struct LastLaunch {
    stream: StreamId,
    grid: [u32; 3],
    buffers: SmallVec<[BufferBinding; 4]>,
    numbers: SmallVec<[u64; 16]>,
    pub(crate) bound: BoundBuffers,
    /// Where it reports, and the live stream of those reports.
    pub(crate) report: Option<(StreamId, DevicePtr)>,
    pub(crate) all_writable: bool,
    pub(crate) group: CachedGroup,
    /// The parameter block.
    pub(crate) block: SmallVec<[u8; 64]>,
    /// The workgroups that are dispatched.
    pub(crate) groups: [u32; 3],
}

/// What a launch binds and records.
pub(crate) struct Outcome<'a> {
    pub(crate) bound: BoundBuffers,
    pub(crate) report: Option<(StreamId, DevicePtr)>,
    pub(crate) all_writable: bool,
    pub(crate) group: CachedGroup,
    pub(crate) block: &'a [u8],
    pub(crate) groups: [u32; 3],
}

impl LastLaunch {
    pub(crate) fn new(launch: &Launch<'_>, outcome: Outcome<'_>) -> LastLaunch {
        let Outcome { bound, report, all_writable, group, block, groups } = outcome;
        LastLaunch {
            stream: launch.stream,
            grid: launch.grid,
            buffers: SmallVec::from_slice(launch.buffers),
            numbers: SmallVec::from_slice(launch.numbers),
            bound,
            report,
            all_writable,
            group,
            block: SmallVec::from_slice(block),
            groups,
        }
    }

    /// Whether a launch of the same program has the same arguments. That the same buffers are
    /// behind them is still to be seen.
    pub(crate) fn is_like(&self, launch: &Launch<'_>) -> bool {
        self.stream == launch.stream
            && self.grid == launch.grid
            && self.numbers.as_slice() == launch.numbers
            && self.buffers.as_slice() == launch.buffers
    }
}
