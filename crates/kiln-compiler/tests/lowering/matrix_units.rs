//! Products of 16-bit floats and f64 on matrix units: fragments, stages in shared memory, chains of
//! products.

use crate::harness::*;
use kiln_compiler::{Target, explain_layouts, lower_to_threads};
use kiln_ir::{FragmentOp, Kernel, OpKind, Scalar};

/// How a factor lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Factor {
    Plain,
    /// Its transpose lies there.
    Transposed,
    /// Memory is contiguous along columns: the view is a transposed one.
    ColumnMajor,
}

pub struct Sizes {
    pub tile: [u32; 3],
    pub all: [u64; 3],
}

/// c = a b in tiles, with a loop over the depth.
pub fn product(tile: [u32; 3], elem: Scalar, factors: [Factor; 2]) -> String {
    let ([m, n, k], sum) = (tile, elem.accumulator());
    let factor = |i: usize, view: &str, [rows, columns]: [u32; 2], [row, column]: [&str; 2], id: u32| {
        match factors[i] {
            Factor::Transposed => format!(
                "    %{id} = load %{view}[{column}, {row}] pad %6 : {elem}[{columns}, {rows}]\n    %{} = transpose %{id} [1, 0] : {elem}[{rows}, {columns}]\n",
                id + 1
            ),
            _ => format!(
                "    %{} = load %{view}[{row}, {column}] pad %6 : {elem}[{rows}, {columns}]\n",
                id + 1
            ),
        }
    };
    format!(
        "kernel @mm(%a: view<{elem}, 2, global> {{$0}}, %b: view<{elem}, 2, global> {{$1}}, %c: mut view<{sum}, 2, global> {{$2}}) tile {{
  %0 = program_id x : i64
  %1 = const {m} : i64
  %2 = mul %0, %1 : i64
  %3 = const 0 : i64
  %4 = const {k} : i64
  %5 = extent %a axis {} : i64
  %6 = const 0.0 : {elem}
  %7 = const 0.0 : {sum}[{m}, {n}]
  %10 = for %8 = %3 to %5 step %4 carry (%9 = %7) : {sum}[{m}, {n}] {{
{}{}    %30 = dot %21, %26, %9 : {sum}[{m}, {n}]
    yield %30
  }}
  store.disjoint %c[%2, %3] = %10
}}
",
        u32::from(factors[0] != Factor::Transposed),
        factor(0, "a", [m, k], ["%2", "%8"], 20),
        factor(1, "b", [k, n], ["%8", "%3"], 25),
    )
}

pub fn case<'a>(text: &'a str, sizes: &Sizes, elem: Scalar, factors: [Factor; 2]) -> Case<'a> {
    let [rows, columns, depth] = sizes.all;
    let of = |factor: Factor, extents: [u64; 2]| match factor {
        Factor::Plain => buffer(elem, &extents, Fill::Random),
        Factor::Transposed => buffer(elem, &[extents[1], extents[0]], Fill::Random),
        Factor::ColumnMajor => Buffer { column_major: true, ..buffer(elem, &extents, Fill::Random) },
    };
    let buffers = vec![
        of(factors[0], [rows, depth]),
        of(factors[1], [depth, columns]),
        buffer(elem.accumulator(), &[rows, columns], Fill::Poison),
    ];
    let tolerance = if elem == Scalar::F64 { 1e-13 } else { 1e-4 };
    Case::new(text, rows.div_ceil(sizes.tile[0].into()) as u32, buffers).within(tolerance)
}

pub fn fragments(kernel: &Kernel, of: impl Fn(&FragmentOp) -> bool) -> usize {
    count(kernel, |kind| matches!(kind, OpKind::Fragment(op) if of(op)))
}

