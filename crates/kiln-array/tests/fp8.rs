//! Products of 8-bit floats against a reference in f64 whose rounding is written here, and networks
//! that train by them.

use kiln_array::nn::{Attention, Conv2d, Key, Linear, Mixed};
use kiln_array::optimizer::AdamW;
use kiln_array::{Array, Error, Module, Scalar, Site, grad, jvp, remat, value_and_grad, vmap};
use kiln_fuzz::GpuCode;
use kiln_runtime::{Device, DiskCache};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The CPU and the interpreter, or the device that the environment variable `KILN_DEVICE` names.
fn devices() -> Vec<Device> {
    let names = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu,interp".into());
    names.split(',').map(|name| Device::open(name).unwrap()).collect()
}

fn device() -> Device {
    devices().remove(0)
}

/// A format: bits of significand, exponent of the least normal number, largest number.
#[derive(Clone, Copy, Debug)]
struct Format(i32, i32, f64);

const E4M3: Format = Format(3, -6, 448.0);
const E5M2: Format = Format(2, -14, 57344.0);

impl Format {
    /// The nearest number, ties to even.
    fn nearest(self, x: f64) -> f64 {
        let Format(bits, least, largest) = self;
        if x == 0.0 {
            return x;
        }
        let mut exponent = least;
        while 2.0 * 2f64.powi(exponent) <= x.abs() {
            exponent += 1;
        }
        let unit = 2f64.powi(exponent - bits);
        ((x / unit).round_ties_even() * unit).clamp(-largest, largest)
    }

    /// Numbers in the format with a scale, as they are and as numbers of before.
    fn narrowed(self, x: &[f64]) -> Vec<f64> {
        let greatest = x.iter().fold(0f64, |greatest, x| greatest.max(x.abs())) as f32;
        let inverse = match greatest {
            0.0 => 1.0,
            _ => (greatest / self.2 as f32).max(f32::MIN_POSITIVE),
        };
        let scaled = |x: f64| x as f32 * (1.0 / inverse);
        x.iter().map(|&x| self.nearest(scaled(x).into()) * f64::from(inverse)).collect()
    }
}

/// An element of a product.
struct Sum {
    value: f64,
    /// The sum of magnitudes.
    size: f64,
    /// How many products there are that count, times the greatest.
    most: f64,
}

/// a `[m, k]` by the transpose of b `[n, k]`.
fn product(a: &[f64], b: &[f64], k: usize) -> Vec<Sum> {
    let rows = a.chunks(k).flat_map(|a| b.chunks(k).map(move |b| (a, b)));
    let of = |(a, b): (&[f64], &[f64])| {
        let terms = || a.iter().zip(b).map(|(a, b)| a * b);
        let greatest = terms().fold(0f64, |greatest, term| greatest.max(term.abs()));
        let many = terms().filter(|&term| term != 0.0).count() as f64;
        Sum { value: terms().sum(), size: terms().map(f64::abs).sum(), most: many * greatest }
    };
    rows.map(of).collect()
}

fn transposed(x: &[f64], columns: usize) -> Vec<f64> {
    (0..columns).flat_map(|c| x.iter().skip(c).step_by(columns).copied()).collect()
}

/// Numbers without a pattern, over many powers of two.
fn numbers(count: usize, seed: usize, size: f32) -> Vec<f32> {
    let of = |i: usize| ((i * 7919 + seed * 104_729 + 13) % 2003) as f32 / 1001.5 - 1.0;
    (0..count).map(|i| of(i) * size * 0.5f32.powi((i * 31 % 19) as i32)).collect()
}

fn wide(x: &Array) -> Vec<f64> {
    x.cast(Scalar::F64).to_vec().unwrap()
}

/// bf16 has 8 bits, and sums of f32 are taken in any order. Tensor cores cut off each product of
/// 8-bit floats below the 13th bit of the greatest.
fn close(array: &Array, expected: &[Sum], name: &str) {
    let (got, on_gpu) = (wide(array), name.starts_with("Device(cuda"));
    let cut_off = if on_gpu { 2f64.powi(-13) } else { 0.0 };
    assert_eq!(got.len(), expected.len(), "{name}");
    for (i, (got, Sum { value, size, most })) in got.iter().zip(expected).enumerate() {
        let tolerance = value.abs() * 2f64.powi(-8) + size * 1e-6 + most * cut_off;
        assert!((got - value).abs() <= tolerance, "{name}, {i}: {got}, expected {value}");
    }
}

