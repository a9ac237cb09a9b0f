//! Mistakes that a trace notices: what it says, and where.

use kiln_lang::prelude::*;
use kiln_lang::{TraceError, trace};

/// The errors of tracing `body`, as `line-of-the-mistake: message`, where lines count from the
/// call.
#[track_caller]
fn errors(body: impl FnOnce(View<f32, 2>, ViewMut<f32, 1>, Val<i32>)) -> Vec<TraceError> {
    let level = Level::Tile { warps: None };
    let traced = trace("k", level, |p| {
        let x = p.view("x", Default::default());
        let y = p.view_mut("y", Default::default());
        let n = p.scalar("n", Default::default());
        body(x, y, n);
    });
    traced.expect_err("the trace should have failed").errors().to_vec()
}

/// One error, at `line` of this file, whose message contains `message` and whose help contains
/// `help`.
#[track_caller]
fn assert_error(errors: &[TraceError], line: u32, message: &str, help: &str) {
    assert_eq!(errors.len(), 1, "{errors:?}");
    let e = &errors[0];
    assert!(e.message.contains(message), "{e}");
    assert!(e.help.contains(help), "{e}");
    assert!(e.file.ends_with("tests/errors.rs"), "{e}");
    assert_eq!(e.line, line, "{e}");
}

/// The line that ends in `// <- name`.
fn at(name: &str) -> u32 {
    let mark = format!("// <- {name}");
    let line = include_str!("errors.rs").lines().position(|l| l.ends_with(&mark));
    line.unwrap_or_else(|| panic!("no line is marked {name}")) as u32 + 1
}

#[test]
fn a_literal_out_of_range() {
    let e = errors(|_, _, n| {
        let _ = n + 3_000_000_000i64;
    });
    assert_error(&e, line!() - 2, "3000000000 does not fit i32", "");
    let e = errors(|_, _, n| {
        let _ = n * 2.5;
    });
    assert_error(&e, line!() - 2, "2.5 is not an integer", "");
    let e = errors(|_, _, _| {
        let _: Val<f16> = val(70_000);
    });
    assert_error(&e, line!() - 2, "70000 does not fit f16", "");
    let e = errors(|_, _, _| {
        let _: Val<u32> = val(-1);
    });
    assert_error(&e, line!() - 2, "-1 does not fit u32", "");
}

#[test]
fn literals_that_fit_are_not_errors() {
    let level = Level::Tile { warps: None };
    let traced = trace("k", level, |p| {
        let h = p.scalar::<f16>("h", Default::default());
        let _ = h * 65504 + f64::INFINITY - f32::NAN;
        let u = p.scalar::<u64>("u", Default::default());
        let _ = u + u64::MAX + 2.0;
    });
    assert!(traced.is_ok(), "{traced:?}");
}

#[test]
fn shapes_that_do_not_combine() {
    let e = errors(|_, _, _| {
        let (a, b) = (zeros::<f32>([4, 8]), zeros::<f32>([4, 6]));
        let _ = a + b;
    });
    assert_error(&e, line!() - 2, "shapes [4, 8] and [4, 6] do not combine", "reshape");
    let e = errors(|_, _, _| {
        let _ = zeros::<f32>([4, 8]).reshape([5, 6]);
    });
    assert_error(&e, line!() - 2, "[4, 8] holds 32 elements, [5, 6] would hold 30", "");
    let e = errors(|_, _, _| {
        let _ = zeros::<f32>([4, 8]).sum_axis(2);
    });
    assert_error(&e, line!() - 2, "no axis 2", "count from 0");
    let e = errors(|_, _, _| {
        let _ = dot(zeros::<f32>([4, 8]), zeros::<f32>([4, 8]));
    });
    assert_error(&e, line!() - 2, "no matrix product of shapes [4, 8] and [4, 8]", "[m, k] and [k, n]");
    let e = errors(|_, _, _| {
        let _ = zeros::<f32>([4, 8]).permute([0, 0]);
    });
    assert_error(&e, line!() - 2, "does not name each axis", "");
    let e = errors(|_, _, _| {
        let _ = zeros::<f32>([4, 0]);
    });
    assert_error(&e, line!() - 2, "no extent of 0", "");
    let e = errors(|_, _, _| {
        let _ = zeros::<f32>([1 << 20, 1 << 20]);
    });
    assert_error(&e, line!() - 2, "more than", "load a part");
    let e = errors(|x, _, _| {
        let _ = x.load([4, 4, 4], 0.0);
    });
    assert_error(&e, line!() - 2, "does not lie in a view of rank 2", "");
}

