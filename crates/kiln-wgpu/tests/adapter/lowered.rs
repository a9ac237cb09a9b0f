//! Kernels over tiles, through the compiler's optimizer, expansion and lowering for any GPU.

use crate::Test;
use crate::device::{Arg, Device};
use crate::{floats, random};
use kiln_compiler::{Target, pipeline};
use kiln_wgpu::Features;

pub const TESTS: &[Test] = &[
    ("tile_add", add),
    ("tile_softmax", softmax),
    ("tile_transpose", transpose),
    ("tile_scan", scan),
    ("tile_dot", dot),
    ("tile_functions", functions),
];

/// Runs a kernel over tiles, lowered for warps of 32 threads and for the adapter's subgroups: the
/// results, the same but for the order of sums, are those of its last argument.
fn run(device: &Device, text: &str, grid: [u32; 3], args: &[Arg]) -> Result<Vec<f32>, String> {
    let by_warps = run_in(device, 32, text, grid, args)?;
    if let Some(subgroup) = device.features.subgroup.filter(|&width| width < 32) {
        let by_subgroups = run_in(device, subgroup, text, grid, args)?;
        let different = by_warps.iter().zip(&by_subgroups).position(|(a, b)| (a - b).abs() > a.abs() * 1e-5);
        if let Some(i) = different {
            return Err(format!(
                "element {i} is {} in subgroups of {subgroup}, {} in warps",
                by_subgroups[i], by_warps[i]
            ));
        }
    }
    Ok(by_warps)
}

fn run_in(device: &Device, warp: u32, text: &str, grid: [u32; 3], args: &[Arg]) -> Result<Vec<f32>, String> {
    let kernel = kiln_ir::parse(text).map_err(|e| e.to_string())?;
    kiln_ir::verify(&kernel).map_err(|e| format!("{e:?}"))?;
    let target = Target::portable(warp, 16 << 10);
    let threads = pipeline::compile(&kernel, &target).map_err(|e| e.to_string())?.kernel;
    let module = kiln_wgpu::compile(&threads, Features { warp, ..device.features })
        .map_err(|e| format!("{e}\n{threads}"))?;
    let results = device.run(&module, grid, args)?;
    results.last().map(|bytes| floats(bytes)).ok_or_else(|| "no views".into())
}

/// Compares with a reference in f64, within a part of its size.
fn close(got: &[f32], want: &[f64], tolerance: f64) -> Result<(), String> {
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        if (f64::from(got) - want).abs() > tolerance * want.abs().max(1e-3) {
            return Err(format!("element {i} is {got}, expected {want}"));
        }
    }
    Ok(())
}

fn add(device: &Device) -> Result<(), String> {
    let text =
        "kernel @add(%x: view<f32, 1, global>, %y: view<f32, 1, global>, %z: mut view<f32, 1, global>) tile {
  %p = program_id x : i64
  %n = const 512 : i64
  %at = mul %p, %n : i64
  %0 = const 0.0 : f32
  %a = load %x[%at] pad %0 : f32[512]
  %b = load %y[%at] pad %0 : f32[512]
  %c = add %a, %b : f32[512]
  store.disjoint %z[%at] = %c
}";
    let (x, y) = (random(1300, 1), random(1300, 2));
    let got = run(device, text, [3, 1, 1], &[Arg::row(&x), Arg::row(&y), Arg::row(&[7.0f32; 1300])])?;
    let want: Vec<f64> = x.iter().zip(&y).map(|(&a, &b)| f64::from(a) + f64::from(b)).collect();
    close(&got, &want, 1e-6)
}

fn softmax(device: &Device) -> Result<(), String> {
    let text = "kernel @softmax(%x: view<f32, 2, global>, %y: mut view<f32, 2, global>) tile {
  %row = program_id x : i64
  %0 = const 0 : i64
  %pad = const -inf : f32
  %v = load %x[%row, %0] pad %pad : f32[1, 1024]
  %max = reduce.max %v axis 1 : f32[1]
  %max1 = reshape %max : f32[1, 1]
  %maxes = broadcast %max1 : f32[1, 1024]
  %less = sub %v, %maxes : f32[1, 1024]
  %e = exp %less : f32[1, 1024]
  %sum = reduce.sum %e axis 1 : f32[1]
  %sum1 = reshape %sum : f32[1, 1]
  %sums = broadcast %sum1 : f32[1, 1024]
  %q = div %e, %sums : f32[1, 1024]
  store.disjoint %y[%row, %0] = %q
}";
    for (rows, columns) in [(5, 1000), (1, 1), (3, 33), (2, 1024)] {
        let x: Vec<f32> = random(rows * columns, 3).iter().map(|v| v * 20.0).collect();
        let args = [Arg::rows(&x, rows), Arg::rows(&vec![7.0f32; rows * columns], rows)];
        let got = run(device, text, [rows as u32, 1, 1], &args)?;
        let mut want = Vec::new();
        for row in x.chunks(columns) {
            let greatest = row.iter().fold(f64::NEG_INFINITY, |m, &v| m.max(f64::from(v)));
            let powers: Vec<f64> = row.iter().map(|&v| (f64::from(v) - greatest).exp()).collect();
            let sum: f64 = powers.iter().sum();
            want.extend(powers.iter().map(|power| power / sum));
        }
        close(&got, &want, 5e-6).map_err(|e| format!("{rows} x {columns}: {e}"))?;
    }
    Ok(())
}

