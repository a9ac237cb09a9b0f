//! What is put and added at indices, against a loop over them in f64.

use kiln_array::{Array, Scalar, explain, grad, value_and_grad};
use kiln_runtime::Device;

/// The CPU, or the device that the environment variable `KILN_DEVICE` names.
fn device() -> Device {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    Device::open(&name).unwrap()
}

/// Quarters, whose sums are exact.
fn numbers(random: &mut fastrand::Rng, len: usize) -> Vec<f64> {
    (0..len).map(|_| f64::from(random.i32(-16..16)) / 4.0).collect()
}

fn elements(x: &Array) -> Vec<f64> {
    x.cast(Scalar::F64).to_vec().unwrap_or_else(|error| panic!("{error}"))
}

/// Shapes with an axis; indices of it, of which some come again and some count from the end.
struct Case {
    outer: usize,
    extent: usize,
    inner: usize,
    count: usize,
}

impl Case {
    fn shape(&self, along: usize) -> [usize; 3] {
        [self.outer, along, self.inner]
    }

    fn indices(&self, random: &mut fastrand::Rng, len: usize) -> Vec<i64> {
        let extent = self.extent as i64;
        (0..len).map(|_| random.i64(-extent..extent)).collect()
    }

    /// Applies a function to the element of each value, in the order of the indices.
    fn apply(&self, x: &mut [f64], values: &[f64], index: impl Fn(usize) -> i64, f: impl Fn(&mut f64, f64)) {
        for (at, value) in values.iter().enumerate() {
            let (o, i) = (at / (self.count * self.inner), at % self.inner);
            let index = index(at).rem_euclid(self.extent as i64) as usize;
            f(&mut x[(o * self.extent + index) * self.inner + i], *value);
        }
    }
}

const CASES: [Case; 11] = [
    Case { outer: 1, extent: 5, inner: 3, count: 7 },
    Case { outer: 2, extent: 3, inner: 1, count: 300 },
    Case { outer: 1, extent: 700, inner: 4, count: 13 },
    Case { outer: 1, extent: 2, inner: 1030, count: 3 },
    Case { outer: 3, extent: 4, inner: 2, count: 1 },
    Case { outer: 3, extent: 1, inner: 2, count: 4 },
    Case { outer: 3, extent: 4, inner: 2, count: 0 },
    Case { outer: 2, extent: 3, inner: 0, count: 4 },
    Case { outer: 0, extent: 3, inner: 2, count: 4 },
    // So many that places are sorted.
    Case { outer: 1, extent: 900, inner: 2, count: 1500 },
    Case { outer: 2, extent: 800, inner: 1, count: 1400 },
];

const TYPES: [Scalar; 6] = [Scalar::F64, Scalar::F32, Scalar::F16, Scalar::BF16, Scalar::I32, Scalar::I64];

/// Element types that hold quarters, and those that hold whole numbers.
fn given(device: &Device, numbers: &[f64], shape: &[usize], dtype: Scalar) -> (Array, Vec<f64>) {
    let numbers: Vec<f64> = match dtype.is_float() {
        true => numbers.to_vec(),
        false => numbers.iter().map(|x| x.round()).collect(),
    };
    (Array::new(device, &numbers, shape).cast(dtype), numbers)
}

#[test]
fn parts_and_elements_of_an_axis() {
    let (device, mut random) = (device(), fastrand::Rng::with_seed(7));
    for case in &CASES {
        for dtype in TYPES {
            let (shape, of_values) = (case.shape(case.extent), case.shape(case.count));
            let [len, value_count] = [shape, of_values].map(|shape| shape.iter().product());
            let (x, start) = given(&device, &numbers(&mut random, len), &shape, dtype);
            let (values, added) = given(&device, &numbers(&mut random, value_count), &of_values, dtype);
            // Sums of 16 bits are rounded.
            let most = match dtype {
                Scalar::BF16 => 1.0 / 64.0,
                Scalar::F16 => 1.0 / 512.0,
                _ => 0.0,
            };
            let same = |name: &str, got: &Array, expected: &[f64], most: f64| {
                assert_eq!((got.shape(), got.dtype()), (&shape[..], dtype), "{name}: {:?}", got.error());
                for (got, expected) in elements(got).iter().zip(expected) {
                    let error = (got - expected).abs();
                    assert!(error <= most * expected.abs().max(16.0), "{name}: {dtype}: {got}, {expected}");
                }
            };
            let parts = case.indices(&mut random, case.count);
            let of_part = |at: usize| parts[at / case.inner.max(1) % case.count.max(1)];
            let at = Array::new(&device, &parts, &[case.count]);
            let mut expected = start.clone();
            case.apply(&mut expected, &added, of_part, |x, value| *x = value);
            same("scatter", &x.scatter(&at, &values, 1), &expected, 0.0);
            let mut expected = start.clone();
            case.apply(&mut expected, &added, of_part, |x, value| *x += value);
            same("scatter_add", &x.scatter_add(&at, &values, -2), &expected, most);

            let single = case.indices(&mut random, value_count);
            let at = Array::new(&device, &single, &of_values);
            let mut expected = start.clone();
            case.apply(&mut expected, &added, |at| single[at], |x, value| *x = value);
            same("put_along", &x.put_along(&at, &values, 1), &expected, 0.0);
            let mut expected = start.clone();
            case.apply(&mut expected, &added, |at| single[at], |x, value| *x += value);
            same("add_along", &x.add_along(&at, &values, 1), &expected, most);
        }
    }
}

