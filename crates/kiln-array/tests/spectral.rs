//! Eigenvalues and singular values against what they must satisfy and against closed forms, and
//! their derivatives against differences. Values of small matrices are compared with NumPy's in
//! `numpy.rs`.

use kiln_array::{Array, MatrixNorm, Scalar, grad, jvp, stack, vmap};
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

fn transposed(x: &Array) -> Array {
    x.swap_axes(-1, -2)
}

fn largest(x: &Array) -> f64 {
    if x.is_empty() { 0.0 } else { x.cast(Scalar::F64).abs().max().item::<f64>().unwrap() }
}

fn far(a: &Array, b: &Array) -> f64 {
    assert_eq!(a.shape(), b.shape());
    largest(&(a.cast(Scalar::F64) - b.cast(Scalar::F64)))
}

fn of(make: impl Fn(usize, usize) -> f64, m: usize, n: usize) -> Array {
    let numbers: Vec<f64> = (0..m * n).map(|at| make(at / n.max(1), at % n.max(1))).collect();
    Array::new(&device(), &numbers, &[m, n])
}

/// Matrices of some kinds: random ones, of low rank, with equal singular values, far from regular.
fn kinds(m: usize, n: usize) -> Vec<(&'static str, Array)> {
    let seed = (m * 1000 + n) as u64;
    let rank = m.min(n).min(3);
    vec![
        ("random", random(seed, &[m, n])),
        ("low rank", random(seed, &[m, rank]).matmul(&random(seed + 1, &[rank, n]))),
        ("zero", of(|_, _| 0.0, m, n)),
        ("ones", of(|_, _| 1.0, m, n)),
        ("unit", of(|i, j| f64::from(u8::from(i == j)), m, n)),
        ("reversed", of(|i, j| f64::from(u8::from(i + j + 1 == m.min(n))), m, n)),
        ("Hilbert's", of(|i, j| 1.0 / (i + j + 1) as f64, m, n)),
        ("graded", random(seed, &[m, n]) * of(|_, j| 10f64.powf(-(j as f64) / 4.0), m, n)),
        ("large", random(seed, &[m, n]) * 1e30),
        ("small", random(seed, &[m, n]) * 1e-30),
        ("equal columns", random(seed, &[m, 1]).broadcast_to(&[m, n])),
    ]
}

fn unit(a: &Array, n: usize) -> Array {
    let shape = [&a.shape()[..a.rank() - 2], &[n, n]].concat();
    Array::eye(&device(), Scalar::F64, n).broadcast_to(&shape)
}

fn check_svd(name: &str, a: &Array) {
    let (u, s, vt) = a.svd();
    let (m, n, rank) = (a.shape()[a.rank() - 2], a.shape()[a.rank() - 1], a.rank());
    let (k, before) = (m.min(n), &a.shape()[..rank - 2]);
    assert_eq!(u.shape(), [before, &[m, k]].concat());
    assert_eq!(s.shape(), [before, &[k]].concat());
    assert_eq!(vt.shape(), [before, &[k, n]].concat());
    let epsilon = if a.dtype() == Scalar::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let most = epsilon * 3.0 * (4 + m + n) as f64;
    let wide = |x: &Array| x.cast(Scalar::F64);
    let product = (wide(&u) * wide(&s).unsqueeze(-2)).matmul(&wide(&vt));
    let what = format!("{name} {m} {n} {}", a.dtype());
    // Of the greatest singular value, not of the greatest element.
    assert!(far(&product, a) <= most * largest(&s), "{what}: {}", far(&product, a) / largest(&s));
    let of_u = transposed(&wide(&u)).matmul(&wide(&u));
    assert!(far(&of_u, &unit(a, k)) < most, "{what}: U {}", far(&of_u, &unit(a, k)));
    let of_v = wide(&vt).matmul(&transposed(&wide(&vt)));
    assert!(far(&of_v, &unit(a, k)) < most, "{what}: V {}", far(&of_v, &unit(a, k)));
    if k > 1 && !s.is_empty() {
        assert!(s.diff(-1).less_equal(0.0).all().item::<bool>().unwrap(), "{what}: not in order");
        assert!(s.greater_equal(0.0).all().item::<bool>().unwrap(), "{what}: negative");
    }
}

