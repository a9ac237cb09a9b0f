//! Whole programs, of the kinds that users write.

use crate::harness::*;
use kiln_ir::*;

fn pseudo_random(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

fn assert_close(got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        assert!((f64::from(g) - w).abs() <= tolerance * w.abs().max(1.0), "element {i}: {g}, expected {w}");
    }
}

/// The offset of a program's block on an axis.
fn block_start(b: &mut Builder, axis: Axis, size: i64) -> Value {
    let pid = b.program_id(axis);
    let size = b.index(size);
    b.binary(BinaryOp::Mul, pid, size)
}

#[test]
fn vector_add_over_tiles() {
    let kernel = tiles(&[P::View(Scalar::F32, 1); 3], |b, p| {
        let at = block_start(b, Axis::X, 64);
        let zero = b.f32(0.0);
        let x = b.load(p[0], &[at], zero, Shape::new(&[64]), Reuse::Normal);
        let y = b.load(p[1], &[at], zero, Shape::new(&[64]), Reuse::Normal);
        let sum = b.binary(BinaryOp::Add, x, y);
        b.store(p[2], &[at], sum, Reuse::Normal, true);
    });
    let host = Host::sanitizing();
    for n in [1, 63, 64, 65, 1000] {
        let (x, y) = (pseudo_random(n, 1), pseudo_random(n, 2));
        let out = host.uninit(4 * n, &[n]);
        let grid = [n.div_ceil(64) as u32, 1, 1];
        host.run(&kernel, grid, &args(&[&host.vector(&x), &host.vector(&y), &out])).unwrap();
        let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
        assert_eq!(host.read::<f32>(&out), want);
    }
}

#[test]
fn softmax_over_tiles() {
    let (rows, columns, block) = (5, 37, 64);
    let kernel = tiles(&[P::View(Scalar::F32, 2); 2], |b, p| {
        let row = b.program_id(Axis::X);
        let zero = b.index(0);
        let shape = Shape::new(&[1, block]);
        let low = b.f32(f32::NEG_INFINITY);
        let x = b.load(p[0], &[row, zero], low, shape.clone(), Reuse::Normal);
        let max = b.reduce(ReduceOp::Max, 1, x);
        let max = b.reshape(max, Shape::new(&[1, 1]));
        let max = b.broadcast(max, shape.clone());
        let shifted = b.binary(BinaryOp::Sub, x, max);
        let e = b.unary(UnaryOp::Math(MathFn::Exp), shifted);
        let sum = b.reduce(ReduceOp::Sum, 1, e);
        let sum = b.reshape(sum, Shape::scalar());
        let sum = b.broadcast(sum, shape);
        let y = b.binary(BinaryOp::Div, e, sum);
        b.store(p[1], &[row, zero], y, Reuse::Normal, true);
    });
    let data = pseudo_random(rows * columns, 3);
    let host = Host::sanitizing();
    let (x, y) = (host.buffer(&data, &[rows, columns]), host.uninit(rows * columns * 4, &[rows, columns]));
    host.run(&kernel, [rows as u32, 1, 1], &args(&[&x, &y])).unwrap();
    let want: Vec<f64> = data
        .chunks(columns)
        .flat_map(|row| {
            let e: Vec<f64> = row.iter().map(|&v| f64::from(v).exp()).collect();
            let sum: f64 = e.iter().sum();
            e.into_iter().map(move |v| v / sum)
        })
        .collect();
    assert_close(&host.read(&y), &want, 1e-6);
}

/// C = A · B with 16 by 16 tiles of C and steps of 8 in k.
fn matmul() -> Kernel {
    tiles(&[P::View(Scalar::F32, 2); 3], |b, p| {
        let (row, column) = (block_start(b, Axis::Y, 16), block_start(b, Axis::X, 16));
        let k = b.extent(p[0], 1);
        let (zero, step) = (b.index(0), b.index(8));
        let pad = b.f32(0.0);
        let acc = b.splat(Literal::f32(0.0), Shape::new(&[16, 16]));
        let acc = b.for_([zero, k, step], &[acc], |b, at, carried| {
            let x = b.load(p[0], &[row, at], pad, Shape::new(&[16, 8]), Reuse::Normal);
            let y = b.load(p[1], &[at, column], pad, Shape::new(&[8, 16]), Reuse::Normal);
            vec![b.dot(x, y, carried[0])]
        });
        b.store(p[2], &[row, column], acc[0], Reuse::Normal, true);
    })
}

