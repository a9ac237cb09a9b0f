//! Ring kernels: actors apart from their device, and handlers that take over.

use crate::actors::{SOON, active, even_halves, running_sum, runtimes, same};
use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure};
use kiln_lang::prelude::*;
use kiln_ring::{
    Address, AskError, Checkpoint, CheckpointError, Ending, Handler, Lifecycle, Payload, Reason, RingConfig,
    RingCtx, RingError, RingRuntime, State, ring_kernel,
};
use kiln_runtime::Device;
use std::time::Duration;

pub fn cases() -> Vec<Case> {
    cases!["checkpoints":
        actors_go_on_elsewhere;
        actors_are_captured_while_they_work;
        deadlines_go_along;
        failed_actors_are_captured;
        checkpoints_that_do_not_fit_are_refused;
        what_names_places_is_no_part_of_a_checkpoint;
        pipelines_go_on_elsewhere;
        handlers_take_over;
        handlers_take_over_while_messages_come;
    ]
}

/// The reply holds the message's id and the sum: `id << 32 | sum`.
#[ring_kernel(crate = kiln_ring)]
fn numbered_sum(ctx: &RingCtx, sum: &mut u64, x: u32) -> u64 {
    *sum += x.cast::<u64>();
    ctx.message_id() << 32u32 | *sum
}

#[ring_kernel(crate = kiln_ring)]
fn running_product(_ctx: &RingCtx, total: &mut u64, x: u32) -> u64 {
    *total *= x.cast::<u64>();
    *total
}

#[ring_kernel(crate = kiln_ring)]
fn wider(_ctx: &RingCtx, total: &mut u64, x: [u32; 2]) -> u64 {
    *total += x[0].cast::<u64>();
    *total
}

fn elsewhere(names: &[&str]) -> Result<Vec<RingRuntime>, Stop> {
    let open = |name: &&str| Ok(RingRuntime::new(&Device::open(name)?)?);
    names.iter().map(open).collect()
}

/// Through bytes, to this device and to others: the state, the messages in their order, and their
/// ids.
fn actors_go_on_elsewhere(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        // More than one lap of the ring, so that the messages lie across its end.
        let actor = active(&rt, numbered_sum, RingConfig::default().state(1 << 20).capacity(5))?;
        for x in 1..=6 {
            actor.ask(x)?;
        }
        actor.deactivate()?;
        for x in 10..15 {
            actor.send(x)?;
        }
        let bytes = actor.checkpoint()?.to_bytes();
        let checkpoint = Checkpoint::from_bytes(&bytes).map_err(RingError::from)?;
        same("messages", (checkpoint.position(), checkpoint.messages()), (6, 5))?;
        same("state", checkpoint.state::<u64>(), Some((1 << 20) + 21))?;
        let mut hosts = elsewhere(&["interp", "cpu"])?;
        hosts.push(rt.clone());
        for host in hosts {
            let again = host.restore(numbered_sum, RingConfig::default().capacity(7), &checkpoint)?;
            same("restored", again.lifecycle(), Lifecycle::Launched)?;
            again.activate()?;
            let mut sum = (1 << 20) + 21;
            for (id, x) in (6..).zip(10..15) {
                sum += x;
                same("reply", again.recv_timeout(SOON)?, id << 32 | sum)?;
            }
            same("a new message", again.ask(1)?, Some(11 << 32 | (sum + 1)))?;
            // The first state went along too.
            same("state", again.checkpoint()?.state::<u64>(), Some(sum + 1))?;
        }
        // The original does not know of it.
        actor.reactivate()?;
        same("the original", actor.recv_timeout(SOON)?, 6 << 32 | ((1 << 20) + 31))?;
    }
    Ok(())
}

