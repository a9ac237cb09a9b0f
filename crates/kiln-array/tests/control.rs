//! Loops and choices, against what is written out.

use kiln_array::{Array, Scalar, concatenate, cond, grad, hvp, jvp, scan, stack, vmap};
use kiln_runtime::Device;

/// The CPU, or the device that the environment variable `KILN_DEVICE` names.
fn device() -> Device {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    Device::open(&name).unwrap()
}

fn array(shape: &[usize]) -> Array {
    let numbers: Vec<f64> =
        (0..shape.iter().product()).map(|i| ((i * 37 + 11) % 101) as f64 / 50.0 - 1.0).collect();
    Array::new(&device(), &numbers, shape)
}

fn elements(x: &Array) -> Vec<f64> {
    x.cast(Scalar::F64).to_vec().unwrap_or_else(|error| panic!("{error}"))
}

fn close(got: &[f64], expected: &[f64], most: f64) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() <= most * expected.abs().max(1.0), "{got}, expected {expected}");
    }
}

/// A small recurrent network, whose state and results differ in shape.
fn network(w: &Array, x: &Array) -> (Array, (Array, Array)) {
    let step = |state: &Array, x: &Array| {
        let next = (state.matmul(w) + x).tanh();
        (next.clone(), (next.sum(), next.clone()))
    };
    scan(step, Array::zeros(&device(), Scalar::F64, &[3]), x)
}

#[test]
fn a_loop_with_its_derivatives() {
    let (w, x) = (array(&[3, 3]), array(&[40, 3]));
    let (last, (sums, all)) = network(&w, &x);
    let mut state = vec![0.0; 3];
    let (weights, inputs) = (elements(&w), elements(&x));
    let mut expected = Vec::new();
    for row in inputs.chunks(3) {
        let next = |j: usize| ((0..3).map(|i| state[i] * weights[i * 3 + j]).sum::<f64>() + row[j]).tanh();
        state = (0..3).map(next).collect();
        expected.extend(state.clone());
    }
    assert_eq!((sums.shape(), all.shape()), (&[40][..], &[40, 3][..]));
    close(&elements(&last), &state, 1e-12);
    close(&elements(&all), &expected, 1e-12);
    close(&elements(&sums), &expected.chunks(3).map(|row| row.iter().sum()).collect::<Vec<f64>>(), 1e-12);

    let x = x.slice(0, ..6);
    let number = |w: &Array| {
        let (last, (sums, _)) = network(w, &x);
        last.sum() + sums.square().sum()
    };
    let v = array(&[3, 3]).flip(&[0]);
    let sides = |f: &dyn Fn(&Array) -> Array| (f(&(&w + &v * 1e-5)) - f(&(&w - &v * 1e-5))) / 2e-5;
    let slope = elements(&sides(&number));
    close(&elements(&(grad(number, &w) * &v).sum()), &slope, 1e-8);
    close(&elements(&jvp(number, &w, &v).1), &slope, 1e-8);
    close(&elements(&hvp(number, &w, &v)), &elements(&sides(&|w| grad(number, w))), 1e-7);
    let many = stack(&[&w, &v], 0);
    let each = vmap(|w: &Array| grad(number, w), &many);
    close(&elements(&each.select(0, 1)), &elements(&grad(number, &v)), 1e-12);
}

