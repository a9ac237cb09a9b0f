//! Faults, prints and folded grids.

use crate::device::{Arg, Device};
use crate::{Test, compiled, compiled_for, words};
use kiln_backend::{Fault, FaultKind};
use kiln_compiler::{Target, expand::expand, lower_to_threads, optimize};
use kiln_wgpu::{Features, Module};

pub const TESTS: &[Test] = &[
    ("asserts_name_thread_and_values", asserts),
    ("values_of_every_type_are_reported", values),
    ("indices_and_divisors", indices_and_divisors),
    ("barriers_wait_for_nobody_who_left", barriers),
    ("threads_leave_loops_and_branches", parted),
    ("a_block_decides_together", tiles),
    ("deferred_faults", deferred),
    ("prints", prints),
    ("prints_without_room_are_counted", lost_prints),
    ("grids_that_are_folded", folded),
];

fn fault(device: &Device, module: &Module, grid: [u32; 3], args: &[Arg]) -> Result<Fault, String> {
    let (_, reported) = device.run_reporting(module, grid, args, 0)?;
    reported.fault.ok_or_else(|| "there was no fault".into())
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, got: T, want: T) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("{what}: {got:?}, expected {want:?}")) }
}

/// A kernel over tiles or threads, lowered as a backend does.
fn lowered(device: &Device, text: &str) -> Result<Module, String> {
    let mut kernel = kiln_ir::parse(text).map_err(|e| e.to_string())?;
    kiln_ir::verify(&kernel).map_err(|e| format!("{e:?}"))?;
    optimize(&mut kernel).map_err(|e| e.to_string())?;
    expand(&mut kernel);
    let threads = lower_to_threads(&kernel, &Target::portable(1, 16 << 10)).map_err(|e| e.to_string())?;
    kiln_wgpu::compile(&threads, device.features).map_err(|e| format!("{e}\n{threads}"))
}

fn asserts(device: &Device) -> Result<(), String> {
    let text = "file \"k.rs\"
kernel @k(%x: mut view<i32, 1, global>) thread [8, 4, 2] {
  %t = thread_id x : i64
  %u = thread_id y : i64
  %v = thread_id z : i64
  %p = program_id y : i64
  %c3 = const 3 : i64
  %c1 = const 1 : i64
  %8 = const 8 : i64
  %a = ne %t, %c3 : bool
  %b = ne %u, %c1 : bool
  %c = ne %v, %c1 : bool
  %d = ne %p, %c1 : bool
  %ab = or %a, %b : bool
  %cd = or %c, %d : bool
  %ok = or %ab, %cd : bool
  %one = const 1 : i32
  view_store.x1 %x[%t] = %one
  assert %ok, \"thread {} of {}, program {}\", %t, %8, %p @0:7:5
  %at = add %t, %8 : i64
  %q = eq %p, %c1 : bool
  %qu = and %q, %c : bool
  view_store.x1 %x[%at] where %qu = %one
}";
    // Through subgroups a thread's index follows from its lane.
    let native = Features { warp: device.features.subgroup.unwrap_or(32), ..device.features };
    for features in [device.features, native] {
        let module = compiled_for(features, text)?;
        let fault = fault(device, &module, [1, 3, 1], &[Arg::row(&[0i32; 16])])?;
        let want = "assertion failed in `k`: thread 3 of 8, program 1, at k.rs:7:5, block [0, 1, 0], thread [3, 1, 1]";
        equal("the fault", fault.to_string(), want.into())?;
    }
    // Whoever left has stored what comes before, and nothing that comes after.
    let text = "kernel @k(%x: mut view<i32, 1, global>) thread [8, 1, 1] {
  %t = thread_id x : i64
  %8 = const 8 : i64
  %c3 = const 3 : i64
  %one = const 1 : i32
  view_store.x1 %x[%t] = %one
  %ok = gt %t, %c3 : bool
  assert %ok, \"no\"
  %at = add %t, %8 : i64
  view_store.x1 %x[%at] = %one
}";
    let module = compiled(device, text)?;
    let (buffers, _) = device.run_reporting(&module, [1, 1, 1], &[Arg::row(&[0i32; 16])], 0)?;
    equal("what is stored", words(&buffers[0]), vec![1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1])
}

