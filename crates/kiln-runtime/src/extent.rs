//! Extents of grids and blocks, in whatever integer type a program has them.

use crate::error::Error;

mod sealed {
    pub trait Sealed {}
}

/// A number of programs or threads on one axis: an integer of any common type. One that is negative
/// or above `u32::MAX` is an error of the launch.
///
/// ```
/// # use kiln_lang::prelude::*;
/// # use kiln_runtime::{Device, Error, Tensor};
/// #[kernel(crate = kiln_runtime)]
/// fn increment(y: &mut Tensor<i32, 1>) {
///     let i = thread_index();
///     y.set_or_skip(i, y.get_or(i, 0) + 1);
/// }
///
/// let device = Device::open("interp")?;
/// let data = vec![1, 2, 3];
/// let mut y = device.tensor(&data, [3])?;
/// increment(&mut y).grid([data.len().div_ceil(2)]).block([2]).launch(&device)?;
/// assert_eq!(y.to_vec()?, [2, 3, 4]);
///
/// let refused = increment(&mut y).grid([data.len() as i32 - 4]).block([2]).launch(&device);
/// let text = refused.unwrap_err().to_string();
/// assert_eq!(text, "`grid of increment`: expected extents from 0 to 4294967295, got -1");
/// # Ok::<(), Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no number of programs or threads",
    note = "grids and blocks have extents of u32, usize, i32, u64 or i64, of one type for all axes"
)]
pub trait Extent: Copy + sealed::Sealed {
    /// The number.
    #[doc(hidden)]
    fn number(self) -> i128;
}

macro_rules! extent {
    ($($t:ty)*) => {$(
        impl sealed::Sealed for $t {}
        impl Extent for $t {
            fn number(self) -> i128 {
                self as i128
            }
        }
    )*};
}

extent!(i32 u32 i64 u64 usize);

/// Extents on three axes, or the first number that is none: apart, for a launch is moved as it is
/// put together, and most have no such number.
pub(crate) type Extents = Result<[u32; 3], Box<i128>>;

/// The extents on three axes.
pub(crate) fn three<E: Extent, const N: usize>(given: [E; N]) -> Extents {
    const { assert!(N >= 1 && N <= 3, "a grid or block has one, two or three axes") };
    let mut extents = [1; 3];
    for (extent, given) in extents.iter_mut().zip(given) {
        *extent = given.number().try_into().map_err(|_| Box::new(given.number()))?;
    }
    Ok(extents)
}

/// The error of a launch whose grid or block has this extent.
pub(crate) fn no_extent(what: &str, kernel: &str, given: i128) -> Error {
    Error::Value {
        what: format!("{what} of {kernel}"),
        expected: format!("extents from 0 to {}", u32::MAX),
        given: given.to_string(),
    }
}
