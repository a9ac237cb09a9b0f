//! The resident grid: its program, and the commands to its workers.

use super::config::RuntimeConfig;
use super::dispatch::{Rounds, TURNS};
use super::endpoints::{Endpoint, Endpoints};
use super::faults::Site;
use super::limit::Limit;
use super::memory::SharedMemory;
use super::output_ring::OutputSpec;
use super::transport::Transport;
use super::worker_time::WorkerTime;
use crate::channel::{Protocol, QueueMemory};
use crate::device::{ActorKind, GridPlan, trace_resident};
use crate::error::{Result, RingError};
use crate::wire::command::Operation;
use crate::wire::quads::plain_quads;
use crate::wire::record::{HEARTBEAT, LINE, endpoint, section_words, worker};
use crate::wire::slot::{PAYLOAD, SlotLayout};
use kiln_backend::{BlockTime, Launch, Program, Residency, ResidentId};
use kiln_ir::WARP;
use kiln_runtime::Device;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// While the host waits for a worker, it checks this often whether the grid is there at all, and
/// what time the worker has had.
const LOOK: Duration = Duration::from_millis(10);

/// The resident grid of one runtime.
pub(crate) struct Grid {
    device: Device,
    plan: GridPlan,
    program: Option<Arc<dyn Program>>,
    resident: Option<ResidentId>,
    workers: Vec<WorkerSide>,
    spins: u32,
    sleep_ns: u32,
    patience: Duration,
    /// How many callers require the grid to be off the device.
    away: u32,
    /// The workers were commanded to leave, and not all of them had left when the wait timed out.
    commanded_to_leave: bool,
    /// Where the device runs it in dispatches.
    rounds: Option<Rounds>,
}

/// The host's record of a worker.
#[derive(Clone, Default)]
struct WorkerSide {
    /// The number of the last command.
    number: u32,
    /// Whether that was to leave.
    leaves: bool,
    /// Which endpoints are taken.
    taken: Vec<bool>,
    /// Endpoints up to the last that a command gave the worker.
    endpoints: usize,
    /// Its last sign of life.
    sign: Option<Sign>,
}

/// A sign of life of a worker.
#[derive(Clone)]
struct Sign {
    beats: u32,
    /// When it was first seen.
    since: Instant,
    /// What time the worker has had since it was seen again unchanged.
    time: Option<WorkerTime>,
}

impl Grid {
    /// A grid that is not launched yet.
    pub fn new(device: &Device, config: &RuntimeConfig, workers: usize, transport: Transport) -> Grid {
        let residency = device.properties().residency;
        let lanes = if config.has_warps(device) { WARP } else { 1 };
        // A handler that the host itself runs, or waits for, cannot be ended.
        let endless = residency != Residency::Beside && config.step_budget == 0;
        let budget = if endless { RuntimeConfig::default().step_budget } else { config.step_budget };
        let taken = vec![false; config.endpoints_per_worker];
        Grid {
            device: device.clone(),
            plan: GridPlan {
                kinds: Vec::new(),
                inbound_links: false,
                peers: false,
                cluster: config.clusters(),
                ordered: transport.protocol() == Protocol::Ordered,
                far_inbox: lanes > 1 && transport != Transport::Bar,
                endpoints: config.endpoints_per_worker,
                lanes,
                budget,
                dispatched: residency == Residency::Dispatched,
                // A dispatch has no clock.
                measure_every: if residency == Residency::Dispatched { 0 } else { config.measure_every },
            },
            program: None,
            resident: None,
            workers: vec![WorkerSide { taken, ..WorkerSide::default() }; workers],
            spins: config.spins,
            sleep_ns: config.sleep.as_nanos().min(1_000_000) as u32,
            patience: config.acknowledge_within,
            away: 0,
            commanded_to_leave: false,
            rounds: (residency == Residency::Dispatched).then(Rounds::new),
        }
    }

    /// Whether the device runs only while the host lets it.
    pub fn is_within(&self) -> bool {
        self.device.properties().residency != Residency::Beside
    }

