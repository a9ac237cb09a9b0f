//! Loops, lanes, atomics, scratch memory, and elements that are parts of words.

use crate::Test;
use crate::device::{Arg, Device};
use crate::{compiled, compiled_for, floats, random, words};
use half::bf16;
use kiln_wgpu::Features;

pub const TESTS: &[Test] = &[
    ("wide_indices_beside_constants", wide_indices),
    ("while_and_if", while_and_if),
    ("ranges_of_any_bounds", ranges),
    ("lanes_through_workgroup_memory", lanes_through_memory),
    ("lanes_of_subgroups", lanes_of_subgroups),
    ("atomics", atomics),
    ("packed_elements", packed),
    ("scratch_under_several_types", scratch),
];

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &[T], want: &[T]) -> Result<(), String> {
    match got[..want.len()] == *want {
        true => Ok(()),
        false => Err(format!("{what}: {got:?}, expected {want:?}")),
    }
}

fn while_and_if(device: &Device) -> Result<(), String> {
    let module = compiled(device, include_str!("../kernels/collatz.kir"))?;
    let results = device.run(&module, [1, 1, 1], &[Arg::Scalar(50), Arg::row(&[-1i32; 32])])?;
    let want: Vec<u32> = (1..=32u32)
        .map(|n| {
            let next = |&n: &u32| (n > 1).then_some(if n % 2 == 0 { n / 2 } else { 3 * n + 1 });
            std::iter::successors(Some(n), next).take(51).count() as u32 - 1
        })
        .collect();
    same("steps", &words(&results[0]), &want)
}

fn ranges(device: &Device) -> Result<(), String> {
    let module = compiled(device, include_str!("../kernels/ranges.kir"))?;
    let (min, max) = (i32::MIN, i32::MAX);
    let low = [0, 0, 5, 5, -3, max - 1, max - 5, min, min, 0, 0, 0, 1, 7, max, min];
    let high = [10, 10, 5, 4, 4, max, max, max, min + 3, 9, 9, 0, 2, 100, max, max];
    let step = [1, 3, 1, 1, 2, 1, 4, max, 1, 0, -1, 1, max, 93, 1, 1 << 30];
    let args = [Arg::row(&low), Arg::row(&high), Arg::row(&step), Arg::row(&[-1i32; 16])];
    let results = device.run(&module, [1, 1, 1], &args)?;
    let rounds = |i: usize| {
        let (low, high, step) = (i64::from(low[i]), i64::from(high[i]), i64::from(step[i]));
        if high <= low || step <= 0 { 0 } else { ((high - low + step - 1) / step) as u32 }
    };
    same("rounds", &words(&results[3]), &(0..16).map(rounds).collect::<Vec<_>>())
}

fn lanes_through_memory(device: &Device) -> Result<(), String> {
    // Warps of any width, the last of them not full.
    [32, 8, 1].into_iter().try_for_each(|warp| {
        let features = kiln_wgpu::Features { subgroup: None, warp, ..device.features };
        lanes(device, features, 45)
    })
}

fn lanes_of_subgroups(device: &Device) -> Result<(), String> {
    let Some(warp) = device.features.subgroup.filter(|&width| width <= 32) else {
        return Err("the adapter has no subgroups of one width up to 32".into());
    };
    lanes(device, kiln_wgpu::Features { warp, ..device.features }, 64)
}