#[test]
fn tiles_that_do_not_come_apart_or_together() {
    let e = errors(|_, _, _| _ = zeros::<f32>([4, 3]).split());
    assert_error(&e, line!() - 1, "the last axis of shape [4, 3] is no pair", "reshape");
    let e = errors(|_, _, _| _ = val::<f32>(1.0).split());
    assert_error(&e, line!() - 1, "`split` divides pairs", "reshape");
    let e = errors(|_, _, _| _ = zeros::<f32>(4).join(zeros(3)));
    assert_error(&e, line!() - 1, "shapes [4] and [3] do not combine", "");
    let e = errors(|_, _, _| _ = zeros::<f32>([4, 2]).interleave(zeros([3, 2])));
    assert_error(&e, line!() - 1, "shapes [4, 2] and [3, 2] do not combine", "");
    let e = errors(|_, _, _| _ = zeros::<f32>([4, 8]).concat(zeros([4, 6]), 0));
    assert_error(&e, line!() - 1, "[4, 8] and [4, 6] do not fit together on axis 0", "equal extents");
    let e = errors(|_, _, _| _ = zeros::<f32>([4, 8]).concat(zeros(8), 0));
    assert_error(&e, line!() - 1, "[4, 8] and [8] do not fit together on axis 0", "reshape");
    let e = errors(|_, _, _| _ = zeros::<f32>([4, 8]).flip(2));
    assert_error(&e, line!() - 1, "shape [4, 8] has no axis 2", "count from 0");
    let e = errors(|_, _, _| _ = zeros::<f32>([4, 8]).slice(1, 5..9));
    assert_error(&e, line!() - 1, "axis 1 of shape [4, 8] has no part 5..9", "at least one element");
    let e = errors(|_, _, _| _ = zeros::<f32>([4, 8]).slice(1, 3..3));
    assert_error(&e, line!() - 1, "has no part 3..3", "at least one element");
    let e = errors(|_, _, _| _ = zeros::<f32>([4, 8]).gather(zeros::<i32>([3, 8]), 1));
    assert_error(&e, line!() - 1, "indices of shape [3, 8] do not fit axis 1", "as long as the tile's");
    let e = errors(|_, _, _| _ = val::<f32>(1.0).gather(zeros::<i32>(4), 0));
    assert_error(&e, line!() - 1, "no axis 0", "a scalar has no axes");
}

