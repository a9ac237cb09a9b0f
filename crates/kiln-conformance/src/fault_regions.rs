//! Fault regions: what would end a kernel becomes a value, and everything else goes on.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, ensure, holds, list};
use kiln_lang::prelude::*;
use kiln_runtime::Tensor;

pub fn cases() -> Vec<Case> {
    cases!["fault_regions":
        each_kind_of_fault;
        budgets_of_nested_loops;
        loops_without_end;
        nested_fault_regions;
        state_that_goes_back;
        effects_stay;
        one_thread_for_its_block;
        tiles;
    ]
}

/// More than one block of 32 threads, and not a whole number of them.
const COUNT: usize = 53;

/// Launches a kernel in threads, and then as programs over tiles; both leave in each of the views
/// what the reference says of each input.
macro_rules! compare {
    ($trial:ident, $inputs:expr, $kernel:ident, $host:expr) => {{
        let inputs: Vec<i32> = $inputs;
        let x = $trial.vector(&inputs)?;
        let (sites, values): (Vec<u32>, Vec<i32>) = inputs.iter().map(|&v| $host(v)).unzip();
        for threads in [true, false] {
            let mut site = $trial.output([inputs.len()])?;
            let mut value = $trial.output([inputs.len()])?;
            let launch = $kernel(&x, &mut site, &mut value, threads);
            match threads {
                true => launch.grid([2, 1, 1]).block([32, 1, 1]).launch($trial.device)?,
                false => launch.grid([inputs.len() as u32, 1, 1]).launch($trial.device)?,
            }
            let level = if threads { "threads" } else { "programs over tiles" };
            holds(&format!("sites of {level}"), &site, &sites)?;
            holds(&format!("values of {level}"), &value, &values)?;
        }
        Ok(())
    }};
}

/// A kernel that gives what a function of the device makes of each input.
macro_rules! kernel_of {
    ($name:ident, $on_device:ident) => {
        #[kernel(crate = kiln_runtime)]
        fn $name(x: &Tensor<i32, 1>, site: &mut Tensor<u32, 1>, value: &mut Tensor<i32, 1>, threads: bool) {
            if threads {
                let i = thread_index();
                let (s, v) = $on_device(x.get_or(i, 0));
                site.set_or_skip(i, s);
                value.set_or_skip(i, v);
            } else {
                let p = program_id(0);
                let (s, v) = $on_device(x.get(p));
                site.tile(p, 1).store(s.reshape(1));
                value.tile(p, 1).store(v.reshape(1));
            }
        }
    };
}

#[device(crate = kiln_runtime)]
fn one_of_three(v: Val<i32>) -> (Val<u32>, Val<i32>) {
    let a = local::<i32>(40);
    for k in 0..40 {
        a.set(k, k * k);
    }
    let mut trail: Val<i32> = 0;
    let (site, value) = fault_region(0, -7, || {
        trail += 1;
        device_assert!(v % 13 != 0, "{} is a multiple of 13", v);
        trail += 10;
        let square = a.get(v);
        trail += 100;
        square / (v % 5)
    });
    (site, value + trail * 10_000)
}

#[kernel(crate = kiln_runtime)]
fn kinds(x: &Tensor<i32, 1>, site: &mut Tensor<u32, 1>, value: &mut Tensor<i32, 1>) {
    let i = thread_index();
    let (s, v) = one_of_three(x.get_or(i, 1));
    site.set_or_skip(i, s);
    value.set_or_skip(i, v);
}

