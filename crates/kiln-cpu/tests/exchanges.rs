//! Shuffles, votes and atomics of threads: blocks of whole and of other warps, rows that are warps
//! and rows that are not, indices that are known to be inside and others.

mod device;
use device::*;
use kiln_ir::*;

const BLOCKS: [[u32; 3]; 9] = [
    [32, 1, 1],
    [96, 1, 1],
    [33, 1, 1],
    [17, 1, 1],
    [3, 1, 1],
    [64, 2, 1],
    [16, 4, 1],
    [5, 3, 2],
    [32, 2, 2],
];

fn parsed(text: &str) -> Kernel {
    parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Defines `%n`, the thread's number in its block.
fn number([bx, by, _]: [u32; 3]) -> String {
    format!(
        "  %tx = thread_id x : i64
  %ty = thread_id y : i64
  %tz = thread_id z : i64
  %bx = const {bx} : i64
  %by = const {by} : i64
  %planes = mul %tz, %by : i64
  %row = add %planes, %ty : i64
  %first = mul %row, %bx : i64
  %n = add %first, %tx : i64
"
    )
}

/// The thread of a block that a thread reads.
fn source(mode: &str, thread: usize, by: usize, threads: usize) -> usize {
    let (lane, by) = (thread % 32, by % 32);
    let there = match mode {
        "index" => by,
        "up" if lane >= by => lane - by,
        "down" if lane + by < 32 => lane + by,
        "xor" => lane ^ by,
        _ => lane,
    };
    let there = thread - lane + there;
    if there < threads { there } else { thread }
}

fn shuffles_of<T: bytemuck::Pod + PartialEq + std::fmt::Debug>(elem: &str, make: impl Fn(usize) -> T) {
    for block in BLOCKS {
        let [bx, by, bz] = block;
        let threads = (bx * by * bz) as usize;
        for mode in ["index", "up", "down", "xor"] {
            for (k, l) in [(1, 16), (3, 8), (5, 2), (31, 4), (33, 7), (0, 1)] {
                let kernel = parsed(&format!(
                    "kernel @twice(%x: view<{elem}, 1, global>, %y: mut view<{elem}, 1, global>) thread [{bx}, {by}, {bz}] {{
{}  %zero = const {} : {elem}
  %v = gather.check %x[%n] pad %zero : {elem}
  %k = const {k} : i64
  %l = const {l} : i64
  %a = shuffle.{mode} %v, %k : {elem}
  %b = shuffle.down %a, %l : {elem}
  scatter.check %y[%n] = %b
}}
",
                    number(block),
                    if elem.starts_with('f') { "0.0" } else { "0" }
                ));
                let mut x: Vec<T> = (0..threads).map(&make).collect();
                let mut y: Vec<T> = (0..threads).map(|_| make(999)).collect();
                let len = threads as i64;
                run(&kernel, [1; 3], vec![view(&mut x, &[len]), view(&mut y, &[len])]).unwrap();
                for (thread, got) in y.iter().enumerate() {
                    let first = source("down", thread, l, threads);
                    let want = &x[source(mode, first, k, threads)];
                    assert_eq!(got, want, "{elem} {block:?} {mode} {k} {l} thread {thread}");
                }
            }
        }
    }
}

#[test]
fn shuffles_by_constants() {
    shuffles_of("f32", |i| i as f32 * 0.5);
    shuffles_of("f64", |i| i as f64 * 0.25);
    shuffles_of("i32", |i| i as i32 - 40);
    shuffles_of("u64", |i| i as u64 * 0x1_0000_0001);
    shuffles_of("u8", |i| i as u8);
    shuffles_of("f16", |i| half::f16::from_f32(i as f32).to_bits());
}

