//! Ring kernels: actors, their queues, their lives and their failures.

use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure, list};
use kiln_backend::Residency;
use kiln_lang::prelude::*;
use kiln_ring::{
    Actor, AskError, Ending, Handler, Lifecycle, Message, Overflow, Reason, RecvError, RingConfig, RingCtx,
    RingError, RingRuntime, Routing, RuntimeConfig, SendError, SendManyError, Sent, ring_kernel,
};
use kiln_runtime::{Error, Tensor};
use std::time::{Duration, Instant};

pub fn cases() -> Vec<Case> {
    cases!["actors":
        messages_are_answered_in_order;
        kinds_share_a_grid;
        deactivated_actors_hold_their_messages;
        failed_actors_are_restarted;
        faults_are_contained;
        full_queues;
        terminated_actors_finish_or_give_back;
        bursts_lose_nothing;
        launches_beside_a_grid;
        parked_grids_come_back;
        refused_while_a_graph_is_captured;
    ]
}

/// What has not come by then never comes, however busy the machine is.
pub(crate) const SOON: Duration = Duration::from_secs(20 * 60);
/// The default configuration for a machine that may be busy.
pub(crate) fn defaults() -> RuntimeConfig {
    RuntimeConfig { acknowledge_within: SOON, ..RuntimeConfig::default() }
}

/// Longer than a message takes.
pub const A_WHILE: Duration = Duration::from_millis(20);

impl From<RingError> for Stop {
    fn from(error: RingError) -> Stop {
        match error {
            RingError::Device(error) => Error::from(error).into(),
            RingError::Runtime(error) => (*error).into(),
            RingError::NoWarps { .. } => Stop::missing("workers that are warps"),
            other => Stop::wrong(other.to_string()),
        }
    }
}

macro_rules! wrong {
    ($($error:ty)*) => {$(
        impl From<$error> for Stop {
            fn from(error: $error) -> Stop {
                Stop::wrong(error.to_string())
            }
        }
    )*};
}
wrong! { SendError SendManyError RecvError AskError }

#[derive(Message, Debug, Clone, Copy, PartialEq)]
#[kiln(crate = kiln_ring)]
pub struct Ping {
    pub words: [u32; 12],
}

#[ring_kernel(crate = kiln_ring)]
pub fn echo(_ctx: &RingCtx, m: Ping) -> Ping {
    Ping { words: m.words.map(|word| word + 1) }
}

#[ring_kernel(crate = kiln_ring)]
pub fn running_sum(_ctx: &RingCtx, total: &mut u64, x: u32) -> u64 {
    *total += x.cast::<u64>();
    *total
}

#[ring_kernel(crate = kiln_ring)]
pub fn even_halves(_ctx: &RingCtx, x: u32) -> Result<Option<u32>, u32> {
    if x == 13 {
        return Err(77);
    }
    if x % 2 == 0 { Ok(Some(x / 2)) } else { Ok(None) }
}

#[ring_kernel(crate = kiln_ring)]
pub fn faulty(_ctx: &RingCtx, last: &mut u32, x: u32) -> u32 {
    *last = x;
    if x == 1 {
        device_assert!(x > 1, "one is refused: {}", x);
    }
    let ten = 10 / (x - 2);
    let mut n: Val<u32> = 0;
    // 3 never ends, and so many millions after as many milliseconds.
    let (begun, ms) = (clock_ns(), x / 1_000_000);
    while x.eq(3) | (clock_ns() - begun).lt(ms.cast::<u64>() * 1_000_000) {
        n += 1;
    }
    ten + n
}

/// Runtimes of the device: workers of one thread and of a warp, where it has a choice.
pub(crate) fn runtimes(trial: &Trial<'_>) -> Result<Vec<RingRuntime>, Stop> {
    let warps: &[bool] = trial.warps();
    let config = RuntimeConfig { step_budget: 500, spins: 64, ..defaults() };
    let runtime = |&warps: &bool| {
        let config = config.workers(2).endpoints_per_worker(8).warps(warps);
        Ok(RingRuntime::with(trial.device, config)?)
    };
    warps.iter().map(runtime).collect()
}

pub(crate) fn active<H: Handler>(
    rt: &RingRuntime,
    handler: H,
    config: RingConfig<H::State>,
) -> Result<Actor<H>, Stop> {
    let actor = rt.launch(handler, config)?;
    actor.activate()?;
    Ok(actor)
}

pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, want: T) -> Verdict {
    ensure(got == want, || format!("{what}: {got:?} instead of {want:?}"))
}