#[test]
fn functions_along_an_axis_that_do_not_fit() {
    let e = errors(|_, _, _| _ = zeros::<f32>([4, 8]).reduce_with(2, |a, b| a + b));
    assert_error(&e, line!() - 1, "shape [4, 8] has no axis 2", "count from 0");
    let e = errors(|_, _, n| _ = n.scan_with(0, |a, b| a + b));
    assert_error(&e, line!() - 1, "no axis 0", "a scalar has no axes");
    let e = errors(|_, _, _| _ = (zeros::<f32>(4), zeros::<i32>(5)).scan_with(0, |a, _| a));
    assert_error(&e, line!() - 1, "shapes [4] and [5] do not combine", "");
    let e = errors(|_, _, _| ().reduce_with(0, |(), ()| ()));
    assert_error(&e, line!() - 1, "`reduce_with` combines tiles, and this value has none", "tuple or struct");
    let e = errors(|_, _, _| _ = zeros::<f32>(4).reduce_with(0, |_, _| zeros(3)));
    assert_error(&e, line!() - 1, "the function of `reduce_with` gives a tile of shape [3]", "of the same");
    let e = errors(|_, _, _| _ = zeros::<f32>(8).sort_by(0, |_, _| zeros(7)));
    assert_error(&e, line!() - 1, "the function of `sort_by` gives a tile of shape [7]", "of the same");
    let e = errors(|_, _, _| _ = zeros::<f32>([4, 8]).sort(2));
    assert_error(&e, line!() - 1, "shape [4, 8] has no axis 2", "count from 0");
    let e = errors(|_, _, _| _ = zeros::<f32>(8).top_k(0, 9));
    assert_error(&e, line!() - 1, "axis 0 of shape [8] has no 9 greatest elements", "1 to 8");
    let e = errors(|_, _, _| _ = zeros::<f32>([4, 8]).max_with_index(3));
    assert_eq!((e.len(), e[0].line), (1, line!() - 1), "{e:?}");
    let e = errors(|_, _, _| _ = zeros::<f32>([4, 8]).softmax(2));
    assert_error(&e, line!() - 1, "shape [4, 8] has no axis 2", "count from 0");
    let e = errors(|_, _, _| _ = zeros::<i32>(8).histogram(0));
    assert_error(&e, line!() - 1, "no extent of 0", "");
}

#[test]
fn tasks_do_not_move_elements_between_threads() {
    use kiln_lang::explicit::tasks;
    let e = errors(|_, _, _| tasks().task(4, 0, || _ = zeros::<f32>([4, 8]).flip(1)).run());
    assert_error(&e, line!() - 1, "`flip` moves elements between all threads", "before or after the tasks");
}

#[test]
fn bulk_copies_combine_some_elements_only() {
    use kiln_lang::explicit::shared_tiles;
    let e = errors(|_, y, _| {
        let tile = shared_tiles::<f32>(1, 8, 32).at(0);
        // SAFETY: it is not run.
        unsafe { tile.store_min(y, 0) };
    });
    assert_error(&e, line!() - 2, "`store_min` of f32", "have it for i32, u32, i64, u64, f16, bf16");
}

#[test]
fn poison_raises_no_second_error() {
    let e = errors(|x, y, _| {
        let bad = zeros::<f32>(4) + zeros::<f32>(5);
        let more = (bad * 2.0).exp().sum() + x.load([4, 4], bad.sum());
        y.store(more.reshape([16]) + bad);
        y.tile(bad.argmax(), 4).store(more.sum());
    });
    assert_error(&e, line!() - 5, "shapes [4] and [5] do not combine", "");
}

#[test]
fn several_errors_are_reported() {
    let e = errors(|_, _, n| {
        let _ = n + 2.5;
        let _ = zeros::<f32>(4).max_axis(7);
    });
    assert_eq!(e.len(), 2);
    assert_eq!(e[0].line + 1, e[1].line);
}

#[device(crate = kiln_lang)]
fn tile_condition(x: View<f32, 2>) {
    if x.load([4, 4], 0.0) > 1.0 {
        device_print!("large");
    }
}

#[test]
fn a_tile_is_not_a_condition() {
    let e = errors(|x, _, _| tile_condition(x));
    assert_error(&e, line!() - 8, "a tile of shape [4, 4], not one bool", ".any()");
}

#[device(crate = kiln_lang)]
fn host_changed(n: Val<i32>) {
    let mut count = 0;
    if n > 3 {
        count += 1; // <- branch
    }
    device_print!("{}", count);
}

#[device(crate = kiln_lang)]
fn host_changed_in_loop(n: Val<i32>) {
    let mut count = 0;
    for _ in 0..n {
        count = count + 1; // <- for
    }
    device_print!("{}", count);
}

#[device(crate = kiln_lang)]
fn host_changed_in_loop_that_turns_out_to_be_the_devices(n: Val<i32>) {
    let mut count = 0;
    let mut m = n;
    loop {
        count += 1; // <- loop
        m += 1;
        if m > 100 {
            break;
        }
    }
    device_print!("{}", count);
}

