//! Ring kernels: arrays that actors hand on to each other.

use crate::actors::{A_WHILE, SOON, active, defaults, pause, same, silent};
use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure, list};
use kiln_lang::prelude::*;
use kiln_ring::{
    Actor, Address, AskError, CheckpointError, Ending, Handler, Lifecycle, Message, Payload, Reason,
    RingConfig, RingCtx, RingError, RingRuntime, RuntimeConfig, State, ring_kernel,
};
use std::time::Instant;

pub fn cases() -> Vec<Case> {
    cases!["references":
        pipelines_hand_arrays_on;
        each_actor_sees_what_the_last_one_wrote;
        arrays_fan_out;
        topics_hand_arrays_to_all_subscribers;
        replies_hold_arrays;
        arrays_in_queues_are_nobody_elses;
        full_queues_count_once;
        failures_let_go;
        ended_actors_let_go;
        arrays_in_use_are_not_written;
        states_keep_their_arrays;
        what_is_gone_is_refused;
        what_is_elsewhere_is_refused;
        clusters_hand_arrays_on;
        runtimes_end_with_arrays_under_way;
    ]
}

/// An array on its way.
#[derive(Message, Clone)]
#[kiln(crate = kiln_ring)]
struct Block {
    number: u32,
    values: Payload<u32>,
}

#[derive(State, Clone, Copy)]
#[kiln(crate = kiln_ring)]
struct Filter {
    factor: u32,
    next: Address<Block>,
}

/// Changes the array in place, and hands it on.
#[ring_kernel(crate = kiln_ring)]
fn filter(ctx: &RingCtx, s: &mut Filter, m: Block) {
    let values = ctx.array(&m.values);
    for i in ctx.share(values.len()) {
        values.set(i, values.get(i) * s.factor + i);
    }
    ctx.send(&s.next, BlockVal { number: m.number + 1, values: m.values });
}

/// What an array came to.
#[derive(Message, Debug, PartialEq, Clone, Copy)]
#[kiln(crate = kiln_ring)]
struct Found {
    number: u32,
    len: u32,
    sum: u32,
    largest: u32,
}

#[ring_kernel(crate = kiln_ring)]
fn detect(ctx: &RingCtx, m: Block) -> Found {
    let values = ctx.array(&m.values);
    let (mut sum, mut largest) = (val(0u32), val(0u32));
    for i in ctx.share(values.len()) {
        sum += values.get(i);
        largest = largest.maximum(values.get(i));
    }
    Found { number: m.number, len: values.len(), sum: ctx.sum(sum), largest: ctx.max(largest) }
}

/// Adds one to all elements, and hands the array to the other, as often as the number says. The
/// last gives it back.
#[ring_kernel(crate = kiln_ring)]
fn bounce(ctx: &RingCtx, other: &mut Address<Block>, m: Block) -> Option<Block> {
    let values = ctx.array(&m.values);
    // Not those that this lane wrote before.
    for i in ctx.share(values.len()) {
        let mirrored = values.len() - 1 - i;
        values.set(mirrored, values.get(mirrored) + 1);
    }
    if m.number > 0 {
        ctx.send(other, BlockVal { number: m.number - 1, values: m.values });
        return None;
    }
    Some(m)
}

#[derive(State, Clone, Copy)]
#[kiln(crate = kiln_ring)]
struct Fan {
    all: [Address<Block>; 3],
}

/// Hands an array to three actors, to the last of them twice if its number is odd.
#[ring_kernel(crate = kiln_ring)]
fn fan_out(ctx: &RingCtx, s: &mut Fan, m: Block) {
    for (k, to) in s.all.iter().enumerate() {
        ctx.send(to, BlockVal { number: m.number + k as u32, values: m.values });
    }
    if m.number % 2 == 1 {
        ctx.send(&s.all[2], BlockVal { number: m.number + 3, values: m.values });
    }
}

/// Hands arrays on as they are.
#[ring_kernel(crate = kiln_ring)]
fn pass(ctx: &RingCtx, next: &mut Address<Block>, m: Block) {
    ctx.send(next, m);
}

