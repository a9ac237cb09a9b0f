//! Tensors in page-locked memory of the host, which the device copies from and to by itself.
//!
//! The host and copies in flight never use the memory at once: what begins a copy to it takes it by
//! `&mut`, and what gives the host its elements waits for copies first.

use super::dynamic::{DynTensor, normalize_bools};
use super::layout::Layout;
use super::typed::Tensor;
use crate::buffer::{Buffer, HostSource, HostTarget};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::host_memory::zeroed;
use crate::log::Log;
use crate::residency::Named;
use crate::stream::{Event, Queue, Stream, same_device};
use kiln_backend::{Mapped, MappedPlace};
use kiln_ir::Scalar;
use kiln_lang::Elem;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Elements in page-locked (pinned) memory of the host, in row-major order. A GPU copies from and
/// to it at the full speed of its bus, while the host and kernels go on; a copy from and to a `Vec`
/// goes through memory of Kiln's, and the host waits. On `cpu` and `interp`, where a copy is over
/// when the call returns, it is ordinary memory.
///
/// ```
/// use kiln_runtime::Device;
/// let device = Device::open("cpu")?;
/// let copies = device.stream()?;
/// let mut pinned = device.pinned::<f32, 1>([4])?;
/// pinned.as_mut_slice()?.copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
/// let mut x = device.uninit::<f32, 1>([4])?;
/// pinned.copy_to(&mut x, &copies)?; // returns at once; what uses `x` later waits for it
/// // … launches that use `x`, other work of the host …
/// pinned.copy_from(&x, &copies)?; // at once too
/// assert_eq!(pinned.as_slice()?, [1.0, 2.0, 3.0, 4.0]); // waits
/// # Ok::<(), kiln_runtime::Error>(())
/// ```
///
/// A copy is over when its stream has come so far: an [`Event`](crate::Event) says so,
/// [`Stream::call`] and [`Stream::synchronize_async`] tell a task.
///
/// Page-locked memory is taken from all programs of the machine, and allocating it takes long:
/// allocate it once, and use it again.
pub struct PinnedTensor<T, const R: usize> {
    bytes: PinnedBytes,
    shape: [usize; R],
    elem: PhantomData<T>,
}

impl Device {
    /// A tensor of zeros (or `false`) in [page-locked memory](PinnedTensor) of the host, for copies
    /// from and to this device.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let pinned = Device::open("interp")?.pinned::<i32, 2>([2, 3])?;
    /// assert_eq!((pinned.shape(), pinned.as_slice()?), ([2, 3], &[0; 6][..]));
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// Out of memory; a shape that cannot be addressed; [`kiln_backend::Error::Unavailable`] on a
    /// device without such memory: through `wgpu`, or `isolated:`.
    #[track_caller]
    pub fn pinned<T: Elem, const R: usize>(&self, shape: [usize; R]) -> Result<PinnedTensor<T, R>> {
        Ok(PinnedTensor { bytes: PinnedBytes::new(self, T::SCALAR, &shape)?, shape, elem: PhantomData })
    }
}