/// Lets the actors of a device go on for a while.
pub fn pause<H: Handler>(actor: &Actor<H>) {
    let begun = std::time::Instant::now();
    while begun.elapsed() < A_WHILE {
        // A device that runs within the host's waits goes on in them.
        actor.channel().tidy();
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn silent<H: Handler>(what: &str, actor: &Actor<H>) -> Verdict
where
    H::Reply: kiln_ring::Reply,
{
    let heard = actor.recv_timeout(A_WHILE);
    let silent = matches!(heard, Err(RecvError::TimedOut { .. } | RecvError::Failed { .. }));
    ensure(silent, || format!("{what}: there was a reply"))
}

fn messages_are_answered_in_order(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = active(&rt, echo, RingConfig::default().capacity(7))?;
        let messages: Vec<Ping> =
            list(0..50, |_| Ping { words: std::array::from_fn(|_| trial.rng.bits() as u32) });
        for group in messages.chunks(5) {
            for message in group {
                actor.send(*message)?;
            }
            for message in group {
                let want = message.words.map(|word| word.wrapping_add(1));
                same("reply", actor.recv_timeout(SOON)?.words, want)?;
            }
        }
        actor.terminate_with(Ending::Drain, SOON)?;
        same("lifecycle", actor.lifecycle(), Lifecycle::Terminated)?;
    }
    Ok(())
}

fn kinds_share_a_grid(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let begin = |k: u64| k * 1000 + (1 << 40);
        let sums = (0..5)
            .map(|k| active(&rt, running_sum, RingConfig::default().state(begin(k))))
            .collect::<Result<Vec<_>, _>>()?;
        let echoing = active(&rt, echo, RingConfig::default())?;
        for x in 1..=20u32 {
            for (k, sum) in (0..).zip(&sums) {
                same("sum", sum.ask(x)?, Some(begin(k) + u64::from(x * (x + 1) / 2)))?;
            }
        }
        same("echo", echoing.ask(Ping { words: [5; 12] })?, Some(Ping { words: [6; 12] }))?;
        same("state", sums[2].state()?, begin(2) + 210)?;
    }
    Ok(())
}

fn deactivated_actors_hold_their_messages(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = rt.launch(running_sum, RingConfig::default().state(0))?;
        actor.send(1)?;
        silent("before it is active", &actor)?;
        actor.activate()?;
        same("first", actor.recv_timeout(SOON)?, 1)?;
        actor.deactivate()?;
        actor.send(2)?;
        actor.send(3)?;
        silent("while it is deactivated", &actor)?;
        let refused = actor.activate();
        let legal = matches!(refused, Err(RingError::Illegal { is: Lifecycle::Deactivated, .. }));
        ensure(legal, || format!("activating a deactivated actor: {refused:?}"))?;
        actor.reactivate()?;
        same("second", actor.recv_timeout(SOON)?, 3)?;
        same("third", actor.recv_timeout(SOON)?, 6)?;
    }
    Ok(())
}

fn failed_actors_are_restarted(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = active(&rt, even_halves, RingConfig::default())?;
        for x in [4, 5, 13, 8] {
            actor.send(x)?;
        }
        same("before the failure", actor.recv_timeout(SOON)?, 2)?;
        silent("after the failure", &actor)?;
        same("lifecycle", actor.lifecycle(), Lifecycle::Failed)?;
        let letter = rt.dead_letters().pop().map(|letter| (letter.reason, letter.position));
        same("dead letter", letter, Some((Reason::Failed { cause: 1, number: 77 }, 2)))?;
        actor.restart()?;
        same("after the restart", actor.recv_timeout(SOON)?, 4)?;
    }
    Ok(())
}

/// Each kind of fault fails the actor that had it, says why, rolls its state back, and leaves the
/// others alone.
fn faults_are_contained(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let steady = active(&rt, running_sum, RingConfig::default().state(0))?;
        let cases = [(1, "one is refused"), (2, "division by zero"), (3, "more steps than its budget")];
        for (n, (x, why)) in (1..).zip(cases) {
            let actor = active(&rt, faulty, RingConfig::default().state(9))?;
            same("before", actor.ask(12)?, Some(1))?;
            let Err(AskError::Unhandled { reason, .. }) = actor.ask(x) else {
                return Err(Stop::wrong(format!("{x} was handled")));
            };
            let text = rt.explain(reason);
            ensure(text.contains(why), || format!("{x}: `{text}` does not say `{why}`"))?;
            same("state", actor.state()?, 12)?;
            same("the other", steady.ask(1)?, Some(n))?;
        }
    }
    Ok(())
}