/// As [`detect`], but it fails on every fourth number: by an error, or by an index outside.
#[ring_kernel(crate = kiln_ring)]
fn picky(ctx: &RingCtx, seen: &mut u32, m: Block) -> Result<Found, u32> {
    *seen += 1;
    let values = ctx.array(&m.values);
    if m.number % 8 == 7 {
        return Err(3);
    }
    let first = values.get(select(m.number % 8 == 3, values.len(), 0));
    Ok(Found { number: m.number, len: values.len(), sum: first, largest: first })
}

#[derive(State)]
#[kiln(crate = kiln_ring)]
struct Keeper {
    kept: Payload<u32>,
    next: Address<Block>,
}

/// Keeps the array of message 0, and hands on what it keeps for every other one.
#[ring_kernel(crate = kiln_ring)]
fn keep(ctx: &RingCtx, s: &mut Keeper, m: Block) -> u32 {
    if m.number == 0 {
        s.kept = m.values;
    } else {
        ctx.send(&s.next, BlockVal { number: m.number, values: s.kept });
    }
    m.number
}

/// Gives what it keeps to each asker.
#[ring_kernel(crate = kiln_ring)]
fn show(_ctx: &RingCtx, s: &mut Keeper, _x: u32) -> Payload<u32> {
    s.kept
}

#[ring_kernel(crate = kiln_ring)]
fn ask_for_it(ctx: &RingCtx, to: &mut Address<u32>, x: u32) {
    ctx.send(to, x);
}

/// Memory for arrays of some hundred words each: much less than a case makes in all.
const ARENA: usize = 1 << 17;

/// Runtimes with little memory, of which every array that is never given back takes its part.
fn runtimes(trial: &Trial<'_>) -> Result<Vec<RingRuntime>, Stop> {
    let warps: &[bool] = trial.warps();
    let config = RuntimeConfig { step_budget: 1 << 16, spins: 64, arena_bytes: ARENA, ..defaults() };
    let runtime = |&warps: &bool| {
        let config = config.workers(2).endpoints_per_worker(12).warps(warps);
        Ok(RingRuntime::with(trial.device, config)?)
    };
    warps.iter().map(runtime).collect()
}

/// One of those.
fn runtime(trial: &mut Trial<'_>) -> Result<RingRuntime, Stop> {
    let mut all = runtimes(trial)?;
    let one = trial.rng.bits() as usize % all.len();
    Ok(all.swap_remove(one))
}

/// How many words an array can have now.
fn room(rt: &RingRuntime) -> usize {
    let (mut fits, mut does_not) = (0, ARENA / 4);
    while does_not - fits > 1 {
        let middle = fits + (does_not - fits) / 2;
        if rt.payload::<u32>(middle).is_ok() { fits = middle } else { does_not = middle }
    }
    fits
}

fn data(trial: &mut Trial<'_>, len: usize) -> Vec<u32> {
    list(0..len, |_| trial.rng.bits() as u32)
}

/// What [`filter`] makes of an array.
fn filtered(data: &[u32], factor: u32) -> Vec<u32> {
    (0..).zip(data).map(|(i, x)| x.wrapping_mul(factor).wrapping_add(i)).collect()
}

/// What [`detect`] finds in an array.
fn found(number: u32, data: &[u32]) -> Found {
    let sum = data.iter().fold(0u32, |sum, x| sum.wrapping_add(*x));
    Found { number, len: data.len() as u32, sum, largest: data.iter().copied().max().unwrap_or(0) }
}

/// Waits until as much memory is free as before: what an actor had comes back when nothing refers
/// to it any more.
fn comes_back(rt: &RingRuntime, before: usize) -> Verdict {
    let begun = Instant::now();
    while room(rt) != before && begun.elapsed() < SOON {
        std::thread::sleep(A_WHILE);
    }
    same("room", room(rt), before)
}

