//! Numbers in steps, random integers, and functions where their arguments end.

use half::f16;
use kiln_array::nn::Key;
use kiln_array::{Array, Scalar, Side, grad, jvp, meshgrid, vmap};
use kiln_runtime::Device;

/// The CPU, or the device that the environment variable `KILN_DEVICE` names.
fn device() -> Device {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    Device::open(&name).unwrap()
}

fn of(numbers: &[f64]) -> Array {
    Array::new(&device(), numbers, &[numbers.len()])
}

#[track_caller]
fn refused(array: Array, expected: &str) {
    let line = std::panic::Location::caller().line();
    let error = (array.cast(Scalar::F32) + 1.0).to_vec::<f32>().unwrap_err().to_string();
    let is_here = (line..line + 2).any(|line| error.contains(&format!("tests/numbers.rs:{line}:")));
    assert!(is_here && error.ends_with(expected), "{error}\nexpected line {line}: {expected}");
}

/// What a loop gives that adds the step in integers.
#[test]
fn whole_numbers_in_steps() {
    let device = device();
    for start in -7..7i64 {
        for stop in -7..7i64 {
            for step in [-9, -4, -1, 1, 2, 3, 20] {
                let mut expected = Vec::new();
                let mut next = start;
                while if step > 0 { next < stop } else { next > stop } {
                    expected.push(next);
                    next += step;
                }
                let got = Array::arange_step(&device, start, stop, step);
                assert_eq!(got.shape(), [expected.len()], "{start}..{stop} by {step}");
                assert_eq!(got.to_vec::<i64>().unwrap(), expected, "{start}..{stop} by {step}");
            }
        }
    }
    let ends = Array::arange_step(&device, i64::MIN, i64::MAX, i64::MAX).to_vec::<i64>().unwrap();
    assert_eq!(ends, [i64::MIN, -1, i64::MAX - 1]);
    let ends = Array::arange_step(&device, 5u32, u32::MAX, u32::MAX / 2).to_vec::<u32>().unwrap();
    assert_eq!(ends, [5, 5 + u32::MAX / 2]);
    let back = Array::arange_step(&device, i32::MAX, i32::MIN, -i32::MAX).to_vec::<i32>().unwrap();
    assert_eq!(back, [i32::MAX, 0, -i32::MAX]);
}

#[test]
fn floats_in_steps() {
    let device = device();
    let x = Array::arange_step(&device, 0.5f32, 2.0, 0.5);
    assert_eq!(x.to_vec::<f32>().unwrap(), [0.5, 1.0, 1.5]);
    let x = Array::arange_step(&device, 0.0, -1.0, -0.3).to_vec::<f64>().unwrap();
    assert_eq!(x, [0.0, -0.3, 2.0 * -0.3, 3.0 * -0.3]);
    let [a, b, c] = [1.0, 3.0, 0.75].map(f16::from_f64);
    let x = Array::arange_step(&device, a, b, c).cast(Scalar::F64).to_vec::<f64>().unwrap();
    assert_eq!(x, [1.0, 1.75, 2.5]);
    assert!(Array::arange_step(&device, 1.0, 1.0, 0.1).to_vec::<f64>().unwrap().is_empty());
    assert!(Array::arange_step(&device, 1.0, 2.0, -0.1).to_vec::<f64>().unwrap().is_empty());
    refused(
        Array::arange_step(&device, 0, 4, 0),
        "`arange_step`: from 0 to 4 in steps of 0: the step is zero",
    );
    refused(
        Array::arange_step(&device, 0.5, 1.0, -0.0),
        "`arange_step`: from 0.5 to 1 in steps of -0: the step is zero",
    );
    refused(
        Array::arange_step(&device, 0.0, f64::INFINITY, 1.0),
        "`arange_step`: from 0 to inf in steps of 1: the numbers are to be finite",
    );
    refused(Array::arange_step(&device, false, true, true), "`arange_step` of bool: it is for numbers");
    refused(
        Array::arange_step(&device, 0.0, 1e300, 1.0),
        "`arange_step`: shape [18446744073709551615] of f64 has more bytes than can be addressed",
    );
    refused(
        Array::arange_step(&device, i64::MIN, i64::MAX, 1),
        "`arange_step`: shape [18446744073709551615] of i64 has more bytes than can be addressed",
    );
}

/// The words of Philox 4x32-10, written in 64-bit integers.
fn philox(counter: u32, key: u64) -> [u32; 4] {
    let (mut c, mut k) = ([counter, 0, 0, 0], [key as u32, (key >> 32) as u32]);
    for _ in 0..10 {
        let (p, q) = (0xD251_1F53u64 * u64::from(c[0]), 0xCD9E_8D57u64 * u64::from(c[2]));
        c = [(q >> 32) as u32 ^ c[1] ^ k[0], q as u32, (p >> 32) as u32 ^ c[3] ^ k[1], p as u32];
        k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
    }
    c
}

