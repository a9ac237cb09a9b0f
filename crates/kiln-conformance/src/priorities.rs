//! Priorities: the order in which an actor handles messages, and which of them make
//! room in a full one.

use crate::actors::{A_WHILE, SOON, active, running_sum, runtimes, same};
use crate::case::{Case, cases};
use crate::telemetry;
use crate::trial::{Stop, Trial, Verdict, ensure};
use kiln_ring::{
    Actor, Checkpoint, Ending, Lifecycle, Overflow, Reason, RingConfig, RingCtx, RingError, RingRuntime,
    SendError, SendOptions, Sent, State, ring_kernel,
};
use std::time::Instant;

pub fn cases() -> Vec<Case> {
    cases!["priorities":
        higher_priorities_are_handled_first;
        what_comes_later_in_a_higher_priority_overtakes;
        priorities_share_a_worker_with_other_actors;
        full_actors_give_up_the_lowest_priority_first;
        capacity_is_that_of_all_priorities;
        a_failure_in_one_priority_stops_all;
        ended_actors_give_back_every_priority;
        checkpoints_keep_priorities;
        replaced_handlers_keep_priorities;
        priorities_are_counted;
    ]
}

fn at(priority: u8) -> SendOptions {
    SendOptions::default().priority(priority)
}

/// What an actor has handled: the last sixteen numbers, the newest last, four bits each; and how
/// many.
#[derive(State, Debug, Clone, Copy, PartialEq)]
#[kiln(crate = kiln_ring)]
struct Seen {
    digits: u64,
    count: u32,
}

const NOTHING: Seen = Seen { digits: 0, count: 0 };

/// Notes numbers in the order in which they come; 13 is an error.
#[ring_kernel(crate = kiln_ring)]
fn recorded(_ctx: &RingCtx, seen: &mut Seen, x: u32) -> Result<Option<u32>, u32> {
    if x == 13 {
        return Err(7);
    }
    seen.digits = (seen.digits << 4) | (x & 15).cast::<u64>();
    seen.count += 1;
    Ok(None)
}

/// The same, backwards.
#[ring_kernel(crate = kiln_ring)]
fn recorded_from_behind(_ctx: &RingCtx, seen: &mut Seen, x: u32) -> Result<Option<u32>, u32> {
    seen.digits = (seen.digits >> 4) | ((x & 15).cast::<u64>() << 60);
    seen.count += 1;
    Ok(None)
}

fn holding(
    rt: &RingRuntime,
    priorities: usize,
    capacity: usize,
    overflow: Overflow,
) -> Result<Actor<recorded>, Stop> {
    let config =
        RingConfig::default().state(NOTHING).priorities(priorities).capacity(capacity).overflow(overflow);
    Ok(rt.launch(recorded, config)?)
}

/// Waits until the actor has handled so many.
fn after(actor: &Actor<recorded>, count: u32) -> Result<Seen, Stop> {
    let begun = Instant::now();
    loop {
        actor.channel().tidy();
        // Where the device runs only while the host lets it, this does.
        actor.channel().tidy();
        let seen = actor.state()?;
        if seen.count >= count {
            return Ok(actor.state()?);
        }
        ensure(begun.elapsed() < SOON, || format!("{} of {count} messages were handled", seen.count))?;
    }
}

/// A held actor gets messages of several priorities in all orders; then it handles them priority by
/// priority, in each in the order of sending.
fn higher_priorities_are_handled_first(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        for priorities in [2u8, 3, 8] {
            let actor = holding(&rt, priorities.into(), 16, Overflow::Reject)?;
            let mut sent: Vec<(u8, u32)> = Vec::new();
            for x in 0..12 {
                let priority = trial.rng.below(priorities.into()) as u8;
                actor.send_with(x, at(priority))?;
                sent.push((priority, x));
            }
            sent.sort_unstable_by_key(|&(priority, x)| (std::cmp::Reverse(priority), x));
            let want = sent.iter().fold(0, |digits, &(_, x)| digits << 4 | u64::from(x));
            actor.activate()?;
            same("order", after(&actor, 12)?, Seen { digits: want, count: 12 })?;
            actor.terminate_with(Ending::Drain, SOON)?;
        }
        let plain = active(&rt, recorded, RingConfig::default().state(NOTHING))?;
        let refused = plain.send_with(1, at(1));
        let wanted = SendError::NoPriority { actor: plain.number(), priority: 1, priorities: 1 };
        same("a priority that is not there", refused, Err(wanted))?;
        let none = rt.launch(recorded, RingConfig::default().state(NOTHING).priorities(0));
        ensure(matches!(none, Err(RingError::Config(_))), || {
            "an actor without priorities was launched".into()
        })?;
        let many = rt.launch(recorded, RingConfig::default().state(NOTHING).priorities(9));
        ensure(matches!(many, Err(RingError::Config(_))), || {
            "an actor with nine priorities was launched".into()
        })?;
    }
    Ok(())
}

