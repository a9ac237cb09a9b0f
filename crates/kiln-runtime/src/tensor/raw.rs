//! Addresses of tensors for other libraries, and tensors over their memory.

use super::dynamic::DynTensor;
use super::layout::Layout;
use super::typed::Tensor;
use crate::buffer::{Buffer, Release};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::stream::{Stream, same_device};
use kiln_backend::DevicePtr;
use kiln_ir::Scalar;
use kiln_lang::Elem;
use std::panic::Location;
use std::sync::Arc;

impl DynTensor {
    /// The device's address of the first element, for another library to read at once.
    /// [`Tensor::as_device_ptr`] says more.
    ///
    /// ```
    /// use kiln_runtime::{Device, DynTensor};
    /// // On a CPU the address is one of the host.
    /// let mut x = DynTensor::new(&Device::open("cpu")?, &[1.0f32, 2.0], &[2])?;
    /// let address = x.as_device_ptr()?;
    /// // SAFETY: the tensor has two elements, and nothing writes them.
    /// assert_eq!(unsafe { *(address as *const f32).add(1) }, 2.0);
    /// // SAFETY: as above, and nothing else uses them.
    /// unsafe { *(x.as_device_mut_ptr()? as *mut f32) = 5.0 };
    /// assert_eq!(x.to_vec::<f32>()?, [5.0, 2.0]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Tensor::as_device_ptr`].
    #[track_caller]
    pub fn as_device_ptr(&self) -> Result<u64> {
        self.exposed(false, None, &mut Log::at(Location::caller()))
    }

    /// As [`as_device_ptr`](Self::as_device_ptr), for work of another library in a stream.
    ///
    /// ```
    /// use kiln_runtime::{Device, DynTensor, Error};
    /// let device = Device::open("cpu")?;
    /// let (mut x, stream) = (DynTensor::new(&device, &[1.0f32, 2.0], &[2])?, device.stream()?);
    /// let read = x.as_device_ptr_on(&stream)?;
    /// // … a call of a library that reads, with `read` and `stream.raw_handle()?` …
    /// let written = x.as_device_mut_ptr_on(&stream)?;
    /// // … a call that writes: Kiln's next work on `x` runs after what is in the stream by then …
    /// assert_eq!(read, written);
    /// let other = Device::open("interp")?.stream()?;
    /// assert!(matches!(x.as_device_ptr_on(&other), Err(Error::WrongDevice { .. })));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Tensor::as_device_ptr_on`].
    #[track_caller]
    pub fn as_device_ptr_on(&self, stream: &Stream) -> Result<u64> {
        self.exposed(false, Some(stream), &mut Log::at(Location::caller()))
    }

    /// The device's address of the first element, for another library to write at once.
    /// [`Tensor::as_device_mut_ptr`] says more.
    ///
    /// # Errors
    /// As of [`Tensor::as_device_mut_ptr`].
    #[track_caller]
    pub fn as_device_mut_ptr(&mut self) -> Result<u64> {
        self.exposed(true, None, &mut Log::at(Location::caller()))
    }

    /// As [`as_device_mut_ptr`](Self::as_device_mut_ptr), for work of another library in a stream.
    ///
    /// # Errors
    /// As of [`Tensor::as_device_mut_ptr_on`].
    #[track_caller]
    pub fn as_device_mut_ptr_on(&mut self, stream: &Stream) -> Result<u64> {
        self.exposed(true, Some(stream), &mut Log::at(Location::caller()))
    }

    fn exposed(&self, write: bool, stream: Option<&Stream>, log: &mut Log) -> Result<u64> {
        if let Some(stream) = stream {
            same_device("the stream", stream.device(), self.device())?;
        }
        let range = (self.byte_offset(), self.span_bytes());
        self.buffer().expose(range, write, stream.map(Stream::queue), log)?;
        Ok(if self.is_empty() { 0 } else { self.address() })
    }

