//! Loops of products with a task that copies: the interpreter runs what they become, checks the
//! order of copies and products, and the results are the same to the bit.

use crate::harness::*;
use crate::matrix_units::{Factor, Sizes, attention, attention_case, case, product};
use kiln_compiler::{Target, lower_to_threads, optimize, warp_specialize};
use kiln_ir::{ExplicitOp, Kernel, OpKind, Scalar, Task, verify};

/// All that a runtime would know of a buffer, extents and strides that fit 32 bits among it.
fn facts(buffer: &Buffer) -> String {
    let fact = |n: &u64| match n {
        1 => "i32|=1".to_owned(),
        n => format!("{}|i32", 1u64 << (n | 16).trailing_zeros()).replace("1|i32", "i32"),
    };
    let fact = |n: &u64| if *n % 2 == 1 && *n != 1 { "i32".to_owned() } else { fact(n) };
    let list = |all: &[u64], unit: bool| {
        let known = |n: &u64| if *n == 1 && !unit { "i32".to_owned() } else { fact(n) };
        all.iter().map(known).collect::<Vec<_>>().join(", ")
    };
    let (extents, strides) = (list(&buffer.extents, false), list(&buffer.strides(), true));
    format!("align=256, extents=[{extents}], strides=[{strides}]")
}

/// A text with these facts of a case's buffers.
fn known(text: &str, buffers: &[Buffer]) -> String {
    let one = |text: String, (i, buffer): (usize, &Buffer)| text.replace(&format!("${i}"), &facts(buffer));
    buffers.iter().enumerate().fold(text.to_owned(), one)
}

/// What a case's kernel becomes, verified, and lowered.
fn tasks(case: &Case<'_>, warps: u32) -> (Kernel, Kernel) {
    let mut kernel = case.kernel(Some(warps), true);
    optimize(&mut kernel).unwrap();
    let mut tasks = warp_specialize(&kernel, &target()).unwrap_or_else(|e| panic!("{e:?}\n{kernel}"));
    verify(&tasks).unwrap_or_else(|e| panic!("{e:?}\n{tasks}"));
    optimize(&mut tasks).unwrap();
    lower(&tasks);
    (kernel, tasks)
}

/// Checks that a case's kernel and what it becomes leave the same bytes.
fn check(case: &Case<'_>, warps: u32) -> Kernel {
    let (kernel, tasks) = tasks(case, warps);
    let expected = case.run(&kernel).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
    let got = case.run(&tasks).unwrap_or_else(|e| panic!("{e}\n{tasks}"));
    assert!(expected == got, "{kernel}\n{tasks}");
    tasks
}

fn copies(kernel: &Kernel, transposed: bool) -> usize {
    let of = |kind: &OpKind| matches!(kind, OpKind::Explicit(ExplicitOp::TmaLoad { transposed: t, .. }) if *t == transposed);
    count(kernel, of)
}

fn leaves(kernel: &Kernel) -> usize {
    count(kernel, |kind| matches!(kind, OpKind::Explicit(ExplicitOp::TmaStore)))
}

#[test]
fn products_of_every_order_of_memory() {
    use Factor::*;
    for (i, tile) in [[128, 128, 64], [64, 256, 64]].into_iter().enumerate() {
        for factors in [
            [Plain, Plain],
            [Transposed, Plain],
            [Plain, Transposed],
            [ColumnMajor, Plain],
            [Plain, ColumnMajor],
            [ColumnMajor, ColumnMajor],
        ] {
            // Boxes reach over every edge, and stages are used again.
            let sizes = Sizes { tile, all: [136, u64::from(tile[1]) - 8, 5 * u64::from(tile[2]) + 24] };
            let elem = [Scalar::F16, Scalar::BF16][i % 2];
            let text = product(tile, elem, factors);
            let buffers = case(&text, &sizes, elem, factors).buffers;
            let text = known(&text, &buffers);
            let tasks = check(&case(&text, &sizes, elem, factors), 4);
            let transposed = factors.iter().filter(|f| **f == ColumnMajor).count();
            assert_eq!(
                (copies(&tasks, true), copies(&tasks, false)),
                (transposed, 2 - transposed),
                "{tasks}"
            );
            assert!(leaves(&tasks) > 0, "{tasks}");
        }
    }
}

