//! Graphs: what is recorded once runs again with the same meaning, on changed arguments too.

use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure, holds, holds_near, same};
use kiln_kernels::{matmul, softmax};
use kiln_lang::prelude::*;
use kiln_reference::Host;
use kiln_runtime::{DynTensor, Error, Event, Tensor};

pub fn cases() -> Vec<Case> {
    cases!["graphs":
        chain;
        replays_follow_other_work;
        new_numbers;
        new_tensors;
        tensors_replaced_everywhere;
        library;
        contents_from_the_host;
        fills_and_copies;
        streams_within;
        in_a_stream;
        faults;
        fault_after_update;
        dropped_in_flight;
        tensors_dropped;
        empty;
        nothing_to_launch;
        uninitialized_input;
        refused_in_capture;
        refused_updates;
        failed_capture;
    ]
}

const LENGTH: usize = 3001;

#[kernel(crate = kiln_runtime)]
fn affine(x: &Tensor<u32, 1>, y: &mut Tensor<u32, 1>, factor: Val<u32>, addend: Val<u32>) {
    let at = program_id(0) * 256;
    y.tile(at, 256).store(x.tile(at, 256).load(0) * factor + addend);
}

#[kernel(crate = kiln_runtime)]
fn advance(x: &mut Tensor<u32, 1>) {
    let tile = x.tile(program_id(0) * 256, 256);
    tile.store(tile.load(0) * 3 + 1);
}

#[kernel(crate = kiln_runtime)]
fn refuse_above(x: &Tensor<u32, 1>, limit: Val<u32>) {
    device_assert!(x.get(0) <= limit, "above the limit");
}

fn affine_of(x: &[u32], factor: u32, addend: u32) -> Vec<u32> {
    x.iter().map(|v| v.wrapping_mul(factor).wrapping_add(addend)).collect()
}

fn advanced(x: &[u32], times: usize) -> Vec<u32> {
    (0..times).fold(x.to_vec(), |x, _| affine_of(&x, 3, 1))
}

/// Eight kernels that depend on each other, replayed: none runs at the capture.
fn chain(trial: &mut Trial<'_>) -> Verdict {
    let (mut x, data) = trial.input::<u32, 1>([LENGTH])?;
    let (graph, ()) =
        trial.device.graph(|_| (0..8).try_for_each(|_| advance(&mut x).launch(trial.device)))?;
    ensure(graph.len() == 8, || format!("{} nodes, expected 8", graph.len()))?;
    holds("after the capture", &x, &data)?;
    for replay in 1..=5 {
        graph.replay()?;
        if replay % 2 == 0 {
            holds("a replay", &x, &advanced(&data, 8 * replay))?;
        }
    }
    holds("the last replay", &x, &advanced(&data, 40))
}

/// Launches, writes by the host and replays that share a tensor run in the order of the calls.
fn replays_follow_other_work(trial: &mut Trial<'_>) -> Verdict {
    let stream = trial.device.stream()?;
    let (mut x, mut expected) = trial.input::<u32, 1>([LENGTH])?;
    let mut y = trial.output::<u32, 1>([LENGTH])?;
    let (graph, ()) = trial.device.graph(|_| affine(&x, &mut y, 5, 7).launch(trial.device))?;
    for round in 0..6 {
        match round % 3 {
            0 => advance(&mut x).on(&stream).launch(trial.device)?,
            1 => x.with_host_mut(|x| x.iter_mut().for_each(|v| *v = v.wrapping_mul(3).wrapping_add(1)))?,
            _ => x.write(&advanced(&expected, 1))?,
        }
        expected = advanced(&expected, 1);
        graph.replay()?;
        // The write must wait for the replay's read.
        advance(&mut x).on(&stream).launch(trial.device)?;
        holds("what the replay read", &y, &affine_of(&expected, 5, 7))?;
        expected = advanced(&expected, 1);
    }
    holds("what was written beside", &x, &expected)
}