/// Messages of a higher priority that come when some of a lower one are done come before the rest
/// of those.
fn what_comes_later_in_a_higher_priority_overtakes(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = rt.launch(running_sum, RingConfig::default().state(0).priorities(3).capacity(32))?;
        for x in [1, 2, 3, 4] {
            actor.send(x)?;
        }
        actor.send_with(10, at(1))?;
        actor.activate()?;
        same("the middle priority", actor.recv_timeout(SOON)?, 10)?;
        let sums = (0..4).map(|_| actor.recv_timeout(SOON)).collect::<Result<Vec<_>, _>>()?;
        same("the lowest", sums, vec![11, 13, 16, 20])?;
        actor.deactivate()?;
        actor.send(5)?;
        actor.send_with(20, at(1))?;
        actor.send_with(300, at(2))?;
        actor.send_with(30, at(1))?;
        actor.reactivate()?;
        // A request is answered when all that was there before it, or is above it, is.
        same("asked", actor.ask_with(0, at(0).timeout(SOON))?, Some(375))?;
        let sums = (0..4).map(|_| actor.recv_timeout(SOON)).collect::<Result<Vec<_>, _>>()?;
        same("from the highest", sums, vec![320, 340, 370, 375])?;
        for x in 0..200u32 {
            let priority = (x % 3) as u8;
            same("asked again", actor.ask_with(1, at(priority).timeout(SOON))?, Some(376 + u64::from(x)))?;
        }
    }
    Ok(())
}

/// Priorities are places of a worker among those of other actors, which go on while one priority is
/// busy, whichever it is.
fn priorities_share_a_worker_with_other_actors(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let before = active(&rt, running_sum, RingConfig::default().state(0))?;
        let prioritized = |priorities| -> Result<_, Stop> {
            Ok(rt.launch(running_sum, RingConfig::default().state(0).priorities(priorities).capacity(64))?)
        };
        let prioritized = [prioritized(4)?, prioritized(3)?];
        let behind = active(&rt, running_sum, RingConfig::default().state(0))?;
        for (n, actor) in (0..).zip(prioritized) {
            for x in 0..60u32 {
                actor.send_with(x, at((x % 3) as u8))?;
            }
            actor.activate()?;
            for other in [&before, &behind] {
                same("the others", other.ask(1)?, Some(n + 1))?;
            }
            let mut sums = (0..60).map(|_| actor.recv_timeout(SOON)).collect::<Result<Vec<_>, _>>()?;
            // In the order of handling, which is no promise of `recv`: sums grow.
            sums.sort_unstable();
            let order =
                [2, 1, 0].into_iter().flat_map(|priority| (0..60u64).filter(move |x| x % 3 == priority));
            let want: Vec<u64> = order
                .scan(0, |sum, x| {
                    Some({
                        *sum += x;
                        *sum
                    })
                })
                .collect();
            same("sums", sums, want)?;
            actor.terminate_with(Ending::Drain, SOON)?;
        }
    }
    Ok(())
}

