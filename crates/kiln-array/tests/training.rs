//! Modules, optimizers and mixed precision against values in f64 that are worked out apart.

use kiln_array::nn::{Attention, Conv2d, Embedding, Key, LayerNorm, Linear, Mixed, RmsNorm, load, save};
use kiln_array::optimizer::{AdamW, Lion, Optimizer, Schedule, Sgd};
use kiln_array::{Array, Gradients, Module, Result, Scalar, grad, jvp, value_and_grad};
use kiln_runtime::{Activity, Device};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The CPU, or the device that the environment variable `KILN_DEVICE` names.
fn device() -> Device {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    Device::open(&name).unwrap()
}

#[derive(Module)]
#[kiln(crate = kiln_array)]
struct Net {
    table: Embedding,
    layers: Vec<Linear>,
    norm: Option<LayerNorm>,
    last: [RmsNorm; 1],
    #[module(skip)]
    _activation: Activation,
    _width: usize,
}

#[derive(Clone)]
struct Activation;

impl Net {
    fn new(device: &Device, norm: bool) -> Net {
        let [a, b, c] = Key::new(5).split();
        Net {
            table: Embedding::new(device, a, 7, 5),
            layers: vec![Linear::new(device, b, 5, 6), Linear::new(device, c, 6, 3)],
            norm: norm.then(|| LayerNorm::new(device, 6)),
            last: [RmsNorm::new(device, 3)],
            _activation: Activation,
            _width: 5,
        }
    }

    fn forward(&self, tokens: &Array) -> Array {
        let x = self.layers[0].forward(&self.table.forward(tokens)).gelu();
        let x = match &self.norm {
            Some(norm) => norm.forward(&x),
            None => x,
        };
        self.last[0].forward(&self.layers[1].forward(&x))
    }
}

#[test]
fn parameters_have_names() {
    let net = Net::new(&device(), true);
    let names: Vec<String> = net.parameters().into_iter().map(|(name, _)| name).collect();
    let expected = "table.weight layers.0.weight layers.0.bias layers.1.weight layers.1.bias \
                    norm.weight norm.bias last.0.weight";
    assert_eq!(names.join(" "), expected);
    assert_eq!(net.parameter_count(), 35 + 36 + 21 + 12 + 3);
    assert_eq!(Net::new(&device(), false).parameters().len(), 6);
    assert_eq!(net.cast(Scalar::BF16).table.weight.dtype(), Scalar::BF16);
}

#[test]
fn random_words_are_those_of_random123() {
    // Philox 4x32-10 of counter 0 and key 0 begins with 6627e8d5 (Random123's kat_vectors).
    let device = device();
    let first = Key::new(0).uniform(&device, &[3, 0]);
    assert!(first.to_vec::<f32>().unwrap().is_empty());
    let first = Key::new(0).uniform(&device, &[1]).item::<f32>().unwrap();
    assert_eq!(first, (0x6627_e8d5u32 >> 8) as f32 / 16_777_216.0);
    let x = Key::new(9).uniform(&device, &[41, 5]).to_vec::<f32>().unwrap();
    for (i, x) in x.into_iter().enumerate() {
        assert_eq!(x, (philox(i as u32, 9) >> 8) as f32 / 16_777_216.0, "element {i}");
    }
}

/// The first word, written in 64-bit integers.
fn philox(counter: u32, key: u64) -> u32 {
    let (mut c, mut k) = ([counter, 0, 0, 0], [key as u32, (key >> 32) as u32]);
    for _ in 0..10 {
        let (p, q) = (0xD251_1F53u64 * u64::from(c[0]), 0xCD9E_8D57u64 * u64::from(c[2]));
        c = [(q >> 32) as u32 ^ c[1] ^ k[0], q as u32, (p >> 32) as u32 ^ c[3] ^ k[1], p as u32];
        k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
    }
    c[0]
}

