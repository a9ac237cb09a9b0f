//! Ring kernels: actors that send to each other.

use crate::actors::{SOON, active, defaults, pause, runtimes, same};
use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure, list};
use kiln_backend::Residency;
use kiln_ring::{
    Actor, Address, AskError, Ending, Handler, Lifecycle, Message, Reason, RecvError, RingConfig, RingCtx,
    RingError, RingRuntime, Routing, RuntimeConfig, State, ring_kernel,
};
use std::time::Instant;

pub fn cases() -> Vec<Case> {
    cases!["links":
        pipelines_keep_order;
        each_senders_messages_keep_order;
        messages_of_every_length;
        full_queues_hold_up_senders;
        outputs_nobody_takes_hold_up_the_actor;
        failures_stay_where_they_are;
        what_may_not_be_sent;
        circles;
        runtimes_send_to_each_other;
        ended_actors_are_sent_nothing;
        senders_forget_where_they_sent;
        addresses_of_other_runtimes;
        topics_reach_all_subscribers;
        pools_divide_messages;
    ]
}

#[derive(Message, Debug, Clone, Copy, PartialEq)]
#[kiln(crate = kiln_ring)]
struct Step {
    from: u32,
    value: u64,
}

#[derive(State, Clone, Copy)]
#[kiln(crate = kiln_ring)]
struct Stage {
    number: u32,
    next: Address<Step>,
}

/// Sends each number on as it is.
#[ring_kernel(crate = kiln_ring)]
fn emit(ctx: &RingCtx, s: &mut Stage, x: u32) {
    ctx.send(&s.next, StepVal { from: s.number, value: x.cast::<u64>() });
}

/// Sends on one more than twice what it gets, but for multiples of 5; fails on 13.
#[ring_kernel(crate = kiln_ring)]
fn transform(ctx: &RingCtx, s: &mut Stage, m: Step) -> Result<(), u32> {
    if m.value == 13u64 {
        return Err(4);
    }
    if m.value % 5u64 != 0u64 {
        ctx.send(&s.next, StepVal { from: m.from, value: m.value * 2u64 + 1u64 });
    }
    Ok(())
}

/// Answers everything, with the number of messages so far.
#[ring_kernel(crate = kiln_ring)]
fn tally(_ctx: &RingCtx, seen: &mut u32, m: Step) -> [u64; 3] {
    *seen += 1;
    [m.from.cast::<u64>(), m.value, seen.cast::<u64>()]
}

/// Sends to two at once, the second under a condition.
#[ring_kernel(crate = kiln_ring)]
fn twice(ctx: &RingCtx, to: &mut [Address<u32>; 2], x: u32) {
    ctx.send(&to[0], x);
    if x % 2 == 0 {
        ctx.send(&to[1], x + 100);
    }
}

#[ring_kernel(crate = kiln_ring)]
fn total(_ctx: &RingCtx, sum: &mut u32, x: u32) -> u32 {
    *sum += x;
    *sum
}

/// A loop on the device that comes past its `send` as often as its message says.
#[ring_kernel(crate = kiln_ring)]
fn burst(ctx: &RingCtx, to: &mut Address<u32>, x: u32) {
    for i in 0..x {
        ctx.send(to, i);
    }
}

/// Passes a number on, less one, until it is 0.
#[ring_kernel(crate = kiln_ring)]
fn countdown(ctx: &RingCtx, other: &mut Address<u32>, x: u32) -> Option<u32> {
    if x > 0 {
        ctx.send(other, x - 1);
        return None;
    }
    Some(7)
}

fn launched<H: Handler>(rt: &RingRuntime, handler: H, state: H::State) -> Result<Actor<H>, Stop> {
    Ok(rt.launch(handler, RingConfig::default().state(state).capacity(64))?)
}

fn becomes<H: Handler>(actor: &Actor<H>, stage: Lifecycle) -> Verdict {
    let begun = Instant::now();
    while actor.lifecycle() != stage {
        ensure(begun.elapsed() < SOON, || format!("the actor is {}, not {stage}", actor.lifecycle()))?;
        // Lets a device go on that does not run by itself.
        actor.channel().tidy();
    }
    Ok(())
}

