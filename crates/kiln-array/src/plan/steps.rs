//! From a graph to launches in order.

use super::body::{Body, Group};
use super::chain::{Fused, epilogues};
use super::graph::Graph;
use super::lower::{Launch, lower};
use super::merge::merge;
use super::partition::{Part, Partition, alone, body_reads, partition};
use crate::op::Op;
use std::collections::HashMap;

/// A plan: launches in order.
pub(crate) struct Plan {
    pub(crate) partition: Partition,
    pub(crate) steps: Vec<Step>,
}

/// A launch of a plan.
pub(crate) enum Step {
    Kernel(Box<Launch>),
    /// A kernel of the library, which makes this array, and perhaps another one that it has the
    /// numbers for.
    Library {
        vertex: usize,
        also: Option<usize>,
    },
    /// A product of the library with an epilogue.
    Fused(Box<Fused>),
}

/// Plans a graph.
pub(crate) fn plan(graph: &Graph) -> Plan {
    let mut partition = partition(graph);
    let mut steps = Vec::new();
    let results = partition.results(graph);
    let epilogues = epilogues(graph, &partition, &results);
    merge(graph, &mut partition, &results, &epilogues);
    let results = partition.results(graph);
    let with_epilogue: Vec<usize> = epilogues.iter().flatten().map(|fused| fused.product).collect();
    for ((part, results), epilogue) in partition.parts.iter().zip(results).zip(epilogues) {
        if let Some(fused) = epilogue {
            steps.push(Step::Fused(Box::new(fused)));
            continue;
        }
        match part {
            Part::Library { vertex } if with_epilogue.contains(vertex) => {}
            Part::Library { vertex } => steps.push(Step::Library { vertex: *vertex, also: None }),
            Part::Kernel { group, body } if !results.is_empty() => {
                kernels(graph, (group, body), &results, &mut steps);
            }
            Part::Kernel { .. } => {}
        }
    }
    share_attention(graph, &mut steps);
    Plan { partition, steps }
}

/// Has the sums of attention, which its gradient needs, made by the launch that makes its results.
fn share_attention(graph: &Graph, steps: &mut Vec<Step>) {
    let mut made: HashMap<(usize, bool), usize> = HashMap::new();
    for (at, step) in steps.iter().enumerate() {
        if let Step::Library { vertex, .. } = step
            && let Some(Op::Attention { causal }) = graph[*vertex].op()
        {
            made.insert((graph[*vertex].inputs[0], *causal), at);
        }
    }
    // The sums come later: they are asked for by a gradient.
    for at in (0..steps.len()).rev() {
        let Step::Library { vertex: sums, .. } = steps[at] else { continue };
        let Some(Op::AttentionSums { causal }) = graph[sums].op() else { continue };
        let Some(&first) = made.get(&(graph[sums].inputs[0], *causal)) else { continue };
        if first < at
            && let Step::Library { also: also @ None, .. } = &mut steps[first]
        {
            *also = Some(sums);
            steps.remove(at);
        }
    }
}

/// The launch of a group, or one for each of its results where they do not lie as its dimensions
/// do.
fn kernels(graph: &Graph, (group, body): (&Group, &Body), results: &[usize], steps: &mut Vec<Step>) {
    let Some(device) = results.first().and_then(|&at| graph[group.members[at].vertex].array.device()) else {
        return;
    };
    if let Some(launch) = lower(graph, group, body, results, device) {
        steps.push(Step::Kernel(Box::new(launch)));
        return;
    }
    // One at a time, in order: later ones may read earlier ones, and what the group reads. Other
    // arrays in memory may be made later, or not at all: they became stored after this group was
    // written out.
    let mut stored = vec![false; graph.len()];
    body_reads(body).for_each(|read| stored[read] = true);
    for (at, member) in group.members.iter().enumerate() {
        let vertex = member.vertex;
        if !results.contains(&at) && !graph[vertex].op().is_some_and(Op::is_row_wise) {
            continue;
        }
        let own = alone(graph, vertex);
        if let Ok(body) = Body::of(graph, &own, &stored)
            && let Some(launch) = lower(graph, &own, &body, &[0], device)
        {
            steps.push(Step::Kernel(Box::new(launch)));
        }
        stored[vertex] = true;
    }
}
