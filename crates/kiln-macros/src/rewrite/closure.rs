//! Closures.

use super::{Rewriter, exits, names};
use crate::function;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Ident, ReturnType};

impl Rewriter<'_> {
    /// A closure is traced where it is called; its body is a function body of its own.
    pub(super) fn closure(&mut self, e: &mut Expr) {
        let Expr::Closure(c) = e else { return };
        let span = c.or1_token.span;
        let captured = if c.capture.is_some() { self.captured(&c.body) } else { Vec::new() };

        let depth = self.names.len();
        let scopes = std::mem::take(&mut self.scopes);
        let frames = std::mem::take(&mut self.frames);
        let result = match &c.output {
            ReturnType::Type(_, ty) => Some((**ty).clone()),
            ReturnType::Default => None,
        };
        let outer_result = std::mem::replace(&mut self.result, result.filter(super::block::nameable));

        let is_kernel = std::mem::take(&mut self.is_kernel);

        // It may be called deeper in control flow than where it stands.
        self.level += 1;
        let mut rebind = TokenStream::new();
        for pat in &mut c.inputs {
            let bound = names::bound(pat);
            rebind.extend(self.rebind(pat, span));
            let kind = names::kind_of_parameter(pat);
            let end = c.body.span();
            rebind.extend(self.scoped(end, |r| r.declare(bound, kind, span)));
        }
        let has_type = !matches!(c.output, ReturnType::Default);
        let body_span = c.body.span();
        let body = std::mem::replace(&mut *c.body, Expr::Verbatim(TokenStream::new()));
        let ends = matches!(&body, Expr::Block(b) if !ends_in_value(&b.block));
        let is_unit = !has_type && (returns(&body, false) || ends && !returns(&body, true));
        let block = match body {
            Expr::Block(b) if b.label.is_none() => b.block,
            other => syn::Block {
                brace_token: syn::token::Brace(body_span),
                stmts: vec![syn::Stmt::Expr(other, None)],
            },
        };
        let tokens = function::body(self, block, is_unit, body_span);

        self.level -= 1;
        self.names.truncate(depth);
        self.scopes = scopes;
        self.frames = frames;
        self.result = outer_result;
        self.is_kernel = is_kernel;

        *c.body = Expr::Verbatim(quote_spanned!(body_span=> { #rebind #tokens }));
        if !captured.is_empty() {
            // A `move` closure has its own copy of what it captures.
            let p = self.private(span);
            let closure = quote!(#e);
            *e = Expr::Verbatim(quote_spanned! {span=> ({
                #(let mut #captured = #p::Probe(#p::Probe(#captured).snapshot()).variable();)*
                #closure
            })});
        }
    }

    fn captured(&self, body: &Expr) -> Vec<Ident> {
        let tokens = quote!(#body);
        let mut found: Vec<Ident> = Vec::new();
        for name in self.names.iter().rev() {
            let seen = found.iter().any(|f| *f == name.ident);
            if !seen && name.mutable && names::mentions(tokens.clone(), &name.ident) {
                found.push(Ident::new(&name.ident, body.span()));
            }
        }
        found
    }
}

fn ends_in_value(block: &syn::Block) -> bool {
    matches!(block.stmts.last(), Some(syn::Stmt::Expr(_, None)))
}

/// Whether some `return` stands in a body, with or without a value.
fn returns(body: &Expr, value: bool) -> bool {
    exits::of_expr(body).iter().any(|x| x.kind == exits::ExitKind::Return && x.has_value == value)
}