fn full_actors_give_up_the_lowest_priority_first(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let oldest = holding(&rt, 3, 4, Overflow::DropOldest)?;
        for (x, priority) in [(1, 0), (2, 1), (3, 0), (4, 2)] {
            oldest.send_with(x, at(priority))?;
        }
        // Two of the lowest priority give way, then one of the next; what is lower than all that is
        // there is not sent.
        for (x, priority) in [(5, 2), (6, 1), (7, 2)] {
            ensure(matches!(oldest.send_with(x, at(priority))?, Sent::Queued(_)), || {
                format!("{x} was dropped")
            })?;
        }
        same("the lowest of all", oldest.send(8)?, Sent::Dropped)?;
        oldest.send_with(9, at(1))?;
        let counts = oldest.counts();
        same("counted", (counts.dropped_oldest, counts.dropped_newest), (4, 1))?;
        let letters: Vec<_> =
            rt.dead_letters().drain().into_iter().map(|l| (l.reason, l.decode::<u32>())).collect();
        same("letters", letters, [1, 3, 2, 6].map(|x| (Reason::Dropped, Some(x))).to_vec())?;
        oldest.activate()?;
        same("what is left", after(&oldest, 4)?.digits, 0x4579)?;

        let newest = holding(&rt, 2, 3, Overflow::DropNewest)?;
        for (x, priority) in [(1, 0), (2, 0), (3, 1)] {
            newest.send_with(x, at(priority))?;
        }
        same("of the lowest priority", newest.send(4)?, Sent::Dropped)?;
        for x in [5, 6] {
            ensure(matches!(newest.send_with(x, at(1))?, Sent::Queued(_)), || format!("{x} was dropped"))?;
        }
        same("of the highest, with none below", newest.send_with(7, at(1))?, Sent::Dropped)?;
        let counts = newest.counts();
        same("counted", (counts.dropped_oldest, counts.dropped_newest), (2, 2))?;
        newest.activate()?;
        same("what is left", after(&newest, 3)?.digits, 0x356)?;
    }
    Ok(())
}

fn capacity_is_that_of_all_priorities(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = holding(&rt, 2, 3, Overflow::Reject)?;
        let full = |sent: Result<Sent, SendError>| {
            ensure(matches!(sent, Err(SendError::Full { capacity: 3, .. })), || format!("{sent:?}"))
        };
        for round in 1..=3 {
            // Whichever priority holds them.
            for x in 1..=3 {
                actor.send_with(x, at(u8::from(x > round - 1)))?;
            }
            full(actor.send(4))?;
            full(actor.send_with(4, at(1)))?;
            full(actor.channel().try_send_with(&4, at(1)))?;
            if round == 1 {
                actor.activate()?;
            } else {
                actor.reactivate()?;
            }
            after(&actor, 3 * round)?;
            actor.deactivate()?;
        }
        same("sent", actor.counts().sent, 9)?;
        let waits = active(&rt, running_sum, RingConfig::default().state(0).priorities(2).capacity(1))?;
        waits.deactivate()?;
        waits.send(1)?;
        let timed_out = waits.send_with(2, at(1).timeout(A_WHILE));
        ensure(matches!(timed_out, Err(SendError::TimedOut { .. })), || format!("{timed_out:?}"))?;
    }
    Ok(())
}

fn a_failure_in_one_priority_stops_all(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = holding(&rt, 3, 16, Overflow::Block)?;
        for (x, priority) in [(1, 0), (2, 1), (13, 1), (3, 2), (4, 1), (5, 0)] {
            actor.send_with(x, at(priority))?;
        }
        actor.activate()?;
        let begun = Instant::now();
        while actor.lifecycle() != Lifecycle::Failed && begun.elapsed() < SOON {
            actor.channel().tidy();
        }
        same("lifecycle", actor.lifecycle(), Lifecycle::Failed)?;
        same("before it", actor.state()?, Seen { digits: 0x32, count: 2 })?;
        same(
            "why",
            rt.dead_letters().pop().map(|letter| letter.reason),
            Some(Reason::Failed { cause: 1, number: 7 }),
        )?;
        actor.restart()?;
        same("after it", after(&actor, 3)?, Seen { digits: 0x415, count: 3 })?;
        same("once", actor.lifecycle(), Lifecycle::Active)?;
    }
    Ok(())
}

