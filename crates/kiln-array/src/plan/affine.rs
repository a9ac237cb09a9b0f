//! Indices as sums of multiples of what a kernel counts with.
//!
//! Where an element of an input lies follows from the element of the result: through a permutation,
//! a slice or a reshape the index on each axis is such a sum.

use smallvec::SmallVec;

/// What an index is made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Var {
    /// The index on a dimension of the kernel.
    Dim(usize),
    /// A value of the kernel's body, of i64.
    Value(usize),
}

/// `constant + Σ factor · variable`, with each variable once, in order, and no factor of zero.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Affine {
    pub(crate) constant: i64,
    pub(crate) terms: SmallVec<[(Var, i64); 2]>,
}

impl Affine {
    /// A number.
    pub(crate) fn constant(constant: i64) -> Affine {
        Affine { constant, terms: SmallVec::new() }
    }

    /// A multiple of a variable.
    pub(crate) fn of(var: Var, factor: i64) -> Affine {
        let mut terms = SmallVec::new();
        if factor != 0 {
            terms.push((var, factor));
        }
        Affine { constant: 0, terms }
    }

    /// The sum with another one, times a factor.
    pub(crate) fn plus(&self, other: &Affine, factor: i64) -> Affine {
        let mut sum = self.clone();
        sum.constant += other.constant * factor;
        for &(var, of) in &other.terms {
            match sum.terms.binary_search_by_key(&var, |term| term.0) {
                Ok(at) => sum.terms[at].1 += of * factor,
                Err(at) => sum.terms.insert(at, (var, of * factor)),
            }
        }
        sum.terms.retain(|term| term.1 != 0);
        sum
    }

    /// The multiple.
    pub(crate) fn times(&self, factor: i64) -> Affine {
        Affine::default().plus(self, factor)
    }

    /// The sum with a number.
    pub(crate) fn offset(&self, by: i64) -> Affine {
        Affine { constant: self.constant + by, terms: self.terms.clone() }
    }

    /// The factor of a dimension.
    pub(crate) fn factor(&self, dim: usize) -> i64 {
        self.terms.iter().find(|term| term.0 == Var::Dim(dim)).map_or(0, |term| term.1)
    }
}

/// The index of row-major elements, of the indices on the axes.
pub(crate) fn linear(indices: &[Affine], strides: &[usize]) -> Affine {
    let sum = Affine::default();
    indices.iter().zip(strides).fold(sum, |sum, (index, &stride)| sum.plus(index, stride as i64))
}

/// That a reshape is no sum of multiples: a dimension must be divided first, or the reshape's input
/// be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Indivisible {
    /// The dimension, whose inner part must have this extent.
    Divide {
        dim: usize,
        inner: usize,
    },
    Never,
}

/// The indices on axes of these extents, of the index in row-major order. `extent` is that of a
/// dimension.
pub(crate) fn delinear(
    index: &Affine,
    shape: &[usize],
    extent: impl Fn(usize) -> usize,
) -> Result<Vec<Affine>, Indivisible> {
    let mut left = index.clone();
    let mut indices = vec![Affine::default(); shape.len()];
    for axis in (1..shape.len()).rev() {
        let inner = shape[axis] as i64;
        let mut outer = Affine::constant(left.constant.div_euclid(inner));
        let mut within = Affine::constant(left.constant.rem_euclid(inner));
        let (mut least, mut most) = (within.constant, within.constant);
        for &(var, factor) in &left.terms {
            if factor % inner == 0 {
                outer = outer.plus(&Affine::of(var, factor / inner), 1);
                continue;
            }
            let Var::Dim(dim) = var else { return Err(Indivisible::Never) };
            let reach = factor * (extent(dim) as i64 - 1);
            (least, most) = (least + reach.min(0), most + reach.max(0));
            if reach.abs() >= inner {
                return Err(divided(dim, extent(dim), factor, inner));
            }
            within = within.plus(&Affine::of(var, factor), 1);
        }
        if least < 0 || most >= inner {
            return Err(Indivisible::Never);
        }
        indices[axis] = within;
        left = outer;
    }
    if let Some(first) = indices.first_mut() {
        *first = left;
    }
    Ok(indices)
}

/// Into what a dimension must be divided, whose steps of `factor` cross the end of an axis.
fn divided(dim: usize, extent: usize, factor: i64, axis: i64) -> Indivisible {
    let step = factor.unsigned_abs() as usize;
    let axis = axis as usize;
    if axis.is_multiple_of(step) && extent.is_multiple_of(axis / step) {
        return Indivisible::Divide { dim, inner: axis / step };
    }
    Indivisible::Never
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_axis_is_a_sum_and_a_merged_one_is_divided() {
        let dims = [2usize, 3];
        let extent = |dim: usize| dims[dim];
        let both = linear(&[Affine::of(Var::Dim(0), 1), Affine::of(Var::Dim(1), 1)], &[3, 1]);
        assert_eq!((both.factor(0), both.factor(1)), (3, 1));
        let back = delinear(&both, &[2, 3], extent).unwrap();
        assert_eq!(back, [Affine::of(Var::Dim(0), 1), Affine::of(Var::Dim(1), 1)]);

        let one = Affine::of(Var::Dim(0), 1);
        assert_eq!(delinear(&one, &[2, 3], |_| 6), Err(Indivisible::Divide { dim: 0, inner: 3 }));
        assert_eq!(delinear(&one, &[2, 5], |_| 9), Err(Indivisible::Never));
        let split = Affine::of(Var::Dim(0), 3).plus(&Affine::of(Var::Dim(1), 1), 1);
        assert_eq!(delinear(&split, &[2, 3], extent).unwrap()[1], Affine::of(Var::Dim(1), 1));
    }

    #[test]
    fn reversed_axes_are_split_too() {
        // 5 - 3 i - j of [2, 3] is (1 - i, 2 - j).
        let dims = [2usize, 3];
        let index =
            Affine::constant(5).plus(&Affine::of(Var::Dim(0), -3), 1).plus(&Affine::of(Var::Dim(1), -1), 1);
        let split = delinear(&index, &[2, 3], |dim| dims[dim]).unwrap();
        assert_eq!((split[0].constant, split[0].factor(0)), (1, -1));
        assert_eq!((split[1].constant, split[1].factor(1)), (2, -1));
    }
}