/// The whole part of the share that the words are of a range, in integers of 128 bits.
fn share([a, b, c, d]: [u32; 4], range: u64) -> u64 {
    let (upper, lower) = (u64::from(a) << 32 | u64::from(b), u64::from(c) << 32 | u64::from(d));
    let product = u128::from(upper) * u128::from(range);
    if range <= u64::from(u32::MAX) {
        return (product >> 64) as u64;
    }
    let carried = (u128::from(lower) * u128::from(range)) >> 64;
    ((product + carried) >> 64) as u64
}

#[test]
fn random_integers() {
    let device = device();
    let ranges = [
        (0, 1),
        (-3, 4),
        (0, 1 << 24),
        (-(1 << 31), 1 << 31),
        (0, u32::MAX.into()),
        (5, (1 << 32) + 6),
        (-1, i64::MAX),
        (i64::MIN, i64::MAX),
        (i64::MIN, i64::MIN + 3),
    ];
    for (low, high) in ranges {
        let x = Key::new(77).integers(&device, low, high, &[31, 3]);
        assert_eq!((x.shape(), x.dtype()), (&[31, 3][..], Scalar::I64));
        for (i, x) in x.to_vec::<i64>().unwrap().into_iter().enumerate() {
            assert!((low..high).contains(&x), "{x} of {low}..{high}");
            let expected = low.wrapping_add(share(philox(i as u32, 77), high.abs_diff(low)) as i64);
            assert_eq!(x, expected, "element {i} of {low}..{high}");
        }
    }
    // Equal chances: 4 standard deviations.
    let counts = Key::new(1).integers(&device, 0, 7, &[70_000]).bincount(7).to_vec::<i64>().unwrap();
    assert_eq!(counts.iter().sum::<i64>(), 70_000);
    assert!(counts.iter().all(|count| (count - 10_000).abs() < 4 * 93), "{counts:?}");
    assert!(Key::new(1).integers(&device, 0, 7, &[2, 0]).to_vec::<i64>().unwrap().is_empty());
    assert_eq!(Key::new(1).integers(&device, 4, 5, &[]).item::<i64>().unwrap(), 4);
    refused(
        Key::new(1).integers(&device, 2, 2, &[3]),
        "`integers`: there is no number of at least 2 and less than 2",
    );
}

/// Slopes where squares overflow or vanish, at zeros and where a function ends.
#[test]
fn slopes_of_functions_at_their_ends() {
    type Function = fn(&Array) -> Array;
    let above = f64::INFINITY;
    let all: [(Function, &[f64], &[f64]); 5] = [
        (Array::asinh, &[0.0, 1e-200, -1e300, 0.75, above], &[1.0, 1.0, 1e-300, 0.8, 0.0]),
        (Array::acosh, &[1.25, 1e300, 1.0], &[4.0 / 3.0, 1e-300, above]),
        (Array::atanh, &[0.0, 0.5, -0.5, 1.0], &[1.0, 4.0 / 3.0, 4.0 / 3.0, above]),
        (Array::cbrt, &[8.0, -8.0, 1e-300, 0.0], &[1.0 / 12.0, 1.0 / 12.0, 1e200 / 3.0, above]),
        (
            |x| x.hypot(Array::new(&device(), &[0.0, 0.0, 4e300, 4e-300, 0.0], &[5])),
            &[0.0, -2.0, 3e300, 3e-300, 1e-310],
            &[0.0, -1.0, 0.6, 0.6, 1.0],
        ),
    ];
    for (number, (f, at, expected)) in all.into_iter().enumerate() {
        let at = of(at);
        let backward = grad(|x| f(x).sum(), &at).to_vec::<f64>().unwrap();
        let ones = Array::ones(&device(), Scalar::F64, at.shape());
        let forward = jvp(f, &at, &ones).1.to_vec::<f64>().unwrap();
        for (i, expected) in expected.iter().enumerate() {
            for got in [backward[i], forward[i]] {
                let is_close = got == *expected || (got - expected).abs() <= 1e-14 * expected.abs();
                assert!(is_close, "function {number} at {i}: {got}, expected {expected}");
            }
        }
    }
    // Zeros keep their sign.
    for f in [Array::asinh, Array::atanh, Array::cbrt] {
        let zeros = f(&of(&[0.0, -0.0])).to_vec::<f64>().unwrap();
        assert!(!zeros[0].is_sign_negative() && zeros[1].is_sign_negative());
    }
    // C's rule for infinity beside NaN.
    let x = of(&[f64::NAN, f64::NEG_INFINITY, f64::NAN]).hypot(of(&[above, f64::NAN, 1.0]));
    let x = x.to_vec::<f64>().unwrap();
    assert!(x[..2] == [above; 2] && x[2].is_nan());
}

