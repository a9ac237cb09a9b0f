//! Fourier transforms against sums in f64, there and back, and their derivatives.

use kiln_array::{Array, Scalar, grad, jvp, stack, vmap};
use kiln_runtime::Device;
use std::f64::consts::TAU;

/// The CPU, or the device that the environment variable `KILN_DEVICE` names.
fn device() -> Device {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    Device::open(&name).unwrap()
}

fn random(seed: u64, len: usize) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| random.f64() * 2.0 - 1.0).collect()
}

/// The sums by their definition.
fn transform(re: &[f64], im: &[f64], sign: f64) -> (Vec<f64>, Vec<f64>) {
    let n = re.len();
    let sum = |k: usize| {
        (0..n).fold((0.0, 0.0), |(a, b), t| {
            let (s, c) = (sign * TAU * (k * t % n) as f64 / n as f64).sin_cos();
            (a + re[t] * c - im[t] * s, b + re[t] * s + im[t] * c)
        })
    };
    (0..n).map(sum).unzip()
}

fn close(what: &str, got: &Array, expected: &[f64], most: f64) {
    let got = got.cast(Scalar::F64).to_vec::<f64>().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(got.len(), expected.len(), "{what}");
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() <= most, "{what}: {at}: {got}, expected {expected}");
    }
}

/// One element, powers of two, products of several, primes small and large.
const LENGTHS: [usize; 13] = [1, 2, 3, 8, 30, 64, 67, 96, 101, 128, 134, 1000, 4096];

#[test]
fn against_the_definition() {
    let device = device();
    for n in LENGTHS {
        let (re, im) = (random(1, n), random(2, n));
        let (a, b) = transform(&re, &im, -1.0);
        let (x, y) = (Array::new(&device, &re, &[n]), Array::new(&device, &im, &[n]));
        for (dtype, most) in [(Scalar::F64, 1e-13), (Scalar::F32, 3e-6)] {
            let most = most * (n as f64).sqrt() * 4.0;
            let (re_of, im_of) = x.cast(dtype).fft(&y.cast(dtype), 0);
            assert_eq!((re_of.dtype(), re_of.shape()), (dtype, &[n][..]));
            close(&format!("re {n} {dtype}"), &re_of, &a, most);
            close(&format!("im {n} {dtype}"), &im_of, &b, most);
            let (back, none) = re_of.ifft(&im_of, -1);
            close("back", &back, &re, most);
            close("back", &none, &im, most);
            let (half_re, half_im) = x.cast(dtype).rfft(0);
            let (a, b) = transform(&re, &vec![0.0; n], -1.0);
            close("half", &half_re, &a[..n / 2 + 1], most);
            close("half", &half_im, &b[..n / 2 + 1], most);
            close("real", &half_re.irfft(&half_im, n, 0), &re, most);
        }
    }
}

#[test]
fn axes_stacks_and_other_types() {
    let device = device();
    let x = Array::new(&device, &random(3, 2 * 6 * 4), &[2, 6, 4]);
    let (re, im) = x.rfft(1);
    assert_eq!((re.shape(), im.shape()), (&[2, 4, 4][..], &[2, 4, 4][..]));
    for (i, j) in (0..2).flat_map(|i| (0..4).map(move |j| (i, j))) {
        let column = x.select(0, i).select(1, j);
        let (a, b) = transform(&column.to_vec::<f64>().unwrap(), &[0.0; 6], -1.0);
        close("re", &re.select(0, i).select(1, j), &a[..4], 1e-12);
        close("im", &im.select(0, i).select(1, j), &b[..4], 1e-12);
    }
    let whole = Array::new(&device, &[1i32, 2, 3], &[3]);
    let (re, _) = whole.rfft(0);
    assert_eq!(re.dtype(), Scalar::F64);
    close("integers", &re, &[6.0, -1.5], 1e-12);
    let (re, _) = whole.cast(Scalar::F16).rfft(0);
    assert_eq!(re.dtype(), Scalar::F16);
    let (re, im) = Array::zeros(&device, Scalar::F32, &[0, 6]).rfft(1);
    assert_eq!((re.shape(), im.to_vec::<f32>().unwrap()), (&[0, 4][..], vec![]));
}

/// It is linear: its tangent is the transform of the tangent, and its gradient the transform back.
#[test]
fn derivatives() {
    let device = device();
    for n in [5, 67, 96] {
        let (x, v) = (Array::new(&device, &random(4, n), &[n]), Array::new(&device, &random(5, n), &[n]));
        let change = jvp(|x| x.rfft(0).1, &x, &v).1;
        close("tangent", &change, &v.rfft(0).1.to_vec::<f64>().unwrap(), 1e-10);
        // The sum of squares is the same on both sides but for n (Parseval).
        let gradient = grad(
            |x| {
                let (re, im) = x.fft(&(x * 0.0), 0);
                re.square().sum() + im.square().sum()
            },
            &x,
        );
        close("gradient", &gradient, &(&x * (2.0 * n as f64)).to_vec::<f64>().unwrap(), 1e-9 * n as f64);
        let many = stack(&[&x, &v], 0);
        let each = vmap(|x: &Array| x.rfft(0).0, &many);
        close("each", &each, &many.rfft(1).0.to_vec::<f64>().unwrap(), 1e-10);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = device();
    let x = Array::zeros(&device, Scalar::F32, &[2, 3]);
    let refused = |y: Array, problem: &str| {
        let error = y.eval().unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("tests/fourier.rs"), "{error}");
    };
    refused(x.rfft(2).0, "`rfft`: shape [2, 3] has no axis 2");
    refused(x.fft(&x.select(0, 0), 0).1, "real parts of shape [2, 3] and imaginary ones of [3]");
    refused(x.slice(1, ..0).rfft(1).0, "axis 1 of shape [2, 0] has not between 1 and");
    refused(x.irfft(&x, 6, 1), "3 elements for 6 numbers: it takes 4");
    refused(x.irfft(&x, 0, 1), "3 elements for 0 numbers");
    refused(x.greater(0.0).rfft(0).0, "`rfft` of bool: it is for numbers");
    refused(x.reshape(&[7]).rfft(0).0, "`reshape`");
    refused(x.ifft(&x.reshape(&[7]), 0).0, "`reshape`");
}