/// Takes all memory that there is, and writes something else there.
fn poison(rt: &RingRuntime) -> Result<Vec<Payload<u32>>, Stop> {
    let mut taken = Vec::new();
    let mut words = ARENA / 4;
    while words > 0 {
        match rt.payload_of(&vec![0xdead_beef; words]) {
            Ok(payload) => taken.push(payload),
            Err(RingError::OutOfRegion { .. }) => words /= 2,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(taken)
}

/// An actor that holds its messages, and another that hands arrays on to it.
fn held_up<H: Handler<Message = Block>>(
    rt: &RingRuntime,
    handler: H,
    state: H::State,
    capacity: usize,
) -> Result<(Actor<H>, Actor<pass>), Stop> {
    let last = rt.launch(handler, RingConfig::default().state(state).capacity(32))?;
    let first = active(rt, pass, RingConfig::default().state(last.inbound_link(capacity)?).capacity(32))?;
    Ok((last, first))
}

/// Sends arrays of so many words with the numbers from 0, of which the host keeps no reference;
/// gives what was in them.
fn send_all(
    trial: &mut Trial<'_>,
    rt: &RingRuntime,
    to: &Actor<pass>,
    (count, len): (u32, usize),
) -> Result<Vec<Vec<u32>>, Stop> {
    (0..count)
        .map(|number| {
            let data = data(trial, len);
            same("reply", to.ask(Block { number, values: rt.payload_of(&data)? })?, None)?;
            Ok(data)
        })
        .collect()
}

/// Lengths around those of a warp, none at all, and one that takes a third of the memory or so.
const LENGTHS: [usize; 8] = [0, 1, 31, 32, 33, 457, 1000, 7001];

/// Two filters in a row, one of them on the worker of the host's actor: the actors alone have the
/// arrays.
fn pipelines_hand_arrays_on(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let last = active(&rt, detect, RingConfig::default().capacity(8))?;
        let stage = |factor, next| RingConfig::default().state(Filter { factor, next }).capacity(8);
        let second = active(&rt, filter, stage(5, last.inbound_link(4)?))?;
        let first = active(&rt, filter, stage(3, second.inbound_link(4)?))?;
        let before = room(&rt);
        for round in 0..24u32 {
            let data = data(trial, LENGTHS[round as usize % LENGTHS.len()]);
            first.send(Block { number: round, values: rt.payload_of(&data)? })?;
            let want = found(round + 2, &filtered(&filtered(&data, 3), 5));
            same("what was found", last.outputs().recv_timeout(SOON)?, want)?;
        }
        // The answers of the first are not received; it holds the arrays of what it was sent until
        // they are taken.
        comes_back(&rt, before)?;
        let refused = first.checkpoint();
        let named = |error: &RingError| {
            matches!(error, RingError::Checkpoint(CheckpointError::NotPortable { handler: "filter" }))
        };
        ensure(refused.as_ref().is_err_and(named), || format!("a checkpoint: {refused:?}"))?;
    }
    Ok(())
}

/// Hundreds of hops between workers, each of which reads what other lanes of the other worker wrote
/// last.
fn each_actor_sees_what_the_last_one_wrote(trial: &mut Trial<'_>) -> Verdict {
    let hops = if trial.device.capabilities().is_simt() { 2000 } else { 60 };
    for rt in runtimes(trial)? {
        let a = rt.launch(bounce, RingConfig::default().state(Address::none()))?;
        let b = rt.launch(bounce, RingConfig::default().state(a.inbound_link(4)?))?;
        a.set_state(b.inbound_link(4)?)?;
        a.activate()?;
        b.activate()?;
        let before = room(&rt);
        for (len, hops) in [(1, hops), (33, hops), (500, hops / 4), (4001, hops / 20)] {
            let data = data(trial, len);
            a.send(Block { number: 2 * hops + 1, values: rt.payload_of(&data)? })?;
            let last = b.outputs().recv_timeout(SOON)?;
            let want: Vec<u32> = data.iter().map(|x| x.wrapping_add(2 * hops + 2)).collect();
            same("elements", last.values.to_vec()?, want)?;
            drop(last);
            comes_back(&rt, before)?;
        }
    }
    Ok(())
}

fn arrays_fan_out(trial: &mut Trial<'_>) -> Verdict {
    let rt = runtime(trial)?;
    let ends = (0..3)
        .map(|_| active(&rt, detect, RingConfig::default().capacity(16)))
        .collect::<Result<Vec<_>, _>>()?;
    let all = [ends[0].inbound_link(8)?, ends[1].inbound_link(8)?, ends[2].inbound_link(8)?];
    let first = active(&rt, fan_out, RingConfig::default().state(Fan { all }).capacity(16))?;
    let before = room(&rt);
    for round in 0..16 {
        let data = data(trial, 300 + round as usize);
        first.send(Block { number: round, values: rt.payload_of(&data)? })?;
        for (k, end) in ends.iter().enumerate() {
            same("found", end.outputs().recv_timeout(SOON)?, found(round + k as u32, &data))?;
        }
        if round % 2 == 1 {
            same("again", ends[2].outputs().recv_timeout(SOON)?, found(round + 3, &data))?;
        }
    }
    comes_back(&rt, before)?;
    Ok(())
}

fn topics_hand_arrays_to_all_subscribers(trial: &mut Trial<'_>) -> Verdict {
    let rt = runtime(trial)?;
    let topic = rt.topic::<Block>();
    let publisher = active(&rt, pass, RingConfig::default().state(topic.publisher()?))?;
    // No actor receives it.
    send_all(trial, &rt, &publisher, (3, 200))?;
    let hearers = (0..3).map(|_| active(&rt, detect, RingConfig::default()));
    let mut hearers = hearers.collect::<Result<Vec<_>, _>>()?;
    for hearer in &hearers {
        topic.subscribe(hearer, 4)?;
    }
    let before = room(&rt);
    for number in 0..12 {
        let data = data(trial, 500);
        publisher.send(Block { number, values: rt.payload_of(&data)? })?;
        for hearer in &hearers {
            same("heard", hearer.outputs().recv_timeout(SOON)?, found(number, &data))?;
        }
    }
    comes_back(&rt, before)?;
    hearers.remove(1).terminate_with(Ending::Drain, SOON)?;
    let data = data(trial, 500);
    let values = rt.payload_of(&data)?;
    same("from the host", topic.publish(&Block { number: 9, values })?, 2)?;
    for hearer in &hearers {
        same("answer to the host", hearer.recv_timeout(SOON)?, found(9, &data))?;
    }
    Ok(())
}

/// Arrays that come back in outputs live as long as the outputs, and then as long as their
/// receivers keep them.
fn replies_hold_arrays(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let last = active(&rt, bounce, RingConfig::default().state(Address::none()).capacity(8))?;
        let first = active(&rt, pass, RingConfig::default().state(last.inbound_link(8)?).capacity(8))?;
        let before = room(&rt);
        for _ in 0..4 {
            let sent = [data(trial, 400), data(trial, 401), data(trial, 402)];
            for data in &sent {
                same("reply", first.ask(Block { number: 0, values: rt.payload_of(data)? })?, None)?;
            }
            // In the queue, or in outputs that were not taken.
            let others = poison(&rt)?;
            let mut kept = Vec::new();
            for _ in 0..3 {
                kept.push(last.outputs().recv_timeout(SOON)?);
            }
            for (block, data) in kept.iter().zip(&sent) {
                let want: Vec<u32> = data.iter().map(|x| x.wrapping_add(1)).collect();
                same("elements", block.values.to_vec()?, want)?;
            }
            drop(others);
            // What came back can be written, sent and handed on again.
            let mut again = kept.remove(1).values;
            again.write(&vec![7; 401])?;
            same("reply", first.ask(Block { number: 0, values: again.clone() })?, None)?;
            drop(last.outputs().recv_timeout(SOON)?);
            same("elements", again.to_vec()?, vec![8; 401])?;
            first.ask(Block { number: 0, values: Payload::clone(&again) })?;
            drop((again, kept));
            drop(last.outputs().recv_timeout(SOON)?);
            comes_back(&rt, before)?;
        }
        // Outputs that are not taken go with the actor.
        send_all(trial, &rt, &first, (3, 3000))?;
        last.terminate_with(Ending::Drain, SOON)?;
        ensure(room(&rt) < before, || "arrays of outputs that nobody took went before the actor".into())?;
        drop(last);
        let begun = Instant::now();
        while room(&rt) < before && begun.elapsed() < SOON {
            std::thread::sleep(A_WHILE);
        }
        ensure(room(&rt) >= before, || "outputs that nobody took keep their arrays".into())?;
    }
    Ok(())
}

