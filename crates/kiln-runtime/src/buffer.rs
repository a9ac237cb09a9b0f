//! One allocation seen from the device and from the host, synchronised lazily, and ordered between streams.

use crate::device::Device;
use crate::error::{Error, Result};
use kiln_backend::{DevicePtr, StreamId};
use smallvec::SmallVec;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which copy of a buffer's contents is the current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residency {
    /// Nothing was written yet.
    Uninitialised,
    /// Only the host has contents.
    HostOnly,
    /// Only the device has contents.
    DeviceOnly,
    /// Host and device have the same contents.
    InSync,
    /// Both have contents, the host's are newer.
    HostDirty,
    /// Both have contents, the device's are newer.
    DeviceDirty,
}

/// What to call a buffer in an error; formatted only if there is one.
#[derive(Clone, Copy)]
pub(crate) enum Named<'a> {
    /// A tensor, outside of a launch.
    Tensor,
    /// An argument of a launch.
    Argument {
        /// The kernel.
        kernel: &'a str,
        /// The parameter.
        argument: &'a str,
    },
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Named::Tensor => f.write_str("the tensor"),
            Named::Argument { kernel, argument } => write!(f, "argument `{argument}` of `{kernel}`"),
        }
    }
}

/// A device allocation with an optional mirror on the host.
///
/// Invariant: `state.host` is there in every residency except `Uninitialised` and `DeviceOnly`; on a device with unified memory it is never there,
/// because the device's memory is the host's.
pub(crate) struct Buffer {
    device: Device,
    ptr: DevicePtr,
    bytes: usize,
    state: Mutex<State>,
}

struct State {
    residency: Residency,
    /// The mirror, in 8-byte units so that every element type is aligned.
    host: Option<Box<[u64]>>,
    /// A closure of the user holds the host's contents.
    lent: bool,
    /// The stream of the last write, and those that read since.
    writer: Option<StreamId>,
    readers: SmallVec<[StreamId; 2]>,
}

impl Buffer {
    /// Allocates `bytes`, uninitialised. Zero bytes allocate nothing.
    pub(crate) fn new(device: &Device, bytes: usize) -> Result<Buffer> {
        let ptr = match bytes {
            0 => DevicePtr(0),
            _ => device.backend().allocate(bytes, StreamId::default())?,
        };
        let state = State {
            residency: if bytes == 0 { Residency::DeviceOnly } else { Residency::Uninitialised },
            host: None,
            lent: false,
            // The allocation is ordered before later work of the default stream only: other streams must wait for it.
            writer: Some(StreamId::default()),
            readers: SmallVec::new(),
        };
        Ok(Buffer { device: device.clone(), ptr, bytes, state: Mutex::new(state) })
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn ptr(&self) -> DevicePtr {
        self.ptr
    }

    pub(crate) fn residency(&self) -> Residency {
        self.lock().residency
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self, what: Named<'_>) -> Result<MutexGuard<'_, State>> {
        let state = self.lock();
        if state.lent {
            return Err(Error::Lent { what: what.to_string() });
        }
        Ok(state)
    }

    /// Makes the contents readable by later work of `stream`.
    pub(crate) fn prepare_read(&self, what: Named<'_>, stream: StreamId) -> Result<()> {
        let mut state = self.state(what)?;
        if state.residency == Residency::Uninitialised {
            return Err(Error::Uninitialised { what: what.to_string() });
        }
        self.upload_if_newer(&mut state, stream)?;
        self.follow(state.writer, stream)?;
        if state.writer != Some(stream) && !state.readers.contains(&stream) {
            state.readers.push(stream);
        }
        Ok(())
    }

    /// Makes the memory writable (and readable) by later work of `stream`, and the device's contents the newest.
    pub(crate) fn prepare_write(&self, what: Named<'_>, stream: StreamId) -> Result<()> {
        let mut state = self.state(what)?;
        self.upload_if_newer(&mut state, stream)?;
        self.follow(state.writer, stream)?;
        for &reader in &state.readers {
            self.follow(Some(reader), stream)?;
        }
        state.readers.clear();
        state.writer = Some(stream);
        state.residency = if state.host.is_some() { Residency::DeviceDirty } else { Residency::DeviceOnly };
        Ok(())
    }

    /// Makes `stream` wait for what `earlier` has been given so far. Nothing for one stream.
    fn follow(&self, earlier: Option<StreamId>, stream: StreamId) -> Result<()> {
        let Some(earlier) = earlier.filter(|&e| e != stream) else { return Ok(()) };
        let backend = self.device.backend();
        let event = backend.record(earlier, false)?;
        let waited = backend.wait(stream, event);
        backend.destroy_event(event);
        Ok(waited?)
    }

    fn upload_if_newer(&self, state: &mut State, stream: StreamId) -> Result<()> {
        if !matches!(state.residency, Residency::HostOnly | Residency::HostDirty) {
            return Ok(());
        }
        let Some(host) = &state.host else { return Ok(()) };
        self.follow(state.writer, stream)?;
        // SAFETY: `ptr` is this buffer's allocation of `bytes` bytes, and the mirror has at least as many.
        unsafe { self.device.backend().upload(self.ptr, &as_bytes(host)[..self.bytes], stream)? };
        state.residency = Residency::InSync;
        state.writer = Some(stream);
        Ok(())
    }

    /// Overwrites bytes from `offset` on.
    pub(crate) fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let stream = self.home();
        self.prepare_write(Named::Tensor, stream)?;
        // SAFETY: the caller stays inside the allocation; `prepare_write` ordered the stream after every use.
        unsafe { Ok(self.device.backend().upload(self.at(offset), data, stream)?) }
    }

    /// Fills every byte.
    pub(crate) fn fill(&self, byte: u8) -> Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        let stream = self.home();
        self.prepare_write(Named::Tensor, stream)?;
        // SAFETY: the whole allocation; ordered as in `write`.
        unsafe { Ok(self.device.backend().fill(self.ptr, byte, self.bytes, stream)?) }
    }