/// Waits until an actor has so many messages left, and checks that this does not change.
fn settles<H: Handler>(actor: &Actor<H>, left: u64) -> Verdict {
    let begun = Instant::now();
    while actor.channel().unanswered() != left && begun.elapsed() < SOON {
        actor.channel().tidy();
    }
    pause(actor);
    same("left", actor.channel().unanswered(), left)
}

/// Sends messages as a host that takes nothing back.
fn feed<H: Handler<Message = u32>>(actor: &Actor<H>, messages: impl IntoIterator<Item = u32>) -> Verdict {
    messages.into_iter().try_for_each(|x| actor.send(x).map(drop)).map_err(Stop::from)
}

fn pipelines_keep_order(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let sink = active(&rt, tally, RingConfig::default().state(0).capacity(8))?;
        let stage = |number, next| RingConfig::default().state(Stage { number, next }).capacity(16);
        let middle = active(&rt, transform, stage(0, sink.inbound_link(4)?))?;
        let source = active(&rt, emit, stage(3, middle.inbound_link(2)?))?;
        let numbers = || (0..60).filter(|x| *x != 13);
        let (mut sent, mut seen) = (numbers(), 0);
        for value in numbers().filter(|x| x % 5 != 0) {
            sent.by_ref().take(2).try_for_each(|x| source.send(x).map(drop))?;
            seen += 1;
            let want = [3, u64::from(value) * 2 + 1, seen];
            same("output", sink.outputs().recv_timeout(SOON)?, want)?;
        }
        feed(&source, sent)?;
        ensure(sink.outputs().try_recv().is_err(), || "there was one output too many".into())?;
        source.terminate_with(Ending::Drain, SOON)?;
        middle.terminate_with(Ending::Drain, SOON)?;
        sink.terminate_with(Ending::Drain, SOON)?;
        same(
            "after the end",
            sink.outputs().recv().err().map(|e| matches!(e, RecvError::Closed { .. })),
            Some(true),
        )?;
    }
    Ok(())
}

fn each_senders_messages_keep_order(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let sink = active(&rt, tally, RingConfig::default().state(0).capacity(64))?;
        let sources = (0..3)
            .map(|number| {
                let next = sink.inbound_link(1 << number)?;
                active(&rt, emit, RingConfig::default().state(Stage { number, next }).capacity(32))
            })
            .collect::<Result<Vec<_>, _>>()?;
        // The host is a fourth sender, with answers of its own.
        for x in 0..30 {
            for source in &sources {
                source.send(x)?;
            }
            sink.send(Step { from: 9, value: u64::from(x) })?;
            same("answer to the host", sink.recv_timeout(SOON)?[..2].to_vec(), vec![9, u64::from(x)])?;
        }
        let mut next = [0; 3];
        for _ in 0..90 {
            let [from, value, _] = sink.outputs().recv_timeout(SOON)?;
            same("message", value, next[from as usize])?;
            next[from as usize] += 1;
        }
        same("state", sink.state()?, 120)?;
    }
    Ok(())
}

macro_rules! lengths {
    ($trial:ident, $rt:ident: $($name:ident $words:literal)*) => {$({
        #[ring_kernel(crate = kiln_ring)]
        fn $name(_ctx: &RingCtx, m: [u32; $words]) -> [u32; $words] {
            m.map(|word| word + 1)
        }

        #[ring_kernel(crate = kiln_ring)]
        fn pass(ctx: &RingCtx, to: &mut Address<[u32; $words]>, m: [u32; $words]) {
            ctx.send(to, m.map(|word| word * 3));
        }

        // With a place for deadlines, and without one.
        for deadlines in [false, true] {
            let config = RingConfig::default().capacity(3).deadlines(deadlines);
            let end = active(&$rt, $name, config)?;
            let first = active(&$rt, pass, RingConfig::default().state(end.inbound_link(2)?))?;
            for _ in 0..5 {
                let message: [u32; $words] = std::array::from_fn(|_| $trial.rng.bits() as u32);
                first.send(message)?;
                let want = message.map(|word| word.wrapping_mul(3).wrapping_add(1));
                same("words", end.outputs().recv_timeout(SOON)?, want)?;
            }
        }
    })*};
}

