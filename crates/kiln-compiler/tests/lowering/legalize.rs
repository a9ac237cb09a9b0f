//! Products of tiles that are divided into parts: each part has its matrix unit, its stages, and
//! its sums under way.

use crate::harness::*;
use crate::matrix_units::{Factor, Sizes, attention, attention_case, case, fragments, product};
use kiln_compiler::{Target, explain_layouts, lower_to_threads};
use kiln_ir::{FragmentOp, Kernel, Scalar};

fn kernel(tile: [u32; 3], warps: Option<u32>) -> Kernel {
    let sizes = Sizes { tile, all: [tile[0].into(), tile[1].into(), 256] };
    let text = product(tile, Scalar::BF16, [Factor::Plain; 2]);
    case(&text, &sizes, Scalar::BF16, [Factor::Plain; 2]).kernel(warps, true)
}

#[test]
fn products_of_parts() {
    use Factor::*;
    let sizes = [
        Sizes { tile: [48, 24, 48], all: [60, 24, 100] },
        Sizes { tile: [96, 48, 32], all: [100, 40, 72] },
        Sizes { tile: [64, 80, 16], all: [64, 80, 48] },
        Sizes { tile: [20, 12, 40], all: [33, 11, 80] },
    ];
    for (i, sizes) in sizes.iter().enumerate() {
        for factors in [[Plain, Plain], [Transposed, Plain], [ColumnMajor, Transposed]] {
            let elem = [Scalar::F16, Scalar::BF16][i % 2];
            let text = product(sizes.tile, elem, factors);
            case(&text, sizes, elem, factors).check_with(&[Some(1), Some(4), None], &[true]);
        }
    }
}

#[test]
fn parts_of_a_large_product_are_under_way_side_by_side() {
    let kernel = kernel([128, 192, 64], None);
    let report = explain_layouts(&kernel, &target()).unwrap();
    assert!(report.starts_with("8 warps\n"), "{report}");
    for columns in [128, 64] {
        let line =
            format!("dot f32[128, {columns}] on matrix units: warpgroups, under way in the next round");
        assert!(report.contains(&line), "{report}");
    }
    assert!(report.contains("loads of a loop: 4 stages of 40960 bytes"), "{report}");
    let lowered = lower(&kernel);
    let products = fragments(&lowered, |op| matches!(op, FragmentOp::WarpgroupMma(_)));
    assert_eq!(products, 2, "{lowered}");
    let older = Target::cuda((8, 0), 163 << 10);
    let report = explain_layouts(&kernel, &older).unwrap();
    assert_eq!(report.matches(" on matrix units: ").count(), 2, "{report}");
    // 128 x 192 x 64 are 768 products of 16 x 8 x 16, which 8 warps share.
    let lowered = lower_to_threads(&kernel, &older).unwrap();
    assert_eq!(fragments(&lowered, |op| matches!(op, FragmentOp::Mma(_))), 768 / 8, "{lowered}");
}

#[test]
fn parts_of_rows_are_multiplied_by_whom_they_suit() {
    let report = explain_layouts(&kernel([96, 96, 32], Some(4)), &target()).unwrap();
    for (shape, by) in [
        ("[64, 64]", "warpgroups"),
        ("[64, 32]", "warpgroups"),
        ("[32, 64]", "2 x 2 warps"),
        ("[32, 32]", "2 x 2 warps"),
    ] {
        assert!(report.contains(&format!("dot f32{shape} on matrix units: {by}")), "{report}");
    }
}

/// The maximum and the sum of a row are carried where its scores are, of whatever part.
#[test]
fn attention_over_odd_numbers_of_keys() {
    for (elem, keys) in [(Scalar::BF16, 48), (Scalar::F16, 80)] {
        let text = attention([64, keys, 16], elem);
        let case = attention_case(&text, 128, 175, 16, elem);
        case.check_with(&[Some(4)], &[true]);
        let report = explain_layouts(&case.kernel(Some(4), true), &target()).unwrap();
        assert_eq!(report.matches("on matrix units").count(), 4, "{report}");
        assert!(!report.contains("after reducing: through"), "{report}");
        assert!(!report.contains("factor: through scratch"), "{report}");
    }
}
