//! Launches: many in one submission, views of one allocation, views without elements.

use crate::{Outcome, STREAM, Test, compiled, downloaded, ensure, floats, launched, text, uploaded, vector};
use kiln_backend::{Backend, BufferBinding, DevicePtr, LaunchArguments};
use kiln_wgpu::Wgpu;

pub const TESTS: &[Test] = &[
    ("softmax", softmax),
    ("launches_add_up", launches_add_up),
    ("repeated_launches_see_new_memory", repeated_launches_see_new_memory),
    ("launches_by_several_threads", launches_by_several_threads),
    ("what_is_never_loaded_is_zero", what_is_never_loaded_is_zero),
    ("loads_of_rounds", loads_of_rounds),
    ("views_of_one_allocation", views_of_one_allocation),
    ("views_without_elements", views_without_elements),
];

const SOFTMAX: &str = "kernel @softmax(%x: view<f32, 2, global>, %y: mut view<f32, 2, global>) tile {
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

/// Adds %by to each element of %x.
const ADD: &str = "kernel @add(%x: mut view<f32, 1, global>, %by: f32) tile {
  %p = program_id x : i64
  %n = const 256 : i64
  %at = mul %p, %n : i64
  %0 = const 0.0 : f32
  %v = load %x[%at] pad %0 : f32[256]
  %add = broadcast %by : f32[256]
  %w = add %v, %add : f32[256]
  store.disjoint %x[%at] = %w
}";

/// Stores twice %x in %y.
const TWICE: &str = "kernel @twice(%x: view<f32, 1, global>, %y: mut view<f32, 1, global>) tile {
  %p = program_id x : i64
  %n = const 256 : i64
  %at = mul %p, %n : i64
  %0 = const 0.0 : f32
  %v = load %x[%at] pad %0 : f32[256]
  %w = add %v, %v : f32[256]
  store.disjoint %y[%at] = %w
}";

fn softmax(device: &Wgpu) -> Outcome {
    let program = compiled(device, SOFTMAX)?;
    for (rows, columns) in [(3, 1000), (1, 1), (70_000, 2)] {
        let x: Vec<f32> = (0..rows * columns).map(|i| ((i * 37 % 101) as f32) / 7.0 - 6.0).collect();
        let input = uploaded(device, bytemuck::cast_slice(&x))?;
        let output = uploaded(device, bytemuck::cast_slice(&vec![7.0f32; x.len()]))?;
        let shape = [rows as u64, columns as u64];
        let arguments = LaunchArguments::new()
            .view(BufferBinding::read(input), &shape)
            .view(BufferBinding::write(output), &shape);
        launched(device, &program, [rows as u32, 1, 1], &arguments)?;
        let got = floats(device, output, x.len())?;
        for (row, (x, got)) in x.chunks(columns).zip(got.chunks(columns)).enumerate() {
            let sum: f64 = x.iter().map(|&v| f64::from(v).exp()).sum();
            for (&x, &got) in x.iter().zip(got) {
                let want = f64::from(x).exp() / sum;
                let near = (f64::from(got) - want).abs() <= 1e-5 * want;
                ensure(near, || format!("{rows} x {columns}, row {row}: {got}, expected {want}"))?;
            }
        }
        // SAFETY: the work was waited for.
        unsafe {
            device.free(input, x.len() * 4, STREAM);
            device.free(output, x.len() * 4, STREAM);
        }
    }
    Ok(())
}

/// Each launch has its own parameters, however many are submitted together.
fn launches_add_up(device: &Wgpu) -> Outcome {
    let program = compiled(device, ADD)?;
    let x = uploaded(device, bytemuck::cast_slice(&[0.5f32; 300]))?;
    let mut want = 0.5;
    for i in 0..500 {
        let by = (i % 13) as f32;
        want += by;
        launched(device, &program, [2, 1, 1], &vector(x, 300).scalar(by.to_bits().into()))?;
    }
    let got = floats(device, x, 300)?;
    ensure(got == [want; 300], || format!("{:?}, expected {want}", &got[..4]))
}

