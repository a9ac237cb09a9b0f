//! Ring kernels: arrays that lie in messages, replies and states themselves.

use crate::actors::{SOON, active, defaults, runtimes, same};
use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, ensure, list};
use kiln_lang::prelude::*;
use kiln_ring::{
    Address, AskError, Ending, Inline, Message, Payload, Reason, RingConfig, RingCtx, RingRuntime, State,
    ring_kernel,
};

pub fn cases() -> Vec<Case> {
    cases!["inline":
        messages_of_64_kib;
        arrays_come_back;
        arrays_of_payloads_come_back;
        states_hold_arrays;
        arrays_are_sent_on;
        what_is_not_handled_comes_back;
        what_fails_the_actor;
        arrays_change_once_under_back_pressure;
    ]
}

const LONG: usize = 16 * 1024 - 2;

#[derive(Message)]
#[kiln(crate = kiln_ring)]
struct Long {
    first: u32,
    values: Inline<u32, LONG>,
    last: u32,
}

/// What depends on every word and its place.
#[ring_kernel(crate = kiln_ring)]
fn digest(ctx: &RingCtx, m: Long) -> [u32; 2] {
    let values = ctx.array(&m.values);
    let mut sum: Val<u32> = 0;
    for i in ctx.share(values.len()) {
        sum += values.get(i) * (i * 2 + 1);
    }
    [ctx.sum(sum), m.first - m.last]
}

/// The longest message there can be, several on their way, each as it was sent.
fn messages_of_64_kib(trial: &mut Trial<'_>) -> Verdict {
    let warps: &[bool] = trial.warps();
    for &warps in warps {
        let config = defaults().workers(1).warps(warps);
        let rt = RingRuntime::with(trial.device, config)?;
        let actor = active(&rt, digest, RingConfig::default().capacity(2))?;
        for _ in 0..2 {
            let messages: Vec<[Vec<u32>; 2]> = list(0..2, |_| {
                let ends = list(0..2, |_| trial.rng.bits() as u32);
                [ends, list(0..LONG, |_| trial.rng.bits() as u32)]
            });
            for [ends, values] in &messages {
                let values = Inline::from_fn(|i| values[i]);
                actor.send(Long { first: ends[0], values, last: ends[1] })?;
            }
            for [ends, values] in &messages {
                let weighted = (0u32..).zip(values).map(|(i, x)| x.wrapping_mul(i * 2 + 1));
                let want = [weighted.fold(0, u32::wrapping_add), ends[0].wrapping_sub(ends[1])];
                same("the digest", actor.recv_timeout(SOON)?, want)?;
            }
        }
    }
    Ok(())
}

#[derive(Message, Debug, Clone, PartialEq)]
#[kiln(crate = kiln_ring)]
struct Parcel {
    id: u32,
    floats: Inline<f32, 5>,
    numbers: Inline<i32, 70>,
    wide: u64,
    words: Inline<u32, 2>,
}

/// The same in another order.
#[derive(Message, Debug, PartialEq)]
#[kiln(crate = kiln_ring)]
struct Reordered {
    words: Inline<u32, 2>,
    wide: u64,
    numbers: Inline<i32, 70>,
    again: Inline<i32, 70>,
    floats: Inline<f32, 5>,
    id: u32,
}

#[ring_kernel(crate = kiln_ring)]
fn reorder(_ctx: &RingCtx, m: Parcel) -> Option<Reordered> {
    if m.id % 3 == 0 {
        return None;
    }
    Some(Reordered {
        words: m.words,
        wide: m.wide,
        numbers: m.numbers,
        again: m.numbers,
        floats: m.floats,
        id: m.id,
    })
}

fn parcel(trial: &mut Trial<'_>, id: u32) -> Parcel {
    let mut bits = || trial.rng.bits();
    Parcel {
        id,
        floats: Inline::from_fn(|_| (bits() % 1000) as f32 / 8.0),
        numbers: Inline::from_fn(|_| bits() as i32),
        wide: bits(),
        words: Inline::from_fn(|_| bits() as u32),
    }
}

/// Arrays at odd places, with and without a place for deadlines.
fn arrays_come_back(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        for deadlines in [false, true] {
            let config = RingConfig::default().capacity(3).deadlines(deadlines);
            let actor = active(&rt, reorder, config)?;
            for id in 0..8 {
                let m = parcel(trial, id);
                let want = (id % 3 != 0).then(|| {
                    let Parcel { id, floats, numbers, wide, words } = m.clone();
                    Reordered { words, wide, again: numbers.clone(), numbers, floats, id }
                });
                same("the reply", actor.ask(m)?, want)?;
            }
            actor.terminate_with(Ending::Drain, SOON)?;
        }
    }
    Ok(())
}

