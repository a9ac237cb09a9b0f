//! Products of 8-bit numbers and tf32: which units multiply them on which GPUs, how factors come to
//! lie along the depth, and when sums have two levels.

use crate::harness::*;
use kiln_compiler::{Target, explain_layouts, lower_to_threads};
use kiln_ir::{Factors, FragmentOp, Kernel, OpKind, Scalar};

/// A loop of products `dot` of tiles `[m, n, k]`, a by rows and b by rows or, if `columns`, as the
/// transpose of tiles of a matrix by columns.
fn kernel(dot: &str, [left, right]: [Scalar; 2], [m, n, k]: [u32; 3], columns: bool) -> Kernel {
    let sum = left.accumulator();
    let zero = |elem: Scalar| if elem.is_float() { "0.0" } else { "0" };
    let facts = "{align=16, extents=[16, 16], strides=[16, =1]}";
    let (b, to_b) = match columns {
        true => (
            format!("%c[%0, %4] pad %2 : {right}[{n}, {k}]"),
            format!("transpose %7 [1, 0] : {right}[{k}, {n}]"),
        ),
        false => {
            (format!("%c[%4, %0] pad %2 : {right}[{k}, {n}]"), format!("reshape %7 : {right}[{k}, {n}]"))
        }
    };
    let text = format!(
        "kernel @k(%a: view<{left}, 2, global> {facts}, %c: view<{right}, 2, global> {facts}, %y: mut view<{sum}, 2, global> {facts}) tile warps 4 {{
  %0 = const 0 : i64
  %1 = const {} : {left}
  %2 = const {} : {right}
  %3 = const {} : {sum}[{m}, {n}]
  %10 = extent %a axis 1 : i64
  %11 = const {k} : i64
  %12 = for %4 = %0 to %10 step %11 carry (%5 = %3) : {sum}[{m}, {n}] {{
    %6 = load %a[%0, %4] pad %1 : {left}[{m}, {k}]
    %7 = load {b}
    %8 = {to_b}
    %9 = {dot} %6, %8, %5 : {sum}[{m}, {n}]
    yield %9
  }}
  store.disjoint %y[%0, %0] = %12
}}",
        zero(left),
        zero(right),
        zero(sum),
    );
    parsed(&text)
}

fn parsed(text: &str) -> Kernel {
    let kernel = kiln_ir::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    kiln_ir::verify(&kernel).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    kernel
}

/// The factors of the products of fragments, and of warpgroups, that a kernel becomes.
fn units(kernel: &Kernel, target: &Target) -> (Option<Factors>, Option<Factors>) {
    let lowered = lower_to_threads(kernel, target).unwrap();
    let mut found = (None, None);
    lowered.walk(|_, data| match data.kind {
        OpKind::Fragment(FragmentOp::Mma(factors)) => found.0 = Some(factors),
        OpKind::Fragment(FragmentOp::WarpgroupMma(product)) => found.1 = Some(product.factors),
        _ => {}
    });
    found
}

#[test]
fn each_gpu_multiplies_by_what_it_has() {
    use Scalar::*;
    let gpu = |capability| Target::cuda(capability, 96 << 10);
    let of = |left, right| Factors::of(left, right);
    let [ampere, ada, hopper, blackwell] = [(8, 0), (8, 9), (9, 0), (12, 0)].map(gpu);
    let integers = kernel("dot", [I8, U8], [64, 32, 32], true);
    assert_eq!(units(&integers, &ampere), (of(I8, U8), None));
    assert_eq!(units(&integers, &hopper), (None, of(I8, U8)));
    let floats = kernel("dot", [E4M3, E5M2], [64, 32, 64], true);
    // Exact in f16, whose units older GPUs have.
    assert_eq!(units(&floats, &ampere), (of(F16, F16), None));
    for target in [&ada, &blackwell] {
        assert_eq!(units(&floats, target), (of(E4M3, E5M2), None));
    }
    assert_eq!(units(&floats, &hopper), (None, of(E4M3, E5M2)));
    // An assembler that does not know them.
    let before = Target { mixed_products: false, ..ada };
    assert_eq!(units(&floats, &before), (of(F16, F16), None));
    let older = Target { mixed_products: false, ..gpu((9, 0)) };
    assert_eq!(units(&integers, &older), (of(I8, U8), None));
    // f32 is rounded to less by name alone.
    let [tf32, full] = ["dot.tf32", "dot"].map(|dot| kernel(dot, [F32, F32], [64, 32, 8], true));
    assert_eq!(units(&tf32, &ampere), (of(F32, F32), None));
    assert_eq!(units(&tf32, &hopper), (None, of(F32, F32)));
    assert_eq!(units(&full, &hopper), (None, None));
    // In two parts elements pass through registers.
    let split = kernel("dot.tf32x3", [F32, F32], [64, 32, 8], true);
    assert_eq!(units(&split, &hopper), (of(F32, F32), None));
    let times = |kernel: &Kernel| {
        let lowered = lower_to_threads(kernel, &ampere).unwrap();
        count(&lowered, |kind| matches!(kind, OpKind::Fragment(FragmentOp::Mma(_))))
    };
    assert_eq!(times(&split), 3 * times(&tf32));
    // Too shallow for one instruction of theirs.
    assert_eq!(units(&kernel("dot", [I8, I8], [64, 32, 16], true), &hopper), (None, None));
}

#[test]
fn factors_lie_along_the_depth_and_sums_are_made_in_pieces() {
    use Scalar::*;
    let explained = |kernel: &Kernel| explain_layouts(kernel, &target()).unwrap();
    let across = explained(&kernel("dot", [I8, I8], [64, 32, 64], false));
    assert!(across.contains("left factor: from a stage, copied asynchronously"), "{across}");
    assert!(across.contains("right factor: from a stage, transposed by the threads"), "{across}");
    let along = explained(&kernel("dot", [I8, I8], [64, 32, 64], true));
    assert!(along.contains("right factor: from a stage, copied asynchronously"), "{along}");
    assert!(along.contains("warpgroups, under way in the next round"), "{along}");
    let two_level = explained(&kernel("dot", [E5M2, E5M2], [64, 32, 64], true));
    assert!(two_level.contains("warpgroups, two-level sums\n"), "{two_level}");
    let fast = explained(&kernel("dot.fast_sums", [E5M2, E5M2], [64, 32, 64], true));
    assert!(fast.contains("warpgroups, under way in the next round"), "{fast}");
    // Sums and partial products have no room in registers together.
    let large = explained(&kernel("dot", [E5M2, E5M2], [64, 256, 64], true));
    assert!(large.contains("4 warps, two-level sums") && !large.contains("warpgroups"), "{large}");
}