fn new_numbers(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<u32, 1>([LENGTH])?;
    let (mut y, mut z) = (trial.output::<u32, 1>([LENGTH])?, trial.output::<u32, 1>([LENGTH])?);
    let (mut graph, [first, second]) = trial.device.graph(|capture| {
        affine(&x, &mut y, 2, 1).launch(trial.device)?;
        let first = capture.last();
        affine(&y, &mut z, 3, 1).launch(trial.device)?;
        Ok([first, capture.last()])
    })?;
    for step in 0..4u32 {
        graph.set(first, "factor", 10 + step)?;
        graph.set(second, "addend", 100 * step)?;
        graph.replay()?;
        let expected = affine_of(&affine_of(&data, 10 + step, 1), 3, 100 * step);
        holds("with new numbers", &z, &expected)?;
    }
    // Replays that are enqueued keep what they had.
    let mut sum = trial.device.zeros::<u32, 1>([LENGTH])?;
    let one = trial.device.tensor(&vec![1u32; LENGTH], [LENGTH])?;
    let (mut counting, ()) = trial.device.graph(|_| add_scaled(&one, &mut sum, 0).launch(trial.device))?;
    for step in 1..=20u32 {
        counting.set("add_scaled", "by", step)?;
        counting.replay()?;
    }
    holds("twenty updates in flight", &sum, &vec![210; LENGTH])
}

#[kernel(crate = kiln_runtime)]
fn add_scaled(x: &Tensor<u32, 1>, sum: &mut Tensor<u32, 1>, by: Val<u32>) {
    let at = program_id(0) * 256;
    let tile = sum.tile(at, 256);
    tile.store(tile.load(0) + x.tile(at, 256).load(0) * by);
}

fn new_tensors(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<u32, 1>([LENGTH])?;
    let (other, other_data) = trial.input::<u32, 1>([LENGTH])?;
    let [mut y, mut z] = [trial.output::<u32, 1>([LENGTH])?, trial.output::<u32, 1>([LENGTH])?];
    let (mut graph, ()) = trial.device.graph(|_| affine(&x, &mut y, 7, 5).launch(trial.device))?;
    graph.replay()?;
    graph.set("affine", "x", &other)?;
    graph.replay()?;
    holds("another input", &y, &affine_of(&other_data, 7, 5))?;
    graph.set("affine", "y", &mut z)?;
    graph.set("affine", "x", &x)?;
    graph.replay()?;
    holds("another output", &z, &affine_of(&data, 7, 5))?;
    holds("the output before", &y, &affine_of(&other_data, 7, 5))
}

/// A tensor is replaced in all of its uses, by parts of it too, and nodes that become dependent
/// run in order.
fn tensors_replaced_everywhere(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<u32, 1>([2 * LENGTH])?;
    let (other, other_data) = trial.input::<u32, 1>([2 * LENGTH])?;
    let streams = [trial.device.stream()?, trial.device.stream()?];
    let [mut y, mut z] = [trial.output::<u32, 1>([LENGTH])?, trial.output::<u32, 1>([LENGTH])?];
    let upper = x.slice(0, LENGTH..2 * LENGTH)?;
    let lower = x.slice(0, 0..LENGTH)?;
    let (mut graph, ()) = trial.device.graph(|_| {
        affine(&upper, &mut y, 3, 1).on(&streams[0]).launch(trial.device)?;
        affine(&lower, &mut z, 5, 2).on(&streams[1]).launch(trial.device)
    })?;
    graph.replay()?;
    holds("upper", &y, &affine_of(&data[LENGTH..], 3, 1))?;
    match graph.replace(&x, &other) {
        Ok(()) => {
            graph.replay()?;
            holds("upper of another", &y, &affine_of(&other_data[LENGTH..], 3, 1))?;
            holds("lower of another", &z, &affine_of(&other_data[..LENGTH], 5, 2))?;
        }
        Err(error) => return Err(error.into()),
    }
    // Now the second launch reads what the first writes.
    graph.replace(&other.slice(0, 0..LENGTH)?, &y)?;
    for _ in 0..3 {
        graph.replay()?;
        let first = affine_of(&other_data[LENGTH..], 3, 1);
        holds("in order", &z, &affine_of(&first, 5, 2))?;
    }
    Ok(())
}