#[device(crate = kiln_lang)]
fn host_changed_after_break(n: Val<i32>) {
    let mut count = 0;
    for k in [1, 2, 3] {
        if n == k {
            break;
        }
        count += 1; // <- after break
    }
    device_print!("{}", count);
}

#[device(crate = kiln_lang)]
fn element_replaced(n: Val<i32>) {
    let mut list = vec![n, n];
    if n > 3 {
        list[0] = n + 1; // <- element
    }
    device_print!("{}", list[1]);
}

#[device(crate = kiln_lang)]
fn borrowed_mutably(n: Val<i32>) {
    let mut list = vec![n, n];
    if n > 3 {
        replace(&mut list); // <- borrow
    }
    device_print!("{}", list[1]);
}

fn replace(list: &mut [Val<i32>]) {
    list[0] = list[1] + 1;
}

#[test]
fn host_values_change_on_the_host_alone() {
    let what = "a host value is changed under device control flow";
    assert_error(&errors(|_, _, n| host_changed(n)), at("branch"), what, "Val<i32> = 0");
    assert_error(&errors(|_, _, n| host_changed_in_loop(n)), at("for"), what, "Val<i32> = 0");
    let e = errors(|_, _, n| host_changed_in_loop_that_turns_out_to_be_the_devices(n));
    assert_error(&e, at("loop"), what, "Val<i32> = 0");
    let e = errors(|_, _, n| host_changed_after_break(n));
    assert!(e.iter().all(|e| e.line == at("after break") && e.message == what), "{e:?}");
    assert_error(&errors(|_, _, n| element_replaced(n)), at("element"), what, "Val<i32> = 0");
    assert_error(&errors(|_, _, n| borrowed_mutably(n)), at("borrow"), what, "Val<i32> = 0");
}

#[device(crate = kiln_lang)]
fn escapes(n: Val<i32>) {
    let mut list = Vec::new();
    if n > 3 {
        list.push(n * 2); // <- pushed
    }
    let again = list[0] + 1; // <- escape
    device_print!("{}", again);
}

#[device(crate = kiln_lang)]
fn does_not_escape(n: Val<i32>) {
    let mut list = Vec::new();
    for k in [1, 2] {
        let mut i = 0;
        loop {
            list.push(n * k);
            i += 1;
            if i == 2 {
                break;
            }
        }
        while i > 0 {
            list.push(n + k);
            i -= 1;
        }
    }
    if n > 3 {
        device_print!("{}", list[0] + list[7]);
    }
}

#[test]
fn values_stay_in_their_control_flow() {
    let e = errors(|_, _, n| escapes(n));
    assert_error(&e[..1], at("pushed"), "a host value is changed under device control flow", "Val<i32> = 0");
    assert_error(&e[1..], at("escape"), "computed in device control flow that has ended", "declared outside");
    let level = Level::Tile { warps: None };
    let traced = trace("k", level, |p| does_not_escape(p.scalar("n", Default::default())));
    assert!(traced.is_ok(), "{traced:?}");
}

#[device(crate = kiln_lang)]
fn hosts_differ(n: Val<i32>) -> usize {
    if n > 3 { 1 } else { 2 } // <- hosts
}

#[device(crate = kiln_lang)]
fn hosts_agree(n: Val<i32>) -> usize {
    let k = if n > 3 { 2 } else { 2 };
    k + 1
}

#[device(crate = kiln_lang)]
fn returned_hosts_differ(n: Val<i32>) -> usize {
    if n > 3 {
        return 1;
    }
    2 // <- returned
}

#[device(crate = kiln_lang)]
fn shapes_differ(n: Val<i32>) -> Val<f32> {
    if n > 3 { zeros([4]) } else { zeros([5]) } // <- shapes
}

#[device(crate = kiln_lang)]
fn shape_of_a_variable(n: Val<i32>) {
    let mut acc: Val<f32> = 0.0;
    for _ in 0..n {
        acc = zeros(8); // <- variable
    }
    device_print!("{}", acc);
}