#[test]
fn products_of_every_shape_and_order_of_memory() {
    use Factor::*;
    let sizes = [
        Sizes { tile: [16, 8, 16], all: [16, 8, 48] },
        Sizes { tile: [16, 16, 16], all: [31, 16, 41] },
        Sizes { tile: [32, 64, 32], all: [63, 56, 72] },
        Sizes { tile: [64, 32, 16], all: [64, 29, 64] },
    ];
    for (i, sizes) in sizes.iter().enumerate() {
        for factors in [
            [Plain, Plain],
            [Plain, Transposed],
            [Transposed, Plain],
            [Transposed, Transposed],
            [ColumnMajor, ColumnMajor],
        ] {
            let elem = [Scalar::F16, Scalar::BF16][i % 2];
            let text = product(sizes.tile, elem, factors);
            case(&text, sizes, elem, factors).check_with(&[Some(1), Some(4), None], &[true]);
        }
    }
}

#[test]
fn products_of_f64_of_every_shape_and_order_of_memory() {
    use Factor::*;
    let sizes = [
        Sizes { tile: [16, 8, 8], all: [16, 8, 24] },
        Sizes { tile: [16, 16, 16], all: [31, 16, 41] },
        Sizes { tile: [64, 32, 16], all: [64, 29, 64] },
        Sizes { tile: [32, 64, 32], all: [63, 56, 72] },
    ];
    for sizes in &sizes {
        for factors in
            [[Plain, Plain], [Plain, Transposed], [Transposed, Plain], [Transposed; 2], [ColumnMajor; 2]]
        {
            let text = product(sizes.tile, Scalar::F64, factors);
            let case = case(&text, sizes, Scalar::F64, factors);
            let lowered = lower(&case.kernel(None, true));
            let of_f64 = |op: &FragmentOp| matches!(op, FragmentOp::Mma(factors) if factors.is_f64());
            assert!(fragments(&lowered, of_f64) > 0, "{lowered}");
            case.check_with(&[Some(1), Some(4), None], &[true, false]);
        }
    }
}

#[test]
fn nothing_is_known_of_the_views() {
    let sizes = Sizes { tile: [32, 32, 32], all: [40, 32, 64] };
    let text = product(sizes.tile, Scalar::BF16, [Factor::Plain; 2]);
    case(&text, &sizes, Scalar::BF16, [Factor::Plain; 2]).check_with(&[None], &[false]);
}

#[test]
fn a_loop_of_products_has_stages_and_one_barrier_a_round() {
    let sizes = Sizes { tile: [64, 64, 32], all: [64, 64, 128] };
    let text = product(sizes.tile, Scalar::BF16, [Factor::Plain; 2]);
    let kernel = case(&text, &sizes, Scalar::BF16, [Factor::Plain; 2]).kernel(None, true);
    let target = Target::cuda((8, 0), 160 << 10);
    let lowered = lower_to_threads(&kernel, &target).unwrap();
    // Four warps of 32 × 32: 2 × 4 fragments for each 16 of the depth.
    assert_eq!(fragments(&lowered, |op| matches!(op, FragmentOp::Mma(_))), 2 * 4 * 2, "{lowered}");
    // Each step of 16 reads 2 fragments of 16 × 16 of a and 4 of 16 × 8 of b, two of these at a
    // time.
    assert_eq!(fragments(&lowered, |op| matches!(op, FragmentOp::LdMatrix { .. })), 2 * (2 + 2), "{lowered}");
    // Around the loop one each, and one within.
    assert_eq!(count(&lowered, |k| *k == OpKind::Barrier), 3, "{lowered}");
    assert_eq!(count(&lowered, |k| matches!(k, OpKind::PtrLoad { .. })), 0, "{lowered}");
    let report = explain_layouts(&kernel, &target).unwrap();
    assert!(report.contains("loads of a loop: 4 stages of 8192 bytes"), "{report}");
    assert!(report.contains("dot f32[64, 64] on matrix units: 2 x 2 warps"), "{report}");
}

