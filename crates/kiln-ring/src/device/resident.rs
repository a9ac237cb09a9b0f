//! The resident kernel: the loop of a worker.

use super::cluster::{Cluster, Near};
use super::command::load_port;
use super::poll::Aim;
use super::record::{HEARTBEAT, LINE, port, section_words, worker};
use super::route::Route;
use crate::channel::Form;
use crate::handler::ErasedHandler;
use crate::slot::SlotLayout;
use crate::telemetry::gauge::fault;
use kiln_ir::{Facts, IntFact, Kernel};
use kiln_lang::param::ParamDecl;
use kiln_lang::{TraceErrors, prelude::*};
use std::sync::Arc;

/// A kind of actor: a handler and the slots of its messages and answers.
#[derive(Clone)]
pub(crate) struct Kind {
    pub handler: Arc<dyn ErasedHandler>,
    pub requests: SlotLayout,
    pub answers: SlotLayout,
    /// How many bands of priority its actors have.
    pub bands: usize,
    /// The layout of the message that each place in the handler sends: set when a plan is traced.
    pub sends: Vec<u64>,
    /// Whether nobody can tell how often the handler ran before what it decided is carried out: it
    /// changes no memory and prints nothing. Set when a plan is traced.
    pub repeatable: bool,
}

impl Kind {
    /// The kind of actors of a handler whose queues have this form.
    pub fn new(handler: Arc<dyn ErasedHandler>, form: &Form) -> Kind {
        Kind::of_slots(handler, form.requests.slot(), form.answers.slot(), form.bands)
    }

    /// The kind of actors of a handler with these slots for messages and for answers.
    pub fn of_slots(
        handler: Arc<dyn ErasedHandler>,
        requests: SlotLayout,
        answers: SlotLayout,
        bands: usize,
    ) -> Kind {
        Kind { handler, requests, answers, bands, sends: Vec::new(), repeatable: false }
    }
}

/// What a resident kernel is made for.
#[derive(Clone)]
pub(crate) struct Plan {
    /// The kinds of actors; a port's record names one by its place here, from 1.
    pub kinds: Vec<Kind>,
    /// The most ports of a worker.
    pub ports: usize,
    /// Threads of a worker: 1, or the 32 of a warp.
    pub lanes: u32,
    /// The most steps that loops in a handler may take for one message; 0 for no limit.
    pub budget: u32,
    /// Whether actors may get messages of other actors. Where none does, nothing in a message's way
    /// asks for them.
    pub inlets: bool,
    /// Whether actors may send to those of other runtimes. Where none does, links lie in one arena.
    pub peers: bool,
    /// The clusters of workers, where workers stand in some.
    pub cluster: Option<Cluster>,
    /// Whether the host's slots and the device's answers are ordered by release and acquire, where
    /// quads may not arrive whole.
    pub ordered: bool,
    /// Whether the inbox lies across a bus. A look at it then takes several times as long as one at
    /// the arena, so that workers with inlets look at those more often.
    pub far_inbox: bool,
    /// The handling time of one in so many messages, a power of two, is measured; 0 for none.
    pub measure_every: u32,
}

/// Where a worker is: the memory that host and device share, and its own.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub inbox: View<u32, 1>,
    pub outbox: ViewMut<u32, 1>,
    pub arena: ViewMut<u32, 1>,
    /// The worker's number.
    pub number: Idx,
    /// The word of the arena at which its section begins.
    pub section: Idx,
    /// The records of its ports, in the block's shared memory.
    pub table: Shared<u32, 1>,
    /// The memory for rings of its neighbors, where workers stand in clusters.
    pub near: Option<Near>,
    /// What the guards of handlers record of a check that failed.
    pub faults: Local<u64>,
}

impl Plan {
    /// Words of the table: a power of two.
    fn table_words(&self) -> usize {
        self.ports.next_power_of_two() * port::WORDS
    }

    /// A record's place in the table, in a form by which the compiler knows that it lies inside.
    pub(super) fn record(&self, word: Val<u32>) -> Val<u32> {
        word & (self.table_words() - port::WORDS) as u32
    }
}

impl Place {
    /// A word of a port's record, which begins at a word of the table that [`Plan::record`] gave.
    #[track_caller]
    pub fn field(&self, record: Val<u32>, word: usize) -> Val<u32> {
        // SAFETY: a record lies in the table, and has that word.
        unsafe { self.table.get_unchecked(record.cast::<i64>() + word) }
    }

    /// Sets a word of a port's record.
    #[track_caller]
    pub fn set_field(&self, record: Val<u32>, word: usize, value: Val<u32>) {
        // SAFETY: as above; the table is the worker's own, and all lanes store the same.
        unsafe { self.table.scatter_unchecked(record.cast::<i64>() + word, value) };
    }

    /// The word of the arena that lies so many behind another.
    ///
    /// # Safety
    /// It is one of the arena's.
    #[track_caller]
    pub unsafe fn word(&self, at: Val<u32>, behind: usize) -> Val<u32> {
        // SAFETY: as the caller promises.
        unsafe { self.arena.get_unchecked(at.cast::<i64>() + behind) }
    }

    /// Sets that word.
    ///
    /// # Safety
    /// It is one of the arena's, and this worker alone accesses it now. All lanes store the same.
    #[track_caller]
    pub unsafe fn set_word(&self, at: Val<u32>, behind: usize, value: Val<u32>) {
        // SAFETY: as the caller promises.
        unsafe { self.arena.scatter_unchecked(at.cast::<i64>() + behind, value) };
    }

