//! The memory of a plan: how much of what it makes is there at once.

use super::graph::Graph;
use super::steps::{Plan, Step};
use crate::schedule::{reads, shares};

/// The most bytes that arrays which the plan makes have at one time. What was there before is not
/// among them, nor is what kernels of the library take while they run.
pub(crate) fn peak(graph: &Graph, plan: &Plan) -> usize {
    let mut last = vec![0; graph.len()];
    for (at, step) in plan.steps.iter().enumerate() {
        reads(graph, &plan.partition, step).into_iter().for_each(|read| last[read] = at);
    }
    let mut memory = Memory {
        is_there: graph.vertices.iter().map(|vertex| vertex.recipe.is_none()).collect(),
        block: vec![None; graph.len()],
        holders: vec![0; graph.len()],
    };
    memory.share(plan);
    let (mut now, mut most) = (0, 0);
    for (at, step) in plan.steps.iter().enumerate() {
        for made in writes(step) {
            memory.is_there[made] = true;
            (memory.block[made], memory.holders[made]) = (Some(made), 1);
            now += bytes(graph, made);
        }
        most = most.max(now);
        memory.share(plan);
        for array in (0..graph.len()).filter(|&array| last[array] == at && !graph[array].is_target) {
            now -= memory.free(graph, array);
        }
    }
    most
}

struct Memory {
    is_there: Vec<bool>,
    /// The array for which the memory was made that an array is in; none where it was there before.
    block: Vec<Option<usize>>,
    /// How many arrays are in what was made for an array.
    holders: Vec<usize>,
}

impl Memory {
    /// What shares memory with what is there now.
    fn share(&mut self, plan: &Plan) {
        for share in shares(&plan.partition, &mut self.is_there) {
            self.block[share.array] = self.block[share.with];
            if let Some(owner) = self.block[share.with] {
                self.holders[owner] += 1;
            }
        }
    }

    /// An array goes; the bytes that are free then.
    fn free(&mut self, graph: &Graph, array: usize) -> usize {
        if !std::mem::take(&mut self.is_there[array]) {
            return 0;
        }
        let Some(owner) = self.block[array] else { return 0 };
        self.holders[owner] -= 1;
        if self.holders[owner] == 0 { bytes(graph, owner) } else { 0 }
    }
}

/// The arrays that a step makes.
fn writes(step: &Step) -> Vec<usize> {
    match step {
        Step::Kernel(launch) => {
            let mut made: Vec<usize> = launch.outputs.iter().map(|view| view.vertex).collect();
            made.sort_unstable();
            made.dedup();
            made
        }
        Step::Library { vertex, also } => [Some(*vertex), *also].into_iter().flatten().collect(),
        Step::Fused(fused) => vec![fused.result],
    }
}

fn bytes(graph: &Graph, vertex: usize) -> usize {
    let array = &graph[vertex].array;
    array.len() * array.dtype().bytes() as usize
}
