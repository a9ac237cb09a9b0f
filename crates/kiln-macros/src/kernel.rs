//! `#[kernel]`: the function that gathers the arguments of a launch, and the body to trace. What it
//! relies on is described in `kiln_lang::param`.

use crate::function;
use crate::options::{Options, hygienic};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{FnArg, GenericParam, Ident, ItemFn, Lifetime, Pat, ReturnType, Type, parse_quote};

/// Expands `#[kernel]`.
pub fn expand(options: &Options, mut item: ItemFn) -> syn::Result<TokenStream> {
    check(&item)?;
    let params = parameters(&item)?;
    let body = function::rewritten(options, &mut item, false)?;
    let p = options.private(Span::call_site());
    let (attrs, vis, name) = (&item.attrs, &item.vis, &item.sig.ident);
    let (names, types): (Vec<&Ident>, Vec<&Type>) = params.iter().map(|(n, t)| (n, t)).unzip();

    let associated = |which: &str| -> Vec<TokenStream> {
        let of = |ty: &&Type| {
            let (span, which) = (ty.span(), Ident::new(which, ty.span()));
            let p = options.private(span);
            quote_spanned!(span=> <#ty as #p::KernelParam>::#which)
        };
        types.iter().map(of).collect()
    };
    let (args, traced) = (associated("Arg"), associated("Traced"));

    let mut generics = item.sig.generics.clone();
    generics.params.insert(0, parse_quote!('__kiln));
    let (generic_params, _, where_clause) = generics.split_for_impl();
    let Generic { params: identity, types: identified, arguments } = Generic::of(&item.sig.generics);
    let texts = names.iter().map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
    let text = name.to_string();
    let allowed = function::allowed();
    let contracted = options.contract().then(|| quote!(.contracted()));
    Ok(hygienic(
        quote! {
            #(#attrs)*
            #[allow(clippy::too_many_arguments, clippy::type_complexity)]
            #vis fn #name #generic_params (
                #(#names: #args),*
            ) -> #p::Launch<(#(#types,)*)> #where_clause {
                #allowed
                fn __kiln_body #generic_params (#(#names: #traced),*) #where_clause { #body }
                static __KILN_SITE: #p::KernelSite =
                    #p::KernelSite::new(#text, #texts, ::core::file!(), ::core::line!(), ::core::column!())#contracted;
                #[allow(dead_code)]
                struct __KilnTypes<#(#identity),*>(::core::marker::PhantomData<fn() -> (#(#identified,)*)>);
                let __kiln_kernel = #p::KernelFn::new(
                    &__KILN_SITE,
                    #p::TypeId::of::<__KilnTypes<#(#arguments),*>>(),
                    |(#(#names,)*)| __kiln_body::<#(#arguments),*>(#(#names),*),
                );
                #p::Launch::new(__kiln_kernel, (#(#names,)*))
            }
        },
        name.span(),
    ))
}

fn check(item: &ItemFn) -> syn::Result<()> {
    if let ReturnType::Type(_, ty) = &item.sig.output
        && !matches!(&**ty, Type::Tuple(t) if t.elems.is_empty())
    {
        let message = "a kernel returns nothing: write the result to a `&mut Tensor` parameter";
        return Err(syn::Error::new(ty.span(), message));
    }
    if let Some(token) = &item.sig.unsafety {
        return Err(syn::Error::new(token.span, "a kernel is not `unsafe`; put `unsafe` around what is"));
    }
    Ok(())
}

/// The parameters' names and types, with a lifetime on every reference.
fn parameters(item: &ItemFn) -> syn::Result<Vec<(Ident, Type)>> {
    item.sig.inputs.iter().map(parameter).collect()
}

fn parameter(input: &FnArg) -> syn::Result<(Ident, Type)> {
    let FnArg::Typed(arg) = input else {
        let message = "a kernel is a free function: it has no `self`";
        return Err(syn::Error::new(input.span(), message));
    };
    let Pat::Ident(pat) = &*arg.pat else {
        let message = "a kernel's parameter is a name; take it apart in the body";
        return Err(syn::Error::new(arg.pat.span(), message));
    };
    function::reject_parameter(&arg.ty)?;
    let mut ty = (*arg.ty).clone();
    NameLifetimes.visit_type_mut(&mut ty);
    Ok((pat.ident.clone(), ty))
}

struct NameLifetimes;

impl VisitMut for NameLifetimes {
    fn visit_type_reference_mut(&mut self, r: &mut syn::TypeReference) {
        r.lifetime.get_or_insert_with(|| Lifetime::new("'__kiln", r.and_token.span));
        visit_mut::visit_type_reference_mut(self, r);
    }
}

/// The parameters and arguments of a struct whose type identifies the generic arguments, and the
/// arguments themselves.
struct Generic {
    params: Vec<TokenStream>,
    types: Vec<Ident>,
    arguments: Vec<Ident>,
}

impl Generic {
    fn of(generics: &syn::Generics) -> Generic {
        let mut found = Generic { params: Vec::new(), types: Vec::new(), arguments: Vec::new() };
        for param in &generics.params {
            match param {
                GenericParam::Type(t) => {
                    let ident = &t.ident;
                    found.params.push(quote!(#ident));
                    found.types.push(ident.clone());
                    found.arguments.push(ident.clone());
                }
                GenericParam::Const(c) => {
                    let (ident, ty) = (&c.ident, &c.ty);
                    found.params.push(quote!(const #ident: #ty));
                    found.arguments.push(ident.clone());
                }
                GenericParam::Lifetime(_) => {}
            }
        }
        found
    }
}
