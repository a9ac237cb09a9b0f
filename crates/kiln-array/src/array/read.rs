//! Computing, reading, printing.

use crate::error::{Error, Result};
use crate::node::{Array, Content};
use crate::non_finite::computed;
use kiln_lang::Elem;
use kiln_runtime::{Device, DynTensor};
use std::fmt;
use std::panic::Location;

/// Computes arrays together: what several need is computed once. Enqueues the kernels, and does not
/// wait for the device.
///
/// ```
/// use kiln_array::{Array, eval};
/// let device = kiln_runtime::Device::open("interp")?;
/// let x = Array::new(&device, &[1.0f32, 2.0, 3.0], &[3]);
/// let (sum, squares) = (x.sum(), x.square());
/// eval(&[&sum, &squares])?;
/// assert_eq!((sum.item::<f32>()?, squares.to_vec::<f32>()?), (6.0, vec![1.0, 4.0, 9.0]));
/// # Ok::<(), kiln_array::Error>(())
/// ```
///
/// # Errors
/// The error of an array that has one; those of launches; in
/// [`detect_non_finite`](crate::detect_non_finite), that an array is not finite.
pub fn eval(arrays: &[&Array]) -> Result<()> {
    computed(arrays)
}

impl Array {
    /// Computes the array, unless it is computed. Does not wait for the device.
    ///
    /// # Errors
    /// As of [`eval`](crate::eval()).
    pub fn eval(&self) -> Result<()> {
        computed(&[self])
    }

    /// The elements as a tensor, which shares the array's memory: it is to be read, and
    /// [copied](DynTensor::copy) for a kernel that writes it.
    ///
    /// # Errors
    /// As of [`eval`](Self::eval).
    pub fn tensor(&self) -> Result<DynTensor> {
        self.eval()?;
        match self.content()? {
            Content::Tensor(tensor) => Ok(tensor.alias()),
            Content::Recipe(_) => {
                let problem = "it was not computed".to_owned();
                Err(Error::Shape { op: "eval", problem, location: self.site() })
            }
        }
    }

    /// The elements in row-major order. Waits for the device.
    ///
    /// # Errors
    /// As of [`eval`](Self::eval); if the elements are of another type; the first fault of a kernel
    /// that they were made by.
    #[track_caller]
    pub fn to_vec<T: Elem>(&self) -> Result<Vec<T>> {
        let location = Location::caller();
        if self.dtype() != T::SCALAR {
            // Its error has this line.
            return Ok(self.tensor()?.to_vec()?);
        }
        self.read(location, DynTensor::to_vec)
    }

    /// The one element. Waits for the device.
    ///
    /// # Errors
    /// As of [`to_vec`](Self::to_vec); if there is not one element.
    #[track_caller]
    pub fn item<T: Elem>(&self) -> Result<T> {
        let location = Location::caller();
        let all = self.to_vec()?;
        match all[..] {
            [one] => Ok(one),
            _ => {
                let problem = format!("shape {:?} does not have one element", self.shape());
                Err(Error::Shape { op: "item", problem, location })
            }
        }
    }

    /// The elements on another device. They are computed and copied now, and no gradient passes
    /// through.
    #[track_caller]
    pub fn to_device(&self, device: &Device) -> Array {
        let site = Location::caller();
        let copied = self.read(site, |tensor| tensor.to_device(device));
        copied.map_or_else(|error| Array::failed(error, site), |tensor| Array::ready(tensor, site))
    }
}

/// Prints the elements as NumPy does; what is printed of a large array is its corners. An array
/// that cannot be computed is printed as the reason.
impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tensor().and_then(|tensor| self.settle(self.site()).map(|()| tensor)) {
            Ok(tensor) => fmt::Display::fmt(&tensor, f),
            Err(error) => write!(f, "an array without elements: {error}"),
        }
    }
}