#[test]
fn cross_entropy_and_its_gradient() {
    let device = device();
    let (rows, classes) = (5, 7);
    let x: Vec<f32> = (0..rows * classes).map(|i| ((i * 37 + 11) % 101) as f32 - 50.0).collect();
    let targets: Vec<i32> = (0..rows as i32).map(|i| (i * 3) % 7).collect();
    let at = Array::new(&device, &x, &[rows, classes]);
    let of = Array::new(&device, &targets, &[rows]);
    let (loss, gradient) = value_and_grad(|x| x.cross_entropy(&of), &at);
    let gradient = gradient.to_vec::<f32>().unwrap();
    let mut expected = 0.0;
    for (i, row) in x.chunks(classes).enumerate() {
        let row: Vec<f64> = row.iter().map(|&x| x.into()).collect();
        let max = row.iter().copied().fold(f64::MIN, f64::max);
        let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
        expected += (max + sum.ln() - row[targets[i] as usize]) / rows as f64;
        for (j, x) in row.iter().enumerate() {
            let hot = f64::from(u8::from(targets[i] as usize == j));
            let slope = ((x - max).exp() / sum - hot) / rows as f64;
            assert!((f64::from(gradient[i * classes + j]) - slope).abs() < 1e-6);
        }
    }
    assert!((f64::from(loss.item::<f32>().unwrap()) - expected).abs() < 1e-5 * expected);
    let error = at.cross_entropy(&at).eval().unwrap_err().to_string();
    assert!(error.contains("`cross_entropy`: targets of shape [5, 7] for logits of shape [5, 7]"), "{error}");
}

/// Negative numbers are no classes, although they are indices from the end.
#[test]
fn targets_are_classes() {
    // On a GPU what other tests compute meanwhile would hold the errors too.
    let device = Device::open_apart(device().id()).unwrap();
    let logits = Array::new(&device, &[1.0f32, 2.0, 3.0, 1.0, 2.0, 3.0], &[2, 3]);
    for wrong in [-1, -3, i64::MIN, 3, 1 << 32] {
        let targets = Array::new(&device, &[2, wrong], &[2]);
        let narrow = targets.clip(-5, 5).cast(Scalar::I32);
        for targets in [targets, narrow] {
            let error = logits.cross_entropy(&targets).item::<f32>().unwrap_err().to_string();
            assert!(
                error.contains("an index lies outside") && error.contains("tests/training.rs"),
                "{error}"
            );
        }
    }
    let expected = (1.0 + (-1f32).exp() + (-2f32).exp()).ln() + 0.5;
    for dtype in [Scalar::I32, Scalar::U32, Scalar::I64] {
        let loss = logits.cross_entropy(&Array::new(&device, &[2, 1], &[2]).cast(dtype));
        assert!((loss.item::<f32>().unwrap() - expected).abs() < 1e-6);
    }
}

/// Twenty steps on a quadratic, and the same in f64 by a rule of (step, p, g, state).
fn follows(
    mut step: impl FnMut(&mut [Array; 2], [Array; 2]),
    rule: impl Fn(i32, bool, f64, f64, &mut [f64; 2]) -> f64,
) {
    let device = device();
    let start: Vec<f64> = (0..15).map(|i| ((i * 7 + 3) % 11) as f64 / 4.0 - 1.2).collect();
    let curve: Vec<f64> = (0..15).map(|i| 0.3 + ((i * 5) % 7) as f64 / 5.0).collect();
    let array = |x: &[f64], shape: &[usize]| {
        Array::new(&device, &x.iter().map(|&x| x as f32).collect::<Vec<_>>(), shape)
    };
    let mut net = [array(&start[..12], &[3, 4]), array(&start[12..], &[3])];
    let curves = [array(&curve[..12], &[3, 4]), array(&curve[12..], &[3])];
    let (mut p, mut state) = (start, [[0.0; 2]; 15]);
    for t in 0..20 {
        let loss = |n: &[Array; 2]| {
            let parts = [0, 1].map(|i| (n[i].square() * &curves[i] + n[i].sin()).sum());
            &parts[0] + &parts[1]
        };
        let slopes = grad(loss, &net);
        step(&mut net, slopes);
        for i in 0..15 {
            let gradient = 2.0 * p[i] * curve[i] + p[i].cos();
            p[i] = rule(t, i < 12, p[i], gradient, &mut state[i]);
        }
        let got = [net[0].to_vec::<f32>().unwrap(), net[1].to_vec::<f32>().unwrap()].concat();
        for (got, expected) in got.into_iter().zip(&p) {
            assert!((f64::from(got) - expected).abs() < 2e-5, "step {t}: {got}, expected {expected}");
        }
    }
}