/// While one thread sends, checkpoints hold what was handled and what was not, without a gap; and
/// nothing is lost or doubled for the live actor.
fn actors_are_captured_while_they_work(trial: &mut Trial<'_>) -> Verdict {
    let most: u32 = if trial.device.capabilities().is_interpreted() { 60 } else { 3000 };
    for rt in runtimes(trial)? {
        let actor = active(&rt, running_sum, RingConfig::default().state(0).capacity(64))?;
        let sum = |n: u64| n * (n + 1) / 2;
        let captured = std::thread::scope(|scope| {
            let sender = scope.spawn(|| (1..=most).try_for_each(|x| actor.send(x).map(|_| ())));
            let receiver = scope.spawn(|| {
                (1..=u64::from(most)).try_for_each(|n| same("sum", actor.recv_timeout(SOON)?, sum(n)))
            });
            let captured =
                (0..20).map(|_| actor.checkpoint().map_err(Stop::from)).collect::<Result<Vec<_>, _>>();
            let _ = sender.join();
            receiver.join().unwrap_or_else(|_| Err(Stop::wrong("the receiver panicked".to_owned())))?;
            captured
        })?;
        for checkpoint in captured {
            same("state", checkpoint.state::<u64>(), Some(sum(checkpoint.position())))?;
            let again = rt.restore(running_sum, RingConfig::default().capacity(64), &checkpoint)?;
            again.activate()?;
            for n in checkpoint.position() + 1..=checkpoint.position() + checkpoint.messages() as u64 {
                same("restored sum", again.recv_timeout(SOON)?, sum(n))?;
            }
        }
    }
    Ok(())
}

fn deadlines_go_along(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let clock = active(&rt, now, RingConfig::default())?;
        let actor = rt.launch(running_sum, RingConfig::default().state(0).deadlines(true))?;
        let Some(time) = clock.ask(0)? else { return Err(Stop::wrong("no time".to_owned())) };
        actor.channel().send_by(&1, time + 3_600_000_000_000)?;
        actor.channel().send_by(&2, time)?;
        actor.channel().send(&4)?;
        let checkpoint = actor.checkpoint()?;
        for host in [&rt, &elsewhere(&["interp"])?[0]] {
            let again = host.restore(running_sum, RingConfig::default(), &checkpoint)?;
            again.activate()?;
            same("in time", again.recv_timeout(SOON)?, 1)?;
            same("without a deadline", again.recv_timeout(SOON)?, 5)?;
            let letter = host.dead_letters().pop().map(|letter| (letter.reason, letter.decode::<u32>()));
            same("too late", letter, Some((Reason::Expired, Some(2))))?;
        }
    }
    Ok(())
}

#[ring_kernel(crate = kiln_ring)]
fn now(ctx: &RingCtx, _x: u32) -> u64 {
    ctx.now_ns()
}

fn failed_actors_are_captured(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = active(&rt, even_halves, RingConfig::default())?;
        ensure(matches!(actor.ask(13), Err(AskError::Unhandled { .. })), || "13 was handled".to_owned())?;
        actor.send(8)?;
        let checkpoint = actor.checkpoint()?;
        same("position and messages", (checkpoint.position(), checkpoint.messages()), (1, 1))?;
        same("lifecycle", actor.lifecycle(), Lifecycle::Failed)?;
        let again = rt.restore(even_halves, RingConfig::default(), &checkpoint)?;
        again.activate()?;
        same("restored", again.recv_timeout(SOON)?, 4)?;
        actor.restart()?;
        same("restarted", actor.recv_timeout(SOON)?, 4)?;
    }
    Ok(())
}

