//! Ring kernels: what is reported of a check that failed, with its values.

use crate::actors::{SOON, active, pause, runtimes, same};
use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure};
use kiln_lang::{fault_region_into, prelude::*};
use kiln_ring::{
    Actor, Address, AskError, Backoff, Handler, Inline, Letter, Lifecycle, RecvError, Restart, RingConfig,
    RingCtx, RingRuntime, State, What, ring_kernel,
};
use std::time::{Duration, Instant};

pub fn cases() -> Vec<Case> {
    cases!["actor faults":
        values_of_every_type;
        all_who_hear_of_it_hear_the_values;
        two_in_a_row;
        many_before_anybody_looks;
        on_a_message_of_another_actor;
        of_the_thread_that_failed;
        of_one_lane_alone;
        with_another_handler_since;
    ]
}

#[derive(State, Debug, Clone, PartialEq)]
#[kiln(crate = kiln_ring)]
struct Shelf {
    books: Inline<u32, 8>,
    seen: u32,
}

fn shelf() -> RingConfig<Shelf> {
    RingConfig::default().state(Shelf { books: Inline::from([0, 1, 2, 3, 4, 5, 6, 7]), seen: 0 })
}

#[ring_kernel(crate = kiln_ring)]
fn faulty(ctx: &RingCtx, s: &mut Shelf, x: [i32; 2]) -> u32 {
    let [what, n] = x;
    s.seen += 1;
    let wide = n.cast::<i64>() * 1_099_511_627_776i64;
    if what == 1 {
        device_assert!(n.gt(99), "{} {} {}", wide, n.cast::<u64>(), n.cast::<u32>());
    } else if what == 2 {
        let half = n.cast::<f64>() / 2.0;
        device_assert!(n.gt(99), "{} {} {}", half, half.cast::<f32>(), half.cast::<f16>());
    } else if what == 3 {
        device_assert!(n.gt(99), "{} and {}", n.lt(0), half_of(n).cast::<bf16>());
    } else if what == 4 {
        let share = 100 / n;
        device_assert!(share.gt(99), "{} is too large", n);
    } else if what == 5 {
        let inner = local::<u64>(2);
        let (fault, got) = fault_region_into(&inner, 0, 7, || {
            device_assert!(n.gt(99), "{} is caught", n);
            n
        });
        device_assert!(fault.eq(0), "{} was caught, and {} came", inner.get(1).cast::<i64>(), got);
    }
    ctx.array(&s.books).get(n.cast::<u32>())
}

#[device(crate = kiln_lang)]
fn half_of(n: Val<i32>) -> Val<f32> {
    n.cast::<f32>() / 2.0
}

/// The text of a request that is not handled.
fn refused<H: Handler>(actor: &Actor<H>, message: H::Message) -> Result<String, Stop> {
    match actor.ask(message) {
        Err(AskError::Unhandled { why, .. }) => Ok(why.to_string()),
        Err(other) => Err(Stop::wrong(format!("not the failure itself: {other}"))),
        Ok(_) => Err(Stop::wrong("it was handled".into())),
    }
}

fn says(told: &str, what: &str) -> Verdict {
    ensure(told.ends_with(what), || format!("`{told}` does not end in `{what}`"))
}

fn values_of_every_type(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let cases = [
            ([0, 9], "index 9 of an array of 8"),
            ([0, -1], "index 4294967295 of an array of 8"),
            ([1, -3], "-3298534883328 18446744073709551613 4294967293"),
            ([2, -3], "-1.5 -1.5 -1.5"),
            ([2, 1], "0.5 0.5 0.5"),
            ([3, -5], "true and -2.5"),
            ([3, 5], "false and 2.5"),
            ([4, 7], "7 is too large"),
            ([4, 0], "division by zero"),
            ([5, 12], "12 was caught, and 7 came"),
        ];
        for (message, what) in cases {
            let actor = active(&rt, faulty, shelf())?;
            same("what may be", actor.ask([0, 5])?, Some(5))?;
            says(&refused(&actor, message)?, what)?;
            same("the state", actor.state()?.seen, 1)?;
        }
    }
    Ok(())
}

/// Waits until the runtime's supervisor or the actor's own calls have seen the failure.
fn fallen<H: Handler>(actor: &Actor<H>) -> Verdict {
    let begun = Instant::now();
    while actor.lifecycle() != Lifecycle::Failed {
        ensure(begun.elapsed() < SOON, || "it does not fail".into())?;
        pause(actor);
    }
    Ok(())
}

fn letters(rt: &RingRuntime, count: usize) -> Result<Vec<Letter>, Stop> {
    let (begun, mut found) = (Instant::now(), Vec::new());
    while found.len() < count {
        found.extend(rt.dead_letters().drain());
        ensure(begun.elapsed() < SOON, || format!("{} letters of {count}", found.len()))?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(found)
}

fn all_who_hear_of_it_hear_the_values(trial: &mut Trial<'_>) -> Verdict {
    let what = "index 11 of an array of 8";
    for rt in runtimes(trial)? {
        let events = rt.events();
        let actor = active(&rt, faulty, shelf())?;
        actor.send([0, 11])?;
        match actor.recv_timeout(SOON) {
            Err(RecvError::Failed { failed, .. }) => says(&failed.why, what)?,
            other => return Err(Stop::wrong(format!("received {other:?}"))),
        }
        let letter = letters(&rt, 1)?.remove(0);
        says(&letter.why, what)?;
        same("the message", letter.decode::<[i32; 2]>(), Some([0, 11]))?;
        let told = std::iter::from_fn(|| events.try_next()).find_map(|event| match event.what {
            What::Failed { why, .. } => Some(why),
            _ => None,
        });
        says(&told.unwrap_or_default(), what)?;
        let telemetry = actor.telemetry()?;
        says(&telemetry.last_failure.unwrap_or_default(), what)?;
        match actor.ask([0, 1]) {
            Err(AskError::Failed { failed, .. }) => says(&failed.why, what)?,
            other => return Err(Stop::wrong(format!("an actor that failed answers {other:?}"))),
        }
    }
    Ok(())
}

fn two_in_a_row(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = active(&rt, faulty, shelf())?;
        for (message, what) in [
            ([0, 8], "index 8 of an array of 8"),
            ([0, 80], "index 80 of an array of 8"),
            ([4, 0], "division by zero"),
            ([5, 3], "3 was caught, and 7 came"),
            ([0, 9], "index 9 of an array of 8"),
        ] {
            says(&refused(&actor, message)?, what)?;
            actor.restart()?;
            same("after the restart", actor.ask([0, 4])?, Some(4))?;
        }
    }
    Ok(())
}

