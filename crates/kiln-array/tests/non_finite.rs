//! Which operation made the first NaN or infinity, and the mode in which that is an error.

use kiln_array::nn::{Key, Linear, Mixed};
use kiln_array::optimizer::{AdamW, Optimizer, Sgd};
use kiln_array::{
    Array, Error, Module, NonFinite, Scalar, custom_vjp, detect_non_finite, eval, first_non_finite, grad,
    remat, scan, value_and_grad, vmap,
};
use kiln_runtime::Device;

const INFINITY: f32 = f32::INFINITY;

/// Runs a test on the interpreter and on the CPU.
fn on_devices(test: impl Fn(&Device)) {
    for name in ["interp", "cpu"] {
        test(&Device::open(name).unwrap());
    }
}

fn found(arrays: &[&Array]) -> NonFinite {
    first_non_finite(arrays).unwrap().expect("something is not finite")
}

fn is_finite(arrays: &[&Array]) {
    assert_eq!(first_non_finite(arrays).unwrap(), None);
}

/// The error of the mode, which computes arrays as `eval` does.
fn refused(arrays: &[&Array]) -> NonFinite {
    match detect_non_finite(|| eval(arrays)).unwrap_err() {
        Error::NotFinite { found } => *found,
        other => panic!("{other}"),
    }
}

/// `(line, operation, NaN, infinities, index of the first)`.
fn facts(found: &NonFinite) -> (u32, &str, usize, usize, &[usize]) {
    let op = found.op.unwrap_or("");
    (found.location.line(), op, found.nans, found.infinities, &found.first)
}

#[test]
fn the_first_operation_is_found_with_its_line() {
    on_devices(|device| {
        let x = Array::new(device, &[1.0f32, 2.0, 0.0, 4.0, 0.0, 6.0], &[2, 3]);
        let y = (x.log() * 2.0 + 1.0).square().sqrt().sum();
        let line = line!() - 1;
        let of_log = found(&[&y]);
        assert_eq!(facts(&of_log), (line, "log", 0, 2, &[0, 2][..]));
        assert_eq!((of_log.dtype, &of_log.shape[..], of_log.source), (Scalar::F32, &[2, 3][..], None));
        let text = of_log.to_string();
        assert!(text.contains(&format!("tests/non_finite.rs:{line}:")), "{text}");
        assert!(
            text.ends_with(
                ": `log` made 2 infinities and 0 NaN in an array of f32 and shape [2, 3], first at [0, 2], \
                 of finite inputs"
            ),
            "{text}"
        );

        let zero = &x - &x;
        let y = (&zero / &zero).exp();
        assert_eq!(facts(&found(&[&y])), (line!() - 1, "div", 6, 0, &[0, 0][..]));
        let y = (&x * 50.0).exp() - 1.0;
        assert_eq!(facts(&found(&[&y])), (line!() - 1, "exp", 0, 3, &[0, 1][..]));
        let y = (&x / 0.0).sum(); // 0 / 0 is NaN, and others are infinite
        assert_eq!(facts(&found(&[&y])), (line!() - 1, "div", 2, 4, &[0, 0][..]));
        is_finite(&[&(&x + 1.0).log(), &x]);
        is_finite(&[]);
    });
}

/// Smaller floats overflow earlier.
#[test]
fn overflow_of_all_floats() {
    on_devices(|device| {
        let x = Array::new(device, &[11.0f32, 12.0, 13.0], &[3]);
        let y = x.cast(Scalar::F16).exp() + 1.0; // e^12 is 162,754
        assert_eq!(facts(&found(&[&y])), (line!() - 1, "exp", 0, 2, &[1][..]));
        is_finite(&[&(x.exp() + 1.0), &x.cast(Scalar::BF16).exp()]);
        let y = (&x * 7.0).exp() * 2.0; // e^88.7 is the largest f32
        assert_eq!(facts(&found(&[&y])), (line!() - 1, "exp", 0, 1, &[2][..]));
        let y = (&x * 1e4).cast(Scalar::F16);
        assert_eq!(facts(&found(&[&y])), (line!() - 1, "cast", 0, 3, &[0][..]));

        let rows = Array::full(device, 200.0f32, &[2, 400]).cast(Scalar::F16);
        let y = rows.sum_axes(&[1]) * 0.5;
        let of_sum = found(&[&y]);
        assert_eq!(facts(&of_sum), (line!() - 2, "sum", 0, 2, &[0][..]));
        assert_eq!((of_sum.dtype, &of_sum.shape[..]), (Scalar::F16, &[2][..]));
        let y = rows.cumsum(-1) * 0.5; // 327 * 200 is the last one below 65,520
        assert_eq!(facts(&found(&[&y])), (line!() - 1, "cumsum", 0, 2 * 73, &[0, 327][..]));
        is_finite(&[&rows.mean(), &rows.cast(Scalar::F32).sum()]);

        let wide = x.cast(Scalar::F64) * 60.0;
        let y = wide.exp().sqrt();
        assert_eq!(facts(&found(&[&y])), (line!() - 1, "exp", 0, 2, &[1][..]));
        assert_eq!(found(&[&y]).source, None, "it was computed by the first call");
        is_finite(&[&(wide * 0.5).exp()]);
    });
}