fn checkpoints_that_do_not_fit_are_refused(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = rt.launch(running_sum, RingConfig::default().state(5))?;
        for x in 0..4 {
            actor.send(x)?;
        }
        let checkpoint = actor.checkpoint()?;
        let part = |restored: Result<_, RingError>| match restored {
            Err(RingError::Checkpoint(CheckpointError::Foreign { of, part, .. })) if of == "running_sum" => {
                part
            }
            Err(_) => "another error",
            Ok(()) => "nothing",
        };
        let none = RingConfig::default;
        same("state", part(rt.restore(even_halves, none(), &checkpoint).map(drop)), "state")?;
        same("message", part(rt.restore(wider, none(), &checkpoint).map(drop)), "message")?;
        let small = rt.restore(running_sum, none().capacity(3), &checkpoint).map(drop);
        let large = matches!(
            small,
            Err(RingError::Checkpoint(CheckpointError::TooManyMessages { messages: 4, capacity: 3 }))
        );
        ensure(large, || format!("a small queue: {small:?}"))?;
        actor.terminate_with(Ending::Drain, SOON)?;
        let late = actor.checkpoint().map(drop);
        ensure(matches!(late, Err(RingError::Illegal { .. })), || format!("after its end: {late:?}"))?;
    }
    Ok(())
}

#[ring_kernel(crate = kiln_ring)]
fn first_of(ctx: &RingCtx, x: Payload<u32>) -> u32 {
    ctx.array(&x).get(0)
}

#[derive(State)]
#[kiln(crate = kiln_ring)]
struct Hop {
    to: Address<u32>,
    sent: u32,
}

#[ring_kernel(crate = kiln_ring)]
fn forward(ctx: &RingCtx, s: &mut Hop, x: u32) {
    s.sent += 1;
    ctx.send(&s.to, x);
}

fn what_names_places_is_no_part_of_a_checkpoint(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = active(&rt, first_of, RingConfig::default())?;
        let payload = rt.payload_of(&[7u32])?;
        same("reply", actor.ask(payload)?, Some(7))?;
        let refused = actor.checkpoint().map(drop);
        let by_name = matches!(
            refused,
            Err(RingError::Checkpoint(CheckpointError::NotPortable { handler: "first_of" }))
        );
        ensure(by_name, || format!("a checkpoint: {refused:?}"))?;
        same("afterwards", actor.ask(rt.payload_of(&[8u32])?)?, Some(8))?;
        // Nor are addresses, nor what waits in inbound links.
        let sum = active(&rt, running_sum, RingConfig::default().state(0))?;
        let sender =
            active(&rt, forward, RingConfig::default().state(Hop { to: sum.inbound_link(4)?, sent: 0 }))?;
        let refused = sender.checkpoint().err();
        let by_name = matches!(
            refused,
            Some(RingError::Checkpoint(CheckpointError::NotPortable { handler: "forward" }))
        );
        ensure(by_name, || format!("a checkpoint of a sender: {refused:?}"))?;
        let refused = sum.checkpoint().err();
        let by_name = matches!(refused, Some(RingError::Checkpoint(CheckpointError::InboundLinks { .. })));
        ensure(by_name, || format!("a checkpoint of a receiver: {refused:?}"))?;
    }
    Ok(())
}

fn handlers_take_over(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = active(&rt, running_sum, RingConfig::default().state(2))?;
        let other = active(&rt, running_sum, RingConfig::default().state(0))?;
        same("sum", actor.ask(3)?, Some(5))?;
        actor.deactivate()?;
        actor.send(4)?;
        actor.replace(running_product)?;
        actor.reactivate()?;
        same("a message that was held", actor.recv_timeout(SOON)?, 20)?;
        same("product", actor.ask(2)?, Some(40))?;
        same("the other", other.ask(9)?, Some(9))?;
        same("name", actor.checkpoint()?.handler() == Handler::name(&running_product), true)?;
        actor.replace(running_sum)?;
        same("back again", actor.ask(2)?, Some(42))?;
    }
    Ok(())
}

#[ring_kernel(crate = kiln_ring)]
fn old(_ctx: &RingCtx, count: &mut u32, x: u32) -> [u32; 3] {
    *count += 1;
    [x, *count, val(1)]
}

#[ring_kernel(crate = kiln_ring)]
fn new(_ctx: &RingCtx, count: &mut u32, x: u32) -> [u32; 3] {
    *count += 1;
    [x, *count, val(2)]
}