fn values(device: &Device) -> Result<(), String> {
    let text = "kernel @k(%a: i32, %b: u32, %c: f32, %d: bool, %e: bf16, %f: i8, %g: u8) thread [1, 1, 1] {
  %no = const false : bool
  assert %no, \"{} {} {} {} {} {} {}\", %a, %b, %c, %d, %e, %f, %g
}";
    let bits = [-5i32 as u32, u32::MAX, 1.5f32.to_bits(), 1, u32::from(half::bf16::from_f32(-0.5).to_bits())];
    let mut args: Vec<Arg> = bits.into_iter().map(|bits| Arg::Scalar(bits.into())).collect();
    args.extend([0x80, 0xff].map(Arg::Scalar));
    let got = fault(device, &compiled(device, text)?, [1, 1, 1], &args)?;
    let want = FaultKind::Assert { message: "-5 4294967295 1.5 true -0.5 -128 255".into() };
    equal("the message", got.kind, want)?;
    let f = device.features;
    let wide = [("i64", true, -1i64 as u64, "-1"), ("f64", f.float64, 0.1f64.to_bits(), "0.1")];
    let small = ("f16", f.float16, half::f16::from_f32(2.5).to_bits().into(), "2.5");
    for (elem, _, bits, shown) in wide.into_iter().chain([small]).filter(|&(_, has, ..)| has) {
        let text = format!(
            "kernel @k(%a: {elem}) thread [1, 1, 1] {{\n  %no = const false : bool\n  assert %no, \"{{}}\", %a\n}}"
        );
        let got = fault(device, &compiled(device, &text)?, [1, 1, 1], &[Arg::Scalar(bits)])?;
        equal(elem, got.kind, FaultKind::Assert { message: shown.into() })?;
    }
    Ok(())
}

fn indices_and_divisors(device: &Device) -> Result<(), String> {
    let text = "file \"k.rs\"
kernel @k(%x: view<i32, 1, global>, %y: mut view<i32, 1, global>) thread [32, 1, 1] {
  %t = thread_id x : i64
  %0 = const 0 : i32
  %1 = const 1 : i32
  %d = gather.mask %x[%t] pad %1 : i32 @0:2:1
  %hundred = const 100 : i32
  %q = div %hundred, %d : i32 @0:3:9
  %at = cast %d : i64
  %v = gather.check %y[%at] pad %0 : i32 @0:4:9
  scatter.check %y[%t] = %q @0:5:9
}";
    let module = lowered(device, text)?;
    let run = |x: Vec<i32>, y: usize| {
        let args = [Arg::row(&x), Arg::row(&vec![7i32; y])];
        fault(device, &module, [1, 1, 1], &args)
    };
    let mut zero = vec![2; 32];
    zero[5] = 0;
    let got = run(zero, 32)?;
    equal("a zero", (got.kind, got.location), (FaultKind::DivisionByZero, "k.rs:3:9".into()))?;
    equal("its thread", got.thread, Some([5, 0, 0]))?;
    for index in [32, -1, i32::MIN] {
        let mut outside = vec![2; 32];
        outside[9] = index;
        let got = run(outside, 32)?;
        let want = FaultKind::OutOfBounds { index: index.into(), extent: 32 };
        equal("an index", (got.kind, got.location), (want, "k.rs:4:9".into()))?;
    }
    let got = run(vec![2; 32], 31)?;
    equal("a store", got.kind, FaultKind::OutOfBounds { index: 31, extent: 31 })?;
    let fine = device.run(&module, [1, 1, 1], &[Arg::row(&[4i32; 32]), Arg::row(&[7i32; 32])])?;
    equal("without a fault", words(&fine[1]), vec![25; 32])
}

/// A check before a barrier, which only some threads fail.
fn barriers(device: &Device) -> Result<(), String> {
    let text = "file \"k.rs\"
kernel @k(%x: view<i32, 1, global>, %y: mut view<i32, 1, global>) thread [64, 1, 1] {
  %t = thread_id x : i64
  %0 = const 0 : i32
  %s = alloc shared i32[64] : view<i32, 1, shared>
  %v = gather.check %x[%t] pad %0 : i32 @0:2:9
  scatter.trust %s[%t] = %v
  barrier
  %last = const 63 : i64
  %other = sub %last, %t : i64
  %w = gather.trust %s[%other] pad %0 : i32
  scatter.trust %y[%t] = %w
}";
    let module = lowered(device, text)?;
    let x: Vec<i32> = (0..64).collect();
    let fine = device.run(&module, [1, 1, 1], &[Arg::row(&x), Arg::row(&[-1i32; 64])])?;
    equal("without a fault", words(&fine[1]), (0..64u32).rev().collect())?;
    let args = [Arg::row(&x[..40]), Arg::row(&[-1i32; 64])];
    let (buffers, reported) = device.run_reporting(&module, [1, 1, 1], &args, 0)?;
    let fault = reported.fault.ok_or("there was no fault")?;
    let FaultKind::OutOfBounds { index: 40..=63, extent: 40 } = fault.kind else {
        return Err(fault.to_string());
    };
    equal("stores after the fault", words(&buffers[1]), vec![u32::MAX; 64])
}