    /// Reads bytes from `offset` on into `data`, waiting for the work that writes them.
    pub(crate) fn read(&self, offset: usize, data: &mut [u8]) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let state = self.state(Named::Tensor)?;
        match (state.residency, &state.host) {
            (Residency::Uninitialised, _) => Err(Error::Uninitialised { what: Named::Tensor.to_string() }),
            (Residency::HostOnly | Residency::HostDirty | Residency::InSync, Some(host)) => {
                data.copy_from_slice(&as_bytes(host)[offset..offset + data.len()]);
                Ok(())
            }
            // SAFETY: the caller stays inside the allocation.
            _ => unsafe {
                Ok(self.device.backend().download(data, self.at(offset), state.writer.unwrap_or_default())?)
            },
        }
    }

    /// Copies all bytes of another buffer of the same size, on the device if it is the same one.
    pub(crate) fn copy_from(&self, source: &Buffer) -> Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        let on_device = !matches!(source.residency(), Residency::HostOnly | Residency::HostDirty);
        if self.device == source.device && on_device {
            let stream = source.home();
            source.prepare_read(Named::Tensor, stream)?;
            self.prepare_write(Named::Tensor, stream)?;
            // SAFETY: two distinct allocations of `bytes` bytes, ordered in `stream`.
            return unsafe { Ok(self.device.backend().copy(self.ptr, source.ptr, self.bytes, stream)?) };
        }
        let mut bytes = vec![0u8; self.bytes];
        source.read(0, &mut bytes)?;
        self.write(0, &bytes)
    }

    /// Runs `f` on the host's contents, bringing them up to date first; with `write`, they are the newest afterwards.
    pub(crate) fn with_host<R>(&self, write: bool, f: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        let mut host = self.take_host(write)?;
        let result = match &mut host {
            Some(mirror) => f(&mut as_bytes_mut(mirror)[..self.bytes]),
            None if self.bytes == 0 => f(&mut []),
            // SAFETY: unified memory: the allocation is `bytes` bytes of host memory, its writers were waited for, and `lent` keeps
            // others out until the closure returns.
            None => f(unsafe { std::slice::from_raw_parts_mut(self.ptr.0 as *mut u8, self.bytes) }),
        };
        let mut state = self.lock();
        state.lent = false;
        let mirrored = host.is_some();
        if mirrored {
            state.host = host;
        }
        state.residency = match (write, mirrored, state.residency) {
            (true, true, Residency::Uninitialised) => Residency::HostOnly,
            (true, true, _) => Residency::HostDirty,
            (true, false, _) => Residency::DeviceOnly,
            (false, _, other) => other,
        };
        Ok(result)
    }

    /// Lends the mirror out, up to date; `None` where the device's memory is the host's.
    fn take_host(&self, write: bool) -> Result<Option<Box<[u64]>>> {
        let mut state = self.state(Named::Tensor)?;
        if state.residency == Residency::Uninitialised && !write {
            return Err(Error::Uninitialised { what: Named::Tensor.to_string() });
        }
        let writer = state.writer.unwrap_or_default();
        if self.device.properties().unified || self.bytes == 0 {
            self.device.backend().synchronize(writer)?;
            state.lent = true;
            return Ok(None);
        }
        let mut host = state.host.take().unwrap_or_else(|| vec![0u64; self.bytes.div_ceil(8)].into_boxed_slice());
        if matches!(state.residency, Residency::DeviceOnly | Residency::DeviceDirty) {
            // SAFETY: the whole allocation; the mirror has at least `bytes` bytes.
            let read = unsafe {
                self.device.backend().download(&mut as_bytes_mut(&mut host)[..self.bytes], self.ptr, writer)
            };
            if let Err(error) = read {
                state.residency = Residency::DeviceOnly;
                return Err(error.into());
            }
            state.residency = Residency::InSync;
        }
        state.lent = true;
        Ok(Some(host))
    }

    /// The stream to put the runtime's own copies in: the last writer's, so that no event is needed.
    fn home(&self) -> StreamId {
        self.lock().writer.unwrap_or_default()
    }

    fn at(&self, offset: usize) -> DevicePtr {
        DevicePtr(self.ptr.0 + offset as u64)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let stream = self.home();
        let readers = std::mem::take(&mut self.lock().readers);
        for reader in readers {
            // If ordering fails the device is lost and nothing can use the memory any more.
            let _ = self.follow(Some(reader), stream);
        }
        // SAFETY: the allocation of `new`, freed once; the stream was ordered after every use.
        unsafe { self.device.backend().free(self.ptr, self.bytes, stream) }
    }
}

fn as_bytes(words: &[u64]) -> &[u8] {
    bytemuck::cast_slice(words)
}

fn as_bytes_mut(words: &mut [u64]) -> &mut [u8] {
    bytemuck::cast_slice_mut(words)
}
