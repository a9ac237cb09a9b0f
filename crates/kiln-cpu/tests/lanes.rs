//! Accesses at indices and under conditions that follow from a thread's place: whole blocks, edges,
//! odd and empty extents, steps and strides of all kinds, indices that wrap.

mod device;
use device::*;
use kiln_cpu::CpuBackend;

const BLOCKS: [[u32; 3]; 8] =
    [[32, 4, 1], [8, 2, 3], [33, 1, 1], [5, 3, 1], [2, 40, 1], [1, 24, 1], [3, 1, 2], [64, 1, 2]];

/// `y[i, j] = x[i + di, j * step + dj]`, with padding outside, of elements of `size` bytes.
fn shifted(elem: &str, size: usize) {
    let pad = if elem.starts_with('f') || elem.starts_with('b') && elem != "bool" { "0.0" } else { "0" };
    let pad = if elem == "bool" { "false" } else { pad };
    for block in BLOCKS {
        let [bx, by, bz] = block;
        let kernel = parsed(&format!(
            "kernel @shifted(%x: view<{elem}, 2, global>, %y: mut view<{elem}, 2, global>, %di: i64, %dj: i64, %step: i64) thread [{bx}, {by}, {bz}] {{
{}  %from = add %i, %di : i64
  %scaled = mul %j, %step : i64
  %at = add %scaled, %dj : i64
  %pad = const {pad} : {elem}
  %v = gather.mask %x[%from, %at] pad %pad : {elem}
  scatter.mask %y[%i, %j] = %v
}}
",
            places(block)
        ));
        for [rows, columns] in [[13i64, 70], [1, 1], [0, 5], [8, 64]] {
            // Rows are apart, and in the last layout so are columns.
            for strides in [[columns, 1], [columns + 3, 1], [2 * columns + 1, 2]] {
                for [di, dj, step] in [
                    [0, 0, 1],
                    [-1, 1, 1],
                    [1, -1, 1],
                    [0, 3, 2],
                    [0, 60, -1],
                    [0, i64::MAX, 1],
                    [i64::MIN, 0, 1],
                    [0, 0, 1 << 40],
                ] {
                    let span = (rows * strides[0]).max(1) as usize + 2;
                    let byte =
                        |k: usize| if elem == "bool" { k.is_multiple_of(3) as u8 } else { (k % 60) as u8 };
                    let mut x: Vec<u8> = (0..span * size).map(byte).collect();
                    let mut y = vec![1u8; span * size];
                    let mut want = y.clone();
                    for i in 0..rows {
                        for j in 0..columns {
                            let (r, c) = (i.wrapping_add(di), j.wrapping_mul(step).wrapping_add(dj));
                            let inside = (0..rows).contains(&r) && (0..columns).contains(&c);
                            let from = inside.then(|| (r * strides[0] + c * strides[1]) as usize * size);
                            let to = (i * strides[0] + j * strides[1]) as usize * size;
                            for k in 0..size {
                                want[to + k] = from.map_or(0, |from| x[from + k]);
                            }
                        }
                    }
                    for device in [0, u64::MAX].map(|c| CpuBackend::with_threads(2).with_blocking(1024, c)) {
                        y.fill(1);
                        let args = vec![
                            Arg::View(&mut x, vec![rows, columns], strides.to_vec()),
                            Arg::View(&mut y, vec![rows, columns], strides.to_vec()),
                            Arg::Scalar(di as u64),
                            Arg::Scalar(dj as u64),
                            Arg::Scalar(step as u64),
                        ];
                        run_on(&device, &kernel, grid(block, rows, columns), args).unwrap();
                        assert_eq!(y, want, "{elem} {block:?} {rows}x{columns} {strides:?} {di} {dj} {step}");
                    }
                }
            }
        }
    }
}

#[test]
fn shifted_elements_of_four_bytes() {
    shifted("i32", 4);
    shifted("f32", 4);
}

#[test]
fn shifted_elements_of_other_sizes() {
    shifted("bool", 1);
    shifted("u8", 1);
    shifted("i8", 1);
    shifted("f16", 2);
    shifted("i64", 8);
}

