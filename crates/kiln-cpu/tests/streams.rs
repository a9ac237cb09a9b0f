//! Stores that may go past the caches, and a stencil through shared memory: edges, conditions that
//! cut blocks, rows that begin and end within lines, blocks wider than a row.

mod device;
use device::*;
use kiln_cpu::CpuBackend;
use kiln_ir::*;

/// A device on which every view is too large for the caches, and one on which none is.
fn devices() -> [CpuBackend; 2] {
    [0, u64::MAX].map(|cached| CpuBackend::with_threads(2).with_blocking(1024, cached))
}

/// `y[i, j] = x[i, j] + 1` in a box of the grid whose rows may be whole lines or not.
#[test]
fn boxes_of_whole_lines_and_of_parts() {
    for (elem, size) in [("u8", 1i64), ("u16", 2), ("u32", 4), ("i64", 8)] {
        for block in [[64, 2, 1], [32, 2, 3], [16, 5, 1], [128, 1, 1], [33, 2, 1]] {
            let kernel = parsed(&format!(
                "kernel @cut(%x: view<i32, 2, global>, %y: mut view<{elem}, 2, global>, %a: i64, %b: i64, %c: i64) thread [{}, {}, {}] {{
{}  %from = ge %j, %a : bool
  %to = lt %j, %b : bool
  %below = ge %i, %c : bool
  %columns = and %from, %to : bool
  %inside = and %columns, %below : bool
  if %inside {{
    %zero = const 0 : i32
    %one = const 1 : i32
    %v = gather.mask %x[%i, %j] pad %zero : i32
    %w = add %v, %one : i32
    %n = cast %w : {elem}
    scatter.mask %y[%i, %j] = %n
    yield
  }} else {{
    yield
  }}
}}
",
                block[0], block[1], block[2], places(block)
            ));
            let [rows, columns] = [9i64, 128];
            for ([a, b], c) in
                [([0, 128], 0), ([64, 128], 3), ([16, 112], 1), ([7, 64], 8), ([5, 5], 0), ([0, 127], 9)]
            {
                // Rows of whole lines, and such that begin within one.
                for stride in [columns, columns + 64, columns + 1] {
                    let mut x: Vec<i32> = (0..(rows * columns) as i32).map(|k| k % 100).collect();
                    let mut y = vec![255u8; (rows * stride * size) as usize];
                    let mut want = y.clone();
                    for (i, j) in (c..rows).flat_map(|i| (a..b).map(move |j| (i, j))) {
                        let bytes = i64::from(x[(i * columns + j) as usize] + 1).to_le_bytes();
                        let at = ((i * stride + j) * size) as usize;
                        want[at..at + size as usize].copy_from_slice(&bytes[..size as usize]);
                    }
                    for device in devices() {
                        y.fill(255);
                        let args = vec![
                            view(&mut x, &[rows, columns]),
                            Arg::View(&mut y, vec![rows, columns], vec![stride, 1]),
                            Arg::Scalar(a as u64),
                            Arg::Scalar(b as u64),
                            Arg::Scalar(c as u64),
                        ];
                        run_on(&device, &kernel, grid(block, rows, columns), args).unwrap();
                        assert_eq!(y, want, "{elem} {block:?} {a}..{b} {c} {stride}");
                    }
                }
            }
        }
    }
}

