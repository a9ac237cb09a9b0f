//! `#[derive(Message)]` and `#[derive(State)]`.

use crate::options::Options;
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Expr, Field, Fields, Ident, Lit, Member, Type};

/// What is derived.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Message,
    State,
}

impl Role {
    fn noun(self) -> &'static str {
        match self {
            Role::Message => "message",
            Role::State => "state",
        }
    }
}

/// Expands the derive.
pub fn derive(role: Role, item: DeriveInput) -> syn::Result<TokenStream> {
    let fields = checked(role, &item)?;
    let options = Options::of_derive(&item.attrs)?;
    let p = options.private(Span::call_site());
    let device = device_struct(&options, &item, fields)?;
    let layout = layout(&p, &item.ident, fields);
    let (name, text) = (&item.ident, item.ident.to_string());
    let marker = match role {
        Role::Message => quote!(impl #p::Message for #name { const NAME: &'static str = #text; }),
        Role::State => quote!(impl #p::State for #name {}),
    };
    let noun = role.noun();
    let (empty, large) = (
        format!("the {noun} `{text}` has no fields: it needs at least 4 bytes"),
        format!("the {noun} `{text}` is larger than 64 KiB: send large data as a `Payload`"),
    );
    let sized = quote_spanned! {name.span()=>
        const _: () = ::core::assert!(<#name as #p::Layout>::WORDS != 0, #empty);
        const _: () = ::core::assert!(<#name as #p::Layout>::WORDS <= #p::MAX_WORDS, #large);
    };
    Ok(quote!(#device #layout #marker #sized))
}

/// The fields, if the struct can have a fixed layout.
fn checked(role: Role, item: &DeriveInput) -> syn::Result<&Fields> {
    let noun = role.noun();
    let Data::Struct(data) = &item.data else {
        let message = format!(
            "a {noun} is a struct: which variant an enum has would not be known on the device. Use a struct with a `u32` that tells its \
             cases apart"
        );
        return Err(syn::Error::new(item.ident.span(), message));
    };
    if !item.generics.params.is_empty() {
        let message =
            format!("a {noun} has no generic parameters: its layout is fixed. Write a struct for each type");
        return Err(syn::Error::new(item.generics.span(), message));
    }
    let mut errors = data.fields.iter().zip(data.fields.members()).filter_map(|(field, member)| {
        let (ty, instead) = unsupported(&field.ty)?;
        let field = match member {
            Member::Named(name) => name.to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        };
        let message =
            format!("field `{field}` of the {noun} `{}`: {ty} has no fixed layout; {instead}", item.ident);
        Some(syn::Error::new(instead_span(&data.fields, &field), message))
    });
    match errors.next() {
        None => Ok(&data.fields),
        Some(mut first) => {
            errors.for_each(|e| first.combine(e));
            Err(first)
        }
    }
}

fn instead_span(fields: &Fields, name: &str) -> Span {
    let found = fields.iter().zip(fields.members()).find(|(_, member)| match member {
        Member::Named(ident) => ident == name,
        Member::Unnamed(index) => index.index.to_string() == name,
    });
    found.map_or_else(Span::call_site, |(field, _)| field.ty.span())
}

/// What a type that no field may have is called, and what to use instead. Types that only the
/// compiler can resolve are left to it.
fn unsupported(ty: &Type) -> Option<(String, &'static str)> {
    match ty {
        Type::Array(array) => unsupported(&array.elem),
        Type::Group(group) => unsupported(&group.elem),
        Type::Paren(paren) => unsupported(&paren.elem),
        Type::Path(path) => {
            let name = path.path.segments.last()?.ident.to_string();
            let instead = match name.as_str() {
                "u8" | "u16" | "char" => "use `u32`",
                "i8" | "i16" => "use `i32`",
                "usize" | "isize" => "it differs between host and device: use `u32` or `u64`",
                "u128" | "i128" => "use `[u64; 2]`",
                "String" | "str" | "Vec" | "Box" => {
                    "use an array, an `Inline` array, or a `Payload` for large data"
                }
                "Option" => "use a `bool` beside the value",
                _ => return None,
            };
            Some((format!("`{name}`"), instead))
        }
        Type::Reference(_) | Type::Ptr(_) => {
            Some(("a reference".to_owned(), "the device cannot follow it: use the value itself, or an array"))
        }
        Type::Tuple(_) => Some(("a tuple".to_owned(), "use a struct that derives `Message`")),
        Type::Slice(_) => Some(("a slice".to_owned(), "use an array")),
        _ => Some(("this type".to_owned(), "use numbers, arrays, and structs that derive `Message`")),
    }
}

/// The struct for kernels: the fields as device values.
fn device_struct(options: &Options, item: &DeriveInput, fields: &Fields) -> syn::Result<TokenStream> {
    let p = options.private(Span::call_site());
    let device = device_name(&item.ident);
    let vis = &item.vis;
    let of = |field: &Field| {
        let (docs, vis, ident, ty) = (docs(field), &field.vis, &field.ident, &field.ty);
        let p = options.private(ty.span());
        let colon = ident.as_ref().map(|_| quote!(:));
        quote_spanned!(ty.span()=> #(#docs)* #vis #ident #colon <#ty as #p::Layout>::Device)
    };
    let body = match fields {
        Fields::Named(named) => {
            let fields = named.named.iter().map(of);
            quote!({ #(#fields,)* })
        }
        Fields::Unnamed(unnamed) => {
            let fields = unnamed.unnamed.iter().map(of);
            quote!((#(#fields,)*);)
        }
        Fields::Unit => quote!(;),
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
    let members: Vec<Member> = fields.members().collect();
    Ok(quote! {
        #declared
        #value
        impl #p::Zeroed for #device {
            fn zeroed() -> Self {
                #device { #(#members: #p::Zeroed::zeroed(),)* }
            }
        }
    })
}

fn layout(p: &TokenStream, name: &Ident, fields: &Fields) -> TokenStream {
    let device = device_name(name);
    let text = name.to_string();
    let members: Vec<Member> = fields.members().collect();
    let types: Vec<&Type> = fields.iter().map(|f| &f.ty).collect();
    let texts: Vec<String> = members
        .iter()
        .map(|m| match m {
            Member::Named(name) => name.to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        })
        .collect();
    // The rest of the words is taken apart field by field; the last rest is empty.
    quote! {
        #[allow(unused_variables)]
        impl #p::Layout for #name {
            const WORDS: usize = 0 #(+ <#types as #p::Layout>::WORDS)*;
            const ID: u64 = #p::layout_id(#text, &[#((#texts, <#types as #p::Layout>::ID),)*]);
            const HOLDS: bool = false #(|| <#types as #p::Layout>::HOLDS)*;
            const PORTABLE: bool = true #(&& <#types as #p::Layout>::PORTABLE)*;
            type Device = #device;

            #[inline]
            fn encode(&self, __kiln_words: &mut [u32]) {
                #(
                    let (__kiln_field, __kiln_words) = __kiln_words.split_at_mut(<#types as #p::Layout>::WORDS);
                    #p::Layout::encode(&self.#members, __kiln_field);
                )*
            }

            #[inline]
            fn decode(__kiln_words: &[u32]) -> Self {
                let mut __kiln_at = 0;
                #name { #(#members: {
                    let __kiln_field = &__kiln_words[__kiln_at..][..<#types as #p::Layout>::WORDS];
                    __kiln_at += __kiln_field.len();
                    #p::Layout::decode(__kiln_field)
                },)* }
            }

            fn inlines(__kiln_at: usize, __kiln_found: &mut ::std::vec::Vec<::core::ops::Range<usize>>) {
                #(
                    <#types as #p::Layout>::inlines(__kiln_at, __kiln_found);
                    let __kiln_at = __kiln_at + <#types as #p::Layout>::WORDS;
                )*
            }

            fn references(__kiln_at: usize, __kiln_found: &mut ::std::vec::Vec<usize>) {
                #(
                    <#types as #p::Layout>::references(__kiln_at, __kiln_found);
                    let __kiln_at = __kiln_at + <#types as #p::Layout>::WORDS;
                )*
            }

            fn addresses(__kiln_at: usize, __kiln_found: &mut ::std::vec::Vec<(usize, u64)>) {
                #(
                    <#types as #p::Layout>::addresses(__kiln_at, __kiln_found);
                    let __kiln_at = __kiln_at + <#types as #p::Layout>::WORDS;
                )*
            }

            #[track_caller]
            fn load(__kiln_words: &[#p::Val<u32>]) -> #device {
                let mut __kiln_at = 0;
                #device { #(#members: {
                    let __kiln_field = &__kiln_words[__kiln_at..][..<#types as #p::Layout>::WORDS];
                    __kiln_at += __kiln_field.len();
                    <#types as #p::Layout>::load(__kiln_field)
                },)* }
            }

            #[track_caller]
            fn append(__kiln_value: &#device, __kiln_words: &mut ::std::vec::Vec<#p::Val<u32>>) {
                #(<#types as #p::Layout>::append(&__kiln_value.#members, __kiln_words);)*
            }

            #[inline]
            fn hold(&self, __kiln_held: &mut ::std::vec::Vec<#p::Hold>) {
                #(#p::Layout::hold(&self.#members, __kiln_held);)*
            }
        }
    }
}

fn device_name(name: &Ident) -> Ident {
    format_ident!("{}Val", name)
}

/// The documentation of a field.
fn docs(field: &Field) -> impl Iterator<Item = &syn::Attribute> {
    field.attrs.iter().filter(|a| {
        let text = a.meta.require_name_value().map(|v| &v.value);
        a.path().is_ident("doc") && matches!(text, Ok(Expr::Lit(l)) if matches!(l.lit, Lit::Str(_)))
    })
}
