//! What only shows from within, or between devices: senders that stop half-way, devices that do not
//! reach each other.

use super::{Actor, Ending, RingConfig, RingRuntime, RuntimeConfig};
use crate::address::Address;
use crate::channel::QueueMemory as _;
use crate::device::VACANT_SLEEP_NS;
use crate::error::{AskError, CheckpointError, RecvError, RingError};
use crate::handler::RingCtx;
use crate::layout::Layout;
use crate::payload::Payload;
use crate::ring_kernel;
use crate::wire::record::{HEARTBEAT, LINE};
use kiln_backend::Tenant;
use kiln_lang::prelude::*;
use kiln_runtime::Device;
use std::time::{Duration, Instant};

#[ring_kernel(crate = crate)]
fn sum_of(_ctx: &RingCtx, total: &mut u32, x: [u32; 7]) -> u32 {
    *total += x[0] + x[6];
    *total
}

/// The message is never seen, nor is what was sent after it, and a checkpoint says so instead of
/// going without. Once it is whole, all are handled in their order.
#[test]
fn a_message_that_was_not_finished_is_not_there() {
    let config = RuntimeConfig { acknowledge_within: Duration::from_millis(200), ..RuntimeConfig::default() };
    let rt = RingRuntime::with(&Device::open("interp").unwrap(), config).unwrap();
    let actor = rt.launch(sum_of, RingConfig::default().state(0)).unwrap();
    actor.send([1; 7]).unwrap();
    let queue = &actor.body.mailbox.lowest().queue;
    let torn = queue.reserve(1).unwrap().start;
    actor.send([100; 7]).unwrap();
    let refused = actor.checkpoint().unwrap_err();
    let unfinished =
        matches!(refused, RingError::Checkpoint(CheckpointError::Unfinished { position: 1, .. }));
    assert!(unfinished, "{refused}");
    actor.activate().unwrap();
    assert_eq!(actor.recv().unwrap(), 2);
    let next = actor.recv_timeout(Duration::from_millis(20));
    assert!(matches!(next, Err(RecvError::TimedOut { .. })), "{next:?}");
    queue.write(torn, &[10, 10, 10, 10, 10, 10, 10, 0, 0]);
    queue.publish();
    assert_eq!((actor.recv().unwrap(), actor.recv().unwrap()), (22, 222));
}

/// A worker that can get no message polls seldom, whatever the configuration says, since its polls
/// take of a bus that the others need. It takes up an actor all the same.
#[test]
fn a_worker_without_actors_sleeps_between_polls() {
    let config = RuntimeConfig { spins: u32::MAX, park_after: None, ..RuntimeConfig::default() };
    let rt = RingRuntime::with(&Device::open("cpu").unwrap(), config.workers(2)).unwrap();
    let launched = || {
        let actor = rt.launch(sum_of, RingConfig::default().state(0)).unwrap();
        actor.activate().unwrap();
        assert_eq!(actor.ask([4; 7]), Ok(Some(8)));
        actor
    };
    let _first = launched();
    let turns = || [0, 1].map(|worker| rt.0.memory.outbox_words.load_quad(worker * LINE + HEARTBEAT)[0]);
    let (begun, before) = (Instant::now(), turns());
    // For long enough that some turns are counted, however busy the machine is.
    while turns().iter().zip(before).any(|(now, before)| now - before < 200) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let fewest = turns().iter().zip(before).map(|(now, before)| now - before).min().unwrap();
    // Before it sleeps, and between two heartbeats.
    let most = begun.elapsed().as_nanos() / u128::from(VACANT_SLEEP_NS) + 2 * 64;
    assert!(u128::from(fewest) <= most, "{fewest} turns, expected at most {most}");
    let _second = launched();
}

/// What was sent while the grid was away is handled when it comes back.
#[test]
fn a_grid_leaves_to_make_room() {
    let rt = RingRuntime::new(&Device::open("cpu").unwrap()).unwrap();
    let actor = rt.launch(sum_of, RingConfig::default().state(0)).unwrap();
    actor.activate().unwrap();
    assert_eq!(actor.ask([1; 7]), Ok(Some(2)));
    let tenant: &dyn Tenant = &*rt.0;
    tenant.leave().unwrap();
    assert!(!rt.0.grid().is_here());
    actor.send([2; 7]).unwrap();
    let early = actor.recv_timeout(Duration::from_millis(20));
    assert!(matches!(early, Err(RecvError::TimedOut { .. })), "{early:?}");
    tenant.come_back();
    assert_eq!((actor.recv(), rt.departures(), rt.parkings()), (Ok(6), 1, 0));
}

