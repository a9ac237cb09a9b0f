//! PTX in a kernel: the way out for what the language does not have.

use crate::elem::Elem;
use crate::thread::block;
use crate::trace::{Raw, Site, error, with};
use crate::val::Val;
use kiln_ir::{OpKind, Scalar, Shape, Type, check_ptx};
use std::panic::Location;

/// Values that PTX takes: a scalar, or a tuple or array of scalars.
///
/// ```
/// use kiln_lang::prelude::*;
/// use kiln_lang::PtxInputs;
///
/// /// A result that depends on the inputs alone.
/// ///
/// /// # Safety
/// /// As for [`ptx`].
/// unsafe fn word(text: &str, inputs: impl PtxInputs) -> Val<u32> {
///     // SAFETY: the caller's.
///     unsafe { ptx(text, inputs) }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no input of PTX",
    note = "inputs are a device value, or a tuple or an array of device values"
)]
pub trait PtxInputs {
    #[doc(hidden)]
    fn inputs(self) -> Vec<Raw>;
}

impl<T: Elem> PtxInputs for Val<T> {
    fn inputs(self) -> Vec<Raw> {
        vec![self.raw()]
    }
}

impl<T: Elem, const N: usize> PtxInputs for [Val<T>; N] {
    fn inputs(self) -> Vec<Raw> {
        self.map(Val::raw).into()
    }
}

macro_rules! tuples {
    ($($($t:ident $n:tt)*;)*) => {$(
        impl<$($t: Elem),*> PtxInputs for ($(Val<$t>,)*) {
            fn inputs(self) -> Vec<Raw> {
                vec![$(self.$n.raw()),*]
            }
        }
    )*};
}

tuples! {
    ;
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
}

/// The result of PTX instructions, in a kernel over threads on an NVIDIA GPU, as CUDA's `asm
/// volatile`. Every other device, the interpreter among them, refuses the launch by name.
///
/// In the text `%0` is the result, and `%1`, `%2`, … are the inputs: registers of the width of
/// their types (a `bool` is a predicate). Other registers are declared in the text, by
/// `.reg .u32 t;`, and have no `%`; labels are its own too. It is in a scope of its own. A text
/// with comments, other directives, registers of the compiler's, braces but around a vector's
/// operands or a way out of the kernel is an error with the line, and so is what the assembler
/// refuses.
///
/// The instructions stay where they are, in their order among stores and other such texts.
///
/// ```
/// # use kiln_lang::{param::Facts, prelude::*};
/// /// The upper halves of products, plus a number.
/// fn upper(a: Val<u32>, b: Val<u32>, c: Val<u32>) -> Val<u32> {
///     // SAFETY: it computes a register of others.
///     unsafe { ptx("mad.hi.u32 %0, %1, %2, %3;", (a, b, c)) }
/// }
/// # let kernel = trace("k", Level::Thread { block: [32, 1, 1] }, |p| {
/// #     let (x, y) = (p.view::<u32, 1>("x", Facts::default()), p.view_mut::<u32, 1>("y", Facts::default()));
/// #     let i = thread_index();
/// #     y.set(i, upper(x.get(i), val(3), val(7)));
/// # })?;
/// # assert!(kernel.to_string().contains("inline_ptx \"mad.hi.u32 %0, %1, %2, %3;\""));
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
///
/// Memory is reached by an address that the host passes: that of a tensor is
/// `Tensor::as_device_mut_ptr_on`. So instructions of some GPUs alone are there, as atomics of 128
/// bits (compute capability 9.0, PTX 8.3):
///
/// ```
/// # use kiln_lang::{param::Facts, prelude::*};
/// /// Writes a pair of words in place of another pair, if it is the one at an address, a multiple
/// /// of 16: 1 if it was, else 0.
/// ///
/// /// # Safety
/// /// The address is that of 16 bytes, which others change by atomics alone.
/// unsafe fn exchange_pair(address: Val<u64>, old: [Val<u64>; 2], new: [Val<u64>; 2]) -> Val<u32> {
///     let text = ".reg .b128 old, new, found; .reg .b64 low, high; .reg .pred same;
///         mov.b128 old, {%2, %3}; mov.b128 new, {%4, %5};
///         atom.acq_rel.gpu.global.cas.b128 found, [%1], old, new;
///         mov.b128 {low, high}, found;
///         setp.eq.b64 same, low, %2; setp.eq.and.b64 same, high, %3, same; selp.u32 %0, 1, 0, same;";
///     // SAFETY: the caller's; it writes its own registers.
///     unsafe { ptx(text, (address, old[0], old[1], new[0], new[1])) }
/// }
/// # let kernel = trace("k", Level::Thread { block: [32, 1, 1] }, |p| {
/// #     let y = p.view_mut::<u32, 1>("y", Facts::default());
/// #     let a = cycle();
/// #     y.set(thread_index(), unsafe { exchange_pair(a, [a, a], [a, a]) });
/// # })?;
/// # fn cycle() -> Val<u64> { val::<u64>(256) }
/// # assert!(kernel.to_string().contains("cas.b128"));
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
///
/// # Safety
///
/// The instructions write no register but `%0` and those that the text declares, no memory that
/// others do not expect it to, and synchronize no threads that are not all there. The assembler
/// checks none of that.
#[track_caller]
pub unsafe fn ptx<T: Elem>(text: &str, inputs: impl PtxInputs) -> Val<T> {
    let result = inline(text, &inputs.inputs(), Some(T::SCALAR), Location::caller());
    Val::from_raw(result.unwrap_or(Raw::Poison))
}

/// PTX instructions without a result, as [`ptx`]: the inputs are `%0`, `%1`, ….
///
/// ```
/// # use kiln_lang::prelude::*;
/// # trace("k", Level::Thread { block: [32, 1, 1] }, |_| {
/// // SAFETY: a hint, which changes nothing.
/// unsafe { ptx_effect("nanosleep.u32 %0;", val::<u32>(100)) };
/// # })?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
///
/// ```
/// # use kiln_lang::prelude::*;
/// // SAFETY: it is refused.
/// let leaves = trace("k", Level::Thread { block: [32, 1, 1] }, |_| unsafe { ptx_effect("ret;", ()) });
/// let text = leaves.unwrap_err().to_string();
/// assert!(text.contains("its text has `ret`, which leaves the code around it"), "{text}");
/// ```
///
/// # Safety
///
/// As for [`ptx`].
#[track_caller]
pub unsafe fn ptx_effect(text: &str, inputs: impl PtxInputs) {
    inline(text, &inputs.inputs(), None, Location::caller());
}

fn inline(text: &str, inputs: &[Raw], result: Option<Scalar>, site: Site) -> Option<Raw> {
    block("ptx", site)?;
    let recorded = with(|r| {
        let (mut operands, mut elems) = (Vec::new(), Vec::from_iter(result));
        for &input in inputs {
            elems.push(r.ty(input)?.elem());
            operands.push(r.read_as(input, &Shape::scalar(), site)?);
        }
        if let Err(message) = check_ptx(text, &elems, result.is_some()) {
            return Some(Err(message));
        }
        let kind = OpKind::InlinePtx(r.message(text));
        Some(Ok(match result {
            Some(elem) => Some(Raw::Value(r.op(kind, &operands, Type::scalar(elem), site))),
            None => {
                r.effect(kind, &operands, site);
                None
            }
        }))
    });
    match recorded.flatten()? {
        Ok(result) => result,
        Err(message) => {
            error(
                site,
                format!("this PTX cannot be part of a kernel: {message}"),
                "see the documentation of `ptx`",
            );
            None
        }
    }
}
