//! Tensors whose element type and rank are known at run time.

use super::layout::Layout;
use crate::activity::CallSite;
use crate::buffer::Buffer;
use crate::capture::node::Place;
use crate::capture::recording;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::facts;
use crate::host_memory::zeroed;
use crate::log::Log;
use crate::residency::{Named, Residency};
use crate::sanitize;
use kiln_backend::BufferBinding;
use kiln_ir::Scalar;
use kiln_lang::Elem;
use kiln_lang::param::Facts;
use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

/// A tensor whose element type and shape are known at run time.
///
/// It is what [`Tensor`](crate::Tensor) is under its types: the same buffer, views, order of work
/// and errors. [`downcast`](Self::downcast) gives the typed tensor.
/// Kernels from IR ([`DynKernel`](crate::DynKernel)) take it.
///
/// ```
/// use kiln_ir::Scalar;
/// use kiln_runtime::{Device, DynTensor, Tensor};
///
/// let device = Device::open("interp")?;
/// let x = DynTensor::new(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
/// assert_eq!((x.dtype(), x.shape()), (Scalar::F32, &[2, 3][..]));
/// assert_eq!(x.transpose().to_vec::<f32>()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
/// let rows: Tensor<f32, 2> = x.slice(0, 1..2)?.downcast()?;
/// assert_eq!(rows.to_vec()?, [4.0, 5.0, 6.0]);
/// assert!(x.to_vec::<i32>().is_err());
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
///
/// ```
/// use kiln_ir::Scalar;
/// use kiln_runtime::{Device, DynTensor, Residency, Tensor};
///
/// // How a tensor and a view of it lie in memory.
/// let device = Device::open("interp")?;
/// let mut x = DynTensor::uninit(&device, Scalar::I32, &[2, 3])?;
/// assert_eq!(x.residency(), Residency::Uninitialized);
/// x.write(&[1, 2, 3, 4, 5, 6])?;
/// let column = x.swap_axes(0, 1)?.slice(0, 1..3)?;
/// assert_eq!((column.rank(), column.shape(), column.len()), (2, &[2, 2][..], 4));
/// assert_eq!((column.strides(), column.offset()), (&[1, 3][..], 1));
/// assert!(x.is_contiguous() && !column.is_contiguous());
///
/// // A copy has memory of its own, here or on another device.
/// let copy = column.copy()?;
/// assert!(copy.is_contiguous() && copy.offset() == 0);
/// x.write_bytes(&[0; 24])?;
/// assert_eq!(copy.to_vec::<i32>()?, [2, 5, 3, 6]);
/// assert_eq!(copy.to_device(&Device::open("cpu")?)?.to_vec::<i32>()?, [2, 5, 3, 6]);
/// // Types that the program knows.
/// let typed: &mut Tensor<i32, 2> = x.downcast_mut()?;
/// typed.write(&[7; 6])?;
/// assert_eq!(x.to_vec::<i32>()?, [7; 6]);
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
pub struct DynTensor {
    /// Its elements are of type `dtype`: all of them, since every view has the type of the tensor
    /// that allocated.
    buffer: Arc<Buffer>,
    dtype: Scalar,
    /// It lies inside the buffer.
    layout: Layout,
    /// The word of [`facts::bits`], which every launch reads.
    facts: u64,
}

impl DynTensor {
    /// A tensor with the given elements, in row-major order.
    ///
    /// # Errors
    /// [`Error::Length`] if their number is not the shape's; out of memory.
    #[track_caller]
    pub fn new<T: Elem>(device: &Device, data: &[T], shape: &[usize]) -> Result<DynTensor> {
        let log = &mut Log::at(Location::caller());
        let mut tensor = DynTensor::allocate(device, T::SCALAR, shape, log)?;
        tensor.write_elements(data, log)?;
        Ok(tensor)
    }

    /// A tensor of zeros (or `false`).
    ///
    /// ```
    /// use kiln_ir::Scalar;
    /// use kiln_runtime::{Device, DynTensor};
    /// let x = DynTensor::zeros(&Device::open("interp")?, Scalar::BF16, &[2, 0, 3])?;
    /// assert!(x.is_empty() && x.to_bytes()?.is_empty());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// Out of memory; a shape that cannot be addressed.
    #[track_caller]
    pub fn zeros(device: &Device, dtype: Scalar, shape: &[usize]) -> Result<DynTensor> {
        let log = &mut Log::at(Location::caller());
        let tensor = DynTensor::allocate(device, dtype, shape, log)?;
        match device.is_capturing() {
            true => recording::fill(&tensor.buffer, 0, log.site()),
            false => tensor.buffer.access(Named::Tensor)?.fill(0, log)?,
        }
        Ok(tensor)
    }

