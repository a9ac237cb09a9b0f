//! Tensors: typed, shaped, strided windows on a buffer of a device.

use crate::buffer::{Buffer, Named, Residency};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::layout::Layout;
use kiln_lang::Elem;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// A tensor of `T` with `R` axes on a device.
///
/// Contents move between host and device when they are needed and stale, never twice. Views ([`slice`](Self::slice), [`transpose`](Self::transpose),
/// [`reshape`](Self::reshape)) share the memory of the tensor they come from; a launch refuses arguments that share memory if it writes one of them.
///
/// ```
/// use kiln_runtime::Device;
/// let device = Device::open("interp")?;
/// let x = device.tensor(&[1, 2, 3, 4, 5, 6], [2, 3])?;
/// assert_eq!(x.transpose().to_vec()?, [1, 4, 2, 5, 3, 6]);
/// assert_eq!(x.slice(1, 1..3)?.to_vec()?, [2, 3, 5, 6]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub struct Tensor<T, const R: usize> {
    buffer: Arc<Buffer>,
    layout: Layout<R>,
    elem: PhantomData<T>,
}

impl Device {
    /// A tensor with the given elements, in row-major order.
    ///
    /// # Errors
    /// [`Error::Length`] if their number is not the shape's; out of memory.
    pub fn tensor<T: Elem, const R: usize>(&self, data: &[T], shape: [usize; R]) -> Result<Tensor<T, R>> {
        let mut tensor = self.uninit(shape)?;
        tensor.write(data)?;
        Ok(tensor)
    }

    /// A tensor of zeros (or `false`).
    ///
    /// # Errors
    /// Out of memory; a shape that cannot be addressed.
    pub fn zeros<T: Elem, const R: usize>(&self, shape: [usize; R]) -> Result<Tensor<T, R>> {
        let tensor = self.uninit(shape)?;
        tensor.buffer.access(Named::Tensor)?.fill(0)?;
        Ok(tensor)
    }

    /// A tensor with no contents yet: reading it before a kernel or a write filled it is an error.
    ///
    /// # Errors
    /// Out of memory; a shape that cannot be addressed.
    pub fn uninit<T: Elem, const R: usize>(&self, shape: [usize; R]) -> Result<Tensor<T, R>> {
        let layout = Layout::row_major(shape, T::SCALAR)?;
        let buffer = Arc::new(Buffer::new(self, layout.len() * size_of::<T>())?);
        Ok(Tensor { buffer, layout, elem: PhantomData })
    }
}

impl<T: Elem, const R: usize> Tensor<T, R> {
    /// The extents, outermost first.
    pub fn shape(&self) -> [usize; R] {
        self.layout.shape
    }

    /// The distance between neighbours on each axis, in elements.
    pub fn strides(&self) -> [usize; R] {
        self.layout.strides
    }

    /// Where its first element lies in the memory of the tensor that it is a view of, in elements. That memory begins at a multiple of 256 bytes.
    pub fn offset(&self) -> usize {
        self.layout.offset
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.buffer.device()
    }

    /// Which of the host's and the device's copy is current.
    pub fn residency(&self) -> Residency {
        self.buffer.residency()
    }

