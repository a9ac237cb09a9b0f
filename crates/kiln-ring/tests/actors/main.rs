//! Actors on the devices that are everywhere: the interpreter and the CPU.

use kiln_lang::prelude::*;
use kiln_ring::*;
use kiln_runtime::Device;
use std::time::Duration;

#[derive(Message, Debug, Clone, Copy, PartialEq)]
#[kiln(crate = kiln_ring)]
struct Ping {
    words: [u32; 12],
}

#[ring_kernel(crate = kiln_ring)]
fn echo(ctx: &RingCtx, m: Ping) -> Ping {
    let mut words = m.words;
    for i in 0..12 {
        words[i] = words[i] + 1;
    }
    Ping { words }
}

#[ring_kernel(crate = kiln_ring)]
fn running_sum(ctx: &RingCtx, total: &mut u64, x: u32) -> u64 {
    *total += x.cast::<u64>();
    *total
}

#[ring_kernel(crate = kiln_ring)]
fn even_halves(ctx: &RingCtx, x: u32) -> Result<Option<u32>, u32> {
    if x == 13 {
        return Err(77);
    }
    if x % 2 == 0 { Ok(Some(x / 2)) } else { Ok(None) }
}

/// Both devices, with workers of one thread and of a warp.
fn runtimes() -> Vec<RingRuntime> {
    let devices = ["interp", "cpu"].map(|name| Device::open(name).unwrap());
    let config = |warps| {
        RuntimeConfig { step_budget: 500, ..RuntimeConfig::default() }
            .workers(2)
            .ports_per_worker(8)
            .warps(warps)
    };
    let runtime = |device: &Device, warps| RingRuntime::with(device, config(warps)).unwrap();
    devices.iter().flat_map(|device| [false, true].map(|warps| runtime(device, warps))).collect()
}

const SOON: Duration = Duration::from_secs(20);

#[test]
fn messages_are_answered_in_order() {
    for rt in runtimes() {
        let actor = rt.launch(echo, RingConfig::default().capacity(8)).unwrap();
        actor.activate().unwrap();
        let mut received = 0u32;
        for i in 0..50u32 {
            actor.send(Ping { words: std::array::from_fn(|k| i * 100 + k as u32) }).unwrap();
            if i % 5 == 4 {
                for _ in 0..5 {
                    let reply = actor.recv_timeout(SOON).unwrap();
                    assert_eq!(reply.words, std::array::from_fn(|k| received * 100 + k as u32 + 1));
                    received += 1;
                }
            }
        }
        assert_eq!(received, 50);
        actor.terminate().unwrap();
        assert_eq!(actor.lifecycle(), Lifecycle::Terminated);
    }
}

#[test]
fn state_stays_and_actors_of_several_kinds_live_in_one_grid() {
    for rt in runtimes() {
        let sums: Vec<_> = (0..5)
            .map(|k| rt.launch(running_sum, RingConfig::default().state(k * 1000u64 + (1 << 40))).unwrap())
            .collect();
        let echoing = rt.launch(echo, RingConfig::default()).unwrap();
        sums.iter().for_each(|sum| sum.activate().unwrap());
        echoing.activate().unwrap();
        for x in 1..=20u32 {
            for (k, sum) in sums.iter().enumerate() {
                assert_eq!(
                    sum.ask(x).unwrap(),
                    Some(k as u64 * 1000 + (1 << 40) + u64::from(x * (x + 1) / 2))
                );
            }
        }
        assert_eq!(echoing.ask(Ping { words: [5; 12] }).unwrap(), Some(Ping { words: [6; 12] }));
        assert_eq!(sums[2].state().unwrap(), 2210 + (1 << 40));
    }
}

#[test]
fn a_deactivated_actor_holds_its_messages() {
    for rt in runtimes() {
        let actor = rt.launch(running_sum, RingConfig::default().state(0)).unwrap();
        actor.send(1).unwrap();
        assert!(matches!(actor.recv_timeout(Duration::from_millis(30)), Err(RecvError::TimedOut { .. })));
        actor.activate().unwrap();
        assert_eq!(actor.recv_timeout(SOON).unwrap(), 1);
        actor.deactivate().unwrap();
        actor.send(2).unwrap();
        actor.send(3).unwrap();
        assert!(matches!(actor.recv_timeout(Duration::from_millis(30)), Err(RecvError::TimedOut { .. })));
        assert!(matches!(actor.activate(), Err(RingError::Illegal { is: Lifecycle::Deactivated, .. })));
        actor.reactivate().unwrap();
        assert_eq!(actor.recv_timeout(SOON).unwrap(), 3);
        assert_eq!(actor.recv_timeout(SOON).unwrap(), 6);
    }
}

#[test]
fn a_failed_actor_holds_its_messages_until_it_is_restarted() {
    for rt in runtimes() {
        let actor = rt.launch(even_halves, RingConfig::default()).unwrap();
        actor.activate().unwrap();
        for x in [4, 5, 13, 8] {
            actor.send(x).unwrap();
        }
        assert_eq!(actor.recv_timeout(SOON).unwrap(), 2);
        assert!(matches!(actor.recv_timeout(Duration::from_millis(50)), Err(RecvError::TimedOut { .. })));
        assert_eq!(actor.lifecycle(), Lifecycle::Failed);
        let letter = rt.dead_letters().pop().unwrap();
        assert_eq!((letter.reason, letter.position), (Reason::Failed { cause: 1, number: 77 }, 2));
        actor.restart().unwrap();
        assert_eq!(actor.recv_timeout(SOON).unwrap(), 4);
    }
}

#[ring_kernel(crate = kiln_ring)]
fn faulty(ctx: &RingCtx, last: &mut u32, x: u32) -> u32 {
    *last = x;
    if x == 1 {
        device_assert!(x > 1, "one is refused: {}", x);
    }
    let ten = 10 / (x - 2);
    let mut n: Val<u32> = 0;
    while x == 3 {
        n += 1;
    }
    ten + n
}

/// Each kind of fault fails the actor that had it, says where, rolls the state back, and leaves the others alone.
#[test]
fn faults_are_contained() {
    for rt in runtimes() {
        let steady = rt.launch(running_sum, RingConfig::default().state(0)).unwrap();
        steady.activate().unwrap();
        let cases = [(1, "one is refused"), (2, "division by zero"), (3, "more steps than its budget")];
        for (x, why) in cases {
            let actor = rt.launch(faulty, RingConfig::default().state(9)).unwrap();
            actor.activate().unwrap();
            assert_eq!(actor.ask(12).unwrap(), Some(1));
            let Err(AskError::Unhandled { reason, .. }) = actor.ask(x) else { panic!("{x} was handled") };
            let text = rt.explain(reason);
            assert!(text.contains(why), "{text}");
            assert_eq!(actor.state().unwrap(), 12);
            assert!(steady.ask(1).unwrap().is_some());
        }
    }
}
