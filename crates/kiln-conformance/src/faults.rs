//! A kernel's own failure: reported with its place, and the device works on.

use crate::case::{Case, cases};
use crate::trial::{Stop, Trial, Verdict, ensure, holds, list, same};
use half::{bf16, f16};
use kiln_lang::prelude::*;
use kiln_reference::Sample;
use kiln_runtime::{Device, Fault, FaultKind, Result, Tensor};
use std::time::Duration;

pub fn cases() -> Vec<Case> {
    cases!["faults":
        failing_assert;
        failing_assert_on_a_tile;
        a_tile_fault_ends_the_whole_program;
        passing_assert;
        index_out_of_range for i32 f16 bf16 f64;
        store_out_of_range;
        local_out_of_range;
        division_by_zero for u8 i16 i32 u32 i64 u64;
        remainder_by_zero_on_a_tile for i32 u64;
        what_does_not_run_does_not_fault;
        reported_by_a_read;
        reported_once;
        loops_that_do_not_end;
    ]
}

const ENDLESS: u32 = line!();
#[kernel(crate = kiln_runtime)]
fn goes_round(y: &mut Tensor<i32, 1>) {
    let mut n: Val<i32> = 1;
    while n.gt(0) {
        n = n % 7 + 1;
    }
    y.set(thread_index(), n);
}

#[kernel(crate = kiln_runtime)]
fn goes_far(y: &mut Tensor<i32, 1>) {
    let mut sum = y.tile(0, 16).load(0);
    for i in range(0, y.extent(0) * (i64::MAX / 1024)) {
        sum = sum + i.cast::<i32>();
    }
    y.tile(0, 16).store(sum);
}
const ENDLESS_END: u32 = line!();

fn loops_that_do_not_end(trial: &mut Trial<'_>) -> Verdict {
    if !trial.device.capabilities().launch_limit {
        return Err(Stop::missing("launch limit"));
    }
    // With a limit of its own, which other cases do not see.
    let device = Device::open_apart(trial.device.id())?;
    let limit = Duration::from_millis(30);
    device.set_launch_limit(Some(limit))?;
    let mut y = device.zeros::<i32, 1>([64])?;
    for threads in [true, false] {
        match threads {
            true => goes_round(&mut y).grid([2]).block([32]).launch(&device)?,
            false => goes_far(&mut y).launch(&device)?,
        }
        let error = device.synchronize().err();
        let fault = error.as_ref().and_then(|e| e.fault());
        let fault = fault.ok_or_else(|| Stop::wrong(format!("expected a fault, found {error:?}")))?;
        check(fault, FaultKind::LaunchLimit { limit }, fault.block, None, [ENDLESS, ENDLESS_END])?;
    }
    device.set_launch_limit(None)?;
    let mut y = device.zeros::<i32, 1>([40])?;
    increment(&device.zeros([40])?, &mut y).grid([2]).block([32]).launch(&device)?;
    holds("a launch after the fault", &y, &[1; 40])
}

#[kernel(crate = kiln_runtime)]
fn increment(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    let i = thread_index();
    y.set_or_skip(i, x.get_or(i, 0) + 1);
}

