//! Function bodies: parameters, `return`, the result.

use crate::options::{Options, hygienic};
use crate::rewrite::exits::{self, ExitKind};
use crate::rewrite::{Rewriter, Scope, ScopeKind, names};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{FnArg, ItemFn, ReturnType, Type};

/// Lints that the expansion would raise in the user's name.
pub fn allowed() -> TokenStream {
    quote! {
        #[allow(
            unused_mut, unused_labels, unused_parens, unused_braces, unreachable_code, unused_assignments,
            irrefutable_let_patterns, clippy::all
        )]
    }
}

/// Expands `#[device]`.
pub fn expand(options: &Options, mut item: ItemFn) -> syn::Result<TokenStream> {
    options.refuse_contract(
        "`contract` is an option of `#[kernel]`: a device function rounds as the kernel that calls it",
    )?;
    let body = rewritten(options, &mut item, true)?;
    let (attrs, vis, sig, allowed) = (&item.attrs, &item.vis, &item.sig, allowed());
    Ok(quote!(#(#attrs)* #allowed #vis #sig { #body }))
}

/// Rewrites a function's body; takes `mut` from its parameters. `references` says that those
/// written `&mut` are what they say: a kernel's are views.
pub fn rewritten(options: &Options, item: &mut ItemFn, references: bool) -> syn::Result<TokenStream> {
    let sig = &item.sig;
    if let Some(token) = &sig.asyncness {
        return Err(syn::Error::new(token.span, "device code is not asynchronous"));
    }
    let span = sig.ident.span();
    let mut rewriter = Rewriter::new(options);
    rewriter.assigned = names::assigned(&item.block);
    rewriter.borrowed = names::borrowed(&item.block);
    rewriter.is_kernel = !references;
    let (result, is_unit) = match &sig.output {
        ReturnType::Default => (None, true),
        ReturnType::Type(_, ty) => (Some((**ty).clone()), is_unit(ty)),
    };
    rewriter.result = result.filter(|ty| !is_unit && crate::rewrite::nameable(ty));
    let mut rebind = TokenStream::new();
    for input in &mut item.sig.inputs {
        match input {
            FnArg::Typed(arg) => {
                let bound = names::bound(&arg.pat);
                let kind =
                    if references { names::kind_of_type(&arg.ty, &arg.pat) } else { names::Kind::Plain };
                rebind.extend(rewriter.rebind(&mut arg.pat, span));
                let end = item.block.brace_token.span.close();
                rebind.extend(rewriter.scoped(end, |r| r.declare(bound, kind, span)));
            }
            FnArg::Receiver(receiver) => {
                if let (Some(token), None) = (&receiver.mutability, &receiver.reference) {
                    rewriter.errors.push(syn::Error::new(
                        token.span,
                        "`mut self` cannot become a variable of the device: take `self` and write `let mut this = self;`",
                    ));
                }
                if receiver.reference.is_some() && receiver.mutability.is_some() {
                    rewriter.names.push(names::Name {
                        ident: "self".to_owned(),
                        mutable: false,
                        has_depth: false,
                        level: 0,
                        kind: names::Kind::Reference,
                    });
                }
            }
        }
    }
    let block = std::mem::replace(
        &mut *item.block,
        syn::Block { brace_token: Default::default(), stmts: Vec::new() },
    );
    let tokens = body(&mut rewriter, block, is_unit, span);
    let mut errors = std::mem::take(&mut rewriter.errors).into_iter();
    if let Some(mut first) = errors.next() {
        errors.for_each(|e| first.combine(e));
        return Err(first);
    }
    let p = options.private(Span::call_site());
    Ok(hygienic(
        quote! {
            #[allow(unused_imports)]
            use #p::host::*;
            #rebind
            #tokens
        },
        span,
    ))
}

/// Rewrites the block of a function or closure, whose parameters are in scope.
pub fn body(rewriter: &mut Rewriter<'_>, block: syn::Block, is_unit: bool, span: Span) -> TokenStream {
    let p = rewriter.options.private(span);
    let depth = quote_spanned!(span=> let __kiln_depth = #p::depth(););
    let returns = exits::of_block(&block).iter().any(|x| x.kind == ExitKind::Return);
    let diverges = exits::block_diverges(&block);
    if !returns && !has_endless_loop(&block) && !diverges {
        let mut block = block;
        if let (Some(ty), Some(syn::Stmt::Expr(last, None))) = (&rewriter.result, block.stmts.last_mut()) {
            rewriter.convert_literals(last, ty);
        }
        let tokens = rewriter.block(block, crate::rewrite::Tail::Value);
        return match &rewriter.result {
            Some(ty) => {
                let value = rewriter.converted_to(quote_spanned!(span=> { #tokens }), &ty.clone(), span);
                quote_spanned!(span=> #depth #value)
            }
            None => quote_spanned!(span=> #depth #tokens),
        };
    }
    let id = 0;
    rewriter.scopes.push(Scope { kind: ScopeKind::Function, label: None, id, slot: !is_unit, typed: true });
    let tokens = rewriter.exitable(block, id, !is_unit, span);
    rewriter.scopes.pop();
    quote_spanned!(span=> #depth #tokens)
}

/// Whether a block holds a loop that nothing leaves, so that what follows it is jumped over.
fn has_endless_loop(block: &syn::Block) -> bool {
    use syn::visit::{self, Visit};
    struct Finder(bool);
    impl<'a> Visit<'a> for Finder {
        fn visit_expr(&mut self, e: &'a syn::Expr) {
            self.0 |= exits::diverges(e);
            if !matches!(e, syn::Expr::Closure(_)) {
                visit::visit_expr(self, e);
            }
        }
        fn visit_item(&mut self, _: &'a syn::Item) {}
    }
    let mut finder = Finder(false);
    finder.visit_block(block);
    finder.0
}

fn is_unit(ty: &Type) -> bool {
    matches!(ty, Type::Tuple(t) if t.elems.is_empty())
}

/// Reports a type that no parameter of a kernel has, as far as its syntax shows it: the type system
/// would do so for each use of the parameter.
pub fn reject_parameter(ty: &Type) -> syn::Result<()> {
    const HOST_ONLY: [&str; 6] = ["Vec", "String", "Box", "Rc", "Arc", "HashMap"];
    let message = match ty {
        Type::ImplTrait(_) | Type::BareFn(_) | Type::TraitObject(_) => {
            "a kernel takes no functions: write the code as a generic `#[device]` function, with one kernel for each \
             function it is called with, or choose by a host constant, such as an enum with `#[derive(KernelConst)]`"
        }
        Type::Reference(r) if matches!(&*r.elem, Type::Slice(_) | Type::Array(_)) => {
            "a kernel takes tensors, not slices of the host: write `&Tensor<f32, 1>` or `&mut Tensor<f32, 1>`, and make the \
             tensor with `device.tensor(&data, [n])`"
        }
        Type::Reference(r) if matches!(&*r.elem, Type::ImplTrait(_) | Type::TraitObject(_)) => {
            return reject_parameter(&r.elem);
        }
        Type::Slice(_) | Type::Ptr(_) => {
            "a kernel takes tensors, not memory of the host: write `&Tensor<f32, 1>` or `&mut Tensor<f32, 1>`"
        }
        Type::Path(path) => {
            let last = path.path.segments.last().map(|s| s.ident.to_string());
            if !last.is_some_and(|name| HOST_ONLY.contains(&name.as_str())) {
                return Ok(());
            }
            "a kernel takes no collections of the host: write `&Tensor<f32, 1>` for data, and `usize`, `bool` or an enum \
             with `#[derive(KernelConst)]` for constants"
        }
        _ => return Ok(()),
    };
    Err(syn::Error::new_spanned(ty, message))
}