#[test]
fn singular_values() {
    for (m, n) in [(1, 1), (2, 2), (3, 3), (5, 2), (2, 5), (1, 6), (6, 1), (8, 8), (17, 9), (9, 16), (33, 33)]
    {
        for (name, a) in kinds(m, n) {
            check_svd(name, &a);
            check_svd(name, &a.cast(Scalar::F32));
        }
    }
    for (m, n) in [(127, 127), (128, 40)] {
        for (name, a) in kinds(m, n).into_iter().step_by(5) {
            check_svd(name, &a);
        }
    }
    check_svd("stack", &random(1, &[2, 3, 5, 4]));
    for shape in [&[0, 3][..], &[3, 0], &[0, 0], &[0, 4, 4], &[2, 0, 3]] {
        check_svd("empty", &random(1, shape));
    }
}

/// More rows than are decomposed at once, in one part, in several, and in parts of parts; and as
/// many columns.
#[test]
fn singular_values_of_many_rows_or_columns() {
    for (m, n) in [(129, 1), (300, 7), (1000, 3), (4100, 2), (131, 33), (3, 1000)] {
        for (name, a) in kinds(m, n) {
            check_svd(name, &a);
            check_svd(name, &a.cast(Scalar::F32));
        }
    }
    for (name, a) in kinds(300, 128).into_iter().step_by(6) {
        check_svd(name, &a);
    }
    check_svd("stack", &random(1, &[2, 3, 150, 4]));
    check_svd("empty", &random(1, &[0, 150, 4]));
    check_svd("empty", &random(1, &[150, 0]));
}

/// A line through points, and others: what is left is orthogonal to all columns, and nothing is
/// left where the right side is a sum of columns.
#[test]
fn least_squares_of_many_rows() {
    for (m, n) in [(129, 2), (1000, 10), (20_000, 3), (300, 128)] {
        let (a, x, b) = (random(1, &[m, n]), random(2, &[n, 2]), random(3, &[m, 2]));
        assert!(far(&a.lstsq(&a.matmul(&x)), &x) < 1e-13 * m as f64, "{m} {n}");
        let left = transposed(&a).matmul(&(a.matmul(&a.lstsq(&b)) - &b));
        assert!(largest(&left) < 1e-13 * m as f64, "{m} {n}: {}", largest(&left));
        let single = a.cast(Scalar::F32).lstsq(&a.matmul(&x).cast(Scalar::F32));
        assert!(far(&single, &x) < 1e-3, "{m} {n}: {}", far(&single, &x));
    }
    // The least of all solutions, of more unknowns than equations.
    let (wide, b) = (random(1, &[3, 500]), random(2, &[3]));
    let x = wide.lstsq(&b);
    assert!(far(&wide.matmul(&x), &b) < 1e-13);
    let in_rows = wide.pinv().matmul(&wide.matmul(&x.unsqueeze(1)));
    assert!(far(&in_rows, &x.unsqueeze(1)) < 1e-13);
}

/// The values of a product of two orthogonal matrices with known ones between them.
#[test]
fn known_singular_values() {
    for n in [7, 60] {
        let [p, q] = [1, 2].map(|seed| random(seed, &[n, n]).qr().0);
        let known: Vec<f64> = (0..n).map(|i| ((n - i) as f64 / n as f64).powi(3)).collect();
        let known = Array::new(&device(), &known, &[n]);
        let (_, s, _) = (&p * known.unsqueeze(0)).matmul(&q).svd();
        assert!(far(&s, &known) < 1e-14 * n as f64, "{n}: {}", far(&s, &known));
    }
}

