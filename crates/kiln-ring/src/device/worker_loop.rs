//! The resident kernel: the loop of a worker.

use super::cluster::Near;
use super::command::load_endpoint;
use super::dispatched;
use super::plan::{GridPlan, host};
use super::poll::PollSet;
use super::route::Route;
use super::worker::{Worker, WorkerMemory};
use crate::wire::gauge::fault;
use crate::wire::record::{HEARTBEAT, LINE, endpoint, section_words, worker};
use kiln_ir::{Facts, IntFact, Kernel};
use kiln_lang::param::ParamDecl;
use kiln_lang::{TraceErrors, prelude::*};

/// Numbers of a launch.
#[derive(Clone, Copy)]
struct Patience {
    /// Polls without work before the worker sleeps between polls.
    spins: Val<u32>,
    /// How long it then sleeps, in nanoseconds.
    sleep_ns: Val<u32>,
    /// Polls without work before it leaves; 0 for never.
    leave_after: Val<u32>,
    /// Turns of the loop before it leaves, whatever there is to do, where the kernel is dispatched.
    turns: Option<Val<u32>>,
}

/// Turns of the loop between two heartbeats of a worker.
const HEARTBEAT_TURNS: u32 = 64;
/// A turn in which the worker polled so often ends with a heartbeat too: 64 turns of 1024 polls
/// across a bus take 130 ms, in which a worker that lives would look like a stalled one.
const HEARTBEAT_POLLS: u32 = 64;
/// Polls without work after which a worker that can get no message waits for a command alone,
/// whatever the configuration says: longer than the host takes between two of them.
const VACANT_AFTER: u32 = 64;
/// How long it then sleeps between polls, in nanoseconds. Each poll takes of a bus that workers
/// with actors need: with 131 that polled beside it, a worker of an H200 took 4 to 13 us for a
/// message, alone 2.7.
pub(crate) const VACANT_SLEEP_NS: u32 = 20_000;

/// Records the resident kernel. Parameters: inbox, outbox, arena, then the first three numbers of
/// [`Patience`]. Where it is dispatched there are three more: its turns, the number of the first
/// worker, and the time at which the dispatch begins.
pub(crate) fn trace_resident(plan: &GridPlan) -> Result<Kernel, TraceErrors> {
    let plan = &plan.with_effects();
    let mut kernel = trace("ring", Level::Thread { block: [plan.lanes, 1, 1] }, |p: &mut ParamDecl| {
        let unit = IntFact { divisor: 1, equals: Some(1), fits_i32: true };
        let facts = || Facts { align: 256, strides: [unit].into_iter().collect(), ..Facts::default() };
        let (inbox, outbox, arena) =
            (p.view("inbox", facts()), p.view_mut("outbox", facts()), p.view_mut("arena", facts()));
        let fact = IntFact::default();
        let patience = Patience {
            spins: p.scalar("spins", fact),
            sleep_ns: p.scalar("sleep_ns", fact),
            leave_after: p.scalar("leave_after", fact),
            turns: plan.dispatched.then(|| p.scalar("turns", fact)),
        };
        let first = plan.dispatched.then(|| p.scalar::<u32>("first", fact));
        if plan.dispatched {
            // Of use to what `dispatched` makes of clocks.
            let _: Val<u64> = p.scalar(dispatched::NOW, fact);
        }
        let number = first.map_or(program_id(0), |first| program_id(0) + first.cast::<i64>());
        let memory = WorkerMemory {
            inbox,
            outbox,
            arena,
            number,
            section: number * section_words(plan.endpoints),
            table: shared([plan.table_words()]),
            near: Near::of(plan, number),
            faults: local(1 + fault::MOST),
        };
        resident(plan, &memory, &patience);
    })?;
    if plan.dispatched {
        dispatched::rewrite(&mut kernel);
    }
    Ok(kernel)
}

