//! Products of matrices, each sum term by term in increasing order of k.
//!
//! The functions are not generic, so that they are compiled here, where the profile optimizes them.

use crate::Host;
use std::num::Wrapping;
use std::ops::{AddAssign, Mul};

/// a b of the matrices a: m × k and b: k × n by rows, in integers of 128 bits that wrap or in
/// `f64`; `zero` says in which where there is no term.
///
/// # Panics
///
/// If a matrix has other elements than its extents say.
#[inline(never)]
pub fn product(a: &[Host], b: &[Host], [m, n, k]: [usize; 3], zero: Host) -> Vec<Host> {
    let int = |x: &Host| match x {
        Host::Int(n) => Some(Wrapping(*n)),
        Host::Float(_) => None,
    };
    let ints = |x: &[Host]| x.iter().map(int).collect::<Option<Vec<_>>>();
    if let (Host::Int(_), Some(a), Some(b)) = (zero, ints(a), ints(b)) {
        return sums(&a, &b, [m, n, k]).into_iter().map(|x| Host::Int(x.0)).collect();
    }
    let floats = |x: &[Host]| x.iter().map(|x| x.float()).collect::<Vec<f64>>();
    sums(&floats(a), &floats(b), [m, n, k]).into_iter().map(Host::Float).collect()
}

/// a b of the matrices a: m × k and b: k × n by rows.
///
/// # Panics
///
/// If a matrix has other elements than its extents say.
#[inline(never)]
pub fn product_of_floats(a: &[f64], b: &[f64], shape: [usize; 3]) -> Vec<f64> {
    sums(a, b, shape)
}

fn sums<T: Copy + Default + AddAssign + Mul<Output = T>>(a: &[T], b: &[T], [m, n, k]: [usize; 3]) -> Vec<T> {
    assert_eq!([a.len(), b.len()], [m * k, k * n], "elements of the factors of a product of {m} × {k} × {n}");
    let mut all = vec![T::default(); m * n];
    for (i, row) in all.chunks_exact_mut(n.max(1)).enumerate() {
        for p in 0..k {
            let x = a[i * k + p];
            row.iter_mut().zip(&b[p * n..][..n]).for_each(|(sum, &y)| *sum += x * y);
        }
    }
    all
}

/// The sum of the products of equally many numbers.
#[inline(never)]
pub fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// Adds the multiple of a row to another.
#[inline(never)]
pub fn add_scaled(sums: &mut [f64], factor: f64, row: &[f64]) {
    sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += factor * x);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_by_hand() {
        let int = |n: i128| Host::Int(n);
        // [1 2 3; 4 5 6] · [1 0; 0 1; 2 -1]
        let a: Vec<Host> = (1..=6).map(int).collect();
        let b: Vec<Host> = [1, 0, 0, 1, 2, -1].map(int).to_vec();
        assert_eq!(product(&a, &b, [2, 2, 3], int(0)), [7, -1, 16, -1].map(int));
        let floats = |x: &[Host]| x.iter().map(|x| x.float()).collect::<Vec<f64>>();
        let expected = [7.0, -1.0, 16.0, -1.0];
        assert_eq!(product_of_floats(&floats(&a), &floats(&b), [2, 2, 3]), expected);
        let (a, b) = (floats(&a), floats(&b));
        let host = |x: &[f64]| x.iter().map(|&x| Host::Float(x)).collect::<Vec<Host>>();
        assert_eq!(product(&host(&a), &host(&b), [2, 2, 3], Host::Float(0.0)), host(&expected));
        let mut sums = [1.0, 2.0];
        add_scaled(&mut sums, 0.5, &[4.0, -2.0]);
        assert_eq!((sums, dot(&[1.0, 2.0], &[3.0, -4.0])), ([3.0, 1.0], -5.0));
    }

    #[test]
    fn products_without_terms_are_zero() {
        assert_eq!(product(&[], &[], [1, 2, 0], Host::Float(0.0)), [Host::Float(0.0); 2]);
        assert_eq!(product(&[], &[], [2, 1, 0], Host::Int(0)), [Host::Int(0); 2]);
        assert!(product(&[], &[Host::Int(1)], [0, 1, 1], Host::Int(0)).is_empty());
    }

    #[test]
    fn integers_wrap() {
        let (most, two) = (Host::Int(i128::MAX), Host::Int(2));
        assert_eq!(product(&[most], &[two], [1, 1, 1], Host::Int(0)), [Host::Int(-2)]);
    }
}
