//! What copies in flight compile to. `KILN_PTXAS` names the assembler (`tools/ptxas.sh --path`);
//! without it the assembling part is skipped, and says so.

mod assembler;

use kiln_cuda::{compile_to_ptx, ptx};
use kiln_ir::{parse, verify};
use std::io::Write as _;
use std::process::Command;

assembler::tests! {
    text: true;
    each_width_is_one_instruction
    elements_of_rows_are_copied_together
    masks_are_numbers_of_bytes
    gpus_without_them_copy_at_once;
    plain: by_address_they_are_refused_by_name
}

const GPUS: [((u32, u32), &str); 3] = [((7, 5), "sm_75"), ((8, 0), "sm_80"), ((9, 0), "sm_90a")];

/// Compiles for a GPU and, where there is an assembler, assembles without warnings.
fn compile(text: &str, (compute, arch): ((u32, u32), &str)) -> String {
    let kernel = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify(&kernel).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let text = compile_to_ptx(&kernel, ptx::Target { compute, ptx: (8, 0) }).expect("compiles").text;
    let Some(ptxas) = assembler::path() else { return text };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let mut command = Command::new(ptxas);
    let output = command.arg(format!("-arch={arch}")).args(["-o", "/dev/null"]).arg(file.path()).output();
    let output = output.unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !log.contains("warning"), "{arch}: {log}\n{text}");
    text
}

/// Each thread copies `count` elements of `elem` from a tensor that begins at a multiple of `align`
/// bytes to shared memory, where `%p` holds if there is a mask.
fn copies(elem: &str, count: u32, align: u32, masked: bool) -> String {
    let mask = if masked { " where %p" } else { "" };
    let mut body = String::new();
    for lane in 0..count {
        body += &format!("  %lane{lane} = const {lane} : i64\n");
        body += &format!("  %at{lane} = add %first, %lane{lane} : i64\n");
        body += &format!("  %v{lane} = gather.trust %x[%at{lane}]{mask} pad %zero : {elem}\n");
    }
    for lane in 0..count {
        body += &format!("  scatter.trust.async %s[%at{lane}] = %v{lane}\n");
    }
    format!(
        "kernel @k(%x: view<{elem}, 1, global> {{align={align}, strides=[=1]}}, %y: mut view<{elem}, 1, global>, %p: bool) thread [32, 1, 1] {{
  %s = alloc shared {elem}[{}] : view<{elem}, 1, shared>
  %t = thread_id x : i64
  %zero = const 0 : {elem}
  %count = const {count} : i64
  %first = mul %t, %count : i64
{body}  cp_async_commit
  cp_async_wait pending 0
  barrier
  %back = gather.mask %s[%count] pad %zero : {elem}
  scatter.mask %y[%t] = %back
}}",
        32 * count
    )
}

/// How many copies there are of each width, and how many loads of global memory.
fn found(text: &str) -> [usize; 4] {
    let lines = |part: &str, end: &str| text.lines().filter(|l| l.contains(part) && l.contains(end)).count();
    let loads = text.lines().filter(|l| l.trim_start().starts_with("ld.global")).count();
    [
        lines("cp.async.ca.shared.global", ", 4, "),
        lines("cp.async.ca.shared.global", ", 8, "),
        lines("cp.async.cg.shared.global", ", 16, "),
        loads,
    ]
}

fn each_width_is_one_instruction() {
    for gpu in &GPUS[1..] {
        for (elem, count, align, expected) in [
            ("f32", 1, 4, [1, 0, 0, 0]),
            ("f32", 2, 16, [0, 1, 0, 0]),
            ("f32", 4, 16, [0, 0, 1, 0]),
            ("f32", 8, 16, [0, 0, 2, 0]),
            ("f64", 1, 8, [0, 1, 0, 0]),
            ("f64", 2, 16, [0, 0, 1, 0]),
            ("f16", 2, 16, [1, 0, 0, 0]),
            ("bf16", 8, 16, [0, 0, 1, 0]),
            ("i16", 4, 16, [0, 1, 0, 0]),
            ("u8", 16, 16, [0, 0, 1, 0]),
            // Not aligned, and too small.
            ("f32", 4, 4, [4, 0, 0, 0]),
            ("f64", 2, 8, [0, 2, 0, 0]),
            ("f16", 2, 2, [0, 0, 0, 2]),
            ("u8", 1, 16, [0, 0, 0, 1]),
        ] {
            let text = compile(&copies(elem, count, align, false), *gpu);
            assert_eq!(found(&text), expected, "{count} of {elem} at {align} for {}\n{text}", gpu.1);
            assert!(
                text.contains("cp.async.commit_group") && text.contains("cp.async.wait_group 0"),
                "{text}"
            );
        }
    }
}

/// Vectors of four of f32 from a row of a tensor to a row of shared memory, of so many columns.
fn of_rows(stride: &str, columns: u32) -> String {
    let mut body = String::new();
    for lane in 0..4 {
        body += &format!("  %lane{lane} = const {lane} : i64\n");
        body += &format!("  %at{lane} = add %first, %lane{lane} : i64\n");
        body += &format!("  %v{lane} = gather.trust %x[%row, %at{lane}] pad %zero : f32\n");
    }
    for lane in 0..4 {
        body += &format!("  scatter.trust.async %s[%t, %at{lane}] = %v{lane}\n");
    }
    format!(
        "kernel @k(%x: view<f32, 2, global> {{align=16, strides=[{stride}, =1]}}, %row: i64) thread [32, 1, 1] {{
  %s = alloc shared f32[32, {columns}] : view<f32, 2, shared>
  %t = thread_id x : i64
  %zero = const 0 : f32
  %count = const 4 : i64
  %first = mul %t, %count : i64
{body}  cp_async_commit
  cp_async_wait pending 0
}}"
    )
}

/// One instruction where the strides of both keep rows at multiples of four.
fn elements_of_rows_are_copied_together() {
    for (stride, columns, expected) in [
        ("16", 128, [0, 0, 1, 0]),
        ("4", 132, [0, 0, 1, 0]),
        ("2", 132, [0, 2, 0, 0]),
        ("16", 130, [0, 2, 0, 0]),
        ("_", 128, [4, 0, 0, 0]),
        ("16", 129, [4, 0, 0, 0]),
    ] {
        let text = compile(&of_rows(stride, columns), GPUS[2]);
        assert_eq!(found(&text), expected, "{stride} apart to {columns} columns\n{text}");
    }
}

fn masks_are_numbers_of_bytes() {
    for gpu in &GPUS[1..] {
        let text = compile(&copies("f32", 4, 16, true), *gpu);
        assert_eq!(found(&text), [0, 0, 1, 0], "{text}");
        assert!(text.contains("selp.b32") || text.contains("selp.u32"), "{text}");
    }
}

fn gpus_without_them_copy_at_once() {
    let text = compile(&copies("f32", 4, 16, false), GPUS[0]);
    assert_eq!(found(&text), [0, 0, 0, 1], "{text}");
    assert!(!text.contains("cp.async"), "{text}");
}

fn by_address_they_are_refused_by_name() {
    let text = "kernel @k(%a: u64, %n: u32) thread [32, 1, 1] {\n  cp_async %a, %a, %n width 16\n}";
    let target = ptx::Target { compute: (7, 5), ptx: (8, 0) };
    let error = compile_to_ptx(&parse(text).unwrap(), target).unwrap_err().to_string();
    assert!(error.contains("`cp_async`") && error.contains("compute capability 8.0 or later"), "{error}");
}