/// What a block's threads leave each other in shared memory: their points and those around the
/// block, which may lie outside of the view, and after a barrier what they have made of them.
fn stencil([bx, by]: [u32; 2]) -> Kernel {
    let (height, width) = (by + 2, bx + 2);
    let put = |row: &str, column: &str, i: &str, j: &str| {
        format!(
            "    %v = gather.mask %x[{i}, {j}] pad %pad : i32\n    scatter.check %s[{row}, {column}] = %v\n"
        )
    };
    let edge = |name: &str, at: &str, last: &str, put: String| {
        let put = put.replace("%v", &format!("%{name}v"));
        format!(
            "  %{name} = eq {at}, {last} : bool\n  if %{name} {{\n{put}    yield\n  }} else {{\n    yield\n  }}\n"
        )
    };
    parsed(&format!(
        "kernel @stencil(%x: view<i32, 2, global>, %y: mut view<i32, 2, global>) thread [{bx}, {by}, 1] {{
{}  %s = alloc shared i32[{height}, {width}] : view<i32, 2, shared>
  %pad = const -7 : i32
  %zero = const 0 : i64
  %one = const 1 : i64
  %lastrow = const {} : i64
  %lastcolumn = const {} : i64
  %row = add %ty, %one : i64
  %column = add %tx, %one : i64
  %up = sub %i, %one : i64
  %down = add %i, %one : i64
  %left = sub %j, %one : i64
  %right = add %j, %one : i64
{}{}{}{}{}  barrier
  %ru = sub %row, %one : i64
  %rd = add %row, %one : i64
  %cl = sub %column, %one : i64
  %cr = add %column, %one : i64
  %a = gather.check %s[%ru, %column] pad %pad : i32
  %b = gather.check %s[%rd, %column] pad %pad : i32
  %c = gather.check %s[%row, %cl] pad %pad : i32
  %d = gather.check %s[%row, %cr] pad %pad : i32
  %e = gather.check %s[%row, %column] pad %pad : i32
  %ab = add %a, %b : i32
  %cd = sub %c, %d : i32
  %abcd = add %ab, %cd : i32
  %sum = add %abcd, %e : i32
  barrier
  scatter.check %s[%row, %column] = %sum
  barrier
  %near = gather.check %s[%row, %cl] pad %pad : i32
  %out = add %near, %sum : i32
  scatter.mask %y[%i, %j] = %out
}}
",
        places([bx, by, 1]),
        by + 1,
        bx + 1,
        put("%row", "%column", "%i", "%j").replace("%v", "%mid"),
        edge("top", "%row", "%one", put("%zero", "%column", "%up", "%j")),
        edge("bottom", "%row", "%by", put("%lastrow", "%column", "%down", "%j")),
        edge("first", "%column", "%one", put("%row", "%zero", "%i", "%left")),
        edge("last", "%column", "%bx", put("%row", "%lastcolumn", "%i", "%right")),
    ))
}

#[test]
fn a_stencil_through_shared_memory() {
    for block in [[32u32, 8], [16, 4], [33, 3], [5, 7], [64, 2], [8, 1], [1, 9], [3, 2]] {
        let kernel = stencil(block);
        let [bx, by] = block.map(i64::from);
        for [rows, columns] in [[16i64, 64], [17, 130], [8, 32], [1, 1], [3, 31], [40, 7]] {
            let mut x: Vec<i32> = (0..rows * columns).map(|k| (k * k % 1009) as i32 + 1).collect();
            let at = |i: i64, j: i64| {
                let inside = (0..rows).contains(&i) && (0..columns).contains(&j);
                if inside { x[(i * columns + j) as usize] } else { -7 }
            };
            let sum = |i, j| at(i - 1, j) + at(i + 1, j) + at(i, j - 1) - at(i, j + 1) + at(i, j);
            let mut want = Vec::new();
            for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                // The first column of a block has a point from outside of it on its left.
                let near = if j % bx > 0 { sum(i, j - 1) } else { at(i, j - 1) };
                want.push(near + sum(i, j));
            }
            for device in devices() {
                let mut y = vec![i32::MAX; want.len()];
                let grid = grid([bx as u32, by as u32, 1], rows, columns);
                let args = vec![view(&mut x, &[rows, columns]), view(&mut y, &[rows, columns])];
                run_on(&device, &kernel, grid, args).unwrap();
                assert_eq!(y, want, "{block:?} {rows}x{columns}");
            }
        }
    }
}
