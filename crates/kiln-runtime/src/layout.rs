//! Where a tensor's elements lie in its buffer.

use crate::error::{Error, Result};
use kiln_ir::Scalar;

/// Offset, extents and strides of a tensor, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout<const R: usize> {
    pub(crate) offset: usize,
    pub(crate) shape: [usize; R],
    pub(crate) strides: [usize; R],
}

impl<const R: usize> Layout<R> {
    /// Row-major from the start of a buffer, if its size in bytes can be addressed.
    pub(crate) fn row_major(shape: [usize; R], elem: Scalar) -> Result<Layout<R>> {
        let too_large = || Error::TooLarge { shape: shape.to_vec(), elem };
        // Zero extents count as one: the strides of an empty tensor must not overflow either.
        let bytes = shape.iter().try_fold(elem.bytes() as usize, |n, &e| n.checked_mul(e.max(1)));
        bytes.filter(|&b| isize::try_from(b).is_ok()).ok_or_else(too_large)?;
        Ok(Layout { offset: 0, shape, strides: dense_strides(shape) })
    }

    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the elements lie in row-major order without gaps.
    pub(crate) fn is_dense(&self) -> bool {
        let dense = dense_strides(self.shape);
        self.len() == 0 || (0..R).all(|i| self.shape[i] == 1 || self.strides[i] == dense[i])
    }

    /// One past the last element reached, from `offset`; 0 for an empty tensor.
    pub(crate) fn span(&self) -> usize {
        if self.len() == 0 {
            return 0;
        }
        1 + (0..R).map(|i| (self.shape[i] - 1) * self.strides[i]).sum::<usize>()
    }

    /// Calls `visit` with the position, from `offset`, of every element in row-major order.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize)) {
        let mut index = [0usize; R];
        for _ in 0..self.len() {
            visit((0..R).map(|i| index[i] * self.strides[i]).sum());
            for axis in (0..R).rev() {
                index[axis] += 1;
                if index[axis] < self.shape[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
    }
}

fn dense_strides<const R: usize>(shape: [usize; R]) -> [usize; R] {
    let mut strides = [1; R];
    for i in (1..R).rev() {
        strides[i - 1] = strides[i] * shape[i].max(1);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_major_strides_and_span() {
        let l = Layout::row_major([2, 3, 4], Scalar::F32).unwrap();
        assert_eq!((l.strides, l.span(), l.is_dense()), ([12, 4, 1], 24, true));
        let transposed = Layout { offset: 5, shape: [4, 2], strides: [1, 4] };
        assert_eq!((transposed.span(), transposed.is_dense()), (8, false));
        let mut at = Vec::new();
        transposed.for_each(|i| at.push(i));
        assert_eq!(at, [0, 4, 1, 5, 2, 6, 3, 7]);
    }

    #[test]
    fn empty_and_too_large() {
        let l = Layout::row_major([3, 0, 2], Scalar::U64).unwrap();
        assert_eq!((l.len(), l.span(), l.is_dense()), (0, 0, true));
        assert!(matches!(Layout::row_major([usize::MAX / 2, 3], Scalar::F64), Err(Error::TooLarge { .. })));
        assert!(matches!(Layout::row_major([0, usize::MAX, 3], Scalar::F64), Err(Error::TooLarge { .. })));
        assert_eq!(Layout::row_major([], Scalar::F32).unwrap().len(), 1);
    }
}