/// A launch like the one before is over the buffers that are behind its arguments now.
fn repeated_launches_see_new_memory(device: &Wgpu) -> Outcome {
    let program = compiled(device, ADD)?;
    let mut want = 0.0;
    let kept = uploaded(device, bytemuck::cast_slice(&[0.0f32; 300]))?;
    for round in 0..4 {
        // Of another size in each round, so that another buffer has the same place.
        let count = 300 << (4 * round);
        let x = uploaded(device, &vec![0; count * 4])?;
        for _ in 0..200 {
            launched(device, &program, [2, 1, 1], &vector(x, 300).scalar(2f32.to_bits().into()))?;
            launched(device, &program, [2, 1, 1], &vector(kept, 300).scalar(1f32.to_bits().into()))?;
            want += 1.0;
        }
        let got = floats(device, x, 300)?;
        ensure(got == [400.0; 300], || format!("round {round}: {:?}", &got[..4]))?;
        // SAFETY: the work was waited for.
        unsafe { device.free(x, count * 4, STREAM) };
    }
    // An upload comes after all launches before it, also those that a thread submits.
    for _ in 0..500 {
        launched(device, &program, [2, 1, 1], &vector(kept, 300).scalar(1f32.to_bits().into()))?;
        want += 1.0;
    }
    let got = floats(device, kept, 300)?;
    ensure(got == [want; 300], || format!("{:?}, expected {want}", &got[..4]))?;
    for _ in 0..500 {
        launched(device, &program, [2, 1, 1], &vector(kept, 300).scalar(1f32.to_bits().into()))?;
    }
    // SAFETY: the allocation has as many bytes.
    unsafe { device.upload(kept, &[0; 300 * 4], STREAM) }.map_err(text)?;
    let got = floats(device, kept, 300)?;
    ensure(got == [0.0; 300], || format!("{:?}, expected 0", &got[..4]))
}

fn launches_by_several_threads(device: &Wgpu) -> Outcome {
    let program = compiled(device, ADD)?;
    let x = uploaded(device, bytemuck::cast_slice(&[0.0f32; 300]))?;
    let arguments = vector(x, 300).scalar(1f32.to_bits().into());
    let work = || (0..700).try_for_each(|_| launched(device, &program, [2, 1, 1], &arguments));
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(Err("a panic".into()))).collect()
    });
    outcomes.into_iter().collect::<Outcome>()?;
    let got = floats(device, x, 300)?;
    ensure(got == [2100.0; 300], || format!("{:?}, expected 2100", &got[..4]))
}

/// Loads of a round are together where all take place, and apart in the last rounds.
fn loads_of_rounds(device: &Wgpu) -> Outcome {
    let source = "kernel @inner(%x: view<f32, 1, global>, %y: view<bf16, 1, global>, %z: mut view<f32, 1, global>) tile warps 1 {
  %0 = const 0 : i64
  %step = const 512 : i64
  %n = extent %x axis 0 : i64
  %none = const 0.0 : f32[512]
  %sum = for %i = %0 to %n step %step carry (%s = %none) : f32[512] {
    %pad = const 0.0 : f32
    %a = load %x[%i] pad %pad : f32[512]
    %no = const 0.0 : bf16
    %b = load %y[%i] pad %no : bf16[512]
    %c = cast %b : f32[512]
    %product = mul %a, %c : f32[512]
    %t = add %s, %product : f32[512]
    yield %t
  }
  %all = reduce.sum %sum axis 0 : f32
  %one = broadcast %all : f32[1]
  store %z[%0] = %one
}";
    let program = compiled(device, source)?;
    for n in [1u64, 7, 512, 700, 1500, 4096] {
        // Whole numbers, whose sums are exact.
        let x: Vec<f32> = (0..n).map(|i| (i % 11) as f32 - 5.0).collect();
        let y: Vec<u16> =
            (0..n).map(|i| ((i % 5) as f32).to_bits()).map(|bits| (bits >> 16) as u16).collect();
        let want: f32 = (0..n).map(|i| ((i % 11) as f32 - 5.0) * (i % 5) as f32).sum();
        let [x, y] =
            [uploaded(device, bytemuck::cast_slice(&x))?, uploaded(device, bytemuck::cast_slice(&y))?];
        let z = uploaded(device, &[0xff; 4])?;
        let arguments = LaunchArguments::new()
            .view(BufferBinding::read(x), &[n])
            .view(BufferBinding::read(y), &[n])
            .view(BufferBinding::write(z), &[1]);
        launched(device, &program, [1, 1, 1], &arguments)?;
        let got = floats(device, z, 1)?;
        ensure(got == [want], || format!("{n} elements: {got:?}, expected {want}"))?;
    }
    Ok(())
}