#[test]
fn loops_of_no_round_and_of_few() {
    let (tile, factors) = ([128, 128, 64], [Factor::Plain; 2]);
    for depth in [0, 8, 64, 128, 192, 256] {
        let sizes = Sizes { tile, all: [128, 128, depth] };
        let text = product(tile, Scalar::BF16, factors);
        let text = known(&text, &case(&text, &sizes, Scalar::BF16, factors).buffers);
        check(&case(&text, &sizes, Scalar::BF16, factors), 8);
    }
}

#[test]
fn results_that_copies_cannot_store_are_stored_by_threads() {
    let (tile, factors) = ([128, 128, 64], [Factor::Plain; 2]);
    let sizes = Sizes { tile, all: [70, 56, 136] };
    let text = product(tile, Scalar::BF16, factors);
    let mut buffers = case(&text, &sizes, Scalar::BF16, factors).buffers;
    buffers[2].pitch = Some(57);
    let text = known(&text, &buffers);
    let case = Case { buffers, ..case(&text, &sizes, Scalar::BF16, factors) };
    assert_eq!(leaves(&check(&case, 4)), 0);
}

/// Boxes that begin before a view are none that copies store.
#[test]
fn results_that_begin_outside_are_stored_by_threads() {
    let (tile, factors) = ([128, 128, 64], [Factor::Plain; 2]);
    let sizes = Sizes { tile, all: [128, 128, 128] };
    for (less, left) in [(0, 4), (3, 0)] {
        let text = product(tile, Scalar::BF16, factors).replace(
            "  store.disjoint %c[%2, %3]",
            &format!("  %80 = const {less} : i64\n  %81 = sub %2, %80 : i64\n  store.disjoint %c[%81, %3]"),
        );
        let text = known(&text, &case(&text, &sizes, Scalar::BF16, factors).buffers);
        assert_eq!(leaves(&check(&case(&text, &sizes, Scalar::BF16, factors), 4)), left, "{less}");
    }
}

/// Boxes behind the end of rows that are no multiple of 16 bytes, though they lie such apart.
#[test]
fn boxes_behind_the_end_of_a_row_begin_where_copies_may() {
    let (tile, factors) = ([128, 128, 64], [Factor::Plain; 2]);
    let sizes = Sizes { tile, all: [128, 128, 65] };
    let text = product(tile, Scalar::BF16, factors)
        .replace("    %21 = load %a[%2, %8]", "    %80 = add %8, %4 : i64\n    %21 = load %a[%2, %80]");
    let mut buffers = case(&text, &sizes, Scalar::BF16, factors).buffers;
    buffers[0].pitch = Some(72);
    let text = known(&text, &buffers);
    let case = Case { buffers, ..case(&text, &sizes, Scalar::BF16, factors) };
    assert_eq!(copies(&check(&case, 4), false), 2);
}

/// Places that depend on what the loop carries, and on more than 32 bits.
#[test]
fn places_are_those_of_the_loads() {
    let (tile, factors) = ([128, 128, 64], [Factor::Plain; 2]);
    let sizes = Sizes { tile, all: [128, 128, 256] };
    let text = product(tile, Scalar::BF16, factors)
        .replace("carry (%9 = %7) : f32[128, 128]", "carry (%9 = %7, %60 = %3) : f32[128, 128], i64")
        .replace("%10 = for", "%10, %61 = for")
        .replace("load %a[%2, %8]", "load %a[%2, %60]")
        .replace("yield %30", "%62 = add %60, %4 : i64\n    %63 = const 8589934592 : i64\n    %64 = const 64 : i64\n    %65 = eq %8, %64 : bool\n    %66 = select %65, %63, %62 : i64\n    yield %30, %66");
    let text = known(&text, &case(&text, &sizes, Scalar::BF16, factors).buffers);
    let tasks = check(&case(&text, &sizes, Scalar::BF16, factors), 4);
    assert_eq!(copies(&tasks, false), 2);
}

#[test]
fn attention_with_queries_that_stay_and_weights_in_registers() {
    for (elem, [queries, keys, width], warps) in
        [(Scalar::BF16, [64, 64, 64], 4), (Scalar::F16, [128, 64, 64], 8), (Scalar::BF16, [64, 64, 128], 4)]
    {
        let text = attention([queries, keys, width], elem);
        let text =
            known(&text, &attention_case(&text, u64::from(queries) + 6, 330, width.into(), elem).buffers);
        let case = attention_case(&text, u64::from(queries) + 6, 330, width.into(), elem);
        let tasks = check(&case, warps);
        let registers = |kind: &OpKind| matches!(kind, OpKind::Explicit(ExplicitOp::WgmmaRegisters { .. }));
        assert_eq!((copies(&tasks, false), count(&tasks, registers)), (3, 1), "{tasks}");
    }
}

