//! What a handler's parameters and result may be.

use syn::spanned::Spanned;
use syn::{FnArg, GenericArgument, ItemFn, Pat, PathArguments, ReturnType, Type};

/// What a handler answers.
pub enum Reply {
    /// Nothing.
    Never,
    /// This type, to every message.
    Always(Type),
    /// This type, to some messages.
    Maybe(Type),
}

/// A handler's signature.
pub struct Signature {
    pub state: Option<Type>,
    pub message: Type,
    pub reply: Reply,
    /// Whether it returns a `Result`.
    pub fallible: bool,
}

const SHAPE: &str = "a ring kernel is `fn(ctx: &RingCtx, state: &mut State, message: Message) -> Option<Reply>`, where the state may be left \
                     out, and the result may be `Reply`, a `Result` with the error `u32`, or nothing";

impl Signature {
    pub fn of(item: &ItemFn) -> syn::Result<Signature> {
        let sig = &item.sig;
        if !sig.generics.params.is_empty() {
            let message = "a ring kernel has no generic parameters: what it is sent has a fixed layout";
            return Err(syn::Error::new(sig.generics.span(), message));
        }
        if let Some(token) = &sig.unsafety {
            return Err(syn::Error::new(
                token.span,
                "a ring kernel is not `unsafe`; put `unsafe` around what is",
            ));
        }
        let types = sig.inputs.iter().map(parameter).collect::<syn::Result<Vec<&Type>>>()?;
        let (context, state, message) = match types[..] {
            [context, message] => (context, None, message),
            [context, state, message] => (context, Some(state), message),
            _ => {
                return Err(
                    syn::Error::new(sig.inputs.span(), SHAPE).or_at(sig.ident.span(), types.is_empty())
                );
            }
        };
        if !matches!(context, Type::Reference(r) if r.mutability.is_none()) {
            return Err(syn::Error::new(
                context.span(),
                format!("the first parameter is `&RingCtx`: {SHAPE}"),
            ));
        }
        let state = state.map(|ty| match ty {
            Type::Reference(r) if r.mutability.is_some() => Ok((*r.elem).clone()),
            _ => Err(syn::Error::new(ty.span(), format!("the state is taken by `&mut`: {SHAPE}"))),
        });
        if let Type::Reference(_) = message {
            return Err(syn::Error::new(message.span(), format!("the message is taken by value: {SHAPE}")));
        }
        let (reply, fallible) = result(&sig.output)?;
        Ok(Signature { state: state.transpose()?, message: message.clone(), reply, fallible })
    }

    /// The type of the reply.
    pub fn reply_type(&self) -> Option<&Type> {
        match &self.reply {
            Reply::Never => None,
            Reply::Always(ty) | Reply::Maybe(ty) => Some(ty),
        }
    }
}

trait OrAt {
    fn or_at(self, span: proc_macro2::Span, elsewhere: bool) -> Self;
}

impl OrAt for syn::Error {
    /// The error, at `span` if its own place is empty.
    fn or_at(self, span: proc_macro2::Span, elsewhere: bool) -> Self {
        if elsewhere { syn::Error::new(span, self.to_string()) } else { self }
    }
}

fn parameter(input: &FnArg) -> syn::Result<&Type> {
    let FnArg::Typed(arg) = input else {
        return Err(syn::Error::new(input.span(), "a ring kernel is a free function: it has no `self`"));
    };
    match &*arg.pat {
        Pat::Ident(_) | Pat::Wild(_) => Ok(&arg.ty),
        pat => {
            Err(syn::Error::new(pat.span(), "a ring kernel's parameter is a name; take it apart in the body"))
        }
    }
}

/// The reply, and whether the handler may fail.
fn result(output: &ReturnType) -> syn::Result<(Reply, bool)> {
    let ReturnType::Type(_, ty) = output else { return Ok((Reply::Never, false)) };
    let Some(arguments) = arguments(ty, "Result") else { return Ok((reply(ty), false)) };
    match arguments[..] {
        [value, Type::Path(p)] if p.path.is_ident("u32") => Ok((reply(value), true)),
        _ => Err(syn::Error::new(
            ty.span(),
            "the error of a ring kernel is a `u32`, the number of the failure: write `Result<Reply, u32>`",
        )),
    }
}

fn reply(ty: &Type) -> Reply {
    if matches!(ty, Type::Tuple(t) if t.elems.is_empty()) {
        return Reply::Never;
    }
    match arguments(ty, "Option").as_deref() {
        Some([value]) => Reply::Maybe((*value).clone()),
        _ => Reply::Always(ty.clone()),
    }
}

/// The type arguments of `name<..>`.
fn arguments<'a>(ty: &'a Type, name: &str) -> Option<Vec<&'a Type>> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|s| s.ident == name)?;
    let PathArguments::AngleBracketed(list) = &last.arguments else { return Some(Vec::new()) };
    let types = list.args.iter().filter_map(|a| match a {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    Some(types.collect())
}
