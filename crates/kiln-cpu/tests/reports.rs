//! Faults, prints, limits and the device's other answers.

mod device;
use device::*;
use kiln_backend::{Backend, Error, FaultKind, LaunchArguments, StreamId};
use kiln_cpu::CpuBackend;
use kiln_ir::*;
use std::sync::{Arc, Mutex};

fn parsed(text: &str) -> Kernel {
    parse(text).unwrap_or_else(|e| panic!("{e}"))
}

const ASSERTING: &str = "kernel @asserting(%y: mut view<i32, 1, global>) thread [8, 2, 1] {
  %x = thread_id x : i64
  %row = thread_id y : i64
  %pid = program_id x : i64
  %three = const 3 : i64
  %one = const 1 : i64
  %a = ne %x, %three : bool
  %b = ne %row, %one : bool
  %fine = or %a, %b : bool
  %early = lt %pid, %three : bool
  %holds = or %fine, %early : bool
  assert %holds, \"x is {}, program {}\", %x, %pid
  %v = cast %pid : i32
  scatter.mask %y[%pid] = %v
}
";

#[test]
fn the_first_failing_assert_in_program_order_is_reported() {
    let kernel = parsed(ASSERTING);
    for threads in [1, 2, 4] {
        let cpu = CpuBackend::with_threads(threads);
        let mut y = vec![-1i32; 100];
        let found = fault(run_on(&cpu, &kernel, [100, 1, 1], vec![view(&mut y, &[100])]));
        assert_eq!(found.kind, FaultKind::Assert { message: "x is 3, program 3".into() });
        assert_eq!((found.block, found.thread), ([3, 0, 0], Some([3, 1, 0])));
        assert_eq!(y[..4], [0, 1, 2, -1]);
        // The device goes on.
        let mut z = vec![-1i32; 2];
        run_on(&cpu, &kernel, [2, 1, 1], vec![view(&mut z, &[2])]).unwrap();
        assert_eq!(z, [0, 1]);
    }
}

#[test]
fn checked_indices_and_divisors() {
    let kernel = parsed(
        "kernel @checked(%x: view<i64, 1, global>, %y: mut view<i64, 1, global>) thread [16, 1, 1] {
  %tid = thread_id x : i64
  %pad = const 0 : i64
  %i = gather.check %x[%tid] pad %pad : i64
  %ten = const 10 : i64
  %q = div %ten, %i : i64
  scatter.check %y[%q] = %tid
}
",
    );
    let outcome = |x: &mut [i64], n: usize| {
        let mut y = vec![0i64; n];
        fault(run(&kernel, [1, 1, 1], vec![view(x, &[x.len() as i64]), view(&mut y, &[n as i64])]))
    };
    let mut x = vec![1i64; 16];
    x[5] = 0;
    let found = outcome(&mut x.clone(), 20);
    assert_eq!((found.kind, found.thread), (FaultKind::DivisionByZero, Some([5, 0, 0])));
    x[5] = -2;
    let found = outcome(&mut x.clone(), 20);
    let (kind, thread) = (FaultKind::OutOfBounds { index: -5, extent: 20 }, Some([5, 0, 0]));
    assert_eq!((found.kind, found.thread), (kind, thread));
    let found = outcome(&mut x[..12].to_vec(), 20);
    let (kind, thread) = (FaultKind::OutOfBounds { index: 12, extent: 12 }, Some([12, 0, 0]));
    assert_eq!((found.kind, found.thread), (kind, thread));
}

/// The quotients of the other threads, zeros among them, must not take the place of the divisors
/// before the zero is found.
#[test]
fn a_zero_among_divisors_that_a_loop_carries() {
    let kernel = parsed(
        "kernel @carried(%x: view<i64, 1, global>, %y: mut view<i64, 1, global>, %turns: i64) thread [4, 1, 1] {
  %tid = thread_id x : i64
  %zero = const 0 : i64
  %one = const 1 : i64
  %seven = const 7 : i64
  %first = gather.check %x[%tid] pad %zero : i64
  %last = for %i = %zero to %turns step %one carry (%v = %first) : i64 {
    %q = div %seven, %v : i64
    yield %q
  }
  scatter.check %y[%tid] = %last
}
",
    );
    let (mut x, mut y) = ([9i64, 1, 0, 1], [0i64; 4]);
    let args = vec![view(&mut x, &[4]), view(&mut y, &[4]), Arg::Scalar(1)];
    let found = fault(run(&kernel, [1, 1, 1], args));
    assert_eq!((found.kind, found.thread), (FaultKind::DivisionByZero, Some([2, 0, 0])));
}