/// Checks in loops and branches that only some threads run, before a barrier.
fn parted(device: &Device) -> Result<(), String> {
    let text = "file \"k.rs\"
kernel @k(%x: view<i32, 1, global>, %y: mut view<i32, 1, global>) thread [64, 1, 1] {
  %t = thread_id x : i64
  %0 = const 0 : i64
  %1 = const 1 : i64
  %z = const 0 : i32
  %one = const 1 : i32
  %s = alloc shared i32[64] : view<i32, 1, shared>
  %n = gather.trust %x[%t] pad %z : i32
  %2 = const 2 : i64
  for %round = %0 to %2 step %1 {
    %odd = rem %t, %2 : i64
    %is_odd = eq %odd, %1 : bool
    %sum = if %is_odd : i32 {
      %inner = for %i = %z to %n step %one carry (%a = %z) : i32 {
        %five = const 5 : i32
        %few = lt %i, %five : bool
        assert %few, \"round {} of {}\", %i, %n @0:3:9
        %b = add %a, %i : i32
        yield %b
      }
      yield %inner
    } else {
      yield %n
    }
    barrier
    scatter.trust %s[%t] = %sum
    barrier
    %last = const 63 : i64
    %other = sub %last, %t : i64
    %w = gather.trust %s[%other] pad %z : i32
    scatter.trust %y[%t] = %w
    yield
  }
}";
    let module = lowered(device, text)?;
    let run = |x: &[i32]| {
        let args = [Arg::row(x), Arg::row(&[-1i32; 64])];
        device.run_reporting(&module, [1, 1, 1], &args, 0)
    };
    let mut x = vec![4; 64];
    let (buffers, reported) = run(&x)?;
    equal("a fault", reported.fault, None)?;
    let want: Vec<u32> = (0..64).map(|t| if t % 2 == 0 { 6 } else { 4 }).collect();
    equal("without a fault", words(&buffers[1]), want)?;
    // An even thread runs no loop.
    (x[33], x[10]) = (9, 9);
    let (buffers, reported) = run(&x)?;
    let fault = reported.fault.ok_or("there was no fault")?;
    equal("the fault", fault.kind, FaultKind::Assert { message: "round 5 of 9".into() })?;
    equal("its thread", fault.thread, Some([33, 0, 0]))?;
    equal("stores after the fault", words(&buffers[1]), vec![u32::MAX; 64])
}

fn tiles(device: &Device) -> Result<(), String> {
    let text = "file \"k.rs\"
kernel @k(%x: view<i32, 1, global>, %y: mut view<i32, 1, global>) tile {
  %p = program_id x : i64
  %n = const 512 : i64
  %at = mul %p, %n : i64
  %0 = const 0 : i32
  %1 = const 1 : i32
  %d = load %x[%at] pad %1 : i32[512]
  %hundred = const 100 : i32[512]
  %ones = const 1 : i32[512]
  store.disjoint %y[%at] = %ones
  %q = div %hundred, %d : i32[512] @0:3:9
  store.disjoint %y[%at] = %q
}";
    let mut module = lowered(device, text)?;
    let report = module.report.as_mut().ok_or("there is no report")?;
    report.per_thread = false;
    let mut x = vec![3i32; 1500];
    x[700] = 0;
    let args = [Arg::row(&x), Arg::row(&[9i32; 1500])];
    let (buffers, reported) = device.run_reporting(&module, [3, 1, 1], &args, 0)?;
    let fault = reported.fault.ok_or("there was no fault")?;
    let got = (fault.kind, fault.block, fault.thread, fault.location);
    equal("the fault", got, (FaultKind::DivisionByZero, [1, 0, 0], None, "k.rs:3:9".into()))?;
    // What comes before the fault has happened, and what comes after has not, in all threads.
    let want = |i: usize| if (512..1024).contains(&i) { 1 } else { 33 };
    equal("what is stored", words(&buffers[1]), (0..1500).map(want).collect())
}

