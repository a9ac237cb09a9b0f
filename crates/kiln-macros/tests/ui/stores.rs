//! Stores at indices that are not known to be the thread's own.
use kiln_lang::prelude::*;

#[device(crate = kiln_lang)]
fn at_a_program(y: &ViewMut<f32, 1>) {
    y.set(program_id(0), 1.0);
}

#[device(crate = kiln_lang)]
fn at_a_pair(y: &ViewMut<f32, 2>) {
    y.set_or_skip([thread_id(1), thread_id(0)], 1.0);
}

#[device(crate = kiln_lang)]
fn of_another_rank(y: &ViewMut<f32, 2>) {
    y.set(thread_index(), 1.0);
}

fn main() {}
