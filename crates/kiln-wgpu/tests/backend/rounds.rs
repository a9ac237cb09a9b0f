//! Loops of many rounds, of which a driver that ends them has made a fault.

use crate::{Outcome, STREAM, Test, compiled, downloaded, ensure, launched, text, uploaded};
use kiln_backend::{Backend, BufferBinding, Error, Fault, FaultKind, LaunchArguments};
use kiln_wgpu::Wgpu;

pub const TESTS: &[Test] = &[
    ("counted_loops_end_or_fault", counted_loops_end_or_fault),
    ("loops_by_condition_end_or_fault", loops_by_condition_end_or_fault),
    ("rounds_add_up", rounds_add_up),
    ("waiting_threads_are_no_obstacle", waiting_threads_are_no_obstacle),
];

/// Each of 13 threads counts to %n, less as many as its number.
const COUNTED: &str = "file \"k.rs\"
kernel @counted(%n: i32, %y: mut view<i32, 1, global>) thread [13, 1, 1] {
  %t = thread_id x : i64
  %less = cast %t : i32
  %end = sub %n, %less : i32
  %0 = const 0 : i32
  %1 = const 1 : i32
  %sum = for %i = %0 to %end step %1 carry (%s = %0) : i32 @0:7:5 {
    %more = add %s, %1 : i32
    yield %more
  }
  view_store.x1 %y[%t] = %sum
}";

/// The same by a condition.
const BY_CONDITION: &str = "file \"k.rs\"
kernel @by_condition(%n: i32, %y: mut view<i32, 1, global>) thread [13, 1, 1] {
  %t = thread_id x : i64
  %less = cast %t : i32
  %end = sub %n, %less : i32
  %0 = const 0 : i32
  %1 = const 1 : i32
  %sum = while (%count = %0) : i32 @0:7:5 {
    %go = lt %count, %end : bool
    condition %go
  } do (%before) {
    %next = add %before, %1 : i32
    yield %next
  }
  view_store.x1 %y[%t] = %sum
}";

/// 100 times %n rounds, of which few are of one loop.
const NESTED: &str = "file \"k.rs\"
kernel @nested(%n: i32, %y: mut view<i32, 1, global>) thread [13, 1, 1] {
  %t = thread_id x : i64
  %less = cast %t : i32
  %end = sub %n, %less : i32
  %0 = const 0 : i32
  %1 = const 1 : i32
  %100 = const 100 : i32
  %sum = for %j = %0 to %100 step %1 carry (%all = %0) : i32 @0:7:5 {
    %inner = for %i = %0 to %end step %1 carry (%s = %all) : i32 @0:8:9 {
      %more = add %s, %1 : i32
      yield %more
    }
    yield %inner
  }
  view_store.x1 %y[%t] = %sum
}";

/// The first thread alone counts to %n, for which all wait.
const WAITED_FOR: &str = "file \"k.rs\"
kernel @waited_for(%n: i32, %y: mut view<i32, 1, global>) thread [13, 1, 1] {
  %shared = alloc shared i32[1] : view<i32, 1, shared>
  %t = thread_id x : i64
  %zero = const 0 : i64
  %0 = const 0 : i32
  %1 = const 1 : i32
  %first = eq %t, %zero : bool
  %end = select %first, %n, %0 : i32
  %sum = for %i = %0 to %end step %1 carry (%s = %0) : i32 @0:7:5 {
    %more = add %s, %1 : i32
    yield %more
  }
  view_store.x1 %shared[%zero] where %first = %sum
  barrier
  %same = view_load.x1 %shared[%zero] : i32
  view_store.x1 %y[%t] = %same
}";

/// After how many rounds the driver ends loops, if it does.
fn limit(device: &Wgpu) -> Option<u32> {
    let adapters = kiln_wgpu::adapters();
    adapters.iter().find(|adapter| adapter.id == device.properties().id)?.loop_rounds
}

/// Runs a kernel with a number, and expects either these results or the fault of a loop.
fn expect(device: &Wgpu, source: &str, n: i32, want: [i32; 13], cut_at: Option<&str>) -> Outcome {
    let program = compiled(device, source)?;
    let output = uploaded(device, &[0x5a; 52])?;
    let arguments = LaunchArguments::new().scalar(n as u64).view(BufferBinding::write(output), &[13]);
    launched(device, &program, [1, 1, 1], &arguments)?;
    let cut_at = cut_at.filter(|_| limit(device).is_some());
    let outcome = device.synchronize(STREAM);
    let got: Vec<i32> = bytemuck::pod_collect_to_vec(&downloaded(device, output, 52)?);
    // SAFETY: nothing uses the memory any more.
    unsafe { device.free(output, 52, STREAM) };
    match (cut_at, outcome) {
        (None, Ok(())) => ensure(got == want, || format!("{n} rounds: {got:?}")),
        (Some(place), Err(Error::Fault(fault))) => {
            let what = fault.to_string();
            let Fault { kind, location, .. } = *fault;
            let is_limit = matches!(kind, FaultKind::LoopLimit { rounds: 65_535 });
            ensure(is_limit && location.starts_with(place), || format!("{n} rounds: {what}"))
        }
        (_, Err(error)) => Err(format!("{n} rounds: {}", text(error))),
        (Some(_), Ok(())) => Err(format!("{n} rounds were made, and gave {got:?}")),
    }
}

fn fewer(n: i32) -> [i32; 13] {
    std::array::from_fn(|thread| n - thread as i32)
}

fn counted_loops_end_or_fault(device: &Wgpu) -> Outcome {
    for n in [13, 60_000] {
        expect(device, COUNTED, n, fewer(n), None)?;
    }
    expect(device, COUNTED, 100_000, fewer(100_000), Some("k.rs:7:5"))
}

fn loops_by_condition_end_or_fault(device: &Wgpu) -> Outcome {
    for n in [13, 60_000] {
        expect(device, BY_CONDITION, n, fewer(n), None)?;
    }
    expect(device, BY_CONDITION, 100_000, fewer(100_000), Some("k.rs:7:5"))
}

fn rounds_add_up(device: &Wgpu) -> Outcome {
    expect(device, NESTED, 600, fewer(600).map(|n| 100 * n), None)?;
    expect(device, NESTED, 1000, fewer(1000).map(|n| 100 * n), Some("k.rs:8:9"))
}

fn waiting_threads_are_no_obstacle(device: &Wgpu) -> Outcome {
    expect(device, WAITED_FOR, 60_000, [60_000; 13], None)?;
    expect(device, WAITED_FOR, 100_000, [100_000; 13], Some("k.rs:7:5"))
}