fn full_queues(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let held = |overflow| -> Result<_, Stop> {
            let config = RingConfig::default().state(0).capacity(4).overflow(overflow);
            Ok(rt.launch(running_sum, config)?)
        };
        let (reject, newest, oldest) =
            (held(Overflow::Reject)?, held(Overflow::DropNewest)?, held(Overflow::DropOldest)?);
        for x in 1..=4 {
            reject.send(x)?;
            newest.send(x)?;
            oldest.send(x)?;
        }
        ensure(matches!(reject.send(5), Err(SendError::Full { .. })), || {
            "a full queue took a message".into()
        })?;
        same("drop newest", newest.send(5)?, Sent::Dropped)?;
        newest.activate()?;
        let sums = (0..4).map(|_| newest.recv_timeout(SOON)).collect::<Result<Vec<_>, _>>()?;
        same("what was kept", sums, vec![1, 3, 6, 10])?;
        // Also while it holds its messages: the first two make room.
        for x in 5..=6 {
            oldest.send(x)?;
        }
        same("dropped to make room", oldest.counts().dropped_oldest, 2)?;
        oldest.activate()?;
        let sums = (0..4).map(|_| oldest.recv_timeout(SOON)).collect::<Result<Vec<_>, _>>()?;
        same("what the oldest made room for", sums, vec![3, 7, 12, 18])?;
        same("rejected", reject.counts().rejected, 1)?;
        same("dropped", newest.counts().dropped_newest, 1)?;
    }
    Ok(())
}

fn terminated_actors_finish_or_give_back(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let (drained, discarded) = (
            active(&rt, running_sum, RingConfig::default().state(0))?,
            rt.launch(running_sum, RingConfig::default().state(0))?,
        );
        for x in 1..=10 {
            drained.send(x)?;
            discarded.send(x)?;
        }
        drained.terminate_with(Ending::Drain, SOON)?;
        discarded.terminate_with(Ending::Discard, SOON)?;
        let sums = (0..10).map(|_| drained.recv_timeout(SOON)).collect::<Result<Vec<_>, _>>()?;
        same("last sum", sums.last().copied(), Some(55))?;
        discarded.channel().tidy();
        same("given back", discarded.counts().undeliverable, 10)?;
        for x in 1..=10u32 {
            let letter = rt.dead_letters().pop().and_then(|letter| letter.decode::<u32>());
            same("letter", letter, Some(x))?;
        }
        ensure(matches!(drained.send(1), Err(SendError::Closed { .. })), || "it took a message".into())?;
        let again = drained.terminate();
        ensure(matches!(again, Err(RingError::Illegal { .. })), || format!("terminated twice: {again:?}"))?;
    }
    Ok(())
}