    /// A tensor with no contents yet: reading it before a kernel or a write filled it is an error.
    ///
    /// # Errors
    /// Out of memory; a shape that cannot be addressed.
    #[track_caller]
    pub fn uninit(device: &Device, dtype: Scalar, shape: &[usize]) -> Result<DynTensor> {
        DynTensor::allocate(device, dtype, shape, &mut Log::at(Location::caller()))
    }

    /// A tensor with elements that are given by their bytes, in row-major order and the host's
    /// order of bytes. A `bool` is true where its byte is not 0.
    ///
    /// ```
    /// use kiln_ir::Scalar;
    /// use kiln_runtime::{Device, DynTensor};
    /// let bytes: Vec<u8> = [1i32, -1].iter().flat_map(|n| n.to_ne_bytes()).collect();
    /// let x = DynTensor::from_bytes(&Device::open("interp")?, Scalar::I32, &[2], &bytes)?;
    /// assert_eq!(x.to_vec::<i32>()?, [1, -1]);
    /// assert_eq!(x.to_bytes()?, bytes);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ByteLength`] if their number is not the shape's; out of memory.
    #[track_caller]
    pub fn from_bytes(device: &Device, dtype: Scalar, shape: &[usize], bytes: &[u8]) -> Result<DynTensor> {
        let log = &mut Log::at(Location::caller());
        let mut tensor = DynTensor::allocate(device, dtype, shape, log)?;
        tensor.write_any_bytes(bytes, log)?;
        Ok(tensor)
    }

    pub(crate) fn allocate(
        device: &Device,
        dtype: Scalar,
        shape: &[usize],
        log: &mut Log,
    ) -> Result<DynTensor> {
        let layout = Layout::row_major(shape, dtype)?;
        let bytes = layout.len() * dtype.bytes() as usize;
        Ok(DynTensor::over(Arc::new(Buffer::new(device, bytes, log)?), dtype, layout))
    }

    pub(crate) fn over(buffer: Arc<Buffer>, dtype: Scalar, layout: Layout) -> DynTensor {
        let address = buffer.ptr().0 + (layout.offset * dtype.bytes() as usize) as u64;
        let facts = facts::bits(&layout, address, dtype.bytes() as usize);
        DynTensor { buffer, dtype, layout, facts }
    }

    /// A view with a layout inside this one.
    pub(super) fn view(&self, layout: Layout) -> DynTensor {
        DynTensor::over(self.buffer.clone(), self.dtype, layout)
    }

    /// The type of the elements.
    pub fn dtype(&self) -> Scalar {
        self.dtype
    }

