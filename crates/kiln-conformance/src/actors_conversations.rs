//! Ring kernels: actors that answer each other again and again, on the worker's fast path.

use crate::actors::{self, SOON, active, same};
use crate::actors_clusters;
use crate::case::{Case, cases};
use crate::telemetry::after;
use crate::trial::{Stop, Trial, Verdict, ensure};
use kiln_lang::prelude::*;
use kiln_ring::{
    Actor, Address, Ending, Handler, Lifecycle, Message, RingConfig, RingCtx, RingRuntime, State, ring_kernel,
};
use std::time::Instant;

pub fn cases() -> Vec<Case> {
    cases!["actors_in_conversation":
        everything_is_heard_once;
        the_host_is_heard_meanwhile;
        failures_end_it;
        crowds_are_heard_in_order;
    ]
}

const PLAY: u32 = 0;
const ASK: u32 = 1;

#[derive(Message, Debug, Clone, Copy, PartialEq)]
#[kiln(crate = kiln_ring)]
struct Ball {
    what: u32,
    left: u32,
    words: [u32; 6],
}

/// More words than a worker keeps of a state.
#[derive(State, Clone, Copy, Debug)]
#[kiln(crate = kiln_ring)]
struct Player {
    seen: u32,
    other: Address<Ball>,
    fails_at: u32,
    mixed: u32,
}

/// Sends a ball back with one less to go; says what came when there is none, and what it counted
/// when it is asked.
#[ring_kernel(crate = kiln_ring)]
fn volley(ctx: &RingCtx, s: &mut Player, m: Ball) -> Result<Option<[u32; 6]>, u32> {
    if m.what == ASK {
        return Ok(Some([s.seen, s.mixed, val(0), val(0), val(0), val(0)]));
    }
    if m.left == s.fails_at {
        return Err(5);
    }
    s.seen += 1;
    s.mixed = s.mixed * 31 + m.left + m.words[5];
    if m.left == 0 {
        return Ok(Some(m.words));
    }
    ctx.send(&s.other, Ball { what: PLAY, left: m.left - 1, words: m.words.map(|word| word * 3 + 1) });
    Ok(None)
}

/// What two players know, by the host.
#[derive(Clone, Copy, Default)]
struct Known {
    seen: [u32; 2],
    mixed: [u32; 2],
}

impl Known {
    /// After a ball that the first gets, and all that follows until so many are left. What the last
    /// one gets.
    fn play(&mut self, ball: Ball, until: u32) -> Ball {
        let (mut ball, mut player) = (ball, 0);
        loop {
            let mixed = &mut self.mixed[player];
            *mixed = mixed.wrapping_mul(31).wrapping_add(ball.left).wrapping_add(ball.words[5]);
            self.seen[player] += 1;
            if ball.left == until {
                return ball;
            }
            ball.left -= 1;
            ball.words = ball.words.map(|word| word.wrapping_mul(3).wrapping_add(1));
            player = 1 - player;
        }
    }

    fn same(&self, players: &[Actor<volley>; 2]) -> Verdict {
        for (n, player) in players.iter().enumerate() {
            let state = player.state()?;
            same("seen and mixed", (state.seen, state.mixed), (self.seen[n], self.mixed[n]))?;
        }
        Ok(())
    }
}

fn player(other: Address<Ball>, fails_at: u32) -> RingConfig<Player> {
    RingConfig::default().state(Player { seen: 0, other, fails_at, mixed: 0 }).capacity(64)
}

/// Never.
const NEVER: u32 = u32::MAX;

/// A queue of another actor's messages.
fn inbound_link<H: Handler>(of: &Actor<H>, near: bool, capacity: usize) -> Result<Address<H::Message>, Stop> {
    Ok(if near { of.inbound_link_in_cluster(capacity)? } else { of.inbound_link(capacity)? })
}

/// Two of a runtime that send to each other: by way of the shared memory of a cluster, or not. The
/// second fails where so many are left.
fn players(rt: &RingRuntime, near: bool, fails_at: u32) -> Result<[Actor<volley>; 2], Stop> {
    let a = rt.launch(volley, player(Address::none(), NEVER))?;
    let config = player(inbound_link(&a, near, 4)?, fails_at);
    let b = rt.launch(volley, if near { config.beside(&a) } else { config })?;
    a.set_state(Player { seen: 0, other: inbound_link(&b, near, 4)?, fails_at: NEVER, mixed: 0 })?;
    a.activate()?;
    b.activate()?;
    Ok([a, b])
}

/// Runtimes, and whether their actors send by way of the shared memory of a cluster.
fn runtimes(trial: &Trial<'_>) -> Result<Vec<(RingRuntime, bool)>, Stop> {
    let far = actors::runtimes(trial)?.into_iter().map(|rt| (rt, false));
    let near = actors_clusters::runtimes(trial)?.into_iter().map(|rt| (rt, true));
    Ok(far.chain(near).collect())
}

fn ball(trial: &mut Trial<'_>, left: u32) -> Ball {
    Ball { what: PLAY, left, words: std::array::from_fn(|_| trial.rng.bits() as u32) }
}

/// How long a conversation may be on a device.
fn long(trial: &Trial<'_>) -> u32 {
    if trial.device.capabilities().is_interpreted() { 50 } else { 5000 }
}

