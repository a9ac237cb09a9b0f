//! `#[kernel]`: what the generated function hands to a runtime.

use kiln_lang::param::{ArgSink, KernelFn, KernelParams, SpecKey, trace_function};
use kiln_lang::prelude::*;

/// The least a runtime provides: see `kiln_lang::param`.
mod runtime {
    use super::*;
    use kiln_lang::param::{KernelParam, ParamDecl, Storage, ViewArg};

    pub mod __private {
        pub use super::Launch;
        pub use kiln_lang::__private::*;
    }

    pub struct Launch<P: KernelParams> {
        kernel: KernelFn<P>,
        args: P::Args,
    }

    impl<P: KernelParams> Launch<P> {
        pub fn new(kernel: KernelFn<P>, args: P::Args) -> Self {
            Launch { kernel, args }
        }

        pub fn key(&self) -> SpecKey {
            let mut key = SpecKey::of_function(self.kernel.id());
            P::key(&self.args, &mut key);
            key
        }

        pub fn ir(&self) -> kiln_ir::Kernel {
            let (site, level) = (self.kernel.id().site, Level::Tile { warps: None });
            let kernel = trace_function(site, level, &mut || self.kernel.record(&self.args));
            let kernel = kernel.unwrap_or_else(|e| panic!("{e}"));
            kiln_ir::verify(&kernel).unwrap_or_else(|e| panic!("{e:?}\n{kernel}"));
            kernel
        }

        pub fn words(&self) -> Vec<u64> {
            let mut sink = Words(Vec::new());
            P::pack(&self.args, &mut sink);
            sink.0
        }
    }

    struct Words(Vec<u64>);

    impl ArgSink<'_> for Words {
        fn scalar(&mut self, value: kiln_ir::Literal) {
            self.0.push(value.bits());
        }

        unsafe fn view(&mut self, view: ViewArg<'_>) {
            let address = view.storage.get::<u64>().unwrap();
            self.0.push(address + view.byte_offset + u64::from(view.mutable));
            self.0.extend(view.extents.iter().chain(view.strides).map(|&n| n as u64));
        }
    }

    /// A tensor that is only an address and a length.
    pub struct Tensor<T> {
        pub address: u64,
        pub len: usize,
        pub elem: std::marker::PhantomData<T>,
    }

    impl<T> Tensor<T> {
        pub fn new(address: u64, len: usize) -> Self {
            Tensor { address, len, elem: std::marker::PhantomData }
        }
    }

    macro_rules! tensor_param {
        ($($ty:ty, $traced:ident, $declare:ident, $mutable:literal;)*) => {$(
            impl<'k, T: Elem> KernelParam for $ty {
                type Arg = Self;
                type Traced = $traced<T, 1>;

                fn key(arg: &Self, key: &mut SpecKey) {
                    key.word(u64::from(arg.len.is_multiple_of(16)));
                }

                fn declare(_: &Self, name: &'static str, decl: &mut ParamDecl) -> $traced<T, 1> {
                    decl.$declare(name, Default::default())
                }

                fn pack<'a>(arg: &'a Self, sink: &mut dyn ArgSink<'a>) {
                    let (elem, extents, strides) = (T::SCALAR, std::slice::from_ref(&arg.len), &[1]);
                    let (storage, mutable) = (Storage::new(&arg.address), $mutable);
                    // SAFETY: nothing is launched.
                    unsafe { sink.view(ViewArg { storage, byte_offset: 0, elem, mutable, extents, strides }) };
                }
            }
        )*};
    }
    tensor_param! { &'k Tensor<T>, View, view, false; &'k mut Tensor<T>, ViewMut, view_mut, true; }
}

use runtime::Tensor;

#[derive(Clone, Copy, PartialEq, Hash, Debug, KernelConst)]
#[kiln(crate = crate::runtime)]
enum Mode {
    Double,
    Shift(i32),
}

