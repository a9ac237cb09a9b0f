//! Signs that NVIDIA's assembler drops where it makes one instruction of a maximum of three: there
//! are none in PTX.

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