/// Does not end before the array says so. Counts the rounds in it.
#[ring_kernel(crate = crate)]
fn held_up(ctx: &RingCtx, handled: &mut u32, gate: Payload<u32>) -> u32 {
    let gate = ctx.array(&gate);
    let mut rounds: Val<u32> = 0;
    // The store keeps the load in the loop.
    while gate.get(0).eq(0) {
        rounds += 1;
        gate.set(1, rounds);
    }
    *handled += 1;
    *handled
}

/// Lets [`held_up`] go on.
fn open(rt: &RingRuntime, gate: &Payload<u32>) {
    let mut reference = [0; 3];
    gate.encode(&mut reference);
    rt.0.memory.write_arena(reference[0] as usize, &[1]).unwrap();
}

#[ring_kernel(crate = crate)]
fn twice(_ctx: &RingCtx, x: u32) -> u32 {
    x * 2
}

/// Two workers of a CPU: one with a handler that does not end before its gate is opened, and one
/// that waits for messages.
struct BusyAndIdle {
    rt: RingRuntime,
    busy: Actor<held_up>,
    gate: Payload<u32>,
    idle: Actor<sum_of>,
}

impl BusyAndIdle {
    fn begin() -> BusyAndIdle {
        let config = RuntimeConfig {
            step_budget: 0,
            acknowledge_within: Duration::from_millis(50),
            stalled_after: Duration::MAX,
            park_after: None,
            ..RuntimeConfig::default()
        };
        let rt = RingRuntime::with(&Device::open("cpu").unwrap(), config.workers(2)).unwrap();
        let busy = rt.launch(held_up, RingConfig::default().state(0)).unwrap();
        let idle = rt.launch(sum_of, RingConfig::default().state(0)).unwrap();
        busy.activate().unwrap();
        idle.activate().unwrap();
        let gate = rt.payload_of(&[0, 0]).unwrap();
        busy.send(gate.clone()).unwrap();
        while gate.to_vec().unwrap()[1] == 0 {
            std::thread::yield_now();
        }
        BusyAndIdle { rt, busy, gate, idle }
    }

    fn open(&self) {
        open(&self.rt, &self.gate);
    }
}

/// A handler that is new cannot be compiled in while another one takes its time; only the caller
/// that launches it is affected.
#[test]
fn a_grid_with_a_busy_worker_does_not_leave_in_part() {
    let test = BusyAndIdle::begin();
    let (rt, busy, idle) = (&test.rt, &test.busy, &test.idle);
    let refused = rt.launch(twice, RingConfig::default());
    assert!(matches!(refused, Err(RingError::Unresponsive { worker: 0, .. })), "{refused:?}");
    assert_eq!(idle.ask([7; 7]).unwrap(), Some(14));
    assert_eq!(busy.counts().under_way(), 1);
    test.open();
    assert_eq!(busy.recv().unwrap(), 1);
    let later = rt.launch(twice, RingConfig::default()).unwrap();
    later.activate().unwrap();
    assert_eq!((later.ask(4).unwrap(), idle.ask([1; 7]).unwrap()), (Some(8), Some(16)));
}

/// A worker may begin with something long after it has answered. Then all leave when it is done,
/// which is no loss, and are brought back.
#[test]
fn a_grid_that_leaves_late_comes_back() {
    let test = BusyAndIdle::begin();
    let (rt, busy, idle) = (&test.rt, &test.busy, &test.idle);
    for _ in 0..2 {
        // The second time, the idle worker got the command to leave before.
        let late = rt.0.grid().command_to_leave(&rt.0.memory);
        assert!(matches!(late, Err(RingError::Unresponsive { worker: 0, .. })), "{late:?}");
    }
    // Whether or not it has seen that it is to leave, that is not taken back.
    let gone = idle.deactivate();
    assert!(matches!(gone, Err(RingError::Unresponsive { worker: 1, .. })), "{gone:?}");
    idle.send([5; 7]).unwrap();
    test.open();
    assert_eq!((busy.recv().unwrap(), idle.recv().unwrap()), (1, 10));
    assert!(!rt.is_lost());
    idle.deactivate().unwrap();
}

