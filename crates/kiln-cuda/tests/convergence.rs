//! Lanes stay together where NVIDIA's assembler would part them (`ptx/convergence.rs`).
//! `KILN_PTXAS` names the assembler (`tools/ptxas.sh --path`); without it the text alone is
//! checked.

mod assembler;

use kiln_compiler::{Target as Lowered, lower_to_threads};
use kiln_cuda::ptx::{Target, emit};
use std::io::Write as _;
use std::process::Command;

assembler::tests! {
    text: true;
    branches_around_barriers_behind_loops_are_voted_on a_ballot_that_comes_to_nothing_is_assembled
    lanes_meet_behind_a_loop_that_they_leave_at_different_times
    lanes_that_a_loop_with_checks_parts_meet_at_an_aligned_instruction;
    plain: a_masked_store_does_not_stand_before_a_jump a_masked_store_does_not_stand_before_a_reduced_jump a_masked_store_does_not_stand_before_a_voted_jump a_masked_store_does_not_stand_before_a_jump_around_barriers threads_that_part_are_not_waited_for barriers_in_while_loops_are_unaligned a_loop_of_a_kernel_that_stays_has_aligned_barriers tasks_have_no_such_barriers lanes_that_leave_a_loop_together_are_not_made_to_meet
        a_vote_that_is_used_where_some_lanes_are_is_a_mask a_vote_that_decides_a_branch_is_a_predicate
}

/// The PTX of a kernel over tiles, lowered for an H100.
fn ptx(text: &str) -> String {
    let kernel = kiln_ir::parse(text).expect("parses");
    kiln_ir::verify(&kernel).expect("verifies");
    let lowered = lower_to_threads(&kernel, &Lowered::cuda((9, 0), 200 << 10)).expect("lowers");
    emit(&lowered, Target { compute: (9, 0), ptx: (9, 0) }).expect("emits").text
}

/// Has the assembler take PTX, if there is one.
fn assemble(text: &str, options: &[&str]) {
    let Some(ptxas) = assembler::path() else { return };
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("is written");
    let all = ["-arch=sm_90a", "-o", "/dev/null"].iter().chain(options);
    let run = Command::new(ptxas).args(all).arg(file.path()).output().expect("runs");
    assert!(run.status.success(), "{}: {}", run.status, String::from_utf8_lossy(&run.stderr));
}

/// The instructions before each jump to a label that stands further down.
fn before_jumps(ptx: &str) -> Vec<&str> {
    let lines: Vec<&str> = ptx.lines().map(str::trim).collect();
    lines.windows(2).filter(|pair| pair[1].starts_with("bra ")).map(|pair| pair[0]).collect()
}

/// Whether a load or store has a predicate: without one there is nothing to hold together.
fn has_masked_access(ptx: &str) -> bool {
    let masked = |line: &str| line.starts_with("@%p") && (line.contains(" st.") || line.contains(" ld."));
    ptx.lines().any(|line| masked(line.trim()))
}

const BRANCH: &str = "kernel @k(%y: mut view<f32, 1, global>) tile {
  %p = program_id x : i64
  %c = cast %p : bool
  %one = const 1.0 : f32[3]
  %two = const 2.0 : f32[3]
  if %c {
    store %y[%p] = %one
    yield
  } else {
    store %y[%p] = %two
    yield
  }
}";

fn a_masked_store_does_not_stand_before_a_jump() {
    let text = ptx(BRANCH);
    let before = before_jumps(&text);
    assert_eq!(before, ["bar.warp.sync 0xffffffff;"], "{text}");
    assert_eq!(text.matches("bar.warp.sync").count(), 2, "both branches:\n{text}");
}

/// As above, where the condition comes out of a reduction: all lanes have one value before and
/// after each of its shuffles, which the assembler knows.
fn a_masked_store_does_not_stand_before_a_reduced_jump() {
    let text = ptx(&BRANCH.replace(
        "  %c = cast %p : bool\n",
        "  %all = broadcast %p : i64[8, 4]
  %rows = reduce.max %all axis 1 : i64[8]
  %most = reduce.max %rows axis 0 : i64
  %c = cast %most : bool\n",
    ));
    assert!(text.contains("shfl.sync"), "the reduction has no shuffles:\n{text}");
    assert_eq!(before_jumps(&text), ["bar.warp.sync 0xffffffff;"], "{text}");
}

