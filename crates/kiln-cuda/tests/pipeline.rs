//! From kernels to PTX that NVIDIA's assembler takes, for every target, without warnings and
//! without spills. `KILN_PTXAS` names the assembler (`tools/ptxas.sh --path`); without it the tests
//! with `ptxas` in their names are ignored.

mod assembler;

#[path = "../examples/backend_check/cases.rs"]
mod cases;
#[path = "../examples/backend_check/rig.rs"]
mod rig;

use cases::Case;
use kiln_backend::Error;
use kiln_cuda::{compile_to_ptx, compile_to_threads, ptx};
use kiln_interp::{Interp, Options};
use kiln_ir::parse;
use std::ffi::OsStr;
use std::io::Write as _;
use std::process::Command;

assembler::tests! {
    text: true;
    every_case_for_sm_75_by_ptxas
    every_case_for_sm_80_by_ptxas
    every_case_for_sm_90_by_ptxas
    every_case_for_sm_100_by_ptxas;
    plain: every_case_over_threads_on_the_interpreter what_a_gpu_has_not_is_refused_with_its_name a_kernel_that_is_not_well_formed_is_refused_with_its_place names_are_made_fit_for_ptx the_number_of_gpus_is_an_answer
}

fn target(compute: (u32, u32)) -> ptx::Target {
    ptx::Target { compute, ptx: (9, 0) }
}

/// Kernels in one file for the assembler: starting it costs more than a kernel does.
const BATCH: usize = 100;

/// The version of PTX of a module.
fn version(module: &ptx::Module) -> Option<(u32, u32)> {
    let (major, minor) = module.text.strip_prefix(".version ")?.lines().next()?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Assembles a batch, as the newest version that one of it has. Every entry gets a name of its own.
fn assemble(assembler: &OsStr, target: ptx::Target, modules: &[ptx::Module]) -> Result<(), String> {
    let newest = modules.iter().filter_map(version).max().ok_or("modules without a version")?;
    let mut text = format!(".version {}.{}", newest.0, newest.1);
    for (index, module) in modules.iter().enumerate() {
        let first = if index == 0 { "\n.target" } else { ".visible" };
        let body = module.text.find(first).ok_or("a module without an entry")?;
        text += &module.text[body..].replacen(&module.entry, &format!("{}_{index}", module.entry), 1);
    }
    let mut file = tempfile::NamedTempFile::new().map_err(|e| e.to_string())?;
    file.write_all(text.as_bytes()).map_err(|e| e.to_string())?;
    let arch = format!("-arch=sm_{}", target.capability());
    let run = Command::new(assembler).args(["-v", &arch, "-o", "/dev/null"]).arg(file.path()).output();
    let out = run.map_err(|e| e.to_string())?;
    let log = String::from_utf8_lossy(&out.stderr);
    let mut entry = "";
    let mut bad = String::new();
    for line in log.lines() {
        if let Some((_, named)) = line.split_once("Compiling entry function ") {
            entry = named;
        }
        let spills = line.contains("spill") && !line.contains(" 0 bytes spill stores, 0 bytes spill loads");
        if line.contains("error") || line.contains("warning") || spills {
            bad += &format!("{entry}: {line}\n");
        }
    }
    if out.status.success() && bad.is_empty() { Ok(()) } else { Err(format!("{arch}: {bad}")) }
}

fn compile(case: &Case, facts: bool, target: ptx::Target) -> Result<ptx::Module, String> {
    compile_to_ptx(&case.kernel(facts)?, target).map_err(|e| format!("{}: {e}", case.name))
}

/// Compiles every case for a target and assembles it where there is an assembler.
fn check_target(target: ptx::Target) {
    let mut modules = Vec::new();
    let mut failed = Vec::new();
    for case in cases::all() {
        match compile(&case, true, target) {
            Ok(module) => modules.push(module),
            Err(error) => failed.push(error),
        }
    }
    if let Some(ptxas) = assembler::path() {
        failed.extend(modules.chunks(BATCH).filter_map(|batch| assemble(&ptxas, target, batch).err()));
    }
    assert!(failed.is_empty(), "{} failures:\n{}", failed.len(), failed.join("\n"));
}

fn every_case_for_sm_75_by_ptxas() {
    check_target(target((7, 5)));
}

fn every_case_for_sm_80_by_ptxas() {
    check_target(target((8, 0)));
}

fn every_case_for_sm_90_by_ptxas() {
    check_target(target((9, 0)));
}

fn every_case_for_sm_100_by_ptxas() {
    check_target(target((10, 0)));
}

/// Without a GPU: what the passes make of every case computes the same on the interpreter, and does
/// something.
fn every_case_over_threads_on_the_interpreter() {
    let interp = Interp::new(Options::default());
    let check = |case: &Case| {
        let source = case.kernel(true)?;
        let expected = rig::compile_and_run(&interp, &source, case)?;
        let before = rig::compile_and_run(&interp, &source, &Case { grid: [0; 3], ..case.clone() })?;
        rig::ensure(before != expected, "the kernel does something")?;
        let lowered = compile_to_threads(&source, target((9, 0)))?;
        rig::compare(case, &expected, &rig::compile_and_run(&interp, &lowered, case)?)
    };
    let failure = |case: &Case| check(case).err().map(|error| format!("{}: {error}", case.name));
    let failed: Vec<String> = cases::all().iter().filter_map(failure).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn refusal(text: &str) -> Error {
    let kernel = parse(text).unwrap_or_else(|e| panic!("{e:?}"));
    compile_to_ptx(&kernel, target((8, 0))).expect_err("it cannot be compiled")
}

fn what_a_gpu_has_not_is_refused_with_its_name() {
    let shared = refusal(
        "kernel @big(%y: mut view<f64, 1, global>) thread [32, 1, 1] {
  %s = alloc shared f64[30000] : view<f64, 1, shared>
  %t = thread_id x : i64
  %v = cast %t : f64
  scatter.check %s[%t] = %v
}",
    );
    let Error::LaunchLimit { kernel, given, limit, .. } = shared else { panic!("{shared}") };
    assert_eq!((kernel.as_str(), given, limit), ("big", 240_000, 163 << 10));

    let extent = refusal(
        "kernel @odd(%y: mut view<i32, 2, global>) tile {
  %at = const 0 : i64
  %v = const 3 : i32[1023, 127]
  store.disjoint %y[%at, %at] = %v
}",
    );
    let Error::Compile { message, .. } = &extent else { panic!("{extent}") };
    assert!(message.contains("into 70 parts") && message.contains("use [1024, 128]"), "{extent}");

    let atomic = refusal(
        "file \"k.rs\"
kernel @bits(%y: mut view<f32, 1, global>) thread [32, 1, 1] {
  %at = const 0 : i64
  %v = const 1.0 : f32
  %old = atomic.xor.device.check %y[%at] = %v : f32 @0:3:7
}",
    );
    assert!(matches!(atomic, Error::Compile { .. } | Error::Unsupported { .. }), "{atomic}");
    assert!(atomic.to_string().contains("k.rs:3:7"), "{atomic}");
}