fn check_eigh(name: &str, a: &Array) {
    let (n, rank) = (a.shape()[a.rank() - 1], a.rank());
    let (values, vectors) = a.eigh();
    assert_eq!(values.shape(), &a.shape()[..rank - 1]);
    assert_eq!(vectors.shape(), a.shape());
    let epsilon = if a.dtype() == Scalar::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let most = epsilon * 3.0 * (4 + 2 * n) as f64;
    let (wide, v) = (a.cast(Scalar::F64), vectors.cast(Scalar::F64));
    let (left, right) = (wide.matmul(&v), &v * values.cast(Scalar::F64).unsqueeze(-2));
    let norm = largest(&a.cast(Scalar::F64).abs().sum_axes(&[-1]));
    let what = format!("{name} {n} {}", a.dtype());
    assert!(far(&left, &right) <= most * norm, "{what}: {}", far(&left, &right) / norm);
    let of_v = transposed(&v).matmul(&v);
    assert!(far(&of_v, &unit(a, n)) < most, "{what}: V {}", far(&of_v, &unit(a, n)));
    if n > 1 && !values.is_empty() {
        assert!(values.diff(-1).greater_equal(0.0).all().item::<bool>().unwrap(), "{what}: not in order");
    }
}

#[test]
fn eigenvalues() {
    for n in [1, 2, 3, 6, 17, 32, 128] {
        for (name, a) in kinds(n, n) {
            // Large sizes take their time without optimization.
            if n == 128 && name != "Hilbert's" {
                continue;
            }
            let symmetric = (&a + transposed(&a)) * 0.5;
            check_eigh(name, &symmetric);
            check_eigh(name, &symmetric.cast(Scalar::F32));
        }
        // Pairs of opposite values, each several times.
        check_eigh("signs", &of(|i, j| f64::from(u8::from(i + j + 1 == n)), n, n));
    }
    check_eigh("stack", &(random(1, &[2, 3, 4, 4]) + transposed(&random(1, &[2, 3, 4, 4]))));
    for shape in [&[0, 0][..], &[0, 4, 4], &[3, 0, 0]] {
        check_eigh("empty", &random(1, shape));
    }
    let (values, _) = Array::full(&device(), f64::NAN, &[3, 3]).eigh();
    assert!(values.is_nan().any().item::<bool>().unwrap());
}

/// Those of second differences are 2 - 2 cos(k π / (n + 1)).
#[test]
fn known_eigenvalues() {
    for n in [5, 40, 61] {
        let a = of(|i, j| if i == j { 2.0 } else { -f64::from(u8::from(i.abs_diff(j) == 1)) }, n, n);
        let known: Vec<f64> =
            (1..=n).map(|k| 2.0 - 2.0 * (k as f64 * std::f64::consts::PI / (n + 1) as f64).cos()).collect();
        let (values, _) = a.eigh();
        assert!(far(&values, &Array::new(&device(), &known, &[n])) < 1e-15 * (8 + n) as f64, "{n}");
    }
}

/// The gradient and the tangent of a function of matrices.
fn check(name: &str, f: impl Fn(&Array) -> Array, x: &Array) {
    let y = f(x);
    let (w, v) = (random(50, y.shape()), random(51, x.shape()));
    let number = |x: &Array| (f(x) * &w).sin().sum();
    let step = 1e-5;
    let sides = |f: &dyn Fn(&Array) -> Array| (f(&(x + &v * step)) - f(&(x - &v * step))) / (2.0 * step);
    let close = |what: &str, got: &Array, expected: &Array| {
        let most = 1e-6 * largest(expected).max(1.0);
        assert!(far(got, expected) < most, "{name}: {what}: {}", far(got, expected));
    };
    close("tangent", &jvp(&f, x, &v).1, &sides(&f));
    close("gradient", &(grad(number, x) * &v).sum(), &sides(&number));
    if x.len() <= 9 {
        let second = jvp(|x| grad(number, x), x, &v).1;
        close("second", &second, &sides(&|x| grad(number, x)));
    }
}

