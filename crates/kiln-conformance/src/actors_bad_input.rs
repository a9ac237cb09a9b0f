//! Ring kernels: invalid input, requests that are given up, and handles that are dropped.

use crate::actors::{
    A_WHILE, SOON, active, defaults, echo, even_halves, running_sum, runtimes, same, silent,
};
use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, ensure, list};
use kiln_ring::{
    AskError, ConfigError, Ending, Lifecycle, Reason, Replies, RingConfig, RingCtx, RingError, RingRuntime,
    RuntimeConfig, SendError, ring_kernel,
};

pub fn cases() -> Vec<Case> {
    cases!["actors_bad_input":
        queues_that_cannot_be_are_refused;
        messages_that_are_too_large_are_refused;
        places_run_out_and_come_back;
        failed_actors_hold_what_they_are_sent;
        senders_do_not_wait_for_replies_that_nobody_wants;
        senders_hear_that_nobody_receives;
        dropped_actors_give_their_messages_back;
        runtimes_share_a_device;
    ]
}

#[ring_kernel(crate = kiln_ring)]
fn last_of_many(_ctx: &RingCtx, x: [u32; 200]) -> u32 {
    x[199] + x[0]
}

fn queues_that_cannot_be_are_refused(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let with = |capacity| rt.launch(echo, RingConfig::default().capacity(capacity)).err();
        let none = with(0);
        let zero = matches!(none, Some(RingError::Config(ConfigError::ZeroCapacity)));
        ensure(zero, || format!("a capacity of 0: {none:?}"))?;
        let huge = with(usize::MAX);
        let large = matches!(huge, Some(RingError::Config(ConfigError::TooLarge { .. })));
        ensure(large, || format!("a capacity of 2^64 - 1: {huge:?}"))?;
        let much = with(1 << 23);
        ensure(matches!(much, Some(RingError::OutOfRegion { .. })), || format!("8 million: {much:?}"))?;
        let actor = active(&rt, running_sum, RingConfig::default().state(0).capacity(1))?;
        same("afterwards", actor.ask(1)?, Some(1))?;
    }
    for arena_bytes in [16 << 30, usize::MAX] {
        let config = RuntimeConfig { arena_bytes, ..defaults() };
        let refused = RingRuntime::with(trial.device, config).map(drop);
        ensure(matches!(refused, Err(RingError::RegionTooLarge { region: "arena", .. })), || {
            format!("an arena of {arena_bytes} bytes: {refused:?}")
        })?;
    }
    Ok(())
}

/// A warp reads a message with one load a lane; a thread reads what it must.
fn messages_that_are_too_large_are_refused(trial: &mut Trial<'_>) -> Verdict {
    for (&warps, rt) in trial.warps().iter().zip(runtimes(trial)?) {
        match rt.launch(last_of_many, RingConfig::default().capacity(4)) {
            Err(RingError::MessageTooLarge { words: 200, .. }) => same("refused for a warp", warps, true)?,
            Ok(actor) => {
                same("taken by a thread", warps, false)?;
                actor.activate()?;
                let mut message = [1; 200];
                message[199] = 41;
                same("reply", actor.ask(message)?, Some(42))?;
            }
            Err(other) => return Err(other.into()),
        }
    }
    Ok(())
}

fn places_run_out_and_come_back(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let config = RingConfig::default().state(0).capacity(2);
        let mut all = Vec::new();
        for _ in 0..16 {
            all.push(rt.launch(running_sum, config)?);
        }
        let more = rt.launch(running_sum, config).err();
        ensure(matches!(more, Some(RingError::NoPlace { places: 16, priorities: 1 })), || {
            format!("a 17th: {more:?}")
        })?;
        drop(all);
        // As often as a leak would show.
        for x in 1..=20 {
            let actor = active(&rt, running_sum, config)?;
            same("in a place that was used", actor.ask(x)?, Some(u64::from(x)))?;
        }
    }
    Ok(())
}

fn failed_actors_hold_what_they_are_sent(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let config = RingConfig::default().capacity(2).overflow(kiln_ring::Overflow::Reject);
        let actor = active(&rt, even_halves, config)?;
        ensure(matches!(actor.ask(13), Err(AskError::Unhandled { .. })), || "13 was handled".to_owned())?;
        actor.send(2)?;
        actor.send(4)?;
        ensure(matches!(actor.send(6), Err(SendError::Full { .. })), || "it took a third".to_owned())?;
        silent("failed", &actor)?;
        same("lifecycle", actor.lifecycle(), Lifecycle::Failed)?;
        actor.restart()?;
        same("replies", [actor.recv_timeout(SOON)?, actor.recv_timeout(SOON)?], [1, 2])?;
    }
    Ok(())
}

