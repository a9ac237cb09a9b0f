//! Devices that are lost and handlers that never end: every wait ends with an error, and actors
//! come back.

mod frail;

use kiln_backend::Backend;
use kiln_cpu::CpuBackend;
use kiln_interp::{Interp, Options};
use kiln_lang::prelude::*;
use kiln_ring::{
    Actor, AskError, Ending, Event, Events, Lifecycle, Payload, RecvError, RingConfig, RingCtx, RingError,
    RingRuntime, RuntimeConfig, SendError, What, ring_kernel,
};
use kiln_runtime::Device;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What has not come by then never comes, however busy the machine is. Where a call must not wait
/// for something, that takes as long: then the call cannot have waited if it returns sooner.
const NEVER: Duration = Duration::from_secs(20 * 60);

#[ring_kernel(crate = kiln_ring)]
fn running_sum(_ctx: &RingCtx, total: &mut u64, x: u32) -> u64 {
    *total += x.cast::<u64>();
    *total
}

/// Does not end before the array says so, and counts the rounds in it.
#[ring_kernel(crate = kiln_ring)]
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
#[ring_kernel(crate = kiln_ring)]
fn open(ctx: &RingCtx, gate: Payload<u32>) {
    ctx.array(&gate).set(0, 1);
}

/// Waits until a handler is held up.
fn until_held_up(gate: &Payload<u32>) {
    let begun = Instant::now();
    while gate.to_vec().unwrap()[1] == 0 {
        assert!(begun.elapsed() < NEVER, "the handler did not begin");
        std::thread::yield_now();
    }
}

/// Does not end for 3.
#[ring_kernel(crate = kiln_ring)]
fn stubborn(_ctx: &RingCtx, total: &mut u32, x: u32) -> u32 {
    let mut n: Val<u32> = 0;
    while x == 3 {
        n += 1;
    }
    *total += x + n;
    *total
}

/// The same, but for what it takes of a processor that other tests need: nothing ends it.
#[ring_kernel(crate = kiln_ring)]
fn drowsy(_ctx: &RingCtx, total: &mut u32, x: u32) -> u32 {
    let mut n: Val<u32> = 0;
    while x == 3 {
        sleep_ns(1_000_000);
        n += 1;
    }
    *total += x + n;
    *total
}

fn find(events: &Events, wanted: impl Fn(&Event) -> bool) -> Event {
    let begun = Instant::now();
    while let Some(event) = events.next_timeout(NEVER.saturating_sub(begun.elapsed())) {
        if wanted(&event) {
            return event;
        }
    }
    panic!("the event did not come within {NEVER:?}")
}

fn backends() -> [Box<dyn Backend>; 2] {
    [Box::new(CpuBackend::new()), Box::new(Interp::new(Options::default()))]
}

