//! Tensors from arrays of the crate `ndarray`, and back.

use super::dynamic::DynTensor;
use super::typed::Tensor;
use crate::device::Device;
use crate::error::{Error, Result};
use kiln_lang::Elem;
use ndarray::{Array, ArrayBase, ArrayD, Data, Dim, Dimension, IntoDimension, IxDyn};

impl<T: Elem, const R: usize> Tensor<T, R>
where
    Dim<[usize; R]>: Dimension,
{
    /// A tensor with the elements of an array, or of a view of one: in any order in memory, which
    /// row-major order in the tensor follows.
    ///
    /// ```
    /// use kiln_runtime::{Device, Tensor};
    /// use ndarray::{Array2, array};
    ///
    /// let device = Device::open("interp")?;
    /// let a = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
    /// let x = Tensor::from_ndarray(&device, &a.t())?; // a view of the transposed array
    /// assert_eq!((x.shape(), x.to_vec()?), ([3, 2], vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0]));
    /// let back: Array2<f32> = x.transpose().to_ndarray()?;
    /// assert_eq!(back, a);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// Out of memory.
    #[track_caller]
    pub fn from_ndarray<S: Data<Elem = T>>(
        device: &Device,
        array: &ArrayBase<S, Dim<[usize; R]>>,
    ) -> Result<Tensor<T, R>> {
        DynTensor::from_ndarray(device, array)?.downcast::<T, R>()
    }

    /// An array with the elements, in row-major order. Waits for the work that writes them.
    ///
    /// # Errors
    /// As of [`to_vec`](Tensor::to_vec).
    #[track_caller]
    pub fn to_ndarray(&self) -> Result<Array<T, Dim<[usize; R]>>>
    where
        [usize; R]: IntoDimension<Dim = Dim<[usize; R]>>,
    {
        let shape = self.shape();
        Array::from_shape_vec(shape, self.to_vec()?).map_err(|_| unfit(self.len(), &shape))
    }
}

impl DynTensor {
    /// A tensor with the elements of an array of any number of axes.
    ///
    /// ```
    /// use kiln_runtime::{Device, DynTensor};
    /// use ndarray::ArrayD;
    ///
    /// let device = Device::open("interp")?;
    /// let a = ArrayD::from_elem(vec![2, 1, 3], 7u16);
    /// let x = DynTensor::from_ndarray(&device, &a)?;
    /// assert_eq!(x.shape(), [2, 1, 3]);
    /// assert_eq!(x.to_ndarray::<u16>()?, a);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// Out of memory.
    #[track_caller]
    pub fn from_ndarray<T: Elem, S: Data<Elem = T>, D: Dimension>(
        device: &Device,
        array: &ArrayBase<S, D>,
    ) -> Result<DynTensor> {
        // Copied only where it does not lie in this order.
        let ordered = array.as_standard_layout();
        let shape = array.shape();
        let elements = ordered.as_slice().ok_or_else(|| unfit(array.len(), shape))?;
        DynTensor::new(device, elements, shape)
    }

    /// An array with the elements, in row-major order. Waits for the work that writes them.
    ///
    /// # Errors
    /// Elements of another type; as of [`to_vec`](DynTensor::to_vec).
    #[track_caller]
    pub fn to_ndarray<T: Elem>(&self) -> Result<ArrayD<T>> {
        let elements = self.to_vec::<T>()?;
        Array::from_shape_vec(IxDyn(self.shape()), elements).map_err(|_| unfit(self.len(), self.shape()))
    }
}

#[cold]
fn unfit(given: usize, shape: &[usize]) -> Error {
    Error::Length { given, expected: shape.iter().product(), shape: shape.to_vec() }
}