/// The fault that a launch ends with; afterwards the device must work as before.
fn fault(trial: &mut Trial<'_>, launched: Result<()>) -> std::result::Result<Fault, Stop> {
    launched?;
    let error = trial.device.synchronize().err();
    let found = error.as_ref().and_then(|e| e.fault()).cloned();
    let (x, data) = trial.input::<i32, 1>([45])?;
    let mut y = trial.output([45])?;
    increment(&x, &mut y).grid([2, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    let expected: Vec<i32> = data.iter().map(|v| v.wrapping_add(1)).collect();
    holds("a launch after the fault", &y, &expected)?;
    found.ok_or_else(|| Stop::wrong(format!("expected a fault, found {error:?}")))
}

/// Compares what is reported; lines are those between which the kernel stands.
fn check(
    fault: &Fault,
    kind: FaultKind,
    block: [u32; 3],
    thread: Option<[u32; 3]>,
    lines: [u32; 2],
) -> Verdict {
    ensure(fault.kind == kind, || format!("the fault is {:?}, expected {kind:?}", fault.kind))?;
    let place = (fault.block, fault.thread);
    ensure(place == (block, thread), || {
        format!("in block and thread {place:?}, expected {:?}", (block, thread))
    })?;
    let line = fault.location.strip_prefix(concat!(file!(), ":")).and_then(|rest| rest.split(':').next());
    let inside = line.and_then(|l| l.parse().ok()).is_some_and(|l: u32| lines[0] < l && l < lines[1]);
    ensure(inside, || {
        format!("at `{}`, expected {} between lines {} and {}", fault.location, file!(), lines[0], lines[1])
    })
}

const ASSERT: u32 = line!();
#[kernel(crate = kiln_runtime)]
fn all_small(x: &Tensor<i32, 1>) {
    let i = thread_index();
    let v = x.get_or(i, 0);
    device_assert!(v < 1000, "element {} is {}, which is not small", i.get(), v);
}
const ASSERT_END: u32 = line!();

fn failing_assert(trial: &mut Trial<'_>) -> Verdict {
    let mut data = vec![1i32; 100];
    data[70] = 1234;
    let x = trial.vector(&data)?;
    let launched = all_small(&x).grid([4, 1, 1]).block([32, 1, 1]).launch(trial.device);
    let fault = fault(trial, launched)?;
    ensure(fault.kernel == "all_small", || format!("the kernel is called `{}`", fault.kernel))?;
    let message = "element 70 is 1234, which is not small".into();
    check(&fault, FaultKind::Assert { message }, [2, 0, 0], Some([6, 0, 0]), [ASSERT, ASSERT_END])
}

const TILE_ASSERT: u32 = line!();
#[kernel(crate = kiln_runtime)]
fn rows_are_sorted(x: &Tensor<f32, 2>) {
    let row = program_id(0);
    let v = x.row(row).load(16, f32::INFINITY);
    let next = x.row(row).tile(1, 16).load(f32::INFINITY);
    device_assert!(v.le(next), "row {} is not sorted", row);
}
const TILE_ASSERT_END: u32 = line!();

fn failing_assert_on_a_tile(trial: &mut Trial<'_>) -> Verdict {
    let mut data: Vec<f32> = list(0..55, |i| i as f32);
    data.swap(35, 36);
    let x = trial.device.tensor(&data, [5, 11])?;
    let launched = rows_are_sorted(&x).grid([5, 1, 1]).launch(trial.device);
    let fault = fault(trial, launched)?;
    let message = "row 3 is not sorted".into();
    check(&fault, FaultKind::Assert { message }, [3, 0, 0], None, [TILE_ASSERT, TILE_ASSERT_END])
}

const ROUNDS: u32 = line!();
#[kernel(crate = kiln_runtime)]
fn counts_down(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 2>, limit: Val<i32>, block: usize, divides: bool) {
    let mut v = x.tile(0, block).load(0);
    let mut round: Val<i64> = 0;
    // Threads that went on without the one that failed would see another greatest element.
    while v.reduce_max() > 0 {
        y.row(round).tile(0, block).store(v);
        if divides {
            v = v + 1000 / (v - limit) / 5000;
        } else {
            device_assert!(v.ne(limit), "round {}", round);
        }
        v = v - 1;
        round = round + 1;
    }
}
const ROUNDS_END: u32 = line!();

/// One element fails in a round: what was stored up to it is there, and nothing else.
fn a_tile_fault_ends_the_whole_program(trial: &mut Trial<'_>) -> Verdict {
    for (block, divides) in [(64, false), (64, true), (512, false), (512, true)] {
        let mut data: Vec<i32> = list(0..block as i32, |i| 5 + i % 4);
        data[block / 3] = 40;
        let x = trial.vector(&data)?;
        let mut y = trial.output::<i32, 2>([6, block])?;
        let launched = counts_down(&x, &mut y, 37, block, divides).grid([1; 3]).launch(trial.device);
        let fault = fault(trial, launched)?;
        let kind = match divides {
            true => FaultKind::DivisionByZero,
            false => FaultKind::Assert { message: "round 3".into() },
        };
        check(&fault, kind, [0; 3], None, [ROUNDS, ROUNDS_END])?;
        let stored = (0..4).flat_map(|round| data.iter().map(move |v| v - round));
        let expected: Vec<i32> = stored.chain(vec![i32::POISON; 2 * block]).collect();
        holds("what was stored before the fault", &y, &expected)?;
    }
    Ok(())
}

fn passing_assert(trial: &mut Trial<'_>) -> Verdict {
    let x = trial.vector(&[999i32; 77])?;
    all_small(&x).grid([4, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    trial.device.synchronize()?;
    Ok(())
}

const INDEX: u32 = line!();
#[kernel(crate = kiln_runtime)]
fn chase<T: Elem>(x: &Tensor<T, 1>, index: &Tensor<i64, 1>, y: &mut Tensor<T, 1>) {
    let i = thread_index();
    if i.get() < index.extent(0) {
        y.set(i, x.get(index.get(i)));
    }
}
const INDEX_END: u32 = line!();

fn index_out_of_range<T: Sample>(trial: &mut Trial<'_>) -> Verdict {
    let (x, data) = trial.input::<T, 1>([10])?;
    for wrong in [10i64, -1, 1 << 33] {
        let mut index = vec![3i64; 40];
        index[33] = wrong;
        let indices = trial.vector(&index)?;
        let mut y = trial.output::<T, 1>([40])?;
        let launched = chase(&x, &indices, &mut y).grid([2, 1, 1]).block([32, 1, 1]).launch(trial.device);
        let fault = fault(trial, launched)?;
        let kind = FaultKind::OutOfBounds { index: wrong, extent: 10 };
        check(&fault, kind, [1, 0, 0], Some([1, 0, 0]), [INDEX, INDEX_END])?;
        // The arguments of a kernel that failed stay usable.
        holds("the input", &x, &data)?;
    }
    Ok(())
}

const STORE: u32 = line!();
#[kernel(crate = kiln_runtime)]
fn overrun(y: &mut Tensor<i32, 1>) {
    let i = thread_index();
    y.set(i, i.get().cast::<i32>());
}
const STORE_END: u32 = line!();

fn store_out_of_range(trial: &mut Trial<'_>) -> Verdict {
    let whole = trial.output::<i32, 1>([40])?;
    let mut part = whole.slice(0, 0..31)?;
    let launched = overrun(&mut part).grid([1; 3]).block([32, 1, 1]).launch(trial.device);
    let fault = fault(trial, launched)?;
    let kind = FaultKind::OutOfBounds { index: 31, extent: 31 };
    check(&fault, kind, [0; 3], Some([31, 0, 0]), [STORE, STORE_END])?;
    same("what lies behind", &whole.to_vec()?[31..], &[i32::POISON; 9])
}

const LOCAL: u32 = line!();
#[kernel(crate = kiln_runtime)]
fn local_overrun(y: &mut Tensor<i32, 1>, n: Val<i32>) {
    let i = thread_index();
    let a = local::<i32>(8);
    for k in 0..n {
        a.set(k, k);
    }
    y.set(i, a.get(n - 1));
}
const LOCAL_END: u32 = line!();

fn local_out_of_range(trial: &mut Trial<'_>) -> Verdict {
    let mut y = trial.output([1])?;
    local_overrun(&mut y, 8).grid([1; 3]).block([1; 3]).launch(trial.device)?;
    holds("the last element", &y, &[7])?;
    let launched = local_overrun(&mut y, 9).grid([1; 3]).block([1; 3]).launch(trial.device);
    let fault = fault(trial, launched)?;
    let kind = FaultKind::OutOfBounds { index: 8, extent: 8 };
    check(&fault, kind, [0; 3], Some([0; 3]), [LOCAL, LOCAL_END])
}

const DIVISION: u32 = line!();
#[kernel(crate = kiln_runtime)]
fn divide<T: Int>(a: &Tensor<T, 1>, b: &Tensor<T, 1>, y: &mut Tensor<T, 1>) {
    let i = thread_index();
    y.set_or_skip(i, a.get_or(i, 1) / b.get_or(i, 1));
}

#[kernel(crate = kiln_runtime)]
fn remainders<T: Int>(a: &Tensor<T, 1>, b: &Tensor<T, 1>, y: &mut Tensor<T, 1>, block: usize) {
    let at = program_id(0) * block;
    y.tile(at, block).store(a.tile(at, block).load(1) % b.tile(at, block).load(1));
}
const DIVISION_END: u32 = line!();

fn division_by_zero<T: Sample + Int>(trial: &mut Trial<'_>) -> Verdict {
    let (a, _) = trial.input::<T, 1>([50])?;
    let mut divisors = vec![T::small(3); 50];
    divisors[40] = T::small(0);
    let b = trial.vector(&divisors)?;
    let mut y = trial.output::<T, 1>([50])?;
    let launched = divide(&a, &b, &mut y).grid([2, 1, 1]).block([32, 1, 1]).launch(trial.device);
    let fault = fault(trial, launched)?;
    check(&fault, FaultKind::DivisionByZero, [1, 0, 0], Some([8, 0, 0]), [DIVISION, DIVISION_END])
}

fn remainder_by_zero_on_a_tile<T: Sample + Int>(trial: &mut Trial<'_>) -> Verdict {
    let (a, _) = trial.input::<T, 1>([50])?;
    let mut divisors = vec![T::small(3); 50];
    divisors[40] = T::small(0);
    let b = trial.vector(&divisors)?;
    let mut y = trial.output::<T, 1>([50])?;
    let launched = remainders(&a, &b, &mut y, 16).launch(trial.device);
    let fault = fault(trial, launched)?;
    check(&fault, FaultKind::DivisionByZero, [2, 0, 0], None, [DIVISION, DIVISION_END])
}

#[kernel(crate = kiln_runtime)]
fn bounded(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>) {
    let i = thread_index();
    let mut v: Val<i32> = -1;
    if i.get() < x.extent(0) {
        v = x.get(i);
        if v != 0 {
            v = 100 / v;
            device_assert!(v <= 100);
        }
    }
    y.set_or_skip(i, v);
}

fn what_does_not_run_does_not_fault(trial: &mut Trial<'_>) -> Verdict {
    let data: Vec<i32> = list(0..40, |i| i % 5);
    let x = trial.vector(&data)?;
    let mut y = trial.output([60])?;
    bounded(&x, &mut y).grid([2, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    let reference = |i| data.get(i).map_or(-1, |&v| if v == 0 { 0 } else { 100 / v });
    holds("bounded", &y, &list(0..60, reference))
}

fn reported_by_a_read(trial: &mut Trial<'_>) -> Verdict {
    let x = trial.vector(&[5i32, 1, 0])?;
    let mut y = trial.output([3])?;
    divide(&x, &x, &mut y).grid([1; 3]).block([32, 1, 1]).launch(trial.device)?;
    let read = y.to_vec();
    let fault = read.as_ref().err().and_then(|e| e.fault());
    let right = fault.is_some_and(|f| f.kind == FaultKind::DivisionByZero && f.thread == Some([2, 0, 0]));
    ensure(right, || format!("reading the result gave {read:?}"))
}

fn reported_once(trial: &mut Trial<'_>) -> Verdict {
    let x = trial.vector(&[5000i32])?;
    all_small(&x).grid([1; 3]).block([32, 1, 1]).launch(trial.device)?;
    ensure(trial.device.synchronize().is_err(), || "the fault was not reported".into())?;
    trial.device.synchronize()?;
    trial.device.synchronize()?;
    Ok(())
}