impl<T: Elem, const R: usize> PinnedTensor<T, R> {
    /// The extents, outermost first.
    ///
    /// ```
    /// let pinned = kiln_runtime::Device::open("cpu")?.pinned::<f32, 2>([3, 4])?;
    /// assert_eq!(pinned.shape(), [3, 4]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    pub fn shape(&self) -> [usize; R] {
        self.shape
    }

    /// The device that it was made for.
    pub fn device(&self) -> &Device {
        &self.bytes.device
    }

    /// The elements, after the last copy to them. [`PinnedTensor`] has an example.
    ///
    /// # Errors
    /// The first fault of a kernel in the stream of that copy.
    pub fn as_slice(&self) -> Result<&[T]> {
        self.bytes.settle()?;
        let (start, bytes) = (self.bytes.memory.start(), self.bytes.bytes);
        // SAFETY: as many elements, aligned, all of them initialized and valid; no copy to them is
        // under way, and none begins while they are borrowed.
        Ok(unsafe { std::slice::from_raw_parts(start.cast(), bytes / size_of::<T>()) })
    }

    /// The elements to change, after all copies to and from them. [`PinnedTensor`] has an example.
    ///
    /// # Errors
    /// As of [`as_slice`](Self::as_slice).
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        self.bytes.settle()?;
        self.bytes.await_readers()?;
        let (start, bytes) = (self.bytes.memory.start().cast_mut(), self.bytes.bytes);
        // SAFETY: as above, and no copy from them is under way either.
        Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), bytes / size_of::<T>()) })
    }

    /// Copies the elements to a tensor of the same shape, in a stream: after what uses the tensor
    /// now. The host does not wait, and what uses the tensor later does.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let device = Device::open("interp")?;
    /// let (stream, mut pinned) = (device.stream()?, device.pinned([2])?);
    /// pinned.as_mut_slice()?.copy_from_slice(&[3, 4]);
    /// let mut x = device.zeros([2])?;
    /// pinned.copy_to(&mut x, &stream)?;
    /// assert_eq!(x.to_vec()?, [3, 4]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes differ; [`Error::Range`] for a view with gaps;
    /// [`Error::WrongDevice`] if tensor or stream are of another device than this;
    /// [`Error::Capture`] while a graph is captured.
    #[track_caller]
    pub fn copy_to(&self, tensor: &mut Tensor<T, R>, stream: &Stream) -> Result<()> {
        self.bytes.copy_to(tensor.as_dyn(), &self.shape, stream, &mut Log::at(Location::caller()))
    }

    /// Copies the elements of a tensor of the same shape here, in a stream: after what writes the
    /// tensor now. The host does not wait; [`as_slice`](Self::as_slice) does.
    ///
    /// ```
    /// # use kiln_runtime::Device;
    /// let device = Device::open("cpu")?;
    /// let (stream, mut pinned) = (device.stream()?, device.pinned([3])?);
    /// pinned.copy_from(&device.tensor(&[1.5, 2.5, 3.5], [3])?, &stream)?;
    /// # pollster::block_on(async {
    /// stream.synchronize_async().await?; // where a thread must not wait
    /// assert_eq!(pinned.as_slice()?, [1.5, 2.5, 3.5]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// # })?;
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As of [`copy_to`](Self::copy_to); [`Error::Uninitialized`]; [`Error::Unwritten`] on the
    /// interpreter; a fault, where copies are over when the call returns.
    #[track_caller]
    pub fn copy_from(&mut self, tensor: &Tensor<T, R>, stream: &Stream) -> Result<()> {
        let log = &mut Log::at(Location::caller());
        self.bytes.copy_from(tensor.as_dyn(), &self.shape, stream, log)
    }
}

impl<T: Elem, const R: usize> fmt::Debug for PinnedTensor<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedTensor<{}, {R}>({:?} for {})", T::SCALAR, self.shape, self.device().id())
    }
}

/// The memory of a pinned tensor.
struct PinnedBytes {
    device: Device,
    memory: Memory,
    bytes: usize,
    dtype: Scalar,
    uses: Mutex<Uses>,
}

enum Memory {
    /// The device copies from and to it while the host goes on.
    Mapped(Mapped),
    /// Copies are over when the call returns.
    Plain(Box<[u64]>),
}

impl Memory {
    fn start(&self) -> *const u8 {
        match self {
            Memory::Mapped(mapped) => mapped.host.as_ptr(),
            Memory::Plain(words) => words.as_ptr().cast(),
        }
    }
}

/// The copies that may be in flight.
#[derive(Default)]
struct Uses {
    /// That of the last copy to the memory.
    writer: Option<Queue>,
    /// After copies from it since.
    readers: Vec<Event>,
}