fn lanes(device: &Device, features: kiln_wgpu::Features, threads: usize) -> Result<(), String> {
    let text = include_str!("../kernels/lanes.kir").replace("LANES", &threads.to_string());
    let module = compiled_for(features, &text)?;
    let width = features.warp as usize;
    // Some warps vote together, others do not.
    let x: Vec<i32> = (0..threads as i32).map(|t| if t / 8 % 2 == 0 { t + 1 } else { t % 3 - 1 }).collect();
    let by: Vec<i64> = (0..threads as i64).map(|t| t * 7 % 37 - 5).collect();
    let args = [
        Arg::row(&x),
        Arg::row(&by),
        Arg::rows(&vec![-7i32; 7 * threads], 7),
        Arg::row(&vec![-7.0f64; threads]),
    ];
    let results = device.run(&module, [1, 1, 1], &args)?;
    let got = words(&results[2]);
    let doubles: Vec<f64> = bytemuck::pod_collect_to_vec(&results[3]);
    for t in 0..threads {
        let (lane, first) = (t % width, t - t % width);
        let by = by[t].rem_euclid(width as i64) as usize;
        let of = |lane: usize| x[if first + lane < threads { first + lane } else { t }] as u32;
        let warp = &x[first..(first + width).min(threads)];
        let ballot: u32 = warp.iter().enumerate().map(|(i, &v)| u32::from(v > 0) << i).sum();
        let want = [
            of(by),
            of(if lane >= by { lane - by } else { lane }),
            of(if lane + by < width { lane + by } else { lane }),
            of(lane ^ by),
            ballot,
            u32::from(ballot != 0),
            u32::from(warp.iter().all(|&v| v > 0)),
        ];
        let got: Vec<u32> = (0..7).map(|row| got[row * threads + t]).collect();
        same(&format!("thread {t} of {threads} in warps of {width}"), &got, &want)?;
        let want = f64::from(of(lane ^ (1 % width)) as i32);
        same(&format!("the f64 of thread {t}"), &doubles[t..=t], &[want])?;
    }
    Ok(())
}

fn atomics(device: &Device) -> Result<(), String> {
    let module = compiled(device, include_str!("../kernels/atomics.kir"))?;
    let x: Vec<i32> = random(256, 9).iter().map(|v| (v * 100.0) as i32).collect();
    let args = [
        Arg::row(&x),
        Arg::row(&[0i32, 0, 0, 0, 0, 0, 0, 0]),
        Arg::row(&[0.5f32, 0.0, 0.0]),
        Arg::row(&[bf16::from_f32(3.0).to_bits(); 256]),
        Arg::row(&[-1i32; 256]),
    ];
    let results = device.run(&module, [4, 1, 1], &args)?;
    let (least, greatest) = (x.iter().copied().fold(0, i32::min), x.iter().copied().fold(0, i32::max));
    let sum: i32 = x.iter().sum();
    let (or, xor) = (x.iter().fold(0, |a, b| a | b), x.iter().fold(0, |a, b| a ^ b));
    let want = [sum, least, greatest, or, xor, 256, 1, 1].map(|v| v as u32);
    same("integers", &words(&results[1]), &want)?;
    same("floats", &floats(&results[2]), &[sum as f32 + 0.5, least as f32, greatest as f32])?;
    // Each ticket was drawn once.
    same("tickets", &words(&results[4]), &(0..256).collect::<Vec<u32>>())?;
    let halves: Vec<u16> = bytemuck::pod_collect_to_vec(&results[3]);
    let want: Vec<u16> = x.iter().map(|&v| bf16::from_f32(if v > 0 { 1.0 } else { 3.0 }).to_bits()).collect();
    same("halves", &halves, &want)
}

fn packed(device: &Device) -> Result<(), String> {
    let module = compiled(device, include_str!("../kernels/packed.kir"))?;
    let a: Vec<u16> = random(32, 11).iter().map(|&v| bf16::from_f32(v).to_bits()).collect();
    let b: Vec<i8> = (0..16).map(|i: i32| (i * 17 - 100) as i8).collect();
    let c: Vec<u8> = (0..16).map(|i| u8::from(i % 3 == 0)).collect();
    let args = [
        Arg::row(&a),
        Arg::row(&b),
        Arg::row(&c),
        Arg::row(&[0x1234u16; 16]),
        Arg::row(&[77i8; 16]),
        Arg::row(&[1u8; 16]),
        Arg::row(&[0u16; 32]),
    ];
    let results = device.run(&module, [1, 1, 1], &args)?;
    let halves: Vec<u16> = bytemuck::pod_collect_to_vec(&results[3]);
    let odd = |i: usize| i % 2 == 1;
    same("bf16", &halves, &(0..16).map(|i| if odd(i) { a[i] } else { 0x1234 }).collect::<Vec<_>>())?;
    let bytes: Vec<i8> = bytemuck::pod_collect_to_vec(&results[4]);
    same("i8", &bytes, &(0..16).map(|i| if odd(i) { b[i] } else { 77 }).collect::<Vec<_>>())?;
    same("bool", &results[5], &(0..16).map(|i| if odd(i) { 1 - c[i] } else { 1 }).collect::<Vec<_>>())?;
    let swapped: Vec<u16> = bytemuck::pod_collect_to_vec(&results[6]);
    same("pairs", &swapped, &(0..32).map(|i| a[i ^ 1]).collect::<Vec<_>>())
}

