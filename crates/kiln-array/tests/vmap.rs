//! Functions of many arrays at once against a loop, for every operation; with derivatives inside
//! and outside.

mod catalog;

use catalog::{Case, array, cases, device};
use kiln_array::{Array, Scalar, custom_vjp, explain, grad, jvp, stack, vmap, vmap_axes};

fn close(name: &str, got: &Array, expected: &Array) {
    assert_eq!(got.shape(), expected.shape(), "{name}: {:?}", got.error());
    assert_eq!(got.dtype(), expected.dtype(), "{name}");
    let of =
        |x: &Array| x.cast(Scalar::F64).to_vec::<f64>().unwrap_or_else(|error| panic!("{name}: {error}"));
    for (at, (got, expected)) in of(got).iter().zip(&of(expected)).enumerate() {
        let error = (got - expected).abs();
        assert!(error <= 1e-9 * expected.abs().max(1.0), "{name}: {at}: {got}, expected {expected}");
    }
}

/// What a loop gives.
fn by_loop(f: impl Fn(&Array) -> Array, all: &Array) -> Array {
    let each: Vec<Array> = (0..all.shape()[0]).map(|i| f(&all.select(0, i as isize))).collect();
    stack(&each.iter().collect::<Vec<_>>(), 0)
}

fn batch(case: &Case, size: usize) -> Array {
    let each: Vec<Array> = (0..size).map(|seed| array(case.shape, case.positive, seed)).collect();
    stack(&each.iter().collect::<Vec<_>>(), 0)
}

#[test]
fn every_operation() {
    for case in cases() {
        let all = batch(&case, 3);
        close(case.name, &vmap(case.f, &all), &by_loop(case.f, &all));
        let one = all.slice(0, ..1);
        close(case.name, &vmap(case.f, &one), &by_loop(case.f, &one));
    }
}

#[test]
fn derivatives_inside() {
    for case in cases() {
        let all = batch(&case, 3);
        let number = |x: &Array| {
            let y = (case.f)(x);
            let w = array(y.shape(), true, 2);
            (y.sin() * w).sum()
        };
        let gradient = |x: &Array| grad(number, x);
        close(case.name, &vmap(gradient, &all), &by_loop(gradient, &all));
        let v = array(case.shape, false, 4);
        let tangent = |x: &Array| jvp(case.f, x, &v).1;
        close(case.name, &vmap(tangent, &all), &by_loop(tangent, &all));
    }
}

#[test]
fn derivatives_outside() {
    for case in cases() {
        let all = batch(&case, 2);
        let total = |y: Array| {
            let w = array(y.shape(), true, 2);
            (y.sin() * w).sum()
        };
        let got = grad(|all| total(vmap(case.f, all)), &all);
        close(case.name, &got, &grad(|all| total(by_loop(case.f, all)), &all));
        let v = array(all.shape(), false, 4);
        let (_, got) = jvp(|all| vmap(case.f, all), &all, &v);
        close(case.name, &got, &jvp(|all| by_loop(case.f, all), &all, &v).1);
    }
}

#[test]
fn one_inside_of_another() {
    for case in cases().into_iter().filter(|case| case.name != "long sum") {
        let all = batch(&case, 6);
        let nested = all.reshape(&[&[2, 3], case.shape].concat());
        let got = vmap(|part: &Array| vmap(case.f, part), &nested);
        close(case.name, &got, &by_loop(|part| by_loop(case.f, part), &nested));
    }
}