    /// The number of a kind of actor in endpoint records, if it is compiled in.
    pub fn known(&self, kind: &ActorKind) -> Option<u32> {
        let same = |other: &ActorKind| {
            other.handler.identity() == kind.handler.identity()
                && (other.requests, other.answers, other.priorities)
                    == (kind.requests, kind.answers, kind.priorities)
        };
        self.plan.kinds.iter().position(same).map(|place| place as u32 + 1)
    }

    /// A plan with one more kind of actor.
    pub fn plan_with(&self, kind: ActorKind) -> Result<GridPlan> {
        self.check_size(&kind)?;
        let mut plan = self.plan.clone();
        plan.kinds.push(kind);
        Ok(plan)
    }

    /// A plan by which actors may get messages of other actors; `None` if this one is.
    pub fn plan_with_inbound_links(&self) -> Option<GridPlan> {
        (!self.plan.inbound_links).then(|| GridPlan { inbound_links: true, ..self.plan.clone() })
    }

    /// A plan by which actors may send to those of other runtimes; `None` if this one is.
    pub fn plan_with_peers(&self) -> Option<GridPlan> {
        (!self.plan.peers).then(|| GridPlan { peers: true, ..self.plan.clone() })
    }

    /// Works by another plan from now on. The grid must be away.
    pub fn adopt(&mut self, plan: GridPlan, program: Arc<dyn Program>) {
        self.plan = plan;
        self.program = Some(program);
    }

    fn check_size(&self, kind: &ActorKind) -> Result<()> {
        let (signature, inlines) = (kind.handler.signature(), kind.handler.inlines());
        self.fits("message", &kind.requests, &inlines.message, signature.name)?;
        // What is not handled comes back in the slot of its answer, and fits as it did.
        let reply = SlotLayout::new(signature.reply_words, kind.answers.has_header());
        self.fits("reply", &reply, &inlines.reply, signature.name)
    }

    /// Whether what a handler is sent or answers, but for the arrays in it, has a quad for each
    /// thread of a worker.
    fn fits(
        &self,
        what: &'static str,
        slot: &SlotLayout,
        inlines: &[Range<usize>],
        handler: &'static str,
    ) -> Result<()> {
        let headers = usize::from(slot.has_header());
        let plain = plain_quads(slot.payload_words(), inlines).len() + headers;
        if self.plan.lanes > 1 && plain > self.plan.lanes as usize {
            let words = slot.payload_words() - inlines.iter().map(ExactSizeIterator::len).sum::<usize>();
            let most = (WARP as usize - headers) * PAYLOAD;
            return Err(RingError::MessageTooLarge { what, handler, words, most });
        }
        Ok(())
    }

    /// Whether the outputs of an actor, replies and messages that come back, have a quad for each
    /// thread of a worker.
    pub fn check_output(&self, spec: &OutputSpec) -> Result<()> {
        let slot = |words| SlotLayout::new(words, true);
        self.fits("output", &slot(spec.message.1), &spec.inlines.message, spec.handler)?;
        self.fits("output", &slot(spec.reply_words), &spec.inlines.reply, spec.handler)
    }

    /// Takes endpoints in a row of the worker that has the fewest taken, of those that have as
    /// many: of all, or of the cluster of one.
    pub fn take_endpoints(&mut self, priorities: usize, beside: Option<usize>) -> Result<Endpoints> {
        let cluster = self.plan.cluster.map_or(1, |cluster| cluster.workers as usize);
        let may = |worker: usize| beside.is_none_or(|other| worker / cluster == other / cluster);
        let load = |side: &WorkerSide| side.taken.iter().filter(|taken| **taken).count();
        let row = |side: &WorkerSide| {
            side.taken.windows(priorities).position(|endpoints| !endpoints.contains(&true))
        };
        let workers = self.workers.iter_mut().enumerate().filter(|(worker, _)| may(*worker));
        let least = workers.filter_map(|(worker, side)| Some((worker, row(side)?, side)));
        let Some((worker, endpoint, side)) = least.min_by_key(|(_, _, side)| load(side)) else {
            return Err(RingError::NoPlace { places: self.workers.len() * self.plan.endpoints, priorities });
        };
        side.taken[endpoint..endpoint + priorities].fill(true);
        Ok(Endpoints { first: Endpoint { worker, endpoint }, priorities })
    }