/// The product and both gradients of arrays of these shapes and element types.
fn check(device: &Device, before: &[usize], [k, n]: [usize; 2], types: [Scalar; 2], sizes: [f32; 3]) {
    let m: usize = before.iter().product();
    let array = |count: usize, seed: usize, shape: &[usize], dtype: Scalar| {
        Array::new(device, &numbers(count, seed, sizes[seed - 1]), shape).cast(dtype)
    };
    let a = array(m * k, 1, &[before, &[k]].concat(), types[0]);
    // As the weights of a layer lie, every other time.
    let b = match (m + n) % 2 {
        0 => array(k * n, 2, &[n, k], types[1]).swap_axes(0, 1),
        _ => array(k * n, 2, &[k, n], types[1]),
    };
    let g = array(m * n, 3, &[before, &[n]].concat(), Scalar::BF16);
    let y = a.matmul_fp8(&b);
    assert_eq!((y.dtype(), y.shape()), (Scalar::BF16, g.shape()));
    let loss = |[a, b]: &[Array; 2]| (a.matmul_fp8(b).cast(Scalar::F32) * g.cast(Scalar::F32)).sum();
    let [of_a, of_b] = grad(loss, &[a.clone(), b.clone()]);
    assert_eq!((of_a.dtype(), of_b.dtype()), (types[0], types[1]));
    let name = format!("{device:?}, {before:?} x {k} x {n}, {types:?}, {sizes:?}");
    let (a, b, g) = (E4M3.narrowed(&wide(&a)), E4M3.narrowed(&wide(&b)), E5M2.narrowed(&wide(&g)));
    close(&y, &product(&a, &transposed(&b, n), k), &format!("{name}, result"));
    close(&of_a, &product(&g, &b, n), &format!("{name}, gradient of the left one"));
    let (g, a) = (transposed(&g, n), transposed(&a, k));
    close(&of_b, &product(&a, &g, m), &format!("{name}, gradient of the right one"));
}

const F32: [Scalar; 2] = [Scalar::F32, Scalar::F32];
const BF16: [Scalar; 2] = [Scalar::BF16, Scalar::BF16];

#[test]
fn products_and_gradients_are_those_of_the_reference() {
    for device in devices() {
        for (m, k, n) in [(1, 1, 1), (1, 3, 17), (3, 17, 1), (17, 33, 3), (33, 64, 65), (64, 1, 33)] {
            check(&device, &[m], [k, n], BF16, [1.0; 3]);
        }
        check(&device, &[17], [33, 3], F32, [1.0; 3]);
        check(&device, &[2, 3], [5, 7], [Scalar::F16, Scalar::F32], [1.0; 3]);
        check(&device, &[3, 1, 2], [17, 4], [Scalar::F64, Scalar::BF16], [1.0; 3]);
        check(&device, &[], [17, 5], BF16, [1.0; 3]);
    }
    for (m, k, n) in [(130, 70, 200), (65, 129, 64)] {
        check(&device(), &[m], [k, n], BF16, [1.0; 3]);
        check(&device(), &[m], [k, n], F32, [1.0; 3]);
    }
}

/// The code that a GPU is given, run by the interpreter: narrowing by rows and by columns.
#[test]
fn narrowing_is_right_as_code_for_gpus() {
    let backend = GpuCode::named(GpuCode::NAME).unwrap();
    let device = Device::with_backend(Box::new(backend), DiskCache::none());
    for (m, k, n) in [(3, 33, 7), (65, 17, 66)] {
        check(&device, &[m], [k, n], BF16, [1.0; 3]);
        check(&device, &[m], [k, n], F32, [1e-6, 1.0, 1e6]);
    }
}

#[test]
fn scales_reach_from_small_to_large() {
    for device in devices() {
        for sizes in [[1e-6, 1.0, 1e6], [1e6, 1e-6, 1e-6], [1e-20, 1e15, 1e-12], [1e-36, 1e20, 1e10]] {
            check(&device, &[9], [33, 5], F32, sizes);
            check(&device, &[4, 2], [16, 8], BF16, sizes);
        }
    }
}