#[test]
fn what_was_in_memory_before_has_no_operation() {
    on_devices(|device| {
        let x = Array::new(device, &[1.0f32, f32::NAN, INFINITY], &[3]);
        let line = line!() - 1;
        let y = (&x * 2.0).sum();
        let given = found(&[&y]);
        assert_eq!(facts(&given), (line, "", 1, 1, &[1][..]));
        assert!(given.to_string().ends_with(
            ": an array of f32 and shape [3] that was in memory before has 1 infinity and 1 NaN, first at [1]"
        ));
        assert_eq!(found(&[&x]), given);

        // Infinities alone may be a mask, so that an operation is looked for first.
        let mask = Array::new(device, &[0.0f32, -INFINITY], &[2]);
        let line = line!() - 1;
        let y = &mask * 2.0;
        assert_eq!(facts(&found(&[&y])), (line, "", 0, 1, &[1][..]));
        let y = &mask * 0.0;
        let product = found(&[&y]);
        assert_eq!(facts(&product), (line!() - 2, "mul", 1, 0, &[1][..]));
        assert_eq!(product.source.unwrap().line(), line);
        let text = product.to_string();
        let expected = format!("of inputs that are not finite, from {}", product.source.unwrap());
        assert!(text.ends_with(&expected), "{text}");
    });
}

#[test]
fn deliberate_infinities_are_not_reported() {
    on_devices(|device| {
        let scores = Array::new(device, &[1.0f32, 2.0, 3.0, 4.0], &[2, 2]);
        let masked = scores.where_(&scores.not_equal(2.0), -INFINITY);
        is_finite(&[&masked.softmax(-1)]);
        is_finite(&[&masked, &(&masked * 2.0), &Array::full(device, INFINITY, &[3])]);
        is_finite(&[&masked.max_axes(&[1]).minimum(INFINITY)]);
        // As an array beside constants, and by a whole row.
        let mask = Array::new(device, &[0.0f32, -INFINITY], &[2]);
        is_finite(&[&(&scores + &mask).softmax(-1), &(&scores + &mask).logsumexp(-1)]);
        let none = scores.where_(&scores.greater(2.0), -INFINITY);
        let line = line!() - 1;
        let rows = &none - none.max_keep(&[1]);
        let of_rows = found(&[&rows]);
        assert_eq!(facts(&of_rows), (line!() - 2, "sub", 2, 0, &[0, 0][..]));
        assert_eq!(of_rows.source.unwrap().line(), line);
        // The true reason before it.
        let y = (scores.log() + &mask).softmax(-1) / 0.0;
        assert_eq!(facts(&found(&[&y])), (line!() - 1, "div", 2, 2, &[0, 0][..]));
        let y = ((&scores - 2.0).sqrt() + &mask).softmax(-1).sum();
        assert_eq!(facts(&found(&[&y])), (line!() - 1, "sqrt", 1, 0, &[0, 0][..]));

        // A constant NaN is reported where it is used.
        let y = scores.where_(&scores.less(4.0), f32::NAN);
        assert_eq!(facts(&found(&[&(y + 1.0)])), (line!() - 1, "where", 1, 0, &[1, 1][..]));
        is_finite(&[&scores.where_(&scores.less(5.0), f32::NAN)]);
    });
}