/// Of lengths about that of the fast path, and of a long one: state, order and every word.
fn everything_is_heard_once(trial: &mut Trial<'_>) -> Verdict {
    for (rt, near) in runtimes(trial)? {
        let players = players(&rt, near, NEVER)?;
        let mut known = Known::default();
        for left in [1, 2, 16, 17, 31, 33, long(trial)] {
            let first = ball(trial, left);
            players[0].send(first)?;
            let last = known.play(first, 0);
            let outputs = players[(left % 2) as usize].outputs();
            same("the last ball", outputs.recv_timeout(SOON)?, last.words)?;
            known.same(&players)?;
        }
        for (n, player) in players.iter().enumerate() {
            let seen = u64::from(known.seen[n]);
            let told = after(player, seen)?;
            let from_the_host = if n == 0 { 7 } else { 0 };
            same("processed", (told.processed, told.received), (seen, seen - from_the_host))?;
            player.terminate_with(Ending::Drain, SOON)?;
        }
    }
    Ok(())
}

fn the_host_is_heard_meanwhile(trial: &mut Trial<'_>) -> Verdict {
    for (rt, near) in runtimes(trial)? {
        let players = players(&rt, near, NEVER)?;
        let other = active(&rt, actors::running_sum, RingConfig::default().state(0))?;
        players[0].send(ball(trial, 1 << 30))?;
        let question = Ball { what: ASK, left: 0, words: [0; 6] };
        let mut before = [0; 2];
        for turn in 0..10u32 {
            for (n, player) in players.iter().enumerate() {
                let seen = player.ask(question)?.map(|answer| answer[0]);
                let grows = seen.is_some_and(|seen| seen >= before[n] && (turn == 0 || seen > 0));
                ensure(grows, || format!("{seen:?} balls were seen after {}", before[n]))?;
                before[n] = seen.unwrap_or_default();
            }
            same("another actor", other.ask(turn)?, Some(u64::from(turn * (turn + 1) / 2)))?;
        }
        players[0].deactivate()?;
        // The ball lies before the first, or soon will.
        let held = players[0].state()?.seen;
        let begun = Instant::now();
        while players[1].state()?.seen != held {
            ensure(begun.elapsed() < SOON, || "the ball did not come to rest".into())?;
            // Lets a device go on that does not run by itself.
            let _ = players[1].try_recv();
        }
        same("held", players[0].state()?.seen, held)?;
        players[0].reactivate()?;
        while players[1].state()?.seen == held {
            ensure(begun.elapsed() < SOON, || "the ball did not move again".into())?;
            let _ = players[1].try_recv();
        }
        for player in &players {
            player.terminate_with(Ending::Drain, SOON)?;
        }
    }
    Ok(())
}

fn failures_end_it(trial: &mut Trial<'_>) -> Verdict {
    for (rt, near) in runtimes(trial)? {
        let players = players(&rt, near, 37)?;
        let first = ball(trial, 80);
        players[0].send(first)?;
        let begun = Instant::now();
        while players[1].lifecycle() != Lifecycle::Failed {
            ensure(begun.elapsed() < SOON, || format!("the actor is {}", players[1].lifecycle()))?;
            // Lets a device go on that does not run by itself.
            let _ = players[1].try_recv();
        }
        let mut known = Known::default();
        known.play(first, 38);
        let state = players[0].state()?;
        same("the other", (state.seen, state.mixed), (known.seen[0], known.mixed[0]))?;
        same("it is", players[0].lifecycle(), Lifecycle::Active)?;
        let told = after(&players[1], 22)?;
        same("failed", (told.processed, told.received, told.failed), (22, 22, 1))?;
        players[1].restart()?;
        let again = ball(trial, 20);
        players[0].send(again)?;
        let last = known.play(again, 0);
        same("after", players[0].outputs().recv_timeout(SOON)?, last.words)?;
    }
    Ok(())
}

/// A number and whose it is.
#[ring_kernel(crate = kiln_ring)]
fn forward(ctx: &RingCtx, to: &mut Address<[u32; 2]>, m: [u32; 2]) {
    ctx.send(to, m);
}

#[ring_kernel(crate = kiln_ring)]
fn arrive(_ctx: &RingCtx, seen: &mut u32, m: [u32; 2]) -> [u32; 3] {
    *seen += 1;
    [m[0], m[1], *seen]
}

/// Two senders, each with its own forwarder on one worker: the fast path for one does not starve
/// the other, and keeps each one's order.
fn crowds_are_heard_in_order(trial: &mut Trial<'_>) -> Verdict {
    for (rt, near) in runtimes(trial)? {
        let sink = active(&rt, arrive, RingConfig::default().state(0).capacity(64))?;
        let mut sources = Vec::new();
        for _ in 0..2 {
            let config = |to| RingConfig::default().state(to).capacity(64);
            let last = inbound_link(&sink, near, 16)?;
            let middle = rt.launch(forward, if near { config(last).beside(&sink) } else { config(last) })?;
            let first = inbound_link(&middle, near, 16)?;
            let source =
                rt.launch(forward, if near { config(first).beside(&sink) } else { config(first) })?;
            middle.activate()?;
            source.activate()?;
            sources.push((source, middle));
        }
        let each = if trial.device.capabilities().is_interpreted() { 40 } else { 2000 };
        let (mut sent, mut arrived) = ([0; 2], [0; 2]);
        let mut seen = 0;
        let begun = Instant::now();
        while arrived != [each; 2] {
            for (n, (source, _)) in sources.iter().enumerate() {
                while sent[n] < each
                    && sent[n] < arrived[n] + 12
                    && source.try_send([n as u32, sent[n]]).is_ok()
                {
                    sent[n] += 1;
                }
                source.channel().tidy();
            }
            while let Ok([n, number, count]) = sink.outputs().try_recv() {
                same("a sender's order", number, arrived[n as usize])?;
                arrived[n as usize] += 1;
                seen += 1;
                same("how many", count, seen)?;
            }
            ensure(begun.elapsed() < 6 * SOON, || format!("{arrived:?} of {each} arrived"))?;
        }
    }
    Ok(())
}