#[test]
fn arms_must_agree() {
    let what = "give different host values";
    assert_error(&errors(|_, _, n| _ = hosts_differ(n)), at("hosts"), what, "val(x)");
    let level = Level::Tile { warps: None };
    let traced = trace("k", level, |p| assert_eq!(hosts_agree(p.scalar("n", Default::default())), 3));
    assert!(traced.is_ok(), "{traced:?}");
    assert_error(
        &errors(|_, _, n| _ = returned_hosts_differ(n)),
        at("returned"),
        "carry different host values",
        "val(x)",
    );
    let e = errors(|_, _, n| _ = shapes_differ(n));
    assert_error(&e, at("shapes"), "the arms have values of shapes [4] and [5]", "stretch to one");
    let e = errors(|_, _, n| shape_of_a_variable(n));
    assert_error(
        &e,
        at("variable"),
        "a variable of shape [] cannot take a value of shape [8]",
        "full([8], x)",
    );
}

#[device(crate = kiln_lang)]
fn endless_on_the_host() {
    let k = 0;
    while k < 1 {} // <- endless
}

#[device(crate = kiln_lang)]
fn recursive(n: Val<i32>) -> Val<i32> {
    if n > 0 { recursive(n - 1) + 1 } else { n } // <- recursive
}

#[test]
fn traces_end() {
    let e = errors(|_, _, _| endless_on_the_host());
    assert_error(&e, at("endless"), "did not end", "condition must change");
    let e = errors(|_, _, n| _ = recursive(n));
    assert_error(&e, at("recursive"), "nested more than", "use a loop");
}

#[device(crate = kiln_lang)]
fn question_mark(n: Val<i32>, known: Option<usize>) -> Option<usize> {
    if n > 3 {
        // <- question mark
        let k = known?;
        device_print!("{}", k);
    }
    known
}

#[test]
fn a_question_mark_stays_on_the_host() {
    let e = errors(|_, _, n| _ = question_mark(n, None));
    assert_error(&e, at("question mark") - 1, "through `?`", "use `return`");
    let level = Level::Tile { warps: None };
    let traced = trace("k", level, |p| {
        assert_eq!(question_mark(p.scalar("n", Default::default()), Some(1)), Some(1));
    });
    assert!(traced.is_ok(), "{traced:?}");
}

#[test]
fn a_panic_is_an_error_of_the_trace() {
    let e = errors(|_, _, _| panic!("block {} is odd", 3));
    assert_error(&e, line!() - 1, "the kernel panicked while it was traced: block 3 is odd", "");
    let table = [1, 2, 3];
    let e = errors(|_, _, _| _ = table[std::hint::black_box(7)]);
    assert_error(&e, line!() - 1, "index out of bounds: the len is 3 but the index is 7", "");
    let none = std::hint::black_box(None::<usize>);
    let e = errors(|_, _, _| _ = none.unwrap());
    assert_error(&e, line!() - 1, "called `Option::unwrap()` on a `None` value", "");
    // The thread can trace again.
    assert!(trace("k", Level::Tile { warps: None }, |_| {}).is_ok());
}

#[test]
fn thread_operations_need_threads() {
    let e = errors(|_, _, _| barrier());
    assert_error(&e, line!() - 1, "`barrier` needs a launch with threads", ".block([256])");
    let e = errors(|_, _, _| _ = program_id(3));
    assert_error(&e, line!() - 1, "no axis 3", "0, 1 and 2");
    let e = errors(|x, _, _| _ = x.extent(2));
    assert_error(&e, line!() - 1, "a view of rank 2 has no axis 2", "");
}

#[test]
fn messages_have_a_place_for_each_value() {
    let e = errors(|_, _, n| device_print!("{} {}", n));
    assert_error(&e, line!() - 1, "2 places for 1 values", "");
}

#[test]
fn steps_are_positive() {
    let e = errors(|_, _, n| _ = range_step(0, n, -1));
    assert_error(&e, line!() - 1, "cannot step by -1", ".rev()");
}

