//! Forward mode: of every differentiable operation against differences of the function itself, in
//! f64, and against the gradient; second derivatives; fixed values.

mod catalog;

use catalog::{Case, array, cases, device};
use kiln_array::{
    Array, Parameters, Scalar, cond, custom_jvp, custom_vjp, grad, hessian, hvp, jvp, value_and_grad,
};

fn elements(x: &Array) -> Vec<f64> {
    x.to_vec::<f64>().unwrap_or_else(|error| panic!("{error}"))
}

fn close(name: &str, got: &[f64], expected: &[f64], most: f64) {
    assert_eq!(got.len(), expected.len(), "{name}");
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        let error = (got - expected).abs();
        assert!(error <= most * expected.abs().max(1.0), "{name}: {at}: {got}, expected {expected}");
    }
}

fn difference(f: impl Fn(&Array) -> Array, x: &Array, v: &Array) -> Vec<f64> {
    let step = 1e-5;
    let (above, below) = (f(&(x + v * step)), f(&(x - v * step)));
    elements(&((above - below) / (2.0 * step)))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Products of slopes and tangents, where one is infinite: as of JAX, in both modes.
#[test]
fn infinite_slopes() {
    let device = device();
    let x = Array::new(&device, &[0.0f64, 0.0, 4.0], &[3]);
    let v = Array::new(&device, &[0.0f64, 1.0, 0.0], &[3]);
    let change = elements(&jvp(|x| x.sqrt(), &x, &v).1);
    assert!(change[0].is_nan() && change[1..] == [f64::INFINITY, 0.0], "{change:?}");
    let slope = elements(&grad(|x| (x.sqrt() * &v).sum(), &x));
    assert!(slope[0].is_nan() && slope[1..] == [f64::INFINITY, 0.0], "{slope:?}");
    // What does not depend on the parameter has no tangent that could be NaN.
    let root = |y: &Array| y + x.sqrt();
    assert_eq!(elements(&jvp(root, &v, &v).1), [0.0, 1.0, 0.0]);
    let safe = |x: &Array| cond(&x.greater(0.0), x, |x| x.sqrt(), |x| x * 0.0);
    for i in 0..3 {
        let (x, v) = (x.select(0, i), v.select(0, i));
        assert_eq!(elements(&jvp(safe, &x, &v).1), [0.0]);
    }
}

#[test]
fn every_operation_against_differences_and_its_gradient() {
    for Case { name, shape, positive, f } in cases() {
        let (x, v) = (array(shape, positive, 0), array(shape, false, 1) * 0.5);
        let (y, change) = jvp(f, &x, &v);
        assert_eq!((y.shape(), y.dtype()), (change.shape(), change.dtype()), "{name}: {:?}", change.error());
        close(name, &elements(&y), &elements(&f(&x)), 1e-12);
        let change = elements(&change);
        close(name, &change, &difference(f, &x, &v), 2e-6);
        // The gradient of w y by x, times v, is w times the change.
        let w = array(y.shape(), true, 2);
        let gradient = elements(&grad(|x| (f(x) * &w).sum(), &x));
        let (a, b) = (dot(&gradient, &elements(&v)), dot(&change, &elements(&w)));
        assert!((a - b).abs() <= 1e-9 * a.abs().max(1.0), "{name}: {a} backwards, {b} forwards");
    }
}

/// Forward over reverse, reverse over forward, and forward over forward, against differences.
#[test]
fn second_derivatives() {
    for Case { name, shape, positive, f } in cases() {
        // The gradient of a product's derivative is exact but where a factor is zero; the one of
        // `pow` by its base asks for logarithms.
        let (x, v) = (array(shape, positive, 3), array(shape, false, 4) * 0.5);
        let number = |x: &Array| {
            let y = f(x);
            let w = array(y.shape(), true, 2);
            (y.sin() * w).sum()
        };
        let slope = |x: &Array| jvp(number, x, &v).1;
        let forward_over_reverse = elements(&hvp(number, &x, &v));
        let expected = difference(|x| grad(number, x), &x, &v);
        close(name, &forward_over_reverse, &expected, 2e-5);
        close(name, &elements(&grad(slope, &x)), &forward_over_reverse, 1e-8);
        let (_, twice) = jvp(slope, &x, &v);
        let expected = dot(&forward_over_reverse, &elements(&v));
        close(name, &elements(&twice), &[expected], 1e-8);
    }
}

/// Values by hand, and those of the issue: JAX gives the same.
#[test]
fn fixed_values() {
    let device = device();
    let x = Array::new(&device, &[1.0f64, 2.0, 3.0], &[3]);
    let v = Array::new(&device, &[1.0f64, -1.0, 0.5], &[3]);
    // d(x y z) = y z dx + x z dy + x y dz.
    let (value, change) = jvp(Array::prod, &x, &v);
    assert_eq!((value.item::<f64>().unwrap(), change.item::<f64>().unwrap()), (6.0, 6.0 - 3.0 + 1.0));
    // Shares of equal extremes.
    let even = Array::new(&device, &[2.0f32, 2.0, 1.0], &[3]);
    let (_, change) = jvp(Array::max, &even, &v.cast(Scalar::F32));
    assert_eq!(change.item::<f32>().unwrap(), 0.0);
    // Several parameters, several results, of which one does not change and one is of integers.
    let two = [x.clone(), &x * 2.0];
    let (values, changes) =
        jvp(|[x, y]: &[Array; 2]| vec![x * y, y.stop_gradient(), x.argmax(0)], &two, &[v.clone(), v.clone()]);
    assert_eq!(elements(&values[0]), [2.0, 8.0, 18.0]);
    assert_eq!(elements(&changes[0]), [3.0, -6.0, 4.5]);
    assert_eq!(elements(&changes[1]), [0.0; 3]);
    assert_eq!((changes[2].dtype(), changes[2].to_vec::<i64>().unwrap()), (Scalar::I64, vec![0]));
    // One inside of another, which must not take the other's variable for its own: d/dx x (x + y)'.
    let (_, outer) =
        jvp(|x| x * jvp(|y| x * y, &(&x.stop_gradient() * 0.0 + 1.0), &x.stop_gradient()).1, &x, &v);
    assert_eq!(elements(&outer), [2.0, -8.0, 9.0]);
    // The matrix of second derivatives of x^T A x is A + A^T.
    let a = Array::new(&device, &[1.0f64, 2.0, 3.0, 4.0], &[2, 2]);
    let at = Array::new(&device, &[0.5f64, -1.0], &[2]);
    let direction = Array::new(&device, &[1.0f64, 1.0], &[2]);
    let form = |x: &Array| x.matmul(&a).matmul(x);
    assert_eq!(elements(&hvp(form, &at, &direction)), [7.0, 13.0]);
    for dtype in [Scalar::F16, Scalar::BF16] {
        let (x, v) = (x.cast(dtype), v.cast(dtype));
        let (_, change) = jvp(|x| x.square().sum(), &x, &v);
        assert_eq!((change.dtype(), change.cast(Scalar::F32).item::<f32>().unwrap()), (dtype, 1.0));
    }
}

#[test]
fn rules_of_ones_own_are_transposed() {
    let device = device();
    let x = Array::new(&device, &[2.0f32, -3.0], &[2]);
    let v = Array::new(&device, &[1.0f32, 10.0], &[2]);
    // Not the derivative of the function: the rule alone counts.
    let doubled = |x: &Array| custom_vjp(&[x], |x| &x[0] * 7.0, |x, _, g| vec![g * &x[0] * 2.0]);
    let (value, change) = jvp(doubled, &x, &v);
    assert_eq!(value.to_vec::<f32>().unwrap(), [14.0, -21.0]);
    assert_eq!(change.to_vec::<f32>().unwrap(), [4.0, -60.0]);
    let wrong = |x: &Array| custom_vjp(&[x], |x| x[0].clone(), |_, _, _| Vec::new());
    let error = jvp(wrong, &x, &v).1.eval().unwrap_err().to_string();
    assert!(error.contains("the rule of `custom_vjp` gives gradients [] for inputs [f32 [2]]"), "{error}");
}

#[test]
fn tangents_of_ones_own_are_transposed_for_gradients() {
    let device = device();
    let x = Array::new(&device, &[2.0f64, -3.0], &[2]);
    let v = Array::new(&device, &[1.0f64, 10.0], &[2]);
    let w = Array::new(&device, &[1.0f64, 0.5, 2.0, 3.0], &[2, 2]);
    let rule = |of: &[Array], y: &Array, t: &[Array]| &t[0] * of[0].cos() * 3.0 + y * &t[1].sum();
    let f = |x: &Array, w: &Array| custom_jvp(&[x, w], |of| of[0].sin() * of[1].sum(), rule);
    let (y, change) = jvp(|[x, w]: &[Array; 2]| f(x, w), &[x.clone(), w.clone()], &[v.clone(), w.clone()]);
    close("tangent", &elements(&change), &elements(&(&v * x.cos() * 3.0 + &y * 6.5)), 1e-12);
    let [of_x, of_w] = grad(|[x, w]| (f(x, w) * &v).sum(), &[x.clone(), w.clone()]);
    close("x", &elements(&of_x), &elements(&(x.cos() * 3.0 * &v)), 1e-12);
    close("w", &elements(&of_w), &elements(&(&y * &v).sum().broadcast_to(&[4])), 1e-12);
    // Of second order: of the rule itself.
    let second = grad(|x| grad(|x| f(x, &w).sum(), x).sum(), &x);
    close("second", &elements(&second), &elements(&(x.sin() * -3.0)), 1e-12);
    let many = kiln_array::stack(&[&x, &v], 0);
    let each = kiln_array::vmap(|x: &Array| grad(|x| f(x, &w).sum(), x), &many);
    close("each", &elements(&each), &elements(&(many.cos() * 3.0)), 1e-12);
    let wrong = |x: &Array| custom_jvp(&[x], |x| x[0].clone(), |_, _, t| t[0].sum());
    let error = jvp(wrong, &x, &v).1.eval().unwrap_err().to_string();
    assert!(error.contains("the rule of `custom_jvp` gives f64 of shape []"), "{error}");
}

/// Attention by kernels, in f32: its tangent is made of what is written down.
#[test]
fn attention_by_kernels() {
    use kiln_array::nn::{Attention, Key};
    let device = device();
    let attention = Attention::new(&device, Key::new(5), 16, 2);
    let x = array(&[2, 5, 16], false, 1).cast(Scalar::F32) * 0.3;
    let v = array(&[2, 5, 16], false, 2).cast(Scalar::F32) * 0.3;
    let w = array(&[2, 5, 16], true, 3).cast(Scalar::F32);
    let (_, change) = jvp(|x| attention.forward(x), &x, &v);
    let forwards = (change * &w).sum().item::<f32>().unwrap();
    let gradient = grad(|x| (attention.forward(x) * &w).sum(), &x);
    let backwards = (gradient * &v).sum().item::<f32>().unwrap();
    assert!((forwards - backwards).abs() < 1e-3 * backwards.abs().max(1.0), "{forwards}, {backwards}");
}

#[test]
fn what_has_no_tangent_is_refused() {
    let device = device();
    let x = Array::new(&device, &[1.0f32, 2.0], &[2]);
    let refused = |v: &Array, problem: &str| {
        let error = jvp(Array::exp, &x, v).1.eval().unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("tests/forward.rs"), "{error}");
    };
    refused(&x.slice(0, ..1), "a tangent of f32 and shape [1] for a parameter of f32 and shape [2]");
    refused(&x.cast(Scalar::F64), "a tangent of f64 and shape [2] for a parameter of f32 and shape [2]");
    let at = Array::arange(&device, 2);
    let error = jvp(|x| x * 2, &at, &at).1.eval().unwrap_err().to_string();
    assert!(error.contains("an array of i64 has no gradient"), "{error}");
    let error = jvp(|x| x.sum(), &vec![x.clone()][0], &x.reshape(&[3])).1.eval().unwrap_err().to_string();
    assert!(error.contains("`reshape`"), "{error}");
    let (_, nothing) = jvp(|x: &Vec<Array>| x.clone(), &Vec::new(), &Vec::new());
    assert!(nothing.is_empty());
    let given = vec![x.clone()];
    let (_, none) = jvp(|x: &Vec<Array>| x[0].exp(), &given, &Vec::new());
    assert!(none.error().unwrap().to_string().contains("0 tangents for 1 parameters"));
}