/// Every message is handled once and in order, by the old handler up to some message and by the new
/// one from there.
fn handlers_take_over_while_messages_come(trial: &mut Trial<'_>) -> Verdict {
    let most: u32 = if trial.device.capabilities().is_interpreted() { 100 } else { 20_000 };
    for rt in runtimes(trial)? {
        let actor = active(&rt, old, RingConfig::default().state(0).capacity(50))?;
        std::thread::scope(|scope| {
            scope.spawn(|| (0..most).try_for_each(|x| actor.send(x).map(|_| ())));
            let receiver = scope.spawn(|| {
                let mut generation = 1;
                for x in 0..most {
                    let [message, count, by] = actor.recv_timeout(SOON)?;
                    same("message and count", (message, count), (x, x + 1))?;
                    ensure(by >= generation, || format!("message {x} went to the old handler"))?;
                    generation = by;
                }
                Ok::<_, Stop>(())
            });
            std::thread::sleep(Duration::from_millis(1));
            let replaced = actor.replace(new);
            receiver.join().unwrap_or_else(|_| Err(Stop::wrong("the receiver panicked".to_owned())))?;
            replaced.map_err(Stop::from)
        })?;
        same("afterwards", actor.ask(0)?, Some([0, most + 1, 2]))?;
    }
    Ok(())
}

#[derive(State, Clone, Copy)]
#[kiln(crate = kiln_ring)]
struct Numbering {
    count: u32,
    next: Address<[u32; 2]>,
}

#[ring_kernel(crate = kiln_ring)]
fn number(ctx: &RingCtx, s: &mut Numbering, x: u32) {
    ctx.send(&s.next, [s.count, x]);
    s.count += 1;
}

#[ring_kernel(crate = kiln_ring)]
fn pass(ctx: &RingCtx, s: &mut Numbering, m: [u32; 2]) {
    s.count += 1;
    ctx.send(&s.next, m);
}

#[ring_kernel(crate = kiln_ring)]
fn collect(_ctx: &RingCtx, count: &mut u32, m: [u32; 2]) -> [u32; 3] {
    *count += 1;
    [m[0], m[1], *count]
}

/// Three actors at work, taken apart at one moment: to this device and to others, each message
/// once.
fn pipelines_go_on_elsewhere(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let mut hosts = elsewhere(&["interp", "cpu"])?;
        hosts.push(rt.clone());
        for host in hosts {
            let sink = active(&rt, collect, RingConfig::default().state(0).capacity(64))?;
            let stage = |next| RingConfig::default().state(Numbering { count: 0, next }).capacity(256);
            let middle = active(&rt, pass, stage(sink.inbound_link(4)?))?;
            let source = active(&rt, number, stage(middle.inbound_link(2)?))?;
            let check = |output, n: u32| same("output", output, [n, n * 7, n + 1]);
            for x in 0..200 {
                source.send(x * 7)?;
            }
            for n in 0..20 {
                check(sink.outputs().recv_timeout(SOON)?, n)?;
            }
            let snapshot = rt.snapshot(&[&source, &middle, &sink])?;
            let cut = snapshot.actors()[2].state::<u32>().unwrap_or_default();
            let waiting: usize = snapshot.actors().iter().map(Checkpoint::messages).sum();
            same("messages in all", waiting as u32 + cut, 200)?;
            let config = RingConfig::default().capacity(256);
            let stages = ((number, config), (pass, config), (collect, config));
            let (new_source, new_middle, new_sink) = host.restore_all(&snapshot, stages)?;
            new_sink.activate()?;
            new_middle.activate()?;
            new_source.activate()?;
            for n in cut..200 {
                check(new_sink.outputs().recv_timeout(SOON)?, n)?;
            }
            // Those from which it was taken go on, too.
            for n in 20..200 {
                check(sink.outputs().recv_timeout(SOON)?, n)?;
            }
            same("the middle", new_middle.state()?.count, 200)?;
        }
    }
    Ok(())
}
