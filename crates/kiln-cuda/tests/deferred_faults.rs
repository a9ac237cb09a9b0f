//! Checks where threads wait for each other: the PTX reports a fault and goes on, so that no thread
//! is left waiting. `KILN_PTXAS` names the assembler (`tools/ptxas.sh --path`); without it the text
//! alone is checked.

mod assembler;

use kiln_backend::Error;
use kiln_cuda::{compile_to_ptx, compile_to_tasks, ptx};
use kiln_ir::parse;
use std::io::Write as _;
use std::process::Command;

assembler::tests! {
    text: true;
    a_check_in_a_task_does_not_end_it
    threads_agree_on_a_fault_that_a_loop_ends_with
    a_check_among_products_of_warpgroups_does_not_end_a_warp
    a_kernel_that_may_fault_gets_a_task_that_copies;
    plain: a_wait_that_only_a_check_might_end_is_refused
}

const HOPPER: ptx::Target = ptx::Target { compute: (9, 0), ptx: (9, 0) };

/// The PTX of a kernel, which the assembler takes if there is one.
fn compiled(text: &str) -> String {
    let module = compile_to_ptx(&parse(text).unwrap(), HOPPER).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let Some(ptxas) = assembler::path() else { return module.text };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(module.text.as_bytes()).unwrap();
    let run = Command::new(ptxas).args(["-v", "-arch=sm_90a", "-o", "/dev/null"]).arg(file.path()).output();
    let log = String::from_utf8_lossy(&run.unwrap().stderr).into_owned();
    let clean = !["error", "warning", "serialized"].iter().any(|word| log.contains(word))
        && log.contains(" 0 bytes spill stores, 0 bytes spill loads");
    assert!(clean, "{log}\n{}", module.text);
    module.text
}

/// How often a text contains another.
fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

/// A task of two warps with this inside, and one that waits for it.
fn task(inside: &str) -> String {
    format!(
        "kernel @task(%x: view<i32, 1, global>, %y: mut view<i32, 1, global>, %n: i64, %d: i32) tile {{
  %full = mbarrier count 1 arrivals 1 : view<u64, 1, shared>
  %0 = const 0 : i64
  %1 = const 1 : i64
  %pad = const 7 : i32
  tasks warps 1 registers 0 warps 2 registers 0 {{
    mbarrier_wait %full, %0, %0
    yield
  }} {{
    %i = iota : i64[64]
    {inside}
    mbarrier_arrive %full, %0
    yield
  }}
}}
"
    )
}

fn a_check_in_a_task_does_not_end_it() {
    let text = compiled(&task(
        "%v = gather.check %x[%i] pad %pad : i32[64]
    %dd = broadcast %d : i32[64]
    %q = div %v, %dd : i32[64]
    scatter.check %y[%i] = %q
    %c = gt %n, %0 : bool
    assert %c, \"{} is no index\", %n",
    ));
    // One report for each access, however many elements a thread has of it, one for the divisions
    // and one for the assertion.
    assert_eq!(count(&text, "atom.relaxed.gpu.global.cas.b32"), 4, "{text}");
    assert_eq!((count(&text, "exit"), count(&text, "$FAULT"), count(&text, "bar.red")), (0, 0, 0), "{text}");
    // Nothing is accessed where an index is outside.
    assert!(text.contains(" st.global.b32 [") && !text.contains("\tst.global.b32 ["), "{text}");
}

fn threads_agree_on_a_fault_that_a_loop_ends_with() {
    let text = compiled(&task(
        "%v = gather.check %x[%i] pad %pad : i32[64]
    %last = while (%m = %n) : i64 {
      %more = gt %m, %0 : bool
      condition %more
    } do (%o) {
      %next = div %o, %n : i64
      yield %next
    }
    %s = gather.trust %x[%last] pad %pad : i32
    scatter.mask %y[%0] = %s",
    ));
    // After the gather; all threads divide the same.
    assert_eq!(count(&text, "bar.red.or.pred"), 1, "{text}");
    assert_eq!((count(&text, "exit"), count(&text, "$FAULT")), (0, 0), "{text}");
}