    /// The elements in row-major order, after all work that writes them.
    ///
    /// # Errors
    /// [`Error::Uninitialised`]; the first fault of a kernel on the stream that wrote the tensor;
    /// [`Error::Unwritten`] on the interpreter, if kernels have left some elements of a tensor from
    /// [`Device::uninit`] as they were.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut all = vec![T::from_bits(0); self.layout.span()];
        let access = self.buffer.access(Named::Tensor)?;
        access.read(self.byte_offset(), bytes_of(&mut all))?;
        let unwritten = access.unwritten(self.byte_offset(), size_of_val(&all[..]), false);
        drop(access);
        self.none_of(&unwritten.unwrap_or_default())?;
        if T::SCALAR == kiln_ir::Scalar::Bool {
            normalise_bools(bytes_of(&mut all));
        }
        if self.layout.is_dense() {
            return Ok(all);
        }
        let mut picked = Vec::with_capacity(self.len());
        self.layout.for_each(|i| picked.push(all[i]));
        Ok(picked)
    }

    /// Checks that every element has been written, by kernels or by the host, since the tensor was made
    /// by [`Device::zeros`] or [`Device::uninit`]: whether the stores of a launch cover it. The
    /// interpreter with its sanitizer knows.
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
    /// [`Error::Unwritten`] says how many were not; [`kiln_backend::Error::Unsupported`] on a device that
    /// does not keep track of what is written; the first fault of a kernel that wrote the tensor.
    pub fn check_written(&self) -> Result<()> {
        let access = self.buffer.access(Named::Tensor)?;
        access.check_written(Named::Tensor)?;
        access.synchronize()?;
        let bytes = self.layout.span() * T::SCALAR.bytes() as usize;
        let unwritten = access.unwritten(self.byte_offset(), bytes, true);
        drop(access);
        match unwritten {
            Some(unwritten) => self.none_of(&unwritten),
            None => Err(Error::Device(kiln_backend::Error::Unsupported {
                kernel: "Tensor::check_written".into(),
                what: "a device that keeps track of what is written".into(),
                device: self.device().id().to_owned(),
                location: "unknown location".into(),
                hint: "Open the device `interp`.".into(),
            })),
        }
    }

    /// An error if an element of the tensor lies in one of these ranges of its bytes.
    fn none_of(&self, unwritten: &[Range<usize>]) -> Result<()> {
        if unwritten.is_empty() {
            return Ok(());
        }
        let size = T::SCALAR.bytes() as usize;
        let is_unwritten = |element: usize| {
            let at = element * size;
            unwritten[unwritten.partition_point(|range| range.end <= at)..]
                .first()
                .is_some_and(|range| range.start < at + size)
        };
        let (mut number, mut missing, mut first) = (0, 0, None);
        self.layout.for_each(|element| {
            if is_unwritten(element) {
                missing += 1;
                first.get_or_insert(number);
            }
            number += 1;
        });
        let Some(mut left) = first else { return Ok(()) };
        let shape = self.shape().to_vec();
        let mut index = vec![0; R];
        for axis in (0..R).rev() {
            index[axis] = left % shape[axis];
            left /= shape[axis];
        }
        Err(Error::Unwritten { missing, of: number, first: index, shape })
    }

    /// Overwrites all elements, in row-major order.
    ///
    /// # Errors
    /// [`Error::Length`] if their number is not the tensor's.
    pub fn write(&mut self, data: &[T]) -> Result<()> {
        if data.len() != self.len() {
            return Err(Error::Length {
                given: data.len(),
                expected: self.len(),
                shape: self.shape().to_vec(),
            });
        }
        let mut access = self.buffer.access(Named::Tensor)?;
        if self.layout.is_dense() {
            return access.write(self.byte_offset(), bytes_of_ref(data));
        }
        // What lies in the gaps belongs to others, and stays.
        let mut all = vec![T::from_bits(0); self.layout.span()];
        if access.is_written() {
            access.read(self.byte_offset(), bytes_of(&mut all))?;
        }
        let mut source = data.iter();
        self.layout.for_each(|i| all[i] = *source.next().unwrap_or(&data[0]));
        access.write(self.byte_offset(), bytes_of_ref(&all))
    }

    /// A tensor of its own with the same contents, row-major, on the same device.
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
    /// [`Error::Uninitialised`]; out of memory; faults as for [`to_vec`](Self::to_vec).
    pub fn to_device(&self, device: &Device) -> Result<Tensor<T, R>> {
        let mut copy = device.uninit(self.shape())?;
        if self.layout.is_dense() {
            copy.buffer.copy_from(&self.buffer, self.byte_offset())?;
        } else {
            copy.write(&self.to_vec()?)?;
        }
        Ok(copy)
    }

    /// Runs a closure on the elements in host memory, without a copy where host and device share it. Until it returns, the tensor and its views
    /// are not used by anything else: that is [`Error::Lent`].
    ///
    /// # Errors
    /// [`Error::Uninitialised`]; [`Error::Range`] if this is a view with gaps; faults as for [`to_vec`](Self::to_vec).
    pub fn with_host<U>(&self, f: impl FnOnce(&[T]) -> U) -> Result<U> {
        let range = self.dense_range()?;
        self.buffer.with_host(false, |bytes| f(&elements(bytes)[range]))
    }

    /// Runs a closure that may change the elements in host memory; the device sees them at its next use. Elements that were never written are
    /// zero, if none was.
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
    /// [`Error::Range`] if this is a view with gaps; faults as for [`to_vec`](Self::to_vec).
    pub fn with_host_mut<U>(&mut self, f: impl FnOnce(&mut [T]) -> U) -> Result<U> {
        let range = self.dense_range()?;
        self.buffer.with_host(true, |bytes| {
            // Fresh memory may hold any bytes, which a bool must not.
            if T::SCALAR == kiln_ir::Scalar::Bool {
                normalise_bools(bytes);
            }
            f(&mut elements_mut(bytes)[range])
        })
    }

    /// The part of an axis in `range`, as a view.
    ///
    /// # Errors
    /// [`Error::Range`] if the axis or the range does not exist.
    pub fn slice(&self, axis: usize, range: Range<usize>) -> Result<Tensor<T, R>> {
        if axis >= R || range.start > range.end || range.end > self.layout.shape[axis] {
            return Err(Error::Range {
                what: format!("{range:?} on axis {axis}"),
                shape: self.shape().to_vec(),
            });
        }
        let mut layout = self.layout;
        layout.offset += range.start * layout.strides[axis];
        layout.shape[axis] = range.len();
        if layout.len() == 0 {
            // Parts of empty parts must not wander beyond the end.
            layout.offset = 0;
        }
        Ok(self.view(layout))
    }

    /// The axes in reverse order, as a view.
    pub fn transpose(&self) -> Tensor<T, R> {
        let mut layout = self.layout;
        layout.shape.reverse();
        layout.strides.reverse();
        self.view(layout)
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
    /// [`Error::Range`] if one of the axes does not exist.
    pub fn swap_axes(&self, one: usize, other: usize) -> Result<Tensor<T, R>> {
        if one.max(other) >= R {
            let what = format!("axes {one} and {other}");
            return Err(Error::Range { what, shape: self.shape().to_vec() });
        }
        let mut layout = self.layout;
        layout.shape.swap(one, other);
        layout.strides.swap(one, other);
        Ok(self.view(layout))
    }

    /// The same elements, as a view.
    pub fn alias(&self) -> Tensor<T, R> {
        self.view(self.layout)
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
    /// [`Error::Length`] if the number of elements differs, [`Error::Range`] if this is a view with gaps (`copy` it first).
    pub fn reshape<const S: usize>(&self, shape: [usize; S]) -> Result<Tensor<T, S>> {
        self.dense_range()?;
        let mut layout = Layout::row_major(shape, T::SCALAR)?;
        if layout.len() != self.len() {
            return Err(Error::Length { given: self.len(), expected: layout.len(), shape: shape.to_vec() });
        }
        layout.offset = self.layout.offset;
        Ok(Tensor { buffer: self.buffer.clone(), layout, elem: PhantomData })
    }

    /// A view with other axes, whose elements the caller took from this tensor's.
    pub(crate) fn with_axes<const S: usize>(
        &self,
        shape: [usize; S],
        strides: [usize; S],
        offset: usize,
    ) -> Tensor<T, S> {
        Tensor { buffer: self.buffer.clone(), layout: Layout { offset, shape, strides }, elem: PhantomData }
    }

    fn view(&self, layout: Layout<R>) -> Tensor<T, R> {
        Tensor { buffer: self.buffer.clone(), layout, elem: PhantomData }
    }

    fn dense_range(&self) -> Result<Range<usize>> {
        if !self.layout.is_dense() {
            return Err(Error::Range {
                what: "host access to a view with gaps".into(),
                shape: self.shape().to_vec(),
            });
        }
        Ok(self.layout.offset..self.layout.offset + self.len())
    }

    pub(crate) fn byte_offset(&self) -> usize {
        self.layout.offset * size_of::<T>()
    }

    pub(crate) fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }

    pub(crate) fn layout(&self) -> &Layout<R> {
        &self.layout
    }
}

