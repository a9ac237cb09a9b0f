//! Sorting of the library over short, odd and long rows, against the host's stable sort.

use crate::case::{Case, cases};
use crate::trial::{Trial, Verdict, hosts, list, same};
use half::{bf16, f16};
use kiln_kernels::Sort;
use kiln_kernels::sort::Sortable;
use kiln_reference::{Host, Sample};
use kiln_runtime::Execution;
use std::cmp::Ordering;

pub fn cases() -> Vec<Case> {
    cases!["library":
        sorted for i32 u32 i64 u64 f16 bf16 f32 f64;
        sorted_by_digits for u64 bf16 f32;
    ]
}

/// Large ones, for [`sweep`](crate::sweep).
pub fn large_cases() -> Vec<Case> {
    cases!["library":
        large_sorted for i32 u32 i64 u64 f16 bf16 f32 f64;
    ]
}

/// Rows that are each in one tile, and none.
fn sorted<T: Sample + Sortable>(trial: &mut Trial<'_>) -> Verdict {
    [[0, 3], [3, 0], [3, 1], [5, 37]].into_iter().try_for_each(|shape| {
        of_shape::<T>(trial, shape, false)?;
        of_shape::<T>(trial, shape, true)
    })
}

/// Rows of several parts. An assembler takes long for them, so it has one order alone here.
fn sorted_by_digits<T: Sample + Sortable>(trial: &mut Trial<'_>) -> Verdict {
    of_shape::<T>(trial, [3, 5003], true)
}

fn large_sorted<T: Sample + Sortable>(trial: &mut Trial<'_>) -> Verdict {
    let shapes: &[[usize; 2]] = match trial.device.capabilities().execution {
        Execution::Interpreted => &[[1, 20_011]],
        Execution::Simd => &[[1, 300_007], [3, 65_536]],
        Execution::Simt if trial.device.capabilities().software => {
            &[[1, 100_007], [2, 2048], [3, 2049], [301, 5]]
        }
        Execution::Simt => &[[1, 3_000_017], [70_001, 5], [300, 4099], [3, 65_536], [2, 2048], [3, 2049]],
    };
    shapes.iter().try_for_each(|&shape| {
        of_shape::<T>(trial, shape, false)?;
        of_shape::<T>(trial, shape, true)
    })
}

/// The order of elements: -0 and 0 are equal, and NaN are greater than all numbers.
fn order(a: Host, b: Host) -> Ordering {
    match (a, b) {
        (Host::Int(a), Host::Int(b)) => a.cmp(&b),
        (Host::Float(a), Host::Float(b)) => a.partial_cmp(&b).unwrap_or(a.is_nan().cmp(&b.is_nan())),
        _ => Ordering::Equal,
    }
}

/// Where the elements of each row stand in the row, in order.
fn expected_order(elements: &[Host], columns: usize, descending: bool) -> Vec<i64> {
    let mut expected = Vec::with_capacity(elements.len());
    for row in elements.chunks(columns.max(1)) {
        let mut indices: Vec<usize> = (0..columns).collect();
        indices.sort_by(|&i, &j| match descending {
            true => order(row[j], row[i]),
            false => order(row[i], row[j]),
        });
        expected.extend(indices.into_iter().map(|i| i as i64));
    }
    expected
}

fn of_shape<T: Sample + Sortable>(
    trial: &mut Trial<'_>,
    [rows, columns]: [usize; 2],
    descending: bool,
) -> Verdict {
    // Every third element is one of a few, so that many are equal.
    let mut few = list(0..7, |_| T::sample(&mut trial.rng));
    if T::SCALAR.is_float() {
        few.extend([f64::NAN, 0.0, -0.0, f64::INFINITY].map(|x| T::from_host(Host::Float(x))));
    }
    let x: Vec<T> = list(0..rows * columns, |i| match i % 3 {
        0 => few[trial.rng.below(few.len() as u64) as usize],
        _ => T::sample(&mut trial.rng),
    });
    let tensor = trial.device.tensor(&x, [rows, columns])?;
    let sort = if descending { Sort::new().descending() } else { Sort::new() };
    let elements = hosts(&x);
    let expected = expected_order(&elements, columns, descending);
    let what = format!("{rows} x {columns}, descending: {descending}");
    let mut found = trial.device.uninit([rows, columns])?;
    sort.order(&tensor, &mut found)?;
    same(&format!("order of {what}"), &found.to_vec()?, &expected)?;
    let mut found = trial.device.uninit([rows, columns])?;
    sort.run(&tensor, &mut found)?;
    // NaN is not equal to itself.
    let found = hosts(&found.to_vec()?);
    let is_right = |at: usize| {
        let element = elements[at / columns * columns + expected[at] as usize];
        order(found[at], element) == Ordering::Equal
    };
    same(&format!("elements of {what}"), &list(0..found.len(), is_right), &vec![true; x.len()])
}