/// Axes of the inputs, arrays that are the same for all, and where the new axis goes.
#[test]
fn axes() {
    let (x, y) = (array(&[2, 3, 4], false, 0), array(&[4, 3], false, 1));
    let f = |[x, y]: &[Array; 2]| x.matmul(y).tanh();
    // x: [2, 4] of axis 1; y: [4] of axis 1.
    for to in [0isize, 1, -1] {
        let got = vmap_axes(f, &[x.clone(), y.clone()], &[Some(1), Some(-1)], to);
        let each: Vec<Array> = (0..3).map(|i| f(&[x.select(1, i), y.select(1, i)])).collect();
        close("both", &got, &stack(&each.iter().collect::<Vec<_>>(), to));
    }
    let got = vmap_axes(f, &[x.clone(), y.clone()], &[Some(0), None], 0);
    close("one", &got, &x.matmul(&y).tanh());
    let got = vmap_axes(f, &[x.clone(), y.clone()], &[Some(2), None], 0);
    assert!(got.error().unwrap().to_string().contains("`matmul`"));
    // Several results, of which one is the same for all, and one the argument itself.
    let all = vmap(|x: &Array| vec![x.sum(), Array::arange(&device(), 2), x.clone()], &y);
    close("sum", &all[0], &y.sum_axes(&[1]));
    assert_eq!(all[1].to_vec::<i64>().unwrap(), [0, 1, 0, 1, 0, 1, 0, 1]);
    close("itself", &all[2], &y);
    // Other element types.
    let words = Array::new(&device(), &[3i32, -5, 7, 8], &[2, 2]);
    let got = vmap(|x: &Array| x.floor_divide(2) % 3 + x.max(), &words);
    let expected = words.floor_divide(2) % 3 + words.max_keep(&[1]);
    assert_eq!(got.to_vec::<i32>().unwrap(), expected.to_vec::<i32>().unwrap());
    let got = vmap(|x: &Array| !x.greater(0).any(), &words);
    assert_eq!(got.to_vec::<bool>().unwrap(), [false, false]);
    let got = vmap(|x: &Array| x.scatter_add(&Array::new(&device(), &[0, 0], &[2]), x, 0), &words);
    assert_eq!(got.to_vec::<i32>().unwrap(), [1, -5, 22, 8]);
}

#[test]
fn no_parts_and_parts_without_elements() {
    for case in cases().into_iter().filter(|case| case.name != "long sum") {
        let all = batch(&case, 2).slice(0, ..0);
        let result = vmap(case.f, &all);
        let one = (case.f)(&array(case.shape, case.positive, 0));
        assert_eq!((result.shape()[0], &result.shape()[1..]), (0, one.shape()), "{}", case.name);
        assert!(result.to_vec::<f64>().unwrap().is_empty());
    }
    let nothing = Array::zeros(&device(), Scalar::F32, &[3, 0, 2]);
    let y = vmap(|x: &Array| x.sum_axes(&[0]) + x.pad(&[(1, 0), (0, 0)]).squeeze(0) + 1.0, &nothing);
    assert_eq!((y.shape(), y.to_vec::<f32>().unwrap()), (&[3, 2][..], vec![1.0; 6]));
}

/// No loop: as many kernels as for one part, and a factor that all share makes one product.
#[test]
fn kernels_are_those_of_one_part() {
    let (x, w) = (array(&[8, 5], false, 0), array(&[5, 3], false, 1));
    let layer = |x: &Array| x.matmul(&w).softmax(-1);
    let text = explain(&[&vmap(layer, &x)]).unwrap();
    assert!(text.starts_with("2 kernels"), "{text}");
    let column = |x: &Array| w.transpose().matmul(x).softmax(-1);
    let text = explain(&[&vmap(column, &x)]).unwrap();
    assert!(text.starts_with("2 kernels"), "{text}");
    close("column", &vmap(column, &x), &by_loop(column, &x));
}

#[test]
fn gradients_of_each_example() {
    let (x, t) = (array(&[6, 4], false, 0), array(&[6], false, 1));
    let w = array(&[4], false, 2);
    let loss = |w: &Array, x: &Array, t: &Array| (x.matmul(w) - t).square();
    let each = vmap(|(x, t): &(Array, Array)| grad(|w| loss(w, x, t), &w), &(x.clone(), t.clone()));
    let expected = (x.matmul(&w) - &t).unsqueeze(1) * 2.0 * &x;
    close("each", &each, &expected);
    // The matrix of derivatives, by rows of the unit matrix.
    let f = |x: &Array| x.matmul(&w) * x;
    let unit = Array::eye(&device(), Scalar::F64, 4);
    let columns = vmap(|v: &Array| jvp(f, &w, v).1, &unit);
    let expected = Array::eye(&device(), Scalar::F64, 4) * w.matmul(&w) + w.unsqueeze(1) * &w;
    close("jacobian", &columns, &expected);
}

