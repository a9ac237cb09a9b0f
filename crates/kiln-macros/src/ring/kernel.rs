//! `#[ring_kernel]`.

use super::body::{Names, Renamer, Returns};
use super::signature::{Reply, Signature};
use crate::function;
use crate::options::{Options, hygienic};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{FnArg, ItemFn, Type, parse_quote};

/// Expands `#[ring_kernel]`: a type and value of the function's name that implement `Handler`.
pub fn expand(options: &Options, mut item: ItemFn) -> syn::Result<TokenStream> {
    options.refuse_contract(
        "`contract` is an option of `#[kernel]`: a handler rounds as Rust does, on every device",
    )?;
    let signature = Signature::of(&item)?;
    let private = |span: Span| options.private(span);
    let p = private(Span::call_site());
    let names = Names::new(&signature);
    Renamer { names: &names, p: &private }.visit_block_mut(&mut item.block);
    Returns::new(&signature, &private).body(&mut item.block);

    on_device(options, &mut item, &signature);
    let body = function::rewritten(options, &mut item, true)?;
    let (attrs, vis, name, inputs, output) =
        (&item.attrs, &item.vis, &item.sig.ident, &item.sig.inputs, &item.sig.output);
    let (text, allowed, declarations) = (name.to_string(), function::allowed(), names.declarations(&p));
    let unit: Type = parse_quote!(());
    let state = signature.state.as_ref().unwrap_or(&unit);
    let message = &signature.message;
    let reply = signature.reply_type().unwrap_or(&unit);
    let passed = signature.state.as_ref().map(|_| quote!(__kiln_state,));
    let call = quote!(__kiln_body(__kiln_ctx, #passed __kiln_message));
    let outcome = outcome(&p, &signature, &call);
    Ok(hygienic(
        quote! {
            #(#attrs)*
            #[allow(non_camel_case_types)]
            #[derive(Clone, Copy)]
            #vis struct #name {
                #[doc(hidden)]
                __kiln_handler: (),
            }

            #[doc(hidden)]
            #[allow(non_upper_case_globals)]
            #vis static #name: #name = #name { __kiln_handler: () };

            impl ::core::fmt::Debug for #name {
                fn fmt(&self, __kiln_f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    __kiln_f.write_str(#text)
                }
            }

            impl #p::Handler for #name {
                type State = #state;
                type Message = #message;
                type Reply = #reply;

                fn name(&self) -> &'static str {
                    #text
                }

                #[allow(unused_variables)]
                fn trace(
                    &self,
                    __kiln_ctx: &#p::RingCtx,
                    __kiln_state: &mut <Self::State as #p::Layout>::Device,
                    __kiln_message: <Self::Message as #p::Layout>::Device,
                ) -> #p::Outcome<<Self::Reply as #p::Layout>::Device> {
                    #declarations
                    #allowed
                    fn __kiln_body(#inputs) #output { #body }
                    #outcome
                }
            }

            const _: () = ::core::assert!(
                <#message as #p::Layout>::WORDS != 0 && <#message as #p::Layout>::WORDS <= #p::MAX_WORDS,
                "a message has 4 bytes to 64 KiB"
            );
            const _: () = ::core::assert!(<#reply as #p::Layout>::WORDS <= #p::MAX_WORDS, "a reply has at most 64 KiB");
            const _: () = ::core::assert!(<#state as #p::Layout>::WORDS <= #p::MAX_WORDS, "a state has at most 64 KiB");
        },
        name.span(),
    ))
}

/// Gives the function the types of the device.
fn on_device(options: &Options, item: &mut ItemFn, signature: &Signature) {
    let device = |ty: &Type| -> Type {
        let (p, span) = (options.private(ty.span()), ty.span());
        syn::parse_quote_spanned!(span=> <#ty as #p::Layout>::Device)
    };
    for input in item.sig.inputs.iter_mut().skip(1) {
        let FnArg::Typed(arg) = input else { continue };
        match &mut *arg.ty {
            Type::Reference(r) => *r.elem = device(&r.elem),
            ty => *ty = device(ty),
        }
    }
    let span = item.sig.output.span();
    let p = options.private(span);
    let reply = match &signature.reply {
        Reply::Never => quote!(()),
        Reply::Always(ty) => {
            let ty = device(ty);
            quote!(#ty)
        }
        Reply::Maybe(ty) => {
            let ty = device(ty);
            quote_spanned!(span=> #p::DeviceOption<#ty>)
        }
    };
    item.sig.output = match (&signature.reply, signature.fallible) {
        (_, true) => syn::parse_quote_spanned!(span=> -> #p::DeviceResult<#reply>),
        (Reply::Never, false) => syn::ReturnType::Default,
        (_, false) => syn::parse_quote_spanned!(span=> -> #reply),
    };
}

/// What the body returned, as an `Outcome`.
fn outcome(p: &TokenStream, signature: &Signature, call: &TokenStream) -> TokenStream {
    let made = |value: TokenStream| match &signature.reply {
        Reply::Never => quote!({ #value; #p::Outcome::silent() }),
        Reply::Always(_) => quote!(#p::Outcome::reply(#value)),
        Reply::Maybe(_) => quote!(#p::Outcome::maybe(#value)),
    };
    if !signature.fallible {
        return made(call.clone());
    }
    let whole = made(quote!(__kiln_result.value));
    quote! {
        let __kiln_result = #call;
        #whole.or_failure(__kiln_result.failed, __kiln_result.code)
    }
}
