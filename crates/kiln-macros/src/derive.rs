//! The derives.

use crate::options::Options;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Member};

/// Expands `#[derive(DeviceValue)]`.
pub fn device_value(item: DeriveInput) -> syn::Result<TokenStream> {
    let p = Options::of_derive(&item.attrs)?.private(Span::call_site());
    device_value_of(&p, &item)
}

/// As [`device_value`]; `p` is the module that the expansion names.
pub fn device_value_of(p: &TokenStream, item: &DeriveInput) -> syn::Result<TokenStream> {
    let Data::Struct(data) = &item.data else {
        return Err(syn::Error::new(
            item.ident.span(),
            "only structs are device values: which variant an enum has must be known on the host",
        ));
    };
    let members: Vec<Member> = data.fields.members().collect();
    let spans = data.fields.iter().map(|f| f.ty.span());
    let (maps, zips): (Vec<TokenStream>, Vec<TokenStream>) = members
        .iter()
        .zip(spans)
        .map(|(m, span)| {
            let probe = quote_spanned!(span=> #p::FieldProbe(&self.#m));
            (
                quote_spanned!(span=> #m: #probe.map(__kiln_f)),
                quote_spanned!(span=> #m: #probe.zip(&__kiln_other.#m, __kiln_f)),
            )
        })
        .unzip();
    let name = &item.ident;
    let (generics, arguments, where_clause) = item.generics.split_for_impl();
    Ok(quote! {
        impl #generics #p::IntoDevice<Self> for #name #arguments #where_clause {
            fn into_device(self) -> Self {
                self
            }
        }

        impl #generics #p::DeviceValue for #name #arguments #where_clause {
            #[allow(unused_imports)]
            fn map(&self, __kiln_f: &mut dyn ::core::ops::FnMut(#p::Raw) -> #p::Raw) -> Self {
                use #p::HostField as _;
                #name { #(#maps,)* }
            }

            #[allow(unused_imports)]
            fn zip(&self, __kiln_other: &Self, __kiln_f: &mut dyn #p::Zip) -> Self {
                use #p::HostField as _;
                #name { #(#zips,)* }
            }
        }
    })
}

/// Expands `#[derive(KernelConst)]`.
pub fn kernel_const(item: DeriveInput) -> syn::Result<TokenStream> {
    let p = Options::of_derive(&item.attrs)?.private(Span::call_site());
    let name = &item.ident;
    let (generics, arguments, where_clause) = item.generics.split_for_impl();
    Ok(quote! {
        impl #generics #p::KernelParam for #name #arguments #where_clause {
            type Arg = Self;
            type Traced = Self;

            fn key(arg: &Self, key: &mut #p::SpecKey) {
                key.hashed(arg);
            }

            fn declare(arg: &Self, _: &'static str, _: &mut #p::ParamDecl) -> Self {
                *arg
            }

            fn pack(_: &Self, _: &mut dyn #p::ArgSink) {}
        }
    })
}
