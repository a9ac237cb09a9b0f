//! Gradients against differences of the function itself, in f64.

use kiln_array::{Array, Padding, concatenate, custom_vjp, einsum, grad, jvp, value_and_grad};
use kiln_ir::Scalar;
use kiln_runtime::Device;

/// A function and its name.
type Named = (&'static str, fn(&Array) -> Array);

/// The CPU, or the device that the environment variable `KILN_DEVICE` names.
fn device() -> Device {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    Device::open(&name).unwrap()
}

/// Numbers without ties, away from zero by turns of both signs.
fn numbers(len: usize, positive: bool) -> Vec<f64> {
    let number = |i: usize| 0.3 + ((i * 37 + 11) % 101) as f64 / 41.0 + i as f64 * 1e-3;
    (0..len).map(|i| if positive || i % 3 != 1 { number(i) } else { -number(i) }).collect()
}

/// Weights that make one number of a result, so that all of it counts differently.
fn weighted(y: &Array) -> Array {
    let device = y.device().unwrap().clone();
    let weights: Vec<f64> = (0..y.len()).map(|i| 0.5 + ((i * 7 + 3) % 11) as f64 / 10.0).collect();
    let shape = y.shape().to_vec();
    (y.cast(Scalar::F64) * Array::new(&device, &weights, &shape)).sum()
}

fn check_at(name: &str, f: impl Fn(&Array) -> Array, x: &[f64], shape: &[usize]) {
    let device = device();
    let value = |x: &[f64]| weighted(&f(&Array::new(&device, x, shape))).item::<f64>().unwrap();
    let at = Array::new(&device, x, shape);
    let gradient = grad(|x| weighted(&f(x)), &at);
    assert_eq!(gradient.shape(), shape, "{name}: {:?}", gradient.error());
    let gradient = gradient.to_vec::<f64>().unwrap();
    let step = 1e-5;
    for i in (0..x.len()).step_by(x.len().div_ceil(7).max(1)) {
        let moved = |by: f64| {
            let mut x = x.to_vec();
            x[i] += by;
            value(&x)
        };
        let slope = (moved(step) - moved(-step)) / (2.0 * step);
        let error = (gradient[i] - slope).abs();
        assert!(
            error < 2e-6 * slope.abs().max(1.0),
            "{name}: element {i}: {}, expected {slope}",
            gradient[i]
        );
    }
}

fn check(name: &str, shape: &[usize], f: impl Fn(&Array) -> Array) {
    check_at(name, f, &numbers(shape.iter().product(), false), shape);
}

#[test]
fn functions_of_each_element() {
    let positive = numbers(7, true);
    let all: [Named; 20] = [
        ("exp", Array::exp),
        ("exp2", Array::exp2),
        ("log", Array::log),
        ("log2", Array::log2),
        ("log1p", Array::log1p),
        ("sin", Array::sin),
        ("cos", Array::cos),
        ("tanh", Array::tanh),
        ("erf", Array::erf),
        ("sigmoid", Array::sigmoid),
        ("sqrt", Array::sqrt),
        ("rsqrt", Array::rsqrt),
        ("recip", Array::recip),
        ("abs", Array::abs),
        ("neg", |x| -x),
        ("square", Array::square),
        ("relu", Array::relu),
        ("silu", Array::silu),
        ("gelu", Array::gelu),
        ("pow", |x| x.pow(2.5)),
    ];
    for (name, f) in all {
        check_at(name, f, &positive, &[7]);
    }
    for (name, f) in &all[13..19] {
        check(name, &[2, 4], f);
    }
}

/// Hyperbolic functions are finite as long as the result is, and so are their slopes, which are
/// each other. Those of the standard library are the reference.
#[test]
fn hyperbolic_functions_up_to_the_largest_number() {
    let check = |x: &[f64], dtype: Scalar, most: f64| {
        let at = Array::new(&device(), x, &[x.len()]).cast(dtype);
        let slope = |f: fn(&Array) -> Array| grad(|x| f(x).sum(), &at);
        let results = [at.sinh(), at.cosh(), slope(Array::sinh), slope(Array::cosh)];
        let references: [fn(f64) -> f64; 4] = [f64::sinh, f64::cosh, f64::cosh, f64::sinh];
        for (number, (got, reference)) in results.iter().zip(references).enumerate() {
            for (x, got) in x.iter().zip(got.cast(Scalar::F64).to_vec::<f64>().unwrap()) {
                let expected = reference(*x);
                // A slope of cosh is a difference of numbers near 1 where x is small.
                let size = if number == 3 { expected.abs().max(1.0) } else { expected.abs() };
                let error = if got == expected { 0.0 } else { (got - expected).abs() / size };
                assert!(error <= most, "{number} of {x} in {dtype}: {got}, expected {expected}");
            }
        }
    };
    // Numbers that are the same in both types, and the last ones before infinity.
    let near = [0.0, 1e-3, 0.25, 0.875, 1.0, 1.125, 5.0, 19.5, 79.5, 80.0, 80.5];
    let both = |far: &[f64], narrow: bool| -> Vec<f64> {
        let all = near.iter().chain(far).map(|&x| if narrow { f64::from(x as f32) } else { x });
        all.flat_map(|x| [x, -x]).collect()
    };
    check(&both(&[88.8, 89.03, 89.415], true), Scalar::F32, 6e-7);
    check(&both(&[88.8, 320.0, 709.8, 710.4, 710.47], false), Scalar::F64, 1e-15);
    let infinite = Array::new(&device(), &[89.5f32, -89.5, f32::INFINITY, f32::NEG_INFINITY], &[4]);
    let above = f64::INFINITY;
    assert_eq!(infinite.sinh().cast(Scalar::F64).to_vec::<f64>().unwrap(), [above, -above, above, -above]);
    assert_eq!(infinite.cosh().cast(Scalar::F64).to_vec::<f64>().unwrap(), [above; 4]);
    let not_a_number = Array::full(&device(), f32::NAN, &[1]);
    assert!([not_a_number.sinh(), not_a_number.cosh()].iter().all(|y| y.item::<f32>().unwrap().is_nan()));
}

#[test]
fn two_operands() {
    let device = device();
    let other = Array::new(&device, &numbers(4, true), &[4]).flip(&[0]) + 0.07;
    type Pair = fn(&Array, &Array) -> Array;
    let f: [(&str, Pair); 9] = [
        ("add", |x, y| x + y),
        ("sub", |x, y| y - x),
        ("mul", |x, y| x * y),
        ("div", |x, y| y / x),
        ("max", |x, y| x.maximum(y)),
        ("min", |x, y| x.minimum(y)),
        ("pow", |x, y| x.pow(y)),
        ("atan2", |x, y| x.atan2(y)),
        ("exponent", |x, y| y.pow(x)),
    ];
    for (name, f) in f {
        let x = numbers(12, true);
        check_at(name, |x| f(x, &other), &x, &[3, 4]);
        check_at(name, |x| f(x, &other.reshape(&[4, 1])), &x[..4], &[4]);
    }
    check("where", &[3, 4], |x| x.where_(&x.greater(0.2), x * 3.0));
    check("clip", &[3, 4], |x| x.clip(-0.4, 1.1));
}

#[test]
fn views() {
    check("broadcast", &[3, 1], |x| x.broadcast_to(&[2, 3, 4]));
    check("reshape", &[4, 3], |x| x.reshape(&[2, -1]));
    check("transpose", &[4, 3], |x| x.transpose() * 2.0);
    check("permute", &[2, 3, 4], |x| x.permute(&[1, 2, 0]));
    check("slice", &[5, 4], |x| x.slice(0, 1..3).slice(1, 2..));
    check("slice_step", &[7, 3], |x| x.slice_step(0, 1..6, 2));
    check("slice_back", &[7, 3], |x| x.slice_step(0, .., -3));
    check("flip", &[3, 4], |x| x.flip(&[1]));
    check("pad", &[2, 3], |x| x.exp().pad(&[(1, 0), (2, 1)]));
    for with in [Padding::Constant(2.0), Padding::Edge, Padding::Reflect, Padding::Symmetric, Padding::Wrap] {
        check("pad_with", &[2, 3], |x| x.exp().pad_with(&[(1, 0), (4, 1)], with));
    }
    check("select", &[3, 4], |x| x.select(1, -2));
    check("concatenate", &[2, 3], |x| concatenate(&[&x.exp(), x, &(x * x)], 1));
    check("split", &[5, 2], |x| x.split(0, &[2, 3])[1].clone());
}

#[test]
fn reductions() {
    let all: [Named; 13] = [
        ("sum", |x| x.sum_axes(&[1])),
        ("mean", |x| x.mean_axes(&[0])),
        ("var", |x| x.var_keep(&[-1])),
        ("max", |x| x.max_axes(&[1])),
        ("min", |x| x.min_axes(&[0, 2])),
        ("prod", |x| x.prod_axes(&[2])),
        ("cumsum", |x| x.cumsum(1)),
        ("prod_keep", |x| x.prod_keep(&[0, 1])),
        ("softmax", |x| x.softmax(-1)),
        ("log_softmax", |x| x.log_softmax(1)),
        ("logsumexp", |x| x.logsumexp(-1)),
        ("layer_norm", |x| x.layer_norm(&x.sum_axes(&[0, 1]), &x.mean_axes(&[0, 1]), 1e-5)),
        ("rms_norm", |x| x.rms_norm(&x.sum_axes(&[0, 1]), 1e-5)),
    ];
    for (name, f) in all {
        check(name, &[2, 3, 4], f);
    }
    // One zero, and two, in a row.
    let zeros = [0.0, 2.0, 3.0, 0.0, 0.0, 5.0];
    check_at("prod", |x| x.prod_axes(&[1]), &zeros, &[2, 3]);
    check_at("prod twice", |x| grad(|x| x.prod_axes(&[1]).sin().sum(), x), &zeros, &[2, 3]);
    let slope = |x: &Array| grad(|x| grad(|x| x.prod().exp().sum(), x).square().sum(), x);
    check_at("prod thrice", slope, &[0.5, 0.0, -0.7, 0.4], &[2, 2]);
    check_at(
        "prod of axes",
        |x| grad(|x| x.prod_axes(&[0, 2]).exp().sum(), x),
        &[0.5, 0.0, 1.5, 0.7, 0.0, 0.0, 2.0, 0.3],
        &[2, 2, 2],
    );
}

#[test]
fn products_and_indices() {
    let device = device();
    let right = Array::new(&device, &numbers(12, false), &[3, 4]);
    check("left", &[2, 3], |x| x.matmul(&right));
    check("right", &[4, 2], |x| right.matmul(x).tanh());
    check("both", &[3, 3], |x| x.matmul(x));
    check("stack", &[5, 2, 3], |x| x.matmul(&right));
    check("shared", &[2, 3], |x| x.matmul(&right.broadcast_to(&[5, 3, 4])));
    check("vector", &[3], |x| x.matmul(&right));
    let at = Array::new(&device, &[2i32, 0, -1, 2], &[2, 2]);
    check("take", &[3, 2], |x| x.exp().take(&at, 0));
    check("sort", &[3, 4], |x| x.sort(1));
    check("top_k", &[2, 5], |x| x.top_k(2, -1).0);
    check("einsum", &[2, 3, 4], |x| einsum("bij,bkj->ik", &[x, &x.exp()]));
    check("take_along", &[2, 4], |x| x.take_along(&at, 1));
}

#[test]
fn gradients_of_gradients() {
    check("second", &[3], |x| grad(|x| (x.exp() * x.sin()).sum(), x));
    check("hessian", &[2, 3], |x| grad(|x| x.softmax(-1).square().sum(), x));
    check("through a product", &[3, 3], |x| grad(|x| x.matmul(&x.transpose()).tanh().sum(), x));
}

#[test]
fn rules_of_ones_own() {
    let device = device();
    let x = Array::new(&device, &[2.0f32, -3.0], &[2]);
    assert_eq!(grad(|x| (x * x.stop_gradient()).sum(), &x).to_vec::<f32>().unwrap(), [2.0, -3.0]);
    let doubled = |x: &Array| custom_vjp(&[x], |x| &x[0] * 7.0, |x, y, g| vec![g * y / &x[0] * 2.0]);
    let (value, gradient) = value_and_grad(|x| doubled(x).sum(), &x);
    assert_eq!((value.item::<f32>().unwrap(), gradient.to_vec::<f32>().unwrap()), (-7.0, vec![14.0, 14.0]));
    let wrong = |x: &Array| custom_vjp(&[x], |x| x[0].clone(), |_, _, _| Vec::new());
    let error = grad(|x| wrong(x).sum(), &x).eval().unwrap_err().to_string();
    assert!(error.contains("the rule of `custom_vjp` gives gradients [] for inputs [f32 [2]]"), "{error}");
    let x = Array::new(&device, &[2.0f64, -3.0], &[2]);
    let rules: [Named; 2] = [("f32 [2]", |g| g.cast(Scalar::F32)), ("f64 [1, 2]", |g| g.unsqueeze(0))];
    for (given, rule) in rules {
        let f = |x: &Array| custom_vjp(&[x], |x| x[0].exp(), move |_, _, g| vec![rule(g)]);
        let line = line!() - 1;
        for derivative in [grad(|x| f(x).sum(), &x), jvp(|x| f(x).sum(), &x, &x).1] {
            let error = derivative.eval().unwrap_err().to_string();
            let expected = format!("gives gradients [{given}] for inputs [f64 [2]]");
            assert!(error.contains(&expected), "{error}");
            assert!(error.contains(&format!("tests/gradients.rs:{line}:")), "{error}");
        }
    }
}

#[test]
fn what_is_evaluated_meanwhile_keeps_its_gradient() {
    let device = device();
    let x = Array::new(&device, &[2.0f64, 3.0], &[2]);
    let gradient = grad(
        |x| {
            let y = x.square();
            let loss = (&y * x).sum();
            assert_eq!(loss.item::<f64>().unwrap(), 35.0);
            loss
        },
        &x,
    );
    assert_eq!(gradient.to_vec::<f64>().unwrap(), [12.0, 27.0]);
}

#[test]
fn parameters_that_do_not_count_and_those_that_have_no_gradient() {
    let device = device();
    let (x, y) = (Array::new(&device, &[2.0f32], &[1]), Array::new(&device, &[3.0f32, 4.0], &[2]));
    let (_, [a, b]) = value_and_grad(|[x, _]| x.sum(), &[x.clone(), y]);
    assert_eq!((a.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap()), (vec![1.0], vec![0.0, 0.0]));
    let error = grad(|x| x.exp(), &Array::arange(&device, 1)).eval().unwrap_err().to_string();
    assert!(error.contains("an array of i64 has no gradient"), "{error}");
    let error = grad(|x| x.broadcast_to(&[2]), &x).eval().unwrap_err().to_string();
    assert!(error.contains("tests/gradients.rs") && error.contains("gives f32 of shape [2]"), "{error}");
}

/// The gradient of a table is the sums of its parts' gradients, against the same in f64: indices
/// that come again, from the end, more than are compared at once; parts of one element and of more
/// than a tile has; no indices, no elements.
#[test]
fn tables_get_the_sums_of_what_was_taken() {
    let device = device();
    for (outer, extent, inner, len) in
        [(1, 5, 3, 7), (2, 3, 1, 300), (1, 700, 4, 513), (1, 2, 1030, 3), (3, 4, 2, 0), (2, 3, 0, 4)]
    {
        let indices: Vec<i32> = (0..len).map(|i: i32| (i * i * 7 + 3 * i) % extent).collect();
        let given: Vec<i32> = indices.iter().map(|&i| if i % 2 == 1 { i - extent } else { i }).collect();
        let weights: Vec<f64> = numbers(outer * len as usize * inner, false)
            .into_iter()
            .map(|x| (x * 4.0).round() / 4.0)
            .collect();
        let mut expected = vec![0.0; outer * extent as usize * inner];
        for (at, weight) in weights.iter().enumerate() {
            let (o, i) = (at / (len as usize * inner), at % inner);
            let index = indices[at / inner % len as usize] as usize;
            expected[(o * extent as usize + index) * inner + i] += weight;
        }
        for dtype in [Scalar::F64, Scalar::F32, Scalar::F16, Scalar::BF16] {
            let table = Array::zeros(&device, dtype, &[outer, extent as usize, inner]);
            let indices = Array::new(&device, &given, &[len as usize]);
            let weights = Array::new(&device, &weights, &[outer, len as usize, inner]).cast(dtype);
            let gradient = grad(|table| (table.take(&indices, 1) * &weights).sum(), &table);
            assert_eq!((gradient.shape(), gradient.dtype()), (table.shape(), dtype));
            let gradient = gradient.cast(Scalar::F64).to_vec::<f64>().unwrap();
            // Quarters add up exactly; a sum is rounded once.
            let most = if dtype == Scalar::BF16 { 1.0 / 256.0 } else { 1.0 / 2048.0 };
            for (got, expected) in gradient.iter().zip(&expected) {
                assert!(
                    (got - expected).abs() <= most * expected.abs(),
                    "{dtype}: {got}, expected {expected}"
                );
            }
        }
    }
    let indices = Array::new(&device, &[2, 0, 2, 1], &[4]);
    check("second derivative of take", &[3, 2], |x| grad(|x| x.take(&indices, 0).square().sin().sum(), x));
    check("take of a vector", &[3], |x| x.take(&indices, 0).square());
}
