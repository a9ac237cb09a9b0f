//! Ordered accesses between kernels that run at the same time, and what the code of a polling loop
//! is.

use kiln_backend::{Backend, BufferBinding, DevicePtr, LaunchArguments, StreamId};
use kiln_cpu::{CpuBackend, clif};
use kiln_ir::*;

/// Waits for its turn, changes the ball, gives the turn away.
const RALLY: &str =
    "kernel @rally(%ball: mut view<u32, 1, global>, %turn: mut view<u32, 1, global>, %me: u32, %rounds: u32) thread [1, 1, 1] {
  %0 = const 0 : i64
  %one = const 1 : i64
  %two = const 2 : u32
  %three = const 3 : u32
  %single = const 1 : u32
  %patience = const 4000000000 : i64
  %last, %polls = while (%a = %me, %p = %0) : u32, i64 {
    %1 = lt %a, %rounds : bool
    %2 = lt %p, %patience : bool
    %3 = and %1, %2 : bool
    condition %3
  } do (%next, %q) {
    %4 = ordered_load.acquire.device.trust %turn[%0] : u32
    %5 = eq %4, %next : bool
    %6, %7 = if %5 : u32, i64 {
      %8 = gather.trust %ball[%0] pad %two : u32
      %9 = mul %8, %three : u32
      %10 = add %9, %next : u32
      scatter.trust %ball[%0] = %10
      %11 = add %next, %single : u32
      ordered_store.release.device.trust %turn[%0] = %11
      %12 = add %next, %two : u32
      yield %12, %0
    } else {
      %13 = add %q, %one : i64
      yield %next, %13
    }
    yield %6, %7
  }
}
";

/// The same with stamped quads: the ball's words and the turn are one.
const QUADS: &str =
    "kernel @quads(%ball: mut view<u32, 1, global>, %me: u32, %rounds: u32) thread [1, 1, 1] {
  %0 = const 0 : i64
  %one = const 1 : i64
  %two = const 2 : u32
  %three = const 3 : u32
  %single = const 1 : u32
  %patience = const 4000000000 : i64
  %last, %polls = while (%a = %me, %p = %0) : u32, i64 {
    %1 = lt %a, %rounds : bool
    %2 = lt %p, %patience : bool
    %3 = and %1, %2 : bool
    condition %3
  } do (%next, %q) {
    %x, %y, %z, %stamp = load_quad.trust %ball[%0] : u32, u32, u32, u32
    %5 = eq %stamp, %next : bool
    %6, %7 = if %5 : u32, i64 {
      %8 = mul %x, %three : u32
      %9 = add %8, %y : u32
      %10 = add %z, %x : u32
      %11 = add %next, %single : u32
      store_quad.trust %ball[%0] = %9, %10, %x, %11
      %12 = add %next, %two : u32
      yield %12, %0
    } else {
      %13 = add %q, %one : i64
      yield %next, %13
    }
    yield %6, %7
  }
}
";

fn parsed(text: &str) -> Kernel {
    let kernel = parse(text).unwrap_or_else(|e| panic!("{e}"));
    verify(&kernel).unwrap_or_else(|e| panic!("{e:?}"));
    kernel
}

/// Launches a kernel on two devices at once, as player 0 and player 1. Views are of 16 words.
fn play(text: &str, memory: &[DevicePtr], rounds: u32) {
    let kernel = parsed(text);
    std::thread::scope(|scope| {
        for me in 0..2 {
            let kernel = &kernel;
            scope.spawn(move || {
                let cpu = CpuBackend::with_threads(1);
                let program = cpu.compile(kernel).unwrap().program;
                let views = memory.iter().fold(LaunchArguments::new(), |arguments, &at| {
                    arguments.view(BufferBinding::write(at), &[16])
                });
                let arguments = views.scalar(me).scalar(rounds.into());
                // SAFETY: the views are 16 words of memory that outlives the scope.
                unsafe { cpu.launch(&*program, arguments.launch([1; 3], StreamId(0))).unwrap() };
                cpu.synchronize(StreamId(0)).unwrap();
            });
        }
    });
}

/// Memory of 16 words that `f` uses, and what they are afterwards.
fn words(cpu: &CpuBackend, first: [u32; 16], f: impl FnOnce(DevicePtr)) -> [u32; 16] {
    let at = cpu.allocate(64, StreamId(0)).unwrap();
    let mut last = [0u32; 16];
    // SAFETY: the allocation is as long as the words.
    unsafe { cpu.upload(at, bytemuck::cast_slice(&first), StreamId(0)).unwrap() };
    f(at);
    // SAFETY: as above; nothing uses it afterwards.
    unsafe {
        cpu.download(bytemuck::cast_slice_mut(&mut last), at, StreamId(0)).unwrap();
        cpu.free(at, 64, StreamId(0));
    }
    last
}

const ROUNDS: u32 = 20_000;

