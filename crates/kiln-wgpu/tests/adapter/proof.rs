//! A sum, a softmax and a transpose through shared memory.

use crate::Test;
use crate::device::{Arg, Device};
use crate::{compiled, floats, random};

pub const TESTS: &[Test] = &[("add", add), ("softmax", softmax), ("transpose", transpose)];

fn add(device: &Device) -> Result<(), String> {
    let module = compiled(device, include_str!("../kernels/add.kir"))?;
    // The views begin at the third element of their buffers.
    let view = |values: &[f32]| Arg::View {
        bytes: bytemuck::cast_slice(values).to_vec(),
        offset: 2,
        extents: vec![values.len() as i64 - 2],
    };
    let (x, y) = (random(1002, 1), random(1002, 2));
    let results = device.run(&module, [16, 1, 1], &[view(&x), view(&y), view(&[7.0f32; 1002])])?;
    let got = floats(&results[2]);
    if got[..2] != [7.0, 7.0] {
        return Err("stored before the view".into());
    }
    for i in 2..1002 {
        let want = (f64::from(x[i]) + f64::from(y[i])) as f32;
        if got[i] != want {
            return Err(format!("element {i} is {}, expected {want}", got[i]));
        }
    }
    Ok(())
}

fn softmax(device: &Device) -> Result<(), String> {
    let module = compiled(device, include_str!("../kernels/softmax.kir"))?;
    for (rows, columns) in [(3, 300), (2, 1), (1, 64), (4, 65)] {
        let x: Vec<f32> = random(rows * columns, 3).iter().map(|v| v * 20.0).collect();
        let args = [Arg::rows(&x, rows), Arg::rows(&vec![7.0f32; rows * columns], rows)];
        let results = device.run(&module, [rows as u32, 1, 1], &args)?;
        let got = floats(&results[1]);
        for (row, got) in x.chunks(columns).zip(got.chunks(columns)) {
            let greatest = row.iter().fold(f64::NEG_INFINITY, |m, &v| m.max(f64::from(v)));
            let powers: Vec<f64> = row.iter().map(|&v| (f64::from(v) - greatest).exp()).collect();
            let sum: f64 = powers.iter().sum();
            for (i, (&got, power)) in got.iter().zip(powers).enumerate() {
                let want = power / sum;
                // The exponent is rounded to f32: 40 * 1.44 has an ulp of 4e-6.
                if (f64::from(got) - want).abs() > want * 2e-5 + 1e-12 {
                    return Err(format!("{rows} x {columns}: column {i} is {got}, expected {want}"));
                }
            }
        }
    }
    Ok(())
}

fn transpose(device: &Device) -> Result<(), String> {
    let module = compiled(device, include_str!("../kernels/transpose.kir"))?;
    for (rows, columns) in [(16, 16), (33, 50), (1, 40)] {
        let x = random(rows * columns, 4);
        let args = [Arg::rows(&x, rows), Arg::rows(&vec![7.0f32; rows * columns], columns)];
        let grid = [columns.div_ceil(16) as u32, rows.div_ceil(16) as u32, 1];
        let results = device.run(&module, grid, &args)?;
        let got = floats(&results[1]);
        for r in 0..rows {
            for c in 0..columns {
                let (got, want) = (got[c * rows + r], x[r * columns + c]);
                if got != want {
                    return Err(format!("{rows} x {columns}: row {r}, column {c} is {got}, expected {want}"));
                }
            }
        }
    }
    Ok(())
}