/// Stores under each comparison of a row and a column, and elsewhere another value.
#[test]
fn conditions_on_places() {
    let holds = |op: &str, a: i64, b: i64| match op {
        "eq" => a == b,
        "ne" => a != b,
        "lt" => a < b,
        "le" => a <= b,
        "gt" => a > b,
        _ => a >= b,
    };
    let (rows, columns) = (9i64, 70i64);
    for block in BLOCKS {
        let [bx, by, bz] = block;
        for (first, second) in
            [("eq", "ge"), ("lt", "ne"), ("ne", "le"), ("gt", "lt"), ("le", "gt"), ("ge", "eq")]
        {
            for combine in ["and", "or"] {
                let kernel = parsed(&format!(
                    "kernel @conditions(%y: mut view<i64, 2, global>, %a: i64, %b: i64) thread [{bx}, {by}, {bz}] {{
{}  %one = {first} %a, %j : bool
  %mirrored = sub %b, %i : i64
  %nought = const 0 : i64
  %two = {second} %mirrored, %nought : bool
  %both = {combine} %one, %two : bool
  %hundred = const 100 : i64
  if %both {{
    %row = mul %i, %hundred : i64
    %v = add %row, %j : i64
    scatter.mask %y[%i, %j] = %v
    yield
  }} else {{
    %u = sub %i, %hundred : i64
    scatter.mask %y[%i, %j] = %u
    yield
  }}
}}
",
                    places(block)
                ));
                for [a, b] in [[0, 0], [33, 4], [69, 8], [-1, 20], [i64::MAX, 3], [5, i64::MIN]] {
                    let mut y = vec![-7i64; (rows * columns) as usize];
                    let mut want = y.clone();
                    for i in 0..rows {
                        for j in 0..columns {
                            let (one, two) = (holds(first, a, j), holds(second, b.wrapping_sub(i), 0));
                            let both = if combine == "and" { one && two } else { one || two };
                            want[(i * columns + j) as usize] = if both { i * 100 + j } else { i - 100 };
                        }
                    }
                    let args =
                        vec![view(&mut y, &[rows, columns]), Arg::Scalar(a as u64), Arg::Scalar(b as u64)];
                    run(&kernel, grid(block, rows, columns), args).unwrap();
                    assert_eq!(y, want, "{block:?} {first} {combine} {second} {a} {b}");
                }
            }
        }
    }
}

/// A fault names the first thread outside, and what was stored before it remains.
#[test]
fn faults_at_places() {
    let kernel = parsed(
        "kernel @faults(%x: view<f32, 1, global>, %y: mut view<f32, 1, global>) thread [40, 1, 1] {
  %t = thread_id x : i64
  %nought = const 0.0 : f32
  %two = const 2 : i64
  %v = gather.mask %x[%t] pad %nought : f32
  scatter.check %y[%t] = %v
  %at = add %t, %two : i64
  %w = gather.check %x[%at] pad %nought : f32
  %s = add %v, %w : f32
  scatter.check %y[%t] = %s
}
",
    );
    for n in [41usize, 42] {
        let mut x: Vec<f32> = (0..n).map(|i| i as f32 + 1.0).collect();
        let mut y = vec![-1f32; 40];
        let outcome = run(&kernel, [1, 1, 1], vec![view(&mut x, &[n as i64]), view(&mut y, &[40])]);
        let faults = n < 42;
        let want = |t: usize| if faults { x[t] } else { x[t] + x[t + 2] };
        assert_eq!(y, (0..40).map(want).collect::<Vec<_>>());
        match faults {
            true => assert_eq!(fault(outcome).thread, Some([39, 0, 0])),
            false => outcome.unwrap(),
        }
    }
}