#[ring_kernel(crate = kiln_ring)]
fn first_of(ctx: &RingCtx, m: Payload<u32>) -> Inline<u32, 37> {
    let values = ctx.array(&m);
    for i in ctx.share(values.len()) {
        values.set(i, values.get(i) + 1);
    }
    values.inline()
}

fn arrays_of_payloads_come_back(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = active(&rt, first_of, RingConfig::default())?;
        let data: Vec<u32> = list(0..50, |_| trial.rng.bits() as u32);
        let got = actor.ask(rt.payload_of(&data)?)?.ok_or_else(|| wrong("no reply"))?;
        let want: Vec<u32> = data[..37].iter().map(|x| x.wrapping_add(1)).collect();
        same("the reply", got.to_vec(), want)?;
        let short = actor.ask(rt.payload_of(&data[..36])?);
        let Err(AskError::Unhandled { reason, .. }) = short else {
            return Err(wrong(&format!("too few: {short:?}")));
        };
        let why = rt.explain(reason);
        ensure(why.contains("elements of an array"), || why)?;
    }
    Ok(())
}

fn wrong(what: &str) -> crate::trial::Stop {
    crate::trial::Stop::wrong(what.to_owned())
}

#[derive(State, Debug, Clone, PartialEq)]
#[kiln(crate = kiln_ring)]
struct Window {
    at: u32,
    last: Inline<f32, 40>,
    sums: [f32; 2],
    marks: Inline<u32, 3>,
}

#[derive(Message)]
#[kiln(crate = kiln_ring)]
struct Change {
    x: f32,
    replace: bool,
    all: Inline<f32, 40>,
}

/// Keeps what it was sent last, or all of what it is sent.
#[ring_kernel(crate = kiln_ring)]
fn window(ctx: &RingCtx, s: &mut Window, m: Change) -> Inline<f32, 40> {
    if m.replace {
        s.last = m.all;
    } else {
        let last = ctx.array(&s.last);
        last.set(s.at % 40, m.x);
    }
    ctx.sync();
    let last = ctx.array(&s.last);
    let mut sum: Val<f32> = 0.0;
    for i in ctx.share(40) {
        sum += last.get(i);
    }
    s.sums = [s.sums[1], ctx.sum(sum)];
    let marks = ctx.array(&s.marks);
    marks.set(s.at % 3, s.at);
    s.at += 1;
    s.last
}

fn states_hold_arrays(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let mut value = || (trial.rng.bits() % 64) as f32;
        let mut want = Window {
            at: 5,
            last: Inline::from_fn(|_| value()),
            sums: [0.0; 2],
            marks: Inline::from([7, 8, 9]),
        };
        let actor = active(&rt, window, RingConfig::default().state(want.clone()))?;
        for round in 0..45 {
            let m = Change { x: value(), replace: round % 8 == 5, all: Inline::from_fn(|_| value()) };
            if m.replace {
                want.last = m.all.clone();
            } else {
                want.last[want.at as usize % 40] = m.x;
            }
            want.sums = [want.sums[1], want.last.iter().sum()];
            let at = want.at;
            want.marks[at as usize % 3] = at;
            want.at += 1;
            same("the reply", actor.ask(m)?, Some(want.last.clone()))?;
        }
        same("the state", actor.state()?, want)?;
    }
    Ok(())
}

#[derive(State)]
#[kiln(crate = kiln_ring)]
struct Relay {
    next: Address<Parcel>,
    count: u32,
}

#[ring_kernel(crate = kiln_ring)]
fn relay(ctx: &RingCtx, s: &mut Relay, m: Parcel) {
    s.count += 1;
    ctx.send(
        &s.next,
        ParcelVal { id: m.id + s.count, floats: m.floats, numbers: m.numbers, wide: m.wide, words: m.words },
    );
}

/// From the host to an actor, from there to another, and from there to a third, whose replies are
/// outputs.
fn arrays_are_sent_on(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let end = active(&rt, reorder, RingConfig::default().capacity(4))?;
        let state = Relay { next: end.inbound_link(2)?, count: 0 };
        let middle = active(&rt, relay, RingConfig::default().state(state))?;
        let state = Relay { next: middle.inbound_link(2)?, count: 10 };
        let first = active(&rt, relay, RingConfig::default().state(state))?;
        for round in 1..20 {
            let m = parcel(trial, 100 * round);
            first.send(m.clone())?;
            let id = m.id + 10 + 2 * round;
            if id.is_multiple_of(3) {
                continue;
            }
            let Parcel { floats, numbers, wide, words, .. } = m;
            let want = Reordered { words, wide, again: numbers.clone(), numbers, floats, id };
            same("the output", end.outputs().recv_timeout(SOON)?, want)?;
        }
    }
    Ok(())
}

