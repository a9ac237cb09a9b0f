//! Graphs of launches, copies and fills: CUDA graphs, put together node by node.
//!
//! The parameters of a launch, the hidden ones among them, are in the graph. So a graph belongs to
//! one stream: that whose control block its kernels report to.

use super::Cuda;
use super::crowd::{Claim, Crowd};
use super::device::Device;
use super::program::{CudaProgram, ParameterWords};
use super::streams::Queue;
use super::tenancy::Tenancy;
use crate::driver::{Graph, GraphBuilder, GraphNode};
use kiln_backend::{DeviceGraph, GraphWork, Graphs, Result, StreamId};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A graph on a GPU.
struct CudaGraph {
    device: Arc<Device>,
    queue: Arc<Queue>,
    /// The driver's graph is one object, which one thread uses at a time.
    graph: Mutex<Graph>,
    tenancy: Arc<Tenancy>,
    /// Its nodes; `None` where an update builds anew: copies, fills, and launches of no blocks.
    launches: Vec<Option<LaunchNode>>,
    /// Whether a launch may find no room beside a grid of actors.
    fills: bool,
    /// Whether a kernel prints.
    prints: bool,
    /// Whether a kernel has barriers of the grid.
    counts: bool,
}

/// A launch in a graph.
struct LaunchNode {
    node: GraphNode,
    /// What it asks of the multiprocessors.
    claim: Claim,
}

impl Graphs for Cuda {
    unsafe fn build_graph(
        &self,
        nodes: &[kiln_backend::GraphNode<'_>],
        stream: StreamId,
    ) -> Result<Box<dyn DeviceGraph>> {
        let queue = self.device.streams.get(stream).into_owned();
        let mut builder = self.check(GraphBuilder::new(&self.device.context))?;
        let (mut made, mut launches) = (Vec::with_capacity(nodes.len()), Vec::new());
        let (mut prints, mut fills) = (false, false);
        let mut last_counted = None;
        for node in nodes {
            let mut after: Vec<GraphNode> = node.after.iter().map(|&earlier| made[earlier]).collect();
            let mut counted = false;
            let (added, launch) = match node.work {
                GraphWork::Launch { program, grid, buffers, numbers } => {
                    let program = self.own(program)?;
                    prints |= program.prints();
                    fills |= program.fills();
                    let mut words = ParameterWords::new();
                    program.pack(buffers, numbers, &mut words)?;
                    // Launches with barriers of the grid count in one place: one by one, each from
                    // 0 on.
                    if let Some(arrived) = program.arrived(&queue)? {
                        // The driver refuses a node that is named twice.
                        after.extend(last_counted.filter(|last| !after.contains(last)));
                        after = vec![self.check(builder.fill(arrived, 0, size_of::<u64>(), &after))?];
                        counted = true;
                    }
                    // SAFETY: the words are made of arguments that are right for the kernel, as the
                    // caller promises.
                    let node =
                        unsafe { add_launch(&mut builder, program, &queue, grid, &mut words, &after) }?;
                    (node, (!grid.contains(&0)).then(|| LaunchNode::of(node, program, grid)))
                }
                GraphWork::Copy { to, from, bytes } => {
                    (self.check(builder.copy(to, from, bytes, &after))?, None)
                }
                GraphWork::Fill { to, byte, bytes } => {
                    (self.check(builder.fill(to, byte, bytes, &after))?, None)
                }
            };
            if counted {
                last_counted = Some(added);
            }
            made.push(added);
            launches.push(launch);
        }
        // What the driver allocates for a graph may wait for every kernel, as loading a program
        // does.
        let graph = self.with_room("a graph", || self.check(builder.instantiate(&queue.stream)))?;
        let (device, tenancy) = (self.device.clone(), self.tenancy.clone());
        Ok(Box::new(CudaGraph {
            device,
            queue,
            tenancy,
            graph: Mutex::new(graph),
            launches,
            fills,
            prints,
            counts: last_counted.is_some(),
        }))
    }
}

impl LaunchNode {
    fn of(node: GraphNode, program: &CudaProgram, grid: [u32; 3]) -> LaunchNode {
        LaunchNode { node, claim: program.claim(grid) }
    }
}

/// Adds a launch: where it has no blocks, a node that does nothing.
///
/// # Safety
/// That of [`Graphs::build_graph`].
unsafe fn add_launch(
    builder: &mut GraphBuilder,
    program: &CudaProgram,
    queue: &Queue,
    grid: [u32; 3],
    words: &mut ParameterWords,
    after: &[GraphNode],
) -> Result<GraphNode> {
    if grid.contains(&0) {
        return program.explained(builder.nothing(after));
    }
    // SAFETY: words and maps are as many as the kernel takes; that they are right for it is the
    // caller's promise.
    program.with_node(queue, grid, words, |kernel| unsafe { builder.kernel(kernel, after) })
}

impl DeviceGraph for CudaGraph {
    unsafe fn update(&mut self, node: usize, work: GraphWork<'_>) -> Result<bool> {
        let GraphWork::Launch { program, grid, buffers, numbers } = work else { return Ok(false) };
        let Some(Some(launch)) = self.launches.get_mut(node) else { return Ok(false) };
        let Some(program) = program.as_any().downcast_ref::<CudaProgram>() else { return Ok(false) };
        if grid.contains(&0) {
            return Ok(false);
        }
        let graph = self.graph.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut words = ParameterWords::new();
        program.pack(buffers, numbers, &mut words)?;
        program.with_node(&self.queue, grid, &mut words, |kernel| {
            // SAFETY: the node is of this graph; the rest is the caller's promise.
            unsafe { graph.set_kernel(launch.node, kernel) }
        })?;
        *launch = LaunchNode::of(launch.node, program, grid);
        self.fills |= program.fills();
        Ok(true)
    }

    unsafe fn launch(&self) -> Result<()> {
        if !(self.fills || self.tenancy.is_crowded()) {
            return self.enqueue();
        }
        let gpu = self.device.context.properties();
        let fits = |crowd: &Crowd| self.launches.iter().flatten().all(|l| crowd.has_room(gpu, &l.claim));
        self.tenancy.enqueue((&self.device, &self.queue), fits, || self.enqueue())
    }
}

impl CudaGraph {
    fn enqueue(&self) -> Result<()> {
        let launched = (|| {
            // Held until the graph is enqueued, as for a launch.
            let _expected =
                if self.prints { Some(self.queue.ready_reports()?.expect_prints()?) } else { None };
            let _counting = if self.counts { Some(self.queue.ready_reports()?.counting()) } else { None };
            // SAFETY: memory and programs are alive, as the caller of `launch` promises; the
            // control block lives as long as the stream's work, and `self` keeps the stream.
            unsafe { self.graph().launch(&self.queue.stream) }
        })();
        launched.map_err(|error| self.device.explain(error))
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        // A panic cannot have left the driver's object half-changed.
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