fn deferred(device: &Device) -> Result<(), String> {
    let text = "kernel @k(%x: view<i32, 1, global>, %y: mut view<i32, 1, global>) thread [64, 1, 1] {
  %t = thread_id x : i64
  %v = view_load.x1 %x[%t] : i32
  %0 = const 0 : i32
  %ok = ge %v, %0 : bool
  %before = faulted : bool
  defer_assert %ok, \"{}\", %v
  %after = faulted : bool
  %b = cast %before : i32
  %a = cast %after : i32
  %2 = const 2 : i32
  %twice = mul %b, %2 : i32
  %sum = add %twice, %a : i32
  view_store.x1 %y[%t] = %sum
}";
    let module = compiled(device, text)?;
    let mut x = vec![3i32; 64];
    let fine = device.run(&module, [1, 1, 1], &[Arg::row(&x), Arg::row(&[9i32; 64])])?;
    equal("without a fault", words(&fine[1]), vec![0; 64])?;
    x[40] = -6;
    let args = [Arg::row(&x), Arg::row(&[9i32; 64])];
    let (buffers, reported) = device.run_reporting(&module, [1, 1, 1], &args, 0)?;
    let kind = reported.fault.map(|fault| fault.kind);
    equal("the fault", kind, Some(FaultKind::Assert { message: "-6".into() }))?;
    equal("all threads", words(&buffers[1]), vec![1; 64])
}

const PRINTING: &str = "kernel @k(%n: i32) thread [16, 1, 1] {
  %t = thread_id x : i64
  %p = program_id x : i64
  %t32 = cast %t : i32
  %few = lt %t32, %n : bool
  if %few {
    print \"thread {} of {}\", %t, %p
    %half = const 0.5 : f32
    print \"{}\", %half
    yield
  } else {
    yield
  }
}";

fn prints(device: &Device) -> Result<(), String> {
    let module = compiled(device, PRINTING)?;
    let report = module.report.as_ref().ok_or("there is no report")?;
    equal("whether it prints", report.prints(), true)?;
    let (_, reported) = device.run_reporting(&module, [2, 1, 1], &[Arg::Scalar(3)], 1000)?;
    let mut got = reported.prints;
    got.sort();
    let mut want: Vec<String> =
        (0..6).map(|i| format!("thread {} of {}", i % 3, i / 3)).chain(vec!["0.5".into(); 6]).collect();
    want.sort();
    equal("prints", (got, reported.lost, reported.fault), (want, 0, None))
}

fn lost_prints(device: &Device) -> Result<(), String> {
    let module = compiled(device, PRINTING)?;
    for room in [0, 5, 11, 12, 25, 100] {
        let (_, reported) = device.run_reporting(&module, [50, 1, 1], &[Arg::Scalar(16)], room)?;
        // Records have 12 and 10 words. One that finds no room may be the end of all.
        let kept = reported.prints.len() as u32;
        equal("all prints", kept + reported.lost, 1600)?;
        if !(room / 12..=room / 10).contains(&(kept.max(room / 12))) || kept > room / 10 {
            return Err(format!("{kept} prints in {room} words"));
        }
        let known = |line: &String| line == "0.5" || line.starts_with("thread ");
        equal("texts", reported.prints.iter().all(known), true)?;
    }
    Ok(())
}

/// Every block of grids that no adapter dispatches runs once, and knows where it is.
fn folded(device: &Device) -> Result<(), String> {
    let text = "kernel @k(%y: mut view<i32, 1, global>) thread [1, 1, 1] {
  %x = program_id x : i64
  %r = program_id y : i64
  %s = program_id z : i64
  %w = num_programs x : i64
  %h = num_programs y : i64
  %sh = mul %s, %h : i64
  %row = add %sh, %r : i64
  %rows = mul %row, %w : i64
  %at = add %rows, %x : i64
  %one = const 1 : i32
  %old = view_atomic.add.device %y[%at] = %one : i32
  %in = num_programs z : i64
  %ok = lt %s, %in : bool
  assert %ok, \"{} of {}\", %s, %in
}";
    let module = compiled(device, text)?;
    for grid in [[70_000, 1, 1], [1, 65_537, 1], [3, 1, 66_001], [65_535, 1, 1], [7, 5, 3]] {
        let blocks: u32 = grid.iter().product();
        let got = device.run(&module, grid, &[Arg::row(&vec![0i32; blocks as usize + 100])])?;
        let counts = words(&got[0]);
        let wrong = counts.iter().enumerate().find(|&(i, &n)| n != u32::from(i < blocks as usize));
        equal("a block", wrong, None).map_err(|e| format!("{grid:?}: {e}"))?;
    }
    Ok(())
}