    /// A tensor over memory of another owner, in row-major order. [`Tensor::from_device_ptr`] says
    /// more.
    ///
    /// ```
    /// use kiln_ir::Scalar;
    /// use kiln_runtime::{Device, DynTensor, Error};
    /// let (device, mut owner) = (Device::open("cpu")?, vec![1.0f32, 2.0, 3.0, 4.0]);
    /// let address = owner.as_mut_ptr() as u64;
    /// // SAFETY: `owner` has four elements, outlives `x` and is not used while `x` is there.
    /// let x = unsafe { DynTensor::from_device_ptr(&device, Scalar::F32, address, &[2, 2], None)? };
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// // An address that is none of such elements.
    /// // SAFETY: it is refused.
    /// let refused = unsafe { DynTensor::from_device_ptr(&device, Scalar::F32, address + 1, &[2], None) };
    /// assert!(matches!(refused, Err(Error::Value { .. })));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`Tensor::from_device_ptr`].
    ///
    /// # Safety
    /// As of [`Tensor::from_device_ptr`].
    #[track_caller]
    pub unsafe fn from_device_ptr(
        device: &Device,
        dtype: Scalar,
        address: u64,
        shape: &[usize],
        release: Option<Box<dyn FnOnce() + Send>>,
    ) -> Result<DynTensor> {
        let site = Location::caller();
        // SAFETY: as the caller promises.
        unsafe { DynTensor::over_foreign(device, dtype, (address, shape), release, &Log::at(site)) }
    }

    /// # Safety
    /// As of [`Tensor::from_device_ptr`].
    unsafe fn over_foreign(
        device: &Device,
        dtype: Scalar,
        (address, shape): (u64, &[usize]),
        release: Option<Release>,
        log: &Log,
    ) -> Result<DynTensor> {
        device.check_not_capturing("memory of another library was taken in", log.site())?;
        let layout = Layout::row_major(shape, dtype)?;
        let (size, bytes) = (u64::from(dtype.bytes()), layout.len() * dtype.bytes() as usize);
        let ends = address.checked_add(bytes as u64).is_some();
        if bytes > 0 && (address == 0 || !address.is_multiple_of(size) || !ends) {
            return Err(Error::Value {
                what: "from_device_ptr, address".to_owned(),
                expected: format!("the address of {bytes} bytes, a multiple of {size}"),
                given: format!("{address:#x}"),
            });
        }
        // SAFETY: as the caller promises.
        let buffer = unsafe { Buffer::foreign(device, (DevicePtr(address), bytes), release, log)? };
        Ok(DynTensor::over(Arc::new(buffer), dtype, layout))
    }
}

impl<T: Elem, const R: usize> Tensor<T, R> {
    /// The device's address of the first element, for another library to read (NCCL, cuBLAS,
    /// PyTorch): of GPU memory on `cuda`, as CUDA's runtime has it, and of the host's memory on
    /// `cpu` and `interp`. The others lie where [`strides`](Self::strides) says. 0 if there are no
    /// elements.
    ///
    /// The work that writes the tensor is over when this returns. The address is valid for as long
    /// as the tensor or a view of it, and what it points to until the tensor's next use in Kiln
    /// that writes it: the library must be done by then.
    /// [`as_device_ptr_on`](Self::as_device_ptr_on) does without waiting.
    ///
    /// ```
    /// use kiln_runtime::Device;
    /// let x = Device::open("cpu")?.tensor(&[1.5f32, 2.5], [2])?;
    /// let address = x.as_device_ptr()? as *const f32;
    /// // SAFETY: `x` is alive, and has two elements that nothing writes.
    /// let second = unsafe { *address.add(1) };
    /// assert_eq!(second, 2.5);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Uninitialized`]; the first fault of a kernel that wrote the tensor;
    /// [`kiln_backend::Error::Unavailable`] on a device whose memory has no address in this
    /// process: through `wgpu`, or `isolated:`; [`Error::Capture`] while a graph is captured.
    #[track_caller]
    pub fn as_device_ptr(&self) -> Result<u64> {
        self.as_dyn().as_device_ptr()
    }

