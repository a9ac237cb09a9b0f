//! [`Tensor`]: a static element type and rank for a [`DynTensor`], and nothing else.

use super::dynamic::DynTensor;
use super::layout::Layout;
use crate::activity::CallSite;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::residency::Residency;
use crate::stream::Stream;
use kiln_lang::Elem;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::Location;

/// A tensor of `T` with `R` axes on a device.
///
/// Contents move between host and device when they are needed and stale, never twice. Views
/// ([`slice`](Self::slice), [`transpose`](Self::transpose), [`reshape`](Self::reshape)) share the
/// memory of the tensor they come from; a launch refuses arguments that share memory if it writes
/// one of them.
///
/// ```
/// use kiln_runtime::Device;
/// let device = Device::open("interp")?;
/// let x = device.tensor(&[1, 2, 3, 4, 5, 6], [2, 3])?;
/// assert_eq!(x.transpose().to_vec()?, [1, 4, 2, 5, 3, 6]);
/// assert_eq!(x.slice(1, 1..3)?.to_vec()?, [2, 3, 5, 6]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
#[repr(transparent)]
pub struct Tensor<T, const R: usize> {
    /// Its element type is `T` and its rank `R`.
    erased: DynTensor,
    elem: PhantomData<T>,
}

impl Device {
    /// A tensor with the given elements, in row-major order.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let x = Device::open("interp")?.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
    /// assert_eq!(x.shape(), [2, 3]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) if their number is not the shape's; out of memory.
    #[track_caller]
    pub fn tensor<T: Elem, const R: usize>(&self, data: &[T], shape: [usize; R]) -> Result<Tensor<T, R>> {
        Ok(Tensor::from_erased(DynTensor::new(self, data, &shape)?))
    }

    /// A tensor of zeros (or `false`).
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let x = Device::open("interp")?.zeros::<f32, 2>([2, 2])?; // types may also follow from the use
    /// assert_eq!(x.to_vec()?, [0.0; 4]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// Out of memory; a shape that cannot be addressed.
    #[track_caller]
    pub fn zeros<T: Elem, const R: usize>(&self, shape: [usize; R]) -> Result<Tensor<T, R>> {
        Ok(Tensor::from_erased(DynTensor::zeros(self, T::SCALAR, &shape)?))
    }

    /// A tensor with no contents yet: reading it before a kernel or a write filled it is an error.
    ///
    /// ```
    /// # use kiln_runtime::{Device, Error};
    /// let mut x = Device::open("interp")?.uninit::<f32, 1>([2])?;
    /// assert!(matches!(x.to_vec(), Err(Error::Uninitialized { .. })));
    /// x.write(&[1.0, 2.0])?;
    /// assert_eq!(x.to_vec()?, [1.0, 2.0]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// Out of memory; a shape that cannot be addressed.
    #[track_caller]
    pub fn uninit<T: Elem, const R: usize>(&self, shape: [usize; R]) -> Result<Tensor<T, R>> {
        Ok(Tensor::from_erased(DynTensor::uninit(self, T::SCALAR, &shape)?))
    }
}

impl<T: Elem, const R: usize> Tensor<T, R> {
    /// A tensor that the caller has checked to be of this type and rank.
    pub(super) fn from_erased(erased: DynTensor) -> Tensor<T, R> {
        debug_assert!(erased.dtype() == T::SCALAR && erased.rank() == R);
        Tensor { erased, elem: PhantomData }
    }

    /// Whether a tensor is of this type and rank.
    fn check(erased: &DynTensor, site: CallSite) -> Result<()> {
        match erased.dtype() == T::SCALAR && erased.rank() == R {
            true => Ok(()),
            false => Err(erased.wrong_type(T::SCALAR, Some(R), site)),
        }
    }

    pub(super) fn of(erased: DynTensor, site: CallSite) -> Result<Tensor<T, R>> {
        Tensor::<T, R>::check(&erased, site)?;
        Ok(Tensor::from_erased(erased))
    }

