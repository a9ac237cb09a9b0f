//! Rows of kernels, against the same kernels on another device of this machine.

use super::{Goal, Measured, Times};
use crate::bench::clock::{self, Cache};
use crate::bench::products::over_tiles;
use crate::bench::rows::{self, Call, Sizes};
use half::f16;
use kiln_lang::prelude::*;
use kiln_runtime::{Device, Result, Tensor};

/// Calls of a turn, and turns of each side.
const CALLS: usize = 5;
const TURNS: usize = 4;

/// A row: its name, what it must reach, the bytes that it moves, and how a call is made.
struct Row {
    name: &'static str,
    least: f64,
    bytes: fn(&Sizes) -> usize,
    make: fn(&Device, &Sizes) -> Result<Call>,
}

const ROWS: [Row; 9] = [
    Row { name: "copy_f32", least: 0.95, bytes: |s| 8 * s.elements, make: rows::make_copy },
    Row { name: "add_f32", least: 0.95, bytes: |s| 12 * s.elements, make: rows::make_add },
    Row { name: "saxpy_f32", least: 0.95, bytes: |s| 12 * s.elements, make: make_saxpy },
    Row { name: "sum_f32", least: 0.95, bytes: |s| 4 * s.elements, make: rows::make_sum },
    Row { name: "row_sums_f32", least: 0.95, bytes: |s| 4 * area(s), make: make_row_sums },
    Row { name: "softmax_f32", least: 0.9, bytes: |s| 8 * area(s), make: rows::make_softmax },
    Row { name: "layernorm_bf16", least: 0.9, bytes: |s| 4 * area(s), make: rows::make_layer_norm },
    Row { name: "matmul_f32", least: 0.9, bytes: |_| 0, make: |d, s| over_tiles::<f32>(d, side(s)) },
    Row { name: "matmul_f16", least: 0.5, bytes: |_| 0, make: |d, s| over_tiles::<f16>(d, side(s)) },
];

/// What a GPU takes a while for, with matrices as large as those of `kiln bench`, and what the CPU
/// as an adapter does in a moment.
const LARGE: Sizes = Sizes { elements: 1 << 26, matrix: [16384, 4096] };
const SMALL: Sizes = Sizes { elements: 1 << 18, matrix: [256, 1024] };

fn area(sizes: &Sizes) -> usize {
    sizes.matrix[0] * sizes.matrix[1]
}

/// The extent of the factors of a product.
fn side(sizes: &Sizes) -> usize {
    sizes.matrix[1] / 2
}

pub fn measure(device: &Device, is_software: bool, wanted: impl Fn(&str) -> bool) -> Vec<Measured> {
    let peer = Device::open("cuda:0").or_else(|_| Device::open("cpu")).map_err(|error| error.to_string());
    let name = peer.as_ref().map_or("none", Device::id).to_owned();
    let sizes = if is_software { SMALL } else { LARGE };
    let rows = ROWS.into_iter().filter(|row| wanted(row.name));
    let measured = rows.map(|row| {
        eprintln!("{} …", row.name);
        let times = peer
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|peer| in_turns([device, peer], &sizes, row.make).map_err(|error| error.to_string()));
        let (goal, bytes) = (Goal::Reaches(row.least), (row.bytes)(&sizes) as u64);
        Measured { name: row.name, peer: name.clone(), goal, bytes, times }
    });
    measured.collect()
}

/// The times of a call on two devices in turns, each of which begins with a call that is not
/// counted.
fn in_turns(
    devices: [&Device; 2],
    sizes: &Sizes,
    make: fn(&Device, &Sizes) -> Result<Call>,
) -> Result<Times> {
    let mut calls = [make(devices[0], sizes)?, make(devices[1], sizes)?];
    let mut times = Times { own: Vec::new(), peer: Vec::new() };
    for _ in 0..TURNS {
        times.own.extend(clock::times(devices[0], &mut calls[0], Cache::Written, CALLS)?);
        times.peer.extend(clock::times(devices[1], &mut calls[1], Cache::Written, CALLS)?);
    }
    Ok(times)
}

/// y = a x + y, `block` elements a program.
#[kernel(crate = kiln_runtime, contract)]
fn saxpy(a: Val<f32>, x: &Tensor<f32, 1>, y: &mut Tensor<f32, 1>, block: usize) {
    let at = program_id(0) * block;
    let sum = x.tile(at, block).streaming().load(0.0) * a + y.tile(at, block).load(0.0);
    y.tile(at, block).store(sum);
}

fn make_saxpy(device: &Device, sizes: &Sizes) -> Result<Call> {
    let (x, mut y) = (rows::vector(device, sizes.elements)?, rows::vector(device, sizes.elements)?);
    let device = device.clone();
    Ok(Box::new(move || saxpy(0.5, &x, &mut y, 1024).launch(&device)))
}

/// The sum of a row a program; `block` covers the row.
#[kernel(crate = kiln_runtime)]
fn row_sums(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 1>, block: usize) {
    let row = program_id(0);
    let sum = x.row(row).tile(0, block).streaming().load(0.0).sum();
    y.tile(row, 1).store(sum.reshape(1));
}

fn make_row_sums(device: &Device, sizes: &Sizes) -> Result<Call> {
    let [rows, columns] = sizes.matrix;
    let x = rows::vector(device, rows * columns)?.reshape([rows, columns])?;
    let mut y = device.zeros([rows])?;
    let device = device.clone();
    Ok(Box::new(move || row_sums(&x, &mut y, columns).launch(&device)))
}
