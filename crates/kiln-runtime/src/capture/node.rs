//! The nodes of a graph: what was recorded, and the memory that it uses.

use crate::activity::CallSite;
use crate::args::{Arguments, Use};
use crate::buffer::Buffer;
use crate::loaded::LoadedKernel;
use crate::residency::Named;
use crate::stream::Queue;
use kiln_backend::{DevicePtr, GraphWork};
use smallvec::SmallVec;
use std::sync::Arc;

/// A launch, copy or fill that was recorded.
#[derive(Clone)]
pub(crate) struct Recorded {
    pub(crate) work: Work,
    /// The stream that it was recorded in, which orders it after what was recorded there before.
    pub(crate) queue: Queue,
    pub(crate) site: CallSite,
}

#[derive(Clone)]
pub(crate) enum Work {
    Launch(Box<Launched>),
    Copy { to: Place, from: Place, bytes: usize },
    Fill { to: Place, byte: u8, bytes: usize },
}

/// A launch with its arguments.
#[derive(Clone)]
pub(crate) struct Launched {
    pub(crate) kernel: Arc<LoadedKernel>,
    pub(crate) grid: [u32; 3],
    pub(crate) args: Arguments,
}

/// A byte of a buffer.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) offset: usize,
}

impl Place {
    fn address(&self) -> DevicePtr {
        DevicePtr(self.buffer.ptr().0 + self.offset as u64)
    }

    fn reach(&self, writes: bool) -> Reach<'_> {
        Reach { buffer: &self.buffer, writes, argument: None }
    }
}

/// Memory that a node uses.
pub(crate) struct Reach<'a> {
    pub(crate) buffer: &'a Arc<Buffer>,
    pub(crate) writes: bool,
    /// The argument of a launch.
    pub(crate) argument: Option<&'a Use>,
}

impl Recorded {
    /// What it uses. A launch of no programs uses nothing.
    pub(crate) fn reaches(&self) -> SmallVec<[Reach<'_>; 8]> {
        match &self.work {
            Work::Launch(launch) if launch.grid.contains(&0) => SmallVec::new(),
            Work::Launch(launch) => {
                let tensors = launch.args.tensors();
                tensors
                    .map(|(used, at)| Reach {
                        buffer: &used.buffer,
                        writes: at.written,
                        argument: Some(used),
                    })
                    .collect()
            }
            Work::Copy { to, from, .. } => [from.reach(false), to.reach(true)].into_iter().collect(),
            Work::Fill { to, .. } => [to.reach(true)].into_iter().collect(),
        }
    }

    /// The same as a backend takes it.
    pub(crate) fn for_backend(&self) -> GraphWork<'_> {
        match &self.work {
            Work::Launch(launch) => {
                let Launched { kernel, grid, args } = &**launch;
                let (program, buffers, numbers) = (&*kernel.program, args.views(), args.numbers());
                GraphWork::Launch { program, grid: *grid, buffers, numbers }
            }
            Work::Copy { to, from, bytes } => {
                GraphWork::Copy { to: to.address(), from: from.address(), bytes: *bytes }
            }
            Work::Fill { to, byte, bytes } => {
                GraphWork::Fill { to: to.address(), byte: *byte, bytes: *bytes }
            }
        }
    }

    /// What to call a piece of memory of the node in an error.
    pub(crate) fn name_of(&self, param: Option<usize>) -> Named<'_> {
        match (&self.work, param) {
            (Work::Launch(launch), Some(param)) => {
                Named::Argument { kernel: &launch.kernel.name, argument: &launch.kernel.params[param].name }
            }
            _ => Named::Tensor,
        }
    }
}