fn scratch(device: &Device) -> Result<(), String> {
    scratch_with(device, device.features)?;
    let features = Features { int64: false, float64: false, ..device.features };
    scratch_with(device, features).map_err(|e| format!("without SHADER_INT64: {e}"))
}

fn scratch_with(device: &Device, features: Features) -> Result<(), String> {
    let module = compiled_for(features, include_str!("../kernels/scratch.kir"))?;
    let x: Vec<f32> = (0..16).map(|i| i as f32 * 3.0).collect();
    let args = [Arg::row(&x), Arg::row(&[0u32; 16]), Arg::row(&[-1i64; 16])];
    let results = device.run(&module, [1, 1, 1], &args)?;
    let want: Vec<u32> = x.iter().rev().map(|v| v.to_bits()).collect();
    same("bits of floats", &words(&results[1]), &want)?;
    let sums: Vec<i64> = bytemuck::pod_collect_to_vec(&results[2]);
    same("sums", &sums, &(0..16).map(|t| (15 - t) * 4 + 45).collect::<Vec<i64>>())
}

/// Comparisons of numbers that were widened with constants, and their opposites. Mesa 22.3 takes
/// some to be false if a word was widened by its sign.
fn wide_indices(device: &Device) -> Result<(), String> {
    wide_indices_with(device, device.features)?;
    let features = Features { int64: false, float64: false, ..device.features };
    wide_indices_with(device, features).map_err(|e| format!("without SHADER_INT64: {e}"))
}

fn wide_indices_with(device: &Device, features: Features) -> Result<(), String> {
    let numbers: Vec<i32> = (-8..8).chain([i32::MIN, i32::MAX]).collect();
    let operators = ["lt", "le", "gt", "ge", "eq", "ne"];
    let holds = |operator: &str, a: i64, b: i64| match operator {
        "lt" => a < b,
        "le" => a <= b,
        "gt" => a > b,
        "ge" => a >= b,
        "eq" => a == b,
        _ => a != b,
    };
    for constant in [3i64, -3, 0, 1 << 40, i64::MIN] {
        let mut text = "kernel @k(%x: view<i32, 1, global>, %y: mut view<i32, 1, global>) thread [18, 1, 1] {
  %t = thread_id x : i64
  %v = view_load.x1 %x[%t] : i32
  %wide = cast %v : i64
  %zero = const 0 : i32
"
        .to_owned();
        text.push_str(&format!("  %k = const {constant} : i64\n"));
        let mut want = vec![0u32; numbers.len()];
        let mut bit = 0;
        let mut sum = "zero".to_owned();
        for (value, is_index) in [("wide", false), ("t", true)] {
            for operator in operators {
                for (left, right) in [(value, "k"), ("k", value)] {
                    text.push_str(&format!(
                        "  %c{bit} = {operator} %{left}, %{right} : bool
  %n{bit} = not %c{bit} : bool
  %w{bit} = const {} : i32
  %s{bit} = if %n{bit} : i32 {{
    yield %w{bit}
  }} else {{
    yield %zero
  }}
  %o{bit} = or %{sum}, %s{bit} : i32
",
                        1 << bit
                    ));
                    sum = format!("o{bit}");
                    for (i, (want, &number)) in want.iter_mut().zip(&numbers).enumerate() {
                        let number = if is_index { i as i64 } else { number.into() };
                        let (a, b) = if left == "k" { (constant, number) } else { (number, constant) };
                        *want |= u32::from(!holds(operator, a, b)) << bit;
                    }
                    bit += 1;
                }
            }
        }
        text.push_str(&format!("  view_store.x1 %y[%t] = %{sum}\n}}"));
        let module = compiled_for(features, &text)?;
        let results = device.run(&module, [1, 1, 1], &[Arg::row(&numbers), Arg::row(&[-1i32; 18])])?;
        same(&format!("beside {constant}"), &words(&results[1]), &want)?;
    }
    Ok(())
}
