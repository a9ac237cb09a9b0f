//! What is known of the order of asynchronous copies and products: mbarriers, shared tiles, and a
//! vector clock for each agent.
//!
//! A clock counts, for every agent, what of it has been waited for; copies count apart from the
//! agent that began them. An access of a shared tile that another one conflicts with must be in the
//! clock of the later one, else nothing orders them.

use crate::trap::Trap;
use crate::value::Data;
use kiln_backend::Finding;
use kiln_ir::Value;
use std::collections::{HashMap, VecDeque};

/// A point in time that no clock reaches.
const NEVER: u64 = u64::MAX;

/// How far each counter has been seen: agents first, then the copies of each.
type Clock = Vec<u64>;

fn join(into: &mut Clock, other: &Clock) {
    into.iter_mut().zip(other).for_each(|(a, b)| *a = (*a).max(*b));
}

/// A stage of a shared tile: the block's rank, the tile and the stage.
pub type TileStage = (usize, Value, usize);

/// An mbarrier: the block's rank, the mbarriers and the index.
pub type Gate = (usize, Value, usize);

/// An mbarrier's state.
#[derive(Clone)]
struct Phases {
    arrivals: u32,
    left: u32,
    /// Bytes announced less bytes that came.
    bytes: i64,
    /// How many phases are complete.
    complete: i64,
    /// What was done before the arrivals of this phase, and of those before.
    clock: Clock,
    /// As of the last phase that is complete.
    seen: Clock,
}

#[derive(Clone, Copy)]
struct Stamp {
    counter: usize,
    time: u64,
}

/// How far a write by `SharedStore` is on its way to the asynchronous proxy.
#[derive(Clone, Copy, PartialEq)]
enum Passage {
    /// It came by a copy, or may be read by one.
    Open,
    Written,
    Fenced,
}

#[derive(Clone)]
struct Write {
    rows: std::ops::Range<usize>,
    by: Stamp,
    passage: Passage,
}

/// A stage of a shared tile.
#[derive(Clone)]
struct Stage {
    data: Data,
    filled: Vec<bool>,
    writes: Vec<Write>,
    reads: Vec<Stamp>,
}

/// Everything that the agents of a cluster share, but for memory.
pub struct World {
    agents: usize,
    clocks: Vec<Clock>,
    gates: HashMap<(usize, Value), Vec<Phases>>,
    tiles: HashMap<(usize, Value), Vec<Stage>>,
    /// By agent: what its products in flight read.
    products: Vec<VecDeque<Vec<TileStage>>>,
    /// By agent: what its stores in flight read.
    stores: Vec<VecDeque<TileStage>>,
    /// How many signals were stored.
    pub signals: u64,
}

fn unordered(detail: String) -> Trap {
    Trap::finding(Finding::Unordered, detail)
}

impl World {
    /// A world of up to so many agents.
    pub fn new(agents: usize) -> World {
        World {
            agents,
            clocks: vec![vec![0; 2 * agents]; agents],
            gates: HashMap::new(),
            tiles: HashMap::new(),
            products: vec![VecDeque::new(); agents],
            stores: vec![VecDeque::new(); agents],
            signals: 0,
        }
    }

    /// An agent begins with the clock of another one.
    pub fn fork(&mut self, from: usize, to: usize) {
        let known = self.clocks[from].clone();
        join(&mut self.clocks[to], &known);
        self.tick(from);
    }

    /// An agent waited for another one's end.
    pub fn merge(&mut self, from: usize, into: usize) {
        let known = self.clocks[from].clone();
        join(&mut self.clocks[into], &known);
    }

    fn tick(&mut self, agent: usize) {
        self.clocks[agent][agent] += 1;
    }

    fn knows(&self, agent: usize, stamp: Stamp) -> bool {
        stamp.time <= self.clocks[agent][stamp.counter]
    }

    // ---- mbarriers

    pub fn make_gates(&mut self, rank: usize, value: Value, count: usize, arrivals: u32) {
        let zero = vec![0; 2 * self.agents];
        let phases =
            Phases { arrivals, left: arrivals, bytes: 0, complete: 0, clock: zero.clone(), seen: zero };
        self.gates.insert((rank, value), vec![phases; count]);
    }

    fn gate(&mut self, (rank, value, index): Gate) -> Result<&mut Phases, Trap> {
        let all = self.gates.get_mut(&(rank, value));
        let all = all.ok_or_else(|| Trap::Bug("an mbarrier that was not made".into()))?;
        let count = all.len();
        all.get_mut(index)
            .ok_or_else(|| Trap::finding(Finding::BrokenTrust, format!("mbarrier {index} of {count}")))
    }

    /// An agent arrives, and announces bytes.
    pub fn arrive(&mut self, agent: usize, gate: Gate, bytes: i64) -> Result<(), Trap> {
        let known = self.clocks[agent].clone();
        let phases = self.gate(gate)?;
        join(&mut phases.clock, &known);
        phases.bytes += bytes;
        phases.left = phases.left.checked_sub(1).ok_or_else(|| {
            unordered("an mbarrier gets more arrivals in a phase than it was made for".to_owned())
        })?;
        phases.settle();
        self.tick(agent);
        Ok(())
    }