#[test]
fn what_reads_elements_is_refused() {
    let x = array(&[2, 3], false, 0);
    let y = vmap(|x: &Array| if x.sum().item::<f64>().is_ok() { x.clone() } else { x * 0.0 }, &x);
    assert_eq!(y.to_vec::<f64>().unwrap(), [0.0; 6]);
    let mut kept = None;
    vmap(
        |x: &Array| {
            kept = Some(x.exp());
            x.clone()
        },
        &x,
    )
    .eval()
    .unwrap();
    let error = kept.unwrap().eval().unwrap_err().to_string();
    assert!(error.contains("tests/vmap.rs") && error.contains("cannot read elements"), "{error}");
    // A rule that needs another array than its inputs.
    let captured = |x: &Array| {
        let y = x.exp();
        custom_vjp(&[x], |x| x[0].exp(), move |_, _, g| vec![g * &y])
    };
    let error = vmap(|x: &Array| grad(|x| captured(x).sum(), x), &x).eval();
    assert!(error.is_ok(), "{error:?}");

    let refused = |y: Array, problem: &str| {
        let error = y.eval().unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("tests/vmap.rs"), "{error}");
    };
    refused(vmap(Array::exp, &x.sum()), "`vmap`: shape [] has no axis 0");
    let sum = |[x, y]: &[Array; 2]| x + y;
    let pair = [x.clone(), array(&[4, 3], false, 1)];
    refused(vmap(sum, &pair), "axis 0 of shape [4, 3] is not as long as that of shape [2, 3]");
    refused(vmap_axes(sum, &pair, &[Some(0)], 0), "1 axes for 2 arrays");
    refused(vmap_axes(sum, &pair, &[None, None], 0), "no array has an axis to map over");
    refused(vmap_axes(Array::exp, &x, &[Some(0)], 2), "results of shape [2, 3] have no axis 2");
    refused(vmap(Array::exp, &x.reshape(&[5])), "`reshape`");
    refused(vmap(|x: &Array| x.reshape(&[5]), &x), "`reshape`");
}

/// By the kernels of the library, in f32: batches of batches are one larger batch.
#[test]
fn attention_by_kernels() {
    use kiln_array::nn::{Attention, Key};
    let device = device();
    let attention = Attention::new(&device, Key::new(5), 16, 2).causal();
    let x = array(&[3, 2, 5, 16], false, 1).cast(Scalar::F32) * 0.3;
    let same = |got: &Array, expected: &Array| {
        let far = (got - expected).abs().max().item::<f32>().unwrap();
        assert!(got.shape() == expected.shape() && far < 1e-6, "{far}");
    };
    same(&vmap(|x: &Array| attention.forward(x), &x), &by_loop(|x| attention.forward(x), &x));
    let gradient = |x: &Array| grad(|x| attention.forward(x).sin().sum(), x);
    same(&vmap(gradient, &x), &by_loop(gradient, &x));
    let total = |y: Array| y.sin().sum();
    let outside = grad(|x| total(vmap(|x: &Array| attention.forward(x), x)), &x);
    same(&outside, &by_loop(gradient, &x));
}

/// Random programs found that a kernel which pads a quotient divided by zero in the places that are
/// padded, where it read a divisor that another kernel had stored.
#[test]
fn whole_quotients_that_are_padded() {
    let device = device();
    let numbers = [-4i32, -5, -1, 2, 2, -4, 5, -1];
    let x = Array::new(&device, &numbers, &[2, 1, 4]);
    let padded = |x: &Array| {
        let y = x.permute(&[1, 0]);
        let quotient = x.floor_divide(y.where_(&y.not_equal(0), 1));
        (quotient.pad(&[(0, 0), (2, 1)]), (x % y).pad(&[(1, 0), (0, 0)]))
    };
    let (quotients, rests) = vmap(padded, &x);
    for (part, numbers) in numbers.chunks(4).enumerate() {
        let floor = |a: i32, b: i32| (f64::from(a) / f64::from(b)).floor() as i32;
        let row = |b: i32| numbers.iter().map(move |&a| (floor(a, b), a - b * floor(a, b)));
        let quotient = numbers.iter().flat_map(|&b| {
            let own = row(b).map(|(quotient, _)| quotient);
            [0, 0].into_iter().chain(own).chain([0])
        });
        let rest = [0; 4].into_iter().chain(numbers.iter().flat_map(|&b| row(b).map(|(_, rest)| rest)));
        let part = part as isize;
        let got = quotients.select(0, part).to_vec::<i32>().unwrap();
        assert_eq!(got, quotient.collect::<Vec<_>>(), "part {part}");
        assert_eq!(rests.select(0, part).to_vec::<i32>().unwrap(), rest.collect::<Vec<_>>(), "part {part}");
    }
}
