//! `#[derive(Record)]`: the struct for kernels, and what takes a struct apart into its fields.

use crate::options::Options;
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Fields, Member, Type};

/// Expands the derive.
pub fn expand(item: DeriveInput) -> syn::Result<TokenStream> {
    let Data::Struct(data) = &item.data else {
        let message = "a record is a struct: which variant an enum has must be known on the host. Use a struct \
                       with a `u32` that tells its cases apart";
        return Err(syn::Error::new(item.ident.span(), message));
    };
    if !item.generics.params.is_empty() {
        let message = "a record has no generic parameters: write a struct for each type";
        return Err(syn::Error::new(item.generics.span(), message));
    }
    if data.fields.is_empty() {
        return Err(syn::Error::new(item.ident.span(), "a record has at least one field"));
    }
    let refused = data.fields.iter().filter_map(|field| {
        let message = format!("a field of a record is a number or a bool: {}", no_number(&field.ty)?);
        Some(syn::Error::new(field.ty.span(), message))
    });
    if let Some(error) = refused.reduce(|mut all, error| {
        all.combine(error);
        all
    }) {
        return Err(error);
    }
    let options = Options::of_derive(&item.attrs)?;
    let p = options.private(Span::call_site());
    let name = &item.ident;
    let device = format_ident!("{}Val", name);
    let declared = device_struct(&options, &item, &data.fields)?;
    let members: Vec<Member> = data.fields.members().collect();
    let types: Vec<&Type> = data.fields.iter().map(|field| &field.ty).collect();
    let texts: Vec<String> = members
        .iter()
        .map(|member| match member {
            Member::Named(name) => name.to_string().trim_start_matches("r#").to_owned(),
            Member::Unnamed(index) => index.index.to_string(),
        })
        .collect();
    let numbers: Vec<usize> = (0..members.len()).collect();
    let count = members.len();
    let elems = types.iter().map(|ty| {
        let p = options.private(ty.span());
        quote_spanned!(ty.span()=> <#ty as #p::Elem>::SCALAR)
    });
    Ok(quote! {
        #declared

        impl #p::IntoDevice<#device> for #name {
            #[track_caller]
            fn into_device(self) -> #device {
                #device { #(#members: #p::record::value(#p::Raw::Const(#p::Elem::literal(self.#members))),)* }
            }
        }

        impl #p::Record for #name {
            const FIELDS: &'static [#p::Field] = &[#(#p::Field { name: #texts, elem: #elems }),*];
            type Val = #device;
            type Cores = [#p::record::Core; #count];

            fn cores(
                __kiln_f: &mut dyn ::core::ops::FnMut(usize) -> #p::record::Core,
            ) -> [#p::record::Core; #count] {
                [#(__kiln_f(#numbers)),*]
            }

            fn value(__kiln_f: &mut dyn ::core::ops::FnMut(usize) -> #p::Raw) -> #device {
                #device { #(#members: #p::record::value(__kiln_f(#numbers)),)* }
            }

            fn append(__kiln_records: &[Self], __kiln_columns: &mut [::std::vec::Vec<u8>]) {
                #(if let Some(__kiln_column) = __kiln_columns.get_mut(#numbers) {
                    #p::record::append(__kiln_column, __kiln_records.iter().map(|record| record.#members));
                })*
            }

            fn at(__kiln_columns: &[::std::vec::Vec<u8>], __kiln_index: usize) -> Self {
                #name { #(#members: #p::record::at(__kiln_columns.get(#numbers), __kiln_index),)* }
            }
        }
    })
}

/// What to write in place of a type that no field has. Types that only the compiler can resolve are
/// left to it.
fn no_number(ty: &Type) -> Option<&'static str> {
    match ty {
        Type::Array(_) => Some("give each element of the array a field"),
        Type::Tuple(_) => Some("give each part of the tuple a field"),
        Type::Reference(_) | Type::Ptr(_) => Some("use an index of another tensor's elements"),
        Type::Path(path) => match path.path.get_ident()?.to_string().as_str() {
            "usize" | "isize" => Some("use an integer of a width that all devices have, such as i64"),
            "i128" | "u128" => Some("use two fields of 64 bits"),
            "char" => Some("use a u32"),
            _ => None,
        },
        _ => None,
    }
}

/// The struct for kernels: the fields as device values.
fn device_struct(options: &Options, item: &DeriveInput, fields: &Fields) -> syn::Result<TokenStream> {
    let p = options.private(Span::call_site());
    let (vis, device) = (&item.vis, format_ident!("{}Val", item.ident));
    let of = |field: &syn::Field| {
        let (vis, ident, ty) = (&field.vis, &field.ident, &field.ty);
        let docs = field.attrs.iter().filter(|attribute| attribute.path().is_ident("doc"));
        let p = options.private(ty.span());
        let colon = ident.as_ref().map(|_| quote!(:));
        quote_spanned!(ty.span()=> #(#docs)* #vis #ident #colon #p::Val<#ty>)
    };
    let parts = fields.iter().map(of);
    let body = match fields {
        Fields::Named(_) => quote!({ #(#parts,)* }),
        Fields::Unnamed(_) | Fields::Unit => quote!((#(#parts,)*);),
    };
    let doc = format!("[`{}`] on the device.", item.ident);
    let declared = quote! {
        #[doc = #doc]
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug)]
        #vis struct #device #body
    };
    let value: DeriveInput = syn::parse2(declared.clone())?;
    let value = crate::derive::device_value_of(&p, &value)?;
    Ok(quote!(#declared #value))
}

#[cfg(test)]
mod tests {
    use super::expand;

    /// One error for each such field, in place of those of what the derive makes of it.
    #[test]
    fn fields_that_are_no_numbers() {
        let errors = |item: &str| match expand(syn::parse_str(item).unwrap()) {
            Ok(_) => Vec::new(),
            Err(error) => error.into_iter().map(|error| error.to_string()).collect(),
        };
        let element = "a field of a record is a number or a bool: give each element of the array a field";
        let part = "a field of a record is a number or a bool: give each part of the tuple a field";
        assert_eq!(errors("struct A { a: [f32; 3], b: u32, c: (f32, f32) }"), [element, part]);
        assert!(errors("struct A(usize);")[0].ends_with("such as i64"));
        assert!(errors("struct A { a: f32, r#type: bool }").is_empty());
    }
}
