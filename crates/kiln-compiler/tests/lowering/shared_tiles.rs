//! Tiles between registers and shared tiles: fragments where threads hold them, else what each
//! thread has.

use crate::harness::*;
use kiln_ir::{FragmentOp, Kernel, OpKind, Space, parse};

/// A product of 64 × 64 whose sums go to a shared tile as `stored` says, from a factor in
/// registers.
fn kernel(elem: &str, stored: &str) -> Kernel {
    let text = format!(
        "kernel @k(%a: view<bf16, 2, global>) tile {{
  %left = shared_tile stages 1 rows 64 columns 64 : view<bf16, 3, shared>
  %right = shared_tile stages 1 rows 64 columns 64 : view<bf16, 3, shared>
  %out = shared_tile stages 1 rows 64 columns 64 : view<{elem}, 3, shared>
  %0 = const 0 : i64
  tasks warps 4 registers 0 {{
    %no = const false : bool
    %zeros = const 0.0 : f32[64, 64]
    %words = shared_load %left, %0 : u32[64, 32]
    %flight = wgmma_registers %right, %0, %no, %words, %zeros transposed_b 0 : f32[64, 64]
    %sum = wgmma_wait %flight pending 0 : f32[64, 64]
{stored}
    yield
  }}
}}
"
    );
    lower(&parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")))
}

fn fragments(kernel: &Kernel, wanted: FragmentOp) -> usize {
    count(kernel, |kind| *kind == OpKind::Fragment(wanted))
}

#[test]
fn fragments_go_four_at_a_time() {
    let pairs = "    %p = pack_pairs %sum bf16 1 : u32[64, 32]\n    shared_store %p, %out, %0 column 0";
    let cast = "    %c = cast %sum : bf16[64, 64]\n    shared_store %c, %out, %0 column 0";
    for stored in [pairs, cast] {
        let lowered = kernel("bf16", stored);
        // 64 × 64 elements are 64 fragments, of which each of four warps has 16.
        assert_eq!(fragments(&lowered, FragmentOp::StMatrix { count: 4 }), 4, "{lowered}");
        let loads = FragmentOp::LdMatrix { count: 4, transposed: false };
        assert_eq!(fragments(&lowered, loads), 4, "{lowered}");
        assert_eq!(count(&lowered, |k| matches!(k, OpKind::PtrStore { space: Space::Shared, .. })), 0);
    }
}

#[test]
fn elements_of_other_sizes_are_stored_by_each_thread() {
    let lowered = kernel("f32", "    shared_store %sum, %out, %0 column 0");
    assert_eq!(count(&lowered, |k| matches!(k, OpKind::Fragment(FragmentOp::StMatrix { .. }))), 0);
    // 32 elements a thread, by pairs of columns.
    assert_eq!(
        count(&lowered, |k| matches!(k, OpKind::PtrStore { space: Space::Shared, lanes: 2, .. })),
        16,
        "{lowered}"
    );
}

/// Copies that may begin between multiples of 16 bytes are checked, and then begin at one.
#[test]
fn copies_are_checked_where_they_may_begin_between() {
    let lowered = |column: &str, copied: &str| {
        let text = format!(
            "kernel @k(%x: view<bf16, 2, global>, %n: i64) tile {{
  %tile = shared_tile stages 1 rows 8 columns 64 : view<bf16, 3, shared>
  %full = mbarrier count 1 arrivals 1 : view<u64, 1, shared>
  %0 = const 0 : i64
  %1 = program_id x : i64
  %2 = {column} : i64
  mbarrier_expect %full, %0 bytes 1024
  {copied}
  mbarrier_wait %full, %0, %0
}}
"
        );
        lower(&parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")))
    };
    let checks = |kernel: &Kernel| count(kernel, |kind| matches!(kind, OpKind::DeferFault { .. }));
    for copied in [
        "tma_load %x, %n, %2, %tile, %0, %0, %full, %0 rows 8 multicast 0",
        "tma_prefetch %x, %n, %2 rows 8 columns 64",
    ] {
        // Rows may be any.
        for (column, expected) in [("add %0, %0", 0), ("const 24", 0), ("const 20", 1), ("add %1, %n", 1)] {
            let kernel = lowered(column, copied);
            assert_eq!(checks(&kernel), expected, "{column}\n{kernel}");
            assert_eq!(
                kernel.to_string().contains("begins at element {} of a row"),
                expected > 0,
                "{kernel}"
            );
        }
    }
}

/// Rows are swizzled eight at a time, so that a stage of others would end between.
#[test]
fn tiles_of_other_rows_than_multiples_of_eight_are_refused() {
    for (rows, refused) in [(8, false), (12, true), (17, true), (24, false)] {
        let text = format!(
            "kernel @k() tile {{
  %tile = shared_tile stages 2 rows {rows} columns 32 : view<f32, 3, shared>
}}
"
        );
        let kernel = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let errors = kiln_ir::verify(&kernel).err().map(|errors| format!("{errors:?}")).unwrap_or_default();
        let expected = format!("a tile of {rows} rows, expected a multiple of 8");
        assert_eq!(errors.contains(&expected), refused, "{errors}");
    }
}