    pub(super) fn of_ref(erased: &DynTensor, site: CallSite) -> Result<&Tensor<T, R>> {
        Tensor::<T, R>::check(erased, site)?;
        // SAFETY: `Tensor` is a `DynTensor` in memory (`repr(transparent)`), and this one is of
        // type `T` and rank `R`.
        Ok(unsafe { &*std::ptr::from_ref(erased).cast::<Tensor<T, R>>() })
    }

    pub(super) fn of_mut(erased: &mut DynTensor, site: CallSite) -> Result<&mut Tensor<T, R>> {
        Tensor::<T, R>::check(erased, site)?;
        // SAFETY: as in `of_ref`; whatever `Tensor<T, R>` is put in its place is a `DynTensor` too.
        Ok(unsafe { &mut *std::ptr::from_mut(erased).cast::<Tensor<T, R>>() })
    }

    /// The same tensor without its types.
    ///
    /// ```
    /// # use kiln_runtime::{Device, Tensor};
    /// let x = Device::open("interp")?.tensor(&[1, 2, 3, 4], [2, 2])?.into_dyn();
    /// assert_eq!(x.shape(), [2, 2]);
    /// let x: Tensor<i32, 2> = x.downcast()?;
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn into_dyn(self) -> DynTensor {
        self.erased
    }

