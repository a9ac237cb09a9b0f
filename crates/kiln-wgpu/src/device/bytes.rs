//! Copies and fills of bytes that are no whole words.
//!
//! wgpu copies and clears whole words. What begins or ends within one is done by kernels of Kiln's,
//! which leave the other bytes of a word as they are.

use super::allocations::AllocationOffset;
use super::gpu::{Gpu, refused};
use super::passes;
use super::program::WgpuProgram;
use super::state::DeviceState;
use kiln_backend::{BufferBinding, DevicePtr, Error, Launch, Result, StreamId};
use std::sync::OnceLock;

/// The kernels, compiled when they are first needed.
#[derive(Default)]
pub(crate) struct ByteKernels {
    copy: OnceLock<Result<WgpuProgram>>,
    fill: OnceLock<Result<WgpuProgram>>,
    fill_words: OnceLock<Result<WgpuProgram>>,
}

/// Copies each byte of %x to the same place of %y.
const COPY: &str =
    "kernel @copy_bytes(%x: view<u8, 1, global>, %y: mut view<u8, 1, global>) thread [256, 1, 1] {
  %t = thread_id x : i64
  %p = program_id x : i64
  %width = block_dim x : i64
  %first = mul %p, %width : i64
  %i = add %first, %t : i64
  %n = extent %y axis 0 : i64
  %in = lt %i, %n : bool
  %v = view_load.x1 %x[%i] where %in : u8
  view_store.x1 %y[%i] where %in = %v
}";

/// Stores %v everywhere in %y.
const FILL: &str = "kernel @fill_bytes(%y: mut view<u8, 1, global>, %v: u8) thread [256, 1, 1] {
  %t = thread_id x : i64
  %p = program_id x : i64
  %width = block_dim x : i64
  %first = mul %p, %width : i64
  %i = add %first, %t : i64
  %n = extent %y axis 0 : i64
  %in = lt %i, %n : bool
  view_store.x1 %y[%i] where %in = %v
}";

/// The same of words.
const FILL_WORDS: &str = "kernel @fill_words(%y: mut view<u32, 1, global>, %v: u32) thread [256, 1, 1] {
  %t = thread_id x : i64
  %p = program_id x : i64
  %width = block_dim x : i64
  %first = mul %p, %width : i64
  %i = add %first, %t : i64
  %n = extent %y axis 0 : i64
  %in = lt %i, %n : bool
  view_store.x1 %y[%i] where %in = %v
}";

/// Threads of a block of the kernels.
const BLOCK: u64 = 256;

/// Bytes of a word of a buffer.
const WORD: u64 = 4;

fn program<'a>(gpu: &Gpu, slot: &'a OnceLock<Result<WgpuProgram>>, text: &str) -> Result<&'a WgpuProgram> {
    let made = slot.get_or_init(|| {
        let kernel = kiln_ir::parse(text).map_err(|error| Error::Internal {
            place: "the copies of bytes",
            message: format!("line {}: expected {}, found {}", error.line, error.expected, error.found),
        })?;
        let module = passes::module(gpu, &kernel)?;
        WgpuProgram::new(gpu, &kernel, module, None, None)
    });
    made.as_ref().map_err(Clone::clone)
}

impl DeviceState {
    /// Records a copy on the device, of any bytes.
    pub(crate) fn copy(
        &mut self,
        gpu: &Gpu,
        kernels: &ByteKernels,
        [dst, src]: [DevicePtr; 2],
        bytes: u64,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let to = self.allocations.place("copy", dst, bytes)?;
        let from = self.allocations.place("copy", src, bytes)?;
        if to.allocation == from.allocation {
            return self.copy_within(gpu, kernels, [dst, src], bytes);
        }
        if to.offset % WORD != from.offset % WORD {
            return self.copy_bytes(gpu, kernels, [dst, src], bytes);
        }
        let [head, middle] = self.parts(to, bytes)?;
        if head > 0 {
            self.copy_bytes(gpu, kernels, [dst, src], head)?;
        }
        if middle > 0 {
            let source = self.used(gpu, from)?.buffer.clone();
            let target = self.used(gpu, to)?.buffer.clone();
            let (from, to) = (from.offset + head, to.offset + head);
            self.recorder.encoder(gpu).copy_buffer_to_buffer(&source, from, &target, to, middle);
        }
        match bytes.saturating_sub(head + middle) {
            0 => Ok(()),
            tail => {
                let behind = head + middle;
                self.copy_bytes(gpu, kernels, [dst, src].map(|ptr| DevicePtr(ptr.0 + behind)), tail)
            }
        }
    }

