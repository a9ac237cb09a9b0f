//! The arguments of one launch: numbers, where the tensors are, the buffers that hold them, and the
//! checks before anything changes.

use crate::buffer::{Access, Buffer, Hindrance};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::loaded::LoadedKernel;
use crate::log::Log;
use crate::params::{Given, ParamInfo};
use crate::request::Request;
use crate::residency::Named;
use crate::stream::Queue;
use kiln_backend::{BufferBinding, DevicePtr};
use kiln_ir::Literal;
use kiln_lang::param::{ArgSink, ViewArg};
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The buffer of a tensor argument, which a graph holds. A launch borrows it: to count holders
/// takes atomic operations for each tensor.
#[derive(Clone)]
pub(crate) struct Use<B = Arc<Buffer>> {
    pub(crate) buffer: B,
    pub(crate) param: usize,
}

/// The tensors that most launches have at most: for these nothing is allocated.
const MOST: usize = 12;

/// The packed arguments of one launch. They are packed in place, for they are large to move.
#[derive(Clone)]
pub(crate) struct Arguments<B = Arc<Buffer>> {
    numbers: SmallVec<[u64; 64]>,
    /// Where each tensor is.
    views: SmallVec<[BufferBinding; MOST]>,
    /// The buffers of the tensors, one for each view. They keep the memory alive.
    uses: SmallVec<[Use<B>; MOST]>,
}

impl<B> Default for Arguments<B> {
    fn default() -> Arguments<B> {
        Arguments { numbers: SmallVec::new(), views: SmallVec::new(), uses: SmallVec::new() }
    }
}

impl<'a> Arguments<&'a Arc<Buffer>> {
    /// Packs the arguments and checks them. Nothing is changed yet.
    pub(crate) fn collect(
        &mut self,
        request: &'a dyn Request,
        kernel: &LoadedKernel,
        device: &Device,
    ) -> Result<()> {
        self.numbers.resize(kernel.numbers, 0);
        let mut sink = Sink { kernel, next: 0, packed: self, refused: None };
        request.pack(&mut sink);
        sink.finish()?;
        if let Some(foreign) = self.uses.iter().find(|u| u.buffer.device() != device) {
            return Err(Error::DeviceMismatch {
                kernel: kernel.name.to_string(),
                argument: kernel.params[foreign.param].name.clone(),
                found: foreign.buffer.device().id().to_owned(),
                expected: device.id().to_owned(),
            });
        }
        self.check_overlaps(kernel)
    }

    /// The same, which keep the memory alive by themselves.
    pub(crate) fn kept(&self) -> Arguments {
        let kept = |of: &Use<&Arc<Buffer>>| Use { buffer: of.buffer.clone(), param: of.param };
        let uses = self.uses.iter().map(kept).collect();
        Arguments { numbers: self.numbers.clone(), views: self.views.clone(), uses }
    }
}

impl<B: Borrow<Arc<Buffer>>> Arguments<B> {
    /// The numbers, as a backend takes them.
    pub(crate) fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// Where the tensors are, as a backend takes them.
    pub(crate) fn views(&self) -> &[BufferBinding] {
        &self.views
    }

