//! Thread-level kernels on the CPU against independent references.

mod device;
use device::*;
use kiln_ir::*;

fn parsed(text: &str) -> Kernel {
    parse(text).unwrap_or_else(|e| panic!("{e}"))
}

/// Sums blocks of 128 in shared memory, by halving the number of active threads.
#[test]
fn reduction_in_shared_memory() {
    let kernel = parsed(
        "kernel @reduce(%x: view<f32, 1, global>, %y: mut view<f32, 1, global>) thread [128, 1, 1] {
  %tid = thread_id x : i64
  %pid = program_id x : i64
  %dim = block_dim x : i64
  %first = mul %pid, %dim : i64
  %i = add %first, %tid : i64
  %zero = const 0.0 : f32
  %s = alloc shared f32[128] : view<f32, 1, shared>
  %v = gather.mask %x[%i] pad %zero : f32
  scatter.trust %s[%tid] = %v
  barrier
  %half = const 64 : i64
  %one = const 1 : i64
  %nought = const 0 : i64
  %last = while (%n = %half) : i64 {
    %more = gt %n, %nought : bool
    condition %more
  } do (%m) {
    %works = lt %tid, %m : bool
    if %works {
      %other = add %tid, %m : i64
      %a = gather.trust %s[%tid] pad %zero : f32
      %b = gather.trust %s[%other] pad %zero : f32
      %c = add %a, %b : f32
      scatter.trust %s[%tid] = %c
      yield
    } else {
      yield
    }
    barrier
    %next = shr %m, %one : i64
    yield %next
  }
  %is_first = eq %tid, %nought : bool
  if %is_first {
    %sum = gather.trust %s[%nought] pad %zero : f32
    scatter.check %y[%pid] = %sum
    yield
  } else {
    yield
  }
}
",
    );
    let n = 1000usize;
    let mut x: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let mut y = vec![f32::NAN; n.div_ceil(128)];
    let want: Vec<f32> = x.chunks(128).map(|c| c.iter().sum()).collect();
    let blocks = y.len();
    run(&kernel, [blocks as u32, 1, 1], vec![view(&mut x, &[n as i64]), view(&mut y, &[blocks as i64])])
        .unwrap();
    assert_eq!(y, want);
}

/// Every thread runs a loop of its own length: Collatz steps.
#[test]
fn loops_of_different_lengths() {
    let kernel = parsed(
        "kernel @collatz(%y: mut view<i64, 1, global>) thread [100, 1, 1] {
  %tid = thread_id x : i64
  %one = const 1 : i64
  %two = const 2 : i64
  %three = const 3 : i64
  %nought = const 0 : i64
  %start = add %tid, %one : i64
  %x, %steps = while (%n = %start, %k = %nought) : i64, i64 {
    %goes = ne %n, %one : bool
    condition %goes
  } do (%m, %j) {
    %rest = rem %m, %two : i64
    %even = eq %rest, %nought : bool
    %next = if %even : i64 {
      %h = div %m, %two : i64
      yield %h
    } else {
      %t = mul %m, %three : i64
      %u = add %t, %one : i64
      yield %u
    }
    %i = add %j, %one : i64
    yield %next, %i
  }
  scatter.check %y[%tid] = %steps
}
",
    );
    let mut y = vec![-1i64; 100];
    let steps = |mut n: u64| {
        let mut k = 0;
        while n != 1 {
            n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
            k += 1;
        }
        k
    };
    let want: Vec<i64> = (1..=100).map(steps).collect();
    run(&kernel, [1, 1, 1], vec![view(&mut y, &[100])]).unwrap();
    assert_eq!(y, want);
}

