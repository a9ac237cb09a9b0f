//! What the macros refuse by its syntax.
use kiln_lang::prelude::*;

#[device(crate = kiln_lang)]
fn no_value(x: Val<i32>) -> Val<i32> {
    let y;
    y = x;
    y
}

#[device(crate = kiln_lang)]
fn exit_in_an_operand(n: Val<i32>) -> Val<i32> {
    let mut s: Val<i32> = 0;
    for i in 0..n {
        s += i + if i > 3 { break } else { i };
        s = i32::max(3, if i > 3 { continue } else { 4 }) + s;
    }
    s
}

#[device(crate = kiln_lang)]
fn exit_in_a_condition(n: Val<i32>) {
    while if n > 3 { return } else { n < 2 } {}
}

#[device(crate = kiln_lang)]
async fn asynchronous() {}

#[kernel(crate = kiln_lang)]
fn returns(x: Val<i32>) -> Val<i32> {
    x
}

#[kernel(crate = kiln_lang)]
fn pattern((a, b): (usize, usize)) {}

#[kernel(crate = kiln_lang)]
fn implicit(f: impl Fn(Val<f32>) -> Val<f32>) {}

#[kernel(path = kiln_lang)]
fn option() {}

#[device(crate = kiln_lang, contract)]
fn contracted(x: Val<f32>) -> Val<f32> {
    x * x + 1.0
}

#[derive(Clone, Copy, DeviceValue)]
#[kiln(crate = kiln_lang)]
enum NotAStruct {
    A(Val<f32>),
}

fn main() {}