/// Every kind of parameter.
#[kernel(crate = crate::runtime)]
fn everything(
    x: &Tensor<f32>,
    y: &mut Tensor<f32>,
    mut scale: Val<f32>,
    block: usize,
    mode: Mode,
    wide: bool,
    dims: [usize; 2],
) {
    let start = program_id(0) * block;
    let v = x.tile(start, block).load(0.0);
    if wide {
        scale *= 2.0;
    }
    let v = match mode {
        Mode::Double => v * 2.0,
        Mode::Shift(by) => v + by,
    };
    y.tile(start + dims[0] * dims[1], block).store(v * scale);
}

type Everything<'a> = (&'a Tensor<f32>, &'a mut Tensor<f32>, Val<f32>, usize, Mode, bool, [usize; 2]);

fn launch<'a>(
    x: &'a Tensor<f32>,
    y: &'a mut Tensor<f32>,
    block: usize,
    mode: Mode,
) -> runtime::Launch<Everything<'a>> {
    everything(x, y, 1.5, block, mode, false, [2, 3])
}

#[test]
fn parameters_become_ir_parameters_and_words() {
    let (x, mut y) = (Tensor::new(0x1000, 48), Tensor::new(0x2000, 50));
    let l = launch(&x, &mut y, 16, Mode::Double);
    let text = l.ir().to_string();
    let head =
        "kernel @everything(%x: view<f32, 1, global>, %y: mut view<f32, 1, global>, %scale: f32) tile {";
    assert!(text.starts_with(head), "{text}");
    assert_eq!(l.words(), [0x1000, 48, 1, 0x2001, 50, 1, u64::from(1.5f32.to_bits())]);
}

#[test]
fn keys_follow_what_the_trace_depends_on() {
    let (x, mut y, mut z) = (Tensor::new(0, 48), Tensor::new(0, 50), Tensor::new(99, 50));
    let base = launch(&x, &mut y, 16, Mode::Double).key();
    assert_eq!(base, launch(&x, &mut z, 16, Mode::Double).key(), "addresses do not count");
    assert_ne!(base, launch(&x, &mut y, 32, Mode::Double).key(), "constants count");
    assert_ne!(base, launch(&x, &mut y, 16, Mode::Shift(1)).key());
    assert_ne!(launch(&x, &mut y, 16, Mode::Shift(2)).key(), launch(&x, &mut y, 16, Mode::Shift(1)).key());
    let odd = Tensor::new(0, 47);
    assert_ne!(base, launch(&odd, &mut y, 16, Mode::Double).key(), "facts count");
    let other = everything(&x, &mut y, 7.0, 16, Mode::Double, false, [2, 3]).key();
    assert_eq!(base, other, "the values of scalars do not count");
    assert_ne!(base, everything(&x, &mut y, 1.5, 16, Mode::Double, true, [2, 3]).key());
    assert_ne!(base, everything(&x, &mut y, 1.5, 16, Mode::Double, false, [3, 2]).key());
}

#[kernel(crate = crate::runtime)]
fn generic<T: Float, const N: usize, const NEGATE: bool>(y: &mut Tensor<T>) {
    let v = iota::<T>(N);
    y.store(if NEGATE { -v } else { v.exp() });
}

#[test]
fn generic_arguments_are_part_of_the_key() {
    let mut single = Tensor::<f32>::new(0, 1);
    let mut half = Tensor::<f16>::new(0, 1);
    let a = generic::<f32, 8, false>(&mut single).key();
    assert_eq!(a, generic::<f32, 8, false>(&mut single).key());
    assert_ne!(a, generic::<f32, 16, false>(&mut single).key());
    assert_ne!(a, generic::<f32, 8, true>(&mut single).key());
    assert_ne!(a, generic::<f16, 8, false>(&mut half).key());
    let text = generic::<f16, 8, true>(&mut half).ir().to_string();
    assert!(text.contains("neg") && text.contains("f16[8]") && !text.contains("exp"), "{text}");
}

#[kernel(crate = crate::runtime)]
fn no_parameters() {
    device_print!("hello");
}

#[test]
fn kernels_may_have_no_parameters() {
    let l = no_parameters();
    assert_eq!(l.words(), []);
    assert_eq!(l.ir().params.len(), 0);
    assert_ne!(l.key(), other_kernel().key());
}

#[kernel(crate = crate::runtime)]
fn other_kernel() {
    if program_id(0) > 3 {
        return;
    }
    device_print!("hello");
}
