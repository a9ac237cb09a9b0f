//! `#[derive(Module)]`.

use crate::options::Options;
use proc_macro2::TokenStream;
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Field, Member};

/// Expands `#[derive(Module)]`.
pub fn expand(item: DeriveInput) -> syn::Result<TokenStream> {
    let arrays = Options::of_derive(&item.attrs)?.arrays();
    let Data::Struct(data) = &item.data else {
        return Err(syn::Error::new(
            item.ident.span(),
            "only structs are modules: put what an enum chooses between into fields of `Option`",
        ));
    };
    let (mut maps, mut visits) = (Vec::new(), Vec::new());
    for (member, field) in data.fields.members().zip(&data.fields) {
        let (span, of) = (field.ty.span(), &field.ty);
        if is_skipped(field)? {
            maps.push(quote_spanned!(span=> #member: <#of as ::core::clone::Clone>::clone(&self.#member)));
            continue;
        }
        maps.push(quote_spanned!(span=>
            #member: <#of as #arrays::Parameters>::map(&self.#member, __kiln_f)
        ));
        let name = match &member {
            Member::Named(name) => name.to_string().trim_start_matches("r#").to_owned(),
            Member::Unnamed(index) => index.index.to_string(),
        };
        visits.push(quote_spanned!(span=>
            __kiln_visitor.field::<#of>(#name, &self.#member);
        ));
    }
    let name = &item.ident;
    let (generics, arguments, where_clause) = item.generics.split_for_impl();
    let span = name.span();
    Ok(quote_spanned! {span=>
        impl #generics #arrays::Parameters for #name #arguments #where_clause {
            fn map(
                &self,
                __kiln_f: &mut dyn ::core::ops::FnMut(&#arrays::Array) -> #arrays::Array,
            ) -> Self {
                #name { #(#maps,)* }
            }

            fn parameter_name(
                &self,
                __kiln_at: ::core::primitive::usize,
            ) -> ::core::option::Option<::std::string::String> {
                #arrays::Module::parameters(self).into_iter().nth(__kiln_at).map(|(name, _)| name)
            }
        }

        impl #generics #arrays::Module for #name #arguments #where_clause {
            fn visit(&self, __kiln_visitor: &mut #arrays::Visitor<'_>) {
                #(#visits)*
            }
        }
    })
}

/// Whether a field has `#[module(skip)]`.
fn is_skipped(field: &Field) -> syn::Result<bool> {
    let mut skipped = false;
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("module")) {
        attribute.parse_nested_meta(|meta| {
            skipped |= meta.path.is_ident("skip");
            if meta.path.is_ident("skip") { Ok(()) } else { Err(meta.error("expected `skip`")) }
        })?;
    }
    Ok(skipped)
}
