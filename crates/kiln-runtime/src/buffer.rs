//! One allocation seen from the device and from the host, synchronized lazily, and ordered between
//! streams.

use crate::activity::{CallSite, CopyKind};
use crate::capture::state;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::host_memory::zeroed;
use crate::log::Log;
use crate::residency::{Named, Residency};
use crate::stream::Queue;
use kiln_backend::{DevicePtr, Error as DeviceError, Later, Mapped, MappedPlace, StreamId, is_printing};
use smallvec::{Array, SmallVec};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// A device allocation with an optional mirror on the host.
///
/// Invariant: `state.host` is there in every residency except `Uninitialized` and `DeviceOnly`; on
/// a device with unified memory it is never there, because the device's memory is the host's.
pub(crate) struct Buffer {
    device: Device,
    ptr: DevicePtr,
    bytes: usize,
    /// Whether there is no memory: the buffer was made while launches were only compiled or listed.
    is_hollow: bool,
    /// Whether the memory is of another owner.
    is_foreign: bool,
    /// The memory, where the host and running kernels share it.
    mapped: Option<Mapped>,
    /// The call that allocated it.
    site: CallSite,
    state: Mutex<BufferState>,
}

/// Why a launch did not get a buffer at once.
pub(crate) enum Hindrance {
    /// It is locked: it is an argument twice, or another thread is at it.
    Locked,
    /// A launch may not have it: [`Buffer::access`] and [`Access::check_written`] say why.
    Refused,
}

/// What tells the owner of memory that it is no longer used.
pub(crate) type Release = Box<dyn FnOnce() + Send>;

/// What is known of a buffer's contents, under its lock.
struct BufferState {
    residency: Residency,
    /// The mirror, in 8-byte units so that every element type is aligned.
    host: Option<Box<[u64]>>,
    /// A closure of the user holds the host's contents.
    borrowed: bool,
    /// The stream of the last write, and the other streams that were made to wait for it and have
    /// read since.
    writer: Queue,
    readers: SmallVec<[Queue; 2]>,
    /// What to call when memory of another owner is no longer used.
    release: Option<Release>,
}

impl Buffer {
    /// Allocates `bytes`, uninitialized. Zero bytes allocate nothing.
    pub(crate) fn new(device: &Device, bytes: usize, log: &mut Log) -> Result<Buffer> {
        let is_hollow = bytes > 0 && state::is_hollow(device.identity());
        let ptr = match bytes {
            0 => DevicePtr(0),
            // As well aligned as any, so that kernels are specialized as they will be.
            _ if is_hollow => DevicePtr(0),
            _ => log.allocate(device, bytes, StreamId::default())?,
        };
        let residency = if bytes == 0 { Residency::DeviceOnly } else { Residency::Uninitialized };
        let state = Mutex::new(BufferState::new(residency, None));
        let (device, site) = (device.clone(), log.site());
        Ok(Buffer { device, ptr, bytes, is_hollow, is_foreign: false, mapped: None, site, state })
    }

    /// Memory of another owner, with contents. `release` is called when nothing uses it any more,
    /// and dropped if this fails.
    ///
    /// # Safety
    /// `ptr` points to that many initialized bytes, which the device reaches, and which live until
    /// `release` is called, or for as long as the buffer.
    pub(crate) unsafe fn foreign(
        device: &Device,
        (ptr, bytes): (DevicePtr, usize),
        release: Option<Release>,
        log: &Log,
    ) -> Result<Buffer> {
        let raw = device.backend().need_raw_memory()?;
        if bytes > 0 {
            // SAFETY: as the caller promises.
            unsafe { raw.borrow_memory(ptr, bytes)? };
        }
        let state = Mutex::new(BufferState::new(Residency::DeviceOnly, release));
        let (device, site) = (device.clone(), log.site());
        Ok(Buffer { device, ptr, bytes, is_hollow: false, is_foreign: true, mapped: None, site, state })
    }

