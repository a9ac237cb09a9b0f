//! Loops that are unrolled: the same rounds in the same order, whatever the bounds.

use crate::harness::{INPUTS, on_device};
use kiln_lang::prelude::*;

/// A number that depends on each round, its index and their order.
#[device(crate = kiln_lang)]
fn upwards(n: Val<i32>, factor: usize) -> Val<i32> {
    let mut sum: Val<i32> = 1;
    for i in range(-2, n).unroll(factor) {
        sum = sum * 3 + i;
    }
    sum
}

#[device(crate = kiln_lang)]
fn by_steps(n: Val<i32>, factor: usize) -> Val<i32> {
    let mut sum: Val<i32> = 1;
    for i in range_step(n, 30, 3).unroll(factor).rev() {
        let mut own: Val<i32> = 0;
        if i % 2 == 0 {
            continue;
        }
        if i > 9 {
            own += i;
        }
        sum = sum * 3 + own;
    }
    sum
}

/// To the last numbers of the type, by steps that leave it.
#[device(crate = kiln_lang)]
fn at_the_top(n: Val<i32>, factor: usize) -> Val<i32> {
    let mut sum: Val<i32> = 1;
    for i in range_step(val(i32::MAX - 20) + n.minimum(20), i32::MAX, 7).unroll(factor) {
        sum = sum * 3 + (i - (i32::MAX - 50));
    }
    sum
}

/// From the first numbers of the type.
#[device(crate = kiln_lang)]
fn at_the_bottom(n: Val<i32>, factor: usize) -> Val<i32> {
    let mut sum: Val<i32> = 1;
    for i in range(val(i32::MIN), n.maximum(0) + i32::MIN).unroll(factor) {
        sum = sum * 3 + (i - i32::MIN);
    }
    sum
}

#[device(crate = kiln_lang)]
fn of_bytes(n: Val<i32>, factor: usize) -> Val<i32> {
    let mut sum: Val<i32> = 1;
    for i in range(val::<u8>(2), n.maximum(0).cast::<u8>()).unroll(factor) {
        sum = sum * 3 + i.cast::<i32>();
    }
    sum
}

#[device(crate = kiln_lang)]
fn of_host_numbers(n: Val<i32>, factor: usize) -> Val<i32> {
    let mut sum: Val<i32> = n;
    for i in range_step(1, 24, 2).unroll(factor) {
        sum = sum * 3 + i.cast::<i32>();
    }
    sum
}

#[device(crate = kiln_lang)]
fn left_early(n: Val<i32>, factor: usize) -> Val<i32> {
    let mut sum: Val<i32> = 1;
    for i in range(0, n).unroll(factor) {
        if i == 13 {
            break;
        }
        sum = sum * 3 + i;
    }
    sum
}

fn host(rounds: impl Iterator<Item = i32>, first: i32) -> i32 {
    rounds.fold(first, |sum, i| sum.wrapping_mul(3).wrapping_add(i))
}

type Expected = fn(i32) -> i32;
type Device = fn(Val<i32>, usize) -> Val<i32>;

const LOOPS: [(&str, Device, Expected); 7] = [
    ("upwards", upwards, |n| host(-2..n, 1)),
    ("by_steps", by_steps, |n| {
        let all: Vec<i32> = (n..30).step_by(3).collect();
        host(all.into_iter().rev().filter(|i| i % 2 != 0).map(|i| if i > 9 { i } else { 0 }), 1)
    }),
    ("at_the_top", at_the_top, |n| {
        host((i32::MAX - 20 + n.min(20)..i32::MAX).step_by(7).map(|i| i - (i32::MAX - 50)), 1)
    }),
    ("at_the_bottom", at_the_bottom, |n| host(0..n.max(0), 1)),
    ("of_bytes", of_bytes, |n| host(2..n.max(0), 1)),
    ("of_host_numbers", of_host_numbers, |n| host((1..24).step_by(2), n)),
    ("left_early", left_early, |n| host(0..n.min(13), 1)),
];

#[test]
fn unrolled_loops_have_the_same_rounds() {
    for (name, device, expected) in LOOPS {
        let expected: Vec<i32> = INPUTS.map(expected).collect();
        for factor in [1, 2, 3, 4, 12, 16] {
            let found = on_device(name, |n| device(n, factor));
            assert_eq!(found, expected, "{name} by {factor}");
        }
    }
}

fn ir(body: impl FnOnce(ViewMut<i32, 1>, Val<i64>)) -> String {
    let kernel = trace("k", Level::Tile { warps: None }, |p| {
        let (y, n) = (p.view_mut("y", Default::default()), p.scalar("n", Default::default()));
        body(y, n);
    });
    let kernel = kernel.unwrap_or_else(|e| panic!("{e}"));
    kiln_ir::verify(&kernel).unwrap_or_else(|e| panic!("{e:?}\n{kernel}"));
    kernel.to_string()
}

#[device(crate = kiln_lang)]
fn stores(y: ViewMut<i32, 1>, n: Val<i64>) {
    for i in range(0, n).unroll(2) {
        y.tile(i, 1).store(7);
    }
}

#[device(crate = kiln_lang)]
fn four_stores(y: ViewMut<i32, 1>) {
    for i in range(0, 4).unroll(4) {
        y.tile(i, 1).store(7);
    }
}

#[test]
fn a_body_has_several_rounds_and_a_second_loop_the_rest() {
    let text = ir(stores);
    assert_eq!(text.matches(" = for ").count() + text.matches("  for ").count(), 2, "{text}");
    assert_eq!(text.matches("store.disjoint").count(), 3, "{text}");
}

#[test]
fn a_short_loop_of_host_numbers_is_none() {
    let text = ir(|y, _| four_stores(y));
    assert_eq!((text.matches("for ").count(), text.matches("store.disjoint").count()), (0, 4), "{text}");
}

#[test]
fn a_factor_of_none_is_refused() {
    let error = trace("k", Level::Tile { warps: None }, |_| _ = range(0, 4).unroll(0)).unwrap_err();
    assert!(error.to_string().contains("a loop cannot be unrolled by 0"), "{error}");
}