    /// Takes another endpoint of a worker.
    pub fn take_endpoint_of(&mut self, worker: usize) -> Result<Endpoint> {
        let taken = &mut self.workers[worker].taken;
        let Some(endpoint) = taken.iter().position(|taken| !taken) else {
            return Err(RingError::NoEndpoint { places: self.plan.endpoints });
        };
        taken[endpoint] = true;
        Ok(Endpoint { worker, endpoint })
    }

    /// Gives an endpoint back.
    pub fn give_endpoint(&mut self, endpoint: Endpoint) {
        self.workers[endpoint.worker].taken[endpoint.endpoint] = false;
    }

    /// Gives the endpoints of an actor back.
    pub fn give_endpoints(&mut self, endpoints: Endpoints) {
        endpoints.iter().for_each(|endpoint| self.give_endpoint(endpoint));
    }

    /// Writes an endpoint's record to the arena and has the worker take it up.
    pub fn load(
        &mut self,
        memory: &SharedMemory,
        at: Endpoint,
        record: &[u32; endpoint::WORDS],
        limit: Limit,
    ) -> Result<()> {
        let section = at.worker * section_words(self.plan.endpoints);
        let side = &mut self.workers[at.worker];
        side.endpoints = side.endpoints.max(at.endpoint + 1);
        memory.write_arena(section + worker::WORDS + at.endpoint * endpoint::WORDS, record)?;
        self.command(memory, at, (Operation::Load, 0), limit)
    }

    /// Gives the worker of an endpoint a command, and waits for the acknowledgement: for as long as
    /// the configuration says, and no longer than to the limit.
    pub fn command(
        &mut self,
        memory: &SharedMemory,
        at: Endpoint,
        (operation, argument): (Operation, u32),
        limit: Limit,
    ) -> Result<()> {
        self.ensure_resident(memory)?;
        if self.is_leaving(at.worker) && self.is_there()? {
            // It comes back when the others have left too. A command would replace the one to
            // leave, which it may not have seen yet.
            let (worker, what) = (at.worker, operation.name());
            return Err(RingError::Unresponsive { worker, what, waited: Duration::ZERO });
        }
        self.write(memory, at, operation, argument);
        self.acknowledged(memory, at.worker, operation, limit)
    }

    fn write(&mut self, memory: &SharedMemory, at: Endpoint, operation: Operation, argument: u32) {
        let side = &mut self.workers[at.worker];
        side.number = side.number.wrapping_add(1);
        side.leaves = operation == Operation::Leave;
        let quad = [operation.word(at.endpoint), argument, 0, side.number];
        if self.plan.ordered {
            memory.inbox_words.store_quad_release(at.worker * LINE, quad);
        } else {
            memory.inbox_words.store_quad(at.worker * LINE, quad);
        }
        memory.inbox_words.flush();
    }

    fn acknowledged(
        &mut self,
        memory: &SharedMemory,
        worker: usize,
        operation: Operation,
        limit: Limit,
    ) -> Result<()> {
        let begun = Instant::now();
        let mut wait = limit.wait();
        let mut look = begun + LOOK;
        let mut time: Option<WorkerTime> = None;
        while !self.has_acknowledged(memory, worker) {
            let pumped = self.pump(memory)?;
            let now = Instant::now();
            let mut impatient = false;
            if now >= look {
                look = now + LOOK;
                // One that left later than it was waited for reads this when it comes back.
                if !self.is_there()? && operation != Operation::Leave {
                    self.ensure_resident(memory)?;
                }
                let found = self.block_time(worker);
                let begin = || WorkerTime::begin(begun, now, found);
                let spent = time.get_or_insert_with(begin).look(now, found);
                impatient = spent >= self.patience && begun.elapsed() >= self.patience;
            }
            // It may have answered while this thread had no processor.
            if (wait.is_over_after(pumped) || impatient) && !self.has_acknowledged(memory, worker) {
                let what = operation.name();
                return Err(RingError::Unresponsive { worker, what, waited: begun.elapsed() });
            }
        }
        Ok(())
    }