#[test]
fn the_display_has_everything() {
    let level = Level::Tile { warps: None };
    let e = trace("reduce", level, |_| _ = zeros::<f32>(4).sum_axis(1)).unwrap_err();
    let at = e.errors()[0].location();
    assert_eq!(
        e.to_string(),
        format!("kernel `reduce` cannot be traced\n  {at}: shape [4] has no axis 1; axes count from 0")
    );
}

#[test]
fn a_function_that_never_returns_under_a_condition() {
    #[device(crate = kiln_lang)]
    fn spin() -> Val<i32> {
        loop {
            device_print!("still here");
        }
    }
    #[device(crate = kiln_lang)]
    fn sometimes(n: Val<i32>) -> Val<i32> {
        if n > 3 { spin() } else { n }
    }
    let e = errors(|_, _, n| {
        let _ = sometimes(n);
    });
    assert_eq!(e.len(), 1, "{e:?}");
    assert!(e[0].message.contains("never returns is called under a device condition"), "{e:?}");
    let e = errors(|_, _, n| {
        let _ = fault_region(5, 0, || sometimes(n));
    });
    assert_error(&e, line!() - 2, "never returns is called under a device condition", "return a value");
}

#[test]
fn what_a_fault_region_cannot_undo() {
    #[device(crate = kiln_lang)]
    fn host_variable(n: Val<i32>) {
        let mut times = 1;
        let (_, _) = fault_region(0, 0, || {
            times = 2; // <- a host value in a fault region
            n / times
        });
    }
    let e = errors(|_, _, n| host_variable(n));
    assert_error(
        &e,
        at("a host value in a fault region"),
        "a host value is changed",
        "make it a device value",
    );
    let e = errors(|_, _, n| {
        fault_region(0, full::<f32>(8, 0.0), || full(16, 1.0) * n.cast::<f32>());
    });
    assert_error(&e, line!() - 2, "has shape [8], the value of the region has shape [16]", "stretch");
    let e = errors(|_, _, n| {
        let mut inside = None;
        fault_region(0, (), || inside = Some(n + 1));
        let _ = inside.map(|v| v + 1);
    });
    assert_error(&e, line!() - 2, "has ended, and does not exist here", "declared outside");
    let e = errors(|_, _, n| {
        fault_region(n.cast::<u32>().broadcast_to(4), (), || ());
    });
    assert_eq!(e.len(), 1, "{e:?}");
}

#[test]
fn ordered_accesses_that_do_not_exist() {
    let threads = |body: fn(View<u32, 1>, ViewMut<u32, 2>)| {
        let traced = trace("k", Level::Thread { block: [32, 1, 1] }, |p| {
            body(p.view("x", Default::default()), p.view_mut("y", Default::default()));
        });
        traced.expect_err("the trace should have failed").errors().to_vec()
    };
    let e = threads(|x, _| _ = x.get_ordered(0, Order::Release, Scope::Device));
    assert_error(&e, line!() - 1, "`get_ordered` has no order `Release`", "relaxed or acquire");
    // SAFETY: nothing runs.
    let e = threads(|_, y| unsafe { y.set_ordered((0, 1), 2, Order::Acquire, Scope::Device) });
    assert_error(&e, line!() - 1, "`set_ordered` has no order `Acquire`", "relaxed or release");
    let e = threads(|_, y| _ = y.row(1).get_quad(0));
    assert_error(&e, line!() - 1, "a row or column of a view has no quads", "of rank 1");
    let e = threads(|x, _| _ = x.get_ordered(iota::<i64>(4), Order::Relaxed, Scope::Device));
    assert_error(&e, line!() - 1, "a value of shape [4] does not stretch to shape []", "");
}

