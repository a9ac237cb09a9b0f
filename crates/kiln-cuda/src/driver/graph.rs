//! Graphs: work recorded once and launched many times at the cost of one launch.

use super::context::Context;
use super::error::{CudaError, Result};
use super::ffi::{
    self, CopyNodeDescription, CopySide, FillNodeDescription, GraphExecHandle, GraphHandle, GraphNodeHandle,
    KernelNodeDescription, LaunchAttributeValue,
};
use super::function::Function;
use super::shape::LaunchShape;
use super::stream::Stream;
use super::tensor_map::TensorMap;
use kiln_backend::DevicePtr;
use smallvec::SmallVec;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Recorded work, ready to launch. It is one object of the driver, which two threads must not use
/// at once: neither launch it nor change it.
pub struct Graph {
    context: Context,
    exec: GraphExecHandle,
    nodes: usize,
    /// What it was made from, by whose nodes it is changed.
    _record: Record,
}

/// A kernel, copy or fill of a [`GraphBuilder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphNode(GraphNodeHandle);

/// A graph that is put together node by node. Each node runs after those of `after`, which are of
/// this graph.
pub struct GraphBuilder(Record);

/// A launch as a node of a graph: the kernel, and its parameters as
/// [`Function::launch_with_maps`] takes them.
#[derive(Clone, Copy)]
pub struct KernelNode<'a> {
    /// The kernel.
    pub function: &'a Function,
    /// Its extents; none is zero.
    pub shape: &'a LaunchShape,
    /// The tensor maps.
    pub maps: &'a [TensorMap],
    /// The words.
    pub words: &'a [u64],
}

impl KernelNode<'_> {
    /// Calls `call` with the launch as the driver takes it.
    fn describe<R>(&self, call: impl FnOnce(&KernelNodeDescription) -> R) -> R {
        let maps = self.maps.iter().map(|map| std::ptr::from_ref(map).cast_mut().cast::<c_void>());
        let words = self.words.iter().map(|word| std::ptr::from_ref(word).cast_mut().cast::<c_void>());
        let mut parameters: SmallVec<[*mut c_void; 64]> = maps.chain(words).collect();
        call(&KernelNodeDescription {
            function: self.function.handle(),
            grid: self.shape.grid,
            block: self.shape.block,
            shared_bytes: self.shape.shared_bytes,
            parameters: parameters.as_mut_ptr(),
            extra: null_mut(),
            kernel: null_mut(),
            context: ffi::ContextHandle::NULL,
        })
    }
}

impl GraphBuilder {
    /// Whether the driver has what a builder needs, which came with CUDA 12.0.
    pub fn is_available(context: &Context) -> bool {
        let api = context.api();
        api.cuGraphCreate.is_some()
            && api.cuGraphAddKernelNode_v2.is_some()
            && api.cuGraphKernelNodeSetAttribute.is_some()
            && api.cuGraphAddMemcpyNode.is_some()
            && api.cuGraphAddMemsetNode.is_some()
            && api.cuGraphAddEmptyNode.is_some()
            && api.cuGraphExecKernelNodeSetParams_v2.is_some()
    }