/// Indices with several axes, values that stretch, numbers.
#[test]
fn shapes_that_stretch() {
    let device = device();
    let x = Array::zeros(&device, Scalar::F32, &[2, 4]);
    let at = Array::new(&device, &[3i32, 0, 0, 1], &[2, 2]);
    let values = Array::new(&device, &[1.0f32, 2.0], &[2]);
    let sums = x.scatter_add(&at, &values, 1);
    assert_eq!(sums.to_vec::<f32>().unwrap(), [3.0, 2.0, 0.0, 1.0, 3.0, 2.0, 0.0, 1.0]);
    assert_eq!(x.scatter_add(&at, 1, 1).to_vec::<f32>().unwrap(), [2.0, 1.0, 0.0, 1.0, 2.0, 1.0, 0.0, 1.0]);
    let rows = x.scatter(&Array::new(&device, &[1u32], &[]), Array::arange(&device, 4), 0);
    assert_eq!(rows.to_vec::<f32>().unwrap(), [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0]);
    let shared = Array::new(&device, &[2i64, -1], &[1, 2]);
    let along = x.put_along(&shared, &values, 1);
    assert_eq!(along.to_vec::<f32>().unwrap(), [0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 1.0, 2.0]);
    let flags = Array::zeros(&device, Scalar::Bool, &[3]).scatter(&Array::new(&device, &[-1], &[1]), true, 0);
    assert_eq!(flags.to_vec::<bool>().unwrap(), [false, false, true]);
    // What was taken is put back.
    let y = Array::arange(&device, 12).reshape(&[3, 4]);
    let order = Array::new(&device, &[2i32, 0, 1], &[3]);
    let back = (&y - &y).scatter(&order, y.take(&order, 0), 0);
    assert_eq!(back.to_vec::<i64>().unwrap(), y.to_vec::<i64>().unwrap());
}

/// Values that another one replaced have no gradient, nor has what was replaced.
#[test]
fn gradients() {
    let device = device();
    let x = Array::new(&device, &[1.0f64, 2.0, 3.0], &[3]);
    let values = Array::new(&device, &[5.0f64, 6.0, 7.0], &[3]);
    let at = Array::new(&device, &[2, 0, 2], &[3]);
    let w = Array::new(&device, &[10.0f64, 20.0, 30.0], &[3]);
    let [a, b] = grad(|[x, v]| (x.scatter(&at, v, 0) * &w).sum(), &[x.clone(), values.clone()]);
    assert_eq!((elements(&a), elements(&b)), (vec![0.0, 20.0, 0.0], vec![0.0, 10.0, 30.0]));
    let [a, b] = grad(|[x, v]| (x.scatter_add(&at, v, 0) * &w).sum(), &[x.clone(), values.clone()]);
    assert_eq!((elements(&a), elements(&b)), (vec![10.0, 20.0, 30.0], vec![30.0, 10.0, 30.0]));
    let [a, b] = grad(|[x, v]| (x.put_along(&at, v, 0) * &w).sum(), &[x.clone(), values.clone()]);
    assert_eq!((elements(&a), elements(&b)), (vec![0.0, 20.0, 0.0], vec![0.0, 10.0, 30.0]));
    let [a, b] = grad(|[x, v]| (x.add_along(&at, v, 0) * &w).sum(), &[x, values]);
    assert_eq!((elements(&a), elements(&b)), (vec![10.0, 20.0, 30.0], vec![30.0, 10.0, 30.0]));
}

