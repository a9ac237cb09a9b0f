//! What resident kernels compile to: ordered accesses of every kind, and a polling loop with
//! nothing in it that need not be. `KILN_PTXAS` names the assembler (`tools/ptxas.sh --path`);
//! without it the assembling part is skipped, and says so.

mod assembler;

use kiln_cuda::{compile_to_ptx, ptx};
use kiln_ir::*;
use std::io::Write as _;
use std::process::Command;

assembler::tests! {
    text: true;
    every_order_scope_and_type
    what_is_acquired_in_vain
    clocks_rest_and_the_first_thread
    a_polling_loop_is_tight
    atomics_of_128_bits;
    plain: atomics_of_128_bits_are_refused_by_name
}

/// Compiles for a generation and, where there is an assembler, assembles without warnings and
/// spills.
fn compile(kernel: &Kernel, compute: (u32, u32), arch: &str) -> String {
    assembled(compile_to_ptx(kernel, ptx::Target { compute, ptx: (8, 0) }).expect("compiles").text, arch)
}

/// The text, which assembles without warnings and spills where there is an assembler.
fn assembled(text: String, arch: &str) -> String {
    let Some(ptxas) = assembler::path() else { return text };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let mut command = Command::new(ptxas);
    let arch = format!("-arch={arch}");
    let output = command.args(["-v", &arch, "-o", "/dev/null"]).arg(file.path()).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    let clean = !log.contains("warning") && log.contains("0 bytes spill stores, 0 bytes spill loads");
    assert!(output.status.success() && clean, "{arch}: {log}\n{text}");
    text
}

/// For an A100 and an H100; the text is the latter's.
fn both(text: &str) -> String {
    let kernel = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify(&kernel).unwrap_or_else(|e| panic!("{e:?}"));
    compile(&kernel, (8, 0), "sm_80");
    compile(&kernel, (9, 0), "sm_90a")
}

fn every_order_scope_and_type() {
    let mut body = String::new();
    for (i, scope) in ["block", "device", "system"].into_iter().enumerate() {
        for (j, view) in ["x", "y", "s"].into_iter().enumerate() {
            let elem = ["u32", "f64", "f32"][j];
            for (k, (load, store)) in [("relaxed", "release"), ("acquire", "relaxed")].into_iter().enumerate()
            {
                let bounds = ["mask", "check", "trust"][(i + j + k) % 3];
                let value = format!("%v{i}{j}{k}");
                body += &format!("  {value} = ordered_load.{load}.{scope}.{bounds} %{view}[%t] : {elem}\n");
                body += &format!("  ordered_store.{store}.{scope}.{bounds} %{view}[%t] = {value}\n");
            }
        }
    }
    let names: String = ["a", "b", "c", "d"].map(|v| format!("%{v}")).join(", ");
    body += &format!(
        "  {names} = load_quad.mask %x[%t] : u32, u32, u32, u32\n  store_quad.mask %x[%t] = {names}\n"
    );
    let text = both(&format!(
        "kernel @k(%x: mut view<u32, 1, global>, %y: mut view<f64, 1, global>) thread [64, 1, 1] {{
  %t = thread_id x : i64
  %s = alloc shared f32[64] : view<f32, 1, shared>
{body}}}
"
    ));
    for (scope, name) in [("block", "cta"), ("device", "gpu"), ("system", "sys")] {
        for (space, bits) in [("global", "b32"), ("global", "b64"), ("shared", "b32")] {
            for access in ["ld.relaxed", "ld.acquire", "st.relaxed", "st.release"] {
                let instruction = format!("{access}.{name}.{space}.{bits} ");
                assert!(text.contains(&instruction), "no `{instruction}` for {scope}\n{text}");
            }
        }
    }
    assert!(text.contains("ld.volatile.global.v4.b32 {") && text.contains("st.relaxed.sys.global.v4.b32 ["));
}

/// Of a load in a loop that acquires and is not used, the assembler left a store behind the loop
/// without its memory descriptor.
fn what_is_acquired_in_vain() {
    let text = both(
        "kernel @k(%x: mut view<u64, 1, global>, %n: i32) thread [64, 1, 1] {
  %t = thread_id x : i64
  %zero = const 0 : i32
  %one = const 1 : i32
  for %i = %zero to %n step %one {
    %v = ordered_load.acquire.block.mask %x[%t] : u64
    yield
  }
  %stored = cast %t : u64
  scatter.mask %x[%t] = %stored
}
",
    );
    assert!(text.contains("ld.relaxed.cta.global.b64 ") && text.contains("fence.acq_rel.cta"), "{text}");
    assert!(!text.contains("ld.acquire"), "{text}");
}

fn clocks_rest_and_the_first_thread() {
    for block in ["[1, 1, 1]", "[32, 1, 1]", "[96, 1, 1]"] {
        let text = both(&format!(
            "kernel @k(%y: mut view<u64, 1, global>, %n: u32) thread {block} {{
  %t = thread_id x : i64
  %0 = clock.nanos : u64
  sleep %n
  %1 = clock.cycles : u64
  %2 = block_uniform %1 : u64
  %3 = add %0, %2 : u64
  scatter.trust %y[%t] = %3
}}
"
        ));
        let has = |what: &str| assert!(text.contains(what), "no `{what}`\n{text}");
        ["%globaltimer", "%clock64", "nanosleep.u32"].into_iter().for_each(has);
        assert_eq!(text.contains("shfl.sync.idx"), block == "[32, 1, 1]", "{text}");
        assert_eq!(text.contains("bar.sync"), block == "[96, 1, 1]", "{text}");
    }
}

