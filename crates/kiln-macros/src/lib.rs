//! The attribute and derive macros of the Kiln kernel language.
//!
//! The macros see syntax, not types: they rewrite control flow, comparisons, assignments and
//! `&&`/`||` into calls of `kiln_lang::flow`, where type inference decides what is host and what is
//! device. Everything else remains as the user wrote it, with the user's spans.
//!
//! | file | holds |
//! |---|---|
//! | `options.rs` | `crate = path`, `contract` |
//! | `kernel.rs` | `#[kernel]`: the function that gathers the arguments of a launch |
//! | `function.rs` | `#[device]` and function bodies: parameters, `return` |
//! | `rewrite/` | expressions, statements, control flow |
//! | `derive.rs` | `DeviceValue`, `KernelConst` |
//! | `module.rs` | `Module` |
//! | `record.rs` | `Record` |
//! | `ring/` | `#[ring_kernel]`, `Message`, `State` |
//! | `examples/` | the examples of what needs crates above this one, which those crates test |

mod derive;
mod function;
mod kernel;
mod module;
mod options;
mod record;
mod rewrite;
mod ring;

use proc_macro::TokenStream;
use syn::parse_macro_input;

/// Makes a function a kernel.
///
/// The function's parameters are `&Tensor<T, R>`, `&mut Tensor<T, R>`, `Val<T>` for a number known
/// at the launch, and host constants (`usize`, `bool`, an enum with `#[derive(KernelConst)]`),
/// which the kernel is specialized to. Calling the function gathers the arguments of a launch;
/// nothing runs before it is launched.
///
/// `#[kernel(contract)]` lets a product and the sum that uses it be rounded once, as one
/// multiply-add, which is faster on GPUs. Without it every operation on floats rounds as Rust's do,
/// so that sums, products, quotients and square roots have the same bits on every device.
///
/// `#[kernel(crate = path)]` names the crate that the expansion refers to, `::kiln` by default.
///
/// ```
/// # // What a runtime provides beside the language: see `kiln_lang::param`.
/// # mod runtime {
/// #     pub mod __private {
/// #         pub use kiln_lang::__private::*;
/// #         pub struct Launch<P: KernelParams>(pub KernelFn<P>, pub P::Args);
/// #         impl<P: KernelParams> Launch<P> {
/// #             pub fn new(kernel: KernelFn<P>, args: P::Args) -> Self {
/// #                 Launch(kernel, args)
/// #             }
/// #         }
/// #     }
/// # }
/// use kiln_lang::{param::trace_function, prelude::*};
///
/// /// Checks a number of the launch; `strictly` is a host constant.
/// #[kernel(crate = runtime)]
/// fn positive(x: Val<f32>, strictly: bool) {
///     if strictly {
///         device_assert!(x > 0.0, "x is {}", x);
///     } else {
///         device_assert!(x >= 0.0, "x is {}", x);
///     }
/// }
///
/// let launch = positive(1.5, true);
/// let record = &mut || launch.0.record(&launch.1);
/// let kernel = trace_function(launch.0.id().site, Level::Tile { warps: None }, record)?;
/// assert_eq!((&kernel.name[..], &kernel.params[0].name[..]), ("positive", "x"));
/// assert_eq!(kernel.to_string().matches("assert").count(), 1);
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[proc_macro_attribute]
pub fn kernel(args: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(args as options::Options);
    let item = parse_macro_input!(item as syn::ItemFn);
    kernel::expand(&options, item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Lets a helper function use control flow, comparisons and assignment on device values.
///
/// Functions and methods that only compute need no attribute. `#[device(crate = path)]` as for
/// `kernel`.
///
/// ```
/// use kiln_lang::prelude::*;
///
/// #[device(crate = kiln_lang)]
/// fn magnitude(x: Val<i32>) -> Val<i32> {
///     if x < 0 { -x } else { x }
/// }
///
/// let kernel = trace("k", Level::Tile { warps: None }, |p| {
///     device_print!("{}", magnitude(p.scalar("n", Default::default())));
/// })?;
/// assert_eq!(kernel.to_string().matches(" if ").count(), 1);
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[proc_macro_attribute]
pub fn device(args: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(args as options::Options);
    let item = parse_macro_input!(item as syn::ItemFn);
    function::expand(&options, item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct a device value, so that `let mut`, assignment and `if` work on it as a whole.
///
/// Fields are device values, or host values with `Clone + PartialEq`.
///
/// ```
/// use kiln_lang::prelude::*;
///
/// #[derive(Clone, Copy, DeviceValue)]
/// #[kiln(crate = kiln_lang)]
/// struct Range {
///     low: Val<i32>,
///     high: Val<i32>,
/// }
///
/// /// Takes a number into a range.
/// #[device(crate = kiln_lang)]
/// fn with(mut range: Range, x: Val<i32>) -> Range {
///     if x < range.low {
///         range = Range { low: x, ..range };
///     }
///     range
/// }
///
/// let kernel = trace("k", Level::Tile { warps: None }, |p| {
///     let n = p.scalar("n", Default::default());
///     let range = with(Range { low: val(0), high: val(9) }, n);
///     device_assert!(range.low.le(range.high));
/// })?;
/// assert_eq!(kernel.to_string().matches(" if ").count(), 1);
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[proc_macro_derive(DeviceValue, attributes(kiln))]
pub fn derive_device_value(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as syn::DeriveInput);
    derive::device_value(item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a type with `Copy + Hash` a host constant that kernels can take as a parameter.
///
/// ```
/// use kiln_lang::param::{KernelParam, SpecKey};
/// use kiln_lang::prelude::*;
///
/// #[derive(Clone, Copy, PartialEq, Hash, KernelConst)]
/// #[kiln(crate = kiln_lang)]
/// enum Activation {
///     None,
///     Relu,
/// }
///
/// /// The choice is made while the kernel is specialized.
/// fn activated(x: Val<f32>, activation: Activation) -> Val<f32> {
///     match activation {
///         Activation::None => x,
///         Activation::Relu => x.max(0.0),
///     }
/// }
///
/// let key = |activation| {
///     let mut key = SpecKey::of_ir([0; 4]);
///     <Activation as KernelParam>::key(&activation, &mut key);
///     key
/// };
/// assert!(key(Activation::Relu) == key(Activation::Relu) && key(Activation::Relu) != key(Activation::None));
/// # trace("k", Level::Tile { warps: None }, |_| _ = activated(val(1.0), Activation::Relu))?;
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[proc_macro_derive(KernelConst, attributes(kiln))]
pub fn derive_kernel_const(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as syn::DeriveInput);
    derive::kernel_const(item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct of numbers and bools an element of tensors, of shared and of local memory, and
/// makes a struct `NameVal` of device values for kernels.
///
/// ```
/// use kiln_lang::prelude::*;
///
/// #[derive(Clone, Copy, Record)]
/// #[kiln(crate = kiln_lang)]
/// struct Particle {
///     x: f32,
///     v: f32,
/// }
///
/// let kernel = trace("step", Level::Thread { block: [64, 1, 1] }, |p| {
///     let particles: RecordViewMut<Particle, 1> = p.records_mut("particles", &mut |_| Default::default());
///     let i = thread_index();
///     let own = particles.get_or(i, Particle { x: 0.0, v: 0.0 });
///     particles.set_or_skip(i, ParticleVal { x: own.x + own.v, ..own });
/// })?;
/// let names: Vec<&str> = kernel.params.iter().map(|param| &param.name[..]).collect();
/// assert_eq!(names, ["particles_x", "particles_v"]);
/// # Ok::<(), kiln_lang::TraceErrors>(())
/// ```
#[proc_macro_derive(Record, attributes(kiln))]
pub fn derive_record(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as syn::DeriveInput);
    record::expand(item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a function the handler of a ring kernel: a value of the function's name that implements
/// `kiln_ring::Handler`.
///
/// The function's parameters are `&RingCtx`, `&mut` the state, which may be left out, and the
/// message. It returns nothing, the reply, an `Option` of it, or a `Result` of one of these whose
/// error is a `u32`; `Err` marks the actor failed. States, messages and replies have up to 64 KiB.
///
/// `#[ring_kernel(crate = path)]` as for `kernel`.
#[cfg_attr(not(doctest), doc = concat!("\n", include_str!("examples/ring_kernel.md")))]
#[proc_macro_attribute]
pub fn ring_kernel(args: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(args as options::Options);
    let item = parse_macro_input!(item as syn::ItemFn);
    ring::expand(&options, item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct a message: gives it a fixed layout, and makes a struct `NameVal` of device values
/// for kernels.
///
/// The struct has no generic parameters, and takes 4 bytes to 64 KiB: `bool`, numbers of 32 and 64
/// bits, `f16` and `bf16`, arrays of such, `Inline` arrays, `Payload`s, `Address`es, and other
/// structs that derive it. A field of another type is an error at the field, which names what to
/// use instead.
///
/// `#[kiln(crate = path)]` names the crate that the expansion refers to, `::kiln` by default.
#[cfg_attr(not(doctest), doc = concat!("\n", include_str!("examples/message.md")))]
#[proc_macro_derive(Message, attributes(kiln))]
pub fn derive_message(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as syn::DeriveInput);
    ring::derive(ring::Role::Message, item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct the state of an actor, as `Message` does. A struct that is both derives `Message`
/// alone.
#[cfg_attr(not(doctest), doc = concat!("\n", include_str!("examples/state.md")))]
#[proc_macro_derive(State, attributes(kiln))]
pub fn derive_state(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as syn::DeriveInput);
    ring::derive(ring::Role::State, item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct a module: its arrays, and those of the modules in it, are parameters with names.
///
/// A field's type is an `Array`, a module, a `Vec`, an `Option` or an array of these, or a setting:
/// a number, a `bool`, a text. A field with `#[module(skip)]` is none of these; it has no
/// parameters, and is cloned.
///
/// `#[kiln(crate = path)]` names the module where the expansion finds `Array`, `::kiln::array` by
/// default.
#[cfg_attr(not(doctest), doc = concat!("\n", include_str!("examples/module.md")))]
#[proc_macro_derive(Module, attributes(kiln, module))]
pub fn derive_module(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as syn::DeriveInput);
    module::expand(item).unwrap_or_else(syn::Error::into_compile_error).into()
}