    /// The tensors: the buffer of each, and where in it it is.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&Use<B>, &BufferBinding)> {
        self.uses.iter().zip(&self.views)
    }

    /// Puts another tensor at the place of a parameter: its numbers, and where it is. What the
    /// parameter demands the caller has checked, but for [`check_overlaps`].
    ///
    /// [`check_overlaps`]: Self::check_overlaps
    pub(crate) fn set_view(
        &mut self,
        param: &ParamInfo,
        numbers: &[u64],
        tensor: Use<B>,
        view: BufferBinding,
    ) {
        self.set_numbers(param, numbers);
        if let Some(at) = self.uses.iter().position(|u| u.param == tensor.param) {
            (self.uses[at], self.views[at]) = (tensor, view);
        }
    }

    /// Puts other numbers at the place of a parameter.
    pub(crate) fn set_numbers(&mut self, param: &ParamInfo, numbers: &[u64]) {
        self.numbers[param.numbers..param.numbers + numbers.len()].copy_from_slice(numbers);
    }

    /// The numbers of a parameter.
    pub(crate) fn numbers_of(&self, param: &ParamInfo) -> &[u64] {
        &self.numbers[param.numbers..param.numbers + param.number_count()]
    }

    /// Refuses a written tensor that shares memory with another argument.
    #[inline]
    pub(crate) fn check_overlaps(&self, kernel: &LoadedKernel) -> Result<()> {
        if self.views.iter().any(|view| view.written) { self.compare_places(kernel) } else { Ok(()) }
    }

    fn compare_places(&self, kernel: &LoadedKernel) -> Result<()> {
        for (i, (a, at)) in self.tensors().enumerate().filter(|(_, (_, at))| at.written) {
            for (j, (b, bt)) in self.tensors().enumerate() {
                // Two that are written meet once.
                if j == i || (bt.written && j < i) || !Arc::ptr_eq(a.buffer.borrow(), b.buffer.borrow()) {
                    continue;
                }
                let (x, y) = (self.bytes(a, at, kernel), self.bytes(b, bt, kernel));
                let shared = x.start.max(y.start)..x.end.min(y.end);
                if !(x.is_empty() || y.is_empty() || shared.is_empty()) {
                    let (first, second) = if i < j { (a, b) } else { (b, a) };
                    return Err(Error::Overlap {
                        kernel: kernel.name.to_string(),
                        first: kernel.params[first.param].name.clone(),
                        second: kernel.params[second.param].name.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    /// The bytes of the buffer that a tensor spans, gaps included.
    pub(crate) fn bytes(&self, tensor: &Use<B>, view: &BufferBinding, kernel: &LoadedKernel) -> Range<u64> {
        let info = &kernel.params[tensor.param];
        let (rank, size) = info.given.view().unwrap_or((0, 0));
        let (extents, strides) = self.numbers_of(info).split_at(rank);
        let empty = extents.contains(&0);
        let last: u64 = extents.iter().zip(strides).map(|(e, s)| e.saturating_sub(1) * s).sum();
        let length = if empty { 0 } else { (last + 1) * size as u64 };
        view.byte_offset..view.byte_offset + length
    }

    /// Locks the buffers, and refuses those that are borrowed or that would be read before they
    /// were written. Nothing is changed yet.
    pub(crate) fn lock<'l>(&'l self, kernel: &LoadedKernel, locked: &mut Locked<'l>) -> Result<()> {
        let Err(hindrance) = self.lock_free(locked) else { return Ok(()) };
        locked.clear();
        if let Hindrance::Refused = hindrance {
            self.refuse(kernel)?;
        }
        self.lock_in_order(kernel, locked)
    }

    /// Locks the buffers as they come, if each is there once and no other thread has it: most
    /// launches find them so. Otherwise some may be locked.
    #[inline]
    fn lock_free<'l>(&'l self, locked: &mut Locked<'l>) -> std::result::Result<(), Hindrance> {
        for (tensor, view) in self.tensors() {
            let buffer: &Arc<Buffer> = tensor.buffer.borrow();
            buffer.lock_into(!view.written, &mut locked.buffers)?;
            locked.written.push(view.written);
        }
        Ok(())
    }

    /// The error of the first tensor that a launch may not have, if there still is one.
    #[cold]
    fn refuse(&self, kernel: &LoadedKernel) -> Result<()> {
        for (tensor, view) in self.tensors() {
            let buffer: &Arc<Buffer> = tensor.buffer.borrow();
            let access = buffer.access(argument(kernel, tensor))?;
            if !view.written {
                access.check_written(argument(kernel, tensor))?;
            }
        }
        Ok(())
    }

    /// Locks the buffers one after the other, in the order of addresses, so that launches in
    /// several threads never wait for each other in a circle. The parameters of one buffer stand in
    /// their own order.
    #[cold]
    fn lock_in_order<'l>(&'l self, kernel: &LoadedKernel, locked: &mut Locked<'l>) -> Result<()> {
        let mut order: SmallVec<[(*const Buffer, u32); MOST]> =
            self.uses.iter().zip(0..).map(|(tensor, at)| (Arc::as_ptr(tensor.buffer.borrow()), at)).collect();
        order.sort_unstable();
        for same in order.chunk_by(|(a, _), (b, _)| a == b) {
            let uses = || same.iter().map(|&(_, at)| (&self.uses[at as usize], &self.views[at as usize]));
            let first = &self.uses[same[0].1 as usize];
            let buffer: &Arc<Buffer> = first.buffer.borrow();
            let access = buffer.access(argument(kernel, first))?;
            if let Some((read, _)) = uses().find(|(_, view)| !view.written) {
                access.check_written(argument(kernel, read))?;
            }
            locked.buffers.push(access);
            locked.written.push(uses().any(|(_, view)| view.written));
        }
        Ok(())
    }
}

/// The buffers of a launch.
#[derive(Default)]
pub(crate) struct Locked<'a> {
    buffers: SmallVec<[Access<'a>; MOST]>,
    /// Whether the kernel writes each of them.
    written: SmallVec<[bool; MOST]>,
}

impl Locked<'_> {
    fn clear(&mut self) {
        self.buffers.clear();
        self.written.clear();
    }

    /// Brings the contents to the device and orders the stream after their other uses.
    pub(crate) fn prepare(&mut self, queue: &Queue, log: &mut Log) -> Result<()> {
        self.buffers.iter_mut().zip(&self.written).try_for_each(|(access, written)| match *written {
            true => access.prepare_write(queue, true, log),
            false => access.prepare_read(queue, log),
        })
    }

    /// Says that the launch was enqueued.
    pub(crate) fn launched(&mut self, queue: &Queue) {
        for (access, _) in self.buffers.iter_mut().zip(&self.written).filter(|(_, written)| **written) {
            access.wrote(queue);
        }
    }
}

fn argument<'a, B>(kernel: &'a LoadedKernel, tensor: &Use<B>) -> Named<'a> {
    Named::Argument { kernel: &kernel.name, argument: &kernel.params[tensor.param].name }
}

