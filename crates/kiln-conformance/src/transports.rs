//! Transports: the ways of messages to a device and back, each that the device has.

use crate::actors::{Ping, SOON, active, defaults, echo, faulty, running_sum, same};
use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure, list};
use kiln_ring::{
    AskError, Ending, Overflow, Payload, RingConfig, RingCtx, RingError, RingRuntime, RuntimeConfig,
    SendOptions, Transport, ring_kernel,
};

pub fn cases() -> Vec<Case> {
    cases!["transports":
        messages_of_all_sizes_come_back;
        queues_and_lives_are_the_same;
        actors_send_to_each_other;
        checkpoints_read_what_is_under_way;
        what_is_not_there_is_refused;
    ]
}

/// Runtimes of each transport that the device has.
fn runtimes(trial: &Trial<'_>) -> Result<Vec<RingRuntime>, Stop> {
    let config = RuntimeConfig { step_budget: 500, spins: 64, ..defaults() };
    let mut runtimes = Vec::new();
    for transport in Transport::ALL {
        let config = config.workers(2).endpoints_per_worker(8).transport(transport);
        for &warps in trial.warps() {
            match RingRuntime::with(trial.device, config.warps(warps)) {
                Ok(runtime) => {
                    same("transport", runtime.transport(), transport)?;
                    runtimes.push(runtime);
                }
                Err(RingError::NoTransport { .. }) if transport == Transport::Bar => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(runtimes)
}

#[ring_kernel(crate = kiln_ring)]
fn short(_ctx: &RingCtx, m: u32) -> u32 {
    m + 1
}

#[ring_kernel(crate = kiln_ring)]
fn long(_ctx: &RingCtx, m: [u32; 29]) -> [u32; 29] {
    m.map(|word| word + 1)
}

/// Many laps of small rings, with and without deadlines, one by one and many at once.
fn messages_of_all_sizes_come_back(trial: &mut Trial<'_>) -> Verdict {
    let rounds = if trial.device.capabilities().is_interpreted() { 5 } else { 50 };
    for rt in runtimes(trial)? {
        for deadlines in [false, true] {
            let config = || RingConfig::default().capacity(8).deadlines(deadlines);
            let (small, large) = (active(&rt, short, config())?, active(&rt, long, config())?);
            for round in 0..rounds {
                let numbers: Vec<u32> = list(0..8, |i| round * 8 + i);
                let words = |x: u32| std::array::from_fn::<u32, 29, _>(|i| x * 1000 + i as u32);
                let lines: Vec<[u32; 29]> = numbers.iter().map(|x| words(*x)).collect();
                small.send_many(&numbers)?;
                large.send_many(&lines)?;
                for x in &numbers {
                    same("small", small.recv_timeout(SOON)?, x + 1)?;
                    same("large", large.recv_timeout(SOON)?, words(*x).map(|word| word + 1))?;
                }
                same("asked", large.ask(words(round))?, Some(words(round).map(|word| word + 1)))?;
            }
            small.terminate_with(Ending::Drain, SOON)?;
            large.terminate_with(Ending::Drain, SOON)?;
        }
    }
    Ok(())
}

fn queues_and_lives_are_the_same(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let config = RingConfig::default().state(0).capacity(4).priorities(2).overflow(Overflow::DropOldest);
        let actor = rt.launch(running_sum, config)?;
        for x in 1..=5 {
            actor.send(x)?;
        }
        actor.send_with(100, SendOptions::default().priority(1))?;
        actor.activate()?;
        let sums = (0..4).map(|_| actor.recv_timeout(SOON)).collect::<Result<Vec<_>, _>>()?;
        same("sums", sums, vec![100, 103, 107, 112])?;
        actor.deactivate()?;
        actor.send(8)?;
        actor.reactivate()?;
        same("held", actor.recv_timeout(SOON)?, 120)?;
        let told = rt.telemetry()?;
        same("told", (told.transport, told.actors.len()), (rt.transport(), 1))?;
        let line = format!("transport=\"{}\"}} 1", rt.transport());
        ensure(told.to_prometheus().contains(&line), || format!("`{line}` is not published"))?;
        let fails = active(&rt, faulty, RingConfig::default().state(9))?;
        same("before", fails.ask(12)?, Some(1))?;
        let failed = fails.ask(2);
        ensure(matches!(failed, Err(AskError::Unhandled { .. })), || format!("{failed:?}"))?;
        fails.restart()?;
        same("after", fails.ask(12)?, Some(1))?;
    }
    Ok(())
}

#[ring_kernel(crate = kiln_ring)]
fn passed_on(ctx: &RingCtx, next: &mut kiln_ring::Address<u32>, x: u32) {
    ctx.send(next, x + 1);
}

#[ring_kernel(crate = kiln_ring)]
fn first_of(ctx: &RingCtx, values: Payload<u32>) -> u32 {
    ctx.array(&values).get(0)
}

/// Links lie in device memory and are the same for all transports; outputs are not.
fn actors_send_to_each_other(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let last = active(&rt, running_sum, RingConfig::default().state(0))?;
        let first = active(&rt, passed_on, RingConfig::default().state(last.inbound_link(8)?))?;
        let mut sum = 0;
        for x in 0..40 {
            first.send(x)?;
            sum += u64::from(x) + 1;
            same("sum", last.outputs().recv_timeout(SOON)?, sum)?;
        }
        let array = active(&rt, first_of, RingConfig::default())?;
        same("by reference", array.ask(rt.payload_of(&[77u32])?)?, Some(77))?;
    }
    Ok(())
}

fn checkpoints_read_what_is_under_way(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = rt.launch(echo, RingConfig::default().deadlines(true))?;
        let ping = |x: u32| Ping { words: [x; 12] };
        for x in 0..3 {
            actor.send(ping(x))?;
        }
        let taken = actor.checkpoint()?;
        let restored = rt.restore(echo, RingConfig::default(), &taken)?;
        restored.activate()?;
        for x in 0..3 {
            same("restored", restored.recv_timeout(SOON)?, ping(x + 1))?;
        }
    }
    Ok(())
}

fn what_is_not_there_is_refused(trial: &mut Trial<'_>) -> Verdict {
    let chosen = RingRuntime::new(trial.device)?;
    let choice = chosen.transport_choice();
    same("chosen", choice.transport, chosen.transport())?;
    ensure(choice.transport != Transport::Auto && !choice.why.is_empty(), || format!("{choice:?}"))?;
    if trial.device.capabilities().on_host {
        same("chosen", choice.transport, Transport::Pinned)?;
        let refused = RingRuntime::with(trial.device, defaults().transport(Transport::Bar));
        let text = refused.map(drop).map_err(|error| error.to_string());
        ensure(text.as_ref().is_err_and(|text| text.contains("not bar: ")), || format!("{text:?}"))?;
    }
    Ok(())
}