#[test]
fn one_warp_copies() {
    let sizes = Sizes { tile: [128, 256, 64], all: [128, 256, 256] };
    let text = product(sizes.tile, Scalar::BF16, [Factor::Plain; 2]);
    let text = known(&text, &case(&text, &sizes, Scalar::BF16, [Factor::Plain; 2]).buffers);
    let (_, tasks) = tasks(&case(&text, &sizes, Scalar::BF16, [Factor::Plain; 2]), 8);
    let mut found = Vec::new();
    tasks.walk(|_, data| {
        if let OpKind::Explicit(ExplicitOp::Tasks(tasks)) = &data.kind {
            found.extend_from_slice(tasks);
        }
    });
    let task = |warps| Task { copies: 1, warps, registers: 0 };
    assert_eq!(found, [task(1), task(8)]);
}

#[test]
fn kernels_that_may_fault_are_taken_too() {
    let sizes = Sizes { tile: [128, 128, 64], all: [128, 128, 256] };
    let text = product(sizes.tile, Scalar::BF16, [Factor::Plain; 2]);
    let checked =
        "    %70 = lt %8, %5 : bool\n    assert %70, \"within\"\n    %71 = div %8, %5 : i64\n    yield";
    let text = text.replace("    yield", checked);
    let text = known(&text, &case(&text, &sizes, Scalar::BF16, [Factor::Plain; 2]).buffers);
    check(&case(&text, &sizes, Scalar::BF16, [Factor::Plain; 2]), 4);
}

#[test]
fn others_are_left_alone_and_the_reason_is_told() {
    let reason = |change: &dyn Fn(String) -> String, sure: bool, target: &Target| {
        let (tile, factors) = ([128, 128, 64], [Factor::Plain; 2]);
        let sizes = Sizes { tile, all: [128, 128, 128] };
        let text = change(product(tile, Scalar::BF16, factors));
        let text =
            if sure { known(&text, &case(&text, &sizes, Scalar::BF16, factors).buffers) } else { text };
        let kernel = case(&text, &sizes, Scalar::BF16, factors).kernel(Some(4), sure);
        lower_to_threads(&kernel, target).unwrap();
        warp_specialize(&kernel, target).map(|k| k.to_string()).unwrap_err().reason
    };
    let same = |text: String| text;
    let hopper = target();
    assert!(reason(&same, false, &hopper).contains("address"));
    assert!(reason(&same, true, &Target::cuda((10, 0), 227 << 10)).contains("bulk tensor copies"));
    assert!(reason(&same, true, &Target { tasks: false, ..hopper.clone() }).contains("bulk tensor copies"));
    let writes = |text: String| text.replace("%a: view", "%a: mut view");
    assert!(reason(&writes, true, &hopper).contains("writes"));
    let pads = |text: String| text.replace("%6 = const 0.0 : bf16", "%6 = const 1.0 : bf16");
    assert!(reason(&pads, true, &hopper).contains("pads"));
    let between = |text: String| {
        text.replace(
            "    %21 = load %a[%2, %8]",
            "    %80 = const 4 : i64\n    %81 = add %8, %80 : i64\n    %21 = load %a[%2, %81]",
        )
    };
    assert!(reason(&between, true, &hopper).contains("16 bytes of a row"));
    let prints = |text: String| text.replace("    yield", "    print \"{}\", %8\n    yield");
    assert!(reason(&prints, true, &hopper).contains("print"));
    let looked_at = |text: String| {
        text.replace("    yield", "    %70 = cast %21 : f32[128, 64]\n    store %c[%2, %8] = %70\n    yield")
    };
    assert!(reason(&looked_at, true, &hopper).contains("not only multiplied"));
    let small = |text: String| text.replace("128, 128]", "128, 64]").replace("64, 128]", "64, 64]");
    assert!(reason(&small, true, &hopper).contains("too small"));
    let sums = |text: String| text.replace("128, 128]", "128, 256]").replace("64, 128]", "64, 256]");
    assert!(reason(&sums, true, &hopper).contains("256 sums a thread"));
}
