//! Extents as programs have them: numbers of any of Rust's usual integer types.

/// An integer that is an extent of a shape given to [`Array::reshape`](crate::Array::reshape):
/// `usize` as those of [`shape`](crate::Array::shape), or a signed one, of which -1 has a meaning.
///
/// ```
/// use kiln_array::{Array, Extent};
/// fn rows<E: Extent>(x: &Array, shape: [E; 2]) -> usize {
///     x.reshape(&shape).shape()[0]
/// }
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::arange(&device, 6);
/// assert_eq!((rows(&x, [2usize, 3]), rows(&x, [3, -1])), (2, 3));
/// # Ok::<(), kiln_array::Error>(())
/// ```
pub trait Extent: Copy + sealed::Signed {}

mod sealed {
    pub trait Signed {
        /// The same number. One that is too great for memory becomes the greatest, which is too
        /// great as well.
        fn signed(self) -> isize;
    }
}

macro_rules! extents {
    ($($integer:ty)*) => {
        $(
            impl Extent for $integer {}
            impl sealed::Signed for $integer {
                fn signed(self) -> isize {
                    isize::try_from(self).unwrap_or(isize::MAX)
                }
            }
        )*
    };
}

extents!(usize isize i32 i64 u32);