/// Others take all memory that there is while arrays wait, and the grid leaves and comes back.
fn arrays_in_queues_are_nobody_elses(trial: &mut Trial<'_>) -> Verdict {
    let rt = runtime(trial)?;
    let (last, first) = held_up(&rt, detect, (), 8)?;
    let before = room(&rt);
    let sent = send_all(trial, &rt, &first, (6, 700))?;
    ensure(room(&rt) < before, || "arrays under way take no memory".into())?;
    let others = poison(&rt)?;
    // A handler that is new: it is compiled in, for which the grid leaves.
    first.replace(pass_on)?;
    last.activate()?;
    for (number, data) in (0..).zip(&sent) {
        same("found", last.outputs().recv_timeout(SOON)?, found(number, data))?;
    }
    drop(others);
    comes_back(&rt, before)?;
    Ok(())
}

/// As [`pass`].
#[ring_kernel(crate = kiln_ring)]
fn pass_on(ctx: &RingCtx, next: &mut Address<Block>, m: Block) {
    ctx.send(next, BlockVal { number: m.number, values: m.values });
}

/// A handler that finds no room runs again: what it would have handed on is counted when it goes.
fn full_queues_count_once(trial: &mut Trial<'_>) -> Verdict {
    let rt = runtime(trial)?;
    let (last, first) = held_up(&rt, detect, (), 2)?;
    let before = room(&rt);
    let sent: Vec<Vec<u32>> = list(0..9, |_| data(trial, 250));
    for (number, data) in (0..).zip(&sent) {
        first.send(Block { number, values: rt.payload_of(data)? })?;
    }
    pause(&first);
    same("held up", first.channel().unanswered(), 7)?;
    let others = poison(&rt)?;
    last.activate()?;
    for (number, data) in (0..).zip(&sent) {
        same("found", last.outputs().recv_timeout(SOON)?, found(number, data))?;
    }
    drop(others);
    comes_back(&rt, before)?;
    Ok(())
}