fn transpose(device: &Device) -> Result<(), String> {
    let text = "kernel @transpose(%x: view<f32, 2, global>, %y: mut view<f32, 2, global>) tile {
  %px = program_id x : i64
  %py = program_id y : i64
  %n = const 32 : i64
  %row = mul %px, %n : i64
  %column = mul %py, %n : i64
  %0 = const 0.0 : f32
  %v = load %x[%row, %column] pad %0 : f32[32, 32]
  %w = transpose %v [1, 0] : f32[32, 32]
  store.disjoint %y[%column, %row] = %w
}";
    let (rows, columns) = (50, 70);
    let x = random(rows * columns, 4);
    let args = [Arg::rows(&x, rows), Arg::rows(&vec![7.0f32; rows * columns], columns)];
    let got = run(device, text, [2, 3, 1], &args)?;
    let want: Vec<f64> = (0..columns)
        .flat_map(|c| (0..rows).map(move |r| (r, c)))
        .map(|(r, c)| f64::from(x[r * columns + c]))
        .collect();
    close(&got, &want, 0.0)
}

fn scan(device: &Device) -> Result<(), String> {
    let text = "kernel @sums(%x: view<f32, 1, global>, %y: mut view<f32, 1, global>) tile {
  %0 = const 0 : i64
  %1 = const 0.0 : f32
  %v = load %x[%0] pad %1 : f32[512]
  %s = scan.sum %v axis 0 : f32[512]
  store.disjoint %y[%0] = %s
}";
    // Multiples of 1/64: no sum is rounded.
    let x: Vec<f32> = random(500, 6).iter().map(|v| (v * 64.0).round() / 64.0).collect();
    let got = run(device, text, [1, 1, 1], &[Arg::row(&x), Arg::row(&[7.0f32; 500])])?;
    let mut sum = 0.0;
    let want: Vec<f64> = x
        .iter()
        .map(|&v| {
            sum += f64::from(v);
            sum
        })
        .collect();
    close(&got, &want, 0.0)
}

fn dot(device: &Device) -> Result<(), String> {
    let text = "kernel @product(%a: view<f32, 2, global>, %b: view<f32, 2, global>, %c: mut view<f32, 2, global>) tile {
  %0 = const 0 : i64
  %z = const 0.0 : f32
  %16 = const 16 : i64
  %k = extent %a axis 1 : i64
  %zeros = const 0.0 : f32[16, 32]
  %sum = for %i = %0 to %k step %16 carry (%s = %zeros) : f32[16, 32] {
    %l = load %a[%0, %i] pad %z : f32[16, 16]
    %r = load %b[%i, %0] pad %z : f32[16, 32]
    %d = dot %l, %r, %s : f32[16, 32]
    yield %d
  }
  store.disjoint %c[%0, %0] = %sum
}";
    let (m, k, n) = (13, 41, 30);
    let (a, b) = (random(m * k, 7), random(k * n, 8));
    let args = [Arg::rows(&a, m), Arg::rows(&b, k), Arg::rows(&vec![7.0f32; m * n], m)];
    let got = run(device, text, [1, 1, 1], &args)?;
    let at = |i: usize| (0..k).map(|j| f64::from(a[i / n * k + j]) * f64::from(b[j * n + i % n])).sum();
    let want: Vec<f64> = (0..m * n).map(at).collect();
    // Of 41 products each is rounded by at most half an ulp of a sum below 8.
    for (&got, &want) in got.iter().zip(&want) {
        if (f64::from(got) - want).abs() > 41.0 * 5e-7 {
            return Err(format!("{got}, expected {want}"));
        }
    }
    Ok(())
}

/// A function and its reference.
type Function = (&'static str, fn(f64) -> f64);

fn functions(device: &Device) -> Result<(), String> {
    let functions: &[Function] = &[
        ("exp", f64::exp),
        ("log", f64::ln),
        ("log2", f64::log2),
        ("log1p", f64::ln_1p),
        ("sin", f64::sin),
        ("cos", f64::cos),
        ("tanh", f64::tanh),
        ("sigmoid", |x| 1.0 / (1.0 + (-x).exp())),
    ];
    for &(name, reference) in functions {
        let text = format!(
            "kernel @f(%x: view<f32, 1, global>, %y: mut view<f32, 1, global>) tile {{
  %0 = const 0 : i64
  %1 = const 1.0 : f32
  %v = load %x[%0] pad %1 : f32[512]
  %w = {name} %v : f32[512]
  store.disjoint %y[%0] = %w
}}"
        );
        let positive = name.starts_with("log");
        let x: Vec<f32> =
            random(500, 10).iter().map(|&v| if positive { v.abs() * 20.0 + 2.0 } else { v * 20.0 }).collect();
        let got = run(device, &text, [1, 1, 1], &[Arg::row(&x), Arg::row(&[7.0f32; 500])])?;
        let want: Vec<f64> = x.iter().map(|&v| reference(f64::from(v))).collect();
        close(&got, &want, 3e-6).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(())
}
