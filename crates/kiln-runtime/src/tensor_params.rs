//! Tensors as arguments of kernels.

use crate::tensor::{DynTensor, Tensor};
use kiln_lang::param::{ArgSink, KernelParam, ParamDecl, SpecKey, ViewArg};
use kiln_lang::{Elem, View, ViewMut};

impl<'k, T: Elem, const R: usize> KernelParam for &'k Tensor<T, R> {
    type Arg = &'k Tensor<T, R>;
    type Traced = View<T, R>;

    fn key(arg: &Self::Arg, key: &mut SpecKey) {
        key.word(arg.as_dyn().fact_bits());
    }

    fn declare(arg: &Self::Arg, name: &'static str, decl: &mut ParamDecl) -> View<T, R> {
        decl.view(name, arg.as_dyn().facts())
    }

    fn pack(arg: &Self::Arg, sink: &mut dyn ArgSink) {
        pack(arg.as_dyn(), false, sink);
    }
}

impl<'k, T: Elem, const R: usize> KernelParam for &'k mut Tensor<T, R> {
    type Arg = &'k mut Tensor<T, R>;
    type Traced = ViewMut<T, R>;

    fn key(arg: &Self::Arg, key: &mut SpecKey) {
        key.word(arg.as_dyn().fact_bits());
    }

    fn declare(arg: &Self::Arg, name: &'static str, decl: &mut ParamDecl) -> ViewMut<T, R> {
        decl.view_mut(name, arg.as_dyn().facts())
    }

    fn pack(arg: &Self::Arg, sink: &mut dyn ArgSink) {
        pack(arg.as_dyn(), true, sink);
    }
}

/// Packs a tensor; it is `mutable` only where the caller holds it as `&mut`.
pub(crate) fn pack(tensor: &DynTensor, mutable: bool, sink: &mut dyn ArgSink) {
    let (storage, byte_offset) = (tensor.buffer(), tensor.byte_offset() as u64);
    let (extents, strides) = (tensor.shape(), tensor.strides());
    let view = ViewArg { storage, byte_offset, elem: tensor.dtype(), mutable, extents, strides };
    // SAFETY: a tensor's layout lies inside its buffer, whose elements are of its type; `mutable`
    // comes from a `&mut` alone.
    unsafe { sink.view(view) };
}