    /// The time that a worker has had, as far as the device says.
    pub fn block_time(&self, worker: usize) -> Option<BlockTime> {
        self.device.backend().residents()?.block_time(self.resident?, worker as u64)
    }

    /// Whether a worker has acknowledged the last command.
    fn has_acknowledged(&self, memory: &SharedMemory, worker: usize) -> bool {
        memory.outbox_words.load_acquire(worker * LINE + PAYLOAD) == self.workers[worker].number
    }

    /// Whether a worker's last command was to leave.
    fn is_leaving(&self, worker: usize) -> bool {
        self.commanded_to_leave && self.workers[worker].leaves
    }

    /// Whether a worker has left a grid of which others may be there.
    fn has_left(&self, memory: &SharedMemory, worker: usize) -> bool {
        self.is_leaving(worker) && self.has_acknowledged(memory, worker)
    }

    /// Whether the grid is on the device.
    ///
    /// # Errors
    /// The device is lost, or the grid ended without a command to leave.
    fn is_there(&mut self) -> Result<bool> {
        let Some(id) = self.resident else { return Ok(false) };
        let reason =
            match self.device.backend().need_residents().and_then(|residents| residents.resident_done(id)) {
                Ok(false) => return Ok(true),
                Ok(true) if self.commanded_to_leave => {
                    self.resident = None;
                    return Ok(false);
                }
                Ok(true) => "the resident kernel ended without a command".to_owned(),
                Err(error) => error.to_string(),
            };
        self.resident = None;
        Err(RingError::Lost { device: self.device.id().to_owned(), reason })
    }

    /// The workers that have shown no sign of life for `patience`, in which they had a processor.
    /// Brings the grid back if it left later than was waited for.
    ///
    /// # Errors
    /// As of [`is_there`](Self::is_there).
    pub fn stalled(&mut self, memory: &SharedMemory, patience: Duration) -> Result<Vec<usize>> {
        if !self.is_there()? {
            if self.commanded_to_leave {
                self.ensure_resident(memory)?;
            }
            return Ok(Vec::new());
        }
        let mut stalled = Vec::new();
        for number in 0..self.workers.len() {
            if self.has_left(memory, number) {
                continue;
            }
            let beats = memory.outbox_words.load_quad(number * LINE + HEARTBEAT)[0];
            let now = Instant::now();
            let Some(mut sign) = self.workers[number].sign.take().filter(|sign| sign.beats == beats) else {
                self.workers[number].sign = Some(Sign { beats, since: now, time: None });
                continue;
            };
            // Reading the device's state costs more than reading the sign.
            if sign.time.as_ref().is_none_or(|time| now.duration_since(time.looked()) >= LOOK) {
                let found = self.block_time(number);
                let begin = || WorkerTime::begin(sign.since, now, found);
                let spent = sign.time.get_or_insert_with(begin).look(now, found);
                let waited = now.duration_since(sign.since);
                stalled.extend((spent >= patience && waited >= patience).then_some(number));
            }
            self.workers[number].sign = Some(sign);
        }
        Ok(stalled)
    }

    /// The device's time in nanoseconds when a worker acknowledged its last command.
    pub fn clock(&self, memory: &SharedMemory, worker: usize) -> u64 {
        let [low, high, ..] = memory.outbox_words.load_quad(worker * LINE);
        u64::from(low) | u64::from(high) << 32
    }

    /// Whether any caller requires the grid to be off the device.
    pub fn is_away(&self) -> bool {
        self.away > 0
    }

    /// Has the grid leave, and not return before [`come_back`](Self::come_back).
    pub fn go_away(&mut self, memory: &SharedMemory) -> Result<()> {
        self.away += 1;
        self.leave(memory)
    }

    /// Ends a [`go_away`](Self::go_away).
    pub fn come_back(&mut self, memory: &SharedMemory) -> Result<()> {
        self.away -= 1;
        self.ensure_resident(memory)
    }

    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Whether it is on the device.
    pub fn is_here(&self) -> bool {
        self.resident.is_some()
    }

