//! Device values where only the host's will do.
use kiln_lang::prelude::*;

#[device(crate = kiln_lang)]
fn matched(x: Val<i32>) -> Val<i32> {
    match x {
        0 => x,
        _ => x + 1,
    }
}

#[device(crate = kiln_lang)]
fn cast(x: Val<i32>) -> Val<f32> {
    x as f32
}

#[device(crate = kiln_lang)]
fn number_as_condition(x: Val<i32>) {
    if x {
        device_print!("x");
    }
}

#[device(crate = kiln_lang)]
fn mixed_types(x: Val<i32>, y: Val<f32>) -> Val<f32> {
    y + x
}

#[device(crate = kiln_lang)]
fn stored(x: Val<i32>, y: Val<f32>) {
    let mut z = x;
    z = y;
}

#[device(crate = kiln_lang)]
fn integers_have_no_exp(x: Val<i32>) -> Val<i32> {
    x.exp()
}

#[device(crate = kiln_lang)]
fn shapes_are_static(n: Val<i64>) -> Val<f32> {
    zeros(n)
}

#[device(crate = kiln_lang)]
fn bools_have_no_order(a: Val<bool>, b: Val<bool>) -> Val<bool> {
    a < b
}

fn main() {}