#[device(crate = kiln_lang)]
fn resident(plan: &GridPlan, memory: &WorkerMemory, patience: &Patience) {
    let mut worker = Worker {
        count: block_uniform(memory.arena.get_or(memory.section + worker::ENDPOINTS, 0)),
        first: val(0),
        seen: block_uniform(memory.arena.get_or(memory.section + worker::SEEN, 0)),
        turns: val(0),
        running: true.into_val(),
    };
    // Endpoints are taken up in any order: a record whose endpoint was not taken must say that it
    // has no actor.
    for word in 0..val::<u32>(plan.table_words() as u32) {
        // SAFETY: every lane stores the same word to the worker's own table.
        unsafe { memory.table.scatter(word, val::<u32>(0)) };
    }
    for p in 0..worker.count {
        load_endpoint(memory, p * (endpoint::WORDS as u32));
    }
    for k in 0..1 + fault::MOST {
        memory.faults.set(k, 0u64);
    }
    if let Some(near) = memory.near {
        near.restore(plan, &memory.arena);
    }
    let mut idle: Val<u32> = 0;
    let mut works: Val<u32> = 0;
    let mut route = Route::none();
    let mut on_fast_path: Val<bool> = false;
    while worker.running {
        let rested = idle.ne(0);
        let poll_set = PollSet::take(plan, memory, &worker, rested);
        if host(plan.inbound_links) {
            route.renew(plan, memory);
        }
        let mut poll = if host(plan.lanes > 1) && poll_set.sees_all & idle.lt(patience.spins) {
            // A message that waits for room may have it soon.
            let most = if host(plan.may_wait()) {
                select(poll_set.held_up, 1, patience.spins)
            } else {
                patience.spins
            };
            poll_set.watch(plan, memory, &worker, most, (rested, on_fast_path))
        } else {
            poll_set.glance(plan, memory)
        };
        worker.first = poll_set.next;
        let mut served: Val<u32> = 0;
        if host(plan.inbound_links && !plan.ordered) {
            (poll, served) = poll.fast_path(plan, memory, &worker, &mut route);
        }
        on_fast_path = served.ne(0);
        let worked = poll.serve(plan, memory, &worker, &mut route) | on_fast_path;
        let commanded = worker.carry_out(plan, memory, poll.command);
        if commanded {
            route.forget();
        }
        worker.turns += 1;
        if (worker.turns % HEARTBEAT_TURNS).eq(0) | poll.glances.ge(HEARTBEAT_POLLS) {
            memory.beat([worker.turns, works, val(0), val(1)]);
        }
        if worked | commanded {
            idle = 0;
            works += 1;
        } else {
            idle += poll.glances;
            if idle > patience.spins {
                sleep_ns(patience.sleep_ns);
            }
            if host(!plan.dispatched) {
                if idle > VACANT_AFTER {
                    idle += wait_for_command(plan, memory, &mut worker, works, patience);
                }
            }
            if idle >= patience.leave_after && patience.leave_after != 0 {
                worker.running = false.into_val();
            }
        }
        if let Some(turns) = patience.turns {
            worker.running = worker.running & worker.turns.lt(turns);
        }
    }
    if let Some(near) = memory.near {
        near.keep(plan, &memory.arena);
    }
    if let Some(turns) = patience.turns {
        memory.beat([worker.turns, works, worker.turns.ge(turns).cast::<u32>(), val(1)]);
    }
    worker.save(memory);
    worker.acknowledge(memory);
}

/// If the worker can get no message: polls for a command, until there is one. How often it polled.
#[device(crate = kiln_lang)]
fn wait_for_command(
    plan: &GridPlan,
    memory: &WorkerMemory,
    worker: &mut Worker,
    works: Val<u32>,
    patience: &Patience,
) -> Val<u32> {
    let mut polls: Val<u32> = 0;
    let mut waits = PollSet::take(plan, memory, worker, true.into_val()).is_vacant(plan);
    while waits {
        sleep_ns(patience.sleep_ns.maximum(VACANT_SLEEP_NS));
        let command = memory.command();
        polls += 1;
        worker.turns += 1;
        if (worker.turns % HEARTBEAT_TURNS).eq(0) {
            memory.beat([worker.turns, works, val(0), val(1)]);
        }
        let leaves = patience.leave_after.ne(0) & polls.ge(patience.leave_after);
        waits = block_uniform(command[3]).eq(worker.seen) & !leaves;
    }
    polls
}

impl WorkerMemory {
    /// Shows the host that the worker lives.
    #[device(crate = kiln_lang)]
    fn beat(&self, quad: [Val<u32>; 4]) {
        // SAFETY: every worker has a line in the outbox; the host reads the quad whole, and all
        // lanes store the same.
        unsafe { self.outbox.set_quad_unchecked(self.number * LINE + HEARTBEAT, quad) };
    }
}
