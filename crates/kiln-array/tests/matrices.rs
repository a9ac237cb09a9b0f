//! Linear algebra against what the results must satisfy, and its derivatives against differences.

use kiln_array::{Array, Scalar, grad, hvp, jvp, stack, vmap};
use kiln_runtime::Device;

/// The CPU, or the device that the environment variable `KILN_DEVICE` names.
fn device() -> Device {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    Device::open(&name).unwrap()
}

fn random(seed: u64, shape: &[usize]) -> Array {
    let mut random = fastrand::Rng::with_seed(seed);
    let numbers: Vec<f64> = (0..shape.iter().product()).map(|_| random.f64() * 2.0 - 1.0).collect();
    Array::new(&device(), &numbers, shape)
}

/// Symmetric positive definite matrices, not too far from singular.
fn definite(seed: u64, shape: &[usize]) -> Array {
    let x = random(seed, shape);
    let n = shape[shape.len() - 1];
    x.matmul(&x.swap_axes(-1, -2)) + Array::eye(&device(), Scalar::F64, n) * 0.5
}

/// Matrices that are not close to singular.
fn regular(seed: u64, shape: &[usize]) -> Array {
    let n = shape[shape.len() - 1];
    random(seed, shape) + Array::eye(&device(), Scalar::F64, n) * 2.0
}

fn far(a: &Array, b: &Array) -> f64 {
    assert_eq!((a.shape(), a.dtype()), (b.shape(), b.dtype()), "{:?}", a.error());
    if a.is_empty() {
        return 0.0;
    }
    (a.cast(Scalar::F64) - b.cast(Scalar::F64)).abs().max().item::<f64>().unwrap()
}

fn is_triangle(x: &Array, lower: bool) -> bool {
    let [rows, columns] = [x.shape()[x.rank() - 2], x.shape()[x.rank() - 1]];
    let of = x.cast(Scalar::F64).to_vec::<f64>().unwrap();
    of.iter().enumerate().all(|(at, &x)| {
        let (i, j) = (at / columns % rows.max(1), at % columns);
        x == 0.0 || if lower { j <= i } else { i <= j }
    })
}

const SIZES: [usize; 8] = [0, 1, 2, 3, 4, 6, 17, 40];

#[test]
fn decompositions_multiply_to_what_was_decomposed() {
    let device = device();
    for n in SIZES {
        let stacks = [&[][..], &[2, 1], &[0]];
        for stack in &stacks[..if n > 6 { 1 } else { 3 }] {
            let with = |matrix: &[usize]| [*stack, matrix].concat();
            let a = definite(n as u64, &with(&[n, n]));
            let most = 1e-13 * (1.0 + n as f64);
            let l = a.cholesky();
            assert!(far(&l.matmul(&l.swap_axes(-1, -2)), &a) < most * 10.0, "{n}");
            assert!(is_triangle(&l, true));
            let b = random(7, &with(&[n, 3]));
            let regular = regular(n as u64 + 100, &with(&[n, n]));
            assert!(far(&regular.matmul(&regular.solve(&b)), &b) < most * 100.0, "{n}");
            assert!(far(&l.matmul(&l.solve_triangular(&b, true)), &b) < most * 100.0, "{n}");
            let u = l.swap_axes(-1, -2);
            // What lies on the other side is not read.
            let x = (&u + &random(9, &with(&[n, n])).where_(&u.equal(0.0), 0.0)).solve_triangular(&b, false);
            assert!(far(&u.matmul(&x), &b) < most * 100.0, "{n}");
            let unit = Array::eye(&device, Scalar::F64, n).broadcast_to(&with(&[n, n]));
            assert!(far(&regular.inverse().matmul(&regular), &unit) < most * 100.0, "{n}");
        }
    }
    for (m, n) in [(1, 1), (5, 3), (3, 5), (8, 8), (20, 7), (7, 20), (33, 33), (4, 0), (0, 4), (1, 6), (6, 1)]
    {
        for stack in [&[][..], &[2]] {
            let a = random(m as u64 * 100 + n as u64, &[stack, &[m, n]].concat());
            let (q, r) = a.qr();
            let k = m.min(n);
            assert_eq!(q.shape(), [stack, &[m, k]].concat());
            assert!(far(&q.matmul(&r), &a) < 1e-13 * (1 + m + n) as f64, "{m} {n}");
            let unit = Array::eye(&device, Scalar::F64, k).broadcast_to(&[stack, &[k, k]].concat());
            assert!(far(&q.swap_axes(-1, -2).matmul(&q), &unit) < 1e-13 * (1 + m + n) as f64, "{m} {n}");
            assert!(is_triangle(&r, false));
        }
    }
}

