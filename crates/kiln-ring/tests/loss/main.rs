//! Devices that are lost and handlers that never end: every wait ends with an error, and actors come back.

mod frail;

use kiln_backend::Backend;
use kiln_cpu::CpuBackend;
use kiln_interp::{Interp, Options};
use kiln_lang::prelude::*;
use kiln_ring::{
    AskError, Event, Events, Lifecycle, RecvError, RingConfig, RingCtx, RingError, RingRuntime,
    RuntimeConfig, SendError, What, ring_kernel,
};
use kiln_runtime::Device;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(30);

#[ring_kernel(crate = kiln_ring)]
fn running_sum(_ctx: &RingCtx, total: &mut u64, x: u32) -> u64 {
    *total += x.cast::<u64>();
    *total
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

fn find(events: &Events, wanted: impl Fn(&Event) -> bool) -> Event {
    let begun = Instant::now();
    while let Some(event) = events.next_timeout(SOON.saturating_sub(begun.elapsed())) {
        if wanted(&event) {
            return event;
        }
    }
    panic!("the event did not come")
}

fn backends() -> [Box<dyn Backend>; 2] {
    [Box::new(CpuBackend::new()), Box::new(Interp::new(Options::default()))]
}

/// Whoever waits is told, whoever comes later too, and the actor goes on elsewhere from its last checkpoint by the clock.
#[test]
fn a_lost_device_ends_all_waits_and_its_actors_come_back() {
    for backend in backends() {
        let id = backend.properties().id.clone();
        let (device, lost) = frail::device(backend);
        let config = RuntimeConfig::default().checkpoint_every(Duration::from_millis(2));
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
            assert!(begun.elapsed() < SOON, "no checkpoint came");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(matches!(rt.recover(), Err(RingError::NotLost { .. })));
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| actor.recv());
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
        assert!(begun.elapsed() < Duration::from_secs(3), "{id}: a lost device was waited for");
    }
}

/// Senders that wait for room in a full queue are told too.
#[test]
fn a_sender_that_waits_is_told() {
    let (device, lost) = frail::device(Box::new(CpuBackend::new()));
    let rt = RingRuntime::new(&device).unwrap();
    let actor = rt.launch(running_sum, RingConfig::default().state(0).capacity(2)).unwrap();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| (0..3).try_for_each(|x| actor.send(x).map(drop)));
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
        assert!(begun.elapsed() < SOON, "the grid was not parked");
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

/// A handler without a step budget that does not end: its worker is given up within the stated time, the other worker's actor is not, and the runtime comes back.
#[test]
fn a_handler_that_never_ends_is_reported_and_left_behind() {
    let device = Device::open("cpu").unwrap();
    let stalled_after = Duration::from_millis(800);
    let config = RuntimeConfig { step_budget: 0, stalled_after, ..RuntimeConfig::default() }.workers(2);
    let rt = RingRuntime::with(&device, config).unwrap();
    let events = rt.events();
    let launch = || rt.launch(stubborn, RingConfig::default().state(0)).unwrap();
    let (bad, good) = (launch(), launch());
    bad.activate().unwrap();
    good.activate().unwrap();
    assert_eq!(bad.ask(4).unwrap(), Some(4));
    bad.checkpoint().unwrap();
    assert_eq!(bad.ask(5).unwrap(), Some(9));
    let begun = Instant::now();
    let asked = bad.ask(3);
    assert!(matches!(asked, Err(AskError::Lost { .. })), "{asked:?}");
    assert!(begun.elapsed() >= stalled_after && begun.elapsed() < SOON, "{:?}", begun.elapsed());
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
