//! A handler runs once for a message, however long the message waits for room: what it does besides
//! sending (arrays changed in place, prints) happens once too.

use kiln_lang::prelude::*;
use kiln_ring::{
    Actor, Address, Ending, Inline, Message, Payload, RingConfig, RingCtx, RingRuntime, RuntimeConfig, State,
    ring_kernel,
};
use kiln_runtime::Device;
use std::time::{Duration, Instant};

/// What has not come by then never comes, however busy the machine is.
const NEVER: Duration = Duration::from_secs(20 * 60);

/// Runtimes of threads and of warps: with one worker for all actors, and with several.
fn runtimes() -> Vec<RingRuntime> {
    let of = |device: &str, workers: usize, warps: bool| {
        // The interpreter writes all memory beforehand: no more than is used.
        let bytes = 1 << 20;
        let config = RuntimeConfig { spins: 64, acknowledge_within: NEVER, ..RuntimeConfig::default() };
        let config = RuntimeConfig { inbox_bytes: bytes, outbox_bytes: bytes, arena_bytes: bytes, ..config };
        let config = config.workers(workers).warps(warps).endpoints_per_worker(8);
        RingRuntime::with(&Device::open(device).unwrap(), config).unwrap()
    };
    vec![of("cpu", 1, false), of("cpu", 2, false), of("interp", 2, false), of("interp:3", 2, true)]
}

#[derive(State)]
#[kiln(crate = kiln_ring)]
struct Counting {
    next: Address<u32>,
    seen: Inline<u32, 4>,
}

/// Counts in place, in an array of its state, and sends on.
#[ring_kernel(crate = kiln_ring)]
fn count_and_pass(ctx: &RingCtx, s: &mut Counting, x: u32) {
    let seen = ctx.array(&s.seen);
    seen.set(0, seen.get(0) + 1);
    seen.set(1, seen.get(1) + x);
    ctx.send(&s.next, x);
}

#[ring_kernel(crate = kiln_ring)]
fn total(_ctx: &RingCtx, sum: &mut u32, x: u32) -> u32 {
    *sum += x;
    *sum
}

/// Does what lets a device go on that runs only while the host waits for it.
fn turns<H: kiln_ring::Handler>(actor: &Actor<H>, times: usize) {
    for _ in 0..times {
        actor.channel().tidy();
        std::thread::yield_now();
    }
}

fn counting(rt: &RingRuntime, sink: &Actor<total>, capacity: usize) -> Actor<count_and_pass> {
    let state = Counting { next: sink.inbound_link(capacity).unwrap(), seen: Inline::default() };
    let actor = rt.launch(count_and_pass, RingConfig::default().state(state).capacity(1024)).unwrap();
    actor.activate().unwrap();
    actor
}

#[test]
fn arrays_of_the_state_change_once_under_back_pressure() {
    for rt in runtimes() {
        let sink = rt.launch(total, RingConfig::default().state(0).capacity(1024)).unwrap();
        let source = counting(&rt, &sink, 4);
        let n = 80;
        for x in 0..n {
            source.send(x).unwrap();
        }
        // The queue is full, and the fifth message waits: it has not begun.
        let begun = Instant::now();
        while source.channel().unanswered() != u64::from(n) - 4 && begun.elapsed() < NEVER {
            turns(&source, 1);
        }
        turns(&source, 50);
        assert_eq!(source.state().unwrap().seen[..2], [4, 1 + 2 + 3]);
        sink.activate().unwrap();
        let mut sum = 0;
        for x in 0..n {
            sum += x;
            assert_eq!(sink.outputs().recv_timeout(NEVER).unwrap(), sum);
        }
        assert_eq!(source.state().unwrap().seen[..2], [n, sum]);
    }
}

#[derive(Message, Clone)]
#[kiln(crate = kiln_ring)]
struct Block {
    values: Payload<u32>,
}

/// Changes a message's array in place, and hands it on.
#[ring_kernel(crate = kiln_ring)]
fn add_one(ctx: &RingCtx, next: &mut Address<Block>, m: Block) {
    let values = ctx.array(&m.values);
    for i in ctx.share(values.len()) {
        values.set(i, values.get(i) + 1);
    }
    ctx.send(next, m);
}

