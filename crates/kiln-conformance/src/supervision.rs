//! Ring kernels: what becomes of actors whose handlers fail.

use crate::actors::{SOON, active, defaults, even_halves, faulty, running_sum, runtimes, same, silent};
use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure};
use kiln_ring::{
    Actor, AskError, Backoff, Ending, Events, Handler, Lifecycle, Restart, RingConfig, RingRuntime,
    RuntimeConfig, SendError, What,
};
use std::time::{Duration, Instant};

pub fn cases() -> Vec<Case> {
    cases!["supervision":
        failed_requests_fail_their_actor;
        failures_behind_replies_are_seen;
        policies_restart_failed_actors;
        actors_that_fail_too_often_are_given_up;
        linked_actors_fail_together;
        handlers_may_take_nearly_as_long_as_a_stall;
    ]
}

/// A worker shows that it lives until a message is there, also where it has polled seldom but long.
fn handlers_may_take_nearly_as_long_as_a_stall(trial: &mut Trial<'_>) -> Verdict {
    if !trial.device.capabilities().concurrent_blocks {
        return Err(Stop::missing("concurrent blocks"));
    }
    let stalled_after = Duration::from_millis(100);
    let config = RuntimeConfig { step_budget: 0, stalled_after, ..defaults() };
    let rt = RingRuntime::with(trial.device, config.workers(1))?;
    let actor = active(&rt, faulty, RingConfig::default().state(0))?;
    for round in 0..8 {
        same("a quick one", actor.ask(7)?, Some(2))?;
        std::thread::sleep(Duration::from_millis(7 * round));
        // 60 ms.
        actor.ask(60_000_000)?;
    }
    Ok(())
}

/// Waits until an actor is in a state without a command.
fn becomes<H: Handler>(actor: &Actor<H>, stage: Lifecycle) -> Verdict {
    let begun = Instant::now();
    while actor.lifecycle() != stage {
        ensure(begun.elapsed() < SOON, || format!("the actor is {}, not {stage}", actor.lifecycle()))?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The next event of an actor that is not a change by command.
fn next(events: &Events, actor: u32) -> Result<What, Stop> {
    loop {
        let Some(event) = events.next_timeout(SOON) else {
            return Err(Stop::wrong("there was no event".to_owned()));
        };
        match event.what {
            What::StateChanged(_) => {}
            what if event.actor == Some(actor) => return Ok(what),
            _ => {}
        }
    }
}

fn fails_on<H: Handler<Message = u32>>(actor: &Actor<H>, x: u32) -> Verdict {
    let asked = actor.ask(x).err();
    ensure(matches!(asked, Some(AskError::Unhandled { .. })), || format!("asked {x}: {asked:?}"))
}

/// Also where the failure was reported to its asker alone.
fn failed_requests_fail_their_actor(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = active(&rt, even_halves, RingConfig::default())?;
        fails_on(&actor, 13)?;
        same("lifecycle", actor.lifecycle(), Lifecycle::Failed)?;
        same("counted", actor.counts().failed, 1)?;
        same("letters", rt.dead_letters().arrived(), 0)?;
        actor.restart()?;
        same("after the restart", actor.ask(6)?, Some(3))?;
        same("lifecycle after the restart", actor.lifecycle(), Lifecycle::Active)?;
    }
    Ok(())
}

/// A failure counts when it happens, not when the replies before it were taken.
fn failures_behind_replies_are_seen(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let (actor, other) = (
            active(&rt, even_halves, RingConfig::default())?,
            active(&rt, even_halves, RingConfig::default())?,
        );
        for x in [2, 4, 13, 8] {
            actor.send(x)?;
        }
        // Lets a device that runs within the host's waits go on.
        same("the other", other.ask(2)?, Some(1))?;
        let begun = Instant::now();
        while actor.lifecycle() != Lifecycle::Failed && begun.elapsed() < SOON {
            silent("the other", &other)?;
        }
        same("lifecycle", actor.lifecycle(), Lifecycle::Failed)?;
        let replies = [actor.recv_timeout(SOON)?, actor.recv_timeout(SOON)?];
        same("replies before the failure", replies, [1, 2])?;
        actor.restart()?;
        same("after the restart", actor.recv_timeout(SOON)?, 4)?;
    }
    Ok(())
}