    /// Copies within an allocation, which wgpu does only by way of another.
    fn copy_within(
        &mut self,
        gpu: &Gpu,
        kernels: &ByteKernels,
        [dst, src]: [DevicePtr; 2],
        bytes: u64,
    ) -> Result<()> {
        let phase = AllocationOffset::of(dst).offset % WORD;
        let between = self.allocate(gpu, bytes + phase)?;
        let middle = DevicePtr(between.0 + phase);
        let copied = self
            .copy(gpu, kernels, [middle, src], bytes)
            .and_then(|()| self.copy(gpu, kernels, [dst, middle], bytes));
        self.allocations.free(between);
        copied
    }

    /// Bytes of a range before its first whole word, and bytes of its words. Behind the end of an
    /// allocation the rest of a word is unused: it counts as whole.
    fn parts(&self, to: AllocationOffset, bytes: u64) -> Result<[u64; 2]> {
        let head = (WORD - to.offset % WORD) % WORD;
        let head = head.min(bytes);
        let rest = bytes - head;
        let ends = to.offset + bytes == self.allocations.get("copy", to)?.bytes;
        let middle = if ends { rest.next_multiple_of(WORD) } else { rest / WORD * WORD };
        Ok([head, middle])
    }

    fn copy_bytes(
        &mut self,
        gpu: &Gpu,
        kernels: &ByteKernels,
        [dst, src]: [DevicePtr; 2],
        bytes: u64,
    ) -> Result<()> {
        let program = program(gpu, &kernels.copy, COPY)?;
        self.in_pieces(gpu, bytes, |state, start, count| {
            let buffers = [BufferBinding::read(src).at(start), BufferBinding::write(dst).at(start)];
            state.run(gpu, program, count, &buffers, &[count, 1, count, 1])
        })
    }

    /// Records a fill with a byte.
    pub(crate) fn fill(
        &mut self,
        gpu: &Gpu,
        kernels: &ByteKernels,
        dst: DevicePtr,
        byte: u8,
        bytes: u64,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let to = self.allocations.place("fill", dst, bytes)?;
        let [head, middle] = self.parts(to, bytes)?;
        if head > 0 {
            self.fill_bytes(gpu, kernels, dst, byte, head)?;
        }
        let start = DevicePtr(dst.0 + head);
        match (middle, byte) {
            (0, _) => {}
            (_, 0) => {
                let buffer = self.used(gpu, to)?.buffer.clone();
                self.recorder.encoder(gpu).clear_buffer(&buffer, to.offset + head, Some(middle));
            }
            _ => self.fill_words(gpu, kernels, start, byte, middle)?,
        }
        match bytes.saturating_sub(head + middle) {
            0 => Ok(()),
            tail => self.fill_bytes(gpu, kernels, DevicePtr(start.0 + middle), byte, tail),
        }
    }

    fn fill_bytes(
        &mut self,
        gpu: &Gpu,
        kernels: &ByteKernels,
        dst: DevicePtr,
        byte: u8,
        bytes: u64,
    ) -> Result<()> {
        let program = program(gpu, &kernels.fill, FILL)?;
        self.run(gpu, program, bytes, &[BufferBinding::write(dst)], &[bytes, 1, byte.into()])
    }

    fn fill_words(
        &mut self,
        gpu: &Gpu,
        kernels: &ByteKernels,
        dst: DevicePtr,
        byte: u8,
        bytes: u64,
    ) -> Result<()> {
        let program = program(gpu, &kernels.fill_words, FILL_WORDS)?;
        let value = u32::from_le_bytes([byte; 4]);
        self.in_pieces(gpu, bytes, |state, start, count| {
            let words = count / WORD;
            let buffers = [BufferBinding::write(dst).at(start)];
            state.run(gpu, program, words, &buffers, &[words, 1, value.into()])
        })
    }

    /// Does something for pieces of a range that a binding can have, given by first byte and
    /// length. All begin at multiples of a word from the first one.
    fn in_pieces(
        &mut self,
        gpu: &Gpu,
        bytes: u64,
        mut each: impl FnMut(&mut DeviceState, u64, u64) -> Result<()>,
    ) -> Result<()> {
        // With room for what lies between a binding's start and the piece.
        let most = (gpu.limits.max_storage_buffer_binding_size / 2).min(1 << 30) / WORD * WORD;
        let mut start = 0;
        while start < bytes {
            let count = (bytes - start).min(most.max(WORD));
            each(self, start, count)?;
            start += count;
        }
        Ok(())
    }

    /// Launches one of the kernels, a thread for each element.
    fn run(
        &mut self,
        gpu: &Gpu,
        program: &WgpuProgram,
        elements: u64,
        buffers: &[BufferBinding],
        numbers: &[u64],
    ) -> Result<()> {
        let blocks = u32::try_from(elements.div_ceil(BLOCK))
            .map_err(|_| refused("copy", format!("{elements} elements at once")))?;
        let grid = [blocks, 1, 1];
        self.launch(gpu, program, Launch { grid, buffers, numbers, stream: StreamId::default() })
    }
}