/// All numbers of E4M3, those halfway between them, and those next to these: a largest one of 448
/// has a scale of 1. E5M2 likewise, as a gradient.
#[test]
fn numbers_are_rounded_to_nearest_even() {
    for (format, is_gradient) in [(E4M3, false), (E5M2, true)] {
        let Format(bits, least, largest) = format;
        let mut all = vec![0.0];
        for exponent in least - bits..=(largest.log2() as i32) {
            let unit = 2f64.powi(exponent - bits - 3);
            all.extend(
                (0..1 << (bits + 3)).map(|i| (2f64.powi(exponent) + f64::from(i) * unit).min(largest)),
            );
        }
        all.extend(all.clone().iter().map(|x| -x));
        let expected: Vec<f64> = all.iter().map(|&x| format.nearest(x)).collect();
        for device in devices() {
            let given: Vec<f32> = all.iter().map(|&x| x as f32).collect();
            let x = Array::new(&device, &given, &[given.len(), 1]);
            let one = Array::ones(&device, Scalar::F32, &[1, 1]);
            let got = match is_gradient {
                false => x.matmul_fp8(&one),
                true => {
                    let zeros = Array::zeros(&device, Scalar::F32, &[given.len(), 1]);
                    let loss = |y: &Array| (y.matmul_fp8(&one).cast(Scalar::F32) * &x).sum();
                    grad(loss, &zeros)
                }
            };
            assert_eq!(wide(&got), expected, "{format:?}, {device:?}");
        }
    }
}

#[test]
fn zeros_and_numbers_that_are_not_finite() {
    for device in devices() {
        let zeros = Array::zeros(&device, Scalar::F32, &[3, 4]);
        let w = Array::new(&device, &numbers(8, 1, 1.0), &[4, 2]);
        let y = |x: &Array| wide(&x.matmul_fp8(&w));
        assert_eq!(y(&zeros), [0.0; 6]);
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut elements = numbers(12, 2, 1.0);
            elements[5] = odd;
            let x = Array::new(&device, &elements, &[3, 4]);
            assert!(y(&x).iter().all(|y| y.is_nan()), "{odd}");
            let right = x.swap_axes(0, 1).matmul_fp8(&x);
            assert!(wide(&right).iter().all(|y| y.is_nan()), "{odd}");
            // In the gradient of the result, too.
            let g = Array::full(&device, odd, &[3, 2]);
            let of = grad(|z| (z.matmul_fp8(&w).cast(Scalar::F32) * &g).sum(), &zeros);
            assert!(wide(&of).iter().all(|of| of.is_nan()), "{odd}");
        }
        // The least numbers, which have the largest scale.
        let x = Array::full(&device, 2f32.powi(-126), &[1, 1]);
        let y = x.matmul_fp8(&Array::full(&device, 2f32.powi(100), &[1, 1]));
        assert_eq!(wide(&y), [2f64.powi(-26)]);
    }
}

#[test]
fn products_of_nothing_are_empty_or_zeros() {
    for device in devices() {
        for (m, k, n) in [(0, 3, 2), (2, 0, 3), (2, 3, 0)] {
            let (a, b) =
                (Array::ones(&device, Scalar::F32, &[m, k]), Array::ones(&device, Scalar::F32, &[k, n]));
            let y = a.matmul_fp8(&b);
            assert_eq!((y.shape(), y.dtype()), (&[m, n][..], Scalar::BF16));
            assert_eq!(wide(&y), vec![0.0; m * n]);
            let [of_a, of_b] = grad(|[a, b]| a.matmul_fp8(b).cast(Scalar::F32).sum(), &[a, b]);
            assert_eq!((wide(&of_a), wide(&of_b)), (vec![0.0; m * k], vec![0.0; k * n]));
        }
    }
}

#[test]
fn what_does_not_fit_is_an_error_with_its_line() {
    let device = device();
    let of = |shape: &[usize]| Array::ones(&device, Scalar::F32, shape);
    let (file, x) = (file!(), of(&[2, 3]));
    let is_here = |location: Site| location.file() == file;
    for (left, right) in [(&x, of(&[2, 3])), (&x, of(&[3])), (&x, of(&[1, 3, 2])), (&of(&[]), of(&[1, 1]))] {
        let Err(Error::Shape { location, .. }) = left.matmul_fp8(&right).eval() else { panic!("{right:?}") };
        assert!(is_here(location));
    }
    let Err(Error::Type { location, dtype, .. }) = x.matmul_fp8(&Array::arange(&device, 3)).eval() else {
        panic!("a product of integers")
    };
    assert!(is_here(location) && dtype == Scalar::I64);
    let other = Array::ones(&Device::open_apart("cpu").unwrap(), Scalar::F32, &[3, 2]);
    let Err(Error::Devices { location, .. }) = x.matmul_fp8(&other).eval() else { panic!("two devices") };
    assert!(is_here(location));
    let error = x.matmul_fp8(&x).eval().unwrap_err().to_string();
    let expected =
        "`matmul_fp8`: shapes [2, 3] and [2, 3]: the left one has 3 columns and the right one 2 rows";
    assert!(error.ends_with(expected), "{error}");
}