    /// The same tensor without its types, borrowed.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let x = Device::open("interp")?.tensor(&[1.0f32, 2.0], [2])?;
    /// assert_eq!(x.as_dyn().dtype().bytes(), 4);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn as_dyn(&self) -> &DynTensor {
        &self.erased
    }

    pub(super) fn as_dyn_mut(&mut self) -> &mut DynTensor {
        &mut self.erased
    }

    /// The extents, outermost first.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let [rows, columns] = Device::open("interp")?.zeros::<f32, 2>([2, 3])?.shape();
    /// assert_eq!((rows, columns), (2, 3));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn shape(&self) -> [usize; R] {
        array(self.erased.shape())
    }

    /// The distance between neighbors on each axis, in elements.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let x = Device::open("interp")?.zeros::<f32, 2>([2, 3])?;
    /// assert_eq!((x.strides(), x.transpose().strides()), ([3, 1], [1, 3]));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn strides(&self) -> [usize; R] {
        array(self.erased.strides())
    }

    /// Where its first element lies in the memory of the tensor that it is a view of, in elements.
    /// That memory begins at a multiple of 256 bytes, if it is not of
    /// [another owner](Self::from_device_ptr).
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let x = Device::open("interp")?.zeros::<f32, 2>([2, 3])?;
    /// assert_eq!(x.slice(0, 1..2)?.offset(), 3);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn offset(&self) -> usize {
        self.erased.offset()
    }

    /// The number of elements.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let x = Device::open("interp")?.zeros::<f32, 2>([2, 3])?;
    /// assert!(x.len() == 6 && !x.is_empty());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.erased.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let x = Device::open("interp")?.zeros::<f32, 1>([3])?;
    /// let y = x.device().zeros::<f32, 1>([3])?; // beside it
    /// # assert_eq!(x.device(), y.device());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn device(&self) -> &Device {
        self.erased.device()
    }

    /// Which of the host's and the device's copy is current.
    ///
    /// ```
    /// # use kiln_runtime::{Device, Residency};
    /// let x = Device::open("interp")?.uninit::<f32, 1>([3])?;
    /// assert_eq!(x.residency(), Residency::Uninitialized);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn residency(&self) -> Residency {
        self.erased.residency()
    }

    /// The elements in row-major order, after all work that writes them.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let x = Device::open("interp")?.tensor(&[1, 2, 3, 4], [2, 2])?;
    /// assert_eq!(x.transpose().to_vec()?, [1, 3, 2, 4]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Uninitialized`](crate::Error::Uninitialized); the first fault of a kernel on the
    /// stream that wrote the tensor; [`Error::Unwritten`](crate::Error::Unwritten) on the
    /// interpreter, if kernels have left some elements of a tensor from [`Device::uninit`] as they
    /// were.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.erased.elements(&mut Log::at(Location::caller()))
    }

    /// Checks that every element has been written, by kernels or by the host, since the tensor was
    /// made by [`Device::zeros`] or [`Device::uninit`]: whether the stores of a launch cover it.
    /// The interpreter with its sanitizer records that.
    ///
    /// ```
    /// use kiln_lang::prelude::*;
    /// use kiln_runtime::{Device, Tensor};
    ///
    /// #[kernel(crate = kiln_runtime)]
    /// fn twice(x: &Tensor<f32, 2>, y: &mut Tensor<f32, 2>, block: usize) {
    ///     let row = program_id(0);
    ///     y.row(row).tile(0, block).store(x.row(row).tile(0, block).load(0.0) * 2.0);
    /// }
    ///
    /// let device = Device::open("interp")?;
    /// let x = device.tensor(&[1.0; 300], [3, 100])?;
    /// let mut y = device.zeros([3, 100])?;
    /// twice(&x, &mut y, 64).launch(&device)?; // the block is narrower than a row
    /// assert_eq!(
    ///     y.check_written().unwrap_err().to_string(),
    ///     "108 of 300 elements were never written, the first at [0, 64] of shape [3, 100]: a block may be narrower than \
    ///      its row, or the grid too small"
    /// );
    /// twice(&x, &mut y, 128).launch(&device)?;
    /// y.check_written()?;
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Unwritten`](crate::Error::Unwritten) says how many were not;
    /// [`kiln_backend::Error::Unsupported`] on a device that does not keep track of what is
    /// written; the first fault of a kernel that wrote the tensor.
    #[track_caller]
    pub fn check_written(&self) -> Result<()> {
        self.erased.check_written()
    }

    /// Overwrites all elements, in row-major order.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let mut x = Device::open("interp")?.zeros([3])?;
    /// x.write(&[1, 2, 3])?;
    /// assert_eq!(x.to_vec()?, [1, 2, 3]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) if their number is not the tensor's.
    #[track_caller]
    pub fn write(&mut self, data: &[T]) -> Result<()> {
        self.erased.write_elements(data, &mut Log::at(Location::caller()))
    }

    /// Overwrites the elements by those of another tensor of the same shape, whatever the strides
    /// of either: on one device by a kernel that the host does not wait for, between two through
    /// the host. Views make it a copy of rectangles, with pitches, or of every n-th element.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let device = Device::open("interp")?;
    /// let x = device.tensor(&[1, 2, 3, 4, 5, 6], [2, 3])?;
    /// let y = device.zeros::<i32, 2>([3, 4])?;
    /// y.slice(1, 2..4)?.copy_from(&x.transpose())?;
    /// assert_eq!(y.to_vec()?, [0, 0, 1, 4, 0, 0, 2, 5, 0, 0, 3, 6]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) if the shapes differ; as of a launch if the two share
    /// memory, or the source was never written.
    #[track_caller]
    pub fn copy_from(&mut self, source: &Tensor<T, R>) -> Result<()> {
        self.erased.copy_from(&source.erased)
    }

    /// As [`copy_from`](Self::copy_from), in a stream.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let device = Device::open("interp")?;
    /// let copies = device.stream()?;
    /// let (x, mut y) = (device.tensor(&[1.5f32, 2.5], [2])?, device.zeros([2])?);
    /// y.copy_from_on(&x, &copies)?; // what uses `y` later waits for it
    /// assert_eq!(y.to_vec()?, [1.5, 2.5]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`copy_from`](Self::copy_from).
    #[track_caller]
    pub fn copy_from_on(&mut self, source: &Tensor<T, R>, stream: &Stream) -> Result<()> {
        self.erased.copy_from_on(&source.erased, stream)
    }

    /// A tensor of its own with the same contents, row-major, on the same device.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let mut x = Device::open("interp")?.tensor(&[1, 2], [2])?;
    /// let before = x.copy()?;
    /// x.write(&[3, 4])?;
    /// assert_eq!(before.to_vec()?, [1, 2]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`to_device`](Self::to_device).
    #[track_caller]
    pub fn copy(&self) -> Result<Tensor<T, R>> {
        self.to_device(self.device())
    }

    /// A tensor of its own with the same contents, row-major, on any device.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let (interp, cpu) = (Device::open("interp")?, Device::open("cpu")?);
    /// let x = interp.tensor(&[1, 2, 3, 4], [2, 2])?;
    /// let y = x.transpose().to_device(&cpu)?;
    /// assert_eq!((y.device(), y.to_vec()?), (&cpu, vec![1, 3, 2, 4]));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Uninitialized`](crate::Error::Uninitialized); out of memory; faults as for
    /// [`to_vec`](Self::to_vec).
    #[track_caller]
    pub fn to_device(&self, device: &Device) -> Result<Tensor<T, R>> {
        self.erased.to_device(device).map(Tensor::from_erased)
    }

    /// Runs a closure on the elements in host memory, without a copy where host and device share
    /// it. Until it returns, the tensor and its views are not used by anything else: that is
    /// [`Error::Borrowed`](crate::Error::Borrowed).
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let x = Device::open("interp")?.tensor(&[1, 5, 3], [3])?;
    /// assert_eq!(x.with_host(|x| x.iter().max().copied())?, Some(5));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Uninitialized`](crate::Error::Uninitialized); [`Error::Range`](crate::Error::Range)
    /// if this is a view with gaps; faults as for [`to_vec`](Self::to_vec).
    #[track_caller]
    pub fn with_host<U>(&self, f: impl FnOnce(&[T]) -> U) -> Result<U> {
        self.erased.with_host(f)
    }

    /// Runs a closure that may change the elements in host memory; the device sees them at its next
    /// use. Elements that were never written are zero, if none was.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let mut x = Device::open("interp")?.tensor(&[1.0, 2.0, 3.0], [3])?;
    /// x.with_host_mut(|x| x[1] = 9.0)?;
    /// assert_eq!(x.with_host(|x| x.iter().sum::<f32>())?, 13.0);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Range`](crate::Error::Range) if this is a view with gaps; faults as for
    /// [`to_vec`](Self::to_vec).
    #[track_caller]
    pub fn with_host_mut<U>(&mut self, f: impl FnOnce(&mut [T]) -> U) -> Result<U> {
        self.erased.with_host_mut(f)
    }

    /// The part of an axis in `range`, as a view.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let x = Device::open("interp")?.tensor(&[1, 2, 3, 4, 5, 6], [2, 3])?;
    /// assert_eq!(x.slice(1, 1..3)?.to_vec()?, [2, 3, 5, 6]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Range`](crate::Error::Range) if the axis or the range does not exist.
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Result<Tensor<T, R>> {
        self.erased.slice(axis, range).map(Tensor::from_erased)
    }

    /// Every `step`th element along an axis, from the first on, as a view.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let x = Device::open("interp")?.tensor(&[1, 2, 3, 4, 5, 6], [2, 3])?;
    /// assert_eq!(x.step_by(1, 2)?.to_vec()?, [1, 3, 4, 6]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Range`](crate::Error::Range) if the axis does not exist or the step is 0.
    pub fn step_by(&self, axis: usize, step: usize) -> Result<Tensor<T, R>> {
        self.erased.step_by(axis, step).map(Tensor::from_erased)
    }

    /// The axes in reverse order, as a view.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let x = Device::open("interp")?.tensor(&[1, 2, 3, 4, 5, 6], [2, 3])?;
    /// assert_eq!((x.transpose().shape(), x.transpose().to_vec()?), ([3, 2], vec![1, 4, 2, 5, 3, 6]));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn transpose(&self) -> Tensor<T, R> {
        Tensor::from_erased(self.erased.transpose())
    }

    /// Two axes exchanged, as a view.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let x = Device::open("interp")?.tensor(&[1, 2, 3, 4], [1, 2, 2])?;
    /// assert_eq!(x.swap_axes(1, 2)?.to_vec()?, [1, 3, 2, 4]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Range`](crate::Error::Range) if one of the axes does not exist.
    pub fn swap_axes(&self, one: usize, other: usize) -> Result<Tensor<T, R>> {
        self.erased.swap_axes(one, other).map(Tensor::from_erased)
    }

    /// The same elements, as a view.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let mut x = Device::open("interp")?.tensor(&[1, 2], [2])?;
    /// let same = x.alias();
    /// x.write(&[3, 4])?;
    /// assert_eq!(same.to_vec()?, [3, 4]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn alias(&self) -> Tensor<T, R> {
        Tensor::from_erased(self.erased.alias())
    }

    /// The same elements in row-major order under another shape, as a view.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let x = Device::open("interp")?.tensor(&[1, 2, 3, 4, 5, 6], [6])?;
    /// assert_eq!(x.reshape([2, 3])?.slice(0, 1..2)?.to_vec()?, [4, 5, 6]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) if the number of elements differs,
    /// [`Error::Range`](crate::Error::Range) if this is a view with gaps (`copy` it first).
    pub fn reshape<const S: usize>(&self, shape: [usize; S]) -> Result<Tensor<T, S>> {
        self.erased.reshape(&shape).map(Tensor::from_erased)
    }

    /// The first element: for results that are one number.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// assert_eq!(Device::open("interp")?.tensor(&[2.5], [1, 1])?.item()?, 2.5);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Range`](crate::Error::Range) if the tensor is empty; as for
    /// [`to_vec`](Self::to_vec).
    #[track_caller]
    pub fn item(&self) -> Result<T> {
        if self.is_empty() {
            let what = "`item` reads the first element, and there is none".into();
            return Err(Error::Range { what, shape: self.shape().to_vec() });
        }
        let one = [1].as_slice();
        let first = Layout { offset: self.offset(), shape: one.into(), strides: one.into() };
        Tensor::<T, 1>::from_erased(self.erased.view(first)).to_vec().map(|v| v[0])
    }
}

