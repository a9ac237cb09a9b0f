//! Signals: tasks of programs that wait for those before them.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds, holds_near, list};
use kiln_lang::explicit::*;
use kiln_lang::prelude::*;
use kiln_reference::{Host, Sample};
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["explicit::signals":
        chain_of_programs for f32 i32;
        one_thread_signals;
    ]
}

/// Columns of a row.
const WIDTH: usize = 256;

/// Each program adds its row to the sums of those before it, in two tasks, each with signals and
/// half of the columns of its own. What was waited for is taken back.
#[kernel(crate = kiln_runtime)]
fn chain<T: Num>(rows: &Tensor<T, 2>, sums: &mut Tensor<T, 2>, signals: &mut Tensor<u32, 1>) {
    let own = program_id(0);
    tasks()
        .copies(2, 4, 0, || {
            let (column, before) = (task_rank() * (WIDTH / 2), (own - 1) * 2 + task_rank());
            let mut sum = rows.tile((own, column), (1, WIDTH / 2)).load(0);
            if own.gt(0) {
                // SAFETY: there are two signals for each program, and the one before begins first
                // and waits for none after it.
                unsafe { signal_wait(signals, before, 7) };
                sum += sums.tile((own - 1, column), (1, WIDTH / 2)).load(0);
                // SAFETY: as above, and nothing else waits for it.
                unsafe { signal(signals, before, 0) };
            }
            // SAFETY: each task of each program has a place of its own, which the next program
            // reads after the signal.
            unsafe { sums.tile((own, column), (1, WIDTH / 2)).store_overlapping(sum) };
            // SAFETY: as above.
            unsafe { signal(signals, own * 2 + task_rank(), 7) };
        })
        .run();
}

/// Three launches with one set of signals, which each leaves as it found them but for the last
/// program's.
fn chain_of_programs<T: Sample + Num>(trial: &mut Trial<'_>) -> Verdict {
    let mut signals = trial.device.zeros::<u32, 1>([2 * 300])?;
    for programs in [1, 3, 300] {
        let (rows, xs) = trial.input::<T, 2>([programs, WIDTH])?;
        let mut sums = trial.output::<T, 2>([programs, WIDTH])?;
        chain(&rows, &mut sums, &mut signals).grid([programs as u32]).launch(trial.device)?;
        let mut expected: Vec<Host> = Vec::new();
        for (i, x) in xs.iter().enumerate() {
            let before = i.checked_sub(WIDTH).map_or(T::small(0).host(), |above| expected[above]);
            expected.push(x.host().add(before));
        }
        holds_near("the sums", &sums, &expected, 256.0, 64.0)?;
        let mut left = vec![0; 600];
        left[2 * programs - 2..2 * programs].fill(7);
        holds("the signals", &signals, &left)?;
        signals = trial.device.zeros([2 * 300])?;
    }
    Ok(())
}

/// A task of one thread signals one of many warps of the same program, and of the next.
#[kernel(crate = kiln_runtime)]
fn signal_next(numbers: &mut Tensor<u32, 1>, signals: &mut Tensor<u32, 1>) {
    let own = program_id(0);
    tasks()
        .task(1, 0, || {
            // SAFETY: there is a signal for each program.
            unsafe { signal(signals, own, own.cast::<u32>() + 1) };
        })
        .task(8, 0, || {
            for from in range((own - 1).maximum(0), own + 1) {
                // SAFETY: there is a signal for each program; of other programs only the one before
                // is waited for.
                unsafe { signal_wait(signals, from, from.cast::<u32>() + 1) };
            }
            let value = full::<u32>(1, own.cast::<u32>() * 10);
            // SAFETY: each program has an element of its own.
            unsafe { numbers.tile(own, 1).store_overlapping(value) };
        })
        .run();
}

fn one_thread_signals(trial: &mut Trial<'_>) -> Verdict {
    let mut signals = trial.device.zeros::<u32, 1>([150])?;
    let mut numbers = trial.output::<u32, 1>([150])?;
    signal_next(&mut numbers, &mut signals).grid([150]).launch(trial.device)?;
    let expected: Vec<u32> = list(0..150, |i| 10 * i);
    holds("the numbers", &numbers, &expected)?;
    holds("the signals", &signals, &(1..=150).collect::<Vec<u32>>())
}