#[test]
fn a_launch_chooses_the_stages() {
    let sizes = Sizes { tile: [64, 64, 32], all: [64, 64, 200] };
    let text = product(sizes.tile, Scalar::BF16, [Factor::Plain; 2]);
    let target = Target::cuda((8, 0), 160 << 10);
    let report = |stages: &str| {
        let text = text.replace(" tile {", &format!(" tile {stages} {{"));
        let case = case(&text, &sizes, Scalar::BF16, [Factor::Plain; 2]);
        let report = explain_layouts(&case.kernel(None, true), &target).unwrap();
        case.check_with(&[Some(4)], &[true]);
        report
    };
    for stages in [2, 3, 6] {
        let report = report(&format!("stages {stages}"));
        assert!(report.contains(&format!("loads of a loop: {stages} stages of 8192 bytes")), "{report}");
    }
    assert!(!report("stages 1").contains("loads of a loop"));
    // As many as there is room for.
    let most = report("stages 16");
    assert!(most.contains("loads of a loop: 16 stages of 8192 bytes"), "{most}");
}

#[test]
fn older_targets_and_other_types_have_no_fragments() {
    let sizes = Sizes { tile: [64, 64, 32], all: [64, 64, 128] };
    let of = |elem: Scalar, capability| {
        let text = product(sizes.tile, elem, [Factor::Plain; 2]);
        let kernel = case(&text, &sizes, elem, [Factor::Plain; 2]).kernel(None, true);
        let lowered = lower_to_threads(&kernel, &Target::cuda(capability, 96 << 10)).unwrap();
        fragments(&lowered, |_| true)
    };
    assert!(of(Scalar::BF16, (8, 0)) > 0);
    assert_eq!(of(Scalar::BF16, (7, 5)), 0);
    assert_eq!(of(Scalar::F32, (9, 0)), 0);
}

/// Without a loop: two products of the same factors, and one of the transposes.
#[test]
fn products_without_a_loop() {
    let text = "
kernel @k(%a: view<f16, 2, global> {$0}, %b: view<f16, 2, global> {$1}, %c: mut view<f32, 2, global> {$2}, %d: mut view<f32, 2, global> {$3}) tile {
  %0 = const 0 : i64
  %1 = const 1.0 : f16
  %2 = load %a[%0, %0] pad %1 : f16[16, 32]
  %3 = load %b[%0, %0] pad %1 : f16[32, 16]
  %4 = const 0.5 : f32[16, 16]
  %5 = dot %2, %3, %4 : f32[16, 16]
  %6 = dot %2, %3, %5 : f32[16, 16]
  store.disjoint %c[%0, %0] = %6
  %7 = transpose %3 [1, 0] : f16[16, 32]
  %8 = transpose %2 [1, 0] : f16[32, 16]
  %9 = dot %7, %8, %4 : f32[16, 16]
  %10 = add %9, %6 : f32[16, 16]
  store.disjoint %d[%0, %0] = %10
}
";
    for columns in [16, 13] {
        let buffers = vec![
            buffer(Scalar::F16, &[11, 29], Fill::Random),
            buffer(Scalar::F16, &[29, columns], Fill::Random),
            buffer(Scalar::F32, &[11, columns], Fill::Poison),
            buffer(Scalar::F32, &[16, 16], Fill::Poison),
        ];
        Case::new(text, 1, buffers).within(1e-4).check();
    }
}