    /// Brings these bytes up to date on the device for another library, which will write them if
    /// `write` says so: for its work later in a stream, or at once, when the work that uses them
    /// now is done.
    pub(crate) fn expose(
        &self,
        (offset, bytes): (usize, usize),
        write: bool,
        stream: Option<&Queue>,
        log: &mut Log,
    ) -> Result<()> {
        let raw = self.device.backend().need_raw_memory()?;
        self.device.check_not_capturing("the address of a tensor was taken", log.site())?;
        let mut access = self.access(Named::Tensor)?;
        let queue = stream.unwrap_or(&access.state.writer).clone();
        if write {
            access.prepare_write(&queue, true, log)?;
        } else {
            access.check_written(Named::Tensor)?;
            access.prepare_read(&queue, log)?;
        }
        if stream.is_none() {
            self.device.waited(self.device.backend().synchronize(queue.id()))?;
        }
        if write {
            raw.written_by_others(self.at(offset), bytes);
            access.wrote(&queue);
        }
        Ok(())
    }

    /// Allocates `bytes` of zeros that the host and running kernels share.
    pub(crate) fn mapped(device: &Device, bytes: usize, log: &Log) -> Result<Buffer> {
        if device.properties().residency == kiln_backend::Residency::Dispatched {
            return Err(DeviceError::lacking(device.properties(), "memory that running kernels share").into());
        }
        let memory = device.backend().need_mapped_memory()?;
        let mapped = match bytes {
            0 => None,
            _ => Some(memory.map(bytes, MappedPlace::Host)?),
        };
        let state = Mutex::new(BufferState::new(Residency::DeviceOnly, None));
        let ptr = mapped.as_ref().map_or(DevicePtr(0), |mapped| mapped.device);
        let (device, site) = (device.clone(), log.site());
        Ok(Buffer { device, ptr, bytes, is_hollow: false, is_foreign: false, mapped, site, state })
    }

    /// Where the host finds the first byte, if it shares the memory with running kernels.
    pub(crate) fn host_start(&self) -> Option<NonNull<u8>> {
        self.mapped.as_ref().map(|mapped| mapped.host)
    }

