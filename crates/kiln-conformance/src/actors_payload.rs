//! Ring kernels: arrays that messages refer to.

use crate::actors::{SOON, active, runtimes, same};
use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, ensure, list};
use kiln_lang::prelude::*;
use kiln_ring::{
    AskError, Message, Payload, Reason, RingConfig, RingCtx, RingError, SendError, State, ring_kernel,
};

pub fn cases() -> Vec<Case> {
    cases!["payloads":
        arrays_are_summed;
        arrays_are_written_in_place;
        states_refer_to_arrays;
        arrays_live_until_the_answer;
        what_is_refused;
        an_index_outside_fails_the_actor;
    ]
}

#[derive(Message)]
#[kiln(crate = kiln_ring)]
struct Job {
    number: u32,
    values: Payload<f32>,
}

#[derive(Message, Debug, PartialEq)]
#[kiln(crate = kiln_ring)]
struct Sums {
    number: u32,
    len: u32,
    sum: f32,
    largest: f32,
    smallest: f32,
}

#[ring_kernel(crate = kiln_ring)]
fn sums(ctx: &RingCtx, job: Job) -> Sums {
    let values = ctx.array(&job.values);
    let (mut sum, mut largest, mut smallest) = (val(0.0f32), val(f32::MIN), val(f32::MAX));
    for i in ctx.share(values.len()) {
        let value = values.get(i);
        sum += value;
        largest = largest.maximum(value);
        smallest = smallest.minimum(value);
    }
    let (largest, smallest) = (ctx.max(largest), ctx.min(smallest));
    Sums { number: job.number, len: values.len(), sum: ctx.sum(sum), largest, smallest }
}

#[derive(Message, Clone)]
#[kiln(crate = kiln_ring)]
struct Scaling {
    by: u32,
    values: Payload<u32>,
}

/// Gives the array back that it has changed.
#[ring_kernel(crate = kiln_ring)]
fn scale(ctx: &RingCtx, m: Scaling) -> Payload<u32> {
    let values = ctx.array(&m.values);
    for i in ctx.share(values.len()) {
        values.set(i, values.get(i) * m.by + i);
    }
    m.values
}

#[derive(State)]
#[kiln(crate = kiln_ring)]
struct Weights {
    weights: Payload<i32>,
    seen: u32,
}

#[ring_kernel(crate = kiln_ring)]
fn weigh(ctx: &RingCtx, s: &mut Weights, x: i32) -> i32 {
    let weights = ctx.array(&s.weights);
    let mut sum: Val<i32> = 0;
    for i in ctx.share(weights.len()) {
        sum += weights.get(i) * x;
    }
    s.seen += 1;
    ctx.sum(sum)
}

#[ring_kernel(crate = kiln_ring)]
fn pick(ctx: &RingCtx, m: Scaling) -> u32 {
    ctx.array(&m.values).get(m.by)
}

/// Against sums in double precision: lengths around those of a warp, and none at all.
fn arrays_are_summed(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = active(&rt, sums, RingConfig::default())?;
        for len in [0, 1, 2, 31, 32, 33, 100, 457] {
            let data: Vec<f32> = list(0..len, |_| (trial.rng.bits() % 1000) as f32 / 1000.0 - 0.5);
            let job = Job { number: len as u32 + 7, values: rt.payload_of(&data)? };
            let got = actor.ask(job)?.ok_or_else(|| wrong("no reply"))?;
            let want: f64 = data.iter().map(|&x| f64::from(x)).sum();
            same("number", (got.number, got.len), (len as u32 + 7, len as u32))?;
            ensure((f64::from(got.sum) - want).abs() < 1e-4, || format!("{len}: {} for {want}", got.sum))?;
            same("largest", got.largest, data.iter().copied().fold(f32::MIN, f32::max))?;
            same("smallest", got.smallest, data.iter().copied().fold(f32::MAX, f32::min))?;
        }
    }
    Ok(())
}

fn wrong(what: &str) -> crate::trial::Stop {
    crate::trial::Stop::wrong(what.to_owned())
}

fn arrays_are_written_in_place(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = active(&rt, scale, RingConfig::default())?;
        for len in [1usize, 40, 129] {
            let data: Vec<u32> = list(0..len, |_| trial.rng.bits() as u32);
            let (values, beside) = (rt.payload_of(&data)?, rt.payload_of(&data)?);
            let back =
                actor.ask(Scaling { by: 3, values: values.clone() })?.ok_or_else(|| wrong("no reply"))?;
            let want: Vec<u32> = (0..).zip(&data).map(|(i, x)| x.wrapping_mul(3).wrapping_add(i)).collect();
            same("elements", values.to_vec()?, want.clone())?;
            same("elements of the array that came back", back.to_vec()?, want)?;
            same("another array", beside.to_vec()?, data)?;
        }
    }
    Ok(())
}

