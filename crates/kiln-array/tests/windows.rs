//! Windows, convolutions and pooling, against sums in f64; their gradients against differences.

use kiln_array::{Array, Convolution, Scalar, grad};
use kiln_runtime::Device;

/// The CPU, or the device that the environment variable `KILN_DEVICE` names.
fn device() -> Device {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    Device::open(&name).unwrap()
}

fn numbers(len: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * 37 + 11) % 101) as f64 / 25.0 - 2.0).collect()
}

/// Images and their shape.
struct Images<'a> {
    of: &'a [f64],
    shape: [usize; 4],
}

impl Images<'_> {
    /// An element, zero outside.
    fn at(&self, image: usize, channel: usize, row: isize, column: isize) -> f64 {
        let [_, channels, height, width] = self.shape;
        match (usize::try_from(row), usize::try_from(column)) {
            (Ok(row), Ok(column)) if row < height && column < width => {
                self.of[((image * channels + channel) * height + row) * width + column]
            }
            _ => 0.0,
        }
    }
}

/// Calls a function with each place of a result and the first row and column of its window.
fn places(shape: &[usize], step: [usize; 2], padding: [usize; 2], mut f: impl FnMut([usize; 2], [isize; 2])) {
    let &[images, channels, height, width] = shape else { panic!("four axes") };
    for at in 0..images * channels * height * width {
        let (row, column) = (at / width % height, at % width);
        let first = |at: usize, axis: usize| (at * step[axis]) as isize - padding[axis] as isize;
        f(
            [at / (width * height * channels), at / (width * height) % channels],
            [first(row, 0), first(column, 1)],
        );
    }
}

fn close(got: &Array, expected: &[f64], most: f64) {
    let got = got.cast(Scalar::F64).to_vec::<f64>().unwrap();
    assert_eq!(got.len(), expected.len());
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() <= most * (1.0 + expected.abs()), "{at}: {got}, expected {expected}");
    }
}

#[test]
fn windows_of_an_axis() {
    let device = device();
    let x = Array::arange(&device, 2 * 7).reshape(&[2, 7]);
    for (width, step) in [(1, 1), (3, 1), (3, 2), (2, 2), (2, 3), (7, 1), (7, 9)] {
        let y = x.windows(-1, width, step);
        let count = (7 - width) / step + 1;
        assert_eq!(y.shape(), [2, count, width]);
        let element = |i: usize| i / (count * width) * 7 + i / width % count * step + i % width;
        let expected: Vec<i64> = (0..y.len()).map(|i| element(i) as i64).collect();
        assert_eq!(y.to_vec::<i64>().unwrap(), expected);
        // Of what is computed, from the end, and to a product, which cannot read windows in place.
        let flipped = (&x + 1).flip(&[1]).windows(1, width, step) * 2;
        let expected: Vec<i64> = (0..y.len())
            .map(|i| 2 * (i / (count * width) * 7 + 7 - i / width % count * step - i % width) as i64)
            .collect();
        assert_eq!(flipped.to_vec::<i64>().unwrap(), expected);
        let sums = y.matmul(&Array::full(&device, 1i64, &[width, 1])).squeeze(-1);
        assert_eq!(sums.to_vec::<i64>().unwrap(), y.sum_axes(&[-1]).to_vec::<i64>().unwrap());
    }
    assert_eq!(Array::zeros(&device, Scalar::F32, &[0, 4]).windows(1, 2, 1).shape(), [0, 3, 2]);
    for (width, step) in [(8, 1), (0, 1), (2, 0)] {
        let error = x.windows(1, width, step).eval().unwrap_err().to_string();
        let problem =
            format!("`windows`: windows of {width} elements every {step} on axis 1 of shape [2, 7]");
        assert!(error.contains(&problem), "{error}");
    }
}

#[test]
fn convolutions_and_pooling() {
    let device = device();
    for (shape, kernel, step, padding) in [
        ([2, 3, 5, 6], [4, 3, 3, 3], [1, 1], [1, 1]),
        ([1, 1, 7, 4], [2, 1, 2, 3], [2, 1], [0, 2]),
        ([3, 2, 4, 4], [1, 2, 4, 4], [1, 1], [0, 0]),
        ([2, 2, 6, 6], [3, 2, 2, 2], [2, 2], [0, 0]),
        ([0, 2, 4, 4], [3, 2, 2, 2], [1, 2], [0, 0]),
    ] {
        let (x, w) = (numbers(shape.iter().product()), numbers(kernel.iter().product()));
        let images = Images { of: &x, shape };
        for (dtype, most) in [(Scalar::F64, 1e-12), (Scalar::F32, 1e-5), (Scalar::BF16, 0.1)] {
            let (a, b) = (Array::new(&device, &x, &shape), Array::new(&device, &w, &kernel));
            let y = a.cast(dtype).conv2d(&b.cast(dtype), step, padding);
            let mut expected = Vec::new();
            places(y.shape(), step, padding, |[image, output], [row, column]| {
                let [_, channels, rows, columns] = kernel;
                let element = |i: usize| {
                    let (c, r, s) = (i / (rows * columns), i / columns % rows, i % columns);
                    images.at(image, c, row + r as isize, column + s as isize)
                        * w[output * channels * rows * columns + i]
                };
                expected.push((0..channels * rows * columns).map(element).sum());
            });
            close(&y, &expected, most);
        }
        let window = [kernel[2], kernel[3]];
        let a = Array::new(&device, &x, &shape);
        let (greatest, mean) = (a.max_pool2d(window, step), a.avg_pool2d(window, step));
        let (mut most, mut means) = (Vec::new(), Vec::new());
        places(greatest.shape(), step, [0, 0], |[image, channel], [row, column]| {
            let all = (0..window[0] * window[1]).map(|i| {
                images.at(image, channel, row + (i / window[1]) as isize, column + (i % window[1]) as isize)
            });
            most.push(all.clone().fold(f64::MIN, f64::max));
            means.push(all.sum::<f64>() / (window[0] * window[1]) as f64);
        });
        close(&greatest, &most, 0.0);
        close(&mean, &means, 1e-12);
    }
    let image = Array::zeros(&device, Scalar::F32, &[1, 2, 4, 4]);
    let error = image.conv2d(&Array::zeros(&device, Scalar::F32, &[1, 3, 2, 2]), [1, 1], [0, 0]).error();
    assert!(
        error
            .unwrap()
            .to_string()
            .contains("images of shape [1, 2, 4, 4] and a weight of shape [1, 3, 2, 2]")
    );
    let error = image.max_pool2d([5, 1], [1, 1]).error().unwrap().to_string();
    assert!(error.contains("`max_pool2d`: windows of 5 elements every 1 on axis 2"), "{error}");
}