    /// Gives memory that is shared back, unless something in flight may use it.
    fn unmap(&self, mapped: Mapped, last: &Queue) {
        let backend = self.device.backend();
        let Ok(event) = backend.record(last.id(), false) else { return };
        let is_over = backend.query(event).unwrap_or(false);
        backend.destroy_event(event);
        if let (true, Ok(memory)) = (is_over, backend.need_mapped_memory()) {
            // SAFETY: allocated in `mapped`, freed once, and the last launch that had it is over.
            unsafe { memory.unmap(mapped) };
        }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn ptr(&self) -> DevicePtr {
        self.ptr
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it has no memory, though it has bytes.
    pub(crate) fn is_hollow(&self) -> bool {
        self.is_hollow
    }

    pub(crate) fn residency(&self) -> Residency {
        if is_printing() && matches!(self.state.try_lock(), Err(TryLockError::WouldBlock)) {
            // Inside the print sink of the launch that has it locked.
            return Residency::DeviceOnly;
        }
        self.lock().residency
    }

    /// Locks the buffer for a use, unless a closure borrows it.
    pub(crate) fn access(&self, what: Named<'_>) -> Result<Access<'_>> {
        // The launch that prints may have this very buffer locked.
        self.device.check_not_printing()?;
        if self.is_hollow {
            return Err(self.without_memory());
        }
        let state = self.lock();
        if state.borrowed {
            return Err(borrowed(what));
        }
        Ok(Access { buffer: self, state })
    }

    /// Locks the buffer for a launch that reads it, or only writes it, and adds it to those that
    /// are locked: in place, for a lock that is returned is copied byte by byte. The launch has
    /// seen that this thread is in no print sink.
    #[inline]
    pub(crate) fn lock_into<'b>(
        &'b self,
        reads: bool,
        locked: &mut SmallVec<impl Array<Item = Access<'b>>>,
    ) -> std::result::Result<(), Hindrance> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Hindrance::Locked),
        };
        if self.is_hollow || state.borrowed || (reads && state.residency == Residency::Uninitialized) {
            return Err(Hindrance::Refused);
        }
        locked.push(Access { buffer: self, state });
        Ok(())
    }

    /// Fills this new buffer with the bytes of another from `offset` on: on the device, if both are
    /// on one and the source is current there.
    pub(crate) fn copy_from(&self, source: &Buffer, offset: usize, log: &mut Log) -> Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        let mut from = source.access(Named::Tensor)?;
        from.check_written(Named::Tensor)?;
        let mut to = self.access(Named::Tensor)?;
        if self.device != source.device || from.is_newer_on_host() {
            let mut bytes = zeroed::<u8>(self.bytes)?;
            from.read(offset, &mut bytes, log)?;
            return to.write(0, &bytes, log);
        }
        let queue = from.state.writer.clone();
        self.copy_between((&mut to, &mut from), offset, &queue, log)
    }

    /// Copies all of a buffer of the same device and size in the default stream, whatever other
    /// streams did with either.
    pub(crate) fn set_to(&self, source: &Buffer, log: &mut Log) -> Result<()> {
        debug_assert!(self.bytes == source.bytes && self.device == source.device);
        if self.bytes == 0 {
            return Ok(());
        }
        let mut from = source.access(Named::Tensor)?;
        from.check_written(Named::Tensor)?;
        let mut to = self.access(Named::Tensor)?;
        self.copy_between((&mut to, &mut from), 0, &Queue::default(), log)
    }

    /// Copies as many bytes as this buffer has between two of the same device, in a stream.
    fn copy_between(
        &self,
        (to, from): (&mut Access<'_>, &mut Access<'_>),
        offset: usize,
        queue: &Queue,
        log: &mut Log,
    ) -> Result<()> {
        from.prepare_read(queue, log)?;
        to.prepare_write(queue, false, log)?;
        let copy = (CopyKind::DeviceToDevice, self.bytes, queue.id());
        let source = from.buffer;
        // SAFETY: two distinct allocations, of which the caller chose `self.bytes` bytes inside the
        // source; ordered in `queue`.
        log.copy(&self.device, copy, || unsafe {
            self.device.backend().copy(self.ptr, source.at(offset), self.bytes, queue.id())
        })?;
        to.wrote(queue);
        Ok(())
    }

    /// Runs `f` on the host's contents, bringing them up to date first; with `write`, they are the
    /// newest afterwards.
    pub(crate) fn with_host<R>(
        &self,
        write: bool,
        log: &mut Log,
        f: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {
        let mut lease = self.lease(write, log)?;
        Ok(f(lease.bytes()))
    }

    /// One copy for all closures.
    #[inline(never)]
    fn lease(&self, write: bool, log: &mut Log) -> Result<Lease<'_>> {
        self.access(Named::Tensor)?.borrow_host(write, log)
    }

    #[cold]
    fn without_memory(&self) -> Error {
        let what = "a tensor without memory was used: it was made while launches were compiled or listed";
        let what = what.to_owned();
        Error::Precompile { what, device: self.device.id().to_owned(), location: self.site }
    }

    fn lock(&self) -> MutexGuard<'_, BufferState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self, offset: usize) -> DevicePtr {
        DevicePtr(self.ptr.0 + offset as u64)
    }

    /// Gives memory back to its owner: up to date, and when no work uses it any more.
    #[cold]
    fn give_back(&mut self) {
        if self.bytes > 0 {
            let mut log = Log::at(self.site);
            // Where a step fails the device is lost, and nothing can use the memory any more.
            let mut access = Access { buffer: self, state: self.lock() };
            let queue = access.state.writer.clone();
            let _ = access.upload_if_newer(&queue, &mut log);
            let _ = access.order_after_all(&queue).and_then(|()| queue.wait(&self.device));
            if let Some(raw) = self.device.backend().raw_memory() {
                // SAFETY: borrowed once, by `foreign`; the work on it was waited for.
                unsafe { raw.give_back(self.ptr) };
            }
        }
        let release = self.state.get_mut().unwrap_or_else(PoisonError::into_inner).release.take();
        if let Some(release) = release {
            release();
        }
    }

    /// Makes a stream wait for what `earlier` has been given so far. Nothing if they are one.
    pub(crate) fn follow(&self, earlier: &Queue, queue: &Queue) -> Result<()> {
        if earlier.id() == queue.id() { Ok(()) } else { self.follow_other(earlier, queue) }
    }

    #[inline(never)]
    fn follow_other(&self, earlier: &Queue, queue: &Queue) -> Result<()> {
        let backend = self.device.backend();
        let event = backend.record(earlier.id(), false)?;
        let waited = backend.wait(queue.id(), event);
        backend.destroy_event(event);
        Ok(waited?)
    }
}