/// Derivatives in forward mode, of gradients, and of many arrays at once.
#[test]
fn derivatives_have_derivatives() {
    for device in devices() {
        // Numbers of the formats, whatever power of two they are scaled by.
        let a = Array::new(&device, &[7.0f32, -1.0, 2.0, 3.5, 0.5, -7.0], &[2, 3]);
        let b = Array::new(&device, &[7.0f32, 0.0, -3.0, 1.0, 2.0, -7.0], &[3, 2]);
        let near = |got: &Array, expected: &Array| {
            let (got, expected) = (wide(got), wide(expected));
            assert!(
                got.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 0.07 * b.abs().max(1.0)),
                "{got:?} {expected:?}"
            );
        };
        let wide_product = |a: &Array, b: &Array| a.matmul_fp8(b).cast(Scalar::F32);
        let tangent = Array::new(&device, &[7.0f32, 0.0, 1.0, 0.0, 3.5, 0.0], &[2, 3]);
        near(&jvp(|a| a.matmul_fp8(&b).cast(Scalar::F32), &a, &tangent).1, &tangent.matmul(&b));
        let half = |of: &dyn Fn(&Array) -> Array, a: &Array| grad(|a| of(a).square().sum() * 0.5, a);
        let got = grad(|a| (half(&|a| wide_product(a, &b), a) * &tangent).sum(), &a);
        let expected = grad(|a| (half(&|a| a.matmul(&b), a) * &tangent).sum(), &a);
        let scale = expected.abs().max();
        near(&(got / &scale), &(expected / &scale));
        // Each of many arrays has a scale of its own.
        let many = Array::new(&device, &[1.0f32, 1e6], &[2, 1, 1]) * &a;
        let each = vmap(|a: &Array| a.matmul_fp8(&b), &many);
        let alone = [0, 1].map(|at| wide(&many.select(0, at as isize).matmul_fp8(&b))).concat();
        assert_eq!(wide(&each), alone);
    }
}

fn bits(x: &Array) -> Vec<u64> {
    wide(x).iter().map(|x| x.to_bits()).collect()
}

/// A layer, an input, and the layer's result by `matmul`.
fn layer(device: &Device) -> (Linear, Array, Vec<u64>) {
    let layer = Linear::new(device, Key::new(3), 17, 5);
    let x = Key::new(4).normal(device, &[2, 3, 17]);
    let bias = layer.bias.clone().unwrap();
    let expected = bits(&(x.matmul(&layer.weight.swap_axes(0, 1)) + bias));
    (layer, x, expected)
}

/// Whether layers multiply in 8-bit floats now.
fn narrows(device: &Device) -> bool {
    let (layer, x, expected) = layer(device);
    let narrow = x.matmul_fp8(&layer.weight.swap_axes(0, 1)) + layer.bias.as_ref().unwrap();
    let (y, narrow) = (bits(&layer.forward(&x)), bits(&narrow));
    assert!(y == expected || y == narrow);
    y != expected
}