    /// Bytes of a copy come.
    fn deliver(&mut self, gate: Gate, bytes: i64, by: Stamp) -> Result<(), Trap> {
        let phases = self.gate(gate)?;
        phases.clock[by.counter] = phases.clock[by.counter].max(by.time);
        phases.bytes -= bytes;
        phases.settle();
        Ok(())
    }

    /// Whether a phase is complete.
    ///
    /// # Errors
    /// It has been for so long that the hardware would take it for the next one.
    pub fn is_complete(&self, (rank, value, index): Gate, phase: i64) -> Result<bool, Trap> {
        let phases = self.gates.get(&(rank, value)).and_then(|all| all.get(index));
        let Some(phases) = phases else {
            return Err(Trap::finding(Finding::BrokenTrust, format!("there is no mbarrier {index}")));
        };
        if phase >= 0 && phases.complete > phase + 1 {
            let now = phases.complete;
            return Err(unordered(format!(
                "a wait for phase {phase} when {now} are complete: the hardware cannot distinguish it from phase {}",
                phase + 2
            )));
        }
        Ok(phase < 0 || phases.complete > phase)
    }

    /// What an mbarrier waits for, in words.
    pub fn describe(&self, (rank, value, index): Gate) -> String {
        match self.gates.get(&(rank, value)).and_then(|all| all.get(index)) {
            Some(p) => format!(
                "{} phases are complete, {} of {} arrivals and {} bytes are missing",
                p.complete, p.left, p.arrivals, p.bytes
            ),
            None => "there is none".into(),
        }
    }

    /// An agent has waited for a phase that is complete.
    pub fn pass(&mut self, agent: usize, gate: Gate) -> Result<(), Trap> {
        let seen = self.gate(gate)?.seen.clone();
        join(&mut self.clocks[agent], &seen);
        Ok(())
    }

    // ---- shared tiles

    pub fn make_tile(&mut self, rank: usize, value: Value, data: &Data, stages: usize, rows: usize) {
        let stage =
            Stage { data: data.clone(), filled: vec![false; rows], writes: Vec::new(), reads: Vec::new() };
        self.tiles.insert((rank, value), vec![stage; stages]);
    }

    fn stage(&mut self, (rank, value, stage): TileStage) -> Result<&mut Stage, Trap> {
        let all = self.tiles.get_mut(&(rank, value));
        let all = all.ok_or_else(|| Trap::Bug("a shared tile that was not made".into()))?;
        let count = all.len();
        all.get_mut(stage)
            .ok_or_else(|| Trap::finding(Finding::BrokenTrust, format!("stage {stage} of {count}")))
    }

    /// An error unless everything that reads or wrote these rows is known to have ended.
    fn free(&mut self, agent: usize, place: TileStage, rows: &std::ops::Range<usize>) -> Result<(), Trap> {
        let Stage { writes, reads, .. } = self.stage(place)?.clone();
        if let Some(stamp) = reads.iter().find(|s| !self.knows(agent, **s)) {
            let own = stamp.counter == agent;
            return Err(unordered(if own {
                "a shared tile is overwritten while a copy or product that this task began may still read it: wait for it first"
                    .into()
            } else {
                "a shared tile is overwritten while another task may still read it: wait until it has arrived at an mbarrier after its last read"
                    .into()
            }));
        }
        let overlaps = |w: &&Write| w.rows.start < rows.end && rows.start < w.rows.end;
        match writes.iter().filter(overlaps).find(|w| !self.knows(agent, w.by)) {
            Some(_) => Err(unordered("two writes of a shared tile have no order between them".into())),
            None => Ok(()),
        }
    }

    fn written(&mut self, place: TileStage, write: Write, from: &Data, columns: usize) -> Result<(), Trap> {
        let stage = self.stage(place)?;
        let rows = write.rows.clone();
        stage.writes.retain(|w| w.rows.end <= rows.start || rows.end <= w.rows.start);
        stage.reads.clear();
        stage.filled[rows.clone()].iter_mut().for_each(|f| *f = true);
        stage.data.copy_range(rows.start * columns, from)?;
        stage.writes.push(write);
        Ok(())
    }

    /// A copy that an agent begins brings rows to a stage, and its bytes to an mbarrier of the same
    /// block.
    pub fn load(
        &mut self,
        agent: usize,
        place: TileStage,
        first: usize,
        from: &Data,
        columns: usize,
        gate: Gate,
    ) -> Result<(), Trap> {
        let all = self.stage(place)?.filled.len();
        let rows = first..first + from.len() / columns;
        if rows.end > all {
            return Err(Trap::finding(
                Finding::BrokenTrust,
                format!("rows {rows:?} of a shared tile of {all}"),
            ));
        }
        self.free(agent, place, &rows)?;
        let counter = self.agents + agent;
        // The copies of an agent are counted where they are invisible before their bytes have come.
        let time = self.next_copy(agent);
        let by = Stamp { counter, time };
        self.written(place, Write { rows, by, passage: Passage::Open }, from, columns)?;
        let bytes = from.len() as i64 * i64::from(from.elem().bytes());
        self.deliver(gate, bytes, by)
    }