/// Callers that wait get an error, later ones too, and the actor goes on elsewhere from its last
/// checkpoint by the clock.
#[test]
fn a_lost_device_ends_all_waits_and_its_actors_come_back() {
    for backend in backends() {
        let id = backend.properties().id.clone();
        let (device, lost) = frail::device(backend);
        let config = RuntimeConfig { acknowledge_within: NEVER, ..RuntimeConfig::default() };
        let config = config.checkpoint_every(Duration::from_millis(2));
        let rt = RingRuntime::with(&device, config).unwrap();
        let events = rt.events();
        let actor = rt.launch(running_sum, RingConfig::default().state(0)).unwrap();
        let idle = rt.launch(running_sum, RingConfig::default().state(9)).unwrap();
        actor.activate().unwrap();
        for x in 1..=10 {
            assert_eq!(actor.ask(x).unwrap(), Some(u64::from(x * (x + 1) / 2)));
        }
        let begun = Instant::now();
        while actor.last_checkpoint().is_none_or(|checkpoint| checkpoint.position() < 10) {
            assert!(begun.elapsed() < NEVER, "no checkpoint came");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(matches!(rt.recover(), Err(RingError::NotLost { .. })));
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| actor.recv_timeout(Duration::MAX));
            std::thread::sleep(Duration::from_millis(20));
            lost.store(true, Ordering::Release);
            let heard = receiver.join().unwrap();
            assert!(
                matches!(heard, Err(RecvError::Lost { .. } | RecvError::Closed { .. })),
                "{id}: {heard:?}"
            );
        });
        find(&events, |event| matches!(event.what, What::DeviceLost { .. }) && event.name == id);
        assert_eq!(actor.lifecycle(), Lifecycle::Failed);
        assert!(matches!(actor.send(1), Err(SendError::Closed { .. })));
        assert!(matches!(actor.ask(1), Err(AskError::Send(SendError::Closed { .. }))));
        assert!(matches!(actor.restart(), Err(RingError::Lost { .. })));
        assert!(matches!(idle.activate(), Err(RingError::Illegal { is: Lifecycle::Failed, .. })));
        assert!(matches!(actor.checkpoint(), Err(RingError::Lost { .. } | RingError::Device(_))));
        assert!(rt.launch(running_sum, RingConfig::default().state(0)).is_err());

        let interp = Device::open("interp").unwrap();
        let again = rt.recover_on(&interp).unwrap();
        let (actor2, idle2) = (again.bring_back(&actor).unwrap(), again.bring_back(&idle).unwrap());
        assert!(matches!(actor.terminate(), Err(RingError::Lost { .. })));
        actor2.activate().unwrap();
        idle2.activate().unwrap();
        assert_eq!(actor2.ask(100).unwrap(), Some(155));
        // There was no checkpoint of it: it was never active.
        assert_eq!(idle2.ask(1).unwrap(), Some(10));
        let begun = Instant::now();
        drop((actor, idle, rt, device));
        assert!(begun.elapsed() < NEVER, "{id}: a lost device was waited for");
    }
}

/// Senders that wait for room in a full queue get an error too.
#[test]
fn a_sender_that_waits_is_told() {
    let (device, lost) = frail::device(Box::new(CpuBackend::new()));
    let rt = RingRuntime::new(&device).unwrap();
    let actor = rt.launch(running_sum, RingConfig::default().state(0).capacity(2)).unwrap();
    std::thread::scope(|scope| {
        // With a limit: without one, a full queue of an actor that is not active is an error at
        // once.
        let sender = scope.spawn(|| (0..3).try_for_each(|x| actor.send_timeout(x, Duration::MAX).map(drop)));
        std::thread::sleep(Duration::from_millis(20));
        lost.store(true, Ordering::Release);
        assert!(matches!(sender.join().unwrap(), Err(SendError::Closed { .. })));
    });
}

/// A device that is lost while the grid is parked is found lost by the message that wakes the grid.
#[test]
fn a_parked_grid_that_cannot_come_back_is_lost() {
    let (device, lost) = frail::device(Box::new(CpuBackend::new()));
    let config = RuntimeConfig::default().park_after(Some(Duration::from_millis(5)));
    let rt = RingRuntime::with(&device, config).unwrap();
    let actor = rt.launch(running_sum, RingConfig::default().state(0)).unwrap();
    actor.activate().unwrap();
    assert_eq!(actor.ask(1).unwrap(), Some(1));
    let begun = Instant::now();
    while rt.parkings() == 0 {
        assert!(begun.elapsed() < NEVER, "the grid was not parked");
        std::thread::sleep(Duration::from_millis(1));
    }
    lost.store(true, Ordering::Release);
    let asked = actor.ask(2);
    assert!(
        matches!(asked, Err(AskError::Lost { .. } | AskError::Send(SendError::Closed { .. }))),
        "{asked:?}"
    );
    assert!(rt.is_lost());
}