#[cold]
fn uninitialized(what: Named<'_>) -> Error {
    Error::Uninitialized { what: what.to_string() }
}

#[cold]
fn borrowed(what: Named<'_>) -> Error {
    Error::Borrowed { what: what.to_string() }
}

impl BufferState {
    fn new(residency: Residency, release: Option<Release>) -> BufferState {
        BufferState {
            residency,
            host: None,
            borrowed: false,
            // An allocation is ordered before later work of the default stream only: other streams
            // must wait for it.
            writer: Queue::default(),
            readers: SmallVec::new(),
            release,
        }
    }
}

/// A locked buffer: until it is dropped, no other thread uses or changes the contents. A launch
/// holds it from its first check until the work is enqueued (or done, on a device that works within
/// the call), so that two threads with views of one buffer cannot slip between.
pub(crate) struct Access<'a> {
    buffer: &'a Buffer,
    state: MutexGuard<'a, BufferState>,
}

impl<'a> Access<'a> {
    /// An error if nothing was ever written.
    #[inline]
    pub(crate) fn check_written(&self, what: Named<'_>) -> Result<()> {
        if self.is_written() { Ok(()) } else { Err(uninitialized(what)) }
    }

    pub(crate) fn is_written(&self) -> bool {
        self.state.residency != Residency::Uninitialized
    }

    fn is_newer_on_host(&self) -> bool {
        matches!(self.state.residency, Residency::HostOnly | Residency::HostDirty)
    }

    /// Makes the contents readable by later work of a stream.
    #[inline]
    pub(crate) fn prepare_read(&mut self, queue: &Queue, log: &mut Log) -> Result<()> {
        self.upload_if_newer(queue, log)?;
        let BufferState { writer, readers, .. } = &mut *self.state;
        let knows = |q: &Queue| q.id() == queue.id();
        if !knows(writer) && !readers.iter().any(knows) {
            self.buffer.follow(writer, queue)?;
            readers.push(queue.clone());
        }
        Ok(())
    }

    /// Makes the memory writable (and readable, with `keep`) by later work of a stream.
    pub(crate) fn prepare_write(&mut self, queue: &Queue, keep: bool, log: &mut Log) -> Result<()> {
        if keep {
            self.upload_if_newer(queue, log)?;
        }
        self.order_after_all(queue)
    }

    /// Says that work of the stream writes the device's copy.
    pub(crate) fn wrote(&mut self, queue: &Queue) {
        self.state.residency = match self.state.host.is_some() {
            true => Residency::DeviceDirty,
            false => Residency::DeviceOnly,
        };
        self.now_written_by(queue);
    }

    fn now_written_by(&mut self, queue: &Queue) {
        self.state.readers.clear();
        if self.state.writer.id() != queue.id() {
            self.state.writer = queue.clone();
        }
    }

