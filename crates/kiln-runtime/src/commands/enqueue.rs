//! Running the commands of a list: one by one, or by a graph of the device.
//!
//! A graph has the addresses and numbers of its last run. Where memory comes from a pool, as on an
//! NVIDIA GPU, equal runs find theirs at equal addresses, or by turns at a few: a list keeps a
//! graph for each of these. Of other runs a graph is changed in place as long as that is less work
//! than launches are.

use super::command::{Command, Work};
use kiln_backend::{Backend, DeviceGraph, GraphNode, GraphWork, Graphs, Launch, Result, StreamId};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The graphs that a list keeps: results that are the next run's inputs alternate between two sets
/// of addresses, or three, and a pool may give blocks of one size in turns.
const MOST_GRAPHS: usize = 4;

/// How often a list builds one. A run whose memory lies elsewhere each time is not worth it.
const MOST_BUILDS: usize = 12;

/// The fewest commands for which a graph is built.
const FEWEST: usize = 4;

/// The nodes of all graphs of the process, some kilobytes each.
const MOST_NODES: usize = 1 << 16;
static NODES: AtomicUsize = AtomicUsize::new(0);

/// The commands of a list.
pub(super) struct Commands {
    /// Dropped before the programs that they use.
    graphs: Vec<Kept>,
    all: Vec<Command>,
    /// Of each slot, and then of each number, the commands that use it.
    users: Vec<Vec<usize>>,
    slots: usize,
    /// Addresses of runs that had no graph, latest last.
    seen: Vec<SmallVec<[u64; 32]>>,
    builds: usize,
}

/// A graph with what its nodes use now.
struct Kept {
    graph: Box<dyn DeviceGraph>,
    /// The addresses of slots, and the numbers.
    given: Vec<u64>,
    nodes: usize,
}

impl Drop for Kept {
    fn drop(&mut self) {
        NODES.fetch_sub(self.nodes, Relaxed);
    }
}