/// Messages on which a handler fails, by an error of its own or by a fault, and a restart between
/// them.
fn failures_let_go(trial: &mut Trial<'_>) -> Verdict {
    let rt = runtime(trial)?;
    let (last, first) = held_up(&rt, picky, 0, 16)?;
    last.activate()?;
    let before = room(&rt);
    let sent = send_all(trial, &rt, &first, (16, 150))?;
    let (mut failed, mut answered) = (0, 0);
    let begun = Instant::now();
    while failed + answered < 16 && begun.elapsed() < SOON {
        while let Ok(found) = last.outputs().try_recv() {
            same("first element", found.sum, sent[found.number as usize][0])?;
            answered += 1;
        }
        if last.lifecycle() == Lifecycle::Failed {
            failed += 1;
            last.restart()?;
        }
    }
    same("failed and answered", (failed, answered), (4, 12))?;
    // The last failure is an output too, whose turn comes when the outputs are read.
    ensure(last.outputs().try_recv().is_err(), || "there was one output too many".into())?;
    let letters = rt.dead_letters().drain();
    ensure(letters.len() == 4 && letters.iter().all(|l| matches!(l.reason, Reason::Failed { .. })), || {
        format!("{letters:?}")
    })?;
    comes_back(&rt, before)?;
    Ok(())
}