    fn order_after_all(&self, queue: &Queue) -> Result<()> {
        self.buffer.follow(&self.state.writer, queue)?;
        self.state.readers.iter().try_for_each(|reader| self.buffer.follow(reader, queue))
    }

    #[inline]
    fn upload_if_newer(&mut self, queue: &Queue, log: &mut Log) -> Result<()> {
        if self.is_newer_on_host() { self.upload(queue, log) } else { Ok(()) }
    }

    fn upload(&mut self, queue: &Queue, log: &mut Log) -> Result<()> {
        let Some(host) = &self.state.host else { return Ok(()) };
        self.order_after_all(queue)?;
        let Buffer { device, ptr, bytes, .. } = self.buffer;
        // SAFETY: `ptr` is the allocation of `bytes` bytes, and the mirror has at least as many.
        log.copy(device, (CopyKind::HostToDevice, *bytes, queue.id()), || unsafe {
            device.backend().upload(*ptr, &as_bytes(host)[..*bytes], queue.id())
        })?;
        self.state.residency = Residency::InSync;
        self.now_written_by(queue);
        Ok(())
    }

    /// Overwrites bytes from `offset` on, in the last writer's stream, so that most often no event
    /// is needed.
    pub(crate) fn write(&mut self, offset: usize, data: &[u8], log: &mut Log) -> Result<()> {
        let queue = self.state.writer.clone();
        self.write_in(&queue, (offset, data.len()), HostSource::Plain(data), log)
    }

    /// Overwrites bytes from `offset` on, in a stream.
    pub(crate) fn write_in(
        &mut self,
        queue: &Queue,
        (offset, bytes): (usize, usize),
        source: HostSource<'_>,
        log: &mut Log,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.prepare_write(queue, bytes < self.buffer.bytes, log)?;
        let (device, to, stream) = (&self.buffer.device, self.buffer.at(offset), queue.id());
        // SAFETY: the caller stays inside the allocation; the stream was ordered after every use.
        log.copy(device, (CopyKind::HostToDevice, bytes, stream), || unsafe {
            match source {
                HostSource::Plain(data) => device.backend().upload(to, data, stream),
                HostSource::Mapped(from) => device.backend().copy(to, from, bytes, stream),
            }
        })?;
        self.wrote(queue);
        Ok(())
    }

    /// Reads bytes from `offset` on, in a stream.
    pub(crate) fn read_in(
        &mut self,
        queue: &Queue,
        (offset, bytes): (usize, usize),
        target: HostTarget<'_>,
        log: &mut Log,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.check_written(Named::Tensor)?;
        self.prepare_read(queue, log)?;
        let (device, from, stream) = (&self.buffer.device, self.buffer.at(offset), queue.id());
        // SAFETY: the caller stays inside the allocation, and has as much room.
        log.copy(device, (CopyKind::DeviceToHost, bytes, stream), || unsafe {
            match target {
                HostTarget::Plain(data) => device.backend().download(data, from, stream),
                HostTarget::Mapped(to) => device.backend().copy(to, from, bytes, stream),
            }
        })
    }

    /// Fills every byte.
    pub(crate) fn fill(&mut self, byte: u8, log: &mut Log) -> Result<()> {
        let Buffer { device, ptr, bytes, .. } = self.buffer;
        if *bytes == 0 {
            return Ok(());
        }
        let queue = self.state.writer.clone();
        self.prepare_write(&queue, false, log)?;
        // SAFETY: the whole allocation; ordered as in `write`.
        log.copy(device, (CopyKind::Fill, *bytes, queue.id()), || unsafe {
            device.backend().fill(*ptr, byte, *bytes, queue.id())
        })?;
        self.wrote(&queue);
        Ok(())
    }