#[ring_kernel(crate = crate)]
fn pass_on(ctx: &RingCtx, next: &mut Address<u32>, x: u32) {
    ctx.send(next, x);
}

#[ring_kernel(crate = crate)]
fn digits(_ctx: &RingCtx, seen: &mut u32, x: u32) -> u32 {
    *seen = *seen * 10 + x;
    *seen
}

/// Two actors send to a third, all by workers of their own. In which order the messages come there
/// is decided by the interpreter's seed, and by nothing else.
#[test]
fn a_seed_decides_which_worker_is_first() {
    let run = |seed: u32| {
        let device = Device::open(&format!("interp:{seed}")).unwrap();
        let bytes = 1 << 18;
        let config = RuntimeConfig::default().workers(3);
        let config = RuntimeConfig { inbox_bytes: bytes, outbox_bytes: bytes, arena_bytes: bytes, ..config };
        let rt = RingRuntime::with(&device, config).unwrap();
        let last = rt.launch(digits, RingConfig::default().state(0)).unwrap();
        let senders = [(); 2].map(|()| {
            rt.launch(pass_on, RingConfig::default().state(last.inbound_link(4).unwrap())).unwrap()
        });
        last.activate().unwrap();
        senders.iter().for_each(|sender| sender.activate().unwrap());
        senders[0].send(1).unwrap();
        senders[1].send(2).unwrap();
        [(); 2].map(|()| last.outputs().recv().unwrap())
    };
    let mut all = Vec::new();
    let both = (0..16).any(|seed| {
        all.push(run(seed));
        all.contains(&[1, 12]) && all.contains(&[2, 21])
    });
    assert!(both, "{all:?}");
    assert_eq!((0..).map(run).take(all.len()).collect::<Vec<_>>(), all);
}

/// A device that reaches another one's memory is one of two GPUs, or the same one.
#[test]
fn devices_that_do_not_reach_each_other_are_not_linked() {
    let runtime = |device: &str| RingRuntime::new(&Device::open(device).unwrap()).unwrap();
    let (interp, cpu) = (runtime("interp"), runtime("cpu"));
    let actor = cpu.launch(sum_of, RingConfig::default().state(0)).unwrap();
    let refused = actor.inbound_link_from(&interp, 4);
    let named = |from: &str, to: &str| (from, to) == ("interp", "cpu");
    assert!(matches!(&refused, Err(RingError::OutOfReach { from, to }) if named(from, to)), "{refused:?}");
    assert!(actor.inbound_link_from(&cpu, 4).is_ok());
    let other = runtime("interp").launch(sum_of, RingConfig::default().state(0)).unwrap();
    assert!(matches!(other.inbound_link_from(&interp, 4), Err(RingError::OutOfReach { .. })));
}

#[ring_kernel(crate = crate)]
fn hand_on(ctx: &RingCtx, next: &mut Address<Payload<u32>>, m: Payload<u32>) {
    ctx.send(next, m);
}

#[ring_kernel(crate = crate)]
fn first_of(ctx: &RingCtx, m: Payload<u32>) -> u32 {
    ctx.array(&m).get(0)
}

/// A reference-count table has so many lines. An array that came when all were taken can be sent by
/// the host alone, until others have gone.
#[test]
fn arrays_without_a_line_are_not_handed_on() {
    let config = RuntimeConfig { arena_bytes: 1 << 17, ..RuntimeConfig::default() };
    let rt = RingRuntime::with(&Device::open("interp").unwrap(), config).unwrap();
    let last = rt.launch(first_of, RingConfig::default()).unwrap();
    let first = rt.launch(hand_on, RingConfig::default().state(last.inbound_link(4).unwrap())).unwrap();
    last.activate().unwrap();
    first.activate().unwrap();
    let lines = rt.0.open_ref_counts().unwrap()[1] as usize + 1;
    let mut arrays: Vec<_> = (0..=lines as u32).map(|i| rt.payload_of(&[i]).unwrap()).collect();
    assert_eq!(rt.0.arrays(), lines);
    let without = arrays.pop().unwrap();
    assert_eq!(last.ask(without.clone()).unwrap(), Some(lines as u32));
    let Err(AskError::Unhandled { reason, .. }) = first.ask(without) else { panic!("it was handed on") };
    let why = rt.explain(reason);
    assert!(why.contains("more than the runtime has lines for"), "{why}");
    first.restart().unwrap();
    for (i, array) in (0..).zip(arrays.drain(..)) {
        assert_eq!(first.ask(array).unwrap(), None);
        assert_eq!(last.outputs().recv(), Ok(i));
    }
    // All lines are taken by arrays that only actors had: they make room.
    let next = rt.payload_of(&[7]).unwrap();
    assert_eq!((first.ask(next).unwrap(), last.outputs().recv()), (None, Ok(7)));
    rt.0.sweep();
    assert_eq!(rt.0.arrays(), 0);
}

