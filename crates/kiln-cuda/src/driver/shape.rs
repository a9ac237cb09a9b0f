//! The extents of a launch.

use super::ffi::{self, LaunchAttribute, LaunchDescription, StreamHandle};

/// The extents of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks on x, y and z. Any zero launches nothing.
    pub grid: [u32; 3],
    /// Threads of a block on x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes. Above 48 KiB see `Function::allow_shared`.
    pub shared_bytes: u32,
    /// Blocks of a cluster on x, y and z, which divide the grid's.
    pub cluster: Option<[u32; 3]>,
    /// All blocks run at once, or the launch fails.
    pub cooperative: bool,
}

impl LaunchShape {
    /// A plain launch: no dynamic shared memory, no clusters.
    pub const fn new(grid: [u32; 3], block: [u32; 3]) -> LaunchShape {
        LaunchShape { grid, block, shared_bytes: 0, cluster: None, cooperative: false }
    }

    /// Calls `call` with the shape as `cuLaunchKernelEx` takes it.
    pub(super) fn describe<R>(&self, stream: StreamHandle, call: impl FnOnce(&LaunchDescription) -> R) -> R {
        let mut attributes = [LaunchAttribute { id: 0, pad: 0, value: [0; 16] }; 2];
        let mut count = 0;
        if let Some(cluster) = self.cluster {
            attributes[count].id = ffi::ATTRIBUTE_CLUSTER;
            attributes[count].value[..3].copy_from_slice(&cluster);
            count += 1;
        }
        if self.cooperative {
            attributes[count].id = ffi::ATTRIBUTE_COOPERATIVE;
            attributes[count].value[0] = 1;
            count += 1;
        }
        call(&LaunchDescription {
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared_bytes,
            stream,
            attributes: attributes.as_mut_ptr(),
            attribute_count: count as u32,
        })
    }

    pub(super) fn is_plain(&self) -> bool {
        self.cluster.is_none() && !self.cooperative
    }
}