fn states_refer_to_arrays(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let weights: Vec<i32> = list(0..75, |_| trial.rng.bits() as i32 % 1000);
        // The state alone keeps the array.
        let state = Weights { weights: rt.payload_of(&weights)?, seen: 0 };
        let actor = active(&rt, weigh, RingConfig::default().state(state))?;
        let others = rt.payload_of(&[9i32; 300])?;
        for x in [3, -8] {
            same("sum", actor.ask(x)?, Some(weights.iter().sum::<i32>() * x))?;
        }
        same("messages", actor.state()?.seen, 2)?;
        drop(others);
    }
    Ok(())
}

/// Messages wait behind a gate, nothing else refers to their arrays, and others take all the memory
/// that is free.
fn arrays_live_until_the_answer(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = rt.launch(sums, RingConfig::default())?;
        for number in 0..6u32 {
            actor.send(Job { number, values: rt.payload_of(&[number as f32; 70])? })?;
        }
        let mut others = Vec::new();
        for _ in 0..6 {
            others.push(rt.payload_of(&[1e9f32; 70])?);
        }
        actor.activate()?;
        for number in 0..6u32 {
            let got = actor.recv_timeout(SOON)?;
            same("sum", (got.number, got.sum), (number, number as f32 * 70.0))?;
        }
        drop(others);
    }
    Ok(())
}

fn what_is_refused(trial: &mut Trial<'_>) -> Verdict {
    let all = runtimes(trial)?;
    let other = runtimes(trial)?;
    for (rt, other) in all.iter().zip(&other) {
        let actor = rt.launch(scale, RingConfig::default())?;
        let foreign = Scaling { by: 1, values: other.payload_of(&[1, 2])? };
        let refused = actor.send(foreign.clone());
        ensure(matches!(refused, Err(SendError::PayloadForeign { .. })), || format!("{refused:?}"))?;
        let weights = Weights { weights: other.payload_of(&[1])?, seen: 0 };
        let refused = rt.launch(weigh, RingConfig::default().state(weights)).map(drop);
        ensure(matches!(refused, Err(RingError::PayloadForeign)), || format!("{refused:?}"))?;

        let mut values = rt.payload_of(&[5, 6, 7])?;
        let refused = values.write(&[1, 2]);
        ensure(matches!(refused, Err(RingError::PayloadLength { len: 3, given: 2 })), || {
            format!("{refused:?}")
        })?;
        actor.send(Scaling { by: 1, values: values.clone() })?;
        let refused = values.write(&[1, 2, 3]);
        ensure(matches!(refused, Err(RingError::PayloadInUse)), || format!("{refused:?}"))?;
        actor.activate()?;
        let refused = actor.ask(foreign);
        ensure(matches!(refused, Err(AskError::Send(SendError::PayloadForeign { .. }))), || {
            format!("{refused:?}")
        })?;
        same("elements", actor.recv_timeout(SOON)?.to_vec()?, vec![5, 7, 9])?;
        // Once the answer is taken, nothing else refers to it.
        for round in 1..4 {
            values.write(&[round; 3])?;
            actor.ask(Scaling { by: 1, values: values.clone() })?;
            same("elements", values.to_vec()?, vec![round, round + 1, round + 2])?;
        }
        let refused = rt.payload::<u32>(1 << 30).map(drop);
        ensure(matches!(refused, Err(RingError::OutOfRegion { .. })), || format!("{refused:?}"))?;
    }
    Ok(())
}

fn an_index_outside_fails_the_actor(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = active(&rt, pick, RingConfig::default())?;
        let values = rt.payload_of(&[10, 20, 30])?;
        same("inside", actor.ask(Scaling { by: 2, values: values.clone() })?, Some(30))?;
        let outside = actor.ask(Scaling { by: 3, values });
        let Err(AskError::Unhandled { reason: reason @ Reason::Failed { .. }, .. }) = outside else {
            return Err(wrong(&format!("outside: {outside:?}")));
        };
        let why = rt.explain(reason);
        ensure(why.contains("of an array"), || why)?;
    }
    Ok(())
}