#[test]
fn matmul_over_tiles() {
    let kernel = matmul();
    let host = Host::sanitizing();
    for (m, k, n) in [(1, 1, 1), (16, 16, 16), (17, 23, 31), (33, 5, 8)] {
        let (a, b) = (pseudo_random(m * k, 4), pseudo_random(k * n, 5));
        let out = host.uninit(m * n * 4, &[m, n]);
        let grid = [n.div_ceil(16) as u32, m.div_ceil(16) as u32, 1];
        host.run(&kernel, grid, &args(&[&host.buffer(&a, &[m, k]), &host.buffer(&b, &[k, n]), &out]))
            .unwrap();
        let mut want = vec![0f64; m * n];
        for i in 0..m {
            for j in 0..n {
                want[i * n + j] = (0..k).map(|x| f64::from(a[i * k + x]) * f64::from(b[x * n + j])).sum();
            }
        }
        assert_close(&host.read(&out), &want, 1e-6);
    }
}

/// Sums blocks of 128 elements by a tree in shared memory.
#[test]
fn reduction_by_threads_in_shared_memory() {
    let kernel = threads(128, &[P::View(Scalar::F32, 1); 2], |b, p| {
        let tid = b.thread_id(Axis::X);
        let pid = b.program_id(Axis::X);
        let n = b.block_dim(Axis::X);
        let start = b.binary(BinaryOp::Mul, pid, n);
        let at = b.binary(BinaryOp::Add, start, tid);
        let zero = b.f32(0.0);
        let value = b.gather(p[0], &[at], None, zero, Bounds::Mask);
        let shared = b.alloc(Space::Shared, Scalar::F32, Shape::new(&[128]));
        b.store_at(shared, tid, value);
        b.op(OpKind::Barrier, &[], &[]);
        let half = b.index(64);
        b.while_(
            &[half],
            |b, c| {
                let zero = b.index(0);
                b.compare(CompareOp::Gt, c[0], zero)
            },
            |b, c| {
                let low = b.compare(CompareOp::Lt, tid, c[0]);
                b.if_(
                    low,
                    &[],
                    |b| {
                        let other = b.binary(BinaryOp::Add, tid, c[0]);
                        let (mine, theirs) = (b.load_at(shared, tid), b.load_at(shared, other));
                        let sum = b.binary(BinaryOp::Add, mine, theirs);
                        b.store_at(shared, tid, sum);
                        vec![]
                    },
                    |_| vec![],
                );
                b.op(OpKind::Barrier, &[], &[]);
                let one = b.index(1);
                vec![b.binary(BinaryOp::Shr, c[0], one)]
            },
        );
        let first = b.index(0);
        let is_first = b.compare(CompareOp::Eq, tid, first);
        b.if_(
            is_first,
            &[],
            |b| {
                let sum = b.load_at(shared, first);
                b.store_at(p[1], pid, sum);
                vec![]
            },
            |_| vec![],
        );
    });
    let host = Host::sanitizing();
    let data = pseudo_random(1000, 6);
    let out = host.uninit(32, &[8]);
    host.run(&kernel, [8, 1, 1], &args(&[&host.vector(&data), &out])).unwrap();
    let want: Vec<f64> = data.chunks(128).map(|c| c.iter().map(|&v| f64::from(v)).sum()).collect();
    assert_close(&host.read(&out), &want, 1e-5);
}

/// A warp sums by a butterfly of shuffles.
#[test]
fn reduction_by_shuffles() {
    let kernel = threads(64, &[P::View(Scalar::F32, 1); 2], |b, p| {
        let tid = b.thread_id(Axis::X);
        let mut value = b.load_at(p[0], tid);
        for lane in [16, 8, 4, 2, 1] {
            let lane = b.index(lane);
            let op = b.op(OpKind::Shuffle(ShuffleMode::Xor), &[value, lane], &[Type::scalar(Scalar::F32)]);
            let other = b.kernel.result(op);
            value = b.binary(BinaryOp::Add, value, other);
        }
        b.store_at(p[1], tid, value);
    });
    let host = Host::sanitizing();
    let data: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let out = host.uninit(256, &[64]);
    host.run(&kernel, [1; 3], &args(&[&host.vector(&data), &out])).unwrap();
    assert_eq!(host.read::<f32>(&out), [vec![496.0; 32], vec![1520.0; 32]].concat());
}

/// A step of training a 64-128-10 perceptron on 1437 digits is three products of this size; with
/// their loads they must stay near a second even in a debug build; a busy machine may take many
/// times that.
#[test]
fn fast_enough_to_train_a_small_network() {
    let (m, k, n) = (1437, 64, 128);
    let host = Host::new();
    let (a, b) = (pseudo_random(m * k, 7), pseudo_random(k * n, 8));
    let out = host.uninit(m * n * 4, &[m, n]);
    let grid = [n.div_ceil(16) as u32, m.div_ceil(16) as u32, 1];
    let start = std::time::Instant::now();
    host.run(&matmul(), grid, &args(&[&host.buffer(&a, &[m, k]), &host.buffer(&b, &[k, n]), &out])).unwrap();
    let took = start.elapsed();
    assert!(took.as_secs_f64() < 1200.0, "{took:?}");
    eprintln!("{:.0} M multiply-adds a second", (m * k * n) as f64 / took.as_secs_f64() / 1e6);
}
