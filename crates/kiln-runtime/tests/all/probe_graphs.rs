//! Graphs of the probe: they run their nodes in an order as unlike the recorded one as the nodes'
//! dependencies allow, and count.

use crate::probe::{Loaded, Probe, count};
use kiln_backend::{
    Backend, BufferBinding, DeviceGraph, DevicePtr, GraphNode, GraphWork, Graphs, Launch, Result, StreamId,
};

/// A node that owns what it refers to.
enum Work {
    Launch { program: Loaded, grid: [u32; 3], buffers: Vec<BufferBinding>, numbers: Vec<u64> },
    Copy { to: DevicePtr, from: DevicePtr, bytes: usize },
    Fill { to: DevicePtr, byte: u8, bytes: usize },
}

struct ProbeGraph {
    probe: Probe,
    stream: StreamId,
    nodes: Vec<(Work, Vec<usize>)>,
}

fn owned(work: GraphWork<'_>) -> Work {
    match work {
        GraphWork::Launch { program, grid, buffers, numbers } => {
            let program = program.as_any().downcast_ref::<Loaded>().expect("the probe's own program").clone();
            Work::Launch { program, grid, buffers: buffers.to_vec(), numbers: numbers.to_vec() }
        }
        GraphWork::Copy { to, from, bytes } => Work::Copy { to, from, bytes },
        GraphWork::Fill { to, byte, bytes } => Work::Fill { to, byte, bytes },
    }
}

impl Graphs for Probe {
    unsafe fn build_graph(&self, nodes: &[GraphNode<'_>], stream: StreamId) -> Result<Box<dyn DeviceGraph>> {
        count(&self.counts().graphs_built);
        let nodes = nodes.iter().enumerate().map(|(number, node)| {
            assert!(node.after.iter().all(|&earlier| earlier < number), "{:?}", node.after);
            (owned(node.work), node.after.to_vec())
        });
        Ok(Box::new(ProbeGraph { probe: self.clone(), stream, nodes: nodes.collect() }))
    }
}

// SAFETY of every `unsafe` call below: the probe gets exactly what this graph's caller promised.
#[allow(clippy::undocumented_unsafe_blocks)]
impl DeviceGraph for ProbeGraph {
    unsafe fn update(&mut self, node: usize, work: GraphWork<'_>) -> Result<bool> {
        if !matches!(work, GraphWork::Launch { .. }) {
            return Ok(false);
        }
        count(&self.probe.counts().graphs_updated);
        self.nodes[node].0 = owned(work);
        Ok(true)
    }

    unsafe fn launch(&self) -> Result<()> {
        count(&self.probe.counts().graphs_launched);
        let (probe, stream) = (&self.probe, self.stream);
        let mut left: Vec<usize> = (0..self.nodes.len()).collect();
        while let Some(at) = left.iter().rposition(|&n| self.nodes[n].1.iter().all(|e| !left.contains(e))) {
            match &self.nodes[left.remove(at)].0 {
                Work::Launch { program, grid, buffers, numbers } => unsafe {
                    probe.launch(program, Launch { grid: *grid, buffers, numbers, stream })?
                },
                Work::Copy { to, from, bytes } => unsafe { probe.copy(*to, *from, *bytes, stream)? },
                Work::Fill { to, byte, bytes } => unsafe { probe.fill(*to, *byte, *bytes, stream)? },
            }
        }
        Ok(())
    }
}