#[ring_kernel(crate = kiln_ring)]
fn look(ctx: &RingCtx, m: Block) -> [u32; 2] {
    let values = ctx.array(&m.values);
    let (mut least, mut most): (Val<u32>, Val<u32>) = (val(u32::MAX), val(0));
    for i in ctx.share(values.len()) {
        least = least.minimum(values.get(i));
        most = most.maximum(values.get(i));
    }
    [ctx.min(least), ctx.max(most)]
}

/// Three stages that work in place, with queues of one place, so that each waits for the next.
#[test]
fn arrays_of_messages_change_once_in_each_stage() {
    for rt in runtimes() {
        let sink = rt.launch(look, RingConfig::default().capacity(64)).unwrap();
        let stage = |next| {
            let actor = rt.launch(add_one, RingConfig::default().state(next).capacity(64)).unwrap();
            actor.activate().unwrap();
            actor
        };
        let third = stage(sink.inbound_link(1).unwrap());
        let second = stage(third.inbound_link(1).unwrap());
        let first = stage(second.inbound_link(1).unwrap());
        let blocks: Vec<Payload<u32>> = (0..12).map(|i| rt.payload_of(&[i * 10; 40]).unwrap()).collect();
        for values in blocks.iter().cloned() {
            first.send(Block { values }).unwrap();
        }
        turns(&first, 50);
        sink.activate().unwrap();
        for i in 0..12 {
            assert_eq!(sink.outputs().recv_timeout(NEVER).unwrap(), [i * 10 + 3; 2], "block {i}");
        }
    }
}

/// An actor whose outputs are not taken waits before it changes anything.
#[ring_kernel(crate = kiln_ring)]
fn count_and_answer(ctx: &RingCtx, seen: &mut Inline<u32, 2>, x: u32) -> u32 {
    let seen = ctx.array(seen);
    seen.set(0, seen.get(0) + 1);
    x
}

#[ring_kernel(crate = kiln_ring)]
fn forward(ctx: &RingCtx, next: &mut Address<u32>, x: u32) {
    ctx.send(next, x);
}

#[test]
fn outputs_that_nobody_takes_are_waited_for_before_the_handler_runs() {
    for rt in runtimes() {
        let config = RingConfig::default().state(Inline::default()).capacity(4);
        let sink = rt.launch(count_and_answer, config).unwrap();
        let next = sink.inbound_link(8).unwrap();
        let source = rt.launch(forward, RingConfig::default().state(next).capacity(64)).unwrap();
        source.activate().unwrap();
        sink.activate().unwrap();
        for x in 0..30 {
            source.send(x).unwrap();
        }
        let begun = Instant::now();
        while source.channel().unanswered() != 30 - 4 - 8 && begun.elapsed() < NEVER {
            turns(&source, 1);
        }
        turns(&source, 50);
        assert_eq!(sink.state().unwrap()[0], 4);
        for x in 0..30 {
            assert_eq!(sink.outputs().recv_timeout(NEVER).unwrap(), x);
        }
        assert_eq!(sink.state().unwrap()[0], 30);
    }
}

#[derive(State, Clone, Copy)]
#[kiln(crate = kiln_ring)]
struct Both {
    a: Address<u32>,
    b: Address<u32>,
    seen: u32,
}

/// Sends up to two messages to each of two actors: more than a queue of one place ever holds.
#[ring_kernel(crate = kiln_ring)]
fn spread(ctx: &RingCtx, s: &mut Both, x: u32) {
    s.seen += 1;
    ctx.send(&s.a, x);
    if x % 2 == 0 {
        ctx.send(&s.b, x);
    }
}