/// As above, in a block of two warps, each of which goes where its own vote says.
fn a_masked_store_does_not_stand_before_a_voted_jump() {
    let text = ptx("kernel @k(%y: mut view<f32, 1, global>) thread [64, 1, 1] {
  %t = thread_id x : i64
  %7 = const 7 : i64
  %c = lt %t, %7 : bool
  %any = vote.any %c : bool
  %one = const 1.0 : f32
  if %any {
    scatter.mask %y[%t] where %c = %one
    yield
  } else {
    yield
  }
}");
    assert!(has_masked_access(&text), "{text}");
    assert_eq!(before_jumps(&text), ["bar.warp.sync 0xffffffff;"], "{text}");
}

/// As above, where the condition comes out of a reduction of elements that each lane loads: of its
/// shuffles nothing is known, but an aligned barrier in the branch is proof that all lanes take it.
/// Without this, lanes that had nothing to store went ahead past all barriers to come.
fn a_masked_store_does_not_stand_before_a_jump_around_barriers() {
    let text = ptx("kernel @k(%x: view<i64, 1, global>, %y: mut view<i64, 2, global>) tile {
  %p = program_id x : i64
  %none = const -1 : i64
  %0 = const 0 : i64
  %ones = const 1 : i64[4, 2]
  %twos = const 2 : i64[2, 4]
  %v = load %x[%p] pad %none : i64[2]
  %most = reduce.max %v axis 0 : i64
  %c = cast %most : bool
  store %y[%p, %0] = %twos
  if %c {
    store %y[%p, %0] = %ones
    yield
  } else {
    yield
  }
}");
    assert!(has_masked_access(&text) && text.contains("bar.sync 0;"), "{text}");
    assert_eq!(before_jumps(&text), ["bar.warp.sync 0xffffffff;"], "{text}");
}

fn threads_that_part_are_not_waited_for() {
    let text = ptx("kernel @k(%y: mut view<f32, 1, global>) thread [64, 1, 1] {
  %t = thread_id x : i64
  %7 = const 7 : i64
  %c = lt %t, %7 : bool
  %one = const 1.0 : f32
  if %c {
    scatter.mask %y[%t] where %c = %one
    yield
  } else {
    yield
  }
}");
    assert!(has_masked_access(&text) && !text.contains("bar.warp.sync"), "{text}");
}

fn barriers_in_while_loops_are_unaligned() {
    let text = ptx("kernel @k(%y: mut view<f32, 1, global>) tile {
  %p = program_id x : i64
  %0 = const 0.0 : f32
  %zero = const 0 : i64
  %one = const 1 : i64
  %ten = const 10 : i64
  %r = while (%i = %zero) : i64 {
    %go = lt %i, %ten : bool
    condition %go
  } do (%i2) {
    %v = load %y[%p] pad %0 : f32[64]
    store %y[%i2] = %v
    %next = add %i2, %one : i64
    yield %next
  }
}");
    assert!(text.contains("barrier.sync 0;") && !text.contains("bar.sync 0;"), "{text}");
}

/// A loop with barriers of the grid, and what stands behind it.
fn staying(behind: &str) -> String {
    ptx(&format!(
        "kernel @k(%x: view<u32, 1, global>, %y: mut view<u32, 1, global>) thread [64, 1, 1] {{
  %t = thread_id x : i64
  %0 = const 0 : i64
  %none = const 0 : u32
  %r = while (%i = %0) : i64 {{
    %v = gather.trust %x[%i] pad %none : u32
    %go = ne %v, %none : bool
    condition %go
  }} do (%i2) {{
    %one = const 1 : i64
    scatter.trust %y[%t] = %none
    barrier
    grid_barrier
    %next = add %i2, %one : i64
    yield %next
  }}
{behind}}}"
    ))
}

fn a_loop_of_a_kernel_that_stays_has_aligned_barriers() {
    let text = staying("");
    assert!(text.contains("bar.sync 0;") && !text.contains("barrier.sync 0;"), "{text}");
    let text = staying("  barrier\n");
    assert!(text.contains("barrier.sync 0;"), "{text}");
}