/// Slots of one quad, and of more than a line.
fn messages_of_every_length(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        lengths!(trial, rt: three 3 fourteen 14);
    }
    Ok(())
}

fn full_queues_hold_up_senders(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let slow = launched(&rt, total, 0)?;
        let other = active(&rt, total, RingConfig::default().state(0).capacity(64))?;
        let addresses = [slow.inbound_link(2)?, other.inbound_link(64)?];
        let sender = active(&rt, twice, RingConfig::default().state(addresses).capacity(64))?;
        feed(&sender, 0..20)?;
        // The handler may send two messages, for which the queue has no room after 0: 1 waits, and
        // so does all behind it.
        same("before", other.outputs().recv_timeout(SOON)?, 100)?;
        settles(&sender, 19)?;
        ensure(other.outputs().try_recv().is_err(), || "half of a message's effects were seen".into())?;
        slow.activate()?;
        let sums: Vec<u32> = (0..20).map(|_| slow.outputs().recv_timeout(SOON)).collect::<Result<_, _>>()?;
        same("sums", sums, list(0..20, |x| x * (x + 1) / 2))?;
        let last = (0..9).map(|_| other.outputs().recv_timeout(SOON)).collect::<Result<Vec<_>, _>>()?;
        same("the other's last sum", last.last().copied(), Some(1000 + (0..20).step_by(2).sum::<u32>()))?;
    }
    Ok(())
}

fn outputs_nobody_takes_hold_up_the_actor(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let end = active(&rt, total, RingConfig::default().state(0).capacity(4))?;
        let addresses = [end.inbound_link(2)?, Address::none()];
        let sender = active(&rt, twice, RingConfig::default().state(addresses).capacity(64))?;
        feed(&sender, 1..=20)?;
        // Four outputs, one in the queue, where the sender needs room for two, and the rest with
        // it.
        settles(&sender, 15)?;
        same("state", end.state()?, 10)?;
        for x in 1..=20 {
            same("sum", end.outputs().recv_timeout(SOON)?, x * (x + 1) / 2)?;
        }
    }
    Ok(())
}

fn failures_stay_where_they_are(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let sink = active(&rt, tally, RingConfig::default().state(0))?;
        let middle = active(
            &rt,
            transform,
            RingConfig::default().state(Stage { number: 0, next: sink.inbound_link(16)? }),
        )?;
        let source = active(
            &rt,
            emit,
            RingConfig::default().state(Stage { number: 1, next: middle.inbound_link(16)? }),
        )?;
        feed(&source, [1, 2, 13, 3])?;
        same("before", sink.outputs().recv_timeout(SOON)?[1], 3)?;
        same("before", sink.outputs().recv_timeout(SOON)?[1], 5)?;
        becomes(&middle, Lifecycle::Failed)?;
        let letter = rt.dead_letters().pop().map(|l| (l.reason, l.actor, l.position));
        let want = (Reason::Failed { cause: 1, number: 4 }, middle.number(), 2);
        same("letter", letter, Some(want))?;
        same("source", source.lifecycle(), Lifecycle::Active)?;
        same("sink", sink.lifecycle(), Lifecycle::Active)?;
        feed(&source, [4])?;
        ensure(sink.outputs().recv_timeout(std::time::Duration::from_millis(20)).is_err(), || {
            "a failed actor sent something".into()
        })?;
        middle.restart()?;
        same("after the restart", sink.outputs().recv_timeout(SOON)?[1], 7)?;
        same("after the restart", sink.outputs().recv_timeout(SOON)?[1], 9)?;
    }
    Ok(())
}