/// The actor is restarted by its policy, and all of its failures are reported to the receiver.
fn many_before_anybody_looks(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let config = shelf().restart(Restart::Always(Backoff::NONE)).capacity(64);
        let actor = active(&rt, faulty, config)?;
        // A reply that is not taken holds up what comes after it.
        actor.send([0, 1])?;
        for n in 0..6 {
            actor.send([0, 20 + n])?;
            actor.send([0, n])?;
        }
        let begun = Instant::now();
        while actor.restarts() < 6 {
            ensure(begun.elapsed() < SOON, || format!("{} restarts", actor.restarts()))?;
            pause(&actor);
        }
        for n in [1, 0, 1, 2, 3, 4, 5] {
            same("a reply", actor.recv_timeout(SOON)?, n)?;
        }
        for (n, letter) in (20..).zip(letters(&rt, 6)?) {
            says(&letter.why, &format!("index {n} of an array of 8"))?;
            same("the message", letter.decode::<[i32; 2]>(), Some([0, n]))?;
        }
    }
    Ok(())
}

#[ring_kernel(crate = kiln_ring)]
fn pass_on(ctx: &RingCtx, to: &mut Address<[i32; 2]>, x: [i32; 2]) {
    ctx.send(to, x);
}

fn on_a_message_of_another_actor(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let last = active(&rt, faulty, shelf())?;
        let first = active(&rt, pass_on, RingConfig::default().state(last.inbound_link(4)?))?;
        let outputs = last.outputs();
        for n in [8, 9] {
            first.ask([0, 3])?;
            same("the reply", outputs.recv_timeout(SOON)?, 3)?;
            first.ask([0, n])?;
            fallen(&last)?;
            let letter = letters(&rt, 1)?.remove(0);
            says(&letter.why, &format!("index {n} of an array of 8"))?;
            same("the message", letter.decode::<[i32; 2]>(), Some([0, n]))?;
            last.restart()?;
        }
    }
    Ok(())
}

#[ring_kernel(crate = kiln_ring)]
fn sum_below(ctx: &RingCtx, s: &mut Shelf, n: u32) -> u32 {
    let books = ctx.array(&s.books);
    let mut sum: Val<u32> = 0;
    for i in ctx.share(n) {
        sum += books.get(i);
    }
    s.seen += 1;
    ctx.sum(sum)
}

/// Of threads that share work, one fails: the values are its own.
fn of_the_thread_that_failed(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        for round in 0..2 {
            let actor = active(&rt, sum_below, shelf())?;
            same("all", actor.ask(8)?, Some(28))?;
            says(&refused(&actor, 9 + round)?, "index 8 of an array of 8")?;
        }
    }
    Ok(())
}

#[ring_kernel(crate = kiln_ring)]
fn not_in_lane(ctx: &RingCtx, s: &mut Shelf, x: u32) -> u32 {
    s.seen += 1;
    device_assert!(ctx.lane().ne(x), "lane {} fails", ctx.lane());
    val(ctx.lanes())
}

/// Nothing brings the lanes together after the check that one of them fails.
fn of_one_lane_alone(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = active(&rt, not_in_lane, shelf())?;
        let lanes = actor.ask(u32::MAX)?.unwrap_or_default();
        for lane in [0, 1, 17, 31].into_iter().filter(|lane| *lane < lanes) {
            says(&refused(&actor, lane)?, &format!("lane {lane} fails"))?;
            same("the state", actor.state()?.seen, 1)?;
            actor.resume()?;
        }
        same("afterwards", actor.ask(u32::MAX)?, Some(lanes))?;
        same("the state", actor.state()?.seen, 2)?;
    }
    Ok(())
}

#[ring_kernel(crate = kiln_ring)]
fn checked_twice(_ctx: &RingCtx, x: u32) -> u32 {
    device_assert!(x.gt(1), "{} is less than 2", x);
    device_assert!(x.gt(2), "{} is less than 3", x);
    x
}

/// Another kind of actor numbers all checks anew; what failed before is reported as it was.
fn with_another_handler_since(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = active(&rt, checked_twice, RingConfig::default())?;
        same("a reply", actor.ask(3)?, Some(3))?;
        actor.send(2)?;
        fallen(&actor)?;
        let _another = active(&rt, faulty, shelf())?;
        let letter = letters(&rt, 1)?.remove(0);
        says(&letter.why, "2 is less than 3")?;
        let telemetry = actor.telemetry()?;
        says(&telemetry.last_failure.unwrap_or_default(), "2 is less than 3")?;
    }
    Ok(())
}
