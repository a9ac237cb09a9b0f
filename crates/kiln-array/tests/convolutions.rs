//! Convolutions along one axis and transposed ones, against sums in f64; their gradients.

use kiln_array::{Array, Convolution, Scalar, concatenate, grad};
use kiln_runtime::Device;

/// The CPU, or the device that the environment variable `KILN_DEVICE` names.
fn device() -> Device {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    Device::open(&name).unwrap()
}

fn numbers(len: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * 37 + 11) % 101) as f64 / 25.0 - 2.0).collect()
}

fn array(shape: &[usize]) -> Array {
    Array::new(&device(), &numbers(shape.iter().product()), shape)
}

fn close(got: &Array, expected: &[f64], most: f64) {
    let got = got.cast(Scalar::F64).to_vec::<f64>().unwrap();
    assert_eq!(got.len(), expected.len());
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() <= most * (1.0 + expected.abs()), "{at}: {got}, expected {expected}");
    }
}

#[test]
fn along_one_axis() {
    for (count, channels, outputs, length, width, step, padding) in [
        (1, 1, 1, 5, 3, 1, 0),
        (2, 3, 4, 9, 3, 2, 1),
        (2, 2, 1, 4, 4, 3, 2),
        (0, 2, 3, 4, 2, 1, 0),
        (1, 2, 2, 7, 1, 1, 0),
    ] {
        let (x, w) = (array(&[count, channels, length]), array(&[outputs, channels, width]));
        let (signal, weight) = (numbers(x.len()), numbers(w.len()));
        let places = (length + 2 * padding - width) / step + 1;
        let mut expected = vec![0.0; count * outputs * places];
        for (at, sum) in expected.iter_mut().enumerate() {
            let (n, o, p) = (at / (outputs * places), at / places % outputs, at % places);
            for (c, k) in (0..channels).flat_map(|c| (0..width).map(move |k| (c, k))) {
                let at = (p * step + k).wrapping_sub(padding);
                if at < length {
                    *sum += signal[(n * channels + c) * length + at] * weight[(o * channels + c) * width + k];
                }
            }
        }
        for (dtype, most) in [(Scalar::F64, 1e-13), (Scalar::F32, 1e-5), (Scalar::F16, 2e-2)] {
            let y = x.cast(dtype).conv1d(&w.cast(dtype), step, padding);
            assert_eq!((y.shape(), y.dtype()), (&[count, outputs, places][..], dtype));
            close(&y, &expected, most);
        }
    }
}

#[test]
fn transposed() {
    for (count, channels, outputs, size, window, step, padding) in [
        (1, 1, 1, [2, 3], [2, 2], [1, 1], [0, 0]),
        (2, 3, 2, [3, 4], [3, 2], [2, 1], [1, 0]),
        (1, 2, 3, [4, 2], [2, 2], [2, 2], [0, 0]),
        (1, 2, 2, [2, 2], [2, 3], [3, 4], [1, 1]),
        (0, 2, 3, [2, 2], [2, 2], [1, 1], [0, 0]),
        (2, 1, 2, [1, 1], [3, 3], [2, 2], [1, 1]),
    ] {
        let x = array(&[count, channels, size[0], size[1]]);
        let w = array(&[channels, outputs, window[0], window[1]]);
        let (image, weight) = (numbers(x.len()), numbers(w.len()));
        let whole = [0, 1].map(|axis| (size[axis] - 1) * step[axis] + window[axis] - 2 * padding[axis]);
        let mut expected = vec![0.0; count * outputs * whole[0] * whole[1]];
        for (at, x) in image.iter().enumerate() {
            let (n, c) = (at / (channels * size[0] * size[1]), at / (size[0] * size[1]) % channels);
            let (i, j) = (at / size[1] % size[0], at % size[1]);
            for k in 0..outputs * window[0] * window[1] {
                let (o, r, s) = (k / (window[0] * window[1]), k / window[1] % window[0], k % window[1]);
                let row = (i * step[0] + r).wrapping_sub(padding[0]);
                let column = (j * step[1] + s).wrapping_sub(padding[1]);
                if row < whole[0] && column < whole[1] {
                    expected[((n * outputs + o) * whole[0] + row) * whole[1] + column] +=
                        x * weight[c * outputs * window[0] * window[1] + k];
                }
            }
        }
        for (dtype, most) in [(Scalar::F64, 1e-13), (Scalar::F32, 1e-5), (Scalar::F16, 5e-2)] {
            let y = x.cast(dtype).conv_transpose2d(&w.cast(dtype), step, padding);
            assert_eq!((y.shape(), y.dtype()), (&[count, outputs, whole[0], whole[1]][..], dtype));
            close(&y, &expected, most);
        }
        // It is what the gradient of the convolution does.
        if count > 0 {
            let large = array(&[count, outputs, whole[0], whole[1]]);
            let gradient = grad(|large| (large.conv2d(&w, step, padding) * &x).sum(), &large);
            close(&gradient, &expected, 1e-12);
        }
    }
}