#[test]
fn what_only_threads_have() {
    let e = errors(|_, y, _| _ = y.get_ordered(0, Order::Relaxed, Scope::Device));
    assert_error(&e, line!() - 1, "`get_ordered` needs a launch with threads", ".block([256])");
    let e = errors(|_, _, _| _ = clock_ns());
    assert_error(&e, line!() - 1, "`clock_ns` needs a launch with threads", ".block([256])");
    let e = errors(|_, _, _| sleep_ns(5));
    assert_error(&e, line!() - 1, "`sleep_ns` needs a launch with threads", ".block([256])");
    let e = errors(|_, _, n| _ = block_uniform(n));
    assert_error(&e, line!() - 1, "`block_uniform` needs a launch with threads", ".block([256])");
    let e = errors(|_, _, n| _ = block_sum(n));
    assert_error(&e, line!() - 1, "`block_sum` needs a launch with threads", ".block([256])");
    let e = errors(|_, _, n| _ = block_exclusive_scan(n, n, |a, b| a + b));
    assert_error(&e, line!() - 1, "`block_exclusive_scan` needs a launch with threads", ".block([256])");
    let e = errors(|_, y, n| _ = y.atomics(AtomicOrder::AcqRel, Scope::Device).exchange(n, 1.0));
    assert_error(&e, line!() - 1, "`atomics(AcqRel, …)` needs a launch with threads", ".block([256])");
    let e = errors(|_, _, n| _ = block_sort([n, n]));
    assert_error(&e, line!() - 1, "`block_sort` needs a launch with threads", ".block([256])");
    let e = errors(|_, _, n| _ = warp().sum(n));
    assert_error(&e, line!() - 1, "`reduce` needs a launch with threads", ".block([256])");
    let e = errors(|_, _, _| _ = lane_group(12));
    assert_error(&e, line!() - 1, "a warp has no groups of 12 lanes", "1, 2, 4, 8, 16 or 32");
}

#[test]
fn reductions_are_of_tiles() {
    let e = errors(|_, _, n| _ = n.sum());
    assert_error(&e, line!() - 1, "`sum` reduces the elements of a tile, and this is a scalar", "a + b");
    let e = errors(|_, _, n| _ = n.reduce_max());
    assert_error(&e, line!() - 1, "`reduce_max` reduces the elements of a tile", "a.max(b)");
    let e = errors(|_, _, n| _ = n.argmin());
    assert_error(&e, line!() - 1, "`argmin` reduces the elements of a tile", "a.min(b)");
    let e = errors(|_, _, n| _ = n.gt(1).any());
    assert_error(&e, line!() - 1, "`any` reduces the elements of a tile", "vote_any");
}

#[test]
fn views_have_a_largest_rank() {
    let level = Level::Thread { block: [32, 1, 1] };
    let at_the_bound = trace("k", level, |p| {
        let x = p.view::<f32, 5>("x", Default::default());
        let y = p.view_mut::<f32, 5>("y", Default::default());
        let at = [0, 1, 2, 3, 4];
        let value =
            x.get(at) + x.get_or(at, 0.0) + x.row(0).row(1).get((2, 3, 4)) + x.at_axis(4, 1).get([0; 4]);
        // SAFETY: nothing runs.
        unsafe { y.write(at, value) };
        let s = shared::<f32, 5>([1, 2, 3, 4, 5]);
        device_print!("{} {} {}", s.get(at), x.extent(4), x.stride(4));
    });
    kiln_ir::verify(&at_the_bound.unwrap()).unwrap();

    let traced = trace("k", level, |p| {
        let x = p.view::<f32, 6>("x", Default::default());
        device_print!("{} {}", x.get([0; 6]), x.extent(5));
    });
    let e = traced.expect_err("rank 6 is refused").errors().to_vec();
    assert!(e[0].message.contains("parameter `x` is a view of rank 6: a view has at most 5 axes"), "{e:?}");
    let e = errors(|_, _, _| _ = shared::<f32, 7>([1; 7]));
    assert_error(&e, line!() - 1, "this memory is a view of rank 7: a view has at most 5 axes", "combine");
}

#[test]
fn messages_show_no_tiles() {
    let e = errors(|x, _, _| device_print!("{}", x.load([4, 4], 0.0)));
    assert_error(&e, line!() - 1, "this value is a tile of shape [4, 4]", "reduce_max()");
}