/// Functions that do not depend on the directions of vectors.
#[test]
fn derivatives() {
    let powers = |a: &Array| {
        let (values, v) = a.eigh();
        (&v * (values * 0.5).exp().unsqueeze(-2)).matmul(&transposed(&v))
    };
    let projected = |a: &Array| {
        let v = a.eigh().1.slice(-1, ..1);
        v.matmul(&transposed(&v))
    };
    for n in [1, 3, 6] {
        let a = random(n as u64, &[n, n]) * 2.0;
        check("eigenvalues", |a| a.eigh().0, &a);
        check("function", powers, &a);
        check("projection", projected, &a);
        for (m, n) in [(n, n), (n + 2, n), (n, n + 2)] {
            let a = random((m * n) as u64, &[m, n]);
            check("singular values", |a| a.svd().1, &a);
            let polar = |a: &Array| {
                let (u, _, vt) = a.svd();
                u.matmul(&vt)
            };
            check("polar", polar, &a);
            check("first", |a| (a.svd().0.slice(-1, ..1) * a.svd().2.slice(-2, ..1)).abs(), &a);
            check("pinv", Array::pinv, &a);
            let b = random(7, &[m, 2]);
            check("lstsq", |a| a.lstsq(&b), &a);
            check("lstsq for", |b| a.lstsq(b), &b);
            check("nuclear", |a| a.matrix_norm(MatrixNorm::Nuclear), &a);
        }
        check("slogdet", |a| a.slogdet().1, &a);
    }
    for (m, n) in [(150, 2), (2, 150)] {
        let (a, b) = (random(1, &[m, n]), random(2, &[m, 2]));
        check("singular values", |a| a.svd().1, &a);
        check("pinv", Array::pinv, &a);
        check("lstsq", |a| a.lstsq(&b), &a);
    }
    // Where singular values are equal, the pseudo-inverse has a gradient all the same.
    check("pinv of I", Array::pinv, &(Array::eye(&device(), Scalar::F64, 3) * 2.0));
}

#[test]
fn many_at_once() {
    let all = |a: &Array, f: &dyn Fn(&Array) -> Array| {
        let each: Vec<Array> = (0..4).map(|i| f(&a.select(0, i))).collect();
        let expected = stack(&each.iter().collect::<Vec<_>>(), 0);
        assert!(far(&vmap(f, a), &expected) < 1e-11);
    };
    all(&random(1, &[4, 5, 5]), &|a| a.eigh().0);
    for shape in [[4, 5, 5], [4, 140, 2]] {
        let a = random(1, &shape);
        all(&a, &|a| a.svd().1);
        all(&a, &|a| a.pinv());
        all(&a, &|a| grad(|a| a.svd().1.sin().sum(), a));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |y: Array, problem: &str| {
        let error = y.eval().unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("tests/spectral.rs"), "{error}");
    };
    let x = random(1, &[2, 3]);
    refused(x.eigh().0, "`eigh`: matrices of 2 by 3 are not square");
    refused(x.slogdet().1, "`slogdet`: matrices of 2 by 3 are not square");
    refused(x.select(0, 0).svd().2, "`svd`: shape [3] has no rows and columns");
    let both = "`svd`: matrices of 129 by 130: at most 128 rows or at most 128 columns";
    refused(random(1, &[129, 130]).svd().0, both);
    refused(random(1, &[129, 2]).qr().0, "`qr`: matrices of 129 by 2: at most 128 rows and columns");
    refused(random(1, &[129, 129]).eigh().1, "`eigh`: matrices of 129 by 129");
    refused(x.select(0, 0).pinv(), "`pinv`: shape [3]");
    refused(x.lstsq(&x.select(0, 0)), "`lstsq`: matrices of shape [2, 3] and right sides of [3]");
    refused(x.lstsq(&x.sum()), "right sides of []");
    refused(x.select(0, 0).matrix_norm(MatrixNorm::One), "`matrix_norm`: shape [3] has no rows and columns");
    refused(x.greater(0.0).svd().1, "`svd` of bool");
    refused(x.reshape(&[5]).svd().1, "`reshape`");
    refused(x.lstsq(&x.reshape(&[5])), "`reshape`");
}
