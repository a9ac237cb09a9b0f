//! What follows from the nodes of a graph: the buffers that a replay locks, and the order.

use super::node::{Reach, Recorded};
use crate::buffer::Buffer;
use std::collections::HashMap;
use std::sync::Arc;

/// What follows from the nodes of a graph.
#[derive(Default)]
pub(crate) struct ReplayPlan {
    /// The buffers, in the order of their addresses, so that replays and launches in several
    /// threads never wait for each other in a circle.
    pub(crate) buffers: Vec<Planned>,
    /// The nodes that each node runs after.
    pub(crate) after: Vec<Vec<usize>>,
}

/// A buffer that a graph uses.
pub(crate) struct Planned {
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) writes: bool,
    /// The first node that uses it, and its parameter if that is a launch.
    pub(crate) first: (usize, Option<usize>),
    /// Whether something reads it before anything in the graph has written it.
    pub(crate) is_input: bool,
}

/// Who has used a buffer so far, while a plan is made.
struct Users {
    planned: usize,
    first_writer: Option<usize>,
    writer: Option<usize>,
    readers: Vec<usize>,
}

impl ReplayPlan {
    pub(crate) fn new(nodes: &[Recorded]) -> ReplayPlan {
        let mut plan = ReplayPlan::default();
        let mut users: HashMap<*const Buffer, Users> = HashMap::new();
        let mut last_of_stream = HashMap::new();
        for (number, node) in nodes.iter().enumerate() {
            let mut after: Vec<usize> = Vec::new();
            after.extend(last_of_stream.insert(node.queue.id(), number));
            for reach in node.reaches() {
                let entry = users.entry(Arc::as_ptr(reach.buffer)).or_insert_with(|| {
                    let first = (number, reach.argument.map(|used| used.param));
                    let buffer = reach.buffer.clone();
                    plan.buffers.push(Planned { buffer, writes: false, first, is_input: false });
                    let planned = plan.buffers.len() - 1;
                    Users { planned, first_writer: None, writer: None, readers: Vec::new() }
                });
                entry.use_by(number, &reach, &mut plan.buffers, &mut after);
            }
            after.sort_unstable();
            after.dedup();
            plan.after.push(after);
        }
        plan.buffers.sort_unstable_by_key(|planned| Arc::as_ptr(&planned.buffer));
        plan
    }
}

impl Users {
    fn use_by(&mut self, node: usize, reach: &Reach<'_>, buffers: &mut [Planned], after: &mut Vec<usize>) {
        let planned = &mut buffers[self.planned];
        after.extend(self.writer.filter(|writer| *writer != node));
        if reach.writes {
            after.extend(self.readers.drain(..).filter(|reader| *reader != node));
            planned.writes = true;
            self.writer = Some(node);
            self.first_writer.get_or_insert(node);
            return;
        }
        // A launch that also writes elsewhere in the buffer reads before it writes.
        if self.first_writer.is_none_or(|writer| writer == node) && !planned.is_input {
            planned.is_input = true;
            planned.first = (node, reach.argument.map(|used| used.param));
        }
        self.readers.push(node);
    }
}
