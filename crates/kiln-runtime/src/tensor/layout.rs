//! Where a tensor's elements lie in its buffer.

use crate::error::{Error, Result};
use kiln_ir::{MAX_VIEW_RANK, Scalar};
use smallvec::SmallVec;

/// Extents or strides: in place for as many axes as a kernel's view can have.
pub(crate) type Dims = SmallVec<[usize; MAX_VIEW_RANK]>;

/// Offset, extents and strides of a tensor, in elements. There are as many strides as extents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) offset: usize,
    pub(crate) shape: Dims,
    pub(crate) strides: Dims,
}

impl Layout {
    /// Row-major from the start of a buffer, if its size in bytes can be addressed.
    pub(crate) fn row_major(shape: &[usize], elem: Scalar) -> Result<Layout> {
        let too_large = || Error::TooLarge { shape: shape.to_vec(), elem };
        // Zero extents count as one: the strides of an empty tensor must not overflow either.
        let bytes = shape.iter().try_fold(elem.bytes() as usize, |n, &e| n.checked_mul(e.max(1)));
        bytes.filter(|&b| isize::try_from(b).is_ok()).ok_or_else(too_large)?;
        Ok(Layout { offset: 0, shape: Dims::from_slice(shape), strides: dense_strides(shape) })
    }

    pub(crate) fn rank(&self) -> usize {
        self.shape.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the elements lie in row-major order without gaps.
    pub(crate) fn is_dense(&self) -> bool {
        let mut dense = 1;
        let axes = self.shape.iter().zip(&self.strides).rev();
        let in_order = axes.fold(true, |in_order, (&extent, &stride)| {
            let here = extent == 1 || stride == dense;
            dense *= extent.max(1);
            in_order && here
        });
        in_order || self.len() == 0
    }

    /// One past the last element reached, from `offset`; 0 for an empty tensor.
    pub(crate) fn span(&self) -> usize {
        if self.len() == 0 {
            return 0;
        }
        1 + self.shape.iter().zip(&self.strides).map(|(extent, stride)| (extent - 1) * stride).sum::<usize>()
    }

    /// Calls `visit` with the position, from `offset`, of every element in row-major order.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize)) {
        let mut index = Dims::from_elem(0, self.rank());
        for _ in 0..self.len() {
            visit(index.iter().zip(&self.strides).map(|(i, stride)| i * stride).sum());
            for (i, &extent) in index.iter_mut().zip(&self.shape).rev() {
                *i += 1;
                if *i < extent {
                    break;
                }
                *i = 0;
            }
        }
    }
}

fn dense_strides(shape: &[usize]) -> Dims {
    let mut strides = Dims::from_elem(1, shape.len());
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i].max(1);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_major_strides_and_span() {
        let l = Layout::row_major(&[2, 3, 4], Scalar::F32).unwrap();
        assert_eq!((&l.strides[..], l.span(), l.is_dense()), (&[12, 4, 1][..], 24, true));
        let transposed =
            Layout { offset: 5, shape: Dims::from_slice(&[4, 2]), strides: Dims::from_slice(&[1, 4]) };
        assert_eq!((transposed.span(), transposed.is_dense()), (8, false));
        let mut at = Vec::new();
        transposed.for_each(|i| at.push(i));
        assert_eq!(at, [0, 4, 1, 5, 2, 6, 3, 7]);
    }

    #[test]
    fn empty_and_too_large() {
        let l = Layout::row_major(&[3, 0, 2], Scalar::U64).unwrap();
        assert_eq!((l.len(), l.span(), l.is_dense()), (0, 0, true));
        assert!(matches!(Layout::row_major(&[usize::MAX / 2, 3], Scalar::F64), Err(Error::TooLarge { .. })));
        assert!(matches!(Layout::row_major(&[0, usize::MAX, 3], Scalar::F64), Err(Error::TooLarge { .. })));
        assert_eq!(Layout::row_major(&[], Scalar::F32).unwrap().len(), 1);
    }
}
