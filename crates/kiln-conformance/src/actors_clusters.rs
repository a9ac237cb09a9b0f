//! Ring kernels: queues in the shared memory of a cluster.

use crate::actors::{SOON, active, defaults, pause, same};
use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure, list};
use kiln_ring::{
    Actor, Address, Ending, Handler, Inline, Lifecycle, Message, RingConfig, RingCtx, RingError, RingRuntime,
    RuntimeConfig, State, ring_kernel,
};
use std::time::Instant;

pub fn cases() -> Vec<Case> {
    cases!["actors_in_clusters":
        pipelines_keep_order;
        messages_survive_that_the_grid_leaves;
        full_queues_survive_that_the_grid_leaves;
        circles;
        failures_stay_where_they_are;
        what_a_cluster_does_not_reach;
        memory_is_used_again;
        what_there_is_none_of_is_refused;
    ]
}

/// A message of more than a quad.
#[derive(Message, Debug, Clone, Copy, PartialEq)]
#[kiln(crate = kiln_ring)]
struct Step {
    value: u32,
    words: [u32; 9],
}

#[derive(State, Clone, Copy)]
#[kiln(crate = kiln_ring)]
struct Stage {
    next: Address<Step>,
}

/// Makes a message of a number.
#[ring_kernel(crate = kiln_ring)]
fn emit(ctx: &RingCtx, s: &mut Stage, x: u32) {
    ctx.send(&s.next, StepVal { value: x, words: std::array::from_fn(|i| x * (i as u32 + 2)) });
}

/// Passes messages on; fails on 13.
#[ring_kernel(crate = kiln_ring)]
fn pass(ctx: &RingCtx, s: &mut Stage, m: Step) -> Result<(), u32> {
    if m.value == 13 {
        return Err(4);
    }
    ctx.send(&s.next, StepVal { value: m.value, words: m.words.map(|word| word + 1) });
    Ok(())
}

/// Says what came, and how many there were.
#[ring_kernel(crate = kiln_ring)]
fn collect(_ctx: &RingCtx, seen: &mut u32, m: Step) -> [u32; 11] {
    *seen += 1;
    std::array::from_fn(|i| match i {
        0 => m.value,
        10 => *seen,
        _ => m.words[i - 1],
    })
}

/// A number less one to the other, until it is 0.
#[ring_kernel(crate = kiln_ring)]
fn countdown(ctx: &RingCtx, other: &mut Address<u32>, x: u32) -> Option<u32> {
    if x > 0 {
        ctx.send(other, x - 1);
        return None;
    }
    Some(7)
}

#[ring_kernel(crate = kiln_ring)]
fn negate(_ctx: &RingCtx, x: u32) -> u32 {
    !x
}

#[ring_kernel(crate = kiln_ring)]
fn first_of(ctx: &RingCtx, m: Inline<u32, 40>) -> u32 {
    ctx.array(&m).get(0)
}

fn config() -> RuntimeConfig {
    // Little of it: the interpreter copies it back and forth whenever the host waits.
    let config = RuntimeConfig { step_budget: 500, spins: 64, cluster_bytes: 1 << 10, ..defaults() };
    config.clusters_of(2).workers(4).endpoints_per_worker(8)
}

/// Runtimes with two clusters of two workers, of one thread and of a warp; none where a device has
/// no clusters, which it must say.
pub(crate) fn runtimes(trial: &Trial<'_>) -> Result<Vec<RingRuntime>, Stop> {
    let properties = trial.device.properties();
    if !properties.capabilities.has_clusters() {
        let refused = RingRuntime::with(trial.device, config()).err();
        let named = matches!(refused, Some(RingError::NoClusters { .. }));
        ensure(named, || format!("clusters on {} gave {refused:?}", properties.id))?;
        return Ok(Vec::new());
    }
    let warps = trial.warps();
    let runtime = |&warps: &bool| Ok(RingRuntime::with(trial.device, config().warps(warps))?);
    warps.iter().map(runtime).collect()
}

fn stage(next: Address<Step>) -> RingConfig<Stage> {
    RingConfig::default().state(Stage { next }).capacity(64)
}

/// What `collect` says of a number that came through so many stages, as the nth.
fn collected(x: u32, stages: u32, seen: u32) -> [u32; 11] {
    std::array::from_fn(|i| match i {
        0 => x,
        10 => seen,
        _ => x.wrapping_mul(i as u32 + 1).wrapping_add(stages),
    })
}

fn feed<H: Handler<Message = u32>>(actor: &Actor<H>, messages: impl IntoIterator<Item = u32>) -> Verdict {
    messages.into_iter().try_for_each(|x| actor.send(x).map(drop)).map_err(Stop::from)
}