fn each_kind_of_fault(trial: &mut Trial<'_>) -> Verdict {
    let inputs: Vec<i32> = (-9..COUNT as i32 - 9).collect();
    let x = trial.vector(&inputs)?;
    let (mut site, mut value) = (trial.output([COUNT])?, trial.output([COUNT])?);
    kinds(&x, &mut site, &mut value).grid([2, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    let host = |&v: &i32| match v {
        _ if v % 13 == 0 => (1, -7),
        _ if !(0..40).contains(&v) => (2, -7),
        _ if v % 5 == 0 => (3, -7),
        _ => (0, v * v / (v % 5) + 1_110_000),
    };
    let (sites, values): (Vec<u32>, Vec<i32>) = inputs.iter().map(host).unzip();
    holds("sites", &site, &sites)?;
    holds("values", &value, &values)?;
    trial.device.synchronize()?;
    Ok(())
}

#[device(crate = kiln_runtime)]
fn triangle(v: Val<i32>) -> (Val<u32>, Val<i32>) {
    let mut pairs: Val<i32> = 0;
    let (site, value) = fault_region(60, -1, || {
        for i in 0..v {
            for j in i..v {
                if i * j == 77 {
                    break;
                }
                pairs += 1;
            }
        }
        pairs
    });
    (site, value * 1000 + pairs)
}
kernel_of!(triangles, triangle);

fn budgets_of_nested_loops(trial: &mut Trial<'_>) -> Verdict {
    compare!(trial, (-3..20).collect(), triangles, |v: i32| {
        let pairs = if v > 0 { v * (v + 1) / 2 } else { 0 };
        if pairs + v.max(0) > 60 { (u32::MAX, -1000) } else { (0, pairs * 1001) }
    })
}

#[device(crate = kiln_runtime)]
fn for_ever(v: Val<i32>) -> (Val<u32>, Val<i32>) {
    let mut rounds: Val<i32> = 0;
    let (site, ()) = fault_region(1000, (), || {
        let go = val(true);
        while go {
            rounds += 1;
            device_assert!(rounds != v, "round {}", v);
        }
    });
    let mut kept: Val<i32> = 3;
    let (again, _) = fault_region(v.cast::<u32>() + 1, 0, || {
        loop {
            kept += 1;
            if kept > 40 {
                break;
            }
        }
        kept
    });
    (site, rounds + kept * 10 + select(again.eq(0), 1000, 0))
}
kernel_of!(endless, for_ever);

fn loops_without_end(trial: &mut Trial<'_>) -> Verdict {
    compare!(trial, list(0..COUNT as i32, |i| i * 37), endless, |v: i32| {
        // 38 rounds, the last of which takes no step back to the beginning but ends like all
        // others.
        let value = if v + 1 >= 38 { 410 + 1000 } else { 30 };
        (if (1..=1001).contains(&v) { 1 } else { u32::MAX }, value)
    })
}

#[device(crate = kiln_runtime)]
fn inner_and_outer(v: Val<i32>) -> (Val<u32>, Val<i32>) {
    let mut trail: Val<i32> = 0;
    let (outer, value) = fault_region(20, -3, || {
        trail += 1;
        let (inner, part) = fault_region(5, 7, || {
            trail += 10;
            for i in 0..v % 8 {
                device_assert!(i != 3 || v % 2 == 0, "round {} of {}", i, v);
            }
            100 / (v - 4)
        });
        trail += 100;
        for _ in 0..v / 2 {
            trail += 0;
        }
        part + select(inner.eq(u32::MAX), 50, inner.cast::<i32>())
    });
    (outer, value * 1000 + trail)
}
kernel_of!(nested, inner_and_outer);

fn nested_fault_regions(trial: &mut Trial<'_>) -> Verdict {
    compare!(trial, (0..COUNT as i32).collect(), nested, |v: i32| {
        let rounds = v % 8;
        // Steps of the inner fault region: those that were taken before it ended.
        let (part, trail, steps) = match v {
            _ if rounds > 3 && v % 2 == 1 => (7 + 1, 101, 3),
            _ if rounds > 5 => (7 + 50, 101, 6),
            4 => (7 + 2, 101, rounds),
            _ => (100 / (v - 4), 111, rounds),
        };
        if steps + v / 2 > 20 { (u32::MAX, -3000) } else { (0, part * 1000 + trail) }
    })
}

#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_runtime)]
struct Account {
    balance: Val<i32>,
    bookings: Val<i32>,
}

impl Account {
    #[device(crate = kiln_runtime)]
    fn book(&mut self, amount: Val<i32>) -> Val<i32> {
        self.bookings += 1;
        self.balance += amount;
        if self.balance > 90 {
            return self.balance;
        }
        device_assert!(self.balance >= 0, "overdrawn by {}", -self.balance);
        self.balance / amount
    }
}

#[device(crate = kiln_runtime)]
fn actor(v: Val<i32>) -> (Val<u32>, Val<i32>) {
    let mut account = Account { balance: val(0), bookings: val(0) };
    let mut refused: Val<u32> = 0;
    let mut answers: Val<i32> = 0;
    for i in range(0, 30) {
        let (fault, answer) = fault_region(0, 0, || account.book((i.cast::<i32>() * v) % 23 - 8));
        if fault != 0 {
            refused += fault;
        }
        answers += answer;
    }
    (refused, account.balance * 10_000 + account.bookings * 100 + answers)
}
kernel_of!(actors, actor);

fn state_that_goes_back(trial: &mut Trial<'_>) -> Verdict {
    compare!(trial, (0..COUNT as i32).collect(), actors, |v: i32| {
        let (mut balance, mut bookings, mut refused, mut answers) = (0, 0, 0, 0);
        for i in 0..30 {
            let amount = (i * v) % 23 - 8;
            match balance + amount {
                b if b < 0 => refused += 1,
                b if b <= 90 && amount == 0 => refused += 2,
                b => {
                    (balance, bookings) = (b, bookings + 1);
                    answers += if b > 90 { b } else { b / amount };
                }
            }
        }
        (refused, balance * 10_000 + bookings * 100 + answers)
    })
}

#[kernel(crate = kiln_runtime)]
fn writes(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, n: Val<i64>) {
    let i = thread_index();
    if i.get() < n {
        fault_region(0, (), || {
            y.set_or_skip(i, 1);
            let v = x.get(i.get() * 2);
            y.set_or_skip(i, v);
            device_assert!(v > 0);
            y.set_or_skip(i, v + 1000);
        });
    }
}

fn effects_stay(trial: &mut Trial<'_>) -> Verdict {
    let data: Vec<i32> = list(0..70, |i| i % 7 - 3);
    let x = trial.vector(&data)?;
    let mut y = trial.output([COUNT])?;
    writes(&x, &mut y, COUNT as i64).grid([2, 1, 1]).block([32, 1, 1]).launch(trial.device)?;
    let host = |i: usize| match data.get(2 * i) {
        None => 1,
        Some(&v) if v <= 0 => v,
        Some(&v) => v + 1000,
    };
    holds("what was written", &y, &list(0..COUNT, host))
}

#[kernel(crate = kiln_runtime)]
fn reversed(
    x: &Tensor<i32, 1>,
    y: &mut Tensor<i32, 1>,
    sites: &mut Tensor<u32, 1>,
    n: Val<i32>,
    threads: usize,
) {
    let i = thread_index();
    let t = thread_id(0);
    let memory = shared::<i32, 1>([threads]);
    let mut rounds: Val<i32> = 0;
    let (site, value) = fault_region(1000, -1, || {
        let v = x.get_or(i, 0);
        device_assert!(v != 99, "thread {}", t);
        if v > 50 {
            device_assert!(v != 98, "thread {}, one of some", t);
        }
        for _ in 0..n {
            // SAFETY: each thread writes its own element; barriers stand between that and reading.
            unsafe { memory.put(t, v + rounds) };
            barrier();
            rounds += memory.get(threads as i64 - 1 - t);
            barrier();
        }
        // Here no barrier follows: the fault is the thread's own.
        100 / (v - 7) + rounds
    });
    y.set_or_skip(i, value * 10 + rounds);
    sites.set_or_skip(i, site);
}

fn one_thread_for_its_block(trial: &mut Trial<'_>) -> Verdict {
    for threads in [32usize, 96, 5] {
        let n = 4 * threads;
        let mut data: Vec<i32> = list(0..n as i32, |i| i % 11 + 10);
        data[threads + 3] = 99;
        data[2 * threads + 4] = 98;
        data[3 * threads + 1] = 7;
        let x = trial.vector(&data)?;
        let mut y = trial.output([n])?;
        let mut sites = trial.output([n])?;
        let launch = reversed(&x, &mut y, &mut sites, 2, threads);
        launch.grid([4, 1, 1]).block([threads as u32, 1, 1]).launch(trial.device)?;
        let (mut values, mut expected) = (Vec::new(), Vec::new());
        for block in data.chunks(threads) {
            let common = [99, 98].iter().position(|v| block.contains(v)).map(|at| at as u32 + 1);
            let first: Vec<i32> = block.iter().rev().copied().collect();
            for (i, &v) in block.iter().enumerate() {
                // In the second round each thread adds what its partner has got in the first.
                let rounds = first[i] + first[i] + v;
                let own = (v == 7).then_some(5);
                expected.push(common.or(own).unwrap_or(0));
                values.push(match common.or(own) {
                    Some(_) => -10,
                    None => (100 / (v - 7) + rounds) * 10 + rounds,
                });
            }
        }
        holds(&format!("sites in blocks of {threads}"), &sites, &expected)?;
        holds(&format!("values in blocks of {threads}"), &y, &values)?;
    }
    Ok(())
}

#[kernel(crate = kiln_runtime)]
fn scaled_rows(x: &Tensor<i32, 2>, y: &mut Tensor<i32, 2>, sites: &mut Tensor<u32, 1>) {
    let p = program_id(0);
    let (site, row) = fault_region(0, -1, || {
        let row = x.row(p).load(16, 0);
        device_assert!(row.le(90), "row {} is too large", p);
        let least = row.reduce_min();
        row / least
    });
    y.row(p).store(row);
    sites.tile(p, 1).store(site.reshape(1));
}

fn tiles(trial: &mut Trial<'_>) -> Verdict {
    let (rows, columns) = (7, 16);
    let mut data: Vec<i32> = list(0..rows * columns, |i| (i % 77 + 3) as i32);
    data[2 * columns + 5] = 91;
    data[4 * columns + 15] = 0;
    let x = trial.device.tensor(&data, [rows, columns])?;
    let mut y = trial.output([rows, columns])?;
    let mut sites = trial.output([rows])?;
    scaled_rows(&x, &mut y, &mut sites).launch(trial.device)?;
    let expected_sites: Vec<u32> = list(0..rows, |r| [0, 0, 1, 0, 2, 0, 0][r]);
    let row = |(r, row): (usize, &[i32])| -> Vec<i32> {
        let least = row.iter().min().copied().unwrap_or(1);
        row.iter().map(|v| if expected_sites[r] == 0 { v / least } else { -1 }).collect()
    };
    let expected: Vec<i32> = data.chunks(columns).enumerate().flat_map(row).collect();
    ensure(expected_sites.len() == rows, || "a site for each row".into())?;
    holds("sites", &sites, &expected_sites)?;
    holds("rows", &y, &expected)
}