impl Commands {
    /// The commands of a list with so many slots and numbers.
    pub(super) fn new(all: Vec<Command>, slots: usize, numbers: usize) -> Commands {
        let mut users = vec![Vec::new(); slots + numbers];
        for (at, command) in all.iter().enumerate() {
            let numbers = command.numbers.iter().map(|&(_, number)| slots + number);
            for of in command.slots.iter().copied().chain(numbers) {
                if users[of].last() != Some(&at) {
                    users[of].push(at);
                }
            }
        }
        Commands { all, users, slots, graphs: Vec::new(), seen: Vec::new(), builds: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Enqueues all of it in the default stream.
    ///
    /// # Errors
    /// Failures of the device, after some of the commands maybe.
    ///
    /// # Safety
    /// The memory of each slot is this device's, as large as the slot, and lives until the work is
    /// over; the numbers are of the types of the recording.
    pub(super) unsafe fn enqueue(
        &mut self,
        backend: &dyn Backend,
        addresses: &[u64],
        numbers: &[u64],
    ) -> Result<()> {
        if let Some(graphs) = backend.graphs().filter(|_| self.all.len() >= FEWEST) {
            // SAFETY: the caller's promise.
            if unsafe { self.by_graph(graphs, addresses, numbers) }? {
                return Ok(());
            }
        }
        self.all.iter_mut().for_each(|command| command.bind(addresses, numbers));
        let stream = StreamId::default();
        for command in &self.all {
            match command.for_backend() {
                GraphWork::Launch { grid, .. } if grid.contains(&0) => Ok(()),
                // SAFETY: the arguments were checked when the launch was recorded; the rest is the
                // caller's promise.
                GraphWork::Launch { program, grid, buffers, numbers } => unsafe {
                    backend.launch(program, Launch { grid, buffers, numbers, stream })
                },
                // SAFETY: both places have so many bytes, in slots as above.
                GraphWork::Copy { to, from, bytes } => unsafe { backend.copy(to, from, bytes, stream) },
                // SAFETY: all or part of a slot as above.
                GraphWork::Fill { to, byte, bytes } => unsafe { backend.fill(to, byte, bytes, stream) },
            }?;
        }
        Ok(())
    }

    /// Enqueues a graph, if there is one that has these addresses and numbers or can get them, or
    /// if it is worth building.
    ///
    /// # Safety
    /// That of [`enqueue`](Self::enqueue).
    unsafe fn by_graph(&mut self, graphs: &dyn Graphs, addresses: &[u64], numbers: &[u64]) -> Result<bool> {
        let given = || addresses.iter().chain(numbers).copied();
        // What a change costs is at most the nodes that use what is another.
        let cost = |kept: &Kept| -> usize {
            let changed = kept.given.iter().zip(given()).zip(&self.users);
            changed.filter(|((old, new), _)| *old != new).map(|(_, users)| users.len()).sum()
        };
        let costs = self.graphs.iter().map(cost).enumerate();
        let best = costs.min_by_key(|&(_, cost)| cost);
        if let Some((at, cost)) = best
            && 2 * cost <= self.all.len()
        {
            // SAFETY: the caller's promise.
            if cost > 0 && !unsafe { self.change(at, addresses, numbers) }? {
                self.graphs.remove(at);
                return Ok(false);
            }
            // SAFETY: the nodes use the memory of the slots; their programs are in the commands.
            unsafe { self.graphs[at].graph.launch() }?;
            // The one that was used last is the last.
            self.graphs[at..].rotate_left(1);
            return Ok(true);
        }
        // What differs from a graph in numbers alone would differ from the next one too.
        if self.graphs.iter().any(|kept| kept.given[..self.slots] == *addresses) {
            return Ok(false);
        }
        let is_again = self.seen.iter().any(|seen| seen[..] == *addresses);
        if !is_again || self.builds == MOST_BUILDS {
            if self.seen.len() == 2 * MOST_GRAPHS {
                self.seen.remove(0);
            }
            self.seen.push(addresses.into());
            return Ok(false);
        }
        if NODES.load(Relaxed) + self.all.len() > MOST_NODES {
            return Ok(false);
        }
        self.all.iter_mut().for_each(|command| command.bind(addresses, numbers));
        // One after the other, as in a stream: in one allocation what comes later is in the place
        // of what was there before.
        let places: Vec<usize> = (0..self.all.len()).collect();
        let after = |at: usize| at.checked_sub(1).map_or(&[][..], |before| &places[before..at]);
        let nodes = self.all.iter().enumerate();
        let nodes: Vec<GraphNode<'_>> =
            nodes.map(|(at, command)| GraphNode { work: command.for_backend(), after: after(at) }).collect();
        self.builds += 1;
        // SAFETY: the arguments were checked when the launches were recorded.
        let graph = unsafe { graphs.build_graph(&nodes, StreamId::default()) }?;
        drop(nodes);
        if self.graphs.len() == MOST_GRAPHS {
            self.graphs.remove(0);
        }
        NODES.fetch_add(self.all.len(), Relaxed);
        let kept = Kept { graph, given: given().collect(), nodes: self.all.len() };
        // SAFETY: as above.
        let launched = unsafe { kept.graph.launch() };
        self.graphs.push(kept);
        launched.map(|()| true)
    }

    /// Gives the nodes of a graph other addresses and numbers. `false` if the device cannot; then
    /// the graph is of no use any more.
    ///
    /// # Safety
    /// That of [`enqueue`](Self::enqueue).
    unsafe fn change(&mut self, at: usize, addresses: &[u64], numbers: &[u64]) -> Result<bool> {
        let Commands { all, users, graphs, slots, .. } = self;
        let kept = &mut graphs[at];
        let mut changed: Vec<usize> = Vec::new();
        for (of, new) in addresses.iter().chain(numbers).enumerate() {
            if kept.given[of] != *new {
                changed.extend(&users[of]);
            }
        }
        changed.sort_unstable();
        changed.dedup();
        debug_assert_eq!(*slots, addresses.len());
        for node in changed {
            let command = &mut all[node];
            if !matches!(command.work, Work::Launch { .. }) {
                return Ok(false);
            }
            command.bind(addresses, numbers);
            // SAFETY: the arguments were checked when the launch was recorded.
            if !matches!(unsafe { kept.graph.update(node, command.for_backend()) }, Ok(true)) {
                return Ok(false);
            }
        }
        kept.given = addresses.iter().chain(numbers).copied().collect();
        Ok(true)
    }
}