#[test]
fn sgd_follows_its_rule() {
    let mut optimizer = Sgd::new(Schedule::cosine(0.1, 3, 18)).momentum(0.9);
    follows(
        |net, g| optimizer.step(net, g).unwrap(),
        |t, _, p, g, [v, _]| {
            *v = 0.9 * *v + g;
            p - rate(t) * *v
        },
    );
}

/// Warm-up over 3 of 18 steps to 0.1.
fn rate(t: i32) -> f64 {
    match t {
        0..3 => 0.1 * f64::from(t + 1) / 3.0,
        3..18 => 0.05 * (1.0 + (f64::from(t - 3) / 15.0 * std::f64::consts::PI).cos()),
        _ => 0.0,
    }
}

#[test]
fn adamw_follows_its_rule() {
    let mut optimizer = AdamW::new(0.05).weight_decay(0.1);
    follows(
        |net, g| optimizer.step(net, g).unwrap(),
        |t, decays, p, g, [m, v]| {
            *m = 0.9 * *m + 0.1 * g;
            *v = 0.999 * *v + 0.001 * g * g;
            let (m, v) = (*m / (1.0 - 0.9f64.powi(t + 1)), *v / (1.0 - 0.999f64.powi(t + 1)));
            let decay = if decays { 0.05 * 0.1 * p } else { 0.0 };
            p - decay - 0.05 * m / (v.sqrt() + 1e-8)
        },
    );
}

#[test]
fn lion_follows_its_rule() {
    let mut optimizer = Lion::new(0.01).weight_decay(0.1);
    follows(
        |net, g| optimizer.step(net, g).unwrap(),
        |_, decays, p, g, [m, _]| {
            let sign = (0.9 * *m + 0.1 * g).signum();
            *m = 0.99 * *m + 0.01 * g;
            p - 0.01 * (sign + if decays { 0.1 * p } else { 0.0 })
        },
    );
}