#[test]
fn other_element_types_and_shapes() {
    let device = device();
    let (a, b) = (regular(3, &[6, 6]), random(4, &[6]));
    let x = a.solve(&b);
    for (dtype, most) in [(Scalar::F32, 1e-5), (Scalar::F16, 1e-2), (Scalar::BF16, 1e-1)] {
        let y = a.cast(dtype).solve(&b.cast(dtype));
        assert_eq!(y.dtype(), dtype);
        assert!(far(&y.cast(Scalar::F64), &x) < most, "{dtype}");
        let l = definite(1, &[6, 6]).cast(dtype).cholesky();
        assert!(far(&l.cast(Scalar::F64), &definite(1, &[6, 6]).cholesky()) < most * 3.0, "{dtype}");
    }
    // Right sides that stretch, and one matrix for many.
    let many = random(5, &[4, 6, 2]);
    assert!(far(&a.matmul(&a.solve(&many)), &many) < 1e-12);
    let each = regular(6, &[4, 6, 6]);
    let solved = each.solve(&b);
    assert_eq!(solved.shape(), [4, 6]);
    assert!(far(&each.matmul(&solved.unsqueeze(-1)).squeeze(-1), &b.broadcast_to(&[4, 6])) < 1e-12);
    // Integers; rows in an order that needs pivots; large and small numbers.
    let whole = Array::new(&device, &[0i32, 1, 1, 0], &[2, 2]);
    let x = whole.solve(&Array::new(&device, &[3i32, 4], &[2]));
    assert!(far(&x, &Array::new(&device, &[4.0f64, 3.0], &[2])) < 1e-15);
    let large = Array::new(&device, &[1e25f32, 1e24, -1e25, 3e25], &[2, 2]);
    let (q, r) = large.qr();
    assert!((q.matmul(&r) / &large - 1.0).abs().max().item::<f32>().unwrap() < 1e-5);
    // Signs are NumPy's: what has zeros below the diagonal is left as it is.
    let unit = Array::eye(&device, Scalar::F64, 3);
    assert_eq!(unit.qr().1.to_vec::<f64>().unwrap(), unit.to_vec::<f64>().unwrap());
    // No solution, and no root.
    let ones = Array::ones(&device, Scalar::F64, &[2, 2]);
    let x = ones.solve(&Array::new(&device, &[1.0f64, 2.0], &[2])).to_vec::<f64>().unwrap();
    assert!(x.iter().all(|x| !x.is_finite() || x.abs() > 1e14), "{x:?}");
    let negative = Array::new(&device, &[1.0f64, 2.0, 2.0, 1.0], &[2, 2]).cholesky();
    assert!(negative.is_nan().any().item::<bool>().unwrap());
}

/// The gradient, the tangent and the second derivative of a function of matrices.
fn check(name: &str, f: impl Fn(&Array) -> Array, x: &Array) {
    let y = f(x);
    let w = random(50, y.shape());
    let number = |x: &Array| (f(x) * &w).sin().sum();
    let v = random(51, x.shape());
    let step = 1e-5;
    let sides = |f: &dyn Fn(&Array) -> Array| (f(&(x + &v * step)) - f(&(x - &v * step))) / (2.0 * step);
    let close = |what: &str, got: &Array, expected: &Array| {
        let most = 1e-6 * expected.abs().max().item::<f64>().unwrap().max(1.0);
        let far = far(got, expected);
        assert!(far < most, "{name}: {what}: {far}");
    };
    close("tangent", &jvp(&f, x, &v).1, &sides(&f));
    let along = (grad(number, x) * &v).sum();
    close("gradient", &along, &sides(&number));
    if x.len() <= 12 {
        close("second", &hvp(number, x, &v), &sides(&|x| grad(number, x)));
    }
}

