//! Sums at indices whose old values nothing reads, and loops whose lanes go on to one end: against
//! plain loops.

mod device;
use device::*;
use kiln_ir::*;

fn parsed(text: &str) -> Kernel {
    parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Keys of which some are outside of `bins` counts.
fn keys(n: usize, bins: i64) -> Vec<i32> {
    random(n, 7).iter().map(|x| ((x + 1.0) * 0.55 * bins as f32) as i32 - 1).collect()
}

fn counted(keys: &[i32], bins: i64) -> Vec<u32> {
    let mut counts = vec![5u32; bins as usize];
    for &key in keys.iter().filter(|&&key| (0..bins).contains(&key.into())) {
        counts[key as usize] += 1;
    }
    counts
}

/// Counts in shared memory, which are added to the view. Each thread takes every `%step`-th key.
fn by_threads(block: u32, bins: i64) -> Kernel {
    parsed(&format!(
        "kernel @count(%x: view<i32, 1, global>, %y: mut view<u32, 1, global>) thread [{block}, 1, 1] {{
  %s = alloc shared u32[{bins}] : view<u32, 1, shared>
  %t = thread_id x : i64
  %bins = const {bins} : i64
  %n = const {block} : i64
  %none = const 0 : u32
  %one = const 1 : u32
  for %i = %t to %bins step %n {{
    scatter.check %s[%i] = %none
    yield
  }}
  barrier
  %p = program_id x : i64
  %programs = num_programs x : i64
  %first = mul %p, %n : i64
  %own = add %first, %t : i64
  %step = mul %programs, %n : i64
  %end = extent %x axis 0 : i64
  for %j = %own to %end step %step {{
    %pad = const 0 : i32
    %key = gather.check %x[%j] pad %pad : i32
    %at = cast %key : i64
    %before = atomic.add.block.mask %s[%at] = %one : u32
    yield
  }}
  barrier
  for %k = %t to %bins step %n {{
    %count = gather.check %s[%k] pad %none : u32
    %seen = atomic.add.device.check %y[%k] = %count : u32
    yield
  }}
}}
"
    ))
}

/// A tile's counts are added to the view.
fn by_tiles(tile: u32, bins: i64) -> Kernel {
    parsed(&format!(
        "kernel @count(%x: view<i32, 1, global>, %y: mut view<u32, 1, global>) tile {{
  %s = alloc shared u32[{bins}] : view<u32, 1, shared>
  %zero = const 0 : i64
  %none = const 0 : u32[{bins}]
  store %s[%zero] = %none
  %p = program_id x : i64
  %n = const {tile} : i64
  %first = mul %p, %n : i64
  %pad = const -1 : i32
  %keys = load %x[%first] pad %pad : i32[{tile}]
  %ones = const 1 : u32[{tile}]
  %before = atomic.add.block.mask %s[%keys] = %ones : u32[{tile}]
  %nothing = const 0 : u32
  %counts = load %s[%zero] pad %nothing : u32[{bins}]
  %at = iota : i64[{bins}]
  %seen = atomic.add.device.mask %y[%at] = %counts : u32[{bins}]
}}
"
    ))
}

#[test]
fn counts_of_keys() {
    for bins in [1i64, 16, 100, 1024, 1025] {
        for n in [0usize, 1, 31, 1000, 20_011] {
            let want = counted(&keys(n, bins), bins);
            for (kernel, each) in [
                (by_threads(32, bins), 32),
                (by_threads(96, bins), 96),
                (by_tiles(64, bins), 64),
                (by_tiles(4096, bins), 4096),
            ] {
                for programs in [n.div_ceil(each).max(1) as u32, 3] {
                    if programs == 3 && kernel.level == TILE {
                        continue;
                    }
                    let (mut x, mut y) = (keys(n, bins), vec![5u32; bins as usize]);
                    let views = [view(&mut x, &[n as i64]), view(&mut y, &[bins])];
                    run(&kernel, [programs, 1, 1], views.into()).unwrap();
                    assert_eq!(y, want, "{bins} bins, {n} keys, {each} a program, {programs} programs");
                }
            }
        }
    }
}

