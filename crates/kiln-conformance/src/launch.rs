//! Launches that must be refused, each with its own error, and the device usable after it; and what
//! a launch works out by itself.

use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure, holds, list};
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Error, OccupancyLimit, Result, Tensor};

pub fn cases() -> Vec<Case> {
    cases!["launch":
        wrong_number_of_elements;
        shapes_that_cannot_be_addressed;
        out_of_memory;
        uninitialized_argument;
        overlapping_arguments;
        argument_on_another_device;
        grid_over_the_limit;
        block_over_the_limit;
        empty_grid;
        grid_that_does_not_follow;
        grids_that_disagree;
        stores_that_collide;
        shapes_that_do_not_combine;
        threads_without_a_block;
        constants_out_of_range;
        unknown_device;
        every_problem_at_once;
        empty_arguments;
        occupancy;
    ]
}

#[kernel(crate = kiln_runtime)]
fn scale(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, factor: Val<f32>, block: usize) {
    let at = program_id(0) * block;
    y.tile(at, block).store(x.tile(at, block).load(0.0) * factor);
}

/// The error of something that must be refused; afterwards the device must work as before.
fn refused<T>(trial: &mut Trial<'_>, outcome: Result<T>) -> std::result::Result<Error, Stop> {
    let (x, data) = trial.input::<f32, 1>([53])?;
    let mut y = trial.output([53])?;
    scale(&x, &mut y, 2.0, 16).launch(trial.device)?;
    holds("a launch after the error", &y, &data.iter().map(|v| v * 2.0).collect::<Vec<f32>>())?;
    outcome.err().ok_or_else(|| Stop::wrong("it was not refused".into()))
}

/// Ends the case unless an error is as a pattern says.
macro_rules! expect {
    ($error:expr, $pattern:pat $(if $guard:expr)?) => {{
        let error = $error;
        let right = matches!(&error, $pattern $(if $guard)?);
        ensure(right, || format!("the error is {error:?} ({error})"))
    }};
}

/// Ends the case unless an error is a refused kernel whose first problem stands in this file and
/// has some words.
fn expect_kernel(error: &Error, words: &str) -> Verdict {
    let problems = if let Error::Kernel { problems, .. } = error { &problems[..] } else { &[] };
    let right = problems.iter().any(|p| p.contains(words) && p.contains(concat!(file!(), ":")));
    ensure(right, || format!("expected a problem with `{words}` in {}, found {error:?}", file!()))
}

fn wrong_number_of_elements(trial: &mut Trial<'_>) -> Verdict {
    let outcome = trial.device.tensor(&[1, 2, 3], [2, 2]);
    expect!(refused(trial, outcome)?, Error::Length { given: 3, expected: 4, .. })?;
    let mut x = trial.device.zeros::<i32, 1>([4])?;
    let outcome = x.write(&[1; 5]);
    expect!(refused(trial, outcome)?, Error::Length { given: 5, expected: 4, .. })?;
    let outcome = x.reshape([3, 2]);
    expect!(refused(trial, outcome)?, Error::Length { .. })?;
    let outcome = x.slice(0, 2..5);
    expect!(refused(trial, outcome)?, Error::Range { .. })
}

fn shapes_that_cannot_be_addressed(trial: &mut Trial<'_>) -> Verdict {
    let outcome = trial.device.uninit::<f64, 2>([usize::MAX / 2, 3]);
    expect!(refused(trial, outcome)?, Error::TooLarge { .. })
}

fn out_of_memory(trial: &mut Trial<'_>) -> Verdict {
    let elements = 1usize << 45;
    let outcome = trial.device.uninit::<f32, 1>([elements]);
    let error = refused(trial, outcome)?;
    expect!(
        error,
        Error::Device(kiln_backend::Error::OutOfMemory { requested, free, total, .. })
            if *requested == 4 << 45 && free <= total
    )
}

fn uninitialized_argument(trial: &mut Trial<'_>) -> Verdict {
    let x = trial.device.uninit([10])?;
    let mut y = trial.output([10])?;
    let outcome = scale(&x, &mut y, 1.0, 16).launch(trial.device);
    expect!(refused(trial, outcome)?, Error::Uninitialized { what } if what.contains("`x`") && what.contains("`scale`"))?;
    let outcome = x.to_vec();
    expect!(refused(trial, outcome)?, Error::Uninitialized { .. })
}

