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
#[proc_macro_attribute]
pub fn device(args: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(args as options::Options);
    let item = parse_macro_input!(item as syn::ItemFn);
    function::expand(&options, item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct a device value, so that `let mut`, assignment and `if` work on it as a whole.
///
/// Fields are device values, or host values with `Clone + PartialEq`.
#[proc_macro_derive(DeviceValue, attributes(kiln))]
pub fn derive_device_value(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as syn::DeriveInput);
    derive::device_value(item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a type with `Copy + Hash` a host constant that kernels can take as a parameter.
#[proc_macro_derive(KernelConst, attributes(kiln))]
pub fn derive_kernel_const(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as syn::DeriveInput);
    derive::kernel_const(item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct of numbers and bools an element of tensors, of shared and of local memory, and
/// makes a struct `NameVal` of device values for kernels.
#[proc_macro_derive(Record, attributes(kiln))]
pub fn derive_record(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as syn::DeriveInput);
    record::expand(item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a function the handler of a ring kernel: a value of the function's name that implements
/// `kiln_ring::Handler`.
///
/// `#[ring_kernel(crate = path)]` as for `kernel`.
#[proc_macro_attribute]
pub fn ring_kernel(args: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(args as options::Options);
    let item = parse_macro_input!(item as syn::ItemFn);
    ring::expand(&options, item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct a message: gives it a fixed layout, and makes a struct `NameVal` of device values
/// for kernels.
#[proc_macro_derive(Message, attributes(kiln))]
pub fn derive_message(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as syn::DeriveInput);
    ring::derive(ring::Role::Message, item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct the state of an actor, as `Message` does. A struct that is both derives `Message`
/// alone.
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
#[proc_macro_derive(Module, attributes(kiln, module))]
pub fn derive_module(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as syn::DeriveInput);
    module::expand(item).unwrap_or_else(syn::Error::into_compile_error).into()
}
