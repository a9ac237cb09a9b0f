//! Conditions as 1 or 0 whose bits are taken for floats: NVIDIA's assembler takes them for numbers,
//! so that they reach it by way of an instruction that it leaves alone.

use kiln_cuda::{compile_to_ptx, ptx};
use kiln_ir::parse;

/// The PTX for an H100 of a kernel that stores the negative of bits of a condition, or of others.
fn ptx_of(bits: &str, float: &str, made: &str) -> String {
    let text = format!(
        "kernel @k(%x: view<{bits}, 1, global>, %y: mut view<{float}, 1, global>) thread[32, 1, 1] {{
  %0 = thread_id x : i64
  %1 = const 0 : {bits}
  %2 = gather.check %x[%0] pad %1 : {bits}
  %3 = const 1 : {bits}
  %4 = lt %2, %3 : bool
  {made}
  %7 = bitcast %6 : {float}
  %8 = neg %7 : {float}
  scatter.check %y[%0] = %8
}}"
    );
    let kernel = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    kiln_ir::verify(&kernel).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let target = ptx::Target { compute: (9, 0), ptx: (8, 0) };
    compile_to_ptx(&kernel, target).unwrap_or_else(|e| panic!("{e}\n{text}")).text
}

#[test]
fn bits_of_a_condition_are_permuted() {
    for (bits, float) in [("u16", "f16"), ("u32", "f32"), ("i32", "f32"), ("u64", "f64")] {
        let conditions = [
            format!("%6 = cast %4 : {bits}"),
            format!("%5 = cast %4 : u8\n  %6 = cast %5 : {bits}"),
            format!("%6 = select %4, %3, %1 : {bits}"),
        ];
        for made in conditions {
            let text = ptx_of(bits, float, &made);
            let (selected, permuted) = (text.find("selp."), text.find("prmt.b32"));
            assert!(selected.is_some() && selected < permuted, "{made}\n{text}");
            let taken = text.find("neg.f");
            assert!(permuted < taken, "{made}\n{text}");
        }
    }
}

#[test]
fn other_bits_are_left_alone() {
    for made in ["%6 = add %2, %3 : u32", "%5 = const 5 : u32\n  %6 = xor %2, %5 : u32"] {
        let text = ptx_of("u32", "f32", made);
        assert!(!text.contains("prmt"), "{made}\n{text}");
    }
}