/// Waits until an actor has so many messages left.
fn settles<H: Handler>(actor: &Actor<H>, left: u64) -> Verdict {
    let begun = Instant::now();
    while actor.channel().unanswered() != left && begun.elapsed() < SOON {
        // Lets a device go on that does not run by itself.
        actor.channel().tidy();
    }
    pause(actor);
    same("left", actor.channel().unanswered(), left)
}

fn ends(sink: &Actor<collect>) -> Verdict {
    ensure(sink.outputs().try_recv().is_err(), || "there was one message too many".into())
}

/// A sink, something that passes on and a source in one cluster, with queues that are full now and
/// then.
fn pipelines_keep_order(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let sink = active(&rt, collect, RingConfig::default().state(0).capacity(8))?;
        let middle = active(&rt, pass, stage(sink.inbound_link_in_cluster(4)?).beside(&sink))?;
        let source = active(&rt, emit, stage(middle.inbound_link_in_cluster(2)?).beside(&sink))?;
        let numbers: Vec<u32> = list(0..30, |n| 100 + 7 * n);
        for (group, numbers) in numbers.chunks(10).enumerate() {
            feed(&source, numbers.iter().copied())?;
            for (n, &x) in numbers.iter().enumerate() {
                let got = sink.outputs().recv_timeout(SOON)?;
                same("message", got, collected(x, 1, (10 * group + n + 1) as u32))?;
            }
        }
        ends(&sink)?;
        source.terminate_with(Ending::Drain, SOON)?;
        middle.terminate_with(Ending::Drain, SOON)?;
        sink.terminate_with(Ending::Drain, SOON)?;
    }
    Ok(())
}

/// Messages that lie in shared memory when the grid makes room for another kind of actor.
fn messages_survive_that_the_grid_leaves(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let sink = rt.launch(collect, RingConfig::default().state(0).capacity(64))?;
        let middle = rt.launch(pass, stage(sink.inbound_link_in_cluster(8)?).beside(&sink))?;
        let source = active(&rt, emit, stage(middle.inbound_link_in_cluster(8)?).beside(&sink))?;
        feed(&source, 20..25)?;
        settles(&source, 0)?;
        // It is compiled in, and the grid comes back.
        let other = active(&rt, negate, RingConfig::default())?;
        same("another actor", other.ask(5)?, Some(!5))?;
        middle.activate()?;
        feed(&source, 25..28)?;
        settles(&source, 0)?;
        let another = active(&rt, countdown, RingConfig::default().state(Address::none()))?;
        same("another actor", another.ask(0)?, Some(7))?;
        sink.activate()?;
        for (n, x) in (20..28).enumerate() {
            same("message", sink.outputs().recv_timeout(SOON)?, collected(x, 1, n as u32 + 1))?;
        }
        ends(&sink)?;
    }
    Ok(())
}

/// The same where the queue is full and its sender waits.
fn full_queues_survive_that_the_grid_leaves(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let sink = rt.launch(collect, RingConfig::default().state(0).capacity(64))?;
        let source = active(&rt, emit, stage(sink.inbound_link_in_cluster(2)?).beside(&sink))?;
        feed(&source, 0..20)?;
        settles(&source, 18)?;
        let other = active(&rt, negate, RingConfig::default())?;
        same("another actor", other.ask(1)?, Some(!1))?;
        settles(&source, 18)?;
        sink.activate()?;
        for x in 0..20 {
            same("message", sink.outputs().recv_timeout(SOON)?, collected(x, 0, x + 1))?;
        }
        ends(&sink)?;
        settles(&source, 0)?;
    }
    Ok(())
}

fn circles(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let none = || RingConfig::default().state(Address::none()).capacity(64);
        let a = rt.launch(countdown, none())?;
        let b = rt.launch(countdown, none().state(a.inbound_link_in_cluster(2)?).beside(&a))?;
        a.set_state(b.inbound_link_in_cluster(2)?)?;
        a.activate()?;
        b.activate()?;
        for x in [11, 16] {
            feed(&a, [x])?;
            let last = if x % 2 == 1 { &b } else { &a };
            same("the last", last.outputs().recv_timeout(SOON)?, 7)?;
        }
        // One that sends to itself.
        let own = rt.launch(countdown, none())?;
        own.set_state(own.inbound_link_in_cluster(2)?)?;
        own.activate()?;
        feed(&own, [9])?;
        same("to itself", own.outputs().recv_timeout(SOON)?, 7)?;
    }
    Ok(())
}

