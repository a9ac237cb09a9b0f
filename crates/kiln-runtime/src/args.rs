//! The arguments of one launch: their words, the buffers behind them, and the checks before
//! anything changes.

use crate::buffer::{Access, Buffer, Named};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::loaded::LoadedKernel;
use crate::log::Log;
use crate::params::{Given, ParamInfo};
use crate::request::Request;
use crate::stream::Queue;
use kiln_ir::Literal;
use kiln_lang::param::{ArgSink, ViewArg};
use smallvec::SmallVec;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A tensor argument.
#[derive(Clone)]
pub(crate) struct Use {
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) param: usize,
    pub(crate) mutable: bool,
    pub(crate) byte_offset: u64,
}

/// The packed arguments of one launch. They are packed in place, for they are large to move.
#[derive(Clone, Default)]
pub(crate) struct Arguments {
    words: SmallVec<[u64; 32]>,
    uses: SmallVec<[Use; 8]>,
}

impl Arguments {
    /// Packs the arguments and checks them. Nothing is changed yet.
    pub(crate) fn collect(
        &mut self,
        request: &dyn Request,
        kernel: &LoadedKernel,
        device: &Device,
    ) -> Result<()> {
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

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// The tensors.
    pub(crate) fn uses(&self) -> &[Use] {
        &self.uses
    }

    /// Puts another tensor at the place of a parameter: its words, and what is behind them. What
    /// the parameter demands the caller has checked, but for [`check_overlaps`].
    ///
    /// [`check_overlaps`]: Self::check_overlaps
    pub(crate) fn set_view(&mut self, param: &ParamInfo, words: &[u64], tensor: Use) {
        self.set_words(param, words);
        if let Some(found) = self.uses.iter_mut().find(|u| u.param == tensor.param) {
            *found = tensor;
        }
    }

    /// Puts other words at the place of a parameter.
    pub(crate) fn set_words(&mut self, param: &ParamInfo, words: &[u64]) {
        self.words[param.words..param.words + words.len()].copy_from_slice(words);
    }

    /// The words of a parameter, and those of the parameters after it.
    pub(crate) fn words_from(&self, param: &ParamInfo) -> &[u64] {
        &self.words[param.words..]
    }

    /// Refuses a written tensor that shares memory with another argument.
    pub(crate) fn check_overlaps(&self, kernel: &LoadedKernel) -> Result<()> {
        for (i, a) in self.uses.iter().enumerate() {
            for b in &self.uses[i + 1..] {
                if !(a.mutable || b.mutable) || !Arc::ptr_eq(&a.buffer, &b.buffer) {
                    continue;
                }
                let (x, y) = (self.bytes(a, kernel), self.bytes(b, kernel));
                let shared = x.start.max(y.start)..x.end.min(y.end);
                if !(x.is_empty() || y.is_empty() || shared.is_empty()) {
                    return Err(Error::Overlap {
                        kernel: kernel.name.to_string(),
                        first: kernel.params[a.param].name.clone(),
                        second: kernel.params[b.param].name.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    /// The bytes of the buffer that a tensor spans, gaps included.
    pub(crate) fn bytes(&self, tensor: &Use, kernel: &LoadedKernel) -> Range<u64> {
        let info = &kernel.params[tensor.param];
        let (rank, size) = info.given.view().unwrap_or((0, 0));
        let (extents, strides) = self.words[info.words + 1..info.words + 1 + 2 * rank].split_at(rank);
        let empty = extents.contains(&0);
        let last: u64 = extents.iter().zip(strides).map(|(e, s)| e.saturating_sub(1) * s).sum();
        let length = if empty { 0 } else { (last + 1) * size as u64 };
        tensor.byte_offset..tensor.byte_offset + length
    }

    /// Locks the buffers, and refuses those that are borrowed or that would be read before they
    /// were written. Nothing is changed yet.
    pub(crate) fn lock<'a>(&'a self, kernel: &LoadedKernel, locked: &mut Locked<'a>) -> Result<()> {
        // A lock a buffer, in the order of addresses, so that launches in several threads never
        // wait for each other in a circle.
        let mut uses: SmallVec<[&Use; 8]> = self.uses.iter().collect();
        uses.sort_unstable_by_key(|u| (Arc::as_ptr(&u.buffer), u.param));
        for same in uses.chunk_by(|a, b| Arc::ptr_eq(&a.buffer, &b.buffer)) {
            let access = same[0].buffer.access(argument(kernel, same[0]))?;
            if let Some(read) = same.iter().find(|u| !u.mutable) {
                access.check_written(argument(kernel, read))?;
            }
            locked.buffers.push((access, same.iter().any(|u| u.mutable)));
        }
        Ok(())
    }
}

/// The buffers of a launch, each with whether the kernel writes it.
#[derive(Default)]
pub(crate) struct Locked<'a> {
    buffers: SmallVec<[(Access<'a>, bool); 8]>,
}

impl Locked<'_> {
    /// Brings the contents to the device and orders the stream after their other uses.
    pub(crate) fn prepare(&mut self, queue: &Queue, log: &mut Log) -> Result<()> {
        self.buffers.iter_mut().try_for_each(|(access, writes)| match *writes {
            true => access.prepare_write(queue, true, log),
            false => access.prepare_read(queue, log),
        })
    }

    /// Says that the launch was enqueued.
    pub(crate) fn launched(&mut self, queue: &Queue) {
        self.buffers.iter_mut().filter(|(_, writes)| *writes).for_each(|(access, _)| access.wrote(queue));
    }
}

fn argument<'a>(kernel: &'a LoadedKernel, tensor: &Use) -> Named<'a> {
    Named::Argument { kernel: &kernel.name, argument: &kernel.params[tensor.param].name }
}

/// Collects what the parameters pack, and compares it with what the program was compiled for.
struct Sink<'k, 'a> {
    kernel: &'k LoadedKernel,
    /// The parameter that comes next.
    next: usize,
    packed: &'a mut Arguments,
    /// The first difference.
    refused: Option<Error>,
}

impl<'k> Sink<'k, '_> {
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

    /// Refuses words of which the program's facts are not true.
    fn check_facts(&mut self, info: &ParamInfo) {
        if !info.holds(&self.packed.words[info.words..]) {
            self.refuse_fact(info);
        }
    }

    #[cold]
    fn refuse_fact(&mut self, info: &ParamInfo) {
        if let Some(fact) = info.violated(&self.packed.words[info.words..]) {
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

impl ArgSink for Sink<'_, '_> {
    fn scalar(&mut self, value: Literal) {
        let Some(info) = self.parameter(Given::Scalar(value.elem())) else { return };
        self.packed.words.push(value.bits());
        self.check_facts(info);
    }

    unsafe fn view(&mut self, view: ViewArg<'_>) {
        let ViewArg { storage, byte_offset, elem, mutable, extents, strides } = view;
        let Some(info) = self.parameter(Given::View { elem, rank: extents.len(), mutable }) else { return };
        // Tensors of another runtime have another storage.
        let buffer = storage.downcast_ref::<Arc<Buffer>>().filter(|_| extents.len() == strides.len());
        let Some(buffer) = buffer else {
            self.refuse(Some(info), &"a tensor of another runtime");
            return;
        };
        let Arguments { words, uses } = &mut *self.packed;
        words.push(buffer.ptr().0 + byte_offset);
        extents.iter().for_each(|&extent| words.push(extent as u64));
        strides.iter().for_each(|&stride| words.push(stride as u64));
        uses.push(Use { buffer: buffer.clone(), param: self.next - 1, mutable, byte_offset });
        self.check_facts(info);
    }
}