/// A second sender, more messages than a queue has places, and a place that sends twice: each fails
/// the actor that did it, by name.
fn what_may_not_be_sent(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let end = active(&rt, total, RingConfig::default().state(0))?;
        let address = end.inbound_link(8)?;
        let first = active(&rt, burst, RingConfig::default().state(address))?;
        let second = active(&rt, burst, RingConfig::default().state(address))?;
        let one_place = end.inbound_link(1)?;
        let both = active(&rt, twice, RingConfig::default().state([one_place; 2]))?;
        let fails = |asked: Result<Option<()>, AskError>, why: &str| -> Verdict {
            let Err(AskError::Unhandled { reason, .. }) = asked else {
                return Err(Stop::wrong(format!("{asked:?} instead of a failure: {why}")));
            };
            let text = rt.explain(reason);
            ensure(text.contains(why), || format!("`{text}` does not say `{why}`"))
        };
        same("the first sender", first.ask(1)?, None)?;
        // Before anything comes by the other inbound link: there is no order between two of them.
        same("what came", end.outputs().recv_timeout(SOON)?, 0)?;
        fails(second.ask(1), "another actor sends to")?;
        same("one of one", both.ask(3)?, None)?;
        fails(both.ask(4), "more messages at once")?;
        fails(first.ask(2), "a second time")?;
        same("what came", end.outputs().recv_timeout(SOON)?, 3)?;
        ensure(end.outputs().try_recv().is_err(), || "a failed handler sent something".into())?;
        same(
            "nobody's address",
            active(&rt, burst, RingConfig::default().state(Address::none()))?.ask(1)?,
            None,
        )?;
        ensure(matches!(end.inbound_link(0), Err(RingError::Config(_))), || {
            "an inbound link of no messages".into()
        })?;
    }
    Ok(())
}

fn circles(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let a = launched(&rt, countdown, Address::none())?;
        let b = launched(&rt, countdown, a.inbound_link(2)?)?;
        a.set_state(b.inbound_link(2)?)?;
        a.activate()?;
        b.activate()?;
        ensure(matches!(a.set_state(Address::none()), Err(RingError::Illegal { .. })), || {
            "an active actor's state was replaced".into()
        })?;
        feed(&a, [41])?;
        same("the last", b.outputs().recv_timeout(SOON)?, 7)?;
        feed(&a, [40])?;
        same("the last", a.outputs().recv_timeout(SOON)?, 7)?;
        // One that sends to itself.
        let own = launched(&rt, countdown, Address::none())?;
        // The message being handled keeps its place until it is done with.
        own.set_state(own.inbound_link(2)?)?;
        own.activate()?;
        feed(&own, [9])?;
        same("to itself", own.outputs().recv_timeout(SOON)?, 7)?;
    }
    Ok(())
}

/// From one grid to another of the same device and back: the order, a full queue, and the end of
/// the receiver. Where memory cannot be shared so, that is said.
fn runtimes_send_to_each_other(trial: &mut Trial<'_>) -> Verdict {
    let (here, there) = (runtimes(trial)?, runtimes(trial)?);
    for (here, there) in here.iter().zip(&there) {
        let sink = active(there, tally, RingConfig::default().state(0).capacity(8))?;
        let address = match sink.inbound_link_from(here, 2) {
            Err(RingError::OutOfReach { .. }) if trial.device.properties().residency != Residency::Beside => {
                continue;
            }
            other => other?,
        };
        let source =
            active(here, emit, RingConfig::default().state(Stage { number: 5, next: address }).capacity(64))?;
        // Eight outputs and two messages in the queue wait; the rest is held up at the sender.
        feed(&source, 100..130)?;
        for (value, seen) in (100..130).zip(1..) {
            same("output", sink.outputs().recv_timeout(SOON)?, [5, value, seen])?;
        }
        let a = launched(here, countdown, Address::none())?;
        let b = launched(there, countdown, a.inbound_link_from(there, 2)?)?;
        a.set_state(b.inbound_link_from(here, 4)?)?;
        a.activate()?;
        b.activate()?;
        feed(&a, [31])?;
        same("the last", b.outputs().recv_timeout(SOON)?, 7)?;
        feed(&b, [31])?;
        same("the last", a.outputs().recv_timeout(SOON)?, 7)?;
        sink.terminate_with(Ending::Drain, SOON)?;
        same("to nobody", source.ask(1)?, None)?;
        same("undelivered", source.undelivered()?, 1)?;
        // The memory of the sender's end is free again, also for links within the runtime.
        let sink = active(here, tally, RingConfig::default().state(0))?;
        let source = active(
            here,
            emit,
            RingConfig::default().state(Stage { number: 6, next: sink.inbound_link_from(here, 2)? }),
        )?;
        feed(&source, [9])?;
        same("within", sink.outputs().recv_timeout(SOON)?, [6, 9, 1])?;
    }
    Ok(())
}