impl<T: Elem> Tensor<T, 2> {
    /// The matrix as a stack of one, as a view.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let x = Device::open("interp")?.tensor(&[1, 2, 3, 4], [2, 2])?;
    /// assert_eq!(x.transpose().stacked().shape(), [1, 2, 2]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn stacked(&self) -> Tensor<T, 3> {
        let ([rows, columns], [down, across]) = (self.shape(), self.strides());
        // The distance to a second matrix is never taken; it is that of a dense stack.
        let strides = [(rows * down).max(columns * across), down, across];
        let (shape, strides) = ([1, rows, columns].as_slice().into(), strides.as_slice().into());
        Tensor::from_erased(self.erased.view(Layout { offset: self.offset(), shape, strides }))
    }
}

/// Functions that take a tensor of any type take either kind by this.
///
/// ```
/// # use kiln_runtime::{Device, DynTensor};
/// fn bytes(tensor: impl AsRef<DynTensor>) -> usize {
///     let tensor = tensor.as_ref();
///     tensor.len() * tensor.dtype().bytes() as usize
/// }
/// let x = Device::open("interp")?.tensor(&[1.0f64, 2.0], [2])?;
/// assert_eq!((bytes(&x), bytes(x.into_dyn())), (16, 16));
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
impl<T: Elem, const R: usize> AsRef<DynTensor> for Tensor<T, R> {
    fn as_ref(&self) -> &DynTensor {
        self.as_dyn()
    }
}

impl AsRef<DynTensor> for DynTensor {
    fn as_ref(&self) -> &DynTensor {
        self
    }
}

impl<T: Elem, const R: usize> fmt::Debug for Tensor<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Tensor<{}, {R}>({:?} on {}, {:?})",
            T::SCALAR,
            self.shape(),
            self.device().id(),
            self.residency()
        )
    }
}

/// As many numbers as a tensor has axes.
fn array<const R: usize>(numbers: &[usize]) -> [usize; R] {
    std::array::from_fn(|axis| numbers[axis])
}