    /// A graph without nodes.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn new(context: &Context) -> Result<GraphBuilder> {
        context.bind()?;
        let mut record = Record { context: context.clone(), graph: GraphHandle::NULL };
        // SAFETY: `graph` is writable.
        unsafe { context.api().cuGraphCreate(&mut record.graph, 0) }?;
        Ok(GraphBuilder(record))
    }

    /// Adds a launch. The driver copies the parameters.
    ///
    /// # Errors
    /// Those of the calls.
    ///
    /// # Safety
    /// Words and maps are as many as the kernel's parameters. What they mean is promised at each
    /// launch of the graph.
    pub unsafe fn kernel(&mut self, kernel: &KernelNode<'_>, after: &[GraphNode]) -> Result<GraphNode> {
        let api = self.0.context.api();
        let handle = self.add(after, |node, graph, after, count| {
            // SAFETY: graph and earlier nodes are live, the description is complete for the
            // duration of the call, in which the driver copies the parameters that it points to.
            kernel
                .describe(|launch| unsafe { api.cuGraphAddKernelNode_v2(node, graph, after, count, launch) })
        })?;
        let shape = kernel.shape;
        let cluster = shape.cluster.map(|cluster| (ffi::ATTRIBUTE_CLUSTER, cluster));
        let cooperative = shape.cooperative.then_some((ffi::ATTRIBUTE_COOPERATIVE, [1, 0, 0]));
        for (attribute, words) in cluster.into_iter().chain(cooperative) {
            let mut value = LaunchAttributeValue([0; 16]);
            value.0[..3].copy_from_slice(&words);
            // SAFETY: the node was made above and is a kernel's; the value is the attribute's.
            unsafe { api.cuGraphKernelNodeSetAttribute(handle.0, attribute, &value) }?;
        }
        Ok(handle)
    }

    /// Adds a copy of `bytes` bytes, from 1 to 1 GiB, from device to device.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn copy(
        &mut self,
        to: DevicePtr,
        from: DevicePtr,
        bytes: usize,
        after: &[GraphNode],
    ) -> Result<GraphNode> {
        let side = |at: DevicePtr| CopySide {
            first: [0; 4],
            kind: ffi::MEMORY_DEVICE,
            host: null_mut(),
            device: at.0,
            array: null_mut(),
            reserved: null_mut(),
            pitch: bytes,
            height: 1,
        };
        let copy = CopyNodeDescription { from: side(from), to: side(to), bytes, rows: 1, slices: 1 };
        let context = &self.0.context;
        self.add(after, |node, graph, after, count| {
            // SAFETY: graph and earlier nodes are live, the description is complete for the
            // duration of the call. Nothing is copied yet.
            unsafe { context.api().cuGraphAddMemcpyNode(node, graph, after, count, &copy, context.handle()) }
        })
    }

    /// Adds a fill of `bytes` bytes, from 1 to 1 GiB.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn fill(&mut self, to: DevicePtr, byte: u8, bytes: usize, after: &[GraphNode]) -> Result<GraphNode> {
        let fill = FillNodeDescription {
            to: to.0,
            pitch: 0,
            value: byte.into(),
            element_bytes: 1,
            elements: bytes,
            rows: 1,
        };
        let context = &self.0.context;
        self.add(after, |node, graph, after, count| {
            // SAFETY: as for a copy.
            unsafe { context.api().cuGraphAddMemsetNode(node, graph, after, count, &fill, context.handle()) }
        })
    }

    /// Adds a node that does nothing.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn nothing(&mut self, after: &[GraphNode]) -> Result<GraphNode> {
        let api = self.0.context.api();
        self.add(after, |node, graph, after, count| {
            // SAFETY: graph and earlier nodes are live.
            unsafe { api.cuGraphAddEmptyNode(node, graph, after, count) }
        })
    }

    /// Makes it ready to launch, in this stream at first.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn instantiate(self, stream: &Stream) -> Result<Graph> {
        self.0.context.bind()?;
        self.0.instantiate(stream)
    }

    fn add(
        &self,
        after: &[GraphNode],
        call: impl FnOnce(*mut GraphNodeHandle, GraphHandle, *const GraphNodeHandle, usize) -> Result<()>,
    ) -> Result<GraphNode> {
        self.0.context.bind()?;
        let after: SmallVec<[GraphNodeHandle; 8]> = after.iter().map(|node| node.0).collect();
        let first = if after.is_empty() { std::ptr::null() } else { after.as_ptr() };
        let mut node = GraphNodeHandle::NULL;
        call(&mut node, self.0.graph, first, after.len())?;
        Ok(GraphNode(node))
    }
}

impl Graph {
    /// Records what `record` enqueues in the stream, instead of running it. Work in other streams
    /// is recorded too if they wait for an event of this one and this one waits for them at the
    /// end.
    ///
    /// While recording, this thread cannot wait for the device, allocate or free: the call that
    /// tries fails, and with it the recording.
    ///
    /// # Errors
    /// The error of `record`; those of the calls.
    pub fn capture<E: From<CudaError>>(
        stream: &Stream,
        record: impl FnOnce(&Stream) -> std::result::Result<(), E>,
    ) -> std::result::Result<Graph, E> {
        let recording = Recording::begin(stream)?;
        record(stream)?;
        Ok(recording.end()?.instantiate(stream)?)
    }

