//! Control flow on device values. Each function stands here once and is compiled twice: for the
//! device, and by rustc for the host.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, holds};
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Result, Tensor};

/// Small numbers around zero, more than one block of 32 threads.
fn inputs() -> Vec<i32> {
    (-9..52).collect()
}

/// Runs a kernel in threads, whose paths differ, and compares.
fn compare(
    trial: &mut Trial<'_>,
    launch: fn(&Tensor<i32, 1>, &mut Tensor<i32, 1>, bool, &Device) -> Result<()>,
    host: fn(i32) -> i32,
) -> Verdict {
    let inputs = inputs();
    let expected: Vec<i32> = inputs.iter().map(|&x| host(x)).collect();
    let x = trial.vector(&inputs)?;
    for threads in [true, false] {
        let mut y = trial.output([inputs.len()])?;
        launch(&x, &mut y, threads, trial.device)?;
        holds(if threads { "in threads" } else { "in programs over tiles" }, &y, &expected)?;
    }
    Ok(())
}

macro_rules! both {
    ($($name:ident($x:ident) { $($body:tt)* })*) => {
        $(fn $name(trial: &mut Trial<'_>) -> Verdict {
            #[device(crate = kiln_runtime)]
            fn on_device($x: Val<i32>) -> Val<i32> {
                #[allow(dead_code)]
                type I = Val<i32>;
                $($body)*
            }

            #[allow(clippy::all, unused)]
            fn on_host($x: i32) -> i32 {
                type I = i32;
                $($body)*
            }

            #[kernel(crate = kiln_runtime)]
            fn $name(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, threads: bool) {
                if threads {
                    let i = thread_index();
                    y.set_or_skip(i, on_device(x.get_or(i, 0)));
                } else {
                    let p = program_id(0);
                    y.tile(p, 1).store(on_device(x.get(p)).reshape(1));
                }
            }

            fn launch(x: &Tensor<i32, 1>, y: &mut Tensor<i32, 1>, threads: bool, device: &Device) -> Result<()> {
                let grid = if threads { y.len().div_ceil(32) } else { y.len() };
                let launch = $name(x, y, threads).grid([grid as u32, 1, 1]);
                if threads { launch.block([32, 1, 1]).launch(device) } else { launch.launch(device) }
            }
            compare(trial, launch, on_host)
        })*

        pub fn cases() -> Vec<Case> {
            cases!["flow": $($name;)*]
        }
    };
}

both! {
    complements_of_what_is_known(x) {
        let z: I = x & 7;
        let mut y: I = x;
        if z == 2 { y = x | !z; } else if z == 0 { y = x & !z; } else if z == 5 { y = x ^ (z ^ -1); }
        y
    }
    if_else_chain(x) {
        let mut y: I = 1;
        if x < -3 { y = x * 2; } else if x == 0 { y += 100; } else if x > 20 { y = y - x; }
        y
    }
    nested_ifs(x) {
        let mut y = x;
        if x % 2 == 0 {
            y += 1;
            if x % 3 == 0 { y *= 10; } else { if x > 10 { y -= 5; } y += 2; }
        }
        y
    }
    if_as_value(x) {
        let (a, b) = if x > 7 { (x, x + 1) } else { (x * 3, x - 1) };
        a * 100 + b
    }
    short_circuit(x) {
        let mut y: I = 0;
        if x != 0 && 60 / x > 3 { y += 1; }
        if x == 0 || 60 % x == 0 { y += 10; }
        if !(x > 3 && x < 9) || x == 5 { y += 100; }
        y
    }
    a_copy_keeps_its_value(x) {
        let mut a = x;
        let b = a;
        a += 1;
        let c = a;
        if x > 3 { a = a * 2; }
        a * 10_000 + b * 100 + c
    }
    while_collatz(x) {
        let mut n = if x < 1 { 1 - x } else { x };
        let mut steps: I = 0;
        while n != 1 {
            if n % 2 == 0 { n = n / 2; } else { n = 3 * n + 1; }
            steps += 1;
        }
        steps
    }
    for_device_bounds(x) {
        let mut s: I = 0;
        for i in 0..x { s += i * i; }
        for i in x - 2..=x { s -= i; }
        s
    }
    for_steps_and_reverse(x) {
        let mut s: I = 0;
        for i in (0..20).rev() { s = s * 3 % 1000 + i; if s > x * 20 { break; } }
        s
    }
    nested_loops(x) {
        let mut s: I = 0;
        for i in 0..x {
            let mut j = i;
            while j > 0 { s += j; j -= 3; }
        }
        s
    }
    loop_with_value(x) {
        let mut n = x;
        let found = loop {
            n += 1;
            if n % 7 == 0 { break n * 2; }
            if n % 11 == 0 { break -n; }
        };
        found + n
    }
    break_and_continue(x) {
        let mut s: I = 0;
        for i in 0..x {
            if i % 3 == 0 { continue; }
            s += i;
            if s > 60 { break; }
            if i % 5 == 0 { continue; }
            s += 100;
        }
        s
    }
    labeled_break(x) {
        let mut s: I = 0;
        'outer: for i in 0..x {
            for j in 0..x {
                if i * j > 30 { break 'outer; }
                if j > i { break; }
                s += j;
            }
            s += 1000;
        }
        s
    }
    labeled_continue(x) {
        let mut s: I = 0;
        'outer: for i in 0..x {
            let mut j: I = 0;
            while j < 6 {
                j += 1;
                if (i + j) % 5 == 0 { continue 'outer; }
                if j == 3 { continue; }
                s += j;
            }
            s += 100;
        }
        s
    }
    exits_in_an_unrolled_loop(x) {
        let mut s: I = 0;
        for k in [1, 2, 3, 4] {
            if x % k == 1 { continue; }
            s = s * 10 + k;
            if x < k { break; }
        }
        s
    }
    unrolled_inside_device_loop(x) {
        let mut s: I = 0;
        'outer: for i in 0..x {
            for k in [2, 3, 5] { if i % k == 0 { continue 'outer; } s += k; }
            s += 1000;
        }
        s
    }
    return_early(x) {
        if x < 0 { return 5; }
        if x > 20 { let y = x * 2; return y - 1; }
        x
    }
    return_from_loops(x) {
        for i in 0..x {
            for j in 0..i {
                if i * j == 12 { return i * 100 + j; }
            }
        }
        -1
    }
    return_from_endless_loop(x) {
        let mut n = x;
        loop {
            n += 1;
            if n % 6 == 0 { return n; }
        }
    }
    labeled_block(x) {
        let y = 'done: {
            if x > 10 { break 'done x - 10; }
            if x > 5 { break 'done 0; }
            x * 2
        };
        y + 1
    }
    swap_in_a_loop(x) {
        let mut a: I = 0;
        let mut b: I = 1;
        for _i in 0..x { (a, b) = (b, (a + b) % 10007); }
        a
    }
    deep_mixture(x) {
        let mut s: I = 0;
        'a: for i in 0..x {
            let mut j = i;
            'b: loop {
                j += 1;
                for k in [1, 2] {
                    if j % 4 == k { continue 'b; }
                    if i == 11 { break 'a; }
                    if j > 12 { break 'b; }
                    if s > 3000 { return s + k; }
                    s += k;
                }
                if j > 20 { continue 'a; }
                s += 5;
            }
            s += 1000;
        }
        s
    }
}