    /// The number of axes. Tensors may have any; a kernel takes those of at most
    /// [`kiln_ir::MAX_VIEW_RANK`].
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// The extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.layout.shape
    }

    /// The distance between neighbors on each axis, in elements.
    pub fn strides(&self) -> &[usize] {
        &self.layout.strides
    }

    /// Where its first element lies in the memory of the tensor that it is a view of, in elements.
    /// That memory begins at a multiple of 256 bytes, if it is not of
    /// [another owner](Self::from_device_ptr).
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

    /// Whether the elements lie in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_dense()
    }

    /// Whether no other tensor, view or unfinished read shares this one's memory.
    ///
    /// ```
    /// # use kiln_runtime::{Device, DynTensor};
    /// let mut x = DynTensor::new(&Device::open("interp")?, &[1, 2], &[2])?;
    /// let view = x.alias();
    /// assert!(!x.is_sole());
    /// drop(view);
    /// assert!(x.is_sole());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn is_sole(&mut self) -> bool {
        Arc::get_mut(&mut self.buffer).is_some()
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
    /// [`Error::DataType`] if they are not of this type; [`Error::Uninitialized`]; the first fault
    /// of a kernel on the stream that wrote the tensor; [`Error::Unwritten`] on the interpreter, if
    /// kernels have left some elements of a tensor from [`uninit`](Self::uninit) as they were.
    #[track_caller]
    pub fn to_vec<T: Elem>(&self) -> Result<Vec<T>> {
        let site = Location::caller();
        self.check_type::<T>(site)?;
        self.elements(&mut Log::at(site))
    }

    /// The elements, of whose type the caller is sure.
    pub(super) fn elements<T: Elem>(&self, log: &mut Log) -> Result<Vec<T>> {
        let mut all = zeroed::<T>(self.layout.span())?;
        self.read_span(bytes_of(&mut all), log)?;
        if self.layout.is_dense() {
            return Ok(all);
        }
        let mut picked = Vec::with_capacity(self.len());
        self.layout.for_each(|i| picked.push(all[i]));
        Ok(picked)
    }

    /// The bytes of the elements in row-major order, in the host's order of bytes, after all work
    /// that writes them.
    ///
    /// # Errors
    /// As for [`to_vec`](Self::to_vec).
    #[track_caller]
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.bytes(&mut Log::at(Location::caller()))
    }

    pub(super) fn bytes(&self, log: &mut Log) -> Result<Vec<u8>> {
        let mut all = zeroed::<u8>(self.span_bytes())?;
        self.read_span(&mut all, log)?;
        Ok(self.picked(all))
    }

    /// The bytes of the elements, of all that lies between the first and the last.
    pub(super) fn picked(&self, all: Vec<u8>) -> Vec<u8> {
        if self.layout.is_dense() {
            return all;
        }
        let size = self.elem_bytes();
        let mut picked = Vec::with_capacity(self.len() * size);
        self.layout.for_each(|i| picked.extend_from_slice(&all[i * size..][..size]));
        picked
    }

    /// The bytes from the first element to the last, with the gaps.
    pub(crate) fn span_bytes(&self) -> usize {
        self.layout.span() * self.elem_bytes()
    }

    /// Reads all that lies between the first and the last element.
    fn read_span(&self, into: &mut [u8], log: &mut Log) -> Result<()> {
        let access = self.buffer.access(Named::Tensor)?;
        access.read(self.byte_offset(), into, log)?;
        let unwritten = access.unwritten(self.byte_offset(), into.len(), false);
        drop(access);
        self.none_of(&unwritten.unwrap_or_default())?;
        if self.dtype == Scalar::Bool {
            normalize_bools(into);
        }
        Ok(())
    }

    /// Checks that every element has been written, by kernels or by the host, since the tensor was
    /// made by [`zeros`](Self::zeros) or [`uninit`](Self::uninit): whether the stores of a launch
    /// cover it. The interpreter with its sanitizer records that.
    ///
    /// ```
    /// use kiln_ir::Scalar;
    /// use kiln_runtime::{Device, DynTensor, Error};
    /// let mut x = DynTensor::uninit(&Device::open("interp")?, Scalar::F32, &[2, 2])?;
    /// x.slice(0, 0..1)?.write(&[1.0f32, 2.0])?;
    /// assert!(matches!(x.check_written(), Err(Error::Unwritten { missing: 2, .. })));
    /// x.write(&[0.0f32; 4])?;
    /// x.check_written()?;
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Tensor::check_written`](crate::Tensor::check_written), which has an example.
    #[track_caller]
    pub fn check_written(&self) -> Result<()> {
        let what = "what is written of a tensor was asked for";
        self.device().check_not_capturing(what, Location::caller())?;
        let access = self.buffer.access(Named::Tensor)?;
        access.check_written(Named::Tensor)?;
        access.synchronize()?;
        let unwritten = access.unwritten(self.byte_offset(), self.span_bytes(), true);
        drop(access);
        match unwritten {
            Some(unwritten) => self.none_of(&unwritten),
            None => Err(Error::Device(kiln_backend::Error::Unsupported {
                kernel: "Tensor::check_written".into(),
                what: "a device that keeps track of what is written".into(),
                device: self.device().id().to_owned(),
                location: kiln_ir::UNKNOWN_LOCATION.into(),
                hint: "Open the device `interp`.".into(),
            })),
        }
    }

    /// An error if an element of the tensor lies in one of these ranges of its bytes.
    pub(super) fn none_of(&self, unwritten: &[Range<usize>]) -> Result<()> {
        if unwritten.is_empty() {
            return Ok(());
        }
        let size = self.elem_bytes();
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
        let mut index = vec![0; shape.len()];
        for (index, extent) in index.iter_mut().zip(&shape).rev() {
            *index = left % extent;
            left /= extent;
        }
        let error = Error::Unwritten { missing, of: number, first: index, shape };
        sanitize::report(&error.to_string());
        Err(error)
    }

    /// Overwrites all elements, in row-major order.
    ///
    /// # Errors
    /// [`Error::DataType`] if they are of another type; [`Error::Length`] if their number is not
    /// the tensor's.
    #[track_caller]
    pub fn write<T: Elem>(&mut self, data: &[T]) -> Result<()> {
        let site = Location::caller();
        self.check_type::<T>(site)?;
        self.write_elements(data, &mut Log::at(site))
    }

    /// Overwrites all elements, of whose type the caller is sure.
    pub(super) fn write_elements<T: Elem>(&mut self, data: &[T], log: &mut Log) -> Result<()> {
        if data.len() != self.len() {
            let shape = self.shape().to_vec();
            return Err(Error::Length { given: data.len(), expected: self.len(), shape });
        }
        self.write_valid_bytes(bytes_of_ref(data), log)
    }

    /// Overwrites all elements by their bytes, in row-major order and the host's order of bytes. A
    /// `bool` becomes true where its byte is not 0.
    ///
    /// # Errors
    /// [`Error::ByteLength`] if their number is not the tensor's.
    #[track_caller]
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_any_bytes(bytes, &mut Log::at(Location::caller()))
    }

    fn write_any_bytes(&mut self, bytes: &[u8], log: &mut Log) -> Result<()> {
        let expected = self.len() * self.elem_bytes();
        if bytes.len() != expected {
            let (shape, dtype) = (self.shape().to_vec(), self.dtype);
            return Err(Error::ByteLength { given: bytes.len(), expected, shape, dtype });
        }
        if self.dtype == Scalar::Bool {
            let mut bools = bytes.to_vec();
            normalize_bools(&mut bools);
            return self.write_valid_bytes(&bools, log);
        }
        self.write_valid_bytes(bytes, log)
    }

    /// Overwrites all elements by the bytes of valid ones, as many as there are.
    fn write_valid_bytes(&mut self, data: &[u8], log: &mut Log) -> Result<()> {
        let (offset, size) = (self.byte_offset(), self.elem_bytes());
        if self.layout.is_dense() && self.device().is_capturing() {
            return recording::write(&Place { buffer: self.buffer.clone(), offset }, data, log);
        }
        let what = "elements were written to a view with gaps from the host";
        self.device().check_not_capturing(what, log.site())?;
        let mut access = self.buffer.access(Named::Tensor)?;
        if self.layout.is_dense() {
            return access.write(offset, data, log);
        }
        // What lies in the gaps belongs to other tensors, and is left as it is.
        let mut all = zeroed::<u8>(self.layout.span() * size)?;
        if access.is_written() {
            access.read(offset, &mut all, log)?;
        }
        let mut source = data.chunks_exact(size);
        self.layout.for_each(|i| {
            if let Some(element) = source.next() {
                all[i * size..][..size].copy_from_slice(element);
            }
        });
        access.write(offset, &all, log)
    }

    /// A tensor of its own with the same contents, row-major, on the same device.
    ///
    /// # Errors
    /// As of [`to_device`](Self::to_device).
    #[track_caller]
    pub fn copy(&self) -> Result<DynTensor> {
        self.to_device(self.device())
    }

    /// A tensor of its own with the same contents, row-major, on any device.
    ///
    /// # Errors
    /// [`Error::Uninitialized`]; out of memory; faults as for [`to_vec`](Self::to_vec).
    #[track_caller]
    pub fn to_device(&self, device: &Device) -> Result<DynTensor> {
        let log = &mut Log::at(Location::caller());
        let mut copy = DynTensor::allocate(device, self.dtype, self.shape(), log)?;
        if device.is_capturing() && device == self.device() && self.layout.is_dense() {
            let [to, from] = [&copy, self]
                .map(|tensor| Place { buffer: tensor.buffer.clone(), offset: tensor.byte_offset() });
            recording::copy(&to, &from, self.span_bytes(), log.site());
        } else if self.layout.is_dense() && !device.is_capturing() {
            copy.buffer.copy_from(&self.buffer, self.byte_offset(), log)?;
        } else if device == self.device() && (!device.properties().unified || device.is_capturing()) {
            copy.copy_from(self)?;
        } else {
            copy.write_valid_bytes(&self.bytes(log)?, log)?;
        }
        Ok(copy)
    }

    /// Runs a closure on the elements in host memory, without a copy where host and device share
    /// it. Until it returns, the tensor and its views are not used by anything else: that is
    /// [`Error::Borrowed`].
    ///
    /// # Errors
    /// [`Error::DataType`] if they are not of this type; [`Error::Uninitialized`]; [`Error::Range`]
    /// if this is a view with gaps; faults as for [`to_vec`](Self::to_vec).
    #[track_caller]
    pub fn with_host<T: Elem, U>(&self, f: impl FnOnce(&[T]) -> U) -> Result<U> {
        let site = Location::caller();
        self.check_type::<T>(site)?;
        let range = self.dense_range()?;
        self.buffer.with_host(false, &mut Log::at(site), |bytes| {
            // A kernel may read the elements meanwhile: what is not valid is mended in a copy.
            if T::SCALAR == Scalar::Bool && bytes.iter().any(|byte| *byte > 1) {
                let mut bools = bytes.to_vec();
                normalize_bools(&mut bools);
                return f(&elements(&bools)[range]);
            }
            f(&elements(bytes)[range])
        })
    }

    /// Runs a closure that may change the elements in host memory; the device sees them at its next
    /// use. Elements that were never written are zero, if none was.
    ///
    /// ```
    /// # use kiln_runtime::{Device, DynTensor};
    /// let mut x = DynTensor::new(&Device::open("interp")?, &[1.0, 2.0, 3.0], &[3])?;
    /// x.with_host_mut(|x: &mut [f64]| x[1] = 9.0)?;
    /// assert_eq!(x.with_host(|x: &[f64]| x.iter().sum::<f64>())?, 13.0);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`with_host`](Self::with_host).
    #[track_caller]
    pub fn with_host_mut<T: Elem, U>(&mut self, f: impl FnOnce(&mut [T]) -> U) -> Result<U> {
        let site = Location::caller();
        self.check_type::<T>(site)?;
        let range = self.dense_range()?;
        self.buffer.with_host(true, &mut Log::at(site), |bytes| {
            // Fresh memory may hold any bytes, which a bool must not.
            if T::SCALAR == Scalar::Bool {
                normalize_bools(bytes);
            }
            f(&mut elements_mut(bytes)[range])
        })
    }

    /// The elements that the tensor has in its buffer, if there are no gaps between them.
    pub(super) fn dense_range(&self) -> Result<Range<usize>> {
        if !self.layout.is_dense() {
            let what =
                "`reshape`, `with_host` and pinned memory need elements without gaps: `copy` the view first"
                    .into();
            return Err(Error::Range { what, shape: self.shape().to_vec() });
        }
        Ok(self.layout.offset..self.layout.offset + self.len())
    }

    pub(super) fn check_type<T: Elem>(&self, site: CallSite) -> Result<()> {
        match T::SCALAR == self.dtype {
            true => Ok(()),
            false => Err(self.wrong_type(T::SCALAR, None, site)),
        }
    }

    #[cold]
    pub(super) fn wrong_type(&self, expected: Scalar, rank: Option<usize>, site: CallSite) -> Error {
        let (found, shape) = (self.dtype, self.shape().to_vec());
        Error::DataType { expected, rank, found, shape, location: site }
    }

    fn elem_bytes(&self) -> usize {
        self.dtype.bytes() as usize
    }

    pub(crate) fn byte_offset(&self) -> usize {
        self.layout.offset * self.elem_bytes()
    }

    /// The device's address of the first element.
    pub(crate) fn address(&self) -> u64 {
        self.buffer.ptr().0 + self.byte_offset() as u64
    }

    /// Where it is as an argument that is written or only read.
    pub(crate) fn binding(&self, written: bool) -> BufferBinding {
        BufferBinding { buffer: self.buffer.ptr(), byte_offset: self.byte_offset() as u64, written }
    }

    pub(crate) fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What kernels are specialized to.
    pub(crate) fn facts(&self) -> Facts {
        facts::facts(&self.layout, self.address(), self.elem_bytes())
    }

    /// [`facts`](Self::facts) in one word.
    pub(crate) fn fact_bits(&self) -> u64 {
        self.facts
    }
}

impl fmt::Debug for DynTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (device, residency) = (self.device().id(), self.residency());
        write!(f, "DynTensor<{}>({:?} on {device}, {residency:?})", self.dtype, self.shape())
    }
}

pub(super) fn bytes_of<T: Elem>(data: &mut [T]) -> &mut [u8] {
    // SAFETY: `Elem` is sealed: its types have no padding; the callers write valid elements.
    unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), size_of_val(data)) }
}

fn bytes_of_ref<T: Elem>(data: &[T]) -> &[u8] {
    // SAFETY: `Elem` is sealed: its types have no padding.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

fn elements<T: Elem>(bytes: &[u8]) -> &[T] {
    // SAFETY: buffers are aligned to at least 8 bytes and hold elements of the tensor's type, which
    // the caller has compared with `T`; kernels store only valid elements, and `write_any_bytes`
    // makes them valid.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
}

fn elements_mut<T: Elem>(bytes: &mut [u8]) -> &mut [T] {
    // SAFETY: as `elements`.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<T>()) }
}

/// Memory that was partly never written, or was written by its bytes, may hold others than 0 and 1,
/// which a `bool` must not.
pub(super) fn normalize_bools(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|b| *b = u8::from(*b != 0));
}