    fn next_copy(&mut self, agent: usize) -> u64 {
        let counter = self.agents + agent;
        let mut last = 0;
        for stage in self.tiles.values().flatten() {
            last = stage
                .writes
                .iter()
                .filter(|w| w.by.counter == counter)
                .map(|w| w.by.time)
                .fold(last, u64::max);
        }
        let seen = self.clocks.iter().map(|c| c[counter]).max().unwrap_or(0);
        last.max(seen) + 1
    }

    /// An agent writes a stage itself.
    pub fn put(&mut self, agent: usize, place: TileStage, from: &Data, columns: usize) -> Result<(), Trap> {
        let rows = 0..from.len() / columns;
        self.free(agent, place, &rows)?;
        let by = Stamp { counter: agent, time: self.clocks[agent][agent] };
        self.written(place, Write { rows, by, passage: Passage::Written }, from, columns)
    }

    /// What an agent wrote goes one step on its way to copies and products: past the fence, or past
    /// the barrier after it.
    pub fn advance(&mut self, agent: usize, fence: bool) {
        for write in self.tiles.values_mut().flatten().flat_map(|s| &mut s.writes) {
            if write.by.counter == agent {
                write.passage = match (write.passage, fence) {
                    (Passage::Written, true) => Passage::Fenced,
                    (Passage::Fenced, false) => Passage::Open,
                    (other, _) => other,
                };
            }
        }
    }

    /// A copy or product that an agent begins reads a stage; gives its elements.
    fn read(&mut self, agent: usize, place: TileStage) -> Result<Data, Trap> {
        let stage = self.stage(place)?.clone();
        if let Some(row) = stage.filled.iter().position(|f| !f) {
            return Err(Trap::finding(
                Finding::Uninitialized,
                format!("row {row} of a shared tile that nothing has filled"),
            ));
        }
        for write in &stage.writes {
            if !self.knows(agent, write.by) {
                return Err(unordered(
                    "a shared tile is read while a copy into it may be on its way: wait for the phase of its mbarrier first"
                        .into(),
                ));
            }
            if write.passage != Passage::Open {
                let missing = if write.passage == Passage::Written {
                    "a proxy fence and a barrier"
                } else {
                    "a barrier"
                };
                return Err(unordered(format!(
                    "a shared tile is read that a task wrote, without {missing} between"
                )));
            }
        }
        self.stage(place)?.reads.push(Stamp { counter: agent, time: NEVER });
        Ok(stage.data)
    }

    /// An agent reads a stage into registers, at once.
    pub fn take(&mut self, agent: usize, place: TileStage) -> Result<Data, Trap> {
        let data = self.read(agent, place)?;
        self.read_done(agent, place)?;
        Ok(data)
    }

    /// A product of what these stages hold begins.
    pub fn product(&mut self, agent: usize, places: &[TileStage]) -> Result<Vec<Data>, Trap> {
        let data = places.iter().map(|&place| self.read(agent, place)).collect::<Result<_, _>>()?;
        self.products[agent].push_back(places.to_vec());
        Ok(data)
    }

    /// A store begins.
    pub fn store(&mut self, agent: usize, place: TileStage) -> Result<Data, Trap> {
        let data = self.read(agent, place)?;
        self.stores[agent].push_back(place);
        Ok(data)
    }

    /// All but the last products of an agent are done.
    pub fn products_done(&mut self, agent: usize, pending: usize) -> Result<(), Trap> {
        while self.products[agent].len() > pending {
            let Some(places) = self.products[agent].pop_front() else { break };
            places.into_iter().try_for_each(|place| self.read_done(agent, place))?;
        }
        Ok(())
    }

    /// All but the last stores of an agent have read their tiles.
    pub fn stores_done(&mut self, agent: usize, pending: usize) -> Result<(), Trap> {
        while self.stores[agent].len() > pending {
            let Some(place) = self.stores[agent].pop_front() else { break };
            self.read_done(agent, place)?;
        }
        Ok(())
    }

    /// The first read of a stage by an agent that was in flight is over, as of now.
    fn read_done(&mut self, agent: usize, place: TileStage) -> Result<(), Trap> {
        let now = self.clocks[agent][agent];
        let reads = &mut self.stage(place)?.reads;
        if let Some(read) = reads.iter_mut().find(|r| r.counter == agent && r.time == NEVER) {
            read.time = now;
        }
        Ok(())
    }
}

impl Phases {
    fn settle(&mut self) {
        if self.left == 0 && self.bytes == 0 {
            self.left = self.arrivals;
            self.complete += 1;
            self.seen = self.clock.clone();
        }
    }
}