fn senders_do_not_wait_for_replies_that_nobody_wants(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let config = RingConfig::default().state(0).capacity(3).replies(Replies::Discard);
        let actor = active(&rt, running_sum, config)?;
        for x in 1..=50 {
            actor.channel().send_timeout(&x, SOON)?;
        }
        // A request still has its reply.
        same("asked", actor.ask(0)?, Some(1275))?;
        actor.terminate_with(Ending::Drain, SOON)?;
        same("letters", rt.dead_letters().arrived(), 0)?;
    }
    Ok(())
}

fn senders_hear_that_nobody_receives(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = active(&rt, running_sum, RingConfig::default().state(0).capacity(3))?;
        for x in 1..=3 {
            actor.send(x)?;
        }
        let fourth = actor.channel().send_timeout(&4, A_WHILE);
        ensure(matches!(fourth, Err(SendError::TimedOut { .. })), || format!("a fourth: {fourth:?}"))?;
        same("first", actor.recv_timeout(SOON)?, 1)?;
        actor.channel().send_timeout(&4, SOON)?;
        let rest = [actor.recv_timeout(SOON)?, actor.recv_timeout(SOON)?, actor.recv_timeout(SOON)?];
        same("the rest", rest, [3, 6, 10])?;
    }
    Ok(())
}

/// Whether they were handled before or are given back, no message is nowhere.
fn dropped_actors_give_their_messages_back(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let idle = rt.launch(running_sum, RingConfig::default().state(0))?;
        for x in 0..5 {
            idle.send(x)?;
        }
        let channel = idle.channel().clone();
        drop(idle);
        channel.tidy();
        let letters = rt.dead_letters().drain();
        let given: Vec<_> = letters.iter().map(|letter| (letter.reason, letter.decode::<u32>())).collect();
        let want: Vec<_> = list(0..5, |x| (Reason::Undeliverable, Some(x)));
        same("letters", given, want)?;
        ensure(matches!(channel.send(&1), Err(SendError::Closed { .. })), || "it took a message".to_owned())?;

        let busy = active(&rt, running_sum, RingConfig::default().state(0))?;
        for _ in 0..100 {
            busy.send(1)?;
        }
        let channel = busy.channel().clone();
        drop(busy);
        let mut replies = Vec::new();
        while channel.recv_timeout(A_WHILE).map(|sum| replies.push(sum)).is_ok() {}
        let handled: Vec<u64> = (1..=replies.len() as u64).collect();
        same("replies", &replies, &handled)?;
        same("handled and given back", replies.len() + rt.dead_letters().len(), 100)?;
    }
    Ok(())
}

/// Each compiles kinds of its own while the other is there.
fn runtimes_share_a_device(trial: &mut Trial<'_>) -> Verdict {
    let mut all = runtimes(trial)?;
    let warps = trial.warps() == [true];
    all.push(RingRuntime::with(
        trial.device,
        RuntimeConfig { step_budget: 500, ..defaults() }.workers(1).warps(warps),
    )?);
    let (last, others) =
        all.split_last().ok_or_else(|| crate::trial::Stop::wrong("no runtime".to_owned()))?;
    let sum = active(last, running_sum, RingConfig::default().state(0))?;
    same("the first", sum.ask(1)?, Some(1))?;
    let mut total = 1;
    for rt in others {
        let half = active(rt, even_halves, RingConfig::default())?;
        let echoing = active(rt, echo, RingConfig::default())?;
        for x in 1..=10u32 {
            total += u64::from(x);
            same("sum", sum.ask(x)?, Some(total))?;
            same("half", half.ask(2 * x)?, Some(x))?;
        }
        let late = active(last, even_halves, RingConfig::default())?;
        same("a kind that is new to one", late.ask(4)?, Some(2))?;
        echoing.terminate_with(Ending::Drain, SOON)?;
    }
    drop(all.pop());
    same("when its runtime's handle is gone", sum.ask(0)?, Some(total))
}
