//! Tuning of user kernels: what is chosen is right, and trials leave nothing behind.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, ensure, holds};
use kiln_lang::prelude::*;
use kiln_runtime::tune::Outcome;
use kiln_runtime::{Error, Result, Tensor, Tune};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub fn cases() -> Vec<Case> {
    cases!["tuning":
        bad_candidates;
        in_place;
        atomic_sums;
        none_works;
        in_a_capture;
        empty;
    ]
}

const LENGTH: usize = 3001;

/// A key that no earlier call had, so that everything is measured.
fn new_key() -> (u32, usize) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    (std::process::id(), COUNT.fetch_add(1, Relaxed))
}

#[kernel(crate = kiln_runtime)]
fn advance(x: &mut Tensor<u32, 1>, block: usize, addend: usize) {
    let tile = x.tile(program_id(0) * block, block);
    tile.store(tile.load(0) * 3 + addend as u32);
}

#[kernel(crate = kiln_runtime)]
fn advance_and_refuse(x: &mut Tensor<u32, 1>) {
    let tile = x.tile(program_id(0) * 256, 256);
    tile.store(tile.load(0) * 3 + 1);
    device_assert!(program_id(0).lt(0), "never");
}

#[kernel(crate = kiln_runtime)]
fn add_up(x: &Tensor<u32, 1>, sums: &mut Tensor<u32, 1>) {
    let i = thread_index();
    sums.atomic_add(i % 7, x.get_or(i, 0));
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Config {
    Right(usize),
    /// It faults after it has stored.
    Faulty,
    /// The compiler refuses its tile.
    Uncompiled,
    Wrong,
    /// It does the half of it.
    Partial,
}

use Config::*;

fn launch(config: Config, x: &mut Tensor<u32, 1>) -> Result<()> {
    let device = x.device().clone();
    match config {
        Right(block) => advance(x, block, 1).launch(&device),
        Faulty => advance_and_refuse(x).launch(&device),
        Uncompiled => advance(x, 1 << 21, 1).launch(&device),
        Wrong => advance(x, 256, 2).launch(&device),
        Partial => advance(x, 256, 1).grid([LENGTH / 512]).launch(&device),
    }
}

fn advanced(x: &[u32]) -> Vec<u32> {
    x.iter().map(|v| v.wrapping_mul(3).wrapping_add(1)).collect()
}

/// Candidates that do not compile, fault or compute something else are never what is launched.
fn bad_candidates(trial: &mut Trial<'_>) -> Verdict {
    let mut configs = vec![Uncompiled, Faulty, Wrong, Right(256), Partial, Right(128)];
    if trial.device.capabilities().is_interpreted() {
        // Nothing is tried there: what faults is to be seen.
        configs = vec![Uncompiled, Right(256), Faulty];
    }
    let (mut x, data) = trial.input::<u32, 1>([LENGTH])?;
    let (tune, result, key) = (Tune::new("advance", configs), x.alias(), new_key());
    let mut expected = data;
    for _ in 0..2 {
        expected = advanced(&expected);
        let check = || Ok(result.to_vec()? == expected);
        let chosen = tune.run_checked(trial.device, key, |&config| launch(config, &mut x), check)?;
        ensure(matches!(chosen.config(), Right(_)), || format!("{chosen}"))?;
        for tried in chosen.trials() {
            let works = matches!(tried.outcome, Outcome::Took(_));
            ensure(works == matches!(tried.config, Right(_)), || format!("{tried}"))?;
        }
        trial.device.synchronize()?;
        holds("after the call", &x, &expected)?;
    }
    Ok(())
}

/// Kernels in place, with other work in other streams.
fn in_place(trial: &mut Trial<'_>) -> Verdict {
    let stream = trial.device.stream()?;
    let (mut x, mut expected) = trial.input::<u32, 1>([LENGTH])?;
    let tune = Tune::new("advance", [64, 256, 128]);
    for round in 0..4 {
        let key = (new_key(), round);
        match round {
            1 => x.with_host_mut(|x| x.iter_mut().for_each(|v| *v = v.wrapping_mul(3).wrapping_add(1)))?,
            _ => advance(&mut x, 256, 1).on(&stream).launch(trial.device)?,
        }
        tune.run(trial.device, key, |&block| {
            let launch = advance(&mut x, block, 1);
            if round == 2 { launch.on(&stream).launch(trial.device) } else { launch.launch(trial.device) }
        })?;
        expected = advanced(&advanced(&expected));
        holds("after the call", &x, &expected)?;
    }
    Ok(())
}

/// Sums that are added to by atomics: every run too many would be seen.
fn atomic_sums(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<u32, 1>([LENGTH])?;
    let mut sums = trial.device.tensor(&[5u32; 7], [7])?;
    let mut expected = [5u32; 7];
    let (tune, key) = (Tune::new("add_up", [32usize, 128, 64]), new_key());
    for _ in 0..3 {
        tune.run(trial.device, key, |&threads| {
            let grid = LENGTH.div_ceil(threads);
            add_up(&x, &mut sums).grid([grid]).block([threads]).launch(trial.device)
        })?;
        for (i, v) in data.iter().enumerate() {
            expected[i % 7] = expected[i % 7].wrapping_add(*v);
        }
    }
    holds("the sums", &sums, &expected)
}

fn none_works(trial: &mut Trial<'_>) -> Verdict {
    let (mut x, data) = trial.input::<u32, 1>([LENGTH])?;
    let mut tiles = Tune::new("advance", [1 << 21, 1 << 22]).prune(|_| false);
    let error = tiles.run(trial.device, new_key(), |&tile| advance(&mut x, tile, 1).launch(trial.device));
    ensure(matches!(error, Err(Error::NoCandidate { .. })), || format!("{error:?}"))?;
    tiles = tiles.prune(|_| true);
    let error = tiles.run(trial.device, new_key(), |&tile| advance(&mut x, tile, 1).launch(trial.device));
    ensure(matches!(error, Err(Error::NoCandidate { .. })), || format!("{error:?}"))?;
    holds("after the refusal", &x, &data)
}

/// What a call in a capture records is one candidate.
fn in_a_capture(trial: &mut Trial<'_>) -> Verdict {
    let (mut x, data) = trial.input::<u32, 1>([LENGTH])?;
    let (tune, key) = (Tune::new("advance", [Uncompiled, Right(64), Right(256)]), new_key());
    let mut expected = data;
    for measured in [false, true] {
        if measured {
            tune.run(trial.device, key, |&config| launch(config, &mut x))?;
            expected = advanced(&expected);
        }
        let (graph, _) =
            trial.device.graph(|_| tune.run(trial.device, key, |&config| launch(config, &mut x)))?;
        ensure(graph.len() == 1, || format!("{} nodes", graph.len()))?;
        graph.replay()?;
        expected = advanced(&expected);
        holds("after the replay", &x, &expected)?;
    }
    Ok(())
}

fn empty(trial: &mut Trial<'_>) -> Verdict {
    let mut x = trial.device.zeros::<u32, 1>([0])?;
    Tune::new("advance", [64, 128])
        .run(trial.device, new_key(), |&block| advance(&mut x, block, 1).launch(trial.device))?;
    holds("nothing", &x, &[])
}