/// Numbers that no device has use for are refused by name, before anything is allocated.
#[test]
fn absurd_configurations_are_refused() {
    let base = RuntimeConfig::default;
    let fields = [
        ("workers", RuntimeConfig { workers: Some(usize::MAX), ..base() }),
        ("workers", RuntimeConfig { workers: Some(1 << 40), ..base() }),
        ("endpoints_per_worker", RuntimeConfig { endpoints_per_worker: usize::MAX, ..base() }),
        ("cluster_bytes", RuntimeConfig { cluster: 2, cluster_bytes: usize::MAX, ..base() }),
        ("measure_every", RuntimeConfig { measure_every: u32::MAX, ..base() }),
    ];
    for name in ["interp", "cpu"] {
        let device = Device::open(name).unwrap();
        for (field, config) in fields {
            let error = RingRuntime::with(&device, config).err().unwrap();
            let named = matches!(&error, RingError::ConfigTooLarge { what, .. } if *what == field);
            assert!(named && error.to_string().contains(field), "{error}");
        }
        let regions = [
            RuntimeConfig { inbox_bytes: usize::MAX, ..base() },
            RuntimeConfig { outbox_bytes: usize::MAX, ..base() },
            RuntimeConfig { arena_bytes: usize::MAX, ..base() },
            RuntimeConfig { workers: Some(1 << 16), endpoints_per_worker: 1 << 16, ..base() },
        ];
        for config in regions {
            let error = RingRuntime::with(&device, config).err().unwrap();
            assert!(matches!(error, RingError::RegionTooLarge { .. }), "{error}");
        }
        let cluster = RuntimeConfig { cluster: usize::MAX, ..base() };
        let error = RingRuntime::with(&device, cluster).err().unwrap();
        assert!(matches!(error, RingError::ClusterSize { .. }), "{error}");
    }
}

/// Times without an end are waited for without an end.
#[test]
fn endless_times_are_no_overflow() {
    let forever = Duration::MAX;
    let config = RuntimeConfig {
        workers: Some(1),
        sleep: forever,
        park_after: Some(forever),
        acknowledge_within: forever,
        lost_within: forever,
        stalled_after: forever,
        checkpoint_every: Some(forever),
        dead_letters: usize::MAX,
        spins: u32::MAX,
        step_budget: u32::MAX,
        measure_every: 1 << 31,
        ..RuntimeConfig::default()
    };
    for name in ["interp", "cpu"] {
        let rt = RingRuntime::with(&Device::open(name).unwrap(), config).unwrap();
        let actor = rt.launch(sum_of, RingConfig::default().state(0)).unwrap();
        actor.activate().unwrap();
        assert_eq!(actor.ask([1; 7]).unwrap(), Some(2));
        for capacity in [usize::MAX, 1 << 40] {
            let refused = rt.launch(sum_of, RingConfig::default().state(0).capacity(capacity)).err().unwrap();
            assert!(matches!(refused, RingError::Config(_)), "{refused}");
        }
    }
}

#[ring_kernel(crate = crate)]
fn talking(_ctx: &RingCtx, x: u32) -> u32 {
    device_print!("got {}", x);
    x + 1
}