/// A handler without a step budget that does not end: its worker is given up within the stated
/// time, the other worker's actor is not, and the runtime comes back.
#[test]
fn a_handler_that_never_ends_is_reported_and_left_behind() {
    let device = Device::open("cpu").unwrap();
    // Time with a processor or asleep, which a worker that lives does not spend without a sign of
    // life.
    let stalled_after = Duration::from_millis(500);
    let config = RuntimeConfig { step_budget: 0, stalled_after, ..RuntimeConfig::default() }.workers(2);
    let rt = RingRuntime::with(&device, config).unwrap();
    let events = rt.events();
    let launch = || rt.launch(drowsy, RingConfig::default().state(0)).unwrap();
    let (bad, good) = (launch(), launch());
    bad.activate().unwrap();
    good.activate().unwrap();
    assert_eq!(bad.ask(4).unwrap(), Some(4));
    bad.checkpoint().unwrap();
    assert_eq!(bad.ask(5).unwrap(), Some(9));
    let begun = Instant::now();
    let asked = bad.ask(3);
    assert!(matches!(asked, Err(AskError::Lost { .. })), "{asked:?}");
    assert!(begun.elapsed() >= stalled_after, "{:?}", begun.elapsed());
    find(&events, |event| matches!(event.what, What::Stalled { .. }));
    let lost =
        find(&events, |event| event.actor == Some(bad.number()) && matches!(event.what, What::Lost { .. }));
    assert!(lost.to_string().contains("no sign of life"), "{lost}");
    assert_eq!(bad.lifecycle(), Lifecycle::Failed);
    assert_eq!((good.lifecycle(), good.ask(1).unwrap()), (Lifecycle::Active, Some(1)));

    let again = rt.recover().unwrap();
    let back = again.bring_back(&bad).unwrap();
    back.activate().unwrap();
    // The checkpoint was taken after the 4.
    assert_eq!(back.ask(1).unwrap(), Some(5));
}

/// Whatever its worker does, and whichever threads use the device meanwhile, an actor's end is
/// known in time.
#[test]
fn termination_returns_in_time_with_a_handler_that_does_not_end() {
    let device = Device::open("cpu").unwrap();
    let config = RuntimeConfig {
        step_budget: 0,
        acknowledge_within: NEVER,
        stalled_after: Duration::MAX,
        ..RuntimeConfig::default()
    };
    let config = config.workers(2).endpoints_per_worker(2);
    let rt = RingRuntime::with(&device, config).unwrap();
    let bad = rt.launch(held_up, RingConfig::default().state(0)).unwrap();
    let good = rt.launch(open, RingConfig::default()).unwrap();
    // It shares a worker with the first.
    let beside = rt.launch(held_up, RingConfig::default().state(0)).unwrap();
    bad.activate().unwrap();
    good.activate().unwrap();
    beside.activate().unwrap();
    let gate = rt.payload_of(&[0, 0]).unwrap();
    bad.send(gate.clone()).unwrap();
    bad.send(gate.clone()).unwrap();
    until_held_up(&gate);
    let limit = Duration::from_millis(100);
    let in_vain = |actor: &Actor<held_up>, ending| {
        let begun = Instant::now();
        let ended = actor.terminate_with(ending, limit);
        let took = begun.elapsed();
        assert!(took >= limit && took < NEVER, "{ending:?} took {took:?}");
        match ended {
            Err(RingError::NotDrained { waited, .. }) => assert!(waited >= limit && waited <= took),
            Err(RingError::Unresponsive { worker: 0, waited, .. }) => assert!(waited <= took),
            other => panic!("{ending:?}: {other:?}"),
        }
    };
    // On a loaded machine the first may end before the supervisor's look is over.
    while bad.lifecycle() != Lifecycle::Draining {
        in_vain(&bad, Ending::Drain);
    }
    assert!(matches!(bad.send(gate.clone()), Err(SendError::Closed { .. })));
    in_vain(&bad, Ending::Discard);
    in_vain(&bad, Ending::Discard);
    in_vain(&beside, Ending::Discard);
    // Another thread waits for the worker, for as long as it was given.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| bad.terminate_with(Ending::Discard, NEVER));
        std::thread::sleep(Duration::from_millis(50));
        in_vain(&beside, Ending::Discard);
        in_vain(&bad, Ending::Discard);
        assert!(!waiting.is_finished(), "it did not wait");
        good.send(gate.clone()).unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(bad.lifecycle(), Lifecycle::Terminated);
    good.terminate_with(Ending::Drain, NEVER).unwrap();
}

/// Fails on what it is sent.
#[ring_kernel(crate = kiln_ring)]
fn failing(_ctx: &RingCtx, _x: u32) -> Result<(), u32> {
    Err(1)
}

