//! How far the elements of a view reach.

/// The number of elements from the first of a view to its last, those between that are not the
/// view's included; 0 for an empty view. More than 64 bits hold count as [`u64::MAX`].
///
/// ```
/// use kiln_backend::view_span;
/// assert_eq!(view_span(&[3, 4], &[10, 1]), 24);
/// assert_eq!(view_span(&[3, 0], &[10, 1]), 0);
/// assert_eq!(view_span(&[], &[]), 1);
/// assert_eq!(view_span(&[u64::MAX, 2], &[u64::MAX, 1]), u64::MAX);
/// ```
#[inline]
pub fn view_span(extents: &[u64], strides: &[u64]) -> u64 {
    if extents.contains(&0) {
        return 0;
    }
    let offsets = extents.iter().zip(strides).map(|(extent, stride)| (extent - 1).saturating_mul(*stride));
    offsets.fold(1, u64::saturating_add)
}
