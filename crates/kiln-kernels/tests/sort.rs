//! Rows in order, against the host's stable sort.

use kiln_kernels::Sort;
use kiln_kernels::sort::Sortable;
use kiln_lang::prelude::{bf16, f16};
use kiln_runtime::Device;
use std::cmp::Ordering;

/// Rows and columns: of one tile, of a few elements more, of several parts, and none.
const SHAPES: [[usize; 2]; 9] =
    [[0, 5], [3, 0], [3, 1], [2, 37], [2, 2048], [3, 2049], [1, 4097], [2, 12_289], [1, 40_013]];

fn before<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    // NaN, the one element that is not equal to itself, is greater than all others.
    a.partial_cmp(b).unwrap_or_else(|| (a.partial_cmp(a).is_none()).cmp(&b.partial_cmp(b).is_none()))
}

/// The indices of each row by the host's stable sort.
fn expected<T: PartialOrd>(x: &[T], columns: usize, descending: bool) -> Vec<i64> {
    let order_of = |row: &[T]| {
        let mut order: Vec<usize> = (0..columns).collect();
        order.sort_by(|&i, &j| if descending { before(&row[j], &row[i]) } else { before(&row[i], &row[j]) });
        order.into_iter().map(|i| i as i64).collect::<Vec<_>>()
    };
    x.chunks(columns.max(1)).flat_map(order_of).collect()
}

fn check<T: Sortable + PartialOrd>(device: &Device, element: impl Fn(&mut fastrand::Rng) -> T) {
    let mut random = fastrand::Rng::with_seed(u64::from(T::BITS));
    for [rows, columns] in SHAPES {
        let x: Vec<T> = (0..rows * columns).map(|_| element(&mut random)).collect();
        let tensor = device.tensor(&x, [rows, columns]).unwrap();
        for sort in [Sort::new(), Sort::new().descending()] {
            let order = expected(&x, columns, sort != Sort::new());
            let mut found = device.uninit([rows, columns]).unwrap();
            sort.order(&tensor, &mut found).unwrap();
            assert!(found.to_vec().unwrap() == order, "{} {rows} x {columns}, {sort:?}", T::SCALAR);
            let mut sorted = device.uninit([rows, columns]).unwrap();
            sort.run(&tensor, &mut sorted).unwrap();
            let sorted = sorted.to_vec().unwrap();
            for (at, (given, &from)) in sorted.iter().zip(&order).enumerate() {
                let element = x[at / columns * columns + from as usize];
                let same = before(given, &element) == Ordering::Equal;
                assert!(same, "{} {rows} x {columns}, {sort:?}, element {at}", T::SCALAR);
            }
        }
    }
}

/// Bits of a float, of which some are NaN, infinite, zero or subnormal, and some equal.
fn bits(random: &mut fastrand::Rng, infinity: u64, sign: u64) -> u64 {
    let special = [0, sign, infinity, infinity | sign, infinity + 1, infinity | sign | 1, 1, sign | 1];
    match random.u32(0..8) {
        0 => special[random.usize(0..special.len())],
        1 => infinity / 2 + random.u64(0..3),
        _ => random.u64(..),
    }
}

fn device() -> Device {
    Device::open(&std::env::var("KILN_DEVICE").unwrap_or_else(|_| "cpu".into())).unwrap()
}

#[test]
fn rows_of_floats_are_in_order() {
    let device = device();
    check(&device, |random| f32::from_bits(bits(random, 0x7f80_0000, 1 << 31) as u32));
    check(&device, |random| f64::from_bits(bits(random, 0x7ff0 << 48, 1 << 63)));
    check(&device, |random| f16::from_bits(bits(random, 0x7c00, 1 << 15) as u16));
    check(&device, |random| bf16::from_bits(bits(random, 0x7f80, 1 << 15) as u16));
}

#[test]
fn rows_of_integers_are_in_order() {
    let device = device();
    check(&device, |random| random.i32(..) >> random.u32(0..32));
    check(&device, |random| random.u32(..) >> random.u32(0..32));
    check(&device, |random| random.i64(..) >> random.u32(0..64));
    check(&device, |random| random.u64(..) >> random.u32(0..64));
    check(&device, |random| random.i8(..));
    check(&device, |random| random.u8(..));
    check(&device, |random| random.i16(..) >> random.u32(0..16));
    check(&device, |random| random.u16(..) >> random.u32(0..16));
}

#[test]
fn few_different_elements_keep_their_order() {
    check(&device(), |random| random.i32(0..3));
}

#[test]
fn a_result_of_another_shape_is_refused() {
    let device = Device::open("interp").unwrap();
    let x = device.zeros::<f32, 2>([2, 3]).unwrap();
    let mut y = device.uninit([3, 2]).unwrap();
    let error = Sort::new().order(&x, &mut y).unwrap_err().to_string();
    assert_eq!(error, "`the order of a sort`: expected shape [2, 3], got [3, 2]");
}