/// A task's check is made by one lane of its warp (`gather.check` of a scalar, with its report),
/// which must not wait for the others.
fn tasks_have_no_such_barriers() {
    let text = ptx("kernel @k(%x: view<i32, 1, global>, %y: mut view<i32, 1, global>, %n: i64) tile {
  %full = mbarrier count 1 arrivals 1 : view<u64, 1, shared>
  %0 = const 0 : i64
  %pad = const 7 : i32
  tasks warps 1 registers 0 warps 4 registers 0 {
    mbarrier_arrive %full, %0
    yield
  } {
    mbarrier_wait %full, %0, %0
    %c = gt %n, %0 : bool
    if %c {
      %v = gather.check %x[%n] pad %pad : i32
      scatter.trust %y[%n] = %v
      yield
    } else {
      yield
    }
    yield
  }
}");
    assert!(has_masked_access(&text) && !text.contains("bar.warp.sync"), "{text}");
}

/// A loop that lanes leave at different times, and stores of the whole block behind it.
const PARTING: &str =
    "kernel @k(%x: mut view<u32, 1, global>, %y: mut view<i32, 1, global>) thread [64, 1, 1] {
  %t = thread_id x : i64
  %0 = const 0 : i64
  %one = const 1 : i64
  %all = const true : bool
  %add = const 10 : u32
  %n = while (%i = %0) : i64 {
    %go = lt %i, %t : bool
    condition %go
  } do (%j) {
    %old = atomic.add.device.trust %x[%0] where %all = %add : u32
    %next = add %j, %one : i64
    yield %next
  }
  %seven = const 7 : i32[3]
  store %y[%0] = %seven
}";

/// How often lanes are made to meet behind a label: at an instruction for whole warps, without
/// which the barrier of the warp behind it has no mask.
fn meetings(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let joined = |behind: &[&str]| {
        behind[0].ends_with(':')
            && behind[2].starts_with("movmatrix.sync.aligned.m8n8.trans.b16 ")
            && behind[8].starts_with("bar.warp.sync %")
    };
    lines.windows(9).filter(|behind| joined(behind)).count()
}

fn lanes_meet_behind_a_loop_that_they_leave_at_different_times() {
    let text = ptx(PARTING);
    assert_eq!(meetings(&text), 1, "{text}");
    assert_eq!(text.matches("bar.warp.sync").count(), 1, "not in the loop:\n{text}");
    // The last warp of a block has 13 lanes: those that there are meet.
    let alone = PARTING.replace("const 7 : i32[3]", "const 7 : i32");
    let alone = alone.replace("store %y[%0] = %seven", "scatter.trust %y[%t] = %seven");
    let partial = ptx(&alone.replace("[64, 1, 1]", "[45, 1, 1]"));
    let lines: Vec<&str> = partial.lines().map(str::trim).collect();
    let there = lines.iter().find_map(|line| line.strip_prefix("activemask.b32 ")).expect(&partial);
    let at = lines.iter().position(|line| line.starts_with("bar.warp.sync")).expect(&partial);
    assert!(lines[at - 1].starts_with("xor.b32") && lines[at - 1].ends_with(there), "{partial}");
    assemble(&partial, &[]);
}

fn lanes_that_leave_a_loop_together_are_not_made_to_meet() {
    let text = ptx(&PARTING.replace("lt %i, %t", "lt %i, %one"));
    assert!(meetings(&text) == 0 && !text.contains("movmatrix"), "{text}");
}

/// Such a loop with a check in it, barriers before and behind, and one of a check that the block
/// makes together: they are for whole warps, as they are without such a loop.
fn lanes_that_a_loop_with_checks_parts_meet_at_an_aligned_instruction() {
    let checked = PARTING
        .replace("  %n = while", "  barrier\n  %n = while")
        .replace(
            "  store %y[%0] = %seven",
            "  barrier
  %pad = const 0 : i32
  %places = iota : i64[4]
  %found = gather.check %y[%places] pad %pad : i32[4]
  scatter.mask %y[%places] = %found",
        )
        .replace("atomic.add.device.trust %x[%0]", "atomic.add.device.check %x[%j]");
    // In a branch that some lanes take.
    let branch = checked
        .replace("  %n = while", "  %some = eq %t, %one : bool\n  %n = if %some : i64 {\n  %m = while")
        .replace("    yield %next\n  }\n", "    yield %next\n  }\n  yield %m\n  } else {\n  yield %0\n  }\n");
    for kernel in [checked, branch] {
        let text = ptx(&kernel);
        assert!(text.contains("\tbar.sync 0;") && text.contains("\tbar.red.and.pred"), "{text}");
        assert_eq!((meetings(&text), text.matches("bar.warp.sync").count()), (1, 1), "{text}");
        // Both forms of code that a program is made of.
        assemble(&text, &[]);
        assemble(&text, &["-c"]);
    }
}