    /// How many launches, copies and fills it consists of.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Changes a launch, for the runs that are launched from now on. Clusters stay as they are.
    ///
    /// # Errors
    /// Those of the calls, with which the launch is as it was.
    ///
    /// # Safety
    /// The node is of the builder that this graph was made by; the rest is as for
    /// [`GraphBuilder::kernel`].
    pub unsafe fn set_kernel(&mut self, node: GraphNode, kernel: &KernelNode<'_>) -> Result<()> {
        self.context.bind()?;
        let api = self.context.api();
        kernel.describe(|launch| {
            // SAFETY: graph and node are live, and no other thread uses them: `self` is borrowed
            // alone. The description is complete for the duration of the call.
            unsafe { api.cuGraphExecKernelNodeSetParams_v2(self.exec, node.0, launch) }
        })
    }

    /// Enqueues all of it in a stream.
    ///
    /// # Errors
    /// Those of the calls, and of earlier work in the context.
    ///
    /// # Safety
    /// Everything that the recorded work uses (memory, modules) is alive until this run of it is
    /// done: the promises made for the recorded launches hold for each run.
    pub unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        self.context.bind()?;
        // SAFETY: graph and stream are live; the rest is the caller's promise.
        unsafe { self.context.api().cuGraphLaunch(self.exec, stream.handle()) }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: made by `instantiate`, destroyed here alone; the driver finishes a run that
            // is under way. A failure cannot be reported.
            let _ = unsafe { self.context.api().cuGraphExecDestroy(self.exec) };
        }
    }
}

/// A stream that is recording. Dropped early, by an error or a panic, it gives the stream back and
/// forgets the record.
struct Recording<'a> {
    stream: &'a Stream,
    ended: bool,
}

impl<'a> Recording<'a> {
    fn begin(stream: &'a Stream) -> Result<Recording<'a>> {
        stream.context().bind()?;
        // SAFETY: the stream is live. Other threads go on undisturbed in this mode.
        unsafe {
            stream.context().api().cuStreamBeginCapture_v2(stream.handle(), ffi::CAPTURE_THREAD_LOCAL)
        }?;
        Ok(Recording { stream, ended: false })
    }

    fn end(mut self) -> Result<Record> {
        self.finish()
    }

    fn finish(&mut self) -> Result<Record> {
        self.ended = true;
        let context = self.stream.context();
        context.bind()?;
        let mut record = Record { context: context.clone(), graph: GraphHandle::NULL };
        // SAFETY: the stream is recording, `graph` is writable.
        unsafe { context.api().cuStreamEndCapture(self.stream.handle(), &mut record.graph) }?;
        Ok(record)
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // A failed call made the record useless, and its error is on its way to the caller.
            let _ = self.finish();
        }
    }
}

/// Work as recorded.
struct Record {
    context: Context,
    graph: GraphHandle,
}

impl Record {
    fn instantiate(self, stream: &Stream) -> Result<Graph> {
        let (api, mut nodes, mut exec) = (self.context.api(), 0, GraphExecHandle::NULL);
        // SAFETY: the graph is live; null asks for the number of nodes only; the results are
        // writable.
        unsafe {
            api.cuGraphGetNodes(self.graph, null_mut(), &mut nodes)?;
            api.cuGraphInstantiateWithFlags(&mut exec, self.graph, 0)?;
        }
        let graph = Graph { context: self.context.clone(), exec, nodes, _record: self };
        // So that the first launch costs what the later ones do.
        // SAFETY: graph and stream are live.
        unsafe { api.cuGraphUpload(graph.exec, stream.handle()) }?;
        Ok(graph)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.graph != GraphHandle::NULL && self.context.bind().is_ok() {
            // SAFETY: made by the capture, destroyed here alone. A failure cannot be reported.
            let _ = unsafe { self.context.api().cuGraphDestroy(self.graph) };
        }
    }
}
