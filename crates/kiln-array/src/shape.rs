//! Shapes: NumPy's rule of broadcasting, axes that count from the end, row-major strides.

use smallvec::SmallVec;

/// Extents, axes or strides: in place for as many as most arrays have.
pub(crate) type Extents = SmallVec<[usize; 4]>;

/// The number of elements.
pub(crate) fn count(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// The shape that both stretch to: the last axes are aligned, and extents of 1 stretch.
pub(crate) fn broadcast(a: &[usize], b: &[usize]) -> Option<Extents> {
    let rank = a.len().max(b.len());
    let at = |shape: &[usize], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(own) => shape[own],
        None => 1,
    };
    let stretched = (0..rank).map(|axis| match (at(a, axis), at(b, axis)) {
        (x, y) if x == y => Some(x),
        (1, y) => Some(y),
        (x, 1) => Some(x),
        _ => None,
    });
    stretched.collect()
}

/// An axis counted from 0, of one that counts from the end where it is negative.
pub(crate) fn axis(axis: isize, rank: usize) -> Option<usize> {
    let from_start = if axis < 0 { axis.checked_add_unsigned(rank)? } else { axis };
    usize::try_from(from_start).ok().filter(|&axis| axis < rank)
}

/// Axes counted from 0, in order, each at most once.
pub(crate) fn axes(axes: &[isize], rank: usize) -> Option<Extents> {
    let mut all: Extents = axes.iter().map(|&one| axis(one, rank)).collect::<Option<_>>()?;
    all.sort_unstable();
    all.windows(2).all(|pair| pair[0] != pair[1]).then_some(all)
}

/// The shape without these axes, which are in order.
pub(crate) fn without(shape: &[usize], axes: &[usize]) -> Extents {
    let rest = shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    rest.map(|(_, &extent)| extent).collect()
}

/// The shape with extents of 1 on these axes.
pub(crate) fn kept(shape: &[usize], axes: &[usize]) -> Extents {
    let one = |(axis, &extent): (usize, &usize)| if axes.contains(&axis) { 1 } else { extent };
    shape.iter().enumerate().map(one).collect()
}

/// The distance between neighbors on each axis of elements in row-major order.
pub(crate) fn row_major(shape: &[usize]) -> Extents {
    let mut strides = Extents::from_elem(1, shape.len());
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1);
    }
    strides
}

/// Whether two indices may name one element of a view with these strides.
pub(crate) fn overlaps(extents: &[usize], strides: &[usize]) -> bool {
    let axes = extents.iter().copied().zip(strides.iter().copied());
    let mut axes: SmallVec<[(usize, usize); 4]> = axes.filter(|&(extent, _)| extent > 1).collect();
    axes.sort_unstable_by_key(|&(_, stride)| stride);
    // An axis must step over all that those of smaller strides reach.
    let mut reach = 0;
    axes.iter().any(|&(extent, stride)| {
        let within = stride <= reach;
        reach += (extent - 1) * stride;
        within
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_of_one_stretch() {
        assert_eq!(broadcast(&[3, 1], &[4]).as_deref(), Some(&[3, 4][..]));
        assert_eq!(broadcast(&[], &[2, 0]).as_deref(), Some(&[2, 0][..]));
        assert_eq!(broadcast(&[1], &[0]).as_deref(), Some(&[0][..]));
        assert_eq!(broadcast(&[3], &[4]), None);
    }

    #[test]
    fn windows_overlap_and_tiles_do_not() {
        assert!(overlaps(&[3, 2], &[1, 1]) && overlaps(&[2, 3], &[2, 1]) && overlaps(&[2], &[0]));
        assert!(!overlaps(&[2, 3], &[3, 1]) && !overlaps(&[3, 2], &[1, 3]) && !overlaps(&[1, 4], &[0, 1]));
    }

    #[test]
    fn negative_axes_count_from_the_end() {
        assert_eq!((axis(-1, 3), axis(2, 3), axis(-4, 3), axis(3, 3)), (Some(2), Some(2), None, None));
        assert_eq!(axes(&[-1, 0], 3).as_deref(), Some(&[0, 2][..]));
        assert_eq!(axes(&[2, -1], 3), None);
        assert_eq!(axis(isize::MIN, 3), None);
    }

    #[test]
    fn strides_of_empty_shapes_are_positive() {
        assert_eq!(&row_major(&[2, 0, 3])[..], [3, 3, 1]);
    }
}
