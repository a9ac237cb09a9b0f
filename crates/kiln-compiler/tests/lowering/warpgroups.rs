//! Products of warpgroups on compute capability 9.0: which they are, when they are waited for, and
//! what is fenced before them.

use crate::harness::*;
use crate::matrix_units::{Factor, Sizes, attention, attention_case, case, fragments, product};
use kiln_compiler::{Target, explain_layouts, lower_to_threads};
use kiln_ir::{Block, FragmentOp, Kernel, Op, OpKind, Scalar};

fn is_product(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Fragment(FragmentOp::WarpgroupMma(_)))
}

/// The waits of a kernel, for how many each, in order.
fn waits(kernel: &Kernel) -> Vec<u32> {
    let mut pending = Vec::new();
    kernel.walk(|_, data| {
        if let OpKind::Fragment(FragmentOp::WarpgroupWait { pending: n }) = data.kind {
            pending.push(n);
        }
    });
    pending
}

/// The block in which the first product stands.
fn block_of_product(kernel: &Kernel, block: Block) -> Option<Block> {
    let ops = &kernel.block(block).ops;
    if ops.iter().any(|&op| is_product(&kernel.op(op).kind)) {
        return Some(block);
    }
    ops.iter().flat_map(|&op| &kernel.op(op).regions).find_map(|&region| block_of_product(kernel, region))
}

/// Where operations stand in the block of the first product.
fn places(kernel: &Kernel, of: impl Fn(&OpKind) -> bool) -> Vec<usize> {
    let block = block_of_product(kernel, kernel.body).unwrap_or_else(|| panic!("no product in {kernel}"));
    let ops: &[Op] = &kernel.block(block).ops;
    ops.iter().enumerate().filter(|(_, op)| of(&kernel.op(**op).kind)).map(|(i, _)| i).collect()
}

#[test]
fn products_of_every_shape_and_order_of_memory() {
    use Factor::*;
    let sizes = [
        Sizes { tile: [64, 16, 16], all: [64, 16, 48] },
        Sizes { tile: [64, 64, 32], all: [70, 56, 72] },
        Sizes { tile: [128, 32, 64], all: [133, 29, 140] },
        Sizes { tile: [64, 128, 128], all: [64, 120, 264] },
    ];
    for (i, sizes) in sizes.iter().enumerate() {
        for factors in [[Plain, Plain], [Plain, Transposed], [Transposed, Plain], [ColumnMajor, ColumnMajor]]
        {
            let elem = [Scalar::F16, Scalar::BF16][i % 2];
            let text = product(sizes.tile, elem, factors);
            let case = case(&text, sizes, elem, factors);
            assert_eq!(count(&lower(&case.kernel(Some(4), true)), is_product), 1);
            case.check_with(&[Some(4), Some(8)], &[true]);
        }
    }
}

#[test]
fn a_product_of_stages_is_under_way_in_the_next_round() {
    let sizes = Sizes { tile: [128, 64, 32], all: [128, 64, 128] };
    let text = product(sizes.tile, Scalar::BF16, [Factor::Plain; 2]);
    let kernel = case(&text, &sizes, Scalar::BF16, [Factor::Plain; 2]).kernel(Some(8), true);
    let lowered = lower(&kernel);
    assert_eq!(count(&lowered, is_product), 1);
    assert_eq!(fragments(&lowered, |op| matches!(op, FragmentOp::LdMatrix { .. } | FragmentOp::Mma(_))), 0);
    // In a round that of the round before, behind the loop that of the last.
    assert_eq!(waits(&lowered), [1, 0], "{lowered}");
    let fence = |kind: &OpKind| *kind == OpKind::Fragment(FragmentOp::AsyncProxyFence);
    let (fences, barriers, products) =
        (places(&lowered, fence), places(&lowered, |k| *k == OpKind::Barrier), places(&lowered, is_product));
    assert!(fences.len() == 1 && barriers.len() == 1, "{lowered}");
    assert!(fences[0] < barriers[0] && barriers[0] < products[0], "{lowered}");
    let report = explain_layouts(&kernel, &target()).unwrap();
    let expected = "dot f32[128, 64] on matrix units: warpgroups, under way in the next round";
    assert!(report.contains(expected), "{report}");
}

