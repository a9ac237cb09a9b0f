//! How PTX rounds: once for each operation, unless a kernel says `contract`.

use kiln_cuda::{compile_to_ptx, ptx};
use kiln_ir::parse;
use std::collections::HashMap;

/// The PTX of a kernel for an H100.
fn ptx_of(text: &str) -> String {
    let kernel = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let target = ptx::Target { compute: (9, 0), ptx: (8, 0) };
    compile_to_ptx(&kernel, target).unwrap_or_else(|e| panic!("{e}\n{text}")).text
}

/// A program over 128 elements of x, y and z; the body gives `%r` of them as `%a`, `%b`, `%c`.
fn program(elem: &str, head: &str, body: &str) -> String {
    let views: Vec<String> = ["x", "y", "z"].map(|v| format!("%{v}: view<{elem}, 1, global>")).to_vec();
    let body = body.replace("T", &format!("{elem}[128]"));
    format!(
        "kernel @k({}, %out: mut view<{elem}, 1, global>) tile{head} {{
  %0 = const 0 : i64
  %1 = const 1.0 : {elem}
  %2 = load %x[%0] pad %1 : {elem}[128]
  %3 = load %y[%0] pad %1 : {elem}[128]
  %4 = load %z[%0] pad %1 : {elem}[128]
{body}
}}
",
        views.join(", ")
    )
}

/// Instructions on floats that the assembler may fuse with others: without a rounding modifier.
fn loose(text: &str) -> Vec<&str> {
    let loose = |line: &&str| {
        let name = line.trim().split(' ').next().unwrap_or_default();
        let float = name.ends_with(".f32") || name.ends_with(".f64");
        float && ["add", "sub", "mul"].iter().any(|op| name.starts_with(op)) && !name.contains(".rn")
    };
    text.lines().filter(loose).collect()
}

const WELFORD: &str = "  %5 = sub %2, %3 : T
  %6 = div %5, %4 : T
  %7 = add %3, %6 : T
  %8 = sub %2, %7 : T
  %9 = mul %5, %8 : T
  %10 = add %9, %4 : T
  %11 = sqrt %10 : T
  %12 = recip %11 : T
  store %out[%0] = %12";

#[test]
fn arithmetic_rounds_once_and_is_never_fused() {
    for elem in ["f32", "f64", "f16", "bf16"] {
        let text = ptx_of(&program(elem, "", WELFORD));
        assert_eq!(loose(&text), Vec::<&str>::new(), "{elem}\n{text}");
        for inexact in ["div.full", "approx", "ftz", "fma"] {
            assert!(!text.contains(inexact), "{inexact} for {elem}\n{text}");
        }
        let wide = if elem == "f64" { "f64" } else { "f32" };
        for exact in ["div.rn", "sqrt.rn", "rcp.rn", "add.rn", "sub.rn", "mul.rn"] {
            assert!(text.contains(&format!("{exact}.{wide}")), "no {exact}.{wide} for {elem}\n{text}");
        }
    }
}

#[test]
fn contract_lets_the_assembler_fuse() {
    let text = ptx_of(&program("f32", " contract", WELFORD));
    assert!(text.contains("\tmul.f32") && text.contains("\tadd.f32"), "{text}");
    // Division is not changed: only `fast_div` is another one.
    assert!(text.contains("div.rn.f32") && !text.contains("div.full"), "{text}");
}

#[test]
fn sums_of_tiles_are_not_fused_with_what_they_add() {
    let body = "  %5 = mul %2, %3 : T
  %6 = reduce.sum %5 axis 0 : f32
  %7 = broadcast %6 : T
  store %out[%0] = %7";
    let text = ptx_of(&program("f32", "", body));
    assert_eq!(loose(&text), Vec::<&str>::new(), "{text}");
    assert!(!text.contains("fma"), "{text}");
}

#[test]
fn fast_division_is_asked_for_by_name() {
    let body = "  %5 = fast_div %2, %3 : T
  %6 = const 1.0 : T
  %7 = fast_div %6, %5 : T
  store %out[%0] = %7";
    let text = ptx_of(&program("f32", "", body));
    assert!(text.contains("div.full.f32") && text.contains("rcp.approx.f32"), "{text}");
    // Of f64 there is none that is faster.
    assert!(ptx_of(&program("f64", "", body)).contains("div.rn.f64"));
}