/// Lanes whose axes are those of a view in another order, fewer, or more.
#[test]
fn boxes_of_other_axes() {
    let block = [8, 4, 1];
    let kernel = parsed(&format!(
        "kernel @turned(%x: view<f32, 2, global>, %d: view<f32, 3, global>, %e: view<f32, 3, global>, %y: mut view<f32, 2, global>, %z: mut view<f32, 2, global>, %n: mut view<f32, 2, global>, %k: i64, %narrow: i32) thread [8, 4, 1] {{
{}  %pad = const -1.0 : f32
  %v = gather.mask %x[%j, %i] pad %pad : f32
  scatter.mask %y[%i, %j] = %v
  %w = gather.mask %d[%k, %i, %j] pad %pad : f32
  scatter.mask %z[%i, %j] = %w
  %u = gather.mask %e[%narrow, %i, %j] pad %pad : f32
  scatter.mask %n[%i, %j] = %u
}}
",
        places(block)
    ));
    let [rows, columns] = [13i64, 21];
    let mut x: Vec<f32> = (0..rows * columns).map(|k| k as f32).collect();
    let mut deep: Vec<f32> = (0..3 * rows * columns).map(|k| k as f32 + 0.5).collect();
    for k in [0i64, 2, 3, -1, i64::MIN] {
        let mut y = vec![7.0f32; (rows * columns) as usize];
        let (mut z, mut n, mut alike) = (y.clone(), y.clone(), x.clone());
        let (mut turned, mut plane) = (y.clone(), z.clone());
        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
            let at = (i * columns + j) as usize;
            let inside = j < rows && i < columns;
            turned[at] = if inside { (j * columns + i) as f32 } else { -1.0 };
            let inside = (0..3).contains(&k);
            plane[at] = if inside { (k * rows * columns) as f32 + at as f32 + 0.5 } else { -1.0 };
        }
        let args = vec![
            view(&mut x, &[rows, columns]),
            view(&mut deep, &[3, rows, columns]),
            // So many planes that a negative number of 32 bits must not become one of them.
            Arg::View(
                bytemuck::cast_slice_mut(&mut alike),
                vec![1 << 33, rows, columns],
                vec![0, columns, 1],
            ),
            view(&mut y, &[rows, columns]),
            view(&mut z, &[rows, columns]),
            view(&mut n, &[rows, columns]),
            Arg::Scalar(k as u64),
            Arg::Scalar(u64::from(k.clamp(-2, 3) as u32)),
        ];
        run(&kernel, grid(block, rows, columns), args).unwrap();
        assert_eq!((y, z), (turned, plane), "plane {k}");
        let same = if k < 0 { vec![-1.0; n.len()] } else { x.clone() };
        assert_eq!(n, same, "plane {k}, as a number of 32 bits");
    }
}

/// Small integers that are loaded, overwritten where they were, and used behind a barrier.
#[test]
fn small_integers_from_before_a_store() {
    for (elem, size) in [("u8", 1), ("i8", 1), ("u16", 2), ("i16", 2), ("i32", 4)] {
        for block in [64, 20, 7, 4, 3] {
            let kernel = parsed(&format!(
                "kernel @before(%x: mut view<{elem}, 1, global>, %y: mut view<{elem}, 1, global>) thread [{block}, 1, 1] {{
  %t = thread_id x : i64
  %one = const 1 : i64
  %next = add %t, %one : i64
  %nine = const 9 : {elem}
  %pad = const 0 : {elem}
  %v = gather.check %x[%next] pad %pad : {elem}
  scatter.check %x[%next] = %nine
  barrier
  scatter.check %y[%t] = %v
}}
"
            ));
            let n = block as usize;
            let mut x: Vec<u8> = (0..(n + 1) * size).map(|k| (k * 37 % 251) as u8).collect();
            let (mut y, want) = (vec![0u8; n * size], x[size..].to_vec());
            let args = vec![
                Arg::View(&mut x, vec![n as i64 + 1], vec![1]),
                Arg::View(&mut y, vec![n as i64], vec![1]),
            ];
            run(&kernel, [1, 1, 1], args).unwrap();
            assert_eq!(y, want, "{elem} {block}");
            let nine = |at: usize| if at.is_multiple_of(size) { 9 } else { 0 };
            assert_eq!(x[size..].to_vec(), (0..n * size).map(nine).collect::<Vec<u8>>());
        }
    }
}

/// Conditions that no thread of a block meets, on each of its axes.
#[test]
fn conditions_without_threads() {
    for (axis, place) in [("x", 8), ("y", 4), ("z", 2), ("x", -1), ("y", -1), ("z", 1i64 << 40)] {
        let kernel = parsed(&format!(
            "kernel @nowhere(%y: mut view<i32, 1, global>) thread [8, 4, 2] {{
  %t = thread_id {axis} : i64
  %place = const {place} : i64
  %twice = add %t, %t : i64
  %scaled = add %place, %t : i64
  %here = eq %twice, %scaled : bool
  %v = const 1 : i32
  if %here {{
    scatter.mask %y[%t] = %v
    yield
  }} else {{
    yield
  }}
}}
"
        ));
        let mut y = vec![7i32; 16];
        run(&kernel, [3, 1, 1], vec![view(&mut y, &[16])]).unwrap();
        assert_eq!(y, [7; 16], "{axis} {place}");
    }
}

