//! Tile-level kernels on the CPU against independent references.

mod device;
use device::*;
use kiln_ir::*;

fn shape(extents: &[u32]) -> Shape {
    Shape::new(extents)
}

fn zero(b: &mut Builder<'_>) -> Value {
    b.constant(Literal::f32(0.0))
}

fn offset(b: &mut Builder<'_>, block: u32) -> Value {
    let (pid, block) = (b.program_id(Axis::X), b.index(block.into()));
    b.binary(BinaryOp::Mul, pid, block)
}

#[test]
fn add_at_odd_sizes() {
    for block in [1u32, 64, 1000, 4096, 5000] {
        let (mut k, p) = kernel("add", TILE, &[(Scalar::F32, 1); 3]);
        let mut b = Builder::new(&mut k);
        let at = offset(&mut b, block);
        let pad = zero(&mut b);
        let x = b.load(p[0], &[at], pad, shape(&[block]), Reuse::Normal);
        let y = b.load(p[1], &[at], pad, shape(&[block]), Reuse::Normal);
        let z = b.binary(BinaryOp::Add, x, y);
        b.store(p[2], &[at], z, Reuse::Normal, true);
        for n in [0usize, 1, 63, 4096, 10_007] {
            let (mut x, mut y) = (random(n, 1), random(n, 2));
            let mut z = vec![f32::NAN; n];
            let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
            let e = [n as i64];
            let grid = [(n as u32).div_ceil(block), 1, 1];
            run(&k, grid, vec![view(&mut x, &e), view(&mut y, &e), view(&mut z, &e)]).unwrap();
            assert_eq!(z, want, "{n} by {block}");
        }
    }
}

/// Outputs that do not fit the caches are written past them, chunk by chunk or whole; smaller ones
/// are not.
#[test]
fn streamed_stores_of_large_and_small_outputs() {
    let cpu = kiln_cpu::CpuBackend::with_threads(2);
    let large = (kiln_backend::Backend::properties(&cpu).cache as usize).max(32 << 20) / 2 / 4 + 12_345;
    for block in [1000u32, 4096, 5000] {
        // One output is made where it belongs, the other is a copy.
        let (mut k, p) = kernel("twice", TILE, &[(Scalar::F32, 1); 3]);
        let mut b = Builder::new(&mut k);
        let at = offset(&mut b, block);
        let pad = zero(&mut b);
        let x = b.load(p[0], &[at], pad, shape(&[block]), Reuse::Streaming);
        b.store(p[1], &[at], x, Reuse::Streaming, true);
        let y = b.binary(BinaryOp::Add, x, x);
        let z = b.binary(BinaryOp::Mul, y, x);
        b.store(p[2], &[at], z, Reuse::Streaming, true);
        for n in [100usize, 10_007, large] {
            let mut x = random(n, 3);
            let (mut y, mut z) = (vec![f32::NAN; n + 3], vec![f32::NAN; n + 3]);
            let e = [n as i64];
            let grid = [(n as u32).div_ceil(block), 1, 1];
            run_on(&cpu, &k, grid, vec![view(&mut x, &e), view(&mut y, &e), view(&mut z, &e)]).unwrap();
            assert!(y[..n] == x[..], "copy of {n} by {block}");
            assert!(z[..n].iter().zip(&x).all(|(z, x)| *z == (x + x) * x), "{n} by {block}");
            assert!(y[n..].iter().chain(&z[n..]).all(|v| v.is_nan()), "{n} by {block}: beyond the end");
        }
    }
}

/// The value of a streamed store under another shape, over more elements than are worked on at a
/// time, in boxes that the view does not fill: a row of a matrix, as `y.row(r).tile(0, block)` is.
/// (The conformance suite ran no kernel of the library that normalizes rows, and no streamed store
/// of a row longer than 1024.)
#[test]
fn streamed_stores_of_rows() {
    for (block, widths) in [(2048u32, [1025usize, 1500, 2047, 2048]), (1000, [1, 999, 1000, 1001])] {
        for reuse in [Reuse::Normal, Reuse::Streaming] {
            let (mut k, p) = kernel("rows", TILE, &[(Scalar::F32, 2); 2]);
            let mut b = Builder::new(&mut k);
            let (row, first, pad) = (b.program_id(Axis::X), b.index(0), zero(&mut b));
            let x = b.load(p[0], &[row, first], pad, shape(&[1, block]), reuse);
            let x = b.reshape(x, shape(&[block]));
            let y = b.binary(BinaryOp::Add, x, x);
            let y = b.reshape(y, shape(&[1, block]));
            b.store(p[1], &[row, first], y, reuse, true);
            for width in widths {
                let mut x = random(3 * width, 4);
                let mut y = vec![f32::NAN; 3 * width];
                let e = [3, width as i64];
                run(&k, [3, 1, 1], vec![view(&mut x, &e), view(&mut y, &e)]).unwrap();
                let within = |i: &usize| i % width < block as usize;
                let wrong = (0..3 * width).filter(within).find(|&i| y[i] != 2.0 * x[i]);
                assert_eq!(wrong, None, "{width} by {block}, {reuse:?}");
            }
        }
    }
}