/// What the result does not show, the library's own included.
#[test]
fn what_is_not_selected_is_not_reported() {
    on_devices(|device| {
        let x = Array::new(device, &[0.0f32, 1.0, -8.0], &[3]);
        let safe = x.log().where_(&x.greater(0.0), 0.0);
        is_finite(&[&safe, &x.cbrt(), &x.hypot(3.0), &x.asinh(), &x.sigmoid(), &(x.recip()).tanh()]);
        // The gradient of an unselected branch is NaN, which `cond` is for.
        let slope = grad(|x| x.sqrt().where_(&x.greater(0.0), 0.0).sum(), &x);
        let line = line!() - 1;
        assert_eq!(facts(&found(&[&slope])).0, line);
        // What is infinite because an infinity became zero is reported itself.
        let y = x.slice(0, ..2).log().exp().recip();
        assert_eq!(facts(&found(&[&y])), (line!() - 1, "recip", 0, 1, &[0][..]));
        let y = x.log();
        let line = line!() - 1;
        let safe = y.where_(&x.greater(0.0), 0.0);
        assert_eq!(facts(&found(&[&safe, &y])), (line, "log", 1, 1, &[0][..]));
    });
}

#[test]
fn through_loops_gradients_and_functions_of_many() {
    on_devices(|device| {
        let x = Array::new(device, &[1.0f32, 4.0, 1e3], &[3]);
        let (last, all) = scan(
            |sum: &Array, x: &Array| {
                let next = (sum + x).exp();
                (next.clone(), next)
            },
            Array::scalar(device, 0.0f32),
            &x,
        );
        let line = line!() - 6;
        assert_eq!(facts(&found(&[&last])), (line, "exp", 0, 1, &[][..]));
        assert_eq!(found(&[&all]).location.line(), line);

        let x = Array::new(device, &[4.0f32, 0.0], &[2]);
        let slope = grad(|x| x.sqrt().sum(), &x);
        let line = line!() - 1;
        let of_slope = found(&[&slope]);
        assert_eq!(facts(&of_slope), (line, "div", 0, 1, &[1][..]));
        is_finite(&[&grad(|x| (x + 1.0).sqrt().sum(), &x)]);

        let recomputed = grad(|x| remat(|x: &Array| x.sqrt(), x).sum(), &x);
        assert_eq!(facts(&found(&[&recomputed])), (line!() - 1, "div", 0, 1, &[1][..]));
        let each = vmap(|x: &Array| x.log(), &x);
        assert_eq!(facts(&found(&[&each])), (line!() - 1, "log", 0, 1, &[1][..]));
        let by_rule = |x: &Array| custom_vjp(&[x], |x| x[0].log(), |_, _, g| vec![g.clone()]);
        assert_eq!(facts(&found(&[&by_rule(&x)])), (line!() - 1, "log", 0, 1, &[1][..]));
        assert_eq!(grad(|x| by_rule(x).sum(), &x).to_vec::<f32>().unwrap(), [1.0, 1.0]);

        // What is computed meanwhile keeps its operations, which gradients are taken of.
        let _ = grad(
            |x| {
                let y = x.log() * 2.0;
                let line = line!() - 1;
                y.eval().unwrap();
                assert_eq!(facts(&found(&[&y])), (line, "log", 0, 1, &[1][..]));
                y.sum()
            },
            &x,
        );
        // An element of one of many cannot be read.
        let refused = vmap(|x: &Array| Array::from_result(first_non_finite(&[x]).map(|_| x.clone())), &x);
        assert!(matches!(refused.error(), Some(Error::Mapped { .. })));
    });
}

#[test]
fn several_arrays_together_have_one_first() {
    on_devices(|device| {
        let x = Array::new(device, &[0.0f32, 1.0], &[2]);
        let first = x.log();
        let line = line!() - 1;
        let second = (&x - 1.0).sqrt();
        let (a, b) = (&first * 2.0, &second + &first);
        assert_eq!(facts(&found(&[&b, &a])), (line, "log", 0, 1, &[0][..]));
        let fine = &x + 1.0;
        let other = (&x - 1.0).sqrt();
        assert_eq!(facts(&found(&[&fine, &other])), (line!() - 1, "sqrt", 1, 0, &[0][..]));
        assert_eq!(other.to_vec::<f32>().unwrap()[1], 0.0);
    });
}