/// Library functions, with what they allocate between.
fn library(trial: &mut Trial<'_>) -> Verdict {
    let n = 40;
    let (mut a, _) = trial.input::<f32, 2>([n, n])?;
    let (b, b_data) = trial.input::<f32, 2>([n, n])?;
    let (graph, result) = trial.device.graph(|_| {
        let (mut product, mut result) = (trial.device.uninit([n, n])?, trial.device.uninit([n, n])?);
        matmul(&a, &b, &mut product)?;
        softmax(&product, &mut result)?;
        Ok(result)
    })?;
    for _ in 0..2 {
        let a_data = trial.random::<f32>(n * n);
        a.write(&a_data)?;
        graph.replay()?;
        let mut expected = Vec::new();
        for i in 0..n {
            let dot = |j| (0..n).map(|k| f64::from(a_data[i * n + k]) * f64::from(b_data[k * n + j])).sum();
            let row: Vec<f64> = (0..n).map(dot).collect();
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = row.iter().map(|v| (v - most).exp()).sum();
            expected.extend(row.iter().map(|v| Host::Float((v - most).exp() / total)));
        }
        holds_near("softmax(a b)", &result, &expected, 4096.0, 1.0)?;
    }
    Ok(())
}

/// Bytes from the host are those of the capture, and each replay writes them anew.
fn contents_from_the_host(trial: &mut Trial<'_>) -> Verdict {
    let mut data = trial.random::<u32>(LENGTH);
    let taken = data.clone();
    let (graph, x) = trial.device.graph(|_| {
        let mut x = trial.device.tensor(&data, [LENGTH])?;
        advance(&mut x).launch(trial.device)?;
        Ok(x)
    })?;
    data.fill(0);
    for _ in 0..3 {
        graph.replay()?;
        holds("written anew", &x, &advanced(&taken, 1))?;
    }
    Ok(())
}

fn fills_and_copies(trial: &mut Trial<'_>) -> Verdict {
    let (mut x, mut data) = trial.input::<u32, 1>([LENGTH])?;
    let (graph, (sum, copy)) = trial.device.graph(|_| {
        let mut sum = trial.device.zeros([LENGTH])?;
        let part = x.slice(0, 1..LENGTH)?.copy()?;
        add_scaled(&x, &mut sum, 4).launch(trial.device)?;
        add_scaled(&x, &mut sum, 1).launch(trial.device)?;
        Ok((sum, part))
    })?;
    for _ in 0..3 {
        data = advanced(&data, 1);
        x.write(&data)?;
        graph.replay()?;
        holds("from zero each time", &sum, &affine_of(&data, 5, 0))?;
        holds("the copy", &copy, &data[1..])?;
    }
    Ok(())
}

/// Streams in a capture: their work is ordered by the tensors they share.
fn streams_within(trial: &mut Trial<'_>) -> Verdict {
    let streams = [trial.device.stream()?, trial.device.stream()?, trial.device.stream()?];
    let (x, data) = trial.input::<u32, 1>([LENGTH])?;
    let mut parts = [trial.output::<u32, 1>([LENGTH])?, trial.output([LENGTH])?, trial.output([LENGTH])?];
    let mut sum = trial.output::<u32, 1>([LENGTH])?;
    let (graph, ()) = trial.device.graph(|_| {
        for (number, part) in (1..).zip(&mut parts) {
            affine(&x, part, number, number).on(&streams[number as usize - 1]).launch(trial.device)?;
        }
        affine(&parts[0], &mut sum, 1, 0).on(&streams[2]).launch(trial.device)?;
        for part in &parts[1..] {
            add_scaled(part, &mut sum, 1).on(&streams[0]).launch(trial.device)?;
        }
        // The reads before must be over.
        parts.iter_mut().try_for_each(|part| advance(part).on(&streams[1]).launch(trial.device))
    })?;
    for _ in 0..4 {
        graph.replay()?;
        holds("the sum", &sum, &affine_of(&data, 6, 6))?;
        same("a part", &parts[1].to_vec()?, &advanced(&affine_of(&data, 2, 2), 1))?;
    }
    Ok(())
}

fn in_a_stream(trial: &mut Trial<'_>) -> Verdict {
    let stream = trial.device.stream()?;
    let (mut x, data) = trial.input::<u32, 1>([LENGTH])?;
    let (graph, ()) = stream.graph(|_| advance(&mut x).launch(trial.device))?;
    drop(stream);
    for _ in 0..3 {
        graph.replay()?;
        advance(&mut x).launch(trial.device)?;
    }
    holds("by turns", &x, &advanced(&data, 6))
}

