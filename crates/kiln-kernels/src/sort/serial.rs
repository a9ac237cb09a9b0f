//! Sorting by digits on a CPU: a thread has a part of a row and takes one element after the other,
//! with the counts of its digits in memory of its own.
//!
//! Steps over tiles would sort each tile by a network, as GPUs do: some 60 steps for an element and
//! pass, in place of two loads and a store.

use super::Sortable;
use super::kernels::{DIGIT, DIGITS, one_digit, ordered};
use crate::sizes::{elements_per_program, resident_programs};
use kiln_lang::prelude::*;
use kiln_runtime::{Result, Tensor};

/// The keys of elements, `block` of a row a program.
#[kernel(crate = kiln_runtime)]
fn keys_of<T: Sortable>(x: &Tensor<T, 2>, keys: &mut Tensor<T::Key, 2>, descending: bool, block: usize) {
    let (at, row) = (program_id(0) * block, program_id(1));
    keys.row(row).tile(at, block).store(ordered(x.row(row).tile(at, block).load(0), descending));
}

/// How often digits occur: `counts` is rows x (digits · parts).
#[kernel(crate = kiln_runtime)]
fn count<K: Int>(keys: &Tensor<K, 2>, counts: &mut Tensor<u32, 2>, shift: Val<u32>, part: Val<i64>) {
    let (at, parts, row) = (program_id(0), num_programs(0), program_id(1));
    let found = local::<u32>(DIGITS);
    for digit in range(0, DIGITS) {
        found.set(digit, 0);
    }
    for i in range(at * part, (at * part + part).min(keys.extent(1))) {
        let digit = one_digit(keys.get((row, i)), shift);
        found.set(digit, found.get(digit) + 1);
    }
    for digit in range(0, DIGITS) {
        // SAFETY: each part has counts of its own.
        unsafe { counts.write((row, digit * parts + at), found.get(digit)) };
    }
}

/// A pass by the digit from `shift` on. The first one reads no indices.
#[kernel(crate = kiln_runtime)]
fn place<K: Int>(
    keys: &Tensor<K, 2>,
    indices: &Tensor<u32, 2>,
    counts: &Tensor<u32, 2>,
    to_keys: &mut Tensor<K, 2>,
    to_indices: &mut Tensor<u32, 2>,
    shift: Val<u32>,
    is_first: bool,
    part: Val<i64>,
) {
    let (at, parts, row) = (program_id(0), num_programs(0), program_id(1));
    let next = local::<u32>(DIGITS);
    let mut before: Val<u32> = 0;
    for digit in range(0, DIGITS) {
        let mut own = before;
        for other in range(0, parts) {
            let found = counts.get((row, digit * parts + other));
            own += select(other.lt(at), found, 0);
            before += found;
        }
        next.set(digit, own);
    }
    for i in range(at * part, (at * part + part).min(keys.extent(1))) {
        let key = keys.get((row, i));
        let digit = one_digit(key, shift);
        let place = next.get(digit);
        next.set(digit, place + 1);
        let index = if is_first { i.cast::<u32>() } else { indices.get((row, i)) };
        let place = place.cast::<i64>();
        // SAFETY: places are a permutation of the row's: each is the number of elements with a
        // smaller digit, or the same and an earlier index.
        unsafe {
            to_keys.write((row, place), key);
            to_indices.write((row, place), index);
        }
    }
}

/// Indices as i64, `block` of a row a program.
#[kernel(crate = kiln_runtime)]
fn widen(indices: &Tensor<u32, 2>, order: &mut Tensor<i64, 2>, block: usize) {
    let (at, row) = (program_id(0) * block, program_id(1));
    order.row(row).tile(at, block).store(indices.row(row).tile(at, block).load(0).cast::<i64>());
}

/// The indices that put the rows of x in order.
pub(super) fn order<T: Sortable>(
    x: &Tensor<T, 2>,
    order: &mut Tensor<i64, 2>,
    descending: bool,
) -> Result<()> {
    let (device, [rows, columns]) = (x.device(), x.shape());
    let block = elements_per_program(device, size_of::<i64>()).min(columns.next_power_of_two());
    let tiles = [columns.div_ceil(block) as u32, rows as u32];
    let mut keys = device.uninit(x.shape())?;
    keys_of(x, &mut keys, descending, block).grid(tiles).launch(device)?;
    widen(&by_digits(keys, T::BITS)?, order, block).grid(tiles).launch(device)
}

/// The indices that put rows of keys of so many bits in order.
fn by_digits<K: Int>(mut keys: Tensor<K, 2>, bits: u32) -> Result<Tensor<u32, 2>> {
    let (device, shape) = (keys.device().clone(), keys.shape());
    let [rows, columns] = shape;
    let part = columns.div_ceil(resident_programs(&device).div_ceil(rows).clamp(1, columns));
    let parts = columns.div_ceil(part);
    let (grid, part) = ([parts as u32, rows as u32], part as i64);
    let mut counts = device.uninit([rows, DIGITS * parts])?;
    let (mut to_keys, mut to_indices) = (device.uninit(shape)?, device.uninit(shape)?);
    let mut indices: Option<Tensor<u32, 2>> = None;
    for shift in (0..bits).step_by(DIGIT as usize) {
        count(&keys, &mut counts, shift, part).grid(grid).block([1]).launch(&device)?;
        let (is_first, from) = (indices.is_none(), indices.as_ref().unwrap_or(&counts));
        place(&keys, from, &counts, &mut to_keys, &mut to_indices, shift, is_first, part)
            .grid(grid)
            .block([1])
            .launch(&device)?;
        std::mem::swap(&mut keys, &mut to_keys);
        let old = match indices {
            Some(old) => old,
            None => device.uninit(shape)?,
        };
        indices = Some(std::mem::replace(&mut to_indices, old));
    }
    Ok(indices.unwrap_or(to_indices))
}