/// Messages that come back as dead letters, and those whose receiver has ended.
fn ended_actors_let_go(trial: &mut Trial<'_>) -> Verdict {
    let rt = runtime(trial)?;
    // The first of their kind stay compiled in, and have the reference-count table made.
    drop(held_up(&rt, detect, (), 8)?);
    let before = {
        let _ = rt.dead_letters().drain();
        comes_to_rest(&rt)?
    };
    let (last, first) = held_up(&rt, detect, (), 8)?;
    let sent = send_all(trial, &rt, &first, (5, 333))?;
    last.terminate_with(Ending::Discard, SOON)?;
    let letters = rt.dead_letters().drain();
    same("letters", letters.len(), sent.len())?;
    for (letter, number) in letters.iter().zip(0..) {
        same("reason", (letter.reason, letter.words[0]), (Reason::Undeliverable, number))?;
    }
    // To the null address.
    send_all(trial, &rt, &first, (4, 333))?;
    same("undelivered", first.undelivered()?, 4)?;
    drop((last, first));
    comes_back(&rt, before)?;
    Ok(())
}

/// What is free once it changes no more.
fn comes_to_rest(rt: &RingRuntime) -> Result<usize, Stop> {
    let mut last = room(rt);
    for _ in 0..3 {
        std::thread::sleep(A_WHILE);
        last = last.max(room(rt));
    }
    Ok(last)
}

fn arrays_in_use_are_not_written(trial: &mut Trial<'_>) -> Verdict {
    let rt = runtime(trial)?;
    let (last, first) = held_up(&rt, detect, (), 8)?;
    let mut values = rt.payload_of(&[1, 2, 3])?;
    same("reply", first.ask(Block { number: 0, values: values.clone() })?, None)?;
    for _ in 0..2 {
        let refused = values.write(&[4, 5, 6]);
        ensure(matches!(refused, Err(RingError::PayloadInUse)), || format!("{refused:?}"))?;
    }
    last.activate()?;
    same("found", last.outputs().recv_timeout(SOON)?, found(0, &[1, 2, 3]))?;
    for round in 1..6 {
        values.write(&[round; 3])?;
        // The answer of the first is not read until then.
        first.send(Block { number: round, values: values.clone() })?;
        same("found", last.outputs().recv_timeout(SOON)?, found(round, &[round; 3]))?;
        // It may answer after the last one.
        while first.channel().unanswered() > 0 {
            first.channel().tidy();
        }
    }
    Ok(())
}

/// The arrays of a state live with the actor, also of one that was set later, and can be handed on.
fn states_keep_their_arrays(trial: &mut Trial<'_>) -> Verdict {
    let rt = runtime(trial)?;
    let last = active(&rt, detect, RingConfig::default())?;
    let (one, two) = (data(trial, 90), data(trial, 91));
    let state = |data: &[u32]| -> Result<Keeper, Stop> {
        Ok(Keeper { kept: rt.payload_of(data)?, next: last.inbound_link(4)? })
    };
    let keeper = active(&rt, keep, RingConfig::default().state(state(&one)?))?;
    let others = poison(&rt)?;
    let nothing = || Block { number: 5, values: others[0].clone() };
    same("reply", keeper.ask(nothing())?, Some(5))?;
    same("found", last.outputs().recv_timeout(SOON)?, found(5, &one))?;
    drop(others);
    keeper.deactivate()?;
    keeper.set_state(state(&two)?)?;
    keeper.reactivate()?;
    let others = poison(&rt)?;
    same("reply", keeper.ask(Block { number: 6, values: others[0].clone() })?, Some(6))?;
    same("found", last.outputs().recv_timeout(SOON)?, found(6, &two))?;
    drop(others);
    // One that shows it to other actors.
    let third = data(trial, 92);
    let shows = active(&rt, show, RingConfig::default().state(state(&third)?))?;
    let asks = active(&rt, ask_for_it, RingConfig::default().state(shows.inbound_link(4)?))?;
    asks.send(0)?;
    let shown = shows.outputs().recv_timeout(SOON)?;
    drop((shows, asks));
    let others = poison(&rt)?;
    same("elements", shown.to_vec()?, third)?;
    drop(others);
    Ok(())
}