/// Axes and shapes in errors are the user's, not those of windows and of signals as images.
#[test]
fn errors_name_the_axes_that_were_given() {
    let device = device();
    let image = Array::zeros(&device, Scalar::F32, &[1, 2, 4, 6]);
    let refused = |y: Array, expected: &str| {
        let error = y.error().unwrap().to_string();
        assert!(error.contains(expected) && error.contains("tests/windows.rs"), "{error}");
    };
    let of = "on axis 3 of shape [1, 2, 4, 6]";
    refused(image.max_pool2d([2, 7], [1, 1]), &format!("`max_pool2d`: windows of 7 elements every 1 {of}"));
    refused(image.avg_pool2d([2, 2], [1, 0]), &format!("`avg_pool2d`: windows of 2 elements every 0 {of}"));
    let weight = Array::zeros(&device, Scalar::F32, &[3, 2, 2, 9]);
    refused(
        image.conv2d(&weight, [1, 1], [0, 1]),
        &format!("`conv2d`: windows of 9 elements every 1 {of}, with 1 zeros on each side"),
    );
    refused(
        image.convolve2d(&weight, Convolution::new().dilation([4, 1])),
        "`convolve2d`: windows of 5 elements every 1 on axis 2 of shape [1, 2, 4, 6]",
    );
    let (signal, weight) = (image.select(2, 0), weight.select(2, 0));
    refused(
        signal.conv1d(&weight, 1, 1),
        "`conv1d`: windows of 9 elements every 1 on axis 2 of shape [1, 2, 6], with 1 zeros on each side",
    );
    // Paddings that nobody means.
    let weight = Array::zeros(&device, Scalar::F32, &[3, 2, 2, 2]);
    for padding in [1 << 40, usize::MAX / 4, usize::MAX / 2, usize::MAX] {
        refused(image.conv2d(&weight, [1, 1], [padding, padding]), "zeros on each side");
        let none = Array::zeros(&device, Scalar::F32, &[1, 0, 4, 6]);
        let padded = none.pad(&[(0, 0), (0, 0), (padding, padding), (padding, padding)]);
        match padded.error() {
            Some(error) => {
                let text = error.to_string();
                assert!(
                    ["too large", "more bytes than can be"].iter().any(|why| text.contains(why)),
                    "{text}"
                );
            }
            None => assert!(padded.is_empty(), "{:?}", padded.shape()),
        }
    }
}

#[test]
fn gradients_of_windows() {
    let device = device();
    let at = |x: &[f64], shape: &[usize]| Array::new(&device, x, shape);
    let (image, kernel) = ([2, 2, 5, 4], [3, 2, 2, 3]);
    type Of<'a> = (&'a str, Vec<usize>, Box<dyn Fn(&Array) -> Array + 'a>);
    let w = at(&numbers(36), &kernel);
    let x = at(&numbers(80), &image);
    let all: Vec<Of<'_>> = vec![
        ("windows", vec![2, 7], Box::new(|x| x.windows(1, 3, 2))),
        ("windows apart", vec![8, 2], Box::new(|x| x.windows(0, 2, 3))),
        ("images", image.to_vec(), Box::new(|x| x.conv2d(&w, [2, 1], [1, 0]))),
        ("weight", kernel.to_vec(), Box::new(|w| x.conv2d(w, [1, 2], [0, 1]))),
        ("max", image.to_vec(), Box::new(|x| x.max_pool2d([2, 2], [2, 1]))),
        ("mean", image.to_vec(), Box::new(|x| x.avg_pool2d([3, 2], [1, 2]))),
    ];
    for (name, shape, f) in all {
        // Without ties.
        let x: Vec<f64> = (0..shape.iter().product()).map(|i| numbers(i + 1)[i] + i as f64 * 1e-3).collect();
        let value = |x: &Array| (f(x).sin() * 3.0).square().sum();
        let gradient = grad(value, &at(&x, &shape)).to_vec::<f64>().unwrap();
        for i in (0..x.len()).step_by(5) {
            let moved = |by: f64| {
                let mut x = x.clone();
                x[i] += by;
                value(&at(&x, &shape)).item::<f64>().unwrap()
            };
            let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            let error = (gradient[i] - slope).abs();
            assert!(error < 1e-5 * slope.abs().max(1.0), "{name}, {i}: {}, expected {slope}", gradient[i]);
        }
    }
}