/// Bursts of random lengths to several actors at once: every reply once, in order.
fn bursts_lose_nothing(trial: &mut Trial<'_>) -> Verdict {
    let most = if trial.device.capabilities().is_interpreted() { 150 } else { 20_000 };
    for rt in runtimes(trial)? {
        let actors = (0..4)
            .map(|_| active(&rt, running_sum, RingConfig::default().state(0).capacity(33)))
            .collect::<Result<Vec<_>, _>>()?;
        let (mut sent, mut seen) = ([0u32; 4], [0u32; 4]);
        while seen.iter().any(|&seen| seen < most) {
            let k = trial.rng.below(4) as usize;
            let burst = trial.rng.below(33) as u32;
            for _ in 0..burst.min(33 - (sent[k] - seen[k])).min(most - sent[k]) {
                sent[k] += 1;
                actors[k].send(sent[k])?;
            }
            for _ in 0..trial.rng.below(40).min(u64::from(sent[k] - seen[k])) {
                seen[k] += 1;
                let want = u64::from(seen[k]) * u64::from(seen[k] + 1) / 2;
                same("sum", actors[k].recv_timeout(SOON)?, want)?;
            }
        }
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn doubled(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, block: usize) {
    let at = program_id(0) * block;
    y.tile(at, block).store(x.tile(at, block).load(0.0) * 2.0);
}

/// Kernels that are new are compiled, loaded and launched while a grid is there, which goes on
/// afterwards.
fn launches_beside_a_grid(trial: &mut Trial<'_>) -> Verdict {
    for (rt, block) in runtimes(trial)?.into_iter().zip([64, 128]) {
        let actor = active(&rt, running_sum, RingConfig::default().state(0))?;
        same("before", actor.ask(1)?, Some(1))?;
        let (x, data) = trial.input::<f32, 1>([1000])?;
        let mut y = trial.output::<f32, 1>([1000])?;
        doubled(&x, &mut y, block).launch(trial.device)?;
        let want: Vec<f32> = data.iter().map(|v| v * 2.0).collect();
        let got = y.to_vec()?;
        let equal =
            got.iter().zip(&want).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan());
        ensure(equal, || "a launch beside a grid was wrong".into())?;
        same("after", actor.ask(2)?, Some(3))?;
    }
    Ok(())
}

/// A graph holds no actors: what would start or change one during a capture is refused with its
/// line, and messages to those that run are handled at once.
fn refused_while_a_graph_is_captured(trial: &mut Trial<'_>) -> Verdict {
    let rt = RingRuntime::with(trial.device, defaults())?;
    let sum = active(&rt, running_sum, RingConfig::default().state(0))?;
    let idle = rt.launch(running_sum, RingConfig::default().state(0))?;
    let (graph, (refused, answer)) = trial.device.graph(|_| {
        let refused = [
            RingRuntime::with(trial.device, defaults()).map(drop),
            rt.launch(even_halves, RingConfig::default()).map(drop),
            rt.pool(running_sum, 2, Routing::RoundRobin, |_| RingConfig::default().state(0)).map(drop),
            idle.activate(),
            sum.deactivate(),
            sum.restart(),
            sum.checkpoint().map(drop),
            sum.replace(running_sum),
            rt.snapshot(&[&sum]).map(drop),
        ];
        Ok((refused, sum.ask(4)))
    })?;
    for (number, found) in refused.iter().enumerate() {
        let named = match found {
            Err(RingError::Runtime(error)) => {
                matches!(&**error, Error::Capture { location, .. } if location.file().ends_with("actors.rs"))
            }
            _ => false,
        };
        ensure(named, || format!("number {number} gave {found:?}"))?;
    }
    ensure(graph.is_empty(), || format!("{} nodes were recorded", graph.len()))?;
    same("during the capture", answer?, Some(4))?;
    idle.activate()?;
    same("after the capture", idle.ask(3)?, Some(3))?;
    same("the one that ran", sum.ask(1)?, Some(5))
}

/// A grid that has nothing to do leaves, and the next message, from whichever thread, brings it
/// back with all its states.
fn parked_grids_come_back(trial: &mut Trial<'_>) -> Verdict {
    let resides = trial.device.properties().residency == Residency::Beside;
    let config = defaults().workers(2).endpoints_per_worker(8);
    let rt = RingRuntime::with(trial.device, config.park_after(Some(Duration::from_millis(30))))?;
    let sums = [
        active(&rt, running_sum, RingConfig::default().state(0))?,
        active(&rt, running_sum, RingConfig::default().state(0))?,
    ];
    let leaves = |after: u64| {
        let begun = Instant::now();
        while resides && rt.parkings() <= after {
            ensure(begun.elapsed() < SOON, || format!("it did not leave again after {after} times"))?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok::<_, Stop>(())
    };
    leaves(0)?;
    for round in 1..=3u64 {
        // On a busy machine it may leave between two messages too.
        let before = rt.parkings();
        let got = std::thread::scope(|scope| {
            let both = sums.each_ref().map(|sum| scope.spawn(move || sum.channel().ask_timeout(&5, SOON)));
            both.map(|one| one.join())
        });
        for got in got {
            match got {
                Ok(sum) => same("sum", sum?, Some(5 * round))?,
                Err(_) => return Err(Stop::wrong("a thread panicked".to_owned())),
            }
        }
        leaves(before)?;
    }
    // Nothing but messages and commands brings it back: it comes to rest.
    let begun = Instant::now();
    loop {
        let before = rt.parkings();
        std::thread::sleep(Duration::from_millis(200));
        if rt.parkings() == before {
            break;
        }
        ensure(begun.elapsed() < SOON, || "it comes back by itself".to_owned())?;
    }
    // A command brings it back too.
    sums[0].deactivate()?;
    silent_but_held(&sums[0])
}

fn silent_but_held(actor: &Actor<running_sum>) -> Verdict {
    actor.send(1)?;
    silent("deactivated", actor)?;
    actor.reactivate()?;
    same("sum", actor.recv_timeout(SOON)?, 16)
}