fn policies_restart_failed_actors(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let events = rt.events();
        let backoff = Backoff { first: Duration::from_millis(2), ..Backoff::default() };
        let config = RingConfig::default().restart(Restart::Always(backoff));
        let (always, never) =
            (active(&rt, even_halves, config)?, active(&rt, even_halves, RingConfig::default())?);
        fails_on(&never, 13)?;
        for times in 1..=4 {
            fails_on(&always, 13)?;
            becomes(&always, Lifecycle::Active)?;
            same("after a restart", always.ask(10)?, Some(5))?;
            same("restarts", always.restarts(), times)?;
            let failed = next(&events, always.number())?;
            ensure(matches!(failed, What::Failed { .. }), || format!("an event: {failed:?}"))?;
            same("event", next(&events, always.number())?, What::Restarted { times })?;
        }
        same("without a policy", (never.lifecycle(), never.restarts()), (Lifecycle::Failed, 0))?;
    }
    Ok(())
}

fn actors_that_fail_too_often_are_given_up(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let events = rt.events();
        let twice =
            Restart::OnFailure { at_most: 2, within: Duration::from_secs(600), backoff: Backoff::NONE };
        let actor = active(&rt, even_halves, RingConfig::default().restart(twice))?;
        for times in 1..=2 {
            fails_on(&actor, 13)?;
            becomes(&actor, Lifecycle::Active)?;
            same("restarts", actor.restarts(), times)?;
        }
        actor.deactivate()?;
        for x in [13, 7, 8] {
            actor.send(x)?;
        }
        actor.reactivate()?;
        loop {
            match next(&events, actor.number())? {
                What::GivenUp { times } => break same("given up", times, 2)?,
                What::Failed { .. } | What::Restarted { .. } => {}
                other => return Err(Stop::wrong(format!("an event: {other:?}"))),
            }
        }
        same("lifecycle", actor.lifecycle(), Lifecycle::Failed)?;
        ensure(matches!(actor.send(1), Err(SendError::Closed { .. })), || "it took a message".to_owned())?;
        let ended = actor.recv_timeout(SOON).err();
        ensure(matches!(ended, Some(kiln_ring::RecvError::Closed { .. })), || format!("a reply: {ended:?}"))?;
        let held: Vec<_> =
            rt.dead_letters().drain().iter().filter_map(|letter| letter.decode::<u32>()).collect();
        same("what it failed on last, and what it held", held, vec![13, 7, 8])?;
        actor.restart()?;
        same("brought back by hand", actor.ask(4)?, Some(2))?;
    }
    Ok(())
}

fn linked_actors_fail_together(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let sum = || active(&rt, running_sum, RingConfig::default().state(0));
        let (first, middle, last) = (active(&rt, even_halves, RingConfig::default())?, sum()?, sum()?);
        let (loose, apart) = (sum()?, sum()?);
        first.link(&middle);
        last.link(&middle);
        // A ring of links ends like a chain.
        last.link(&first);
        first.link(&loose);
        loose.unlink(&first);
        last.deactivate()?;
        last.send(9)?;
        fails_on(&first, 13)?;
        becomes(&middle, Lifecycle::Failed)?;
        becomes(&last, Lifecycle::Failed)?;
        ensure(matches!(middle.send(1), Err(SendError::Closed { .. })), || "it took a message".to_owned())?;
        ensure(last.recv_timeout(SOON).is_err(), || "there was a reply".to_owned())?;
        let held: Vec<_> =
            rt.dead_letters().drain().iter().filter_map(|letter| letter.decode::<u32>()).collect();
        same("what it held", held, vec![9])?;
        same("an actor without a link", apart.ask(2)?, Some(2))?;
        same("an actor that was unlinked", loose.ask(3)?, Some(3))?;
        // One that is terminated does not end the actors linked to it.
        apart.link(&loose);
        apart.terminate_with(Ending::Drain, SOON)?;
        std::thread::sleep(Duration::from_millis(5));
        same("after the other's end", loose.ask(4)?, Some(7))?;
    }
    Ok(())
}