fn ended_actors_are_sent_nothing(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let (drained, discarded) = (launched(&rt, total, 0)?, launched(&rt, total, 0)?);
        let sender = active(
            &rt,
            twice,
            RingConfig::default().state([drained.inbound_link(16)?, discarded.inbound_link(16)?]),
        )?;
        feed(&sender, 1..=6)?;
        settles(&sender, 0)?;
        drained.activate()?;
        drained.terminate_with(Ending::Drain, SOON)?;
        discarded.terminate_with(Ending::Discard, SOON)?;
        let sums = (0..6).map(|_| drained.outputs().recv()).collect::<Result<Vec<_>, _>>()?;
        same("drained", sums, vec![1, 3, 6, 10, 15, 21])?;
        for x in [102, 104, 106] {
            let letter = rt.dead_letters().pop().map(|l| (l.reason, l.decode::<u32>()));
            same("given back", letter, Some((Reason::Undeliverable, Some(x))))?;
        }
        same("undelivered before", sender.undelivered()?, 0)?;
        same("sent after the end", sender.ask(8)?, None)?;
        same("undelivered", sender.undelivered()?, 2)?;
        ensure(matches!(drained.inbound_link(1), Err(RingError::Illegal { .. })), || {
            "an inbound link of an ended actor".into()
        })?;
        drop((drained, discarded));
        // Their memory is used again; the old addresses still reach no actor.
        let heir = active(&rt, total, RingConfig::default().state(0))?;
        let _ = heir.inbound_link(16)?;
        same("sent to an heir", sender.ask(1)?, None)?;
        same("undelivered", sender.undelivered()?, 3)?;
        same("the heir's state", heir.state()?, 0)?;
    }
    Ok(())
}

/// A worker caches the record of the link that it sends to again and again. When the receiver has
/// ended, the old record does not change, and the next receiver gets its own, through a queue that
/// is full again and again.
fn senders_forget_where_they_sent(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let sender = launched(&rt, emit, Stage { number: 0, next: Address::none() })?;
        for round in 0..3 {
            let sink = active(&rt, tally, RingConfig::default().state(0).capacity(8))?;
            sender.set_state(Stage { number: round, next: sink.inbound_link(4)? })?;
            if round == 0 {
                sender.activate()?
            } else {
                sender.reactivate()?
            }
            let outputs = sink.outputs();
            for x in 0..20u32 {
                feed(&sender, [x])?;
                let want = [u64::from(round), u64::from(x), u64::from(x) + 1];
                same("arrived", outputs.recv_timeout(SOON)?, want)?;
            }
            sink.terminate_with(Ending::Drain, SOON)?;
            drop((outputs, sink));
            let heir = active(&rt, total, RingConfig::default().state(5))?;
            let _ = heir.inbound_link(16)?;
            for x in 0..3 {
                same("sent to nobody", sender.ask(x)?, None)?;
            }
            same("undelivered", sender.undelivered()?, 3 * (round + 1))?;
            same("the heir's state", heir.state()?, 5)?;
            same("the heir's answer", heir.ask(2)?, Some(7))?;
            heir.terminate_with(Ending::Drain, SOON)?;
            sender.deactivate()?;
        }
    }
    Ok(())
}

/// Such an address may name a word that the sender's runtime does not have.
fn addresses_of_other_runtimes(trial: &mut Trial<'_>) -> Verdict {
    let large = RuntimeConfig { spins: 64, ..defaults().workers(1).endpoints_per_worker(8) };
    let small = RuntimeConfig { arena_bytes: 1 << 16, ..large };
    let (there, here) = (RingRuntime::with(trial.device, large)?, RingRuntime::with(trial.device, small)?);
    let hearer = active(&there, total, RingConfig::default().state(0))?;
    let (far, own) = (hearer.inbound_link(1 << 14)?, active(&here, total, RingConfig::default().state(0))?);
    let sender = active(&here, twice, RingConfig::default().state([own.inbound_link(4)?, far]))?;
    for x in [7, 8] {
        same("sent", sender.ask(x)?, None)?;
        same("its own gets it", own.outputs().recv()?, if x == 7 { 7 } else { 15 })?;
    }
    same("undelivered", sender.undelivered()?, 1)?;
    same("nobody was sent anything", hearer.state()?, 0)
}