/// A load whose index lies outside for good is its padding. Mesa's driver takes -y for 0 - y, where
/// it finds out that a number is zero (random kernel 9904).
fn what_is_never_loaded_is_zero(device: &Wgpu) -> Outcome {
    let source = "kernel @outside(%x: view<f16, 1, global>, %y: mut view<f16, 1, global>) tile {
  %before = const -4 : i32[8]
  %all = const true : bool[8]
  %pad = const 0.0 : f16
  %v = gather.mask %x[%before] where %all pad %pad : f16[8]
  %zero = const 0.0 : f16[8]
  %sum = add %v, %zero : f16[8]
  %rest = sub %v, %sum : f16[8]
  %0 = const 0 : i64
  store %y[%0] = %rest
}";
    let program = compiled(device, source)?;
    let x = uploaded(device, &[0x3c; 16])?;
    let y = uploaded(device, &[0xff; 16])?;
    let arguments =
        LaunchArguments::new().view(BufferBinding::read(x), &[8]).view(BufferBinding::write(y), &[8]);
    launched(device, &program, [1, 1, 1], &arguments)?;
    let got = downloaded(device, y, 16)?;
    ensure(got == [0; 16], || format!("{got:?}, expected zeros"))
}

/// A kernel reads one half of an allocation and writes the other.
fn views_of_one_allocation(device: &Wgpu) -> Outcome {
    let program = compiled(device, TWICE)?;
    let values: Vec<f32> = (0..600).map(|i| i as f32).collect();
    let memory = uploaded(device, bytemuck::cast_slice(&values))?;
    let upper = BufferBinding::write(memory).at(300 * 4);
    let arguments = LaunchArguments::new().view(BufferBinding::read(memory), &[300]).view(upper, &[300]);
    launched(device, &program, [2, 1, 1], &arguments)?;
    let got = floats(device, memory, 600)?;
    let want: Vec<f32> = (0..600).map(|i| if i < 300 { i as f32 } else { (i - 300) as f32 * 2.0 }).collect();
    ensure(got == want, || format!("{:?} and {:?}", &got[..4], &got[300..304]))
}

fn views_without_elements(device: &Wgpu) -> Outcome {
    let program = compiled(device, TWICE)?;
    let (nothing, nowhere) = (BufferBinding::read(DevicePtr(0)), BufferBinding::write(DevicePtr(0)));
    let arguments = LaunchArguments::new().view(nothing, &[0]);
    launched(device, &program, [1, 1, 1], &arguments.clone().view(nowhere, &[0]))?;
    let y = uploaded(device, bytemuck::cast_slice(&[5.0f32; 8]))?;
    launched(device, &program, [1, 1, 1], &arguments.view(BufferBinding::write(y), &[8]))?;
    device.synchronize(STREAM).map_err(text)?;
    ensure(floats(device, y, 8)? == [0.0; 8], || "the padding was not stored".into())
}