fn ended_actors_give_back_every_priority(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let (drained, discarded) =
            (holding(&rt, 2, 16, Overflow::Block)?, holding(&rt, 2, 16, Overflow::Block)?);
        for actor in [&drained, &discarded] {
            for (x, priority) in [(1, 0), (2, 1), (3, 0), (4, 1)] {
                actor.send_with(x, at(priority))?;
            }
        }
        drained.activate()?;
        drained.terminate_with(Ending::Drain, SOON)?;
        same("drained", drained.state()?.digits, 0x2413)?;
        discarded.terminate_with(Ending::Discard, SOON)?;
        discarded.channel().tidy();
        same("given back", discarded.counts().undeliverable, 4)?;
        let mut letters: Vec<_> =
            rt.dead_letters().drain().iter().filter_map(|letter| letter.decode::<u32>()).collect();
        letters.sort_unstable();
        same("letters", letters, vec![1, 2, 3, 4])?;
        let refused = discarded.send_with(1, at(1));
        ensure(matches!(refused, Err(SendError::Closed { .. })), || format!("{refused:?}"))?;
        // The places are there again: a worker has eight.
        drop((drained, discarded));
        for _ in 0..2 {
            holding(&rt, 8, 1, Overflow::Block)?.terminate_with(Ending::Discard, SOON)?;
        }
    }
    Ok(())
}

fn checkpoints_keep_priorities(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let config = RingConfig::default().state(NOTHING).priorities(3).deadlines(true);
        let actor = rt.launch(recorded, config)?;
        actor.activate()?;
        for (x, priority) in [(1, 0), (2, 2)] {
            actor.send_with(x, at(priority))?;
        }
        after(&actor, 2)?;
        actor.deactivate()?;
        for (x, priority) in [(3, 0), (4, 2), (5, 1), (6, 2)] {
            actor.send_with(x, at(priority))?;
        }
        // Whose time is over before it has begun.
        actor.send_with(7, at(2).deadline(1))?;
        let taken = actor.checkpoint()?;
        same("held", (taken.messages(), taken.position()), (5, 2))?;
        let again = Checkpoint::from_bytes(&taken.to_bytes()).map_err(RingError::from)?;
        // With fewer priorities in the configuration, it gets those that it had.
        let restored = rt.restore(recorded, RingConfig::default(), &again)?;
        same("depths", restored.telemetry()?.depths, vec![1, 1, 3])?;
        restored.activate()?;
        same("order", after(&restored, 6)?.digits & 0xffff, 0x4653)?;
        let told = telemetry::after(&restored, 7)?;
        restored.channel().tidy();
        same("expired", restored.counts().expired, 1)?;
        same("done", (told.processed, told.depth, told.counts.sent), (7, 0, 7))?;
    }
    Ok(())
}

fn replaced_handlers_keep_priorities(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = holding(&rt, 2, 8, Overflow::Block)?;
        actor.send(1)?;
        actor.send_with(2, at(1))?;
        actor.activate()?;
        after(&actor, 2)?;
        actor.deactivate()?;
        actor.replace(recorded_from_behind)?;
        actor.send(3)?;
        actor.send_with(4, at(1))?;
        actor.reactivate()?;
        same("by the other", after(&actor, 4)?.digits >> 56, 0x34)?;
    }
    Ok(())
}

fn priorities_are_counted(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = holding(&rt, 3, 16, Overflow::Block)?;
        for (x, priority) in [(1, 0), (2, 2), (3, 2), (13, 1), (4, 0), (5, 0)] {
            actor.send_with(x, at(priority))?;
        }
        let told = actor.telemetry()?;
        same("before", (told.depth, told.depths, told.processed), (6, vec![3, 1, 2], 0))?;
        let text = rt.telemetry()?.to_prometheus();
        let device = format!("kiln_ring_priority_depth{{device=\"{}\",runtime=\"", trial.device.id());
        let own = format!("\",actor=\"{}\",", actor.number());
        let depths: Vec<&str> =
            text.lines().filter(|line| line.starts_with(&device) && line.contains(&own)).collect();
        ensure(depths.len() == 3 && depths[2].ends_with("priority=\"2\"} 2"), || format!("{depths:?}"))?;
        actor.activate()?;
        let begun = Instant::now();
        while actor.telemetry()?.processed < 3 && begun.elapsed() < SOON {
            actor.channel().tidy();
        }
        let told = actor.telemetry()?;
        let all = (told.processed, told.failed, told.depth, told.depths);
        same("after the failure", all, (3, 1, 3, vec![3, 0, 0]))?;
        same("unanswered", actor.channel().unanswered(), 3)?;
    }
    Ok(())
}