#[test]
fn integers_and_empty_arrays_are_finite() {
    on_devices(|device| {
        let x = Array::new(device, &[i32::MAX, 1], &[2]);
        is_finite(&[&(&x + &x), &x.greater(0), &x]);
        let none = Array::new::<f32>(device, &[], &[0, 3]);
        is_finite(&[
            &none,
            &none.log(),
            &none.sum_axes(&[0]),
            &none.matmul(&Array::ones(device, Scalar::F32, &[3, 2])),
        ]);
        let y = (none.sum_axes(&[0]) + x.slice(0, 1..).cast(Scalar::F32)).log() / 0.0;
        assert_eq!(facts(&found(&[&y])), (line!() - 1, "div", 3, 0, &[0][..]));
        let index = Array::new(device, &[1i64, 0], &[2]);
        let y = (x.cast(Scalar::F32) - 1.0).log().take(&index, 0).sum();
        assert_eq!(facts(&found(&[&y])), (line!() - 1, "log", 0, 1, &[1][..]));
    });
}

/// Operations that a function of the library records on its way have its caller's line.
#[test]
fn inside_of_functions_without_a_line_of_their_own() {
    on_devices(|device| {
        let x = Array::new(device, &[1.0f32, 2.0, 2.0, 4.0], &[2, 2]);
        let y = x.inverse() * 2.0;
        let of_inverse = found(&[&y]);
        assert_eq!(of_inverse.location.line(), line!() - 2, "{of_inverse}");
        assert_eq!((of_inverse.op, of_inverse.source), (Some("div"), None));
        let y = Array::full(device, 0.0f64, &[2]).hypot(f64::NAN) + 1.0;
        assert_eq!(found(&[&y]).location.line(), line!() - 1);
    });
}

/// Through the kernel library, whose kernels write all of their results.
#[test]
fn through_products_and_sorts() {
    on_devices(|device| {
        let x = Array::new(device, &[3e20f32, 1.0, 1.0, 1.0], &[2, 2]);
        let y = x.matmul(&x).sort(-1).relu();
        assert_eq!(facts(&found(&[&y])), (line!() - 1, "matmul", 0, 1, &[0, 0][..]));
        let y = (x.matmul(&Array::ones(device, Scalar::F32, &[2, 2])) - 2.0).log() + 1.0;
        assert_eq!(facts(&found(&[&y])), (line!() - 1, "log", 0, 2, &[1, 0][..]));
    });
}

#[test]
fn in_the_mode_every_evaluation_is_checked() {
    on_devices(|device| {
        let x = Array::new(device, &[0.0f32, 1.0], &[2]);
        let of = |found: &NonFinite| (found.op, found.location.line());
        let y = x.log() * 2.0;
        let line = line!() - 1;
        assert_eq!(of(&refused(&[&y])), (Some("log"), line));
        // It has its elements.
        assert_eq!(y.to_vec::<f32>().unwrap(), [-INFINITY, 0.0]);
        detect_non_finite(|| {
            let y = || x.log().sum();
            let line = line!() - 1;
            let errors =
                [y().eval().unwrap_err(), y().item::<f32>().unwrap_err(), eval(&[&x, &y()]).unwrap_err()];
            for error in errors {
                let Error::NotFinite { found } = error else { panic!("{error}") };
                assert_eq!(of(&found), (Some("log"), line));
            }
            assert!(y().to_string().contains("`log` made 1 infinity and 0 NaN"));
            // Calls are nested, and the outer one goes on.
            detect_non_finite(|| assert!(y().eval().is_err()));
            assert!(y().eval().is_err());
            assert_eq!(first_non_finite(&[&y()]).unwrap().unwrap().op, Some("log"));
            assert!(y().eval().is_err());
            assert_eq!((&x + 1.0).log().sum().item::<f32>().unwrap(), 2f32.ln());
            // Another thread has its own mode.
            std::thread::scope(|scope| scope.spawn(|| y().eval().unwrap()).join().unwrap());
            // What has an error has that one.
            assert!(matches!(x.reshape(&[3]).eval(), Err(Error::Shape { .. })));
            let outside = Array::new(device, &[7i64], &[1]);
            assert!(matches!(x.take(&outside, 0).to_vec::<f32>(), Err(Error::Index { .. })));
        });
        x.log().eval().unwrap();
        // A panic ends the mode too.
        let panicked = std::panic::catch_unwind(|| detect_non_finite(|| panic!("on purpose")));
        assert!(panicked.is_err());
        x.log().eval().unwrap();
    });
}