/// Two places send, and the queues have one: each message begins when both are empty, and all
/// arrive.
#[test]
fn queues_with_fewer_places_than_a_handler_may_send_are_no_obstacle() {
    for rt in runtimes() {
        let sinks = [(); 2].map(|()| rt.launch(total, RingConfig::default().state(0)).unwrap());
        let [a, b] = sinks.each_ref().map(|sink| sink.inbound_link(1).unwrap());
        let state = Both { a, b, seen: 0 };
        let source = rt.launch(spread, RingConfig::default().state(state).capacity(64)).unwrap();
        source.activate().unwrap();
        sinks.iter().for_each(|sink| sink.activate().unwrap());
        for x in 1..=20 {
            source.send(x).unwrap();
        }
        let last = |sink: &Actor<total>, n: usize| {
            (0..n).map(|_| sink.outputs().recv_timeout(NEVER).unwrap()).fold(None, |_, sum| Some(sum))
        };
        assert_eq!(last(&sinks[0], 20), Some((1..=20).sum()));
        assert_eq!(last(&sinks[1], 10), Some((1..=20).filter(|x| x % 2 == 0).sum()));
        assert_eq!(source.state().unwrap().seen, 20);
    }
}

/// An address that an actor only hands on remains free for the one that sends to it.
#[ring_kernel(crate = kiln_ring)]
fn hand_over(ctx: &RingCtx, s: &mut HandOver, x: u32) {
    if x == 0 {
        ctx.send(&s.to, s.gift);
    } else {
        ctx.send(&s.sums, x);
    }
}

#[derive(State, Clone, Copy)]
#[kiln(crate = kiln_ring)]
struct HandOver {
    to: Address<Address<u32>>,
    gift: Address<u32>,
    sums: Address<u32>,
}

#[ring_kernel(crate = kiln_ring)]
fn use_gift(ctx: &RingCtx, m: Address<u32>) {
    ctx.send(&m, 7);
}

#[test]
fn an_address_that_is_handed_on_stays_free() {
    for rt in runtimes() {
        let sink = rt.launch(total, RingConfig::default().state(0)).unwrap();
        let user = rt.launch(use_gift, RingConfig::default()).unwrap();
        let state = HandOver {
            to: user.inbound_link(4).unwrap(),
            gift: sink.inbound_link(4).unwrap(),
            sums: sink.inbound_link(4).unwrap(),
        };
        let giver = rt.launch(hand_over, RingConfig::default().state(state)).unwrap();
        sink.activate().unwrap();
        user.activate().unwrap();
        giver.activate().unwrap();
        giver.send(5).unwrap();
        assert_eq!(sink.outputs().recv_timeout(NEVER), Ok(5));
        giver.send(0).unwrap();
        assert_eq!(sink.outputs().recv_timeout(NEVER), Ok(12));
    }
}

#[ring_kernel(crate = kiln_ring)]
fn echo(_ctx: &RingCtx, x: u32) -> u32 {
    x + 1
}

/// Actors that have ended leave endpoints without an actor, behind which the others are polled too.
#[test]
fn actors_behind_ended_ones_are_served() {
    for device in ["interp", "interp:5", "cpu"] {
        let rt = RingRuntime::new(&Device::open(device).unwrap()).unwrap();
        let mut actors: Vec<Actor<echo>> = (0..5)
            .map(|_| {
                let actor = rt.launch(echo, RingConfig::default()).unwrap();
                actor.activate().unwrap();
                actor
            })
            .collect();
        let fifth = actors.pop().unwrap();
        actors.iter().for_each(|actor| actor.terminate_with(Ending::Drain, NEVER).unwrap());
        fifth.send(41).unwrap();
        assert_eq!(fifth.recv_timeout(NEVER), Ok(42), "{device}");
    }
}

#[ring_kernel(crate = kiln_ring)]
fn quotients(_ctx: &RingCtx, sum: &mut u32, x: u32) -> u32 {
    *sum += 100 / x;
    *sum
}

/// By hand: `restart` begins anew, `resume` goes on with what was before the message that failed.
#[test]
fn a_resumed_actor_keeps_its_state() {
    for rt in runtimes() {
        let actor = rt.launch(quotients, RingConfig::default().state(1000)).unwrap();
        actor.activate().unwrap();
        assert_eq!(actor.ask(10).unwrap(), Some(1010));
        assert!(actor.resume().is_err(), "it has not failed");
        assert!(actor.ask(0).is_err());
        actor.resume().unwrap();
        assert_eq!(actor.ask(20).unwrap(), Some(1015));
        assert!(actor.ask(0).is_err());
        actor.restart().unwrap();
        assert_eq!(actor.ask(20).unwrap(), Some(1005));
    }
}