#[test]
fn functions_say_their_multiply_adds() {
    for function in ["exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "sigmoid", "rsqrt"] {
        let text = ptx_of(&program("f32", "", &format!("  %5 = {function} %2 : T\n  store %out[%0] = %5")));
        assert_eq!(loose(&text), Vec::<&str>::new(), "{function}\n{text}");
        assert!(!text.contains("div.rn.f32"), "{function} divides fast\n{text}");
    }
}

#[test]
fn multiply_adds_of_16_bit_floats_round_once() {
    for elem in ["f16", "bf16"] {
        let text = ptx_of(&program(elem, "", "  %5 = fma %2, %3, %4 : T\n  store %out[%0] = %5"));
        assert!(text.contains(&format!("fma.rn.{elem}")) && !text.contains("fma.rn.f32"), "{text}");
    }
}

/// What instructions on integers of 32 bits make of a register's value, in the last one's result.
fn run(instructions: &[&str], first: u32) -> u32 {
    let mut values: HashMap<String, u32> = HashMap::new();
    let mut last = first;
    for instruction in instructions {
        let (name, operands) = instruction.trim().trim_end_matches(';').split_once(' ').unwrap();
        let (to, from) = operands.split_once(", ").unwrap();
        let value = |operand: &str| match (operand.strip_prefix("0x"), operand.parse()) {
            (Some(hex), _) => u32::from_str_radix(hex, 16).unwrap(),
            (None, Ok(number)) => number,
            // The kernel's own value is the one that nothing has set.
            (None, Err(_)) => values.get(operand).copied().unwrap_or(first),
        };
        let from: Vec<u32> = from.split(", ").map(value).collect();
        last = match (name, &from[..]) {
            ("mov.b32" | "cvt.u16.u32", [x]) => *x,
            ("bfe.u32", [x, at, bits]) => (x >> at) & ((1 << bits) - 1),
            ("add.u32", [x, y]) => x.wrapping_add(*y),
            ("shr.u32", [x, by]) => x >> by,
            ("testp.number.f32", [x]) => u32::from(!f32::from_bits(*x).is_nan()),
            ("selp.b32", [x, y, first]) => *if *first != 0 { x } else { y },
            _ => panic!("{instruction}"),
        };
        values.insert(to.to_owned(), last);
    }
    last
}

/// GPUs before compute capability 8.0 have no conversion to bf16.
/// That a factor is 1 may come out when 16-bit floats have been expanded already.
#[test]
fn multiply_adds_of_16_bit_floats_do_not_become_sums() {
    let text = ptx_of(include_str!("kernels/late_factor.kir"));
    assert!(text.contains("fma.rn.f16"), "{text}");
}

#[test]
fn bf16_is_rounded_by_integers_where_there_is_no_instruction() {
    let kernel = parse(
        "kernel @k(%x: view<f32, 1, global>, %y: mut view<bf16, 1, global>) thread [32, 1, 1] {
  %i = const 0 : i64
  %v = view_load.x1 %x[%i] : f32
  %w = cast %v : bf16
  view_store.x1 %y[%i] = %w
}",
    );
    let kernel = kernel.unwrap();
    let of = |compute| compile_to_ptx(&kernel, ptx::Target { compute, ptx: (8, 0) }).unwrap().text;
    assert!(of((8, 0)).contains("cvt.rn.bf16.f32"));
    let text = of((7, 5));
    let lines: Vec<&str> = text.lines().collect();
    let at = |name: &str| lines.iter().position(|line| line.trim().starts_with(name)).unwrap();
    let narrowing = &lines[at("ld.global") + 1..at("st.global")];
    for high in 0..=0xffffu32 {
        for low in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
            let x = f32::from_bits(high << 16 | low);
            let (found, expected) = (run(narrowing, x.to_bits()), half::bf16::from_f32(x));
            let found = half::bf16::from_bits(found as u16);
            let same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
            assert!(same, "{x}: {found}, expected {expected}");
        }
    }
}