#[test]
fn layers_multiply_so_under_the_policy_alone() {
    for device in devices() {
        let (net, x, expected) = layer(&device);
        assert!(!narrows(&device));
        let x16 = x.cast(Scalar::BF16);
        let weight = net.weight.cast(Scalar::BF16).swap_axes(0, 1);
        let narrow = x16.matmul_fp8(&weight) + net.bias.as_ref().unwrap().cast(Scalar::BF16);
        let mixed = Mixed::fp8();
        let mut seen = None;
        let (loss, _) = mixed.value_and_grad(&net, |net| {
            // The inner policy counts, and the outer one after it.
            assert!(narrows(&device));
            for (other, expected) in [(Mixed::bf16(), false), (Mixed::f32(), false), (Mixed::fp8(), true)] {
                other.value_and_grad(net, |inner| {
                    assert_eq!(narrows(&device), expected);
                    inner.forward(&x16).sum()
                });
                assert!(narrows(&device));
            }
            let y = net.forward(&x16);
            seen = Some(y.clone());
            y.cast(Scalar::F32).sum()
        });
        loss.eval().unwrap();
        assert_eq!(bits(&seen.unwrap()), bits(&narrow));
        assert!(!narrows(&device));
        assert_eq!(bits(&net.forward(&x)), expected);
        // Nor after a panic, and on no other thread.
        let panics = || {
            mixed.value_and_grad(&net, |_| {
                let elsewhere = std::thread::scope(|s| s.spawn(|| narrows(&device)).join().unwrap());
                assert!(narrows(&device) && !elsewhere);
                std::panic::resume_unwind(Box::new("the function panics"))
            })
        };
        let panicked = catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
        assert_eq!(panicked.downcast_ref(), Some(&"the function panics"));
        assert!(!narrows(&device));
        // Of integers there are no products of 8-bit floats.
        let ones = Array::ones(&device, Scalar::I32, &[1, 17]);
        let (loss, _) = mixed.value_and_grad(&net, |net| net.forward(&ones).cast(Scalar::F32).sum());
        loss.eval().unwrap();
    }
}

/// What is computed again for a gradient is computed as before.
#[test]
fn remat_multiplies_as_before() {
    let device = device();
    let x = Key::new(4).normal(&device, &[3, 17]).cast(Scalar::BF16);
    let net = Linear::new(&device, Key::new(3), 17, 5).cast(Scalar::BF16);
    let of = move |net: &Linear| net.forward(&x).tanh();
    // The gradient is taken outside of the policy.
    let gradient = |layer: &dyn Fn(&Linear) -> Array| {
        let loss = |net: &Linear| {
            let (y, one) = (std::cell::RefCell::new(None), Array::ones(&device, Scalar::F32, &[]));
            Mixed::fp8().value_and_grad(&one, |one| {
                y.replace(Some(layer(net)));
                one.clone()
            });
            y.take().unwrap().cast(Scalar::F32).square().sum()
        };
        bits(&grad(loss, &net).weight)
    };
    let kept = gradient(&of);
    let exact = bits(&grad(|net| of(net).cast(Scalar::F32).square().sum(), &net).weight);
    assert_eq!(gradient(&|net| remat(of.clone(), net)), kept);
    assert_ne!(kept, exact);
    let x = Key::new(4).normal(&device, &[3, 17]).cast(Scalar::BF16);
    let net = Linear::new(&device, Key::new(3), 17, 5);
    let of = |net: &Linear| net.forward(&x).tanh().cast(Scalar::F32).square().sum();
    let (_, kept) = Mixed::fp8().value_and_grad(&net, of);
    let given = x.clone();
    let again = move |net: &Linear| net.forward(&given).tanh().cast(Scalar::F32).square().sum();
    let (_, again) = Mixed::fp8().value_and_grad(&net, |net| remat(again, net));
    let weights = |of: kiln_array::Gradients<Linear>| bits(&of.of.weight);
    assert_eq!(weights(kept), weights(again));
}

/// The layers that hold linear ones, beside their results in f32.
#[test]
fn attention_and_convolutions_follow_the_policy() {
    let device = device();
    let both = |mixed: Mixed, of: &dyn Fn() -> Array| {
        let mut y = None;
        let one = Array::ones(&device, Scalar::F32, &[]);
        mixed.value_and_grad(&one, |one| {
            y = Some(of());
            one.clone()
        });
        wide(&y.unwrap())
    };
    let x = Key::new(1).normal(&device, &[2, 5, 16]).cast(Scalar::BF16);
    let mut attention = Attention::new(&device, Key::new(2), 16, 2);
    attention.qkv.weight *= 10.0;
    let attention = attention.cast(Scalar::BF16);
    let images = Key::new(1).normal(&device, &[2, 5, 6, 3]).cast(Scalar::BF16);
    let conv = Conv2d::new(&device, Key::new(2), 3, 3, 4).cast(Scalar::BF16);
    for of in [&(|| attention.forward(&x)) as &dyn Fn() -> Array, &|| conv.forward(&images)] {
        let [exact, narrow] = [Mixed::bf16(), Mixed::fp8()].map(|mixed| both(mixed, of));
        let size = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
        let apart: Vec<f64> = exact.iter().zip(&narrow).map(|(a, b)| a - b).collect();
        let error = size(&apart) / size(&exact);
        println!("relative error {error:.4}");
        assert!(error > 1e-3 && error < 0.1, "{error}");
    }
}