#[test]
fn no_steps_one_step_and_several_arrays() {
    let device = device();
    let add = |sum: &Array, (x, y): &(Array, Array)| {
        let next = sum + x * y;
        (next.clone(), [next.clone(), x.unsqueeze(0)])
    };
    let start = Array::scalar(&device, 1.0f64);
    for count in [0usize, 1, 17] {
        let (x, y) = (array(&[count, 2]), array(&[count]));
        let (last, [sums, rows]) = scan(add, start.broadcast_to(&[2]), &(x.clone(), y.clone()));
        let products = &x * y.unsqueeze(1);
        assert_eq!((sums.shape(), rows.shape()), (&[count, 2][..], &[count, 1, 2][..]));
        close(&elements(&last), &elements(&(products.sum_axes(&[0]) + 1.0)), 1e-12);
        close(&elements(&sums), &elements(&(products.cumsum(0) + 1.0)), 1e-12);
    }
    let error = |result: (Array, Array)| result.1.eval().unwrap_err().to_string();
    let same = |c: &Array, x: &Array| (c.clone(), c + x);
    let message = error(scan(same, start.clone(), &start));
    assert!(
        message.contains("`scan`: a number has no parts") && message.contains("tests/control.rs"),
        "{message}"
    );
    let grows = |c: &Array, _: &Array| (concatenate(&[c, c], 0), c.clone());
    let message = error(scan(grows, array(&[2]), &array(&[3])));
    let expected = "`scan`: result 0, counted from 0, has shape [2] for part 0 and [4] for part 1";
    assert!(message.contains(expected) && message.contains("tests/control.rs"), "{message}");
    let counts = |c: &Array, _: &Array| (c + 1.0, vec![c.clone(); c.item::<f64>().unwrap() as usize]);
    let message = scan(counts, start.clone(), &array(&[3])).1[0].eval().unwrap_err().to_string();
    let expected = "`scan`: the function gives 1 arrays for part 0 and 2 for part 1";
    assert!(message.contains(expected) && message.contains("tests/control.rs"), "{message}");
    let pair = |c: &Array, x: &(Array, Array)| (c.clone(), c + &x.0 + &x.1);
    let message = error(scan(pair, start.clone(), &(array(&[2]), array(&[3]))));
    assert!(message.contains("first axes of shapes [2] and [3] are not equal"), "{message}");
    let none = |c: &Array, _: &Vec<Array>| (c.clone(), c.clone());
    let message = error(scan(none, start, &Vec::new()));
    assert!(message.contains("`scan`: there are no arrays to go over"), "{message}");
}

#[test]
fn a_choice_with_its_derivatives() {
    let device = device();
    let x = Array::new(&device, &[4.0f64, 0.0, -1.0], &[3]);
    // One bool for all.
    for (sign, value, slope) in [(true, 2.0, 0.25), (false, 12.0, 3.0)] {
        let which = Array::full(&device, sign, &[]);
        let f = |x: &Array| cond(&which, x, Array::sqrt, |x| x * 3.0);
        let at = x.slice(0, ..1);
        assert_eq!((elements(&f(&at)), elements(&grad(|x| f(x).sum(), &at))), (vec![value], vec![slope]));
    }
    // Bools for each element: what is not chosen has an infinite slope, and a root of a negative.
    let f = |x: &Array| cond(&x.greater(0.0), x, Array::sqrt, |x| x * 3.0);
    close(&elements(&f(&x)), &[2.0, 0.0, -3.0], 1e-12);
    close(&elements(&grad(|x| f(x).sum(), &x)), &[0.25, 3.0, 3.0], 1e-12);
    close(&elements(&jvp(f, &x, &Array::ones(&device, Scalar::F64, &[3])).1), &[0.25, 3.0, 3.0], 1e-12);
    close(&elements(&vmap(|x: &Array| grad(f, x), &x)), &[0.25, 3.0, 3.0], 1e-12);
    // Several results and parameters, of which one is shared.
    let [a, b] = cond(
        &Array::full(&device, false, &[]),
        &(x.clone(), Array::arange(&device, 3)),
        |(x, i)| [x.exp(), i.clone()],
        |(x, i)| [x * 2.0, i + 1],
    );
    assert_eq!((elements(&a), b.to_vec::<i64>().unwrap()), (vec![8.0, 0.0, -2.0], vec![1, 2, 3]));
    let wrong = cond(&Array::full(&device, true, &[]), &x, |x| vec![x.clone()], |_| Vec::new());
    let error = wrong[0].eval().unwrap_err().to_string();
    assert!(error.contains("`cond`: one function gives 1 arrays and the other 0"), "{error}");
    let error = cond(&x, &x, Array::exp, Array::exp).eval().unwrap_err().to_string();
    assert!(error.contains("tests/control.rs") && error.contains("`cond` of f64"), "{error}");
    let error = cond(&x.greater(0.0), &x, |_| array(&[2]), Array::exp).eval().unwrap_err().to_string();
    assert!(error.contains("tests/control.rs") && error.contains("`cond`: shapes [3] and [2]"), "{error}");
}

/// As many arrays as a scan gives.
#[test]
fn many_arrays_are_joined() {
    let all: Vec<Array> = (0..70).map(|i| array(&[2, i % 4]) + i as f64).collect();
    let joined = concatenate(&all.iter().collect::<Vec<_>>(), 1);
    let rows: Vec<Vec<f64>> = all.iter().map(elements).collect();
    let row =
        |at: usize| rows.iter().flat_map(move |of| of[of.len() / 2 * at..of.len() / 2 * (at + 1)].to_vec());
    close(&elements(&joined), &row(0).chain(row(1)).collect::<Vec<_>>(), 0.0);
}