/// A value that cannot be made where it is stored, since what it is made from lies there, over more
/// elements than are worked on at a time.
#[test]
fn stores_over_what_was_loaded() {
    for block in [1000u32, 2047, 5000] {
        let (mut k, p) = kernel("shifted", TILE, &[(Scalar::F32, 1)]);
        let mut b = Builder::new(&mut k);
        let (first, second, pad) = (b.index(0), b.index(1), zero(&mut b));
        let x = b.load(p[0], &[first], pad, shape(&[block]), Reuse::Normal);
        let y = b.binary(BinaryOp::Add, x, x);
        b.store(p[0], &[second], y, Reuse::Normal, true);
        let n = block as usize + 1;
        let before = random(n, 5);
        let mut x = before.clone();
        run(&k, [1, 1, 1], vec![view(&mut x, &[n as i64])]).unwrap();
        let wrong = (0..n).find(|&i| x[i] != if i == 0 { before[0] } else { 2.0 * before[i - 1] });
        assert_eq!(wrong, None, "{block}");
    }
}

/// A value that is stored and read again before it dies: what is made after that must not take its
/// memory before it is copied to the view.
#[test]
fn stores_of_values_that_are_used_again() {
    for block in [5u32, 1000, 5000] {
        let (mut k, p) = kernel("again", TILE, &[(Scalar::F32, 1); 3]);
        let mut b = Builder::new(&mut k);
        let (first, pad) = (b.index(0), zero(&mut b));
        let x = b.load(p[0], &[first], pad, shape(&[block]), Reuse::Normal);
        let y = b.binary(BinaryOp::Add, x, x);
        b.store(p[1], &[first], y, Reuse::Normal, true);
        let twice = b.binary(BinaryOp::Add, y, y);
        let more = b.binary(BinaryOp::Mul, twice, x);
        let most = b.binary(BinaryOp::Sub, more, x);
        b.store(p[2], &[first], most, Reuse::Normal, true);
        let n = block as usize;
        let mut x = random(n, 6);
        let (mut y, mut z) = (vec![f32::NAN; n], vec![f32::NAN; n]);
        let e = [n as i64];
        run(&k, [1, 1, 1], vec![view(&mut x, &e), view(&mut y, &e), view(&mut z, &e)]).unwrap();
        let wrong = (0..n).find(|&i| y[i] != 2.0 * x[i] || z[i] != 4.0 * x[i] * x[i] - x[i]);
        assert_eq!(wrong, None, "{block}");
    }
}

fn chain(block: u32) -> Kernel {
    let (mut k, p) = kernel("chain", TILE, &[(Scalar::F32, 1); 3]);
    let mut b = Builder::new(&mut k);
    let at = offset(&mut b, block);
    let pad = zero(&mut b);
    let x = b.load(p[0], &[at], pad, shape(&[block]), Reuse::Normal);
    let y = b.load(p[1], &[at], pad, shape(&[block]), Reuse::Normal);
    let xy = b.binary(BinaryOp::Mul, x, y);
    let s = b.binary(BinaryOp::Add, xy, x);
    let zeros = b.splat(Literal::f32(0.0), shape(&[block]));
    let r = b.binary(BinaryOp::Max, s, zeros);
    let half = b.splat(Literal::f32(0.5), shape(&[block]));
    let h = b.binary(BinaryOp::Mul, r, half);
    let t = b.unary(UnaryOp::Math(MathFn::Tanh), y);
    let z = b.binary(BinaryOp::Add, h, t);
    b.store(p[2], &[at], z, Reuse::Normal, true);
    k
}

#[test]
fn fused_chain() {
    for block in [512, 2048, 8192, 10_000] {
        let k = chain(block);
        let n = 50_001;
        let (mut x, mut y) = (random(n, 3), random(n, 4));
        let mut z = vec![f32::NAN; n];
        let want: Vec<f32> =
            x.iter().zip(&y).map(|(x, y)| (x * y + x).max(0.0) * 0.5 + (*y as f64).tanh() as f32).collect();
        let e = [n as i64];
        let grid = [(n as u32).div_ceil(block), 1, 1];
        run(&k, grid, vec![view(&mut x, &e), view(&mut y, &e), view(&mut z, &e)]).unwrap();
        close(&z, &want, 1e-6);
    }
}