    /// As [`as_device_ptr`](Self::as_device_ptr), for work of another library that is enqueued in
    /// [the handle](Stream::raw_handle) of a stream: nothing is waited for. That work runs after
    /// what writes the tensor now. What Kiln is given later that writes it runs after what is in
    /// the stream by then.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let device = Device::open("cpu")?;
    /// let (x, stream) = (device.tensor(&[1, 2], [2])?, device.stream()?);
    /// let (address, handle) = (x.as_device_ptr_on(&stream)?, stream.raw_handle()?);
    /// // … a call of a library with `address` and `handle` …
    /// # assert!(address != 0 && handle.is_none());
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`as_device_ptr`](Self::as_device_ptr), but for faults; [`Error::WrongDevice`] for a
    /// stream of another device.
    #[track_caller]
    pub fn as_device_ptr_on(&self, stream: &Stream) -> Result<u64> {
        self.as_dyn().as_device_ptr_on(stream)
    }

    /// As [`as_device_ptr`](Self::as_device_ptr), for another library to read and to write. All
    /// work that uses the tensor is over when this returns, and its elements count as written by
    /// the device: of a tensor from [`Device::uninit`] the library must write all. It must be done
    /// before the tensor's next use in Kiln.
    ///
    /// ```
    /// use kiln_runtime::Device;
    /// let mut x = Device::open("cpu")?.uninit::<i32, 1>([2])?;
    /// let address = x.as_device_mut_ptr()? as *mut i32;
    /// // SAFETY: `x` is alive, has two elements, and is used by nothing else.
    /// unsafe { address.copy_from_nonoverlapping([7, 8].as_ptr(), 2) };
    /// assert_eq!(x.to_vec()?, [7, 8]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`as_device_ptr`](Self::as_device_ptr); a tensor without contents is none.
    #[track_caller]
    pub fn as_device_mut_ptr(&mut self) -> Result<u64> {
        self.as_dyn_mut().as_device_mut_ptr()
    }

    /// As [`as_device_mut_ptr`](Self::as_device_mut_ptr), for work of another library that is
    /// enqueued in [the handle](Stream::raw_handle) of a stream: nothing is waited for. That work
    /// runs after what uses the tensor now, and what Kiln is given later runs after what is in the
    /// stream by then.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let device = Device::open("cpu")?;
    /// let (mut x, stream) = (device.zeros::<f32, 1>([8])?, device.stream()?);
    /// let address = x.as_device_mut_ptr_on(&stream)?;
    /// // … a call of a library with `address` and `stream.raw_handle()?` …
    /// # assert!(address != 0);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`as_device_ptr_on`](Self::as_device_ptr_on).
    #[track_caller]
    pub fn as_device_mut_ptr_on(&mut self, stream: &Stream) -> Result<u64> {
        self.as_dyn_mut().as_device_mut_ptr_on(stream)
    }

    /// A tensor over memory of another owner, in row-major order: device memory of another library,
    /// by its address. Nothing is copied, and Kiln does not free it. Strided tensors are
    /// [views](Self::step_by) of such a one.
    ///
    /// When the last view of it is dropped, that waits for the work that uses it and then calls
    /// `release`; without `release` the memory may go once the last view is dropped. Before that,
    /// the owner sees what Kiln has written after [`as_device_ptr`](Self::as_device_ptr), and says
    /// by [`as_device_mut_ptr`](Self::as_device_mut_ptr) that it writes. If this fails, `release`
    /// is not called.
    ///
    /// ```
    /// use kiln_runtime::{Device, Tensor};
    /// let (device, mut owner) = (Device::open("cpu")?, vec![1.0f32, 2.0, 3.0, 4.0]);
    /// let address = owner.as_mut_ptr() as u64;
    /// // SAFETY: `owner` has four elements, outlives `x` and is not used while `x` is there.
    /// let mut x = unsafe { Tensor::<f32, 2>::from_device_ptr(&device, address, [2, 2], None)? };
    /// assert_eq!(x.transpose().to_vec()?, [1.0, 3.0, 2.0, 4.0]);
    /// x.write(&[5.0; 4])?;
    /// drop(x);
    /// assert_eq!(owner, [5.0; 4]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Value`] for an address that is none of such elements;
    /// [`kiln_backend::Error::Unavailable`] for memory that the device is known not to reach, and
    /// on a device without addresses: through `wgpu`, or `isolated:`; [`Error::Capture`] while a
    /// graph is captured.
    ///
    /// # Safety
    /// The address is one in memory of this device, aligned for `T`, with valid elements: as many
    /// as the shape has. They live until `release` is called, or without one until the last view of
    /// the tensor is gone. The owner's work that writes them is over, or comes earlier in a stream
    /// that [`as_device_mut_ptr_on`](Self::as_device_mut_ptr_on) is given next. Until the tensor is
    /// gone the owner does not write them, nor read what Kiln writes, but as said above; and no
    /// other tensor of Kiln's that is used meanwhile has the same memory.
    #[track_caller]
    pub unsafe fn from_device_ptr(
        device: &Device,
        address: u64,
        shape: [usize; R],
        release: Option<Box<dyn FnOnce() + Send>>,
    ) -> Result<Tensor<T, R>> {
        let log = Log::at(Location::caller());
        // SAFETY: as the caller promises.
        unsafe { DynTensor::over_foreign(device, T::SCALAR, (address, &shape), release, &log) }
            .map(Tensor::from_erased)
    }
}