    /// The launch that is on the device.
    pub fn resident(&self) -> Option<ResidentId> {
        self.resident
    }

    /// What it works by.
    pub fn plan(&self) -> GridPlan {
        self.plan.clone()
    }

    /// Launches the grid, if it is not there and may be.
    pub fn ensure_resident(&mut self, memory: &SharedMemory) -> Result<()> {
        let Some(program) = self.program.clone().filter(|_| self.away == 0) else { return Ok(()) };
        if self.resident.is_none() && !self.is_within() {
            for side in &mut self.workers {
                (side.sign, side.leaves) = (None, false);
            }
            self.resident = Some(self.launch(memory, &program, 0..self.workers.len(), 0)?);
            self.commanded_to_leave = false;
        }
        Ok(())
    }

    fn launch(
        &self,
        memory: &SharedMemory,
        program: &Arc<dyn Program>,
        workers: Range<usize>,
        leave_after: u32,
    ) -> Result<ResidentId> {
        let (buffers, mut numbers) = (memory.views(), memory.extents(self.plan.dispatched).to_vec());
        numbers.extend([self.spins, self.sleep_ns, leave_after].map(u64::from));
        if let Some(rounds) = &self.rounds {
            numbers.extend([TURNS, workers.start as u64, rounds.now()]);
        }
        let (grid, stream) = ([workers.len() as u32, 1, 1], memory.stream());
        let launch = Launch { grid, buffers: &buffers, numbers: &numbers, stream };
        // SAFETY: buffers and numbers are those of the kernel's parameters: three views, of which
        // it reads the first and writes the others, of memory that has so many words and that the
        // runtime frees only after the grid has left; and numbers that it takes as they come.
        Ok(unsafe { self.device.backend().need_residents()?.launch_resident(program, launch)? })
    }

    /// Lets a device that does not run by itself go on until it has nothing to do; whether it is
    /// one.
    pub fn pump(&mut self, memory: &SharedMemory) -> Result<bool> {
        let may = self.is_within() && self.away == 0;
        let Some(program) = self.program.clone().filter(|_| may) else { return Ok(false) };
        // A worker of one thread polls one endpoint at a time, and all up to the last that a
        // command gave it: those of actors that have ended lie between.
        let endpoints = self.workers.iter().map(|side| side.endpoints).max();
        let polls = endpoints.unwrap_or(0) as u32 + 2;
        while self.rounds.as_ref().is_none_or(Rounds::wants_more) {
            let mut last = None;
            for first in (0..self.workers.len()).step_by(self.side_by_side()) {
                let workers = first..first + self.side_by_side();
                last = Some(self.launch(memory, &program, workers, polls)?);
            }
            match (&mut self.rounds, last) {
                (Some(rounds), Some(last)) => rounds.push(last),
                (None, Some(last)) => {
                    self.device.backend().need_residents()?.resident_wait(last, Duration::MAX)?;
                    return Ok(true);
                }
                (_, None) => return Ok(true),
            }
        }
        self.finish_round(memory)?;
        Ok(true)
    }

    /// Waits for the first round that is under way; whether there was one.
    fn finish_round(&mut self, memory: &SharedMemory) -> Result<bool> {
        let Some(rounds) = &mut self.rounds else { return Ok(false) };
        let Some(first) = rounds.first() else { return Ok(false) };
        self.device.backend().need_residents()?.resident_wait(first, Duration::MAX)?;
        rounds.over(&memory.outbox_words, self.workers.len());
        Ok(true)
    }

    /// The handling time of one in so many messages is measured; 0 for none.
    pub fn measure_every(&self) -> u32 {
        self.plan.measure_every
    }

    /// Whether the device runs it in dispatches.
    pub fn is_dispatched(&self) -> bool {
        self.rounds.is_some()
    }

    /// Whether a dispatch has found something to do, so that there may be more.
    pub fn goes_on(&self) -> bool {
        self.away == 0 && self.rounds.as_ref().is_some_and(Rounds::go_on)
    }

