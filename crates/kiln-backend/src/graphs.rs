//! Graphs: launches, copies and fills that a device has been given once and enqueues in one call.

use crate::{BufferBinding, DevicePtr, Program, Result, StreamId};

/// What a node of a graph does.
#[derive(Clone, Copy)]
pub enum GraphWork<'a> {
    /// A launch, as [`Backend::launch`](crate::Backend::launch) makes it. The arguments are copied.
    Launch {
        /// A program of the device.
        program: &'a dyn Program,
        /// Blocks on x, y and z. A zero extent launches nothing.
        grid: [u32; 3],
        /// As [`Launch::buffers`](crate::Launch::buffers).
        buffers: &'a [BufferBinding],
        /// As [`Launch::numbers`](crate::Launch::numbers).
        numbers: &'a [u64],
    },
    /// A copy from device to device, of at least one byte, between places that do not overlap.
    Copy {
        /// Where to.
        to: DevicePtr,
        /// Where from.
        from: DevicePtr,
        /// How many bytes, at most [`GraphWork::MOST_BYTES`].
        bytes: usize,
    },
    /// A fill with a byte, of at least one byte.
    Fill {
        /// Where.
        to: DevicePtr,
        /// With what.
        byte: u8,
        /// How many bytes, at most [`GraphWork::MOST_BYTES`].
        bytes: usize,
    },
}

impl GraphWork<'_> {
    /// Bytes that one copy or fill moves at most: 1 GiB. Drivers describe copies by rows, whose
    /// lengths have limits of 31 bits.
    pub const MOST_BYTES: usize = 1 << 30;
}

/// A node of a graph.
pub struct GraphNode<'a> {
    /// What it does.
    pub work: GraphWork<'a>,
    /// The nodes that it runs after, by their places in the list: all are before it. Nodes that do
    /// not follow from each other may run at the same time.
    pub after: &'a [usize],
}

/// Graphs of a device: [`Backend::graphs`](crate::Backend::graphs). Where a backend has none, the
/// runtime enqueues the nodes one by one, which means the same and takes longer.
pub trait Graphs {
    /// Makes a graph that runs in a stream. It keeps the stream's reports (faults, prints) usable
    /// for as long as it is there.
    ///
    /// # Errors
    /// As of [`Backend::launch`](crate::Backend::launch) for each node, and what the device refuses
    /// of the whole.
    ///
    /// # Safety
    /// The arguments of each launch are right for its kernel, as
    /// [`Backend::launch`](crate::Backend::launch) demands. The memory must be there while the
    /// graph runs, which the caller promises at each [`DeviceGraph::launch`].
    unsafe fn build_graph(&self, nodes: &[GraphNode<'_>], stream: StreamId) -> Result<Box<dyn DeviceGraph>>;
}

/// A graph on a device, ready to run. Dropping it while it runs ends nothing.
pub trait DeviceGraph: Send + Sync {
    /// Changes what a node does in the runs that are launched from now on, in the order of the
    /// nodes as it was built. `false` where the device cannot change it in place: the caller builds
    /// the graph anew.
    ///
    /// # Errors
    /// As of [`Graphs::build_graph`]. The node is as it was.
    ///
    /// # Safety
    /// As [`Graphs::build_graph`].
    unsafe fn update(&mut self, node: usize, work: GraphWork<'_>) -> Result<bool>;

    /// Enqueues all nodes in the graph's stream.
    ///
    /// # Errors
    /// As of [`Backend::launch`](crate::Backend::launch).
    ///
    /// # Safety
    /// All memory that the nodes use is this device's and lives until this run is over; the
    /// programs are alive too.
    unsafe fn launch(&self) -> Result<()>;
}
