//! Tensors as arguments of kernels.

use crate::tensor::{DynTensor, Tensor};
use kiln_lang::param::{ArgSink, KernelParam, ParamDecl, SpecKey, Storage, ViewArg};
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

    fn pack<'a>(arg: &'a Self::Arg, sink: &mut dyn ArgSink<'a>) {
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

    fn pack<'a>(arg: &'a Self::Arg, sink: &mut dyn ArgSink<'a>) {
        pack(arg.as_dyn(), true, sink);
    }
}

impl<T: Elem, const R: usize> Tensor<T, R> {
    /// Packs it as the parameter `&Tensor` of a kernel is packed: for a [`KernelParam`] of your own
    /// that owns it.
    ///
    /// ```
    /// use kiln_lang::param::{ArgSink, KernelParam, ParamDecl, SpecKey};
    /// use kiln_lang::prelude::*;
    /// use kiln_runtime::{Device, Tensor};
    ///
    /// /// Factors that are not written.
    /// struct Factors(Tensor<f32, 1>);
    ///
    /// impl KernelParam for Factors {
    ///     type Arg = Factors;
    ///     type Traced = View<f32, 1>;
    ///
    ///     fn key(arg: &Factors, key: &mut SpecKey) {
    ///         <&Tensor<f32, 1>>::key(&&arg.0, key);
    ///     }
    ///     fn declare(arg: &Factors, name: &'static str, decl: &mut ParamDecl) -> View<f32, 1> {
    ///         <&Tensor<f32, 1>>::declare(&&arg.0, name, decl)
    ///     }
    ///     fn pack<'a>(arg: &'a Factors, sink: &mut dyn ArgSink<'a>) {
    ///         arg.0.pack(sink);
    ///     }
    /// }
    ///
    /// #[kernel(crate = kiln_runtime)]
    /// fn scale(by: Factors, y: &mut Tensor<f32, 1>) {
    ///     let at = program_id(0) * 4;
    ///     let tile = y.tile(at, 4);
    ///     tile.store(tile.load(0.0) * by.tile(at, 4).load(0.0));
    /// }
    ///
    /// let device = Device::open("interp")?;
    /// let mut y = device.tensor(&[1.0, 2.0, 3.0], [3])?;
    /// scale(Factors(device.tensor(&[2.0, 3.0, 4.0], [3])?), &mut y).launch(&device)?;
    /// assert_eq!(y.to_vec()?, [2.0, 6.0, 12.0]);
    /// # Ok::<(), kiln_runtime::Error>(())
    /// ```
    ///
    /// A tensor that is gone before the launch is none:
    ///
    /// ```compile_fail,E0597
    /// use kiln_lang::param::ArgSink;
    /// use kiln_runtime::Tensor;
    ///
    /// fn pack_alias<'a>(tensor: &'a Tensor<f32, 1>, sink: &mut dyn ArgSink<'a>) {
    ///     let alias = tensor.alias();
    ///     alias.pack(sink);
    /// }
    /// ```
    pub fn pack<'a>(&'a self, sink: &mut dyn ArgSink<'a>) {
        pack(self.as_dyn(), false, sink);
    }
}

/// Packs a tensor; it is `mutable` only where the caller holds it as `&mut`.
pub(crate) fn pack<'a>(tensor: &'a DynTensor, mutable: bool, sink: &mut dyn ArgSink<'a>) {
    let (storage, byte_offset) = (tensor.buffer(), tensor.byte_offset() as u64);
    let (extents, strides) = (tensor.shape(), tensor.strides());
    let storage = Storage::new(storage);
    let view = ViewArg { storage, byte_offset, elem: tensor.dtype(), mutable, extents, strides };
    // SAFETY: a tensor's layout lies inside its buffer, whose elements are of its type; `mutable`
    // comes from a `&mut` alone.
    unsafe { sink.view(view) };
}