/// The instructions of the only loop, from its label to the branch back.
fn innermost_loop(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = None;
    for (end, line) in lines.iter().enumerate() {
        let Some(label) = line.rsplit_once("bra ").map(|(_, label)| label.trim_end_matches(';')) else {
            continue;
        };
        let start = lines[..end].iter().position(|l| l.strip_suffix(':') == Some(label));
        if let Some(start) = start {
            assert!(found.is_none(), "two loops\n{text}");
            found = Some(lines[start + 1..=end].to_vec());
        }
    }
    found.unwrap_or_else(|| panic!("no loop\n{text}"))
}

/// A warp polls the quads of a message until every one bears the stamp: the addresses are computed
/// before, and nothing is checked.
fn a_polling_loop_is_tight() {
    let text = both(
        "kernel @poll(%x: view<u32, 1, global> {align=16, strides=[=1]}, %y: mut view<u32, 1, global> {align=16, strides=[=1]}, %slot: i64, %stamp: u32) thread [32, 1, 1] {
  %t = thread_id x : i64
  %four = const 4 : i64
  %zero = const 0 : u32
  %yes = const true : bool
  %no = const false : bool
  %0 = mul %t, %four : i64
  %1, %2, %3, %4 = while (%waits = %yes, %a = %zero, %b = %zero, %c = %zero) : bool, u32, u32, u32 {
    condition %waits
  } do (%5, %6, %7, %8) {
    %first = mul %slot, %four : i64
    %at = add %first, %0 : i64
    %9, %10, %11, %12 = load_quad.trust %x[%at] : u32, u32, u32, u32
    %13 = eq %12, %stamp : bool
    %14 = vote.all %13 : bool
    %15 = not %14 : bool
    yield %15, %9, %10, %11
  }
  store_quad.trust %y[%0] = %2, %3, %4, %stamp
}
",
    );
    let body = innermost_loop(&text);
    let count = |what: &str| body.iter().filter(|line| line.contains(what)).count();
    assert_eq!((count("ld."), count("ld.volatile.global.v4.b32")), (1, 1), "{body:#?}");
    assert_eq!((count("vote.sync.all"), count("setp")), (1, 1), "{body:#?}");
    assert_eq!(count("64"), 0, "arithmetic of 64 bits in the loop: {body:#?}");
    let work = body.iter().filter(|line| !line.starts_with("mov.") && !line.ends_with(':')).count();
    println!("{body:#?}");
    assert!(work <= 6, "{body:#?}");
}

/// Two elements of shared and of global memory, of which those of global memory are compared.
const PAIRS: &str = "kernel @k(%x: mut view<u64, 1, global> {align=16, strides=[=1]}) thread [64, 1, 1] {
  %t = thread_id x : i64
  %s = alloc shared u64[8] : view<u64, 1, shared>
  %n = const 7 : u64
  %a, %b, %f = atomic_exchange_128.block %s[%t] = %n, %n : u64, u64, bool
  %c, %d, %g = atomic_cas_128.device %x[%t] = %a, %b -> %b, %n : u64, u64, bool
  %h = and %f, %g : bool
  assert %h, \"no pair\"
  %e = atomic.add.system.trust %x[%t] = %c : u64
  %i = atomic.add.system.trust %x[%t] = %d : u64
}
";

fn pairs_for(compute: (u32, u32), version: (u32, u32)) -> kiln_backend::Result<String> {
    let kernel = parse(PAIRS).unwrap_or_else(|e| panic!("{e}"));
    verify(&kernel).unwrap_or_else(|e| panic!("{e:?}"));
    compile_to_ptx(&kernel, ptx::Target { compute, ptx: version }).map(|module| module.text)
}

fn atomics_of_128_bits() {
    for (compute, arch) in [((9, 0), "sm_90a"), ((10, 0), "sm_100a")] {
        let text = assembled(pairs_for(compute, (9, 0)).expect("compiles"), arch);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let of = |what: &str| {
            let at = lines.iter().position(|line| line.contains(what));
            at.unwrap_or_else(|| panic!("no `{what}`\n{text}"))
        };
        let exchange = of("atom.relaxed.cta.shared.exch.b128 old, [");
        assert!(lines[exchange].starts_with("@%p") && lines[exchange].ends_with("], new;"), "{text}");
        assert!(
            lines[exchange - 2].starts_with("mov.b128 old, {")
                && lines[exchange - 3] == ".reg .b128 old, new;"
        );
        assert!(lines[exchange + 1].ends_with("}, old;") && lines[exchange + 2] == "}", "{text}");
        let compared = of("atom.relaxed.gpu.global.cas.b128 old, [");
        assert!(
            lines[compared].starts_with("@%p") && lines[compared].ends_with("], expected, new;"),
            "{text}"
        );
        assert!(lines[compared - 2].starts_with("mov.b128 expected, {"), "{text}");
        let version = text.lines().find_map(|line| line.strip_prefix(".version "));
        assert_eq!(version, Some(if compute == (9, 0) { "8.3" } else { "8.6" }));
    }
}

fn atomics_of_128_bits_are_refused_by_name() {
    for (compute, version) in [((8, 0), (9, 0)), ((8, 9), (9, 0)), ((9, 0), (8, 2))] {
        let error = pairs_for(compute, version).unwrap_err();
        assert!(
            matches!(&error, kiln_backend::Error::Unsupported { what, .. } if what == "`atomic_exchange_128`"),
            "{error}"
        );
    }
}