impl<T: Elem> Tensor<T, 1> {
    /// The first element: for results that are one number.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// assert_eq!(Device::open("interp")?.tensor(&[2.5], [1])?.item()?, 2.5);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Range`] if the tensor is empty; as for [`to_vec`](Self::to_vec).
    pub fn item(&self) -> Result<T> {
        self.slice(0, 0..1)?.to_vec().map(|v| v[0])
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
        let Layout { offset, shape: [rows, columns], strides: [down, across] } = self.layout;
        // The distance to a second matrix is never taken; it is that of a dense stack.
        let strides = [(rows * down).max(columns * across), down, across];
        let layout = Layout { offset, shape: [1, rows, columns], strides };
        Tensor { buffer: self.buffer.clone(), layout, elem: PhantomData }
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

fn bytes_of<T: Elem>(data: &mut [T]) -> &mut [u8] {
    // SAFETY: `Elem` is sealed: its types have no padding; every caller writes valid elements, or bytes that
    // `normalise_bools` makes valid before the slice is read as `T`.
    unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), size_of_val(data)) }
}

fn bytes_of_ref<T: Elem>(data: &[T]) -> &[u8] {
    // SAFETY: `Elem` is sealed: its types have no padding.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

fn elements<T: Elem>(bytes: &[u8]) -> &[T] {
    // SAFETY: buffers are aligned to at least 8 bytes and hold `T`; kernels store only valid elements.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
}

fn elements_mut<T: Elem>(bytes: &mut [u8]) -> &mut [T] {
    // SAFETY: as `elements`.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<T>()) }
}

/// Memory that was partly never written may hold other bytes than 0 and 1, which a `bool` must not.
fn normalise_bools(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|b| *b = u8::from(*b != 0));
}
