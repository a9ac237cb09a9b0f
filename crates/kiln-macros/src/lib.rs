//! The attribute and derive macros of the Kiln kernel language.
use proc_macro::TokenStream;

/// .
#[proc_macro_attribute]
pub fn kernel(_: TokenStream, item: TokenStream) -> TokenStream {
    item
}
/// .
#[proc_macro_attribute]
pub fn device(_: TokenStream, item: TokenStream) -> TokenStream {
    item
}
/// .
#[proc_macro_derive(DeviceValue, attributes(kiln))]
pub fn dv(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
/// .
#[proc_macro_derive(KernelConst, attributes(kiln))]
pub fn kc(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