/// A view with other strides is added to where its elements are.
#[test]
fn counts_that_are_apart() {
    let (bins, n) = (16i64, 3000);
    let (mut x, mut y) = (keys(n, bins), vec![5u32; 3 * bins as usize]);
    let views =
        vec![view(&mut x, &[n as i64]), Arg::View(bytemuck::cast_slice_mut(&mut y), vec![bins], vec![3])];
    run(&by_tiles(64, bins), [47, 1, 1], views).unwrap();
    for (i, &want) in counted(&keys(n, bins), bins).iter().enumerate() {
        assert_eq!(y[3 * i..3 * i + 3], [want, 5, 5]);
    }
}

/// What was added before a fault remains, in whichever program it happens.
#[test]
fn counts_before_a_fault_remain() {
    let kernel = parsed(
        "kernel @count(%x: view<i64, 1, global>, %y: mut view<u32, 1, global>) thread [64, 1, 1] {
  %p = program_id x : i64
  %t = thread_id x : i64
  %n = const 64 : i64
  %first = mul %p, %n : i64
  %i = add %first, %t : i64
  %pad = const 0 : i64
  %key = gather.check %x[%i] pad %pad : i64
  %one = const 1 : u32
  %zero = const 0 : i64
  %before = atomic.add.device.check %y[%key] = %one : u32
}
",
    );
    let mut x: Vec<i64> = (0..64 * 200).map(|i| i % 7).collect();
    x[64 * 150 + 20] = 7;
    let mut y = vec![0u32; 7];
    let views = vec![view(&mut x, &[64 * 200]), view(&mut y, &[7])];
    let found = fault(run_on(&kiln_cpu::CpuBackend::with_threads(1), &kernel, [200, 1, 1], views));
    assert_eq!((found.block, found.thread), ([150, 0, 0], Some([20, 0, 0])));
    assert_eq!(y.iter().sum::<u32>(), 64 * 150);
}

/// Counters from `%lo[t]` on, of the threads whose `%lo` is not `i64::MIN`: how many there are, and
/// their sum.
fn counters(from: &str) -> Kernel {
    parsed(&format!(
        "kernel @turns(%lo: view<i64, 1, global>, %y: mut view<i64, 2, global>, %hi: i64, %step: i64) thread [40, 1, 1] {{
  %t = thread_id x : i64
  %pad = const 0 : i64
  %own = gather.check %lo[%t] pad %pad : i64
  %first = gather.check %lo[%pad] pad %pad : i64
  %affine = add %first, %t : i64
  %least = const -9223372036854775808 : i64
  %goes = ne %own, %least : bool
  %one = const 1 : i64
  if %goes {{
    %turns, %sum = for %i = %{from} to %hi step %step carry (%n = %pad, %all = %pad) : i64, i64 {{
      %more = add %n, %one : i64
      %next = add %all, %i : i64
      yield %more, %next
    }}
    scatter.check %y[%t, %pad] = %turns
    scatter.check %y[%t, %one] = %sum
    yield
  }} else {{
    yield
  }}
}}
"
    ))
}