#[test]
fn a_step_that_is_refused_changes_nothing() {
    on_devices(|device| {
        let new = || (Linear::new(device, Key::new(1), 2, 1), AdamW::new(0.1));
        let step = |net: &mut Linear, optimizer: &mut AdamW, last: f32| {
            let x = Array::new(device, &[1.0, 2.0, 3.0, last], &[2, 2]);
            let (loss, gradients) = value_and_grad(|net: &Linear| net.forward(&x).square().mean(), &*net);
            let line = line!() - 1;
            optimizer.step(net, gradients).and_then(|()| loss.item::<f32>()).map_err(|error| (error, line))
        };
        let everything = |net: &Linear, optimizer: &AdamW| -> Vec<Vec<f32>> {
            let parameters = net.parameters().into_iter().map(|(_, array)| array);
            let all: Vec<Array> = parameters.chain(optimizer.state().into_iter().flatten()).collect();
            all.iter().map(|array| array.to_vec().unwrap()).collect()
        };
        let ((mut net, mut optimizer), (mut other, mut of_other)) = (new(), new());
        // Before the optimizer has a state, and later.
        for steps in 0..2 {
            let before = everything(&net, &optimizer);
            let refused = detect_non_finite(|| step(&mut net, &mut optimizer, 3e38));
            let (error, line) = refused.unwrap_err();
            let Error::NotFinite { found } = error else { panic!("{error}") };
            assert_eq!((found.location.line(), found.infinities > 0), (line, true), "{found}");
            assert_eq!((optimizer.steps(), everything(&net, &optimizer)), (steps, before));
            // The next ones are as if it had not been.
            let loss = detect_non_finite(|| step(&mut net, &mut optimizer, 4.0)).unwrap();
            assert_eq!(loss, step(&mut other, &mut of_other, 4.0).unwrap());
            assert_eq!(everything(&net, &optimizer), everything(&other, &of_other));
        }
        // Without the mode such a step is one.
        assert!(step(&mut net, &mut optimizer, 3e38).unwrap().is_infinite());
        assert_eq!(optimizer.steps(), 3);
    });
}

/// Gradients that overflow because the loss is scaled are no error.
#[test]
fn mixed_precision_skips_steps_as_ever() {
    on_devices(|device| {
        let mut net = Linear::new(device, Key::new(1), 2, 1);
        let (mixed, mut optimizer) = (Mixed::f16(), Sgd::new(0.1));
        let before = net.weight.to_vec::<f32>().unwrap();
        detect_non_finite(|| {
            let mut step = |x: f32| {
                let x = Array::full(device, x, &[4, 2]).cast(Scalar::F16);
                let loss = |net: &Linear| net.forward(&x).cast(Scalar::F32).sum();
                let (loss, gradients) = mixed.value_and_grad(&net, loss);
                optimizer.step(&mut net, gradients).and_then(|()| loss.item::<f32>())
            };
            assert!(step(2.0).unwrap().is_finite()); // 65536 * 2 is no f16
            assert_eq!(mixed.scale().unwrap(), 32768.0);
            let error = step(6e4).unwrap_err();
            let Error::NotFinite { found } = error else { panic!("{error}") };
            assert_eq!(found.dtype, Scalar::F16);
            assert_eq!(mixed.scale().unwrap(), 16384.0);
        });
        assert_eq!(net.weight.to_vec::<f32>().unwrap(), before);
    });
}

/// No call is made inside of another one for each array of a chain.
#[test]
fn a_long_chain() {
    let device = Device::open("cpu").unwrap();
    let mut y = Array::full(&device, 1.5f32, &[16]) + 0.0;
    for _ in 0..2000 {
        y = y.square().reshape(&[4, 4]).transpose().flatten(); // infinite in the end
    }
    let line = line!() - 2;
    assert_eq!(facts(&found(&[&y])), (line, "mul", 0, 16, &[0][..]));
}

/// Launches that are recorded have not run.
#[test]
fn graphs_are_recorded_without_checks() {
    on_devices(|device| {
        let x = Array::new(device, &[0.0f32, 1.0], &[2]);
        let y = x.log();
        let record = || {
            y.eval().unwrap();
            Ok(())
        };
        detect_non_finite(|| device.graph(|_| record())).unwrap();
    });
}