/// Attention with weights rounded to 16 bits; heads are the first axis.
pub fn attention([queries, keys, width]: [u32; 3], elem: Scalar) -> String {
    format!(
        "
kernel @attend(%q: view<{elem}, 3, global> {{$0}}, %k: view<{elem}, 3, global> {{$1}}, %v: view<{elem}, 3, global> {{$2}}, %o: mut view<{elem}, 3, global> {{$3}}) tile {{
  %0 = program_id x : i64
  %1 = const {queries} : i64
  %2 = mul %0, %1 : i64
  %3 = const 0 : i64
  %4 = const 0.0 : {elem}
  %50 = program_id y : i64
  %51 = const {keys} : i64
  %5 = load %q[%50, %2, %3] pad %4 : {elem}[1, {queries}, {width}]
  %52 = reshape %5 : {elem}[{queries}, {width}]
  %6 = extent %k axis 1 : i64
  %7 = const -1e30 : f32[{queries}]
  %8 = const 0.0 : f32[{queries}]
  %9 = const 0.0 : f32[{queries}, {width}]
  %10 = const 0.0 : f32[{queries}, {keys}]
  %15, %16, %17 = for %11 = %3 to %6 step %51 carry (%12 = %7, %13 = %8, %14 = %9) : f32[{queries}], f32[{queries}], f32[{queries}, {width}] {{
    %18 = load %k[%50, %11, %3] pad %4 : {elem}[1, {keys}, {width}]
    %53 = reshape %18 : {elem}[{keys}, {width}]
    %19 = transpose %53 [1, 0] : {elem}[{width}, {keys}]
    %20 = dot %52, %19, %10 : f32[{queries}, {keys}]
    %21 = iota : i64[{keys}]
    %22 = broadcast %11 : i64[{keys}]
    %23 = add %21, %22 : i64[{keys}]
    %24 = broadcast %6 : i64[{keys}]
    %25 = lt %23, %24 : bool[{keys}]
    %26 = reshape %25 : bool[1, {keys}]
    %27 = broadcast %26 : bool[{queries}, {keys}]
    %28 = const -1e30 : f32[{queries}, {keys}]
    %29 = select %27, %20, %28 : f32[{queries}, {keys}]
    %30 = reduce.max %29 axis 1 : f32[{queries}]
    %31 = max %12, %30 : f32[{queries}]
    %32 = sub %12, %31 : f32[{queries}]
    %33 = exp %32 : f32[{queries}]
    %34 = reshape %31 : f32[{queries}, 1]
    %35 = broadcast %34 : f32[{queries}, {keys}]
    %36 = sub %29, %35 : f32[{queries}, {keys}]
    %37 = exp %36 : f32[{queries}, {keys}]
    %38 = reduce.sum %37 axis 1 : f32[{queries}]
    %39 = fma %13, %33, %38 : f32[{queries}]
    %40 = reshape %33 : f32[{queries}, 1]
    %41 = broadcast %40 : f32[{queries}, {width}]
    %42 = mul %14, %41 : f32[{queries}, {width}]
    %43 = load %v[%50, %11, %3] pad %4 : {elem}[1, {keys}, {width}]
    %54 = reshape %43 : {elem}[{keys}, {width}]
    %55 = cast %37 : {elem}[{queries}, {keys}]
    %44 = dot %55, %54, %42 : f32[{queries}, {width}]
    yield %31, %39, %44
  }}
  %45 = reshape %16 : f32[{queries}, 1]
  %46 = broadcast %45 : f32[{queries}, {width}]
  %47 = div %17, %46 : f32[{queries}, {width}]
  %48 = cast %47 : {elem}[{queries}, {width}]
  %49 = reshape %48 : {elem}[1, {queries}, {width}]
  store.disjoint %o[%50, %2, %3] = %49
}}
"
    )
}

pub fn attention_case(text: &str, rows: u64, keys: u64, width: u64, elem: Scalar) -> Case<'_> {
    let input = |rows| buffer(elem, &[2, rows, width], Fill::Random);
    let buffers = vec![input(rows), input(keys), input(keys), buffer(elem, &[2, rows, width], Fill::Poison)];
    Case { grid: [2, 2, 1], ..Case::new(text, 1, buffers).within(2e-2) }
}

#[test]
fn attention_keeps_weights_in_registers() {
    for (elem, width) in [(Scalar::BF16, 16), (Scalar::F16, 32)] {
        let text = attention([32, 16, width], elem);
        let case = attention_case(&text, 64, 75, width.into(), elem);
        case.check_with(&[Some(1), Some(2), Some(4)], &[true]);
        let lowered = lower(&case.kernel(Some(2), true));
        // Queries pass through scratch memory once; within the loop, only copies and fragments of
        // keys and values touch shared memory.
        let stores = |kernel: &Kernel| {
            let mut stores = 0;
            kernel.walk(|_, data| {
                if data.kind == OpKind::For {
                    for &op in &kernel.block(data.regions[0]).ops {
                        stores += usize::from(matches!(kernel.op(op).kind, OpKind::PtrStore { .. }));
                    }
                }
            });
            stores
        };
        assert_eq!(stores(&lowered), 0, "{lowered}");
    }
}