#[test]
fn quantiles_beside_infinity() {
    let (above, below) = (f64::INFINITY, f64::NEG_INFINITY);
    let x = of(&[below, below, 0.0, 1.0, above, above]);
    let got = x.quantiles(&[0.0, 0.1, 0.25, 0.5, 0.7, 0.9], 0).to_vec::<f64>().unwrap();
    assert_eq!(got, [below, below, below, 0.5, above, above]);
    assert!(of(&[below, above]).median(0).item::<f64>().unwrap().is_nan());
    assert_eq!(of(&[-1e308, 1e308]).quantile(0.75, 0).item::<f64>().unwrap(), 5e307);
    // Of a long axis, and of many rows at once.
    let long = Array::arange_step(&device(), 4999.0, -1.0, -1.0);
    assert_eq!(long.median(0).item::<f64>().unwrap(), 2499.5);
    let rows = Array::arange(&device(), 12).reshape(&[3, 4]);
    let medians = vmap(|row: &Array| row.median(0), &rows).to_vec::<f64>().unwrap();
    assert_eq!(medians, [1.5, 5.5, 9.5]);
    refused(x.quantile(1.5, 0), "`quantile`: a share of 1.5 is not from 0 to 1");
    refused(x.quantiles(&[0.5, f64::NAN], 0), "`quantiles`: a share of NaN is not from 0 to 1");
    refused(x.quantiles(&[], 0), "`quantiles`: there are no shares");
    refused(x.median(1), "`median`: shape [6] has no axis 1");
    refused(x.sum().quantile(0.5, 0), "`quantile`: shape [] has no axis 0");
}

#[test]
fn places_and_counts() {
    let device = device();
    // Places in each of several rows.
    let rows = Array::new(&device, &[1, 2, 3, 10, 20, 30], &[2, 3]);
    let values = Array::new(&device, &[3, 0, 15, 40], &[2, 2]);
    let places = vmap(|[x, v]: &[Array; 2]| x.searchsorted(v, Side::Left), &[rows.clone(), values.clone()]);
    assert_eq!(places.to_vec::<i64>().unwrap(), [2, 0, 1, 3]);
    let long = Array::arange(&device, 100_000) * 2;
    let at = Array::new(&device, &[0, 1, 77_777, 199_998, 199_999], &[5]);
    let places = long.searchsorted(&at, Side::Right).to_vec::<i64>().unwrap();
    assert_eq!(places, [1, 1, 38_889, 100_000, 100_000]);
    assert_eq!(long.searchsorted(2.5, Side::Left).item::<i64>().unwrap(), 2);
    refused(
        rows.searchsorted(1, Side::Left),
        "`searchsorted`: sorted elements of shape [2, 3] instead of one axis",
    );

    // On a GPU what other tests compute meanwhile would hold the error too.
    let apart = Device::open_apart(device.id()).unwrap();
    let wrong = [3, -1].map(|of| Array::new(&apart, &[0, of], &[2]).bincount(3));
    for counts in wrong {
        let error = counts.to_vec::<i64>().unwrap_err().to_string();
        let expected = "`bincount`: an index lies outside of its axis, which has 3 elements";
        assert!(error.ends_with(expected) && error.contains("tests/numbers.rs"), "{error}");
    }
    let none = Array::zeros(&device, Scalar::I32, &[0]);
    assert_eq!(none.bincount(2).to_vec::<i64>().unwrap(), [0, 0]);
    assert!(none.bincount(0).to_vec::<i64>().unwrap().is_empty());
    assert_eq!(Array::scalar(&device, 1).bincount(2).to_vec::<i64>().unwrap(), [0, 1]);
    let pairs = vmap(|row: &Array| row.bincount(4), &Array::new(&device, &[3, 1, 1, 1], &[2, 2]));
    assert_eq!(pairs.to_vec::<i64>().unwrap(), [0, 1, 0, 1, 0, 2, 0, 0]);
    refused(values.bincount(0), "`bincount`: axis 0 of shape [0] has no elements");
    refused(of(&[1.0]).bincount(2), "`bincount` of f64: what is counted are integers");
    refused(
        values.bincount_weighted(&of(&[1.0; 3]), 50),
        "`bincount_weighted`: weights of shape [3] do not stretch to [2, 2]",
    );
}

#[test]
fn grids_and_equality_that_cannot_be() {
    let x = of(&[1.0, 2.0]);
    assert_eq!(meshgrid(&[&x, &x.reshape(&[2, 1])]).len(), 2);
    refused(
        meshgrid(&[&x, &x.reshape(&[2, 1])])[1].clone(),
        "`meshgrid`: an array of shape [2, 1]: each is one axis of the grid",
    );
    assert!(meshgrid(&[]).is_empty());
    refused(
        x.is_close(of(&[1.0; 3]), 0.0, 0.0),
        "`is_close`: shapes [2] and [3] do not broadcast: axes must be equal, or 1",
    );
    refused(
        x.all_close(of(&[1.0; 3]), 0.0, 0.0),
        "`all_close`: shapes [2] and [3] do not broadcast: axes must be equal, or 1",
    );
    refused(x.array_equal(&x.reshape(&[3])), "`reshape`: 2 elements do not fill shape [3]");
    refused(x.hypot(of(&[1.0; 3])), "`hypot`: shapes [2] and [3] do not broadcast: axes must be equal, or 1");
    let other = Array::ones(&Device::open("interp:fast").unwrap(), Scalar::F64, &[2]);
    for result in [x.array_equal(&other), x.is_close(&other, 0.0, 0.0), meshgrid(&[&x, &other])[0].clone()] {
        let error = result.eval().unwrap_err().to_string();
        assert!(error.contains("`to_device` copies an array"), "{error}");
    }
}
