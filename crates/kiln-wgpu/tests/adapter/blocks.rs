//! Blocks of extents that subgroups do not fit, and conditions that a block agrees on.

use crate::device::{Arg, Device};
use crate::{Test, compiled, compiled_for, words};
use kiln_wgpu::Features;

pub const TESTS: &[Test] = &[
    ("subgroups_in_blocks_of_three_axes", three_axes),
    ("loops_of_blocks_that_fill_no_subgroup", partial_subgroups),
    ("a_condition_on_another_lane_decides_about_a_barrier", exchanged_condition),
];

fn same(got: &[u32], want: &[u32]) -> Result<(), String> {
    if got[..want.len()] == *want { Ok(()) } else { Err(format!("{got:?}, expected {want:?}")) }
}

/// Each thread of 4 by 4 by 2 reads the number of the thread beside it.
fn three_axes(device: &Device) -> Result<(), String> {
    let text = "kernel @beside(%y: mut view<i32, 1, global>) thread [4, 4, 2] {
  %x = thread_id x : i64
  %v = thread_id y : i64
  %w = thread_id z : i64
  %4 = const 4 : i64
  %a = mul %w, %4 : i64
  %b = add %a, %v : i64
  %c = mul %b, %4 : i64
  %i = add %c, %x : i64
  %own = cast %i : i32
  %1 = const 1 : i64
  %other = shuffle.xor %own, %1 : i32
  view_store.x1 %y[%i] = %other
}";
    let warp = device.features.subgroup.filter(|&width| width <= 32).ok_or("no subgroups of one width")?;
    for features in [Features { warp, ..device.features }, Features { subgroup: None, ..device.features }] {
        let module = compiled_for(features, text)?;
        let results = device.run(&module, [1, 1, 1], &[Arg::row(&[-7i32; 32])])?;
        same(&words(&results[0]), &(0..32).map(|i| i ^ 1).collect::<Vec<u32>>())?;
    }
    Ok(())
}

/// Rounds until the votes of 13 threads say that none has anything left. Mesa 22.3 let lanes that
/// have no thread go on, and never came back to the others of their subgroup.
fn partial_subgroups(device: &Device) -> Result<(), String> {
    let text = "kernel @rounds(%x: view<i32, 1, global>, %y: mut view<i32, 1, global>) thread [13, 1, 1] {
  %t = thread_id x : i64
  %p = program_id x : i64
  %13 = const 13 : i64
  %f = mul %p, %13 : i64
  %i = add %f, %t : i64
  %v = view_load.x1 %x[%i] : i32
  %0 = const 0 : i32
  %1 = const 1 : i32
  %n, %rest = while (%count = %0, %left = %v) : i32, i32 {
    %over = le %left, %0 : bool
    %done = vote.all %over : bool
    %go = not %done : bool
    condition %go
  } do (%before, %more) {
    barrier
    %next = add %before, %1 : i32
    %less = sub %more, %1 : i32
    yield %next, %less
  }
  view_store.x1 %y[%i] = %n
}";
    let module = compiled(device, text)?;
    let x: Vec<i32> = (0..52).map(|i| i * 7 % 11 - 3).collect();
    let results = device.run(&module, [4, 1, 1], &[Arg::row(&x), Arg::row(&[-7i32; 52])])?;
    let most = |block: &[i32]| block.iter().fold(0, |most, &v| most.max(v)) as u32;
    same(&words(&results[1]), &x.chunks(13).flat_map(|block| [most(block); 13]).collect::<Vec<u32>>())
}

/// All lanes read one lane's number, so that they agree, and wait for each other as often as it
/// says. The code has to have the first thread decide, for it proves nothing itself.
fn exchanged_condition(device: &Device) -> Result<(), String> {
    let text = "kernel @waits(%x: view<i32, 1, global>, %y: mut view<i32, 1, global>) thread [32, 1, 1] {
  %i = thread_id x : i64
  %v = view_load.x1 %x[%i] : i32
  %5 = const 5 : i64
  %often = shuffle.index %v, %5 : i32
  %0 = const 0 : i32
  %1 = const 1 : i32
  %n = for %k = %0 to %often step %1 carry (%sum = %0) : i32 {
    barrier
    %more = add %sum, %k : i32
    yield %more
  }
  view_store.x1 %y[%i] = %n
}";
    // The verifier would refuse it as a user's kernel; the lowering of tiles makes such code.
    let kernel = kiln_ir::parse(text).map_err(|e| e.to_string())?;
    let module = kiln_wgpu::compile(&kernel, device.features).map_err(|e| e.to_string())?;
    let x: Vec<i32> = (0..32).collect();
    let results = device.run(&module, [1, 1, 1], &[Arg::row(&x), Arg::row(&[-7i32; 32])])?;
    same(&words(&results[1]), &[10; 32])
}