/// Shuffles and votes in a block whose last warp is not full.
#[test]
fn shuffles_and_votes() {
    let kernel = parsed(
        "kernel @warp(%y: mut view<i64, 2, global>) thread [40, 1, 1] {
  %tid = thread_id x : i64
  %one = const 1 : i64
  %three = const 3 : i64
  %nought = const 0 : i64
  %down = shuffle.down %tid, %one : i64
  %xor = shuffle.xor %tid, %three : i64
  %rest = rem %tid, %three : i64
  %third = eq %rest, %nought : bool
  %ballot = vote.ballot %third : u32
  %bits = cast %ballot : i64
  %any = vote.any %third : bool
  %all = vote.all %third : bool
  %a = cast %any : i64
  %b = cast %all : i64
  %two = const 2 : i64
  %c = mul %a, %two : i64
  %d = add %c, %b : i64
  scatter.check %y[%nought, %tid] = %down
  scatter.check %y[%one, %tid] = %xor
  scatter.check %y[%two, %tid] = %bits
  scatter.check %y[%three, %tid] = %d
}
",
    );
    let mut y = vec![-1i64; 160];
    run(&kernel, [1, 1, 1], vec![view(&mut y, &[4, 40])]).unwrap();
    for tid in 0..40i64 {
        let (warp, lanes) = (tid / 32 * 32, if tid < 32 { 32 } else { 8 });
        let exists = |lane: i64| (0..lanes).contains(&lane);
        let from = |lane: i64| if exists(lane) { warp + lane } else { tid };
        let ballot = (0..lanes).filter(|l| (warp + l) % 3 == 0).fold(0i64, |b, l| b | 1 << l);
        let t = tid as usize;
        assert_eq!(y[t], from(tid % 32 + 1), "down {tid}");
        assert_eq!(y[40 + t], from((tid % 32) ^ 3), "xor {tid}");
        assert_eq!((y[80 + t], y[120 + t]), (ballot, 2), "votes {tid}");
    }
}

#[test]
fn atomics_from_every_thread_of_every_block() {
    let kernel = parsed(
        "kernel @histogram(%x: view<i32, 1, global>, %h: mut view<u32, 1, global>) thread [64, 1, 1] {
  %tid = thread_id x : i64
  %pid = program_id x : i64
  %dim = block_dim x : i64
  %first = mul %pid, %dim : i64
  %i = add %first, %tid : i64
  %n = extent %x axis 0 : i64
  %inside = lt %i, %n : bool
  if %inside {
    %pad = const 0 : i32
    %bin = gather.check %x[%i] pad %pad : i32
    %one = const 1 : u32
    %old = atomic.add.device.check %h[%bin] = %one : u32
    yield
  } else {
    yield
  }
}
",
    );
    let n = 10_000usize;
    let mut x: Vec<i32> = (0..n).map(|i| (i * i % 7) as i32).collect();
    let mut h = vec![0u32; 7];
    let mut want = vec![0u32; 7];
    x.iter().for_each(|&b| want[b as usize] += 1);
    run(&kernel, [157, 1, 1], vec![view(&mut x, &[n as i64]), view(&mut h, &[7])]).unwrap();
    assert_eq!(h, want);
}

/// Adjacent elements, whole blocks and a last one that is not, read and written through one view.
#[test]
fn adjacent_elements() {
    let kernel = parsed(
        "kernel @saxpy(%x: view<f32, 1, global>, %y: mut view<f32, 2, global>, %a: f32) thread [96, 1, 1] {
  %tid = thread_id x : i64
  %pid = program_id x : i64
  %dim = block_dim x : i64
  %first = mul %pid, %dim : i64
  %i = add %first, %tid : i64
  %n = extent %y axis 1 : i64
  %inside = lt %i, %n : bool
  if %inside {
    %pad = const 0.0 : f32
    %row = const 1 : i64
    %one = const 1 : i64
    %after = add %i, %one : i64
    %v = gather.mask %x[%after] pad %pad : f32
    %w = gather.check %y[%row, %i] pad %pad : f32
    %r = fma %v, %a, %w : f32
    scatter.check %y[%row, %i] = %r
    yield
  } else {
    yield
  }
}
",
    );
    for n in [1usize, 95, 96, 97, 1000] {
        let mut x = random(n, 21);
        let mut y = random(2 * n, 22);
        let mut want = y.clone();
        for i in 0..n {
            want[n + i] = x.get(i + 1).copied().unwrap_or(0.0).mul_add(3.0, want[n + i]);
        }
        let args = vec![
            view(&mut x, &[n as i64]),
            view(&mut y, &[2, n as i64]),
            Arg::Scalar(3.0f32.to_bits().into()),
        ];
        run(&kernel, [(n as u32).div_ceil(96), 1, 1], args).unwrap();
        assert_eq!(y, want, "{n}");
    }
}