/// A fault in a replay is reported once, with the kernel's line, and the next replay works.
fn faults(trial: &mut Trial<'_>) -> Verdict {
    let mut x = trial.vector(&[5u32, 6])?;
    let (graph, ()) = trial.device.graph(|_| refuse_above(&x, 9).grid([1]).launch(trial.device))?;
    for round in 0..3 {
        graph.replay()?;
        trial.device.synchronize()?;
        x.write(&[10 + round, 0])?;
        graph.replay()?;
        is_fault(trial.device.synchronize())?;
        x.write(&[round, 0])?;
    }
    graph.replay()?;
    Ok(trial.device.synchronize()?)
}

fn is_fault(found: Result<(), Error>) -> Verdict {
    let line = |e: &Error| e.fault().is_some_and(|f| f.location.contains("graphs.rs"));
    ensure(found.as_ref().is_err_and(line), || format!("expected a fault with its line, got {found:?}"))
}

fn fault_after_update(trial: &mut Trial<'_>) -> Verdict {
    let stream = trial.device.stream()?;
    let x = trial.vector(&[5u32])?;
    let (mut graph, ()) = stream.graph(|_| refuse_above(&x, 9).grid([1]).launch(trial.device))?;
    graph.set("refuse_above", "limit", 4u32)?;
    graph.replay()?;
    is_fault(stream.synchronize())?;
    graph.set("refuse_above", "limit", 5u32)?;
    graph.replay()?;
    stream.synchronize()?;
    Ok(trial.device.synchronize()?)
}

/// A graph goes while its replays run, with the memory that is its own.
fn dropped_in_flight(trial: &mut Trial<'_>) -> Verdict {
    let (mut x, data) = trial.input::<u32, 1>([LENGTH])?;
    for _ in 0..8 {
        let (graph, ()) = trial.device.graph(|_| {
            let mut between = trial.device.uninit([LENGTH])?;
            affine(&x, &mut between, 3, 1).launch(trial.device)?;
            affine(&between, &mut x, 1, 0).launch(trial.device)
        })?;
        graph.replay()?;
        graph.replay()?;
    }
    holds("sixteen replays", &x, &advanced(&data, 16))
}

/// The graph keeps what it uses.
fn tensors_dropped(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<u32, 1>([LENGTH])?;
    let mut y = trial.output::<u32, 1>([LENGTH])?;
    let (graph, ()) = trial.device.graph(|_| affine(&x, &mut y, 9, 2).launch(trial.device))?;
    drop(x);
    let others: Vec<Tensor<u32, 1>> = (0..4).map(|_| trial.output([LENGTH])).collect::<Result<_, Stop>>()?;
    graph.replay()?;
    holds("from a tensor that was dropped", &y, &affine_of(&data, 9, 2))?;
    drop(others);
    Ok(())
}

fn empty(trial: &mut Trial<'_>) -> Verdict {
    let (graph, count) = trial.device.graph(|capture| Ok(capture.len()))?;
    ensure(graph.is_empty() && count == 0, || format!("{} nodes", graph.len()))?;
    graph.replay()?;
    graph.replay()?;
    Ok(trial.device.synchronize()?)
}

/// Launches of no programs, and tensors without elements.
fn nothing_to_launch(trial: &mut Trial<'_>) -> Verdict {
    let (mut x, data) = trial.input::<u32, 1>([LENGTH])?;
    let mut none = trial.device.zeros::<u32, 1>([0])?;
    let (graph, ()) = trial.device.graph(|_| {
        advance(&mut x).launch(trial.device)?;
        advance(&mut x).grid([0]).launch(trial.device)?;
        advance(&mut none).launch(trial.device)?;
        none.write(&[])?;
        advance(&mut x).launch(trial.device)
    })?;
    graph.replay()?;
    holds("two of three", &x, &advanced(&data, 2))
}

fn uninitialized_input(trial: &mut Trial<'_>) -> Verdict {
    let (x, mut y) = (trial.device.uninit::<u32, 1>([LENGTH])?, trial.output::<u32, 1>([LENGTH])?);
    let mut x = x;
    let (graph, ()) = trial.device.graph(|_| affine(&x, &mut y, 9, 2).launch(trial.device))?;
    let found = graph.replay();
    let named = |e: &Error| matches!(e, Error::Uninitialized { what } if what == "argument `x` of `affine`");
    ensure(found.as_ref().is_err_and(named), || format!("a replay gave {found:?}"))?;
    x.write(&vec![1; LENGTH])?;
    graph.replay()?;
    holds("once it is written", &y, &vec![11; LENGTH])
}