    /// Reads bytes from `offset` on into `data`, waiting for the work that writes them.
    pub(crate) fn read(&self, offset: usize, data: &mut [u8], log: &mut Log) -> Result<()> {
        self.buffer.device.check_not_capturing("the elements of a tensor were read", log.site())?;
        if data.is_empty() {
            return Ok(());
        }
        self.check_written(Named::Tensor)?;
        match (self.state.residency, &self.state.host) {
            (Residency::HostOnly | Residency::HostDirty | Residency::InSync, Some(host)) => {
                data.copy_from_slice(&as_bytes(host)[offset..offset + data.len()]);
                Ok(())
            }
            _ => {
                let (device, stream) = (&self.buffer.device, self.state.writer.id());
                // SAFETY: the caller stays inside the allocation.
                log.copy(device, (CopyKind::DeviceToHost, data.len(), stream), || unsafe {
                    device.backend().download(data, self.buffer.at(offset), stream)
                })
            }
        }
    }

    /// The stream of the last write.
    pub(crate) fn writer(&self) -> StreamId {
        self.state.writer.id()
    }

    /// Begins to read bytes from `offset` on, as they are after the work that writes them now.
    pub(crate) fn begin_read(&self, offset: usize, bytes: usize) -> Result<Reading<'a>> {
        if bytes == 0 {
            return Ok(Reading::Here(Vec::new()));
        }
        self.check_written(Named::Tensor)?;
        let state = &*self.state;
        let current = (state.residency, &state.host);
        if let (Residency::HostOnly | Residency::HostDirty | Residency::InSync, Some(host)) = current {
            return Ok(Reading::Here(as_bytes(host)[offset..offset + bytes].to_vec()));
        }
        let buffer = self.buffer;
        let Some(backend) = buffer.device.backend().asynchronous() else { return Ok(Reading::Blocking) };
        // SAFETY: the caller stays inside the allocation.
        Ok(Reading::Later(unsafe {
            backend.download_later(buffer.at(offset), bytes, self.state.writer.id())
        }))
    }

    /// Waits for the work that writes the contents.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let device = &self.buffer.device;
        device.waited(device.backend().synchronize(self.state.writer.id()))
    }

    /// The ranges of these bytes that nothing has written, or with `filled` nothing but a fill.
    /// `None` if the device does not keep track.
    pub(crate) fn unwritten(&self, offset: usize, len: usize, filled: bool) -> Option<Vec<Range<usize>>> {
        match self.state.residency {
            // What the host has changed it has whole.
            Residency::HostOnly | Residency::HostDirty => Some(Vec::new()),
            _ if len == 0 => Some(Vec::new()),
            _ => {
                let diagnostics = self.buffer.device.backend().diagnostics()?;
                diagnostics.unwritten(self.buffer.at(offset), len, filled)
            }
        }
    }

    /// Borrows the host's contents, up to date. Memory that was never written is zeroed first.
    fn borrow_host(mut self, write: bool, log: &mut Log) -> Result<Lease<'a>> {
        let what = "the elements of a tensor were used on the host";
        self.buffer.device.check_not_capturing(what, log.site())?;
        if !write {
            self.check_written(Named::Tensor)?;
        }
        let buffer = self.buffer;
        let host = match buffer.device.properties().unified || buffer.bytes == 0 {
            true => {
                self.settle(write, log)?;
                None
            }
            false => Some(self.mirror(log)?),
        };
        self.state.borrowed = true;
        Ok(Lease { buffer, host, write })
    }

    /// Waits until the host may read (or write) the device's memory itself.
    fn settle(&mut self, write: bool, log: &mut Log) -> Result<()> {
        if !self.is_written() {
            self.fill(0, log)?;
        }
        let device = &self.buffer.device;
        let wait = |queue: StreamId| device.waited(device.backend().synchronize(queue));
        wait(self.state.writer.id())?;
        if write {
            self.state.readers.iter().try_for_each(|reader| wait(reader.id()))?;
        }
        Ok(())
    }

    /// Takes the mirror, made and brought up to date if need be.
    fn mirror(&mut self, log: &mut Log) -> Result<Box<[u64]>> {
        let Buffer { device, ptr, bytes, .. } = self.buffer;
        let fresh = || Ok(zeroed::<u64>(bytes.div_ceil(8))?.into_boxed_slice());
        if !matches!(self.state.residency, Residency::DeviceOnly | Residency::DeviceDirty) {
            return self.state.host.take().map_or_else(fresh, Ok);
        }
        let mut host = self.state.host.take().map_or_else(fresh, Ok)?;
        let stream = self.state.writer.id();
        // SAFETY: the whole allocation; the mirror has at least `bytes` bytes.
        let read = log.copy(device, (CopyKind::DeviceToHost, *bytes, stream), || unsafe {
            device.backend().download(&mut as_bytes_mut(&mut host)[..*bytes], *ptr, stream)
        });
        self.state.residency = if read.is_ok() { Residency::InSync } else { Residency::DeviceOnly };
        read?;
        Ok(host)
    }
}