#[derive(Module)]
#[kiln(crate = kiln_array)]
struct Net {
    layers: Vec<Linear>,
}

impl Net {
    fn forward(&self, x: &Array) -> Array {
        let last = self.layers.len() - 1;
        let hidden = self.layers[..last].iter().fold(x.clone(), |x, layer| layer.forward(&x).gelu());
        self.layers[last].forward(&hidden)
    }
}

/// Two spirals of `count` points each.
fn spirals(device: &Device, count: usize) -> (Array, Array) {
    let point = |i: usize| {
        let (along, sign) = ((i / 2) as f32 / count as f32, if i.is_multiple_of(2) { 1.0 } else { -1.0 });
        let angle = along * 2.0 * std::f32::consts::PI;
        let radius = sign * (0.1 + along);
        [radius * angle.cos(), radius * angle.sin()]
    };
    let points: Vec<f32> = (0..2 * count).flat_map(point).collect();
    let classes: Vec<i32> = (0..2 * count).map(|i| (i % 2) as i32).collect();
    (Array::new(device, &points, &[2 * count, 2]), Array::new(device, &classes, &[2 * count]))
}

/// The losses at the start and at the end, and the share of points that are told right.
fn train(device: &Device, mixed: &Mixed) -> [f32; 3] {
    let (points, classes) = spirals(device, 64);
    let x = points.cast(mixed.dtype());
    let keys: [Key; 3] = Key::new(5).split();
    let sizes = [2, 32, 32, 2];
    let layers = keys.iter().enumerate().map(|(i, key)| Linear::new(device, *key, sizes[i], sizes[i + 1]));
    let (mut net, mut optimizer) = (Net { layers: layers.collect() }, AdamW::new(0.01));
    let mut losses = Vec::new();
    for _ in 0..200 {
        let (loss, gradients) = mixed.value_and_grad(&net, |net| net.forward(&x).cross_entropy(&classes));
        optimizer.step(&mut net, gradients.clip_norm(1.0)).unwrap();
        losses.push(loss.item::<f32>().unwrap());
    }
    let right = net.forward(&points).argmax(-1).equal(&classes).cast(Scalar::F32).mean();
    [losses[0], losses[199], right.item().unwrap()]
}

#[test]
fn two_spirals_are_told_apart_as_in_bf16() {
    let device = device();
    let [f32, bf16, fp8] = [Mixed::f32(), Mixed::bf16(), Mixed::fp8()].map(|mixed| train(&device, &mixed));
    println!("first loss, last loss, accuracy: f32 {f32:?}, bf16 {bf16:?}, fp8 {fp8:?}");
    assert!((fp8[0] - bf16[0]).abs() < 0.05 * bf16[0], "{fp8:?} {bf16:?}");
    assert!(bf16[1] < 0.01 && fp8[1] < bf16[1] + 0.01, "{fp8:?} {bf16:?}");
    assert!(fp8[2] > 0.97, "{fp8:?}");
}

/// Gradients of a layer by the policy are those of its rule, for a loss whose gradients are small.
#[test]
fn small_gradients_need_no_scale_of_the_loss() {
    let device = device();
    let net = Linear::new(&device, Key::new(1), 8, 4);
    let x = Key::new(2).normal(&device, &[16, 8]);
    let of = |by: f64| {
        let x = x.cast(Scalar::BF16);
        let loss = |net: &Linear| net.forward(&x).cast(Scalar::F32).square().sum() * by;
        wide(&Mixed::fp8().value_and_grad(&net, loss).1.of.weight)
    };
    let (_, exact) = value_and_grad(|net: &Linear| net.forward(&x).square().sum(), &net);
    let (large, small, exact) = (of(1.0), of(2f64.powi(-60)), wide(&exact.weight));
    let size = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    let apart: Vec<f64> = large.iter().zip(&exact).map(|(a, b)| a - b).collect();
    println!("relative error {:.4}", size(&apart) / size(&exact));
    assert!(size(&apart) < 0.1 * size(&exact));
    // A power of two changes no digit.
    assert_eq!(small, large.iter().map(|x| x * 2f64.powi(-60)).collect::<Vec<_>>());
}