fn overlapping_arguments(trial: &mut Trial<'_>) -> Verdict {
    let (whole, data) = trial.input::<f32, 1>([40])?;
    let (x, mut y) = (whole.slice(0, 0..25)?, whole.slice(0, 15..40)?);
    let outcome = scale(&x, &mut y, 1.0, 16).launch(trial.device);
    let error = refused(trial, outcome)?;
    expect!(error, Error::Overlap { first, second, .. } if first == "x" && second == "y")?;
    holds("what was not launched wrote nothing", &whole, &data)
}

fn argument_on_another_device(trial: &mut Trial<'_>) -> Verdict {
    let other = if trial.device.capabilities().is_interpreted() { "cpu" } else { "interp" };
    let other = Device::open(other)?;
    let x = other.tensor(&[1.0f32; 10], [10])?;
    let mut y = trial.output([10])?;
    let outcome = scale(&x, &mut y, 1.0, 16).launch(trial.device);
    let error = refused(trial, outcome)?;
    let (here, there) = (trial.device.id(), other.id());
    expect!(error, Error::DeviceMismatch { argument, found, expected, .. } if argument == "x" && found == there && expected == here)?;
    let mut moved = x.to_device(trial.device)?;
    scale(&moved.copy()?, &mut moved, 3.0, 16).launch(trial.device)?;
    holds("copied over", &moved, &[3.0; 10])
}