/// A handler whose print sink panics has handled its message all the same, and its actors are not
/// lost.
#[test]
fn a_print_sink_that_panics_costs_no_actor() {
    let backends: [Box<dyn kiln_backend::Backend>; 2] = [
        Box::new(kiln_cpu::CpuBackend::with_threads(1)),
        Box::new(kiln_interp::Interp::new(Default::default())),
    ];
    for backend in backends {
        let device = Device::with_backend(backend, kiln_runtime::DiskCache::none());
        device.backend().set_print_sink(std::sync::Arc::new(|line| panic!("no room for `{line}`")));
        let rt = RingRuntime::with(&device, RuntimeConfig::default().workers(1)).unwrap();
        let actor = rt.launch(talking, RingConfig::default()).unwrap();
        actor.activate().unwrap();
        for x in 0..3 {
            assert_eq!(actor.ask(x).unwrap(), Some(x + 1));
        }
        let error = device.synchronize().unwrap_err().to_string();
        assert!(error.contains("no room for `got "), "{error}");
        actor.terminate_with(Ending::Drain, Duration::MAX).unwrap();
    }
}

/// Takes as long as the message says.
#[ring_kernel(crate = crate)]
fn slow(_ctx: &RingCtx, ns: u64) -> u64 {
    let begun = clock_ns();
    let mut passed: Val<u64> = 0;
    while passed < ns {
        passed = clock_ns() - begun;
    }
    passed
}

/// Termination waits as long as messages are handled, and no longer.
#[test]
fn termination_waits_for_progress() {
    // Processor time of the worker, of which no message takes so much.
    let patience = Duration::from_millis(100);
    let config = RuntimeConfig {
        acknowledge_within: patience,
        step_budget: 0,
        stalled_after: Duration::MAX,
        ..RuntimeConfig::default()
    };
    let rt = RingRuntime::with(&Device::open("cpu").unwrap(), config.workers(1)).unwrap();
    let actor = rt.launch(slow, RingConfig::default()).unwrap();
    let stuck = rt.launch(held_up, RingConfig::default().state(0)).unwrap();
    actor.activate().unwrap();
    stuck.activate().unwrap();
    for _ in 0..12 {
        actor.send(10_000_000).unwrap();
    }
    let begun = std::time::Instant::now();
    actor.terminate().unwrap();
    assert!(begun.elapsed() > patience, "it waited for more than one message");
    assert_eq!(actor.channel().counts().failed, 0);

    let gate = rt.payload_of(&[0, 0]).unwrap();
    stuck.send(gate.clone()).unwrap();
    // It returns although the handler goes on, which nothing else ends.
    let error = stuck.terminate().unwrap_err();
    assert!(matches!(error, RingError::NotDrained { .. } | RingError::Unresponsive { .. }), "{error}");
    // The worker ends before the runtime does.
    open(&rt, &gate);
    assert_eq!(stuck.recv(), Ok(1));
}

/// A termination for which no time was left after the last message can be repeated.
#[test]
fn a_termination_that_came_too_late_is_made_up_for() {
    let rt = RingRuntime::with(&Device::open("cpu").unwrap(), RuntimeConfig::default().workers(1)).unwrap();
    for _ in 0..20 {
        let actor = rt.launch(twice, RingConfig::default()).unwrap();
        actor.activate().unwrap();
        assert_eq!(actor.ask(4).unwrap(), Some(8));
        match actor.terminate_with(Ending::Drain, Duration::ZERO) {
            Err(RingError::Unresponsive { .. } | RingError::NotDrained { .. }) => actor.terminate().unwrap(),
            ended => ended.unwrap(),
        }
        assert_eq!(actor.lifecycle(), crate::Lifecycle::Terminated);
    }
}

/// An actor that is left out of checkpoints by the clock is said to be, once.
#[test]
fn an_actor_without_checkpoints_is_reported() {
    let config = RuntimeConfig::default().checkpoint_every(Duration::from_millis(1));
    let rt = RingRuntime::with(&Device::open("cpu").unwrap(), config).unwrap();
    let events = rt.events();
    let actor = rt.launch(twice, RingConfig::default()).unwrap();
    actor.inbound_link(4).unwrap();
    actor.activate().unwrap();
    let mut said = Vec::new();
    for x in 0..100 {
        assert_eq!(actor.ask(x).unwrap(), Some(2 * x));
        std::thread::sleep(Duration::from_millis(1));
        while let Some(event) = events.try_next() {
            if let super::What::NoCheckpoint { why } = event.what {
                said.push(why);
            }
        }
        if x > 50 && !said.is_empty() {
            break;
        }
    }
    assert!(said.len() == 1 && said[0].contains("inbound link"), "{said:?}");
}