#[test]
fn softmax_of_rows() {
    let block = 4096;
    let (mut k, p) = kernel("softmax", TILE, &[(Scalar::F32, 2); 2]);
    let mut b = Builder::new(&mut k);
    let row = b.program_id(Axis::X);
    let (first, pad) = (b.index(0), b.constant(Literal::f32(f32::NEG_INFINITY)));
    let v = b.load(p[0], &[row, first], pad, shape(&[1, block]), Reuse::Normal);
    let v = b.reshape(v, shape(&[block]));
    let m = b.reduce(ReduceOp::Max, 0, v);
    let m = b.broadcast(m, shape(&[block]));
    let d = b.binary(BinaryOp::Sub, v, m);
    let e = b.unary(UnaryOp::Math(MathFn::Exp), d);
    let s = b.reduce(ReduceOp::Sum, 0, e);
    let s = b.broadcast(s, shape(&[block]));
    let q = b.binary(BinaryOp::Div, e, s);
    let q = b.reshape(q, shape(&[1, block]));
    b.store(p[1], &[row, first], q, Reuse::Normal, true);
    for n in [1usize, 1000, 4000, 4096] {
        let rows = 37;
        let mut x = random(rows * n, 5);
        let mut y = vec![f32::NAN; rows * n];
        let mut want = Vec::new();
        for row in x.chunks(n) {
            let max = row.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b)) as f64;
            let sum: f64 = row.iter().map(|&v| (v as f64 - max).exp()).sum();
            want.extend(row.iter().map(|&v| ((v as f64 - max).exp() / sum) as f32));
        }
        let e = [rows as i64, n as i64];
        run(&k, [rows as u32, 1, 1], vec![view(&mut x, &e), view(&mut y, &e)]).unwrap();
        close(&y, &want, 1e-6);
    }
}

#[test]
fn sum_with_atomics_over_programs() {
    let block = 3000;
    let (mut k, p) = kernel("sum", TILE, &[(Scalar::F32, 1), (Scalar::F32, 1)]);
    let mut b = Builder::new(&mut k);
    let at = offset(&mut b, block);
    let pad = zero(&mut b);
    let x = b.load(p[0], &[at], pad, shape(&[block]), Reuse::Normal);
    let s = b.reduce(ReduceOp::Sum, 0, x);
    let first = b.index(0);
    let kind =
        OpKind::Atomic { op: AtomicOp::Add, scope: Scope::Device, bounds: Bounds::Check, masked: false };
    b.op(kind, &[p[1], first, s], &[Type::scalar(Scalar::F32)]);
    let n = 1_000_003;
    let mut x = random(n, 6);
    let want: f64 = x.iter().map(|&v| v as f64).sum();
    let mut total = [0.0f32];
    run(&k, [(n as u32).div_ceil(block), 1, 1], vec![view(&mut x, &[n as i64]), view(&mut total, &[1])])
        .unwrap();
    assert!((total[0] as f64 - want).abs() < 1e-2, "{} {want}", total[0]);
}

fn matmul(m: u32, n: u32, k: u32) -> Kernel {
    let (mut kernel, p) = kernel("matmul", TILE, &[(Scalar::F32, 2); 3]);
    let mut b = Builder::new(&mut kernel);
    let (pi, pj) = (b.program_id(Axis::Y), b.program_id(Axis::X));
    let (tm, tn, tk) = (b.index(m.into()), b.index(n.into()), b.index(k.into()));
    let (i, j) = (b.binary(BinaryOp::Mul, pi, tm), b.binary(BinaryOp::Mul, pj, tn));
    let (pad, lo, inner) = (zero(&mut b), b.index(0), b.extent(p[0], 1));
    let init = b.splat(Literal::f32(0.0), shape(&[m, n]));
    let acc = Type::tile(Scalar::F32, shape(&[m, n]));
    let body = b.kernel.add_block();
    let at = b.kernel.add_arg(body, Type::scalar(Scalar::I64));
    let carried = b.kernel.add_arg(body, acc.clone());
    let outer = b.block;
    b.block = body;
    let x = b.load(p[0], &[i, at], pad, shape(&[m, k]), Reuse::Normal);
    let y = b.load(p[1], &[at, j], pad, shape(&[k, n]), Reuse::Normal);
    let next = b.dot(x, y, carried);
    b.yield_(&[next]);
    b.block = outer;
    let loc = b.loc;
    let op = b.kernel.append(outer, OpKind::For, &[lo, inner, tk, init], &[acc], &[body], loc);
    let result = b.kernel.result(op);
    b.store(p[2], &[i, j], result, Reuse::Normal, true);
    kernel
}

