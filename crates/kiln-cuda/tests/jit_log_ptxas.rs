//! The parser of the compiler's log against what NVIDIA's assembler writes today, on the
//! handwritten kernels that `driver_check` runs on a GPU. `KILN_PTXAS` names the assembler
//! (`tools/ptxas.sh --path`); without it the tests are ignored.

mod assembler;

use kiln_cuda::driver::{DiagnosticKind, JitLog};
use std::io::Write as _;
use std::process::Command;

assembler::tests! {
    text: false;
    handwritten_kernels_assemble_with_ptxas
    ptxas_ignores_register_budgets_in_relocatable_code
    errors_of_ptxas_have_lines
    spills_of_ptxas_are_seen;
    plain:
}

const BASICS: &str = include_str!("../examples/ptx/basics.ptx");
const HOPPER: &str = include_str!("../examples/ptx/hopper.ptx");

/// Whether the text assembles, and the log.
fn assemble(ptx: &str, arguments: &[&str]) -> (bool, JitLog) {
    let ptxas = assembler::path().expect("an assembler: without one these tests are ignored");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(ptx.as_bytes()).unwrap();
    let output = Command::new(ptxas)
        .args(["-v", "-o", "/dev/null"])
        .args(arguments)
        .arg(file.path())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), JitLog::parse("", &String::from_utf8_lossy(&text)))
}

fn handwritten_kernels_assemble_with_ptxas() {
    let names = ["add", "empty", "report", "reverse_dynamic", "reverse_static", "wait_for_host"];
    for arch in ["-arch=sm_80", "-arch=sm_90a", "-arch=sm_100a"] {
        let (success, log) = assemble(BASICS, &[arch]);
        assert!(success && log.diagnostics.is_empty(), "{}", log.text);
        let mut seen: Vec<_> = log.functions.iter().map(|function| function.name.as_str()).collect();
        seen.sort_unstable();
        assert_eq!(seen, names);
        for function in &log.functions {
            assert!((1..=32).contains(&function.registers), "{function:?}");
            assert_eq!(function.target, arch.trim_start_matches("-arch="));
            assert_eq!(function.barriers, u32::from(function.name.starts_with("reverse")), "{function:?}");
            assert_eq!(function.shared_bytes, if function.name == "reverse_static" { 1024 } else { 0 });
        }
    }
}

fn ptxas_ignores_register_budgets_in_relocatable_code() {
    let kinds = |log: &JitLog| log.performance_losses().map(|loss| loss.kind).collect::<Vec<_>>();
    let (success, log) = assemble(HOPPER, &["-arch=sm_90a"]);
    assert!(success && kinds(&log).is_empty(), "{}", log.text);
    // Why kernels with register budgets must not be compiled through the driver's linker.
    let (success, log) = assemble(HOPPER, &["-arch=sm_90a", "-c"]);
    assert!(success);
    assert_eq!(kinds(&log), [DiagnosticKind::SetMaxRegistersIgnored], "{}", log.text);
    // And the other reason that an entry can have.
    let unbounded = HOPPER.replace(".maxntid 128, 1, 1 .minnctapersm 1", "");
    let (success, log) = assemble(&unbounded, &["-arch=sm_90a"]);
    assert!(success);
    assert_eq!(kinds(&log), [DiagnosticKind::SetMaxRegistersIgnored], "{}", log.text);
}

fn errors_of_ptxas_have_lines() {
    let wrong = BASICS.replace("add.f32", "sum.f32");
    let (success, log) = assemble(&wrong, &["-arch=sm_80"]);
    let line = 1 + wrong.lines().position(|line| line.contains("sum.f32")).unwrap() as u32;
    assert!(!success);
    assert!(
        log.errors().any(|error| error.line == Some(line) && error.message.contains("sum")),
        "{}",
        log.text
    );
}

fn spills_of_ptxas_are_seen() {
    // More values alive at once than 32 registers hold: all are read before the first is written,
    // in the order of reading.
    let each = |line: &dyn Fn(u32) -> String| (0..100).map(line).collect::<String>();
    let reads = each(&|i| format!("ld.volatile.global.u32 %r{i}, [%d+{}];\n", 4 * i));
    let writes = each(&|i| format!("st.volatile.global.u32 [%d+{}], %r{i};\n", 4 * i));
    let ptx = format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry crowded(.param .u64 p)\n{{\n\
         .reg .b64 %d;\n.reg .b32 %r<100>;\nld.param.u64 %d, [p];\n{reads}{writes}ret;\n}}\n"
    );
    let (success, log) = assemble(&ptx, &["-arch=sm_80", "--maxrregcount", "32"]);
    assert!(success, "{}", log.text);
    let losses: Vec<_> = log.performance_losses().collect();
    assert!(
        matches!(losses[..], [loss] if matches!(loss.kind, DiagnosticKind::Spill { stores, loads } if stores >= 200 && loads >= 200)),
        "{}",
        log.text
    );
    assert_eq!(losses[0].function.as_deref(), Some("crowded"));
    assert_eq!(log.functions[0].registers, 32);
}