#[test]
fn sums_that_the_round_looks_at_are_waited_for_in_it() {
    let sizes = Sizes { tile: [64, 32, 32], all: [64, 32, 128] };
    let text = product(sizes.tile, Scalar::BF16, [Factor::Plain; 2])
        .replace("yield %30", "%31 = add %30, %30 : f32[64, 32]\n    yield %31");
    let case = case(&text, &sizes, Scalar::BF16, [Factor::Plain; 2]);
    assert_eq!(waits(&lower(&case.kernel(Some(4), true))), [0]);
    case.check_with(&[Some(4)], &[true]);
}

#[test]
fn others_multiply_by_warps() {
    let of = |tile: [u32; 3], warps, target: &Target| {
        let sizes = Sizes { tile, all: [128, 64, 64] };
        let text = product(tile, Scalar::BF16, [Factor::Plain; 2]);
        let kernel = case(&text, &sizes, Scalar::BF16, [Factor::Plain; 2]).kernel(Some(warps), true);
        count(&lower_to_threads(&kernel, target).unwrap(), is_product)
    };
    let hopper = Target::cuda((9, 0), 227 << 10);
    assert_eq!(of([64, 64, 32], 4, &hopper), 1);
    for (tile, warps) in [([64, 64, 32], 8), ([64, 64, 32], 2), ([32, 64, 32], 4), ([64, 8, 32], 4)] {
        assert_eq!(of(tile, warps, &hopper), 0, "{tile:?}, {warps} warps");
    }
    assert_eq!(of([64, 64, 32], 4, &Target { warpgroups: false, ..hopper }), 0);
    for capability in [(8, 0), (8, 9), (10, 0), (12, 0)] {
        assert_eq!(of([64, 64, 32], 4, &Target::cuda(capability, 96 << 10)), 0);
    }
}

/// Threads write what warpgroups read: behind the writes stands a fence, behind it a barrier.
#[test]
fn factors_that_threads_write_are_fenced() {
    let text = "
kernel @k(%a: view<f16, 2, global> {$0}, %b: view<f16, 2, global> {$1}, %c: mut view<f32, 2, global> {$2}) tile {
  %0 = const 0 : i64
  %1 = const 1.0 : f16
  %2 = load %a[%0, %0] pad %1 : f16[64, 32]
  %3 = load %b[%0, %0] pad %1 : f16[32, 16]
  %4 = const 0.5 : f32[64, 16]
  %5 = dot %2, %3, %4 : f32[64, 16]
  %6 = dot %2, %3, %5 : f32[64, 16]
  store.disjoint %c[%0, %0] = %6
}
";
    let buffers = vec![
        buffer(Scalar::F16, &[61, 29], Fill::Random),
        buffer(Scalar::F16, &[29, 13], Fill::Random),
        buffer(Scalar::F32, &[61, 13], Fill::Poison),
    ];
    let case = Case::new(text, 1, buffers).within(1e-4);
    case.check_with(&[Some(4)], &[true]);
    let lowered = lower(&case.kernel(Some(4), true));
    let products = places(&lowered, is_product);
    let stores = places(&lowered, |k| matches!(k, OpKind::PtrStore { space: kiln_ir::Space::Shared, .. }));
    let fences = places(&lowered, |k| *k == OpKind::Fragment(FragmentOp::AsyncProxyFence));
    let barriers = places(&lowered, |k| *k == OpKind::Barrier);
    assert_eq!(products.len(), 2);
    for &product in &products {
        let before = |of: &[usize]| of.iter().rev().find(|&&at| at < product).copied();
        let (store, fence, barrier) = (before(&stores), before(&fences), before(&barriers));
        assert!(store.is_some() && store < fence && fence < barrier, "{lowered}");
    }
}

#[test]
fn attention_keeps_weights_in_registers() {
    for (elem, [queries, keys, width]) in [(Scalar::BF16, [64, 32, 16]), (Scalar::F16, [128, 16, 32])] {
        let text = attention([queries, keys, width], elem);
        let case = attention_case(&text, u64::from(queries) + 6, 75, width.into(), elem);
        let lowered = lower(&case.kernel(Some(4), true));
        assert_eq!(count(&lowered, is_product), 2, "{lowered}");
        let kept = |op: &FragmentOp| matches!(op, FragmentOp::WarpgroupMma(p) if p.left.is_none() && p.keep);
        let fresh =
            |op: &FragmentOp| matches!(op, FragmentOp::WarpgroupMma(p) if p.left.is_some() && !p.keep);
        assert_eq!((fragments(&lowered, kept), fragments(&lowered, fresh)), (1, 1), "{lowered}");
        case.check_with(&[Some(4)], &[true]);
    }
}