#[test]
fn derivatives() {
    for n in [1, 2, 5] {
        let (a, s) = (regular(1, &[n, n]), definite(2, &[2, n, n]));
        let b = random(3, &[n, 2]);
        check("cholesky", Array::cholesky, &s);
        check("solve for", |b| a.solve(b), &b);
        check("solve by", |a| a.solve(&b), &a);
        check("solve vectors", |b| a.solve(b), &random(4, &[n]));
        check("lower", |a| a.solve_triangular(&b, true), &a);
        check("upper", |a| a.solve_triangular(&b, false), &a);
        check("right side", |b| a.solve_triangular(b, false), &b);
        check("inverse", Array::inverse, &a);
        for (rows, columns) in [(n, n), (n + 2, n), (n, n + 2)] {
            let a = random(5, &[rows, columns]) + random(6, &[rows, 1]);
            check("q", |a| a.qr().0, &a);
            check("r", |a| a.qr().1, &a);
            check("qr", |a| a.qr().0.matmul(&a.qr().1) * 2.0, &a);
        }
    }
}

#[test]
fn of_many_at_once() {
    let (a, b) = (definite(1, &[4, 5, 5]), random(2, &[5]));
    let all = |f: &dyn Fn(&Array) -> Array| {
        let each: Vec<Array> = (0..4).map(|i| f(&a.select(0, i))).collect();
        let expected = stack(&each.iter().collect::<Vec<_>>(), 0);
        assert!(far(&vmap(f, &a), &expected) < 1e-12);
    };
    all(&|a| a.cholesky());
    all(&|a| a.solve(&b));
    all(&|a| a.qr().1);
    all(&|a| grad(|a| a.cholesky().sin().sum(), a));
    all(&|a| grad(|a| a.solve(&b).sin().sum(), a));
    all(&|a| jvp(|a| a.qr().0, a, &a.transpose()).1);
    let total = |y: Array| y.sin().sum();
    let outside = grad(|a| total(vmap(|a: &Array| a.solve(&b), a)), &a);
    assert!(far(&outside, &grad(|a| total(a.solve(&b)), &a)) < 1e-12);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |y: Array, problem: &str| {
        let error = y.eval().unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("tests/matrices.rs"), "{error}");
    };
    let x = random(1, &[2, 3]);
    refused(x.cholesky(), "`cholesky`: matrices of 2 by 3 are not square");
    refused(x.solve(&x), "`solve`: matrices of 2 by 3 are not square");
    refused(x.inverse(), "`inverse`: matrices of 2 by 3 are not square");
    refused(x.select(0, 0).qr().0, "`qr`: shape [3] has no rows and columns");
    refused(random(1, &[129, 2]).qr().1, "`qr`: matrices of 129 by 2: at most 128 rows and columns");
    let a = regular(1, &[3, 3]);
    refused(a.solve(&x), "`solve`: matrices of shape [3, 3] and right sides of [2, 3]");
    refused(a.solve_triangular(&random(1, &[2]), true), "right sides of [2]");
    refused(a.solve(&a.sum()), "right sides of []");
    refused(regular(1, &[4, 3, 3]).solve(&random(1, &[2, 3, 1])), "right sides of [2, 3, 1]");
    refused(a.greater(0.0).cholesky(), "`cholesky` of bool: it is for numbers; cast first");
    refused(a.reshape(&[2]).cholesky(), "`reshape`");
    refused(a.solve(&a.reshape(&[2])), "`reshape`");
}