#[test]
fn what_does_not_fit_is_refused() {
    // A device of its own: an error of the CPU is that of whatever reads next.
    let device = Device::open("interp").unwrap();
    let x = Array::zeros(&device, Scalar::F32, &[2, 3]);
    let at = |of: &[i32], shape: &[usize]| Array::new(&device, of, shape);
    for (wrong, name) in [(3, "past the end"), (-4, "before the start")] {
        let at = at(&[0, wrong], &[2]);
        let rows = at.unsqueeze(0);
        let all = [
            x.scatter(&at, 1.0, 1),
            x.scatter_add(&at, 1.0, 1),
            x.put_along(&rows, 1.0, 1),
            x.add_along(&rows, 1.0, 1),
            x.scatter_add(&at.slice(0, 1..), 1.0, 1),
        ];
        for y in all {
            let error = y.to_vec::<f32>().unwrap_err().to_string();
            assert!(error.contains("an index lies outside of its axis"), "{name}: {error}");
        }
    }
    let refused = |y: Array, problem: &str| {
        let error = y.eval().unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("tests/scatter.rs"), "{error}");
    };
    let two = at(&[0, 1], &[2]);
    refused(x.scatter(&two, 1.0, 2), "`scatter`: shape [2, 3] has no axis 2");
    refused(x.scatter(&x, 1.0, 1), "`scatter` of f32: indices are integers");
    let three = Array::zeros(&device, Scalar::F32, &[3]);
    refused(x.scatter_add(&two, &three, 1), "`scatter_add`: values of shape [3] do not stretch to [2, 2]");
    let whole = x.cast(Scalar::I32);
    refused(whole.scatter(&two, 0.5, 1), "values of f64 for an array of i32: cast them first");
    refused(x.cast(Scalar::Bool).scatter_add(&two, true, 1), "`scatter_add` of bool: it is for numbers");
    refused(x.put_along(&two, 1.0, 1), "indices of shape [2] for shape [2, 3]: all axes but 1");
    refused(x.add_along(&at(&[0; 3], &[3, 1]), 1.0, 1), "indices of shape [3, 1] for shape [2, 3]");
    refused(x.slice(1, ..0).scatter(&two, 1.0, 1), "axis 1 of shape [2, 0] has no elements");
    refused(x.scatter(&two, x.reshape(&[7]), 1), "`reshape`");
    refused(x.scatter(&two.reshape(&[7]), 1.0, 1), "`reshape`");
}

/// The gradient of one element of each row is compared into place, however long rows are: no sums
/// of as many parts as there are elements.
#[test]
fn gradients_of_one_index_a_row_are_one_kernel() {
    let device = device();
    let (rows, extent) = (70, 20_001);
    let x = Array::zeros(&device, Scalar::F32, &[rows, extent]);
    let given: Vec<i64> = (0..rows as i64).map(|row| row * 211 - 5000).collect();
    let at = Array::new(&device, &given, &[rows, 1]);
    let weights = Array::new(&device, &(0..rows).map(|row| row as f32 + 1.0).collect::<Vec<_>>(), &[rows, 1]);
    x.eval().unwrap();
    let slope = grad(|x| (x.take_along(&at, 1) * &weights).sum(), &x);
    let plan = explain(&[&slope]).unwrap();
    assert!(plan.starts_with("1 kernel,"), "{plan}");
    let mut expected = vec![0.0; rows * extent];
    for (row, at) in given.iter().enumerate() {
        expected[row * extent + at.rem_euclid(extent as i64) as usize] = row as f32 + 1.0;
    }
    assert!(slope.to_vec::<f32>().unwrap() == expected);
    // A loss of many classes: its logits are neither stored again in f32, nor sorted into place.
    let logits = Array::zeros(&device, Scalar::BF16, &[rows, extent]);
    let targets = (&at % extent as i64).squeeze(1);
    logits.eval().unwrap();
    let (loss, slope) = value_and_grad(|x| x.cross_entropy(&targets), &logits);
    let plan = explain(&[&loss, &slope]).unwrap();
    assert!(
        !plan.contains("add_parts") && !plan.contains(&format!("writes f32 [{rows}, {extent}]")),
        "{plan}"
    );
    assert!((loss.item::<f32>().unwrap() - (extent as f32).ln()).abs() < 1e-4);
    // Parts of rows, of which some have no probability, and numbers whose exponentials overflow.
    let of = |dtype: Scalar| {
        let at = |i: usize| match i % extent / 6667 {
            1 => f64::NEG_INFINITY,
            part => ((i * 37 % 101) as f64) * 4.0 - 300.0 * part as f64 + 200.0,
        };
        let x: Vec<f64> = (0..2 * extent).map(at).collect();
        let targets = Array::new(&device, &[3i64, extent as i64 - 1], &[2]);
        let (loss, slope) =
            value_and_grad(|x| x.cross_entropy(&targets), &Array::new(&device, &x, &[2, extent]).cast(dtype));
        let mut expected = 0.0;
        let slope = elements(&slope);
        for (row, target) in x.chunks(extent).zip([3, extent - 1]) {
            let max = row.iter().copied().fold(f64::MIN, f64::max);
            let log = row.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
            expected += (log + max - row[target]) / 2.0;
            let first = if target == 3 { 0 } else { extent };
            for (at, x) in row.iter().enumerate() {
                let hot = f64::from(u8::from(at == target));
                let slope = slope[first + at] - ((x - max - log).exp() - hot) / 2.0;
                assert!(slope.abs() < 1e-6, "{dtype}, {at}: {slope}");
            }
        }
        let loss = elements(&loss)[0];
        assert!((loss - expected).abs() < 1e-5 * expected, "{dtype}: {loss} {expected}");
    };
    [Scalar::F32, Scalar::F64].into_iter().for_each(of);
    let slope = slope.cast(Scalar::F32).to_vec::<f32>().unwrap();
    for (row, at) in given.iter().enumerate() {
        let at = row * extent + at.rem_euclid(extent as i64) as usize;
        let (hit, other) = (slope[at] * rows as f32, slope[row * extent + 7] * (rows * extent) as f32);
        assert!((hit + 1.0).abs() < 0.01 && (other - 1.0).abs() < 0.01, "{row}: {hit} {other}");
    }
}