/// What waits or reads is refused with the line of the call, and leaves nothing behind.
fn refused_in_capture(trial: &mut Trial<'_>) -> Verdict {
    let (x, stream) = (trial.vector(&[1u32])?, trial.device.stream()?);
    let mut view = trial.device.zeros::<u32, 2>([2, 2])?.transpose();
    let device = trial.device;
    let (_, refused) = device.graph(|_| {
        Ok([
            x.to_vec().map(drop),
            x.with_host(|_| ()),
            device.synchronize(),
            stream.synchronize(),
            Event::now(device).map(drop),
            stream.record().map(drop),
            view.write(&[0; 4]),
            device.graph(|_| Ok(())).map(drop),
        ])
    })?;
    for (number, found) in refused.iter().enumerate() {
        let named = |e: &Error| matches!(e, Error::Capture { location, .. } if location.file().ends_with("graphs.rs"));
        ensure(found.as_ref().is_err_and(named), || format!("number {number} gave {found:?}"))?;
    }
    holds("after the capture", &x, &[1])
}

fn refused_updates(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<u32, 1>([LENGTH])?;
    let (mut y, mut other) = (trial.output::<u32, 1>([LENGTH])?, trial.output::<u32, 1>([LENGTH])?);
    let (mut graph, ()) = trial.device.graph(|_| affine(&x, &mut y, 9, 2).launch(trial.device))?;
    let longer = trial.device.zeros::<u32, 1>([LENGTH + 1])?;
    let signed = trial.device.zeros::<i32, 1>([LENGTH])?;
    let odd = longer.slice(0, 1..LENGTH + 1)?;
    let names = |found: &Result<(), Error>, of: &str| match found {
        Err(Error::Argument { argument, location, .. }) => {
            argument == of && location.file().ends_with("graphs.rs")
        }
        _ => false,
    };
    let arguments = [
        ("shape", "x", graph.set("affine", "x", &longer)),
        ("type", "x", graph.set("affine", "x", &signed)),
        ("number for a tensor", "x", graph.set("affine", "x", 1u32)),
        ("alignment", "x", graph.set("affine", "x", &odd)),
        ("type of a number", "factor", graph.set("affine", "factor", 1.0f32)),
        ("read-only", "y", graph.set("affine", "y", &other)),
        ("read-only everywhere", "y", graph.replace(&y, &other)),
        ("shape everywhere", "x", graph.replace(&x, &longer)),
        ("type everywhere", "x", graph.replace(&x, &signed)),
        ("alignment everywhere", "x", graph.replace(&x, &odd)),
    ];
    for (what, argument, found) in &arguments {
        ensure(names(found, argument), || format!("{what}: {found:?}"))?;
    }
    let overlap = graph.set("affine", "y", &mut view_of(&x)?);
    ensure(matches!(overlap, Err(Error::Overlap { .. })), || format!("overlap: {overlap:?}"))?;
    let missing = [
        graph.set("affin", "x", &x),
        graph.set("affine", "z", &x),
        graph.replace(&other, &x),
        graph.replace(&x.slice(0, 1..5)?, &other.slice(0, 1..5)?),
    ];
    for found in &missing {
        ensure(matches!(found, Err(Error::GraphUpdate { .. })), || format!("missing: {found:?}"))?;
    }
    // The graph is as it was.
    graph.replay()?;
    holds("after what was refused", &y, &affine_of(&data, 9, 2))?;
    graph.replace_mut(&y, &mut other)?;
    graph.replay()?;
    holds("another output", &other, &affine_of(&data, 9, 2))
}

/// All of a tensor, as another one on the same memory.
fn view_of(x: &Tensor<u32, 1>) -> Result<DynTensor, Stop> {
    Ok(x.as_ref().slice(0, 0..LENGTH)?)
}

/// An error in the closure ends the capture: later launches run again.
fn failed_capture(trial: &mut Trial<'_>) -> Verdict {
    let (mut x, data) = trial.input::<u32, 1>([LENGTH])?;
    let failed = trial.device.graph(|_| {
        advance(&mut x).launch(trial.device)?;
        x.to_vec().map(drop)
    });
    ensure(matches!(failed, Err(Error::Capture { .. })), || "the capture did not fail".to_owned())?;
    holds("nothing has run", &x, &data)?;
    advance(&mut x).launch(trial.device)?;
    holds("a launch after it", &x, &advanced(&data, 1))
}