fn topics_reach_all_subscribers(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let topic = rt.topic::<u32>();
        let publishers = (0..2)
            .map(|_| active(&rt, burst, RingConfig::default().state(topic.publisher()?)))
            .collect::<Result<Vec<_>, _>>()?;
        // No actor receives it.
        same("unheard", publishers[0].ask(1)?, None)?;
        let hearers = (0..2).map(|k| active(&rt, total, RingConfig::default().state(k * 100)));
        let mut hearers = hearers.collect::<Result<Vec<_>, _>>()?;
        for hearer in &hearers {
            topic.subscribe(hearer, 4)?;
        }
        let hear = |hearer: &Actor<total>| hearer.outputs().recv_timeout(SOON);
        publishers[0].send(1)?;
        same("first", hear(&hearers[0])?, 0)?;
        same("second", hear(&hearers[1])?, 100)?;
        let late = active(&rt, total, RingConfig::default().state(1000))?;
        topic.subscribe(&late, 4)?;
        same("subscribers", topic.subscribers(), 3)?;
        publishers[1].send(1)?;
        same("late", hear(&late)?, 1000)?;
        same("from the host", topic.publish(&5)?, 3)?;
        same("answer to the host", late.recv_timeout(SOON)?, 1005)?;
        let leaver = hearers.remove(0);
        same("before it leaves", hear(&leaver)?, 0)?;
        leaver.terminate_with(Ending::Drain, SOON)?;
        same("subscribers", topic.subscribers(), 2)?;
        publishers[0].send(1)?;
        publishers[1].send(1)?;
        same("second", hear(&hearers[0])?, 100)?;
        for want in [1005, 1005] {
            same("late", hear(&late)?, want)?;
        }
        let elsewhere = active(&runtimes(trial)?[0], total, RingConfig::default().state(0))?;
        let refused = topic.subscribe(&elsewhere, 1);
        ensure(matches!(refused, Err(RingError::Foreign { .. })), || {
            format!("another's actor: {refused:?}")
        })?;
    }
    Ok(())
}

fn pools_divide_messages(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let config = |_| RingConfig::default().state(0).capacity(16);
        let pool = rt.pool(total, 3, Routing::RoundRobin, config)?;
        pool.activate()?;
        for x in 1..=6 {
            pool.send(x)?;
        }
        let mut sums = (0..6).map(|_| pool.recv_timeout(SOON)).collect::<Result<Vec<_>, _>>()?;
        sums.sort_unstable();
        same("sums", sums, vec![1, 2, 3, 5, 7, 9])?;
        pool.broadcast(10)?;
        let mut sums = (0..3).map(|_| pool.recv_timeout(SOON)).collect::<Result<Vec<_>, _>>()?;
        sums.sort_unstable();
        same("all", sums, vec![15, 17, 19])?;
        let of = |k: u32| pool.of_key(k.to_le_bytes()).number();
        let counts = pool.actors().iter().map(|a| (0..300).filter(|k| of(*k) == a.number()).count());
        let counts: Vec<usize> = counts.collect();
        ensure(counts.iter().all(|n| (60..140).contains(n)), || format!("keys spread as {counts:?}"))?;
        pool.terminate_with(Ending::Drain, SOON)?;

        let pool = rt.pool(total, 2, Routing::LeastLoaded, config)?;
        pool.actors()[0].activate()?;
        for x in 0..3 {
            pool.actors()[1].send(x)?;
        }
        // The first answers, and so always has fewer.
        for _ in 0..5 {
            same("least loaded", pool.ask(1).map_err(Stop::from)?.is_some(), true)?;
        }
        same("state", pool.actors()[0].state()?, 5)?;
    }
    Ok(())
}