    /// The worker's command.
    pub fn command(&self) -> [Val<u32>; 4] {
        // SAFETY: every worker has a line in the inbox.
        unsafe { self.inbox.get_quad_unchecked(self.number * LINE) }
    }
}

/// Numbers of a launch.
#[derive(Clone, Copy)]
struct Patience {
    /// Polls without work before the worker sleeps between polls.
    spins: Val<u32>,
    /// How long it then sleeps, in nanoseconds.
    sleep_ns: Val<u32>,
    /// Polls without work before it leaves; 0 for never.
    leave_after: Val<u32>,
}

/// What changes while a worker works.
#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_lang)]
pub(super) struct Worker {
    /// How many ports it has.
    pub count: Val<u32>,
    /// The port at which the next poll begins.
    pub first: Val<u32>,
    /// The number of the last command.
    pub seen: Val<u32>,
    /// Turns of its loop.
    pub turns: Val<u32>,
    /// Until it is told to leave.
    pub running: Val<bool>,
}

/// Turns of the loop between two heartbeats of a worker.
const HEARTBEAT_TURNS: u32 = 64;

/// Records the resident kernel. Parameters: inbox, outbox, arena, then the three numbers of
/// [`Patience`].
pub(crate) fn trace_resident(plan: &Plan) -> Result<Kernel, TraceErrors> {
    let plan = &plan.with_effects();
    trace("ring", Level::Thread { block: [plan.lanes, 1, 1] }, |p: &mut ParamDecl| {
        let unit = IntFact { divisor: 1, equals: Some(1), fits_i32: true };
        let facts = || Facts { align: 256, strides: [unit].into_iter().collect(), ..Facts::default() };
        let number = program_id(0);
        let place = Place {
            inbox: p.view("inbox", facts()),
            outbox: p.view_mut("outbox", facts()),
            arena: p.view_mut("arena", facts()),
            number,
            section: number * section_words(plan.ports),
            table: shared([plan.table_words()]),
            near: Near::of(plan, number),
            faults: local(1 + fault::MOST),
        };
        let fact = IntFact::default();
        let patience = Patience {
            spins: p.scalar("spins", fact),
            sleep_ns: p.scalar("sleep_ns", fact),
            leave_after: p.scalar("leave_after", fact),
        };
        resident(plan, &place, &patience);
    })
}

#[device(crate = kiln_lang)]
fn resident(plan: &Plan, place: &Place, patience: &Patience) {
    let mut worker = Worker {
        count: block_uniform(place.arena.get_or(place.section + worker::PORTS, 0)),
        first: val(0),
        seen: block_uniform(place.arena.get_or(place.section + worker::SEEN, 0)),
        turns: val(0),
        running: true.into_val(),
    };
    // Ports are taken up in any order: a record whose port has not been must say that nobody is
    // served there.
    for word in 0..val::<u32>(plan.table_words() as u32) {
        // SAFETY: every lane stores the same word to the worker's own table.
        unsafe { place.table.scatter(word, val::<u32>(0)) };
    }
    for p in 0..worker.count {
        load_port(place, p * (port::WORDS as u32));
    }
    for k in 0..1 + fault::MOST {
        place.faults.set(k, 0u64);
    }
    if let Some(near) = place.near {
        near.restore(plan, place);
    }
    let line = place.number * LINE;
    let mut idle: Val<u32> = 0;
    let mut works: Val<u32> = 0;
    let mut route = Route::none();
    let mut stayed: Val<bool> = false;
    while worker.running {
        let rested = idle.ne(0);
        let aim = Aim::take(plan, place, &worker, rested);
        if plan.inlets {
            route.renew(plan, place);
        }
        let mut poll = if plan.lanes > 1 && aim.sees_all & idle.lt(patience.spins) {
            // A message that waits for room may have it soon.
            let most = if plan.may_wait() { select(aim.held_up, 1, patience.spins) } else { patience.spins };
            aim.watch(plan, place, &worker, most, (rested, stayed))
        } else {
            aim.glance(plan, place)
        };
        worker.first = aim.next;
        let mut served: Val<u32> = 0;
        if plan.inlets && !plan.ordered {
            (poll, served) = poll.stay(plan, place, &worker, &mut route);
        }
        stayed = served.ne(0);
        let worked = poll.serve(plan, place, &worker, &mut route) | stayed;
        let told = worker.obey(plan, place, poll.command);
        if told {
            route.forget();
        }
        worker.turns += 1;
        if worker.turns % HEARTBEAT_TURNS == 0 {
            // SAFETY: every worker has a line in the outbox; the host reads the quad whole, and all
            // lanes store the same.
            unsafe {
                place.outbox.set_quad_unchecked(line + HEARTBEAT, [worker.turns, works, val(0), val(1)])
            };
        }
        if worked | told {
            idle = 0;
            works += 1;
        } else {
            idle += poll.glances;
            if idle > patience.spins {
                sleep_ns(patience.sleep_ns);
            }
            if idle >= patience.leave_after && patience.leave_after != 0 {
                worker.running = false.into_val();
            }
        }
    }
    if let Some(near) = place.near {
        near.keep(plan, place);
    }
    worker.save(place);
    worker.acknowledge(place);
}