fn what_is_not_handled_comes_back(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        let actor = rt.launch(reorder, RingConfig::default().deadlines(true))?;
        let (late, left) = (parcel(trial, 1), parcel(trial, 2));
        // One nanosecond of the device's clock: long ago. The answer of the next message comes
        // behind the letter.
        actor.channel().send_by(&late, 1)?;
        let in_time = parcel(trial, 4);
        actor.send(in_time.clone())?;
        actor.activate()?;
        same("in time", actor.recv_timeout(SOON)?.numbers, in_time.numbers)?;
        let letter = rt.dead_letters().pop().ok_or_else(|| wrong("no letter"))?;
        same("the reason", letter.reason, Reason::Expired)?;
        same("the letter", letter.decode::<Parcel>(), Some(late))?;
        actor.deactivate()?;
        actor.send(left.clone())?;
        actor.terminate_with(Ending::Discard, SOON)?;
        let letter = rt.dead_letters().pop().ok_or_else(|| wrong("no letter"))?;
        same("the letter", letter.decode::<Parcel>(), Some(left))?;
    }
    Ok(())
}

#[derive(State)]
#[kiln(crate = kiln_ring)]
struct Pair {
    left: Inline<u32, 4>,
    right: Inline<u32, 4>,
}

/// Does what it may not.
#[ring_kernel(crate = kiln_ring)]
fn misuse(ctx: &RingCtx, s: &mut Pair, m: [Inline<u32, 4>; 2]) -> u32 {
    let (first, what) = (ctx.array(&m[0]), ctx.array(&m[1]).get(0));
    if what == 1 {
        return first.get(what + 3);
    }
    if what == 2 {
        first.set(0, what);
    }
    if what == 3 {
        s.left = s.right;
    }
    first.get(what % 4) + ctx.array(&s.left).get(what % 4)
}

fn what_fails_the_actor(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        for (what, why) in [(1, "index 4 of an array of 4"), (2, "only read"), (3, "in the place of another")]
        {
            let state = Pair { left: Inline::from([1, 2, 3, 4]), right: Inline::from([5, 6, 7, 8]) };
            let actor = active(&rt, misuse, RingConfig::default().state(state))?;
            let message = |what| [Inline::from([10, 20, 30, 40]), Inline::from([what; 4])];
            same("what may be", actor.ask(message(6))?, Some(33))?;
            let Err(AskError::Unhandled { why: told, .. }) = actor.ask(message(what)) else {
                return Err(wrong(&format!("{what} was done")));
            };
            ensure(told.contains(why), || format!("{told}, not {why}"))?;
            same("the state", actor.state()?.left.to_vec(), vec![1, 2, 3, 4])?;
            actor.terminate_with(Ending::Discard, SOON)?;
        }
    }
    Ok(())
}

#[derive(State)]
#[kiln(crate = kiln_ring)]
struct Counting {
    next: Address<u32>,
    seen: Inline<u32, 4>,
}

/// Counts in an array of its state, where it lies, and sends on.
#[ring_kernel(crate = kiln_ring)]
fn count_and_pass(ctx: &RingCtx, s: &mut Counting, x: u32) {
    let seen = ctx.array(&s.seen);
    seen.set(0, seen.get(0) + 1);
    seen.set(1, seen.get(1) + x);
    ctx.send(&s.next, x);
}

/// Takes its time.
#[ring_kernel(crate = kiln_ring)]
fn slow_total(_ctx: &RingCtx, sum: &mut u32, x: u32) -> Option<u32> {
    let mut steps: Val<u32> = 0;
    while steps < 200 {
        steps += 1;
    }
    *sum += x + steps - 200;
    if x == 499 { Some(*sum) } else { None }
}

/// The receiver is slower than the sender, whose messages wait for room again and again; each is
/// handled once, on a worker of its own and beside the receiver.
fn arrays_change_once_under_back_pressure(trial: &mut Trial<'_>) -> Verdict {
    for rt in runtimes(trial)? {
        for shared in [false, true] {
            let sink = active(&rt, slow_total, RingConfig::default().state(0))?;
            let other = active(&rt, digest_of_two, RingConfig::default())?;
            let state = Counting { next: sink.inbound_link(4)?, seen: Inline::default() };
            let config = RingConfig::default().state(state).capacity(512);
            let config = if shared { config.beside(&sink) } else { config };
            let source = active(&rt, count_and_pass, config)?;
            for x in 0..500 {
                source.send(x)?;
            }
            // A neighbor answers meanwhile.
            same("a neighbor", other.ask([3, 4])?, Some(7))?;
            let sum = (0..500).sum::<u32>();
            same("sum", sink.outputs().recv_timeout(SOON)?, sum)?;
            while source.channel().unanswered() > 0 {
                source.channel().tidy();
            }
            same("seen", source.state()?.seen[..2].to_vec(), vec![500, sum])?;
        }
    }
    Ok(())
}

#[ring_kernel(crate = kiln_ring)]
fn digest_of_two(_ctx: &RingCtx, m: [u32; 2]) -> u32 {
    m[0] + m[1]
}