fn a_kernel_that_is_not_well_formed_is_refused_with_its_place() {
    let mut kernel = parse("file \"k.rs\"\nkernel @bad() tile {\n  %v = const 0 : i32 @0:4:2\n}").unwrap();
    let op = kernel.block(kernel.body).ops[0];
    kernel.op_mut(op).results.clear();
    let error = compile_to_ptx(&kernel, target((9, 0))).expect_err("no result");
    let Error::Compile { kernel, location, .. } = &error else { panic!("{error}") };
    assert_eq!((kernel.as_str(), location.as_str()), ("bad", "k.rs:4:2"));
}

fn names_are_made_fit_for_ptx() {
    let kernel = parse("kernel @\"grüße<f32, 4>\"() tile {\n  %v = const 0 : i32\n}").unwrap();
    let module = compile_to_ptx(&kernel, target((9, 0))).unwrap();
    assert!(module.entry.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{}", module.entry);
    assert!(module.text.contains(&format!(".entry {}(", module.entry)));
}

/// Without a driver, and with one: an answer, never a panic, and the same one twice.
fn the_number_of_gpus_is_an_answer() {
    match kiln_cuda::device_count() {
        Ok(count) => {
            assert!(matches!(kiln_cuda::device_count(), Ok(again) if again == count));
            let first = kiln_cuda::Cuda::open(0).err();
            assert!(
                count > 0 || matches!(&first, Some(Error::Unavailable { device, .. }) if device == "cuda:0")
            );
        }
        Err(error) => {
            let Error::Unavailable { device, hint, .. } = &error else { panic!("{error}") };
            assert!(device == "cuda" && !hint.is_empty(), "{error}");
        }
    }
}
