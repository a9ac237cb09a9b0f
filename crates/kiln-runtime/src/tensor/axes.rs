//! Views of a tensor with other axes: in another order, one fewer, one more.

use super::typed::Tensor;
use crate::error::{Error, Result};
use kiln_lang::Elem;

impl<T: Elem, const R: usize> Tensor<T, R> {
    /// The axes in another order, as a view: axis `i` of the result is axis `order[i]` of this one.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let x = Device::open("interp")?.tensor(&[1, 2, 3, 4, 5, 6], [1, 2, 3])?;
    /// let y = x.permute([2, 0, 1])?;
    /// assert_eq!((y.shape(), y.to_vec()?), ([3, 1, 2], vec![1, 4, 2, 5, 3, 6]));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Range`] unless `order` names every axis once.
    pub fn permute(&self, order: [usize; R]) -> Result<Tensor<T, R>> {
        self.as_dyn().permute(&order).map(Tensor::from_erased)
    }

    /// The part at an index of an axis, as a view with one axis fewer; `S` is `R - 1`.
    ///
    /// ```
    /// # use kiln_runtime::{Device, Tensor};
    /// let x = Device::open("interp")?.tensor(&[1, 2, 3, 4, 5, 6], [2, 3])?;
    /// let column: Tensor<i32, 1> = x.select(1, 2)?;
    /// assert_eq!(column.to_vec()?, [3, 6]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Range`] if the axis or the index does not exist, or `S` is another rank.
    pub fn select<const S: usize>(&self, axis: usize, index: usize) -> Result<Tensor<T, S>> {
        if S + 1 != R {
            return Err(self.no_rank(format!("index {index} of axis {axis}"), S));
        }
        self.as_dyn().select(axis, index).map(Tensor::from_erased)
    }

    /// A view with one more axis, of extent 1, before this axis; `S` is `R + 1`.
    ///
    /// ```
    /// # use kiln_runtime::{Device, Tensor};
    /// let x = Device::open("interp")?.tensor(&[1, 2, 3], [3])?;
    /// let row: Tensor<i32, 2> = x.unsqueeze(0)?;
    /// assert_eq!(row.shape(), [1, 3]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Range`] if `axis` is above the rank, or `S` is another rank.
    pub fn unsqueeze<const S: usize>(&self, axis: usize) -> Result<Tensor<T, S>> {
        if S != R + 1 {
            return Err(self.no_rank(format!("a new axis {axis}"), S));
        }
        self.as_dyn().unsqueeze(axis).map(Tensor::from_erased)
    }

    fn no_rank(&self, what: String, rank: usize) -> Error {
        Error::Range { what: format!("{what} is no tensor of rank {rank}"), shape: self.shape().to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    #[test]
    fn axes_of_a_fused_tensor() {
        let device = Device::open("interp").unwrap();
        let data: Vec<i32> = (0..2 * 3 * 4).collect();
        let fused = device.tensor(&data, [2, 3, 4]).unwrap();
        let second: Tensor<i32, 2> = fused.select(1, 1).unwrap();
        assert_eq!(second.to_vec().unwrap(), [4, 5, 6, 7, 16, 17, 18, 19]);
        let by_column = second.permute([1, 0]).unwrap().unsqueeze::<3>(1).unwrap();
        assert_eq!(
            (by_column.shape(), by_column.to_vec().unwrap()[..3].to_vec()),
            ([4, 1, 2], vec![4, 16, 5])
        );
        let end: Tensor<i32, 4> = fused.unsqueeze(3).unwrap();
        assert_eq!(end.reshape([24]).unwrap().to_vec().unwrap(), data);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let device = Device::open("interp").unwrap();
        let x = device.tensor(&[1, 2, 3, 4], [2, 2]).unwrap();
        let refused = |e: Option<Error>| matches!(e, Some(Error::Range { .. }));
        assert!(refused(x.permute([0, 0]).err()) && refused(x.permute([0, 2]).err()));
        assert!(refused(x.select::<1>(2, 0).err()) && refused(x.select::<1>(0, 2).err()));
        assert!(refused(x.select::<2>(0, 0).err()) && refused(x.unsqueeze::<3>(3).err()));
        let empty = device.tensor::<i32, 2>(&[], [3, 0]).unwrap();
        assert_eq!(empty.select::<1>(0, 2).unwrap().to_vec().unwrap(), []);
    }
}