/// A random kernel, reduced: the assembler knew at one end of a `while` loop how an `if` further
/// down goes, copied the barriers in it, and ended by a signal.
fn branches_around_barriers_behind_loops_are_voted_on() {
    let kernel = kiln_ir::parse(include_str!("kernels/choice_of_a_loop.kir")).expect("parses");
    let hopper = Target { compute: (9, 0), ptx: (9, 0) };
    let text = kiln_cuda::compile_to_ptx(&kernel, hopper).expect("compiles").text;
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let voted = lines.windows(2).filter(|pair| pair[0].starts_with("vote.sync.any.pred"));
    assert_eq!(voted.filter(|pair| pair[1].starts_with("@!%p")).count(), 2, "{text}");
    assemble(&text, &[]);
}

/// A vote whose answer is used behind a division of 64 bits, where only some lanes are.
const USED_APART: &str = "kernel @k(%y: mut view<i64, 1, global>, %n: i64) thread [32, 1, 1] {
  %t = thread_id x : i64
  %four = const 4 : i64
  %some = gt %t, %four : bool
  %odd = cast %n : bool
  %answer = vote.MODE %odd : bool
  if %some {
    %rest = rem %n, %t : i64
    if %answer {
      scatter.mask %y[%t] = %rest
      yield
    } else {
      yield
    }
    yield
  } else {
    yield
  }
}";

/// NVIDIA's assembler votes again in the branch, and its lanes wait for the others for ever.
fn a_vote_that_is_used_where_some_lanes_are_is_a_mask() {
    for (mode, comparison) in [("all", "setp.eq.u32"), ("any", "setp.ne.u32")] {
        let text = ptx(&USED_APART.replace("MODE", mode));
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let at = lines.iter().position(|line| line.starts_with("vote.sync.ballot.b32")).expect(&text);
        assert!(lines[at + 1].starts_with(comparison), "{text}");
        assert_eq!(text.matches("not.pred").count(), usize::from(mode == "all"), "{text}");
        assert_eq!(text.matches("vote.sync").count(), 1, "{text}");
    }
}

fn a_vote_that_decides_a_branch_is_a_predicate() {
    let at_once = USED_APART
        .replace("if %some {", "if %answer {")
        .replace("if %answer {\n      s", "if %some {\n      s");
    for mode in ["all", "any"] {
        let text = ptx(&at_once.replace("MODE", mode));
        assert!(text.contains(&format!("vote.sync.{mode}.pred")) && !text.contains("ballot"), "{text}");
    }
}

/// A ballot of one condition for all lanes beside a division, whose answer nothing reads again.
const COMES_TO_NOTHING: &str =
    "kernel @k(%y: mut view<i64, 1, global>, %n: i64, %all: bool) thread [32, 1, 1] {
  %t = thread_id x : i64
  %rest = rem %n, %t : i64
  %lanes = vote.ballot %all : u32
  %kept = alloc local u32[4] : view<u32, 1, local>
  %first = const 0 : i64
  scatter.trust %kept[%first] = %lanes
  scatter.mask %y[%t] = %rest
}";

/// CUDA 13.1 ends with an internal error as it assembles this as relocatable code, and a driver
/// ended the process, unless the condition asks for the lane too.
fn a_ballot_that_comes_to_nothing_is_assembled() {
    let text = ptx(COMES_TO_NOTHING);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let at = lines.iter().position(|line| line.starts_with("vote.sync.ballot.b32")).expect(&text);
    assert!(lines[at - 1].starts_with("xor.pred") && text.contains("%laneid"), "{text}");
    let narrow = ptx(&COMES_TO_NOTHING.replace("%rest = rem %n, %t : i64", "%rest = add %n, %t : i64"));
    assert!(!narrow.contains("%laneid"), "{narrow}");
    assemble(&text, &["-c"]);
}