/// A wait for a worker that timed out is no reason not to check it: its stall is reported all the
/// same. (How soon the supervisor checks again is tested in `runtime/supervisor.rs`.)
#[test]
fn a_stall_is_reported_after_a_command_in_vain() {
    let config = RuntimeConfig {
        step_budget: 0,
        stalled_after: Duration::from_millis(500),
        acknowledge_within: Duration::from_millis(250),
        ..RuntimeConfig::default()
    };
    let device = Device::open("cpu").unwrap();
    let rt = RingRuntime::with(&device, config.workers(2).endpoints_per_worker(2)).unwrap();
    let events = rt.events();
    let bad = rt.launch(held_up, RingConfig::default().state(0)).unwrap();
    let falls = rt.launch(failing, RingConfig::default()).unwrap();
    let beside = rt.launch(held_up, RingConfig::default().state(0)).unwrap();
    let opener = rt.launch(open, RingConfig::default()).unwrap();
    falls.link(&beside);
    for activated in [bad.activate(), falls.activate(), beside.activate(), opener.activate()] {
        activated.unwrap();
    }
    let gate = rt.payload_of(&[0, 0]).unwrap();
    bad.send(gate.clone()).unwrap();
    until_held_up(&gate);
    // The supervisor commands the worker that is held up to give back what the linked actor has.
    falls.send(1).unwrap();
    find(&events, |event| matches!(event.what, What::Stalled { worker: 0 }));
    // Or it would take a processor from the other tests for as long as they run.
    opener.send(gate.clone()).unwrap();
    std::mem::forget((bad, beside, opener, gate, rt));
}

/// The interpreter runs handlers within the host's waits: there a handler always has a budget.
#[test]
fn the_interpreter_ends_handlers_without_a_budget() {
    let config = RuntimeConfig { step_budget: 0, ..RuntimeConfig::default() };
    let rt = RingRuntime::with(&Device::open("interp").unwrap(), config).unwrap();
    let actor = rt.launch(stubborn, RingConfig::default().state(0)).unwrap();
    actor.activate().unwrap();
    let Err(AskError::Unhandled { reason, .. }) = actor.ask(3) else { panic!("it was handled") };
    assert!(rt.explain(reason).contains("more steps than its budget"), "{}", rt.explain(reason));
    actor.terminate_with(Ending::Drain, NEVER).unwrap();
}

/// One that had too little time to drain goes on with it, and is seen doing so.
#[test]
fn a_draining_actor_is_seen_and_given_more_time() {
    let config = RuntimeConfig { step_budget: 0, stalled_after: Duration::MAX, ..RuntimeConfig::default() };
    let rt = RingRuntime::with(&Device::open("cpu").unwrap(), config.workers(2)).unwrap();
    let events = rt.events();
    let actor = rt.launch(held_up, RingConfig::default().state(0)).unwrap();
    let opener = rt.launch(open, RingConfig::default()).unwrap();
    actor.activate().unwrap();
    opener.activate().unwrap();
    let gate = rt.payload_of(&[0, 0]).unwrap();
    for _ in 0..3 {
        actor.send(gate.clone()).unwrap();
    }
    // On a loaded machine a limit may pass while the supervisor looks at the actor.
    while actor.lifecycle() != Lifecycle::Draining {
        let ended = actor.terminate_with(Ending::Drain, Duration::from_millis(5));
        assert!(matches!(ended, Err(RingError::NotDrained { left: 1.., .. })), "{ended:?}");
    }
    find(&events, |event| event.what == What::StateChanged(Lifecycle::Draining));
    std::thread::scope(|scope| {
        let more = scope.spawn(|| actor.terminate_with(Ending::Drain, NEVER).unwrap());
        // A reader does not wait for a thread that waits.
        let told = rt.telemetry().unwrap();
        assert!(!more.is_finished(), "it is held up");
        assert_eq!(told.actors[0].lifecycle, Lifecycle::Draining);
        opener.send(gate.clone()).unwrap();
        more.join().unwrap();
    });
    let handled = [(); 3].map(|()| actor.recv().unwrap());
    assert_eq!(handled, [1, 2, 3]);
    assert_eq!((actor.lifecycle(), rt.dead_letters().arrived()), (Lifecycle::Terminated, 0));
}