#[test]
fn matmul_with_edges() {
    for (tm, tn, tk) in [(16, 16, 16), (64, 32, 48), (33, 17, 5)] {
        let kernel = matmul(tm, tn, tk);
        let (m, n, k) = (70usize, 65, 90);
        let (mut a, mut b) = (random(m * k, 7), random(k * n, 8));
        let mut c = vec![f32::NAN; m * n];
        let mut want = vec![0.0; m * n];
        for i in 0..m {
            for j in 0..n {
                want[i * n + j] =
                    (0..k).map(|l| a[i * k + l] as f64 * b[l * n + j] as f64).sum::<f64>() as f32;
            }
        }
        let grid = [(n as u32).div_ceil(tn), (m as u32).div_ceil(tm), 1];
        let e = |r: usize, c: usize| [r as i64, c as i64];
        run(&kernel, grid, vec![view(&mut a, &e(m, k)), view(&mut b, &e(k, n)), view(&mut c, &e(m, n))])
            .unwrap();
        close(&c, &want, 1e-5);
    }
}

/// aᵀ · b, transposed once by the view's strides and once by the operation.
#[test]
fn products_of_transposed_matrices() {
    let (mut kernel, p) = kernel("product", TILE, &[(Scalar::F32, 2); 3]);
    let mut b = Builder::new(&mut kernel);
    let (tile, pi, first) = (b.index(16), b.program_id(Axis::X), b.index(0));
    let i = b.binary(BinaryOp::Mul, pi, tile);
    let pad = zero(&mut b);
    let acc = b.splat(Literal::f32(1.0), shape(&[16, 32]));
    let x = b.load(p[0], &[i, first], pad, shape(&[16, 24]), Reuse::Normal);
    let y = b.load(p[1], &[first, first], pad, shape(&[32, 24]), Reuse::Normal);
    let y = b.transpose(y, &[1, 0]);
    let sum = b.dot(x, y, acc);
    b.store(p[2], &[i, first], sum, Reuse::Normal, true);
    for k in [24usize, 20] {
        let (m, n) = (40usize, 32);
        let (mut x, mut y) = (random(k * m, 11), random(n * k, 12));
        let mut z = vec![f32::NAN; m * n];
        let mut want = vec![0.0; m * n];
        for i in 0..m {
            for j in 0..n {
                let products = (0..k).map(|l| x[l * m + i] as f64 * y[j * k + l] as f64);
                want[i * n + j] = (1.0 + products.sum::<f64>()) as f32;
            }
        }
        let x = Arg::View(bytemuck::cast_slice_mut(&mut x), vec![m as i64, k as i64], vec![1, m as i64]);
        let e = |r: usize, c: usize| [r as i64, c as i64];
        run(&kernel, [3, 1, 1], vec![x, view(&mut y, &e(n, k)), view(&mut z, &e(m, n))]).unwrap();
        close(&z, &want, 1e-5);
    }
}

/// The same for each of a stack of matrices, whose tiles have an axis of one element before their
/// own.
#[test]
fn products_of_a_stack() {
    let (mut kernel, p) = kernel("products", TILE, &[(Scalar::F32, 3); 3]);
    let mut b = Builder::new(&mut kernel);
    let (tile, pi, of, first) = (b.index(16), b.program_id(Axis::X), b.program_id(Axis::Z), b.index(0));
    let i = b.binary(BinaryOp::Mul, pi, tile);
    let pad = zero(&mut b);
    let acc = b.splat(Literal::f32(1.0), shape(&[16, 32]));
    let x = b.load(p[0], &[of, i, first], pad, shape(&[1, 16, 24]), Reuse::Normal);
    let y = b.load(p[1], &[of, first, first], pad, shape(&[1, 32, 24]), Reuse::Normal);
    let (x, y) = (b.reshape(x, shape(&[16, 24])), b.reshape(y, shape(&[32, 24])));
    let y = b.transpose(y, &[1, 0]);
    let sum = b.dot(x, y, acc);
    let sum = b.reshape(sum, shape(&[1, 16, 32]));
    b.store(p[2], &[of, i, first], sum, Reuse::Normal, true);
    for k in [24usize, 20] {
        let (s, m, n) = (3usize, 40usize, 32);
        let (mut x, mut y) = (random(s * m * k, 13), random(s * n * k, 14));
        let mut z = vec![f32::NAN; s * m * n];
        let mut want = vec![0.0; s * m * n];
        for (place, want) in want.iter_mut().enumerate() {
            let (row, j) = (place / n, place % n);
            let of = row / m;
            let products = (0..k).map(|l| x[row * k + l] as f64 * y[(of * n + j) * k + l] as f64);
            *want = (1.0 + products.sum::<f64>()) as f32;
        }
        let e = |r: usize, c: usize| [s as i64, r as i64, c as i64];
        run(&kernel, [3, 1, 3], vec![view(&mut x, &e(m, k)), view(&mut y, &e(n, k)), view(&mut z, &e(m, n))])
            .unwrap();
        close(&z, &want, 1e-5);
    }
}