fn grid_over_the_limit(trial: &mut Trial<'_>) -> Verdict {
    let limit = trial.device.properties().max_grid;
    for axis in 0..3 {
        let Some(over) = limit[axis].checked_add(1) else { continue };
        let (x, _) = trial.input::<f32, 1>([10])?;
        let mut y = trial.output([10])?;
        let mut grid = [1; 3];
        grid[axis] = over;
        let outcome = scale(&x, &mut y, 1.0, 16).grid(grid).launch(trial.device);
        let error = refused(trial, outcome)?;
        let (given, bound) = (u64::from(over), u64::from(limit[axis]));
        expect!(
            error,
            Error::Device(kiln_backend::Error::LaunchLimit { given: g, limit: l, .. }) if *g == given && *l == bound
        )?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn number(y: &mut Tensor<i32, 1>) {
    let i = thread_index();
    y.set_or_skip(i, i.get().cast::<i32>());
}

fn block_over_the_limit(trial: &mut Trial<'_>) -> Verdict {
    for block in [[2048, 1, 1], [64, 64, 1], [1, 1, 1 << 20], [0, 1, 1]] {
        let mut y = trial.output([10])?;
        let outcome = number(&mut y).grid([1; 3]).block(block).launch(trial.device);
        let error = refused(trial, outcome)?;
        use kiln_backend::Error::{Compile, LaunchLimit};
        expect!(error, Error::Kernel { .. } | Error::Device(LaunchLimit { .. } | Compile { .. }))?;
    }
    Ok(())
}

fn empty_grid(trial: &mut Trial<'_>) -> Verdict {
    let (x, _) = trial.input::<f32, 1>([10])?;
    let mut y = trial.device.tensor(&[5.0f32; 10], [10])?;
    for grid in [[0, 1, 1], [1, 0, 1], [1, 1, 0]] {
        scale(&x, &mut y, 1.0, 16).grid(grid).launch(trial.device)?;
    }
    holds("nothing was written", &y, &[5.0; 10])
}

#[kernel(crate = kiln_runtime)]
fn count_programs(y: &mut Tensor<i32, 1>) {
    y.atomic_add(0, (program_id(0) + 1).cast::<i32>());
}

fn grid_that_does_not_follow(trial: &mut Trial<'_>) -> Verdict {
    let mut y = trial.device.zeros([1])?;
    let outcome = count_programs(&mut y).launch(trial.device);
    expect!(refused(trial, outcome)?, Error::Grid { kernel, .. } if kernel == "count_programs")?;
    count_programs(&mut y).grid([4, 1, 1]).launch(trial.device)?;
    holds("with a grid", &y, &[10])
}

#[kernel(crate = kiln_runtime)]
fn two_outputs(a: &mut Tensor<i32, 1>, b: &mut Tensor<i32, 1>) {
    let p = program_id(0);
    a.tile(p * 8, 8).store(full(8, 1));
    b.tile(p * 8, 8).store(full(8, 2));
}

fn grids_that_disagree(trial: &mut Trial<'_>) -> Verdict {
    let (mut a, mut b) = (trial.output([20])?, trial.output([30])?);
    let outcome = two_outputs(&mut a, &mut b).launch(trial.device);
    let error = refused(trial, outcome)?;
    expect!(error, Error::Grid { reason, .. } if reason.contains("`a`") && reason.contains("`b`"))?;
    two_outputs(&mut a, &mut b).grid([4, 1, 1]).launch(trial.device)?;
    holds("a", &a, &[1; 20])?;
    holds("b", &b, &[2; 30])
}

#[kernel(crate = kiln_runtime)]
fn collide(y: &mut Tensor<i32, 1>) {
    y.tile(program_id(0) * 4, 8).store(full(8, 1));
}

fn stores_that_collide(trial: &mut Trial<'_>) -> Verdict {
    let mut y = trial.output([20])?;
    let outcome = collide(&mut y).grid([5, 1, 1]).launch(trial.device);
    let error = refused(trial, outcome)?;
    expect_kernel(&error, "collide")?;
    expect_kernel(&error, "`y`")
}

#[kernel(crate = kiln_runtime)]
fn misfit(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let p = program_id(0);
    y.tile(p * 16, 16).store(x.tile(p * 16, 16).load(0.0) + x.load(8, 0.0));
}

fn shapes_that_do_not_combine(trial: &mut Trial<'_>) -> Verdict {
    let (x, _) = trial.input::<f32, 1>([16])?;
    let mut y = trial.output([16])?;
    let outcome = misfit(&x, &mut y).launch(trial.device);
    expect_kernel(&refused(trial, outcome)?, "do not combine")?;
    // A kernel that was refused is refused again.
    let outcome = misfit(&x, &mut y).launch(trial.device);
    expect_kernel(&refused(trial, outcome)?, "do not combine")
}

fn threads_without_a_block(trial: &mut Trial<'_>) -> Verdict {
    let mut y = trial.output([10])?;
    let outcome = number(&mut y).grid([1; 3]).launch(trial.device);
    expect_kernel(&refused(trial, outcome)?, "needs a launch with threads")
}

#[kernel(crate = kiln_runtime)]
fn too_large(y: &mut Tensor<i32, 1>, by: usize) {
    y.tile(program_id(0) * 8, 8).store(iota::<i32>(8) + by);
}

fn constants_out_of_range(trial: &mut Trial<'_>) -> Verdict {
    let mut y = trial.output([8])?;
    let outcome = too_large(&mut y, 1 << 40).launch(trial.device);
    expect_kernel(&refused(trial, outcome)?, "does not fit i32")?;
    too_large(&mut y, 1 << 20).launch(trial.device)?;
    holds("another constant", &y, &list(0..8, |i| i + (1 << 20)))
}

fn unknown_device(trial: &mut Trial<'_>) -> Verdict {
    let outcome = Device::open("abacus");
    expect!(refused(trial, outcome)?, Error::UnknownDevice { name, available } if name == "abacus" && available.contains("cpu"))?;
    let outcome = Device::open("cuda:4095");
    expect!(refused(trial, outcome)?, Error::Device(kiln_backend::Error::Unavailable { .. }))
}

#[kernel(crate = kiln_runtime)]
fn three_mistakes(x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>) {
    let v = x.load(8, 0.0) + x.load(16, 0.0);
    let w = x.load(8, 0.0).reshape(5);
    y.tile(program_id(0) * 8, 8).store(v + w + x.load(8, 0.0).sum_axis(3));
}

fn every_problem_at_once(trial: &mut Trial<'_>) -> Verdict {
    let (x, _) = trial.input::<f32, 1>([16])?;
    let mut y = trial.output([16])?;
    let outcome = three_mistakes(&x, &mut y).launch(trial.device);
    let error = refused(trial, outcome)?;
    for words in ["do not combine", "holds 8 elements", "has no axis 3"] {
        expect_kernel(&error, words)?;
    }
    Ok(())
}

fn empty_arguments(trial: &mut Trial<'_>) -> Verdict {
    let x = trial.output::<f32, 1>([0])?;
    let mut y = trial.output::<f32, 1>([0])?;
    scale(&x, &mut y, 1.0, 16).launch(trial.device)?;
    let mut z = trial.output::<i32, 1>([0])?;
    number(&mut z).grid([1; 3]).block([32, 1, 1]).launch(trial.device)?;
    trial.device.synchronize()?;
    holds("nothing", &y, &[])
}

fn occupancy(trial: &mut Trial<'_>) -> Verdict {
    let (x, _) = trial.input::<f32, 1>([53])?;
    let mut y = trial.output([53])?;
    match scale(&x, &mut y, 2.0, 16).compile(trial.device)?.occupancy() {
        Ok(found) => {
            let fits = (1..=found.max_warps).contains(&found.warps) && found.blocks <= found.warps;
            ensure(fits && found.limit != OccupancyLimit::Other, || format!("{found:?}"))
        }
        // A device without such a number says so.
        Err(Error::Device(kiln_backend::Error::Unavailable { .. })) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