    /// How many workers are launched together: all of them, or one by one, where one may find what
    /// another sends and the device orders nothing between the two.
    fn side_by_side(&self) -> usize {
        let one_by_one = self.plan.dispatched && self.plan.inbound_links;
        if one_by_one { 1 } else { self.workers.len().max(1) }
    }

    /// Commands all workers to leave, and waits until they have. Their records are in the arena
    /// then.
    ///
    /// The command is sent after all workers have acknowledged one before it: otherwise a worker
    /// that a handler blocks would remain after the others have left.
    ///
    /// # Errors
    /// A worker does not acknowledge, and all go on.
    pub fn leave(&mut self, memory: &SharedMemory) -> Result<()> {
        while self.finish_round(memory)? {}
        let Some(id) = self.resident else { return Ok(()) };
        if self.device.backend().need_residents()?.resident_done(id)? {
            self.has_gone();
            return Ok(());
        }
        self.command_all(memory, Operation::Settle)?;
        self.command_to_leave(memory)
    }

    /// Commands all workers to leave, and waits until they have.
    ///
    /// # Errors
    /// A worker began something that takes longer than is waited for. Then the grid leaves when
    /// that is done, and is brought back.
    pub fn command_to_leave(&mut self, memory: &SharedMemory) -> Result<()> {
        let Some(id) = self.resident else { return Ok(()) };
        self.commanded_to_leave = true;
        self.command_all(memory, Operation::Leave)?;
        let begun = Instant::now();
        let mut times: Vec<Option<WorkerTime>> = vec![None; self.workers.len()];
        while !self.device.backend().need_residents()?.resident_wait(id, LOOK)? {
            let now = Instant::now();
            let spent = |(worker, time): (usize, &mut Option<WorkerTime>)| {
                let found = self.block_time(worker);
                time.get_or_insert_with(|| WorkerTime::begin(begun, now, found)).look(now, found)
            };
            // All have answered; it may have left since.
            let least = times.iter_mut().enumerate().map(spent).min().unwrap_or_default();
            let waited = begun.elapsed();
            if least >= self.patience && waited >= self.patience {
                return Err(RingError::Unresponsive { worker: 0, what: Operation::Leave.name(), waited });
            }
        }
        self.has_gone();
        Ok(())
    }

    /// The grid left in time. It comes back with the next command or message.
    fn has_gone(&mut self) {
        self.resident = None;
        self.commanded_to_leave = false;
    }

    /// Sends a command to all workers that are not leaving already, and waits until all
    /// acknowledge.
    fn command_all(&mut self, memory: &SharedMemory, operation: Operation) -> Result<()> {
        let all = 0..self.workers.len();
        for worker in all.clone() {
            if !self.is_leaving(worker) {
                self.write(memory, Endpoint { worker, endpoint: 0 }, operation, 0);
            }
        }
        all.into_iter().try_for_each(|worker| self.acknowledged(memory, worker, operation, Limit::NONE))
    }
}

/// A plan's program.
pub(crate) struct Compiled {
    pub program: Arc<dyn Program>,
    /// What the sites of faults are, by their numbers from 1.
    pub sites: Vec<Site>,
}

/// Compiles a plan. The device may have tenants leave meanwhile.
pub(crate) fn compile(device: &Device, plan: &GridPlan) -> Result<Compiled> {
    let refuse = |problems| {
        let names: Vec<&str> = plan.kinds.iter().map(|kind| kind.handler.signature().name).collect();
        RingError::Handler { handlers: names.join(", "), problems }
    };
    let kernel = trace_resident(plan)
        .map_err(|errors| refuse(errors.errors().iter().map(ToString::to_string).collect()))?;
    kiln_ir::verify(&kernel).map_err(|errors| {
        refuse(errors.iter().map(|e| format!("{}: {} (in `{}`)", e.location, e.message, e.op)).collect())
    })?;
    let sites = kernel.fault_sites().into_iter().map(Site::of).collect();
    Ok(Compiled { program: device.program(&kernel)?, sites })
}