/// Collects what the parameters pack, and compares it with what the program was compiled for.
struct Sink<'k, 'p, 'a> {
    kernel: &'k LoadedKernel,
    /// The parameter that comes next.
    next: usize,
    packed: &'p mut Arguments<&'a Arc<Buffer>>,
    /// The first difference.
    refused: Option<Error>,
}

impl<'k> Sink<'k, '_, '_> {
    /// The parameter that comes next, if this is an argument for it.
    fn parameter(&mut self, given: Given) -> Option<&'k ParamInfo> {
        if self.refused.is_some() {
            return None;
        }
        let info = self.kernel.params.get(self.next);
        if info.is_none_or(|info| info.given != given) {
            self.refuse(info, &given);
            return None;
        }
        self.next += 1;
        info
    }

    /// Notes the first difference.
    #[cold]
    fn refuse(&mut self, info: Option<&ParamInfo>, given: &dyn fmt::Display) {
        self.refused = Some(mismatch(self.kernel, info, given.to_string()));
    }

    #[cold]
    fn refuse_fact(&mut self, info: &ParamInfo, address: Option<DevicePtr>) {
        if let Some(fact) = info.violated(address, &self.packed.numbers[info.numbers..]) {
            self.refuse(Some(info), &format_args!("one of which it is not true that {fact}"));
        }
    }

    /// Whether all parameters got their arguments.
    fn finish(self) -> Result<()> {
        match (self.refused, self.kernel.params.get(self.next)) {
            (Some(error), _) => Err(error),
            (None, Some(missing)) => Err(mismatch(self.kernel, Some(missing), "nothing".to_owned())),
            (None, None) => Ok(()),
        }
    }
}

#[cold]
fn mismatch(kernel: &LoadedKernel, info: Option<&ParamInfo>, given: String) -> Error {
    Error::Parameter {
        kernel: kernel.name.to_string(),
        argument: info.map_or_else(|| "the end".to_owned(), |info| format!("`{}`", info.name)),
        expected: info.map_or_else(|| "nothing".to_owned(), |info| info.given.to_string()),
        given,
    }
}

impl<'a> ArgSink<'a> for Sink<'_, '_, 'a> {
    fn scalar(&mut self, value: Literal) {
        let Some(info) = self.parameter(Given::Scalar(value.elem())) else { return };
        let number = value.bits();
        self.packed.numbers[info.numbers] = number;
        if !info.holds(None, &[number]) {
            self.refuse_fact(info, None);
        }
    }

    unsafe fn view(&mut self, view: ViewArg<'a>) {
        let ViewArg { storage, byte_offset, elem, mutable, extents, strides } = view;
        let Some(info) = self.parameter(Given::View { elem, rank: extents.len(), mutable }) else { return };
        // Tensors of another runtime have another storage.
        let buffer = storage.get::<Arc<Buffer>>().filter(|_| extents.len() == strides.len());
        let Some(buffer) = buffer else {
            self.refuse(Some(info), &"a tensor of another runtime");
            return;
        };
        let Arguments { numbers, views, uses } = &mut *self.packed;
        let numbers = &mut numbers[info.numbers..][..2 * extents.len()];
        for (to, &from) in numbers.iter_mut().zip(extents.iter().chain(strides)) {
            *to = from as u64;
        }
        views.push(BufferBinding { buffer: buffer.ptr(), byte_offset, written: mutable });
        uses.push(Use { buffer, param: self.next - 1 });
        let address = DevicePtr(buffer.ptr().0.wrapping_add(byte_offset));
        if !info.holds(Some(address), numbers) {
            self.refuse_fact(info, Some(address));
        }
    }
}