#[test]
fn loops_to_one_end() {
    let far = i64::MAX;
    for (from, lo, hi, step) in [
        ("own", 0i64, 100, 7),
        ("affine", 0, 100, 7),
        ("affine", 3, 20, 1),
        ("affine", -30, -2, 5),
        ("affine", 0, 0, 1),
        ("affine", 5, 100, 0),
        ("affine", 5, 100, -3),
        ("own", 5, 100, -3),
        // Counters that wrap.
        ("affine", far - 60, far - 10, 3),
        ("affine", far - 45, far - 5, 2),
        ("own", far - 60, far, 50),
        ("affine", far - 20, far, far),
        ("own", i64::MIN + 1, far, far - 5),
        ("affine", i64::MIN + 1, far, far),
        ("affine", far - 20, i64::MIN + 30, 4),
    ] {
        let mut begins: Vec<i64> = (0..40).map(|t| lo.wrapping_add(t)).collect();
        begins[11] = i64::MIN;
        let mut y = vec![-1i64; 80];
        let mut args = vec![view(&mut begins, &[40]), view(&mut y, &[40, 2])];
        args.extend([Arg::Scalar(hi as u64), Arg::Scalar(step as u64)]);
        run(&counters(from), [1; 3], args).unwrap();
        for t in 0..40 {
            let begin = lo.wrapping_add(t as i64);
            let mut want = [-1i64, -1];
            if t != 11 && begin != i64::MIN {
                want = [0i64, 0];
                let mut at = i128::from(begin);
                while step > 0 && at < i128::from(hi) {
                    want = [want[0] + 1, want[1].wrapping_add(at as i64)];
                    at += i128::from(step);
                }
            }
            assert_eq!(y[2 * t..2 * t + 2], want, "{from} {lo} {hi} {step}, thread {t}");
        }
    }
}

/// Counts of bytes, in shared memory and in that of all blocks, where all of them have a place and
/// where some have none, of all threads and of some.
#[test]
fn bytes_that_are_counted() {
    let block = 96i64;
    for (bins, bounds, least) in [
        (256i64, "check", 0),
        (256, "mask", 40),
        (300, "mask", 0),
        (100, "mask", 0),
        (100, "mask", 17),
        (100, "check", 0),
    ] {
        for shared in [true, false] {
            let of = if shared { "%s" } else { "%y" };
            let kernel = parsed(&format!(
                "kernel @bytes(%x: view<u8, 1, global>, %y: mut view<u32, 1, global>) thread [{block}, 1, 1] {{
  %s = alloc shared u32[{bins}] : view<u32, 1, shared>
  %t = thread_id x : i64
  %p = program_id x : i64
  %n = const {block} : i64
  %bins = const {bins} : i64
  %least = const {least} : i64
  %none = const 0 : u32
  %one = const 1 : u32
  %pad = const 0 : u8
  for %i = %t to %bins step %n {{
    scatter.check %s[%i] = %none
    yield
  }}
  barrier
  %first = mul %p, %n : i64
  %own = add %first, %t : i64
  %byte = gather.check %x[%own] pad %pad : u8
  %at = cast %byte : i64
  %goes = ge %t, %least : bool
  if %goes {{
    %before = atomic.add.device.{bounds} {of}[%at] = %one : u32
    yield
  }} else {{
    yield
  }}
  barrier
  for %k = %t to %bins step %n {{
    %count = gather.check %s[%k] pad %none : u32
    %seen = atomic.add.device.check %y[%k] = %count : u32
    yield
  }}
}}
"
            ));
            let programs = 20;
            let mut x: Vec<u8> = (0..block * programs).map(|k| (k * k / 7 % 256) as u8).collect();
            let mut want = vec![5u32; bins as usize];
            let counts = |i: usize| i as i64 % block >= least;
            for (_, &byte) in x.iter().enumerate().filter(|&(i, _)| counts(i)) {
                if i64::from(byte) < bins {
                    want[usize::from(byte)] += 1;
                }
            }
            let mut y = vec![5u32; bins as usize];
            let args = vec![view(&mut x, &[block * programs]), view(&mut y, &[bins])];
            let outcome = run(&kernel, [programs as u32, 1, 1], args);
            let what = format!("{bins} {bounds} {least} {shared}");
            match bins < 256 && bounds == "check" {
                true => assert!(outcome.is_err(), "{what}"),
                false => {
                    outcome.unwrap();
                    assert_eq!(y, want, "{what}");
                }
            }
        }
    }
}