/// With gaps and in groups, of one output and of several.
#[test]
fn with_all_options() {
    for (count, channels, outputs, size, window, options, [step, padding, dilation], groups) in [
        (2, 4, 6, [5, 6], [2, 3], Convolution::new(), [[2, 1], [1, 2], [1, 2]], 2),
        (2, 3, 3, [4, 5], [3, 2], Convolution::default(), [[1, 1], [1, 0], [1, 1]], 3),
        (1, 2, 4, [7, 7], [2, 2], Convolution::new(), [[2, 3], [0, 0], [3, 2]], 2),
        (1, 4, 2, [4, 4], [2, 2], Convolution::new(), [[1, 1], [0, 1], [2, 1]], 2),
        (1, 3, 2, [4, 4], [1, 2], Convolution::new(), [[1, 2], [0, 0], [1, 1]], 1),
        (0, 2, 2, [3, 3], [2, 2], Convolution::new(), [[1, 1], [0, 0], [1, 1]], 2),
    ] {
        let x = array(&[count, channels, size[0], size[1]]);
        let w = array(&[outputs, channels / groups, window[0], window[1]]);
        let (image, weight) = (numbers(x.len()), numbers(w.len()));
        let places = [0, 1].map(|axis| {
            let reach = (window[axis] - 1) * dilation[axis] + 1;
            (size[axis] + 2 * padding[axis] - reach) / step[axis] + 1
        });
        let mut expected = vec![0.0; count * outputs * places[0] * places[1]];
        for (at, sum) in expected.iter_mut().enumerate() {
            let (i, j) = (at / places[1] % places[0], at % places[1]);
            let (n, o) = (at / (places[0] * places[1] * outputs), at / (places[0] * places[1]) % outputs);
            for k in 0..channels / groups * window[0] * window[1] {
                let (c, r, s) = (k / (window[0] * window[1]), k / window[1] % window[0], k % window[1]);
                let c = o / (outputs / groups) * (channels / groups) + c;
                let row = (i * step[0] + r * dilation[0]).wrapping_sub(padding[0]);
                let column = (j * step[1] + s * dilation[1]).wrapping_sub(padding[1]);
                if row < size[0] && column < size[1] {
                    let of_weight = weight[o * (channels / groups) * window[0] * window[1] + k];
                    *sum += image[((n * channels + c) * size[0] + row) * size[1] + column] * of_weight;
                }
            }
        }
        let options = options.step(step).padding(padding).dilation(dilation).groups(groups);
        for (dtype, most) in [(Scalar::F64, 1e-13), (Scalar::F32, 1e-5), (Scalar::F16, 2e-2)] {
            let y = x.cast(dtype).convolve2d(&w.cast(dtype), options);
            assert_eq!((y.shape(), y.dtype()), (&[count, outputs, places[0], places[1]][..], dtype));
            close(&y, &expected, most);
        }
    }
    let refused = |y: Array| {
        let error = y.eval().unwrap_err().to_string();
        assert!(error.contains("`convolve2d`") && error.contains("tests/convolutions.rs"), "{error}");
    };
    let (x, w) = (array(&[1, 4, 3, 3]), array(&[2, 2, 2, 2]));
    refused(x.convolve2d(&w, Convolution::new()));
    refused(x.convolve2d(&w, Convolution::new().groups(0)));
    refused(x.convolve2d(&w, Convolution::new().groups(3)));
    refused(x.convolve2d(&w, Convolution::new().groups(2).dilation([0, 1])));
    refused(x.convolve2d(&w, Convolution::new().groups(2).dilation([3, 1])));
    refused(x.convolve2d(&w, Convolution::new().groups(2).dilation([usize::MAX, 1])));
    refused(x.convolve2d(&w, Convolution::new().groups(2).step([1, 0])));
    refused(x.convolve2d(&array(&[2, 2]), Convolution::new()));
}