#[test]
fn votes_of_each_warp() {
    for block in BLOCKS {
        let [bx, by, bz] = block;
        let threads = (bx * by * bz) as usize;
        let kernel = parsed(&format!(
            "kernel @votes(%x: view<i32, 1, global>, %y: mut view<u32, 2, global>) thread [{bx}, {by}, {bz}] {{
{}  %zero = const 0 : i32
  %v = gather.check %x[%n] pad %zero : i32
  %holds = gt %v, %zero : bool
  %bits = vote.ballot %holds : u32
  %all = vote.all %holds : bool
  %any = vote.any %holds : bool
  %both = cast %all : u32
  %one = cast %any : u32
  %0 = const 0 : i64
  %1 = const 1 : i64
  %2 = const 2 : i64
  scatter.check %y[%0, %n] = %bits
  scatter.check %y[%1, %n] = %both
  scatter.check %y[%2, %n] = %one
}}
",
            number(block)
        ));
        for holds in [|i: usize| i.is_multiple_of(3), |_| true, |_| false, |i| i != 5, |i| i == 16] {
            let mut x: Vec<i32> = (0..threads).map(|i| holds(i) as i32).collect();
            let mut y = vec![9u32; 3 * threads];
            let len = threads as i64;
            run(&kernel, [1; 3], vec![view(&mut x, &[len]), view(&mut y, &[3, len])]).unwrap();
            for thread in 0..threads {
                let first = thread / 32 * 32;
                let warp: Vec<bool> = (first..threads.min(first + 32)).map(holds).collect();
                let bits = warp.iter().enumerate().fold(0, |b, (i, &h)| b | u32::from(h) << i);
                let (all, any) = (warp.iter().all(|&h| h) as u32, warp.contains(&true) as u32);
                let got = [0, 1, 2].map(|row| y[row * threads + thread]);
                assert_eq!(got, [bits, all, any], "{block:?} thread {thread}");
            }
        }
    }
}

/// Counts of bytes in shared memory of `bins` elements, of the threads below `most`, and then in
/// global memory.
fn histogram(block: [u32; 3], bins: i64, most: i64, bounds: &str, kind: &str) -> Kernel {
    let [bx, by, bz] = block;
    let one = if kind.starts_with('f') { "1.0" } else { "1" };
    let zero = if kind.starts_with('f') { "0.0" } else { "0" };
    parsed(&format!(
        "kernel @bytes(%x: view<u8, 1, global>, %y: mut view<{kind}, 1, global>, %c: mut view<u32, 1, global>) thread [{bx}, {by}, {bz}] {{
{}  %s = alloc shared {kind}[{bins}] : view<{kind}, 1, shared>
  %lo = const 0 : i64
  %hi = const {bins} : i64
  %step = const 1 : i64
  %none = const {zero} : {kind}
  for %i = %lo to %hi step %step {{
    scatter.check %s[%i] = %none
    yield
  }}
  barrier
  %pad = const 0 : u8
  %v = gather.check %x[%n] pad %pad : u8
  %at = cast %v : i64
  %most = const {most} : i64
  %takes = lt %n, %most : bool
  %one = const {one} : {kind}
  %unit = const 1 : u32
  if %takes {{
    %before = atomic.add.block.{bounds} %s[%at] = %one : {kind}
    %seen = atomic.add.device.mask %c[%at] = %unit : u32
    yield
  }} else {{
    yield
  }}
  barrier
  for %j = %lo to %hi step %step {{
    %count = gather.check %s[%j] pad %none : {kind}
    scatter.check %y[%j] = %count
    yield
  }}
}}
",
        number(block)
    ))
}

#[test]
fn histograms_of_bytes() {
    for block in BLOCKS {
        let threads = block.iter().product::<u32>() as usize;
        for (bins, bounds) in [(256i64, "check"), (256, "trust"), (100, "mask")] {
            for most in [threads as i64, 0, 2, threads as i64 - 1] {
                let mut x: Vec<u8> = (0..threads).map(|i| (i * i * 7 % 251) as u8).collect();
                let (mut y, mut c) = (vec![9u32; bins as usize], vec![0u32; 200]);
                let mut f = vec![9f32; bins as usize];
                let mut want = vec![0u32; 256];
                x.iter().take(most.max(0) as usize).for_each(|&b| want[b as usize] += 1);
                let views = [view(&mut x, &[threads as i64]), view(&mut y, &[bins]), view(&mut c, &[200])];
                run(&histogram(block, bins, most, bounds, "u32"), [1; 3], views.into()).unwrap();
                assert_eq!(y, want[..bins as usize], "{block:?} {bins} {bounds} {most}");
                assert_eq!(c, want[..200], "{block:?} {bins} {bounds} {most}, global");
                let views = [view(&mut x, &[threads as i64]), view(&mut f, &[bins]), view(&mut c, &[200])];
                run(&histogram(block, bins, most, bounds, "f32"), [1; 3], views.into()).unwrap();
                let floats: Vec<f32> = want[..bins as usize].iter().map(|&n| n as f32).collect();
                assert_eq!(f, floats, "{block:?} {bins} {bounds} {most}");
            }
        }
    }
}