impl PinnedBytes {
    fn new(device: &Device, dtype: Scalar, shape: &[usize]) -> Result<PinnedBytes> {
        let backend = device.backend();
        let lacking = || kiln_backend::Error::lacking(device.properties(), "page-locked memory");
        let raw = backend.raw_memory().ok_or_else(lacking)?;
        let bytes = Layout::row_major(shape, dtype)?.len() * dtype.bytes() as usize;
        let memory = match raw.copies_mapped_memory() && bytes > 0 {
            true => Memory::Mapped(backend.need_mapped_memory()?.map(bytes, MappedPlace::Host)?),
            false => Memory::Plain(zeroed::<u64>(bytes.div_ceil(8))?.into_boxed_slice()),
        };
        Ok(PinnedBytes { device: device.clone(), memory, bytes, dtype, uses: Mutex::default() })
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        // What is in the lists for nothing costs a wait alone.
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the last copy to the memory, and reports faults of its stream.
    fn settle(&self) -> Result<()> {
        let mut uses = self.uses();
        let Some(writer) = &uses.writer else { return Ok(()) };
        self.device.waited(self.device.backend().synchronize(writer.id()))?;
        uses.writer = None;
        if let (Scalar::Bool, Memory::Mapped(mapped)) = (self.dtype, &self.memory) {
            // SAFETY: the copy is over, and nobody has borrowed the elements since it began, for
            // that waits here.
            normalize_bools(unsafe { std::slice::from_raw_parts_mut(mapped.host.as_ptr(), self.bytes) });
        }
        Ok(())
    }

    /// Waits for copies from the memory.
    fn await_readers(&self) -> Result<()> {
        let mut uses = self.uses();
        uses.readers.iter().try_for_each(Event::wait)?;
        uses.readers.clear();
        Ok(())
    }

    /// Checks what is to be copied, and gives its place in the buffer.
    fn place(
        &self,
        tensor: &DynTensor,
        shape: &[usize],
        stream: &Stream,
        log: &Log,
    ) -> Result<(usize, usize)> {
        same_device("the tensor", tensor.device(), &self.device)?;
        same_device("the stream", stream.device(), &self.device)?;
        self.device.check_not_capturing("pinned memory was copied", log.site())?;
        if tensor.shape() != shape {
            let (what, expected) = ("the copy of a pinned tensor".to_owned(), shape.to_vec());
            return Err(Error::Shape { what, expected, given: tensor.shape().to_vec() });
        }
        tensor.dense_range()?;
        Ok((tensor.byte_offset(), self.bytes))
    }

    fn copy_to(&self, tensor: &DynTensor, shape: &[usize], stream: &Stream, log: &mut Log) -> Result<()> {
        let (place, queue) = (self.place(tensor, shape, stream, log)?, stream.queue());
        let mut uses = self.uses();
        let source = match &self.memory {
            Memory::Plain(words) => HostSource::Plain(&bytemuck::cast_slice(words)[..self.bytes]),
            Memory::Mapped(mapped) => {
                if let Some(writer) = &uses.writer {
                    tensor.buffer().follow(writer, queue)?;
                }
                HostSource::Mapped(mapped.device)
            }
        };
        tensor.buffer().access(Named::Tensor)?.write_in(queue, place, source, log)?;
        if let Memory::Mapped(_) = self.memory {
            uses.readers.retain(|reader| !matches!(reader.is_reached(), Ok(true)));
            match Event::record(&self.device, queue.id()) {
                Ok(copied) => uses.readers.push(copied),
                Err(error) => {
                    // The copy is in flight, and nothing else would know.
                    let _ = self.device.waited(self.device.backend().synchronize(queue.id()));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn copy_from(
        &mut self,
        tensor: &DynTensor,
        shape: &[usize],
        stream: &Stream,
        log: &mut Log,
    ) -> Result<()> {
        let (place, queue) = (self.place(tensor, shape, stream, log)?, stream.queue());
        let buffer: &Buffer = tensor.buffer();
        let mut access = buffer.access(Named::Tensor)?;
        let uses = self.uses.get_mut().unwrap_or_else(PoisonError::into_inner);
        match &mut self.memory {
            Memory::Plain(words) => {
                let data = &mut bytemuck::cast_slice_mut(words)[..self.bytes];
                let read = access.read_in(queue, place, HostTarget::Plain(data), log);
                if self.dtype == Scalar::Bool {
                    normalize_bools(data);
                }
                read?;
                let unwritten = access.unwritten(place.0, place.1, false);
                drop(access);
                tensor.none_of(&unwritten.unwrap_or_default())
            }
            Memory::Mapped(mapped) => {
                uses.readers.iter().try_for_each(|reader| stream.wait(reader))?;
                if let Some(writer) = &uses.writer {
                    buffer.follow(writer, queue)?;
                }
                let target = HostTarget::Mapped(mapped.device);
                access.read_in(queue, place, target, log)?;
                *uses = Uses { writer: Some(queue.clone()), readers: Vec::new() };
                Ok(())
            }
        }
    }
}

impl Drop for PinnedBytes {
    fn drop(&mut self) {
        let Memory::Mapped(Mapped { host, device, bytes, place, write_combined }) = self.memory else {
            return;
        };
        let uses = self.uses.get_mut().unwrap_or_else(PoisonError::into_inner);
        // If a wait fails the device is lost, and copies nothing any more.
        let _ = uses.readers.iter().try_for_each(Event::wait);
        if let Some(writer) = &uses.writer {
            let _ = writer.wait(&self.device);
        }
        // SAFETY: mapped by `new`, unmapped once; the copies are over.
        unsafe { self.device.backend().unmap(Mapped { host, device, bytes, place, write_combined }) };
    }
}