fn a_check_among_products_of_warpgroups_does_not_end_a_warp() {
    let text = "kernel @k(%a: view<f16, 2, global> {align=16, extents=[i32, 8|i32], strides=[8|i32, i32|=1]}, %b: view<f16, 2, global> {align=16, extents=[i32, 8|i32], strides=[8|i32, i32|=1]}, %c: mut view<f32, 2, global>) tile {
  %0 = const 0 : i64
  %64 = const 64 : i64
  %k = extent %a axis 1 : i64
  %pad = const 0.0 : f16
  %zeros = const 0.0 : f32[64, 64]
  %limit = const 100.0 : f32[64, 64]
  %s = for %i = %0 to %k step %64 carry (%sum = %zeros) : f32[64, 64] {
    %x = load %a[%0, %i] pad %pad : f16[64, 64]
    %y = load %b[%i, %0] pad %pad : f16[64, 64]
    %p = dot %x, %y, %sum : f32[64, 64]
    %fine = lt %p, %limit : bool[64, 64]
    assert %fine, \"too large\"
    yield %p
  }
  store %c[%0, %0] = %s
}";
    let text = compiled(text);
    assert!(text.contains("wgmma.mma_async"), "{text}");
    assert_eq!((count(&text, "exit"), count(&text, "$FAULT")), (0, 0), "{text}");
}

/// A product whose results are checked, of tiles that get a task that copies.
const CHECKED: &str = "kernel @rows(%a: view<bf16, 2, global> {align=16, extents=[i32, 8|i32], strides=[8|i32, i32|=1]}, %b: view<bf16, 2, global> {align=16, extents=[i32, i32], strides=[8|i32, i32|=1]}, %c: mut view<bf16, 2, global> {align=16, extents=[i32, 8|i32], strides=[8|i32, i32|=1]}) tile {
  %0 = program_id x : i64
  %1 = const 128 : i64
  %2 = mul %0, %1 : i64
  %3 = const 0 : i64
  %4 = const 64 : i64
  %5 = extent %a axis 1 : i64
  %6 = const 0.0 : bf16
  %7 = const 0.0 : f32[128, 128]
  %10 = for %8 = %3 to %5 step %4 carry (%9 = %7) : f32[128, 128] {
    %11 = load %a[%2, %8] pad %6 : bf16[128, 64]
    %12 = load %b[%8, %3] pad %6 : bf16[64, 128]
    %13 = dot %11, %12, %9 : f32[128, 128]
    yield %13
  }
  %limit = const 100.0 : f32[128, 128]
  %fine = lt %10, %limit : bool[128, 128]
  assert %fine, \"too large\"
  %14 = cast %10 : bf16[128, 128]
  store.disjoint %c[%2, %3] = %14
}";

fn a_kernel_that_may_fault_gets_a_task_that_copies() {
    assert!(compile_to_tasks(&parse(CHECKED).unwrap(), HOPPER).unwrap().is_some());
    let text = compiled(CHECKED);
    assert!(text.contains("cp.async.bulk.tensor") && text.contains("wgmma.mma_async"), "{text}");
    assert_eq!((count(&text, "exit"), count(&text, "$FAULT"), count(&text, "bar.red")), (0, 0, 0), "{text}");
    assert_eq!(count(&text, "atom.relaxed.gpu.global.cas.b32"), 1, "{text}");
}

fn a_wait_that_only_a_check_might_end_is_refused() {
    let text = task(
        "while () {
      condition %c
    } do () {
      mbarrier_arrive %full, %0
      assert %c, \"the end\" @0:7:5
      yield
    }",
    );
    let text = text.replace("%i = iota : i64[64]", "%c = gt %n, %0 : bool");
    let error = compile_to_ptx(&parse(&text).unwrap(), HOPPER);
    let Err(Error::Unsupported { what, hint, location, .. }) = &error else { panic!("{error:?}") };
    assert!(what.contains("a check in a `while` loop"), "{what}");
    assert!(hint.contains("`for`"), "{hint}");
    assert!(!location.is_empty());
}