/// A step of training with the curvature along its direction, which is what `hvp` is for.
/// The line of the user, not one of this crate.
#[test]
fn what_has_no_second_derivative_names_the_line() {
    let x = Array::new(&device(), &[1.0f64, 2.0], &[2]);
    let number = |x: &Array| x * 2.0;
    for (line, derivative) in [(line!(), hessian(number, &x)), (line!(), hvp(number, &x, &x))] {
        let error = derivative.eval().unwrap_err().to_string();
        assert!(error.contains("a gradient is of one float"), "{error}");
        assert!(error.contains(&format!("tests/forward.rs:{line}:")), "{error}");
    }
}

#[test]
fn curvature_along_a_gradient() {
    let device = device();
    let x = Array::new(&device, &[1.0f64, 2.0, 3.0, 4.0], &[2, 2]);
    let at = (Array::new(&device, &[0.3f64, -0.2], &[2]), Array::scalar(&device, 0.1f64));
    let loss = |(w, b): &(Array, Array)| (x.matmul(w) + b - 1.0).square().mean();
    let (_, gradient) = value_and_grad(loss, &at);
    let curved = hvp(loss, &at, &gradient);
    // The loss is quadratic: the step of least loss along the gradient leaves a gradient at a right
    // angle to it.
    let along = |a: &(Array, Array), b: &(Array, Array)| {
        let sum = (&a.0 * &b.0).sum() + (&a.1 * &b.1).sum();
        sum.item::<f64>().unwrap()
    };
    let step = along(&gradient, &gradient) / along(&gradient, &curved);
    let mut slopes = [gradient.0.clone(), gradient.1.clone()].into_iter();
    let next = at.map(&mut |x| x - slopes.next().unwrap() * step);
    assert!(along(&grad(loss, &next), &gradient).abs() < 1e-12);
}
