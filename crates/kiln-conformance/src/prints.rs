//! What kernels print.

use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, list, same};
use kiln_lang::prelude::*;
use kiln_runtime::Tensor;
use std::sync::{Arc, Mutex, PoisonError};

pub fn cases() -> Vec<Case> {
    cases!["prints":
        from_threads;
        from_tiles;
        every_type;
    ]
}

/// The lines that a launch prints, in order of their text: the order of threads is no one's
/// promise.
fn printed(
    trial: &Trial<'_>,
    launch: impl FnOnce() -> kiln_runtime::Result<()>,
) -> Result<Vec<String>, Stop> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    let push = move |line: &str| {
        sink.lock().unwrap_or_else(PoisonError::into_inner).push(line.trim_end().to_owned())
    };
    trial.device.backend().set_print_sink(Arc::new(push));
    let done = launch().and_then(|()| trial.device.synchronize());
    trial.device.backend().set_print_sink(Arc::new(|line| println!("{line}")));
    done?;
    let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner).clone();
    lines.sort_unstable();
    Ok(lines)
}

#[kernel(crate = kiln_runtime)]
fn odd_elements(x: &Tensor<i32, 1>) {
    let i = thread_index();
    let v = x.get_or(i, 0);
    if v % 2 != 0 {
        device_print!("element {} is {}, twice is {}", i.get(), v, v * 2);
    }
}

fn from_threads(trial: &mut Trial<'_>) -> Verdict {
    let data: Vec<i32> = list(0..50, |i| i * i - 200);
    let x = trial.vector(&data)?;
    let lines = printed(trial, || odd_elements(&x).grid([2, 1, 1]).block([32, 1, 1]).launch(trial.device))?;
    let odd = data.iter().enumerate().filter(|(_, v)| *v % 2 != 0);
    let mut expected: Vec<String> =
        odd.map(|(i, v)| format!("element {i} is {v}, twice is {}", 2 * v)).collect();
    expected.sort_unstable();
    same("lines", &lines, &expected)
}

#[kernel(crate = kiln_runtime)]
fn row_sums(x: &Tensor<f32, 2>) {
    let row = program_id(0);
    device_print!("row {}: {}", row, x.row(row).load(8, 0.0).sum());
}

fn from_tiles(trial: &mut Trial<'_>) -> Verdict {
    let x = trial.device.tensor(&[1.5f32, 2.0, 0.25, -1.0, 0.0, 8.0], [3, 2])?;
    let lines = printed(trial, || row_sums(&x).grid([3, 1, 1]).launch(trial.device))?;
    same("lines", &lines, &["row 0: 3.5", "row 1: -0.75", "row 2: 8"].map(String::from))
}

#[kernel(crate = kiln_runtime)]
fn values(x: Val<i32>) {
    let (small, large) = (x.cast::<u32>(), x.cast::<i64>() * 10_000_000_000i64);
    device_print!("{} {} {} {} {}", x, small, large, large.cast::<u64>(), x.lt(0));
    device_print!(
        "{} {} {} {}",
        x.cast::<f32>() / 8,
        x.cast::<f64>() / 8,
        x.cast::<f16>() / 8,
        x.cast::<bf16>() / 8
    );
    device_print!("nothing to fill");
}

fn every_type(trial: &mut Trial<'_>) -> Verdict {
    let lines = printed(trial, || values(-3).grid([1; 3]).launch(trial.device))?;
    let unsigned = (-30_000_000_000i64) as u64;
    let integers = format!("-3 {} -30000000000 {unsigned} true", -3i32 as u32);
    same("lines", &lines, &["-0.375 -0.375 -0.375 -0.375".into(), integers, "nothing to fill".into()])
}