/// What stands before the operation that faults has happened, and nothing that stands after it; of
/// two divisions over more elements than are worked on at a time the first one is reported.
#[test]
fn memory_after_a_fault_is_that_of_the_program_up_to_it() {
    let text = |block: u32| {
        format!(
            "kernel @divisions(%a: view<i32, 1, global>, %b: view<i32, 1, global>, %y: mut view<i32, 2, global>) tile {{
  %zero = const 0 : i64
  %one = const 1 : i64
  %two = const 2 : i64
  %pad = const 1 : i32
  %hundred = const 100 : i32[{block}]
  %three = const 3 : i32[{block}]
  %u = load %a[%zero] pad %pad : i32[{block}]
  %v = load %b[%zero] pad %pad : i32[{block}]
  %sum = add %u, %three : i32[{block}]
  %before = reshape %sum : i32[1, {block}]
  store %y[%zero, %zero] = %before
  %first = div %hundred, %u : i32[{block}]
  %between = reshape %first : i32[1, {block}]
  store %y[%one, %zero] = %between
  %second = rem %hundred, %v : i32[{block}]
  %after = reshape %second : i32[1, {block}]
  store %y[%two, %zero] = %after
}}
"
        )
    };
    for n in [4usize, 1000, 5000] {
        let kernel = parsed(&text(n as u32));
        let mut a: Vec<i32> = (0..n as i32).map(|i| i % 7 + 1).collect();
        // In the first chunk, where the first division faults in the last one.
        let mut b = a.clone();
        b[1] = 0;
        for (zero, rows) in [(None, 2), (Some(n - 1), 1)] {
            if let Some(zero) = zero {
                a[zero] = 0;
            }
            let mut y = vec![7i32; 3 * n];
            let e = [n as i64];
            let args = vec![view(&mut a, &e), view(&mut b, &e), view(&mut y, &[3, n as i64])];
            let found = fault(run(&kernel, [1, 1, 1], args));
            assert_eq!(found.kind, FaultKind::DivisionByZero);
            let before = (0..n).map(|i| a[i] + 3);
            let between = (0..n).map(|i| if rows > 1 { 100 / a[i] } else { 7 });
            let expected: Vec<i32> = before.chain(between).chain((0..n).map(|_| 7)).collect();
            assert!(y == expected, "{n}, zero at {zero:?}");
        }
    }
}

fn lines(kernel: &Kernel, grid: [u32; 3]) -> Vec<String> {
    let cpu = CpuBackend::with_threads(1);
    let printed = Arc::new(Mutex::new(Vec::new()));
    let sink = printed.clone();
    cpu.set_print_sink(Arc::new(move |line| sink.lock().unwrap().push(line.to_owned())));
    run_on(&cpu, kernel, grid, vec![]).unwrap();
    std::mem::take(&mut *printed.lock().unwrap())
}

#[test]
fn prints_come_from_the_active_threads() {
    let threads = parsed(
        "kernel @print() thread [6, 1, 1] {
  %tid = thread_id x : i64
  %four = const 4 : i64
  %late = ge %tid, %four : bool
  if %late {
    %half = const 0.5 : f32
    %t = cast %tid : f32
    %v = mul %t, %half : f32
    print \"thread {} has {}\", %tid, %v
    yield
  } else {
    yield
  }
}
",
    );
    assert_eq!(lines(&threads, [1, 1, 1]), ["thread 4 has 2", "thread 5 has 2.5"]);
    let tiles = parsed("kernel @print() tile {\n  %pid = program_id y : i64\n  print \"row {}\", %pid\n}\n");
    assert_eq!(lines(&tiles, [1, 3, 1]), ["row 0", "row 1", "row 2"]);
}

#[test]
fn empty_grids_run_nothing_and_large_ones_are_refused() {
    let kernel = parsed(ASSERTING);
    let mut y = vec![-1i32; 4];
    run(&kernel, [0, 1, 1], vec![view(&mut y, &[4])]).unwrap();
    run(&kernel, [5, 0, 1], vec![view(&mut y, &[4])]).unwrap();
    assert_eq!(y, [-1; 4]);
    let limit = run(&kernel, [1, u32::MAX, 1], vec![view(&mut y, &[4])]);
    let message = limit.unwrap_err().to_string();
    assert_eq!(message, "cannot launch `asserting`: grid extent y is 4294967295, the limit is 2147483647");
}

#[test]
fn limits_of_a_block() {
    let cpu = CpuBackend::with_threads(1);
    let shared = parsed("kernel @k() tile {\n  %0 = alloc shared f64[65536] : view<f64, 1, shared>\n}\n");
    match cpu.compile(&shared).map(drop) {
        Err(Error::LaunchLimit { what, given, .. }) => {
            assert_eq!((what.as_str(), given), ("bytes of shared memory per block", 524_288));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn wrong_launches_and_unknown_events_are_errors() {
    let cpu = CpuBackend::with_threads(1);
    let program = cpu.compile(&parsed(ASSERTING)).unwrap().program;
    let stream = StreamId(0);
    // SAFETY: refused before anything runs.
    let outcome = unsafe { cpu.launch(&*program, LaunchArguments::new().launch([1, 1, 1], stream)) };
    assert!(matches!(outcome, Err(Error::Internal { .. })), "{outcome:?}");
    let (start, end) = (cpu.record(stream, true).unwrap(), cpu.record(stream, true).unwrap());
    assert!(cpu.query(start).unwrap() && cpu.elapsed_ms(start, end).unwrap() >= 0.0);
    cpu.destroy_event(start);
    assert!(cpu.query(start).is_err());
    match cpu.allocate(1 << 50, stream) {
        Err(Error::OutOfMemory { requested, free, total, .. }) => {
            assert!(requested == 1 << 50 && free <= total);
        }
        other => panic!("{other:?}"),
    }
}