/// A reference that a handler kept, of which everybody else let go: it is not handed on, and
/// nothing is counted.
fn what_is_gone_is_refused(trial: &mut Trial<'_>) -> Verdict {
    let rt = runtime(trial)?;
    let last = active(&rt, detect, RingConfig::default())?;
    let state = Keeper { kept: rt.payload(1)?, next: last.inbound_link(4)? };
    let keeper = active(&rt, keep, RingConfig::default().state(state))?;
    let before = room(&rt);
    let data = data(trial, 900);
    let values = rt.payload_of(&data)?;
    same("kept", keeper.ask(Block { number: 0, values: values.clone() })?, Some(0))?;
    let nothing = rt.payload(0)?;
    same("handed on", keeper.ask(Block { number: 2, values: nothing.clone() })?, Some(2))?;
    same("found", last.outputs().recv_timeout(SOON)?, found(2, &data))?;
    drop(values);
    drop(poison(&rt)?);
    let refused = keeper.ask(Block { number: 3, values: nothing.clone() });
    let Err(AskError::Unhandled { reason, .. }) = refused else {
        return Err(Stop::wrong(format!("an array that is gone: {refused:?}")));
    };
    let why = rt.explain(reason);
    ensure(why.contains("not there any more"), || why)?;
    silent("what was refused", &last)?;
    drop(nothing);
    comes_back(&rt, before)?;
    Ok(())
}

/// Arrays lie in the memory of one runtime.
fn what_is_elsewhere_is_refused(trial: &mut Trial<'_>) -> Verdict {
    let (all, others) = (runtimes(trial)?, runtimes(trial)?);
    for (rt, other) in all.iter().zip(&others) {
        let last = rt.launch(detect, RingConfig::default())?;
        let refused = last.inbound_link_from(other, 4);
        let named = matches!(&refused, Err(RingError::PayloadAcross { handler: "detect" }));
        ensure(named, || format!("an inbound link: {refused:?}"))?;
        let keeper = rt.launch(
            keep,
            RingConfig::default().state(Keeper { kept: rt.payload(1)?, next: last.inbound_link(4)? }),
        )?;
        let refused = keeper.set_state(Keeper { kept: other.payload(1)?, next: Address::none() });
        ensure(matches!(refused, Err(RingError::PayloadForeign)), || format!("a state: {refused:?}"))?;
    }
    Ok(())
}

/// Through queues in shared memory, where there are any.
fn clusters_hand_arrays_on(trial: &mut Trial<'_>) -> Verdict {
    let warps = trial.warps() == [true];
    let config = RuntimeConfig { step_budget: 1 << 16, spins: 64, ..defaults() };
    let config = config.workers(2).endpoints_per_worker(12).warps(warps).clusters_of(2);
    let rt = match RingRuntime::with(trial.device, config) {
        Err(RingError::NoClusters { .. }) => return Ok(()),
        other => other?,
    };
    let a = rt.launch(bounce, RingConfig::default().state(Address::none()))?;
    let b = rt.launch(bounce, RingConfig::default().state(a.inbound_link_in_cluster(4)?).beside(&a))?;
    a.set_state(b.inbound_link_in_cluster(4)?)?;
    a.activate()?;
    b.activate()?;
    for len in [1, 33, 700] {
        let data = data(trial, len);
        a.send(Block { number: 101, values: rt.payload_of(&data)? })?;
        let last = b.outputs().recv_timeout(SOON)?;
        let want: Vec<u32> = data.iter().map(|x| x.wrapping_add(102)).collect();
        same("elements", last.values.to_vec()?, want)?;
    }
    Ok(())
}

/// The host goes away from arrays that wait in queues and outputs; what it holds of them outlives
/// the actors.
fn runtimes_end_with_arrays_under_way(trial: &mut Trial<'_>) -> Verdict {
    let rt = runtime(trial)?;
    let (last, first) = held_up(&rt, bounce, Address::none(), 8)?;
    send_all(trial, &rt, &first, (3, 60))?;
    last.activate()?;
    let taken = last.outputs().recv_timeout(SOON)?;
    last.deactivate()?;
    send_all(trial, &rt, &first, (3, 60))?;
    drop((last, first, rt));
    same("elements", taken.values.len(), taken.values.to_vec()?.len())?;
    Ok(())
}