#[test]
fn steps_compile_nothing_after_the_first() {
    let device = Device::open("interp:8101").unwrap();
    let compiled = Arc::new(AtomicUsize::new(0));
    let counted = compiled.clone();
    let _observation = device.observe(move |activity: &Activity| {
        if matches!(activity, Activity::Compile(_)) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut net = Net::new(&device, true);
    // The corrections of means become 1, and the rate becomes 0.
    let mut optimizer = AdamW::new(Schedule::cosine(0.05, 2, 24)).betas(0.3, 0.4);
    let (tokens, targets) =
        (Array::new(&device, &[1i32, 6, 0], &[3]), Array::new(&device, &[0i32, 2, 1], &[3]));
    let mut after = Vec::new();
    let mut losses = Vec::new();
    for step in 0..26 {
        let (loss, gradients) = Mixed::f32().value_and_grad(&net, |n| {
            n.forward(&tokens).dropout(0.1, Key::new(3).fold(step)).cross_entropy(&targets)
        });
        optimizer.step(&mut net, gradients.clip_norm(1.0)).unwrap();
        losses.push(loss.item::<f32>().unwrap());
        after.push(compiled.load(Ordering::Relaxed));
    }
    assert!(after[0] > 0 && after.iter().all(|&count| count == after[0]), "{after:?}");
    assert!(losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
}

/// Steps make the next loss's narrow parameters. They are those that a cast gives, and all steps
/// have the same kernels.
#[test]
fn narrow_parameters_are_made_by_the_step_before() {
    for mixed in [Mixed::bf16, Mixed::f16, Mixed::fp8] {
        let train = |again: bool| {
            let device = Device::open_apart("cpu").unwrap();
            let launches = Arc::new(AtomicUsize::new(0));
            let counted = launches.clone();
            let _observation = device.observe(move |activity: &Activity| {
                if matches!(activity, Activity::Launch(_)) {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            });
            let (mut net, mixed, mut optimizer) = (Net::new(&device, true), mixed(), AdamW::new(0.02));
            let tokens = Array::new(&device, &[1i32, 6, 0], &[3]);
            let targets = Array::new(&device, &[0i32, 2, 1], &[3]);
            let (mut losses, mut counts) = (Vec::new(), Vec::new());
            for _ in 0..6 {
                if again {
                    // The same elements in arrays that no step has made.
                    net = kiln_array::Parameters::map(&net, &mut |x: &Array| {
                        Array::new(&device, &x.to_vec::<f32>().unwrap(), x.shape())
                    });
                }
                let before = launches.load(Ordering::Relaxed);
                let (loss, gradients) =
                    mixed.value_and_grad(&net, |n| n.forward(&tokens).cross_entropy(&targets));
                optimizer.step(&mut net, gradients.clip_norm(1.0)).unwrap();
                counts.push(launches.load(Ordering::Relaxed) - before);
                losses.push(loss.item::<f32>().unwrap());
            }
            losses.extend(net.parameters().iter().flat_map(|(_, x)| x.to_vec::<f32>().unwrap()));
            (losses, counts)
        };
        let [(losses, counts), (expected, more)] = [false, true].map(train);
        assert_eq!(losses, expected);
        assert!(counts[1..].iter().all(|&count| count == counts[1]), "{counts:?}");
        assert!(counts[1] < more[1], "{counts:?}, with casts {more:?}");
    }
}

#[test]
fn gradients_that_are_not_finite_change_nothing() {
    let device = device();
    let mixed = Mixed::f16();
    let mut net = Linear::new(&device, Key::new(1), 3, 2);
    let mut optimizer = Sgd::new(0.1);
    let x = Array::full(&device, 0.5f32, &[4, 3]).cast(Scalar::F16);
    let mut step = |net: &mut Linear, by: f32| {
        let (loss, gradients) = mixed.value_and_grad(net, |n| n.forward(&x).cast(Scalar::F32).mean() * by);
        optimizer.step(net, gradients.clip_norm(1.0)).unwrap();
        loss.item::<f32>().unwrap();
        (net.weight.to_vec::<f32>().unwrap(), mixed.scale().unwrap())
    };
    let (before, scale) = step(&mut net, 1.0);
    assert_eq!(scale, 65536.0);
    let (after, scale) = step(&mut net, 1e6);
    assert_eq!((after, scale), (before.clone(), 32768.0));
    let (after, scale) = step(&mut net, 1.0);
    assert!(after != before && scale == 32768.0 && after.iter().all(|x| x.is_finite()));
}

/// One wrong loss is the error of its step, and of no other.
#[test]
fn a_loss_with_an_error_leaves_the_scale() {
    let device = device();
    let (mixed, mut optimizer) = (Mixed::f16(), Sgd::new(0.5));
    let mut w = Array::new(&device, &[1.0f32, -2.0, 3.0], &[3]);
    let loss = |w: &Array| w.cast(Scalar::F32).square().sum() * 0.1;
    for _ in 0..2 {
        let (wrong, gradients) = mixed.value_and_grad(&w, |w| w + Array::full(&device, 1.0f32, &[2]));
        assert!(wrong.error().is_some() && optimizer.step(&mut w, gradients).is_err());
        // The function may ask for the scale, too.
        let (value, gradients) = mixed.value_and_grad(&w, |w| {
            assert!(mixed.scale().is_ok());
            loss(w)
        });
        optimizer.step(&mut w, gradients).unwrap();
        assert!(value.item::<f32>().unwrap() > 0.0);
        assert_eq!(mixed.scale().unwrap(), 65536.0);
    }
}

#[test]
fn gradients_of_another_module_are_refused() {
    let device = device();
    let [a, b] = [2, 3].map(|len| Array::full(&device, 1.0f32, &[len]));
    let error = Sgd::new(0.1).step(&mut a.clone(), Gradients::from(b)).unwrap_err().to_string();
    assert!(error.contains("`step`: gradients of shapes [[3]] for parameters of shapes [[2]]"), "{error}");
}

#[derive(Module, Clone)]
#[kiln(crate = kiln_array)]
struct Counted {
    scale: f64,
    layers: Vec<[Array; 2]>,
    count: Array,
}

/// A step of an optimizer.
type Step<'a> = &'a mut dyn FnMut(&mut Array, Array) -> Result<()>;

#[test]
fn parameters_that_are_no_floats_are_refused_by_name() {
    let device = device();
    let (count, ones) = (Array::arange(&device, 2), Array::ones(&device, Scalar::F32, &[2]));
    let (mut sgd, mut adamw, mut lion) = (Sgd::new(0.1), AdamW::new(0.1), Lion::new(0.1));
    let optimizers: [Step<'_>; 3] =
        [&mut |x, g| sgd.step(x, g), &mut |x, g| adamw.step(x, g), &mut |x, g| {
            Optimizer::step(&mut lion, x, g)
        }];
    for optimizer in optimizers {
        let mut changed = count.clone();
        let error = optimizer(&mut changed, ones.clone()).unwrap_err().to_string();
        assert_eq!(changed.to_vec::<i64>().unwrap(), [0, 1]);
        assert!(error.contains("the parameter is of i64: an optimizer changes floats"), "{error}");
        assert!(error.contains("tests/training.rs"), "{error}");
        let error = optimizer(&mut ones.clone(), count.clone()).unwrap_err().to_string();
        assert!(error.contains("the gradient of the parameter is of i64"), "{error}");
    }

    let layers = vec![[ones.clone(), ones.clone()]];
    let mut net = Counted { scale: 2.0, layers, count };
    let loss = |net: &Counted| (&net.layers[0][1] * net.scale).sum();
    let error = grad(loss, &net).count.eval().unwrap_err().to_string();
    assert!(error.contains("the parameter `count` is of i64, which has no gradient"), "{error}");
    let gradients = net.clone();
    let error = Sgd::new(0.1).step(&mut net, gradients).unwrap_err().to_string();
    assert!(error.contains("the parameter `count` is of i64"), "{error}");
    let mut nets = (ones, [Some(Counted { count: net.layers[0][0].clone(), ..net })]);
    nets.1[0].as_mut().unwrap().layers[0][1] = Array::arange(&device, 2);
    let error = jvp(|nets| loss(nets.1[0].as_ref().unwrap()), &nets, &nets).1.eval().unwrap_err().to_string();
    assert!(error.contains("the parameter `1.0.layers.0.1` is of i64"), "{error}");
}

#[test]
fn files_name_what_differs() {
    let device = device();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.safetensors");
    let (one, mut other) = (Net::new(&device, true), Net::new(&device, false));
    save(&one, &path).unwrap();
    let error = load(&mut other, &path).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "`norm.bias` is no parameter of the module; `norm.weight` is no parameter of the module"
        ),
        "{error}"
    );
    save(&other, &path).unwrap();
    let mut wide = Net::new(&device, true);
    wide.layers[0] = Linear::new(&device, Key::new(1), 5, 8);
    let error = load(&mut wide, &path).unwrap_err().to_string();
    assert!(error.contains("`layers.0.bias` has shape [6] instead of [8]"), "{error}");
    assert!(error.contains("`norm.bias` is missing"), "{error}");
    let mut same = Net::new(&device, false);
    same.table = Embedding::new(&device, Key::new(77), 7, 5);
    load(&mut same, &path).unwrap();
    assert_eq!(same.table.weight.to_vec::<f32>().unwrap(), other.table.weight.to_vec::<f32>().unwrap());
}

/// Numbers that nobody means, and that a damaged checkpoint may have.
#[test]
fn absurd_numbers_are_no_panics() {
    let device = device();
    let x = Array::full(&device, 1.0f32, &[1, 4, 4, 2]);
    for padding in [1 << 40, usize::MAX / 4, usize::MAX / 2, usize::MAX] {
        let layer = Conv2d::new(&device, Key::new(1), 3, 2, 3).padding(padding);
        assert!(layer.forward(&x).error().is_some());
    }
    for (size, channels) in [(usize::MAX, 2), (1 << 31, 8), (1 << 20, 1 << 30), (3, usize::MAX / 2)] {
        let layer = Conv2d::new(&device, Key::new(1), size, channels, 3);
        let error = layer.windows.weight.error().unwrap().to_string();
        assert!(error.contains("training.rs"), "{error}");
        assert!(layer.forward(&x).error().is_some());
        assert!(layer.padding(size).forward(&x).error().is_some());
    }
    assert!(Attention::new(&device, Key::new(1), usize::MAX / 2, 2).qkv.weight.error().is_some());
    let (mut w, mut optimizer) = (Array::full(&device, 1.0f32, &[2]), Sgd::new(0.5));
    optimizer.restore(usize::MAX, Vec::new());
    optimizer.step(&mut w, Array::full(&device, 1.0f32, &[2])).unwrap();
    assert!((w.sum().item::<f32>().unwrap() - 1.0).abs() < 1e-6);
}