#[test]
fn gradients() {
    let (x, w) = (array(&[2, 3, 5]), array(&[3, 2, 3]));
    let weights = |y: &Array| array(y.shape());
    let number = |x: &Array, w: &Array| {
        let y = x.conv_transpose1d(w, 2, 1);
        let z = x.conv1d(&w.swap_axes(0, 1), 2, 1);
        (&y * weights(&y)).sum() + (&z * weights(&z)).sum()
    };
    let [of_x, of_w] = grad(|[x, w]| number(x, w), &[x.clone(), w.clone()]);
    let step = 1e-4;
    let moved = |of: &Array, at: usize, by: f64| {
        let unit = Array::arange(&device(), of.len()).equal(at as i64).cast(Scalar::F64);
        of + unit.reshape(of.shape()) * by
    };
    let slope = |f: &dyn Fn(f64) -> Array| (f(step) - f(-step)).item::<f64>().unwrap() / (2.0 * step);
    let expected: Vec<f64> = (0..x.len()).map(|at| slope(&|by| number(&moved(&x, at, by), &w))).collect();
    close(&of_x, &expected, 1e-7);
    let expected: Vec<f64> = (0..w.len()).map(|at| slope(&|by| number(&x, &moved(&w, at, by)))).collect();
    close(&of_w, &expected, 1e-7);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |y: Array, problem: &str| {
        let error = y.eval().unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("tests/convolutions.rs"), "{error}");
    };
    let (x, w) = (array(&[1, 2, 4]), array(&[3, 2, 2]));
    refused(x.conv1d(&array(&[3, 1, 2]), 1, 0), "`conv1d`");
    refused(x.conv1d(&w, 0, 0), "`conv1d`");
    refused(x.conv1d(&array(&[3, 2, 5]), 1, 0), "`conv1d`");
    refused(
        x.conv1d(&array(&[3, 2]), 1, 0),
        "`conv1d`: signals of shape [1, 2, 4] and a weight of shape [3, 2]",
    );
    refused(x.conv1d(&w.reshape(&[7]), 1, 0), "`reshape`");
    refused(x.conv_transpose1d(&w, 1, 0), "the channels differ");
    let (image, w) = (array(&[1, 2, 3, 3]), array(&[2, 1, 2, 2]));
    refused(image.conv_transpose2d(&w, [0, 1], [0, 0]), "`conv_transpose2d`");
    refused(
        image.conv_transpose2d(&w, [1, 1], [2, 0]),
        "padding [2, 0] leaves nothing of 4 rows and 4 columns",
    );
    refused(image.conv_transpose2d(&w.slice(2, ..0), [1, 1], [0, 0]), "they have no rows or columns");
    refused(image.conv_transpose2d(&x, [1, 1], [0, 0]), "[channels, outputs, rows, columns]");
}

/// One output for each group is a sum and no product: in the type that products have, and of
/// 16-bit floats in f32, where 90,000 is no infinity.
#[test]
fn sums_of_windows_are_as_of_products() {
    let device = device();
    for dtype in [Scalar::I32, Scalar::F16, Scalar::BF16, Scalar::F64] {
        let image = Array::full(&device, 300, &[1, 2, 1, 2]).cast(dtype);
        let weight = Array::new(&device, &[300, -300], &[1, 1, 1, 2]).cast(dtype);
        let weights = concatenate(&[&weight, &weight], 0);
        let of_groups = image.convolve2d(&weights, Convolution::new().groups(2));
        let by_product = image.slice(1, ..1).conv2d(&weight, [1, 1], [0, 0]);
        for y in [of_groups, image.slice(1, ..1).convolve2d(&weight, Convolution::new()), by_product] {
            assert_eq!(y.dtype(), dtype);
            let y = y.cast(Scalar::F64).to_vec::<f64>().unwrap();
            assert!(y.iter().all(|y| *y == 0.0), "{dtype}: {y:?}");
        }
    }
}
