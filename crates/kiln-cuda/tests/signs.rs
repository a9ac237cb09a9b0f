//! Signs and complements that NVIDIA's assembler drops, where it makes one instruction of a maximum
//! of three, or of a complement and what takes it: there are none in PTX.

use kiln_cuda::{compile_to_ptx, ptx};
use kiln_ir::parse;

/// The PTX for an H100 of a kernel that stores the maximum of three: of x with a sign by `change`,
/// of y and of z.
fn ptx_of(elem: &str, change: &str) -> String {
    let views: Vec<String> = ["x", "y", "z"].map(|v| format!("%{v}: view<{elem}, 1, global>")).to_vec();
    let text = format!(
        "kernel @k({}, %out: mut view<{elem}, 1, global>) tile {{
  %0 = const 0 : i64
  %1 = const 0 : {elem}
  %2 = load %x[%0] pad %1 : {elem}[128]
  %3 = load %y[%0] pad %1 : {elem}[128]
  %4 = load %z[%0] pad %1 : {elem}[128]
  %5 = const 0 : {elem}[128]
  %6 = const -1 : {elem}[128]
  %7 = {change} : {elem}[128]
  %8 = max %3, %7 : {elem}[128]
  %9 = max %8, %4 : {elem}[128]
  store %out[%0] = %9
}}
",
        views.join(", ")
    );
    let kernel = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let target = ptx::Target { compute: (9, 0), ptx: (8, 0) };
    compile_to_ptx(&kernel, target).unwrap_or_else(|e| panic!("{e}\n{text}")).text
}

#[test]
fn no_sign_is_an_operand_of_a_maximum() {
    for change in ["neg %2", "sub %5, %2", "mul %2, %6", "abs %2"] {
        let text = ptx_of("i32", change);
        assert!(text.contains("max.s32"), "{change}\n{text}");
        for dropped in ["neg.s32", "abs.s32", "mul.lo.s32"] {
            assert!(!text.contains(dropped), "{dropped} for `{change}`\n{text}");
        }
        // Of 64 bits there is no such instruction.
        let wide = ptx_of("i64", change);
        assert!(wide.contains("max.s64") && !wide.contains("not.b64"), "{change}\n{wide}");
    }
}

#[test]
fn no_complement_is_an_operand_of_a_bitwise_operation() {
    for (elem, ones) in [("i32", "-1"), ("u32", "4294967295"), ("i64", "-1"), ("u64", "18446744073709551615")]
    {
        for change in ["not %2", "xor %2, %3", "xor %3, %2"] {
            let text = format!(
                "kernel @k(%x: view<{elem}, 1, global>, %out: mut view<{elem}, 1, global>, %y: {elem}) tile {{
  %0 = const 0 : i64
  %1 = const 5 : {elem}
  %2 = gather.check %x[%0] pad %1 : {elem}
  %3 = const {ones} : {elem}
  %4 = eq %2, %1 : bool
  if %4 {{
    %5 = {change} : {elem}
    %6 = or %y, %5 : {elem}
    %7 = broadcast %6 : {elem}[1]
    store %out[%0] = %7
    yield
  }} else {{
    yield
  }}
}}
"
            );
            let kernel = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            let target = ptx::Target { compute: (9, 0), ptx: (8, 0) };
            let ptx = compile_to_ptx(&kernel, target).unwrap_or_else(|e| panic!("{e}\n{text}")).text;
            let width = if elem.ends_with("64") { 64 } else { 32 };
            assert!(ptx.contains(&format!("sub.s{width}")), "{change}\n{ptx}");
            assert!(!ptx.contains("not.b") && !ptx.contains("xor.b"), "{change}\n{ptx}");
        }
    }
}