#[test]
fn a_byte_past_the_bins_is_a_fault_of_its_thread() {
    let (mut y, mut c) = (vec![0u32; 100], vec![0u32; 200]);
    let mut x = vec![5u8; 32];
    x[20] = 130;
    let kernel = histogram([32, 1, 1], 100, 32, "check", "u32");
    let views = [view(&mut x, &[32]), view(&mut y, &[100]), view(&mut c, &[200])];
    let fault = fault(run(&kernel, [1; 3], views.into()));
    assert_eq!(fault.thread, Some([20, 0, 0]));
}

/// Atomics of the threads whose element is positive, all at one place that a number names.
#[test]
fn atomics_at_one_place() {
    for block in BLOCKS {
        let [bx, by, bz] = block;
        let threads = (bx * by * bz) as usize;
        let kernel = parsed(&format!(
            "kernel @place(%x: view<i32, 1, global>, %y: mut view<i32, 1, global>, %at: i64) thread [{bx}, {by}, {bz}] {{
{}  %zero = const 0 : i32
  %v = gather.check %x[%n] pad %zero : i32
  %takes = gt %v, %zero : bool
  if %takes {{
    %a = atomic.add.device.check %y[%at] = %v : i32
    yield
  }} else {{
    yield
  }}
  %one = const 1 : i64
  %b = atomic.max.device.mask %y[%one] = %v : i32
}}
",
            number(block)
        ));
        let mut x: Vec<i32> = (0..threads).map(|i| i as i32 - 2).collect();
        let len = threads as i64;
        for at in [0i64, 2, -1] {
            let mut y = vec![1i32, -9, 1];
            let args = vec![view(&mut x, &[len]), view(&mut y, &[3]), Arg::Scalar(at as u64)];
            let outcome = run(&kernel, [2, 1, 1], args);
            if at < 0 && threads > 3 {
                assert_eq!(fault(outcome).thread, Some([3 % bx, 3 / bx % by, 3 / bx / by]));
                continue;
            }
            outcome.unwrap();
            let sum: i32 = 2 * x.iter().filter(|&&v| v > 0).sum::<i32>();
            let mut want = vec![1, threads as i32 - 3, 1];
            if at >= 0 {
                want[at as usize] += sum;
            }
            assert_eq!(y, want, "{block:?} at {at}");
        }
    }
}

/// The first lane of each warp stores at its warp's number, and all threads read what one stored.
#[test]
fn lanes_that_are_known() {
    for block in BLOCKS {
        let [bx, by, bz] = block;
        let threads = (bx * by * bz) as usize;
        let kernel = parsed(&format!(
            "kernel @firsts(%x: view<f64, 1, global>, %y: mut view<f64, 1, global>) thread [{bx}, {by}, {bz}] {{
{}  %s = alloc shared f64[32] : view<f64, 1, shared>
  %pad = const 0.0 : f64
  %v = gather.check %x[%n] pad %pad : f64
  %warp = const 32 : i64
  %zero = const 0 : i64
  %lane = rem %n, %warp : i64
  %own = div %n, %warp : i64
  %leads = eq %lane, %zero : bool
  if %leads {{
    scatter.check %s[%own] = %v
    yield
  }} else {{
    yield
  }}
  barrier
  %r = gather.check %s[%own] pad %pad : f64
  scatter.check %y[%n] = %r
}}
",
            number(block)
        ));
        let mut x: Vec<f64> = (0..threads).map(|i| i as f64 + 0.5).collect();
        let mut y = vec![0f64; threads];
        let len = threads as i64;
        run(&kernel, [1; 3], vec![view(&mut x, &[len]), view(&mut y, &[len])]).unwrap();
        let want: Vec<f64> = (0..threads).map(|i| (i / 32 * 32) as f64 + 0.5).collect();
        assert_eq!(y, want, "{block:?}");
    }
}