#[test]
fn a_release_brings_what_was_stored_before() {
    let cpu = CpuBackend::with_threads(1);
    let mut ball = [0; 16];
    let turn = words(&cpu, [0; 16], |turn| {
        ball = words(&cpu, [5; 16], |ball| play(RALLY, &[ball, turn], ROUNDS));
    });
    assert_eq!(turn[0], ROUNDS);
    assert_eq!(ball[0], (0..ROUNDS).fold(5u32, |b, n| b.wrapping_mul(3).wrapping_add(n)));
}

#[test]
fn stamped_quads_arrive_whole() {
    let cpu = CpuBackend::with_threads(1);
    let mut first = [9; 16];
    first[..4].copy_from_slice(&[1, 2, 3, 0]);
    let last = words(&cpu, first, |ball| play(QUADS, &[ball], ROUNDS));
    let turn = |[x, y, z]: [u32; 3], _| [x.wrapping_mul(3).wrapping_add(y), z.wrapping_add(x), x];
    let [x, y, z] = (0..ROUNDS).fold([1, 2, 3], turn);
    assert_eq!(last[..4], [x, y, z, ROUNDS]);
    assert_eq!(last[4..], first[4..]);
}

/// Votes, shuffles, quads, ordered accesses and atomics of one thread are instructions, not calls.
#[test]
fn a_block_of_one_thread_polls_without_calls() {
    let text =
        "kernel @polls(%x: view<u32, 1, global>, %y: mut view<u32, 1, global>, %stamp: u32) thread [1, 1, 1] {
  %t = thread_id x : i64
  %four = const 4 : i64
  %at = mul %t, %four : i64
  while () {
    %a, %b, %c, %s = load_quad.trust %x[%at] : u32, u32, u32, u32
    %flag = ordered_load.acquire.system.trust %y[%at] : u32
    %0 = eq %s, %stamp : bool
    %1 = vote.all %0 : bool
    %2 = block_uniform %1 : bool
    %3 = shuffle.index %flag, %t : u32
    %4 = ne %3, %a : bool
    %5 = and %2, %4 : bool
    %6 = atomic.add.device.trust %y[%at] = %b : u32
    %7 = atomic.exchange.device.mask %y[%at] = %6 : u32
    %8 = atomic_cas.device.trust %y[%at] = %7 -> %c : u32
    ordered_store.release.system.trust %y[%at] = %8
    store_quad.trust %y[%at] = %a, %b, %c, %s
    condition %5
  } do () {
    yield
  }
}
";
    let code = clif(&parsed(text)).unwrap();
    // The one call is made where the launch has run over its limit: it ends the program.
    assert_eq!(code.matches("call").count(), 1, "{code}");
    assert!(
        code.contains("atomic_load") && code.contains("atomic_rmw") && code.contains("atomic_cas"),
        "{code}"
    );
    let count = |what: &str| code.matches(what).count();
    assert_eq!((count("extractlane"), count("insertlane")), (4, 3), "one load and one store\n{code}");
}

/// Adds to both of two elements by comparing and exchanging, until that is done.
const PAIRS: &str = "kernel @pairs(%x: mut view<u64, 1, global>) thread [THREADS, 1, 1] {
  %0 = const 0 : i64
  %none = const 0 : u64
  %one = const 1 : u64
  %three = const 3 : u64
  %no = const false : bool
  %a, %b, %f = atomic_cas_128.device %x[%0] = %none, %none -> %none, %none : u64, u64, bool
  assert %f, \"there are two elements\"
  %last, %other, %is = while (%x0 = %a, %x1 = %b, %done = %no) : u64, u64, bool {
    %more = eq %done, %no : bool
    condition %more
  } do (%first, %second, %before) {
    %next = add %first, %one : u64
    %after = add %second, %three : u64
    %c, %d, %g = atomic_cas_128.device %x[%0] = %first, %second -> %next, %after : u64, u64, bool
    %p = eq %c, %first : bool
    %q = eq %d, %second : bool
    %both = and %p, %q : bool
    yield %c, %d, %both
  }
}
";

/// Blocks of one thread, and of several, on several threads of the host.
#[test]
fn pairs_of_elements_change_as_one() {
    for threads in [1, 7] {
        let cpu = CpuBackend::with_threads(4);
        let text = PAIRS.replace("THREADS", &threads.to_string());
        let program = cpu.compile(&parsed(&text)).unwrap().program;
        let blocks = 2000;
        let last = words(&cpu, [0; 16], |at| {
            let arguments = LaunchArguments::new().view(BufferBinding::write(at), &[8]);
            // SAFETY: the view is 8 elements of 8 bytes of memory that outlives the launch.
            unsafe { cpu.launch(&*program, arguments.launch([blocks, 1, 1], StreamId(0))).unwrap() };
            cpu.synchronize(StreamId(0)).unwrap();
        });
        let count = blocks * threads;
        assert_eq!(last[..4], [count, 0, 3 * count, 0]);
    }
}
