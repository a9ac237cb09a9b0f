//! The IR that kernels leave, as text: what is merged, carried and kept apart.

use kiln_lang::prelude::*;

fn ir(level: Level, body: impl FnOnce(View<f32, 2>, ViewMut<f32, 2>, Val<i32>)) -> String {
    let kernel = trace("k", level, |p| {
        let x = p.view("x", Default::default());
        let y = p.view_mut("y", Default::default());
        let n = p.scalar("n", Default::default());
        body(x, y, n);
    });
    let kernel = kernel.unwrap_or_else(|e| panic!("{e}"));
    kiln_ir::verify(&kernel).unwrap_or_else(|e| panic!("{e:?}\n{kernel}"));
    let text = kernel.to_string();
    let (_, body) = text.split_once("{\n").unwrap();
    body.trim_end().trim_end_matches('}').trim_end().lines().map(|l| format!("{}\n", &l[2..])).collect()
}

const TILE: Level = Level::Tile { warps: None };

#[device(crate = kiln_lang)]
fn softmax(x: View<f32, 2>, y: ViewMut<f32, 2>) {
    let row = program_id(0);
    let v = x.row(row).load(64, f32::NEG_INFINITY);
    let e = (v - v.reduce_max()).exp();
    y.row(row).store(e / e.sum());
}

#[test]
fn a_row_is_a_box_of_one() {
    assert_eq!(
        ir(TILE, |x, y, _| softmax(x, y)),
        "\
%0 = program_id x : i64
%1 = const 0 : i64
%2 = const -inf : f32
%3 = load %x[%0, %1] pad %2 : f32[1, 64]
%4 = reshape %3 : f32[64]
%5 = reduce.max %4 axis 0 : f32
%6 = broadcast %5 : f32[64]
%7 = sub %4, %6 : f32[64]
%8 = exp %7 : f32[64]
%9 = reduce.sum %8 axis 0 : f32
%10 = broadcast %9 : f32[64]
%11 = div %8, %10 : f32[64]
%12 = reshape %11 : f32[1, 64]
%13 = const 0 : i64
store.disjoint %y[%0, %13] = %12
"
    );
}

#[device(crate = kiln_lang)]
fn carried(n: Val<i32>) {
    let mut a = n;
    let mut unread = n;
    let untouched = n + 1;
    for i in 0..n {
        let mut inner = i;
        inner += untouched;
        a += inner;
        unread += 1;
    }
    device_print!("{}", a);
}

#[test]
fn loops_carry_what_is_read_afterwards() {
    // `unread` feeds itself and is left to dead code elimination; `inner` and `untouched` are not
    // carried.
    assert_eq!(
        ir(TILE, |_, _, n| carried(n)),
        "\
%0 = const 1 : i32
%1 = add %n, %0 : i32
%2 = const 0 : i32
%3 = const 1 : i32
%4, %5 = for %6 = %2 to %n step %3 carry (%7 = %n, %8 = %n) : i32, i32 {
  %9 = add %6, %1 : i32
  %10 = add %7, %9 : i32
  %11 = const 1 : i32
  %12 = add %8, %11 : i32
  yield %10, %12
}
print \"{}\", %4
"
    );
}

#[device(crate = kiln_lang)]
fn only_written(n: Val<i32>) {
    let mut a = n;
    if n > 3 {
        a = n * 2;
        device_print!("{}", a);
    }
    a = n;
    if n > 4 {
        a += 1;
    }
}

#[test]
fn branches_yield_nothing_that_is_not_read() {
    assert_eq!(
        ir(TILE, |_, _, n| only_written(n)),
        "\
%0 = const 3 : i32
%1 = gt %n, %0 : bool
if %1 {
  %2 = const 2 : i32
  %3 = mul %n, %2 : i32
  print \"{}\", %3
  yield
} else {
  yield
}
%4 = const 4 : i32
%5 = gt %n, %4 : bool
if %5 {
  %6 = const 1 : i32
  %7 = add %n, %6 : i32
  yield
} else {
  yield
}
"
    );
}

#[device(crate = kiln_lang)]
fn host_only(n: Val<i32>, flag: bool) {
    let mut k = 0;
    while k < 3 {
        k += 1;
        if k == 2 && flag {
            continue;
        }
        device_print!("{} {}", n, k);
    }
    loop {
        k -= 1;
        if k < 0 {
            break;
        }
    }
}

#[test]
fn host_control_flow_leaves_no_trace() {
    assert_eq!(
        ir(TILE, |_, _, n| host_only(n, true)),
        "\
%0 = const 1 : i64
print \"{} {}\", %n, %0
%1 = const 3 : i64
print \"{} {}\", %n, %1
"
    );
}

#[device(crate = kiln_lang)]
fn leaves_early(n: Val<i32>) {
    for i in 0..n {
        if i == 7 {
            break;
        }
        device_print!("{}", i);
    }
}

#[test]
fn a_for_with_a_break_is_a_while() {
    assert_eq!(
        ir(TILE, |_, _, n| leaves_early(n)),
        "\
%0 = const 0 : i32
%1 = const 1 : i32
%2 = const false : bool
%3, %4 = while (%5 = %2, %6 = %0) : bool, i32 {
  %7 = lt %6, %n : bool
  %8 = not %5 : bool
  %9 = and %8, %7 : bool
  condition %9
} do (%10, %11) {
  %12 = const 7 : i32
  %13 = eq %11, %12 : bool
  %14 = if %13 : bool {
    %15 = const true : bool
    yield %15
  } else {
    yield %10
  }
  %16 = not %14 : bool
  if %16 {
    print \"{}\", %11
    yield
  } else {
    yield
  }
  %17 = add %11, %1 : i32
  yield %14, %17
}
"
    );
}

#[device(crate = kiln_lang)]
fn forever() {
    loop {
        device_print!("again");
    }
}

#[test]
fn a_loop_that_nothing_leaves_is_endless() {
    assert_eq!(
        ir(TILE, |_, _, _| forever()),
        "\
while () {
  %0 = const true : bool
  condition %0
} do () {
  print \"again\"
  yield
}
"
    );
}

#[test]
fn one_axis_of_threads_has_a_short_index() {
    let level = Level::Thread { block: [64, 1, 1] };
    let text = ir(level, |_, _, _| device_print!("{} {}", thread_id(1), block_dim(0)));
    assert_eq!(text, "%0 = const 0 : i64\n%1 = const 64 : i64\nprint \"{} {}\", %0, %1\n");
}

#[test]
fn every_operation_has_the_place_it_was_written() {
    let line = line!() + 2;
    let kernel = trace("k", TILE, |p| {
        let x: View<f32, 1> = p.view("x", Default::default());
        let v = x.load(16, 0.0);
        let _ = (v * 2.0).sqrt();
    });
    let kernel = kernel.unwrap();
    kernel.walk(|_, op| {
        assert!(kernel.describe(op.loc).contains("tests/ir.rs"), "{op:?}");
        assert!(op.loc.line > line && op.loc.line <= line + 2, "{op:?}");
    });
}