/// Memory of the host that a copy reads.
pub(crate) enum HostSource<'a> {
    /// Any, which may be changed after the call.
    Plain(&'a [u8]),
    /// Mapped memory, which may be changed after the copy.
    Mapped(DevicePtr),
}

/// Memory of the host that a copy writes.
pub(crate) enum HostTarget<'a> {
    /// Any, written in the call.
    Plain(&'a mut [u8]),
    /// Mapped memory, written later.
    Mapped(DevicePtr),
}

/// A read that was begun.
pub(crate) enum Reading<'a> {
    /// The host had the bytes.
    Here(Vec<u8>),
    /// The device gives them.
    Later(Later<'a, Vec<u8>>),
    /// Nothing was begun: the device has only calls that block.
    Blocking,
}

/// The host's contents, borrowed; they go back when this is dropped, also if the user's closure
/// panics.
struct Lease<'a> {
    buffer: &'a Buffer,
    /// The mirror; `None` where the device's memory is the host's.
    host: Option<Box<[u64]>>,
    write: bool,
}

impl Lease<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        let Buffer { ptr, bytes, .. } = self.buffer;
        match &mut self.host {
            Some(mirror) => &mut as_bytes_mut(mirror)[..*bytes],
            None if *bytes == 0 => &mut [],
            // SAFETY: unified memory: the allocation is `bytes` bytes of host memory, all written;
            // the work on it was waited for, and `borrowed` keeps others out for as long as `self`
            // is there.
            None => unsafe { std::slice::from_raw_parts_mut(ptr.0 as *mut u8, *bytes) },
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut state = self.buffer.lock();
        state.borrowed = false;
        if self.host.is_none() {
            return;
        }
        state.host = self.host.take();
        state.residency = match (self.write, state.residency) {
            (false, unchanged) => unchanged,
            (true, Residency::Uninitialized | Residency::HostOnly) => Residency::HostOnly,
            (true, _) => Residency::HostDirty,
        };
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.is_foreign {
            return self.give_back();
        }
        if self.bytes == 0 || self.is_hollow {
            return;
        }
        if let Some(mapped) = self.mapped.take() {
            let last = self.lock().writer.clone();
            return self.unmap(mapped, &last);
        }
        let mut log = Log::at(self.site);
        let BufferState { writer, readers, .. } = &*self.lock();
        for reader in readers {
            // If ordering fails the device is lost and nothing can use the memory any more.
            let _ = self.follow(reader, writer);
        }
        // SAFETY: the allocation of `new`, freed once; the stream was ordered after every use.
        log.free(&self.device, (self.ptr, self.bytes), || unsafe {
            self.device.backend().free(self.ptr, self.bytes, writer.id());
        });
    }
}

fn as_bytes(words: &[u64]) -> &[u8] {
    bytemuck::cast_slice(words)
}

fn as_bytes_mut(words: &mut [u64]) -> &mut [u8] {
    bytemuck::cast_slice_mut(words)
}