fn failures_stay_where_they_are(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let sink = active(&rt, collect, RingConfig::default().state(0).capacity(64))?;
        let middle = active(&rt, pass, stage(sink.inbound_link_in_cluster(4)?).beside(&sink))?;
        let source = active(&rt, emit, stage(middle.inbound_link_in_cluster(8)?).beside(&sink))?;
        feed(&source, [1, 13, 3, 4])?;
        same("before", sink.outputs().recv_timeout(SOON)?, collected(1, 1, 1))?;
        let begun = Instant::now();
        while middle.lifecycle() != Lifecycle::Failed {
            ensure(begun.elapsed() < SOON, || format!("the actor is {}", middle.lifecycle()))?;
            middle.channel().tidy();
        }
        same("source", source.lifecycle(), Lifecycle::Active)?;
        middle.restart()?;
        for (n, x) in [3, 4].into_iter().enumerate() {
            same("after", sink.outputs().recv_timeout(SOON)?, collected(x, 1, n as u32 + 2))?;
        }
        ends(&sink)?;
    }
    Ok(())
}

/// A sender of another cluster, and a second one of this.
fn what_a_cluster_does_not_reach(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let fails = |actor: &Actor<emit>, why: &str| -> Verdict {
            actor.send(1)?;
            let begun = Instant::now();
            let letter = loop {
                actor.channel().tidy();
                if let Some(letter) = rt.dead_letters().pop() {
                    break letter;
                }
                ensure(begun.elapsed() < SOON, || format!("a message was sent: not `{why}`"))?;
            };
            let text = rt.explain(letter.reason);
            ensure(text.contains(why), || format!("`{text}` does not say `{why}`"))
        };
        let sink = active(&rt, collect, RingConfig::default().state(0).capacity(64))?;
        let address = sink.inbound_link_in_cluster(8)?;
        // The first takes the other worker of the cluster, the next one of the other cluster, where
        // there are fewer actors.
        let near = active(&rt, emit, stage(Address::none()))?;
        let far = active(&rt, emit, stage(address))?;
        fails(&far, "shared memory of another cluster")?;
        near.deactivate()?;
        near.set_state(Stage { next: address })?;
        near.reactivate()?;
        near.send(2)?;
        same("from the cluster", sink.outputs().recv_timeout(SOON)?, collected(2, 0, 1))?;
        let second = active(&rt, emit, stage(address).beside(&sink))?;
        fails(&second, "another actor sends to")?;
        ends(&sink)?;
        let inline = rt.launch(first_of, RingConfig::default())?.inbound_link_in_cluster(2);
        ensure(matches!(inline, Err(RingError::InlineInCluster { .. })), || format!("{inline:?}"))?;
    }
    Ok(())
}

/// A worker's memory is given back with the actor, and what lay there is not taken for messages.
fn memory_is_used_again(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        for _ in 0..2 {
            let sink = active(&rt, collect, RingConfig::default().state(0).capacity(64))?;
            // 1 KiB: two queues of 8 slots of 64 bytes.
            let address = sink.inbound_link_in_cluster(8)?;
            let half = sink.inbound_link_in_cluster(8)?;
            let full = sink.inbound_link_in_cluster(1);
            let named = matches!(&full, Err(error @ RingError::OutOfRegion { .. }) if error.to_string().contains("cluster"));
            ensure(named, || format!("a third queue gave {full:?}"))?;
            let source = active(&rt, emit, stage(address).beside(&sink))?;
            let other = active(&rt, emit, stage(half).beside(&sink))?;
            feed(&source, 0..3)?;
            for x in 0..3 {
                same("message", sink.outputs().recv_timeout(SOON)?, collected(x, 0, x + 1))?;
            }
            feed(&other, [9])?;
            same("message", sink.outputs().recv_timeout(SOON)?, collected(9, 0, 4))?;
            ends(&sink)?;
            source.terminate_with(Ending::Drain, SOON)?;
            other.terminate_with(Ending::Drain, SOON)?;
            sink.terminate_with(Ending::Drain, SOON)?;
        }
    }
    Ok(())
}

fn what_there_is_none_of_is_refused(trial: &mut Trial<'_>) -> Verdict {
    let plain = defaults().workers(1).endpoints_per_worker(8);
    let rt = RingRuntime::with(trial.device, plain)?;
    let actor = rt.launch(negate, RingConfig::default())?;
    let refused = actor.inbound_link_in_cluster(4);
    ensure(matches!(refused, Err(RingError::NoClusters { .. })), || format!("{refused:?}"))?;
    for size in [0, 3, 16] {
        let refused = RingRuntime::with(trial.device, config().clusters_of(size)).err();
        ensure(matches!(refused, Some(RingError::ClusterSize { .. })), || format!("{size}: {refused:?}"))?;
    }
    Ok(())
}