/// Loads at an edge in threads that have come to them, some of which ask for none and get the
/// padding.
#[test]
fn loads_of_some_that_have_arrived() {
    for block in [[16u32, 4, 1], [8, 2, 2], [33, 1, 1]] {
        let [bx, by, bz] = block;
        let kernel = parsed(&format!(
            "kernel @some(%x: view<i32, 2, global>, %y: mut view<i32, 2, global>, %a: i64, %b: i64) thread [{bx}, {by}, {bz}] {{
{}  %arrived = ge %j, %a : bool
  if %arrived {{
    %asks = lt %j, %b : bool
    %one = const 1 : i64
    %up = sub %i, %one : i64
    %left = sub %j, %one : i64
    %pad = const -5 : i32
    %all = gather.mask %x[%up, %left] pad %pad : i32
    %some = gather.mask %x[%up, %j] where %asks pad %pad : i32
    %sum = sub %all, %some : i32
    scatter.mask %y[%i, %j] = %sum
    yield
  }} else {{
    yield
  }}
}}
",
            places(block)
        ));
        let [rows, columns] = [7i64, 37];
        let mut x: Vec<i32> = (0..(rows * columns) as i32).map(|k| k * k % 1009).collect();
        for [a, b] in [[0, 37], [0, 20], [3, 17], [16, 16], [36, 0]] {
            let at = |i: i64, j: i64| {
                let inside = (0..rows).contains(&i) && (0..columns).contains(&j);
                if inside { x[(i * columns + j) as usize] } else { -5 }
            };
            let mut want = vec![i32::MIN; x.len()];
            for (i, j) in (0..rows).flat_map(|i| (a..columns).map(move |j| (i, j))) {
                let some = if j < b { at(i - 1, j) } else { -5 };
                want[(i * columns + j) as usize] = at(i - 1, j - 1) - some;
            }
            let mut y = vec![i32::MIN; x.len()];
            let args = vec![
                view(&mut x, &[rows, columns]),
                view(&mut y, &[rows, columns]),
                Arg::Scalar(a as u64),
                Arg::Scalar(b as u64),
            ];
            run(&kernel, grid(block, rows, columns), args).unwrap();
            assert_eq!(y, want, "{block:?} {a} {b}");
        }
    }
}

/// Atomics of a few threads of a block: those inside, or none of them after a fault.
#[test]
fn few_threads_add() {
    for (elem, few) in [("f32", 1), ("f32", 3), ("u32", 3), ("f64", 2), ("u64", 2)] {
        for bounds in ["check", "mask"] {
            let kernel = parsed(&format!(
                "kernel @few(%y: mut view<{elem}, 1, global>) thread [64, 1, 1] {{
  %t = thread_id x : i64
  %p = program_id x : i64
  %most = const {few} : i64
  %few = lt %t, %most : bool
  %two = const 2 : i64
  %step = mul %t, %two : i64
  %at = add %p, %step : i64
  %one = const 1 : i64
  %number = add %t, %one : i64
  %v = cast %number : {elem}
  if %few {{
    %old = atomic.add.device.{bounds} %y[%at] = %v : {elem}
    yield
  }} else {{
    yield
  }}
}}
"
            ));
            for (n, programs) in [(16usize, 5u32), (4, 1), (4, 3), (1, 2), (0, 2)] {
                let places =
                    || (0..programs as usize).flat_map(|p| (0..few).map(move |t| (p + 2 * t, t + 1)));
                let faults = bounds == "check" && places().any(|(at, _)| at >= n);
                let mut want = vec![5.0f64; n];
                places().filter(|&(at, _)| at < n).for_each(|(at, number)| want[at] += number as f64);
                let bytes = |values: &[f64]| -> Vec<u8> {
                    let one = |v: &f64| match elem {
                        "f32" => (*v as f32).to_le_bytes().to_vec(),
                        "u32" => (*v as u32).to_le_bytes().to_vec(),
                        "f64" => v.to_le_bytes().to_vec(),
                        _ => (*v as u64).to_le_bytes().to_vec(),
                    };
                    values.iter().flat_map(one).collect()
                };
                let before = bytes(&vec![5.0; n]);
                let mut y = before.clone();
                let args = vec![Arg::View(&mut y, vec![n as i64], vec![1])];
                let outcome = run(&kernel, [programs, 1, 1], args);
                let what = format!("{elem} {few} {bounds} {n} {programs}");
                assert_eq!(outcome.is_err(), faults, "{what}: {outcome:?}");
                if !faults {
                    assert_eq!(y, bytes(&want), "{what}");
                } else if programs == 1 {
                    assert_eq!(y, before, "{what}: a fault leaves nothing of the atomic");
                }
            }
        }
    }
}
