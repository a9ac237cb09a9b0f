//! Long axes in order, and their greatest elements, against the host's stable sort.

use kiln_array::{Array, Scalar};
use kiln_runtime::Device;
use std::cmp::Ordering;

/// The CPU, or the device that the environment variable `KILN_DEVICE` names.
fn device() -> Device {
    let name = std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into());
    Device::open(&name).unwrap()
}

/// Small whole numbers, of which many are equal, and some NaN.
fn numbers(len: usize, with_nan: bool) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(11);
    let number = |random: &mut fastrand::Rng| match random.u32(0..50) {
        0 if with_nan => f64::NAN,
        _ => f64::from(random.i32(-300..300)),
    };
    (0..len).map(|_| number(&mut random)).collect()
}

/// NaN is greater than all numbers.
fn order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The indices that put a row in order.
fn sorted(row: &[f64], descending: bool) -> Vec<i64> {
    let mut indices: Vec<i64> = (0..row.len() as i64).collect();
    let of = |i: i64| row[i as usize];
    indices.sort_by(|&i, &j| if descending { order(of(j), of(i)) } else { order(of(i), of(j)) });
    indices
}

#[test]
fn axes_that_no_tile_holds() {
    let device = device();
    for dtype in [Scalar::F32, Scalar::F64, Scalar::BF16, Scalar::F16, Scalar::I32, Scalar::U32, Scalar::I64]
    {
        for [rows, extent] in [[3, 2049], [2, 9000], [1, 30_001]] {
            let mut given = numbers(rows * extent, dtype.is_float());
            if dtype == Scalar::U32 {
                given.iter_mut().for_each(|x| *x = x.abs());
            }
            // bf16 holds whole numbers up to 256.
            if dtype == Scalar::BF16 {
                given.iter_mut().for_each(|x| *x = (*x / 2.0).trunc());
            }
            let x = Array::new(&device, &given, &[rows, extent]).cast(dtype);
            let indices: Vec<i64> = given.chunks(extent).flat_map(|row| sorted(row, false)).collect();
            assert!(x.argsort(1).to_vec::<i64>().unwrap() == indices, "argsort of {dtype} {rows} x {extent}");
            let turned = x.permute(&[1, 0]).argsort(0).permute(&[1, 0]);
            assert!(turned.to_vec::<i64>().unwrap() == indices, "another axis of {dtype} {rows} x {extent}");
            let values = x.sort(1).cast(Scalar::F64).to_vec::<f64>().unwrap();
            for (at, (got, from)) in values.iter().zip(&indices).enumerate() {
                let expected = given[at / extent * extent + *from as usize];
                assert!(order(*got, expected) == Ordering::Equal, "{dtype} {rows} x {extent}: element {at}");
            }
        }
    }
}

#[test]
fn the_greatest_of_many() {
    let device = device();
    for [rows, extent] in [[2, 4096], [2, 4099], [1, 20_480], [3, 10_001]] {
        for k in [1, 7, 500, 600, extent] {
            let given = numbers(rows * extent, true);
            let x = Array::new(&device, &given, &[rows, extent]).cast(Scalar::F32);
            let (values, at) = x.top_k(k, 1);
            let best = |row: &[f64]| sorted(row, true).into_iter().take(k).collect::<Vec<_>>();
            let indices: Vec<i64> = given.chunks(extent).flat_map(best).collect();
            assert!(at.to_vec::<i64>().unwrap() == indices, "the {k} greatest of {rows} x {extent}");
            let first = values.to_vec::<f32>().unwrap()[0];
            assert!(order(f64::from(first), given[indices[0] as usize]) == Ordering::Equal);
        }
    }
}

/// Long axes have gradients too.
#[test]
fn gradients_of_long_axes() {
    let device = device();
    let given = numbers(3000, false);
    let x = Array::new(&device, &given, &[3000]);
    let weights = Array::arange(&device, 3000).cast(Scalar::F64);
    let [g] = kiln_array::grad(|[x]| (x.sort(0) * &weights).sum(), &[x]);
    let mut expected = vec![0.0; 3000];
    for (place, from) in sorted(&given, false).into_iter().enumerate() {
        expected[from as usize] = place as f64;
    }
    assert_eq!(g.to_vec::<f64>().unwrap(), expected);
}
